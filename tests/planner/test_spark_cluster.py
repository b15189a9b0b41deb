"""The size of a Spark cluster: memory, executors, settings; and plans for Spark."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from support.spark_model import run_of

from neardup.errors import ParameterError
from neardup.planner.planner import Plan, plan
from neardup.planner.requirements import Sla
from neardup.planner.spark_cluster import ClusterSize, size_cluster
from neardup.planner.spark_run import SparkStage

GB, MIB = 10**9, 2**20


def on_spark(documents: float | str, **asked: Any) -> Plan:
    return plan(documents, engine="spark", calibrate=False, **asked)


def cluster(documents: float | str, **asked: Any) -> ClusterSize:
    found = on_spark(documents, **asked).spark
    assert found is not None
    return found


def stage(of: ClusterSize, name: str) -> SparkStage:
    return next(one for one in of.stages if one.name == name)


# -- memory -----------------------------------------------------------------------------------


def test_executor_has_memory_for_a_gb_for_each_task() -> None:
    found = cluster("1M")
    assert (found.cores, found.needs.limit) == (4, GB)
    assert found.memory == 384 * MIB + 4 * GB + 1024 * MIB + 10**6
    given = cluster("1M", cores=8, memory="64GB")
    assert (given.cores, given.memory, given.needs.limit) == (8, 64 * GB, GB)
    assert given.needs.heap + given.needs.overhead == 64 * GB


def test_tasks_hold_more_where_keys_would_need_slices() -> None:
    found = size_cluster(run_of(Sla(10**8, cores=4)))
    assert found.needs.limit > 2 * GB
    assert stage(found, "band").read == 8 * 21 * 10**8  # once, the keys of all bands
    tight = size_cluster(run_of(Sla(10**8, cores=4, memory=4 * GB)))
    assert tight.needs.limit < GB
    assert stage(tight, "band").read > stage(found, "band").read


def test_large_executors_let_the_driver_rank_in_one_slice() -> None:
    usual, large = (size_cluster(run_of(Sla(10**8, memory=size))) for size in (None, 64 * GB))
    assert stage(large, "rank").read == 20 * 10**8 < stage(usual, "rank").read


def test_settings_match_the_cluster() -> None:
    found = cluster("10M", rate=20_000)
    assert found.settings["spark.executor.instances"] == str(found.executors)
    assert found.settings["spark.executor.cores"] == "4"
    both = ("spark.executor.memory", "spark.executor.memoryOverhead")
    given = sum(int(found.settings[name].removesuffix("m")) * MIB for name in both)
    assert given == pytest.approx(found.memory, abs=2 * MIB)
    driver = int(found.settings["spark.driver.memoryOverhead"].removesuffix("m")) * MIB
    assert driver >= max(found.needs.limit, found.needs.driver_python)


def test_rows_of_a_dataframe_are_sorted_in_small_partitions() -> None:
    assert cluster("1M").settings["spark.sql.shuffle.partitions"] == "200"
    found = cluster("100M", bytes=3000)
    assert found.sorted == 10**8 * (3000 + 12)
    assert int(found.settings["spark.sql.shuffle.partitions"]) >= found.sorted / 128e6


def test_memory_limit_applies_to_an_executor() -> None:
    made = on_spark("1B", memory="8GB", sketch="minhash")
    (problem,) = [one for one in made.problems if one.limit == "memory"]
    assert "of memory, the limit is 8.0 GB: give" in str(problem)
    enough = problem.cures[0].removeprefix("give ").replace(" ", "")
    assert on_spark("1B", memory=enough, sketch="minhash").met
    fewer = int(problem.cures[1].split()[1])
    assert on_spark("1B", memory="8GB", cores=fewer, sketch="minhash").met
    assert on_spark("10M", memory="4GB").met


# -- time -------------------------------------------------------------------------------------


def test_executors_are_the_fewest_for_the_rate() -> None:
    run = run_of(Sla(10**8, size=3000.0, rate=80_000.0, cores=4))
    found = size_cluster(run)
    assert found.executors > 1
    there = replace(run, task=found.needs.limit)
    assert there.seconds(found.executors) == found.seconds <= 10**8 / 80_000
    assert there.seconds(found.executors - 1) > 10**8 / 80_000


def test_run_without_rate_ends_within_eight_hours() -> None:
    found = size_cluster(run_of(Sla(10**9, size=30_000.0, shingles=5_000, cores=4)))
    assert found.executors > 1
    assert found.seconds <= 8 * 3600
    executors, seconds = zip(*found.times, strict=True)
    assert executors[:2] == (1, 4)
    assert list(seconds) == sorted(seconds, reverse=True)
    assert [one for one, _ in cluster(1000).times] == [1]


def test_unreachable_rate_is_reported() -> None:
    made = on_spark("1M", rate=1_000_000)
    (problem,) = made.problems
    assert problem.limit == "rate"
    assert "by any number of executors" in problem.message
    assert on_spark("1M", rate=0.99 * problem.reached).met
    assert made.spark is not None
    assert made.spark.seconds <= 1.1 * 10**6 / problem.reached


def test_note_warns_if_the_driver_works_most_of_the_time() -> None:
    *_, note = on_spark("100M", bytes=3000).notes
    assert "in the stage decide" in note
    assert "pairs are compared for each document" in note
    assert on_spark("100K", bytes=3000).notes == []


# -- totals -----------------------------------------------------------------------------------


def test_totals_are_the_sums_of_the_stages() -> None:
    found = cluster("10M", bytes=3000)
    assert found.seconds == pytest.approx(sum(one.seconds for one in found.stages))
    assert found.read == sum(one.read for one in found.stages)
    assert found.out == stage(found, "tables").written + stage(found, "filter").written
    written = sum(one.written for one in found.stages)
    assert found.work_folder == pytest.approx(written - found.out)
    assert found.core_hours_a_tb == pytest.approx(found.core_hours / 0.03)


def test_work_folder_has_what_a_local_run_has_on_disk() -> None:
    asked: dict[str, Any] = {"threshold": 0.85, "recall": 0.95, "cores": 4, "bytes": 3000}
    local, there = plan("1M", calibrate=False, **asked), on_spark("1M", **asked)
    assert there.options == local.options
    assert there.spark is not None
    assert there.spark.work_folder + there.spark.out == pytest.approx(local.predicted.disk)
    assert local.spark is None
    assert "spark" not in local.to_json()
    assert "1 executor of 4 cores and 5.5 GB" in repr(there)


def test_disk_limit_applies_to_the_shared_folder() -> None:
    (problem,) = on_spark("10M", bytes=3000, disk="40GB").problems
    assert (problem.limit, problem.wanted) == ("disk", 40 * GB)
    assert "in the shared folder" in problem.message
    assert "--no-kept" in problem.cures[1]
    assert on_spark("10M", bytes=3000, disk=math.ceil(problem.reached)).met


def test_more_documents_than_one_run_takes_are_reported() -> None:
    assert "documents" in [problem.limit for problem in on_spark("3B").problems]


@pytest.mark.parametrize(
    "asked", [{"engine": "dask"}, {"engine": "spark", "purpose": "index"}, {"engine": None}]
)
def test_invalid_engines_are_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        plan(1000, calibrate=False, **asked)
