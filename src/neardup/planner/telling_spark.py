"""A cluster in words: executors, what moves, what is held where, and the line for spark-submit."""

from __future__ import annotations

from neardup.formatting import format_bytes, format_count, format_duration, format_number
from neardup.planner.executors import Sizing

FLAGS = {
    "spark.executor.instances": "--num-executors",
    "spark.executor.cores": "--executor-cores",
    "spark.executor.memory": "--executor-memory",
    "spark.driver.memory": "--driver-memory",
}
"""Settings that spark-submit has an option for."""


def expected(found: Sizing) -> list[tuple[str, str]]:
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


def _others(found: Sizing) -> str:
    """Other numbers of executors, and their times."""
    return ", ".join(
        f"{format_count(executors, 'executor')} {format_duration(seconds)}"
        for executors, seconds in found.times
    )


def stages(found: Sizing) -> list[str]:
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


def settings(found: Sizing) -> list[str]:
    """What to give to spark-submit, an option or some a line."""
    flags = [f"{flag} {found.settings[name]}" for name, flag in FLAGS.items()]
    others = [
        f"--conf {name}={value}" for name, value in found.settings.items() if name not in FLAGS
    ]
    lines = [f"spark-submit {' '.join(flags[:2])}", " ".join(flags[2:]), *others]
    return " \\\n    ".join(lines).splitlines()
