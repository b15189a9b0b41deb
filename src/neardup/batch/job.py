"""What is a run asked to do, and whom does it tell how far it is?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from neardup.batch.budget import Budget
from neardup.corpus.documents import Columns
from neardup.corpus.inputs import InputFile
from neardup.corpus.read import CHUNK
from neardup.corpus.shards import SHARD
from neardup.options import Options


@dataclass(frozen=True)
class Job:
    """Everything that a run is asked to do. `folders` are the inputs that are folders."""

    inputs: list[InputFile]
    out: Path
    options: Options
    columns: Columns
    workers: int
    folders: tuple[str, ...] = ()
    pairs: bool = False
    kept: bool = True
    force: bool = False
    strict: bool = False
    skip_bad_files: bool = False
    finish: Callable[[Path], object] = lambda _: None
    """Called with the folder that becomes OUT, when everything else is in it."""
    budget: Budget = field(default_factory=Budget)
    shard: int = SHARD
    chunk: int = CHUNK


class Progress(Protocol):
    """Shown to whoever waits: a stage begins with its amount of work, then advances."""

    def stage(self, name: str, total: int, unit: str) -> None: ...
    def advance(self, amount: int) -> None: ...
    def say(self, message: str) -> None: ...
