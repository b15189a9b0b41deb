"""What would other bands do? The S-curve with sliders, its numbers, one's own pairs behind it.

Everything is on the page without a script already, for the bands that were used; curves.js lets
bands and rows be moved. It gets numbers alone, never a text of the data.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from neardup.lsh.curve import Curve
from neardup.report import plots
from neardup.report.html import Html, tag

FEWEST_BANDS: Final = 64
FEWEST_ROWS: Final = 16


def script() -> Html:
    """The script that a page with an explorer needs."""
    return Html(Path(__file__).with_name("curves.js").read_text("utf-8"))


@dataclass(frozen=True)
class Explorer:
    """Bands to begin with, and the similarities that were seen.

    `counts` are by hundredths of similarity, as those of `plots.s_curve`, of what `things` says.
    `slots` is how many a sketch has; more would need another one.
    """

    curve: Curve
    threshold: float
    counts: NDArray[np.int64]
    things: str
    slots: int | None = None

    def shown(self, caption: str) -> Html:
        """The plot, its sliders and its numbers."""
        curve = self.curve
        plot = plots.s_curve(curve, self.threshold, self.counts, self.things)
        controls = tag(
            "fieldset",
            tag("legend", "Other bands"),
            _slider("bands", curve.bands, max(2 * curve.bands, FEWEST_BANDS)),
            _slider("rows", curve.rows, max(2 * curve.rows, FEWEST_ROWS)),
            tag("button", "back", type="button"),
            hidden=True,
        )
        figure = tag("figure", plot, tag("figcaption", caption))
        return tag("div", figure, controls, self._numbers(), class_="curves", data_curves=self.data)

    @property
    def data(self) -> str:
        """What the script is given, as JSON."""
        frame = {
            "left": plots.LEFT,
            "right": plots.RIGHT,
            "top": plots.TOP,
            "bottom": plots.BOTTOM,
            "steps": plots.STEPS,
        }
        given = {"threshold": self.threshold, "slots": self.slots, "found": self.found}
        return json.dumps(given | {"frame": frame})

    @property
    def found(self) -> list[tuple[float, int]]:
        """Similarities and how often they were seen; a bin stands for its middle, 1 for itself."""
        return [
            (min(round(place / 100 + 0.005, 3), 1.0), count)
            for place, count in enumerate(self.counts.tolist())
            if count
        ]

    def expected(self) -> tuple[float, float | None]:
        """How many of those that were seen meet, and which share of those above the threshold."""
        chances = [(s, n, n * self.curve.probability(s)) for s, n in self.found]
        similar = sum(n for s, n, _ in chances if s >= self.threshold)
        meeting = sum(chance for s, _, chance in chances if s >= self.threshold)
        return sum(chance for *_, chance in chances), meeting / similar if similar else None

    def _numbers(self) -> Html:
        shown = (
            tag("div", tag("dt", term), _followed(name, value))
            for name, (term, value) in self.numbers().items()
        )
        return tag("dl", *shown)

    def numbers(self) -> dict[str, tuple[str, str]]:
        """What is written beside the plot: name, term and value."""
        curve, at = self.curve, self.threshold
        meeting, recall = self.expected()
        shown = {
            "slots": ("bands × rows = slots", f"{curve.bands} × {curve.rows} = {curve.slots}"),
            "recall": (f"found at {at:g}", _fixed(curve.probability(at), 4)),
            "estimate": ("threshold estimate, (1/b)^(1/r)", _fixed(curve.estimate, 3)),
            "inflection": ("steepest at (inflection)", _fixed(curve.inflection, 3)),
            "half": ("found every other time (half)", _fixed(curve.half, 3)),
            "false-positives": (
                f"mean chance to meet below {at:g} (false positives)",
                _fixed(curve.false_positive_rate(at), 4),
            ),
            "false-negatives": (
                f"mean chance to miss from {at:g} on (false negatives)",
                _fixed(curve.false_negative_rate(at), 4),
            ),
        }
        if self.found:
            total = sum(count for _, count in self.found)
            shown["meeting"] = (
                f"of the {total:,} {self.things} meet, expected",
                f"{int(meeting + 0.5):,}",
            )
            share = "none is" if recall is None else _fixed(recall, 4)
            shown["found"] = (f"of those at least {at:g} similar, expected", share)
        return shown


def _fixed(value: float, digits: int) -> str:
    """Rounded as the script does, where what is exactly between two values goes up."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def _followed(name: str, value: str) -> Html:
    """A number that the sliders change. One is read out when it does: all would be too much."""
    spoken = {"aria_live": "polite"} if name == "recall" else {}
    return tag("dd", value, data_value=name, **spoken)


def _slider(name: str, value: int, most: int) -> Html:
    """A slider with its label, and its value as text."""
    slider = Html(f'<input type="range" min="1" max="{most}" value="{value}">')
    return tag("label", tag("span", name), slider, tag("output", str(value)))
