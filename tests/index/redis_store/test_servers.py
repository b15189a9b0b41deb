"""Commands reach the servers that have their keys, once or more; a reply is that of its command."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support import batch_engine
from support.redis_index import fresh_address, shared_server
from support.redis_servers import RedisServer, redis_server

from neardup import Index
from neardup.errors import ServersUnavailable
from neardup.index.redis_store import enrolment, enrolment_batch
from neardup.index.redis_store.address import RedisAddress
from neardup.index.redis_store.servers import Call, Servers


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[RedisServer]:
    """A replica of the shared server."""
    with redis_server(tmp_path) as server:
        server.command("REPLICAOF", "127.0.0.1", shared_server().port)
        client = shared_server().client()
        while client.execute_command("WAIT", 1, 100) < 1:
            client.set("anything", 1)
        client.close()
        yield server


def get(key: bytes) -> Call:
    return Call(key, (b"GET", key))


def test_a_reply_to_wait_that_is_lost_is_no_yes(
    replica: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command was acknowledged though nobody knew how many replicas had it."""
    import redis

    servers = Servers(RedisAddress.parse(shared_server().url), replicas=1)
    servers.run([Call(b"lost", (b"SET", b"lost", 0))], durable=True)
    read, replies = redis.Connection.read_response, []

    def lose_second(self: Any, *given: Any, **how: Any) -> Any:
        replies.append(read(self, *given, **how))
        if len(replies) == 2:
            raise redis.ConnectionError("broken")
        return replies[-1]

    monkeypatch.setattr(redis.Connection, "read_response", lose_second)
    assert servers.run([Call(b"lost", (b"INCR", b"lost"))], durable=True) == [2]
    assert replies[:2] == [1, 1] and replies[-2:] == [2, 1]
    servers.close()


def test_too_few_replicas_are_an_error(tmp_path: Path) -> None:
    with redis_server(tmp_path) as alone:
        servers = Servers(RedisAddress.parse(alone.url), replicas=1)
        with pytest.raises(ServersUnavailable, match="0 of 1 replicas"):
            servers.run([Call(b"a", (b"SET", b"a", 1))], durable=True)
        assert servers.run([get(b"a")]) == [b"1"]
        servers.close()


def test_replies_that_were_not_read_are_not_those_to_other_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of one server left the reply of another one for whoever asked next."""
    with redis_server(tmp_path) as second:
        servers = Servers(RedisAddress.parse(shared_server().url))
        first = servers.masters[0]
        other = ("127.0.0.1", second.port)
        monkeypatch.setattr(
            servers, "_server_of", lambda key: other if key.startswith(b"other") else first
        )
        servers.run([Call(b"text", (b"SET", b"text", b"no number"))])
        servers.run([Call(b"other", (b"MSET", b"other", b"stale", b"other2", b"right"))])
        second.pause()
        with pytest.raises(ServersUnavailable, match="not an integer"):
            servers.run([Call(b"text", (b"INCR", b"text")), get(b"other")])
        threading.Timer(0.3, second.resume).start()
        assert servers.run([get(b"other2")]) == [b"right"]
        servers.close()


def test_a_script_that_the_server_forgot(monkeypatch: pytest.MonkeyPatch) -> None:
    from neardup.index.redis_store.scripts import Script

    source = b"return redis.call('INCRBY', KEYS[1], ARGV[1])"
    script = Script("count", source, b"0" * 40)
    servers = Servers(RedisAddress.parse(shared_server().url))
    servers.run([Call(b"counted", (b"DEL", b"counted"))])
    calls = [Call.of_script(script, [b"counted"], [at]) for at in (1, 10)]
    assert sorted(servers.run(calls)) in ([1, 11], [10, 11])
    servers.close()


def test_a_server_that_comes_back_is_found_again(tmp_path: Path) -> None:
    with redis_server(tmp_path, appendfsync="always") as server:
        servers = Servers(RedisAddress.parse(server.url))
        servers.run([Call(b"a", (b"SET", b"a", b"1"))])
        server.kill()
        threading.Timer(0.3, server.start).start()
        assert servers.run([get(b"a")]) == [b"1"]
        servers.close()


def test_a_connection_that_breaks_is_not_that_of_another_thread() -> None:
    """Its replies could not be read any more, which was an error of Python."""
    servers = Servers(RedisAddress.parse(shared_server().url))
    server = servers.masters[0]
    used = servers._take_connection(server)
    used.send_command("PING")
    servers._disconnect_idle(server)
    assert used.read_response() == b"PONG"
    servers.close()


def test_another_thread_goes_on_when_a_connection_breaks() -> None:
    servers = Servers(RedisAddress.parse(shared_server().url))
    done = threading.Event()
    wrong: list[Any] = []

    def ask(name: bytes) -> None:
        servers.run([Call(name, (b"SET", name, name))])
        got = [servers.run([get(name)])[0] for _ in range(200)]
        wrong.extend(each for each in got if each != name)

    threads = [threading.Thread(target=ask, args=(f"t{at}".encode(),)) for at in range(4)]
    for thread in threads:
        thread.start()

    def cut() -> None:
        client = shared_server().client()
        while not done.wait(0.01):
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        client.close()

    cutting = threading.Thread(target=cut)
    cutting.start()
    for thread in threads:
        thread.join()
    done.set()
    cutting.join()
    assert not wrong
    servers.close()


def test_long_documents_are_sent_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server refuses what is too long, and all of it would have to arrive in some seconds."""
    for module in (enrolment, enrolment_batch):
        monkeypatch.setattr(module, "SENT_BYTES", 2_000)
    assert enrolment_batch.divide([62, 63, 64, 65, 66], [900, 900, 900, 900, 300]) == [
        [0, 1],
        [2, 3],
        [4],
    ]
    texts = [" ".join(f"w{at}x{word}" for word in range(50 + 40 * at)) for at in range(6)]
    sent: list[int] = []
    run = Servers.run

    def running(self: Servers, calls: Sequence[Call], *, durable: bool = False) -> list[Any]:
        named = [call for call in calls if call.script and call.script.name == "begin"]
        sent.extend(len(call.command) for call in named)
        assert len(named) <= 1
        return run(self, calls, durable=durable)

    monkeypatch.setattr(Servers, "run", running)
    with Index.open(fresh_address(), **batch_engine.SMALL, keep_texts=True) as index:
        answers = index.add_batch([str(at) for at in range(6)], texts)
        assert [one.status for one in answers] == ["new"] * 6
        assert [index.text(str(at)) for at in range(6)] == texts
        assert len(sent) > 3
        assert index.verify() == []
