"""Every engine gives the definition's answer to every question, and keeps the five promises.

The definition is `support.definition`: set arithmetic and `reference.keep_list`. Questions are
asked about corpora made for trouble, about random ones (by the engines that are fast enough) and
about real text. An option that an engine does not support is in `UNSUPPORTED`, with the reason, and
is tested to be refused.
"""

from __future__ import annotations

import functools
import random
import sysconfig
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import batch_engine
from support.definition import POINT, Decisions, Definition, Row
from support.engines import ENGINES, SPARK, in_memory
from support.sizes import full
from support.strategies import corpora, examples

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


SIMHASH: Row = {"sketch": "simhash", **dict.fromkeys(("threshold", "bands", "rows"))}
QUESTIONS: dict[str, Row] = {
    "the usual": {},
    "limit 1": {"limit": 1},
    "limit 2, hot buckets": {"limit": 2, "threshold": 0.3},
    "limit 3": {"limit": 3, "threshold": 0.75},
    "equal sets only": {"threshold": 1.0},
    "longest": {"keep": "longest"},
    "max": {"keep": "max:score", "limit": 2},
    "min": {"keep": "min:score"},
    "newest": {"keep": "newest:seen"},
    "oldest": {"keep": "oldest:seen", "limit": 2},
    "last": {"keep": "last", "threshold": 0.75},
    "none": {"keep": "none"},
    "none, limit 2": {"keep": "none", "threshold": 0.3, "limit": 2},
    "none, within": {"keep": "none", "within": "lang", "verify": "estimate"},
    "none, numbers": {"keep": "none", "distinguish": "numbers"},
    "none, against": {"keep": "none", "against": True},
    "none, containment": {"keep": "none", "measure": CHOICES[1]},
    "several columns": {"text": "head,inner.tail"},
    "several columns, longest": {"text": "inner.tail,head", "keep": "longest"},
    "within": {"within": "lang"},
    "within, limit 2": {"within": "lang", "limit": 2, "threshold": 0.3},
    "within, max": {"within": "lang", "keep": "max:score", "limit": 1},
    "numbers": {"distinguish": "numbers"},
    "numbers, within": {"distinguish": "numbers", "within": "lang", "threshold": 0.3},
    "numbers, within, max, limit 1": {
        "distinguish": "numbers",
        "within": "lang",
        "keep": "max:score",
        "limit": 1,
    },
    "a column": {"distinguish": "lang", "threshold": 0.3},
    "numbers and a column, estimate": {"distinguish": "numbers,lang", "verify": "estimate"},
    "numbers, against": {"distinguish": "numbers", "against": True},
    "masked": {"mask": "numbers,dates"},
    "masked, against": {"mask": "numbers", "against": True},
    "estimate": {"verify": "estimate"},
    "unverified": {"verify": "none", "limit": 2},
    **{title: row for name in CHOICES[1:] for title, row in questions_about(name).items()},
    "against": {"against": True},
    "against, limit 1": {"against": True, "limit": 1, "threshold": 0.3},
    "against, longest": {"against": True, "keep": "longest"},
    "against, last": {"against": True, "keep": "last"},
    "one table and another": {"bands": None, "rows": None, "tables": "2x3,3x2"},
    "weighted": {"sketch": "weighted"},
    "simhash": {**SIMHASH, "slots": 64, "hamming": 6},
}
AS_IN_MEMORY: dict[str, Row] = {
    "two tables": {"tables": 2, "rows": 1},
    "components": {"cluster": "components"},
    "components, longest": {"cluster": "components", "verify": "estimate", "keep": "longest"},
    "components, unverified": {"cluster": "components", "verify": "none", "threshold": 1.0},
    "components, none": {"cluster": "components", "keep": "none"},
    "narrow slots": {"bits": 8},
    "narrow slots, estimate": {"bits": 8, "verify": "estimate"},
    "one permutation": {"sketch": "oneperm", "slots": 64, "bands": 32, "rows": 2},
}
"""Questions that the definition does not answer: all engines must give the library's answer."""

ONE_AT_A_TIME = "documents are judged as they come: the first one stays"
FREQUENCIES = "an index never has all documents that frequencies are counted in"
COLUMN = "distinguish COLUMN"
ONE_COLUMN = "an index keeps documents apart by one column, with within"
UNSUPPORTED: dict[tuple[str, str], str] = {
    ("in memory", "against"): "the library takes one table: put the earlier documents first",
    ("index", "against"): "an index is what came earlier",
    ("service", "against"): "an index is what came earlier",
    ("index", "text"): "an index is given texts: commands that read files into it join columns",
    ("service", "text"): "a service is given texts",
    ("index", "keep"): ONE_AT_A_TIME,
    ("service", "keep"): ONE_AT_A_TIME,
    ("index", COLUMN): ONE_COLUMN,
    ("service", COLUMN): ONE_COLUMN,
    ("index", "weights"): FREQUENCIES,
    ("service", "weights"): FREQUENCIES,
    ("index", "cluster"): "a chain that a document closes would change earlier answers",
    ("service", "cluster"): "a chain that a document closes would change earlier answers",
}
UNSUPPORTED |= {
    ("redis", option): why for (name, option), why in UNSUPPORTED.items() if name == "index"
}
UNSUPPORTED |= {
    ("increments", option): why
    for (name, option), why in UNSUPPORTED.items()
    if name == "index" and option != "text"
}
"""By engine and option."""
WITHOUT_VETOED = ("index", "redis", "increments", "service")
"""The engines that don't list what `distinguish` keeps: an index never meets such documents."""

slow = pytest.mark.slow
ALWAYS = {
    "Spark files": ("within, max",),
    "Spark DataFrames": ("limit 2, hot buckets", "several columns"),
    "increments": ("the usual", "limit 2, hot buckets", "several columns", "masked"),
    "redis": ("the usual", "limit 1", "limit 2, hot buckets", "numbers, within", "simhash"),
}
"""By engine that takes seconds: the questions of every run of the tests; others in the long one."""


def corpus(seed: int, count: int) -> list[Row]:
    """Chains and stars of edits, copies, empty, short and unspaced texts, hot buckets."""
    chance = random.Random(seed)
    rows = batch_engine.rows(seed, count, words=[12, 6, 4, 22][seed % 4])
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
    return [
        row | {"id": f"d{number:04}"} | in_parts(row["text"], number)
        for number, row in enumerate(rows)
    ]


def in_parts(text: str, number: int) -> Row:
    """The text in two columns; in some rows the first is empty or missing."""
    words = text.split(" ")
    at = 0 if number % 5 < 2 else len(words) // 2
    head = " ".join(words[:at]) or (None if number % 5 else "")
    return {"head": head, "inner": {"tail": " ".join(words[at:])}}


def numbered(rows: list[Row]) -> list[Row]:
    """The same rows with letters for the digits of their words, and one of few numbers each."""
    letters = str.maketrans("0123456789", "abcdefghij")
    ends = ("", " 7", " no 7", " 07", " ٧", " 7 1", " 71")
    return [
        row | {"text": row["text"].translate(letters) + ends[place * place % 11 % len(ends)]}
        if any(map(str.isalpha, row["text"]))
        else row
        for place, row in enumerate(rows)
    ]


def seeds(name: str, title: str) -> range:
    """The corpora of a question: engines that take longer are asked about two of four by turns."""
    if name in SPARK:
        return range(1, 2)
    if name in ("in memory", "index"):
        return range(examples(4))
    first = 2 * (len(title) % 2)
    return range(first, first + examples(2))


def unsupported(name: str, question: Row) -> list[str]:
    columns = set(question.get("distinguish", "").split(",")) - {"numbers", ""}
    options = [*question, COLUMN] if columns else [*question]
    return [option for option in options if (name, option) in UNSUPPORTED]


def combinations(questions: dict[str, Row]) -> list[object]:
    found = []
    for name in ENGINES:
        for title, question in questions.items():
            if unsupported(name, question) or (questions is AS_IN_MEMORY and name == "in memory"):
                continue
            marks = [pytest.mark.spark] if name in SPARK else []
            if title not in ALWAYS.get(name, questions):
                marks.append(slow)
            found.append(pytest.param(name, title, marks=marks, id=f"{name}-{title}"))
    return found


def options_of(question: Row) -> Row:
    """The options of a question about few words; those that are None are not given."""
    options = POINT | {"threshold": 0.5} | question
    return {name: value for name, value in options.items() if value is not None}


@functools.cache
def right_answer(title: str, seed: int, count: int) -> tuple[list[Row], Decisions]:
    """A corpus for a question, and the answer that all engines must give."""
    question = QUESTIONS[title]
    rows = corpus(seed, count)
    if "numbers" in question.get("distinguish", "") + question.get("mask", ""):
        rows = numbered(rows)
    definition = define(rows, question)
    want = definition.decide()
    definition.check_promises(want)
    return rows, want


def define(rows: list[Row], question: Row) -> Definition:
    earlier = rows[: len(rows) // 3] if "against" in question else []
    options = {name: value for name, value in options_of(question).items() if name != "against"}
    return Definition(rows[len(earlier) :], earlier, **options)


def ask(
    request: pytest.FixtureRequest, folder: Path, name: str, seed: int, rows: list[Row], asked: Row
) -> Decisions:
    options = {name: value for name, value in options_of(asked).items() if name != "against"}
    earlier = rows[: len(rows) // 3] if "against" in asked else []
    spark = request.getfixturevalue("spark") if name in SPARK else None
    folder = folder / str(seed)
    folder.mkdir()
    return ENGINES[name](
        rows[len(earlier) :], options, earlier=earlier, folder=folder, seed=seed, spark=spark
    )


@pytest.mark.sized
@pytest.mark.parametrize(("name", "title"), combinations(QUESTIONS))
def test_engine_gives_the_definition_s_answer(
    request: pytest.FixtureRequest, tmp_path: Path, name: str, title: str
) -> None:
    question = QUESTIONS[title]
    removed = rejected = vetoed = 0
    for seed in seeds(name, title):
        rows, want = right_answer(title, seed, 90 if name in SPARK else 50)
        listed = {} if name in WITHOUT_VETOED else want.vetoed
        got = ask(request, tmp_path, name, seed, rows, question)
        assert got == replace(want, vetoed=listed)
        removed += len(want.removed)
        rejected += len(want.rejected)
        vetoed += len(want.vetoed)
        assert len(want.kept) > 3
    assert removed > 10 and rejected, "or this has seen nothing"
    assert vetoed > 5 or "distinguish" not in question


@pytest.mark.sized
@pytest.mark.parametrize(("name", "title"), combinations(AS_IN_MEMORY))
def test_engine_gives_the_answer_of_the_library(
    request: pytest.FixtureRequest, tmp_path: Path, name: str, title: str
) -> None:
    question = AS_IN_MEMORY[title]
    removed = 0
    for seed in seeds(name, title):
        rows = corpus(seed, 60)
        want = in_memory(rows, options_of(question))
        assert ask(request, tmp_path, name, seed, rows, question) == want
        removed += len(want.removed)
    assert removed > 15, "or this has seen nothing"


def weights_of(name: str) -> Row:
    """The option, if it is not the default."""
    return {} if name == "tf" else {"weights": name}


RANDOM: dict[str, Row] = {
    "the usual": {},
    "longest": {"keep": "longest"},
    **{name: {"measure": name} for name in CHOICES[1:]},
    **{f"{name}, longest": {"measure": name, "keep": "longest"} for name in CHOICES[1:]},
    "limit 1": {"limit": 1},
    "none": {"keep": "none"},
    "numbers": {"distinguish": "numbers"},
    "limit 2, estimate": {"limit": 2, "verify": "estimate"},
    "unverified": {"verify": "none"},
    **{f"tables {t}": {"tables": t, "bands": None, "rows": None} for t in ("2x3,3x2", "6x1,1x6")},
    **{
        f"weighted, {weights}, {verify}": {
            "sketch": "weighted",
            **weights_of(weights),
            "verify": verify,
            "slots": 16,
            "bands": 8,
        }
        for weights in ("tf", "tf-idf")
        for verify in ("exact", "estimate")
    },
    **{
        f"simhash, {bits} bits, {distance} differ, {weights}": {
            **SIMHASH,
            "slots": bits,
            "hamming": distance,
            **weights_of(weights),
        }
        for bits, distance in ((64, 3), (64, 12), (128, 8))
        for weights in ("tf", "tf-idf")
    },
}
"""Questions about random corpora."""
CORPORA = {"in memory": 24, "local files": 3, "index": 6, "redis": 1}
"""The engines that are fast enough to be asked about random corpora, and about how many."""


def random_questions() -> list[object]:
    return [
        pytest.param(name, question, id=f"{name}-{title}")
        for name in CORPORA
        for title, question in RANDOM.items()
        if not unsupported(name, question)
    ]


@pytest.mark.sized
@pytest.mark.parametrize(("name", "question"), random_questions())
def test_engine_keeps_its_promises_on_random_corpora(
    tmp_path_factory: pytest.TempPathFactory, name: str, question: Row
) -> None:
    """Witnessed, no chains, complete up to LSH, nothing vanishes; and the definition's answer."""
    thresholds = st.sampled_from([0.3, 0.5, 0.75, 1.0])
    # A table of document frequencies takes longer than a corpus.
    count = 3 if "weights" in question else CORPORA[name]

    @settings(max_examples=examples(count))
    @given(corpora(), thresholds)
    def check(texts: list[str], threshold: float) -> None:
        rows = [{"id": f"d{number:04}", "text": text} for number, text in enumerate(texts)]
        asked = question if "threshold" in question else {**question, "threshold": threshold}
        definition = define(rows, asked)
        folder = tmp_path_factory.mktemp("corpus")
        got = ENGINES[name](rows, options_of(asked), folder=folder, seed=len(texts))
        definition.check_promises(got)
        want = definition.decide()
        assert got == (replace(want, vetoed={}) if name in WITHOUT_VETOED else want)

    check()


@pytest.mark.parametrize(("files", "length"), [(0, 1_200), full(60, 6_000)])
def test_engines_keep_their_promises_on_real_text(tmp_path: Path, files: int, length: int) -> None:
    """Beginnings of source files of the standard library: families of codecs, many small files."""
    library = Path(sysconfig.get_paths()["stdlib"])
    paths = sorted(library.glob("encodings/*.py")) + sorted(library.glob("*.py"))[:files]
    texts = [path.read_text("utf-8", "replace")[:length] for path in paths]
    rows = [{"id": f"d{number:04}", "text": text} for number, text in enumerate(texts)]
    curve = neardup.dedup(["a"], threshold=0.8).options.curve
    question = {"shingle": "word:5", "threshold": 0.8, "slots": 128}
    question |= {"bands": curve.bands, "rows": curve.rows}
    definition = define(rows, question)
    want = definition.decide()
    definition.check_promises(want)
    assert len(want.removed) >= 5, "the encodings hold real near-duplicates"
    for name in CORPORA:
        folder = tmp_path / name
        folder.mkdir()
        assert ENGINES[name](rows, options_of(question), folder=folder, seed=1) == want, name


@given(corpora(), st.integers(1, 7))
def test_library_gives_the_same_answer_whatever_the_batches(texts: list[str], size: int) -> None:
    """Promise 4; the engines above cut their input into other pieces for every seed."""
    options = POINT | {"threshold": 0.5}
    batches = [
        pa.record_batch({"text": pa.array(texts[at : at + size], pa.string())})
        for at in range(0, len(texts), size)
    ]
    pieces = neardup.dedup(pa.Table.from_batches(batches), **options)
    assert pieces.removed == neardup.dedup(texts, **options).removed


@given(corpora(), st.sampled_from([0.3, 0.6]))
def test_pairs_of_the_library_are_all_similar_candidates(
    texts: list[str], threshold: float
) -> None:
    rows = [{"id": f"d{number:04}", "text": text} for number, text in enumerate(texts)]
    got = neardup.dedup(rows, **POINT | {"threshold": threshold}).pairs
    want = define(rows, {"threshold": threshold}).pairs()
    assert sorted((pair.a, pair.b, pair.similarity) for pair in got) == sorted(want)


REFUSED: dict[str, Row] = {
    "text": {"text": "title,body"},
    "against": {"against": "earlier.jsonl"},
    "keep": {"keep": "longest"},
    "within": {"within": "lang"},
    COLUMN: {"distinguish": "lang"},
    "cluster": {"cluster": "components"},
    "weights": {"sketch": "weighted", "weights": "tf-idf"},
}


@pytest.mark.parametrize(
    ("name", "option"), [one for one in UNSUPPORTED if one[0] in ("in memory", "index")]
)
def test_unsupported_option_is_refused(tmp_path: Path, name: str, option: str) -> None:
    """A service opens its index by the same options as the index itself."""
    with pytest.raises((NeardupError, TypeError)):
        if name == "in memory":
            neardup.dedup(["a text"], **REFUSED[option])
        else:
            neardup.Index.open(tmp_path / "index", **REFUSED[option]).close()
