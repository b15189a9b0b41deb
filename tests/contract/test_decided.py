"""Every engine obeys the decisions of people as the definition says, and keeps the promises.

The five promises with decisions are those of docs/review.md; `Definition.check_promises` has them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.decided import consistent, posts, random_decisions, rows_of
from support.definition import POINT, Definition, Row
from support.engines import ENGINES, SPARK
from support.strategies import corpora, examples

QUESTIONS: dict[str, Row] = {
    "the usual": {},
    "longest": {"keep": "longest"},
    "last": {"keep": "last"},
    "limit 1": {"limit": 1},
    "limit 2, estimate": {"limit": 2, "verify": "estimate"},
    "none": {"verify": "none"},
    "containment, longest": {"measure": "containment", "keep": "longest"},
    "numbers": {"distinguish": "numbers"},
    "within": {"within": "lang"},
    "weighted": {"sketch": "weighted"},
    "simhash": {
        "sketch": "simhash",
        **dict.fromkeys(("threshold", "bands", "rows")),
        "slots": 64,
        "hamming": 6,
    },
    "against": {"against": True},
    "against, last, limit 1": {"against": True, "keep": "last", "limit": 1},
}
OBEYING = {"in memory": 24, "local files": 4}
"""The engines, and the number of random corpora that each is asked about."""


def options_of(question: Row) -> Row:
    options = POINT | {"threshold": 0.5} | question
    return {n: value for n, value in options.items() if value is not None and n != "against"}


def combinations() -> list[object]:
    return [
        pytest.param(name, question, id=f"{name}-{title}")
        for name in OBEYING
        for title, question in QUESTIONS.items()
        if not (name == "in memory" and "against" in question)
    ]


@pytest.mark.sized
@pytest.mark.parametrize(("name", "question"), combinations())
def test_engine_obeys_random_decisions(
    tmp_path_factory: pytest.TempPathFactory, name: str, question: Row
) -> None:
    seen = set()

    @settings(max_examples=examples(OBEYING[name]))
    @given(corpora(), st.integers(0, 1 << 30))
    def check(texts: list[str], seed: int) -> None:
        rows = rows_of(texts)
        earlier = rows[: len(rows) // 3] if "against" in question else []
        new = rows[len(earlier) :]
        said = random_decisions([row["id"] for row in rows] or ["d0000", "d0001"], seed)
        definition = Definition(new, earlier, said, **options_of(question))
        want = definition.decide()
        definition.check_promises(want)
        folder = tmp_path_factory.mktemp("corpus")
        got = ENGINES[name](
            new, options_of(question), earlier=earlier, folder=folder, seed=seed % 5, said=said
        )
        assert got == want
        seen.update(one.action for one in said)

    check()
    assert seen or not examples(1)


@pytest.mark.spark
@pytest.mark.parametrize("name", SPARK)
def test_spark_obeys_decisions(request: pytest.FixtureRequest, tmp_path: Path, name: str) -> None:
    rows = [
        {"score": 0.0, "lang": "a", "seen": "", "head": "", "inner": {"tail": ""}}
        | {"id": f"d{number:04}", "text": text}
        for number, text in enumerate(posts(60))
    ]
    said = [one for seed in range(40) for one in random_decisions([r["id"] for r in rows], seed)]
    said = consistent(said)
    definition = Definition(rows, (), said, **options_of({"limit": 2}))
    want = definition.decide()
    definition.check_promises(want)
    assert want != Definition(rows, **options_of({"limit": 2})).decide()
    got = ENGINES[name](
        rows,
        options_of({"limit": 2}),
        folder=tmp_path,
        seed=1,
        spark=request.getfixturevalue("spark"),
        said=said,
    )
    assert got == want
