"""DuckDB: SQL functions for the similarity of texts and for candidates.

>>> import duckdb
>>> from neardup.integrations.duckdb import register
>>> connection = register(duckdb.connect(), shingle="word:2")
>>> connection.sql("select neardup_similarity('the cat sat', 'the cat lay') as s").fetchall()
[(0.3333333333333333,)]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neardup.corpus.documents import Columns
from neardup.corpus.frames import read_data, require_library
from neardup.errors import ParameterError
from neardup.in_memory import compare_texts
from neardup.keys import Key, to_key
from neardup.keyword_arguments import takes_options
from neardup.measure_table import BAGS
from neardup.option_table import IndexOptions
from neardup.options import Options
from neardup.sketcher import Sketcher

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SIMILARITY = "neardup_similarity"
KEYS = "neardup_keys"


@takes_options("neardup.integrations.duckdb.register")
def register(
    connection: DuckDBPyConnection,
    *,
    key: bytes | Key | None = None,
    **options: Unpack[IndexOptions],
) -> DuckDBPyConnection:
    """Add the functions of neardup to a connection, and return the connection.

    `neardup_similarity(a, b)` is the exact similarity of two texts: the `measure` of their
    shingles, from 0 to 1; NULL if one of them is NULL.

    `neardup_keys(text)` is a list of keys, one for each hash table. Texts that have a key in common
    are candidates: those at least as similar as `threshold` have one with the probability that
    `recall` states. NULL for a text without shingles. docs/library.md shows the join.

    Args:
        connection: The connection, of `duckdb.connect()`.
        key: The secret key of hash siphash.
        **options: What counts as similar, as in `neardup.dedup`.
    """
    require_library("duckdb")
    secret = to_key(key)
    chosen = Options.of(key=secret, **options)
    if chosen.spec.unit == "token" or chosen.strip.lines is not None:
        raise ParameterError(
            "SQL functions compare one text at a time: choose word, char or line shingles, and "
            "strip html or nothing"
        )
    if chosen.exact_measure.compares == BAGS:
        raise ParameterError("SQL functions compare sets of shingles: use another sketch")
    sketcher = Sketcher(chosen.spec, key=secret)

    def similarity(a: Any, b: Any) -> pa.Array:
        left, right = _column(a), _column(b)
        texts = pa.concat_arrays([left, right]).fill_null("")
        similar = compare_texts(texts, chosen.spec, chosen.exact_measure, secret)
        known = pc.and_(pc.is_valid(left), pc.is_valid(right))
        return pc.if_else(known, pa.array(similar), pa.scalar(None, pa.float64()))

    def keys(texts: Any) -> pa.Array:
        parts, lengths = [], []
        for documents in read_data(_column(texts), Columns()):
            sketched = sketcher(documents)
            has_keys = sketched.shingles.sizes > 0
            parts.append(sketched.keys(chosen.hash_tables)[has_keys].reshape(-1))
            lengths.append(np.where(has_keys, chosen.hash_tables.count, 0))
        sizes = np.concatenate(lengths) if lengths else np.empty(0, np.int64)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        values = pa.array(np.concatenate(parts) if parts else np.empty(0, np.uint64))
        return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(sizes == 0))

    # The types of DuckDB's own strings for these arguments differ between its versions.
    create: Any = connection.create_function
    how = {"type": "arrow", "null_handling": "special"}
    create(SIMILARITY, similarity, ["VARCHAR", "VARCHAR"], "DOUBLE", **how)
    create(KEYS, keys, ["VARCHAR"], "UBIGINT[]", **how)
    return connection


def _column(values: Any) -> pa.Array:
    """Return an argument of a function as one Arrow column."""
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return whole.cast(pa.large_string())
