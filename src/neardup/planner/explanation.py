"""Explains an operating point: the reason for each choice, and the values that were not chosen."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from neardup.formatting import format_bytes, format_duration, format_large_number, format_number
from neardup.lsh.curve import Curve
from neardup.lsh.planes import Planes, fewest_bands
from neardup.planner.prediction import (
    Prediction,
    chance_collision_rate,
    standard_error,
    stored_bytes,
)
from neardup.planner.requirements import FULL, WIDTHS
from neardup.planner.search import (
    SLOTS,
    Search,
    Solution,
    find_missed,
    least_slots,
)
from neardup.planner.vector_plan import PlannedVectors

WIDE, NARROW = 64, 1


@dataclass(frozen=True)
class RejectedValue:
    """A value that was not chosen.

    Attributes:
        value: The value, as people read it.
        figures: Its figures by name, such as "bytes" or "recall".
        why: Why it was not chosen.
    """

    value: str
    figures: dict[str, float]
    why: str


@dataclass(frozen=True)
class Choice:
    """One parameter of an operating point.

    Attributes:
        name: The parameter: slot width, slots, scheme, bands, tables, verification or planes.
        value: The chosen value, as people read it.
        reason: Why it was chosen.
        rejected: Other values, with their figures and why they were not chosen.
    """

    name: str
    value: str
    reason: str
    rejected: list[RejectedValue] = field(default_factory=list)


def explain_choices(search: Search, solution: Solution) -> list[Choice]:
    """Return one choice for each parameter, in the order in which they depend on one another."""
    planes = explain_planes(search.vectors)
    if search.vectors is not None and search.vectors.are_all:
        return planes
    return [
        _width(search, solution),
        _slots(search, solution),
        _scheme(search, solution),
        _bands(search, solution),
        _tables(search, solution),
        _verification(search, solution),
        *planes,
    ]


def _where(search: Search) -> str:
    """Return where signatures are held: in memory for an index, else on disk."""
    return "memory" if search.sla.purpose == "index" else "disk"


def _width(search: Search, solution: Solution) -> Choice:
    """Explain the width of a slot: the widest that fits into memory or disk."""
    sla, spec, chosen = search.sla, solution.options.spec, solution.bits
    place = _where(search)
    room = sla.memory if place == "memory" else sla.disk
    rejected = []
    for bits in (WIDE, *WIDTHS):
        if bits == chosen:
            continue
        size = sla.documents * spec.slots * bits // 8
        figures = {"bytes": float(size), "error": standard_error(sla.threshold, spec.slots, bits)}
        if bits == WIDE:
            why = "twice the bytes for the same error"
        elif bits > chosen:
            why = f"with the rest, {_say_missed(search, _with_bits(search, solution, bits))}"
        else:
            why = "no requirement needs less"
        rejected.append(RejectedValue(_bits(bits), figures, why))
    if search.fixed.bits is not None:
        reason = "as given"
    elif chosen == FULL:
        asked = "and they fit" if room is not None else f"and no limit is set for {place}"
        reason = f"whole slots are the default, {asked}"
    else:
        reason = (
            "the widest that meet the requirements: bands are made of whole slots before these "
            "are cut"
        )
    each, of_all = stored_bytes(solution.options), format_bytes(solution.predicted.signatures)
    return Choice(
        "slot width",
        _bits(chosen),
        f"{reason}; {each:,} bytes a document, {of_all} in all",
        rejected,
    )


def _with_bits(search: Search, solution: Solution, bits: int) -> Prediction:
    """Predict the solution with slots of another width."""
    options = solution.options
    return search.at(
        options.spec.slots, bits, options.spec.sketch, options.verify, options.curve.parts[0]
    ).predicted


def _say_missed(search: Search, rejected: Prediction) -> str:
    """Return which requirements a rejected point misses; if none, that the chosen one was tried
    before."""
    sla = search.sla
    said = {
        "memory": f"{format_bytes(rejected.memory)} of memory, "
        f"the limit is {format_bytes(sla.memory or 0)}",
        "disk": f"{format_bytes(rejected.disk)} of disk, "
        f"the limit is {format_bytes(sla.disk or 0)}",
        "rate": f"{rejected.rate:,.0f} documents a second, {sla.rate or 0:,.0f} are required",
        "precision": f"a precision of {rejected.precision:.4f}, {sla.precision or 0:g} is required",
    }
    missed = [said[name] for name in find_missed(sla, rejected) if name in said]
    return " and ".join(missed) or f"takes {format_duration(rejected.seconds)}"


def _bits(bits: int) -> str:
    return "1 bit" if bits == 1 else f"{bits} bits"


def _slots(search: Search, solution: Solution) -> Choice:
    """Explain the number of slots: what recall, precision and time require."""
    sla, slots = search.sla, solution.options.spec.slots
    least = least_slots(sla.threshold, sla.recall)
    rejected = []
    for other in (slots // 2, slots * 2):
        if other < 1:
            continue
        figures = {
            "error": standard_error(sla.threshold, other, solution.bits),
            "bytes": sla.documents * other * solution.bits / 8,
        }
        if other < least:
            why = f"too few for a recall of {sla.recall:g} at {sla.threshold:g}: {least} are needed"
        elif other < slots:
            why = "a larger error and flatter curves, and no requirement needs fewer"
        else:
            why = "twice the bytes, and no requirement needs a smaller error"
        rejected.append(RejectedValue(f"{other} slots", figures, why))
    if search.fixed.slots is not None:
        reason = "as given"
    elif solution.slower is not None:
        reason = _faster(solution, solution.slower)
    elif slots == SLOTS:
        reason = "the default"
    elif "rate" in find_missed(sla, solution.predicted):
        reason = "the fastest that were tried"
    elif slots > SLOTS and least > SLOTS:
        reason = f"a recall of {sla.recall:g} at {sla.threshold:g} needs at least {least}"
    elif slots > SLOTS:
        reason = "fewer don't meet the requirements"
    else:
        reason = f"more don't fit into the {_where(search)}"
    return Choice(
        "slots",
        f"{slots}",
        f"{reason}; an estimate at {sla.threshold:g} has a standard error of "
        f"{solution.predicted.error:.4f}",
        rejected,
    )


def _faster(solution: Solution, slower: Solution) -> str:
    taken = format_duration(solution.predicted.seconds)
    instead = format_duration(slower.predicted.seconds)
    return f"{solution.options.spec.slots} slots make steeper bands: {taken} instead of {instead}"


def _scheme(search: Search, solution: Solution) -> Choice:
    """Explain the sketch: the default, unless the rate requires one permutation."""
    sla, spec, costs = search.sla, solution.options.spec, search.predict.costs
    other = "oneperm" if spec.sketch == "minhash" else "minhash"

    def figures(sketch: str) -> dict[str, float]:
        seconds = costs.sketch(sketch, spec.slots, sla.shingles, sla.size)
        updates = sla.shingles * (spec.slots if sketch == "minhash" else 1)
        costed = {"microseconds": 1e6 * seconds, "operations": updates}
        if sla.rate is not None:
            costed |= {"operations a second": sla.rate * updates, "cores": sla.rate * seconds}
        return costed

    mine = figures(spec.sketch)
    if sla.rate is None:
        cost = f"{format_number(mine['microseconds'])} microseconds a document on a core"
    else:
        cost = (
            f"{mine['operations a second']:,.0f} slot operations a second, with reading and "
            f"hashing {format_number(mine['cores'])} cores"
        )
    if search.fixed.sketch is not None:
        reason = "as given"
    elif spec.sketch == "minhash":
        reason = "one hash a slot, the default, is fast enough"
        if "rate" in find_missed(sla, solution.predicted):
            reason = "one hash a slot, the default"
    else:
        reason = "one permutation: a hash a slot would take too long"
    why = "no requirement needs more speed"
    if spec.sketch != "minhash":
        why = "slower with this many slots"
    elif sla.shingles < spec.slots:
        why = f"{sla.shingles:,.0f} shingles leave most of {spec.slots} slots empty"
    return Choice(
        "scheme", spec.sketch, f"{reason}; {cost}", [RejectedValue(other, figures(other), why)]
    )


def _bands(search: Search, solution: Solution) -> Choice:
    """Explain bands and rows: the steepest curve that reaches the recall."""
    sla, slots = search.sla, solution.options.spec.slots
    curve = solution.options.curve.parts[0]
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
            why = (
                f"finds {recall:.3f} of the pairs at {sla.threshold:g}, {sla.recall:g} are required"
            )
        else:
            why = "finds enough, with more false candidates and more postings"
        rejected.append(
            RejectedValue(f"{other.bands} x {other.rows}", _figures(other, search), why)
        )
    narrow = min(solution.bits, NARROW)
    rejected.append(
        RejectedValue(
            f"bands of {narrow}-bit slots",
            {"meet by chance": chance_collision_rate(curve, narrow)},
            "unrelated documents would meet: bands are made of whole slots, which are cut "
            "afterwards",
        )
    )
    mine = _figures(curve, search)
    if search.fixed.curve is not None:
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


def _tables(search: Search, solution: Solution) -> Choice:
    """Explain why there is one table, without probes."""
    sla, curve = search.sla, solution.options.curve
    recall = curve.probability(sla.threshold)
    twice = 1 - (1 - recall) ** 2
    postings = sla.documents * solution.options.hash_tables.count
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
            {"lookups": float(solution.options.hash_tables.count + curve.slots)},
            "they cost lookups instead of memory, and what they find has no formula: "
            "docs/choosing.md has what was measured",
        ),
    ]
    reason = (
        f"one table of {solution.options.hash_tables.count} bands has "
        f"{format_large_number(postings)} postings"
    )
    if not enough:
        needed = math.ceil(math.log1p(-sla.recall) / math.log1p(-recall)) if recall > 0 else 0
        reason += f"; {needed} would find enough, 1 - (1 - {recall:.3f})^{needed}"
    return Choice("tables", "1, no probes", reason, rejected)


def _verification(search: Search, solution: Solution) -> Choice:
    """Explain how candidates are verified: exactly, unless the shingles don't fit."""
    options = solution.options
    if search.vectors is not None:
        return Choice("verification", "exact", "vectors are compared exactly, and so are texts")
    other = "estimate" if options.verify == "exact" else "exact"
    alternative = search.at(
        options.spec.slots, solution.bits, options.spec.sketch, other, options.curve.parts[0]
    ).predicted
    figures = {
        "precision": alternative.precision,
        "recall above": alternative.recall_above,
        "bytes": alternative.disk,
    }
    if options.verify == "exact":
        reason = "every candidate is compared by its shingles: what is removed is a duplicate"
        error = f"{solution.predicted.error:.3f}"
        why = f"wrong by {error} at the threshold: half of the pairs there fail"
    else:
        reason = f"by signatures, wrong by {solution.predicted.error:.3f} at the threshold"
        why = f"with all shingles, {_say_missed(search, alternative)}"
    if search.fixed.verify is not None:
        reason, why = f"as given: {reason}", "not asked for"
    return Choice("verification", options.verify, reason, [RejectedValue(other, figures, why)])


def explain_planes(vectors: PlannedVectors | None) -> list[Choice]:
    """Explain the bands of planes, if vectors find candidates.

    Args:
        vectors: The vectors of the plan.
    """
    if vectors is None or (found := vectors.found) is None:
        return []
    rejected = []
    for rows in (found.planes.rows - 3, found.planes.rows + 3):
        bands = fewest_bands(found.around.at(found.threshold), found.recall, rows)
        if bands is None:
            continue
        other = replace(found, planes=Planes(bands, rows))
        figures = {"in vain": other.compared, "seconds": other.seconds}
        why = "compares more" if rows < found.planes.rows else "needs more keys"
        rejected.append(RejectedValue(str(other.planes), figures, f"finds as much, and {why}"))
    is_given = vectors.signal.planes is not None
    reason = "as given" if is_given else "the least work that finds enough"
    return [
        Choice(
            "planes",
            str(found.planes),
            f"{reason}, by {vectors.layout.sample.sampled:,} sampled vectors: {found.recall:.4f} "
            f"of the pairs at cosine {found.threshold:g}; {format_number(found.compared)} pairs a "
            f"document are compared in vain, {format_duration(found.seconds)} of one core",
            rejected,
        )
    ]
