"""What an administrator or a failover breaks is found by verify, and mended as far as it can be."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from support import batch_engine
from support.index_corpora import asked, chained, decided, ids_of
from support.redis_index import Raw, fresh_address

from neardup import Index
from neardup.errors import FormatError
from neardup.index.redis_store import buckets, shared_generation

TEXTS = chained(random.Random(5), 40)
IDS = ids_of(TEXTS)


@pytest.fixture(autouse=True)
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_generation, "LEASE_SECONDS", 0.3)


@pytest.fixture
def address() -> str:
    return fresh_address()


@pytest.fixture
def index(address: str) -> Iterator[Index]:
    with Index.open(address, **batch_engine.SMALL) as opened:
        opened.add_batch(IDS, TEXTS)
    with Index.open(address) as opened:
        assert opened.verify() == []
        yield opened


@pytest.fixture
def raw(index: Index, address: str) -> Iterator[Raw]:
    opened = Raw(address)
    yield opened
    opened.close()


def repaired(index: Index) -> list[str]:
    """Verify finds something; repair mends it, and then verify finds nothing."""
    assert index.verify()
    done = index._opened.generation.repair()
    assert done
    assert index.verify() == []
    return done


def numbers(index: Index, status: str) -> list[int]:
    found = [index.get(id) for id in IDS]
    return [one.number for one in found if one.status == status]


@pytest.mark.parametrize("seed", range(3))
def test_members_of_buckets_that_are_lost(index: Index, raw: Raw, seed: int) -> None:
    before = decided(index, IDS), asked(index, TEXTS)
    chance = random.Random(seed)
    for slice, key, members in list(raw.buckets()):
        if chance.random() < 0.3:
            raw.client.hdel(slice, key)
        elif len(members) > 5 and chance.random() < 0.5:
            raw.client.hset(slice, key, members[5:])
    repaired(index)
    assert (decided(index, IDS), asked(index, TEXTS)) == before
    assert all(index.add(id, text).again for id, text in zip(IDS, TEXTS, strict=True))


def test_slices_that_a_failover_has_lost(
    index: Index, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An open index has seen more slices than the servers have now: it goes on with those."""
    before, stored = decided(index, IDS), {key: raw.client.dump(key) for key in raw.keys("*")}
    monkeypatch.setattr(buckets, "LOAD", 2)
    monkeypatch.setattr(buckets, "AT_ONCE", 100)
    texts = [f"{text} and more words" for text in TEXTS]
    ids = [f"more {id}" for id in IDS]
    index.add_batch(ids, texts)
    for key in raw.keys("*"):
        raw.client.delete(key)
    for key, value in stored.items():
        raw.client.restore(key, 0, value)
    answers = index.submit(ids, texts).result(timeout=30)
    assert not any(answer.again for answer in answers)
    assert decided(index, IDS) == before
    assert index.verify() == []


def test_members_of_clusters_that_are_lost(index: Index, raw: Raw) -> None:
    before = {number: index.cluster(number) for number in numbers(index, "new")}
    keys = raw.keys("w*")
    raw.client.delete(keys[0])
    raw.client.set(keys[1], raw.client.get(keys[1])[5:])
    repaired(index)
    assert {number: index.cluster(number) for number in numbers(index, "new")} == before


@pytest.mark.parametrize("status", ["new", "duplicate"])
def test_states_that_are_lost(index: Index, raw: Raw, status: str) -> None:
    before = decided(index, IDS), asked(index, TEXTS)
    for number in numbers(index, status)[:4]:
        raw.delete("s", number)
    done = repaired(index)
    assert sum("lost its state" in line for line in done) == 4
    assert (decided(index, IDS), asked(index, TEXTS)) == before


@pytest.mark.parametrize("status", ["new", "duplicate"])
def test_a_record_that_is_lost(index: Index, raw: Raw, status: str) -> None:
    """The document can't be had back; its copies have other witnesses, as if it was removed."""
    listed = numbers(index, status)
    sizes = {number: index.cluster(number) for number in numbers(index, "new")}
    number = max(listed, key=lambda one: sizes[one].size if one in sizes else 0)
    raw.delete("r", number)
    done = repaired(index)
    assert f"document {number} has lost its record: removed" in done
    gone = IDS[number - 1]
    assert index.get(gone) is None
    for id in IDS:
        if id != gone:
            assert index.get(id).duplicate_of != gone
    assert index.add(gone, TEXTS[number - 1]).id == gone
    assert index.verify() == []


def test_a_lost_record_does_not_hold_up_writers(index: Index, raw: Raw) -> None:
    """Whoever meets it is told to verify, after a while."""
    number = numbers(index, "new")[0]
    raw.delete("r", number)
    with pytest.raises(FormatError, match="verify"):
        index.add("more", TEXTS[number - 1])
    index._opened.generation.repair()
    assert index.add("more", TEXTS[number - 1]).id == "more"
    assert index.verify() == []


def test_a_removal_that_nobody_finishes_is_told_and_finished(index: Index, raw: Raw) -> None:
    generation = index._opened.generation
    clusters = {number: index.cluster(number).size for number in numbers(index, "new")}
    number = max(clusters, key=lambda one: clusters[one])
    assert clusters[number] > 2
    assert generation._store.withdraw([number], b"gone") == [True]
    assert f"the removal of document {number} is not finished" in index.verify()
    repaired(index)
    assert index.get(IDS[number - 1]) is None


def test_orphans_that_nobody_judges(index: Index, raw: Raw) -> None:
    """Even if the list of unfinished removals is lost."""
    generation = index._opened.generation
    sizes = {number: index.cluster(number).size for number in numbers(index, "new")}
    number = max(sizes, key=lambda one: sizes[one])
    member = generation._documents.members([number])[0][0]
    state = generation._documents.states([member])[member]
    generation._store.withdraw([number], b"gone")
    raw.set("s", member, state.judged_again.pack(member))
    for key in raw.keys("x"):
        raw.client.delete(key)
    keys = generation._removal._keys_of(generation._documents.records([member])[member])
    generation._buckets.append(keys, np.full(len(keys), member, np.int64))
    assert f"document {member} waits to be judged again" in index.verify()
    # Whoever meets it judges it, when the lease is over.
    assert index.add("more", TEXTS[member - 1]).id == "more"
    assert generation._documents.states([member])[member].kind in (b"K", b"C")
    generation.repair()
    assert index.verify() == []


def flipped(data: bytes, at: int) -> bytes:
    return data[: at // 8] + bytes([data[at // 8] ^ 1 << at % 8]) + data[at // 8 + 1 :]


@pytest.mark.parametrize("letter", ["r", "h", "s", "t"])
def test_a_flipped_bit_is_an_error_that_names_the_document(letter: str, address: str) -> None:
    with Index.open(address, **batch_engine.SMALL, keep_texts=True) as index:
        index.add_batch(IDS[:10], TEXTS[:10])
        raw = Raw(address)
        chance = random.Random(letter)
        for number in (1, numbers_of(index, "duplicate")[0]):
            whole = raw.get(letter, number)
            for at in {*range(8), *chance.sample(range(8 * len(whole)), 6)}:
                raw.set(letter, number, flipped(whole, at))
                assert any(f"document {number} " in line for line in index.verify()), at
            raw.set(letter, number, whole)
        assert index.verify() == []
        raw.close()


def numbers_of(index: Index, status: str) -> list[int]:
    found = [index.get(id) for id in IDS[:10]]
    return [one.number for one in found if one.status == status]
