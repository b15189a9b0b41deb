"""Results as Markdown: one table a figure, with the machine and the versions above them."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Value = str | float | int | None
Row = Mapping[str, Value]


@dataclass(frozen=True)
class Figure:
    """One table: rows for us and for each peer, and each target with whether it is reached.

    A target is None where there was nothing to compare.
    """

    title: str
    data: str
    rows: Sequence[Row]
    targets: Mapping[str, bool | None] = field(default_factory=dict)
    measured: str = ""


def machine() -> dict[str, Value]:
    info = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in info if "model name" in line), "unknown")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gb": round(memory, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def markdown(title: str, heads: Mapping[str, Value], figures: Sequence[Figure]) -> str:
    lines = [f"# {title}", ""]
    lines += [f"- {name}: {value}" for name, value in heads.items()]
    return "\n".join([*lines, *(section(figure) for figure in figures), ""])


def section(figure: Figure, level: str = "##") -> str:
    verdict = {True: "reached", False: "**not reached**", None: "not measured"}
    targets = [f"- {target}: {verdict[reached]}" for target, reached in figure.targets.items()]
    head = [
        "",
        f"{level} {figure.title}",
        "",
        f"Data: {figure.data}. Measured {figure.measured}.",
        "",
    ]
    return "\n".join([*head, *(grid(figure.rows) if figure.rows else []), "", *targets])


def grid(rows: Sequence[Row]) -> list[str]:
    names = list(dict.fromkeys(name for row in rows for name in row if row[name] is not None))
    body = [[_cell(row.get(name)) for name in names] for row in rows]
    rule = ["---"] * len(names)
    return ["| " + " | ".join(cells) + " |" for cells in [names, rule, *body]]


def _cell(value: Value) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else value
