"""Measure runs over pipes, one file and an object store beside the same run over local files.

    python benches/pipes.py pages.jsonl [--times 3]

Each way runs in turn, several times; the rate of a way is that of its fastest run, which other
programs on the machine have disturbed least. Seconds of the processor are of neardup alone: a
pipe's other program and the server of the store are not part of it. The store is an HTTP server
with ranges on loopback, in a process of its own, which also takes part in the wall time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

SERVER = """
import os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Files(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do_HEAD(self): self.answer(False)
    def do_GET(self): self.answer(True)
    def answer(self, body):
        with open(sys.argv[1], "rb") as file:
            size = os.fstat(file.fileno()).st_size
            first, _, last = self.headers.get("Range", f"bytes=0-{size - 1}")[6:].partition("-")
            start, end = int(first), min(int(last) + 1, size)
            self.send_response(206 if "Range" in self.headers else 200)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
            self.send_header("Content-Length", str(end - start))
            self.end_headers()
            self.wfile.flush()
            while body and start < end:
                start += os.sendfile(self.connection.fileno(), file.fileno(), start, end - start)

server = ThreadingHTTPServer(("127.0.0.1", 0), Files)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


class Measured(NamedTuple):
    """One run: seconds that passed, seconds of the processor, and bytes of memory at most."""

    wall: float
    processor: float
    memory: int


def measure(command: str, folder: Path) -> Measured:
    """Run a shell command; it writes the record of the run to record.json."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], cwd=folder, check=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    record = json.loads((folder / "record.json").read_bytes())
    return Measured(wall, used, record["peak_memory_bytes"])


def ways(source: Path, address: str) -> dict[str, str]:
    """Return the command of each way."""
    dedup = f"{sys.executable} -m neardup dedup"
    return {
        "files": f"{dedup} {source} -o out --json > record.json",
        "pipe": f"cat {source} | {dedup} - --json > kept.jsonl 2> record.json",
        "one file": f"{dedup} {source} -o kept.jsonl --json > record.json",
        "store": f"{dedup} {address}/{source.name} -o out --json > record.json",
    }


def compare(source: Path, times: int, show: Callable[[str], object] = print) -> None:
    """Print the rates of all ways, as shares of the rate over local files."""
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(source)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        address = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        runs: dict[str, list[Measured]] = {}
        for turn in range(times + 1):
            for name, command in ways(source, address).items():
                with tempfile.TemporaryDirectory() as folder:
                    ran = measure(command, Path(folder))
                if turn:  # the first one warms the caches
                    runs.setdefault(name, []).append(ran)
    finally:
        server.kill()
    size = os.path.getsize(source) / 10**6
    base = min(run.wall for run in runs["files"])
    work = min(run.processor for run in runs["files"])
    show(f"{size:.0f} MB, {times} runs of each\n")
    show("| way | MB/s | of files | processor, of files | memory |")
    show("| --- | --- | --- | --- | --- |")
    for name, measured in runs.items():
        wall = min(run.wall for run in measured)
        used = min(run.processor for run in measured)
        memory = max(run.memory for run in measured) / 10**6
        show(
            f"| {name} | {size / wall:.1f} | {base / wall:.2f} | {work / used:.2f} | "
            f"{memory:.0f} MB |"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("source", type=lambda name: Path(name).resolve())
    parser.add_argument("--times", type=int, default=3)
    asked = parser.parse_args()
    compare(asked.source, asked.times)
