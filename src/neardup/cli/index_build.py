"""neardup index build, neardup index add: files into an index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neardup.cli.arguments import (
    INPUT,
    OUTPUT,
    Config,
    Format,
    Id,
    Inputs,
    Quiet,
    Text,
    Workers,
    check_workers,
    read_key,
    stale_bands,
    with_options,
)
from neardup.cli.index import Dir, IndexKey, PlainJson, TableMemory, open_to_write
from neardup.cli.summary import print_filled, print_loaded
from neardup.option_table import IndexOptions, MatchingOptions, given_options, options_of

if TYPE_CHECKING:
    from neardup.index.index import Index
    from neardup.keys import Key
    from neardup.options import Options

ONLY_IN_CONFIG = tuple(options_of(MatchingOptions).keys() - options_of(IndexOptions).keys())
"""What a config file may say, and an index has only one way of."""

StrictIndex = Annotated[
    bool,
    typer.Option(
        "--strict", help="Stop at the first document that can't be used.", rich_help_panel=INPUT
    ),
]


@with_options("neardup index build")
def build(
    context: typer.Context,
    folder: Dir,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[INPUT]...",
            help="As in dedup: files, folders or quoted globs.",
            show_default=False,
        ),
    ] = None,
    sketches: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Instead of INPUT: a run with --save-sketches, or a set of "
            "sketches. No texts are needed; similarity to these documents is estimated.",
            show_default=False,
            rich_help_panel=INPUT,
        ),
    ] = None,
    text: Text = "text",
    id: Id = None,
    format: Format = "auto",
    strict: StrictIndex = False,
    keep_texts: Annotated[
        bool,
        typer.Option(
            "--keep-texts",
            help="Store the texts too, so that the index can be made anew by another "
            "specification.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    config: Config = None,
    key_file: IndexKey = None,
    memory: TableMemory = None,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: PlainJson = False,
    **given: Any,
) -> None:
    """Make a new index of files, or of the sketches that a run has saved.

    If it is interrupted, neardup index add with the same INPUT goes on.
    """
    from neardup.cli.progress import progress_for
    from neardup.corpus.documents import Columns
    from neardup.corpus.inputs import find_inputs
    from neardup.errors import UsageError
    from neardup.index.load import fill

    if bool(inputs) == (sketches is not None):
        raise UsageError("give either INPUT, or --from with a run that has saved its sketches")
    stored = context.default_map or {}
    given |= given_options({name: stored.get(name) for name in ONLY_IN_CONFIG})
    stale = stale_bands(context) if config else set()
    given = {name: value for name, value in given.items() if name not in stale}
    if sketches is not None:
        _load_sketches(folder, sketches, given, quiet, as_json)
        return
    files, threads = find_inputs(inputs or [], format), check_workers(workers)
    key = read_key(key_file, quiet)
    with (
        progress_for(quiet=quiet or as_json) as progress,
        _create(folder, given, key, keep_texts=keep_texts, memory=memory) as index,
    ):
        columns = Columns(text=text, id=id, tokens=index.spec.unit == "token")
        filled = fill(index, files, columns, progress, workers=threads, strict=strict)
        print_filled(filled, index, quiet, as_json)


def add(
    folder: Dir,
    inputs: Inputs,
    text: Text = "text",
    id: Id = None,
    format: Format = "auto",
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="A document whose id is there with another content takes its place, "
            "instead of being rejected.",
            rich_help_panel=INPUT,
        ),
    ] = False,
    strict: StrictIndex = False,
    key_file: IndexKey = None,
    memory: TableMemory = None,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: PlainJson = False,
) -> None:
    """Add the documents of files to an index. Those that are there already are left alone."""
    from neardup.cli.progress import progress_for
    from neardup.corpus.documents import Columns
    from neardup.corpus.inputs import find_inputs
    from neardup.index.load import fill

    files, threads = find_inputs(inputs, format), check_workers(workers)
    with (
        progress_for(quiet=quiet or as_json) as progress,
        open_to_write(folder, key_file, progress, memory) as index,
    ):
        columns = Columns(text=text, id=id, tokens=index.spec.unit == "token")
        filled = fill(
            index, files, columns, progress, workers=threads, replace=replace, strict=strict
        )
        print_filled(filled, index, quiet, as_json)


@contextmanager
def _create(folder: Path, given: dict[str, Any], key: Key | None, **others: Any) -> Iterator[Index]:
    """A new index; nothing of it stays if it fails before there is a document in it."""
    from neardup.index.folder import delete_empty_index
    from neardup.index.index import Index
    from neardup.index.load import require_free
    from neardup.index.settings import stated

    require_free(folder)
    options = _check_options(given, key)
    point = stated(options)
    with Index.open(folder, options.spec, key=key, **others, **point) as index:
        try:
            yield index
        except Exception:
            empty = not len(index)
            index.close()
            if empty:
                delete_empty_index(folder)
            raise


def _check_options(given: dict[str, Any], key: Key | None) -> Options:
    """What is asked for; not what can only be known when all documents are there."""
    from neardup.errors import UsageError
    from neardup.index.settings import IndexSettings
    from neardup.options import Options

    options = Options.of(key=key, **given)
    if options.strip.lines is not None or options.weights != "tf":
        what = "--strip lines" if options.strip.lines is not None else "tf-idf weights"
        raise UsageError(
            f"{what} are counted over all documents, and an index never has all: leave it out, or "
            "build the index --from a run that has counted them"
        )
    return IndexSettings(options).options


def _load_sketches(
    folder: Path, sketches: Path, given: dict[str, Any], quiet: bool, as_json: bool
) -> None:
    """An index of saved sketches."""
    from neardup.cli.progress import progress_for
    from neardup.errors import UsageError
    from neardup.index.from_run import load_sketches
    from neardup.index.settings import POINT_NAMES

    for name in given:
        if name not in POINT_NAMES:
            option = name.replace("_", "-")
            raise UsageError(f"the sketches of {sketches} say it: leave out --{option}")
    with progress_for(quiet=quiet or as_json) as progress:
        loaded = load_sketches(sketches, folder, given, progress)
    print_loaded(loaded, quiet, as_json)
