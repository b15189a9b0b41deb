"""The servers of an index: commands go to the one that has their key, and are repeated if it fails.

A `Call` must be repeatable: when a connection breaks, it is unknown whether it was carried
out, and it is sent again. All scripts of `scripts/` are. Commands of one `run` are sent to all
servers before the first reply is read.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

from neardup.errors import NeardupError, OutputError, ServersUnavailable, UsageError
from neardup.index.redis_store.address import PASSWORD, RedisAddress, parse_servers
from neardup.index.redis_store.placing import ring_key
from neardup.index.redis_store.scripts import Script

RETRY_SECONDS: Final = 30.0
"""How long a command is repeated: a failover takes some seconds."""
REPLY_SECONDS: Final = 10.0
CONNECT_SECONDS: Final = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.5
Server = tuple[str, int]
T = TypeVar("T")


class Call(NamedTuple):
    """A command for the server that has a key."""

    key: bytes
    command: tuple[Any, ...]
    script: Script | None = None
    """The script that the command runs, for a server that does not know it yet."""
    server: Server | None = None
    """The server that is meant; by default the one that has the key."""
    by_source: bool = False
    """Whether the source of the script is sent: the server does not know its digest."""

    @classmethod
    def of_script(cls, script: Script, keys: Sequence[bytes], arguments: Sequence[Any]) -> Call:
        """Run a script; all of its keys are of the same partition."""
        command = (b"EVALSHA", script.digest, len(keys), *keys, *arguments)
        return cls(keys[0], command, script)

    @property
    def with_source(self) -> tuple[Any, ...]:
        """The command with the source of its script instead of the digest."""
        if self.script is None:
            return self.command
        return (b"EVAL", self.script.source, *self.command[2:])

    @property
    def to_send(self) -> tuple[Any, ...]:
        """The command as it is sent."""
        return self.with_source if self.by_source else self.command


class Servers:
    """Connections to one server, or to the masters of a cluster. Any thread may use it."""

    passing: ClassVar[tuple[str, ...]] = ()
    """Begins of errors after which a command is repeated: the answer changes in a moment."""

    def __init__(self, address: RedisAddress, replicas: int = 0) -> None:
        self.address, self.replicas = address, replicas
        self._redis, self._pack = _import_redis()
        self._clients: dict[Server, Any] = {}
        """Clients of redis-py, half of which has no types."""
        self._idle: dict[Server, list[Any]] = {}
        """Connections that wait for the next commands."""
        self._idle_guard, self._guard = threading.Lock(), threading.Lock()
        self._slots: list[Server] | None = None
        """The master of each slot of a cluster; None for a single server."""
        self._known: list[Server] = list(address.servers)
        self._find_out()

    @property
    def several(self) -> bool:
        """Whether partitions are on several servers, or may be one day."""
        return self._slots is not None

    @property
    def masters(self) -> list[Server]:
        """All servers that have keys of the index."""
        return sorted(set(self._slots)) if self._slots is not None else self._known[:1]

    def run(self, calls: Sequence[Call], *, durable: bool = False) -> list[Any]:
        """Carry out commands; return their replies, in order.

        Args:
            calls: The commands; those for one server are carried out in this order.
            durable: Wait until as many replicas have what was written as the index asks for.
        """
        replies: list[Any] = [None] * len(calls)
        waiting = dict(enumerate(calls))
        begun, pause = time.monotonic(), FIRST_PAUSE
        while waiting:
            failure = self._attempt(waiting, replies, self.replicas if durable else 0)
            if failure is None:
                continue
            if time.monotonic() - begun > RETRY_SECONDS:
                raise self._unavailable(failure)
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  # no secret
            pause = min(2 * pause, LONGEST_PAUSE)
            self.refresh()
        return replies

    def ping(self) -> None:
        """Raise ServersUnavailable if a server does not answer at this moment."""
        self.ask_all(lambda client: client.ping())

    def memory_used(self) -> dict[Server, int]:
        """Return the bytes of memory that each master uses, for whatever it has."""
        return self.ask_all(lambda client: int(client.info("memory")["used_memory"]))

    def ask_all(self, question: Callable[[Any], T], *, patient: bool = False) -> dict[Server, T]:
        """Return what the client of redis-py for each server answers that has keys of the index.

        Args:
            question: What is asked of each client.
            patient: Ask again while servers don't answer: a failover takes some seconds.
        """
        ends = time.monotonic() + (RETRY_SECONDS if patient else 0.0)
        while True:
            asked = self.masters
            try:
                return {server: self.ask(server, question) for server in asked}
            except ServersUnavailable:
                self.refresh()
                if self.masters == asked:
                    if time.monotonic() >= ends:
                        raise
                    time.sleep(LONGEST_PAUSE)

    def ask(self, server: Server, question: Callable[[Any], T]) -> T:
        """Return what a client of redis-py for one server answers; once, nothing is repeated.

        Args:
            server: The server.
            question: What is asked of the client.
        """
        try:
            return question(self._client(server))
        except self._lost() as error:
            self._disconnect_idle(server)
            raise self._unavailable(self._translated(error)) from None
        except self._redis.exceptions.ResponseError as error:
            raise self._refused(server, error) from None

    def close(self) -> None:
        """Close all connections."""
        self._idle.clear()
        for client in self._clients.values():
            client.close()

    # One attempt

    def _attempt(
        self, waiting: dict[int, Call], replies: list[Any], replicas: int
    ) -> Exception | None:
        """Send all commands that wait, and take those that were answered out of `waiting`.

        Returns the reason why some were not, if the servers have to be given time.
        """
        by_server: dict[Server, list[int]] = {}
        for place, call in waiting.items():
            by_server.setdefault(call.server or self._server_of(call.key), []).append(place)
        failure: Exception | None = None
        unread: dict[Server, tuple[Any, list[int]]] = {}
        try:
            for server, places in by_server.items():
                try:
                    connection = self._take_connection(server)
                    unread[server] = (connection, places)
                    packed = [self._pack(self._form(waiting[place]).to_send) for place in places]
                    if replicas:
                        packed.append(self._pack(_wait(replicas)))
                    connection.send_packed_command([b"".join(packed)], check_health=False)
                except self._lost() as error:
                    failure = self._translated(error)
                    if unread.pop(server, None):
                        connection.disconnect()
                        self._put_back(server, [connection])
                    self._disconnect_idle(server)
            for server, (connection, places) in list(unread.items()):
                found = self._read(server, connection, places, waiting, replies, replicas)
                failure = found or failure
                del unread[server]
                self._put_back(server, [connection])
        finally:
            # The replies that are left must not be read as those to other commands.
            for server, (connection, _) in unread.items():
                connection.disconnect()
                self._put_back(server, [connection])
        return failure

    def _take_connection(self, server: Server) -> Any:
        """Return a connection that no other thread uses."""
        with self._idle_guard:
            if waiting := self._idle.get(server):
                return waiting.pop()
        return self._open_connection(server)

    def _open_connection(self, server: Server) -> Any:
        return self._client(server).connection_pool.get_connection()

    def _put_back(self, server: Server, connections: Sequence[Any]) -> None:
        with self._idle_guard:
            self._idle.setdefault(server, []).extend(connections)

    def _disconnect(self, server: Server, connection: Any) -> None:
        """Close a connection that broke, and the idle ones, which as a rule are broken too.

        They connect again when something is sent.
        """
        connection.disconnect()
        self._disconnect_idle(server)

    def _disconnect_idle(self, server: Server) -> None:
        """Close the connections to a server that no thread uses.

        Others find out for themselves. (The client is not dropped: it would close all of them.)
        """
        with self._idle_guard:
            idle = self._idle.pop(server, [])
        for connection in idle:
            connection.disconnect()
        self._put_back(server, idle)
        self._client(server).connection_pool.disconnect(inuse_connections=False)
        if self._slots is not None:  # the others are asked first who has taken over from it
            self._known = sorted(self._known, key=lambda each: each == server)

    def _read(
        self,
        server: Server,
        connection: Any,
        places: list[int],
        waiting: dict[int, Call],
        replies: list[Any],
        replicas: int,
    ) -> Exception | None:
        """Read the replies of one server; return why some of its commands have to be repeated.

        Commands that have to be durable are, when the reply to WAIT says so, not before.
        """
        errors, failure = self._redis.exceptions, None
        raised: Exception | None = None
        in_order = True
        answered: list[int] = []
        for place in places:
            try:
                replies[place] = connection.read_response(disconnect_on_error=False)
                answered += [place] * in_order
            except errors.AskError as error:
                try:
                    asked = (error.host, error.port)
                    replies[place] = self._ask(asked, waiting[place], replicas)
                    del waiting[place]
                except (errors.RedisError, OSError) as asked_error:
                    failure = asked_error
            except errors.NoScriptError:
                waiting[place] = waiting[place]._replace(by_source=True)
            except (
                errors.MovedError,
                errors.TryAgainError,
                errors.ClusterDownError,
                errors.MasterDownError,
                errors.ReadOnlyError,
                errors.BusyLoadingError,
            ) as error:
                failure = error
            except self._lost() as error:
                self._disconnect(server, connection)
                return self._translated(error)
            except errors.ResponseError as error:
                if str(error).startswith(self.passing):
                    failure, in_order = error, False  # later ones are repeated after it
                else:
                    raised = raised or self._refused(server, error)
        try:
            reached = int(connection.read_response()) if replicas else 0
        except self._lost() as error:
            self._disconnect(server, connection)
            return self._translated(error)
        if raised is not None:
            raise raised
        if reached >= replicas:
            for place in answered:
                del waiting[place]
        elif failure is None:
            raise _not_replicated(server, reached, replicas)
        return failure

    def _ask(self, server: Server, call: Call, replicas: int) -> Any:
        """Carry out a command on the server that a slot is moving to."""
        with self._client(server).pipeline(transaction=False) as pipeline:
            pipeline.execute_command("ASKING")
            pipeline.execute_command(*call.with_source)
            if not replicas:
                return pipeline.execute()[-1]
            pipeline.execute_command(*_wait(replicas))
            _, reply, reached = pipeline.execute()
        if int(reached) < replicas:
            raise _not_replicated(server, int(reached), replicas)
        return reply

    # Topology

    @property
    def is_new(self) -> bool:
        """Whether no index was ever made here, so that there is nothing to ask."""
        return False

    def prepare(self, partitions: int) -> None:
        """Get ready for a new index of so many partitions: nothing has to be done."""

    def _form(self, call: Call) -> Call:
        """Return a call in the form that these servers take."""
        return call

    def _server_of(self, key: bytes) -> Server:
        if self._slots is None:
            return self._known[0]
        from redis.crc import key_slot

        slot: int = key_slot(key)
        return self._slots[slot]

    def _find_out(self) -> None:
        """Ask the servers of the address whether they are a cluster, and which has which slot."""
        failure: Exception | None = None
        for server in self._known:
            try:
                client = self._client(server)
                if not int(client.info("cluster").get("cluster_enabled", 0)):
                    self._require_single(client)
                    self._known = [server, *(each for each in self._known if each != server)]
                    return
                self._take_slots(client.execute_command("CLUSTER SLOTS"), server)
                return
            except self._lost() as error:
                failure = failure or self._translated(error)
            except self._redis.exceptions.ResponseError as error:
                raise self._refused(server, error) from None
        raise self._unavailable(failure)

    def _require_single(self, client: Any) -> None:
        if len(self.address.servers) > 1:
            raise UsageError(
                f"{self.address} names {len(self.address.servers)} servers that are no cluster: "
                "give one of them, or the addresses of a cluster; ?ring spreads an index over them"
            )
        servers = client.hget(ring_key(self.address.name), "servers")
        if servers is not None:
            ring = replace(self.address, ring=True, servers=parse_servers(servers.decode()))
            raise UsageError(f"{self.address} has a part of an index on a ring: give {ring}")

    def _take_slots(self, ranges: Iterable[Any], asked: Server) -> None:
        slots: list[Server | None] = [None] * 16_384
        for first, last, master, *_ in ranges:
            host = master[0].decode() or asked[0]
            slots[first : last + 1] = [(host, int(master[1]))] * (last + 1 - first)
        if None in slots:
            raise ServersUnavailable(
                f"slot {slots.index(None)} of the cluster {self.address} has no master: bring its "
                "server back, or cover the slot (redis-cli --cluster fix)"
            )
        found = [server for server in slots if server is not None]
        self._slots = found
        self._known = [*dict.fromkeys([asked, *found, *self._known])]

    def refresh(self) -> None:
        """Look where the slots are now; if no server answers, go on with what is known."""
        if self._slots is None:
            return
        with self._guard, suppress(NeardupError):
            self._find_out()

    def _client(self, server: Server) -> Any:
        client = self._clients.get(server)
        if client is None:
            client = self._clients.setdefault(server, self._connect(server))
        return client

    def _connect(self, server: Server) -> Any:
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        address = self.address
        how: dict[str, Any] = {"ssl_ca_certs": address.ca_file} if address.tls else {}
        return self._redis.Redis(
            host=server[0],
            port=server[1],
            db=address.database,
            username=address.user,
            password=address.password,
            ssl=address.tls,
            socket_timeout=REPLY_SECONDS,
            socket_connect_timeout=CONNECT_SECONDS,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            **how,
        )

    # Errors

    def _lost(self) -> tuple[type[Exception], ...]:
        errors = self._redis.exceptions
        return (errors.ConnectionError, errors.TimeoutError, OSError)

    def _translated(self, error: Exception) -> Exception:
        """Raise what repeating can't cure; return other errors."""
        if isinstance(error, self._redis.exceptions.AuthenticationError):
            raise self._refused(None, error) from None
        return error

    def _refused(self, server: Server | None, error: Exception) -> NeardupError:
        errors, text = self._redis.exceptions, str(error)
        where = str(self.address) if server is None else f"{server[0]}:{server[1]}"
        if isinstance(error, (errors.AuthenticationError, errors.NoPermissionError)) or (
            text.startswith(("WRONGPASS", "NOAUTH", "NOPERM"))
        ):
            return UsageError(
                f"{where} refuses the user or the password ({text[:200]}): give them in "
                f"{PASSWORD}, or allow the user what docs/cluster.md lists"
            )
        if isinstance(error, errors.OutOfMemoryError) or "OOM" in text:
            return OutputError(
                f"{where} has no memory left (maxmemory): nothing was written; give it more, or "
                "add servers"
            )
        if text.startswith(("SELECT is not allowed", "DB index is out of range")):
            return UsageError(
                f"{self.address}: there is no database {self.address.database} ({text[:200]}): "
                "leave it out, and give the index another name (?name=NAME)"
            )
        if "MISCONF" in text:
            return OutputError(f"{where} can't save its data ({text}): mend its disk")
        return ServersUnavailable(f"{where} answered {text[:200]}")

    def _unavailable(self, failure: Exception | None) -> ServersUnavailable:
        reason = "no server is named" if failure is None else str(failure)
        return ServersUnavailable(
            f"{self.address} can't be reached ({reason}): start the servers, or give other ones"
        )


class NotReplicated(ServersUnavailable):
    """What was written is on fewer replicas than the index asks for."""


def _wait(replicas: int) -> tuple[Any, ...]:
    return (b"WAIT", replicas, int(REPLY_SECONDS * 500))


def _not_replicated(server: Server, reached: int, replicas: int) -> NotReplicated:
    return NotReplicated(
        f"{reached} of {replicas} replicas of {server[0]}:{server[1]} have what was written: it is "
        "stored, and may be lost if the server fails now; send it again, or open the index with "
        "fewer replicas"
    )


def _import_redis() -> tuple[Any, Callable[[tuple[Any, ...]], bytes]]:
    """Return redis-py, and the function that packs a command.

    The serializer of redis-py looks at each argument first, in Python.
    """
    try:
        import hiredis
        import redis
    except ImportError:
        raise UsageError(
            "an index on Redis needs redis-py and hiredis: pip install 'neardup[redis]'"
        ) from None
    return redis, hiredis.pack_command
