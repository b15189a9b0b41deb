"""The decisions of a `Result` as an Arrow table, one row for each document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from neardup.cluster import REJECTED, KeepList

DECISIONS = ("rejected", "kept", "removed")


def decisions_table(
    ids: Sequence[Any], decisions: KeepList, rejected_rows: Mapping[int, str]
) -> pa.Table:
    """Return id, decision, witness, similarity, cluster and reason of each document.

    Args:
        ids: The ids of all documents.
        decisions: The witness and similarity of each document.
        rejected_rows: Row -> reason, of the documents that could not be compared.
    """
    witness = decisions.witness
    removed, rejected = witness >= 0, witness == REJECTED
    kind = np.where(removed, 2, np.where(rejected, 0, 1)).astype(np.int8)
    names = _id_column(ids)
    reasons = [rejected_rows.get(row) for row in range(len(witness))]
    return pa.table(
        {
            "id": names,
            "decision": pa.DictionaryArray.from_arrays(kind, list(DECISIONS)).cast(pa.string()),
            "witness": names.take(pa.array(witness, mask=~removed)),
            "similarity": pa.array(decisions.similarity, mask=~removed),
            "cluster": pa.array(decisions.cluster, mask=rejected),
            "reason": pa.array(reasons, pa.string()),
        }
    )


def _id_column(ids: Sequence[Any]) -> pa.Array:
    """Return the ids as an Arrow column; as strings if they are of several types."""
    if len({type(id) for id in ids}) <= 1:
        try:
            return pa.array(ids)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
            pass  # such as whole numbers beyond 64 bits
    return pa.array([str(id) for id in ids], pa.large_string())
