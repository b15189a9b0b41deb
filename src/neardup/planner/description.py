"""A plan in words: the requirements, the prediction, the stages; on Spark also the cluster."""

from __future__ import annotations

import math
from collections.abc import Callable

from neardup.formatting import format_bytes, format_count, format_duration, format_number
from neardup.planner.explanation import RejectedValue
from neardup.planner.planner import Plan
from neardup.planner.spark_cluster import ClusterSize

FLAGS = {
    "spark.executor.instances": "--num-executors",
    "spark.executor.cores": "--executor-cores",
    "spark.executor.memory": "--executor-memory",
    "spark.driver.memory": "--driver-memory",
}
"""Settings that spark-submit has an option for."""


def describe_cluster(found: ClusterSize) -> list[tuple[str, str]]:
    """What a run takes, by name."""
    needs = found.needs
    deciding = "in one task"
    if found.ranges:
        deciding = f"by rounds, in {format_count(found.ranges, 'range')} of documents"
    return [
        (
            "executors",
            f"{found.executors:,} of {format_count(found.cores, 'core')} and "
            f"{format_bytes(found.memory)}: {format_duration(found.seconds)}",
        ),
        ("or", _others(found)),
        (
            "work",
            f"{format_number(found.core_hours)} core-hours, "
            f"{format_number(found.core_hours_a_tb)} for a TB "
            f"of text; {format_duration(found.alone)} by one task alone",
        ),
        (
            "shuffle",
            f"{format_bytes(found.shuffled)}, {format_bytes(found.shuffled_a_document)} a "
            "document; "
            f"{format_bytes(found.if_ordered)} with another --keep than first, or for a "
            "DataFrame",
        ),
        (
            "disk",
            f"{format_bytes(found.shuffle_disk)} for shuffles on each executor, "
            f"{format_bytes(found.work_folder)} in the work folder, "
            f"{format_bytes(found.out)} in OUT",
        ),
        ("deciding", deciding),
        (
            "python",
            f"{format_bytes(needs.worker)} for each core: {format_bytes(needs.python)} of program, "
            f"{format_bytes(needs.task)} for the sets of a range, {format_bytes(needs.bitmaps)} of "
            f"bitmaps, {format_bytes(needs.state)} for the rounds",
        ),
        (
            "driver",
            f"{format_bytes(needs.driver)} for Java, "
            f"{format_bytes(needs.driver_python)} for Python",
        ),
    ]


def _others(found: ClusterSize) -> str:
    """Other numbers of executors, and their times."""
    return ", ".join(
        f"{format_count(executors, 'executor')} {format_duration(seconds)}"
        for executors, seconds in found.times
    )


def format_spark_stages(found: ClusterSize) -> list[str]:
    """The stages as a small table."""
    head = (
        f"{'stage':<15}{'core time':>10}{'shuffled':>10}{'read':>10}{'written':>10}{'to OUT':>10}"
    )
    return [
        head,
        *(
            f"{one.name:<15}{format_duration(one.work):>10}{format_bytes(one.shuffled):>10}{format_bytes(one.read):>10}"
            f"{format_bytes(one.written):>10}{format_bytes(one.out):>10}"
            for one in found.stages
        ),
    ]


def format_submit_line(found: ClusterSize) -> list[str]:
    """What to give to spark-submit, an option or some a line."""
    flags = [f"{flag} {found.settings[name]}" for name, flag in FLAGS.items()]
    others = [
        f"--conf {name}={value}" for name, value in found.settings.items() if name not in FLAGS
    ]
    lines = [f"spark-submit {' '.join(flags[:2])}", " ".join(flags[2:]), *others]
    return " \\\n    ".join(lines).splitlines()


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


def format_figures(rejected: RejectedValue) -> str:
    """The figures of something that was not chosen."""
    known = {name: value for name, value in rejected.figures.items() if math.isfinite(value)}
    return ", ".join(_UNITS[name](value) for name, value in known.items())


def describe_requirements(plan: Plan) -> str:
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


def describe_prediction(plan: Plan) -> list[str]:
    """What is predicted, a line each."""
    seen = plan.predicted
    width, slots, scheme, bands, _, verification = (choice.value for choice in plan.choices)
    spent = _of_one_machine(plan) if plan.spark is None else describe_cluster(plan.spark)
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


def format_stages(plan: Plan) -> list[str]:
    """The stages of a run over files, as a small table."""
    if plan.spark is not None:
        return ["", *format_spark_stages(plan.spark), "", *format_submit_line(plan.spark)]
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
