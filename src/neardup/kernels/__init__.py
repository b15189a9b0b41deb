"""All compiled code, and nothing else is compiled: arrays in, arrays out.

Importing this package imports Numba, and compiles what is not in the cache yet.
"""

from __future__ import annotations

from typing import Any

import numba

from neardup import kernel_cache

config: Any = numba.config  # its settings are made at run time
_before = config.CACHE_DIR
config.CACHE_DIR = str(kernel_cache.folder())
kernel_cache.announce()
try:
    from neardup.kernels.bands import band_keys
    from neardup.kernels.components import components_exact, components_slots
    from neardup.kernels.jaccard import exact_pairs, slot_pairs
    from neardup.kernels.jsonl import read_records
    from neardup.kernels.keep import keep_exact, keep_slots
    from neardup.kernels.lines import (
        count_lines,
        distinct_rows,
        ignore_lines,
        line_texts,
        lines_above,
    )
    from neardup.kernels.minhash import minhash
    from neardup.kernels.pairs import candidate_pairs, spread_pairs
    from neardup.kernels.shingles import content_hashes, shingle, unique_sorted
    from neardup.kernels.units import hash_rows, squeezed_units, unsettled, word_units
finally:
    config.CACHE_DIR = _before
kernel_cache.mark_compiled()

__all__ = [
    "band_keys",
    "candidate_pairs",
    "components_exact",
    "components_slots",
    "content_hashes",
    "count_lines",
    "distinct_rows",
    "exact_pairs",
    "hash_rows",
    "ignore_lines",
    "keep_exact",
    "keep_slots",
    "line_texts",
    "lines_above",
    "minhash",
    "read_records",
    "shingle",
    "slot_pairs",
    "spread_pairs",
    "squeezed_units",
    "unique_sorted",
    "unsettled",
    "word_units",
]
