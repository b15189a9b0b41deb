"""neardup index retune, reindex, convert: another operating point or specification for an index.

`retune` judges all documents again by what is stored of them, `reindex` makes another generation
of their texts while the index goes on answering, `convert` cuts stored slots to fewer bits.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from neardup.cli.arguments import (
    INPUT,
    MATCH,
    OUTPUT,
    Format,
    Id,
    Quiet,
    Text,
    read_key,
    with_options,
)
from neardup.cli.index import Dir, IndexKey, PlainJson, describe_index, earlier_lines, open_to_write

if TYPE_CHECKING:
    from neardup.index.rebuild import Reindexed
    from neardup.keys import Key
    from neardup.spec import Spec


LISTED: Final = 20
"""So many documents that can't be carried over are named."""


@with_options("neardup index reindex", without="as it is")
def reindex(
    folder: Dir,
    spec: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The new specification, instead of the options below: what neardup "
            "spec --json prints, a config file, or an index or a run that has it.",
            show_default=False,
        ),
    ] = None,
    undo: Annotated[
        bool,
        typer.Option(
            "--undo",
            help="Go back to what was before the last reindex or convert, with its operating "
            "point of then, and with what has been added and removed since.",
        ),
    ] = False,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget",
            help="Delete what was before, which holds documents that were removed since; "
            "--undo is not possible any more.",
        ),
    ] = False,
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            metavar="INPUT",
            help="Texts of documents, by their ids: files, folders or quoted globs; "
            "more than once for several.",
            show_default="the stored texts",
            rich_help_panel=INPUT,
        ),
    ] = None,
    text: Text = "text",
    id: Id = None,
    format: Format = "auto",
    drop_missing: Annotated[
        bool,
        typer.Option(
            "--drop-missing",
            help="Leave out documents of which there is no text, or that the new "
            "specification can't use, instead of stopping.",
            rich_help_panel=INPUT,
        ),
    ] = False,
    key_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The new key of an index with --hash siphash; with --undo the one of "
            "what was before.",
            show_default=False,
            rich_help_panel=MATCH,
        ),
    ] = None,
    keep_texts: Annotated[
        bool | None,
        typer.Option(
            "--keep-texts/--forget-texts",
            help="Whether texts are stored.",
            show_default="as before",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    wait: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="How long a process that writes to the index may take to go over "
            "to what was made.",
            rich_help_panel=OUTPUT,
        ),
    ] = 60.0,
    quiet: Quiet = False,
    as_json: PlainJson = False,
    **given: Any,
) -> None:
    """Index all documents anew by another specification, or another key, beside the index.

    What is not given stays as it is.
    Others go on to ask and to add meanwhile, if the index keeps its texts. Then it is gone over to
    at once. What was before is kept until the next time.
    """
    from neardup.cli.progress import progress_for
    from neardup.errors import UsageError
    from neardup.index import rebuild as making

    key = read_key(key_file, quiet)
    anew = bool(given or spec or corpus) or keep_texts is not None
    if forget and (undo or anew or key):
        raise UsageError("--forget deletes what was before: leave out the other options")
    if forget:
        deleted = making.forget(folder)
        if not quiet:
            print("what was before is deleted" if deleted else "there was nothing before")
        return
    if undo and anew:
        raise UsageError("--undo goes back to what was: leave out what is to be new")
    if not (undo or anew or key):
        raise UsageError("nothing is to change: give --spec, or an option such as --shingle")
    wanted, point = _read_target(spec, key)
    with progress_for(quiet=quiet) as progress, _listing_missing():
        others: dict[str, Any] = {
            "key": key,
            "drop_missing": drop_missing,
            "wait": wait,
            "progress": progress,
        }
        if undo:
            done = making.undo(folder, **others)
        else:
            pairs = None if corpus is None else _read_texts(corpus, text, id, format)
            done = making.reindex(
                folder, wanted, corpus=pairs, keep_texts=keep_texts, **others, **point | given
            )
    if as_json:
        _print_json(done)
        return
    _list_missing(done.missing)
    if not quiet:
        _print_reindexed(done, folder, undo)


def _read_target(file: Path | None, key: Key | None) -> tuple[Spec | None, dict[str, Any]]:
    """The specification of a file, and the operating point if it says one."""
    from neardup.cli.spec import read_spec
    from neardup.formats.config import load_config
    from neardup.index.settings import POINT_NAMES, IndexSettings
    from neardup.options import Options

    if file is None:
        return None, {}
    if file.suffix != ".toml":
        return read_spec(file), {}
    config = load_config(file)
    options = IndexSettings(Options.of(key=key, **config)).options
    return options.spec, {name: value for name, value in config.items() if name in POINT_NAMES}


def _read_texts(
    inputs: list[str], text: str, id: str | None, format: str
) -> Iterator[tuple[str, str]]:
    from neardup.corpus.documents import Columns
    from neardup.corpus.inputs import find_inputs
    from neardup.index.load import batches

    for batch in batches(find_inputs(inputs, format), Columns(text, id)):
        yield from zip(batch.ids, batch.texts, strict=True)


@contextmanager
def _listing_missing() -> Iterator[None]:
    """Before the error that counts them."""
    from neardup.index.cutover import MissingTexts

    try:
        yield
    except MissingTexts as error:
        _list_missing(error.documents)
        raise


def _list_missing(missing: dict[str, str]) -> None:
    """The first ones, to standard error."""
    for id, why in list(missing.items())[:LISTED]:
        print(f"{id}\t{why}", file=sys.stderr)
    if len(missing) > LISTED:
        print(f"and {len(missing) - LISTED:,} more", file=sys.stderr)


def _print_json(done: Reindexed) -> None:
    import json

    from neardup.index.settings import stated

    print(
        json.dumps(
            {
                "generation": done.generation,
                "before": done.before,
                "carried": done.carried,
                "fingerprint": done.spec.fingerprint,
                "point": stated(done.options),
                "missing": done.missing,
            },
            indent=2,
        )
    )


def _print_reindexed(done: Reindexed, folder: Path, undone: bool) -> None:
    from neardup.result import format_method

    options, left = done.options, f", {len(done.missing):,} left out" if done.missing else ""
    if undone:
        print(
            f"back to generation {done.generation} of before, {done.carried:,} documents that "
            f"came since carried over{left}; its operating point is that of then"
        )
    else:
        print(f"{done.carried:,} documents indexed anew{left}")
    print(format_method(options, options.meeting.probability(options.threshold)))
    print(f"specification {done.spec.fingerprint}")
    for line in earlier_lines(folder):
        print(line)


def convert(
    folder: Dir,
    bits: Annotated[
        int, typer.Option(help="Bits of a slot from now on: 1, 2, 4, 8 or 16.", show_default=False)
    ],
    quiet: Quiet = False,
    as_json: PlainJson = False,
) -> None:
    """Cut the stored slots of an index down to a few bits. No texts are needed.

    Answers that were given stay. The bands can't be changed any more afterwards; threshold, limit
    and verify can. What was before is kept beside it: neardup index reindex --undo goes back.
    """
    import json
    from dataclasses import asdict

    from neardup.cli.progress import progress_for
    from neardup.formatting import format_bytes
    from neardup.index.rebuild import convert as convert_index

    with progress_for(quiet=quiet) as progress:
        done = convert_index(folder, bits, progress=progress)
    if as_json:
        print(json.dumps(asdict(done), indent=2))
    elif not quiet:
        print(
            f"{done.documents:,} documents: {format_bytes(done.bytes_before)} before, "
            f"{format_bytes(done.bytes_after)} now; what was before is still there\n"
            f"specification {done.fingerprint}, narrowed from {done.parent}"
        )
        for line in earlier_lines(folder):
            print(line)


@with_options("neardup index retune", without="as it is")
def retune(
    folder: Dir,
    key_file: IndexKey = None,
    quiet: Quiet = False,
    **given: Any,
) -> None:
    """Go over to another operating point, without the texts. What is not given stays as it is.

    All documents are judged again in the order in which they came, by what is stored of them.
    """
    from neardup.cli.progress import progress_for
    from neardup.errors import UsageError

    if not given:
        raise UsageError("nothing is to change: give --threshold, --recall or --bands and --rows")
    with progress_for(quiet=quiet) as progress, open_to_write(folder, key_file, progress) as index:
        moved, documents, about = index.retune(**given), len(index), describe_index(index)
    if not quiet:
        print(f"{moved:,} of {documents:,} documents have another answer now")
        print(about["point"])
