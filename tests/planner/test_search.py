"""Which operating point is chosen, and what is said where none will do."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.errors import InputError, ParameterError
from neardup.formatting import format_duration, parse_bytes, parse_count, parse_number
from neardup.lsh.curve import Curve
from neardup.options import Options
from neardup.planner.planner import Plan, plan
from neardup.planner.search import best_curve, least_slots


def made(documents: float | str = 1_000_000, **asked: Any) -> Plan:
    return plan(documents, calibrate=False, **{"cores": 2, "memory": "8GB", **asked})


def reason(found: Plan) -> str:
    [slots] = [one for one in found.choices if one.name == "slots"]
    return slots.reason


def test_defaults_are_kept_without_limits() -> None:
    found = made()
    options, usual = Options.of(**found.options), Options()
    assert (options.spec, options.curve, options.verify) == (usual.spec, usual.curve, usual.verify)
    assert found.met


def test_more_slots_are_chosen_if_they_save_much_time() -> None:
    times = {
        slots: made("300M", memory="32GB", slots=slots).predicted.seconds
        for slots in (128, 256, 512, 1024)
    }
    best = min(times.values())
    wanted = next(slots for slots, seconds in times.items() if seconds <= 1.5 * best)
    assert wanted > 128
    found = made("300M", memory="32GB")
    assert found.options["slots"] == wanted
    assert found.predicted.seconds == times[wanted]
    said = f"{format_duration(times[wanted])} instead of {format_duration(times[128])}"
    assert f"{wanted} slots make steeper bands: {said}" in reason(found)
    assert "the default" in reason(made("100K", memory="32GB"))


def test_more_slots_are_not_chosen_if_they_don_t_fit() -> None:
    asked: dict[str, Any] = {"purpose": "index", "documents": "300M", "threshold": 0.85}
    assert made(**asked, memory="4TB").options["slots"] > 128
    tight = made(**asked, memory="230GB")
    assert tight.met
    assert tight.options["slots"] == 128
    assert made(**asked, memory="4TB", bands=14, rows=9, recall=0.9).options["slots"] == 128


@given(st.floats(0.05, 0.98), st.floats(0.05, 0.999))
def test_every_plan_reaches_its_recall(threshold: float, recall: float) -> None:
    found = made(threshold=threshold, recall=recall)
    assert found.met
    assert found.predicted.recall >= recall
    assert Options.of(**found.options).curve.probability(threshold) == found.predicted.recall


def test_low_thresholds_get_more_slots() -> None:
    found = made(threshold=0.02, recall=0.99)
    assert found.options["slots"] == 256
    assert least_slots(0.02, 0.99) == 228


@given(st.floats(0.02, 0.98), st.floats(0.02, 0.999))
def test_one_slot_less_misses_the_recall(threshold: float, recall: float) -> None:
    least = least_slots(threshold, recall)
    assert best_curve(least, threshold, recall).probability(threshold) >= recall
    assert least == 1 or Curve(least - 1, 1).probability(threshold) < recall + 1e-12


def test_one_permutation_is_chosen_only_if_minhash_is_too_slow() -> None:
    asked: dict[str, Any] = {"purpose": "index", "slots": 512, "shingles": 2_000, "memory": "1TB"}
    slow = made(**asked, sketch="minhash").predicted.rate
    fast = made(**asked, sketch="oneperm").predicted.rate
    assert slow < fast
    assert made(**asked, rate=0.9 * slow).options["sketch"] == "minhash"
    assert made(**asked, rate=(slow + fast) / 2).options["sketch"] == "oneperm"
    missed = made(**asked, rate=2 * fast)
    assert [one.limit for one in missed.problems] == ["rate"]
    assert missed.predicted.machines > 1


MANY_FILES: dict[str, Any] = {"documents": "300M", "bytes": "5KB", "purpose": "files"}


def test_i_ask_for_a_rate_and_don_t_get_a_slower_point_than_without_one() -> None:
    without = made(**MANY_FILES, cores=32, memory="64GB")
    for rate in (100, 10_000):
        found = made(**MANY_FILES, cores=32, memory="64GB", rate=rate)
        assert found.predicted.rate >= without.predicted.rate
        assert found.options["verify"] == "exact"
        assert "bits" not in found.options
    # It can't be met: the fastest point of all is chosen.
    assert not found.met
    others = [made(**MANY_FILES, cores=32, memory="64GB", slots=slots) for slots in (128, 256, 512)]
    assert found.predicted.rate > max(one.predicted.rate for one in others)
    assert "the fastest that were tried" in reason(found)


def test_a_rate_that_exact_verification_reaches_does_not_drop_it() -> None:
    assert made(**MANY_FILES, cores=32, rate=400).options["slots"] > 128
    found = made(**MANY_FILES, cores=32, rate=1_500)
    assert found.met
    assert found.options["verify"] == "exact"
    said = str(found.to_json())
    assert "the limit is 0 B" not in said


def test_hours_are_the_rate_of_a_run_over_files() -> None:
    documents, per_second = 10_000_000, 10_000_000 / (8 * 3600)
    found = made(documents, hours=8)
    assert found.sla.purpose == "files"
    assert found.sla.rate == pytest.approx(per_second)
    assert found.options == made(documents, rate=per_second, purpose="files").options
    [problem] = made(documents, hours="0.001").problems
    assert problem.limit == "rate"
    assert "documents a second, 3.6 s for all, are required" in problem.message


def test_the_cores_that_a_plan_asks_for_are_enough() -> None:
    asked: dict[str, Any] = {"documents": "10M", "bytes": "5KB", "memory": "64GB"}
    for purpose, rate in (("files", 20_000), ("index", 50_000)):
        [problem] = made(**asked, purpose=purpose, rate=rate).problems
        assert problem.limit == "rate"
        [cores] = re.findall(r"^give ([\d,]+) cores$", problem.cures[0])
        enough = int(cores.replace(",", ""))
        assert made(**asked, purpose=purpose, rate=rate, cores=enough).met
        assert not made(**asked, purpose=purpose, rate=rate, cores=enough // 2).met


def test_a_plan_does_not_ask_for_cores_that_would_not_help() -> None:
    [problem] = made(**MANY_FILES, cores=32, memory="64GB", rate=10_000).problems
    assert not any("cores" in cure for cure in problem.cures)
    assert "the stage decide takes" in problem.message
    assert "share the work among machines with --engine spark" in problem.cures
    [asked] = re.findall(r"ask for ([\d,]+) documents a second", " ".join(problem.cures))
    rate = int(asked.replace(",", ""))
    assert made(**MANY_FILES, cores=32, memory="64GB", rate=rate).met


def test_estimates_that_a_rate_needs_say_what_exact_verification_reaches() -> None:
    asked: dict[str, Any] = {**MANY_FILES, "documents": "10M", "cores": 32, "memory": "64GB"}
    slots = {"slots": 512}
    fast = made(**asked, **slots, verify="estimate").predicted.rate
    slow = made(**asked, **slots, verify="exact").predicted.rate
    found = made(**asked, **slots, rate=(fast + slow) / 2)
    assert found.options["verify"] == "estimate"
    [verification] = [one for one in found.choices if one.name == "verification"]
    [exact] = verification.rejected
    assert f"{slow:,.0f} documents a second" in exact.why


def test_short_documents_never_get_one_permutation() -> None:
    found = made(purpose="index", shingles=20, rate=1e7)
    assert found.options["sketch"] == "minhash"
    assert not found.met


def test_estimates_verify_if_shingles_don_t_fit_on_disk() -> None:
    asked: dict[str, Any] = {"purpose": "index", "documents": "10M", "memory": "32GB"}
    assert made(**asked).options["verify"] == "exact"
    found = made(**asked, disk="10GB")
    assert found.options["verify"] == "estimate"
    assert found.predicted.disk < 10e9
    assert found.predicted.precision < 1.0


def test_required_precision_takes_more_slots() -> None:
    asked: dict[str, Any] = {
        "purpose": "index",
        "documents": "1M",
        "memory": "32GB",
        "verify": "estimate",
    }
    few = made(**asked).predicted.precision
    more = made(**asked, precision=(1 + few) / 2)
    assert more.options["slots"] > 128
    assert more.predicted.precision >= (1 + few) / 2


def test_missing_memory_is_reported_with_cures() -> None:
    found = made("300M", purpose="index", memory="20GB")
    [problem] = found.problems
    assert problem.limit == "memory"
    assert problem.reached == found.predicted.memory > 20e9
    assert f"use {found.predicted.machines} machines" in problem.cures
    assert "the limit is 20 GB" in str(problem)


def test_fewer_slots_are_chosen_only_if_more_don_t_fit() -> None:
    found = made("300M", purpose="index", memory="35GB", threshold=0.85, recall=0.9)
    assert found.met
    assert found.options["slots"] < 128
    assert found.predicted.memory <= 35e9


def test_missing_disk_is_reported_with_the_bytes_of_kept_files() -> None:
    [problem] = made("100M", disk="50GB").problems
    assert problem.limit == "disk"
    assert any(cure.startswith("run with --no-kept, which saves") for cure in problem.cures)


def test_more_documents_than_one_run_takes_are_reported() -> None:
    [problem] = made("5B", memory="100GB").problems
    assert problem.limit == "documents"
    assert problem.cures == ["make 3 runs, each --against those before"]
    assert made("5B", memory="10TB", purpose="index").met


def test_narrow_slots_save_disk_in_a_run_over_files() -> None:
    whole = made(verify="estimate")
    found = made(disk=0.99 * whole.predicted.disk, verify="estimate")
    assert found.met
    assert found.options["bits"] == 16


def test_a_run_that_compares_shingles_needs_disk_for_band_keys_not_for_slots() -> None:
    fewer, more = (made(slots=slots, bands=21, rows=6).predicted.disk for slots in (128, 512))
    assert fewer == more


def test_unreachable_recall_is_reported_with_cures() -> None:
    [problem] = made(threshold=0.3, recall=0.999, slots=16).problems
    assert problem.limit == "recall"
    assert "use 20 slots or more" in problem.cures
    assert "ask for a recall of 0.996" in problem.cures
    cured = made(threshold=0.352, recall=0.999, slots=16)
    assert cured.met
    assert "a threshold of 0.351 or more" in problem.cures


@pytest.mark.parametrize(
    "asked",
    [
        {"recall": 1.0},
        {"recall": 0.0},
        {"recall": float("nan")},
        {"threshold": 0.0},
        {"threshold": 1.0},
        {"threshold": float("nan")},
        {"documents": 0},
        {"documents": -1},
        {"documents": float("nan")},
        {"documents": "inf"},
        {"documents": "many"},
        {"documents": None},
        {"memory": -1},
        {"memory": "-5GB"},
        {"memory": "10MB"},
        {"memory": float("nan")},
        {"disk": 0},
        {"precision": 0.0},
        {"precision": 1.1},
        {"precision": float("nan")},
        {"rate": 0},
        {"rate": "-1"},
        {"rate": float("nan")},
        {"hours": 0},
        {"hours": float("nan")},
        {"hours": 8, "rate": 100},
        {"hours": 8, "purpose": "index"},
        {"cores": 0},
        {"shingles": 0},
        {"bytes": 0},
        {"purpose": "cake"},
        {"bands": 3},
        {"bits": 3},
        {"slots": 0},
        {"slots": 2.5},
        {"sketch": "simhash"},
        {"verify": "none"},
        {"slots": 16, "bands": 20, "rows": 5},
        {"shingle": "word:0"},
        {"sample_size": 1},
    ],
)
def test_invalid_requirements_are_refused_with_a_cure(asked: dict[str, Any]) -> None:
    with pytest.raises(ParameterError) as refusal:
        made(**asked)
    assert re.search(r"[:?] \w|must be a whole number from", str(refusal.value))


def test_numbers_with_units_are_parsed() -> None:
    written = ["300M", "300m", "300,000,000", "3e8", "0.3B", 3e8]
    assert {parse_number(one, "n") for one in written} == {3e8}
    assert parse_count("1.5K", "n") == 1500
    assert parse_bytes("100GB", "memory") == parse_bytes(1e11, "memory") == 10**11


def test_error_for_a_text_as_path_does_not_quote_the_text() -> None:
    text = "what was meant to be the name of a file is a document " * 50
    for given_instead in (text, f"{text}*"):
        with pytest.raises(InputError) as refusal:
            plan(sample=[given_instead], calibrate=False)
        name = str(refusal.value).partition(": ")[0]
        assert name.startswith("what was meant to be")
        assert len(name) == 100


def test_repr_of_a_plan_names_point_and_cost() -> None:
    found = made()
    assert repr(found).startswith("Plan(threshold=0.8, recall=0.99, shingle='word:5'")
    assert "met)" in repr(found)
    assert all(one.reason and one.rejected for one in found.choices)
    names = ["slot width", "slots", "scheme", "bands", "tables", "verification"]
    assert [one.name for one in found.choices] == names
