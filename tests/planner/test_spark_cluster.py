"""The size of a Spark cluster: memory, executors, settings; and plans for Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.spark_model import run_of

from neardup.errors import ParameterError
from neardup.planner.planner import Plan, plan
from neardup.planner.requirements import Sla
from neardup.planner.spark_cluster import ClusterSize, ExecutorMemory, size_cluster
from neardup.planner.spark_run import (
    MEASURED,
)

GB, MIB = 10**9, 2**20


def on_spark(documents: float, **asked: Any) -> Plan:
    return plan(documents, engine="spark", calibrate=False, **asked)


def cluster(documents: float, **asked: Any) -> ClusterSize:
    found = on_spark(documents, **asked).spark
    assert found is not None
    return found


def test_executor_memory_by_hand() -> None:
    run = run_of(Sla(80_000_000, cores=2))
    assert run.amounts.ranges > 0
    needs = ExecutorMemory.of(run, cores=2, executor=10 * GB)
    assert needs.bitmaps == 30_000_000 + 2 * 16_000_000
    assert needs.state == 5 * 16_000_000
    assert needs.worker == 215_000_000 + 62_000_000 + 80_000_000 + GB
    assert needs.overhead == 384 * MIB + 2 * needs.worker
    assert needs.heap == 10 * GB - needs.overhead
    assert needs.results == 6 * 16_000_000
    assert needs.driver == 1024 * MIB + 2 * needs.results
    assert needs.driver_python == 215_000_000 + 62_000_000 + 20_000_000 + 8 * 16_000_000


def test_an_executor_has_four_cores_and_16_gb_unless_more_is_needed() -> None:
    usual, large = cluster("10M"), cluster("1B")
    assert (usual.cores, usual.memory) == (4, 16 * GB)
    assert usual.needs.heap + usual.needs.overhead == usual.memory
    assert large.memory == large.needs.overhead + 4 * GB > 16 * GB
    given = cluster("10M", cores=8, memory="64GB")
    assert (given.cores, given.memory) == (8, 64 * GB)


def test_settings_match_the_cluster() -> None:
    found = cluster("10M", rate=20_000)
    assert found.settings["spark.executor.instances"] == str(found.executors)
    assert found.settings["spark.executor.cores"] == "4"
    both = ("spark.executor.memory", "spark.executor.memoryOverhead")
    given = sum(int(found.settings[name].removesuffix("m")) * MIB for name in both)
    assert given == pytest.approx(found.memory, abs=2 * MIB)
    assert int(found.settings["spark.sql.shuffle.partitions"]) >= 200
    assert "spark.driver.maxResultSize" not in found.settings
    assert "spark.driver.maxResultSize" in cluster("1B").settings


def test_executors_are_the_fewest_for_the_rate() -> None:
    run = run_of(Sla(10**8, size=3000.0, rate=100_000.0, cores=4))
    found = size_cluster(run)
    wanted = 10**8 / 100_000
    assert found.executors > 1
    assert found.seconds <= wanted
    fewer = run.spark.start + found.alone
    fewer += (found.seconds - fewer) * found.executors / (found.executors - 1)
    assert fewer > wanted


def test_run_without_rate_ends_within_eight_hours() -> None:
    found = cluster("100M", bytes=3000)
    assert found.seconds <= 8 * 3600
    executors, seconds = zip(*found.times, strict=True)
    assert executors[:3] == (1, 4, 16)
    assert list(seconds) == sorted(seconds, reverse=True)
    assert [one for one, _ in cluster(1000).times] == [1]


def test_slower_of_cores_and_disk_decides_the_time() -> None:
    sla = Sla(10**8, size=3000.0, cores=4)
    slow, fast = (
        size_cluster(run_of(sla, spark=replace(MEASURED, speed=speed))).times[0][1]
        for speed in (1e7, 1e13)
    )
    stages = run_of(sla).stages()
    assert slow == pytest.approx(
        25 + sum(one.alone for one in stages) + sum(one.moved for one in stages) / 1e7
    )
    work = sum(one.work - one.alone for one in stages)
    assert fast == pytest.approx(25 + sum(one.alone for one in stages) + work / 3.2)


def test_small_disks_need_more_executors() -> None:
    few = cluster("10M")
    room = int(few.shuffled / 100)
    many = cluster("10M", disk=room)
    assert many.executors == 101
    assert many.shuffle_disk <= room


def test_totals_are_the_sums_of_the_stages() -> None:
    found = cluster("10M", bytes=3000)
    assert found.shuffled == sum(stage.shuffled for stage in found.stages)
    assert found.shuffled_a_document == found.shuffled / 10**7
    run = run_of(Sla(10**7))
    sorted_first = 10**7 * (8 * 21 + 70) + MEASURED.where_row * 0.2 * 10**7
    assert size_cluster(run).if_ordered == pytest.approx(size_cluster(run).shuffled + sorted_first)
    assert found.work_folder == sum(stage.written for stage in found.stages)
    assert found.core_hours == sum(stage.work for stage in found.stages) / 3600
    assert found.core_hours_a_tb == pytest.approx(found.core_hours / 0.03)


def test_operating_point_is_that_of_one_machine() -> None:
    asked: dict[str, Any] = {"threshold": 0.85, "recall": 0.95, "cores": 4, "bytes": 3000}
    local = plan("1M", calibrate=False, **asked)
    there = on_spark("1M", **asked)
    assert there.options == local.options
    assert local.spark is None
    assert "spark" not in local.to_json()
    assert there.to_json()["spark"]["shuffled"] == there.spark.shuffled  # type: ignore[union-attr]
    assert "1 executor of 4 cores and 16 GB" in repr(there)


def test_memory_limit_applies_to_an_executor() -> None:
    made = on_spark("100M", memory="8GB", rate=1000)
    assert made.sla.purpose == "files"
    (problem,) = made.problems
    assert problem.limit == "memory"
    assert "of memory, the limit is 8.0 GB: give" in str(problem)
    assert problem.cures[0] == "give 12 GB"
    assert on_spark("100M", memory="12GB").met
    fewer = int(problem.cures[1].split()[1])
    assert on_spark("100M", memory="8GB", cores=fewer).met


def test_unreachable_rate_is_reported() -> None:
    made = on_spark("1M", rate=1_000_000)
    (problem,) = made.problems
    assert problem.limit == "rate"
    assert "by any number of executors" in problem.message
    assert on_spark("1M", rate=0.9 * problem.reached).met


def test_more_documents_than_one_run_takes_are_reported() -> None:
    assert "documents" in [problem.limit for problem in on_spark("3B").problems]


def test_note_warns_if_pairs_are_most_of_the_shuffle() -> None:
    (note,) = on_spark("100M", bytes=3000).notes
    assert "sets on their way to be compared" in note
    assert on_spark("100K", bytes=3000).notes == []


@pytest.mark.parametrize(
    "asked", [{"engine": "dask"}, {"engine": "spark", "purpose": "index"}, {"engine": None}]
)
def test_invalid_engines_are_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        plan(1000, calibrate=False, **asked)
