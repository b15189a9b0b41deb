"""Which files of a folder are read; every other one is counted, with the reason.

Left out are hidden files, the marks of other programs, what is no regular file, links to folders,
what --include and --exclude leave out, and the companions of data files, unless --include names
them: the description, licence and loading script in a repository of a data set. Nothing else.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from neardup.errors import InputError, ParameterError, UsageError

HIDDEN: Final = "hidden file"
HIDDEN_FOLDER: Final = "hidden folder"
MARK: Final = "mark of Spark or Hive"
CACHE: Final = "cache of Python"
NOT_REGULAR: Final = "not a regular file"
LINKED_FOLDER: Final = "link to a folder"
BROKEN_LINK: Final = "broken link"
NOT_INCLUDED: Final = "not in --include"
EXCLUDED: Final = "in --exclude"
COMPANION: Final = "beside data files"
MATCHED_FOLDER: Final = "folder that a pattern matches"
_PLURALS: Final = {
    HIDDEN: "hidden files",
    HIDDEN_FOLDER: "hidden folders",
    MARK: "marks of Spark or Hive",
    CACHE: "caches of Python",
    NOT_REGULAR: "that are no regular files",
    LINKED_FOLDER: "links to folders",
    BROKEN_LINK: "broken links",
    MATCHED_FOLDER: "folders that a pattern matches",
}
_NAMED: Final = 3
"""The files beside data files that are named."""

_MARKS: Final = frozenset(
    {
        "_SUCCESS",
        "_temporary",
        "_metadata",
        "_common_metadata",
        "_delta_log",
        "_spark_metadata",
    }
)
_MARK_BEGINNINGS: Final = ("_committed_", "_started_")
_PYTHON_CACHE: Final = "__pycache__"
_COMPANION: Final = re.compile("readme|licen[cs]e|copying|notice|changelog|citation")
_COMPANION_TABLES: Final = frozenset(
    {
        "dataset_infos.json",
        "dataset_info.json",
        "dataset_dict.json",
        "state.json",
        "croissant.json",
        "dataset-metadata.json",
        "datapackage.json",
    }
)
_MOST_SCRIPTS: Final = 5
"""More scripts than this at the top of a folder are not those that load a data set."""
LISTED: Final = 100


class Entry(NamedTuple):
    """A file below a folder: its path, its real path, and its path relative to the folder."""

    path: str
    real: str
    below: str


@dataclass(frozen=True)
class UnreadFiles:
    """The files that were found and not read: (name, reason) of each, a folder with a slash."""

    entries: list[tuple[str, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, path: str, reason: str) -> None:
        """Count a file."""
        self.entries.append((printable(path), reason))

    @property
    def reasons(self) -> dict[str, int]:
        """How many files there are for each reason, the most common first."""
        counts = Counter(reason for _, reason in self.entries)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    @property
    def sentence(self) -> str:
        """How many files were not read, and why.

        >>> UnreadFiles([("data/_SUCCESS", MARK), ("data/.git/", HIDDEN_FOLDER)]).sentence
        '2 not read: 1 hidden folder, 1 mark of Spark or Hive'
        """
        return f"{len(self):,} not read: {describe_reasons(self.reasons, self.entries)}"

    def describe(self) -> dict[str, Any]:
        """Return the content of `unread_files` in run.json: counts, and the first names."""
        listed = [{"file": name, "reason": why} for name, why in sorted(self.entries)[:LISTED]]
        return {"count": len(self), "reasons": self.reasons, "listed": listed}


def describe_reasons(reasons: Mapping[str, int], listed: Iterable[tuple[str, str]] = ()) -> str:
    """Return why files were not read, with the number of each reason.

    Args:
        reasons: How many files there are for each reason.
        listed: Names of files, each with its reason: those beside data files are named.

    >>> describe_reasons({HIDDEN: 2, COMPANION: 1}, [("data/README.md", COMPANION)])
    '2 hidden files, 1 file that is no data (README.md)'
    >>> describe_reasons({COMPANION: 2}, [(f"in/{set}/README.md", COMPANION) for set in "ab"])
    '2 files that are no data (a/README.md, b/README.md)'
    """
    beside = _below_common([name for name, reason in listed if reason == COMPANION])
    return ", ".join(_count_reason(count, reason, beside) for reason, count in reasons.items())


def _below_common(names: Sequence[str]) -> list[str]:
    """Return the paths of files below the folder that all of them are in."""
    if not names:
        return []
    paths = list(map(os.path.abspath, names))
    common = os.path.commonpath(list(map(os.path.dirname, paths)))
    return [os.path.relpath(path, common) for path in paths]


def _count_reason(count: int, reason: str, beside: Sequence[str]) -> str:
    if reason == COMPANION:
        shown = [*beside[:_NAMED], *(["..."] if count > min(len(beside), _NAMED) else [])]
        names = f" ({', '.join(shown)})" if beside else ""
        return f"{count:,} {'file that is' if count == 1 else 'files that are'} no data{names}"
    return f"{count:,} {reason if count == 1 else _PLURALS.get(reason, reason)}"


def walk_folder(folder: str, unread: UnreadFiles) -> list[Entry]:
    """Return the files below a folder, sorted by the bytes of their paths.

    Symbolic links to files are followed, those to folders are not: they may form loops.
    """
    found = _walk(folder, os.path.realpath(folder), "", unread)
    return sorted(found, key=lambda entry: os.fsencode(entry.path))


def _walk(folder: str, real: str, below: str, unread: UnreadFiles) -> Iterator[Entry]:
    try:
        entries = list(os.scandir(folder))
    except OSError as error:
        why = error.strerror
        text = f"{printable(folder)}: cannot be listed ({why}): check its permissions"
        raise InputError(text) from None
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        if reason := _reason(entry, is_folder):
            unread.add(entry.path + "/" * is_folder, reason)
            continue
        inside, relative = os.path.join(real, entry.name), below + entry.name
        if is_folder:
            yield from _walk(entry.path, inside, relative + "/", unread)
        else:
            yield Entry(
                entry.path, os.path.realpath(inside) if entry.is_symlink() else inside, relative
            )


def _reason(entry: os.DirEntry[str], is_folder: bool) -> str:
    """Return why an entry of a folder is not read, empty if it is."""
    reason = reason_of_name(entry.name, is_folder)
    if reason or is_folder:
        return reason
    is_file = os.path.isfile(entry.path) if entry.is_symlink() else entry.is_file()
    return "" if is_file else unread_reason(entry.path)


def reason_of_name(name: str, is_folder: bool) -> str:
    """Return why files or folders of this name are not read, empty if they are."""
    if name.startswith("."):
        return HIDDEN_FOLDER if is_folder else HIDDEN
    if name in _MARKS or name.startswith(_MARK_BEGINNINGS):
        return MARK
    return CACHE if is_folder and name == _PYTHON_CACHE else ""


def unread_reason(path: str) -> str:
    """Return why a path that is no regular file is not read."""
    if os.path.isdir(path):
        return LINKED_FOLDER if os.path.islink(path) else MATCHED_FOLDER
    return NOT_REGULAR if os.path.exists(path) else BROKEN_LINK


class Patterns:
    """The patterns of --include and --exclude.

    A pattern is compared with the path below the folder that was given, with the name of the file,
    and with those of the folders between. `*` stops at a slash, `**` does not.

    Args:
        include: Only files that one of these matches are read; by default all.
        exclude: Files that one of these matches are not read.
    """

    def __init__(
        self, include: str | Sequence[str] = (), exclude: str | Sequence[str] = ()
    ) -> None:
        self._include = _checked("include", include)
        self._exclude = _checked("exclude", exclude)
        self._used: set[tuple[str, str]] = set()

    def select(self, entries: Iterable[Entry], unread: UnreadFiles) -> list[Entry]:
        """Return the files that are read; count the others."""
        if not self._include and not self._exclude:
            return list(entries)
        selected = []
        for entry in entries:
            parts = _parts(entry.below)
            is_included = self._matches("include", self._include, parts)
            if self._matches("exclude", self._exclude, parts):
                unread.add(entry.path, EXCLUDED)
            elif self._include and not is_included:
                unread.add(entry.path, NOT_INCLUDED)
            else:
                selected.append(entry)
        return selected

    def included_by(self, below: str) -> frozenset[str]:
        """Return the patterns of --include that match a path below the folder."""
        parts = _parts(below)
        return frozenset(
            name for name, pattern in self._include.items() if any(map(pattern.fullmatch, parts))
        )

    def name_apart(self, files: Iterable[str], others: Iterable[str]) -> set[str]:
        """Return those of the files that --include matches by a pattern that no other file has.

        Args:
            files: Paths below the folder.
            others: Those of the other files.
        """
        if not self._include:
            return set()
        of_others = frozenset[str]().union(*map(self.included_by, others))
        return {below for below in files if self.included_by(below) - of_others}

    def _matches(
        self, option: str, patterns: dict[str, re.Pattern[str]], parts: Sequence[str]
    ) -> bool:
        matching = [
            name for name, pattern in patterns.items() if any(map(pattern.fullmatch, parts))
        ]
        self._used.update((option, name) for name in matching)
        return bool(matching)

    def check_used(self, archive: str = "") -> None:
        """Raise `UsageError` if a pattern has matched no file.

        Args:
            archive: The name of an archive among the inputs, whose members may have been meant.
        """
        for option, patterns in (("include", self._include), ("exclude", self._exclude)):
            for name in patterns:
                if (option, name) not in self._used and archive:
                    raise UsageError(
                        f"--{option} {name!r} matches no file, and all members of an archive are "
                        f"read: unpack {archive} into a folder, and read that"
                    )
                if (option, name) not in self._used:
                    raise UsageError(
                        f"--{option} {name!r} matches no file: it is compared with names, and with "
                        "paths below the input folders or the fixed part of a quoted glob; ** "
                        "matches any folders"
                    )


def _parts(below: str) -> list[str]:
    """Return what a pattern may match: each path from the folder down, and each name.

    >>> _parts("posts/2024/a.md")
    ['posts', '2024', 'a.md', 'posts/2024', 'posts/2024/a.md']
    """
    names = below.split("/")
    return names + ["/".join(names[:end]) for end in range(2, len(names) + 1)]


def _checked(option: str, patterns: str | Sequence[str]) -> dict[str, re.Pattern[str]]:
    if isinstance(patterns, str):
        patterns = [patterns]
    for pattern in patterns:
        if not pattern.strip("/"):
            raise ParameterError(f"--{option} needs a pattern such as '*.md', not {pattern!r}")
    return {pattern: _compile(pattern) for pattern in patterns}


def _compile(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a glob."""
    rest, parts = pattern.removeprefix("./").strip("/"), []
    while rest:
        if found := re.match(r"(\*\*/)+", rest):
            parts.append("(?:.*/)?")
        elif found := re.match(r"\*\*+", rest):
            parts.append(".*")
        elif found := re.match(r"\[(!?)(\]?[^\]]*)\]", rest):
            inside = re.sub(r"([\\\[\]^&~|])", r"\\\1", found[2])
            parts.append(f"[{'^' if found[1] else ''}{inside}]")
        else:
            found = re.match(".", rest, re.DOTALL)
            parts.append({"*": "[^/]*", "?": "[^/]"}.get(rest[0], re.escape(rest[0])))
        rest = rest[found.end() if found else 1 :]
    try:
        return re.compile("".join(parts), re.DOTALL)
    except re.error:
        raise ParameterError(f"{pattern!r} is not a pattern: write it like '*.md'") from None


def find_companions(files: Sequence[tuple[str, bool]]) -> set[str]:
    """Return those files that accompany data files, and are no data themselves.

    A file accompanies the data files in its own folder and in those below it.

    Args:
        files: The path below the folder of each file, and whether it is a data file.
    """
    scripts = {below for below, _ in files if "/" not in below and below.endswith(".py")}
    companions = scripts if len(scripts) <= _MOST_SCRIPTS else set()
    for below, is_data in files:
        name = below.rpartition("/")[2].lower()
        if name in _COMPANION_TABLES or (not is_data and _COMPANION.match(name)):
            companions.add(below)
    data = {below for below, is_data in files if is_data} - companions
    folders: set[str] = set()
    for folder in data:
        while folder and (folder := folder.rpartition("/")[0]) not in folders:
            folders.add(folder)
    return {below for below in companions if below.rpartition("/")[0] in folders}


def printable(path: str) -> str:
    """Return a path for messages, with escapes for bytes that are not UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
