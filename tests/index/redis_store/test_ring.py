"""An index on servers that are no cluster: which of them has what, and addresses that are wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support import batch_engine
from support.redis_index import fresh_ring, shared_server
from support.redis_servers import redis_cluster, redis_server

from neardup import HashRing, Index
from neardup.errors import FormatError, NeardupError, ParameterError, ServersUnavailable, UsageError
from neardup.index.redis_store import placing, ring_servers, scripts
from neardup.index.redis_store.address import RedisAddress, format_server
from neardup.index.redis_store.ring_servers import RingServers, connect
from neardup.index.redis_store.servers import Call
from neardup.service.api_keys import ApiKeys
from neardup.service.shared_rates import SharedRates

TEXT = "one two three four five six seven eight"


@pytest.fixture
def ring() -> Iterator[str]:
    """The address of an index with two documents."""
    address = fresh_ring()
    with Index.open(address, **batch_engine.SMALL) as index:
        index.add_batch(["a", "b"], [TEXT, f"{TEXT} nine"])
    yield address


def name_of(address: str) -> str:
    return RedisAddress.parse(address).name


def refused(address: str, *words: str, error: type[NeardupError] = UsageError) -> None:
    with pytest.raises(error) as raised:
        Index.open(address, read_only=True)
    for word in words:
        assert word in str(raised.value), raised.value


def test_keys_are_where_the_published_rule_says(ring: str) -> None:
    """The rule of docs/format.md, and nothing else, finds the server of each key."""
    name = name_of(ring)
    servers = [shared_server(number) for number in range(3)]
    rule = HashRing([server.address for server in servers])
    shares: Counter[str] = Counter()
    for server in servers:
        with server.client() as client:
            for key in client.scan_iter(match=f"{{{name}:*}}*", count=10_000):
                partition = placing.partition_of_key(key)
                if partition != "r":
                    assert rule.node(f"{name}:{partition}") == server.address, key
                    shares[server.address] += 1
    assert len(shares) == 3, "each has some"


def test_an_address_names_all_servers_in_any_order(ring: str) -> None:
    parsed = RedisAddress.parse(ring)
    for servers in (parsed.servers, parsed.servers[::-1]):
        with Index.open(str(parsed.with_servers(servers)), read_only=True) as index:
            assert index.get("b").duplicate_of == "a"
    fewer = str(parsed.with_servers(parsed.servers[:2]))
    refused(fewer, "does not name the servers", "of epoch 1", "give redis://", "rebalance")
    with pytest.raises(UsageError, match="named twice"):
        RedisAddress.parse(str(parsed.with_servers(parsed.servers[:1] * 2)))
    with pytest.raises(ParameterError, match="ring has no value"):
        RedisAddress.parse("redis://a,b?ring=2")


def test_another_server_in_the_address(ring: str) -> None:
    parsed = RedisAddress.parse(ring)
    other = ("127.0.0.1", shared_server(3).port)
    wrong = parsed.with_servers([*parsed.servers[:2], other])
    refused(str(wrong), "does not name the servers", format_server(parsed.servers[2]))
    with pytest.raises(UsageError, match="does not name the servers"):
        Index.open(str(wrong), **batch_engine.SMALL)
    with shared_server(3).client() as client:
        assert not list(client.scan_iter(match=f"{{{parsed.name}:*", count=10_000))


def test_one_server_of_a_ring_is_no_index(ring: str) -> None:
    parsed = RedisAddress.parse(ring)
    alone = f"redis://{format_server(parsed.servers[0])}?name={parsed.name}"
    refused(alone, "part of an index on a ring", "?ring&name=")


def test_an_index_of_one_server_is_no_ring() -> None:
    server = shared_server()
    with Index.open(f"{server.url}?name=single", **batch_engine.SMALL):
        pass
    for address in (f"{server.url}?ring&name=single", f"{server.url}?name=single&ring"):
        with pytest.raises(UsageError, match="has another index of this name"):
            Index.open(address, **batch_engine.SMALL)


def test_servers_of_two_rings(ring: str) -> None:
    parsed = RedisAddress.parse(ring)
    one = ("127.0.0.1", shared_server(3).port)
    with Index.open(str(parsed.with_servers([one])), **batch_engine.SMALL):
        pass
    refused(str(parsed.with_servers([parsed.servers[0], one])), "different indexes")


def test_a_missing_index_is_not_made() -> None:
    address = fresh_ring()
    refused(address, "holds no index")
    for number in range(3):
        with shared_server(number).client() as client:
            assert not list(client.scan_iter(match=f"{{{name_of(address)}:*", count=10_000))


def test_a_cluster_needs_no_ring(tmp_path: Path) -> None:
    with redis_cluster(tmp_path, replicas=0, appendonly=False) as cluster:
        refused(f"{cluster.url}?ring", "is of a cluster", "leave out ?ring")


def test_a_server_that_is_gone_or_has_lost_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neardup.index.redis_store.servers.RETRY_SECONDS", 0.3)
    with redis_server(tmp_path, password="geheim") as third:
        both = [shared_server(number).address for number in range(2)]
        address = f"redis://{','.join([*both, third.address])}?ring&name=losing"
        with pytest.raises(UsageError, match="refuses the user or the password"):
            Index.open(address)
    servers = [*[shared_server(number) for number in range(2)]]
    with redis_server(tmp_path) as third:
        address = f"redis://{','.join([*both, third.address])}?ring&name=losing"
        with Index.open(address, **batch_engine.SMALL) as index:
            index.add("a", TEXT)
            third.kill()
            with pytest.raises(ServersUnavailable, match=third.address):
                for at in range(200):
                    index.query(f"some other words {at}")
            refused(address, third.address, "start it", error=ServersUnavailable)
            third.start()
            assert index.query(TEXT).duplicate_of == "a"
            third.flushall()
            with pytest.raises(FormatError, match="no server of"):
                for at in range(200):
                    index.query(f"some other words {at}")
        refused(address, third.address, "has lost", error=FormatError)
    assert all(server.running for server in servers)


def test_a_process_that_died_while_it_made_a_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one makes what is missing."""
    form, left = RingServers._form_on, [2]

    def form_or_die(self: RingServers, *given: object) -> str:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return form(self, *given)

    address = fresh_ring()
    monkeypatch.setattr(RingServers, "_form_on", form_or_die)
    with pytest.raises(KeyboardInterrupt):
        Index.open(address, **batch_engine.SMALL)
    monkeypatch.undo()
    refused(address, "holds no index")
    with Index.open(address, **batch_engine.SMALL) as index:
        assert index.add("a", TEXT).status == "new"
        assert index.verify() == []
    records = connect(RedisAddress.parse(address)).read_records(all_of_them=True)
    assert len(records) == 3
    assert len({record.id for record in records.values()}) == 1
    assert not any(record.forming for record in records.values())


def test_a_command_that_was_sent_to_the_wrong_server_is_refused(ring: str) -> None:
    """No process can read or write a partition where it is not."""
    servers = connect(RedisAddress.parse(ring))
    assert isinstance(servers, RingServers)
    places = dict(servers._places)
    key = servers.address.name
    call = Call(f"{{{key}:c}}counter".encode(), (b"GET", f"{{{key}:c}}counter".encode()))
    right = servers.run([call])
    others = [server for server in servers.masters if server != places["c"].server]
    for wrong in (*others, places["c"].server):
        servers._places["c"] = placing.PartitionPlace(wrong, "H7")
        assert servers.run([call]) == right != [None]
        assert servers._places["c"] == places["c"]
    servers.close()


def test_reads_and_writes_are_told_apart() -> None:
    """A script is guarded as one that writes unless its first line says that it does not."""
    folder = Path(scripts.__file__).parent / "scripts"
    reading = {
        path.stem for path in folder.glob("*.lua") if not scripts.load_script(path.stem).writes
    }
    assert "find" in reading
    for name in reading:
        source = (folder / f"{name}.lua").read_text("utf-8")
        called = {part.split("'")[1] for part in source.split("redis.call(")[1:]}
        assert {each.encode() for each in called} <= set(ring_servers.READS), name


def test_services_share_keys_and_rates(ring: str) -> None:
    address = RedisAddress.parse(ring)
    one, other, client = SharedRates(address), SharedRates(address), ("key", "crawler")
    assert one.exchange({client: 5}, now=0.0) == other.exchange({client: 7}, now=0.0) == {}
    assert one.exchange({client: 1}, now=1.0) == {client: 7}
    for rates in (one, other):
        rates.close()
    ApiKeys(ring).add("crawler", ("read",), datetime.now(UTC).isoformat())
    keys = ApiKeys(ring)
    assert [key.name for key in keys.all()] == ["crawler"]
    keys.revoke("crawler")
    assert keys.all() == [] and keys.guarded
