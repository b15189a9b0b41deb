"""neardup spec: show the specification and fingerprint of options; spec diff compares two."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from neardup.cli.arguments import KeyFile, PlainJson, argument, flag, option
from neardup.cli.console import print_json
from neardup.cli.help import Command, Group
from neardup.cli.key_files import read_key
from neardup.cli.signatures import with_options

if TYPE_CHECKING:
    from neardup.spec import Spec


SIDE = "a specification as JSON, a run, saved sketches, an index or its export, or a config file"
LARGEST: Final = 1 << 20
"""The most bytes that are read of a file with a specification."""

MEANING: Final = {
    "profile": "words are normalised differently before they are hashed",
    "unit": "shingles consist of different units",
    "size": "shingles have different lengths",
    "hash": "words are hashed by different functions",
    "seed": "all hashes differ",
    "sketch": "signatures are of different kinds",
    "family": "slots are filled by different hash functions",
    "slots": "signatures have different lengths",
    "bits": "different parts of the slots are stored",
    "unicode": "texts are normalised by different Unicode tables",
    "version": "the versions of the format differ",
    "strip": "different parts of a text are compared",
    "ignored": "different lines are ignored",
    "key": "words are hashed with different keys",
    "weights": "shingles have different weights",
    "vectors": "vectors have other dimensions, planes or centres",
    "mask": "different parts of a text are replaced by placeholders",
    "stem": "words are compared by the stems of different languages or versions",
    "segment": "words of scripts without spaces are cut differently",
}
"""Field of a specification -> what a difference means."""


def diff_specs(
    a: Annotated[Path, argument("A", f"{SIDE[0].upper()}{SIDE[1:]}.")],
    b: Annotated[Path, argument("B", "What it is compared with: any of the same.")],
    as_json: PlainJson = False,
) -> None:
    """Show what differs between two specifications, and how to make them agree.

    Exit code 0 if they are equal, 1 if not.
    """
    from dataclasses import asdict

    one, other = read_spec(a), read_spec(b)
    mine, theirs = asdict(one), asdict(other)
    differing = [name for name in mine if mine[name] != theirs[name]]
    cure = suggest_cure(one, other, differing, a, b)
    if as_json:
        fields = {
            name: {"a": mine[name], "b": theirs[name], "meaning": MEANING[name]}
            for name in differing
        }
        print_json(
            {
                "a": one.fingerprint,
                "b": other.fingerprint,
                "equal": not differing,
                "differences": fields,
                "cure": cure,
            }
        )
    else:
        for side, spec in ((a, one), (b, other)):
            print(f"{spec.fingerprint}  {side}")
        for name in differing:
            values = f"{_format_value(mine[name])} against {_format_value(theirs[name])}"
            print(f"{name:12}{values}: {MEANING[name]}")
        print(cure)
    if differing:
        raise typer.Exit(1)


def suggest_cure(one: Spec, other: Spec, differing: list[str], a: Path, b: Path) -> str:
    """Return how sketches of both sides can be made comparable."""
    if not differing:
        return "equal: sketches of both may be compared"
    if differing == ["bits"] and one.narrow != other.narrow:
        wide, bits = (b, one.bits) if one.narrow else (a, other.bits)
        return (
            f"not comparable as they are: neardup index convert --bits {bits} cuts the slots of "
            f"{wide}, without the texts"
        )
    if differing == ["key"]:
        return (
            "not comparable: neardup index reindex gives an index another key, from its texts; "
            "anything else must be sketched again"
        )
    return (
        "not comparable: sketch one side again from its texts; an index with neardup index "
        "reindex, a run by running it again"
    )


def _format_value(value: object) -> str:
    return "nothing" if value == "" else str(value)


def read_spec(path: Path) -> Spec:
    """Return the specification of a file or folder: a run, an index, sketches, a config file."""
    from neardup.errors import UsageError

    if not path.exists():
        raise UsageError(f"{path}: no such file or folder: give {SIDE}")
    return _read_folder(path) if path.is_dir() else _read_file(path)


def _read_folder(path: Path) -> Spec:
    import json

    from neardup.errors import UsageError
    from neardup.index import folder
    from neardup.index.settings import IndexSettings
    from neardup.index.store import Store
    from neardup.pipeline.output import RUN_FILE, is_run
    from neardup.pipeline.saved import SketchSet, find_sketch_folder, is_sketch_folder
    from neardup.spec import Spec

    if (path / folder.LISTED).exists() and (listed := folder.read_generations(path)) is not None:
        file = path / listed.current / folder.STORE
        store = Store(file, read_only=True)
        try:
            return IndexSettings.of_stored(store.meta(), str(file)).options.spec
        finally:
            store.close()
    if is_sketch_folder(find_sketch_folder(path)):
        return SketchSet.open(find_sketch_folder(path)).spec
    if is_run(path):
        stated = json.loads((path / RUN_FILE).read_bytes())["spec"]
        if "by" not in stated:  # a run of neardup exact has no sketches
            return Spec.from_json(json.dumps(stated))
    raise UsageError(f"{path} has no specification: give {SIDE}")


def _read_file(path: Path) -> Spec:
    from neardup.errors import FormatError, InputError, UsageError
    from neardup.formats.blocks import FRONT
    from neardup.formats.config import load_config
    from neardup.index.exchange import Export
    from neardup.options import Options
    from neardup.spec import Spec

    if path.suffix == ".toml":
        config = load_config(path)
        return Options.of(**config).spec
    try:
        with path.open("rb") as file:
            start = file.read(LARGEST)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}): check the file") from None
    if start.startswith(FRONT):
        return Export(path).settings.options.spec
    try:
        return Spec.from_json(start)
    except FormatError:
        raise UsageError(f"{path} has no specification: give {SIDE}") from None


spec = typer.Typer(
    invoke_without_command=True,
    cls=Group,
    epilog="Example: neardup spec --shingle char:24 --slots 260",
)
spec.command("diff", cls=Command, epilog="Example: neardup spec diff clean posts")(diff_specs)


@spec.callback()
@with_options("neardup spec")
def show_spec(
    context: typer.Context,
    key_file: KeyFile = None,
    as_json: Annotated[
        bool, flag("Print the canonical JSON; the fingerprint is its BLAKE2b.", "--json")
    ] = False,
    vectors: Annotated[
        Path | None,
        option(
            "DIR",
            "Write test vectors of the format instead, with the tables of characters: examples "
            "with their results, for implementations in other languages.",
            default="none",
        ),
    ] = None,
    check: Annotated[
        Path | None,
        option(
            "FILE",
            "Check a file of test vectors instead, of this or another implementation: the error "
            "names the first line and field that differs.",
            default="none",
        ),
    ] = None,
    **given: Any,
) -> None:
    """Show the specification and its fingerprint: what must agree for sketches to be compared.

    neardup spec diff A B compares two.
    """
    from neardup.options import specify

    if context.invoked_subcommand is not None:
        return
    if vectors is not None or check is not None:
        _write_or_check(vectors, check)
        return
    key = read_key(key_file)
    made = specify(key=key, **given)
    if as_json:
        print(made.canonical)
        return
    for name, value in made.stated.items():
        print(f"{name:12} {value}")
    print(f"{'fingerprint':12} {made.fingerprint}")


def _write_or_check(vectors: Path | None, check: Path | None) -> None:
    """Write test vectors into a folder, or check a file of them."""
    from neardup.errors import UsageError
    from neardup.protocol.checking import check_examples
    from neardup.protocol.files import write_examples

    if vectors is not None and check is not None:
        raise UsageError("--vectors writes and --check reads: give one of them")
    if vectors is not None:
        for path in write_examples(vectors):
            print(path)
    if check is not None:
        count = check_examples(check)
        print(f"{check}: {count:,} {'example agrees' if count == 1 else 'examples agree'}")
