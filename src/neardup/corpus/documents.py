"""What is a batch of documents, and which columns of the input is it made of?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neardup.errors import ParameterError

LONGEST = 1 << 30
"""A line or a text with more bytes than this is refused: one document must fit into memory."""

TOO_LONG = "longer than 1 GiB"


@dataclass(frozen=True)
class Columns:
    """The columns to read. `id=None` means "id" if there is such a column, else file:row."""

    text: str = "text"
    id: str | None = None
    keep: str | None = None
    within: str | None = None
    tokens: bool = False
    id_option: str = "id"
    """What the user calls the choice of `id`."""

    @property
    def plain(self) -> Columns:
        """The same without the column that only new documents need."""
        return replace(self, keep=None)

    def asked(self) -> dict[str, str]:
        """Option -> column, for the columns that must be there."""
        named = {
            "text": self.text,
            self.id_option: self.id,
            "keep": self.keep,
            "within": self.within,
        }
        return {option: name for option, name in named.items() if name is not None}


@dataclass
class Documents:
    """Some consecutive documents of one source, in order; row i of every column is document i.

    texts     large_string, or large_list<int64> for token ids; null exactly where rejected
    ids       large_string, null without an id; from tables the type that it has there, from
              lists of dicts a list of the values themselves
    keep      int64, double, large_string or timestamp[us]; null where missing; None if not asked
    within    large_string, null where missing; None if not asked
    rejected  row in this batch -> reason, in row order; a reason never quotes the document
    """

    texts: pa.Array
    ids: pa.Array | list[Any]
    keep: pa.Array | None
    within: pa.Array | None
    rejected: dict[int, str]

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, rows: npt.NDArray[np.int64]) -> Documents:
        """Some of the documents; of those that come from files."""
        places = pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(rows)])
        some = {
            name: None if (column := getattr(self, name)) is None else column.take(places)
            for name in ("texts", "ids", "keep", "within")
        }
        among = {row: place for place, row in enumerate(rows.tolist())}
        rejected = {among[row]: why for row, why in self.rejected.items() if row in among}
        return Documents(**some, rejected=rejected)


def concat_keep(arrays: Iterable[pa.Array]) -> pa.Array:
    """One array of all batches' keep values: int64 gives way to double, null to everything."""
    arrays = list(arrays)
    kinds = {array.type for array in arrays if not pa.types.is_null(array.type)}
    if len(kinds) > 1 and all(map(_is_number, kinds)):
        kinds = {pa.float64()}
    if len(kinds) > 1 and all(map(pa.types.is_timestamp, kinds)):
        kinds = {pa.timestamp("us")}
    if len(kinds) > 1:
        raise mixed_keep(str(kind) for kind in kinds)
    kind = kinds.pop() if kinds else pa.null()
    # safe=False: integers beyond 2**53 may round, as they do in any comparison with a double.
    cast = [array.cast(kind, safe=False) for array in arrays]
    return pa.concat_arrays(cast) if cast else pa.nulls(0)


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def mixed_keep(kinds: Iterable[str]) -> ParameterError:
    """The error for a keep column whose values have no common order."""
    both = " and ".join(sorted(kinds))
    return ParameterError(
        f"the keep column holds {both}, which have no common order: "
        "keep by a column of one type, or by first or longest"
    )
