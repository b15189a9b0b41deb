"""The scripts of a sample of the documents, and what became of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.pipeline.stages.removed import RemovedBatch
from neardup.text.scripts import SCRIPTS, find_scripts

Integers = NDArray[np.int64]

OF_A_CHUNK: Final = 32
"""The first documents of a chunk, whose scripts are found when it is sketched."""
MOST_CHUNKS: Final = 256
"""Of more chunks, every second, fourth, ... is taken, so that memory is bounded."""


def sample_scripts(texts: pa.Array) -> Integers | None:
    """Return the scripts of the first documents of a chunk; None for token ids."""
    if not pa.types.is_large_string(texts.type):
        return None
    return find_scripts(texts.slice(0, OF_A_CHUNK))


class ScriptSample:
    """Collects the scripts of documents from all over the inputs, chunk by chunk, in order."""

    def __init__(self) -> None:
        self._chunks: list[tuple[str, int, Integers]] = []
        self._seen, self._step = 0, 1

    def add(self, shard: str, row: int, scripts: Integers | None) -> None:
        """Add the first documents of a chunk.

        Args:
            shard: The key of its shard.
            row: The number of its first document in the shard.
            scripts: Their scripts.
        """
        if scripts is None:
            return
        if self._seen % self._step == 0:
            self._chunks.append((shard, row, scripts))
        self._seen += 1
        if len(self._chunks) > MOST_CHUNKS:
            self._chunks = self._chunks[::2]
            self._step *= 2

    def decided(
        self,
        starts: Mapping[str, int],
        kept: NDArray[np.bool_],
        removed: Iterable[RemovedBatch],
    ) -> dict[str, dict[str, Any]]:
        """Return how many of the sampled documents of each script were kept and removed.

        With several scripts also the median similarity of the removed ones.

        Args:
            starts: Shard -> the number of its first document; others are left out.
            kept: Whether each document is kept.
            removed: All removed documents; read only if there are several scripts.
        """
        chunks = [chunk for chunk in self._chunks if chunk[0] in starts]
        none = np.empty(0, np.int64)
        places = [starts[shard] + row + np.arange(len(one)) for shard, row, one in chunks]
        numbers = np.concatenate([none, *places])
        scripts = np.concatenate([none, *(one for *_, one in chunks)])
        present = sorted(set(scripts[scripts >= 0].tolist()))
        several = len(present) > 1
        similarity = np.full(len(numbers), np.nan)
        for batch in removed if several else ():
            _, here, there = np.intersect1d(
                numbers, batch.documents, assume_unique=True, return_indices=True
            )
            similarity[here] = batch.similarity[there]
        table: dict[str, dict[str, Any]] = {}
        for number in present:
            mine = scripts == number
            table[SCRIPTS[number]] = {"documents": int(np.count_nonzero(mine))}
            if several:
                lost = similarity[mine & ~np.isnan(similarity)]
                table[SCRIPTS[number]] |= {
                    "kept": int(np.count_nonzero(kept[numbers[mine]])),
                    "removed": len(lost),
                    "median_similarity": round(float(np.median(lost)), 4) if len(lost) else None,
                }
        return dict(sorted(table.items(), key=lambda row: -row[1]["documents"]))
