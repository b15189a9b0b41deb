"""Find all similar pairs of a corpus in one of three ways, on a number of cores.

    python -m our_truth CORPUS join|merge|sets SHINGLE FLOOR [DOCUMENTS]

`join` is neardup's brute force. `merge` compares every pair of sorted sets by a compiled loop,
`sets` by Python's own sets: both on so many pairs, randomly chosen, that it takes some seconds,
and the time is that of all pairs at the same rate. `sets` runs on one core; as many processes as
there are cores would share its time.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np

import neardup
from neardup import kernels
from neardup.corpus.documents import Columns
from neardup.corpus.inputs import find_inputs
from neardup.corpus.read import chunks_of, parse_chunk
from neardup.evaluation.truth import expected_seconds, similar_sets
from neardup.pipeline.set_files import sort_sets
from neardup.runtime import map_in_order
from neardup.sketcher import Sketcher
from neardup.spec import Spec
from neardup.text.arrays import Ragged

CORES = len(os.sched_getaffinity(0))
MERGED, PYTHON = 2_000_000, 50_000
AT_ONCE = 1 << 16


def sets_of(path: Path, shingle: str, documents: int | None) -> Ragged:
    columns, sketcher = Columns(), Sketcher(Spec.of(shingle))

    def cut(chunk: object) -> Ragged:
        return sort_sets(sketcher.cut(parse_chunk(chunk, columns)).shingles)

    parts, held = [], 0
    for chunk in chunks_of(find_inputs([str(path)], "auto"), columns):
        parts.append(cut(chunk))
        held += len(parts[-1])
        if documents and held >= documents:
            break
    sizes = np.concatenate([part.sizes for part in parts])[:documents]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    data = np.empty(sum(len(part.data) for part in parts), np.uint64)
    place = 0
    for number, part in enumerate(parts):
        data[place : place + len(part.data)] = part.data
        place, parts[number] = place + len(part.data), None
    return Ragged(data[: offsets[-1]], offsets)


def join(sets: Ragged, floor: float) -> dict[str, float]:
    # What is compiled is compiled now.
    similar_sets(Ragged(sets.data[: sets.offsets[1]], sets.offsets[:2]), floor, 1)
    expected = expected_seconds(sets, floor, CORES)
    begun = time.perf_counter()
    found = similar_sets(sets, floor, CORES)
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "expected_s": expected, "pairs": found.similar(floor)}


def merge(sets: Ragged, floor: float) -> dict[str, float]:
    left, right = some_pairs(len(sets), MERGED)

    def some(start: int) -> int:
        here = slice(start, start + AT_ONCE)
        found = kernels.exact_pairs(sets.data, sets.offsets, left[here], right[here], floor)
        return int(np.count_nonzero(found >= 0))

    some(0)
    return extrapolated(
        lambda: sum(n for _, n in map_in_order(range(0, MERGED, AT_ONCE), some, CORES)),
        sets,
        MERGED,
    )


def plain_sets(sets: Ragged, floor: float) -> dict[str, float]:
    left, right = (side.tolist() for side in some_pairs(len(sets), PYTHON))
    ends = sets.offsets.tolist()
    rows = [frozenset(sets.data[a:b].tolist()) for a, b in pairwise(ends)]
    return extrapolated(
        lambda: sum(jaccard(rows[a], rows[b]) >= floor for a, b in zip(left, right)), sets, PYTHON
    )


def jaccard(a: frozenset[int], b: frozenset[int]) -> float:
    common = len(a & b)
    return common / (len(a) + len(b) - common)


def some_pairs(documents: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.Generator(np.random.PCG64(5))
    left = chance.integers(0, documents, count)
    return left, (left + chance.integers(1, documents, count)) % documents


def extrapolated(compare: Callable[[], int], sets: Ragged, count: int) -> dict[str, float]:
    begun = time.perf_counter()
    compare()
    share = count / (len(sets) * (len(sets) - 1) / 2)
    return {"seconds": (time.perf_counter() - begun) / share, "share": share}


WAYS = {"join": join, "merge": merge, "sets": plain_sets}


def main() -> None:
    path, way, shingle, floor, *documents = sys.argv[1:]
    sets = sets_of(Path(path), shingle, int(documents[0]) if documents else None)
    head = {"version": neardup.__version__, "documents": len(sets), "shingles": len(sets.data)}
    print(json.dumps(head | WAYS[way](sets, float(floor))))


if __name__ == "__main__":
    main()
