"""The result of a sweep: its trials, the recommended operating point, and why."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from neardup.evaluation.truth import Truth
from neardup.formats.tables import write_text
from neardup.planner.trial import TrialOutcome, TrialPoint

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
