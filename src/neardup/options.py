"""The matching options as one frozen value, checked once.

`option_table` has their names, types, defaults and help; here is what must be true of their values
together, and what follows from them: the bands, the hash tables, the verifier. Everything here can
change without a new sketch; what can't is the `Spec` that it carries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from neardup.errors import ParameterError
from neardup.keys import Key
from neardup.lsh.bands import Bands, Tables
from neardup.lsh.blocks import Blocks, ByJaccard
from neardup.lsh.curve import (
    Curve,
    Curves,
    Meeting,
    RecallNotReached,
    check_threshold,
    lay_bands,
    meeting_by,
)
from neardup.lsh.joined import JoinedTables
from neardup.lsh.plane_curve import PlaneCurve
from neardup.measure_table import BAGS, CHOICES, MEASURES, Measure, exact_measure
from neardup.option_table import (
    CLUSTER,
    PRESETS,
    VERIFY,
    WEIGHTS,
    MatchingOptions,
    SpecOptions,
    default_of,
    given_options,
    options_of,
)
from neardup.sketch.bbit import collision_chance, unpack_slots
from neardup.sketch.bulk import MAKE, MAKE_WEIGHTED
from neardup.sketch.weighted import occurrence_weights
from neardup.spec import (
    FAMILIES,
    STRIPS,
    WEIGHTED,
    Spec,
    check_choice,
    check_number,
    check_whole,
    join_masks,
)
from neardup.text.html import require_html_library
from neardup.text.segments import state_segmenter
from neardup.text.stems import state_stem
from neardup.vector_signal import (
    MEASURE_OF,
    NO_CENTRE,
    VectorSignal,
    refuse_text_options,
    take_signal,
)
from neardup.verify import Comparison, Estimated, Exact, Near, Signals, Weighed

HAMMING: Final = 3
KEEP: Final = ("first", "last", "longest", "none")
KEEP_BY_COLUMN: Final = ("max", "min", "newest", "oldest")
MOST: Final = 2**31 - 1


@dataclass(frozen=True)
class Strip:
    """The parts of texts that are removed before they are compared.

    >>> print(parse_strip(["html", "lines:0.10%"]))
    html,lines:0.1%
    """

    markup: str = ""
    """What changes sketches, as the specification states it: html, html:main, or nothing."""
    lines: Fraction | None = None
    """Lines in more than this share of the documents are ignored."""

    def __str__(self) -> str:
        percent = [] if self.lines is None else [f"lines:{float(self.lines * 100):.12g}%"]
        return ",".join([self.markup] * bool(self.markup) + percent)


def parse_strip(given: str | Iterable[str] | None) -> Strip:
    """Parse the option strip: `html`, `html:main`, `lines:0.1%`, `html,lines:0.1%`, or a list."""
    parts = [given] if isinstance(given, str) else list(given or ())
    strip = Strip()
    for name in ",".join(map(str, parts)).split(",") if parts else ():
        percent = re.fullmatch(r"lines:(\d{1,3}(?:\.\d{1,15})?)%", name.strip(), re.ASCII)
        if name.strip() in STRIPS[1:] and strip.markup in ("", name.strip()):
            strip = replace(strip, markup=name.strip())
        elif percent and 0 < (share := Fraction(percent[1]) / 100) < 1 and strip.lines is None:
            strip = replace(strip, lines=share)
        else:
            raise ParameterError(
                f"strip {name!r} is not known: use html or html:main and, once, lines:0.1% "
                "(a share of the documents, above 0% and below 100%)"
            )
    return strip


@dataclass(frozen=True)
class Distinguish:
    """What keeps documents apart however similar they are: their numbers, values of columns.

    >>> print(parse_distinguish("lang,numbers,column:numbers"))
    numbers,column:numbers,lang
    """

    numbers: bool = False
    columns: tuple[str, ...] = ()
    """Sorted: their order has no meaning."""

    def __bool__(self) -> bool:
        return self.numbers or bool(self.columns)

    def __str__(self) -> str:
        named = [f"column:{name}" if name == "numbers" else name for name in self.columns]
        return ",".join(sorted(["numbers"] * self.numbers + named, key=_numbers_first))


def _numbers_first(name: str) -> tuple[bool, str]:
    return name != "numbers", name


def parse_distinguish(given: str | Iterable[str] | None) -> Distinguish:
    """Parse the option distinguish: `numbers`, `COLUMN`, `column:COLUMN`, or a list of these."""
    if not isinstance(given, str | Iterable | None):
        raise ParameterError(
            f"distinguish {given!r} is no text: use numbers, COLUMN, or both with a comma"
        )
    parts = [given] if isinstance(given, str) else list(given or ())
    names = [name.strip() for name in ",".join(map(str, parts)).split(",")] if parts else []
    if any(name.removeprefix("column:") == "" for name in names):
        raise ParameterError(
            f"distinguish {','.join(map(str, parts))!r} has an empty name: use numbers, COLUMN, or "
            "both with a comma"
        )
    columns = {name.removeprefix("column:") for name in names if name != "numbers"}
    return Distinguish("numbers" in names, tuple(sorted(columns)))


def specify(*, key: Key | None = None, **options: Unpack[SpecOptions]) -> Spec:
    """Return the specification that follows from options.

    Args:
        key: The secret key of hash siphash.
        **options: Options that decide the sketch; None stands for the default.

    >>> specify(preset="nemo").slots
    260
    """
    rows, given = options_of(SpecOptions), with_preset(options)
    if given.get("sketch") not in (None, *FAMILIES):  # those of the library alone are not offered
        check_choice("sketch", given["sketch"], (*MAKE, *MAKE_WEIGHTED))
    strip = parse_strip(given.pop("strip", None))
    if strip.markup:
        require_html_library()
    if "mask" in given:
        given["mask"] = join_masks(given["mask"])
    if "stem" in given:
        given["stem"] = state_stem(given["stem"])
    if "segment" in given:
        given["segment"] = state_segmenter(given["segment"])
    made = {rows[name].spec_field or name: value for name, value in given.items() if name in rows}
    return Spec.of(**made, key=key.id if key else "", strip=strip.markup)


def with_preset(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that have a value, and a preset's values for the others."""
    given = given_options(options)
    preset = given.pop("preset", None)
    if preset is None:
        return given
    check_choice("preset", preset, tuple(PRESETS))
    return PRESETS[preset] | given


class KeepPolicy(NamedTuple):
    """Which copy stays, by the option keep.

    Attributes:
        name: first, last, longest, none, max, min, newest or oldest.
        column: The column of the last four.
    """

    name: str
    column: str | None = None

    @property
    def keeps_none(self) -> bool:
        """Whether of documents that are similar none stays; they are ranked in input order."""
        return self.name == "none"

    @property
    def dates(self) -> bool:
        """Whether the values of the column are compared as dates."""
        return self.name in ("newest", "oldest")

    @property
    def order(self) -> Literal["ascending", "descending"]:
        """The order of the values in the column, best first."""
        return "descending" if self.name in ("max", "newest") else "ascending"


@dataclass(frozen=True)
class Options:
    """How to find candidates, how to verify them, and which copy to keep.

    The fields have the names of the table of options, which explains them; `spec` has the options
    that decide a document's sketch.
    """

    spec: Spec = field(default_factory=Spec)
    threshold: float = default_of("threshold")
    recall: float = default_of("recall")
    bands: int | None = None
    rows: int | None = None
    verify: str = "exact"
    keep: str = default_of("keep")
    cluster: str = default_of("cluster")
    limit: int = default_of("limit")
    strip: Strip = field(default_factory=Strip)
    tables: int | str = default_of("tables")
    """As the caller writes it: 2, or 20x5,10x8. `hash_tables` has the tables themselves."""
    measure: str = default_of("measure")
    hamming: int | None = None
    """The number of bits in which similar fingerprints differ at most; None without them."""
    blocks: int | None = None
    weights: str = default_of("weights")
    distinguish: Distinguish = field(default_factory=Distinguish)
    vectors: VectorSignal | None = None

    def __post_init__(self) -> None:
        check_choice("verify", self.verify, VERIFY)
        check_choice("cluster", self.cluster, CLUSTER)
        check_choice("weights", self.weights, WEIGHTS)
        check_choice("measure", self.measure, CHOICES)
        if self.vectors is not None or self.spec.of_vectors:
            self._check_vectors()
        if not self.spec.of_vectors:
            self._check_sketch()
        self._check_measure()
        if self.strip.markup != self.spec.strip:
            raise ParameterError(
                f"strip {str(self.strip)!r} is not that of the Spec, {self.spec.strip!r}: "
                "make both with Options.of"
            )
        if self.strip.lines is not None and self.spec.unit == "token":
            raise ParameterError("tokens have no lines: strip texts, or nothing")
        if self.distinguish.numbers and self.spec.unit == "token":
            raise ParameterError(
                "tokens have no numbers: distinguish texts, or documents by a column"
            )
        if self.distinguish.numbers and "numbers" in self.spec.mask:
            raise ParameterError(
                "masked numbers can't distinguish documents: leave out --mask numbers, or "
                "--distinguish numbers"
            )
        plain = {
            "threshold": check_number("threshold", self.threshold),
            "recall": check_number("recall", self.recall),
            "limit": check_whole("limit", self.limit, 1, MOST),
        }
        for name in ("bands", "rows"):
            if (given := getattr(self, name)) is not None:
                plain[name] = check_whole(name, given, 1, MOST)
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        check_threshold(self.threshold)
        _ = self.keep_policy, self.hash_tables

    def _check_vectors(self) -> None:
        """Refuse options that documents with vectors do not support."""
        signal = self.vectors
        if (signal is not None and signal.role == "alone") != self.spec.of_vectors:
            raise ParameterError(
                "a Spec of vectors alone goes with --vectors: make both with Options.of"
            )
        if not self.spec.of_vectors and signal is not None and self.spec.sketch not in MAKE:
            raise ParameterError(
                f"--{signal.role} goes with sets of shingles: use --sketch {' or '.join(MAKE)}"
            )
        if self.verify != "exact":
            raise ParameterError("vectors are compared exactly: leave out --verify")
        if self.keep_policy.name == "longest" and self.spec.of_vectors:
            raise ParameterError("vectors alone have no length: choose another policy than longest")
        if self.distinguish.numbers and self.spec.of_vectors:
            raise ParameterError("vectors alone have no numbers in a text: distinguish by a column")
        if self.spec.of_vectors or signal is None:
            return
        flag = f"--{signal.role}"
        if self.measure != CHOICES[0]:
            raise ParameterError(f"{flag} goes with {CHOICES[0]}: leave out --measure")
        if self.spec.narrow:
            raise ParameterError(f"{flag} is not supported with --bits: leave one out")
        if not signal.finds and self.distinguish:
            raise ParameterError(
                "--unless and --distinguish both list what they keep: give one of them"
            )

    def _check_measure(self) -> None:
        """Refuse options that the measure does not support."""
        if not self.exact_measure.estimated and self.verify != "exact":
            raise ParameterError(
                f"{self.measure} can't be estimated from signatures: use --verify exact, or "
                f"--measure {CHOICES[0]}"
            )
        if not self.exact_measure.components and self.cluster != "stars":
            raise ParameterError(
                f"{self.measure} has a direction, connected components have none: use --cluster "
                f"stars, or --measure {CHOICES[0]}"
            )

    def _check_sketch(self) -> None:
        """Refuse options that the sketch does not support; fill in those of a simhash."""
        if self.weights != "tf" and self.spec.sketch not in WEIGHTED:
            raise ParameterError(
                f"a {self.spec.sketch} does not weigh its shingles: use --sketch "
                f"{' or '.join(WEIGHTED)}, or --weights tf"
            )
        if self.spec.sketch not in (*MAKE, *MAKE_WEIGHTED):
            raise ParameterError(
                f"a {self.spec.sketch} finds no candidates, it is for the library: use --sketch "
                f"{' or '.join([*MAKE, *MAKE_WEIGHTED])}"
            )
        if self.spec.of_bags and self.measure != CHOICES[0]:
            raise ParameterError(
                f"{self.measure} is that of sets: leave out --measure, or use --sketch minhash"
            )
        if not self.by_bits:
            if self.hamming is not None or self.blocks is not None:
                raise ParameterError(
                    f"a {self.spec.sketch} has no Hamming distance: leave out --hamming and "
                    "--blocks, or use --sketch simhash"
                )
            return
        if (self.bands, self.rows, self.tables, self.measure) != (None, None, 1, CHOICES[0]):
            raise ParameterError(
                f"a simhash has neither bands nor a measure but {CHOICES[0]}: leave out --bands, "
                "--rows, --tables and --measure, or use another sketch"
            )
        distance = HAMMING if self.hamming is None else self.hamming
        tables = Blocks.usual(self.spec.slots, distance)
        if self.blocks is not None:
            tables = Blocks(self.spec.slots, distance, self.blocks)
        object.__setattr__(self, "hamming", int(tables.distance))
        object.__setattr__(self, "blocks", int(tables.blocks))
        if self.verify != "exact":
            object.__setattr__(self, "threshold", 1.0 - distance / self.spec.slots)

    @classmethod
    def of(cls, *, key: Key | None = None, **options: Unpack[MatchingOptions]) -> Options:
        """Return options from the values that a user gives; they override a preset's values.

        Args:
            key: The secret key of hash siphash.
            **options: Any matching options; None stands for the default.
        """
        given = with_preset(options)
        if (signal := take_signal(given)) is not None:
            given["vectors"] = signal
            if signal.role == "alone":
                return cls._of_vectors(signal, given)
        if given.get("sketch") == "simhash":
            given.setdefault("verify", "estimate")
            if "recall" in given:
                raise ParameterError(
                    "all fingerprints within the Hamming distance become candidates: leave out "
                    "--recall, or use another sketch"
                )
            if given["verify"] != "exact" and "threshold" in given:
                raise ParameterError(
                    "fingerprints are compared by their Hamming distance: use --hamming instead of "
                    "--threshold, or --verify exact"
                )
        made = {name: given.pop(name) for name in options_of(SpecOptions) if name in given}
        spec, strip = specify(key=key, **made), parse_strip(made.get("strip"))
        distinguish = parse_distinguish(given.pop("distinguish", None))
        return cls(spec=spec, strip=strip, distinguish=distinguish, **given)

    @classmethod
    def _of_vectors(cls, signal: VectorSignal, given: dict[str, Any]) -> Options:
        """Return the options of documents that are compared by their vectors alone."""
        refuse_text_options({name: value for name, value in given.items() if name != "vectors"})
        own = {field.name for field in fields(cls)} - {"strip", "distinguish"}
        seed = {"seed": given["seed"]} if "seed" in given else {}
        spec = Spec.of("vector:1", sketch="hyperplane", slots=signal.tables.bits, **seed)
        made = {name: value for name, value in given.items() if name in own}
        distinguish = parse_distinguish(given.get("distinguish"))
        return cls(spec=spec, distinguish=distinguish, **made | {"threshold": signal.threshold})

    def ignoring(self, digest: str) -> Options:
        """Return these options with the list of ignored lines that has this digest."""
        if digest == self.spec.ignored:
            return self
        return replace(self, spec=replace(self.spec, ignored=digest))

    def weighing(self, stated: str) -> Options:
        """Return these options with document frequencies, by their field in the specification."""
        if stated == self.spec.weights:
            return self
        return replace(self, spec=replace(self.spec, weights=stated))

    def laid_out(self, dimension: int, curve: PlaneCurve | None, centre: str, bits: int) -> Options:
        """Return these options for vectors that were counted.

        Args:
            dimension: The numbers of a vector.
            curve: The bands of planes, and what they find; None if vectors find no candidates.
            centre: The digest of the vector that is subtracted from all.
            bits: The planes of a sketch, of which the bands use the first ones.
        """
        assert self.vectors is not None  # noqa: S101  # of documents with vectors
        stated = f"{dimension}x{bits}:{centre}" if curve else f"{dimension}x0:{NO_CENTRE}"
        spec = replace(self.spec, vectors=stated)
        if self.spec.of_vectors:
            spec = replace(spec, slots=bits)
        if curve is None:
            return replace(self, spec=spec)
        signal = replace(self.vectors, planes=curve.planes, points=curve.points)
        return replace(self, spec=spec, vectors=signal)

    @property
    def unvetoed(self) -> Options:
        """These options, by which vectors of any cosine are similar enough."""
        assert self.vectors is not None  # noqa: S101  # of documents with vectors
        return replace(self, vectors=replace(self.vectors, threshold=-1.0))

    @property
    def uncounted(self) -> Options:
        """These options without what is counted in a corpus, as they were given."""
        return replace(self, spec=replace(self.spec, ignored="", weights="", vectors=""))

    @property
    def of_texts(self) -> Options:
        """These options, by which texts are compared without their vectors."""
        return replace(self, vectors=None, spec=replace(self.spec, vectors=""))

    @property
    def has_two_signals(self) -> bool:
        """Whether documents are compared by their shingles and by their vectors."""
        return self.vectors is not None and not self.spec.of_vectors

    @property
    def vetoes_by_vectors(self) -> bool:
        """Whether vectors keep documents that are lexically similar."""
        return self.vectors is not None and not self.vectors.finds

    @property
    def veto(self) -> str:
        """The option that keeps similar documents, as it is written; empty if none does."""
        if self.vectors is not None and not self.vectors.finds:
            return f"--unless {self.vectors.column}:{self.vectors.threshold:g}"
        return f"--distinguish {self.distinguish}" if self.distinguish else ""

    @property
    def by_bits(self) -> bool:
        """Whether signatures are fingerprints, which are compared bit by bit."""
        return self.spec.sketch == "simhash"

    @property
    def exact_measure(self) -> Measure:
        """The measure by which documents are compared exactly."""
        if self.vectors is not None:
            return MEASURES[MEASURE_OF[self.vectors.role]]
        return exact_measure(self.measure, self.spec.sketch)

    @cached_property
    def curve(self) -> Curve | Curves:
        """The bands: as given, or the steepest that reach the recall at the threshold."""
        given = None
        if self.bands is not None and self.rows is not None:
            given = Curve(self.bands, self.rows)
        elif self.bands is not None or self.rows is not None:
            raise ParameterError("bands and rows belong together: give both or neither")
        to_jaccard = self.exact_measure.to_jaccard
        threshold = to_jaccard(self.threshold) if to_jaccard else self.threshold
        try:
            return lay_bands(self.spec.slots, threshold, self.recall, given, self.tables)
        except RecallNotReached as error:
            if to_jaccard is None:
                raise
            measure = self.exact_measure
            where = (
                f"threshold {self.threshold:g} of {measure.label}, which is a Jaccard similarity "
                f"of {threshold:.4f}{measure.condition}"
            )
            raise RecallNotReached(error.slots, threshold, self.recall, where) from None

    @property
    def meeting(self) -> Meeting:
        """The probability that two documents become candidates, by their similarity."""
        if self.spec.of_vectors and self.vectors is not None:
            return self.vectors.meeting
        if isinstance(self.hash_tables, Blocks):
            return ByJaccard(self.hash_tables) if self.verify == "exact" else self.hash_tables
        return meeting_by(self.exact_measure, self.curve)

    @cached_property
    def hash_tables(self) -> Tables:
        """The hash tables that make candidates: bands, or blocks of fingerprints."""
        if self.spec.of_vectors and self.vectors is not None:
            return self.vectors.tables
        if self.hamming is not None and self.blocks is not None:
            return Blocks(self.spec.slots, self.hamming, self.blocks)
        bands = Bands(self.curve.parts)
        if self.vectors is None or not self.vectors.finds:
            return bands
        return JoinedTables(bands, self.vectors.tables, self.spec.slots, self.spec.width)

    def comparison(
        self, shingles: NDArray[Any], offsets: NDArray[Any], weights: NDArray[np.uint32] | None
    ) -> Comparison:
        """Return the exact comparison of candidates by all that they have: shingles, vectors.

        Args:
            shingles: The sorted shingles of all documents, each followed by its vector, if it has
                one; or their vectors alone.
            offsets: Where each document's begin.
            weights: The weights of the cells, if those of shingles depend on the corpus.
        """
        signal = self.vectors
        if signal is None:
            return self.exact(shingles, offsets, weights)
        dimension, least = self.spec.dimension, signal.threshold
        return Signals(shingles, offsets, dimension, self.threshold, least, self.exact_measure)

    def exact(
        self, shingles: NDArray[Any], offsets: NDArray[Any], weights: NDArray[np.uint32] | None
    ) -> Exact | Weighed:
        """Return the comparison of candidates by their sets or bags of shingles.

        Args:
            shingles: The sorted shingles of all documents.
            offsets: Where each document's shingles begin.
            weights: The weights of the cells, if those of shingles depend on the corpus.
        """
        if self.exact_measure.compares == BAGS:
            each = occurrence_weights(shingles, weights)
            return Weighed.of(shingles, offsets, each, self.threshold)
        return Exact(shingles, offsets, self.threshold, self.exact_measure)

    def estimated(self, rows: NDArray[Any]) -> Comparison:
        """Return the comparison of candidates by their signatures, the rows of an array."""
        least = self.threshold if self.verify == "estimate" else 0.0
        if self.by_bits:
            return Near(rows, least)
        if not self.spec.narrow:
            return Estimated(rows, least)
        bits = self.spec.bits
        return Estimated(unpack_slots(rows, bits, self.spec.slots), least, collision_chance(bits))

    @property
    def keep_policy(self) -> KeepPolicy:
        """The policy that the option keep names."""
        name, _, column = str(self.keep).partition(":")
        if self.keep in KEEP:
            return KeepPolicy(self.keep)
        if name in KEEP_BY_COLUMN and column:
            return KeepPolicy(name, column)
        by_column = {policy: f"{policy}:{column or 'COLUMN'}" for policy in KEEP_BY_COLUMN}
        near = get_close_matches(name.lower(), [*KEEP, *by_column], 1)
        meant = f"did you mean {by_column.get(near[0], near[0])}? Use" if near else "use"
        known = ", ".join([*KEEP, *(f"{policy}:COLUMN" for policy in KEEP_BY_COLUMN)])
        raise ParameterError(f"keep {self.keep!r} is not known: {meant} {known}")
