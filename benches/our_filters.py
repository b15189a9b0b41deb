"""The timed calls of neardup's filters, over an Arrow column: `python -m our_filters PATH KIND`."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
from filtering import RATE, FilterContender, Made, main

import neardup

KINDS = {
    "bloom": lambda n: neardup.BloomFilter(n, RATE),
    "counting": lambda n: neardup.CountingBloomFilter(n, RATE),
    "cuckoo": neardup.CuckooFilter,
    "scalable": lambda n: neardup.ScalableBloomFilter(n, RATE),
    "set": lambda n: neardup.ExactSet(n),
}
REMOVING = ("counting", "cuckoo", "set")


def make(kind: str, n: int) -> Made:
    found = KINDS[kind](n)
    return Made(
        found.insert_many,
        lambda keys: int(np.count_nonzero(found.contains_many(keys))),
        lambda: found.nbytes * 8,
        (lambda keys: int(found.remove_many(keys).sum())) if kind in REMOVING else None,
    )


def compiled(kind: str) -> str:
    """Compiling is once, and not what is measured."""
    found = make(kind, 10)
    for call in (found.insert, found.ask, found.remove):
        if call is not None:
            call(pa.array(["a"]))
    return kind


if __name__ == "__main__":
    kind = compiled(sys.argv.pop())
    main(FilterContender("neardup", kind, lambda n: make(kind, n), pa.array))
