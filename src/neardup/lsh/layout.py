"""Which bands are laid over a signature's slots? As asked for, or the steepest that find enough."""

from __future__ import annotations

import re
from itertools import groupby

from neardup.errors import ParameterError
from neardup.lsh.curve import Curve, Curves, choose
from neardup.spec import whole


class TooFewSlots(ParameterError):  # noqa: N818  # reads as what happened
    """Bands that need more slots than there are; `cure` says how to get them."""

    def __init__(self, curve: Curve | Curves, slots: int, cure: str) -> None:
        self.curve, self.slots = curve, slots
        super().__init__(
            f"{curve} rows need {curve.slots} slots, there are {slots}: use fewer bands or rows, "
            f"or {cure}"
        )

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are rebuilt from their message by default; workers may send this one.
        return ParameterError, (str(self),)


def lay(
    slots: int, threshold: float, recall: float, given: Curve | None = None, tables: int | str = 1
) -> Curve | Curves:
    """The given bands, or those chosen for the recall at the threshold, in one or several tables.

    `tables` is a number: the given bands so many times, or in each so many-th part of the slots the
    bands chosen for that; or it says the bands themselves, as `parse` reads them.

    >>> lay(256, 0.8, 0.99, Curve(20, 5), tables=2)
    Curve(bands=40, rows=5)
    >>> print(lay(256, 0.8, 0.99, tables="20x5,10x8"))
    20 bands of 5 and 10 of 8
    """
    if isinstance(tables, str) and not tables.strip().isdecimal():
        if given is not None:
            raise ParameterError("tables say the bands already: leave out bands, rows and preset")
        curve = parse(tables)
    else:
        many = whole("tables", int(tables) if isinstance(tables, str) else tables, 1, slots)
        curve = joined([given or choose(slots // many, threshold, recall)] * many)
    if curve.slots > slots:
        raise TooFewSlots(curve, slots, f"--slots {curve.slots}")
    return curve


def parse(text: str) -> Curve | Curves:
    """Bands as people write them.

    >>> parse("20x5"), str(parse("20x5,10x8"))
    (Curve(bands=20, rows=5), '20 bands of 5 and 10 of 8')
    """
    curves = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d{1,9})x(\d{1,9})", part.strip(), re.ASCII)
        if not found:
            raise ParameterError(
                f"tables {text!r} are not known: use a number, or bands and rows such as 20x5,10x8"
            )
        curves.append(Curve(int(found[1]), int(found[2])))
    return joined(curves)


def written(curve: Curve | Curves) -> str:
    """What `parse` reads."""
    return ",".join(f"{part.bands}x{part.rows}" for part in curve.parts)


def joined(curves: list[Curve]) -> Curve | Curves:
    """Bands of the same size, one after the other, are one curve of more bands."""
    parts = tuple(
        Curve(sum(curve.bands for curve in alike), rows)
        for rows, alike in groupby(curves, key=lambda curve: curve.rows)
    )
    return parts[0] if len(parts) == 1 else Curves(parts)
