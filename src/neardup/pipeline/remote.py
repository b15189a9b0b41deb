"""Runs over URLs: inputs are fetched to a local folder first, OUT is uploaded at the end.

A run reads its inputs up to three times and writes each kept row, so every object is read at least
once whatever is done: it is fetched once, in ranges by several threads, and the run reads local
files at their speed. The folder is beside a local OUT (.NAME.fetched), else in the user's cache
folder; it stays if the run is stopped, and what it has is not fetched again. At the end the
objects must be what they were. Of a remote OUT, run.json is uploaded last: without it, a run is
incomplete.
"""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from neardup.corpus.folders import UnreadFiles
from neardup.corpus.inputs import InputFile
from neardup.corpus.one_file import format_of_name
from neardup.corpus.standard_input import DASH
from neardup.corpus.storage import BLOCK, Remote, StoredObject, open_remote
from neardup.corpus.streams import changed_error
from neardup.corpus.urls import READ_ONLY, SCHEMES, hide_secrets, is_url
from neardup.errors import InputError, NeardupError, OutputError, UsageError
from neardup.formatting import format_bytes
from neardup.pipeline.job import Job
from neardup.pipeline.output import RUN_FILE, RUN_NAMES, hold_lock, is_locked
from neardup.runtime import Progress, cache_home

THREADS = 8
MARKER = ".unfinished"


@dataclass
class RemotePaths:
    """The paths of a run, with local ones in the place of URLs.

    out       the local OUT; None for standard output
    names     the local folder of each fetched URL, and the URL that its files are named by
    fetched   the objects that were fetched, to see at the end whether they have changed
    upload    where OUT is uploaded to; None if it is local
    """

    inputs: list[str]
    out: str | None
    against: list[str]
    against_names: tuple[str, ...] = ()
    names: dict[Path, str] = field(default_factory=dict)
    fetched: list[tuple[Remote, list[StoredObject]]] = field(default_factory=list)
    upload: RemoteOutput | None = None

    def name_files(self, job: Job) -> Job:
        """Return the job with its input files named by their URLs, and checked at the end."""
        if not self.names:
            return job
        named = [self._named(file) for file in job.inputs]
        make_report = job.finish

        def finish(folder: Path) -> None:
            self.check()  # before OUT is moved to its place
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
        for folder, url in self.names.items():
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

    def check(self) -> None:
        """Raise `InputError` if a fetched object has changed since, or is gone."""
        for remote, objects in self.fetched:
            now = {one.path: one for one in _list(remote)}
            for one in objects:
                if now.get(one.path) != one:
                    raise changed_error(_named_object(remote, one))

    def deliver(self, progress: Progress) -> None:
        """Upload OUT, if it is remote."""
        if self.upload is not None and self.out is not None:
            try:
                self.upload.write(Path(self.out), progress)
            except OutputError as error:
                raise OutputError(f"{error}; the finished run is in {self.out}") from None


def _named_object(remote: Remote, one: StoredObject) -> InputFile:
    """Return an object of a URL as a file that errors can name."""
    fixed, _ = _split_glob(remote)
    name = fixed.url.rstrip("/") + one.path[len(fixed.path.rstrip("/")) :]
    return InputFile(Path(one.path), remote.url if remote.family == "http" else name, "", "", None)


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
    for url in (*urls, *([given.out or ""] if remote_out else [])):
        check_scheme(url)
    if remote_out and given.out is not None:
        given.upload = RemoteOutput.of(given.out, urls, force)
    with _local_folder(given.out) as folder:
        if given.upload is not None:
            given.out = str(folder / "out" / given.upload.name)
        given.against_names = tuple(hide_secrets(a) if is_url(a) else a for a in given.against)
        fetcher = _Fetcher(folder, given, progress)
        given.inputs = [fetcher.fetch(path) if is_url(path) else path for path in given.inputs]
        given.against = [fetcher.fetch(path) if is_url(path) else path for path in given.against]
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


class _Fetcher:
    """Fetches the objects of URLs to folders, several parts at a time."""

    def __init__(self, folder: Path, given: RemotePaths, progress: Progress) -> None:
        self._folder, self._given, self._progress = folder, given, progress
        self._tasks: dict[Path, _FetchedObject] = {}  # a URL that is given twice is fetched once

    def fetch(self, url: str) -> str:
        """Find the objects of a URL; return the local path or glob that will have them."""
        whole = open_remote(url)
        # With the query, which may be all that tells two files of a web server apart.
        digest = hashlib.blake2b(url.encode(), digest_size=8).hexdigest()
        base = self._folder / digest
        fixed, pattern = _split_glob(whole)
        objects = _list(whole)
        if not objects:
            missing = "no object matches" if pattern else "no such object or prefix"
            raise InputError(f"{whole.url}: {missing}: check the URL", whole.url)
        self._given.fetched.append((whole, objects))
        if pattern:
            local, root, url_root = f"{glob.escape(str(base))}/{pattern}", base, fixed.url + "/"
            names = [one.path[len(fixed.path) + 1 :] for one in objects]
        else:
            parent, _, last = whole.url.rstrip("/").rpartition("/")
            local, root, url_root = str(base / last), base, parent + "/"
            start = len(whole.path)
            names = [last + one.path[start:] if whole.family != "http" else last for one in objects]
        self._given.names[root] = url_root
        for one, name in zip(objects, names, strict=True):
            path = base / _check_name(whole, name)
            self._tasks[path] = _FetchedObject(whole, one, path, self._folder / "incomplete")
        return local

    def run(self) -> None:
        """Fetch everything that is not there yet."""
        missing = [task for task in self._tasks.values() if not task.is_there]
        total = sum(task.found.size for task in missing)
        free = shutil.disk_usage(self._folder).free
        if total > free:
            raise OutputError(
                f"{self._folder}: the inputs need {format_bytes(total)} of disk space, "
                f"{format_bytes(free)} are free: choose another output, or set XDG_CACHE_HOME or "
                "TMPDIR to a folder with room"
            )
        self._progress.stage("fetching", total, "bytes")
        pool = ThreadPoolExecutor(THREADS)
        try:
            begun = [(task, task.begin(pool)) for task in missing]
            for task, parts in begun:
                for part in parts:
                    self._progress.advance(part.result())
                task.finish()
        finally:
            pool.shutdown(cancel_futures=True)


class _FetchedObject:
    """An object, and the local file that it is fetched to.

    The file gets its name when it is complete, and a time of change made of the object's stamp, so
    that an object that has changed is a changed file.
    """

    def __init__(self, remote: Remote, found: StoredObject, path: Path, incomplete: Path) -> None:
        self.found, self._path = found, path
        self._remote = replace(remote, path=found.path, url=_named_object(remote, found).name)
        # Not beside it, where another object may have that name.
        digest = hashlib.blake2b(os.fsencode(path), digest_size=16).hexdigest()
        self._incomplete = incomplete / digest
        stamp = f"{found.path} {found.size} {found.stamp}".encode()
        self._time = int.from_bytes(hashlib.blake2b(stamp, digest_size=8).digest(), "big") >> 4
        self._lock = threading.Lock()
        self._reader: Callable[[int, int], bytes] | None = None

    @property
    def is_there(self) -> bool:
        """Whether the file is complete already."""
        with suppress(OSError):
            status = os.stat(self._path)
            return (status.st_size, status.st_mtime_ns) == (self.found.size, self._time)
        return False

    def begin(self, pool: ThreadPoolExecutor) -> list[Future[int]]:
        """Start to fetch the parts; the results are their bytes."""
        starts = range(0, self.found.size, BLOCK)
        with _name_write_errors(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._incomplete.parent.mkdir(exist_ok=True)
            with open(self._incomplete, "wb") as file:
                file.truncate(self.found.size)
        if not self.found.ranged:
            return [pool.submit(lambda: sum(map(self._fetch, starts)))]
        return [pool.submit(self._fetch, start) for start in starts]

    def _fetch(self, start: int) -> int:
        length = min(BLOCK, self.found.size - start)
        data = self._remote.retry(lambda: self._read(start, length))
        with _name_write_errors(self._path):
            handle = os.open(self._incomplete, os.O_WRONLY)
            try:
                view = memoryview(data)
                while view:
                    written = os.pwrite(handle, view, start + length - len(view))
                    view = view[written:]
            finally:
                os.close(handle)
        return length

    def _read(self, start: int, length: int) -> bytes:
        with self._lock:
            if self._reader is None:
                self._reader = self._remote.store.open(self.found)
        data = self._reader(start, length)
        if len(data) != length:
            raise ConnectionError(f"{len(data)} of {length} bytes")
        return data

    def finish(self) -> None:
        """Give the file its name, if the object has not changed while it was fetched."""
        if self.found.size > BLOCK and self._remote.find() != self.found:
            raise changed_error(_named_object(self._remote, self.found))
        self._reader = None
        with _name_write_errors(self._path):
            os.utime(self._incomplete, ns=(self._time, self._time))
            self._incomplete.replace(self._path)


@contextmanager
def _name_write_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise OutputError(
            f"{path.parent} can't be written ({why}): make room, or choose another output"
        ) from None


def _list(remote: Remote) -> list[StoredObject]:
    """Return the objects that a URL names: one, all below a prefix, or those of a glob."""
    fixed, pattern = _split_glob(remote)
    if pattern:
        start = len(fixed.path) + 1
        return [one for one in fixed.below() if _matches(one.path[start:], pattern)]
    found = None if remote.path.endswith("/") else remote.find()
    return remote.below() if found is None else [found]


def _split_glob(remote: Remote) -> tuple[Remote, str]:
    """Return the place before the first part of a glob, and the rest; "" if it is no glob."""
    if remote.family == "http" or not glob.has_magic(remote.path):
        return remote, ""
    parts = remote.path.split("/")
    first = next(place for place, part in enumerate(parts) if glob.has_magic(part))
    pattern = "/".join(parts[first:])
    cut = len(pattern) + 1
    if first == 0:
        raise UsageError(f"{remote.url}: a bucket can't be a pattern: name one")
    return replace(remote, path=remote.path[:-cut], url=remote.url.rstrip("/")[:-cut]), pattern


def _matches(name: str, pattern: str) -> bool:
    """Return whether a name matches a glob, in which * stays within a folder and ** does not."""
    parts = pattern.split("/")
    expression = ""
    for place, part in enumerate(parts):
        last = place == len(parts) - 1
        if part == "**":
            expression += ".*" if last else "(?:[^/]+/)*"
        else:
            one = fnmatch.translate(part).replace(".*", "[^/]*").replace("(?s:.)", "[^/]")
            expression += re.sub(r"^\(\?s:(.*)\)\\[zZ]$", r"\1", one) + ("" if last else "/")
    return re.fullmatch(expression, name, re.DOTALL) is not None


def _check_name(remote: Remote, name: str) -> str:
    """Refuse names of objects that can't be names of files below a folder."""
    parts = name.split("/")
    if "\0" in name or any(part in ("", ".", "..") or len(part.encode()) > 250 for part in parts):
        raise InputError(
            f"{remote.url}: the name of an object below it can't be that of a file: give the other "
            "objects by a glob",
            remote.url,
        )
    return name


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
                raise OutputError(f"{url} exists: choose another output, or use --force")
        else:
            names = self._names()
            if RUN_FILE in names and not force:
                raise OutputError(
                    f"{url} holds a finished run: choose another output, or use --force"
                )
            others = sorted(names - {MARKER})
            if others and RUN_FILE not in names and not force:
                raise OutputError(
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
