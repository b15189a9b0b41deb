"""Measure what extra lookups find: probes of the same tables, or more tables.

An index of all documents, and each document of a pair of the exact join as a query. Recall is the
share of pairs found, by similarity; the gain is recall over all of them for each extra lookup of a
query, against the first row.

    python -m probes rfc_10k.jsonl rfc_10k.exact.tsv [--bands 12 --rows 10]
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa

from neardup import MinHashLSH, RemovableMinHash, Spec
from neardup.text.shingle import shingle_documents

EDGES = (0.6, 0.7, 0.8, 0.9)
MORE_TABLES = (2, 4)


@dataclass(frozen=True)
class Corpus:
    names: list[str]
    shingles: list[np.ndarray]
    pairs: list[tuple[str, str, float]]

    def sketches(self, slots: int, wanted: set[str]) -> dict[str, RemovableMinHash]:
        found = {}
        for name, shingles in zip(self.names, self.shingles, strict=True):
            if name in wanted:
                found[name] = RemovableMinHash(slots, spare=1)
                found[name].update_hashes(shingles)
        return found


@dataclass(frozen=True)
class Row:
    how: str
    slots: int
    lookups: int
    recall: list[float]
    candidates: float
    microseconds: float

    def gain(self, base: Row) -> float:
        """Recall over all pairs for each extra lookup."""
        return (self.recall[-1] - base.recall[-1]) / max(self.lookups - base.lookups, 1)


def read(documents: Path, pairs: Path) -> Corpus:
    rows = [orjson.loads(line) for line in documents.open("rb")]
    cut = shingle_documents(
        pa.array([row["text"] for row in rows], pa.large_string()), Spec()
    ).shingles
    shingles = [np.unique(cut.data[cut.offsets[i] : cut.offsets[i + 1]]) for i in range(len(rows))]
    with pairs.open() as file:
        found = [(a, b, float(j)) for a, b, j in list(csv.reader(file, delimiter="\t"))[1:]]
    near = [pair for pair in found if EDGES[0] <= pair[2] < EDGES[-1]]
    return Corpus([str(row["id"]) for row in rows], shingles, near)


def measured(corpus: Corpus, bands: int, rows: int) -> Iterator[Row]:
    every = bands * rows
    for tables in (1, *MORE_TABLES):
        slots = every * tables
        sketches = corpus.sketches(slots, set(corpus.names))
        index = MinHashLSH(slots=slots, params=(bands, rows), tables=tables)
        for name, sketch in sketches.items():
            index.insert(name, sketch)
        for probes in (0, bands, 3 * bands, every) if tables == 1 else (0,):
            how = f"{probes} probes" if probes else f"{index.curve}"
            lookups = bands * tables + probes
            yield Row(how, slots, lookups, *asked(corpus, index, sketches, probes))


def asked(
    corpus: Corpus, index: MinHashLSH, sketches: dict[str, RemovableMinHash], probes: int
) -> tuple[list[float], float, float]:
    """Recall by similarity and over all, mean candidates, and time of a query."""
    queries = sorted({name for a, b, _ in corpus.pairs for name in (a, b)})
    begin = time.perf_counter()
    found = {name: set(index.query(sketches[name], probes=probes)) for name in queries}
    each = (time.perf_counter() - begin) / len(queries) * 1e6
    hits = np.array([((b in found[a]) + (a in found[b])) / 2 for a, b, _ in corpus.pairs])
    similarity = np.array([similarity for *_, similarity in corpus.pairs])
    place = np.digitize(similarity, EDGES[1:-1])
    recall = [float(hits[place == bin].mean()) for bin in range(len(EDGES) - 1)]
    candidates = sum(map(len, found.values())) / len(queries) - 1
    return [*recall, float(hits.mean())], candidates, each


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("documents", type=Path)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--bands", type=int, default=12)
    parser.add_argument("--rows", type=int, default=10)
    given = parser.parse_args()
    corpus = read(given.documents, given.pairs)
    print(f"{len(corpus.names):,} documents, {len(corpus.pairs):,} pairs\n")
    bins = [f"{low} to {high}" for low, high in pairwise(EDGES)]
    print(
        "| lookups of a query |",
        *(f"{bin} |" for bin in bins),
        "all | gain for a lookup | candidates | µs a query | slots |",
    )
    print("| --- " * (len(bins) + 6) + "|")
    base: Row | None = None
    for row in measured(corpus, given.bands, given.rows):
        base = base or row
        gain = f"{row.gain(base):.4f}" if row is not base else ""
        found = " | ".join(f"{share:.3f}" for share in row.recall)
        costs = f"{row.candidates:.1f} | {row.microseconds:.0f} | {row.slots}"
        print(f"| {row.lookups}: {row.how} | {found} | {gain} | {costs} |")


if __name__ == "__main__":
    main()
