"""neardup.dedup and its result, as someone in a notebook meets them."""

from __future__ import annotations

import subprocess
import sys

import datasets
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import neardup
from neardup.errors import ColumnError, ParameterError, UsageError

BASE = " ".join(f"word{i}" for i in range(50))
TEXTS = [BASE, BASE + " more", "something else entirely different here", BASE.upper(), "", "hi"]
ROWS = [
    {"text": text, "id": f"d{i}", "n": i % 4, "lang": "ab"[i % 2]} for i, text in enumerate(TEXTS)
]
MADE = {
    "list of dicts": lambda: ROWS,
    "pandas": lambda: pd.DataFrame(ROWS),
    "polars": lambda: pl.DataFrame(ROWS),
    "pyarrow": lambda: pa.Table.from_pylist(ROWS),
    "datasets": lambda: datasets.Dataset.from_list(ROWS),
}


@pytest.mark.parametrize("kind", MADE)
def test_every_kind_of_table_gives_the_same_answer(kind):
    data = MADE[kind]()
    result = neardup.dedup(data)
    assert result.kept == ["d0", "d2", "d5"]
    assert [(r.id, r.witness) for r in result.removed] == [("d1", "d0"), ("d3", "d0")]
    assert [(r.id, r.reason) for r in result.rejected] == [("d4", "empty")]
    kept = result.filter(data)
    assert type(kept) is type(data)
    rows = kept.to_pylist() if kind == "pyarrow" else kept
    ids = rows["id"] if kind in ("pandas", "polars") else [row["id"] for row in rows]
    assert list(ids) == result.kept


def test_the_result_explains_itself():
    result = neardup.dedup(TEXTS)
    assert repr(result) == "Result(6 documents: 3 kept, 2 removed (1 identical), 1 rejected)"
    assert str(result.why(1)) == (
        "1 was removed: 0.9787 similar to 0, which was kept "
        "(exact Jaccard of word:5 shingles, threshold 0.8)"
    )
    assert str(result.why(0)) == "0 was kept; 2 removed because of it"
    assert str(result.why(4)) == "4 was rejected: empty"
    assert [(c.id, c.copies, c.size) for c in result.clusters] == [(0, [1, 3], 3)]
    assert [(p.a, p.b) for p in result.pairs] == [(0, 1), (0, 3), (1, 3)]
    assert result.pairs[1].similarity == 1.0
    assert result.pairs[0].similarity == result.pairs[2].similarity == 46 / 47
    assert "3 kept" in result.summary()
    assert "predicted recall at the threshold 0.9983" in result.summary()
    assert "<table>" in result._repr_html_()
    assert result.filter(TEXTS) == [TEXTS[0], TEXTS[2], TEXTS[5]]


def test_ids_in_html_are_escaped():
    result = neardup.dedup([{"id": "<script>", "text": "a"}, {"id": "b", "text": "a"}])
    assert "<script>" not in result._repr_html_()


def test_keep_policies():
    assert neardup.dedup(ROWS, keep="longest").kept == ["d1", "d2", "d5"]
    assert neardup.dedup(ROWS, keep="max:n").kept == ["d2", "d3", "d5"]
    assert neardup.dedup(ROWS, keep="min:n").kept == ["d0", "d2", "d5"]


def test_null_and_nan_rank_last_and_ties_go_by_input_order():
    same = [{"text": BASE, "n": n} for n in (None, float("nan"), 1.0, 2.0, 2.0)]
    assert neardup.dedup(same, keep="max:n").kept == [3]
    assert neardup.dedup(same, keep="min:n").kept == [2]
    assert neardup.dedup(same[:2], keep="max:n").kept == [0]
    assert neardup.dedup(same[1::-1], keep="min:n").kept == [0]


def test_within_compares_only_the_same_value():
    result = neardup.dedup(ROWS, within="lang")
    assert [(r.id, r.witness) for r in result.removed] == [("d3", "d1")]
    blank = [{"text": BASE, "lang": lang} for lang in (None, "", None, "")]
    assert [(r.id, r.witness) for r in neardup.dedup(blank, within="lang").removed] == [
        (2, 0),
        (3, 1),
    ]


def test_duplicate_ids_are_told_apart_by_row():
    result = neardup.dedup([{"id": "x", "text": BASE}, {"id": "x", "text": BASE + " y"}])
    with pytest.raises(UsageError, match=r"2 documents have the id 'x', rows \[0, 1\]"):
        result.why("x")
    assert result.why(row=1).verdict == "removed"


def test_token_ids():
    lists = [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6], [9, 8, 7], None]
    result = neardup.dedup(lists, shingle="token:3")
    assert result.kept == [0, 2]
    assert [r.row for r in result.rejected] == [3]


def test_other_shingles_and_profiles():
    accents = ["Café crème à la carte", "cafe creme a la carte"]
    assert len(neardup.dedup(accents).kept) == 2
    assert len(neardup.dedup(accents, text_profile="aggressive").kept) == 1
    assert len(neardup.dedup(["A b c d e", "a b c d e"], text_profile="conservative").kept) == 2
    lines = ["x\ny\nz\nw\nv", "v\nw\nz\ny\nx"]
    assert len(neardup.dedup(lines, shingle="line:1").kept) == 1
    assert len(neardup.dedup(lines).kept) == 2


def test_presets_are_the_published_points():
    curve = neardup.dedup(["a"], preset="fineweb").options.curve
    assert (curve.bands, curve.rows) == (14, 8)
    nemo = neardup.dedup(["a"], preset="nemo").options
    assert (nemo.curve.bands, nemo.curve.rows, nemo.spec.shingle) == (20, 13, "char:24")


def test_similarity():
    assert neardup.similarity("the cat sat", "the cat lay", shingle="word:2") == 1 / 3
    assert neardup.similarity("", "") == 1.0
    assert neardup.similarity("", "x") == 0.0
    assert neardup.similarity("happy birthday", "thank you") == 0.0
    assert neardup.similarity("!", "?") == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 0}, "threshold"),
        ({"threshold": 1.5}, "threshold"),
        ({"recall": 1.0}, "recall"),
        ({"bands": 20}, "both"),
        ({"bands": 50, "rows": 50}, "2500 slots"),
        ({"shingle": "word"}, "UNIT:SIZE"),
        ({"shingle": "verse:2"}, "verse"),
        ({"shingle": "word:0"}, "shingle size"),
        ({"keep": "best"}, "max:COLUMN"),
        ({"verify": "maybe"}, "exact, estimate, none"),
        ({"cluster": "all"}, "stars"),
        ({"text_profile": "loud"}, "conservative"),
        ({"preset": "x"}, "fineweb"),
        ({"slots": 0}, "slots"),
        ({"slots": 2}, "more slots"),
        ({"limit": 0}, "limit"),
    ],
)
def test_parameters_out_of_range(options, message):
    with pytest.raises(ParameterError, match=message):
        neardup.dedup(["a"], **options)


def test_columns_that_are_not_there():
    for options, wanted in (
        ({"text": "body"}, "body"),
        ({"keep": "max:score"}, "score"),
        ({"within": "site"}, "site"),
        ({"id": "key"}, "key"),
    ):
        with pytest.raises(ColumnError, match=f"{wanted}.*text"):
            neardup.dedup(pd.DataFrame(ROWS), **options)


def test_a_string_is_not_a_corpus():
    with pytest.raises(UsageError, match="list"):
        neardup.dedup("one text")


def test_no_documents():
    result = neardup.dedup([])
    assert (result.kept, result.removed, result.pairs, len(result)) == ([], [], [], 0)
    assert "0 documents" in result.summary()


def test_importing_is_light_and_names_are_functions():
    code = (
        "import sys, neardup; assert not {'numba', 'pyarrow', 'numpy'} & set(sys.modules); "
        "assert set(neardup.__all__) <= set(dir(neardup)); "
        "import pkgutil; modules = {m.name for m in pkgutil.iter_modules(neardup.__path__)}; "
        "assert not modules & set(neardup.__all__), modules & set(neardup.__all__); "
        "assert neardup.dedup(['a']).kept == [0]; assert neardup.similarity('a', 'a') == 1"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_ids_keep_their_type_whatever_their_neighbours_are():
    rows = [{"id": i, "text": f"text number {i}"} for i in (1, "a", True, 2.5, None)]
    result = neardup.dedup(rows)
    assert result.kept == [1, "a", True, 2.5, 4]
    assert result.why(1).id == 1
    assert result.why(True).id is True


def test_within_values_do_not_depend_on_their_neighbours():
    rows = [{"text": BASE, "g": g} for g in (1, 1.0, "1", 2)]
    for more in ([], [{"text": "x", "g": "a"}], [{"text": "y", "g": 0.5}]):
        assert [r.id for r in neardup.dedup(rows + more, within="g").removed] == [1, 2]


def test_large_values_are_ranked_exactly():
    import decimal

    for kind, values in (
        (pa.uint64(), [2**63, 2**63 + 1]),
        (pa.int64(), [2**53, 2**53 + 1]),
        (
            pa.decimal128(38, 1),
            [decimal.Decimal("12345678901234567920.1"), decimal.Decimal("12345678901234567920.2")],
        ),
        (pa.timestamp("ns"), [1, 2]),
    ):
        table = pa.table({"text": [BASE, BASE], "k": pa.array(values, kind)})
        assert neardup.dedup(table, keep="max:k").kept == [1], kind


def test_filter_wants_the_same_data():
    result = neardup.dedup(TEXTS)
    for other in (TEXTS[:2], TEXTS * 2):
        with pytest.raises(UsageError, match="6 documents"):
            result.filter(other)


def test_a_large_result_can_be_pickled():
    import pickle

    words = [f"w{i}" for i in range(3_000)]
    result = neardup.dedup([" ".join(words[i:]) for i in range(1_800)])
    assert pickle.loads(pickle.dumps(result)).kept == result.kept
