"""The output folder OUT: check that a run may write there, and replace its content atomically.

A run writes to a hidden folder inside OUT, so that a full disk, a missing permission or an unusable
name is noticed at the beginning; when it is complete, its files are renamed to their places. If
anything fails, OUT is as it was. OUT is locked meanwhile: one run at a time.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from glob import glob
from pathlib import Path
from typing import Final

from neardup.corpus.inputs import InputFile
from neardup.errors import OutputError, OutputTaken, UsageError
from neardup.formats.blocks import sync_path
from neardup.formats.tables import write_error

RUN_FILE = "run.json"
OBEYED_FILE = "decisions.parquet"
"""The decisions of people that a run was given."""
# run.json is moved in last, and out first: if it exists, the other files are complete.
RUN_NAMES = (
    "kept",
    "removed.parquet",
    "clusters.parquet",
    "rejected.parquet",
    "pairs.parquet",
    "cut.parquet",
    "samples.parquet",
    "vetoed.parquet",
    "vetoed-samples.parquet",
    "decided.parquet",
    OBEYED_FILE,
    "report.html",
    "ignored-lines",
    "document-frequencies",
    "vector-centre",
    "sketches",
    RUN_FILE,
)
UNFINISHED = "unfinished"
WORK_FOLDER = f".{UNFINISHED}"
WORTH_KEEPING = ("shards/*", "sketches/*")
"""Patterns of files in WORK_FOLDER that the next run can use."""
OLD, REPLACED = "old", "replaced"
"""Folders in WORK_FOLDER: for the old run while it is moved away, and after that."""


def check_outside(path: Path, folders: Sequence[str]) -> None:
    """Refuse an output that is in an input folder."""
    place = path.resolve()
    for folder in folders:
        if place.is_relative_to(Path(folder).resolve()):
            raise UsageError(
                f"{path} is inside the input {folder}, where the next run would read it: "
                "choose an output outside of the input"
            )


def check_output(
    out: Path,
    inputs: Iterable[InputFile],
    folders: Sequence[str],
    against: Sequence[Path | str] = (),
) -> None:
    """Refuse an OUT that an input is in, or that is in an input folder; the same for `against`."""
    place = out.resolve()
    check_earlier(out, against)
    check_outside(out, folders)
    for file in inputs:
        if file.path.resolve().is_relative_to(place):
            raise UsageError(f"{file.name} is inside {out}: choose an output outside of the input")


def check_earlier(out: Path, against: Iterable[Path | str]) -> None:
    """Refuse an OUT that is, contains or is inside of a part of the earlier corpus.

    Args:
        out: A file or a folder to write.
        against: The earlier corpus: files, folders and globs; addresses are passed over.
    """
    place = out.resolve()
    for earlier in (one for one in against if isinstance(one, Path)):
        found = [earlier] if earlier.exists() else map(Path, glob(str(earlier), recursive=True))
        for other in (path.resolve() for path in found):
            if other.is_relative_to(place) or place.is_relative_to(other):
                raise UsageError(
                    f"{out} and --against {earlier} contain one another, and the earlier corpus is "
                    "never written: choose another output"
                )


@contextmanager
def output_folder(out: Path, force: bool, can_resume: bool = True) -> Iterator[Path]:
    """Yield a work folder; its content is moved to OUT if the block ends without an error.

    After an error the work folder stays if the next run can use it and `can_resume` is set.
    """
    place = out.resolve()
    work = place / WORK_FOLDER
    with _translate_write_errors(out):
        if not _is_half_moved(work):
            check_free(out, force)
    with create_folder(place, out), hold_lock(place, out):
        with _translate_write_errors(out):
            _undo_move(work, place)
            check_free(out, force)  # again, now with the lock: another run may have ended meanwhile
        with _work(work, out, can_resume):
            yield work
            with _translate_write_errors(out):
                _move_to_out(work, place)


@contextmanager
def working_folder(work: Path, out: Path, can_resume: bool) -> Iterator[Path]:
    """Yield the work folder of a run that writes one file, OUT; remove it at the end.

    After an error it stays if the next run can use it and `can_resume` is set.
    """
    with create_folder(work.parent, out):
        with _translate_write_errors(out):
            work.mkdir(mode=0o700, exist_ok=True)  # exists if a stopped run is resumed
        with hold_lock(work, out), _work(work, out, can_resume):
            yield work


def work_folder(out: Path) -> Path:
    """Return the work folder of a run that writes one file, OUT: hidden, beside it."""
    return out.with_name(f".{out.name}.{UNFINISHED}")


@contextmanager
def _work(work: Path, out: Path, can_resume: bool) -> Iterator[None]:
    """Make or clean the work folder; remove it at the end, unless a resumed run can use it.

    That of an interrupted run stays in any case: `neardup status` says that it was stopped.
    """
    with _translate_write_errors(out):
        work.mkdir(mode=0o700, exist_ok=True)  # exists if a stopped run is resumed
        _clean_work(work)
    try:
        yield
        _remove_quietly(work)
    except BaseException as error:
        is_stopped = isinstance(error, (KeyboardInterrupt, SystemExit))
        is_useful = is_stopped or any(any(work.glob(stage)) for stage in WORTH_KEEPING)
        if not can_resume or not is_useful:
            _remove_quietly(work)
        raise


@contextmanager
def _translate_write_errors(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise write_error(out, error) from None


FORCE: Final = "--force (in Python: force=True)"
"""How a finished run is replaced, in messages."""


def check_free(out: Path, force: bool) -> None:
    """Refuse an OUT that is a file, or that contains a finished run or files of other origin."""
    if not out.exists():
        return
    if not out.is_dir():
        raise OutputTaken(f"{out} is a file: choose a folder for the output")
    foreign = not is_run(out) and [name for name in RUN_NAMES if os.path.lexists(out / name)]
    if foreign:
        raise OutputTaken(
            f"{foreign[0]} in {out} does not belong to a finished run, and would be replaced: "
            "move it away, or choose another output"
        )
    if force:
        return
    if (out / RUN_FILE).exists():
        raise OutputTaken(f"{out} holds a finished run: choose another output, or use {FORCE}")
    existing = sorted(entry.name for entry in out.iterdir() if entry.name != WORK_FOLDER)
    if existing:
        raise OutputTaken(
            f"{out} is not empty ({', '.join(existing[:3])}): choose another output, or use "
            f"{FORCE}, which replaces the files of a run and leaves others alone"
        )


def is_run(out: Path) -> bool:
    """Whether OUT contains a finished run of neardup."""
    try:
        record = json.loads((out / RUN_FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    if not isinstance(record, dict) or not {"version", "fingerprint"} <= set(record):
        return False
    counts, spec = record.get("counts"), record.get("spec")
    needed = {"documents", "kept", "removed", "rejected"}
    return isinstance(spec, dict) and isinstance(counts, dict) and needed <= set(counts)


@contextmanager
def create_folder(folder: Path, out: Path) -> Iterator[None]:
    """Create a folder and its missing parents; remove them again if the block raises an error."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        with _translate_write_errors(out):
            folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for path in missing:
            with suppress(OSError):  # was not created, or is not empty any more
                path.rmdir()
        raise


@contextmanager
def hold_lock(folder: Path, out: Path) -> Iterator[None]:
    """Lock OUT for one run. The lock ends with the process, however that ends."""
    with _translate_write_errors(out):
        handle = os.open(folder, os.O_RDONLY)
    try:
        _lock(handle, out)
        yield
    finally:
        os.close(handle)


def is_locked(out: Path) -> bool:
    """Whether a run is writing to OUT now."""
    try:
        handle = os.open(out, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def _lock(handle: int, out: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OutputError(
            f"another run is writing to {out}: wait for it, or choose another output"
        ) from None
    except OSError:
        pass  # some network file systems have no locks: run without one


def _clean_work(work: Path) -> None:
    """Remove what a stopped run has left, except for the folders of its stages."""
    if (work / "sketches").is_dir() and not (work / "shards").exists():
        (work / "sketches").rename(work / "shards")  # the run was stopped while it saved them
    for path in work.iterdir():
        if path.name in (*RUN_NAMES, REPLACED) or not path.is_dir():
            discard(path)


def _move_to_out(work: Path, out: Path) -> None:
    """Replace the old run by the new one, by renaming; undo all of it if that fails."""
    old = work / OLD
    try:
        old.mkdir()
        for name in reversed(RUN_NAMES):
            if os.path.lexists(out / name):
                (out / name).rename(old / name)
        old.rename(work / REPLACED)
        for name in RUN_NAMES:
            if (work / name).exists():
                (work / name).rename(out / name)
    except BaseException:
        _undo_move(work, out)
        raise


def sync_output(work: Path) -> None:
    """Sync everything in a work folder that belongs into OUT to the disk, before it is moved."""
    with _translate_write_errors(work):
        for path in (work / name for name in RUN_NAMES):
            if path.is_file():
                sync_path(path)
            for folder, _, names in os.walk(path):
                for name in (*names, ""):  # the folder itself last
                    sync_path(Path(folder, name))


def _is_half_moved(work: Path) -> bool:
    return (work / OLD).exists() or (work / REPLACED).exists()


def _undo_move(work: Path, out: Path) -> None:
    """Undo an unfinished move of this run, or of one that was killed meanwhile."""
    old, replaced = work / OLD, work / REPLACED
    if replaced.exists() and not (out / RUN_FILE).exists():
        for name in reversed(RUN_NAMES):
            if os.path.lexists(out / name):
                (out / name).rename(work / name)
        replaced.rename(old)
    if old.exists():
        for name in RUN_NAMES:
            if os.path.lexists(old / name):
                (old / name).rename(out / name)
        discard(old)


def discard(path: Path) -> None:
    """Remove a file, or a folder with everything in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def copy_whole(source: Path, target: Path) -> None:
    """Copy a file, which exists under its new name only when it is complete."""
    beside = target.with_name(f".{target.name}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, beside)
        beside.replace(target)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise write_error(target, error) from None


def _remove_quietly(folder: Path) -> None:
    """Remove the folder, ignoring errors; the next run removes the rest."""
    shutil.rmtree(folder, ignore_errors=True)
