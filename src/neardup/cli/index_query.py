"""neardup query, neardup index query, get, remove: questions about documents of an index.

Is a text a copy of one of them; why is a document a copy, with the words in which both differ.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neardup.cli.index import Dir, IndexKey, PlainJson, open_to_read, open_to_write

if TYPE_CHECKING:
    from neardup.index.answer import Answer, Document, SimilarDocument
    from neardup.index.index import Index
    from neardup.report.differences import TextPiece


def explain_document(index: Index, id: str, as_json: bool) -> None:
    """The explanation; after it the differences, if the index keeps texts."""
    from neardup.errors import UsageError

    found = index.explain_document(id)
    if found is None:
        raise UsageError(f"{index.path} has no document {id!r}: check the id")
    if as_json:
        print(json.dumps(found.as_dict, indent=2))
        return
    print(found)
    if found.witness is not None:
        kept, copy = index.text(found.witness.id), index.text(id)
        if isinstance(kept, str) and isinstance(copy, str):
            print("\n".join(_differences(kept, copy)))


def _differences(kept: str, copy: str) -> Iterator[str]:
    """Both texts where they differ, with what is not equal in [brackets]."""
    from neardup.report.differences import compare_texts

    found = compare_texts(kept, copy)
    if not found.hunks:
        yield "texts         the same words"
    for hunk in found.hunks:
        if hunk.same_before:
            yield f"texts         {hunk.same_before:,} equal words"
        yield f"its witness   {_mark_changes(hunk.kept)}"
        yield f"itself        {_mark_changes(hunk.copy)}"
    if not found.complete:
        yield "texts         there is more that is not shown"
    elif found.hunks and found.same_after:
        yield f"texts         {found.same_after:,} equal words"


def _mark_changes(pieces: Sequence[TextPiece]) -> str:
    shown = (f"[{piece.text.strip()}]" if piece.changed else piece.text.strip() for piece in pieces)
    return " ".join(" ".join(shown).split())


PIECE = 1 << 20


def query(
    folder: Dir,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="[TEXT]",
            help="The text. Without it and --file, JSON lines are read from standard "
            "input, and an answer a line is printed.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file that holds the text.", show_default=False),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Show every step, with what it found and took; with --id, why a document "
            "of the index is a copy, or is kept.",
        ),
    ] = False,
    similar: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="List the N kept documents that are most similar.",
            show_default=False,
        ),
    ] = None,
    column: Annotated[
        str,
        typer.Option(
            "--text", metavar="COLUMN", help="Of JSON lines: the field that holds the text."
        ),
    ] = "text",
    id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="ID",
            help="With --explain: a document of the index. Of JSON lines: the field that names it.",
            show_default="id",
        ),
    ] = None,
    key_file: IndexKey = None,
    as_json: PlainJson = False,
) -> None:
    """Say whether a text is a copy of a document of an index. Nothing is added.

    Works while another process writes to the index.
    """
    from neardup.errors import UsageError

    if text is not None and file is not None:
        raise UsageError("give a text or --file, not both")
    if explain and id is not None and (text is not None or file is not None):
        raise UsageError("--id names a document of the index to explain: leave out the text")
    if explain and similar is not None:
        raise UsageError("--explain shows the nearest documents too: leave out --similar")
    with open_to_read(folder, key_file) as index:
        if text is None and file is None:
            if explain and id is not None:
                explain_document(index, id, as_json)
                return
            if explain or similar is not None:
                raise UsageError(
                    "--explain and --similar are for one text: give TEXT or --file; "
                    "--explain also for a document of the index: --id ID"
                )
            _answer_lines(index, column, id or "id")
            return
        given = text if text is not None else _read(file)
        if explain:
            found = index.explain(given)
            _print(found.as_dict if as_json else str(found))
        elif similar is not None:
            _print_matches(index.similar(given, similar), as_json)
        else:
            answer = index.query(given)
            _print(_plain(answer) if as_json else describe_answer(answer))


def describe_answer(answer: Answer) -> str:
    """The answer as people read it."""
    if answer.similarity is None:
        return answer.status + (f": {answer.reason}" if answer.reason else "")
    how = "" if answer.exact else " (estimated)"
    return (
        f"duplicate of {answer.duplicate_of}, {answer.similarity:.4f} similar{how}, cluster "
        f"{answer.cluster}"
    )


def _plain(answer: Answer) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(answer)


def _print(found: dict[str, Any] | str) -> None:
    import json

    print(found if isinstance(found, str) else json.dumps(found, indent=2))


def _print_matches(matches: list[SimilarDocument], as_json: bool) -> None:
    import json
    from dataclasses import asdict

    if as_json:
        print(json.dumps([asdict(match) for match in matches], indent=2))
        return
    if not matches:
        print("no kept document that shares a bucket is similar enough")
    for match in matches:
        print(f"{match.similarity:.4f} {match.id}{'' if match.exact else ' (estimated)'}")


def _read(file: Path | None) -> str:
    from neardup.errors import InputError

    try:
        return Path(file or "").read_text("utf-8")
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}): check the path") from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: not UTF-8: give a text file") from None


def _answer_lines(index: Index, column: str, id: str) -> None:
    """Answers to JSON lines, as they come, one JSON line each."""
    import json

    from neardup.corpus.columns import to_strings
    from neardup.corpus.documents import Columns
    from neardup.corpus.jsonl import parse_lines
    from neardup.corpus.streams import cut_at_newlines
    from neardup.errors import UsageError

    if sys.stdin.isatty():
        raise UsageError("nothing to look for: give a text, --file, or JSON lines by a pipe")
    columns = Columns(text=column, id=id, tokens=index.spec.unit == "token")
    for block in cut_at_newlines(_read_pieces()):
        documents = parse_lines(block, False, columns, "standard input")
        texts, ids = documents.texts.to_pylist(), to_strings(documents.ids).to_pylist()
        answers = index.query_batch(texts)
        for row, (name, answer) in enumerate(zip(ids, answers, strict=True)):
            why = documents.rejected.get(row, answer.reason)
            print(json.dumps(_plain(answer) | {"id": name, "reason": why}))
        sys.stdout.flush()


def _read_pieces() -> Iterator[bytes]:
    while piece := os.read(sys.stdin.fileno(), PIECE):
        yield piece


def get(
    folder: Dir,
    id: Annotated[str, typer.Argument(metavar="ID", show_default=False)],
    text: Annotated[
        bool, typer.Option("--text", help="Show its text too, if the index keeps texts.")
    ] = False,
    key_file: IndexKey = None,
    as_json: PlainJson = False,
) -> None:
    """Show what is known of a document, and the cluster that it is in."""
    import json
    from dataclasses import asdict

    from neardup.errors import UsageError

    with open_to_read(folder, key_file) as index:
        document = index.get(id)
        cluster = None if document is None else index.cluster(document.cluster)
        stored = index.text(id) if text else None
    if document is None or cluster is None:
        raise UsageError(f"{folder} has no document {id!r}: check the id")
    if text and stored is None:
        raise UsageError(
            f"{folder} has no text of {id!r}: texts are kept by an index that is built with "
            "--keep-texts, of documents that came with one"
        )
    if as_json:
        members = [member.id for member in cluster.members]
        more = {"members": members, **({"text": stored} if text else {})}
        print(json.dumps(asdict(document) | more, indent=2))
        return
    for name, value in _document_lines(document):
        print(f"{name:14}{value}")
    others = [one.id for one in (cluster.representative, *cluster.members) if one.id != id]
    copies = "nothing else" if not others else f"{len(others):,} more: {', '.join(others[:5])}"
    print(f"{'cluster':14}{cluster.number}, {copies}{', ...' if len(others) > 5 else ''}")
    if text:
        print(f"\n{stored}")


def _document_lines(document: Document) -> list[tuple[str, object]]:
    from datetime import datetime

    lines: list[tuple[str, object]] = [("id", document.id), ("status", document.status)]
    if document.duplicate_of is not None:
        how = "" if document.exact else ", estimated"
        lines.append(("duplicate of", f"{document.duplicate_of} ({document.similarity:.4f}{how})"))
    added = datetime.fromtimestamp(document.added).astimezone()
    lines.append(("added", f"{added:%Y-%m-%d %H:%M:%S}"))
    if document.metadata is not None:
        lines.append(("metadata", document.metadata))
    return lines


def remove(
    folder: Dir,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", show_default=False)],
    missing_ok: Annotated[
        bool, typer.Option("--missing-ok", help="It is no error if some are not there.")
    ] = False,
    key_file: IndexKey = None,
) -> None:
    """Remove documents for good. Copies of a removed one find another witness, or are new."""
    from neardup.errors import UsageError
    from neardup.index.rebuild import count_in_previous

    with open_to_write(folder, key_file) as index:
        found = {id: index.get(id) for id in ids}
        missing = [id for id in ids if not index.remove(id)]
    print(f"{len(ids) - len(missing):,} removed")
    held = count_in_previous(folder, [one.number for one in found.values() if one is not None])
    for name, documents in held.items():
        print(
            f"the earlier generation {name} still has {documents:,} of them: neardup index "
            f"reindex {folder} --forget deletes it"
        )
    if missing and not missing_ok:
        shown = ", ".join(map(repr, missing[:5]))
        raise UsageError(f"{folder} has no document {shown}: check the ids, or use --missing-ok")
