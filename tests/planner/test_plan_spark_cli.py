"""neardup plan --engine spark, as it is typed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from support.command_line import neardup, refused

from neardup.formats.config import load_config

ASKED = ("plan", "--documents", "10M", "--bytes", "3000", "--engine", "spark", "--no-calibrate")


def test_hours_that_no_cluster_reaches_are_answered_with_hours_that_one_does() -> None:
    asked = ("plan", "--documents", "300M", "--engine", "spark", "--no-calibrate", "--hours")
    missed = neardup(*asked, 8)
    words = " ".join(missed.out.split())
    assert missed.code == 1
    assert "8 h for all, are not reached by any number of executors" in words
    found = re.search(r"\(--hours ([\d.]+)\)", words)
    assert found and neardup(*asked, found[1]).code == 0


def test_output_lists_executors_and_stages() -> None:
    ran = neardup(*ASKED)
    assert ran.code == 0
    words = " ".join(ran.out.split())
    for said in (
        "a run over files on Spark",
        "executors of 4 cores",
        "core-hours",
        "for a TB of text",
        "only the driver works",
        "are read from the shared folder",
        "in the work folder",
        "nothing; of a DataFrame or URLs 30 GB of text, once",
        "at most 1.0 GB (--memory)",
        "for Java",
        "1 executor ",
        "and 2 GB/s of the shared folder are assumed",
        "bands: ",
    ):
        assert said in words
    assert re.search(r"^stage +tasks +time +core time +read +written$", ran.out, re.M)
    assert re.search(r"^sketch +448 +[\d.]+ \w+ +[\d.]+ \w+ +30 GB +3.0 GB$", ran.out, re.M)
    assert re.search(r"^rank +driver +", ran.out, re.M)
    assert "machines" not in ran.out
    assert not re.search(r"\de[+-]?\d", ran.out)
    assert max(map(len, ran.out.splitlines()[:-1])) <= 100


def test_last_line_can_be_pasted_with_the_settings_of_the_cluster() -> None:
    """It was a spark-submit without a file to run."""
    ran = neardup(*ASKED, "--rate", "25000", "--memory", "32GB", "--cores", 8)
    begin, given, *command = shlex.split(ran.out.splitlines()[-1].removeprefix("next: "))
    name, _, settings_of_spark = given.partition("=")
    assert (begin, name) == ("env", "PYSPARK_SUBMIT_ARGS")
    assert command[:5] == ["neardup", "dedup", "INPUT", "-o", "OUT"]
    words = shlex.split(settings_of_spark)
    assert words[-1] == "pyspark-shell"
    assert words[2:4] == ["--executor-cores", "8"]
    assert int(words[words.index("--num-executors") + 1]) > 1
    heap = int(words[words.index("--executor-memory") + 1].removesuffix("m"))
    settings = dict(word.split("=") for word in words if "=" in word)
    overhead = int(settings["spark.executor.memoryOverhead"].removesuffix("m"))
    assert heap + overhead == pytest.approx(32e9 / 2**20, abs=2)
    assert words.count("--conf") == len(settings)


def test_json_has_the_cluster() -> None:
    ran = neardup(*ASKED, "--json")
    found = json.loads(ran.out)
    spark = found["spark"]
    assert found["options"]["verify"] == "exact"
    assert found["sources"].keys() == {"costs", "documents", "spark"}
    assert spark.keys() == {
        "cores",
        "memory",
        "executors",
        "seconds",
        "times",
        "work",
        "alone",
        "core_hours",
        "core_hours_a_tb",
        "read",
        "work_folder",
        "out",
        "sorted",
        "needs",
        "settings",
        "stages",
    }
    assert spark["stages"][0].keys() == {
        "name",
        "tasks",
        "seconds",
        "work",
        "alone",
        "read",
        "written",
        "memory",
    }
    assert spark["times"][0][0] == 1


def test_local_engine_is_the_default() -> None:
    few = ("plan", "--documents", "1000", "--no-calibrate", "--json")
    default, local = neardup(*few), neardup(*few, "--engine", "local")
    assert default.out == local.out
    assert "spark" not in json.loads(default.out)


def test_last_line_runs_on_spark(tmp_path: Path) -> None:
    config = tmp_path / "p.toml"
    ran = neardup(*ASKED, "-o", config, "--memory", "32GB")
    task = json.loads(neardup(*ASKED, "--memory", "32GB", "--json").out)["spark"]["needs"]["limit"]
    command = f"neardup dedup INPUT -o OUT --config {config} --engine spark --master MASTER"
    assert ran.out.splitlines()[-1].endswith(f" {command} --memory {f'{task:.0f}'[:-6]}MB")
    assert load_config(config)["threshold"] == 0.8


def test_missed_requirement_exits_with_1() -> None:
    ran = neardup(*ASKED, "--memory", "2GB")
    assert ran.code == 1
    assert "not met: an executor of 4 cores needs" in ran.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--engine", "dask"), "choose one of local, spark"),
        (("--for", "index"), "not on Spark"),
        (("--cores", "0"), "cores can't be 0"),
        (("--memory", "1MB"), "below what any run needs"),
    ],
)
def test_invalid_requirements_are_usage_errors(arguments: tuple[str, ...], said: str) -> None:
    refused(neardup(*ASKED, *arguments), 2, said)
