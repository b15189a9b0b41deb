"""neardup query, neardup index query: is a text a copy of a document of an index?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neardup.cli.index_explain import show_document
from neardup.cli.index_shared import Dir, IndexKey, PlainJson, reading

if TYPE_CHECKING:
    from neardup.index.answer import Answer, Match
    from neardup.index.index import Index

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
            help="With --explain: a document of the index. Of JSON lines: the "
            "field that names it.  [default: id]",
            show_default=False,
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
    with reading(folder, key_file) as index:
        if text is None and file is None:
            if explain and id is not None:
                show_document(index, id, as_json)
                return
            if explain or similar is not None:
                raise UsageError(
                    "--explain and --similar are for one text: give TEXT or --file; "
                    "--explain also for a document of the index: --id ID"
                )
            _stream(index, column, id or "id")
            return
        given = text if text is not None else _read(file)
        if explain:
            found = index.explain(given)
            _show(found.as_dict if as_json else str(found))
        elif similar is not None:
            _show_matches(index.similar(given, similar), as_json)
        else:
            answer = index.query(given)
            _show(_plain(answer) if as_json else sentence(answer))


def sentence(answer: Answer) -> str:
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


def _show(found: dict[str, Any] | str) -> None:
    import json

    print(found if isinstance(found, str) else json.dumps(found, indent=2))


def _show_matches(matches: list[Match], as_json: bool) -> None:
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


def _stream(index: Index, column: str, id: str) -> None:
    """Answers to JSON lines, as they come, one JSON line each."""
    import json

    from neardup.corpus.documents import Columns
    from neardup.corpus.jsonl import parse_lines
    from neardup.corpus.source import whole_lines
    from neardup.corpus.tables import as_strings
    from neardup.errors import UsageError

    if sys.stdin.isatty():
        raise UsageError("nothing to look for: give a text, --file, or JSON lines by a pipe")
    columns = Columns(text=column, id=id, tokens=index.spec.unit == "token")
    for block in whole_lines(_pieces()):
        documents = parse_lines(block, False, columns, "standard input")
        texts, ids = documents.texts.to_pylist(), as_strings(documents.ids).to_pylist()
        answers = index.query_batch(texts)
        for row, (name, answer) in enumerate(zip(ids, answers, strict=True)):
            why = documents.rejected.get(row, answer.reason)
            print(json.dumps(_plain(answer) | {"id": name, "reason": why}))
        sys.stdout.flush()


def _pieces() -> Iterator[bytes]:
    while piece := os.read(sys.stdin.fileno(), PIECE):
        yield piece
