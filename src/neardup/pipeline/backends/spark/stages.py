"""The stages of a run on Spark: told of while they run, then how long they took and what moved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from neardup.pipeline.backends.spark.watching import Moved, watched
from neardup.pipeline.record import Clock
from neardup.runtime import Progress


@dataclass
class Stages:
    """Called with a name, it is a stage of that name."""

    spark: SparkSession
    progress: Progress
    clock: Clock = field(default_factory=Clock)
    _moved: list[Moved] = field(default_factory=list)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        with self.clock.stage(name), watched(self.spark, self.progress, name) as watch:
            yield
        self._moved.append(watch.moved)

    def told(self) -> list[dict[str, Any]]:
        """What each stage has moved, as run.json has it."""
        return [asdict(moved) for moved in self._moved]
