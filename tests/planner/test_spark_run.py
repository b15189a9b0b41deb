"""The model of a run on Spark: the costs of a local run, shared by tasks or left to the driver."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from support.spark_model import run_of

from neardup.options import Options
from neardup.planner.local_run import LocalRun
from neardup.planner.requirements import Sla
from neardup.planner.spark_run import MEASURED, SparkRun, SparkStage

GB = 10**9
FAST = replace(MEASURED, folder=1e15)
"""A shared folder that never limits a stage."""
LOCAL = ["start", "sketch", "rank", "band", "match", "decide", "tables", "filter"]


def stages(run: SparkRun, executors: int = 1) -> dict[str, SparkStage]:
    return {stage.name: stage for stage in run.stages(executors)}


def large(**other: object) -> SparkRun:
    """Return a run of a hundred million documents, whose sets don't fit into any task."""
    return run_of(Sla(10**8, size=3000.0, cores=4), spark=FAST, **other)


@pytest.mark.parametrize("verify", ["exact", "estimate"])
def test_work_and_bytes_are_those_of_a_local_run_in_the_memory_of_a_task(verify: str) -> None:
    run = run_of(Sla(10**7, cores=4), Options.of(verify=verify))
    sla = Sla(10**7, cores=1, memory=run.task)
    costs = replace(run.costs, base=MEASURED.python)
    local = LocalRun(sla, costs, run.workload, run.options, run.slots).stages()
    seen = stages(run)
    hashed = seen.pop("hash")
    assert list(seen) == LOCAL
    for one in local:
        here = seen[one.name]
        assert (here.work, here.read, here.written) == (one.work, one.read, one.written)
    assert (hashed.read, hashed.written, hashed.work) == (seen["sketch"].read, 0, 0)


def test_executors_shorten_the_stages_of_tasks_and_no_others() -> None:
    one, ten = stages(large()), stages(large(), 10)
    for name in ("sketch", "match", "filter"):
        assert (one[name].seconds - 1) / (ten[name].seconds - 1) == pytest.approx(10)
    for name in ("start", "rank", "tables"):
        assert ten[name].tasks == 0
        assert ten[name].seconds == one[name].seconds == one[name].alone
    assert [one[name].work for name in one] == [ten[name].work for name in one]


def test_a_band_is_the_work_of_one_task() -> None:
    six, many = stages(large(), 6)["band"], stages(large(), 600)["band"]
    assert six.tasks == 21
    assert six.seconds == many.seconds < stages(large(), 5)["band"].seconds


def test_a_shard_is_the_work_of_one_task() -> None:
    small = run_of(Sla(40_000), spark=FAST)  # 120 MB in two shards of 64 MiB
    assert stages(small)["sketch"].tasks == 2
    assert stages(small, 2)["sketch"].seconds == stages(small, 100)["sketch"].seconds


def test_driver_compares_the_pairs_if_their_sets_fit_a_third_of_its_memory() -> None:
    count = 300_000  # with 800 bytes of sets a document, and 24 a candidate
    fits = run_of(Sla(count, cores=4), spark=FAST)
    tight = replace(fits, task=3 * 241_440_000 + 120_000_000)
    assert stages(fits)["decide"].tasks == 0
    assert stages(replace(tight, task=tight.task + 3))["decide"].tasks == 0
    decide = stages(tight)["decide"]
    # A task has half of the memory for pairs with four sets of 4 KB, and the driver all of it for
    # pairs of 160 bytes.
    assert decide.tasks == 202
    assert decide.alone < stages(fits)["decide"].alone
    assert stages(tight, 50)["decide"].seconds < decide.seconds


def test_only_pairing_and_deciding_is_left_to_the_driver_of_a_large_run() -> None:
    seen = stages(large(), 10_000)["decide"]
    assert seen.alone == pytest.approx(10**8 * (0.5 * 9e-7 + 2.3 * 2.5e-7))
    # Each of eight windows of pairs is a job of its own.
    assert seen.seconds - seen.alone == pytest.approx(8, abs=1)


def test_bytes_of_the_shared_folder_limit_each_stage() -> None:
    slow = stages(replace(large(), spark=replace(MEASURED, folder=1e6)), 100)
    for stage in slow.values():
        assert stage.seconds >= (stage.read + stage.written) / 1e6
    assert slow["rank"].seconds > stages(large(), 100)["rank"].seconds


def test_little_memory_makes_slices_and_more_reading() -> None:
    tight, wide = stages(large(task=GB)), stages(large(task=8 * GB))
    assert tight["band"].read >= 4 * wide["band"].read
    assert tight["band"].seconds > wide["band"].seconds
    assert tight["rank"].seconds > wide["rank"].seconds


def test_tasks_stay_within_their_memory_or_the_least_that_documents_take() -> None:
    assert large(task=GB).task_memory == GB
    billion = run_of(Sla(10**9, cores=4))
    assert billion.task_memory > 2 * GB
    small = run_of(Sla(1000, cores=4))
    assert 120e6 < small.task_memory < small.driver_memory < 200e6


def test_small_run_takes_its_start_and_a_second_for_each_piece_of_work() -> None:
    seen = run_of(Sla(1000, cores=4)).stages(1)
    pieces = [stage.name for stage in seen if stage.tasks and stage.name != "hash"]
    assert pieces == ["sketch", "band", "match", "filter"]
    assert sum(stage.seconds for stage in seen) == pytest.approx(8 + 4, abs=0.1)


def test_planning_needs_no_pyspark() -> None:
    code = (
        "import sys; from neardup import plan; plan('1M', engine='spark', calibrate=False); "
        "sys.exit('pyspark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
