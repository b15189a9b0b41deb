"""Formats a plan for a terminal: requirements, prediction, stages, and the Spark cluster."""

from __future__ import annotations

import math
from collections.abc import Callable

from neardup.formatting import format_bytes, format_count, format_duration, format_number
from neardup.planner.explanation import RejectedValue
from neardup.planner.planner import Plan
from neardup.planner.redis_cluster import RedisSize
from neardup.planner.spark_cluster import ClusterSize
from neardup.planner.unmet_limits import describe_rate

FLAGS = {
    "spark.executor.instances": "--num-executors",
    "spark.executor.cores": "--executor-cores",
    "spark.executor.memory": "--executor-memory",
    "spark.driver.memory": "--driver-memory",
}
"""Settings for which spark-submit has an option."""


def describe_cluster(cluster: ClusterSize) -> list[tuple[str, str]]:
    """Return the size and the cost of a cluster, as names and texts."""
    needs = cluster.needs
    return [
        (
            "executors",
            f"{cluster.executors:,} of {format_count(cluster.cores, 'core')} and "
            f"{format_bytes(cluster.memory)}: {format_duration(cluster.seconds)}",
        ),
        ("or", _others(cluster)),
        (
            "work",
            f"{format_number(cluster.core_hours)} core-hours, "
            f"{format_number(cluster.core_hours_a_tb)} for a TB of text; for "
            f"{format_duration(cluster.alone)} only the driver works",
        ),
        (
            "folder",
            f"{format_bytes(cluster.read)} are read from the shared folder; "
            f"{format_bytes(cluster.work_folder)} in the work folder, "
            f"{format_bytes(cluster.out)} in OUT",
        ),
        (
            "shuffle",
            f"nothing; of a DataFrame or URLs {format_bytes(cluster.sorted)} of text, once, which "
            "are written to the work folder, too",
        ),
        (
            "python",
            f"{format_bytes(needs.task)} for each core, at most {format_bytes(needs.limit)} "
            "(--memory)",
        ),
        (
            "driver",
            f"{format_count(cluster.cores, 'core')}, {format_bytes(needs.driver)} for Java, "
            f"{format_bytes(needs.driver_python)} for Python",
        ),
    ]


def describe_servers(size: RedisSize) -> list[tuple[str, str]]:
    """Return the servers of an index on Redis and what they do, as names and texts."""
    return [
        (
            "servers",
            f"{format_count(size.masters, 'master')} of {format_bytes(size.memory)}, and as many "
            "replicas",
        ),
        (
            "data",
            f"{format_bytes(size.data)} of memory on all masters, {size.document:,.0f} bytes a "
            f"document; append-only files of up to {format_bytes(size.disk)} on each",
        ),
        (
            "rate",
            f"{size.rate:,.0f} documents a second by all masters, {size.process_rate:,.0f} by one "
            f"process that adds: {format_count(size.processes, 'process', 'processes')}",
        ),
        ("joining", f"{size.moved:.1%} of the keys move to one more master"),
    ]


def _describe_folder(plan: Plan) -> str:
    """Return what the same index needs in a folder on one machine."""
    one = plan.predicted
    return (
        f"in a folder on one machine {format_bytes(one.memory)} of memory, "
        f"{format_bytes(one.disk)} of disk, {one.rate:,.0f} documents a second"
    )


def _others(cluster: ClusterSize) -> str:
    """Return the times of other numbers of executors."""
    return ", ".join(
        f"{format_count(executors, 'executor')} {format_duration(seconds)}"
        for executors, seconds in cluster.times
    )


def format_spark_stages(cluster: ClusterSize) -> list[str]:
    """Return the stages on Spark as the lines of a table."""
    head = f"{'stage':<9}{'tasks':>9}{'time':>9}{'core time':>11}{'read':>9}{'written':>9}"
    return [
        head,
        *(
            f"{one.name:<9}{f'{one.tasks:,}' if one.tasks else 'driver':>9}"
            f"{format_duration(one.seconds):>9}{format_duration(one.work):>11}"
            f"{format_bytes(one.read):>9}{format_bytes(one.written):>9}"
            for one in cluster.stages
        ),
    ]


def format_submit_options(cluster: ClusterSize) -> str:
    """Return the options of spark-submit for a cluster, in one line."""
    flags = [f"{flag} {cluster.settings[name]}" for name, flag in FLAGS.items()]
    others = [
        f"--conf {name}={value}" for name, value in cluster.settings.items() if name not in FLAGS
    ]
    return " ".join([*flags, *others])


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
    "bands": lambda value: format_count(int(value), "band"),
    "in vain": lambda value: f"{format_number(value)} pairs a document in vain",
    "seconds": lambda value: f"{format_duration(value)} of one core",
}
"""The format of each figure of a rejected value."""


def format_figures(rejected: RejectedValue) -> str:
    """Return the figures of a rejected value in one line."""
    finite = {name: value for name, value in rejected.figures.items() if math.isfinite(value)}
    return ", ".join(_UNITS[name](value) for name, value in finite.items())


def describe_requirements(plan: Plan) -> str:
    """Return the requirements in one line."""
    sla = plan.sla
    what = {"files": "a run over files", "index": "an index in memory"}[sla.purpose]
    cores = format_count(sla.cores, "core")
    if plan.spark is not None:
        what, cores = "a run over files on Spark", f"executors of {cores}"
    elif plan.redis is not None:
        what = "an index on Redis"
    at = f"{sla.threshold:g}"
    of = f"{sla.shingles:,.0f} shingles and {format_bytes(sla.size)}"
    if plan.is_of_vectors and plan.vectors is not None:
        at, of = f"cosine {at}", f"{plan.vectors.dimension:,} numbers"
    limits = [f"recall {sla.recall:g} at {at}"]
    limits += [] if sla.precision is None else [f"precision {sla.precision:g}"]
    limits += [] if sla.memory is None else [f"{format_bytes(sla.memory)} of memory"]
    limits += [] if sla.disk is None else [f"{format_bytes(sla.disk)} of disk"]
    limits += [] if sla.rate is None else [describe_rate(sla).rstrip(",")]
    return f"{sla.documents:,} documents of {of}, {what}: {', '.join(limits)}, {cores}"


def describe_prediction(plan: Plan) -> list[str]:
    """Return the operating point and its prediction, a line each."""
    predicted = plan.predicted
    cost = _describe_machine(plan) if plan.spark is None else describe_cluster(plan.spark)
    if plan.redis is not None:
        cost = [*describe_servers(plan.redis), ("beside", _describe_folder(plan))]
    lines = [
        ("point", _describe_point(plan)),
        *_describe_vectors(plan),
        ("recall", f"{predicted.recall:.4f} at the threshold{_above(predicted.recall_above)}"),
        ("precision", f"{predicted.precision:.4f}"),
        (
            "compared",
            f"{format_number(predicted.compared)} pairs a document, "
            f"{format_number(predicted.false)} of them below the threshold",
        ),
        *cost,
        *plan.sources.items(),
    ]
    return [f"{name:<11}{text}" for name, text in lines]


def _describe_point(plan: Plan) -> str:
    """Return the operating point of texts; of vectors alone, how these are compared."""
    if plan.is_of_vectors:
        return f"cosines of the vectors, {plan.choices[0].value}"
    width, slots, scheme, bands, _, verification = (choice.value for choice in plan.choices[:6])
    return f"{scheme}, {slots} slots of {width}, {bands} bands, {verification} verification"


def _describe_vectors(plan: Plan) -> list[tuple[str, str]]:
    """Return what vectors decide beside texts."""
    one = plan.vectors
    if one is None or plan.is_of_vectors:
        return []
    if one.planes is None:
        return [("vectors", f"veto pairs below cosine {one.cosine:g}")]
    return [
        (
            "vectors",
            f"{plan.choices[-1].value}: recall {one.recall:.4f} at cosine {one.cosine:g}, "
            f"{format_number(one.compared or 0.0)} pairs a document compared in vain",
        )
    ]


def _describe_machine(plan: Plan) -> list[tuple[str, str]]:
    """Return the cost on one machine, as names and texts."""
    predicted = plan.predicted
    return [
        ("memory", format_bytes(predicted.memory) + _tables(plan)),
        ("disk", format_bytes(predicted.disk)),
        (
            "time",
            f"{format_duration(predicted.seconds)}, "
            f"{format_duration(predicted.work)} of the processor",
        ),
        ("rate", f"{predicted.rate:,.0f} documents a second"),
        # A run over files is on one machine, or on Spark.
        *([("machines", f"{predicted.machines:,}")] if plan.sla.purpose == "index" else []),
    ]


def _tables(plan: Plan) -> str:
    """Return the bytes of an index's tables, as `neardup index stats` will show them."""
    held = plan.predicted.tables
    if held is None:
        return ""
    return f", its tables {format_bytes(held)}: {held / plan.sla.documents:,.0f} bytes a document"


def _above(recall: float) -> str:
    """Return the recall of all pairs above the threshold, if it is known."""
    return "" if math.isnan(recall) else f", {recall:.4f} of all pairs above it"


def format_stages(plan: Plan) -> list[str]:
    """Return the stages of a run as the lines of a table."""
    if plan.spark is not None:
        return ["", *format_spark_stages(plan.spark)]
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
