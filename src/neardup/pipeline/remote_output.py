"""A remote OUT: checked before the run, uploaded after it; run.json is last.

Without run.json, a run is incomplete.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from neardup.corpus.object_store import Remote
from neardup.corpus.one_file import format_of_name
from neardup.corpus.storage import open_remote
from neardup.corpus.urls import READ_ONLY, hide_secrets
from neardup.errors import OutputError, OutputTaken, UsageError
from neardup.pipeline.output import RUN_FILE, RUN_NAMES
from neardup.runtime import Progress

MARKER = ".unfinished"


@dataclass(frozen=True)
class RemoteOutput:
    """A remote OUT: one object, or a prefix that gets the files of a run."""

    place: Remote
    is_file: bool

    @classmethod
    def of(cls, url: str, others: Sequence[str], force: bool) -> RemoteOutput:
        """Check that a run may be written there: nothing else is, and it is no input."""
        name = hide_secrets(url).rstrip("/")
        if name.partition(":")[0] in READ_ONLY:
            raise UsageError(f"{name} is only read: choose a local output, or another store")
        for other in map(hide_secrets, others):
            inner, outer = sorted((other.rstrip("/") + "/", name + "/"), key=len, reverse=True)
            if inner.startswith(outer):
                raise UsageError(
                    f"{name} and the input {other} contain one another: choose another output"
                )
        out = cls(open_remote(url), format_of_name(name.rpartition("/")[2])[0] is not None)
        out._check_free(force)
        return out

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return self.place.url.rstrip("/").rpartition("/")[2]

    def _check_free(self, force: bool) -> None:
        url = self.place.url
        if self.is_file:
            if self.place.find() is not None and not force:
                raise OutputTaken(f"{url} exists: choose another output, or use --force")
        else:
            names = self._names()
            if RUN_FILE in names and not force:
                raise OutputTaken(
                    f"{url} holds a finished run: choose another output, or use --force"
                )
            others = sorted(names - {MARKER})
            if others and RUN_FILE not in names and not force:
                raise OutputTaken(
                    f"{url} is not empty ({', '.join(others[:3])}): choose another output, or use "
                    "--force, which replaces the files of a run and leaves others alone"
                )
            # Whether this may be written should be known before the run, not after hours.
            with tempfile.NamedTemporaryFile() as empty:
                self.place.upload(Path(empty.name), MARKER)

    def _names(self) -> set[str]:
        start = len(self.place.path.rstrip("/")) + 1
        return {one.path[start:] for one in self.place.below()}

    def write(self, out: Path, progress: Progress) -> None:
        """Upload a finished OUT; run.json last, after all that an older run had there is gone."""
        files = [out] if self.is_file else sorted(_files_of(out))
        progress.stage("uploading", sum(file.stat().st_size for file in files), "bytes")
        if self.is_file:
            self.place.upload(out)
            return
        names = {file.relative_to(out).as_posix(): file for file in files}
        old = {name for name in self._names() if name.partition("/")[0] in RUN_NAMES}
        if RUN_FILE in old:
            self.place.remove(RUN_FILE)
        for name in old - {RUN_FILE} - names.keys():
            self.place.remove(name)
        for name in sorted(names, key=lambda name: name == RUN_FILE):
            self.place.upload(names[name], name)
            progress.advance(names[name].stat().st_size)
        with suppress(OutputError):
            self.place.remove(MARKER)


def _files_of(out: Path) -> Iterator[Path]:
    return (path for path in out.rglob("*") if path.is_file())
