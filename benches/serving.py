"""Measure the service: documents added, texts checked, memory over time.

    python benches/serving.py --data DIR --work DIR
    python benches/serving.py --data DIR --work DIR --documents 20000 --seconds 10

`neardup serve` and the client (`load_client.py`) share the cores and talk over the loopback
interface. The index is that of `online.py`, a copy of which is written to. Results go to
`benches/results/serving.json` and `serving.md`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import arrivals
import numpy as np
import orjson
from load_client import Load, drive
from measure import tree
from online import Bench as Indexed
from online import built, copied, judged
from startup import command
from suite import Suite, work_folder
from table import Figure, Row

BATCH = 100
WRITERS, READERS = 4, 16
SAMPLE_SECONDS = 10
PREPARED = 20_000
"""Requests that are made before the clock starts and sent in turns."""


@dataclass(frozen=True)
class Bench(Indexed):
    seconds: float


@dataclass(frozen=True)
class Service:
    process: subprocess.Popen[bytes]
    port: int

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}") as answer:
            return json.load(answer)

    def resident(self) -> int:
        """Bytes in memory of all its processes."""
        pages = 0
        for pid in tree(self.process.pid):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def serving(bench: Bench, folder: Path) -> Iterator[Service]:
    """The service over an index; it must end well when it is told to."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [command(), "serve", "--data", folder, "--port", port, "--limit", "source_rate=0"]
    with (bench.work / "serve.log").open("wb") as log:
        process = subprocess.Popen(list(map(str, words)), stdout=log, stderr=log)
    try:
        service = Service(process, port)
        wait_until_ready(service)
        yield service
    finally:
        process.send_signal(signal.SIGTERM)
        ended = process.wait(60)
    if ended:
        raise RuntimeError(f"the service ended with {ended}: see {log.name}")


def wait_until_ready(service: Service) -> None:
    for _ in range(1200):
        try:
            service.get("/readyz")
            return
        except OSError:
            if service.process.poll() is not None:
                raise RuntimeError("the service did not start") from None
            time.sleep(0.1)
    raise RuntimeError("the service is not ready after two minutes")


def batches(first: int) -> Iterator[bytes]:
    """Requests that add documents which have never been seen, but for the planted copies."""
    for ids, texts in arrivals.batches(first, 1 << 40, BATCH):
        documents = [{"id": id, "text": text} for id, text in zip(ids, texts)]
        yield orjson.dumps({"documents": documents})


def checks(first: int) -> Iterator[bytes]:
    """Requests about documents of which half are in the index."""
    new = arrivals.texts(first, PREPARED // 2)
    old = arrivals.texts(0, PREPARED // 2)
    pairs = zip(new, old)
    return cycle([orjson.dumps({"text": text}) for pair in pairs for text in pair])


async def watched(service: Service, load: Any) -> tuple[Load, list[tuple[int, int]]]:
    """A load, and the memory of the service and of its index meanwhile."""
    running = asyncio.ensure_future(load)
    seen = []
    while not running.done():
        seen.append(await asyncio.to_thread(memory, service))
        await asyncio.wait([running], timeout=SAMPLE_SECONDS)
    return await running, seen


def memory(service: Service) -> tuple[int, int]:
    return service.resident(), service.get("/v1/stats")["index_memory_bytes"]


def documents(bench: Bench) -> Figure:
    with serving(bench, copied(bench)) as service:
        load, seen = asyncio.run(
            watched(
                service,
                drive(
                    service.port, "/v1/documents", batches(bench.documents), WRITERS, bench.seconds
                ),
            )
        )
    rate = BATCH * load.statuses[200] / load.seconds
    besides = [(resident - index) / 1e6 for resident, index in seen]
    warm = besides[len(besides) // 5 :]
    row = {
        "index": bench.documents,
        "clients": WRITERS,
        "documents a second": rate,
        **latency(load),
        "MB at first": seen[0][0] / 1e6,
        "MB at the end": seen[-1][0] / 1e6,
        "of it the index MB": seen[-1][1] / 1e6,
        "besides, least MB": min(warm),
        "besides, most MB": max(warm),
    }
    return Figure(
        f"/v1/documents, {BATCH} documents of 2 KB a request, {bench.seconds:.0f} s",
        "each tenth is a copy; the client makes them meanwhile, on the same cores; memory is seen "
        f"each {SAMPLE_SECONDS} s, that besides the index after a fifth of the time",
        [row],
        {
            "at least 4,000 documents a second": judged(bench, rate >= 4_000),
            "p99 below 250 ms": judged(bench, row["p99 ms"] < 250),
            "memory besides the index grows by less than a tenth": judged(
                bench, warm[-1] < 1.1 * warm[0]
            ),
            "no request failed": load.failed == 0,
        },
    )


def check(bench: Bench) -> Figure:
    bodies = checks(bench.documents)
    with serving(bench, bench.index) as service:
        seconds = min(bench.seconds, 60)
        load = asyncio.run(drive(service.port, "/v1/check", bodies, READERS, seconds))
    rate = len(load.latencies) / load.seconds
    row = {"index": bench.documents, "clients": READERS, "requests a second": rate, **latency(load)}
    return Figure(
        f"/v1/check, one document of 2 KB a request, {seconds:.0f} s",
        "half of them are in the index",
        [row],
        {
            "at least 1,500 requests a second": judged(bench, rate >= 1_500),
            "p99 below 30 ms": judged(bench, row["p99 ms"] < 30),
            "no request failed": load.failed == 0,
        },
    )


def latency(load: Load) -> Row:
    points = {"p50 ms": 50, "p99 ms": 99, "largest ms": 100}
    return {name: float(np.percentile(load.latencies, at)) * 1e3 for name, at in points.items()} | {
        "failed": load.failed
    }


SUITE = Suite("serving", "The service, measured", {"documents": documents, "check": check})


def main() -> None:
    parser = SUITE.parser(__doc__.splitlines()[0], repeat=1)
    parser.set_defaults(peers_python="")  # no peer serves anything
    parser.add_argument("--documents", type=int, default=1_000_000, help="in the index")
    parser.add_argument("--seconds", type=float, default=300, help="of adding documents")
    args = SUITE.parse(parser)
    cores = tuple(sorted(os.sched_getaffinity(0)))
    with work_folder(args.work) as work:
        bench = Bench("", cores, args.repeat, work, args.documents, Path(args.data), args.seconds)
        built(bench)
        print(SUITE.measure(args, bench, {"client": "load_client.py, asyncio"}))


if __name__ == "__main__":
    sys.exit(main())
