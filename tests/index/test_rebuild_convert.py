"""`convert` cuts stored slots to a few bits without the texts."""

from __future__ import annotations

import random

import pytest

import neardup
from neardup.errors import IndexLocked, ParameterError, UsageError
from neardup.index.rebuild import convert, undo

WORDS = [f"word{number}" for number in range(60)]
SMALL = {"threshold": 0.6, "shingle": "word:2", "bands": 32, "rows": 4}


def corpus(size: int) -> list[str]:
    chance = random.Random(7)
    texts = [" ".join(chance.choices(WORDS, k=40)) for _ in range(size // 3)]
    while len(texts) < size:
        words = chance.choice(texts).split()
        for _ in range(chance.choice([0, 1, 2, 4])):
            words[chance.randrange(len(words))] = chance.choice(WORDS)
        texts.append(" ".join(words))
    return texts


TEXTS = corpus(300)
IDS = [str(at) for at in range(len(TEXTS))]
HALF = slice(0, 200)


def made(path, **options):
    with neardup.Index.open(path, **SMALL | options) as index:
        index.add_batch(IDS[HALF], TEXTS[HALF], metadata=[{"of": id} for id in IDS[HALF]])
        for id in IDS[HALF][::11]:
            index.remove(id)
        return [index.get(id) for id in IDS], index.sequence


@pytest.mark.parametrize("verify", ["exact", "estimate"])
@pytest.mark.parametrize("bits", [1, 8, 16])
def test_converted_index_keeps_documents_and_answers(tmp_path, bits, verify):
    before, sequence = made(tmp_path / "index", verify=verify)
    done = convert(tmp_path / "index", bits)
    assert done.documents == sum(one is not None for one in before)
    with neardup.Index.open(tmp_path / "index") as index:
        assert [index.get(id) for id in IDS] == before
        assert index.spec.bits == bits
        assert index.settings.parent == done.parent
        assert done.parent != done.fingerprint == index.spec.fingerprint
        assert index.sequence >= sequence
        assert index.verify() == []
        with neardup.Index.open(tmp_path / "narrow", **SMALL, bits=bits, verify=verify) as narrow:
            # What has come since is judged as if slots had been narrow from the beginning.
            kept = [one for one in before if one is not None and one.status == "new"]
            narrow.add_batch([one.id for one in kept], [TEXTS[int(one.id)] for one in kept])
            if verify == "exact":
                rest = slice(200, 300)
                for ours, theirs in zip(
                    index.add_batch(IDS[rest], TEXTS[rest]),
                    narrow.add_batch(IDS[rest], TEXTS[rest]),
                    strict=True,
                ):
                    assert (ours.status, ours.duplicate_of, ours.similarity) == (
                        theirs.status,
                        theirs.duplicate_of,
                        theirs.similarity,
                    )
                assert index.get("299").number == 300
            asked = index.query(TEXTS[1])
            assert asked.status == "duplicate"
            assert asked.duplicate_of == (before[1].duplicate_of or "1")
        assert index.verify() == []


def test_estimates_are_those_of_narrow_slots(tmp_path):
    made(tmp_path / "index", verify="estimate")
    convert(tmp_path / "index", 8)
    options = SMALL | {"verify": "estimate", "bits": 8}
    with (
        neardup.Index.open(tmp_path / "index") as index,
        neardup.Index.open(tmp_path / "narrow", **options) as narrow,
    ):
        kept = [id for id in IDS if (one := index.get(id)) and one.status == "new"]
        narrow.add_batch(kept, [TEXTS[int(id)] for id in kept])
        # Two that estimates from whole slots took for different may be similar now.
        both = {id for id in kept if narrow.get(id).status == "new"}
        compared = 0
        for text in TEXTS[200:]:
            ours = {match.id: match.similarity for match in index.similar(text, 99)}
            theirs = {match.id: match.similarity for match in narrow.similar(text, 99)}
            assert {id: value for id, value in ours.items() if id in both} == theirs
            compared += len(theirs)
        assert compared > 30


def test_convert_stores_less(tmp_path):
    made(tmp_path, verify="estimate", slots=512, bands=16, rows=8)
    done = convert(tmp_path, 4)
    assert done.bytes_after < done.bytes_before
    assert done.bytes_before == (tmp_path / "g1" / "index.sqlite").stat().st_size


def test_it_can_be_undone(tmp_path):
    before, _ = made(tmp_path, keep_texts=True)
    convert(tmp_path, 8)
    with neardup.Index.open(tmp_path) as index:
        later = index.add("299", TEXTS[299])
    undo(tmp_path)
    with neardup.Index.open(tmp_path) as index:
        assert (index.spec.bits, index.settings.parent) == (32, "")
        assert [index.get(id) for id in IDS[:299]] == before[:299]
        assert index.get("299").duplicate_of == later.duplicate_of
        assert index.verify() == []


def test_convert_refuses_wrong_bits_and_open_or_narrow_indexes(tmp_path):
    with pytest.raises(UsageError, match="no index"):
        convert(tmp_path / "nothing", 8)
    made(tmp_path / "index")
    for bits in (3, 32, 64):
        with pytest.raises(ParameterError, match="bits"):
            convert(tmp_path / "index", bits)
    with neardup.Index.open(tmp_path / "index"), pytest.raises(IndexLocked):
        convert(tmp_path / "index", 8)
    convert(tmp_path / "index", 8)
    with pytest.raises(ParameterError, match="already"):
        convert(tmp_path / "index", 4)
    made(tmp_path / "bits", sketch="simhash", threshold=None, bands=None, rows=None)
    with pytest.raises(ParameterError, match="bits 8"):
        convert(tmp_path / "bits", 8)


def test_readers_follow(tmp_path):
    before, _ = made(tmp_path)
    with neardup.Index.open(tmp_path, read_only=True) as reader:
        assert reader.spec.bits == 32
        convert(tmp_path, 8)
        assert [reader.get(id) for id in IDS] == before
        assert reader.spec.bits == 8
