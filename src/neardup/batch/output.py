"""OUT: whether a run may write there, and the files that it consists of.

A run is made in a hidden folder beside its final place and moved there when it is complete, so
OUT never holds half a run.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from neardup.corpus.inputs import InputFile
from neardup.errors import OutputError, UsageError
from neardup.formats.tables import no_room

RUN = "run.json"
NAMES = ("kept", "removed.parquet", "clusters.parquet", "rejected.parquet", "pairs.parquet", RUN)


def check_output(out: Path, inputs: list[InputFile], force: bool) -> None:
    """Refuse an OUT that holds a finished run, something foreign, or an input."""
    if out.exists() and not out.is_dir():
        raise OutputError(f"{out} is a file: choose a folder for the output")
    place = out.resolve()
    for file in inputs:
        if file.path.resolve().is_relative_to(place):
            raise UsageError(f"{file.name} is inside {out}: choose an output outside of the input")
    if force or not out.exists():
        return
    if (out / RUN).exists():
        raise OutputError(f"{out} holds a finished run: choose another output, or use --force")
    there = sorted(entry.name for entry in out.iterdir())
    if there:
        some = ", ".join(there[:3])
        raise OutputError(
            f"{out} is not empty ({some}): choose another output, or use --force, which replaces "
            "the files of a run and leaves others alone"
        )


@contextmanager
def made_beside(out: Path) -> Iterator[Path]:
    """A folder to make the run in; its content is moved to OUT if nothing goes wrong."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{out.name[:100]}.", dir=out.parent))
    except OSError as error:
        raise no_room(out, error) from None
    try:
        yield beside
        _move(beside, out)
    except OSError as error:
        raise no_room(out, error) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _move(beside: Path, out: Path) -> None:
    umask = os.umask(0)
    os.umask(umask)
    out.mkdir(exist_ok=True)
    # run.json goes first and comes back last: while it is there, the rest is complete.
    for name in reversed(NAMES):
        old = out / name
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old)
        else:
            old.unlink(missing_ok=True)
    for name in NAMES:
        if (beside / name).exists():
            (beside / name).rename(out / name)
