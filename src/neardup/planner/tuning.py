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
from neardup.planner.label_choice import LabelChoice
from neardup.planner.shingle_comparison import ShingleComparison
from neardup.spec import FAMILIES

COUNTING: Final = 3
"""The version of the code that counts; trials of another version are run again."""
DONE, TIMEOUT, FAILED = "done", "timeout", "failed"
STATUSES: Final = (DONE, TIMEOUT, FAILED)


@dataclass(frozen=True)
class TrialPoint:
    """An operating point that is tried.

    Attributes:
        sketch: The sketch.
        shingle: The shingle, such as "word:5".
        slots: Slots of a signature; bits of a simhash.
        bits: Bits of a slot.
        bands: Bands; None for a simhash.
        rows: Rows of a band; None for a simhash.
        threshold: Documents at least this similar are duplicates.
        verify: How candidates are verified.
        seed: The seed of the hashes.
        buckets: Band keys are taken modulo this number; for experiments, a run has no such option.
        vocabulary: Shingles are taken modulo this number; for experiments.
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
        """Return the point of a run with these options."""
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
        """The default width of this sketch's slots."""
        return next(iter(FAMILIES[self.sketch].values()))

    @property
    def stated(self) -> dict[str, Any]:
        """All values by name, for JSON."""
        return asdict(self)

    @property
    def chosen(self) -> dict[str, Any]:
        """The operating point as keyword arguments of `neardup.dedup`, without defaults."""
        options: dict[str, Any] = {"sketch": self.sketch, "shingle": self.shingle}
        if not (self.sketch == "simhash" and self.verify != "exact"):
            options["threshold"] = self.threshold
        options |= {"slots": self.slots, "verify": self.verify}
        if self.bits != self.usual_bits:
            options["bits"] = self.bits
        if self.bands is not None:
            options |= {"bands": self.bands, "rows": self.rows}
        return options | ({"seed": self.seed} if self.seed else {})

    def options(self, **others: Any) -> Options:
        """Return the options of a run at this point; `others` are options that all points share."""
        return Options.of(**self.chosen, **others)

    @property
    def meeting(self) -> Meeting:
        """The S-curve: the chance that documents of a similarity share a bucket."""
        return self.options().meeting

    @property
    def signed_as(self) -> tuple[Any, ...]:
        """The parameters that decide a signature; points that share them make the same ones."""
        return self.sketch, self.shingle, self.slots, self.vocabulary, self.verify

    @property
    def only_for_sweeps(self) -> bool:
        """Whether the point has an axis that a run does not have."""
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
    """The outcome of one trial. Times are those of one core.

    Attributes:
        point: The operating point.
        status: "done", "timeout" or "failed".
        t_sig: Seconds from texts to signatures.
        t_rest: Seconds for keys, buckets, candidates and verification.
        t_compare: Those of `t_rest` that verification took.
        buckets: Buckets in all tables together, also those of one document.
        average_bucket: Mean documents in a bucket.
        bucket_sizes: The number of buckets of each size.
        candidates: Pairs that were compared; identical documents are compared once.
        far: Candidates that are less similar than the floor of the truth.
        pairs: Pairs that were found, those of identical documents included.
        true_pairs: Pairs that are similar by the reference.
        recall: The share of the true pairs that were found; None if there are none.
        precision: The share of the found pairs that are true; None if none were found.
        memory: Bytes of signatures and keys.
        error: Why the trial failed or was ended.
        all_candidates: Pairs that a run over all documents would compare, estimated.
        t_all: Seconds for all documents, estimated.
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
        """Whether the trial has figures."""
        return self.status == DONE

    @property
    def seconds(self) -> float:
        """Seconds for the sample."""
        return self.t_sig + self.t_rest

    def to_json(self) -> dict[str, Any]:
        """Return all values by name, for JSON, whose keys are strings."""
        sizes = {str(size): count for size, count in sorted(self.bucket_sizes.items())}
        return asdict(self) | {"bucket_sizes": sizes}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TrialOutcome:
        """Return the outcome that `to_json` wrote; raise FormatError if it is none."""
        try:
            sizes = {int(size): int(count) for size, count in values["bucket_sizes"].items()}
            outcome = cls(
                **{**values, "point": TrialPoint(**values["point"]), "bucket_sizes": sizes}
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise FormatError(f"not the outcome of a trial: {error}: run it again") from None
        if outcome.status not in STATUSES or set(values) != {each.name for each in fields(cls)}:
            raise FormatError("not the outcome of a trial of this version: run it again")
        return outcome


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
    """The result of `neardup.tune`: the recommended operating point and the outcomes of all trials.

    Attributes:
        about: How the sample was chosen, as a sentence.
        documents: The number of documents of a run, estimated from the sample if not given.
        sampled: Documents of the trials, all different.
        copies: Documents of the sample that were dropped as identical to another.
        reference: The operating point without tuning; its shingle and threshold define a true pair.
        recall: The required recall.
        precision: The required precision.
        truth: All similar pairs of the sample.
        rows: The outcomes, in the order of the trials, that of the reference first.
        pruned: The number of combinations that were not tried, by the reason.
        best: The recommended outcome.
        reasons: Why, in sentences.
        met: Whether it reaches recall and precision; None if the sample has no true pair.
        shared: Options that all points share.
        labels: The shingle and threshold that labelled pairs chose; None without labels.
        comparison: Which pairs other shingles find, and the reference's does not; None if no
            others were compared.
        removed: The share of all documents that a run at the recommended point removes, estimated
            from the sample; None for sketches other than minhash and oneperm.

    >>> from neardup import tune
    >>> texts = [" ".join(f"w{n + at}" for at in range(60)) for n in range(0, 240, 30)]
    >>> tuning = tune([*texts, texts[0] + " end"], slots=16, sketches="minhash")
    >>> tuning.met, tuning.best.recall, tuning.advice.startswith("Use minhash")
    (True, 1.0, True)
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
    comparison: ShingleComparison | None = None
    labels: LabelChoice | None = None
    removed: float | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The recommended operating point, as keyword arguments of `neardup.dedup`.

        Bands and rows are set; `recall` is added to record what they were chosen for.
        """
        required = {} if self.best.point.bands is None else {"recall": self.recall}
        return self.best.point.chosen | required | dict(self.shared)

    @property
    def default(self) -> TrialOutcome:
        """The outcome of the operating point without tuning."""
        return self.rows[0]

    @property
    def ordered(self) -> list[TrialOutcome]:
        """The outcomes, the cheapest first; those without figures are last."""
        return sorted(self.rows, key=lambda row: (not row.done, row.t_all))

    @property
    def true_pairs(self) -> int:
        """The number of true pairs of the sample."""
        return self.truth.similar(self.reference.threshold)

    @property
    def advice(self) -> str:
        """The recommendation in one line."""
        if not self.best.done:
            return "No trial came to its end"
        point = self.best.point
        chosen = "" if self.labels is None else f"{point.shingle} at {point.threshold:g}, "
        return f"Use {chosen}{point}"

    def __str__(self) -> str:
        return "\n".join([self.advice, *self.labelled, *self.reasons, *self.compared])

    @property
    def labelled(self) -> list[str]:
        """What labelled pairs chose, in sentences; none without labels."""
        return [] if self.labels is None else self.labels.sentences()

    @property
    def compared(self) -> list[str]:
        """The comparison of shingles in sentences; none if no others were compared."""
        return [] if self.comparison is None else self.comparison.sentences()

    def __repr__(self) -> str:
        return f"<Tuning of {self.sampled:,} documents, {len(self.rows):,} trials: {self.advice}>"

    def to_csv(self, path: str | Path) -> None:
        """Write the outcomes as CSV, a row for each trial.

        Args:
            path: The file to write.
        """
        text = io.StringIO()
        table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(map(self._cells, self.rows))
        write_text(Path(path), text.getvalue())

    def to_json(self) -> dict[str, Any]:
        """Return the result for JSON, without the pairs of the truth."""
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
            "removed": self.removed,
            "labels": None if self.labels is None else self.labels.to_json(),
            "shingles": None if self.comparison is None else self.comparison.to_json(),
            "pruned": dict(self.pruned),
            "trials": [row.to_json() for row in self.rows],
        }

    def _cells(self, row: TrialOutcome) -> dict[str, Any]:
        """Return the cells of a trial in the CSV file; cells without a figure stay empty."""
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
