"""Measured figures as a picture, if matplotlib is there."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from neardup.errors import OutputError, UsageError
from neardup.evaluate.hashes import Figures, Theory

KINDS = (".png", ".svg", ".pdf")


def require_plot_library(file: Path) -> None:
    """Refuse to go on if nothing can be drawn here, or not into such a file."""
    if find_spec("matplotlib") is None:
        raise UsageError("--plot needs a library that is missing: pip install 'neardup[plot]'")
    if file.suffix.lower() not in KINDS:
        raise UsageError(f"--plot {file}: the name must end in {', '.join(KINDS)}")


def plot_hashes(found: list[Figures], expected: Theory, file: Path) -> None:
    """Bars: the speed on words and on long texts, and how far the worst bit is from one half."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(9, 6), layout="constrained")
    speed, bits = figure.subplots(2, 1, sharex=True)
    places = range(len(found))
    speed.bar([at - 0.2 for at in places], [one.words_mb_s for one in found], 0.4, label="words")
    speed.bar([at + 0.2 for at in places], [one.long_mb_s for one in found], 0.4, label="3 KB")
    speed.set(yscale="log", ylabel="MB/s", title="Hash functions on this machine")
    speed.legend()
    bits.bar(places, [one.avalanche_worst for one in found], 0.6, color="tab:gray")
    bits.axhline(expected.avalanche_worst, color="black", linestyle="--", label="random function")
    bits.set(ylabel="worst bit, off 1/2 by", ylim=(0, 0.55))
    bits.set_xticks(places, [one.name for one in found])
    bits.legend()
    try:
        figure.savefig(file)
    except OSError as error:
        raise OutputError(f"{file} can't be written: {error.strerror}") from None
