"""Explains an operating point: the reason for each choice, and the limits that it misses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from neardup.formatting import format_bytes, format_duration, format_large_number, format_number
from neardup.lsh.curve import Curve
from neardup.pipeline.stages.rank import MAX_DOCUMENTS
from neardup.planner.prediction import chance_collision_rate, standard_error, stored_bytes
from neardup.planner.requirements import FULL, WIDTHS
from neardup.planner.search import (
    SLOTS,
    Search,
    Solution,
    best_curve,
    find_missed,
    least_slots,
)

WIDE, NARROW = 64, 1


@dataclass(frozen=True)
class RejectedValue:
    """Something that was not chosen: its figures, and why not."""

    value: str
    figures: dict[str, float]
    why: str


@dataclass(frozen=True)
class Choice:
    """What was chosen, and why."""

    name: str
    value: str
    reason: str
    rejected: list[RejectedValue] = field(default_factory=list)


def explain_choices(search: Search, found: Solution) -> list[Choice]:
    """All of them, in the order in which one follows from the other."""
    return [
        _width(search, found),
        _slots(search, found),
        _scheme(search, found),
        _bands(search, found),
        _tables(search, found),
        _verification(search, found),
    ]


def _where(search: Search) -> str:
    return "memory" if search.sla.purpose == "index" else "disk"


def _width(search: Search, found: Solution) -> Choice:
    """From the corpus and the memory: how much is stored of a slot?"""
    sla, spec, chosen = search.sla, found.options.spec, found.bits
    place = _where(search)
    room = sla.memory if place == "memory" else sla.disk
    total = found.predicted.memory if place == "memory" else found.predicted.disk
    rejected = []
    for bits in (WIDE, *WIDTHS):
        if bits == chosen:
            continue
        size = sla.documents * spec.slots * bits // 8
        figures = {"bytes": float(size), "error": standard_error(sla.threshold, spec.slots, bits)}
        if bits == WIDE:
            why = "twice the bytes for the same error"
        elif bits > chosen:
            needed = total + size - found.predicted.signatures
            why = (
                f"{format_bytes(needed)} of {place} with the rest, "
                f"{format_bytes(room or 0)} are there"
            )
        else:
            why = "nothing asks for less"
        rejected.append(RejectedValue(_bits(bits), figures, why))
    if search.given.bits is not None:
        reason = "as given"
    elif chosen == FULL:
        asked = "and they fit" if room is not None else f"and no limit is set for {place}"
        reason = f"whole slots are the default, {asked}"
    else:
        reason = (
            f"the widest that fit into {format_bytes(room or 0)} of {place}: bands are made "
            "of whole "
            "slots before these are cut"
        )
    each, of_all = stored_bytes(found.options), format_bytes(found.predicted.signatures)
    return Choice(
        "slot width",
        _bits(chosen),
        f"{reason}; {each:,} bytes a document, {of_all} in all",
        rejected,
    )


def _bits(bits: int) -> str:
    return "1 bit" if bits == 1 else f"{bits} bits"


def _slots(search: Search, found: Solution) -> Choice:
    """From the accuracy: how many slots?"""
    sla, slots = search.sla, found.options.spec.slots
    least = least_slots(sla.threshold, sla.recall)
    rejected = []
    for other in (slots // 2, slots * 2):
        if other < 1:
            continue
        figures = {
            "error": standard_error(sla.threshold, other, found.bits),
            "bytes": sla.documents * other * found.bits / 8,
        }
        if other < least:
            why = f"too few for a recall of {sla.recall:g} at {sla.threshold:g}: {least} are needed"
        elif other < slots:
            why = "a larger error and flatter curves, and nothing asks for less"
        else:
            why = "twice the bytes, and nothing asks for a smaller error"
        rejected.append(RejectedValue(f"{other} slots", figures, why))
    if search.given.slots is not None:
        reason = "as given"
    elif found.slower is not None:
        reason = _faster(found, found.slower)
    elif slots == SLOTS:
        reason = "the default"
    elif slots > SLOTS and least > SLOTS:
        reason = f"a recall of {sla.recall:g} at {sla.threshold:g} needs at least {least}"
    elif slots > SLOTS:
        reason = "fewer don't reach what is asked for"
    else:
        reason = f"more don't fit into the {_where(search)}"
    return Choice(
        "slots",
        f"{slots}",
        f"{reason}; an estimate at {sla.threshold:g} has a standard error of "
        f"{found.predicted.error:.4f}",
        rejected,
    )


def _faster(found: Solution, slower: Solution) -> str:
    taken = format_duration(found.predicted.seconds)
    instead = format_duration(slower.predicted.seconds)
    return f"{found.options.spec.slots} slots make steeper bands: {taken} instead of {instead}"


def _scheme(search: Search, found: Solution) -> Choice:
    """From the rate: how are signatures made?"""
    sla, spec, costs = search.sla, found.options.spec, search.predict.costs
    other = "oneperm" if spec.sketch == "minhash" else "minhash"

    def figures(sketch: str) -> dict[str, float]:
        seconds = costs.sketch(sketch, spec.slots, sla.shingles, sla.size)
        updates = sla.shingles * (spec.slots if sketch == "minhash" else 1)
        seen = {"microseconds": 1e6 * seconds, "operations": updates}
        if sla.rate is not None:
            seen |= {"operations a second": sla.rate * updates, "cores": sla.rate * seconds}
        return seen

    mine = figures(spec.sketch)
    if sla.rate is None:
        cost = f"{format_number(mine['microseconds'])} microseconds a document on a core"
    else:
        cost = (
            f"{mine['operations a second']:,.0f} slot operations a second, with reading and "
            f"hashing {format_number(mine['cores'])} cores"
        )
    if search.given.sketch is not None:
        reason = "as given"
    elif spec.sketch == "minhash":
        reason = "one hash a slot, the default, is fast enough"
        if "rate" in find_missed(sla, found.predicted):
            reason = "one hash a slot, the default"
    else:
        reason = "one permutation: a hash a slot would take too long"
    why = "nothing asks for more speed"
    if spec.sketch != "minhash":
        why = "slower at so many slots"
    elif sla.shingles < spec.slots:
        why = f"{sla.shingles:,.0f} shingles leave most of {spec.slots} slots empty"
    return Choice(
        "scheme", spec.sketch, f"{reason}; {cost}", [RejectedValue(other, figures(other), why)]
    )


def _bands(search: Search, found: Solution) -> Choice:
    """From the recall: how many bands of how many rows?"""
    sla, slots = search.sla, found.options.spec.slots
    curve = found.options.curve.parts[0]
    powers = [Curve(slots // rows, rows) for rows in (4, 8, 16) if rows <= slots]
    near = [
        Curve(slots // rows, rows)
        for rows in (curve.rows + 1, curve.rows - 1)
        if 1 <= rows <= slots
    ]
    rejected = []
    for other in sorted({*powers, *near} - {curve}, key=lambda one: one.rows):
        recall = other.probability(sla.threshold)
        if recall < sla.recall:
            why = f"finds {recall:.3f} of the pairs at {sla.threshold:g}, {sla.recall:g} are asked"
        else:
            why = "finds enough, with more false candidates and more postings"
        rejected.append(
            RejectedValue(f"{other.bands} x {other.rows}", _figures(other, search), why)
        )
    narrow = min(found.bits, NARROW)
    rejected.append(
        RejectedValue(
            f"bands of {narrow}-bit slots",
            {"meet by chance": chance_collision_rate(curve, narrow)},
            "unrelated documents would meet: bands are made of whole slots, which are cut "
            "afterwards",
        )
    )
    mine = _figures(curve, search)
    if search.given.curve is not None:
        reason = "as given"
    elif mine["recall"] >= sla.recall:
        reason = "the steepest curve that finds enough"
    else:
        reason = "as close as so few slots come"
    return Choice(
        "bands",
        f"{curve.bands} x {curve.rows}",
        f"{reason}: {mine['recall']:.4f} of the pairs at {sla.threshold:g}; its threshold "
        f"estimate (1/b)^(1/r) is {mine['estimate']:.3f}",
        rejected,
    )


def _figures(curve: Curve, search: Search) -> dict[str, float]:
    threshold = search.sla.threshold
    return {
        "estimate": curve.estimate,
        "recall": curve.probability(threshold),
        "false rate": curve.false_positive_rate(threshold),
        "postings": float(curve.bands),
    }


def _tables(search: Search, found: Solution) -> Choice:
    """More recall: more tables, or more lookups a query?"""
    sla, curve = search.sla, found.options.curve
    recall = curve.probability(sla.threshold)
    twice = 1 - (1 - recall) ** 2
    postings = sla.documents * found.options.hash_tables.count
    enough = recall >= sla.recall
    why = "one finds enough" if enough else "give --slots for more"
    rejected = [
        RejectedValue(
            "2 tables",
            {
                "recall": twice,
                "slots": float(2 * curve.slots),
                "postings": 2.0 * postings,
            },
            f"{why}; a second one doubles slots, postings and lookups",
        ),
        RejectedValue(
            "probes",
            {"lookups": float(found.options.hash_tables.count + curve.slots)},
            "they cost lookups instead of memory, and what they find has no formula: "
            "docs/choosing.md has what was measured",
        ),
    ]
    reason = (
        f"one table of {found.options.hash_tables.count} bands has "
        f"{format_large_number(postings)} postings"
    )
    if not enough:
        needed = math.ceil(math.log1p(-sla.recall) / math.log1p(-recall)) if recall > 0 else 0
        reason += f"; {needed} would find enough, 1 - (1 - {recall:.3f})^{needed}"
    return Choice("tables", "1, no probes", reason, rejected)


def _verification(search: Search, found: Solution) -> Choice:
    """Who judges the candidates?"""
    options, sla = found.options, search.sla
    other = "estimate" if options.verify == "exact" else "exact"
    beside = search.at(
        options.spec.slots, found.bits, options.spec.sketch, other, options.curve.parts[0]
    ).predicted
    figures = {
        "precision": beside.precision,
        "recall above": beside.recall_above,
        "bytes": beside.disk,
    }
    if options.verify == "exact":
        reason = "every candidate is compared by its shingles: what is removed is a duplicate"
        why = f"wrong by {found.predicted.error:.3f} at the threshold: half of the pairs there fail"
    else:
        reason = f"by signatures, wrong by {found.predicted.error:.3f} at the threshold"
        why = (
            f"the shingles take {format_bytes(beside.disk)} of disk, "
            f"{format_bytes(sla.disk or 0)} are there"
        )
    if search.given.verify is not None:
        reason, why = f"as given: {reason}", "not asked for"
    return Choice("verification", options.verify, reason, [RejectedValue(other, figures, why)])


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
