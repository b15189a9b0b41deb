"""The request of a sweep: its axes, and the operating points to try."""

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
from neardup.planner.label_choice import SHINGLES, THRESHOLDS
from neardup.planner.shingle_comparison import ComparedShingle, parse_compared
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
    suggest_share,
)

AUTO: Final = "auto"
USUAL: Final = 0
"""Stands for the default width of a sketch's slots."""
MOST: Final = 2_000
"""Combinations of one sweep."""
TIME_LIMIT = 60.0
LONGEST = 10.0**6
MOST_DOCUMENTS = 10**12
SKETCHES: Final = (*MAKE, *MAKE_WEIGHTED)
SLOT_WIDTHS: Final = (*B_BITS, 32, 64)
STEEPER, FLATTER = 2, 1
"""Rows more and fewer than those of the curve that reaches the recall at the threshold."""

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
"""The reason why a combination is not tried, and its test."""


@dataclass(frozen=True)
class SweepSpace:
    """The axes of a sweep: each point has one value of each."""

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
    def of(cls, reference: TrialPoint, **values_of: Any) -> SweepSpace:
        """Parse the axes.

        Args:
            reference: The point whose shingle and threshold are the defaults of these axes.
            **values_of: For each axis a value, a list, or a text such as `16,32`; None for the
                default.
        """
        readers: dict[str, Callable[[Any], Any]] = {
            "slots": _number("slots", MAX_SLOTS),
            "bands": _bands,
            "shingles": _shingle,
            "sketches": _one_of("sketch", SKETCHES),
            "thresholds": _threshold,
            "verify": _one_of("verify", VERIFY),
            "bits": _width,
            "buckets": _number("buckets", 2**31),
            "vocabulary": _number("vocabulary", 2**31),
        }
        axes: dict[str, Any] = {"shingles": (reference.shingle,)}
        axes["thresholds"] = (reference.threshold,)
        for name, values in values_of.items():
            if values is not None:
                axes[name] = _parse_values(name, values, readers[name])
        return cls(**axes)

    def points(self, reference: TrialPoint, recall: float) -> tuple[list[TrialPoint], Counter[str]]:
        """Return the points to try, the reference first, and the number of others by the reason."""
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
        """Yield every combination of the axes."""
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
        """Yield the bands and rows to try at a point; None for a simhash."""
        for curve in self.bands:
            if isinstance(curve, Curve):
                yield curve
            elif point.sketch == "simhash":
                yield None
            else:
                yield from nearby_curves(point.slots, point.threshold, recall)


@dataclass(frozen=True)
class SweepRequest:
    """The checked request of a sweep.

    reference    the operating point whose shingle and threshold define a true pair
    recall       the share of the true pairs to find
    precision    the share of the found pairs that must be true
    space        the axes
    shared       options that all points share
    time_limit   seconds after which a trial is ended
    documents    the number of documents of a run, if the corpus is only a part of them
    compare      the shingles to compare with the reference's
    """

    reference: TrialPoint
    recall: float
    precision: float
    space: SweepSpace
    shared: Mapping[str, Any] = field(default_factory=dict)
    time_limit: float = TIME_LIMIT
    documents: int | None = None
    compare: str | Sequence[str] | None = None

    @classmethod
    def of(
        cls,
        *,
        compare: str | Sequence[str] | None = None,
        precision: float = 0.99,
        time_limit: float = TIME_LIMIT,
        documents: float | str | None = None,
        axes: Mapping[str, Any],
        by_labels: bool = False,
        **options: Unpack[ReferenceOptions],
    ) -> SweepRequest:
        """Check the options of `neardup.tune`; `axes` has the values of each axis.

        With `by_labels`, shingles and thresholds are those that labels choose from.
        """
        if not 0.0 < check_number("time limit", time_limit) <= LONGEST:
            raise ParameterError(
                f"the time limit must be above 0 and at most {LONGEST:,.0f} seconds, not "
                f"{time_limit:g}"
            )
        if not 0.0 <= check_number("precision", precision) <= 1.0:
            raise ParameterError(
                f"precision must be from 0 to 1, not {precision:g}{suggest_share(precision)}"
            )
        default = Options.of(**options)
        text_shingle(default.spec.shingle)
        shared: dict[str, Any] = {"text_profile": default.spec.profile}
        reference = TrialPoint.of(default)
        number = None
        if documents is not None:
            number = check_whole(
                "documents", parse_count(documents, "documents"), 2, MOST_DOCUMENTS
            )
        if by_labels:
            usual = {"shingles": SHINGLES, "thresholds": THRESHOLDS}
            axes = {**axes, **{name: axes.get(name) or usual[name] for name in usual}}
            compare = "none" if compare in (None, AUTO) else compare
        space = SweepSpace.of(reference, **axes)
        request = cls(
            reference,
            default.recall,
            float(precision),
            space,
            shared,
            float(time_limit),
            number,
            compare,
        )
        request.compared(advised=False)  # an error before documents are read
        return request

    def compared(self, advised: bool) -> list[ComparedShingle]:
        """Return the shingles to compare; `advised` if the documents call for another one."""
        reference = ComparedShingle(self.reference.shingle, self.reference.threshold)
        return parse_compared(self.compare, reference, advised)

    def at(self, shingle: str, threshold: float) -> SweepRequest:
        """Return the request with the shingle and threshold that labels have chosen."""
        options = Options.of(
            shingle=shingle,
            threshold=threshold,
            recall=self.recall,
            seed=self.reference.seed,
            **self.shared,
        )
        space = replace(self.space, shingles=(shingle,), thresholds=(threshold,))
        return replace(self, reference=TrialPoint.of(options), space=space)

    @property
    def options(self) -> Options:
        """The options of a run at the reference."""
        return self.reference.options(**self.shared)


def nearby_curves(slots: int, threshold: float, recall: float) -> list[Curve]:
    """Return the curve that reaches a recall at the threshold, and its neighbours.

    >>> [f"{curve.bands}x{curve.rows}" for curve in nearby_curves(128, 0.8, 0.99)]
    ['25x5', '21x6', '18x7', '16x8']
    """
    try:
        rows = choose_curve(slots, threshold, recall).rows
    except ParameterError:  # too few slots to reach it
        rows = 1
    near = range(max(rows - FLATTER, 1), min(rows + STEEPER, slots) + 1)
    return [Curve(slots // each, each) for each in near]


def _parse_values(name: str, values: Any, read: Callable[[Any], Value]) -> tuple[Value, ...]:
    """Parse a value, a list, or a string with commas, and drop repeated values."""
    if isinstance(values, str):
        values = [part.strip() for part in values.split(",")]
    elif not isinstance(values, Sequence):
        values = [values]
    if not values:
        raise ParameterError(f"{name}: give at least one value")
    return tuple(dict.fromkeys(map(read, values)))


def _number(name: str, most: int) -> Callable[[Any], int]:
    """Return a parser of whole numbers from 1 to `most`."""

    def read(value: Any) -> int:
        plain = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12
        return check_whole(name, int(value) if plain else value, 1, most)

    return read


def _one_of(name: str, supported: Iterable[str]) -> Callable[[Any], str]:
    """Return a parser of supported names."""

    def read(value: Any) -> str:
        check_choice(name, value, tuple(supported))
        return str(value)

    return read


def _width(value: Any) -> int:
    number = _number("bits", 64)(value)
    check_choice("bits", number, SLOT_WIDTHS)
    return number


def _threshold(value: Any) -> float:
    try:
        number = float(value) if isinstance(value, str) else check_number("threshold", value)
    except ValueError:
        raise ParameterError(
            f"thresholds: {value!r} is not a number{suggest_share(value)}"
        ) from None
    check_threshold(number)
    return number


def text_shingle(shingle: str) -> Spec:
    """Return the specification of a shingle; token shingles are refused."""
    spec = Spec.of(shingle)
    if spec.unit == "token":
        raise ParameterError("tokens can't be tuned: give texts, and word, char or line shingles")
    return spec


def _shingle(value: Any) -> str:
    return text_shingle(str(value)).shingle


def _bands(value: Any) -> Curve | str:
    if isinstance(value, Curve) or value == AUTO:
        return value  # type: ignore[no-any-return]
    layout = re.fullmatch(r"(\d{1,5})x(\d{1,5})", str(value), re.ASCII)
    if not layout:
        raise ParameterError(f"bands {value!r}: give auto, or bands and rows such as 20x5")
    return Curve(int(layout[1]), int(layout[2]))
