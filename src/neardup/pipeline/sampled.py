"""The first documents of some shards: what they are like, and what became of them by script."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.first_look import MOST, FirstDocuments
from neardup.options import Options
from neardup.pipeline.stages.removed import RemovedBatch
from neardup.spec import Spec
from neardup.text.scripts import SCRIPTS

Integers = NDArray[np.int64]


class SampledDocuments:
    """Looks at the first documents of some shards, which are read for an estimate anyway."""

    def __init__(self, spec: Spec) -> None:
        self._first = FirstDocuments(spec)
        self._scripts: dict[int, Integers] = {}
        """Shard -> the script of each of its first documents, -1 for a text without letters."""

    def add(self, shard: int, texts: pa.Array, shards: int) -> None:
        """Look at the first texts of a shard, one of as many as are sampled."""
        self._scripts[shard] = self._first.add(texts, MOST // max(shards, 1))

    def forget_places(self) -> None:
        """Forget which documents were looked at, because the shards are cut again."""
        self._scripts.clear()

    def describe(self, options: Options) -> dict[str, Any]:
        """Return what the documents are like, and the advice, for run.json."""
        look = self._first.look()
        if look is None:
            return {"advice": []}
        return {"first_documents": look.stated, "advice": look.advice(options)}

    def decided(
        self, starts: Integers, kept: NDArray[np.bool_], removed: Iterable[RemovedBatch]
    ) -> dict[str, dict[str, Any]]:
        """Return by script how many were kept and removed; {} if all have the same script.

        Args:
            starts: The number of each new shard's first document.
            kept: Whether each document is kept.
            removed: All removed documents.
        """
        places = [starts[shard] + np.arange(len(one)) for shard, one in self._scripts.items()]
        numbers = np.concatenate([np.empty(0, np.int64), *places])
        scripts = np.concatenate([np.empty(0, np.int64), *self._scripts.values()])
        if len(np.unique(scripts[scripts >= 0])) < 2:
            return {}
        similarity = np.full(len(numbers), np.nan)
        for batch in removed:
            _, here, there = np.intersect1d(
                numbers, batch.documents, assume_unique=True, return_indices=True
            )
            similarity[here] = batch.similarity[there]
        table: dict[str, dict[str, Any]] = {}
        for number in np.unique(scripts[scripts >= 0]).tolist():
            mine = scripts == number
            lost = similarity[mine & ~np.isnan(similarity)]
            table[SCRIPTS[number]] = {
                "documents": int(np.count_nonzero(mine)),
                "kept": int(np.count_nonzero(kept[numbers[mine]])),
                "removed": len(lost),
                "median_similarity": round(float(np.median(lost)), 4) if len(lost) else None,
            }
        return dict(sorted(table.items(), key=lambda row: -row[1]["documents"]))
