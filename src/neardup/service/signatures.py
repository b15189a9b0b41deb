"""Ready-made signatures of the same specification, as clients send them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from neardup.errors import SpecMismatch
from neardup.service.error_responses import invalid
from neardup.service.models import Signature
from neardup.sketch.bulk import column_count, column_type
from neardup.sketcher import SketchedDocuments
from neardup.spec import Spec
from neardup.text.arrays import Ragged


def sketch_of(given: Sequence[Signature], spec: Spec) -> SketchedDocuments:
    """What an index takes in. Without its content hash, a document's signature stands for it."""
    kind = np.dtype(column_type(spec)).newbyteorder("<")
    size = column_count(spec) * kind.itemsize
    slots, contents = [], []
    for signature in given:
        if signature.fingerprint != spec.fingerprint:
            raise SpecMismatch(
                "a signature has another specification than the index, which has "
                f"{spec.fingerprint}: make it by the one that GET /v1/stats shows"
            )
        packed = signature.packed()
        if len(packed) != size:
            raise invalid(f"signature.slots has {len(packed)} bytes, not {size}: send all slots")
        slots.append(packed)
        contents.append(_content(signature, packed))
    count = len(given)
    return SketchedDocuments(
        content=np.frombuffer(b"".join(contents), "<u8").reshape(count, 2).astype(np.uint64),
        signatures=np.frombuffer(b"".join(slots), kind)
        .reshape(count, column_count(spec))
        .astype(column_type(spec)),
        shingles=Ragged(np.empty(0, np.uint64), np.zeros(count + 1, np.int64)),
        apart=None,
        lengths=np.zeros(count, np.int64),
    )


def _content(signature: Signature, packed: bytes) -> bytes:
    if signature.content is not None:
        return bytes.fromhex(signature.content)
    return hashlib.blake2b(packed, digest_size=16).digest()
