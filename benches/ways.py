"""Runs over pipes, one file and object stores, beside the same run over local files.

Each way runs in turn; the rate of a way is that of its fastest run, which other programs on the
machine have disturbed least. Seconds of the processor are those of neardup and of `cat`; the
servers are not part of them, but share the cores and so take part in the wall time: moto's S3, and
a small HTTP server with ranges, each in a process of its own on loopback.
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from table import Figure

PARTS = 32
BUCKET = "pages"
KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
S3_SERVER = """
import logging, time
from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
time.sleep(10**6)
"""
HTTP_SERVER = """
import os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Files(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do_HEAD(self): self.answer(False)
    def do_GET(self): self.answer(True)
    def answer(self, body):
        with open(sys.argv[1] + self.path, "rb") as file:
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


@dataclass(frozen=True)
class InputBench:
    """Where the pages of the ways are, how often each way runs, and the MB of generated files."""

    pages: Path
    repeat: int
    size: int
    work: Path


class Run(NamedTuple):
    """One run: seconds that passed, seconds of the processor, and bytes of memory at most."""

    wall: float
    processor: float
    memory: int


def ways(bench: InputBench) -> Figure:
    """All ways in turn, as shares of the rate over local files."""
    folder = bench.work / f"{bench.pages.stem}-parts"
    size = split(bench.pages, folder)
    runs: dict[str, list[Run]] = {}
    with server(HTTP_SERVER, str(folder)) as web, server(S3_SERVER) as s3:
        upload(folder, s3)
        for turn in range(bench.repeat + 1):
            for name, command in commands(folder, web).items():
                with tempfile.TemporaryDirectory(dir=bench.work) as work:
                    ran = measure(command, Path(work), {"AWS_ENDPOINT_URL": s3})
                if turn:  # the first one warms the caches
                    runs.setdefault(name, []).append(ran)
    best = {name: Run(*map(min, zip(*each, strict=True))) for name, each in runs.items()}
    files = best["files"]
    return Figure(
        "Pipes and object stores beside local files",
        f"{bench.pages.name}, {size / 10**6:.0f} MB in {PARTS} files; all cores; of {bench.repeat} "
        "runs of each, in turn, the fastest, the one with the least processor time, and the one "
        "with the least memory",
        [
            {
                "way": name,
                "MB/s": size / 10**6 / run.wall,
                "rate, of files": files.wall / run.wall,
                "MB/s of processor time": size / 10**6 / run.processor,
                "the same, of files": files.processor / run.processor,
                "memory MB": run.memory / 10**6,
            }
            for name, run in best.items()
        ],
        {
            "a pipe has 0.9 x the rate of files": best["pipe"].wall * 0.9 <= files.wall,
            "S3 has 0.8 x the rate of files": best["S3"].wall * 0.8 <= files.wall,
            "S3 takes the memory of files, within 10 %": best["S3"].memory <= 1.1 * files.memory,
        },
    )


def commands(folder: Path, web: str) -> dict[str, str]:
    """Return the command of each way."""
    dedup = f"{shlex.quote(sys.executable)} -m neardup dedup"
    files = sorted(folder.iterdir())
    listed = shlex.join(map(str, files))
    urls = shlex.join(f"{web}/{file.name}" for file in files)
    return {
        "files": f"{dedup} {listed} -o out --json > record.json",
        "pipe": f"cat {listed} | {dedup} - --json > kept.jsonl 2> record.json",
        "one file": f"{dedup} {listed} -o kept.jsonl --json > record.json",
        "S3": f"{dedup} s3://{BUCKET}/parts -o out --json > record.json",
        "HTTP": f"{dedup} {urls} -o out --json > record.json",
    }


def split(source: Path, folder: Path) -> int:
    """Write the lines of a file to files of about the same size; return the bytes of all."""
    size = source.stat().st_size
    folder.mkdir(exist_ok=True)
    with source.open("rb") as lines:
        for part in range(PARTS):
            with (folder / f"part-{part:02}.jsonl").open("wb") as file:
                while lines.tell() < size * (part + 1) // PARTS:
                    file.write(lines.readline())
    return size


def upload(folder: Path, address: str) -> None:
    """Put the files of a folder into the store."""
    import boto3

    store = boto3.client(
        "s3",
        endpoint_url=address,
        region_name=KEYS["AWS_REGION"],
        aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
    )
    store.create_bucket(Bucket=BUCKET)
    for file in folder.iterdir():
        store.put_object(Bucket=BUCKET, Key=f"parts/{file.name}", Body=file.read_bytes())


@contextmanager
def server(script: str, *arguments: str) -> Iterator[str]:
    """Run a server, which prints its port; yield its address."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.wait()


def measure(command: str, folder: Path, environment: Mapping[str, str]) -> Run:
    """Run a shell command; it writes the record of the run to record.json."""
    os.sync()
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=folder,
        env=os.environ | KEYS | environment,
        check=True,
    )
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    record = json.loads((folder / "record.json").read_bytes())
    return Run(wall, used, record["peak_memory_bytes"])
