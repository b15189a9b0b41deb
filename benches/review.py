"""Measure the review page on a run with a million removals, and write the table.

    python benches/review.py --work DIR
    python benches/review.py --work DIR --removals 100000     a quick look

The run is that of generated texts of 30 words; it is made once in the work folder. The server is a
process of its own, `neardup review`; requests come from this process, one after the other, as the
browser of one person sends them. Results go to `benches/results/review.json` and `review.md`.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from table import Figure, machine, markdown

from neardup.review.application import static_files

HERE = Path(__file__).parent
COPIES = 10
WORDS, CHANGED = 30, 3
PAIRS = 500
SEED = 7
MIB = 1 << 20
FORM_TOKEN = re.compile(r'name="form_token" value="([^"]+)"')
SEEN = re.compile(r'name="seen" value="(\d+)"')


def make_run(work: Path, removals: int) -> Path:
    """Deduplicate generated documents: each has ten copies in which up to three words differ."""
    out = work / f"review-{removals}"
    if (out / "run.json").exists():
        return out
    random.seed(SEED)
    words = [f"{random.getrandbits(32):x}" for _ in range(50_000)]
    corpus = work / f"review-{removals}.jsonl"
    with corpus.open("w") as written:
        for base in range(removals // COPIES):
            text = random.choices(words, k=WORDS)
            for copy in range(COPIES + 1):
                other = text.copy()
                for place in random.sample(range(WORDS), copy % (CHANGED + 1) if copy else 0):
                    other[place] = random.choice(words)
                line = {"id": f"d{base}-{copy}", "text": " ".join(other)}
                written.write(json.dumps(line) + "\n")
    options = ["--shingle", "word:1", "--threshold", "0.8", "--quiet"]
    command = [sys.executable, "-m", "neardup", "dedup", str(corpus), "-o", str(out), *options]
    subprocess.run(command, check=True)
    return out


class Browser:
    """One person: a connection that is kept, a cookie, and what a request took."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._connection = HTTPConnection(parts.hostname, parts.port, timeout=600)
        self._headers: dict[str, str] = {}
        answer, _ = self.ask("GET", f"{parts.path}?{parts.query}")
        self._headers["Cookie"] = answer.headers["Set-Cookie"].partition(";")[0]

    def ask(self, method: str, path: str, fields: dict[str, str] | None = None) -> tuple[Any, str]:
        headers = self._headers | {"X-Sent-By": "script"}
        if fields is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        body = None if fields is None else urlencode(fields)
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        text = answer.read().decode()
        assert answer.status < 400, text
        return answer, text

    def get(self, path: str) -> str:
        return self.ask("GET", path)[1]


@contextmanager
def served(run: Path) -> Iterator[tuple[int, Browser, float]]:
    """Start the server; yield its process id, a browser, and the seconds until it was there."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "neardup", "review", str(run), "--no-open"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            url = process.stderr.readline().strip()
            browser = Browser(url)
            yield process.pid, browser, time.perf_counter() - started
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def peak_memory(pid: int) -> float:
    """The most memory that a process has had, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    (kib,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return int(kib) * 1024 / MIB


def timed(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def measure(run: Path) -> dict[str, float]:
    """Open the page of a run that nobody has reviewed, and decide about pairs."""
    for name in ("index.sqlite", "decisions.sqlite"):
        (run / "review" / name).unlink(missing_ok=True)
    found: dict[str, float] = {}
    with served(run) as (pid, browser, found["start_seconds"]):
        found["first_page_seconds"] = timed(lambda: browser.get("/"))
        found["first_page_memory_mib"] = peak_memory(pid)
        found["list_seconds"] = timed(lambda: wait_for_list(browser))
        found["list_memory_mib"] = peak_memory(pid)
        seconds = sorted(decide(browser))
        found["pair_p50_ms"] = 1e3 * seconds[len(seconds) // 2]
        found["pair_p99_ms"] = 1e3 * seconds[len(seconds) * 99 // 100]
        for name, path in {
            "clusters_ms": "/clusters",
            "clusters_uncertain_ms": "/clusters?order=uncertainty",
            "search_id_ms": "/clusters?q=d77-3",
        }.items():
            found[name] = 1e3 * min(timed(lambda path=path: browser.get(path)) for _ in range(5))
        found["memory_mib"] = peak_memory(pid)
    found["static_bytes"] = sum(map(len, static_files().values()))
    return found


def wait_for_list(browser: Browser) -> None:
    while "One moment" in browser.get("/clusters"):
        time.sleep(0.05)


def decide(browser: Browser) -> Iterator[float]:
    """Decide about pairs as with a key; yield the seconds from the key to the next pair."""
    place = browser.ask("GET", "/next")[0].headers["Location"]
    page = browser.get(place)
    for _ in range(PAIRS):
        found, seen = FORM_TOKEN.search(page), SEEN.search(page)
        assert found and seen
        fields = {"form_token": found[1], "seen": seen[1], "then": "next", "action": "same"}
        fields["position"] = place.rpartition("/")[2]
        started = time.perf_counter()
        place = json.loads(browser.ask("POST", "/decide", fields)[1])["next"]
        page = browser.get(place)
        yield time.perf_counter() - started


def figure(found: dict[str, float], removals: int) -> Figure:
    rows = [
        {"what": name.replace("_", " "), "now": round(value, 3)} for name, value in found.items()
    ]
    targets = {
        "the first page within 1 s": found["first_page_seconds"] <= 1,
        "at most 150 MB in the server": found["memory_mib"] * MIB <= 150e6,
        "the next pair after a key: at most 50 ms, p99": found["pair_p99_ms"] <= 50,
        "scripts and styles of at most 150 KB": found["static_bytes"] <= 150_000,
    }
    data = f"{removals:,} removals in {removals // COPIES:,} clusters; {PAIRS} decisions"
    measured = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return Figure("A run that is reviewed for the first time", data, rows, targets, measured)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--removals", type=int, default=1_000_000)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    found = measure(make_run(given.work, given.removals))
    results = HERE / "results"
    shown = markdown("The review page, measured", machine(), [figure(found, given.removals)])
    print(shown)
    if given.removals >= 1_000_000:
        (results / "review.json").write_text(json.dumps(machine() | found, indent=2) + "\n")
        (results / "review.md").write_text(shown)


if __name__ == "__main__":
    main()
