"""One file as the output, or standard output: the kept rows; the rest of a run on request.

The run works in a hidden folder beside the file (.NAME.unfinished; for standard output, a temporary
folder), so that a stopped run can be resumed. When everything is complete, the files are renamed to
their places, the kept rows last. Nothing is written to standard output before that, so a run
that fails writes nothing. The list of removed documents can be asked for beside a folder, too.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow.csv
import pyarrow.parquet as pq

from neardup.corpus.conversion import COLUMNAR
from neardup.corpus.inputs import InputFile
from neardup.corpus.one_file import JOINABLE, KeptFile, format_of_name
from neardup.corpus.standard_input import DASH
from neardup.corpus.urls import is_url
from neardup.errors import OutputClosed, OutputError, OutputTaken, UsageError
from neardup.formats.tables import write_error
from neardup.pipeline.output import (
    FORCE,
    RUN_NAMES,
    WORK_FOLDER,
    check_earlier,
    check_outside,
    discard,
    work_folder,
    working_folder,
)

KEPT, REMOVED_TABLE = "kept", "removed.parquet"
REMOVED_ENDINGS = (".parquet", ".jsonl", ".csv")


@dataclass(frozen=True)
class RemovedList:
    """A file with the table of removed documents: .parquet, .jsonl or .csv."""

    path: Path

    def __post_init__(self) -> None:
        if self.path.suffix.lower() not in REMOVED_ENDINGS:
            raise UsageError(
                f"--removed {self.path}: choose a name that ends in .parquet, .jsonl or .csv"
            )

    def check_beside(self, out: Path) -> None:
        """Refuse the name of a file or folder of a run that writes the folder OUT."""
        place, folder = self.path.resolve(), out.resolve()
        inside = place.relative_to(folder).parts if place.is_relative_to(folder) else ()
        if place == folder or (inside and inside[0] in (*RUN_NAMES, WORK_FOLDER)):
            raise UsageError(f"--removed {self.path} is a name of the run's own: choose another")

    def write(self, work: Path) -> None:
        """Write the list of a finished work folder; its table stays there."""
        ending = self.path.suffix.lower()
        listed = work / f".removed{ending}"
        try:
            with open(listed, "wb") as file, pq.ParquetFile(work / REMOVED_TABLE) as source:
                if ending == ".parquet":
                    with open(work / REMOVED_TABLE, "rb") as table:
                        shutil.copyfileobj(table, file, 1 << 20)
                elif ending == ".csv":
                    with pyarrow.csv.CSVWriter(file, source.schema_arrow) as writer:
                        for batch in source.iter_batches(use_threads=False):
                            writer.write_batch(batch)
                else:
                    for batch in source.iter_batches(use_threads=False):
                        file.writelines(map(_dump_line, batch.to_pylist()))
        except OSError as error:
            raise write_error(self.path, error) from None
        _move(listed, self.path)


def _dump_line(row: dict[str, Any]) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)


@dataclass(frozen=True)
class OutputFile:
    """Where the kept rows go, and what else of the run is written.

    path     the file for the kept rows; None for standard output
    removed  the list of removed documents; None for none
    report   the file for the report page; None for none
    """

    path: Path | None
    removed: RemovedList | None = None
    report: Path | None = None

    def __post_init__(self) -> None:
        paths = [path.resolve() for path in self.paths]
        if len(set(paths)) < len(paths):
            raise UsageError("-o, --removed and --report name the same file: choose other names")

    @property
    def paths(self) -> list[Path]:
        """All files to write."""
        removed = None if self.removed is None else self.removed.path
        return [path for path in (removed, self.report, self.path) if path is not None]

    def check(
        self,
        inputs: Iterable[InputFile],
        folders: Sequence[str],
        force: bool,
        against: Sequence[Path | str] = (),
    ) -> None:
        """Refuse files that exist, unless `force` is set; and those of the inputs or `against`."""
        for path in self.paths:
            check_file(path, inputs, folders, force, against)

    def choose_format(self, inputs: Sequence[InputFile]) -> KeptFile:
        """Return the format of the kept rows: by the file's ending, or that of the inputs."""
        # What is around the list of --records belongs to no row.
        formats = {"jsonl" if file.records else file.format for file in inputs}
        if self.path is None:
            (only,) = formats if len(formats) == 1 else ("jsonl",)
            chosen = KeptFile("stdout", only if only in JOINABLE else "jsonl")
            if chosen.format in COLUMNAR and sys.stdout.isatty():
                raise UsageError(
                    f"{chosen.format} is not for a terminal: redirect standard output, or "
                    "choose a file by -o"
                )
            return chosen
        format, compression = format_of_name(self.path.name)
        if self.path.suffix == ".arrows" or (format == "arrow" and formats == {"arrow-stream"}):
            format = "arrow-stream"
        if format == "text" and formats == {"lines"}:
            format = "lines"
        if format is None or format not in JOINABLE:
            raise UsageError(
                f"{self.path}: rows can't be written as {format}: choose .jsonl or .parquet, or a "
                "folder (a name without an ending)"
            )
        return KeptFile(self.path.name, format, compression)

    def deliver(self, work: Path, kept: str) -> None:
        """Move the finished files to their places, the kept rows last."""
        if self.removed is not None:
            self.removed.write(work)
        if self.report is not None:
            _move(work / "report.html", self.report)
        if self.path is not None:
            _move(work / KEPT / kept, self.path)
        else:
            _copy_to_standard_output(work / KEPT / kept)


def check_file(
    path: Path,
    inputs: Iterable[InputFile],
    folders: Sequence[str],
    force: bool,
    against: Sequence[Path | str] = (),
) -> None:
    """Refuse a file to write that exists, unless `force` is set, or that a run reads.

    Args:
        path: The file.
        inputs: The input files.
        folders: The input folders.
        force: Whether a file that exists is replaced.
        against: The earlier corpus: files, folders and globs.
    """
    place = path.resolve()
    check_earlier(path, against)
    check_outside(path, folders)
    if any(file.path.resolve() == place for file in inputs):
        raise UsageError(f"{path} is an input: choose another output")
    if path.is_dir():
        raise OutputTaken(f"{path} is a folder: choose another name")
    if path.exists() and not force:
        raise OutputTaken(f"{path} exists: choose another output, or use {FORCE}")


def choose_output(
    out: str | Path, removed: RemovedList | None = None, report: str | Path | None = None
) -> OutputFile | None:
    """Return the file, or standard output, that OUT names; None if it names a folder.

    Args:
        out: A folder, a file by its ending, or - for standard output.
        removed: The list of removed documents.
        report: The file for the report page, if OUT is a file.
    """
    if str(out) != DASH and format_of_name(Path(out).name)[0] is None:
        if report is not None:
            raise UsageError(
                f"--report is for one file as the output; the folder {out} has report.html: "
                "leave out --report"
            )
        return None
    page = None if report is None else Path(_local("--report", report))
    return OutputFile(None if str(out) == DASH else Path(out), removed, page)


def choose_removed(removed: str | Path | None) -> RemovedList | None:
    """Return the list of removed documents that is asked for, if any.

    Args:
        removed: The file for it.
    """
    return None if removed is None else RemovedList(Path(_local("--removed", removed)))


def _local(option: str, path: str | Path) -> str | Path:
    if is_url(path):
        raise UsageError(f"{option} is written to a local file: choose a path, or a folder for -o")
    return path


@contextmanager
def output_file(out: OutputFile, force: bool, can_resume: bool) -> Iterator[Path]:
    """Yield a work folder, whose content the caller then delivers; remove it at the end.

    After an error it stays if a resumed run can use it.
    """
    if out.path is None:
        with tempfile.TemporaryDirectory(prefix="neardup-") as folder:
            yield Path(folder)
        return
    with working_folder(work_folder(out.path), out.path, can_resume) as work:
        out.check((), (), force)  # again, now with the lock
        yield work


def _move(source: Path, destination: Path) -> None:
    """Rename a file, or copy it if it goes to another file system; never half."""
    beside = destination.with_name(f".{destination.name}.{os.getpid()}.tmp")
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.replace(source, destination)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            try:
                shutil.copyfile(source, beside)
                os.replace(beside, destination)
            finally:
                discard(beside)
    except OSError as error:
        raise write_error(destination, error) from None


def _copy_to_standard_output(path: Path) -> None:
    target = sys.stdout.buffer
    try:
        with open(path, "rb") as source:
            shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
    except BrokenPipeError:
        raise OutputClosed("the reader of standard output is gone") from None
    except OSError as error:
        raise OutputError(
            f"standard output can't be written ({os.strerror(error.errno or 0)}): make room, or "
            "choose another output"
        ) from None
