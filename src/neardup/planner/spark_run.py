"""Predicts the cost of a run on Spark, stage by stage.

The stages are those of a local run (`local_run.py`), and so are their costs. Tasks share the work
of sketching, banding, shingling, of writing the kept files, and of comparing pairs whose sets don't
fit into the memory of the driver, which does the rest. All read and write one shared folder.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from neardup.corpus.shards import SHARD
from neardup.options import Options
from neardup.pipeline.backends.spark import MAX_TASKS, TASK_MEMORY
from neardup.pipeline.stages.compare import BYTES_PER_PAIR
from neardup.pipeline.stages.decide import BYTES_PER_DECIDED_PAIR
from neardup.planner.costs import MB, Costs
from neardup.planner.local_run import LocalRun, StageCost
from neardup.planner.requirements import Sla
from neardup.planner.workload import Workload


@dataclass(frozen=True)
class SparkCosts:
    """What Spark adds to the stages.

    start    seconds until the first task: Java, the session, the check of executors, Python. About
             that on local[2]
    job      seconds to send a piece of work to tasks, and to collect its results: likewise
    python   bytes of memory of a Python process with PySpark and kernels, before any data: measured
    folder   bytes a second that the shared folder reads or writes for all machines: assumed, as of
             a file server behind 25 Gbit/s
    """

    start: float = 8.0
    job: float = 1.0
    python: float = 120 * MB
    folder: float = 2e9
    source: str = (
        "stages cost what they cost on one machine; the start of Spark is rough, and 2 GB/s of the "
        "shared folder are assumed"
    )


MEASURED: Final = SparkCosts()


@dataclass(frozen=True)
class SparkStage:
    """The cost of one stage on Spark.

    Attributes:
        name: The stage, as in run.json; "start" for starting Spark, "hash" for hashing the inputs,
            which run.json counts in other stages.
        tasks: The most tasks that can share it; 0 if the driver does it.
        seconds: Elapsed time.
        work: Seconds of all cores together.
        alone: Seconds in which only the driver works.
        read: Bytes read.
        written: Bytes written.
        memory: Bytes of memory at the peak of a task, or of the driver if there are no tasks.
    """

    name: str
    tasks: int
    seconds: float
    work: float
    alone: float
    read: float
    written: float
    memory: float


@dataclass(frozen=True)
class SharedWork:
    """The part of a stage that tasks do.

    work     seconds of one core
    tasks    the most tasks that can share it
    memory   bytes of memory at the peak of a task
    jobs     pieces of work, one after another
    """

    work: float
    tasks: int
    memory: float
    jobs: int = 1


@dataclass(frozen=True)
class SparkRun:
    """A run on Spark at one operating point.

    sla        the requirements; cores are those of an executor, and of the driver
    costs      seconds of each kind of work
    workload   amounts per document
    options    the operating point
    slots      bytes of a document's stored slots
    task       bytes that a task may hold, and the driver: --memory
    spark      what Spark adds
    """

    sla: Sla
    costs: Costs
    workload: Workload
    options: Options
    slots: int
    task: int = TASK_MEMORY
    spark: SparkCosts = MEASURED

    def stages(self, executors: int) -> tuple[SparkStage, ...]:
        """Return the cost of each stage, in order, with this many executors."""
        start, sketch, *others = zip(
            self._on_one_core.stages(), self._on_driver.stages(), strict=True
        )
        cores = executors * self.sla.cores
        return (
            replace(self._stage(*start, cores), seconds=self.spark.start, alone=self.spark.start),
            self._stage(*sketch, cores),
            self._hash(sketch[0]),
            *(self._stage(*one, cores) for one in others),
        )

    def seconds(self, executors: int) -> float:
        """Return the elapsed time with this many executors."""
        return sum(stage.seconds for stage in self.stages(executors))

    @property
    def driver_memory(self) -> float:
        """Bytes of the driver's Python process at the peak."""
        return max(stage.memory for stage in self._on_driver.stages())

    @property
    def task_memory(self) -> float:
        """Bytes of a task's Python process at the peak."""
        return max(stage.memory for stage in self.stages(1) if stage.tasks)

    def _stage(self, one: StageCost, driver: StageCost, cores: int) -> SparkStage:
        """Return a stage from its costs on one core, as in a task, and on those of the driver."""
        shared = self._shared(one)
        moved = (one.read + one.written) / self.spark.folder
        if shared is None:
            seconds = max(driver.seconds, moved)
            return SparkStage(
                one.name, 0, seconds, one.work, seconds, one.read, one.written, driver.memory
            )
        alone = one.work - shared.work
        together = shared.work / self.costs.cores(min(cores, shared.tasks))
        return SparkStage(
            one.name,
            shared.tasks,
            max(alone + together, moved) + self.spark.job * shared.jobs,
            one.work,
            alone,
            one.read,
            one.written,
            shared.memory,
        )

    def _hash(self, sketch: StageCost) -> SparkStage:
        """Return the hashing of the inputs, beside other stages: only its reading counts."""
        seconds, held = sketch.read / self.spark.folder, self.spark.python
        return SparkStage("hash", self._shards, seconds, 0.0, 0.0, sketch.read, 0.0, held)

    def _shared(self, stage: StageCost) -> SharedWork | None:
        """Return what tasks do of a stage; None if the driver does it."""
        run, load = self._on_one_core, self.workload
        if stage.name == "band":
            return SharedWork(stage.work, self.options.hash_tables.count, stage.memory)
        if stage.name in ("sketch", "match"):
            return SharedWork(stage.work, self._shards, stage.memory)
        if stage.name == "filter":  # in a task, which has decided nothing
            return SharedWork(stage.work, self._shards, run.sketch_memory)
        if stage.name != "decide" or run.set_bytes < (self.task - self.spark.python) / 3:
            return None
        # As many pairs as the driver decides at once go to tasks, which load the sets of theirs.
        pairs = self.sla.documents * load.compared
        each = BYTES_PER_PAIR + 4 * run.set_bytes / (self.sla.documents * load.candidates)
        return SharedWork(
            self.costs.set * run.set_bytes / MB + run.compare_work,
            max(round(2 * each / BYTES_PER_DECIDED_PAIR), 1),
            stage.memory,
            math.ceil(pairs * BYTES_PER_DECIDED_PAIR / self.task),
        )

    @property
    def _shards(self) -> int:
        """The tasks that share the inputs, as if no file were larger than a shard."""
        text = self.sla.documents * self.workload.stored
        return min(math.ceil(text / SHARD), MAX_TASKS)

    @cached_property
    def _on_one_core(self) -> LocalRun:
        return self._locally(1)

    @cached_property
    def _on_driver(self) -> LocalRun:
        return self._locally(self.sla.cores)

    def _locally(self, cores: int) -> LocalRun:
        """Return the same run by one process, in the memory of a task."""
        return LocalRun(
            replace(self.sla, cores=cores, memory=self.task),
            replace(
                self.costs,
                base=max(self.costs.base, self.spark.python),
                disk=self.spark.folder,
            ),
            self.workload,
            self.options,
            self.slots,
        )
