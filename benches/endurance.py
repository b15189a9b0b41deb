"""One hundred million tweets in 8 GB: a run that is killed once, resumed, and judged.

    python benches/endurance.py --data DIR --work DIR [--turns 20] [--memory 8GB]

The five million tweets of `grown.tweets` again and again in other letters, a compressed file each.
The run is killed (SIGKILL) as soon as half of the sketches are written, and started again by the
same command. Time, processor time and memory are those of both parts; disk is the most that the
work folder and the output had together. Results go to `benches/results/endurance.json` and `.md`.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import grown
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import startup
from batch_figures import TWEETS
from corpora import plain
from grown import SEED, SIMILAR, jaccard
from planted import SAMPLE
from suite import Suite
from table import Figure

from neardup.formatting import parse_bytes

GB = 1e9
SKETCH_BYTES = 230
"""About the bytes of a document's sketch."""
JUDGED_TURNS = (0, 7)
POLL_SECONDS = 0.5
CORE_HOUR = 3600


@dataclass(frozen=True)
class Bench:
    data: Path
    work: Path
    turns: int
    memory: str


@dataclass
class Watched:
    """Both parts of the run, added up."""

    seconds: float = 0.0
    processor: float = 0.0
    peak_mb: float = 0.0
    disk_gb: float = 0.0
    killed_at_gb: float = 0.0


def corpus(bench: Bench) -> Path:
    """The folder of the files."""
    source = plain(bench.data / "tweets_1m.jsonl.zst", bench.work / "tweets_1m.jsonl")
    whole = grown.tweets(source, bench.work / f"tweets_grown_{TWEETS}.jsonl", TWEETS)
    return grown.shuffled(whole, bench.work / "tweets_shuffled", bench.turns)


def endurance(bench: Bench) -> Figure:
    files, out = corpus(bench), bench.work / "out"
    shutil.rmtree(out, ignore_errors=True)
    half = bench.turns * TWEETS * SKETCH_BYTES / 2 / GB
    command = [startup.command(), "dedup", str(files), "-o", str(out)]
    command += ["--threshold", str(SIMILAR), "--memory", bench.memory]
    watched = Watched()
    watch(command, out, watched, kill_at_gb=half)
    watch(command, out, watched)
    record = json.loads((out / "run.json").read_text())
    size = sum(file["size"] for file in record["inputs"]) / GB
    unpacked = bench.turns * (bench.work / f"tweets_grown_{TWEETS}.jsonl").stat().st_size / GB
    pairs, recall = judge_pairs(bench, out)
    sampled, witnessed = judge_witnesses(files, out)
    return Figure(
        f"{bench.turns * TWEETS:,} tweets, threshold {SIMILAR}, in {bench.memory}, killed once",
        f"{bench.turns} files, {unpacked:,.1f} GB of JSON lines, {size:,.1f} GB compressed; all "
        "cores, exact verification, kept files written",
        [
            {
                "documents": record["counts"]["documents"],
                "removed": record["counts"]["removed"],
                "seconds": watched.seconds,
                "processor seconds": watched.processor,
                "core-hours a TB": watched.processor / CORE_HOUR / unpacked * 1000,
                "peak MB": watched.peak_mb,
                "most GB on disk": watched.disk_gb,
                "killed at GB": watched.killed_at_gb,
                "planted pairs": pairs,
                "recall": recall,
                "removals checked": sampled,
                "witnessed": witnessed,
            }
        ],
        {
            f"within {bench.memory}": watched.peak_mb * 1e6 <= parse_bytes(bench.memory),
            "at most 60 GB of disk": watched.disk_gb <= 60,
            "recall >= 0.99 of the planted pairs": recall >= 0.99,
            "every removal of the sample witnessed": witnessed == 1.0,
        },
    )


def watch(command: list[str], out: Path, watched: Watched, kill_at_gb: float | None = None) -> None:
    """Run a command to its end, or until its files take `kill_at_gb`, and add up what it took."""
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.Popen(command)
    done = threading.Event()

    def follow() -> None:
        while not done.wait(POLL_SECONDS):
            used = disk_gb(out)
            watched.disk_gb = max(watched.disk_gb, used)
            if kill_at_gb is not None and used >= kill_at_gb:
                watched.killed_at_gb = used
                run.kill()
                return

    follower = threading.Thread(target=follow)
    follower.start()
    code = run.wait()
    done.set()
    follower.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    watched.seconds += time.perf_counter() - begun
    watched.processor += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    watched.peak_mb = max(watched.peak_mb, after.ru_maxrss * 1024 / 1e6)
    if code and not (kill_at_gb is not None and watched.killed_at_gb):
        raise RuntimeError(f"{' '.join(command)} ended with {code}")
    if kill_at_gb is not None and not watched.killed_at_gb:
        raise RuntimeError("the run had ended before it could be killed")


def disk_gb(out: Path) -> float:
    """What the output and everything beside it with its name take on disk."""
    total = 0
    for top in out.parent.glob(f"*{out.name}*"):
        for folder, _, names in os.walk(top):
            for name in names:
                try:
                    total += os.stat(os.path.join(folder, name)).st_blocks * 512
                except FileNotFoundError:
                    continue  # it was renamed or removed meanwhile
    return total / GB


def judge_pairs(bench: Bench, out: Path) -> tuple[int, float]:
    """Of the planted pairs of some files: how many there are, and the share with one removed."""
    removed = ds.dataset(out / "removed.parquet")
    count, found = 0, 0
    lines = grown.pairs_of(bench.work / f"tweets_grown_{TWEETS}.jsonl").read_bytes().splitlines()
    for turn in (turn for turn in JUDGED_TURNS if turn < bench.turns):
        letters, before = grown.letters_of(turn), f"t{turn:02}-"
        here = pc.starts_with(pc.field("id"), before)
        gone = set(removed.to_table(columns=["id"], filter=here)["id"].to_pylist())
        for line in lines:
            ids = (before + id.decode() for id in line.translate(letters).split(b"\t"))
            found += any(id in gone for id in ids)
        count += len(lines)
    return count, found / count


def judge_witnesses(files: Path, out: Path) -> tuple[int, float]:
    """Of a sample of removals: how many were compared, and the share that is similar indeed."""
    table = pq.read_table(
        out / "removed.parquet", columns=["file", "row", "witness_file", "witness_row"]
    )
    chosen = np.sort(np.random.default_rng(SEED).choice(len(table), 2 * SAMPLE, replace=False))
    rows = table.take(pa.array(chosen)).to_pylist()
    wanted: dict[str, set[int]] = {}
    for row in rows:
        wanted.setdefault(row["file"], set()).add(row["row"])
        wanted.setdefault(row["witness_file"], set()).add(row["witness_row"])
    texts = {(name, row): text for name in wanted for row, text in read(files / name, wanted[name])}
    pairs = (
        (texts[row["file"], row["row"]], texts[row["witness_file"], row["witness_row"]])
        for row in rows
    )
    plain_pairs = ((a, b) for a, b in pairs if a.isascii() and b.isascii())
    similar = [jaccard(a, b) >= SIMILAR for a, b in islice(plain_pairs, SAMPLE)]
    return len(similar), float(np.mean(similar))


def read(file: Path, wanted: set[int]) -> list[tuple[int, str]]:
    """The texts of some rows of a file."""
    found, row, rest = [], 0, b""
    with pa.input_stream(file) as stream:
        while block := stream.read(grown.PIECE):
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                if row in wanted:
                    found.append((row, orjson.loads(line)["text"]))
                row += 1
    return found


SUITE = Suite("endurance", "A hundred million documents", {"endurance": endurance})


def main() -> None:
    parser = SUITE.parser(__doc__.splitlines()[0], repeat=1)
    parser.add_argument("--turns", type=int, default=20, help="five million documents each")
    parser.add_argument("--memory", default="8GB")
    args = SUITE.parse(parser)
    if args.work is None:
        parser.error("say where 60 GB are free: --work DIR")
    args.work.mkdir(parents=True, exist_ok=True)
    if args.turns != 20:
        args.results = args.work
    bench = Bench(Path(args.data), args.work, args.turns, args.memory)
    print(SUITE.measure(args, bench, {"load when it began": f"{os.getloadavg()[0]:.1f}"}))


if __name__ == "__main__":
    main()
