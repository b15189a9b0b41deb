"""neardup spec diff: may the sketches of two things be compared, and if not, what can be done?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from neardup.spec import Spec

SIDE = "a specification as JSON, a run, saved sketches, an index or its export, or a config file"
LARGEST: Final = 1 << 20

MEANING: Final = {
    "profile": "words are written differently before they are hashed",
    "unit": "shingles are of other things",
    "size": "shingles have other lengths",
    "hash": "words are hashed by another function",
    "seed": "all hashes are others",
    "sketch": "signatures are of another kind",
    "family": "slots are made in another way",
    "slots": "signatures have other lengths",
    "bits": "other parts of the slots are stored",
    "unicode": "texts are normalised by other tables",
    "version": "the rules of the format are others",
    "strip": "other parts of a text are compared",
    "ignored": "other lines are ignored",
    "key": "words are hashed with another key",
    "weights": "shingles weigh something else",
}
"""What it means that a field differs."""


def diff(
    a: Annotated[Path, typer.Argument(metavar="A", help=SIDE, show_default=False)],
    b: Annotated[Path, typer.Argument(metavar="B", help="The same.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what differs between two specifications, and what can be done about it.

    Exit code 0 if they are equal, 1 if not.
    """
    import json
    from dataclasses import asdict

    one, other = spec_of(a), spec_of(b)
    mine, theirs = asdict(one), asdict(other)
    differing = [name for name in mine if mine[name] != theirs[name]]
    cure = what_to_do(one, other, differing, a, b)
    if as_json:
        fields = {
            name: {"a": mine[name], "b": theirs[name], "meaning": MEANING[name]}
            for name in differing
        }
        print(
            json.dumps(
                {
                    "a": one.fingerprint,
                    "b": other.fingerprint,
                    "equal": not differing,
                    "differences": fields,
                    "cure": cure,
                },
                indent=2,
            )
        )
    else:
        for side, spec in ((a, one), (b, other)):
            print(f"{spec.fingerprint}  {side}")
        for name in differing:
            print(f"{name:12}{_shown(mine[name])} against {_shown(theirs[name])}: {MEANING[name]}")
        print(cure)
    if differing:
        raise typer.Exit(1)


def what_to_do(one: Spec, other: Spec, differing: list[str], a: Path, b: Path) -> str:
    """How both sides can be brought together."""
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
            "not comparable: an index goes over to another key from its texts, with neardup index "
            "reindex; anything else is sketched again"
        )
    return (
        "not comparable: one side is sketched again from its texts; an index with neardup index "
        "reindex, a run by running it again"
    )


def _shown(value: object) -> str:
    return "nothing" if value == "" else str(value)


def spec_of(path: Path) -> Spec:
    """The specification of whatever is there."""
    from neardup.errors import UsageError

    if not path.exists():
        raise UsageError(f"{path}: no such file or folder: give {SIDE}")
    return _of_folder(path) if path.is_dir() else _of_file(path)


def _of_folder(path: Path) -> Spec:
    import json

    from neardup.errors import UsageError
    from neardup.index import folder
    from neardup.index.settings import Settings
    from neardup.index.store import Store
    from neardup.pipeline.output import RUN, is_run
    from neardup.pipeline.saved import SET, SketchSet, sketch_folder
    from neardup.spec import Spec

    if (path / folder.LISTED).exists() and (listed := folder.generations(path)) is not None:
        file = path / listed.current / folder.STORE
        store = Store(file, read_only=True)
        try:
            return Settings.of_stored(store.meta(), str(file)).options.spec
        finally:
            store.close()
    if (sketch_folder(path) / SET).exists():
        return SketchSet.open(sketch_folder(path)).spec
    if is_run(path):
        stated = json.loads((path / RUN).read_bytes())["spec"]
        if "by" not in stated:  # a run of neardup exact has no sketches
            return Spec.from_json(json.dumps(stated))
    raise UsageError(f"{path} has no specification: give {SIDE}")


def _of_file(path: Path) -> Spec:
    from neardup.errors import FormatError, InputError, UsageError
    from neardup.formats.blocks import FRONT
    from neardup.formats.config import load_config
    from neardup.index.filling.exchange import Export
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
