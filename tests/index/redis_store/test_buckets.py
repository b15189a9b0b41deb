"""Slices of buckets, as Redis stores them."""

from __future__ import annotations

import numpy as np
import pytest
from support.batch_engine import SMALL
from support.redis_index import Raw, fresh_address

from neardup import Index
from neardup.index.redis_store.buckets import LOAD, SharedBuckets


def test_slices_that_were_too_large_are_packed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many processes that begin at once fill the first slices before any is split."""
    address = fresh_address()
    Index.open(address, **SMALL).close()
    raw = Raw(address)
    identity = raw.client.hget(raw.keyspace.meta, "identity")
    buckets = SharedBuckets(raw.servers, raw.keyspace, identity)
    keys = np.random.default_rng(1).integers(0, 2**64, 40_000, np.uint64)
    numbers = np.arange(1, len(keys) + 1)
    with monkeypatch.context() as patch:
        patch.setattr(SharedBuckets, "_split_full", lambda *_: None)
        buckets.append(keys[:-1], numbers[:-1])
    encodings = {raw.client.object("encoding", each) for each in raw.keys("b*")}
    assert encodings == {b"hashtable"}
    for _ in range(4):
        buckets.append(keys, numbers)
    assert len(raw.keys("b*")) > len(keys) // LOAD - 64
    sizes = {each: raw.client.hlen(each) for each in raw.keys("b*")}
    packed = {each for each in sizes if raw.client.object("encoding", each) == b"listpack"}
    assert packed == set(sizes), max(sizes.values())
    assert sum(sizes.values()) == len(set(keys.tolist())) == buckets.count()
    found = buckets.find(keys)
    assert all(number in found[place] for place, number in enumerate(numbers.tolist()))
    raw.servers.close()
