"""neardup finds near-duplicate documents and explains every decision.

>>> import neardup
>>> neardup.dedup(["one and the same text here", "One and the same text here!", "another"]).kept
[0, 2]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from neardup.decided_run import apply_decisions
    from neardup.errors import FilterFull as FilterFull
    from neardup.errors import FormatError as FormatError
    from neardup.errors import NeardupError as NeardupError
    from neardup.errors import SpecMismatch as SpecMismatch
    from neardup.errors import StaleSketch as StaleSketch
    from neardup.evaluation.evaluation import evaluate
    from neardup.file_run import RunResult as RunResult
    from neardup.file_run import dedup_files as dedup_files
    from neardup.formats.config import load_config as load_config
    from neardup.formats.filters import load_filter as load_filter
    from neardup.formats.filters import save_filter as save_filter
    from neardup.hash_ring import HashRing as HashRing
    from neardup.in_memory import dedup, similarity
    from neardup.increments import add_files as add_files
    from neardup.index.index import Index as Index
    from neardup.lsh.hamming import HammingIndex as HammingIndex
    from neardup.membership.bloom import BloomFilter as BloomFilter
    from neardup.membership.bloom import CountingBloomFilter as CountingBloomFilter
    from neardup.membership.bloom import ScalableBloomFilter
    from neardup.membership.cuckoo import CuckooFilter as CuckooFilter
    from neardup.membership.exact import ExactSet as ExactSet
    from neardup.minhash_lsh import MinHashLSH as MinHashLSH
    from neardup.planner.planner import plan
    from neardup.planner.tuner import tune
    from neardup.result import Result as Result
    from neardup.sketch.bbit import BBitMinHash as BBitMinHash
    from neardup.sketch.bottomk import BottomK as BottomK
    from neardup.sketch.hyperloglog import HyperLogLog as HyperLogLog
    from neardup.sketch.minhash import MinHash as MinHash
    from neardup.sketch.removable import RemovableMinHash as RemovableMinHash
    from neardup.sketch.simhash import SimHash as SimHash
    from neardup.sketch.weighted import WeightedMinHash as WeightedMinHash
    from neardup.spec import Spec as Spec
    from neardup.text.passages import common_passages

# The public names, and where they live: importing neardup imports neither Numba nor PyArrow.
_HOMES = {
    "BBitMinHash": "neardup.sketch.bbit",
    "BloomFilter": "neardup.membership.bloom",
    "BottomK": "neardup.sketch.bottomk",
    "CountingBloomFilter": "neardup.membership.bloom",
    "CuckooFilter": "neardup.membership.cuckoo",
    "ExactSet": "neardup.membership.exact",
    "HammingIndex": "neardup.lsh.hamming",
    "HashRing": "neardup.hash_ring",
    "Index": "neardup.index.index",
    "HyperLogLog": "neardup.sketch.hyperloglog",
    "MinHash": "neardup.sketch.minhash",
    "MinHashLSH": "neardup.minhash_lsh",
    "FilterFull": "neardup.errors",
    "FormatError": "neardup.errors",
    "SpecMismatch": "neardup.errors",
    "StaleSketch": "neardup.errors",
    "NeardupError": "neardup.errors",
    "RemovableMinHash": "neardup.sketch.removable",
    "Result": "neardup.result",
    "RunResult": "neardup.file_run",
    "ScalableBloomFilter": "neardup.membership.bloom",
    "SimHash": "neardup.sketch.simhash",
    "Spec": "neardup.spec",
    "WeightedMinHash": "neardup.sketch.weighted",
    "add_files": "neardup.increments",
    "apply_decisions": "neardup.decided_run",
    "common_passages": "neardup.text.passages",
    "dedup": "neardup.in_memory",
    "dedup_files": "neardup.file_run",
    "evaluate": "neardup.evaluation.evaluation",
    "load_config": "neardup.formats.config",
    "load_filter": "neardup.formats.filters",
    "plan": "neardup.planner.planner",
    "save_filter": "neardup.formats.filters",
    "similarity": "neardup.in_memory",
    "tune": "neardup.planner.tuner",
}

__all__ = [
    "BBitMinHash",
    "BloomFilter",
    "BottomK",
    "CountingBloomFilter",
    "CuckooFilter",
    "ExactSet",
    "FilterFull",
    "FormatError",
    "HammingIndex",
    "HashRing",
    "HyperLogLog",
    "Index",
    "MinHash",
    "MinHashLSH",
    "NeardupError",
    "RemovableMinHash",
    "Result",
    "RunResult",
    "ScalableBloomFilter",
    "SimHash",
    "Spec",
    "SpecMismatch",
    "StaleSketch",
    "WeightedMinHash",
    "__version__",
    "add_files",
    "apply_decisions",
    "common_passages",
    "dedup",
    "dedup_files",
    "evaluate",
    "load_config",
    "load_filter",
    "plan",
    "save_filter",
    "similarity",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'neardup' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
