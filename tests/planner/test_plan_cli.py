"""neardup plan, as it is typed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from support.command_line import dedup, neardup, refused, write_jsonl

from neardup.formats.config import load_config
from neardup.planner.costs import random_texts

WORKED = (
    "--documents",
    "300M",
    "--threshold",
    "0.85",
    "--recall",
    "0.95",
    "--rate",
    "5000",
    "--memory",
    "100GB",
    "--shingles",
    "300",
    "--cores",
    "4",
    "--no-calibrate",
)


def planned(*arguments: object) -> dict[str, Any]:
    ran = neardup("plan", *arguments, "--no-calibrate", "--json")
    assert ran.err == ""
    found: dict[str, Any] = json.loads(ran.out)
    assert ran.code == (0 if found["met"] else 1)
    return found


def test_output_lists_choices_reasons_and_figures() -> None:
    ran = neardup("plan", *WORKED)
    assert ran.code == 0
    words = " ".join(ran.out.split())
    for said in (
        "300,000,000 documents of 300 shingles",
        "an index in memory",
        "bands: 14 x 9",
        "not 64 bits: 307 GB",
        "not 32 bits: 154 GB",
        "not 1 bit: 4.8 GB",
        "192,000,000 slot operations a second",
        "not 16 x 8: threshold estimate 0.707",
        "not 8 x 16: threshold estimate 0.878, recall 0.4606",
        "standard error 0.0316",
        "machines 1",
        "stored figures",
        "minhash, 128 slots of 2 bits, 14 x 9 bands, exact verification",
    ):
        assert said in words
    assert max(map(len, ran.out.splitlines())) <= 100


def test_missed_requirement_exits_with_1_and_writes_the_plan(tmp_path: Path) -> None:
    config = tmp_path / "p.toml"
    ran = neardup("plan", *WORKED, "--bands", 8, "--rows", 16, "-o", config)
    assert ran.code == 1
    words = " ".join(ran.out.split())
    assert "not met: recall 0.95 at 0.85 is not reached, 8 bands of 16 reach 0.4606" in words
    assert load_config(config)["bands"] == 8
    assert "# not met: recall" in config.read_text()


def test_only_config_files_are_replaced_and_only_with_force(tmp_path: Path) -> None:
    config, notes = tmp_path / "p.toml", tmp_path / "notes.txt"
    notes.write_text("mine")
    few = ("--documents", "10", "--no-calibrate", "-o")
    assert neardup("plan", *few, config).code == 0
    before = config.read_text()
    refused(neardup("plan", *few, config, "--slots", 64), 2, "--force")
    assert config.read_text() == before
    assert neardup("plan", *few, config, "--slots", 64, "--force").code == 0
    assert load_config(config)["slots"] == 64
    for other in (notes, tmp_path):
        refused(neardup("plan", *few, other, "--force"), 2, "not a config file")
    assert notes.read_text() == "mine"


def test_last_line_is_the_dedup_command(tmp_path: Path) -> None:
    config = tmp_path / ("a long name with spaces " * 5 + ".toml")
    few = ("--documents", "10", "--no-calibrate", "-o", config, "--force")
    point = f"--config {shlex.quote(str(config))}"
    command = f"next: neardup dedup INPUT -o OUT {point}"
    assert neardup("plan", *few).out.splitlines()[-1] == command
    assert (
        neardup("plan", *few, "--memory", "4GB").out.splitlines()[-1] == f"{command} --memory 4GB"
    )
    index = neardup("plan", *few, "--memory", "4GB", "--for", "index")
    assert index.out.splitlines()[-1] == f"next: neardup index build INDEX INPUT {point}"


@pytest.mark.parametrize(
    "asked", [("1B",), ("300M", "--slots", "8"), ("10",), ("5B", "--for", "index")]
)
def test_numbers_may_have_units(asked: tuple[str, ...]) -> None:
    ran = neardup("plan", "--no-calibrate", "--shingles", "90000", "--documents", *asked)
    assert "stage" in ran.out or "index" in ran.out
    assert not re.search(r"\de[+-]?\d", ran.out)
    if "--slots" in asked:
        assert re.search(r"compared +2,048 pairs a document", ran.out)
        assert "note: bands of 1 row make" in ran.out


def test_json_has_the_whole_plan() -> None:
    found = planned(*WORKED[:-1])
    assert found["met"] is True
    assert found["options"]["rows"] == 9
    assert found["sla"]["purpose"] == "index"
    assert {one["name"] for one in found["choices"]} >= {"slot width", "bands", "verification"}
    assert found["predicted"]["operations"] == 192e6
    assert found["problems"] == []


def test_run_with_the_written_config_is_as_predicted(tmp_path: Path) -> None:
    texts = [text for text, _ in zip(random_texts(60, 400), range(200), strict=False)]
    file = write_jsonl(tmp_path / "c.jsonl", [{"text": text} for text in texts])
    config = tmp_path / "p.toml"
    found = planned("--sample", file, "--threshold", 0.9, "--slots", 64, "-o", config)
    assert found["sla"]["documents"] == 200
    record = dedup(file, "-o", tmp_path / "out", "--config", config)
    assert record["parameters"]["bands"] == found["options"]["bands"]
    assert record["spec"]["slots"] == 64
    said = found["predicted"]
    assert record["predicted"]["recall_at_threshold"] == pytest.approx(said["recall"])
    # All 200 are in the sample, so that nothing is estimated.
    assert record["metrics"]["candidate_pairs_per_doc"] == pytest.approx(said["compared"])
    assert record["counts"]["removed"] > 10


def test_quiet_prints_nothing() -> None:
    ran = neardup("plan", *WORKED, "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_quiet_plan_that_misses_a_requirement_says_which_in_one_line() -> None:
    ran = neardup("plan", *WORKED, "--bands", 8, "--rows", 16, "-q")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert ran.err.startswith("neardup: not met: recall 0.95 at 0.85 is not reached")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--documents", "0"),
        ("--documents", "nan"),
        ("--documents", "10", "--recall", "1"),
        ("--documents", "10", "--threshold", "0"),
        ("--documents", "10", "--memory=-1GB"),
        ("--documents", "10", "--memory", "1MB"),
        ("--documents", "10", "--for", "cake"),
        ("--documents", "10", "-o", "nowhere/p.toml"),
        ("--documents", "ten"),
    ],
)
def test_invalid_requirements_are_usage_errors(arguments: tuple[str, ...]) -> None:
    refused(neardup("plan", *arguments, "--no-calibrate"), 2)


def test_missing_or_empty_sample_is_an_error(tmp_path: Path) -> None:
    none, empty = tmp_path / "none.jsonl", write_jsonl(tmp_path / "empty.jsonl", [])
    refused(neardup("plan", "--sample", none), 2, "no such file")
    refused(neardup("plan", "--sample", empty, "--json"), 1, "fewer than two documents")
