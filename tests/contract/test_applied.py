"""Decisions that are applied to a finished run give byte for byte what a whole run gives."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import batch_engine
from support.decided import consistent, random_decisions, rows_of
from support.definition import Row
from support.strategies import corpora, examples

import neardup
from neardup.decisions import Decisions
from neardup.pipeline.run import run_job

QUESTIONS: dict[str, Row] = {
    "the usual": {},
    "longest": {"keep": "longest"},
    "limit 1": {"limit": 1, "threshold": 0.3},
    "limit 2, estimate": {"limit": 2, "verify": "estimate"},
    "containment, last": {"measure": "containment", "keep": "last"},
    "within": {"within": "lang"},
    "numbers": {"distinguish": "numbers"},
    "against": {"against": True},
    "frequent lines": {"strip": "lines:60%"},
    "tf-idf": {"sketch": "weighted", "weights": "tf-idf"},
}
TABLES = ("removed", "clusters", "rejected", "decided", "decisions", "samples")


@pytest.mark.sized
@pytest.mark.parametrize("question", [pytest.param(q, id=title) for title, q in QUESTIONS.items()])
def test_applied_decisions_give_what_a_whole_run_gives(
    tmp_path_factory: pytest.TempPathFactory, question: Row
) -> None:
    """Also if the run has obeyed some already, and whether or not it has saved its sketches."""

    @settings(max_examples=examples(4))
    @given(corpora(), st.integers(0, 1 << 30))
    def check(texts: list[str], seed: int) -> None:
        chance = random.Random(seed)
        rows = rows_of([*texts, *chance.choices(texts or ["w1 w2 w3"], k=4)])
        names = [row["id"] for row in rows]
        before, more = (random_decisions(names, seed + n) for n in range(2))
        before = before if seed % 3 else []
        said = consistent([*before, *more])
        folder = tmp_path_factory.mktemp("corpus")
        earlier = rows[: len(rows) // 3] if "against" in question else []
        paths = batch_engine.write(folder / "in", rows[len(earlier) :])
        others: Row = {"save_sketches": bool(seed % 2)}
        if earlier:
            others["against"] = tuple(batch_engine.write(folder / "earlier", earlier, files=1))
        sizes = {"shard": 300 + 700 * (seed % 3), "chunk": 100 + 150 * (seed % 3)}

        def run(name: str, decisions: Decisions | None) -> Path:
            given = others | ({"decisions": decisions} if decisions is not None else {})
            options = {name: value for name, value in question.items() if name != "against"}
            job = batch_engine.job(paths, folder / name, others=given, **sizes, **options)
            run_job(job, batch_engine.Silent())
            return folder / name

        first = run("first", Decisions.of(before) if before else None)
        whole = run("whole", Decisions.of(said))
        applied = neardup.apply_decisions(first, said[len(before) :], folder / "applied")
        partly = "judged_again" in applied.record["decisions"]
        assert partly == (not {"against", "distinguish"} & question.keys())
        for name in TABLES:
            mine, its = ((out / f"{name}.parquet").read_bytes() for out in (applied.path, whole))
            assert mine == its, name
        assert batch_engine.outcome(applied.path).kept == batch_engine.outcome(whole).kept
        assert applied.counts | {"comparisons": 0} == batch_engine.counts(whole) | {
            "comparisons": 0
        }

    check()
