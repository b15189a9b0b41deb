"""The worked capacity plans: every figure is computed and shown by the plan."""

from __future__ import annotations

from typing import Any

import pytest

from neardup.planner.explanation import Choice
from neardup.planner.planner import Plan, plan

WORKED: dict[str, Any] = {
    "documents": "300M",
    "threshold": 0.85,
    "recall": 0.95,
    "rate": 5_000,
    "memory": "100GB",
    "shingles": 300,
    "cores": 4,
    "calibrate": False,
}


@pytest.fixture(scope="module")
def worked() -> Plan:
    return plan(**WORKED)


def choice(made: Plan, name: str) -> Choice:
    [found] = [one for one in made.choices if one.name == name]
    return found


def rejected(made: Plan, name: str) -> dict[str, dict[str, float]]:
    return {one.value: one.figures for one in choice(made, name).rejected}


def test_slot_widths_equal_the_worked_plan(worked: Plan) -> None:
    seen = rejected(worked, "slot width")
    assert [seen[bits]["bytes"] / 1e9 for bits in ("64 bits", "32 bits", "1 bit")] == pytest.approx(
        [307.2, 153.6, 4.8]
    )
    assert seen["32 bits"]["error"] == pytest.approx(0.0316, abs=5e-5)
    assert seen["1 bit"]["error"] == pytest.approx(0.0466, abs=5e-5)


def test_the_widest_slots_that_fit_are_chosen(worked: Plan) -> None:
    assert worked.options["bits"] == 2
    assert worked.predicted.memory < 100e9
    wider = plan(**WORKED, slots=128, bits=4)
    assert wider.predicted.memory > 100e9
    assert [one.limit for one in wider.problems] == ["memory"]


def test_slot_operations_equal_the_worked_plan(worked: Plan) -> None:
    assert worked.predicted.operations == 192e6
    assert "192,000,000 slot operations a second" in choice(worked, "scheme").reason
    assert rejected(worked, "scheme")["oneperm"]["operations a second"] == 192e6 / 128


def test_minhash_is_kept_if_it_is_fast_enough(worked: Plan) -> None:
    assert worked.options["sketch"] == "minhash"
    assert worked.predicted.rate > 5_000


def test_rejected_bands_equal_the_worked_plan(worked: Plan) -> None:
    seen = rejected(worked, "bands")
    assert seen["16 x 8"]["estimate"] == pytest.approx(0.707, abs=5e-4)
    assert seen["8 x 16"]["estimate"] == pytest.approx(0.878, abs=5e-4)
    assert seen["16 x 8"]["recall"] == pytest.approx(0.994, abs=5e-4)
    assert seen["8 x 16"]["recall"] == pytest.approx(0.46, abs=5e-3)
    [missed] = [one.why for one in choice(worked, "bands").rejected if one.value == "8 x 16"]
    assert "0.95 are required" in missed


def test_worked_plan_reaches_its_recall(worked: Plan) -> None:
    assert (worked.options["bands"], worked.options["rows"]) == (14, 9)
    assert worked.predicted.recall == pytest.approx(0.975, abs=5e-4)
    assert worked.met


def test_published_bands_miss_the_recall() -> None:
    made = plan(**WORKED, bands=8, rows=16)
    [problem] = made.problems
    assert problem.limit == "recall"
    assert problem.reached == pytest.approx(0.46, abs=5e-3)
    assert "use 14 x 9, which reach 0.9750" in problem.cures
    assert "5 tables of them, 640 slots" in problem.cures


def test_chance_collisions_of_narrow_bands_equal_the_worked_plan() -> None:
    made = plan(**WORKED, bands=16, rows=8)
    by_chance = rejected(made, "bands")["bands of 1-bit slots"]["meet by chance"]
    assert by_chance == pytest.approx(0.06, abs=5e-3)


def test_bytes_of_a_billion_documents_equal_the_worked_table() -> None:
    made = plan(
        "1B",
        threshold=0.8,
        memory="1TB",
        purpose="index",
        bands=20,
        rows=5,
        recall=0.95,
        calibrate=False,
    )
    assert made.options["slots"] == 128
    assert "bits" not in made.options
    assert made.predicted.signatures == 512e9
    seen = rejected(made, "slot width")
    assert seen["64 bits"]["bytes"] == 1024e9
    assert seen["1 bit"]["bytes"] == 16e9
    assert "20 billion postings" in choice(made, "tables").reason
    assert "512 bytes a document" in choice(made, "slot width").reason
