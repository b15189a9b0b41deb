"""The requirements of a plan: the limits that it must meet, and the options that are fixed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from neardup.errors import ParameterError
from neardup.formatting import format_bytes, format_number
from neardup.lsh.curve import BELOW_ONE, Curve
from neardup.option_table import PlanOptions, default_of, options_of
from neardup.pipeline.budget import LEAST
from neardup.spec import B_BITS, MINHASHES, check_choice, check_whole, suggest_share

PURPOSES: Final = ("files", "index")
MOST_DOCUMENTS: Final = 10**13
BYTES_OF_A_SHINGLE: Final = 6
"""Bytes of a word and the space after it, about; each word begins a shingle."""
SHINGLES: Final = 300
"""Shingles of a page of 2 KB: the default."""

FULL: Final = 32
"""Bits of a whole slot; wider slots don't estimate better."""
WIDTHS: Final = (FULL, *sorted(B_BITS, reverse=True))
SKETCHES: Final = MINHASHES
VERIFIED: Final = ("exact", "estimate")
MOST_SLOTS: Final = 1 << 14


@dataclass(frozen=True)
class Sla:
    """The requirements of a plan; None where there is no limit.

    Attributes:
        documents: The number of documents.
        shingles: Distinct shingles of a document, on average.
        size: Bytes of a document's text, on average.
        threshold: Documents at least this similar are duplicates.
        recall: The least share of the pairs exactly at the threshold that must be found.
        precision: The least share of the reported duplicates that must be duplicates.
        memory: The most bytes of memory on one machine.
        disk: The most bytes of disk on one machine.
        rate: Documents that arrive per second.
        cores: Cores of one machine.
        purpose: "files", a run over files; "index", an online index with its tables in memory.

    >>> Sla(1_000_000, memory=8 * 10**9).threshold
    0.8
    """

    documents: int
    shingles: float = SHINGLES
    size: float = SHINGLES * BYTES_OF_A_SHINGLE
    threshold: float = default_of("threshold")
    recall: float = default_of("recall")
    precision: float | None = None
    memory: int | None = None
    disk: int | None = None
    rate: float | None = None
    cores: int = 1
    purpose: str = "files"

    def __post_init__(self) -> None:
        check_choice("what a plan is for", self.purpose, PURPOSES)
        _within("documents", self.documents, 1, MOST_DOCUMENTS, "say how many there will be")
        _within("shingles", self.shingles, 1, 1e9, "give the mean of distinct shingles a document")
        _within("bytes", self.size, 1, 1e12, "give the mean size of a document's text")
        _between("threshold", self.threshold, "give one such as 0.8; 1 is for neardup exact")
        _between("recall", self.recall, BELOW_ONE)
        if self.precision is not None and not 0.0 < self.precision <= 1.0:
            raise ParameterError(
                f"precision must be above 0 and at most 1, not {self.precision:g}"
                f"{suggest_share(self.precision) or ': leave it out, or give one such as 0.95'}"
            )
        _within("cores", self.cores, 1, 100_000, "give the cores of one machine")
        if self.rate is not None:
            _within("rate", self.rate, 1e-9, 1e12, "give the documents that arrive in a second")
        if self.disk is not None:
            _within("disk", self.disk, 1, math.inf, "give a size such as 2TB, or leave it out")
        if self.memory is not None and not self.memory >= LEAST:
            raise ParameterError(
                f"{self.memory:,} bytes of memory are below what any run needs: give at "
                f"least {format_bytes(LEAST)}, or leave it out"
            )


@dataclass(frozen=True)
class FixedOptions:
    """Options that the caller has fixed; the plan chooses those that are None."""

    slots: int | None = None
    bits: int | None = None
    bands: int | None = None
    rows: int | None = None
    sketch: str | None = None
    shingle: str | None = None
    verify: str | None = None

    def __post_init__(self) -> None:
        if (self.bands is None) != (self.rows is None):
            raise ParameterError("bands and rows belong together: give both or neither")
        for name, value, supported in (
            ("sketch", self.sketch, SKETCHES),
            ("verify", self.verify, VERIFIED),
        ):
            if value is not None and value not in supported:
                check_choice(name, value, options_of(PlanOptions)[name].choices)
                raise ParameterError(
                    f"a plan has no figures for --{name} {value}: use {' or '.join(supported)}, or "
                    "leave it out"
                )
        for name in ("slots", "bands", "rows"):
            if (number := getattr(self, name)) is not None:
                check_whole(name, number, 1, MOST_SLOTS)
        if self.bits is not None:
            check_choice("bits", self.bits, WIDTHS)

    @property
    def curve(self) -> Curve | None:
        """The fixed bands and rows, if there are any."""
        return None if self.bands is None or self.rows is None else Curve(self.bands, self.rows)


def _within(name: str, value: float, low: float, high: float, cure: str) -> None:
    """Raise an error with a cure unless low <= value <= high."""
    if not low <= value <= high:  # false for NaN, too
        raise ParameterError(f"{name} can't be {format_number(value)}: {cure}")


def _between(name: str, value: float, cure: str) -> None:
    """Raise an error with a cure unless 0 < value < 1."""
    if not 0.0 < value < 1.0:
        cure = (value > 1.0 and suggest_share(value)) or f": {cure}"
        raise ParameterError(f"{name} must be above 0 and below 1, not {value:g}{cure}")
