"""All compiled code: functions from arrays to arrays.

The first access to a kernel (`kernels.band_keys`) loads the shared object that has it, which a
wheel brings, or which is compiled once into the cache. Where there is none and none can be made,
Numba compiles the kernel into the process; the other kernels of its module when they are accessed.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

from neardup import runtime
from neardup.errors import NeardupError
from neardup.kernels import cache, object_cache

KERNELS = {
    "bands": (
        "band_keys",
        "candidate_pairs",
        "column_keys",
        "count_keys",
        "find_repeats",
        "spread_pairs",
        "transposed",
    ),
    "bloom": (
        "block_fills",
        "bloom_contains",
        "bloom_insert",
        "counting_contains",
        "counting_insert",
        "counting_remove",
    ),
    "characters": ("unsettled",),
    "cuckoo": (
        "cuckoo_contains",
        "cuckoo_insert",
        "cuckoo_remove",
    ),
    "darts": ("throw_darts",),
    "hamming": (
        "block_keys",
        "key_starts",
        "packed_keys",
        "search_all",
        "search_table",
    ),
    "hashing": (
        "element_hashes",
        "hash_rows",
    ),
    "joining": (
        "beyond",
        "count_rows",
        "first_equal",
        "index_rows",
        "match_rows",
        "number_shingles",
        "prefixes",
        "rank_counts",
        "rank_rows",
        "token_bits",
        "tokens_below",
    ),
    "json_edit": ("edit_strings",),
    "json_records": ("lines_of_json",),
    "jsonl": (
        "line_ends",
        "read_records",
    ),
    "lines": (
        "count_lines",
        "distinct_rows",
        "ignore_lines",
        "line_texts",
        "lines_above",
        "parts",
        "span_hashes",
        "without_parts",
    ),
    "masks": ("mask_spans",),
    "numbers": ("number_rows",),
    "minhash": (
        "add_keys",
        "fill_rows",
        "merge_keys",
        "minhash_m32",
        "minhash_m61",
        "one_permutation",
        "remove_key",
    ),
    "postings": (
        "cold_pages",
        "cold_take",
        "postings_find",
        "postings_grow",
        "postings_list",
        "postings_put",
        "postings_sizes",
    ),
    "rounds": (
        "decide",
        "kept_in",
        "leader_pairs",
        "member_pairs",
        "merge_pairs",
        "settle",
    ),
    "shingles": (
        "content_hashes",
        "copy_rows",
        "shingle",
        "sort_short",
        "unique_sorted",
    ),
    "signals": (
        "both_pairs",
        "components_both",
        "components_cosine",
        "components_either",
        "cosine_pairs",
        "either_pairs",
        "keep_both",
        "keep_cosine",
        "keep_either",
        "near_codes",
        "signal_numbers",
        "vector_rests",
    ),
    "simhash": (
        "cell_weights",
        "count_cells",
        "simhash_cells",
        "simhash_equal",
        "simhash_sums",
    ),
    "table": (
        "table_get",
        "table_put",
        "table_remove",
        "table_settle",
    ),
    "units": (
        "squeezed_units",
        "word_units",
    ),
    "vectors": (
        "packed_directions",
        "plane_directions",
        "plane_keys",
        "plane_signs",
        "quantised",
        "sum_quantised",
    ),
    "words": ("learn", "translate", "unspaced_words", "word_spans"),
    "verification": (
        "bag_pairs",
        "components_bags",
        "components_exact",
        "components_near",
        "components_slots",
        "contained_pairs",
        "exact_pairs",
        "exact_pairs_pruned",
        "join_all",
        "keep_bags",
        "keep_contained",
        "keep_exact",
        "keep_near",
        "keep_slots",
        "near_pairs",
        "set_parities",
        "slot_pairs",
        "to_roots",
    ),
}
"""Module -> its kernels. No kernel has the name of a module, whose import would hide it."""

_MODULES = {name: module for module, names in KERNELS.items() for name in names}
_loading = threading.RLock()
# Without this, a child that is forked while a thread loads kernels would deadlock.
os.register_at_fork(
    before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release
)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'neardup.kernels' has no attribute {name!r}")
    with _loading:
        if name not in globals():
            globals()[name] = _load(_MODULES[name], name)
    return globals()[name]


def _load(module: str, name: str) -> Any:
    if cache.uses_objects() and name in (found := object_cache.find_object(module) or {}):
        return found[name]
    with cache.time_compiling(module, name):
        try:
            compiled = _compile(module, name, cache.kernel_folder(module))
        except (OSError, EOFError, pickle.UnpicklingError):
            # The cache is damaged, or can't be written: compile without it.
            cache.discard_kernels(module)
            compiled = _compile(module, name, runtime.private_folder())
    cache.mark_compiled(module, name)
    return compiled


def compile_module(module: str) -> None:
    """Compile all kernels of a module in a process of its own, so that the cache has them."""
    if is_compiled(module):
        return
    if cache.uses_objects() and object_cache.can_build(module):
        if (problem := object_cache.build_for_cache(module)) is not None:
            raise NeardupError(f"the kernels of {module} can't be compiled: {problem}")
    else:
        code = (
            "import sys; sys.path.append(sys.argv[1]); from neardup import kernels\n"
            "kernels.load_module(sys.argv[2])"
        )
        package = str(Path(__file__).parents[2])
        subprocess.run(  # noqa: S603  # our own code
            [sys.executable, "-P", "-c", code, package, module], check=True
        )


def load_module(module: str) -> None:
    """Load all kernels of a module."""
    runtime.quiet = True
    for name in KERNELS[module]:
        getattr(sys.modules[__name__], name)


def is_compiled(module: str) -> bool:
    """Return whether no process has to compile the kernels of a module."""
    if cache.uses_objects() and object_cache.has_object(module):
        return True
    return all(cache.is_compiled(module, name) for name in KERNELS[module])


def _compile(module: str, name: str, folder: Path) -> Any:
    try:
        import numba
    except ImportError:
        raise NeardupError(
            "this installation has no kernels for Python "
            f"{sys.version_info.major}.{sys.version_info.minor} on {object_cache.processor()}, and "
            "can't compile them: pip install 'neardup[jit]'"
        ) from None
    kernel: Any = getattr(import_module(f"neardup.kernels.{module}"), name)
    config: Any = numba.config  # its attributes are set at run time, unknown to mypy
    before, config.CACHE_DIR = config.CACHE_DIR, str(folder)
    try:
        return kernel.compiled()
    finally:
        config.CACHE_DIR = before
