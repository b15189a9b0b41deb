"""Compare runs with what `neardup plan` predicts: recall, comparisons, memory, disk and time.

    python benches/predicted.py --data DIR [--only rfc_10k,linux] [--work DIR]

Six corpora are those that the models were fitted on; three are made up (`generated.py`).
For each corpus a plan is made from a sample of it, as a user would, then `neardup dedup` runs with
that plan, and a second time for its pairs, which are compared with all similar pairs: those of the
corpus' own exact join, or of one made here. Results go to `benches/results/predicted.json` and
`predicted.md`. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from corpora import count_of, plain
from generated import RECIPES, generate
from harness import documents
from measure import Measured, measured
from pyarrow import csv
from startup import command
from suite import Suite, work_folder
from table import Figure

from neardup.corpus.documents import Columns
from neardup.corpus.inputs import find_inputs
from neardup.corpus.read import chunks_of, parse_chunk
from neardup.evaluation.truth import similar_sets
from neardup.pipeline.set_files import sort_sets
from neardup.sketcher import Sketcher
from neardup.spec import Spec
from neardup.text.arrays import Ragged

THRESHOLD = 0.8
CORPORA = {
    "rfc_10k": "rfc_10k.jsonl.zst",
    "scancode": "scancode_license_texts.documents.jsonl.zst",
    "debian": "debian_install_guide.documents.jsonl.zst",
    "linux": "linux_doc_6.1_6.12.documents.jsonl.zst",
    "rfc_100k": "rfc_100k.jsonl.zst",
    "tweets_1m": "tweets_1m.jsonl.zst",
}
EXACT = {"rfc_10k": "rfc_10k.exact.tsv", "rfc_100k": "rfc_100k.exact.tsv.zst"}
POLL_SECONDS = 0.02
WITHIN = {"recall": 0.01, "memory MB": 0.1, "disk MB": 0.1, "seconds": 0.25}
"""Recall by difference, the others by ratio."""


@dataclass(frozen=True)
class Bench:
    data: Path
    work: Path
    repeat: int

    def corpus(self, name: str) -> Path:
        if name in RECIPES:
            return generate(name, self.work / f"{name}.jsonl")
        return plain(self.data / CORPORA[name], self.work / f"{name}.jsonl")


def predicted(bench: Bench, name: str) -> Figure:
    """One corpus: the plan's figures, the run's, and how far they are apart."""
    corpus = bench.corpus(name)
    point = bench.work / f"{name}.toml"
    made = json.loads(
        neardup("plan", "--sample", corpus, "--threshold", THRESHOLD, "-o", point, "--json")
    )
    best, disk = min(
        (_run(bench, corpus, point) for _ in range(bench.repeat)), key=lambda one: one[0].seconds
    )
    record = json.loads((bench.work / "out" / "run.json").read_text())
    said = made["predicted"]
    plan = {
        "recall": said["recall_above"],
        "compared": said["compared"],
        "memory MB": said["memory"] / 1e6,
        "disk MB": said["disk"] / 1e6,
        "seconds": said["seconds"],
    }
    exact = (
        _from_file(bench.data / EXACT[name], corpus) if name in EXACT else joined(corpus, THRESHOLD)
    )
    run = {
        "recall": recall(bench.work / "pairs", corpus, exact, "--config", point),
        "compared": record["metrics"]["candidate_pairs_per_doc"],
        "memory MB": best.peak_mb,
        "disk MB": disk / 1e6,
        "seconds": best.seconds,
    }
    apart = {what: _apart(what, plan[what], run[what]) for what in plan}
    rows = [{"": "predicted", **plan}, {"": "measured", **run}, {"": "apart", **apart}]
    targets = {f"{what} within {most:g}": abs(apart[what]) <= most for what, most in WITHIN.items()}
    data = f"{count_of(corpus):,} documents, {corpus.stat().st_size / 1e6:,.0f} MB"
    return Figure(name, data, rows, targets)


def _apart(what: str, said: float, seen: float) -> float:
    return said - seen if what == "recall" else said / seen - 1


def neardup(*arguments: object) -> str:
    done = subprocess.run(
        [command(), *map(str, arguments)], capture_output=True, text=True, check=True
    )
    return done.stdout


def _run(bench: Bench, corpus: Path, point: Path) -> tuple[Measured, int]:
    """A run as planned; and the most bytes that it had on disk."""
    out = bench.work / "out"
    shutil.rmtree(out, ignore_errors=True)
    words = [command(), "dedup", str(corpus), "-o", str(out), "--config", str(point), "--quiet"]
    with watched(out) as most:
        found = measured(words, sorted(os.sched_getaffinity(0)), {})
    return found, most[0]


@contextmanager
def watched(folder: Path) -> Iterator[list[int]]:
    """The most bytes that were in a folder meanwhile."""
    most, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(POLL_SECONDS):
            most[0] = max(most[0], _size(folder))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join()


def _size(folder: Path) -> int:
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.stat(os.path.join(place, name)).st_size
            except OSError:
                continue  # it has just been removed
    return total


def recall(out: Path, corpus: Path, exact: Exact, *options: object) -> float:
    """The share of all similar pairs that share a bucket in a run with these options."""
    neardup(
        "dedup",
        corpus,
        "-o",
        out,
        *options,
        "--quiet",
        "--pairs",
        "--no-kept",
        "--id",
        "id",
        "--force",
    )
    if json.loads((out / "run.json").read_text())["pairs"]["beyond_limit"]:
        raise ValueError("the run has more pairs than it can write")
    found = pq.read_table(out / "pairs.parquet", columns=["a", "b"])
    met = _codes(*found.columns, exact[0])
    return float(np.isin(_codes(*exact[1], exact[0]), met).mean())


Names = pa.Array
Exact = tuple[Names, tuple[Names, Names]]
"""The ids of all documents in exact pairs, and both sides of the pairs."""


def _from_file(path: Path, corpus: Path) -> Exact:
    """Pairs of ASCII documents: the file's words are others in other scripts, see judge.py."""
    text = pa.string()
    options = csv.ConvertOptions(column_types={"id_a": text, "id_b": text})
    table = csv.read_csv(
        path, parse_options=csv.ParseOptions(delimiter="\t"), convert_options=options
    )
    good = table.filter(pa.compute.field("jaccard5w") >= THRESHOLD)
    plain = pa.array([name for name, text in documents(corpus) if text.isascii()])
    known = [pa.compute.is_in(good[side], plain) for side in ("id_a", "id_b")]
    good = good.filter(pa.compute.and_(*known))
    a, b = good["id_a"].combine_chunks(), good["id_b"].combine_chunks()
    return pa.concat_arrays([a, b]).unique(), (a, b)


def joined(corpus: Path, threshold: float) -> Exact:
    """By comparing everything, here."""
    columns, sketcher = Columns(id="id"), Sketcher(Spec())
    ids, sets = [], []
    for chunk in chunks_of(find_inputs([corpus]), columns):
        read = parse_chunk(chunk, columns)
        ids.append(read.ids)
        sets.append(sort_sets(sketcher.cut(read).shingles))
    sizes = np.concatenate([some.sizes for some in sets])
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    everything = Ragged(np.concatenate([some.data for some in sets]), ends)
    cores = len(os.sched_getaffinity(0))
    truth = similar_sets(everything, threshold, cores).of_documents()
    names = pa.concat_arrays(ids)
    return names.unique(), (names.take(pa.array(truth.a)), names.take(pa.array(truth.b)))


def _codes(a: Any, b: Any, names: Names) -> np.ndarray:
    """A number for each pair of names, whichever comes first."""
    places = [pa.compute.index_in(side.cast(names.type), names) for side in (a, b)]
    left, right = (place.fill_null(len(names)).to_numpy().astype(np.int64) for place in places)
    return np.minimum(left, right) * (len(names) + 1) + np.maximum(left, right)


SUITE = Suite(
    "predicted",
    "What is predicted, beside what is measured",
    {name: partial(predicted, name=name) for name in (*CORPORA, *RECIPES)},
)


def main() -> None:
    parser = SUITE.parser(__doc__.splitlines()[0], repeat=2)
    parser.set_defaults(peers_python=sys.executable)  # no peer predicts anything
    args = SUITE.parse(parser)
    with work_folder(args.work) as work:
        bench = Bench(Path(args.data), work, args.repeat)
        neardup("plan", "--documents", 1000)  # compiles the kernels
        print(SUITE.measure(args, bench, {"cores used": len(os.sched_getaffinity(0))}))


if __name__ == "__main__":
    sys.exit(main())
