"""Every engine gives the definition's answer to every question.

The definition is `support.definition.decide`: set arithmetic and `reference.keep_list`. What an
engine does not take is in `UNSUPPORTED`, with the reason, and is tested to be refused.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support import engine
from support.definition import POINT, Decisions, Row, decide
from support.engines import ENGINES, SPARK, in_memory

import neardup
from neardup.errors import NeardupError
from neardup.measure_table import CHOICES


def questions_about(measure: str) -> dict[str, Row]:
    """The questions that every measure is asked."""
    return {
        measure: {"measure": measure},
        f"{measure}, limit 2": {"measure": measure, "limit": 2, "threshold": 0.75},
        f"{measure}, longest": {"measure": measure, "keep": "longest", "threshold": 0.75},
    }


QUESTIONS: dict[str, Row] = {
    "the usual": {},
    "limit 1": {"limit": 1},
    "limit 2, hot buckets": {"limit": 2, "threshold": 0.3},
    "limit 3": {"limit": 3, "threshold": 0.75},
    "equal sets only": {"threshold": 1.0},
    "longest": {"keep": "longest"},
    "max": {"keep": "max:score", "limit": 2},
    "min": {"keep": "min:score"},
    "within": {"within": "lang"},
    "within, max": {"within": "lang", "keep": "max:score", "limit": 1},
    "estimate": {"verify": "estimate"},
    "none": {"verify": "none", "limit": 2},
    **{title: row for name in CHOICES[1:] for title, row in questions_about(name).items()},
    "against": {"against": True},
    "against, limit 1": {"against": True, "limit": 1, "threshold": 0.3},
    "against, longest": {"against": True, "keep": "longest"},
}
AS_IN_MEMORY: dict[str, Row] = {
    "one table and another": {"bands": None, "rows": None, "tables": "2x3,3x2"},
    "two tables": {"tables": 2, "rows": 1},
    "components": {"cluster": "components"},
    "components, longest": {"cluster": "components", "verify": "estimate", "keep": "longest"},
    "components, none": {"cluster": "components", "verify": "none", "threshold": 1.0},
    "narrow slots": {"bits": 8},
    "narrow slots, estimate": {"bits": 8, "verify": "estimate"},
    "one permutation": {"sketch": "oneperm", "slots": 64, "bands": 32, "rows": 2},
    "weighted": {"sketch": "weighted"},
    "simhash": {
        "sketch": "simhash",
        "hamming": 6,
        **dict.fromkeys(("threshold", "bands", "rows", "slots")),
    },
}
"""Questions whose definition the engine in memory is held to, by tests of its own: the others
must say the same (tests/test_weighted_dedup.py, test_simhash_dedup.py, test_promises.py)."""

ONE_AT_A_TIME = "documents are judged as they come: the first one stays"
UNSUPPORTED: dict[tuple[str, str], str] = {
    ("in memory", "against"): "the library takes one table: put the earlier documents first",
    ("index", "against"): "an index is what came earlier",
    ("service", "against"): "an index is what came earlier",
    ("index", "keep"): ONE_AT_A_TIME,
    ("service", "keep"): ONE_AT_A_TIME,
    ("index", "within"): "an index is one set of documents: make one for each value",
    ("service", "within"): "an index is one set of documents: make one for each value",
    ("index", "cluster"): "a chain that a document closes would change earlier answers",
    ("service", "cluster"): "a chain that a document closes would change earlier answers",
}
"""By engine and option."""

slow = pytest.mark.slow
ALWAYS_ON_SPARK = ("the usual", "limit 2, hot buckets", "within, max", "against, longest")
"""Questions that Spark answers in every run of the tests; the others in the long one."""


def corpus(seed: int, count: int) -> list[Row]:
    """Chains and stars of edits, copies, empty, short and unspaced texts, hot buckets."""
    chance = random.Random(seed)
    rows = engine.rows(seed, count, words=[12, 6, 4, 22][seed % 4])
    known = [row["text"] for row in rows if row["text"].strip()]
    extra = [
        *(chance.choice(known).upper() + "!" for _ in range(4)),
        *("Straße Straße straße", "STRASSE strasse strasse", "ﬁn de siècle", "fin de siècle"),
        *("漢字かな交じり文です", "漢字かな交じり文でした", "🎉🎉", "é", "é", "w1", "W1", "w1 w1"),
        *(" \t\n", "\u200b", "... !"),
        *(" ".join(["w1", "w2", "w3", f"x{number}"]) for number in range(8)),
    ]
    for text in extra:
        at = chance.randrange(len(rows))
        rows.insert(at, chance.choice(rows) | {"text": text})
    return [row | {"id": f"d{number:04}"} for number, row in enumerate(rows)]


def unsupported(name: str, question: Row) -> list[str]:
    return [option for option in question if (name, option) in UNSUPPORTED]


def combinations(questions: dict[str, Row]) -> list[object]:
    found = []
    for name in ENGINES:
        for title, question in questions.items():
            if unsupported(name, question) or (questions is AS_IN_MEMORY and name == "in memory"):
                continue
            spark = name in SPARK
            marks = [pytest.mark.spark] if spark else []
            if spark and title not in ALWAYS_ON_SPARK:
                marks.append(slow)
            found.append(pytest.param(name, question, marks=marks, id=f"{name}-{title}"))
    return found


def ask(
    request: pytest.FixtureRequest, folder: Path, name: str, seed: int, rows: list[Row], asked: Row
) -> Decisions:
    options = {option: value for option, value in asked.items() if option != "against"}
    earlier = rows[: len(rows) // 3] if "against" in asked else []
    spark = request.getfixturevalue("spark") if name in SPARK else None
    folder = folder / str(seed)
    folder.mkdir()
    return ENGINES[name](
        rows[len(earlier) :], options, earlier=earlier, folder=folder, seed=seed, spark=spark
    )


@pytest.mark.parametrize(("name", "question"), combinations(QUESTIONS))
def test_engine_gives_the_definition_s_answer(
    request: pytest.FixtureRequest, tmp_path: Path, name: str, question: Row
) -> None:
    removed = rejected = 0
    for seed in [1] if name in SPARK else range(4):
        rows = corpus(seed, 90 if name in SPARK else 50)
        got = ask(request, tmp_path, name, seed, rows, POINT | {"threshold": 0.5} | question)
        options = {option: value for option, value in question.items() if option != "against"}
        earlier = rows[: len(rows) // 3] if "against" in question else []
        want = decide(rows[len(earlier) :], earlier, **options)
        assert got == want
        removed += len(want.removed)
        rejected += len(want.rejected)
        assert len(want.kept) > 3
    assert removed > 15 and rejected, "or this has seen nothing"


@pytest.mark.parametrize(("name", "question"), combinations(AS_IN_MEMORY))
def test_engine_gives_the_answer_of_the_library(
    request: pytest.FixtureRequest, tmp_path: Path, name: str, question: Row
) -> None:
    removed = 0
    for seed in [1] if name in SPARK else range(4):
        rows, options = corpus(seed, 60), POINT | {"threshold": 0.5} | question
        options = {option: value for option, value in options.items() if value is not None}
        want = in_memory(rows, options)
        assert ask(request, tmp_path, name, seed, rows, options) == want
        removed += len(want.removed)
    assert removed > 15, "or this has seen nothing"


REFUSED: dict[str, Row] = {
    "against": {"against": "earlier.jsonl"},
    "keep": {"keep": "longest"},
    "within": {"within": "lang"},
    "cluster": {"cluster": "components"},
}


@pytest.mark.parametrize(("name", "option"), [one for one in UNSUPPORTED if one[0] != "service"])
def test_unsupported_option_is_refused(tmp_path: Path, name: str, option: str) -> None:
    """A service opens its index by the same options as the index itself."""
    with pytest.raises((NeardupError, TypeError)):
        if name == "in memory":
            neardup.dedup(["a text"], **REFUSED[option])
        else:
            neardup.Index.open(tmp_path / "index", **REFUSED[option]).close()
