"""The limits that an operating point misses, and what would help."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from neardup.formatting import format_bytes, format_number
from neardup.lsh.curve import Curve
from neardup.pipeline.stages.rank import MAX_DOCUMENTS
from neardup.planner.search import Search, Solution, best_curve, find_missed, least_slots

FLAT, FEW_DOCUMENTS = 2, 10_000
"""Rows of bands in which almost everything meets, and how many documents don't mind."""


@dataclass(frozen=True)
class UnmetLimit:
    """Something that is missed."""

    limit: str
    wanted: float
    reached: float
    message: str
    cures: list[str]

    def __str__(self) -> str:
        return f"{self.message}: {', or '.join(self.cures)}"


def find_problems(search: Search, found: Solution) -> list[UnmetLimit]:
    """What the point misses, worst first."""
    missed = find_missed(search.sla, found.predicted)
    return [_TELL[name](search, found) for name in sorted(missed, key=lambda name: -missed[name])]


def note_flat_bands(search: Search, found: Solution) -> list[str]:
    """What is no failure, but should be known."""
    rows = min(part.rows for part in found.options.curve.parts)
    if rows > FLAT or search.sla.documents <= FEW_DOCUMENTS:
        return []
    return [
        f"bands of {rows} {'row' if rows == 1 else 'rows'} make documents meet that have little in "
        f"common, {format_number(found.predicted.compared)} comparisons for each: more "
        "slots, a lower "
        "recall or a higher threshold make steeper bands"
    ]


def _recall(search: Search, found: Solution) -> UnmetLimit:
    sla, curve = search.sla, found.options.curve.parts[0]
    reached, slots = found.predicted.recall, found.options.spec.slots
    cures = []
    if search.given.curve is not None:
        better = best_curve(
            max(slots, least_slots(sla.threshold, sla.recall)), sla.threshold, sla.recall
        )
        cures.append(_banded(better, sla.threshold))
        many = math.ceil(math.log1p(-sla.recall) / math.log1p(-reached)) if reached > 0 else 0
        if 1 < many <= 100:
            cures.append(f"{many} tables of them, {many * curve.slots} slots")
    else:
        cures.append(f"use {least_slots(sla.threshold, sla.recall)} slots or more")
    cures += [
        f"a threshold of {_reachable(curve, sla.recall):.3f} or more",
        f"ask for a recall of {math.floor(reached * 1000) / 1000:.3f}",
    ]
    message = (
        f"recall {sla.recall:g} at {sla.threshold:g} is not reached, {curve.bands} bands of "
        f"{curve.rows} reach {reached:.4f}"
    )
    return UnmetLimit("recall", sla.recall, reached, message, cures)


def _banded(curve: Curve, threshold: float) -> str:
    return f"use {curve.bands} x {curve.rows}, which reach {curve.probability(threshold):.4f}"


def _reachable(curve: Curve, recall: float) -> float:
    """The similarity at which the curve has this recall: (1 - (1 - recall)^(1/b))^(1/r)."""
    one_band = -math.expm1(math.log1p(-recall) / curve.bands)
    return float(one_band ** (1 / curve.rows))


def _precision(search: Search, found: Solution) -> UnmetLimit:
    sla, reached = search.sla, found.predicted.precision
    message = (
        f"precision {sla.precision:g} is not reached, estimates of "
        f"{found.options.spec.slots} slots reach {reached:.3f}"
    )
    cures = [*_exact_disk(search, found), "use more slots"]
    return UnmetLimit("precision", sla.precision or 0.0, reached, message, cures)


def _exact_disk(search: Search, found: Solution) -> Iterator[str]:
    options = found.options
    exact = search.at(
        options.spec.slots, found.bits, options.spec.sketch, "exact", options.curve.parts[0]
    )
    yield f"give {format_bytes(exact.predicted.disk)} of disk for exact verification"


def _memory(search: Search, found: Solution) -> UnmetLimit:
    sla, needed = search.sla, found.predicted.memory
    room = sla.memory or 0
    message = f"{format_bytes(needed)} of memory are needed, {format_bytes(room)} are there"
    cures = [f"give {format_bytes(needed)}"]
    if sla.purpose == "index":
        cures.append(f"use {found.predicted.machines} machines")
        if search.given.slots or search.given.bits:
            cures.append("leave --slots and --bits to the plan")
    fewer = int(sla.documents * room / needed)
    cures.append(f"hold {fewer:,} documents")
    return UnmetLimit("memory", room, needed, message, cures)


def _disk(search: Search, found: Solution) -> UnmetLimit:
    sla, needed = search.sla, found.predicted.disk
    room = sla.disk or 0
    cures = [f"give {format_bytes(needed)}"]
    kept = sum(stage.written for stage in found.predicted.stages if stage.name == "filter")
    if kept:
        cures.append(f"run with --no-kept, which saves {format_bytes(kept)}")
    message = f"{format_bytes(needed)} of disk are needed, {format_bytes(room)} are there"
    return UnmetLimit("disk", room, needed, message, cures)


def _rate(search: Search, found: Solution) -> UnmetLimit:
    sla, reached = search.sla, found.predicted.rate
    wanted = sla.rate or 0.0
    cores = math.ceil(sla.cores * wanted / reached)
    message = f"{wanted:,.0f} documents a second arrive, {sla.cores} cores take {reached:,.0f}"
    cures = [f"give {cores} cores", f"use {found.predicted.machines} machines"]
    return UnmetLimit("rate", wanted, reached, message, cures)


def _documents(search: Search, _: Solution) -> UnmetLimit:
    count = search.sla.documents
    runs = math.ceil(count / MAX_DOCUMENTS)
    message = f"{count:,} documents are more than the {MAX_DOCUMENTS:,} that one run takes"
    cures = [f"make {runs} runs, each --against those before"]
    return UnmetLimit("documents", count, MAX_DOCUMENTS, message, cures)


_TELL: dict[str, Callable[[Search, Solution], UnmetLimit]] = {
    "recall": _recall,
    "precision": _precision,
    "memory": _memory,
    "disk": _disk,
    "rate": _rate,
    "documents": _documents,
}
