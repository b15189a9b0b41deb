"""MinHash by one permutation, in wide slots and in few bits: speed, size and error."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from corpora import describe
from estimator import pairs_of_sets
from harness import documents
from table import Figure, Row

from neardup.sketch import bbit, bulk
from neardup.spec import Spec
from neardup.text.shingle import shingle_documents

BATCH = 1 << 20
SLOTS = (128, 1024, 9000)
DOCUMENTS = 3000
SIZES = (20, 50, 100, 386, 1000, 10_000)
SIMILARITIES = (0.2, 0.5, 0.8, 0.95)
WORK = 60_000_000
"""Shingles and slots that a cell of the table of errors may take, about."""


def slots(bench: Any) -> Figure:
    """Text to signatures, by the number of slots."""
    texts = pa.array([text for _, text in documents(bench.rfc)][:DOCUMENTS], pa.large_string())
    sketches = {
        "k-hash, affine32": {"sketch": "minhash"},
        "k-hash, affine-m61": {"family": "affine-m61"},
        "one permutation": {"sketch": "oneperm"},
    }
    rows: list[Row] = []
    for name, how in sketches.items():
        specs = {many: Spec.of(slots=many, **how) for many in SLOTS}
        times = {many: _per_document(texts, spec, bench.repeat) for many, spec in specs.items()}
        rows.append(
            {"sketch": name}
            | {f"{many} slots, µs": times[many] for many in SLOTS}
            | {"9000 against 128": times[9000] / times[128]}
        )
    flat = float(rows[-1]["9000 against 128"])  # type: ignore[arg-type]
    return Figure(
        "Text to signatures by number of slots, 3 KB documents, microseconds a document",
        describe(bench.rfc),
        rows,
        {"one permutation: 9,000 slots cost at most 2 x 128 slots": flat <= 2},
    )


def _per_document(texts: pa.Array, spec: Spec, repeat: int) -> float:
    """A megabyte of text at a time, as a run over files does it; the best of some passes."""
    rows = max(len(texts) * BATCH // texts.nbytes, 1)
    best = math.inf
    for _ in range(1 + repeat):  # the first compiles
        begun = time.perf_counter()
        for at in range(0, len(texts), rows):
            cut = shingle_documents(texts[at : at + rows], spec).shingles
            bulk.make_signatures(cut.data, cut.offsets, spec)
        best = min(best, time.perf_counter() - begun)
    return best / len(texts) * 1e6


def error(bench: Any) -> Figure:
    """Bias and variance of one permutation."""
    rng, rows = np.random.default_rng(1), []
    worst_bias = worst = 0.0
    for many in SLOTS:
        spec = Spec.of(sketch="oneperm", slots=many)
        for size in SIZES:
            row: dict[str, Any] = {"slots": many, "shingles": size}
            for similarity in SIMILARITIES:
                found, truth = _errors(
                    rng,
                    size,
                    similarity,
                    WORK // (size + 4 * many),
                    lambda *sets, spec=spec: bulk.make_signatures(*sets, spec),
                    _share,
                )
                ratio = float(found.var() / (truth * (1 - truth) / many))
                row[f"J = {similarity}"] = round(ratio, 3)
                worst_bias = max(worst_bias, abs(float(found.mean())), key=abs)
                worst = max(worst, ratio / (1 + 3 * math.sqrt(2 / len(found))))
            rows.append(row)
    return Figure(
        "One permutation: variance as a multiple of J(1-J)/k",
        f"random sets; the greatest bias of all cells is {worst_bias:.4f}",
        rows,
        {
            "variance at most 15 % above J(1-J)/k in every cell, but for 3 standard errors": worst
            <= 1.15,
            "bias < 0.003 in every cell": worst_bias < 0.003,
        },
    )


def bits(bench: Any) -> Figure:
    """Bytes and errors of slots that are cut to few bits."""
    rng, rows, targets = np.random.default_rng(2), [], {}
    for width in (1, 2, 4, 8, 16, 32):
        spec = Spec(bits=width)
        chance = bbit.collision_chance(width) if spec.narrow else 0.0

        def sketch(*sets: np.ndarray, spec: Spec = spec) -> np.ndarray:
            rows = bulk.pack_signatures(bulk.make_signatures(*sets, spec), spec)
            return bbit.unpack_slots(rows, spec.bits, spec.slots) if spec.narrow else rows

        def estimate(a: np.ndarray, b: np.ndarray, chance: float = chance) -> np.ndarray:
            return (_share(a, b) - chance) / (1 - chance)

        found, truth = _errors(rng, 386, 0.85, 20_000, sketch, estimate)
        share = chance + (1 - chance) * truth
        theory = math.sqrt(share * (1 - share) / spec.slots) / (1 - chance)
        size = spec.slots * width // 8
        rows.append(
            {
                "bits": width,
                "bytes a document": size,
                "bias": float(found.mean()),
                "standard error": float(found.std()),
                "in theory": theory,
                "ratio": float(found.std() / theory),
            }
        )
    targets["128 slots of one bit are 16 bytes"] = rows[0]["bytes a document"] == 16
    targets["every error within 5 % of theory"] = all(abs(row["ratio"] - 1) < 0.05 for row in rows)
    return Figure("Slots of few bits, 128 slots, J = 0.85", "random sets of 386", rows, targets)


def _share(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a == b).mean(axis=1)


def _errors(
    rng: np.random.Generator,
    size: int,
    wanted: float,
    trials: int,
    sketch: Callable[..., np.ndarray],
    estimate: Callable[..., np.ndarray],
) -> tuple[np.ndarray, float]:
    """Estimate less truth, for pairs of random sets; and the truth."""
    common = round(2 * size * wanted / (1 + wanted))
    truth = common / (2 * size - common)
    found, trials = [], min(trials, 20_000)
    for start in range(0, trials, 500):
        rows = sketch(*pairs_of_sets(rng, size, common, min(500, trials - start)))
        found.append(estimate(rows[0::2], rows[1::2]) - truth)
    return np.concatenate(found), truth


FIGURES = {"slots": slots, "error": error, "bits": bits}
