"""Watch Spark's jobs from the driver: how many tasks are done, how many bytes they moved.

Jobs are identified by a tag, which Spark passes on to every job of a query; groups and descriptions
of the user stay as they are. A session of Spark Connect has no context to ask: then the work is
done unwatched, and the metrics hold only its duration.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from neardup.pipeline.backends.spark.failures import spark_error_types, translate_spark_errors
from neardup.pipeline.backends.spark.session import find_context
from neardup.pipeline.record import StageClock
from neardup.runtime import SILENT, Progress

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


LOOK_SECONDS = 0.5
MANY = 4
"""Spark stages with fewer tasks are not shown."""
SETTLE_MILLISECONDS = 10_000


@dataclass(frozen=True, slots=True)
class StageMetrics:
    """The time, tasks and bytes of one stage of neardup, including attempts that were repeated."""

    name: str
    seconds: float
    tasks: int = 0
    failed_tasks: int = 0
    repeated_stages: int = 0
    input_bytes: int = 0
    output_bytes: int = 0
    shuffle_written: int = 0
    shuffle_read: int = 0
    spilled_bytes: int = 0


class StageWatch:
    """Yielded by `watch_stage`; `moved` is set when the stage is done."""

    moved: StageMetrics


@contextmanager
def watch_stage(spark: SparkSession, progress: Progress, name: str) -> Iterator[StageWatch]:
    """Show how many tasks are done while Spark works, then collect the stage's metrics.

    Errors of Spark are translated. Only jobs started by this thread are watched; another thread
    calls `progress`.
    """
    watch, begun = StageWatch(), time.monotonic()
    context = find_context(spark)
    with translate_spark_errors(name):
        if context is None:
            progress.stage(name, 1, "tasks")
            yield watch
            progress.advance(1)
            watch.moved = StageMetrics(name, time.monotonic() - begun)
            return
        tag = f"neardup-{uuid.uuid4().hex}"
        stages = _TaggedStages(context, tag)
        context.addJobTag(tag)
        try:
            with _show_progress(stages, progress, name):
                yield watch
        finally:
            context.removeJobTag(tag)
        watch.moved = stages.moved(name, time.monotonic() - begun)


class _TaggedStages:
    """The Spark stages of all jobs with a tag, from the driver's status store."""

    def __init__(self, context: SparkContext, tag: str) -> None:
        self._scala: Any = context._jsc.sc()
        self._no_quantiles: Any = context._gateway.new_array(context._jvm.double, 0)  # type: ignore[union-attr]
        self._tag = tag

    def attempts(self) -> Iterator[Any]:
        """Yield each attempt of each Spark stage that has begun."""
        tracker, store = self._scala.statusTracker(), self._scala.statusStore()
        numbers: set[int] = set()
        for job in tracker.getJobIdsForTag(self._tag):
            with suppress(*spark_error_types()):  # Spark keeps only the last thousand jobs
                numbers.update(tracker.getJobInfo(job).get().stageIds())
        for number in sorted(numbers):
            with suppress(*spark_error_types()):  # no longer kept, or not begun
                attempts = store.stageData(number, False, [], False, self._no_quantiles)
                yield from (attempts.apply(n) for n in range(attempts.size()))

    def running(self) -> dict[int, tuple[int, int]]:
        """Return (tasks done, all tasks) of each running Spark stage."""
        return {
            stage.stageId(): (stage.numCompleteTasks(), stage.numTasks())
            for stage in self.attempts()
            if str(stage.status()) == "ACTIVE"
        }

    def moved(self, name: str, seconds: float) -> StageMetrics:
        with suppress(*spark_error_types()):  # too busy: the metrics lack the last events
            self._scala.listenerBus().waitUntilEmpty(SETTLE_MILLISECONDS)
        done = [stage for stage in self.attempts() if str(stage.status()) != "SKIPPED"]
        return StageMetrics(
            name,
            seconds,
            tasks=sum(stage.numCompleteTasks() for stage in done),
            failed_tasks=sum(stage.numFailedTasks() for stage in done),
            repeated_stages=sum(stage.attemptId() > 0 for stage in done),
            input_bytes=sum(stage.inputBytes() for stage in done),
            output_bytes=sum(stage.outputBytes() for stage in done),
            shuffle_written=sum(stage.shuffleWriteBytes() for stage in done),
            shuffle_read=sum(stage.shuffleReadBytes() for stage in done),
            spilled_bytes=sum(stage.diskBytesSpilled() for stage in done),
        )


@contextmanager
def _show_progress(stages: _TaggedStages, progress: Progress, name: str) -> Iterator[None]:
    """Poll the tasks in a thread, because the caller's thread waits for the job."""
    if progress is SILENT:
        yield
        return
    from py4j.protocol import Py4JError

    over = threading.Event()
    progress.stage(name, 1, "stage")

    def look() -> None:
        shown: dict[int, int] = {}
        with suppress(Py4JError):  # Spark has stopped: the waiting thread gets it too
            while not over.wait(LOOK_SECONDS):
                running = {n: tasks for n, tasks in stages.running().items() if tasks[1] >= MANY}
                if running.keys() - shown.keys():
                    shown = dict.fromkeys(running, 0)
                    progress.stage(name, sum(tasks for _, tasks in running.values()), "tasks")
                for number, (done, _) in running.items():
                    progress.advance(done - shown[number])
                    shown[number] = done

    thread = threading.Thread(target=look, name="neardup-spark-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@dataclass
class SparkStages:
    """Run the stages of a run: times and metrics are recorded, progress is shown."""

    spark: SparkSession
    progress: Progress
    clock: StageClock = field(default_factory=StageClock)
    _moved: list[StageMetrics] = field(default_factory=list)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Run the body of a `with` block as the stage of this name."""
        with self.clock.stage(name), watch_stage(self.spark, self.progress, name) as watch:
            yield
        self._moved.append(watch.moved)

    def metrics(self) -> list[dict[str, Any]]:
        """Return the metrics of each stage, as in run.json."""
        return [asdict(moved) for moved in self._moved]
