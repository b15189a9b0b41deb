"""The cache of trials: results, each in a file named by a hash of its configuration.

    FOLDER/3f/3f0c9a...-5ab1e2c4.json      key (32 hexadecimal digits), machine (8)

A file is JSON: format, key, config, results, seconds, at, machine, version, and checksum, a BLAKE2b
of the others. It is written under a temporary name and then renamed, so that any number of
processes and machines can share a folder without locks: of two writers of the same entry, the last
one wins. An invalid file (truncated, altered, of another format, of another configuration with the
same key) is ignored, and the next result of that configuration replaces it.

Counts are the same on every machine, times are not: each machine has files of its own.

With several folders, such as those of several disks or file servers, a key belongs to one of them
by a `HashRing` of their paths: one more folder takes only its share of the keys.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Final

import neardup
from neardup import runtime
from neardup.errors import OutputError, ParameterError, UsageError
from neardup.hash_ring import HashRing

BYTES: Final = 16


def canonical(config: Mapping[str, Any]) -> str:
    """Return a configuration as text, which depends on neither order nor type of its numbers.

    >>> canonical({"rows": 5.0, "threshold": 0.80}) == canonical({"threshold": 0.8, "rows": 5})
    True
    """
    return json.dumps(plain(config), sort_keys=True, separators=(",", ":"))


def plain(value: Any) -> Any:
    """Return a value in the types of JSON; whole numbers become integers."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and math.isfinite(value):
        number = float(value)
        return int(number) if number.is_integer() else number
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: plain(each) for name, each in value.items()}
    kind = "a number that is not finite" if isinstance(value, Real) else type(value).__name__
    raise ParameterError(
        f"a configuration can't hold {kind}: give names with texts, finite numbers, lists or null"
    )


def key_of(config: Mapping[str, Any]) -> str:
    """Return the key of a configuration."""
    return digest(canonical(config))


def digest(text: str, size: int = BYTES) -> str:
    """Return the BLAKE2b digest of ASCII text, in hexadecimal; 128 bits by default."""
    return hashlib.blake2b(text.encode("ascii"), digest_size=size).hexdigest()


FORMAT: Final = 1
_FAN = re.compile(r"[0-9a-f]{2}")
_FILE = re.compile(r"([0-9a-f]{32})-([0-9a-f]{8})\.json(\.[0-9a-f]{16}\.tmp)?")
_BAD = (
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
)


@cache
def this_machine() -> Mapping[str, Any]:
    """Return the properties of this machine that times depend on, without its name."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
        "architecture": platform.machine(),
        "system": platform.system(),
    }


def _processor() -> str:
    """Return the model of the processor."""
    with suppress(OSError, UnicodeDecodeError):
        about = Path("/proc/cpuinfo").read_text("utf-8")
        if model := re.search(r"^model name\s*:\s*(.+?)\s*$", about, re.MULTILINE):
            return model[1]
    return platform.processor() or "unknown"


def default_folder() -> Path:
    """Return the default folder: the user's cache."""
    try:
        return runtime.cache_home() / "trials"
    except RuntimeError:  # the user has no home folder
        return runtime.private_folder() / "trials"


@dataclass(frozen=True)
class CacheEntry:
    """A stored result.

    key       the key of the configuration
    config    the configuration
    results   the results
    seconds   how long they took
    at        when they were written
    machine   the machine that they were measured on
    version   the version of neardup
    """

    key: str
    config: dict[str, Any]
    results: dict[str, Any]
    seconds: float
    at: datetime
    machine: dict[str, Any]
    version: str

    @property
    def same_machine(self) -> bool:
        """Whether the times were measured on a machine like this one."""
        return self.machine == this_machine()

    def to_json(self) -> dict[str, Any]:
        """Return the content of the file, without its checksum."""
        return {
            "format": FORMAT,
            "key": self.key,
            "config": self.config,
            "results": self.results,
            "seconds": self.seconds,
            "at": self.at.isoformat(timespec="seconds"),
            "machine": self.machine,
            "version": self.version,
        }


class TrialCache:
    """Folders of results; by default one in the user's cache.

    They are made with their first result. `damaged` counts the invalid files that were read.
    """

    def __init__(self, *folders: Path) -> None:
        self.folders = folders or (default_folder(),)
        self._ring = HashRing(map(str, self.folders))
        self.damaged = 0
        self._warned = False

    @property
    def where(self) -> str:
        """The folders, as messages name them."""
        return ", ".join(map(str, self.folders))

    def get(self, config: Mapping[str, Any], timed: bool = True) -> dict[str, Any] | None:
        """Return the results of a configuration; None if there are none.

        With `timed=False`, results of other machines count too: their times don't matter.
        """
        key, wanted = key_of(config), canonical(config)
        with suppress(OSError):  # a folder that can't be read: `put` will warn
            for path in [self._path(key)] if timed else self._files(key[:2], key):
                entry = self._read(path)
                if entry is None or (timed and not entry.same_machine):
                    continue
                # Equal keys are not enough: another configuration could have the same.
                if canonical(entry.config) == wanted:
                    return entry.results
        return None

    def put(
        self,
        config: Mapping[str, Any],
        results: Mapping[str, Any],
        seconds: float,
        at: datetime | None = None,
    ) -> None:
        """Store results. If the disk refuses them, warn once and continue."""
        key, time = key_of(config), at or datetime.now(UTC)
        entry = CacheEntry(
            key,
            plain(config),
            dict(results),
            float(seconds),
            time,
            dict(this_machine()),
            neardup.__version__,
        )
        try:
            record = entry.to_json()
            text = json.dumps(record | {"checksum": _checksum(record)}, indent=1, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ParameterError(f"results that JSON can't hold: {error}") from None
        try:
            _write(self._path(key), text)
        except OSError as error:
            self._warn(error)

    def must_be_writable(self) -> None:
        """Raise an error before the work if a folder named by the user can't be written."""
        for folder in self.folders:
            try:
                _write(folder / f".{secrets.token_hex(8)}", "").unlink()
            except OSError as error:
                raise OutputError(
                    f"the cache folder {folder} can't be written ({error.strerror}): make it "
                    "writable, or name another with --cache"
                ) from None

    def entries(self) -> Iterator[CacheEntry]:
        """Yield all valid entries, by key."""
        return (entry for path in self._files() if (entry := self._read(path)) is not None)

    def find(self, prefix: str) -> CacheEntry:
        """Return the entry whose key begins with `prefix`, that of this machine if several do."""
        matching = [entry for entry in self.entries() if entry.key.startswith(prefix.lower())]
        if not matching:
            raise UsageError(f"no entry {prefix!r} in {self.where}: neardup cache list shows them")
        if len({entry.key for entry in matching}) > 1:
            raise UsageError(f"{len(matching):,} entries begin with {prefix!r}: give more digits")
        return max(matching, key=lambda entry: entry.same_machine)

    def clear(self, before: datetime | None = None) -> int:
        """Remove entries, also unfinished and damaged ones, and return their number.

        Other files in the folder stay. With `before`, only older entries are removed.
        """
        count = 0
        for path in self._files(unfinished=True):
            with suppress(FileNotFoundError):  # another process was faster
                if before is None or self._written(path) < before:
                    path.unlink()
                    count += 1
        return count

    def _path(self, key: str) -> Path:
        machine = digest(canonical(this_machine()), 4)
        return self._folder(key) / key[:2] / f"{key}-{machine}.json"

    def _folder(self, key: str) -> Path:
        return Path(self._ring.node(key))

    def _files(self, fan: str = "", key: str = "", unfinished: bool = False) -> Iterator[Path]:
        """Yield the files with the name of an entry; links are skipped."""
        chosen = [self._folder(key)] if key else self.folders
        for folder in chain.from_iterable(_inside(each, directories=True) for each in chosen):
            if _FAN.fullmatch(folder.name) and folder.name.startswith(fan):
                for file in _inside(folder, directories=False):
                    named = _FILE.fullmatch(file.name)
                    if named and named[1].startswith(key) and (unfinished or not named[3]):
                        yield file

    def _read(self, path: Path) -> CacheEntry | None:
        try:
            return _entry(json.loads(path.read_bytes()), path.name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except _BAD:
            self.damaged += 1
            return None

    def _written(self, path: Path) -> datetime:
        entry = self._read(path)
        return entry.at if entry else datetime.fromtimestamp(path.lstat().st_mtime, UTC)

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            print(
                f"neardup: results can't be kept in {self.where} ({error.strerror}), the work "
                "goes on without; --cache names another folder",
                file=sys.stderr,
                flush=True,
            )


def _write(path: Path, text: str) -> Path:
    """Write under a unique temporary name, then rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        temporary.write_text(text, "utf-8")
        return temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _inside(folder: Path, directories: bool) -> list[Path]:
    """Return the sorted files, or the folders, in a folder; links are skipped."""
    try:
        with os.scandir(folder) as listing:
            real = (each for each in listing if not each.is_symlink())
            return sorted(Path(each.path) for each in real if each.is_dir() == directories)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _checksum(record: Mapping[str, Any]) -> str:
    return digest(json.dumps(record, sort_keys=True, allow_nan=False))


def _entry(record: dict[str, Any], name: str) -> CacheEntry:
    """Return the entry of a file; raise one of `_BAD` if anything in it is invalid."""
    checksum = record.pop("checksum")
    if checksum != _checksum(record) or record.pop("format") != FORMAT:
        raise ValueError("altered, or of another format")
    entry = CacheEntry(**record | {"at": datetime.fromisoformat(record["at"])})
    if key_of(entry.config) != entry.key or not name.startswith(entry.key):
        raise ValueError("not where it belongs")
    if entry.at.tzinfo is None or not isinstance(entry.seconds, float):
        raise TypeError("a time that is none")
    return entry
