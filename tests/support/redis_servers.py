"""Real Redis servers on 127.0.0.1: one, or a cluster of masters and replicas, to be broken.

    with redis_server(folder) as server: ...       # one, with an append-only file
    with redis_cluster(folder) as cluster: ...     # three masters and three replicas

Everything is said to servers through redis-cli, not through the client library that the tests
use: it retries nothing and caches nothing. A server has a folder of its own below the one that is
passed, with its settings, its data and its log. Ports are reserved by locks on files, so that
tests in several processes never take the same one, and a server that is started again has its
port. Servers end with the test; if this process is killed, a guard ends them by their ids.

Redis 7 or later, or Valkey: `redis-server` or `valkey-server` on the PATH, or the program that
NEARDUP_REDIS_SERVER names, with its redis-cli or valkey-cli beside it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any

HOST = "127.0.0.1"
SLOTS = 16_384
PATIENCE = 60
"""Seconds until a server or a cluster that is not as it should be fails a test."""
PORTS = range(20_000, 30_000)
"""Below the ports that the system hands out by itself."""
MISSING = (
    "there is no redis-server on the PATH: the tests of the index on Redis need Redis 7 or later "
    "(make setup installs it on Debian, if run as root; else: apt-get install redis-server)"
)


class RedisError(AssertionError):
    """A server answered with an error, or not at all."""


# -- programs -----------------------------------------------------------------------------------


@cache
def find_program(kind: str) -> str:
    """Return the path of the `server` or the `cli`; fail with what to install if there is none."""
    named = os.environ.get("NEARDUP_REDIS_SERVER")
    found = (
        shutil.which(named)
        if named
        else shutil.which("redis-server") or shutil.which("valkey-server")
    )
    if found and kind == "cli":
        found = shutil.which(str(Path(found).with_name(Path(found).name.replace("server", "cli"))))
    if not found:
        raise RedisError(MISSING)
    return found


@cache
def supports_tls() -> bool:
    """Return whether this Redis was built with TLS."""
    shown = subprocess.run([find_program("cli"), "--help"], capture_output=True, text=True)
    return "--tls" in shown.stdout + shown.stderr


# -- ports --------------------------------------------------------------------------------------


class Port:
    """A port that nobody else has: its file is locked for as long as it is held."""

    def __init__(self, number: int, lock: IO[str]) -> None:
        self.number, self._lock = number, lock

    def free(self) -> None:
        self._lock.close()


def reserve_port() -> Port:
    """Reserve a port that is free on 127.0.0.1, in this process and in others that ask here."""
    folder = Path(tempfile.gettempdir()) / f"neardup-redis-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    chance = random.Random()  # other processes begin elsewhere
    for number in chance.sample(PORTS, len(PORTS)):
        lock = (folder / str(number)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((HOST, number))
        except OSError:
            lock.close()
            continue
        return Port(number, lock)
    raise RedisError(f"no port from {PORTS.start} to {PORTS.stop - 1} is free")


# -- certificates -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Certificate:
    """A certificate for 127.0.0.1 that is its own authority, and its key."""

    certificate: Path
    key: Path


def make_certificate(folder: Path) -> Certificate:
    """Make a certificate for 127.0.0.1 with openssl, valid for two days."""
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"]
    command += ["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    command += ["-keyout", str(made.key), "-out", str(made.certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return made


# -- processes ----------------------------------------------------------------------------------

GUARD = """
import os, signal, sys
pids = {}
signal.signal(signal.SIGINT, signal.SIG_IGN)
for line in sys.stdin:
    word, pid, folder = line.rstrip("\\n").split(" ", 2)
    pids.update({int(pid): folder}) if word == "started" else pids.pop(int(pid), None)
for pid, folder in pids.items():
    try:
        if os.path.samefile(f"/proc/{pid}/cwd", folder):
            os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
"""
"""A process that reads which servers run, and ends them when this one is gone: it reads no more."""

_guard_lock = threading.Lock()
_guards: dict[int, subprocess.Popen[str]] = {}


def tell_guard(word: str, pid: int, folder: Path) -> None:
    with _guard_lock:
        if os.getpid() not in _guards:
            _guards[os.getpid()] = subprocess.Popen(
                [sys.executable, "-c", GUARD],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
        pipe = _guards[os.getpid()].stdin
        assert pipe is not None
        pipe.write(f"{word} {pid} {folder}\n")
        pipe.flush()


def wait_until(condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Wait until something holds; fail with what was waited for."""
    ends = time.monotonic() + patience
    while True:
        with contextlib.suppress(RedisError):
            if condition():
                return
        if time.monotonic() > ends:
            raise RedisError(f"not within {patience:g} seconds: {what}")
        time.sleep(0.02)


# -- one server ---------------------------------------------------------------------------------


@dataclass
class RedisServer:
    """A server, its folder and its process; `settings` are lines of redis.conf."""

    folder: Path
    port: int
    settings: Mapping[str, str | int]
    password: str | None = None
    users: Sequence[str] = ()
    certificate: Certificate | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def url(self) -> str:
        """The address as a client takes it, with the password if there is one."""
        scheme = "rediss" if self.certificate else "redis"
        login = f":{self.password}@" if self.password else ""
        return f"{scheme}://{login}{self.address}"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None, f"the server at {self.address} was never started"
        return self.process.pid

    def start(self, patience: float = PATIENCE, wait: bool = True) -> None:
        """Start the process, on the data that is in the folder, and wait until it answers."""
        assert not self.running, f"the server at {self.address} runs already"
        self._write_settings()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [find_program("server"), "redis.conf"],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the tests, which then stop it
            )
        tell_guard("started", self.pid, self.folder)
        if wait:
            self.wait_until_ready(patience)

    def wait_until_ready(self, patience: float = PATIENCE) -> None:
        """Wait until the server answers and has loaded its data."""

        def answers() -> bool:
            if not self.running:
                raise RuntimeError(f"redis-server ended:\n{self.log.read_text()}")
            return self.command("PING") == "PONG"

        wait_until(answers, f"an answer of {self.address}, whose log is {self.log}", patience)

    def stop(self) -> None:
        """End the process as a service manager does: it writes what it has, then ends."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the process at once, as a crash does."""
        self._end(signal.SIGKILL)

    def restart(self, wait: bool = True) -> None:
        """Stop the server if it runs, and start it on the same port and data."""
        self.stop()
        self.start(wait=wait)

    def pause(self) -> None:
        """Halt the process: connections stay open and nothing answers, as in a network's fault."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a halted process go on."""
        os.kill(self.pid, signal.SIGCONT)

    def flushall(self) -> None:
        """Delete all keys."""
        self.command("FLUSHALL")

    def set_config(self, name: str, value: str | int) -> None:
        """Change a setting of the running server, until it is started again."""
        self.command("CONFIG", "SET", name, str(value))

    def info(self, section: str = "everything") -> dict[str, str]:
        """Return what INFO says."""
        lines = self.command("INFO", section).splitlines()
        return dict(line.strip().split(":", 1) for line in lines if ":" in line)

    def command(self, *words: str | int) -> str:
        """Send a command by redis-cli; return the answer as it prints it to a pipe."""
        return self.cli("-e", *words)

    def cli(self, *words: str | int, patience: float = PATIENCE) -> str:
        """Run redis-cli for this server; raise `RedisError` if it fails."""
        command = [find_program("cli"), "-h", HOST, "-p", str(self.port), *self.login]
        try:
            done = subprocess.run(
                [*command, *map(str, words)],
                capture_output=True,
                text=True,
                timeout=patience,
                stdin=subprocess.DEVNULL,
                env=os.environ | ({"REDISCLI_AUTH": self.password} if self.password else {}),
            )
        except subprocess.TimeoutExpired:
            raise RedisError(f"{self.address} does not answer {words}") from None
        if done.returncode:
            raise RedisError(f"{self.address}: {words}: {done.stdout}{done.stderr}".strip())
        return done.stdout.strip("\n")

    @property
    def login(self) -> list[str]:
        """The options of redis-cli that a connection needs."""
        if self.certificate is None:
            return []
        return ["--tls", "--cacert", str(self.certificate.certificate)]

    def client(self, **options: Any) -> Any:
        """Return a client of redis-py for this server alone."""
        import redis

        if self.certificate:
            options = {"ssl_ca_certs": str(self.certificate.certificate)} | options
        return redis.Redis.from_url(self.url, **options)

    def _write_settings(self) -> None:
        port, secure = ("tls-port", True) if self.certificate else ("port", False)
        lines: dict[str, str | int] = {"bind": HOST, "dir": ".", "daemonize": "no"}
        lines |= {"port": 0} if secure else {}
        lines |= {port: self.port, "save": '""', "repl-diskless-sync-delay": 0}
        if self.certificate:
            lines |= {
                "tls-cert-file": str(self.certificate.certificate),
                "tls-key-file": str(self.certificate.key),
                "tls-ca-cert-file": str(self.certificate.certificate),
                "tls-auth-clients": "no",
                "tls-replication": "yes",
            }
        if self.password:
            lines |= {"requirepass": self.password, "masterauth": self.password}
        lines |= self.settings
        text = [f"{name} {value}" for name, value in lines.items()]
        text += [f"user {user}" for user in self.users]
        (self.folder / "redis.conf").write_text("\n".join([*text, ""]))

    def _end(self, number: int) -> None:
        if self.process is None or not self.running:
            return
        os.kill(self.pid, number)
        os.kill(self.pid, signal.SIGCONT)  # one that is halted does not see SIGTERM
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        tell_guard("ended", self.pid, self.folder)


@contextmanager
def redis_server(
    folder: Path,
    *,
    appendonly: bool = True,
    appendfsync: str = "everysec",
    maxmemory_policy: str = "noeviction",
    password: str | None = None,
    users: Sequence[str] = (),
    tls: bool = False,
    settings: Mapping[str, str | int] | None = None,
) -> Iterator[RedisServer]:
    """Start a server in a new folder below one, and stop it at the end.

    Args:
        folder: Where its own folder is made.
        appendonly: Whether it writes an append-only file.
        appendfsync: When that is written through: `always`, `everysec` or `no`.
        maxmemory_policy: What goes when the memory is full; `settings` has `maxmemory`.
        password: The password of the default user.
        users: Access rules as ACL SETUSER takes them, such as `reader on >secret ~* +@read`.
        tls: Whether it speaks TLS alone, with a certificate made for the occasion.
        settings: More lines of redis.conf.
    """
    lines = {
        "appendonly": "yes" if appendonly else "no",
        "appendfsync": appendfsync,
        "maxmemory-policy": maxmemory_policy,
    } | dict(settings or {})
    with _reserved(1) as (port,):
        own = folder / f"redis-{port}"
        own.mkdir(parents=True)
        certificate = make_certificate(own) if tls else None
        server = RedisServer(own, port, lines, password, users, certificate)
        try:
            server.start()
            yield server
        finally:
            server.kill()


@contextmanager
def _reserved(count: int) -> Iterator[list[int]]:
    find_program("cli")  # first of all, say what is missing
    with contextlib.ExitStack() as stack:
        ports = []
        for _ in range(count):
            port = reserve_port()
            stack.callback(port.free)
            ports.append(port.number)
        yield ports


# -- a cluster ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Member:
    """A line of CLUSTER NODES: what one server says of another, or of itself."""

    id: str
    port: int
    flags: frozenset[str]
    master: str
    linked: bool
    slots: frozenset[int]

    @property
    def failed(self) -> bool:
        return bool(self.flags & {"fail", "fail?", "noaddr", "handshake"})


def parse_member(line: str) -> Member:
    """Read a line of CLUSTER NODES.

    Its words are: id, host:port@bus, flags, master, ping, pong, epoch, link, and slots.
    """
    words = line.split()
    slots: set[int] = set()
    for found in words[8:]:
        if found.startswith("["):
            continue  # a slot that is being moved: the owner is still the owner
        first, _, last = found.partition("-")
        slots.update(range(int(first), int(last or first) + 1))
    port = int(words[1].partition("@")[0].rpartition(":")[2])
    master = "" if words[3] == "-" else words[3]
    flags = frozenset(words[2].split(","))
    return Member(words[0], port, flags, master, words[7] == "connected", frozenset(slots))


@dataclass
class RedisCluster:
    """The servers of a cluster. Which are masters changes; the cluster itself is asked for it."""

    servers: list[RedisServer]

    @property
    def url(self) -> str:
        """The address of the first server."""
        return self.servers[0].url

    @property
    def urls(self) -> list[str]:
        return [server.url for server in self.servers]

    @property
    def alive(self) -> list[RedisServer]:
        return [server for server in self.servers if server.running]

    def client(self, **options: Any) -> Any:
        """Return a client of redis-py for the cluster."""
        import redis

        nodes = [redis.cluster.ClusterNode(HOST, server.port) for server in self.alive]
        first = self.servers[0]
        if first.password:
            options = {"password": first.password} | options
        if first.certificate:
            options |= {"ssl": True, "ssl_ca_certs": str(first.certificate.certificate)}
        return redis.RedisCluster(startup_nodes=nodes, **options)

    def members(self, asked: RedisServer | None = None) -> list[Member]:
        """Return what a server, by default the first one alive, says of all."""
        lines = (asked or self.alive[0]).command("CLUSTER", "NODES").splitlines()
        return [parse_member(line) for line in lines if line.strip()]

    def member(self, server: RedisServer, asked: RedisServer | None = None) -> Member:
        """Return what is said of a server, by default by itself."""
        found = self.members(asked or (server if server.running else None))
        for member in found:
            if member.port == server.port:
                return member
        raise RedisError(f"the cluster does not know {server.address}")

    def masters(self) -> list[RedisServer]:
        """Return the running masters, each of which says so itself."""
        return [server for server in self.alive if "master" in self.member(server).flags]

    def replicas(self, master: RedisServer | None = None) -> list[RedisServer]:
        """Return the running replicas, of one master if it is named."""
        of = None if master is None else self.member(master).id
        return [
            server
            for server in self.alive
            if "slave" in (mine := self.member(server)).flags and of in (None, mine.master)
        ]

    def slot_of(self, key: str) -> int:
        """Return the slot of a key, by its tag if it has one."""
        return int(self.alive[0].command("CLUSTER", "KEYSLOT", key))

    def master_of(self, key: str | int) -> RedisServer:
        """Return the master that has a key, or a slot given by its number."""
        slot = key if isinstance(key, int) else self.slot_of(key)
        for server in self.alive:
            mine = self.member(server)
            if "master" in mine.flags and slot in mine.slots:
                return server
        raise RedisError(f"no running master has slot {slot}")

    def kill(self, server: RedisServer) -> None:
        """End a server at once, as a crash does."""
        server.kill()

    def kill_master(self, master: RedisServer) -> RedisServer:
        """Kill a master, wait until a replica has taken over, and return that."""
        replicas = self.replicas(master)
        master.kill()
        wait_until(lambda: self._covered() == SLOTS, f"a replica takes over from {master.address}")
        self.wait_until_agreed()
        return next(one for one in replicas if "master" in self.member(one).flags)

    def stop(self, server: RedisServer) -> None:
        """End a server as a service manager does."""
        server.stop()

    def restart(self, server: RedisServer) -> None:
        """Start a server that was stopped or killed, or stop it first; wait until it has joined."""
        server.restart()
        self._wait_until_joined(server)

    def heal(self) -> None:
        """Let halted servers go on, start those that have ended, and wait for all of them."""
        ended = [server for server in self.servers if not server.running]
        for server in self.alive:
            server.resume()
        for server in ended:
            server.start(wait=False)
        for server in self.servers:
            server.wait_until_ready()
        for server in self.servers:
            self._wait_until_joined(server)
        self.wait_until_agreed()

    def _wait_until_joined(self, server: RedisServer) -> None:
        wait_until(
            lambda: (
                self._state(server)["cluster_state"] == "ok"
                and all(
                    not self.member(server, asked).failed and self.member(server, asked).linked
                    for asked in self.alive
                    if asked is not server
                )
            ),
            f"{server.address} is part of the cluster again",
        )
        self._wait_for_link(server)

    def failover(self, replica: RedisServer, how: str = "") -> None:
        """Make a replica the master in the place of its own.

        Args:
            replica: The server that takes over.
            how: Nothing to agree with the master, so that nothing is lost; `FORCE` if it is down,
                `TAKEOVER` if most masters are.
        """
        replica.command("CLUSTER", "FAILOVER", *([how] if how else []))
        wait_until(
            lambda: "master" in self.member(replica).flags and self.member(replica).slots,
            f"{replica.address} has become a master",
        )
        self.wait_until_agreed()

    def reshard(self, source: RedisServer, target: RedisServer, slots: int) -> None:
        """Move slots with their keys from one master to another, as an operator does.

        Args:
            source: The master that gives them.
            target: The master that takes them.
            slots: How many.
        """
        origin, goal = self.member(source).id, self.member(target).id
        arguments = ["--cluster-from", origin, "--cluster-to", goal, "--cluster-slots", slots]
        source.cli("--cluster", "reshard", source.address, *arguments, "--cluster-yes")
        self.wait_until_agreed()

    @contextmanager
    def migrating(self, slot: int, target: RedisServer) -> Iterator[RedisServer]:
        """Hold a slot in the middle of its move, where clients are sent on by ASK; then end it.

        Keys that are there stay with the source until the end, new ones are made at the target.

        Args:
            slot: The slot; its owner is found.
            target: The master that takes it.
        """
        source = self.master_of(slot)
        origin, goal = self.member(source).id, self.member(target).id
        target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", origin)
        source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", goal)
        try:
            yield source
        finally:
            while keys := source.command("CLUSTER", "GETKEYSINSLOT", slot, 100).splitlines():
                login = ["AUTH", source.password] if source.password else []
                where = [HOST, target.port, "", 0, 10_000, *login]
                source.command("MIGRATE", *where, "KEYS", *keys)
            for server in [target, source, *self.masters()]:
                server.command("CLUSTER", "SETSLOT", slot, "NODE", goal)
            self.wait_until_agreed()

    def flushall(self) -> None:
        """Delete all keys, of all masters."""
        for server in self.masters():
            server.flushall()

    def wait_until_agreed(self, patience: float = PATIENCE) -> None:
        """Wait until all running servers say that all slots are served, and by whom alike."""

        def agreed() -> bool:
            views = []
            for server in self.alive:
                if self._state(server)["cluster_state"] != "ok":
                    return False
                views.append({m.id: m.slots for m in self.members(server) if m.slots})
            return all(view == views[0] for view in views)

        wait_until(agreed, "all servers of the cluster agree on its slots", patience)

    def wait_until_replicated(self) -> None:
        """Wait until each replica is linked to its master, and has all that it had."""
        for master in self.masters():
            for replica in self.replicas(master):
                self._wait_for_link(replica)
                self._wait_for_offset(
                    replica, int(master.info("replication")["master_repl_offset"])
                )

    def _wait_for_offset(self, replica: RedisServer, written: int) -> None:
        wait_until(
            lambda: int(replica.info("replication")["slave_repl_offset"]) >= written,
            f"the replica {replica.address} has what its master had",
        )

    def _wait_for_link(self, server: RedisServer) -> None:
        """Wait until a server is a master, or a replica that has its master's data."""

        def linked() -> bool:
            said = server.info("replication")
            return said["role"] == "master" or said.get("master_link_status") == "up"

        wait_until(linked, f"{server.address} is linked to its master")

    def _state(self, server: RedisServer) -> dict[str, str]:
        lines = server.command("CLUSTER", "INFO").splitlines()
        return dict(line.strip().split(":", 1) for line in lines if ":" in line)

    def _covered(self) -> int:
        """Return how many slots running masters say that they have."""
        mine = [self.member(server) for server in self.alive]
        return sum(len(member.slots) for member in mine if "master" in member.flags)


@contextmanager
def redis_cluster(
    folder: Path,
    *,
    masters: int = 3,
    replicas: int = 1,
    node_timeout: int = 1000,
    appendonly: bool = True,
    appendfsync: str = "everysec",
    maxmemory_policy: str = "noeviction",
    password: str | None = None,
    tls: bool = False,
    full_coverage: bool = True,
    settings: Mapping[str, str | int] | None = None,
) -> Iterator[RedisCluster]:
    """Start a cluster in a new folder below one, and end it at the end.

    Args:
        folder: Where each server's own folder is made.
        masters: The number of masters, at least three.
        replicas: The number of replicas of each master.
        node_timeout: After how many milliseconds a silent server counts as failed.
        appendonly: Whether servers write append-only files.
        appendfsync: When those are written through: `always`, `everysec` or `no`.
        maxmemory_policy: What goes when the memory is full; `settings` has `maxmemory`.
        password: The password of the default user, and between servers.
        tls: Whether servers speak TLS alone, also with one another.
        full_coverage: Whether all refuse keys if a slot is without a master.
        settings: More lines of redis.conf, for all servers.
    """
    count = masters * (1 + replicas)
    with _reserved(2 * count) as ports, contextlib.ExitStack() as stack:
        folder.mkdir(parents=True, exist_ok=True)
        certificate = make_certificate(folder) if tls else None
        servers = []
        for port, bus in zip(ports[:count], ports[count:], strict=True):
            lines: dict[str, str | int] = {
                "cluster-enabled": "yes",
                "cluster-port": bus,
                "cluster-node-timeout": node_timeout,
                "cluster-allow-replica-migration": "no",
                "cluster-require-full-coverage": "yes" if full_coverage else "no",
                "repl-ping-replica-period": 1,
                "appendonly": "yes" if appendonly else "no",
                "appendfsync": appendfsync,
                "maxmemory-policy": maxmemory_policy,
            }
            lines |= {"tls-cluster": "yes"} if tls else {}
            own = folder / f"redis-{port}"
            own.mkdir()
            lines |= settings or {}
            server = RedisServer(own, port, lines, password, (), certificate)
            stack.callback(server.kill)
            server.start(wait=False)
            servers.append(server)
        for server in servers:
            server.wait_until_ready()
        addresses = [server.address for server in servers]
        servers[0].cli(
            "--cluster", "create", *addresses, "--cluster-replicas", replicas, "--cluster-yes"
        )
        cluster = RedisCluster(servers)
        cluster.wait_until_agreed()
        wait_until(lambda: len(cluster.replicas()) == masters * replicas, "all replicas know it")
        cluster.wait_until_replicated()
        yield cluster
