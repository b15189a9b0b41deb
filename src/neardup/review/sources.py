"""The sources that documents are counted by: their files, or folders if there are many files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

MOST_SOURCES: Final = 100


class SourceNames:
    """The source of each file of a run.

    Args:
        files: The names of the inputs.

    >>> SourceNames(["a/1.jsonl", "a/2.jsonl"]).of("a/2.jsonl")
    'a/2.jsonl'
    >>> SourceNames(f"{n % 7}/{n}.txt" for n in range(1_000)).of("3/10.txt")
    '3'
    """

    def __init__(self, files: Iterable[str]) -> None:
        listed = [PurePosixPath(name) for name in files]
        self.depth: int | None = None
        """The parts of a file's folder that are its source; None if it is the file itself."""
        if len(listed) <= MOST_SOURCES:
            return
        deepest = max(len(path.parts) - 1 for path in listed)
        for self.depth in range(deepest, 0, -1):
            if len({path.parts[: min(self.depth, len(path.parts) - 1)] for path in listed}) <= (
                MOST_SOURCES
            ):
                break

    def of(self, file: str) -> str:
        """Return the source of a file.

        Args:
            file: The name of the file.
        """
        if self.depth is None:
            return file
        parts = PurePosixPath(file).parts
        return str(PurePosixPath(*parts[: min(self.depth, len(parts) - 1)]))
