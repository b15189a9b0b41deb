"""A cluster in words: executors, what moves, what is held where, and the line for spark-submit."""

from __future__ import annotations

from neardup.pipeline.budget import shown
from neardup.planner.executors import Sizing
from neardup.planner.words import counted, duration, number

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
        deciding = f"by rounds, in {counted(found.ranges, 'range')} of documents"
    return [
        (
            "executors",
            f"{found.executors:,} of {counted(found.cores, 'core')} and "
            f"{shown(found.memory)}: {duration(found.seconds)}",
        ),
        ("or", _others(found)),
        (
            "work",
            f"{number(found.core_hours)} core-hours, {number(found.core_hours_a_tb)} for a TB "
            f"of text; {duration(found.alone)} by one task alone",
        ),
        (
            "shuffle",
            f"{shown(found.shuffled)}, {shown(found.shuffled_a_document)} a document; "
            f"{shown(found.if_ordered)} with another --keep than first, or for a "
            "DataFrame",
        ),
        (
            "disk",
            f"{shown(found.shuffle_disk)} for shuffles on each executor, "
            f"{shown(found.work_folder)} in the work folder, {shown(found.out)} in OUT",
        ),
        ("deciding", deciding),
        (
            "python",
            f"{shown(needs.worker)} for each core: {shown(needs.python)} of program, "
            f"{shown(needs.task)} for the sets of a range, {shown(needs.bitmaps)} of "
            f"bitmaps, {shown(needs.state)} for the rounds",
        ),
        ("driver", f"{shown(needs.driver)} for Java, {shown(needs.driver_python)} for Python"),
    ]


def _others(found: Sizing) -> str:
    """Other numbers of executors, and their times."""
    return ", ".join(
        f"{counted(executors, 'executor')} {duration(seconds)}"
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
            f"{one.name:<15}{duration(one.work):>10}{shown(one.shuffled):>10}{shown(one.read):>10}"
            f"{shown(one.written):>10}{shown(one.out):>10}"
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
