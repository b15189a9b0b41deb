"""neardup index reindex: another specification for an index, while it goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neardup.cli.index_shared import Dir, PlainJson
from neardup.cli.key_file import read_key
from neardup.cli.shared import INPUT, MATCH, OUTPUT, Format, Id, Quiet, Text

if TYPE_CHECKING:
    from neardup.index.reindex import Reindexed
    from neardup.spec import Spec


def reindex(
    folder: Dir,
    spec: Annotated[Path | None, typer.Option(
        metavar="FILE", help="The new specification, as neardup spec --json prints it, instead of "
        "the options below.", show_default=False)] = None,
    undo: Annotated[bool, typer.Option(
        "--undo", help="Go back to what was before the last reindex or convert, with what has been "
        "added and removed since.")] = False,
    forget: Annotated[bool, typer.Option(
        "--forget", help="Delete what was before, which holds documents that were removed since; "
        "--undo is not possible any more.")] = False,
    corpus: Annotated[list[str] | None, typer.Option(
        metavar="INPUT", help="Texts of documents, by their ids: files, folders or quoted globs; "
        "more than once for several.  [default: the stored texts]", show_default=False,
        rich_help_panel=INPUT)] = None,
    text: Text = "text",
    id: Id = None,
    format: Format = "auto",
    drop_missing: Annotated[bool, typer.Option(
        "--drop-missing", help="Leave out documents of which there is no text, or that the new "
        "specification can't use, instead of stopping.", rich_help_panel=INPUT)] = False,
    shingle: Annotated[str | None, typer.Option(
        metavar="UNIT:SIZE", help="As in index build; what is not given stays.", show_default=False,
        rich_help_panel=MATCH)] = None,
    text_profile: Annotated[str | None, typer.Option(
        help="As in index build.", show_default=False, rich_help_panel=MATCH)] = None,
    strip: Annotated[str | None, typer.Option(
        metavar="html", help="As in index build.", show_default=False,
        rich_help_panel=MATCH)] = None,
    sketch: Annotated[str | None, typer.Option(
        help="As in index build.", show_default=False, rich_help_panel=MATCH)] = None,
    family: Annotated[str | None, typer.Option(
        help="As in index build.", show_default=False, rich_help_panel=MATCH)] = None,
    slots: Annotated[int | None, typer.Option(
        help="As in index build.", show_default=False, rich_help_panel=MATCH)] = None,
    bits: Annotated[int | None, typer.Option(
        help="As in index build.", show_default=False, rich_help_panel=MATCH)] = None,
    seed: Annotated[int | None, typer.Option(
        help="As in index build.", show_default=False, rich_help_panel=MATCH)] = None,
    hash: Annotated[str | None, typer.Option(
        help="As in index build.", show_default=False, rich_help_panel=MATCH)] = None,
    key_file: Annotated[Path | None, typer.Option(
        metavar="FILE", help="The new key of an index with --hash siphash; with --undo the one of "
        "what was before.", show_default=False, rich_help_panel=MATCH)] = None,
    threshold: Annotated[float | None, typer.Option(
        help="As in index build.", show_default=False, rich_help_panel=MATCH)] = None,
    recall: Annotated[float | None, typer.Option(
        help="As in index build.", show_default=False, rich_help_panel=MATCH)] = None,
    bands: Annotated[int | None, typer.Option(
        help="As in index build.", show_default=False, rich_help_panel=MATCH)] = None,
    rows: Annotated[int | None, typer.Option(
        help="As in index build.", show_default=False, rich_help_panel=MATCH)] = None,
    hamming: Annotated[int | None, typer.Option(
        help="As in index build.", show_default=False, rich_help_panel=MATCH)] = None,
    keep_texts: Annotated[bool | None, typer.Option(
        "--keep-texts/--forget-texts", help="Whether texts are stored.  [default: as before]",
        show_default=False, rich_help_panel=OUTPUT)] = None,
    wait: Annotated[float, typer.Option(
        metavar="SECONDS", help="How long a process that writes to the index may take to go over "
        "to what was made.", rich_help_panel=OUTPUT)] = 60.0,
    quiet: Quiet = False,
    as_json: PlainJson = False,
) -> None:  # fmt: skip
    """Index all documents anew by another specification, or another key, beside the index.

    Others go on to ask and to add meanwhile, if the index keeps its texts. Then it is gone over to
    at once. What was before is kept until the next time.
    """
    from neardup.cli.progress import progress_for
    from neardup.errors import UsageError
    from neardup.index import reindex as making

    asked: dict[str, Any] = {
        "shingle": shingle, "text_profile": text_profile, "strip": strip, "sketch": sketch,
        "family": family, "slots": slots, "bits": bits, "seed": seed, "hash": hash,
        "threshold": threshold, "recall": recall, "bands": bands, "rows": rows, "hamming": hamming,
    }  # fmt: skip
    given = {name: value for name, value in asked.items() if value is not None}
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
    with progress_for(quiet=quiet) as progress, _listing_missing():
        others: dict[str, Any] = {"key": key, "drop_missing": drop_missing, "wait": wait,
                                  "progress": progress}  # fmt: skip
        if undo:
            done = making.undo(folder, **others)
        else:
            pairs = None if corpus is None else _pairs(corpus, text, id, format)
            done = making.reindex(folder, _read_spec(spec), corpus=pairs, keep_texts=keep_texts,
                                  **others, **given)  # fmt: skip
    _show(done, folder, quiet, as_json)


def _read_spec(file: Path | None) -> Spec | None:
    if file is None:
        return None
    from neardup.errors import InputError
    from neardup.spec import Spec

    try:
        return Spec.from_json(file.read_bytes())
    except OSError as error:
        raise InputError(f"{file} can't be read: {error.strerror}", str(file)) from None


def _pairs(inputs: list[str], text: str, id: str | None, format: str) -> Iterator[tuple[str, str]]:
    from neardup.corpus.documents import Columns
    from neardup.corpus.inputs import find_inputs
    from neardup.index.filling import batches

    for batch in batches(find_inputs(inputs, format), Columns(text, id)):
        yield from zip(batch.ids, batch.texts, strict=True)


@contextmanager
def _listing_missing() -> Iterator[None]:
    """Before the error that counts them."""
    from neardup.index.carrying import MissingTexts

    try:
        yield
    except MissingTexts as error:
        _list(error.documents)
        raise


def _list(missing: dict[str, str]) -> None:
    for id, why in missing.items():
        print(f"{id}\t{why}")


def _show(done: Reindexed, folder: Path, quiet: bool, as_json: bool) -> None:
    if as_json:
        import json

        print(json.dumps({
            "generation": done.generation, "before": done.before, "carried": done.carried,
            "fingerprint": done.spec.fingerprint, "missing": done.missing,
        }, indent=2))  # fmt: skip
        return
    _list(done.missing)
    if not quiet:
        left = f", {len(done.missing):,} left out" if done.missing else ""
        print(f"{done.carried:,} documents indexed anew{left}")
        print(f"specification {done.spec.fingerprint}")
        print(f"neardup index reindex {folder} --undo goes back")
