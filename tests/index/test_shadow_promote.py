"""A promoted operating point gives the answers of an index that was made at it."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.index_corpora import asked, chained, corpora, decided, filled, ids_of
from support.sizes import full
from support.strategies import examples

import neardup
from neardup.corpus.documents import Documents, text_column
from neardup.errors import ParameterError, UsageError
from neardup.index.settings import stated
from neardup.sketcher import Sketcher

SMALL = {"shingle": "word:2", "threshold": 0.8}
POINTS = [
    (SMALL, {"threshold": 0.5}),
    ({**SMALL, "threshold": 0.5}, {"threshold": 0.9}),
    full(SMALL, {"bands": 8, "rows": 16}),
    ({**SMALL, "threshold": 0.5}, {"tables": "10x4,20x2"}),
    full({**SMALL, "threshold": 0.5}, {"limit": 1}),
    full({**SMALL, "threshold": 0.5}, {"verify": "estimate"}),
    full({**SMALL, "threshold": 0.5, "verify": "estimate"}, {"verify": "exact"}),
    ({**SMALL, "shingle": "word:1"}, {"measure": "containment"}),
    ({"shingle": "word:2", "sketch": "simhash", "hamming": 1}, {"hamming": 4}),
    ({**SMALL, "sketch": "weighted"}, {"threshold": 0.5}),
    full({**SMALL, "bits": 8}, {"threshold": 0.5}),
    ({**SMALL, "bits": 8}, {"limit": 2, "verify": "estimate"}),
]


@pytest.fixture(autouse=True, scope="module")
def _small_steps():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("neardup.index.shadow_trial.AT_ONCE", 7)
        yield


def fresh_options(before: dict, point: dict, index: neardup.Index) -> dict:
    """What an index is opened with that has this point from the beginning."""
    options = {**before, **point}
    if "bits" in before:  # narrow slots keep their bands
        options["tables"] = stated(index.options)["tables"]
    return options


@pytest.mark.parametrize(("before", "point"), POINTS)
@given(texts=corpora(2, 40), removed=st.sets(st.integers(0, 39)))
@settings(max_examples=examples(3))
def test_promoted_index_equals_one_made_at_that_operating_point(
    before, point, tmp_path_factory, texts, removed
):
    folder, ids = tmp_path_factory.mktemp("index"), ids_of(texts)
    with filled(folder / "a", texts, **before) as index:
        for at in removed:
            index.remove(str(at))
        there = [id for id in ids if int(id) not in removed]
        index.retune(**point)
        with neardup.Index.open(folder / "b", **fresh_options(before, point, index)) as fresh:
            fresh.add_batch(there, [texts[int(id)] for id in there])
            assert decided(index, ids) == decided(fresh, ids)
            assert asked(index, texts) == asked(fresh, texts)
            assert index.stats().kept == fresh.stats().kept
            more = chained(random.Random(1), 5) + texts[:3]
            for at, text in enumerate(more):
                index.add(f"more {at}", text)
                fresh.add(f"more {at}", text)
            names = [f"more {at}" for at in range(len(more))]
            assert decided(index, names) == decided(fresh, names)
        assert index.verify() == []
    with neardup.Index.open(folder / "a") as again:
        assert again.verify() == []
        assert all(
            getattr(again.options, name) == value
            for name, value in point.items()
            if name in ("threshold", "limit", "verify", "measure", "hamming")
        )
        assert set(there) <= set(decided(again, ids))


def test_documents_that_came_without_text(tmp_path):
    """They are compared by signatures, those around them exactly."""
    texts = chained(random.Random(5), 60)

    def filled_with_both(path: Path, threshold: float) -> neardup.Index:
        index = neardup.Index.open(path, **{**SMALL, "threshold": threshold})
        sketcher = Sketcher(index.spec, index.settings.ignored, None, index.settings.frequencies)
        for at, text in enumerate(texts):
            sketch = sketcher(Documents(text_column([text], False)[0], [], None, None, {}))
            if at % 3 == 0:
                sketch = replace(sketch, shingles=sketch.shingles.take(np.empty(0, np.int64)))
            index.add_sketches([str(at)], sketch)
        return index

    with filled_with_both(tmp_path / "a", 0.8) as index:
        index.retune(threshold=0.5)
        with filled_with_both(tmp_path / "b", 0.5) as fresh:
            expected = decided(fresh, ids_of(texts))
        copies = [said for said in expected.values() if said[0] == "duplicate"]
        assert {exact for *_, exact in copies} == {True, False}
        assert decided(index, ids_of(texts)) == expected


def test_while_others_add(tmp_path):
    texts = chained(random.Random(7), 600)
    with filled(tmp_path / "a", texts[:300], **SMALL) as index:

        def add(first: int) -> None:
            for at in range(first, len(texts), 3):
                index.add(str(at), texts[at])

        threads = [threading.Thread(target=add, args=(first,)) for first in (300, 301, 302)]
        for thread in threads:
            thread.start()
        index.retune(threshold=0.6)
        index.retune(threshold=0.5)
        for thread in threads:
            thread.join()
        order = sorted(ids_of(texts), key=lambda one: index.get(one).number)
        with neardup.Index.open(tmp_path / "b", **{**SMALL, "threshold": 0.5}) as fresh:
            fresh.add_batch(order, [texts[int(id)] for id in order])
            assert decided(index, order) == decided(fresh, order)
        assert index.verify() == []


def test_while_others_add_and_remove(tmp_path):
    """Every copy is similar to a kept document, and no two kept ones are similar."""
    texts = chained(random.Random(8), 400)
    everything_meets = {"shingle": "word:2", "threshold": 0.8, "bands": 128, "rows": 1}
    with filled(tmp_path / "a", texts[:200], **everything_meets) as index:

        def change(first: int) -> None:
            for at in range(first, len(texts), 2):
                index.add(str(at), texts[at])
                index.remove(str(at - 150))

        threads = [threading.Thread(target=change, args=(first,)) for first in (200, 201)]
        for thread in threads:
            thread.start()
        index.retune(threshold=0.5, bands=128, rows=1)
        for thread in threads:
            thread.join()
        said = decided(index, ids_of(texts))
        assert len(said) == 200
        assert index.verify() == []
    kept = [id for id, one in said.items() if one[0] == "new"]
    spec = {"shingle": "word:2"}
    for id, (status, witness, similarity, _) in said.items():
        if status == "duplicate":
            assert witness in kept
            alike = neardup.similarity(texts[int(id)], texts[int(witness)], **spec)
            assert similarity == alike >= 0.5
    for at, a in enumerate(kept):
        for b in kept[:at]:
            assert neardup.similarity(texts[int(a)], texts[int(b)], **spec) < 0.5


def test_refused_retune_changes_nothing(tmp_path):
    texts = chained(random.Random(9), 50)
    with filled(tmp_path / "a", texts, **SMALL) as index:
        before = decided(index, ids_of(texts))
        for point, cure in [
            ({"shingle": "word:3"}, "reindex"),
            ({"slots": 64}, "reindex"),
            ({"nonsense": 1}, "use threshold"),
            ({"bands": 500, "rows": 9}, "fewer bands"),
            ({"threshold": 7.0}, "threshold"),
            ({"hamming": 3}, "simhash"),
            ({"threshold": 0.8}, "already"),
            ({}, "already"),
        ]:
            with pytest.raises(ParameterError, match=cure):
                index.retune(**point)
        assert decided(index, ids_of(texts)) == before
        index.retune(threshold=0.6)  # no shadow is left behind
    with (
        neardup.Index.open(tmp_path / "a", read_only=True) as reader,
        pytest.raises(UsageError, match="read-only"),
    ):
        reader.retune(threshold=0.5)


def test_narrow_slots_keep_their_bands(tmp_path):
    with filled(tmp_path / "a", chained(random.Random(1), 5), **SMALL, bits=8) as index:
        with pytest.raises(ParameterError, match=r"slots of 8 bits.*reindex"):
            index.retune(bands=8, rows=16)
        index.retune(threshold=0.5)
        assert index.options.threshold == 0.5


def test_an_index_without_documents(tmp_path):
    with neardup.Index.open(tmp_path / "a", **SMALL) as index:
        assert index.retune(threshold=0.5) == 0
        index.add("a", "one two three four five six")
        assert index.query("one two three four five seven").status == "duplicate"
