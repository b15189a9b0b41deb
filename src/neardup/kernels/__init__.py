"""All compiled code, and nothing else is compiled: arrays in, arrays out.

Asking for a kernel imports its module, and Numba with it; what is not in the cache yet is compiled.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

from neardup import kernel_cache

KERNELS = {
    "bags": ("bag_pairs", "components_bags", "keep_bags"),
    "bands": ("band_keys", "column_keys", "transposed"),
    "bloom": ("block_fills", "bloom_contains", "bloom_insert"),
    "cold": ("cold_pages", "cold_take"),
    "components": ("components_exact", "components_slots", "join_all", "to_roots"),
    "contained": ("contained_pairs", "keep_contained"),
    "counting": ("counting_contains", "counting_insert", "counting_remove"),
    "cuckoo": ("cuckoo_contains", "cuckoo_insert", "cuckoo_remove"),
    "darts": ("throw_darts",),
    "hamming": ("block_keys", "key_starts", "packed_keys", "search_all", "search_table"),
    "hash_functions": ("element_hashes", "hash_rows"),
    "jaccard": ("exact_pairs", "slot_pairs"),
    "joining": ("count_rows", "index_rows", "match_rows", "prefixes", "token_bits", "tokens_below"),
    "json_edit": ("edit_strings",),
    "jsonl": ("read_records",),
    "keep": ("keep_exact", "keep_slots"),
    "khash": ("minhash", "minhash_m61"),
    "lines": ("count_lines", "distinct_rows", "ignore_lines", "line_texts", "lines_above"),
    "nearness": ("components_near", "keep_near", "near_pairs"),
    "numbering": ("beyond", "first_equal", "number_shingles", "rank_counts", "rank_rows"),
    "oneperm": ("fill_rows", "one_permutation"),
    "pairs": ("candidate_pairs", "spread_pairs"),
    "pieces": ("parts", "span_hashes", "without_parts"),
    "postings": (
        "postings_find",
        "postings_grow",
        "postings_list",
        "postings_put",
        "postings_sizes",
    ),
    "rounds": ("decide", "kept_in", "leader_pairs", "member_pairs", "settle"),
    "shingles": (
        "content_hashes",
        "copy_rows",
        "shingle",
        "sort_short",
        "unique_sorted",
    ),
    "settled": ("unsettled",),
    "simhash": ("cell_weights", "count_cells", "simhash_cells", "simhash_equal", "simhash_sums"),
    "spares": ("add_keys", "merge_keys", "remove_key"),
    "squeezed": ("squeezed_units",),
    "table": ("table_get", "table_put", "table_remove", "table_settle"),
    "words": ("word_units",),
}
"""Module -> its kernels. No kernel has a module's name: importing that would hide it."""

_MODULES = {name: module for module, names in KERNELS.items() for name in names}
_loading = threading.RLock()
# A child that is forked while a thread loads kernels would wait for that thread for ever.
os.register_at_fork(
    before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release
)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'neardup.kernels' has no attribute {name!r}")
    with _loading:
        # Those that it imports come first: each module's kernels are in a folder of their own.
        for module in kernel_cache.imported_by(_MODULES[name]):
            _load(module)
    return globals()[name]


def _load(module: str) -> None:
    if f"neardup.kernels.{module}" not in sys.modules:
        try:
            _import(module, kernel_cache.folder(module))
        except (OSError, EOFError, pickle.UnpicklingError):
            # The cache is damaged, or can't be written: do without.
            kernel_cache.discard(module)
            _import(module, kernel_cache.private_folder())
        kernel_cache.mark_compiled(module)
    found = sys.modules[f"neardup.kernels.{module}"]
    globals().update({name: getattr(found, name) for name in KERNELS.get(module, ())})


def _import(module: str, cache: Path) -> None:
    import numba

    config: Any = numba.config  # its settings are made at run time
    before, config.CACHE_DIR = config.CACHE_DIR, str(cache)
    kernel_cache.announce(module)
    try:
        import_module(f"neardup.kernels.{module}")
    finally:
        config.CACHE_DIR = before
