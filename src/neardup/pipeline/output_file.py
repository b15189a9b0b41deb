"""One file as the output, or standard output: the kept rows; the rest of a run on request.

The run works in a hidden folder beside the file (.NAME.unfinished; for standard output, a temporary
folder), so that a stopped run can be resumed. When everything is complete, the files are renamed to
their places, the kept rows last. Nothing is written to standard output before that, so a run
that fails writes nothing.
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

import orjson
import pyarrow.parquet as pq

from neardup.corpus.conversion import COLUMNAR
from neardup.corpus.inputs import InputFile
from neardup.corpus.one_file import JOINABLE, KeptFile, format_of_name
from neardup.corpus.standard_input import DASH
from neardup.corpus.urls import is_url
from neardup.errors import OutputClosed, OutputError, OutputTaken, UsageError
from neardup.formats.tables import write_error
from neardup.pipeline.output import FORCE, check_earlier, discard, work_folder, working_folder

KEPT = "kept"
REMOVED_ENDINGS = (".parquet", ".jsonl")


@dataclass(frozen=True)
class OutputFile:
    """Where the kept rows go, and what else of the run is written.

    path     the file for the kept rows; None for standard output
    removed  the file for the table of removed documents, .parquet or .jsonl; None for none
    report   the file for the report page; None for none
    """

    path: Path | None
    removed: Path | None = None
    report: Path | None = None

    def __post_init__(self) -> None:
        if self.removed is not None and self.removed.suffix.lower() not in REMOVED_ENDINGS:
            raise UsageError(
                f"--removed {self.removed}: choose a name that ends in .parquet or .jsonl"
            )
        paths = [path.resolve() for path in self.paths]
        if len(set(paths)) < len(paths):
            raise UsageError("-o, --removed and --report name the same file: choose other names")

    @property
    def paths(self) -> list[Path]:
        """All files to write."""
        return [path for path in (self.removed, self.report, self.path) if path is not None]

    def check(
        self,
        inputs: Iterable[InputFile],
        folders: Sequence[str],
        force: bool,
        against: Sequence[Path] = (),
    ) -> None:
        """Refuse files that exist, unless `force` is set; and those of the inputs or `against`."""
        for path in self.paths:
            place = path.resolve()
            check_earlier(path, against)
            for folder in folders:
                if place.is_relative_to(Path(folder).resolve()):
                    raise UsageError(
                        f"{path} is inside the input {folder}, where the next run would read it: "
                        "choose an output outside of the input"
                    )
            if any(file.path.resolve() == place for file in inputs):
                raise UsageError(f"{path} is an input: choose another output")
            if path.is_dir():
                raise OutputTaken(f"{path} is a folder: choose another name")
            if path.exists() and not force:
                raise OutputTaken(f"{path} exists: choose another output, or use {FORCE}")

    def choose_format(self, inputs: Sequence[InputFile]) -> KeptFile:
        """Return the format of the kept rows: by the file's ending, or that of the inputs."""
        formats = {file.format for file in inputs}
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
            table = work / "removed.parquet"
            if self.removed.suffix.lower() == ".jsonl":
                table = _to_jsonl(table)
            _move(table, self.removed)
        if self.report is not None:
            _move(work / "report.html", self.report)
        if self.path is not None:
            _move(work / KEPT / kept, self.path)
        else:
            _copy_to_standard_output(work / KEPT / kept)


def choose_output(
    out: str | Path, removed: str | Path | None = None, report: str | Path | None = None
) -> OutputFile | None:
    """Return the file, or standard output, that OUT names; None if it names a folder.

    Args:
        out: A folder, a file by its ending, or - for standard output.
        removed: The file for the table of removed documents, if OUT is a file.
        report: The file for the report page, if OUT is a file.
    """
    if str(out) != DASH and format_of_name(Path(out).name)[0] is None:
        for option, value, name in (
            ("--removed", removed, "removed.parquet"),
            ("--report", report, "report.html"),
        ):
            if value is not None:
                raise UsageError(
                    f"{option} is for one file as the output; the folder {out} has {name}: "
                    f"leave out {option}"
                )
        return None
    for option, value in (("--removed", removed), ("--report", report)):
        if value is not None and is_url(value):
            raise UsageError(
                f"{option} is written to a local file: choose a path, or a folder for -o"
            )
    places = (None if path is None else Path(path) for path in (removed, report))
    return OutputFile(None if str(out) == DASH else Path(out), *places)


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


def _to_jsonl(table: Path) -> Path:
    """Write a Parquet table as JSON lines beside it; return the path."""
    lines = table.with_suffix(".jsonl")
    with open(lines, "wb") as file, pq.ParquetFile(table) as source:
        for batch in source.iter_batches(use_threads=False):
            rows = batch.to_pylist()
            file.writelines(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
    return lines


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
