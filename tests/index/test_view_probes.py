"""Probes find what is in the buckets that a text would be in without one of its shingles."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.index_corpora import chained, corpora, filled
from support.strategies import examples

import neardup
from neardup.errors import ParameterError
from neardup.reference import sketches as slow
from neardup.reference.sketches import band_keys

FEW = {"shingle": "word:2", "threshold": 0.5, "bands": 3, "rows": 6, "slots": 24}


@given(texts=corpora(5, 25), probes=st.integers(0, 18), seed=st.integers(0, 99))
@settings(max_examples=examples(15))
def test_probes_by_definition(tmp_path_factory, texts, probes, seed):
    words = random.Random(seed).sample(texts[-1].split(), 27)
    asked = [texts[0] + " more", " ".join(words), texts[-1]]
    with filled(tmp_path_factory.mktemp("index"), texts, **FEW) as index:
        kept = [at for at in range(len(texts)) if index.get(str(at)).status == "new"]
        bands = index._opened.generation.view.codec.lsh
        everything = index._opened.generation.sketcher.sketch_texts(
            [*texts, *asked], bands
        ).arrivals
        shingles, spec = everything.sets, index.spec

        def buckets(at: int, more: int = 0) -> set[tuple[int, int]]:
            sig = everything.compared[at].tolist()
            elements = shingles.data[shingles.offsets[at] : shingles.offsets[at + 1]].tolist()
            listed = slow.probe_keys(sig, slow.seconds(set(elements), spec), 3, 6)[:more]
            return {*enumerate(band_keys(sig, 3, 6)), *listed}

        for place, answer in enumerate(index.query_batch(asked, probes=probes)):
            own = buckets(len(texts) + place, probes)
            met = [at for at in kept if own & buckets(at)]
            alike = [neardup.similarity(texts[at], asked[place], shingle="word:2") for at in met]
            similar = [at for at, one in zip(met, alike, strict=True) if one >= 0.5]
            if asked[place] not in texts:
                assert answer.duplicate_of == (str(similar[0]) if similar else None)


def test_probes_find_more_true_copies_only(tmp_path):
    chance = random.Random(6)
    texts = [" ".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=40)) for _ in range(200)]
    asked = [text + f" z{at} y{at}" for at, text in enumerate(texts)]
    with filled(tmp_path / "index", texts, **FEW) as index:
        before = index.stats()
        plain, probed = index.query_batch(asked), index.query_batch(asked, probes=18)
        found = [sum(one.status == "duplicate" for one in some) for some in (plain, probed)]
        assert 0 < found[0] < found[1]
        for at, answer in enumerate(probed):
            assert answer.duplicate_of in (None, str(at))
            assert plain[at].duplicate_of in (None, answer.duplicate_of)
        assert index.stats().documents == before.documents


@pytest.mark.parametrize(
    "options",
    [{"bits": 8}, {"sketch": "simhash"}, {"sketch": "weighted"}, {"family": "affine-m61"}],
)
def test_probes_are_refused_for_other_sketches(tmp_path, options):
    with (
        filled(tmp_path / "index", chained(random.Random(1), 3), **options) as index,
        pytest.raises(ParameterError, match="leave them out"),
    ):
        index.query("some text", probes=3)


def test_a_number(tmp_path):
    with filled(tmp_path / "index", chained(random.Random(1), 3), **FEW) as index:
        for wrong in (-1, 25, 1.5):
            with pytest.raises(ParameterError, match="probes"):
                index.query("some text", probes=wrong)
