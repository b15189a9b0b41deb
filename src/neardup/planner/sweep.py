"""The operating points of a sweep: all combinations of the axes that make sense."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any, Final, TypeVar, Unpack

from neardup.errors import ParameterError
from neardup.formatting import parse_count
from neardup.lsh.curve import Curve, check_threshold, choose_curve
from neardup.option_table import VERIFY, ReferenceOptions
from neardup.options import Options
from neardup.planner.tuning import TrialPoint
from neardup.sketch.bulk import MAKE, MAKE_WEIGHTED
from neardup.spec import (
    B_BITS,
    FINGERPRINTS,
    MAX_SLOTS,
    MINHASHES,
    Spec,
    check_choice,
    check_number,
    check_whole,
)

AUTO: Final = "auto"
USUAL: Final = 0
"""The width that slots of a sketch are made with."""
MOST: Final = 2_000
TIME_LIMIT = 60.0
LONGEST = 10.0**6
MOST_DOCUMENTS = 10**12
SKETCHES: Final = (*MAKE, *MAKE_WEIGHTED)
STEEPER, FLATTER = 2, 1
"""How many rows more and less than the curve has that reaches the recall at the threshold."""

Value = TypeVar("Value")
Rule = Callable[[TrialPoint], bool]


RULES: Final[dict[str, Rule]] = {
    "bands x rows need more slots than there are": lambda point: (
        point.bands is not None and point.bands * (point.rows or 1) > point.slots
    ),
    "a simhash has no bands": lambda point: point.sketch == "simhash" and point.bands is not None,
    "a simhash has 64 or 128 bits": lambda point: (
        point.sketch == "simhash" and point.slots not in FINGERPRINTS
    ),
    "this sketch has no slots of that width": lambda point: (
        point.bits != point.usual_bits
        and (point.sketch not in MINHASHES or point.bits not in B_BITS)
    ),
    "exact verification does not look at slots, whatever their width": lambda point: (
        point.bits < point.usual_bits and point.verify == "exact"
    ),
}
"""Why a combination is not tried, and how that is seen."""


@dataclass(frozen=True)
class SweepSpace:
    """The axes: each point has one value of each."""

    slots: tuple[int, ...] = (16, 32, 64, 128, 256)
    bands: tuple[Curve | str, ...] = (AUTO,)
    shingles: tuple[str, ...] = ("word:5",)
    sketches: tuple[str, ...] = ("minhash", "oneperm")
    thresholds: tuple[float, ...] = (0.8,)
    verify: tuple[str, ...] = ("exact",)
    bits: tuple[int, ...] = (USUAL,)
    buckets: tuple[int | None, ...] = (None,)
    vocabulary: tuple[int | None, ...] = (None,)

    @classmethod
    def of(cls, reference: TrialPoint, **given: Any) -> SweepSpace:
        """The axes as people write them: `16,32`, a value or a list; None where nothing is said.

        Shingle and threshold are the reference's, unless others are given.
        """
        readers: dict[str, Callable[[Any], Any]] = {
            "slots": _number("slots", MAX_SLOTS),
            "bands": _bands,
            "shingles": _shingle,
            "sketches": _one_of("sketch", SKETCHES),
            "thresholds": _threshold,
            "verify": _one_of("verify", VERIFY),
            "bits": _number("bits", 64),
            "buckets": _number("buckets", 2**31),
            "vocabulary": _number("vocabulary", 2**31),
        }
        axes: dict[str, Any] = {"shingles": (reference.shingle,)}
        axes["thresholds"] = (reference.threshold,)
        for name, values in given.items():
            if values is not None:
                axes[name] = _listed(name, values, readers[name])
        return cls(**axes)

    def points(self, reference: TrialPoint, recall: float) -> tuple[list[TrialPoint], Counter[str]]:
        """What is tried, the reference first; and how much is not, by the reason."""
        size = 1
        for axis in fields(self):
            size *= len(getattr(self, axis.name))
        if size > MOST:
            raise ParameterError(
                f"the axes have {size:,} combinations, more than {MOST:,}: give fewer values"
            )
        pruned: Counter[str] = Counter()
        chosen = {reference: None}
        for point in self._all(reference, recall):
            broken = next((why for why, breaks in RULES.items() if breaks(point)), None)
            if broken is not None:
                pruned[broken] += 1
            else:
                chosen[point] = None
        return list(chosen), pruned

    def _all(self, reference: TrialPoint, recall: float) -> Iterator[TrialPoint]:
        for sketch, shingle, threshold, slots, bits, verify, buckets, vocabulary in product(
            self.sketches,
            self.shingles,
            self.thresholds,
            self.slots,
            self.bits,
            self.verify,
            self.buckets,
            self.vocabulary,
        ):
            point = TrialPoint(
                sketch=sketch,
                shingle=shingle,
                slots=slots,
                threshold=threshold,
                verify=verify,
                seed=reference.seed,
                buckets=buckets,
                vocabulary=vocabulary,
            )
            point = replace(point, bits=bits or point.usual_bits)
            if sketch == "simhash" and verify != "exact":  # compared by distance alone
                point = replace(point, threshold=reference.threshold)
            for curve in self._curves(point, recall):
                bands, rows = (curve.bands, curve.rows) if curve else (None, None)
                yield replace(point, bands=bands, rows=rows)

    def _curves(self, point: TrialPoint, recall: float) -> Iterator[Curve | None]:
        for curve in self.bands:
            if isinstance(curve, Curve):
                yield curve
            elif point.sketch == "simhash":
                yield None
            else:
                yield from nearby_curves(point.slots, point.threshold, recall)


@dataclass(frozen=True)
class SweepRequest:
    """What is wanted of a sweep, checked."""

    reference: TrialPoint
    recall: float
    precision: float
    space: SweepSpace
    shared: Mapping[str, Any] = field(default_factory=dict)
    time_limit: float = TIME_LIMIT
    documents: int | None = None
    """How many there will be, if the corpus is not all of them."""

    @classmethod
    def of(
        cls,
        *,
        precision: float = 0.99,
        time_limit: float = TIME_LIMIT,
        documents: float | str | None = None,
        axes: Mapping[str, Any],
        **options: Unpack[ReferenceOptions],
    ) -> SweepRequest:
        """What is asked for, as people write it."""
        if not 0.0 < check_number("time limit", time_limit) <= LONGEST:
            raise ParameterError(
                f"the time limit must be above 0 and at most {LONGEST:,.0f} seconds, not "
                f"{time_limit:g}"
            )
        if not 0.0 <= check_number("precision", precision) <= 1.0:
            raise ParameterError(f"precision must be from 0 to 1, not {precision}")
        default = Options.of(**options)
        text_shingle(default.spec.shingle)
        shared: dict[str, Any] = {"text_profile": default.spec.profile}
        reference = TrialPoint.of(default)
        number = None
        if documents is not None:
            number = check_whole(
                "documents", parse_count(documents, "documents"), 2, MOST_DOCUMENTS
            )
        space = SweepSpace.of(reference, **axes)
        return cls(
            reference, default.recall, float(precision), space, shared, float(time_limit), number
        )

    @property
    def options(self) -> Options:
        return self.reference.options(**self.shared)


def nearby_curves(slots: int, threshold: float, recall: float) -> list[Curve]:
    """The bands that reach a recall at the threshold with so many slots, and their neighbours.

    >>> [f"{curve.bands}x{curve.rows}" for curve in nearby_curves(128, 0.8, 0.99)]
    ['25x5', '21x6', '18x7', '16x8']
    """
    try:
        rows = choose_curve(slots, threshold, recall).rows
    except ParameterError:  # so few slots don't reach it
        rows = 1
    near = range(max(rows - FLATTER, 1), min(rows + STEEPER, slots) + 1)
    return [Curve(slots // each, each) for each in near]


def _listed(name: str, given: Any, read: Callable[[Any], Value]) -> tuple[Value, ...]:
    """One value, several, or several in a string with commas between; each once."""
    if isinstance(given, str):
        given = [part.strip() for part in given.split(",")]
    elif not isinstance(given, Sequence):
        given = [given]
    if not given:
        raise ParameterError(f"{name}: give at least one value")
    return tuple(dict.fromkeys(map(read, given)))


def _number(name: str, most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        plain = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12
        return check_whole(name, int(value) if plain else value, 1, most)

    return read


def _one_of(name: str, known: Iterable[str]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        check_choice(name, value, tuple(known))
        return str(value)

    return read


def _threshold(value: Any) -> float:
    try:
        number = float(value) if isinstance(value, str) else check_number("threshold", value)
    except ValueError:
        raise ParameterError(f"thresholds: {value!r} is not a number") from None
    check_threshold(number)
    return number


def text_shingle(given: str) -> Spec:
    """The specification of a shingle, of texts."""
    spec = Spec.of(given)
    if spec.unit == "token":
        raise ParameterError("tokens can't be tuned: give texts, and word, char or line shingles")
    return spec


def _shingle(value: Any) -> str:
    return text_shingle(str(value)).shingle


def _bands(value: Any) -> Curve | str:
    if isinstance(value, Curve) or value == AUTO:
        return value  # type: ignore[no-any-return]
    found = re.fullmatch(r"(\d{1,5})x(\d{1,5})", str(value), re.ASCII)
    if not found:
        raise ParameterError(f"bands {value!r}: give auto, or bands and rows such as 20x5")
    return Curve(int(found[1]), int(found[2]))
