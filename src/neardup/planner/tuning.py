"""The values of a sweep: the operating points that are tried, their outcomes, and the result."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from neardup.errors import FormatError
from neardup.evaluation.truth import Truth
from neardup.formats.tables import write_text
from neardup.lsh.curve import Meeting
from neardup.options import Options
from neardup.spec import FAMILIES

COUNTING: Final = 3
"""The version of the code that counts: trials that another version has counted are run again."""
DONE, TIMEOUT, FAILED = "done", "timeout", "failed"
STATUSES: Final = (DONE, TIMEOUT, FAILED)


@dataclass(frozen=True)
class TrialPoint:
    """An operating point that is tried. A simhash has neither bands nor rows.

    `buckets` and `vocabulary` are axes of a sweep only, a run has nothing like them: band keys are
    taken modulo the one, shingles modulo the other.
    """

    sketch: str = "minhash"
    shingle: str = "word:5"
    slots: int = 128
    bits: int = 32
    bands: int | None = None
    rows: int | None = None
    threshold: float = 0.8
    verify: str = "exact"
    seed: int = 0
    buckets: int | None = None
    vocabulary: int | None = None

    @classmethod
    def of(cls, options: Options) -> TrialPoint:
        """The point that a run with these options is at."""
        spec = options.spec
        curve = None if options.by_bits else options.curve.parts[0]
        return cls(
            sketch=spec.sketch,
            shingle=spec.shingle,
            slots=spec.slots,
            bits=spec.bits,
            bands=curve.bands if curve else None,
            rows=curve.rows if curve else None,
            threshold=options.threshold,
            verify=options.verify,
            seed=spec.seed,
        )

    @property
    def usual_bits(self) -> int:
        """The width that slots of this sketch are made with."""
        return next(iter(FAMILIES[self.sketch].values()))

    @property
    def stated(self) -> dict[str, Any]:
        """Name -> value, as JSON takes it."""
        return asdict(self)

    @property
    def chosen(self) -> dict[str, Any]:
        """The operating point as `neardup.dedup` takes it: only what is set."""
        given: dict[str, Any] = {"sketch": self.sketch, "shingle": self.shingle}
        if not (self.sketch == "simhash" and self.verify != "exact"):
            given["threshold"] = self.threshold
        given |= {"slots": self.slots, "verify": self.verify}
        if self.bits != self.usual_bits:
            given["bits"] = self.bits
        if self.bands is not None:
            given |= {"bands": self.bands, "rows": self.rows}
        return given | ({"seed": self.seed} if self.seed else {})

    def options(self, **others: Any) -> Options:
        """The options of a run at this point; `others` are those that all points share."""
        return Options.of(**self.chosen, **others)

    @property
    def meeting(self) -> Meeting:
        """How likely two documents are to meet, by theory."""
        return self.options().meeting

    @property
    def signed_as(self) -> tuple[Any, ...]:
        """What the time to make signatures depends on: points that share it make the same ones."""
        return self.sketch, self.shingle, self.slots, self.vocabulary, self.verify

    @property
    def only_for_sweeps(self) -> bool:
        """Whether no run can be at this point."""
        return self.buckets is not None or self.vocabulary is not None

    def __str__(self) -> str:
        """
        >>> print(TrialPoint(slots=16, bands=3, rows=5))
        minhash, 16 slots, 3 bands of 5
        >>> print(TrialPoint(sketch="simhash", slots=64))
        simhash, 64 bits
        """
        if self.bands is None:
            return f"{self.sketch}, {self.slots} bits"
        width = "" if self.bits == self.usual_bits else f" of {self.bits} bits"
        return f"{self.sketch}, {self.slots} slots{width}, {self.bands} bands of {self.rows}"


@dataclass(frozen=True)
class TrialOutcome:
    """What was seen of one point. Times are those of one core.

    t_sig            seconds from text to signatures
    t_rest           seconds for keys, buckets, candidates and verification
    t_compare        of these, the seconds for comparing candidates
    buckets          in all tables together, those of one document among them
    average_bucket   documents in a bucket
    bucket_sizes     size -> how many buckets have it
    candidates       pairs that were compared; documents that are copies are compared once
    far              those of them that the truth does not know: they are less similar than it asks
    pairs            pairs that were found, copies among them
    true_pairs       pairs that the reference calls similar
    recall           share of the true pairs that were found; None if there are none
    precision        share of the found pairs that are true; None if none was found
    memory           bytes of signatures and keys
    error            why a trial failed
    all_candidates   pairs that would be compared among all documents, about
    t_all            seconds for all documents, about
    """

    point: TrialPoint
    status: str = DONE
    t_sig: float = 0.0
    t_rest: float = 0.0
    t_compare: float = 0.0
    buckets: int = 0
    average_bucket: float = 0.0
    bucket_sizes: Mapping[int, int] = field(default_factory=dict)
    candidates: int = 0
    far: int = 0
    pairs: int = 0
    true_pairs: int = 0
    recall: float | None = None
    precision: float | None = None
    memory: int = 0
    error: str = ""
    all_candidates: float = 0.0
    t_all: float = 0.0

    @property
    def done(self) -> bool:
        return self.status == DONE

    @property
    def seconds(self) -> float:
        """What the point costs, for the sample."""
        return self.t_sig + self.t_rest

    def to_json(self) -> dict[str, Any]:
        """Name -> value, as JSON takes it; keys of an object are strings there."""
        sizes = {str(size): count for size, count in sorted(self.bucket_sizes.items())}
        return asdict(self) | {"bucket_sizes": sizes}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TrialOutcome:
        """What `to_json` gave."""
        try:
            sizes = {int(size): int(many) for size, many in values["bucket_sizes"].items()}
            found = cls(**{**values, "point": TrialPoint(**values["point"]), "bucket_sizes": sizes})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise FormatError(f"not the outcome of a trial: {error}: run it again") from None
        if found.status not in STATUSES or set(values) != {each.name for each in fields(cls)}:
            raise FormatError("not the outcome of a trial of this version: run it again")
        return found


COLUMNS: Final = (
    "hashes",
    "bands",
    "rows",
    "buckets",
    "shingles",
    "t_sig",
    "t_rest",
    "t_tot",
    "average_bucket",
    "pairs",
    "sketch",
    "shingle",
    "bits",
    "threshold",
    "verify",
    "seed",
    "status",
    "candidates",
    "true_pairs",
    "recall",
    "precision",
    "memory",
    "false_positive_rate",
    "false_negative_rate",
    "error",
    "t_compare",
    "all_candidates",
    "t_all",
)


@dataclass(frozen=True, repr=False)
class Tuning:
    """A sweep over a sample of a corpus.

    about       how the sample was chosen, in words
    documents   how many the corpus has, about
    sampled     how many were tried, which are all different
    copies      how many of the sample were left out because they are identical to another
    reference   the operating point without tuning; its shingle and threshold say what is true
    recall      what is wanted, and so is `precision`
    truth       all similar pairs of the sample
    rows        the trials, in the order in which they were run, that of the reference first
    pruned      combinations that make no sense -> how many there were
    best        the trial to follow
    reasons     why, in sentences
    met         whether it does what is wanted; None if the sample has nothing to measure it by
    """

    about: str
    documents: int
    sampled: int
    copies: int
    reference: TrialPoint
    recall: float
    precision: float
    truth: Truth
    rows: Sequence[TrialOutcome]
    pruned: Mapping[str, int]
    best: TrialOutcome
    reasons: Sequence[str]
    met: bool | None
    shared: Mapping[str, Any] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, Any]:
        """The best operating point, as keyword arguments of `neardup.dedup`.

        Bands are given; the recall says what they are for. A simhash has none.
        """
        wanted = {} if self.best.point.bands is None else {"recall": self.recall}
        return self.best.point.chosen | wanted | dict(self.shared)

    @property
    def default(self) -> TrialOutcome:
        """The trial of the operating point without tuning."""
        return self.rows[0]

    @property
    def ordered(self) -> list[TrialOutcome]:
        """The trials, the cheapest first; those that have no figures are last."""
        return sorted(self.rows, key=lambda row: (not row.done, row.t_all))

    @property
    def true_pairs(self) -> int:
        """How many pairs of the sample are similar."""
        return self.truth.similar(self.reference.threshold)

    @property
    def advice(self) -> str:
        """What to use, in a line."""
        return f"Use {self.best.point}" if self.best.done else "No trial came to its end"

    def __str__(self) -> str:
        return "\n".join([self.advice, *self.reasons])

    def __repr__(self) -> str:
        return f"<Tuning of {self.sampled:,} documents, {len(self.rows):,} trials: {self.advice}>"

    def to_csv(self, path: str | Path) -> None:
        """Write a row for each trial."""
        text = io.StringIO()
        table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(map(self._cells, self.rows))
        write_text(Path(path), text.getvalue())

    def to_json(self) -> dict[str, Any]:
        """Everything but the pairs, as JSON takes it."""
        return {
            "about": self.about,
            "documents": self.documents,
            "sampled": self.sampled,
            "copies": self.copies,
            "reference": self.reference.stated,
            "recall": self.recall,
            "precision": self.precision,
            "shared": dict(self.shared),
            "true_pairs": self.true_pairs,
            "best": self.best.point.stated,
            "options": self.options,
            "met": self.met,
            "reasons": list(self.reasons),
            "pruned": dict(self.pruned),
            "trials": [row.to_json() for row in self.rows],
        }

    def _cells(self, row: TrialOutcome) -> dict[str, Any]:
        point, threshold = row.point, self.reference.threshold
        cells: dict[str, Any] = {
            "hashes": point.slots,
            "bands": point.bands,
            "rows": point.rows,
            "buckets": point.buckets,
            "shingles": point.vocabulary,
            "sketch": point.sketch,
            "shingle": point.shingle,
            "bits": point.bits,
            "threshold": point.threshold,
            "verify": point.verify,
            "seed": point.seed,
            "status": row.status,
            "error": row.error,
        }
        if point.bands is not None:
            curve = point.meeting
            cells["false_positive_rate"] = f"{curve.false_positive_rate(threshold):.6f}"
            cells["false_negative_rate"] = f"{curve.false_negative_rate(threshold):.6f}"
        if row.done:
            cells |= {
                "t_sig": f"{row.t_sig:.6f}",
                "t_rest": f"{row.t_rest:.6f}",
                "t_tot": f"{row.seconds:.6f}",
                "average_bucket": f"{row.average_bucket:.4f}",
                "pairs": row.pairs,
                "candidates": row.candidates,
                "true_pairs": row.true_pairs,
                "recall": row.recall,
                "precision": row.precision,
                "memory": row.memory,
                "t_compare": f"{row.t_compare:.6f}",
                "t_all": f"{row.t_all:.6f}",
                "all_candidates": f"{row.all_candidates:.0f}",
            }
        return cells
