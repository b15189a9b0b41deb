"""The model of a run on Spark: its formulas by hand, its bytes beside a real run, its cluster."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from neardup.pipeline.backends.spark.limits import BYTES_PER_MEMBER, MEMORY_SHARES
from support.spark_model import run_of

from neardup.options import Options
from neardup.planner.costs import Costs
from neardup.planner.requirements import Sla
from neardup.planner.spark_run import (
    MEASURED,
    RunAmounts,
    SparkCosts,
    count_moves,
    count_ranges,
    shuffle_bytes,
)

GB, MIB = 10**9, 2**20
STAGES = [
    "sketching",
    "ranking",
    "collapsing",
    "banding",
    "shingling",
    "deciding",
    "writing tables",
    "writing",
]
ROUND = SparkCosts(
    hash_row=20,
    key_row=16,
    bit=4,
    where_row=50,
    named=10,
    ranked=12,
    removed=40,
    sorted=70,
    pair=10,
    known=9,
    edge=8,
    needed=5,
    apart=0.2,
    rounds=6,
)
SMALL = RunAmounts(
    documents=1000,
    bands=10,
    candidates=200,
    sets=400_000,
    removed=50,
    buckets=300,
    members=700,
    copies=20,
    compared=600,
    similar=60,
    id=8,
    task=1_000,
)
"""Of which a task could not hold the keys."""
RECORD: dict[str, Any] = {
    "counts": {
        "documents": 110_000,
        "earlier": 0,
        "removed": 9_676,
        "identical": 3_062,
        "comparisons": 81_521,
    },
    "parameters": {"bands": 21, "keep": "first", "verify": "exact"},
    "metrics": {"buckets": 83_106},
    "spark": {
        "candidates": 25_385,
        "set_bytes": 77_138_488,
        "rounds": [{"edges": 8_537}, {"edges": 8_777}, *[{"edges": 8_782}] * 4],
        "stages": [{"name": "ranking", "shuffle_written": 0}],
    },
    "memory_budget_bytes": 60_000_000,
}
SHUFFLED = {
    "collapsing": 2_608_825,
    "banding": 36_383_941,
    "shingling": 0,
    "writing tables": 4_873_857,
    "writing": 38_803,
}
"""Of the run of this record, pages of RFCs with ids of five digits."""
DECIDING = {
    "110,000 pages": (
        108_860_411,
        replace(
            SMALL,
            candidates=25_385,
            sets=77_138_488,
            buckets=83_106,
            members=2.3 * 83_106,
            compared=81_521,
            similar=8_782,
            ranges=5,
        ),
    ),
    "11,000 pages": (
        5_480_305,
        replace(
            SMALL,
            candidates=1_670,
            sets=4_992_920,
            buckets=6_316,
            members=2.3 * 6_316,
            compared=1_782,
            similar=612,
            ranges=2,
        ),
    ),
    "200,000 tweets": (
        7_369_623,
        replace(
            SMALL,
            candidates=21_883,
            sets=4_974_336,
            buckets=86_499,
            members=2.3 * 86_499,
            compared=22_433,
            similar=7_910,
            ranges=2,
        ),
    ),
}
"""What deciding by rounds has shuffled on local[2], where a task may hold 60, 10 and 10 MB."""


# -- what is shuffled -------------------------------------------------------------------------


def test_shuffle_bytes_by_hand() -> None:
    found = shuffle_bytes(replace(SMALL, ranges=1), ROUND)
    assert found.pop("deciding") > 0
    assert found == {
        "sketching": 0,
        "ranking": 0,
        "collapsing": 20 * 1000 + 4 * 20,
        "banding": 16 * 10 * 980 + 4 * 700,
        "shingling": 0,
        "writing tables": 2 * 18 * 1000 + 2 * 12 * 200 + 40 * 50,
        "writing": 4 * 50,
    }


def test_amounts_that_fit_one_task_are_not_shuffled() -> None:
    assert set(shuffle_bytes(replace(SMALL, task=10**9), ROUND).values()) == {0}
    decided = shuffle_bytes(SMALL, ROUND)
    assert [name for name in STAGES if decided[name]] == ["collapsing", "banding"]
    many = shuffle_bytes(replace(SMALL, candidates=300_000), ROUND)
    assert many["writing tables"] > 0 == many["deciding"]
    assert shuffle_bytes(replace(SMALL, task=10**9, earlier=True), ROUND)["banding"] > 0


def test_rounds_shuffle_pairs_and_sets() -> None:
    few = replace(SMALL, compared=300)
    pairs = 10 * ((700 - 300) + 300)
    again = 6 * (9 * 300 + 8 * 60)
    # A set and its place on the list: once where there is one range, for all other pairs as well.
    one_range = shuffle_bytes(replace(few, ranges=1), ROUND)["deciding"]
    assert one_range == pytest.approx(pairs + again + 200 * (2_000 + 5))
    moves = 200 * (1 + 2 * (1 - math.exp(-0.2 * (1.5 - 0.5) / 3)))
    three = shuffle_bytes(replace(few, ranges=3), ROUND)["deciding"]
    assert three == pytest.approx(pairs + again + moves * (2_000 + 5))


def test_many_pairs_move_a_set_to_almost_as_many_tasks() -> None:
    many = replace(SMALL, compared=200 * 400, ranges=1_000)
    moves = count_moves(many, ROUND)
    assert 0.4 * many.compared < moves < many.compared
    assert count_moves(replace(many, ranges=1), ROUND) == many.candidates
    assert count_moves(replace(many, candidates=0), ROUND) == 0


def test_sets_are_shuffled_once_more_if_the_list_of_those_needed_is_long() -> None:
    long = replace(SMALL, candidates=3e6, sets=3e9, compared=3e6, ranges=10)
    short = replace(long, candidates=1e6, sets=1e9, compared=1e6)
    each = [shuffle_bytes(one, ROUND)["deciding"] / one.sets for one in (long, short)]
    assert each[0] - each[1] == pytest.approx(1, abs=0.01)


def test_sorting_shuffles_all_sketches() -> None:
    found = shuffle_bytes(replace(SMALL, ordered=True), ROUND)
    assert found["ranking"] == 1000 * (8 * 10 + 70)
    assert found["shingling"] == 50 * 200


def test_estimates_shuffle_nothing_for_shingling() -> None:
    assert shuffle_bytes(replace(SMALL, ordered=True, exact=False), ROUND)["shingling"] == 0


def test_model_reproduces_the_run_it_was_fitted_to() -> None:
    found = shuffle_bytes(RunAmounts.of_run(RECORD, id=5))
    assert list(found) == STAGES
    assert {name: found[name] for name in SHUFFLED} == pytest.approx(SHUFFLED, rel=0.03)


@pytest.mark.parametrize("run", DECIDING)
def test_rounds_shuffle_what_real_runs_have_shuffled(run: str) -> None:
    measured, amounts = DECIDING[run]
    assert shuffle_bytes(amounts)["deciding"] == pytest.approx(measured, rel=0.25)


def test_amounts_are_read_from_run_json() -> None:
    at_once = RECORD["spark"] | {"rounds": []}
    assert RunAmounts.of_run(RECORD | {"spark": at_once}).ranges == 0
    rounds = [{"edges": 9_000}, {"edges": 8_000}]
    stages = [{"name": name, "shuffle_written": 9} for name in ("ranking", "banding")]
    spark = RECORD["spark"] | {"rounds": rounds, "stages": stages}
    asked = RECORD["parameters"] | {"verify": "estimate"}
    found = RunAmounts.of_run(RECORD | {"spark": spark, "parameters": asked}, tasks=16)
    assert (found.ranges, found.similar, found.ordered, found.exact) == (16, 8_000, True, False)


def test_ranges_hold_a_fourth_of_the_task_memory() -> None:
    assert count_ranges(10 * GB, tasks=2, task=GB) == 40
    assert count_ranges(10 * GB, tasks=64, task=GB) == 64


# -- stages -----------------------------------------------------------------------------------


def test_stage_costs_of_a_small_run_by_hand() -> None:
    run = run_of(Sla(1000, size=3000.0, shingles=500.0, cores=4))
    seen = {stage.name: stage for stage in run.stages()}
    assert list(seen) == STAGES
    costs, rows = Costs(), MEASURED
    sketching = 1000 * (costs.sketch("minhash", 128, 500, 3000) + rows.pass_row)
    assert seen["sketching"].work == pytest.approx(sketching)
    assert seen["sketching"].written == pytest.approx(1000 * (19.2 + 12 + 8 * 21))
    assert seen["collapsing"].work == 0
    assert seen["banding"].work == seen["banding"].alone == pytest.approx(3_000 * rows.pass_row)
    shingling = costs.reread * 3 + costs.match * 0.8 + (1000 + 400) * rows.pass_row
    assert seen["shingling"].work == pytest.approx(shingling)
    assert seen["shingling"].written == 800_000
    deciding = costs.set * 0.8 + (costs.compare + costs.pair) * 500 + costs.member * 2300
    assert seen["deciding"].work == seen["deciding"].alone == pytest.approx(deciding)
    tables = 1000 * rows.pass_row + 100 * (costs.table + 2 * rows.sort_row)
    assert seen["writing tables"].work == pytest.approx(tables)
    assert seen["writing tables"].alone == pytest.approx(100 * (costs.table + 2 * rows.sort_row))
    assert seen["writing"].work == pytest.approx(costs.keep * 2.7 + 100 * rows.pass_row)
    assert (seen["writing"].read, seen["writing"].out) == (3_000_000, 2_700_000)
    # Texts are read to be sketched, shingled, hashed and written.
    assert 4 * 3_000_000 < sum(stage.read for stage in seen.values()) < 4.6 * 3_000_000


def test_more_documents_than_one_task_holds_are_shuffled() -> None:
    seen = {stage.name: stage for stage in run_of(Sla(2_000_000)).stages()}
    rows = MEASURED
    assert seen["collapsing"].work == pytest.approx(2_000_000 * rows.sort_row)
    banding = 42_000_000 * rows.sort_row + 4_000_000 * rows.pass_row
    assert seen["banding"].work == pytest.approx(banding)
    assert seen["banding"].alone == 0
    tables = 2 * (2_000_000 + 400_000 + 200_000) * rows.sort_row + 200_000 * Costs().table
    assert seen["writing tables"].work == pytest.approx(tables)


def test_sets_beyond_one_task_are_decided_by_rounds() -> None:
    sla = Sla(1000, cores=4)
    needed = MEMORY_SHARES * (800_000 + BYTES_PER_MEMBER * 2300)
    fits, too_much = run_of(sla, task=needed), run_of(sla, task=needed - 1)
    assert (fits.amounts.ranges, too_much.amounts.ranges) == (0, 4)
    one, many = (
        {stage.name: stage for stage in run.stages()}["deciding"] for run in (fits, too_much)
    )
    assert one.shuffled == 0
    assert many.alone == 0
    assert many.work > one.work
    assert many.shuffled > one.shuffled
    assert many.written > one.written


def test_estimates_compare_signatures() -> None:
    options = Options.of(verify="estimate", bits=8)
    seen = {stage.name: stage for stage in run_of(Sla(1000), options).stages()}
    assert seen["shingling"].written == 0.2 * 1000 * 128
    assert seen["sketching"].written == pytest.approx(1000 * (19.2 + 12 + 8 * 21 + 128))
