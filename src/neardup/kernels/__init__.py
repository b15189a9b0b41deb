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
    from neardup.kernels.bands import band_keys, column_keys, transposed
    from neardup.kernels.components import components_exact, components_slots, join_all, to_roots
    from neardup.kernels.jaccard import exact_pairs, slot_pairs
    from neardup.kernels.json_edit import edit_strings
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
    from neardup.kernels.parts import parts, span_hashes, without_parts
    from neardup.kernels.rounds import decide, kept_in, leader_pairs, member_pairs
    from neardup.kernels.shingles import (
        content_hashes,
        copy_rows,
        row_sums,
        shingle,
        sort_short,
        unique_sorted,
    )
    from neardup.kernels.units import hash_rows, squeezed_units, unsettled, word_units
finally:
    config.CACHE_DIR = _before
kernel_cache.mark_compiled()

__all__ = [
    "band_keys",
    "candidate_pairs",
    "column_keys",
    "components_exact",
    "components_slots",
    "content_hashes",
    "copy_rows",
    "count_lines",
    "decide",
    "distinct_rows",
    "edit_strings",
    "exact_pairs",
    "hash_rows",
    "ignore_lines",
    "join_all",
    "keep_exact",
    "keep_slots",
    "kept_in",
    "leader_pairs",
    "line_texts",
    "lines_above",
    "member_pairs",
    "minhash",
    "parts",
    "read_records",
    "row_sums",
    "shingle",
    "slot_pairs",
    "sort_short",
    "span_hashes",
    "spread_pairs",
    "squeezed_units",
    "to_roots",
    "transposed",
    "unique_sorted",
    "unsettled",
    "without_parts",
    "word_units",
]
