"""The five promises, as properties of random corpora and of real text.

Nothing here trusts the implementation: similarities are set arithmetic over reference shingles,
buckets are reference band keys.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import corpora

import neardup
from neardup import reference
from neardup.measure_table import CHOICES
from neardup.spec import Spec

BANDS, ROWS, SLOTS = 6, 2, 12


def run(texts, **options):
    return neardup.dedup(
        list(texts), slots=SLOTS, bands=BANDS, rows=ROWS, shingle="word:2", **options
    )


@pytest.fixture(scope="module")
def real_texts() -> list[str]:
    """Source files of the standard library: families of codecs, many small files."""
    library = Path(sysconfig.get_paths()["stdlib"])
    paths = sorted(library.glob("encodings/*.py")) + sorted(library.glob("*.py"))[:60]
    return [path.read_text("utf-8", "replace")[:6_000] for path in paths]


class Truth:
    """Sets and buckets of a corpus by the reference."""

    def __init__(self, texts, spec, bands, rows):
        hashes = [reference.unit_hashes(reference.units(text, spec), spec) for text in texts]
        self.empty = [not found for found in hashes]
        self.sets = [reference.shingles(found, spec.size) for found in hashes]
        self.keys = [
            set(enumerate(reference.band_keys(reference.signature(s, spec), bands, rows)))
            for s in self.sets
        ]

    def similarity(self, a, b):
        return reference.jaccard(self.sets[a], self.sets[b])

    def containment(self, a, b):
        return reference.containment(self.sets[a], self.sets[b])


def check(texts, result, truth, rank, threshold, similar=None):
    """`similar(later, earlier)` is how similar documents are, if not by Jaccard."""
    similar = similar or truth.similarity
    kept, gone = set(result.kept), {r.id: r for r in result.removed}
    rejected = {r.id for r in result.rejected}
    # 5: nothing vanishes, and only what is empty is rejected
    assert sorted([*kept, *gone, *rejected]) == list(range(len(texts)))
    assert rejected == {i for i, empty in enumerate(truth.empty) if empty}
    # 1 and 2: a kept witness of better rank, similar enough, no chain in between
    for row, removed in gone.items():
        assert removed.witness in kept
        assert rank[removed.witness] < rank[row]
        assert removed.exact
        assert removed.similarity == similar(row, removed.witness) >= threshold
        assert removed.cluster == removed.witness
    # 3: no two kept documents that share a bucket are similar
    for a in kept:
        for b in kept:
            if rank[a] < rank[b] and truth.keys[a] & truth.keys[b]:
                assert similar(b, a) < threshold


@settings(max_examples=150)
@given(corpora(), st.sampled_from([0.3, 0.5, 0.75, 1.0]), st.sampled_from(["first", "longest"]))
def test_the_promises_on_random_corpora(texts, threshold, keep):
    result = run(texts, threshold=threshold, keep=keep)
    rank = list(range(len(texts)))
    if keep == "longest":
        order = sorted(rank, key=lambda i: (-len(texts[i].encode()), i))
        rank = [order.index(i) for i in range(len(texts))]
    spec = Spec(size=2, slots=SLOTS)
    truth = Truth(texts, spec, BANDS, ROWS)
    check(texts, result, truth, rank, threshold)
    inside = run(texts, threshold=threshold, keep=keep, measure="containment")
    check(texts, inside, truth, rank, threshold, truth.containment)


@pytest.mark.parametrize("measure", CHOICES)
@settings(max_examples=100)
@given(corpora(most=12), st.sampled_from([0.3, 0.6]), st.integers(1, 2))
def test_the_answer_is_the_definition(measure, texts, threshold, limit):
    spec = Spec(size=2, slots=SLOTS)
    by = reference.MEASURES[measure]
    want = reference.dedup(texts, spec, BANDS, ROWS, threshold, limit, measure=by)
    result = run(texts, threshold=threshold, limit=limit, measure=measure)
    got = [None] * len(texts)
    for removed in result.removed:
        got[removed.id] = (removed.witness, removed.similarity)
    for rejected in result.rejected:
        got[rejected.row] = (rejected.row, 0.0)
    assert got == want


def test_the_promises_on_real_text(real_texts):
    result = neardup.dedup(real_texts, threshold=0.8)
    curve = result.options.curve
    truth = Truth(real_texts, Spec(), curve.bands, curve.rows)
    check(real_texts, result, truth, list(range(len(real_texts))), 0.8)
    assert len(result.removed) >= 5, "the encodings hold real near-duplicates"


def test_the_answer_is_the_definition_on_real_text(real_texts):
    some = real_texts[:80]
    curve = neardup.dedup(some).options.curve
    want = reference.dedup(some, Spec(), curve.bands, curve.rows, 0.8)
    result = neardup.dedup(some)
    got = {r.id: (r.witness, r.similarity) for r in result.removed}
    assert got == {
        i: verdict for i, verdict in enumerate(want) if verdict is not None and verdict[0] != i
    }


@given(corpora(), st.integers(1, 7))
def test_deterministic_whatever_the_batches(texts, size):
    whole = run(texts, threshold=0.5)
    batches = [
        pa.record_batch({"text": pa.array(texts[at : at + size], pa.string())})
        for at in range(0, len(texts), size)
    ]
    pieces = run_table(pa.Table.from_batches(batches))
    assert pieces == [(r.id, r.witness, r.similarity) for r in whole.removed]


def run_table(table):
    result = neardup.dedup(
        table, slots=SLOTS, bands=BANDS, rows=ROWS, shingle="word:2", threshold=0.5
    )
    return [(r.id, r.witness, r.similarity) for r in result.removed]


@given(corpora())
def test_estimate_and_none_have_kept_witnesses_too(texts):
    spec = Spec(size=2, slots=SLOTS)
    truth = Truth(texts, spec, BANDS, ROWS)
    for verify, least in (("estimate", 0.5), ("none", 0.0)):
        result = run(texts, threshold=0.5, verify=verify)
        kept = set(result.kept)
        for removed in result.removed:
            assert removed.witness in kept
            a, b = (reference.signature(truth.sets[i], spec) for i in (removed.id, removed.witness))
            assert removed.similarity == reference.estimate(a, b) >= least


def test_a_million_copies_cost_a_million_hashes():
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


def test_chains_are_not_merged_but_by_components():
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
    from neardup.corpus.documents import Columns
    from neardup.corpus.frames import read_data
    from neardup.in_memory import Corpus
    from neardup.options import Options
    from neardup.sketcher import Sketcher

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


@given(corpora(), st.sampled_from([0.3, 0.6]))
def test_pairs_are_all_similar_candidates(texts, threshold):
    truth = Truth(texts, Spec(size=2, slots=SLOTS), BANDS, ROWS)
    want = {
        (a, b): truth.similarity(a, b)
        for b in range(len(texts))
        for a in range(b)
        if not truth.empty[a]
        and not truth.empty[b]
        and truth.keys[a] & truth.keys[b]
        and truth.similarity(a, b) >= threshold
    }
    got = [(p.a, p.b, p.similarity) for p in run(texts, threshold=threshold).pairs]
    assert got == [(a, b, similarity) for (a, b), similarity in sorted(want.items())]


@given(corpora(), st.sampled_from(["2x3,3x2", "6x1,1x6"]))
def test_documents_meet_in_any_of_several_tables(texts, tables):
    curves = [tuple(map(int, part.split("x"))) for part in tables.split(",")]
    spec = Spec(size=2, slots=SLOTS)
    truth = Truth(texts, spec, BANDS, ROWS)
    truth.keys = [
        set(enumerate(reference.table_keys(reference.signature(s, spec), curves)))
        for s in truth.sets
    ]
    result = neardup.dedup(texts, slots=SLOTS, tables=tables, shingle="word:2", threshold=0.5)
    check(texts, result, truth, list(range(len(texts))), 0.5)
