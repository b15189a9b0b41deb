"""neardup index retune, reindex, convert: change the operating point or specification of an index.

`retune` judges all documents again by their stored sketches, `reindex` builds another generation
from the texts while the index goes on answering, `convert` cuts stored slots to fewer bits.
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
    RARE,
    Id,
    PlainJson,
    Quiet,
    Text,
    flag,
    option,
)
from neardup.cli.console import print_json, progress_for
from neardup.cli.index import Dir, IndexKey, describe_index, open_to_write, previous_lines
from neardup.cli.key_files import read_key
from neardup.cli.signatures import with_input_options, with_options
from neardup.corpus.inputs import InputOptions
from neardup.formatting import format_count

if TYPE_CHECKING:
    from neardup.index.rebuild import Reindexed
    from neardup.keys import Key
    from neardup.spec import Spec


LISTED: Final = 20
"""The most documents without a text that are listed by name."""


UNCHANGED: Final = "unchanged"


@with_options("neardup index reindex", unset=UNCHANGED)
@with_input_options
def reindex(
    folder: Dir,
    spec: Annotated[
        Path | None,
        option(
            "FILE",
            "The new specification, instead of the options below: the output of neardup spec "
            "--json, a config file, an index or a run.",
            default=UNCHANGED,
        ),
    ] = None,
    undo: Annotated[
        bool,
        flag(
            "Go back to the generation before the last reindex or convert, with its operating "
            "point; documents added and removed since are carried over.",
            "--undo",
        ),
    ] = False,
    forget: Annotated[
        bool,
        flag(
            "Delete the previous generation, which still has documents that were removed since; "
            "--undo is no longer possible.",
            "--forget",
        ),
    ] = False,
    corpus: Annotated[
        list[str] | None,
        option(
            "INPUT",
            "The texts of the documents, found by their ids: files, folders or quoted globs. Can "
            "be given several times.",
            default="the stored texts",
            panel=INPUT,
        ),
    ] = None,
    text: Text = "text",
    id: Id = None,
    *,
    input_options: InputOptions,
    drop_missing: Annotated[
        bool,
        flag(
            "Leave out documents without a text, or that the new specification can't sketch, "
            "instead of stopping.",
            "--drop-missing",
            panel=INPUT,
        ),
        RARE,
    ] = False,
    key_file: Annotated[
        Path | None,
        option(
            "FILE",
            "The new key of an index with --hash siphash; with --undo the previous key.",
            default=UNCHANGED,
            panel=MATCH,
        ),
        RARE,
    ] = None,
    keep_texts: Annotated[
        bool | None,
        typer.Option(
            "--keep-texts/--forget-texts",
            help="Whether texts are stored.",
            show_default=UNCHANGED,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    wait: Annotated[
        float,
        option(
            "SECONDS",
            "How long a process that writes to the index may take to switch to the new generation.",
            panel=OUTPUT,
        ),
        RARE,
    ] = 60.0,
    quiet: Quiet = False,
    as_json: PlainJson = False,
    **given: Any,
) -> None:
    """Index all documents again, by another specification or key, as a new generation.

    Options that are not given stay as they are. If the index keeps its texts, other processes may
    query and add documents meanwhile. The index switches to the new generation when it is complete,
    and keeps the previous one until the next reindex.
    """
    from neardup.errors import UsageError
    from neardup.index import rebuild

    key = read_key(key_file, quiet)
    changed = bool(given or spec or corpus) or keep_texts is not None
    if forget and (undo or changed or key):
        raise UsageError("--forget deletes the previous generation: leave out the other options")
    if forget:
        deleted = rebuild.forget(folder)
        if not quiet:
            print("previous generation deleted" if deleted else "no previous generation")
        return
    if undo and changed:
        raise UsageError("--undo restores the previous generation: leave out the other options")
    if not (undo or changed or key):
        raise UsageError("no change requested: give --spec, or an option such as --shingle")
    wanted, point = _read_target(spec, key)
    with progress_for(quiet=quiet) as progress, _listing_missing():
        others: dict[str, Any] = {
            "key": key,
            "drop_missing": drop_missing,
            "wait": wait,
            "progress": progress,
        }
        if undo:
            done = rebuild.undo(folder, **others)
        else:
            pairs = None if corpus is None else _read_texts(corpus, text, id, input_options)
            done = rebuild.reindex(
                folder, wanted, corpus=pairs, keep_texts=keep_texts, **others, **point | given
            )
    if as_json:
        _print_record(done)
        return
    _list_missing(done.missing)
    if not quiet:
        _print_reindexed(done, folder, undo)


def _read_target(file: Path | None, key: Key | None) -> tuple[Spec | None, dict[str, Any]]:
    """Return the specification of a file, and its operating point if it is a config file."""
    from neardup.cli.spec import read_spec
    from neardup.formats.config import load_config
    from neardup.index.settings import DISTINGUISH, POINT_NAMES, IndexSettings
    from neardup.options import Options

    if file is None:
        return None, {}
    if file.suffix != ".toml":
        return read_spec(file), {}
    config = load_config(file)
    options = IndexSettings(Options.of(key=key, **config)).options
    names = (*POINT_NAMES, DISTINGUISH)
    return options.spec, {name: value for name, value in config.items() if name in names}


def _read_texts(
    inputs: list[str], text: str, id: str | None, input_options: InputOptions
) -> Iterator[tuple[str, str]]:
    from neardup.corpus.documents import Columns
    from neardup.corpus.inputs import find_inputs
    from neardup.index.load import batches

    for batch in batches(find_inputs(inputs, **input_options), Columns(text, id)):
        yield from zip(batch.ids, batch.texts, strict=True)


@contextmanager
def _listing_missing() -> Iterator[None]:
    """List the documents without a text, before the error that counts them."""
    from neardup.index.cutover import MissingTexts

    try:
        yield
    except MissingTexts as error:
        _list_missing(error.documents)
        raise


def _list_missing(missing: dict[str, str]) -> None:
    """Print the first documents without a text, with the reason, to standard error."""
    for id, why in list(missing.items())[:LISTED]:
        print(f"{id}\t{why}", file=sys.stderr)
    if len(missing) > LISTED:
        print(f"and {len(missing) - LISTED:,} more", file=sys.stderr)


def _print_record(done: Reindexed) -> None:
    from neardup.index.settings import stated

    print_json(
        {
            "generation": done.generation,
            "before": done.before,
            "carried": done.carried,
            "fingerprint": done.spec.fingerprint,
            "point": stated(done.options),
            "missing": done.missing,
        }
    )


def _print_reindexed(done: Reindexed, folder: str, undone: bool) -> None:
    from neardup.wording import format_method, format_second_signal

    options, omitted = done.options, f", {len(done.missing):,} left out" if done.missing else ""
    if undone:
        print(
            f"back to generation {done.generation} and its operating point; {done.carried:,} "
            f"documents that were added since are carried over{omitted}"
        )
    else:
        print(f"{format_count(done.carried, 'document')} indexed again{omitted}")
    print(format_method(options, options.meeting.probability(options.threshold)))
    for line in format_second_signal(options):
        print(line)
    print(f"specification {done.spec.fingerprint}")
    for line in previous_lines(folder):
        print(line)


def convert(
    folder: Dir,
    bits: Annotated[int, option("N", "The bits of a slot: 1, 2, 4, 8 or 16.", default=False)],
    quiet: Quiet = False,
    as_json: PlainJson = False,
) -> None:
    """Cut the stored slots of an index down to a few bits. No texts are needed.

    Decisions stay as they are. Afterwards the bands can't be changed; threshold, limit and verify
    can. The previous generation is kept: neardup index reindex --undo goes back to it.
    """
    from dataclasses import asdict

    from neardup.formatting import format_bytes
    from neardup.index.rebuild import convert as convert_index

    with progress_for(quiet=quiet) as progress:
        done = convert_index(folder, bits, progress=progress)
    if as_json:
        print_json(asdict(done))
    elif not quiet:
        print(
            f"{format_count(done.documents, 'document')}: "
            f"{format_bytes(done.bytes_before)} before, {format_bytes(done.bytes_after)} now; "
            "the previous generation is kept\n"
            f"specification {done.fingerprint}, narrowed from {done.parent}"
        )
        for line in previous_lines(folder):
            print(line)


@with_options("neardup index retune", unset=UNCHANGED)
def retune(
    folder: Dir,
    key_file: IndexKey = None,
    quiet: Quiet = False,
    **given: Any,
) -> None:
    """Change the operating point of an index. No texts are needed.

    All documents are judged again in the order in which they were added, by their stored sketches.
    Options that are not given stay as they are.
    """
    from neardup.errors import UsageError

    if not given:
        raise UsageError(
            "no change requested: give --threshold, --recall or --bands and --rows, or of vectors "
            "--cosine or --planes"
        )
    with progress_for(quiet=quiet) as progress, open_to_write(folder, key_file, progress) as index:
        moved, documents, about = index.retune(**given), len(index), describe_index(index)
    if not quiet:
        print(f"{moved:,} of {documents:,} documents have another decision now")
        print(about["point"])
        if "vectors" in about:
            print(f"vectors {about['vectors']}")
