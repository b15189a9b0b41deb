"""Sizes a Spark cluster for a run: executors, their memory, and Spark's settings.

An executor is a Java process with a heap, and a Python process for each core, whose memory Spark
calls overhead. Kernels and their data are in the Python processes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from neardup.formatting import format_bytes, format_count, format_duration, format_number
from neardup.planner.requirements import Sla
from neardup.planner.spark_run import SparkRun, SparkStageCost, shuffle_bytes
from neardup.planner.unmet_limits import UnmetLimit

CORES, MEMORY = 4, 16 * 10**9
"""The default of an executor."""
NIGHT: Final = 8 * 3600.0
"""Seconds within which a run must end if no rate is required."""
GB, TB = 1e9, 1e12

# Bytes of memory.
PYTHON, BESIDES = 215 * 10**6, 384 * 2**20
"""A Python process with its kernels but no data, measured; other memory outside the heap."""
HEAP_OF_A_CORE, DRIVER = 10**9, 2**30
"""The heap for the shuffles of one core, and that of the driver."""
BITMAPS: Final = 3 / 8
"""For each document: bits that mark copies and candidates, and the counts of these bits."""
SIEVE: Final = 2
"""For each row that is looked up again in a DataFrame, or in lines that Spark reads: 16 bits."""
STATE: Final = 5
"""For each candidate in the rounds: two bytes sent to all tasks, and a task's copy of them."""
STATUS: Final = 6
"""For each candidate that a pass has settled, sent to the driver: number, status, bound."""
DRIVER_STATE: Final = 8
"""For each candidate in the driver: the state of this round and of the previous one."""
RESULTS: Final = 2**30
"""Spark's default limit for the bytes that a job sends to the driver."""

# Partitions of a shuffle.
PARTITIONS, PARTITION = 200, 128 * 10**6
"""Spark's default number; the most bytes that one should have."""
TIMES: Final = 4
"""Each row of the table of executors has this many times as many as the previous row."""
MOST_ROWS: Final = 6


@dataclass(frozen=True)
class ExecutorMemory:
    """The bytes of memory that an executor and the driver need.

    worker      a Python process: `python`, `bitmaps` of all documents (the most for a DataFrame),
                the `state` of candidates in the rounds, and `task`, the sets of a range and the
                data derived from them
    overhead    all Python processes of an executor, and other memory outside its heap
    heap        the remaining memory of an executor for Java, or the least that it needs
    driver      the heap of the driver, and `driver_python`, its Python process
    results     the most bytes that one job sends to the driver
    """

    worker: float
    python: float
    bitmaps: float
    state: float
    task: float
    overhead: float
    heap: float
    driver: float
    driver_python: float
    results: float

    @classmethod
    def of(cls, run: SparkRun, cores: int, executor: float) -> ExecutorMemory:
        count, candidates = run.amounts.documents, run.amounts.candidates
        sieve = SIEVE * max(candidates, run.amounts.removed)
        bitmaps, rounds = BITMAPS * count + sieve, candidates if run.amounts.ranges else 0.0
        worker = PYTHON + bitmaps + STATE * rounds + run.task
        overhead = BESIDES + cores * worker
        results = max(count / 8, sieve, STATUS * rounds)
        return cls(
            worker,
            PYTHON,
            bitmaps,
            STATE * rounds,
            run.task,
            overhead,
            max(executor - overhead, cores * HEAP_OF_A_CORE),
            DRIVER + 2 * results,
            PYTHON + bitmaps + count / 4 + DRIVER_STATE * rounds,
            results,
        )


@dataclass(frozen=True)
class ClusterSize:
    """The cluster for a run on Spark, and the cost of the run.

    Attributes:
        cores: Cores of an executor.
        memory: Bytes of memory of an executor, heap and overhead together.
        executors: Executors: enough for the required rate, else to end within eight hours.
        seconds: Elapsed time with these executors.
        times: Pairs of executors and seconds, for other numbers of executors.
        work: Seconds of all cores together.
        alone: Those of them in which a single task works.
        core_hours: `work` in hours.
        core_hours_a_tb: The same per TB of text.
        read: Bytes read.
        shuffled: Bytes shuffled.
        shuffled_a_document: The same per document.
        if_ordered: Bytes shuffled with a keep policy other than first, or for a DataFrame.
        shuffle_disk: Bytes of shuffles on the disk of each executor.
        work_folder: Bytes in the work folder at the end of the run.
        out: Bytes in OUT.
        ranges: Ranges of documents in which pairs are compared; 0 if one task decides.
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
    shuffled: float
    shuffled_a_document: float
    if_ordered: float
    shuffle_disk: float
    work_folder: float
    out: float
    ranges: int
    needs: ExecutorMemory
    settings: dict[str, str]
    stages: tuple[SparkStageCost, ...]


def size_cluster(run: SparkRun) -> ClusterSize:
    """Return the cluster for a run. Without a memory limit, executors get what they need."""
    sla, stages = run.sla, run.stages()
    needs = ExecutorMemory.of(run, sla.cores, MEMORY if sla.memory is None else sla.memory)
    memory = needs.overhead + needs.heap if sla.memory is None else sla.memory
    shuffled = sum(stage.shuffled for stage in stages)
    ordered = shuffle_bytes(replace(run.amounts, ordered=True), run.spark)
    clock = RunTime.of(run, stages)
    executors = max(
        clock.executors(NIGHT if sla.rate is None else sla.documents / sla.rate),
        1 if sla.disk is None else math.ceil(shuffled / sla.disk),
    )
    work = sum(stage.work for stage in stages)
    largest = max(ordered["ranking"], ordered["banding"], run.amounts.sets)
    return ClusterSize(
        sla.cores,
        memory,
        executors,
        clock.seconds(executors),
        clock.times(),
        work,
        clock.alone,
        work / 3600,
        work / 3600 / (sla.documents * sla.size / TB),
        sum(stage.read for stage in stages),
        shuffled,
        shuffled / sla.documents,
        sum(ordered.values()),
        shuffled / executors,
        sum(stage.written for stage in stages),
        sum(stage.out for stage in stages),
        run.amounts.ranges,
        needs,
        _settings(executors, sla.cores, needs, largest),
        stages,
    )


@dataclass(frozen=True)
class RunTime:
    """Seconds of a run: start, single tasks, and the remaining work on one executor."""

    start: float
    alone: float
    shared: float

    @classmethod
    def of(cls, run: SparkRun, stages: tuple[SparkStageCost, ...]) -> RunTime:
        """Add up the stages; in each, the slower of cores and disk counts."""
        fast, speed = run.costs.cores(run.sla.cores), run.spark.speed
        shared = sum(
            max((stage.work - stage.alone) / fast, stage.moved / speed) for stage in stages
        )
        return cls(run.spark.start, sum(stage.alone for stage in stages), shared)

    def seconds(self, executors: float) -> float:
        """Return the elapsed time with this many executors."""
        return self.start + self.alone + self.shared / executors

    @property
    def least(self) -> float:
        """The elapsed time that no number of executors can shorten."""
        return self.start + self.alone

    def executors(self, seconds: float) -> int:
        """Return the fewest executors that end in time; if none do, those that come within a tenth
        of the least time."""
        room = seconds - self.least if seconds > self.least else self.least / 10
        return max(math.ceil(self.shared / room), 1)

    def times(self) -> tuple[tuple[int, float], ...]:
        """Return executors and seconds, as long as four times the executors halve the time."""
        rows = [(TIMES**power, self.seconds(TIMES**power)) for power in range(MOST_ROWS)]
        useful = [(1, rows[0][1])]
        for before, after in pairwise(rows):
            if after[1] > before[1] / 2:
                break
            useful.append(after)
        return tuple(useful)


def _settings(executors: int, cores: int, needs: ExecutorMemory, largest: float) -> dict[str, str]:
    partitions = max(PARTITIONS, 2 * executors * cores, math.ceil(largest / PARTITION))
    settings = {
        "spark.executor.instances": str(executors),
        "spark.executor.cores": str(cores),
        "spark.executor.memory": _mebibytes(needs.heap),
        "spark.executor.memoryOverhead": _mebibytes(needs.overhead),
        "spark.driver.memory": _mebibytes(needs.driver),
        "spark.driver.memoryOverhead": _mebibytes(BESIDES + needs.driver_python),
        "spark.sql.shuffle.partitions": str(partitions),
    }
    if 2 * needs.results > RESULTS:
        settings["spark.driver.maxResultSize"] = _mebibytes(2 * needs.results)
    return settings


def _mebibytes(size: float) -> str:
    """Return a size in the notation of Spark."""
    return f"{max(math.ceil(size / 2**20), 1)}m"


def find_cluster_problems(cluster: ClusterSize, run: SparkRun) -> list[UnmetLimit]:
    """Return the requirements that the cluster can't meet."""
    return [*_memory(run.sla, cluster), *_rate(run, cluster)]


def _memory(sla: Sla, cluster: ClusterSize) -> list[UnmetLimit]:
    needed = cluster.needs.overhead + HEAP_OF_A_CORE * sla.cores
    if sla.memory is None or needed <= sla.memory:
        return []
    cures = [f"give {math.ceil(needed / GB):,} GB"]
    fewer = int((sla.memory - BESIDES) / (cluster.needs.worker + HEAP_OF_A_CORE))
    if 0 < fewer < sla.cores:
        cures.append(f"use {format_count(fewer, 'core')} for each")
    message = (
        f"an executor of {format_count(sla.cores, 'core')} needs {format_bytes(needed)} of memory, "
        f"the limit is {format_bytes(sla.memory)}"
    )
    return [UnmetLimit("memory", sla.memory, needed, message, cures)]


def _rate(run: SparkRun, cluster: ClusterSize) -> list[UnmetLimit]:
    sla, least = run.sla, RunTime.of(run, cluster.stages).least
    if sla.rate is None or sla.documents / sla.rate > least:
        return []
    reached = sla.documents / least
    message = (
        f"{sla.rate:,.0f} documents a second are not reached by any number of executors: starting, "
        f"and what one task does alone, take {format_duration(least)}"
    )
    cures = [f"ask for fewer than {reached:,.0f} a second"]
    return [UnmetLimit("rate", sla.rate, reached, message, cures)]


def note_shuffles(cluster: ClusterSize, run: SparkRun) -> list[str]:
    """Return a warning if more than half of the shuffled bytes are pairs and their sets."""
    deciding = next(stage.shuffled for stage in cluster.stages if stage.name == "deciding")
    if not cluster.ranges or deciding < cluster.shuffled / 2:
        return []
    return [
        f"{deciding / cluster.shuffled:.0%} of what is shuffled are pairs, and sets on their way "
        f"to be compared, {format_number(run.workload.compared)} pairs for each document: more "
        "slots or a higher threshold make steeper bands, and --verify estimate makes small sets; "
        "--sample shows whether your documents meet that often"
    ]
