"""`neardup.dedup` and `neardup.similarity`: tables in, an explained keep list out."""

from __future__ import annotations

import decimal
import random
import sysconfig
from pathlib import Path

import datasets
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.definition import POINT
from support.sizes import full
from support.strategies import corpora

import neardup
from neardup import reference
from neardup.corpus.documents import Columns
from neardup.corpus.frames import read_data
from neardup.errors import ColumnError, NeardupError, UsageError
from neardup.in_memory import Corpus
from neardup.measure_table import CHOICES
from neardup.options import Options
from neardup.sketcher import Sketcher
from neardup.spec import Spec

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


def edited(*places: int) -> str:
    return " ".join(f"x{n}" if n in places else f"w{n}" for n in range(300))


EDITED = [edited(), edited(20), edited(*range(150)), edited().upper()]


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


def test_within_values_do_not_depend_on_their_neighbours():
    rows = [{"text": BASE, "g": g} for g in (1, 1.0, "1", 2)]
    for more in ([], [{"text": "x", "g": "a"}], [{"text": "y", "g": 0.5}]):
        assert [r.id for r in neardup.dedup(rows + more, within="g").removed] == [1, 2]


def test_large_values_are_ranked_exactly():
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


def test_similarity_is_the_exact_jaccard_of_the_shingles():
    assert neardup.similarity("the cat sat", "the cat lay", shingle="word:2") == 1 / 3
    assert neardup.similarity("", "") == 1.0
    assert neardup.similarity("", "x") == 0.0
    assert neardup.similarity("happy birthday", "thank you") == 0.0
    assert neardup.similarity("!", "?") == 0.0


def test_missing_column_is_named_in_the_error():
    for options, wanted in (
        ({"text": "body"}, "body"),
        ({"keep": "max:score"}, "score"),
        ({"within": "site"}, "site"),
        ({"id": "key"}, "key"),
    ):
        with pytest.raises(ColumnError, match=f"{wanted}.*text"):
            neardup.dedup(pd.DataFrame(ROWS), **options)


def test_single_string_is_refused():
    with pytest.raises(UsageError, match="list"):
        neardup.dedup("one text")


def test_empty_list_gives_an_empty_result():
    result = neardup.dedup([])
    assert (result.kept, result.removed, result.pairs, len(result)) == ([], [], [], 0)
    assert "0 documents" in result.summary()


@pytest.mark.parametrize("measure", CHOICES)
@given(corpora(most=12), st.sampled_from([0.3, 0.6]), st.integers(1, 2))
def test_answer_is_that_of_the_reference(measure, texts, threshold, limit):
    spec = Spec(size=2, slots=POINT["slots"])
    by = reference.MEASURES[measure]
    want = reference.dedup(texts, spec, POINT["bands"], POINT["rows"], threshold, limit, measure=by)
    result = neardup.dedup(texts, **POINT, threshold=threshold, limit=limit, measure=measure)
    got = [None] * len(texts)
    for removed in result.removed:
        got[removed.id] = (removed.witness, removed.similarity)
    for rejected in result.rejected:
        got[rejected.row] = (rejected.row, 0.0)
    assert got == want


@pytest.fixture(scope="module")
def standard_library() -> list[str]:
    """Source files of the standard library: families of codecs, many small files."""
    library = Path(sysconfig.get_paths()["stdlib"])
    paths = sorted(library.glob("encodings/*.py")) + sorted(library.glob("*.py"))[:60]
    return [path.read_text("utf-8", "replace")[:6_000] for path in paths]


@pytest.mark.parametrize("count", [30, full(80)])
def test_answer_is_that_of_the_reference_on_real_text(standard_library, count):
    texts = standard_library[:count]
    curve = neardup.dedup(texts).options.curve
    want = reference.dedup(texts, Spec(), curve.bands, curve.rows, 0.8)
    result = neardup.dedup(texts)
    got = {r.id: (r.witness, r.similarity) for r in result.removed}
    assert got == {
        i: verdict for i, verdict in enumerate(want) if verdict is not None and verdict[0] != i
    }
    assert got


def test_identical_documents_are_never_compared():
    result = neardup.dedup(["one page that everybody copies"] * 50_000 + ["another page"])
    assert len(result.removed) == 49_999
    assert result._decisions.compared == 0
    assert {r.witness for r in result.removed} == {0}


def test_copies_of_a_removed_document_follow_it():
    base = " ".join(f"w{i}" for i in range(60))
    near = base + " and more"
    result = neardup.dedup([base, near, near.upper() + "!"], threshold=0.8)
    assert [r.witness for r in result.removed] == [0, 0]
    assert result.removed[0].similarity == result.removed[1].similarity < 1.0


def test_chains_are_merged_by_components_only():
    # Each text is similar to its neighbours only.
    words = [f"w{i}" for i in range(300)]
    chain = [" ".join(words[i * 10 : i * 10 + 100]) for i in range(12)]
    stars = neardup.dedup(chain, threshold=0.75, shingle="word:1", slots=256)
    assert len(stars.kept) >= 5
    merged = neardup.dedup(chain, threshold=0.75, shingle="word:1", slots=256, cluster="components")
    assert merged.kept == [0]
    assert min(r.similarity for r in merged.removed) < 0.1


def test_full_buckets_are_counted_and_listed():
    # With one slot, every text in which "common" has the least hash is in one bucket.
    texts = [f"common u{i}" for i in range(40)]
    result = neardup.dedup(
        texts, shingle="word:1", slots=1, bands=1, rows=1, threshold=0.99, limit=3
    )
    (bucket,) = result._decisions.full_buckets
    assert result.removed == []
    assert bucket.size > 10
    assert bucket.beyond == bucket.size - 3
    assert 0 <= bucket.sample < 40


def test_pairs_of_many_copies_stop_at_the_limit():
    base = " ".join(f"w{i}" for i in range(60))
    texts = [base] * 30_000 + [base + " end"] * 3
    options = Options.of()
    corpus, sketcher = Corpus(options), Sketcher(options.spec)
    for documents in read_data(texts, Columns()):
        corpus.add(documents, sketcher(documents))
    found = corpus.pairs(most=1_000)
    every = 30_000 * 29_999 // 2 + 3 + 30_000 * 3
    assert len(found.a) == 1_000
    assert found.dropped == every - 1_000
    assert (found.a < found.b).all()


def test_fingerprints_can_be_verified_exactly():
    result = neardup.dedup(EDITED, sketch="simhash", hamming=8, verify="exact", threshold=0.9)
    assert [(r.id, r.exact) for r in result.removed] == [(1, True), (3, True)]
    assert result.removed[0].similarity == 291 / 301
    assert (
        "exact Jaccard >= 0.90 of word:5 shingles, 45 tables of 10 blocks: predicted recall at the "
        "threshold for documents of equal size" in result.summary()
    )
    none = neardup.dedup(EDITED, sketch="simhash", hamming=8, verify="exact", threshold=0.99)
    assert [r.id for r in none.removed] == [3]


@pytest.mark.parametrize("weights", ["tf", "tf-idf"])
def test_a_key_changes_all_fingerprints(weights):
    made = [
        neardup.dedup(EDITED, sketch="simhash", verify="none", weights=weights, **keyed)
        for keyed in (
            {},
            {"hash": "siphash", "key": bytes(16)},
            {"hash": "siphash", "key": b"k" * 16},
        )
    ]
    assert all(3 not in result.kept for result in made)
    assert len({result.options.spec.fingerprint for result in made}) == 3
    sketches = [neardup.SimHash(), neardup.SimHash(hash="siphash", key=bytes(16))]
    for sketch in sketches:
        sketch.update("a")
    assert sketches[0].fingerprint != sketches[1].fingerprint
    assert neardup.SimHash.from_bytes(sketches[1].to_bytes()).hamming(sketches[1]) == 0


def test_stream_is_refused_where_frequencies_are_counted():
    with pytest.raises(NeardupError, match="can be read only once"):
        neardup.dedup(iter(EDITED), sketch="simhash", weights="tf-idf")


def pages(count: int, template: int, article: int, seed: int = 4) -> list[str]:
    """Pages with one template and an article each; two of the articles are on one more page."""
    draw = random.Random(seed)
    menu = [f"menu{n}" for n in range(template)]
    articles = [[f"word{draw.randrange(10**6)}" for _ in range(article)] for _ in range(count)]
    copies = [[*articles[0][:-2], "edited"], [*articles[7], "more"]]
    return [" ".join(menu + words) for words in articles + copies]


def test_tf_idf_tells_pages_with_one_template_apart():
    """Different articles in one template are duplicates by Jaccard, not by tf-idf."""
    found = pages(100, template=200, article=40)
    asked = {"threshold": 0.6, "shingle": "word:3"}
    assert neardup.similarity(found[0], found[1], shingle="word:3") > 0.6
    assert len(neardup.dedup(found, **asked).kept) < 10
    assert len(neardup.dedup(found, sketch="weighted", **asked).kept) < 10
    weighed = neardup.dedup(found, sketch="weighted", weights="tf-idf", **asked)
    assert [(r.id, r.witness) for r in weighed.removed] == [(100, 0), (101, 7)]
    assert len(weighed.kept) == 100


def test_spam_with_zero_width_characters_in_its_words_is_found_with_profile_plain():
    post = "hey anna I made five hundred dollars this week working from home with this trick"
    hidden = " ".join(f"{word[:1]}\u200b{word[1:]}" for word in post.split())
    assert len(neardup.dedup([post, hidden]).kept) == 2
    assert neardup.dedup([post, hidden], text_profile="plain").kept == [0]


def test_arabic_text_with_vowel_marks_is_a_copy_with_profile_plain():
    marked = "بِسْمِ اللَّهِ الرَّحْمَٰنِ الرَّحِيمِ الْحَمْدُ لِلَّهِ رَبِّ الْعَالَمِينَ"
    plain = "بسم الله الرحمن الرحيم الحمد لله رب العالمين"
    assert len(neardup.dedup([plain, marked]).kept) == 2
    assert neardup.dedup([plain, marked], text_profile="plain").removed[0].similarity == 1.0
