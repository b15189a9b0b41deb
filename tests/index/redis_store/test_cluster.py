"""An index on a cluster whose servers fail, and whose slots move."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from support import batch_engine
from support.redis_servers import HOST, RedisCluster

from neardup import Index
from neardup.errors import ServersUnavailable, UsageError
from neardup.index.redis_store import servers as connections
from neardup.index.redis_store.address import RedisAddress
from neardup.index.redis_store.keyspace import Keyspace

SMALL = batch_engine.SMALL
TEXTS = [
    f"the {at} quick brown fox jumps over {at} lazy dogs and {at + 1} cats" for at in range(40)
]
IDS = [f"first {at}" for at in range(40)]


@pytest.fixture
def address(clustered_redis: RedisCluster) -> str:
    named = ",".join(server.address for server in clustered_redis.servers)
    return f"redis://{named}?name=moving"


@pytest.fixture
def index(address: str) -> Iterator[Index]:
    with Index.open(address, **SMALL) as opened:
        opened.add_batch(IDS, TEXTS)
        yield opened


def check(index: Index, more: list[str]) -> None:
    """All documents are there, once, and copies have the witnesses that they should have."""
    assert len(index) == len(IDS) + len(more)
    for id, first in zip(more, IDS, strict=False):
        assert index.get(id).duplicate_of == (index.get(first).duplicate_of or first)
    assert index.verify() == []


def test_no_database_of_a_cluster(address: str) -> None:
    with pytest.raises(UsageError, match="no database 2"):
        Index.open(address.replace("?", "/2?"), **SMALL)


def test_a_slot_whose_keys_have_moved_and_that_has_not(
    index: Index, clustered_redis: RedisCluster
) -> None:
    """Its former master sends each command on (ASK), and in the end all of them (MOVED)."""
    slot = clustered_redis.slot_of(Keyspace("moving", 1).meta.decode())
    source = clustered_redis.master_of(slot)
    target = next(one for one in clustered_redis.masters() if one is not source)
    more = [f"again {at}" for at in range(len(TEXTS))]
    with clustered_redis.migrating(slot, target):
        keys = source.command("CLUSTER", "GETKEYSINSLOT", slot, 100).splitlines()
        assert keys
        source.command("MIGRATE", HOST, target.port, "", 0, 10_000, "KEYS", *keys)
        index.add_batch(more[:20], TEXTS[:20])
        check(index, more[:20])
    index.add_batch(more[20:], TEXTS[20:])
    check(index, more)


def test_a_slot_whose_keys_are_moving(index: Index, clustered_redis: RedisCluster) -> None:
    """What needs keys of both servers waits (TRYAGAIN)."""
    slot = clustered_redis.slot_of(Keyspace("moving", 1).partition_meta(0).decode())
    source = clustered_redis.master_of(slot)
    target = next(one for one in clustered_redis.masters() if one is not source)
    more = [f"again {at}" for at in range(len(TEXTS))]
    adding = threading.Thread(target=index.add_batch, args=(more, TEXTS))
    with clustered_redis.migrating(slot, target):
        keys = source.command("CLUSTER", "GETKEYSINSLOT", slot, 100).splitlines()
        source.command("MIGRATE", HOST, target.port, "", 0, 10_000, "KEYS", keys[0])
        adding.start()
        assert index.query(TEXTS[0]).status == "duplicate"
    adding.join(60)
    check(index, more)


def test_a_slot_without_a_master(
    index: Index, address: str, clustered_redis: RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "RETRY_SECONDS", 1.0)
    master = clustered_redis.masters()[0]
    for server in [*clustered_redis.replicas(master), master]:
        server.kill()
    with pytest.raises(ServersUnavailable):
        index.add_batch(["a", "b"], TEXTS[:2])
    with pytest.raises(ServersUnavailable):
        Index.open(address)
    monkeypatch.undo()
    clustered_redis.heal()
    index.add_batch(["a", "b"], TEXTS[:2])
    check(index, ["a", "b"])


def test_the_other_servers_are_asked_who_took_over(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A master that is halted is waited for once, and not again to learn where its slots are."""
    servers = connections.Servers(RedisAddress.parse(address))
    halted = servers.masters[0]
    asked: list[tuple[str, int]] = []
    client = servers._client
    monkeypatch.setattr(servers, "_client", lambda each: asked.append(each) or client(each))
    for _ in range(2):
        servers._disconnect_idle(halted)
        asked.clear()
        servers.refresh()
        assert asked and halted not in asked
    servers.close()
