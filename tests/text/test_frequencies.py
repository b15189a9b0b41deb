"""Document frequencies as bytes: what can't have been counted is refused."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable

import numpy as np
import pytest
import xxhash

from neardup.errors import FormatError
from neardup.text.frequencies import CELLS, MAGIC, Frequencies

COUNTS = np.arange(CELLS, dtype="<u4") % 4


def written(documents: int, stream: bytes) -> bytes:
    body = MAGIC + documents.to_bytes(8, "little") + stream
    return body + xxhash.xxh3_64_intdigest(body).to_bytes(8, "little")


def test_frequencies_survive_bytes():
    read = Frequencies.from_bytes(Frequencies(3, COUNTS.astype(np.uint32)).to_bytes())
    assert read.documents == 3
    assert (read.cells == COUNTS).all()


@functools.cache
def stream(cells: int = CELLS) -> bytes:
    return zlib.compress(np.resize(COUNTS, cells).tobytes(), 1)


WRONG: dict[str, Callable[[], tuple[int, bytes]]] = {
    "too many documents": lambda: (2**63, stream()),
    "2^32 documents": lambda: (2**32, stream()),
    "a cell of more documents than there are": lambda: (2, stream()),
    "too few cells": lambda: (3, stream(CELLS - 1)),
    "too many cells": lambda: (3, stream(CELLS + 1)),
    "no end": lambda: (3, stream()[:-1]),
    "something behind": lambda: (3, stream() + b"x"),
    "no stream": lambda: (3, b""),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_invalid_contents_are_refused(wrong):
    with pytest.raises(FormatError, match="truncated or altered"):
        Frequencies.from_bytes(written(*wrong()))
