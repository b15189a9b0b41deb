"""The decisions of a `Result` as an Arrow table, one row for each document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.cluster import DROPPED, REJECTED, KeepList

DECISIONS = ("rejected", "kept", "removed")


def decisions_table(
    ids: Sequence[Any], decisions: KeepList, reasons: Mapping[int, str]
) -> pa.Table:
    """Return id, decision, witness, similarity, cluster and reason of each document.

    Args:
        ids: The ids of all documents.
        decisions: The witness and similarity of each document.
        reasons: Row -> reason, of documents that could not be compared or that people removed.
    """
    witness = decisions.witness
    similar, dropped, rejected = witness >= 0, witness == DROPPED, witness == REJECTED
    kind = np.where(similar | dropped, 2, np.where(rejected, 0, 1)).astype(np.int8)
    names = _id_column(ids)
    return pa.table(
        {
            "id": names,
            "decision": pa.DictionaryArray.from_arrays(kind, list(DECISIONS)).cast(pa.string()),
            "witness": names.take(pa.array(witness, mask=~similar)),
            "similarity": pa.array(decisions.similarity, mask=~similar),
            "cluster": pa.array(decisions.cluster, mask=rejected | dropped),
            "reason": pa.array([reasons.get(row) for row in range(len(witness))], pa.string()),
        }
    )


def annotations_table(ids: Sequence[Any], decisions: KeepList, rows: NDArray[np.int64]) -> pa.Table:
    """Return cluster, cluster_size, witness and similarity of some documents.

    Args:
        ids: The ids of all documents.
        decisions: The witness and similarity of each document.
        rows: The documents, ascending; none that has no cluster.
    """
    cluster, witness = decisions.cluster, decisions.witness
    sizes = np.bincount(cluster[cluster >= 0], minlength=len(cluster))
    kept = witness[rows] < 0
    return pa.table(
        {
            "cluster": pa.array(cluster[rows]),
            "cluster_size": pa.array(sizes[cluster[rows]]),
            "witness": _id_column(ids).take(pa.array(witness[rows], mask=kept)),
            "similarity": pa.array(decisions.similarity[rows], mask=kept),
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
