"""Judge a keep list of any tool by all pairs of exact Jaccard similarity.

Tools report different things (pairs, clusters, flags), so they are judged by what they all
do: which documents they remove. Only ASCII documents are judged, because the exact join splits
words by `\\w+`, which is not how every tool splits other scripts.

- recall: of the pairs of ASCII documents with J >= 0.8, the share with at least one removed.
- precision: of the removed ASCII documents, the share that have another document with J >= 0.8.
- lost: removed ASCII documents that have no other document with J > 0.7.
- witnessed: of the removed ASCII documents, the share whose named witness is kept and has
  J >= 0.8 with them; None for a tool that names no witness.

    python judge.py documents.jsonl exact.tsv[.zst] decisions.tsv
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from harness import documents
from pyarrow import csv

THRESHOLD = 0.8
LOST_BELOW = 0.7

Decision = tuple[str, str]


@dataclass(frozen=True)
class Truth:
    """A corpus' documents and its similar pairs (first < second, by position)."""

    position: dict[str, int]
    ascii: np.ndarray
    first: np.ndarray
    second: np.ndarray
    similarity: np.ndarray


@dataclass(frozen=True)
class Quality:
    documents: int
    removed: int
    judged: int
    recall: float
    precision: float
    lost: int
    witnessed: float | None


def load_truth(corpus: Path, pairs: Path) -> Truth:
    position: dict[str, int] = {}
    plain: list[bool] = []
    for number, (key, text) in enumerate(documents(corpus)):
        if position.setdefault(key, number) != number:
            raise ValueError(f"{corpus}: id {key} occurs twice, decisions cannot be told apart")
        plain.append(text.isascii())
    table = _read_pairs(pairs)
    keys = pa.array(position)
    left, right = (_places(table[name], keys) for name in ("id_a", "id_b"))
    similarity = table["jaccard5w"].to_numpy()
    return Truth(
        position, np.array(plain), np.minimum(left, right), np.maximum(left, right), similarity
    )


def judge(truth: Truth, decisions: Iterable[Decision]) -> Quality:
    rows = [(truth.position[key], truth.position.get(other, -1)) for key, other in decisions]
    gone, witness = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    removed = np.zeros(len(truth.ascii), dtype=bool)
    removed[gone] = True
    judged = removed & truth.ascii
    best = _best(truth)[judged]
    return Quality(
        documents=len(removed),
        removed=int(removed.sum()),
        judged=int(judged.sum()),
        recall=_recall(truth, removed),
        precision=float((best >= THRESHOLD).mean()) if len(best) else 1.0,
        lost=int((best <= LOST_BELOW).sum()),
        witnessed=_witnessed(truth, removed, gone, witness),
    )


def read_decisions(path: Path) -> list[Decision]:
    with path.open() as lines:
        return [tuple(line.rstrip("\n").split("\t")) for line in lines]  # type: ignore[misc]


def _read_pairs(path: Path) -> pa.Table:
    types = {"id_a": pa.string(), "id_b": pa.string(), "jaccard5w": pa.float64()}
    with pa.input_stream(str(path), compression="detect") as source:
        return csv.read_csv(
            source,
            parse_options=csv.ParseOptions(delimiter="\t"),
            convert_options=csv.ConvertOptions(column_types=types),
        )


def _places(column: pa.ChunkedArray, keys: pa.Array) -> np.ndarray:
    places = pc.index_in(column, value_set=keys)
    if places.null_count:
        raise ValueError(f"{places.null_count} ids of the exact pairs are not in the corpus")
    return places.to_numpy()


def _best(truth: Truth) -> np.ndarray:
    """Each document's similarity to the document most similar to it; 0 if none is listed."""
    best = np.zeros(len(truth.ascii))
    np.maximum.at(best, truth.first, truth.similarity)
    np.maximum.at(best, truth.second, truth.similarity)
    return best


def _recall(truth: Truth, removed: np.ndarray) -> float:
    both_plain = truth.ascii[truth.first] & truth.ascii[truth.second]
    duplicate = both_plain & (truth.similarity >= THRESHOLD)
    resolved = removed[truth.first[duplicate]] | removed[truth.second[duplicate]]
    return float(resolved.mean()) if len(resolved) else 1.0


def _witnessed(
    truth: Truth, removed: np.ndarray, gone: np.ndarray, witness: np.ndarray
) -> float | None:
    if not (witness >= 0).any():
        return None
    count = len(truth.ascii)
    similar = truth.similarity >= THRESHOLD
    known = truth.first[similar].astype(np.int64) * count + truth.second[similar]
    asked = np.minimum(gone, witness) * count + np.maximum(gone, witness)
    good = np.isin(asked, known) & (witness >= 0) & ~removed[witness]
    return float(good[truth.ascii[gone]].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description="Judge a keep list by exact similarities.")
    for name in ("corpus", "pairs", "decisions"):
        parser.add_argument(name, type=Path)
    args = parser.parse_args()
    quality = judge(load_truth(args.corpus, args.pairs), read_decisions(args.decisions))
    print(json.dumps(asdict(quality)))


if __name__ == "__main__":
    main()
