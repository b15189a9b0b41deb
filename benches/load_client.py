"""A client that loads a service: raw sockets, kept alive, each with one request at a time.

It takes less of the machine than a library would, which matters where both share the cores.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

HEAD = (
    b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)


@dataclass
class Load:
    """What came of some requests."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)

    @property
    def failed(self) -> int:
        return sum(count for status, count in self.statuses.items() if status != 200)


class Client(asyncio.Protocol):
    """One connection, which sends the next body when the answer to the last one is there."""

    def __init__(self, address: str, path: str, bodies: Iterator[bytes], load: Load) -> None:
        self.names = path.encode(), address.encode()
        self.bodies, self.load = bodies, load
        self.done = asyncio.get_running_loop().create_future()
        self.buffer = bytearray()
        self.end = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.send()

    def send(self) -> None:
        body = next(self.bodies, None)
        if body is None:
            self.transport.close()
            return
        self.began = time.perf_counter()
        self.transport.write(HEAD % (*self.names, len(body)) + body)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if not self.end:
            self.end = self.answer_size()
        if self.end and len(self.buffer) >= self.end:
            self.load.latencies.append(time.perf_counter() - self.began)
            self.load.statuses[int(self.buffer[9:12])] += 1
            del self.buffer[: self.end]
            self.end = 0
            self.send()

    def answer_size(self) -> int:
        """Of the head and the body together; 0 while the head is not complete."""
        head = self.buffer.find(b"\r\n\r\n")
        if head < 0:
            return 0
        fields = self.buffer[:head].lower()
        return head + 4 + int(fields.split(b"content-length:")[1].split(b"\r\n")[0])

    def connection_lost(self, error: Exception | None) -> None:
        if next(self.bodies, None) is not None:
            error = error or ConnectionError("the service has closed a connection")
        if error:
            self.done.set_exception(error)
        else:
            self.done.set_result(None)


def until(end: float, bodies: Iterator[bytes]) -> Iterator[bytes]:
    """Bodies until it is so late."""
    for body in bodies:
        if time.perf_counter() >= end:
            return
        yield body


async def drive(
    port: int, path: str, bodies: Iterator[bytes], clients: int, seconds: float
) -> Load:
    """Keep so many clients busy for so long."""
    load, start = Load(), time.perf_counter()
    shared = until(start + seconds, bodies)
    loop = asyncio.get_running_loop()
    address = f"127.0.0.1:{port}"
    opened = [
        await loop.create_connection(lambda: Client(address, path, shared, load), "127.0.0.1", port)
        for _ in range(clients)
    ]
    await asyncio.gather(*(client.done for _, client in opened))
    load.seconds = time.perf_counter() - start
    return load
