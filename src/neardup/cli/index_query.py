"""neardup query, neardup index query, get, clusters, remove: documents of an index.

A query shows whether a text is a copy; `--explain` shows why, with the words that differ.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

from neardup.cli.arguments import PlainJson, argument, flag, option
from neardup.cli.console import print_json
from neardup.cli.index import Dir, IndexKey, Replicas, open_to_read, open_to_write
from neardup.cli.why import explain_document
from neardup.formatting import format_similarity, format_time, make_printable

if TYPE_CHECKING:
    from neardup.index.answer import Answer, Document, SimilarDocument
    from neardup.index.index import Index


PIECE = 1 << 20
"""The most bytes that are read from standard input at once."""


def query(
    folder: Dir,
    text: Annotated[
        str | None,
        argument(
            "TEXT",
            "The text. Without it and --file, JSON lines are read from standard input, and an "
            "answer is printed for each line.",
        ),
    ] = None,
    file: Annotated[Path | None, option("FILE", "A file with the text.", default="none")] = None,
    explain: Annotated[
        bool,
        flag(
            "Show every step, with its candidates and time.",
            "--explain",
        ),
    ] = False,
    similar: Annotated[
        int | None,
        option(
            "N",
            "List the N most similar kept documents.",
            default="the first similar one",
            least=1,
        ),
    ] = None,
    column: Annotated[
        str,
        option("COLUMN", "Of JSON lines: the field with the text.", "--text"),
    ] = "text",
    id: Annotated[
        str | None,
        option(
            "ID",
            "A document of the index: why it is a copy, or is kept. Of JSON lines: the field with "
            "the id.",
            "--id",
            default="id",
        ),
    ] = None,
    within: Annotated[
        str | None,
        option(
            "GROUP",
            "Of an index with --within: the group of the text. JSON lines have it in the column of "
            "the index.",
            "--within",
            default="documents without a group",
        ),
    ] = None,
    vector: Annotated[
        str | None,
        option(
            "NUMBERS",
            "Of an index with vectors: the vector of the text, such as '[0.1, 0.2]'; alone, if the "
            "index compares vectors alone. JSON lines have it in the column of the index.",
            "--vector",
            default="none",
        ),
    ] = None,
    key_file: IndexKey = None,
    as_json: PlainJson = False,
) -> None:
    """Check whether a text is a copy of a document of an index. Nothing is added.

    Works while another process writes to the index.
    """
    from neardup.errors import UsageError

    if text is not None and file is not None:
        raise UsageError("give a text or --file, not both")
    is_one = text is not None or file is not None or vector is not None
    if explain and id is not None and is_one:
        raise UsageError("--id names a document of the index to explain: leave out the text")
    if explain and similar is not None:
        raise UsageError("--explain shows the nearest documents too: leave out --similar")
    with open_to_read(folder, key_file) as index:
        where = index.path
        if not is_one:
            if id is not None and (explain or index.get(id) is not None):
                explain_document(index, id, as_json)
                return
            if explain or similar is not None:
                raise UsageError(
                    "--explain and --similar are for one text: give TEXT or --file; "
                    "--explain also for a document of the index: --id ID"
                )
            if within is not None:
                raise UsageError("--within is for one text: give TEXT or --file")
            if not _answer_lines(index, column, id or "id") and id is not None:
                raise UsageError(
                    f"{where} has no document {id!r}, and no JSON lines came from standard input: "
                    "check the id"
                )
            return
        numbers = _parse_vector(index, vector)
        wanted = text if text is not None else None if file is None else _read(file)
        if explain:
            explanation = index.explain(wanted, vector=numbers, within=within)
            _print(explanation.as_dict if as_json else str(explanation))
        elif similar is not None:
            matches = index.similar(wanted, similar, vector=numbers, within=within)
            _print_matches(index, matches, as_json)
        else:
            answer = index.query(wanted, vector=numbers, within=within)
            _print(asdict(answer) if as_json else describe_answer(index, answer))


def _parse_vector(index: Index, given: str | None) -> list[Any] | None:
    """Return the vector of a query; refuse one that is missing, or that is no list."""
    from neardup.errors import UsageError

    signal = index.options.vectors
    if given is None:
        if signal is not None:
            raise UsageError(
                f"this index compares vectors of {index.spec.dimension} numbers: give that of the "
                "text with --vector, or JSON lines with one in the column "
                f"{signal.column!r} through a pipe"
            )
        return None
    try:
        numbers = json.loads(given)
    except (ValueError, RecursionError):
        numbers = None
    if not isinstance(numbers, list):
        raise UsageError("--vector is no list of numbers: write it as '[0.1, 0.2, 0.3]'")
    return numbers


def describe_answer(index: Index, answer: Answer) -> str:
    """Return the answer of an index as a sentence."""
    if answer.similarity is None:
        return answer.status + (f": {answer.reason}" if answer.reason else "")
    from neardup.index.explain import describe_numbers

    how = "" if answer.exact else " (estimated)"
    likeness = describe_numbers(answer, answer.similarity, index.spec.of_vectors)
    return (
        f"duplicate of {make_printable(str(answer.duplicate_of))}, "
        f"{likeness}{how}, cluster {answer.cluster}"
    )


def _print(answer: dict[str, Any] | str) -> None:
    if isinstance(answer, str):
        print(answer)
    else:
        print_json(answer)


def _print_matches(index: Index, matches: list[SimilarDocument], as_json: bool) -> None:
    if not matches:
        # Standard output of --json is the list; the reason why it is empty is for people.
        print(_describe_none(index), file=sys.stderr if as_json else sys.stdout)
    if as_json:
        print_json([asdict(match) for match in matches])
        return
    for match in matches:
        how = "" if match.exact else " (estimated)"
        print(f"{format_similarity(match.similarity)} {make_printable(match.id)}{how}")


def _describe_none(index: Index) -> str:
    """Return why a text has no similar documents, and the command for an index that finds more."""
    from neardup.explanation import describe_rule

    options = index.options
    none = (
        f"no kept document is similar enough: this index lists those with {describe_rule(options)}"
    )
    if options.spec.of_vectors:
        return f"{none}; less similar ones need another index, of a lower --cosine"
    if options.verify == "none" or options.by_bits:
        return f"{none}; --explain shows the nearest that share a bucket"
    half, lower = options.meeting.half, max(round(options.threshold / 2, 2), 0.01)
    return (
        f"{none}, and finds every second one of {half:.2f}; less similar ones need another index: "
        f"neardup index build NEW INPUT --threshold {lower:g}"
    )


def _read(file: Path | None) -> str:
    from neardup.errors import InputError, MissingInput

    try:
        return Path(file or "").read_text("utf-8")
    except FileNotFoundError:
        raise MissingInput(f"{file}: no such file: check the path") from None
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}): check the path") from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: not UTF-8: give a text file") from None


def _answer_lines(index: Index, column: str, id: str) -> int:
    """Answer the JSON lines of standard input as they arrive, each with a JSON line.

    Return how many there were.
    """
    from neardup.corpus.columns import Source, to_strings
    from neardup.corpus.jsonl import parse_lines
    from neardup.corpus.streams import cut_at_newlines
    from neardup.errors import UsageError
    from neardup.index.file_vectors import choose_columns

    if sys.stdin.isatty():
        raise UsageError("no text to look up: give TEXT, --file, or JSON lines through a pipe")
    columns = choose_columns(index.options, column, id, index.settings.within or None)
    if columns.vectors is not None and columns.vector_column is None:
        raise UsageError(
            f"the vectors of this index came from {Path(columns.vectors).name}, and JSON lines "
            "have none in a column: give a text with --vector"
        )
    answered = 0
    for block in cut_at_newlines(_read_pieces()):
        documents = parse_lines(block, False, columns, Source("standard input"))
        texts, ids = documents.texts.to_pylist(), to_strings(documents.ids).to_pylist()
        groups = None if documents.within is None else documents.within.to_pylist()
        answers = index.query_batch(
            None if columns.textless else texts, vectors=documents.vectors, within=groups
        )
        for row, (name, answer) in enumerate(zip(ids, answers, strict=True)):
            why = documents.rejected.get(row, answer.reason)
            print(json.dumps(asdict(answer) | {"id": name, "reason": why}))
        sys.stdout.flush()
        answered += len(answers)
    return answered


def _read_pieces() -> Iterator[bytes]:
    while piece := os.read(sys.stdin.fileno(), PIECE):
        yield piece


def get(
    folder: Dir,
    id: Annotated[str, argument("ID", "The id of the document.")],
    text: Annotated[bool, flag("Show its text too, if the index keeps texts.", "--text")] = False,
    key_file: IndexKey = None,
    as_json: PlainJson = False,
) -> None:
    """Show a document: its status, its witness, and the cluster that it is in."""
    from neardup.errors import UsageError

    with open_to_read(folder, key_file) as index:
        document = index.get(id, text=True)
        cluster = None if document is None else index.cluster(document.cluster)
        lines = [] if document is None else _document_lines(index, document)
        where = index.path
    if document is None or cluster is None:
        raise UsageError(f"{where} has no document {id!r}: check the id")
    if text and document.text is None:
        raise UsageError(
            f"{where} has no text of {id!r}: an index stores texts if it is built with "
            "--keep-texts, and only of documents that were added with one"
        )
    if as_json:
        members = [member.id for member in cluster.members]
        record = asdict(document) | {"members": members}
        print_json(record if text else {name: record[name] for name in record if name != "text"})
        return
    for name, value in lines:
        print(f"{name:14}{make_printable(value)}")
    others = [one.id for one in (cluster.representative, *cluster.members) if one.id != id]
    copies = "nothing else" if not others else f"{len(others):,} more: {', '.join(others[:5])}"
    more = ", ..." if len(others) > 5 else ""
    print(f"{'cluster':14}{cluster.number}, {make_printable(copies)}{more}")
    if text:
        print(f"\n{document.text}")


def _document_lines(index: Index, document: Document) -> list[tuple[str, str]]:
    lines = [("id", document.id), ("status", document.status)]
    if document.duplicate_of is not None and document.similarity is not None:
        from neardup.index.explain import describe_numbers

        numbers = format_similarity(document.similarity)
        if index.options.vectors is not None:
            numbers = describe_numbers(document, document.similarity, index.spec.of_vectors)
        how = "" if document.exact else ", estimated"
        lines.append(("duplicate of", f"{document.duplicate_of} ({numbers}{how})"))
    lines.append(("added", format_time(document.added)))
    if document.metadata is not None:
        lines.append(("metadata", json.dumps(document.metadata)))
    return lines


def clusters(
    folder: Dir,
    most: Annotated[
        int, option("N", "The most clusters that are listed.", least=1, most=10_000)
    ] = 20,
    after: Annotated[
        str | None,
        option("MARK", "Continue after a page: the mark that it ends with.", default="none"),
    ] = None,
    key_file: IndexKey = None,
    as_json: PlainJson = False,
) -> None:
    """List the clusters of two or more documents, largest first.

    Documents that are added between two pages change nothing in the pages that follow.
    """
    with open_to_read(folder, key_file) as index:
        page, where = index.clusters(most, after=after), str(index.path)
    if as_json:
        print_json(asdict(page))
        return
    if not page.clusters:
        print("no cluster has two or more documents" if after is None else "no more clusters")
        return
    print(f"{'documents':>9}  {'cluster':>10}  kept document")
    for each in page.clusters:
        print(f"{each.size:9,}  {each.number:10}  {make_printable(each.id)}")
    if page.next is not None:
        again = f"neardup index clusters {quote(where)} --most {most}"
        print(f"more: {again} --after {page.next}")


def remove(
    folder: Dir,
    ids: Annotated[list[str] | None, argument("ID", "The ids of the documents.")] = None,
    ids_file: Annotated[
        Path | None,
        option("FILE", "A file with more ids, one a line; - for standard input.", default="none"),
    ] = None,
    missing_ok: Annotated[
        bool, flag("Ignore ids that the index does not have.", "--missing-ok")
    ] = False,
    key_file: IndexKey = None,
    replicas: Replicas = 0,
) -> None:
    """Remove documents for good. Copies of a removed one get another witness, or become new.

    Many at once take less time than one after the other.
    """
    from neardup.errors import UsageError
    from neardup.index.rebuild import count_in_previous
    from neardup.index.redis_store.address import is_redis

    if not ids and ids_file is None:
        raise UsageError("no documents to remove: give their ids, or --ids-file")
    wanted = [*(ids or ()), *(_read_ids(ids_file) if ids_file is not None else ())]
    with open_to_write(folder, key_file, replicas=replicas) as index:
        before, where = [index.get(id) for id in wanted], index.path
        removed = index.remove_batch(wanted)
    missing = [id for id, done in zip(wanted, removed, strict=True) if not done]
    print(f"{sum(removed):,} removed")
    numbers = {document.number for document in before if document is not None}
    previous = {} if is_redis(folder) else count_in_previous(Path(folder), sorted(numbers))
    for name, count in previous.items():
        print(
            f"the earlier generation {name} still has {count:,} of them: neardup index "
            f"reindex {folder} --forget deletes it"
        )
    if missing and not missing_ok:
        shown = ", ".join(map(repr, missing[:5]))
        raise UsageError(f"{where} has no document {shown}: check the ids, or use --missing-ok")


def _read_ids(file: Path) -> list[str]:
    """Return the ids of a file or of standard input; blank lines are skipped."""
    text = sys.stdin.read() if str(file) == "-" else _read(file)
    return [line for line in text.split("\n") if line.strip()]


def forget(
    folder: Dir,
    older_than: Annotated[
        str, option("DURATION", "Such as 30d, 12h or 90min; required.", default=False)
    ],
    by: Annotated[
        str | None,
        option(
            "FIELD",
            "The field of the metadata that has the date of a document, as seconds since 1970 or "
            "text; documents without it stay.",
            default="the time when it was added",
        ),
    ] = None,
    dry_run: Annotated[
        bool, flag("Remove nothing: show how many documents are older.", "--dry-run")
    ] = False,
    key_file: IndexKey = None,
    as_json: PlainJson = False,
) -> None:
    """Remove the documents that are older than a duration, as neardup index remove does.

    If it is stopped, the same command removes the rest. A running service does it by itself:
    neardup serve --forget-older-than. --dry-run works beside it.
    """
    from neardup.formatting import format_count, parse_duration
    from neardup.index.redis_store.address import is_redis
    from neardup.index.stats import previous_bytes

    duration = parse_duration(older_than, "--older-than")
    opened = open_to_read if dry_run else open_to_write
    with opened(folder, key_file) as index:
        result = index.forget(duration, by=by, dry_run=dry_run)
        left = len(index)
    if as_json:
        print_json(asdict(result) | {"dry_run": dry_run, "index_documents": left})
        return
    where = "were added" if by is None else f"have a date in {by}"
    done = "would be removed" if dry_run else "removed"
    print(
        f"{result.documents:,} {done}, which {where} before {format_time(result.before)}; "
        f"{format_count(left, 'document')} in {folder}"
    )
    if result.undated:
        print(f"{format_count(result.undated, 'document')} without a date in {by}: kept")
    if result.documents and not dry_run:
        for name in () if is_redis(folder) else previous_bytes(Path(folder)):
            print(
                f"the earlier generation {name} may still have some of them: neardup index "
                f"reindex {folder} --forget deletes it"
            )
