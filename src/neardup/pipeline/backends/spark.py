"""The backend for a Spark cluster: work is done in tasks, which read and write shared files.

Every machine must see the inputs and OUT by the same paths. A task writes the same files as a
thread of a local run does, each under a temporary name until it is complete. So nothing is
shuffled, a lost task is repeated, and a stopped run goes on with either backend.
"""

from __future__ import annotations

import io
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from neardup.keys import Key
from neardup.pipeline.backends.backend import Advance, AnyDone, AnyItem, Work
from neardup.pipeline.backends.spark_failures import (
    spark_error_types,
    tag_errors,
    translate_spark_errors,
)

if TYPE_CHECKING:
    from pyspark import RDD, Accumulator, Broadcast
    from pyspark.sql import SparkSession

TASK_MEMORY: Final = 10**9
"""Default of the bytes that a task may hold."""
MAX_TASKS: Final = 10_000
"""Most tasks of one piece of work: with more items, a task gets several."""
MAX_MERGED: Final = 64
"""Most tasks whose results are merged: these have 32 MB each, and Spark allows 1 GB at once."""
LOOK_SECONDS: Final = 0.2


class _Pickler(pickle.Pickler):
    """Pickles work for tasks, which need the key of keyed hashes; no other pickle contains one."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Key):
            return Key, (value._secret,)
        return NotImplemented


def _pickle(value: object) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


class InTask:
    """What a task does with its items. Results are pickled, as the work is."""

    def __init__(self, work: Broadcast[bytes], threads: int, done: Accumulator[int]) -> None:
        self._work, self._threads, self._done = work, threads, done

    def __call__(self, items: Iterable[Any]) -> Iterator[bytes]:
        with tag_errors():
            work = pickle.loads(self._work.value)  # noqa: S301 (the driver's, as all of this code)
            for result in work(items, self._threads, self._done.add):
                yield _pickle(result)


class MergeInTask:
    """Merges two results of tasks."""

    def __init__(self, merge: Callable[[Any, Any], Any]) -> None:
        self._merge = merge

    def __call__(self, first: bytes, second: bytes) -> bytes:
        return _pickle(self._merge(pickle.loads(first), pickle.loads(second)))  # noqa: S301


class SparkBackend:
    """Does work in the tasks of a Spark session, for several threads at once.

    Args:
        open_session: Returns the session; called when the first work begins, because it takes
            seconds.
    """

    is_remote = True

    def __init__(self, open_session: Callable[[], SparkSession]) -> None:
        self._open_session, self._opening = open_session, threading.Lock()
        self._session: SparkSession | None = None
        self._work_done: dict[str, dict[str, Any]] = {}

    @property
    def spark(self) -> SparkSession:
        """The session."""
        with self._opening:
            if self._session is None:
                self._session = self._open_session()
            return self._session

    def run(
        self, work: Work[AnyItem, AnyDone], items: Sequence[AnyItem], threads: int, advance: Advance
    ) -> Iterator[AnyDone]:
        if not items:
            return
        tasks = _Tasks(self.spark, work, items, threads, MAX_TASKS)
        for result in tasks.wait(tasks.rdd.collect, advance):
            yield pickle.loads(result)  # noqa: S301 (of our own task)
        self._note(tasks)

    def reduce(
        self,
        work: Work[AnyItem, AnyDone],
        items: Sequence[AnyItem],
        merge: Callable[[AnyDone, AnyDone], AnyDone],
        threads: int,
        advance: Advance,
    ) -> AnyDone:
        if not items:
            (nothing,) = work(items, threads, advance)
            return nothing
        tasks = _Tasks(self.spark, work, items, threads, MAX_MERGED)
        merged = MergeInTask(merge)
        result: AnyDone = pickle.loads(  # noqa: S301 (of our own task)
            tasks.wait(lambda: tasks.rdd.treeReduce(merged), advance)
        )
        self._note(tasks)
        return result

    def describe(self) -> dict[str, Any]:
        """Return Spark's version and master, and for each piece of work its tasks and seconds."""
        known = {}
        if (spark := self._session) is not None:  # a run that had nothing to do has started none
            known = {"version": spark.version, "master": spark.sparkContext.master}
        return {"spark": known | {"work": list(self._work_done.values())}}

    def _note(self, tasks: _Tasks) -> None:
        """Add the figures of some tasks to those of the same kind of work."""
        done = self._work_done.setdefault(tasks.name, {"name": tasks.name})
        for figure, value in tasks.describe().items():
            done[figure] = round(done.get(figure, 0) + value, 4)


class _Tasks:
    """The tasks of one piece of work: an RDD of results, and how far they are."""

    def __init__(
        self,
        spark: SparkSession,
        work: Work[AnyItem, AnyDone],
        items: Sequence[AnyItem],
        threads: int,
        most: int,
    ) -> None:
        self._context, self._begun = spark.sparkContext, time.monotonic()
        threads = min(threads, int(self._context.getConf().get("spark.task.cpus", "1")))
        self.name = getattr(work, "__name__", type(work).__name__)
        self._tag = f"neardup-{uuid.uuid4().hex}"
        self._count = min(len(items), most)
        self._sent = self._context.broadcast(_pickle(work))
        self._done = self._context.accumulator(0)
        self.rdd: RDD[bytes] = self._context.parallelize(items, self._count).mapPartitions(
            InTask(self._sent, threads, self._done)
        )

    def wait(self, action: Callable[[], AnyDone], advance: Advance) -> AnyDone:
        """Return the result of an action, which is done in another thread, while `advance` is
        called in this one: if that raises an error, the tasks are cancelled."""
        future: Future[AnyDone] = Future()
        threading.Thread(
            target=self._act, args=(action, future), name="neardup-spark", daemon=True
        ).start()
        shown = 0
        try:
            while not future.done():
                wait([future], LOOK_SECONDS)
                done = self._done.value
                advance(done - shown)
                shown = done
            with translate_spark_errors(self.name):
                return future.result()
        except BaseException:
            with suppress(*spark_error_types()):  # Spark may have ended
                self._context.cancelJobsWithTag(self._tag)
            raise
        finally:
            with suppress(*spark_error_types()):
                self._sent.destroy()

    def _act(self, action: Callable[[], AnyDone], future: Future[AnyDone]) -> None:
        try:
            # Tags belong to a thread of Java, which Py4J gives to each of Python.
            self._context.addJobTag(self._tag)
            future.set_result(action())
        except BaseException as error:  # handed to the thread that waits
            future.set_exception(error)

    def describe(self) -> dict[str, float]:
        """Return the figures of run.json."""
        tracker = self._context._jsc.sc().statusTracker()
        failed = 0
        with suppress(*spark_error_types()):  # Spark keeps only the last stages
            for job in tracker.getJobIdsForTag(self._tag):
                for stage in tracker.getJobInfo(job).get().stageIds():
                    failed += tracker.getStageInfo(stage).get().numFailedTasks()
        return {
            "tasks": self._count,
            "failed_tasks": failed,
            "seconds": round(time.monotonic() - self._begun, 4),
        }
