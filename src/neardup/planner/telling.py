"""A plan in words: what was asked for, what is expected, in units that people read."""

from __future__ import annotations

import math
from collections.abc import Callable

from neardup.formatting import format_bytes, format_count, format_duration, format_number
from neardup.planner import telling_spark
from neardup.planner.choices import Rejected
from neardup.planner.planner import Plan

_UNITS: dict[str, Callable[[float], str]] = {
    "bytes": format_bytes,
    "error": lambda value: f"standard error {value:.4f}",
    "microseconds": lambda value: f"{format_number(value)} microseconds a document",
    "operations": lambda value: f"{value:,.0f} slot operations a document",
    "operations a second": lambda value: f"{value:,.0f} a second",
    "cores": lambda value: f"{format_number(value)} cores",
    "estimate": lambda value: f"threshold estimate {value:.3f}",
    "recall": lambda value: f"recall {value:.4f}",
    "recall above": lambda value: f"recall above the threshold {value:.4f}",
    "false rate": lambda value: f"meets {value:.3f} of what is below",
    "postings": lambda value: f"{value:,.0f} postings",
    "meet by chance": lambda value: f"{format_number(value)} meet by chance",
    "slots": lambda value: f"{value:,.0f} slots",
    "lookups": lambda value: f"{value:,.0f} lookups",
    "precision": lambda value: f"precision {value:.4f}",
}
"""How each figure of what was rejected is said."""


def figures(rejected: Rejected) -> str:
    """The figures of something that was not chosen."""
    known = {name: value for name, value in rejected.figures.items() if math.isfinite(value)}
    return ", ".join(_UNITS[name](value) for name, value in known.items())


def asked(plan: Plan) -> str:
    """What was asked for, in a line or two."""
    sla = plan.sla
    what = {"files": "a run over files", "index": "an index in memory"}[sla.purpose]
    cores = format_count(sla.cores, "core")
    if plan.spark is not None:
        what, cores = "a run over files on Spark", f"executors of {cores}"
    limits = [f"recall {sla.recall:g} at {sla.threshold:g}"]
    limits += [] if sla.precision is None else [f"precision {sla.precision:g}"]
    limits += [] if sla.memory is None else [f"{format_bytes(sla.memory)} of memory"]
    limits += [] if sla.disk is None else [f"{format_bytes(sla.disk)} of disk"]
    limits += [] if sla.rate is None else [f"{sla.rate:,.0f} documents a second"]
    return (
        f"{sla.documents:,} documents of {sla.shingles:,.0f} shingles and "
        f"{format_bytes(sla.size)}, "
        f"{what}: {', '.join(limits)}, {cores}"
    )


def expected(plan: Plan) -> list[str]:
    """What is predicted, a line each."""
    seen = plan.predicted
    width, slots, scheme, bands, _, verification = (choice.value for choice in plan.choices)
    spent = _of_one_machine(plan) if plan.spark is None else telling_spark.expected(plan.spark)
    lines = [
        (
            "point",
            f"{scheme}, {slots} slots of {width}, {bands} bands, {verification} verification",
        ),
        ("recall", f"{seen.recall:.4f} at the threshold{_above(seen.recall_above)}"),
        ("precision", f"{seen.precision:.4f}"),
        (
            "compared",
            f"{format_number(seen.compared)} pairs a document, "
            f"{format_number(seen.false)} for nothing",
        ),
        *spent,
        *plan.sources.items(),
    ]
    return [f"{name:<11}{said}" for name, said in lines]


def _of_one_machine(plan: Plan) -> list[tuple[str, str]]:
    seen = plan.predicted
    return [
        ("memory", format_bytes(seen.memory) + _tables(plan)),
        ("disk", format_bytes(seen.disk)),
        ("time", f"{format_duration(seen.seconds)}, {format_duration(seen.work)} of the processor"),
        ("rate", f"{seen.rate:,.0f} documents a second"),
        ("machines", f"{seen.machines:,}"),
    ]


def _tables(plan: Plan) -> str:
    """What `neardup index stats` will say of them."""
    held = plan.predicted.tables
    if held is None:
        return ""
    return f", its tables {format_bytes(held)}: {held / plan.sla.documents:,.0f} bytes a document"


def _above(recall: float) -> str:
    return "" if math.isnan(recall) else f", {recall:.4f} of all pairs above it"


def stages(plan: Plan) -> list[str]:
    """The stages of a run over files, as a small table."""
    if plan.spark is not None:
        return ["", *telling_spark.stages(plan.spark), "", *telling_spark.settings(plan.spark)]
    if not plan.predicted.stages:
        return []
    head = f"{'stage':<9}{'time':>9}{'read':>9}{'written':>9}{'memory':>9}"
    return [
        "",
        head,
        *(
            f"{one.name:<9}{format_duration(one.seconds):>9}{format_bytes(one.read):>9}{format_bytes(one.written):>9}"
            f"{format_bytes(one.memory):>9}"
            for one in plan.predicted.stages
        ),
    ]
