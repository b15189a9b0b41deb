"""Judge the decisions on a corpus with planted copies.

- recall: of the planted pairs with exact Jaccard >= 0.9, the share with at least one removed.
- witnessed: of a sample of removed documents, the share whose witness has exact Jaccard >= 0.9.

Only ASCII documents are judged, as in `judge.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from grown import SEED, SIMILAR, jaccard, pairs_of
from pyarrow import csv

SAMPLE = 10_000


@dataclass(frozen=True)
class Planted:
    pairs: int
    recall: float
    sampled: int
    witnessed: float


def judge(corpus: Path, removed: Path) -> Planted:
    """The decisions in removed.parquet on what `grown.tweets` made."""
    table = pq.read_table(removed, columns=["id", "row", "witness_row"])
    pairs = csv.read_csv(
        pairs_of(corpus),
        csv.ReadOptions(column_names=["copy", "source"]),
        csv.ParseOptions(delimiter="\t"),
        csv.ConvertOptions(column_types={"copy": pa.large_string(), "source": pa.large_string()}),
    )
    gone = [pc.is_in(pairs[name], value_set=table["id"]) for name in ("copy", "source")]
    similar = _similarities(corpus, _sample(table))
    return Planted(
        len(pairs),
        pc.mean(pc.or_(*gone)).as_py() if len(pairs) else 1.0,
        len(similar),
        float(np.mean(np.array(similar) >= SIMILAR)) if similar else 1.0,
    )


def _sample(table: pa.Table) -> np.ndarray:
    """Rows of removed documents and of their witnesses, twice as many as are needed."""
    rows = np.stack([table[name].to_numpy() for name in ("row", "witness_row")], axis=1)
    size = min(2 * SAMPLE, len(rows))
    return np.random.default_rng(SEED).choice(rows, size, replace=False)


def _similarities(corpus: Path, rows: np.ndarray) -> list[float]:
    """The exact similarity of each pair of rows of which both are ASCII."""
    wanted = set(rows.ravel().tolist())
    with corpus.open("rb") as lines:
        texts = {row: orjson.loads(line)["text"] for row, line in enumerate(lines) if row in wanted}
    pairs = ((texts[a], texts[b]) for a, b in rows.tolist())
    return [jaccard(a, b) for a, b in pairs if a.isascii() and b.isascii()][:SAMPLE]
