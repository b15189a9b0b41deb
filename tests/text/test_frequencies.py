"""Document frequencies as bytes: what can't have been counted is refused."""

from __future__ import annotations

import zlib

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


STREAM = zlib.compress(COUNTS.tobytes(), 1)
WRONG = {
    "too many documents": (2**63, STREAM),
    "2^32 documents": (2**32, STREAM),
    "a cell of more documents than there are": (2, STREAM),
    "too few cells": (3, zlib.compress(COUNTS.tobytes()[:-4], 1)),
    "too many cells": (3, zlib.compress(bytes(64 * CELLS), 1)),
    "no end": (3, STREAM[:-1]),
    "something behind": (3, STREAM + b"x"),
    "no stream": (3, b""),
}


@pytest.mark.parametrize(("documents", "stream"), WRONG.values(), ids=WRONG)
def test_invalid_contents_are_refused(documents, stream):
    with pytest.raises(FormatError, match="truncated or altered"):
        Frequencies.from_bytes(written(documents, stream))
