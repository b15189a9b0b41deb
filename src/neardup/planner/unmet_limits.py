"""The limits that an operating point misses, each with its cures; and what it warns of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from neardup.first_look import warn_of_comparisons
from neardup.formatting import format_bytes, format_count, format_duration, format_number
from neardup.lsh.curve import Curve
from neardup.pipeline.stages.rank import MAX_DOCUMENTS
from neardup.planner.prediction import Prediction
from neardup.planner.requirements import Sla
from neardup.planner.search import Search, Solution, best_curve, find_missed, least_slots

MOST_CORES = 1_024
"""Hardly a machine has more."""
MANY_COMPARED = 10
"""Pairs a document, of which most are compared in vain."""
FLAT, FEW_DOCUMENTS = 2, 10_000
"""Bands of at most FLAT rows make most documents candidates; small corpora can afford it."""


@dataclass(frozen=True)
class UnmetLimit:
    """A requirement that the operating point misses.

    Attributes:
        limit: The requirement: recall, precision, memory, disk, rate or documents.
        wanted: The required value.
        reached: The predicted value.
        message: What is missed, as a sentence.
        cures: What would help, each on its own.

    >>> print(UnmetLimit("disk", 1e12, 2e12, "2 TB of disk are needed", ["give 2 TB"]))
    2 TB of disk are needed: give 2 TB
    """

    limit: str
    wanted: float
    reached: float
    message: str
    cures: list[str]

    def __str__(self) -> str:
        return f"{self.message}: {', or '.join(self.cures)}"


def find_problems(search: Search, solution: Solution) -> list[UnmetLimit]:
    """Return the requirements that the solution misses, the worst first."""
    missed = find_missed(search.sla, solution.predicted)
    return [
        _PROBLEMS[name](search, solution) for name in sorted(missed, key=lambda name: -missed[name])
    ]


def note_comparisons(search: Search, solution: Solution) -> list[str]:
    """Return a warning if too many documents that are not similar are compared."""
    options, documents = solution.options, search.sla.documents
    if search.vectors is not None:
        return []  # planes that would compare too many pairs are refused
    rows = min(part.rows for part in options.curve.parts)
    if rows > FLAT or documents <= FEW_DOCUMENTS:
        warning = warn_of_comparisons(options, documents, solution.predicted.false)
        return [] if warning is None else [warning]
    return [
        f"bands of {rows} {'row' if rows == 1 else 'rows'} make unrelated documents candidates, "
        f"{format_number(solution.predicted.compared)} comparisons for each: more slots, a lower "
        "recall or a higher threshold make steeper bands"
    ]


def _recall(search: Search, solution: Solution) -> UnmetLimit:
    """Describe a missed recall."""
    if search.vectors is not None and search.vectors.are_all:
        return _recall_of_planes(search, solution)
    sla, curve = search.sla, solution.options.curve.parts[0]
    reached, slots = solution.predicted.recall, solution.options.spec.slots
    cures = []
    if search.fixed.curve is not None:
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


def _recall_of_planes(search: Search, solution: Solution) -> UnmetLimit:
    """Describe a recall that given planes miss."""
    sla, reached = search.sla, solution.predicted.recall
    message = (
        f"recall {sla.recall:g} at cosine {sla.threshold:g} is not reached, "
        f"{solution.options.hash_tables} reach {reached:.4f}"
    )
    cures = ["leave out --planes", f"ask for a recall of {math.floor(reached * 1000) / 1000:.3f}"]
    return UnmetLimit("recall", sla.recall, reached, message, cures)


def _banded(curve: Curve, threshold: float) -> str:
    return f"use {curve.bands} x {curve.rows}, which reach {curve.probability(threshold):.4f}"


def _reachable(curve: Curve, recall: float) -> float:
    """Return the similarity at which a curve reaches a recall: (1 - (1 - recall)^(1/b))^(1/r)."""
    one_band = -math.expm1(math.log1p(-recall) / curve.bands)
    return float(one_band ** (1 / curve.rows))


def _precision(search: Search, solution: Solution) -> UnmetLimit:
    """Describe a missed precision."""
    sla, reached = search.sla, solution.predicted.precision
    message = (
        f"precision {sla.precision:g} is not reached, estimates of "
        f"{solution.options.spec.slots} slots reach {reached:.3f}"
    )
    cures = [*_exact_disk(search, solution), "use more slots"]
    return UnmetLimit("precision", sla.precision or 0.0, reached, message, cures)


def _exact_disk(search: Search, solution: Solution) -> Iterator[str]:
    """Yield the cure for a missed precision: disk for exact verification."""
    options = solution.options
    exact = search.at(
        options.spec.slots, solution.bits, options.spec.sketch, "exact", options.curve.parts[0]
    )
    yield f"give {format_bytes(exact.predicted.disk)} of disk for exact verification"


def _memory(search: Search, solution: Solution) -> UnmetLimit:
    """Describe a missed memory."""
    sla, needed = search.sla, solution.predicted.memory
    room = sla.memory or 0
    message = f"{format_bytes(needed)} of memory are needed, the limit is {format_bytes(room)}"
    cures = [f"give {format_bytes(needed)}"]
    if sla.purpose == "index":
        cures.append(f"use {solution.predicted.machines} machines")
        if search.fixed.slots or search.fixed.bits:
            cures.append("leave --slots and --bits to the plan")
    fewer = int(sla.documents * room / needed)
    cures.append(f"hold {fewer:,} documents")
    return UnmetLimit("memory", room, needed, message, cures)


def _disk(search: Search, solution: Solution) -> UnmetLimit:
    """Describe a missed disk."""
    sla, needed = search.sla, solution.predicted.disk
    room = sla.disk or 0
    cures = [f"give {format_bytes(needed)}"]
    kept = sum(stage.written for stage in solution.predicted.stages if stage.name == "filter")
    if kept:
        cures.append(f"run with --no-kept, which saves {format_bytes(kept)}")
    message = f"{format_bytes(needed)} of disk are needed, the limit is {format_bytes(room)}"
    return UnmetLimit("disk", room, needed, message, cures)


def _rate(search: Search, solution: Solution) -> UnmetLimit:
    """Describe a missed rate."""
    sla, reached = search.sla, solution.predicted.rate
    wanted = sla.rate or 0.0
    cores = _enough_cores(search, solution)
    message = f"{describe_rate(sla)} "
    message += "arrive, " if sla.purpose == "index" else "are required, "
    message += f"{format_count(sla.cores, 'core')} take {reached:,.0f}"
    cures = [f"give {cores:,} cores"] if cores is not None else []
    if sla.purpose == "index":
        cures.append(f"use {solution.predicted.machines:,} machines")
        return UnmetLimit("rate", wanted, reached, message, cures)
    longest = max(solution.predicted.stages, key=lambda stage: stage.seconds)
    if cores is None:
        most = _with_cores(search, solution, MOST_CORES).rate
        message += (
            f", {MOST_CORES:,} would take {most:,.0f} (the stage {longest.name} takes "
            f"{format_duration(longest.seconds)} of {format_duration(solution.predicted.seconds)}, "
            "and hardly less with more cores)"
        )
    if longest.name == "decide" and solution.predicted.compared > MANY_COMPARED:
        cures.append(
            "ask for a higher threshold or a lower recall, so that fewer than "
            f"{format_number(solution.predicted.compared)} pairs a document are compared"
        )
    if longest.name != "start":
        cures.append("share the work among machines with --engine spark")
    cures.append(
        f"ask for {math.floor(reached):,} documents a second ({as_hours(sla.documents / reached)})"
    )
    return UnmetLimit("rate", wanted, reached, message, cures)


def describe_rate(sla: Sla) -> str:
    """Return the required rate in words; of a run over files, with the time for all documents."""
    rate = sla.rate or 0.0
    within = f", {format_duration(sla.documents / rate)} for all," if sla.purpose == "files" else ""
    return f"{rate:,.0f} documents a second{within}"


def as_hours(seconds: float) -> str:
    """Return a time, rounded up, as the option that asks for it.

    >>> as_hours(7_200), as_hours(100)
    ('--hours 2', '--hours 0.03')
    """
    return f"--hours {math.ceil(seconds / 36) / 100:.12g}"


def _enough_cores(search: Search, solution: Solution) -> int | None:
    """Return the least number of cores with which all requirements are met but those that are
    missed besides the rate; None if no machine has as many."""
    others = find_missed(search.sla, solution.predicted).keys() - {"rate"}

    def enough(cores: int) -> bool:
        return find_missed(search.sla, _with_cores(search, solution, cores)).keys() <= others

    few, many = search.sla.cores, MOST_CORES
    if few >= many or not enough(many):
        return None
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if enough(middle) else (middle, many)
    return many


def _with_cores(search: Search, solution: Solution, cores: int) -> Prediction:
    """Predict the solution on a machine with another number of cores."""
    predict = replace(search.predict, sla=replace(search.predict.sla, cores=cores))
    return predict(solution.options)


def _documents(search: Search, _: Solution) -> UnmetLimit:
    """Describe more documents than one run takes."""
    count = search.sla.documents
    runs = math.ceil(count / MAX_DOCUMENTS)
    message = f"{count:,} documents are more than the {MAX_DOCUMENTS:,} that one run takes"
    cures = [f"make {runs} runs, each --against those before"]
    return UnmetLimit("documents", count, MAX_DOCUMENTS, message, cures)


_PROBLEMS: dict[str, Callable[[Search, Solution], UnmetLimit]] = {
    "recall": _recall,
    "precision": _precision,
    "memory": _memory,
    "disk": _disk,
    "rate": _rate,
    "documents": _documents,
}
