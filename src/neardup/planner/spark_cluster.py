"""The size of a Spark cluster for a run: executors, their memory, and Spark's settings.

An executor is a Java process with a heap, and beside it a Python process for each core, which
hold what Spark calls overhead. Kernels and their data are in the latter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from neardup.formatting import format_bytes, format_count, format_duration, format_number
from neardup.planner.explanation import UnmetLimit
from neardup.planner.requirements import Sla
from neardup.planner.spark_run import SparkRun, SparkStageCost, shuffle_bytes

CORES, MEMORY = 4, 16 * 10**9
"""Of an executor, if nothing is said."""
NIGHT: Final = 8 * 3600.0
"""A run ends within so many seconds, if no rate is asked for."""
GB, TB = 1e9, 1e12

# Bytes of memory.
PYTHON, BESIDES = 215 * 10**6, 384 * 2**20
"""A Python process with its kernels, before any data: measured. What else is outside the heap."""
HEAP_OF_A_CORE, DRIVER = 10**9, 2**30
"""What Java needs for the shuffles of one core, and in the driver."""
BITMAPS: Final = 3 / 8
"""Of a document: a bit whether it is a copy, one whether it is a candidate, and counts of these."""
SIEVE: Final = 2
"""Of a row that is looked for again in a DataFrame, or in lines that Spark reads: 16 bits."""
STATE: Final = 5
"""Of a candidate in the rounds: two bytes that all tasks get, and what a task makes of them."""
STATUS: Final = 6
"""Of a candidate that a pass has settled, on its way to the driver: number, status, bound."""
DRIVER_STATE: Final = 8
"""Of a candidate in the driver: the state of this round and of the one before."""
RESULTS: Final = 2**30
"""Spark's own limit for what a job may send to the driver."""

# Partitions of a shuffle.
PARTITIONS, PARTITION = 200, 128 * 10**6
"""Spark's default; the bytes that one should have at most."""
TIMES: Final = 4
"""Each row of the table of executors has so many times as many as the one before."""
MOST_ROWS: Final = 6


@dataclass(frozen=True)
class ExecutorMemory:
    """Bytes that are needed, of each executor and of the driver.

    worker      a Python process: `python`, `bitmaps` of all documents (the most of them for a
                DataFrame), the `state` of candidates in the rounds, and `task`, the sets of a
                range with what is made of them
    overhead    all Python processes of an executor, and what else is outside of its heap
    heap        what is left of an executor for Java, or the least that it needs
    driver      the heap of the driver, and `driver_python`, its Python process
    results     the most that one job sends to the driver
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
    """A run on Spark.

    cores, memory   of an executor
    executors       how many: for the rate that is asked for, else to end within a night
    seconds         that these take
    times           executors against seconds
    work            seconds of all cores; `alone` those in which only one of them has work
    shuffled        bytes, in all; `if_ordered`, with a keep policy or for a DataFrame
    shuffle_disk    of that, what the disk of an executor holds
    work_folder     bytes there at the end of a run; `out` those of OUT
    ranges          in which pairs are compared by rounds; 0 if one task decides everything
    settings        for spark-submit, by their names in Spark
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
    """The cluster for a run. Without a limit, executors have what they need."""
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
    """Seconds of a run: at its start, of what one task does alone, of one executor for the rest."""

    start: float
    alone: float
    shared: float

    @classmethod
    def of(cls, run: SparkRun, stages: tuple[SparkStageCost, ...]) -> RunTime:
        """In each stage the slower of cores and bytes counts."""
        fast, speed = run.costs.cores(run.sla.cores), run.spark.speed
        shared = sum(
            max((stage.work - stage.alone) / fast, stage.moved / speed) for stage in stages
        )
        return cls(run.spark.start, sum(stage.alone for stage in stages), shared)

    def seconds(self, executors: float) -> float:
        return self.start + self.alone + self.shared / executors

    @property
    def least(self) -> float:
        """However many executors there are."""
        return self.start + self.alone

    def executors(self, seconds: float) -> int:
        """The fewest that need so many seconds; if none can, those that need a tenth more
        than the least."""
        room = seconds - self.least if seconds > self.least else self.least / 10
        return max(math.ceil(self.shared / room), 1)

    def times(self) -> tuple[tuple[int, float], ...]:
        """Executors and seconds, as long as more of them make it much faster."""
        rows = [(TIMES**power, self.seconds(TIMES**power)) for power in range(MOST_ROWS)]
        useful = [(1, rows[0][1])]
        for before, after in pairwise(rows):
            if after[1] > before[1] / 2:
                break
            useful.append(after)
        return tuple(useful)


def _settings(executors: int, cores: int, needs: ExecutorMemory, largest: float) -> dict[str, str]:
    partitions = max(PARTITIONS, 2 * executors * cores, math.ceil(largest / PARTITION))
    found = {
        "spark.executor.instances": str(executors),
        "spark.executor.cores": str(cores),
        "spark.executor.memory": _mebibytes(needs.heap),
        "spark.executor.memoryOverhead": _mebibytes(needs.overhead),
        "spark.driver.memory": _mebibytes(needs.driver),
        "spark.driver.memoryOverhead": _mebibytes(BESIDES + needs.driver_python),
        "spark.sql.shuffle.partitions": str(partitions),
    }
    if 2 * needs.results > RESULTS:
        found["spark.driver.maxResultSize"] = _mebibytes(2 * needs.results)
    return found


def _mebibytes(size: float) -> str:
    """As Spark reads it."""
    return f"{max(math.ceil(size / 2**20), 1)}m"


def find_cluster_problems(found: ClusterSize, run: SparkRun) -> list[UnmetLimit]:
    """What is asked of the cluster and can't be had."""
    return [*_memory(run.sla, found), *_rate(run, found)]


def _memory(sla: Sla, found: ClusterSize) -> list[UnmetLimit]:
    needed = found.needs.overhead + HEAP_OF_A_CORE * sla.cores
    if sla.memory is None or needed <= sla.memory:
        return []
    cures = [f"give {math.ceil(needed / GB):,} GB"]
    fewer = int((sla.memory - BESIDES) / (found.needs.worker + HEAP_OF_A_CORE))
    if 0 < fewer < sla.cores:
        cures.append(f"use {format_count(fewer, 'core')} for each")
    message = (
        f"an executor of {format_count(sla.cores, 'core')} needs {format_bytes(needed)} of memory, "
        f"{format_bytes(sla.memory)} are there"
    )
    return [UnmetLimit("memory", sla.memory, needed, message, cures)]


def _rate(run: SparkRun, found: ClusterSize) -> list[UnmetLimit]:
    sla, least = run.sla, RunTime.of(run, found.stages).least
    if sla.rate is None or sla.documents / sla.rate > least:
        return []
    reached = sla.documents / least
    message = (
        f"{sla.rate:,.0f} documents a second are not reached by any number of executors: starting, "
        f"and what one task does alone, take {format_duration(least)}"
    )
    cures = [f"ask for fewer than {reached:,.0f} a second"]
    return [UnmetLimit("rate", sla.rate, reached, message, cures)]


def note_shuffles(found: ClusterSize, run: SparkRun) -> list[str]:
    """What is no failure, but should be known."""
    deciding = next(stage.shuffled for stage in found.stages if stage.name == "deciding")
    if not found.ranges or deciding < found.shuffled / 2:
        return []
    return [
        f"{deciding / found.shuffled:.0%} of what is shuffled are pairs, and sets on their way to "
        f"be compared, {format_number(run.profile.compared)} pairs for each document: more "
        "slots or a "
        "higher threshold make steeper bands, and --verify estimate makes small sets; --sample "
        "shows whether your documents meet that often"
    ]
