"""Runs over URLs: inputs are fetched to a local folder first, OUT is uploaded at the end.

A run reads its inputs up to three times and writes each kept row, so every object is read at least
once whatever is done: it is fetched once, and the run reads local files at their speed. The folder
is beside a local OUT (.NAME.fetched), else in the user's cache folder; it stays if the run is
stopped, and what it has is not fetched again. At the end the objects must be what they were.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from neardup.corpus.folders import UnreadFiles
from neardup.corpus.inputs import InputFile
from neardup.corpus.standard_input import DASH
from neardup.corpus.urls import SCHEMES, hide_secrets, is_url
from neardup.errors import NeardupError, OutputError, UsageError
from neardup.pipeline.job import Job
from neardup.pipeline.output import hold_lock, is_locked
from neardup.runtime import Progress, cache_home

if TYPE_CHECKING:  # a run over local files starts without them
    from neardup.pipeline.remote_inputs import Fetcher
    from neardup.pipeline.remote_output import RemoteOutput


@dataclass
class RemotePaths:
    """The paths of a run, with local ones in the place of URLs.

    out       the local OUT; None for standard output
    fetcher   of the URLs among the inputs; None without URLs
    upload    where OUT is uploaded to; None if it is local
    """

    inputs: list[str]
    out: str | None
    against: list[str]
    against_names: tuple[str, ...] = ()
    fetcher: Fetcher | None = None
    upload: RemoteOutput | None = None

    def add_earlier(self, addresses: Sequence[str]) -> None:
        """Add addresses of indexes to the earlier corpus, which are not fetched."""
        self.against += addresses
        if self.against_names:
            self.against_names += tuple(addresses)

    def name_files(self, job: Job) -> Job:
        """Return the job with its input files named by their URLs, and checked at the end."""
        if self.fetcher is None or not self.fetcher.names:
            return job
        check = self.fetcher.check
        named = [self._named(file) for file in job.inputs]
        make_report = job.finish

        def finish(folder: Path) -> None:
            check()  # before OUT is moved to its place
            make_report(folder)

        unread = UnreadFiles([(self._rename(name), why) for name, why in job.unread.entries])
        return replace(
            job,
            inputs=named,
            against_names=self.against_names,
            unread=unread,
            hints=tuple(map(self._rename, job.hints)),
            finish=finish,
        )

    def _rename(self, text: str) -> str:
        """Return a text with URLs in the place of the local files that they were fetched to."""
        names = {} if self.fetcher is None else self.fetcher.names
        for folder, url in names.items():
            text = text.replace(f"{folder}/", url)
        return text

    @contextmanager
    def name_errors(self) -> Iterator[None]:
        """Name URLs in errors, in the place of the local files that they were fetched to."""
        try:
            yield
        except NeardupError as error:
            error.args = (self._rename(str(error)), *error.args[1:])
            raise

    def report_page(self, job: Job) -> str | None:
        """Return where the report is, if there is one."""
        if self.upload is None or job.file is not None:
            return job.report_page
        return f"{self.upload.place.url.rstrip('/')}/report.html"

    def _named(self, file: InputFile) -> InputFile:
        return replace(file, name=self._rename(file.name))

    def deliver(self, progress: Progress) -> None:
        """Upload OUT, if it is remote."""
        if self.upload is not None and self.out is not None:
            try:
                self.upload.write(Path(self.out), progress)
            except OutputError as error:
                raise OutputError(f"{error}; the finished run is in {self.out}") from None


@contextmanager
def fetch_urls(
    inputs: Sequence[str | Path],
    out: str | Path | None,
    against: Sequence[str | Path],
    force: bool,
    progress: Progress,
) -> Iterator[RemotePaths]:
    """Fetch the URLs among the inputs and the earlier corpus; yield the paths to use.

    Args:
        inputs: Files, folders, globs, and URLs of objects, prefixes and globs.
        out: The output; may be a URL.
        against: The earlier corpus; may be URLs.
        force: Whether a finished run in a remote OUT is replaced.
        progress: Told what is fetched.
    """
    given = RemotePaths(
        [*map(str, inputs)], None if out is None else str(out), [*map(str, against)]
    )
    urls = [path for path in (*given.inputs, *given.against) if is_url(path)]
    remote_out = given.out is not None and is_url(given.out)
    if not urls and not remote_out:
        yield given
        return
    from neardup.pipeline.remote_inputs import Fetcher
    from neardup.pipeline.remote_output import RemoteOutput

    for url in (*urls, *([given.out or ""] if remote_out else [])):
        check_scheme(url)
    if remote_out and given.out is not None:
        given.upload = RemoteOutput.of(given.out, urls, force)
    with _local_folder(given.out) as folder:
        if given.upload is not None:
            given.out = str(folder / "out" / given.upload.name)
        given.against_names = tuple(hide_secrets(a) if is_url(a) else a for a in given.against)
        given.fetcher = fetcher = Fetcher(folder, progress)
        given.inputs = [fetcher.find(path) if is_url(path) else path for path in given.inputs]
        given.against = [fetcher.find(path) if is_url(path) else path for path in given.against]
        fetcher.run()
        with given.name_errors():
            yield given


def check_scheme(url: str) -> None:
    """Refuse a URL of a store that the local engine does not know."""
    scheme = url.partition(":")[0].lower()
    if scheme not in SCHEMES:
        raise UsageError(
            f"{hide_secrets(url)}: {scheme}:// is not read here: use --engine spark, a path, or "
            f"one of {', '.join(SCHEMES)}"
        )


@contextmanager
def _local_folder(out: str | None) -> Iterator[Path]:
    """Yield the folder for what is fetched; remove it at the end, but not after an error."""
    if out is None or out == DASH:
        with tempfile.TemporaryDirectory(prefix="neardup-") as temporary:
            yield Path(temporary)
        return
    if is_url(out):
        digest = hashlib.blake2b(hide_secrets(out).encode(), digest_size=16).hexdigest()
        folder = cache_home() / "remote" / digest
    else:
        place = Path(out).absolute()
        folder = place.with_name(f".{place.name}.fetched")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{folder} can't be made ({os.strerror(error.errno or 0)}): choose another output"
        ) from None
    with hold_lock(folder, Path(hide_secrets(out)) if is_url(out) else Path(out)):
        yield folder
        shutil.rmtree(folder, ignore_errors=True)


def fetched_folders() -> list[Path]:
    """Return the folders in the user's cache that stopped runs with a remote OUT have left."""
    return [path for path in sorted((cache_home() / "remote").glob("*")) if path.is_dir()]


def remove_fetched(older_than_days: float = 0) -> int:
    """Remove the folders of stopped runs, but not of those that are running; return how many."""
    latest = time.time() - older_than_days * 86_400
    old = [path for path in fetched_folders() if path.stat().st_mtime <= latest]
    removed = [path for path in old if not is_locked(path)]
    for path in removed:
        shutil.rmtree(path, ignore_errors=True)
    return len(removed)
