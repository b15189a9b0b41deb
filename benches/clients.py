"""Measure the libraries in other languages beside the kernels, and write the table.

    python benches/clients.py --data DIR [--only rfc,guide]

All run on one core, in turns, in one run. Each turn starts a program anew, which goes over the
texts several times, the first ones to warm up; its best time counts, and the best of all turns.
Times are those of the processor, so that what else runs on the machine counts little.
Results go to `benches/results/clients.json` and `clients.md`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import ours
from contenders import HERE
from corpora import count_of, describe, plain
from harness import documents
from suite import Suite, work_folder
from table import Figure

ROOT = HERE.parent
ROUNDS = 8
TARGETS = {"Java": 100.0, "JavaScript": 20.0}
"""MB/s of texts of 3 KB on one core."""

Command = Sequence[str | Path]


@dataclass(frozen=True)
class Bench:
    """The corpora, and how the program of each library is started.

    A program takes a file of JSON lines with a `text`, the shingle, and how often to go over all of
    it; it prints a JSON object with the UTF-8 `bytes` of the texts and the processor's `seconds` of
    each time.
    """

    corpora: Mapping[str, Path]
    programs: Mapping[str, Command]
    repeat: int


def compile_java(work: Path) -> Command:
    """Compile the Java library as its README says, with its program."""
    classes = work / "classes"
    sources = sorted((ROOT / "clients/java/src").rglob("*.java"))
    subprocess.run(["javac", "-d", classes, *sources], check=True)
    for table in (ROOT / "src/neardup/text").glob("*.txt"):
        shutil.copy(table, classes / "neardup")
    return ["java", "-XX:+UseSerialGC", "-cp", classes, "neardup.Speed"]


def version_of(program: str) -> str:
    """Return the first line that a program says of its version."""
    done = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    return done.stdout.splitlines()[0]


def speed_of_kernels(corpus: Path) -> float:
    """Return the bytes of texts that the kernels sketch in a second, a megabyte at a time."""
    texts = [text for _, text in documents(corpus)]
    column = ours.prepare(texts)
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        ours.signatures(column)
        best = min(best, time.process_time() - start)
    return sum(len(text.encode()) for text in texts) / best


def speed_of_program(command: Command, corpus: Path) -> float:
    """Return the same of a library, one text at a time."""
    ran = subprocess.run(
        [*command, corpus, "word:5", str(ROUNDS)], check=True, capture_output=True, text=True
    )
    measured = json.loads(ran.stdout)
    return float(measured["bytes"] / min(measured["seconds"]))


def measure(bench: Bench, name: str, title: str) -> Figure:
    """Measure all libraries on a corpus, in turns."""
    corpus = bench.corpora[name]
    speeds: dict[str, float] = {}
    for _ in range(bench.repeat):
        found = {"kernels": speed_of_kernels(corpus)}
        for program, command in bench.programs.items():
            found[program] = speed_of_program(command, corpus)
        speeds = {each: max(speed, speeds.get(each, 0.0)) for each, speed in found.items()}
    size = corpus.stat().st_size / count_of(corpus)
    rows = [
        {
            "library": each,
            "MB/s": round(speed / 1e6, 1),
            "documents/s": round(speed / size),
            "of the kernels": round(speed / speeds["kernels"], 3),
        }
        for each, speed in speeds.items()
    ]
    reached = {
        f"{each} {target:.0f} MB/s": speeds[each] >= target * 1e6
        for each, target in TARGETS.items()
    }
    return Figure(title, describe(corpus), rows, reached if name == "rfc" else {})


TITLES = {
    "rfc": "Texts to 128-slot signatures, documents of 3 KB",
    "guide": "Texts to 128-slot signatures, 20 languages",
    "tweets": "Texts to 128-slot signatures, tweets",
}
FIGURES: dict[str, Callable[[Bench], Figure]] = {
    name: partial(measure, name=name, title=title) for name, title in TITLES.items()
}
SUITE = Suite("clients", "Libraries in other languages, measured", FIGURES)


def main() -> None:
    parser = SUITE.parser(__doc__.splitlines()[0], repeat=3)
    parser.set_defaults(peers_python="")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    args = SUITE.parse(parser)
    os.sched_setaffinity(0, {args.core})
    with work_folder(args.work) as work:
        data = Path(args.data)
        corpora = {
            "rfc": plain(data / "rfc_10k.jsonl.zst", work / "rfc_10k.jsonl"),
            "guide": plain(data / "debian_install_guide.documents.jsonl.zst", work / "guide.jsonl"),
            "tweets": plain(data / "tweets_1m.jsonl.zst", work / "tweets_100k.jsonl", 100_000),
        }
        programs = {
            "Java": compile_java(work),
            "JavaScript": ["node", HERE / "javascript_speed.mjs"],
        }
        versions = {program: version_of(program) for program in ("java", "node")}
        heads = {**versions, "pinned to core": args.core, "rounds of a turn": ROUNDS}
        bench = Bench(corpora, programs, args.repeat)
        print(SUITE.measure(args, bench, heads))


if __name__ == "__main__":
    main()
