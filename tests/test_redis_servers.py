"""The Redis servers that tests start: they keep what they should, break as told, and end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis
from support import redis_servers
from support.redis_servers import (
    HOST,
    RedisError,
    find_program,
    parse_member,
    redis_cluster,
    redis_server,
    reserve_port,
    supports_tls,
    wait_until,
)


def test_what_is_written_through_survives_a_crash(tmp_path):
    with redis_server(tmp_path, appendfsync="always") as server:
        with server.client() as client:
            client.set("a", "1")
        server.kill()
        assert not server.running
        server.restart()
        assert server.command("GET", "a") == "1"
        server.restart()
        assert server.command("GET", "a") == "1"
        server.flushall()
        assert server.command("DBSIZE") == "0"
        pid = server.pid
    assert not Path(f"/proc/{pid}").exists()
    assert "Ready to accept connections" in server.log.read_text()


def test_without_an_append_only_file_a_crash_loses_all(tmp_path):
    with redis_server(tmp_path, appendonly=False) as server:
        server.command("SET", "a", "1")
        server.kill()
        server.start()
        assert server.command("EXISTS", "a") == "0"


def test_settings_reach_the_server(tmp_path):
    settings = {"maxmemory": "3mb", "hz": 20}
    with redis_server(
        tmp_path, appendfsync="no", maxmemory_policy="allkeys-lru", settings=settings
    ) as server:
        for name, value in {
            "appendonly": "yes",
            "appendfsync": "no",
            "maxmemory-policy": "allkeys-lru",
            "maxmemory": "3145728",
            "hz": "20",
        }.items():
            assert server.command("CONFIG", "GET", name).split()[1] == value
        server.set_config("maxmemory-policy", "noeviction")
        assert server.info("memory")["maxmemory_policy"] == "noeviction"
        with server.client() as client, pytest.raises(redis.exceptions.OutOfMemoryError):
            for number in range(10_000):
                client.set(f"key {number}", "x" * 1000)


def test_password_and_access_rules(tmp_path):
    users = ["reader on >other ~* +@read"]
    with redis_server(tmp_path, password="secret", users=users) as server:
        assert server.url == f"redis://:secret@{server.address}"
        with server.client() as client:
            assert client.set("a", "1")
        anybody = redis.Redis(HOST, server.port)
        with anybody, pytest.raises(redis.exceptions.AuthenticationError):
            anybody.get("a")
        with redis.Redis(HOST, server.port, username="reader", password="other") as reader:
            assert reader.get("a") == b"1"
            with pytest.raises(redis.exceptions.NoPermissionError):
                reader.set("a", "2")


def test_tls_alone(tmp_path):
    assert supports_tls(), "this redis-server was built without TLS: install Debian's"
    with redis_server(tmp_path, tls=True) as server:
        assert server.url == f"rediss://{server.address}"
        with server.client() as client:
            assert client.ping()
        stranger = redis.Redis.from_url(server.url)
        refused = redis.exceptions.ConnectionError
        with stranger, pytest.raises(refused, match="certificate verify failed"):
            stranger.ping()
        plain = redis.Redis(HOST, server.port)
        with plain, pytest.raises(refused):
            plain.ping()


def test_a_halted_server_does_not_answer_until_it_goes_on(single_redis):
    single_redis.pause()
    with pytest.raises(RedisError, match="does not answer"):
        single_redis.cli("PING", patience=0.3)
    single_redis.resume()
    assert single_redis.command("PING") == "PONG"


def test_an_error_of_the_server_is_an_error_here(single_redis):
    single_redis.command("SET", "a", "text")
    with pytest.raises(RedisError, match="not an integer"):
        single_redis.command("INCR", "a")


def test_the_fixture_starts_a_server_again_and_empties_it(single_redis):
    assert single_redis.command("DBSIZE") == "0"
    single_redis.command("SET", "a", "1")
    single_redis.kill()


def test_the_fixture_started_it_again(single_redis):
    assert single_redis.running and single_redis.command("DBSIZE") == "0"


def test_no_port_is_taken_twice():
    with_redis = [reserve_port() for _ in range(20)]
    try:
        assert len({port.number for port in with_redis}) == 20
    finally:
        for port in with_redis:
            port.free()


HELD = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from support.redis_servers import redis_server
with redis_server(Path({folder!r})) as server:
    print(server.pid, flush=True)
    time.sleep(60)
"""


def test_servers_end_when_their_process_is_killed(tmp_path):
    code = HELD.format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert os.readlink(f"/proc/{pid}/cwd").startswith(str(tmp_path))
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    wait_until(lambda: has_ended(pid), f"process {pid} has ended")


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or a zombie that the machine's first process has not asked for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_missing_server_is_reported_with_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("NEARDUP_REDIS_SERVER", raising=False)
    find_program.cache_clear()
    try:
        wanted = pytest.raises(RedisError, match="apt-get install redis-server")
        with wanted, redis_server(tmp_path):
            pass
    finally:
        find_program.cache_clear()


def test_a_program_is_named_by_the_environment(monkeypatch, tmp_path):
    for name in ("my-valkey-server", "my-valkey-cli"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("NEARDUP_REDIS_SERVER", str(tmp_path / "my-valkey-server"))
    find_program.cache_clear()
    try:
        assert find_program("server") == str(tmp_path / "my-valkey-server")
        assert find_program("cli") == str(tmp_path / "my-valkey-cli")
    finally:
        find_program.cache_clear()


def test_a_line_of_cluster_nodes():
    line = "ab12 127.0.0.1:7000@17000,host myself,master - 0 1 2 connected 0-2 5 [7->-cd34]"
    mine = parse_member(line)
    assert (mine.id, mine.port, mine.master, mine.linked) == ("ab12", 7000, "", True)
    assert mine.flags == {"myself", "master"} and mine.slots == {0, 1, 2, 5} and not mine.failed
    other = parse_member("cd34 127.0.0.1:7001@17001 slave,fail ab12 0 1 2 disconnected")
    assert other.failed and other.master == "ab12" and not other.linked and not other.slots


# -- a cluster ----------------------------------------------------------------------------------

KEYS = {f"key {number}": str(number) for number in range(200)}


def write(client: redis.RedisCluster) -> None:
    for key, value in KEYS.items():
        client.set(key, value)
        client.wait(1, 5000, target_nodes=client.get_node_from_key(key))


def read(client: redis.RedisCluster) -> dict[str, str]:
    return {key: (client.get(key) or b"").decode() for key in KEYS}


def test_a_cluster_has_masters_and_replicas(clustered_redis):
    masters, replicas = clustered_redis.masters(), clustered_redis.replicas()
    assert len(masters) == len(replicas) == 3
    assert all(len(clustered_redis.replicas(master)) == 1 for master in masters)
    assert sum(len(clustered_redis.member(master).slots) for master in masters) == 16_384
    for key in KEYS:
        assert clustered_redis.master_of(key) in masters
        break
    assert len(clustered_redis.urls) == 6


def test_a_replica_takes_over_from_a_killed_master(clustered_redis):
    with clustered_redis.client() as client:
        write(client)
        master = clustered_redis.master_of("key 1")
        taken = clustered_redis.member(master).slots
        replica = clustered_redis.kill_master(master)
        assert clustered_redis.member(replica).slots == taken
        assert clustered_redis.master_of("key 1") is replica
        assert read(client) == KEYS
        clustered_redis.restart(master)
        assert clustered_redis.replicas(replica) == [master]
        assert len(clustered_redis.masters()) == 3


def test_a_failover_that_is_agreed_on(clustered_redis):
    with clustered_redis.client() as client:
        write(client)
        master = clustered_redis.masters()[0]
        (replica,) = clustered_redis.replicas(master)
        clustered_redis.failover(replica)
        assert replica in clustered_redis.masters() and master not in clustered_redis.masters()
        clustered_redis.wait_until_replicated()
        assert read(client) == KEYS


def test_slots_move_with_their_keys(clustered_redis):
    with clustered_redis.client() as client:
        write(client)
        source, target, _ = clustered_redis.masters()
        before = [len(clustered_redis.member(server).slots) for server in (source, target)]
        clustered_redis.reshard(source, target, 300)
        after = [len(clustered_redis.member(server).slots) for server in (source, target)]
        assert after == [before[0] - 300, before[1] + 300]
        assert read(client) == KEYS
        clustered_redis.reshard(target, source, 300)


def test_a_slot_in_the_middle_of_its_move(clustered_redis):
    slot = clustered_redis.slot_of("key 1")
    source = clustered_redis.master_of(slot)
    target = next(server for server in clustered_redis.masters() if server is not source)
    with clustered_redis.client() as client:
        client.set("key 1", "old")
        with clustered_redis.migrating(slot, target):
            with pytest.raises(RedisError, match=f"ASK {slot} {target.address}"):
                source.command("SET", "{key 1}new", "1")
            client.set("{key 1}new", "made during the move")
            assert client.get("key 1") == b"old"
        assert clustered_redis.master_of(slot) is target
        with pytest.raises(RedisError, match=f"MOVED {slot} {target.address}"):
            source.command("GET", "key 1")
        assert client.get("{key 1}new") == b"made during the move"
        assert client.get("key 1") == b"old"


def test_the_fixture_heals_and_empties_a_cluster(clustered_redis):
    with clustered_redis.client() as client:
        write(client)
    clustered_redis.kill(clustered_redis.masters()[0])
    clustered_redis.replicas()[0].pause()


def test_the_fixture_healed_it(clustered_redis):
    assert len(clustered_redis.alive) == 6 and len(clustered_redis.masters()) == 3
    assert all(server.command("DBSIZE") == "0" for server in clustered_redis.masters())


def test_a_cluster_with_a_password_and_tls(tmp_path):
    with redis_cluster(tmp_path, password="secret", tls=True) as cluster:
        with cluster.client() as client:
            client.set("a", "1")
            replica = cluster.kill_master(cluster.master_of("a"))
            assert client.get("a") == b"1"
            assert cluster.master_of("a") is replica
        pids = [server.pid for server in cluster.alive]
    assert all(has_ended(pid) for pid in pids)


def test_waiting_ends_with_what_was_waited_for():
    started = time.monotonic()
    with pytest.raises(RedisError, match=r"not within 0\.1 seconds: rain"):
        wait_until(lambda: False, "rain", 0.1)
    assert time.monotonic() - started < 5
    assert redis_servers.PATIENCE >= 10
