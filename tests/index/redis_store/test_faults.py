"""Servers that refuse, are too small, lose their data or are not what they seem: a clear line."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import batch_engine
from support.index_corpora import ids_of
from support.redis_index import Raw, fresh_address, shared_server
from support.redis_servers import redis_server, supports_tls

from neardup import Index
from neardup.errors import (
    FormatError,
    NeardupError,
    OutputError,
    ParameterError,
    ServersUnavailable,
    SpecMismatch,
    UsageError,
)
from neardup.index import place
from neardup.index.exchange import import_index
from neardup.index.redis_store import address as addresses
from neardup.index.redis_store import servers as connections
from neardup.index.redis_store import shared_generation
from neardup.index.settings import IndexSettings, new_options

TEXT = "one two three four five six seven eight"
SMALL = batch_engine.SMALL


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "RETRY_SECONDS", 1.0)
    monkeypatch.setattr(shared_generation, "LEASE_SECONDS", 0.5)


def test_nobody_answers() -> None:
    with pytest.raises(ServersUnavailable, match=r"127\.0\.0\.1:1 can't be reached"):
        Index.open("redis://127.0.0.1:1")


@pytest.mark.parametrize("login", ["", "wrong", "user:wrong"])
def test_wrong_password(tmp_path: Path, login: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with redis_server(tmp_path, password="open-sesame") as server:
        user, _, password = login.rpartition(":")
        at = f"{user}:{password}@" if login else ""
        with pytest.raises(UsageError, match=addresses.PASSWORD) as raised:
            Index.open(f"redis://{at}{server.address}")
        assert "wrong" not in str(raised.value)
        monkeypatch.setenv(addresses.PASSWORD, "open-sesame")
        with Index.open(f"redis://{server.address}", **SMALL) as index:
            assert index.add("a", TEXT).status == "new"
            assert "sesame" not in f"{index!r} {index.path}"
        file = tmp_path / "password"
        file.write_text("open-sesame\n")
        monkeypatch.delenv(addresses.PASSWORD)
        monkeypatch.setenv(addresses.PASSWORD_FILE, str(file))
        with Index.open(f"redis://{server.address}") as index:
            assert "a" in index


def test_a_user_without_rights(tmp_path: Path) -> None:
    users = [
        "reader on >secret ~* &* +@read +@connection +info",
        "writer on >secret ~{neardup:* &* +@all -@dangerous +info",
    ]
    with redis_server(tmp_path, users=users) as server:
        with pytest.raises(UsageError, match="no permissions"):
            Index.open(f"redis://reader:secret@{server.address}", **SMALL)
        said: list[str] = []
        at = f"redis://writer:secret@{server.address}"
        with Index.open(at, **SMALL, say=said.append) as index:
            index.add_batch(["a", "b"], [TEXT, TEXT])
            assert index.remove("a") and index.verify() == [] and len(index) == 1
        assert any("CONFIG" in line for line in said)


@pytest.mark.skipif(not supports_tls(), reason="this Redis speaks no TLS")
def test_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with redis_server(tmp_path, tls=True) as server:
        with pytest.raises(ServersUnavailable, match="certificate"):
            Index.open(f"rediss://{server.address}", **SMALL)
        monkeypatch.setenv(addresses.CA_FILE, str(server.certificate.certificate))
        with Index.open(f"rediss://{server.address}", **SMALL) as index:
            assert index.add("a", TEXT).status == "new"
        with pytest.raises(ServersUnavailable):
            Index.open(f"redis://{server.address}", **SMALL)
    with pytest.raises(ServersUnavailable):
        Index.open(shared_server().url.replace("redis://", "rediss://"), **SMALL)


def test_an_address_that_is_none() -> None:
    for wrong in (
        "redis://",
        "redis://host:99999",
        "redis://host?name=a b",
        "redis://host?nam=a",
        "redis://host/x",
        "redis://ho st",
    ):
        with pytest.raises(ParameterError):
            Index.open(wrong)
    for replicas in (-1, "1"):
        with pytest.raises(ParameterError, match="replicas"):
            Index.open(fresh_address(), replicas=replicas)
    with pytest.raises(UsageError, match="no cluster"):
        Index.open(f"{shared_server().url},127.0.0.1:1")


@pytest.mark.parametrize(
    "wrong",
    [
        "valkey://:secret@127.0.0.1:1/0",
        "REDIS://:secret@127.0.0.1:1",
        "redis:/:secret@127.0.0.1:1",
        Path("redis://:secret@127.0.0.1:1"),
        "http://u:secret@127.0.0.1:1",
    ],
)
def test_another_url_is_no_folder(
    wrong: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its password would be the name of a folder, and in messages."""
    monkeypatch.chdir(tmp_path)
    settings = IndexSettings(new_options(None, None, SMALL), False)
    for refused in (
        lambda: Index.open(wrong),
        lambda: Index.open(wrong, read_only=True),
        lambda: place.is_stored(wrong),
        lambda: place.require_stored(wrong),
        lambda: place.require_free(wrong),
        lambda: place.new_index(wrong, settings),
        lambda: place.check_settings(wrong, None, {}, None, None),
        lambda: addresses.RedisAddress.parse(str(wrong)),
    ):
        with pytest.raises(ParameterError, match="redis://HOST") as raised:
            refused()
        assert "secret" not in str(raised.value)
    with pytest.raises(ParameterError, match="not from a URL") as raised:
        import_index(wrong, tmp_path / "index")
    assert "secret" not in str(raised.value)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("password", ["se/cret", "se?cret", "se#cret", "se@cret,x", "se:c/ret?"])
def test_a_password_in_an_address_is_never_shown(password: str) -> None:
    """Also one that is not quoted, whose characters have a meaning in addresses."""
    address = addresses.RedisAddress.parse(f"redis://me:{password}@host:1/2?name=a")
    assert (address.user, address.password) == ("me", password)
    assert str(address) == "redis://host:1/2?name=a"
    for wrong in ("ho st", "host:0", "host/x", "host?nam=a", "host?name=a/b", ""):
        with pytest.raises(ParameterError) as raised:
            addresses.RedisAddress.parse(f"redis://me:{password}@{wrong}")
        assert "cret" not in str(raised.value)


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random"])
def test_a_server_that_deletes_keys_is_refused(tmp_path: Path, policy: str) -> None:
    with (
        redis_server(tmp_path, maxmemory_policy=policy) as server,
        pytest.raises(UsageError, match=f"{policy}.*noeviction"),
    ):
        Index.open(server.url, **SMALL)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"appendonly": False}, "stores nothing on disk"),
        ({"appendonly": False, "settings": {"save": "60 1"}}, "no append-only file"),
        ({"appendfsync": "always"}, "appendfsync always"),
    ],
)
def test_what_a_crash_loses_is_said(tmp_path: Path, settings: Any, what: str) -> None:
    said: list[str] = []
    with redis_server(tmp_path, **settings) as server:
        Index.open(server.url, **SMALL, say=said.append).close()
    assert any(what in line for line in said), said


def test_a_read_only_replica(tmp_path: Path) -> None:
    with redis_server(tmp_path) as master, redis_server(tmp_path) as replica:
        replica.command("REPLICAOF", "127.0.0.1", master.port)
        with pytest.raises(ServersUnavailable, match="read only replica"):
            Index.open(replica.url, **SMALL)
        with Index.open(master.url, **SMALL, replicas=1) as index:
            assert index.add("a", TEXT).status == "new"
            replica.kill()
            with pytest.raises(ServersUnavailable, match="replicas"):
                index.add("b", f"other {TEXT}")
        # It is stored, though it was not acknowledged: sent again, it is there once.
        with Index.open(master.url) as index:
            assert index.add("b", f"other {TEXT}").id == "b"
            assert index.verify() == [] and len(index) == 2


def test_no_memory_left(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server, Index.open(server.url, **SMALL) as index:
        index.add_batch(["a", "b"], [TEXT, f"{TEXT} nine"])
        server.set_config("maxmemory", 1)
        with pytest.raises(OutputError, match="maxmemory"):
            index.add("c", "a text that nobody has")
        assert index.query(TEXT).duplicate_of == "a"
        assert index.remove("a"), "removing makes room"
        server.set_config("maxmemory", 0)
        assert index.add("c", f"{TEXT} nine").duplicate_of == "b"
        assert index.verify() == []


def test_a_server_that_loads_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "RETRY_SECONDS", 30.0)
    settings = {"key-load-delay": 2_000, "loading-process-events-interval-bytes": 1_024}
    with redis_server(tmp_path) as server:
        with Index.open(server.url, **SMALL) as index:
            texts = batch_engine.texts(1, 200)
            index.add_batch(ids_of(texts), texts)
            count = len(index)
        server.settings = {**server.settings, **settings}
        server.restart(wait=False)
        begun = time.monotonic()
        while time.monotonic() - begun < 30:
            try:
                index = Index.open(server.url)
                break
            except ServersUnavailable:
                continue  # it does not listen yet
        assert len(index) == count
        index.close()


def test_another_specification_under_the_same_name() -> None:
    address = fresh_address()
    Index.open(address, **SMALL).close()
    with pytest.raises((SpecMismatch, UsageError)):
        Index.open(address, shingle="word:3")
    other = f"{address}-other"
    Index.open(other, shingle="word:3").close()


def test_another_format() -> None:
    address = fresh_address()
    Index.open(address, **SMALL).close()
    raw = Raw(address)
    raw.client.hset(raw.keyspace.meta, "format", 99)
    with pytest.raises(FormatError, match="format version 99"):
        Index.open(address)
    raw.client.hset(raw.keyspace.meta, "format", "x")
    with pytest.raises(FormatError, match="damaged"):
        Index.open(address)
    raw.close()


ASKING: dict[str, Callable[[Index], object]] = {
    "add": lambda index: index.add("b", TEXT),
    "query": lambda index: index.query(TEXT),
    "get": lambda index: index.get("a"),
    "remove": lambda index: index.remove("a"),
    "similar": lambda index: index.similar(TEXT),
    "len": len,
    "stats": lambda index: index.stats(),
    "verify": lambda index: index.verify(),
    "repair": lambda index: index.repair(),
}


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("what", ASKING)
def test_a_flush_is_noticed(tmp_path: Path, what: str, again: bool) -> None:
    address = fresh_address()
    with Index.open(address, **SMALL) as index:
        index.add("a", TEXT)
        raw = Raw(address)
        raw.client.delete(*raw.keys("*"))
        raw.close()
        if again:
            Index.open(address, **SMALL).close()
        with pytest.raises(FormatError, match="not the one that was opened"):
            ASKING[what](index)


def test_a_closed_index_asks_no_server() -> None:
    with Index.open(fresh_address(), **SMALL) as index:
        pass
    with pytest.raises(UsageError, match="closed"):
        len(index)


def test_foreign_keys_are_not_touched(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        client = server.client()
        foreign = {f"foreign:{at}".encode(): str(at).encode() for at in range(50)}
        foreign |= {b"neardup": b"1", b"neardup:x": b"2", b"{neardup2:0}meta": b"3"}
        client.mset(foreign)
        with Index.open(server.url, **SMALL, limit=1) as index:
            texts = batch_engine.texts(2, 120, words=5)
            index.add_batch(ids_of(texts), texts)
            for id in ids_of(texts)[::3]:
                index.remove(id)
            index.add("5", "other words", replace=True)
            index.verify()
            index._opened.generation.repair()
        for key in client.scan_iter(count=10_000):
            if key not in foreign:
                assert key.startswith(b"{neardup:"), key
        assert client.mget(foreign) == list(foreign.values())
        client.close()


def test_a_connection_that_breaks_in_the_middle_of_a_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All connections are cut again and again; each document is added exactly once."""
    monkeypatch.setattr(connections, "RETRY_SECONDS", 60.0)
    address = fresh_address()
    texts = batch_engine.texts(4, 150)
    with Index.open(address, **SMALL) as index:
        done = threading.Event()

        def cut() -> None:
            client = shared_server().client()
            while not done.wait(0.02):
                client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            client.close()

        thread = threading.Thread(target=cut)
        thread.start()
        try:
            for at in range(0, len(texts), 10):
                ids = ids_of(texts[at : at + 10], at)
                answers = index.add_batch(ids, texts[at : at + 10])
                assert not any(answer.again for answer in answers if answer.status != "rejected")
        finally:
            done.set()
            thread.join()
        assert len(index) == sum(bool(text.strip()) for text in texts)
        assert index.verify() == []


def test_a_counter_that_went_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failover numbers may be given twice: no document takes the place of another one."""
    address = fresh_address()
    with Index.open(address, **SMALL) as index:
        texts = batch_engine.texts(6, 40)
        index.add_batch(ids_of(texts[:20]), texts[:20])
        before = [index.get(id) for id in ids_of(texts[:20])]
        raw = Raw(address)
        raw.client.set(raw.keyspace.counter, 3)
        answers = index.add_batch(ids_of(texts[20:], 20), texts[20:])
        assert [index.get(id) for id in ids_of(texts[:20])] == before
        for answer in answers:
            if answer.status != "rejected":
                assert index.get(answer.id).status == answer.status
        raw.close()
        assert index.verify() == []


def test_the_error_of_a_server_is_the_error_of_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault does not end the writer: what comes later is served."""
    monkeypatch.setattr(shared_generation, "LEASE_SECONDS", 20.0)
    address = fresh_address()
    with Index.open(address, **SMALL) as index:
        generation = index._opened.generation
        original = generation._buckets.append

        def broken(*_: Any, **__: Any) -> Any:
            raise OutputError("no room")

        generation._buckets.append = broken
        with pytest.raises(NeardupError, match="no room"):
            index.add("a", TEXT)
        generation._buckets.append = original
        begun = time.monotonic()
        assert index.add("a", TEXT).status == "new"
        assert time.monotonic() - begun < 10, "nobody waits for the number that was given up"
