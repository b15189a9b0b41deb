"""Sizes a Spark cluster for a run: executors, their memory, and Spark's settings.

An executor is a Java process with a heap, and a Python process for each core, whose memory Spark
calls overhead. Kernels and their data are in the Python processes.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from neardup.formatting import format_bytes, format_count, format_duration, format_number
from neardup.pipeline.backends.spark import MAX_TASKS, TASK_MEMORY
from neardup.pipeline.budget import LEAST
from neardup.pipeline.stages.band import BYTES_PER_KEY
from neardup.pipeline.stages.rank import BYTES_PER_HASH
from neardup.planner.local_run import A_DOCUMENT
from neardup.planner.requirements import Sla
from neardup.planner.spark_run import SparkRun, SparkStage
from neardup.planner.unmet_limits import UnmetLimit, as_hours, describe_rate

CORES: Final = 4
"""The default of an executor."""
NIGHT: Final = 8 * 3600.0
"""Seconds within which a run must end if no rate is required."""
GB, TB = 1e9, 1e12

BESIDES, HEAP = 384 * 2**20, 2**30
"""Bytes of a Java process outside of its heap; of its heap. Spark's defaults."""
SENT: Final = 1
"""Bytes of each document in a heap, while the state of all is sent to the tasks of banding."""
PARTITIONS, PARTITION = 200, 128 * 10**6
"""Partitions in which the rows of a DataFrame are sorted: Spark's default; most bytes of one."""
TIMES: Final = 4
"""Each row of the table of executors has this many times as many as the previous row."""
MOST_ROWS: Final = 6
LONG: Final = 600.0
"""Seconds of the driver alone that are worth a warning."""


@dataclass(frozen=True)
class ExecutorMemory:
    """The bytes of memory that an executor and the driver need.

    Attributes:
        limit: What a task may hold, and the driver's Python process: `--memory` of `neardup dedup`.
        task: What a task is predicted to hold.
        overhead: The Python processes of an executor, and other memory outside its heap.
        heap: The remaining memory of an executor for Java, or the least that it needs.
        driver: The heap of the driver.
        driver_python: What the driver's Python process is predicted to hold.
    """

    limit: int
    task: float
    overhead: float
    heap: float
    driver: float
    driver_python: float


@dataclass(frozen=True)
class ClusterSize:
    """The cluster for a run on Spark, and the cost of the run.

    Attributes:
        cores: Cores of an executor, and of the driver.
        memory: Bytes of memory of an executor, heap and overhead together.
        executors: Executors: enough for the required rate, else to end within eight hours.
        seconds: Elapsed time with these executors.
        times: Pairs of executors and seconds, for other numbers of executors.
        work: Seconds of all cores together.
        alone: Seconds in which only the driver works.
        core_hours: `work` in hours.
        core_hours_a_tb: The same per TB of text.
        read: Bytes read from the shared folder.
        work_folder: Bytes in the work folder at the end of the run.
        out: Bytes in OUT.
        sorted: Bytes of the texts and ids: for a DataFrame, or URLs, they are shuffled once, to be
            sorted, and written to the work folder.
        needs: The memory of an executor and of the driver, in parts.
        settings: Settings for spark-submit, by their names in Spark.
        stages: The cost of each stage.

    >>> from neardup import plan
    >>> cluster = plan("10M", engine="spark", calibrate=False).spark
    >>> cluster.cores, cluster.settings["spark.executor.cores"]
    (4, '4')
    """

    cores: int
    memory: float
    executors: int
    seconds: float
    times: tuple[tuple[int, float], ...]
    work: float
    alone: float
    core_hours: float
    core_hours_a_tb: float
    read: float
    work_folder: float
    out: float
    sorted: float
    needs: ExecutorMemory
    settings: dict[str, str]
    stages: tuple[SparkStage, ...]


def size_cluster(run: SparkRun) -> ClusterSize:
    """Return the cluster for a run. Without a memory limit, executors get what they need."""
    sla = run.sla
    run = replace(run, task=_task_limit(run))
    needs = _memory_needs(run)
    executors = _count_executors(run)
    stages = run.stages(executors)
    work = sum(stage.work for stage in stages)
    out = sum(stage.written for stage in stages if stage.name in ("tables", "filter"))
    sorted_bytes = sla.documents * (sla.size + run.workload.id)
    return ClusterSize(
        sla.cores,
        needs.overhead + needs.heap if sla.memory is None else sla.memory,
        executors,
        sum(stage.seconds for stage in stages),
        _list_times(run),
        work,
        sum(stage.alone for stage in stages),
        work / 3600,
        work / 3600 / (sla.documents * sla.size / TB),
        sum(stage.read for stage in stages),
        sum(stage.written for stage in stages) - out,
        out,
        sorted_bytes,
        needs,
        _settings(executors, sla.cores, needs, sorted_bytes),
        stages,
    )


# -- memory -----------------------------------------------------------------------------------


def _task_limit(run: SparkRun) -> int:
    """Return what a task may hold, so that keys are sorted in one slice; where an executor has the
    memory for it, so that the driver can rank documents in one slice, too."""
    count, memory = run.sla.documents, run.sla.memory
    each = BYTES_PER_KEY if memory is None else BYTES_PER_HASH
    wanted = max(TASK_MEMORY, run.spark.python + (A_DOCUMENT + 2 * each) * (count + 1))
    if memory is None:
        return int(wanted)
    room = (memory - BESIDES - _least_heap(run)) / run.sla.cores
    return int(max(min(wanted, room), LEAST))


def _least_heap(run: SparkRun) -> float:
    return HEAP + SENT * run.sla.documents


def _memory_needs(run: SparkRun) -> ExecutorMemory:
    heap = _least_heap(run)
    overhead = BESIDES + run.sla.cores * max(run.task, run.task_memory)
    return ExecutorMemory(
        run.task,
        run.task_memory,
        overhead,
        heap if run.sla.memory is None else max(run.sla.memory - overhead, heap),
        heap,
        run.driver_memory,
    )


def _settings(
    executors: int, cores: int, needs: ExecutorMemory, sorted_bytes: float
) -> dict[str, str]:
    driver = max(needs.limit, needs.driver_python)
    return {
        "spark.executor.instances": str(executors),
        "spark.executor.cores": str(cores),
        "spark.executor.memory": _mebibytes(needs.heap),
        "spark.executor.memoryOverhead": _mebibytes(needs.overhead),
        "spark.driver.cores": str(cores),
        "spark.driver.memory": _mebibytes(needs.driver),
        "spark.driver.memoryOverhead": _mebibytes(BESIDES + driver),
        "spark.sql.shuffle.partitions": str(max(PARTITIONS, math.ceil(sorted_bytes / PARTITION))),
    }


def _mebibytes(size: float) -> str:
    """Return a size in the notation of Spark."""
    return f"{max(math.ceil(size / 2**20), 1)}m"


# -- time -------------------------------------------------------------------------------------


def _count_executors(run: SparkRun) -> int:
    """Return the fewest executors that end in time; if none do, those that come within a tenth of
    the least time."""
    sla, least = run.sla, _least_seconds(run)
    wanted = NIGHT if sla.rate is None else sla.documents / sla.rate
    wanted = wanted if wanted >= least else 1.1 * least
    return 1 + bisect_left(range(1, MAX_TASKS), -wanted, key=lambda count: -run.seconds(count))


def _least_seconds(run: SparkRun) -> float:
    """Return the elapsed time that no number of executors can shorten."""
    return run.seconds(MAX_TASKS)


def _list_times(run: SparkRun) -> tuple[tuple[int, float], ...]:
    """Return executors and seconds, as long as four times the executors halve the time."""
    rows = [(TIMES**power, run.seconds(TIMES**power)) for power in range(MOST_ROWS)]
    useful = rows[:1]
    for before, after in pairwise(rows):
        if after[1] > before[1] / 2:
            break
        useful.append(after)
    return tuple(useful)


# -- limits -----------------------------------------------------------------------------------


def find_cluster_problems(cluster: ClusterSize, run: SparkRun) -> list[UnmetLimit]:
    """Return the requirements that the cluster can't meet."""
    run = replace(run, task=cluster.needs.limit)
    return [*_memory(run, cluster), *_disk(run.sla, cluster), *_rate(run)]


def _memory(run: SparkRun, cluster: ClusterSize) -> list[UnmetLimit]:
    sla, each = run.sla, max(cluster.needs.limit, cluster.needs.task)
    besides = BESIDES + _least_heap(run)
    needed = besides + sla.cores * each
    if sla.memory is None or needed <= sla.memory:
        return []
    cures = [f"give {math.ceil(needed / GB):,} GB"]
    fewer = int((sla.memory - besides) / each)
    if 0 < fewer < sla.cores:
        cures.append(f"use {format_count(fewer, 'core')} for each")
    message = (
        f"an executor of {format_count(sla.cores, 'core')} needs {format_bytes(needed)} of memory, "
        f"the limit is {format_bytes(sla.memory)}"
    )
    return [UnmetLimit("memory", sla.memory, needed, message, cures)]


def _disk(sla: Sla, cluster: ClusterSize) -> list[UnmetLimit]:
    needed = cluster.work_folder + cluster.out
    if sla.disk is None or needed <= sla.disk:
        return []
    kept = next(stage.written for stage in cluster.stages if stage.name == "filter")
    cures = [
        f"give {format_bytes(needed)}",
        f"run with --no-kept, which saves {format_bytes(kept)}",
    ]
    message = (
        f"{format_bytes(needed)} are needed in the shared folder, the limit is "
        f"{format_bytes(sla.disk)}"
    )
    return [UnmetLimit("disk", sla.disk, needed, message, cures)]


def _rate(run: SparkRun) -> list[UnmetLimit]:
    sla, least = run.sla, _least_seconds(run)
    if sla.rate is None or sla.documents / sla.rate >= least:
        return []
    reached = sla.documents / least
    message = (
        f"{describe_rate(sla)} are not reached by any number of executors: starting, "
        f"what the driver does alone, and reading and writing the shared folder take "
        f"{format_duration(least)}"
    )
    cures = [f"ask for fewer than {reached:,.0f} a second ({as_hours(least)})"]
    return [UnmetLimit("rate", sla.rate, reached, message, cures)]


def note_driver(cluster: ClusterSize, run: SparkRun) -> list[str]:
    """Return a warning if the driver works alone for a long time, and most of the run."""
    if cluster.alone < max(LONG, cluster.seconds / 2):
        return []
    longest = max(cluster.stages, key=lambda stage: stage.alone).name
    cures = {
        "rank": "; --memory for larger executors makes it shorter",
        "decide": f"; {format_number(run.workload.compared)} pairs are compared for each document: "
        "more slots or a higher threshold make steeper bands, and --sample shows whether your "
        "documents meet that often",
    }
    return [
        f"for {format_duration(cluster.alone)} of {format_duration(cluster.seconds)} only the "
        f"driver works, most of it in the stage {longest}, and more executors don't shorten that"
        + cures.get(longest, "")
    ]
