"""Inputs that are URLs: found in their stores and fetched to local files.

Every object is fetched once, in ranges by several threads. What is there already is not fetched
again.
"""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from neardup.corpus.inputs import InputFile
from neardup.corpus.object_store import BLOCK, ExpiredError, Remote, StoredObject
from neardup.corpus.storage import open_remote
from neardup.corpus.streams import changed_error
from neardup.corpus.urls import without_signature
from neardup.errors import InputError, MissingInput, OutputError, UsageError
from neardup.formatting import format_bytes
from neardup.runtime import Progress

THREADS = 8


class Fetcher:
    """Fetches the objects of URLs to folders, several parts at a time.

    names   the local folder of each URL, and the URL that its files are named by
    """

    def __init__(self, folder: Path, progress: Progress) -> None:
        self._folder, self._progress = folder, progress
        self._tasks: dict[Path, _FetchedObject] = {}  # a URL that is given twice is fetched once
        self._found: list[tuple[Remote, list[StoredObject]]] = []
        self.names: dict[Path, str] = {}

    def find(self, url: str) -> str:
        """Find the objects of a URL; return the local path or glob that will have them."""
        whole = open_remote(url)
        # With the query, which may be all that tells two files of a web server apart.
        digest = hashlib.blake2b(without_signature(url).encode(), digest_size=8).hexdigest()
        base = self._folder / digest
        fixed, pattern = _split_glob(whole)
        objects = _list_objects(whole)
        if not objects:
            missing = "no object matches" if pattern else "no such object or prefix"
            raise MissingInput(f"{whole.url}: {missing}: check the URL", whole.url)
        self._found.append((whole, objects))
        if pattern:
            local, root, url_root = f"{glob.escape(str(base))}/{pattern}", base, fixed.url + "/"
            names = [one.path[len(fixed.path) + 1 :] for one in objects]
        else:
            parent, _, last = whole.url.rstrip("/").rpartition("/")
            local, root, url_root = str(base / last), base, parent + "/"
            start = len(whole.path)
            names = [last + one.path[start:] if whole.family != "http" else last for one in objects]
        self.names[root] = url_root
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

    def check(self) -> None:
        """Raise `InputError` if an object has changed since it was fetched, or is gone."""
        for remote, objects in self._found:
            try:
                now = {one.path: one for one in _list_objects(remote)}
            except ExpiredError:
                # It was complete when it was fetched: hours of work are not lost for a check.
                self._progress.say(
                    f"{remote.url}: the signed URL has expired: not known whether it has changed "
                    "since it was fetched"
                )
                continue
            for one in objects:
                if now.get(one.path) != one:
                    raise changed_error(_as_input_file(remote, one))


class _FetchedObject:
    """An object, and the local file that it is fetched to.

    The file gets its name when it is complete, and a time of change made of the object's stamp, so
    that an object that has changed is a changed file.
    """

    def __init__(self, remote: Remote, found: StoredObject, path: Path, incomplete: Path) -> None:
        self.found, self._path = found, path
        self._remote = replace(remote, path=found.path, url=_as_input_file(remote, found).name)
        # Not beside it, where another object may have that name.
        digest = hashlib.blake2b(os.fsencode(path), digest_size=16).hexdigest()
        self._incomplete = incomplete / digest
        stamp = f"{without_signature(found.path)} {found.size} {found.stamp}".encode()
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
            raise changed_error(_as_input_file(self._remote, self.found))
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


def _list_objects(remote: Remote) -> list[StoredObject]:
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


def _as_input_file(remote: Remote, one: StoredObject) -> InputFile:
    """Return an object of a URL as a file that errors can name."""
    fixed, _ = _split_glob(remote)
    name = fixed.url.rstrip("/") + one.path[len(fixed.path.rstrip("/")) :]
    return InputFile(Path(one.path), remote.url if remote.family == "http" else name, "", "", None)
