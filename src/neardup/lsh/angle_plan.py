"""Plan bands of planes by the angle alone, where there are no vectors to count yet.

Two vectors at the angle t, seen from the centre, agree in a sign with probability 1 - t / pi. Those
that are not similar count as if they were at right angles, which is so around a good centre.
"""

from __future__ import annotations

import math
from typing import Final

from neardup.errors import ParameterError
from neardup.lsh.angles import angle_agreement
from neardup.lsh.planes import MOST_ROWS, Planes
from neardup.spec import suggest_share

MOST_BANDS: Final = 128
"""Each band is a table that all documents are in."""
MOST_MET: Final = 0.01
"""The share of the documents at right angles that may become candidates."""
DOCUMENTS: Final = 100_000
"""Documents for which the plan is the best one."""


def plan_by_angle(threshold: float, recall: float) -> Planes:
    """Return the bands that find this share of the pairs at the threshold with the least work.

    Args:
        threshold: The cosine from which on vectors are similar.
        recall: The share of the pairs at the threshold that must share a bucket.

    >>> print(plan_by_angle(0.95, 0.99))
    33 bands of 19 planes
    """
    if not 0.0 < recall < 1.0:
        raise ParameterError(
            f"recall must be above 0 and below 1, not {recall:g}{suggest_share(recall)}"
        )
    plans = [
        planes
        for rows in range(1, MOST_ROWS + 1)
        if (planes := _fewest_bands(threshold, recall, rows)) is not None
        and planes.bands * 0.5**planes.rows <= MOST_MET
    ]
    if not plans:
        raise ParameterError(
            f"no {MOST_BANDS} bands of planes find {recall:g} of the pairs at cosine "
            f"{threshold:g} without comparing every document with many others: use a higher "
            "cosine, a lower recall, or give planes"
        )
    return min(plans, key=lambda planes: planes.bands * (1 + DOCUMENTS * 0.5**planes.rows))


def _fewest_bands(threshold: float, recall: float, rows: int) -> Planes | None:
    """Return the fewest bands of so many planes that reach the recall; None if too many."""
    one_band = angle_agreement(threshold) ** rows
    if one_band >= 1.0:
        return Planes(1, rows)
    if one_band <= 0.0:
        return None
    bands = math.ceil(math.log1p(-recall) / math.log1p(-one_band))
    return Planes(bands, rows) if bands <= MOST_BANDS else None
