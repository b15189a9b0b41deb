"""The result of an evaluation as a record and as a summary, and the quality gates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from textwrap import wrap
from typing import Any, Final

import numpy as np
import xxhash

import neardup
from neardup.evaluation.drift import KIND
from neardup.evaluation.golden import SEVERAL, LabelledPairs, printable_id
from neardup.evaluation.profile import CorpusProfile
from neardup.evaluation.scores import LOWEST, Scores, ThresholdSweep
from neardup.formatting import format_similarity, make_printable
from neardup.spec import VECTOR

SHOWN: Final = 3
WIDTH: Final = 100
"""Columns if the width of the terminal is unknown."""
INDENT: Final = 20
NARROWEST: Final = 20
BETWEEN: Final = "   "

Line = tuple[str, Sequence[str]]
"""A title, and its parts, which are not broken if they fit on a line."""


def format_summary(evaluation: Evaluation, width: int = WIDTH) -> str:
    """Return the summary of an evaluation, the figures first, wrapped to a width."""
    golden = evaluation.golden
    positives = int(golden.label.sum())
    counts = (
        f"{len(golden):,} labelled pairs",
        f"{positives:,} duplicates",
        f"{len(golden) - positives:,} others",
        *([] if golden.weights is None else [f"stand for {golden.weights.pairs:,.0f} pairs"]),
    )
    lines = [
        *_packed(counts, width),
        *wrap(evaluation.judged, width, subsequent_indent=" " * INDENT),
    ]
    for name, parts in _lines(evaluation):
        first, *others = _packed(parts, max(width - INDENT, NARROWEST))
        lines += [f"{name:{INDENT}}{first}", *(" " * INDENT + other for other in others)]
    return "\n".join(lines) + "\n"


def _packed(parts: Sequence[str], width: int) -> list[str]:
    """Pack parts into lines. Names are not broken, so that they can be copied."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(BETWEEN) + len(part) <= width:
            lines[-1] += BETWEEN + part
        else:
            lines += wrap(part, width, break_long_words=False, break_on_hyphens=False)
    return lines


def _lines(evaluation: Evaluation) -> Iterator[Line]:
    if evaluation.golden.columns:
        yield "golden set", [make_printable(evaluation.golden.columns)]
    for name, flaw in evaluation.golden.flaws.items():
        if flaw.count:
            first, *others = (" ~ ".join(map(printable_id, one)) for one in flaw.listed[:SHOWN])
            title = "not unique" if name == SEVERAL else "left out"
            yield title, [f"{flaw.count:,} {name}: {first}", *others]
    yield "by labels", _scores(evaluation.labels)
    if evaluation.similarity is not None:
        yield "by similarity", _scores(evaluation.similarity)
    if evaluation.candidates is not None:
        yield "that meet", [f"recall {evaluation.candidates.recall}"]
    if evaluation.losses is not None and evaluation.labels.fn:
        yield "missed", _losses(evaluation.losses)
    if (rand := evaluation.rand) is not None:
        yield "adjusted Rand", [f"{_number(rand.value)}; golden clusters: {rand.clusters}"]
    alone = evaluation.of_vectors
    for name, sweep in (
        ("best cosine" if alone else "best threshold", evaluation.sweep),
        ("best cosine", evaluation.cosines),
    ):
        if sweep is not None and sweep.best is not None:
            recall, precision, f1 = map(_number, sweep.at_best)
            figures = (
                f"{sweep.best:g}: recall {recall}, precision {precision}, F1 {f1}, if all pairs met"
            )
            yield name, [figures, *format_as_good(sweep)]
    for name, cases in (
        ("false positives", evaluation.false_positives),
        ("false negatives", evaluation.false_negatives),
    ):
        if cases:
            yield name, [_case(case) for case in cases[:SHOWN]]
    for note in evaluation.notes:
        yield "note", [note]
    for change in evaluation.drift or ():
        yield "since the baseline", [change]


def format_as_good(sweep: ThresholdSweep) -> list[str]:
    """Describe the thresholds that are as good as the best one, as far as the labels tell.

    If that is too low, also the threshold that `neardup tune` would choose.
    """
    if sweep.best is None or sweep.as_good is None or sweep.advised_as_good is None:
        return []
    lines = [_range(sweep.as_good)]
    if sweep.best < LOWEST:
        lines += [
            f"below {LOWEST:g} most documents of a large corpus are compared; of {LOWEST:g} and "
            f"more, {sweep.advised:g} is advised, F1 {_number(sweep.at(sweep.advised)[2])}: "
            f"{_range(sweep.advised_as_good)}"
        ]
    return lines


def _range(as_good: Sequence[float]) -> str:
    low, high = as_good
    if low == high:
        return "all others are worse by these labels"
    return (
        f"{low:g} to {high:g} are as good, as far as these labels can tell; {high:g} removes the "
        "least"
    )


def _scores(scores: Scores) -> list[str]:
    return [f"recall {scores.recall}", f"precision {scores.precision}", f"F1 {scores.f1}"]


def _losses(losses: Losses) -> list[str]:
    """Return why pairs were missed; the last two reasons only if they occur."""
    reasons = [
        f"{losses.dissimilar:,} are less similar than the threshold",
        f"{losses.never_met:,} are similar and never met",
    ]
    if losses.misjudged:
        reasons.append(f"{losses.misjudged:,} were misjudged by their estimates")
    if losses.apart:
        reasons.append(
            f"{losses.apart:,} are similar and in different clusters: each went with another kept "
            "document, or was kept for itself"
        )
    return reasons


def _case(case: Case) -> str:
    figures = []
    if case.similarity is not None:
        figures.append(format_similarity(case.similarity, 2))
    if case.cosine is not None:
        figures.append(f"cosine {format_similarity(case.cosine, 2)}")
    similarity = f" ({', '.join(figures)})" if figures else ""
    return f"{printable_id(case.id1)} ~ {printable_id(case.id2)}{similarity}"


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


@dataclass(frozen=True)
class Case:
    """A pair that was judged wrongly.

    Attributes:
        id1: The id of the first document.
        id2: The id of the second document.
        similarity: The exact similarity; None without a corpus.
        met: Whether the pair shares a bucket; None if unknown.
        texts: Both texts, cut to 20,000 characters; None without a corpus.
        cosine: The cosine of their vectors, if these are a second signal.
    """

    id1: str
    id2: str
    similarity: float | None
    met: bool | None
    texts: tuple[str, str] | None
    cosine: float | None = None

    @property
    def record(self) -> dict[str, Any]:
        """The case as evaluation.json has it, without the texts."""
        named = {"id1": self.id1, "id2": self.id2, "similarity": self.similarity, "met": self.met}
        return named | ({} if self.cosine is None else {"cosine": self.cosine})


@dataclass(frozen=True)
class Losses:
    """The number of labelled duplicates that were missed, by the reason.

    Attributes:
        dissimilar: Less similar than the threshold; another threshold or shingle would help.
        never_met: Similar, but without a common bucket; more bands or fewer rows would help.
        misjudged: Similar candidates that the estimate rejected.
        apart: Similar, but in different clusters of a run that wrote no pairs.
    """

    dissimilar: int
    never_met: int
    misjudged: int
    apart: int


@dataclass(frozen=True)
class Rand:
    """The adjusted Rand index.

    Attributes:
        value: The index, 1 if both clusterings are the same; None if undefined.
        clusters: Where the golden clusters come from, as a sentence.
    """

    value: float | None
    clusters: str


@dataclass(frozen=True)
class Evaluation:
    """The result of `neardup.evaluate`; `str()` of it is a summary.

    Figures that need texts are None without a corpus.

    Attributes:
        judged: The system that was evaluated, in words.
        golden: The labelled pairs that were used, and those that could not be.
        operating_point: Specification, fingerprint and parameters of the system.
        labels: The scores against the labels.
        candidates: The scores before verification: each pair that shares a bucket is predicted.
        similarity: The scores against the texts: a pair at or above the threshold is true.
        losses: Why labelled duplicates were missed.
        rand: The adjusted Rand index of the clusters; None without labelled duplicates.
        sweep: The scores at all thresholds, by exact similarity.
        false_positives: The most similar pairs that were wrongly called duplicates.
        false_negatives: The most similar duplicates that were missed.
        profile: Figures of a sample of the corpus.
        notes: Notes on undefined or limited figures.
        drift: What has changed since the baseline; None without one.
        cosines: The scores at all least cosines, if vectors are a second signal.

    >>> from neardup import evaluate
    >>> texts = ["the cat sat on the mat today", "The cat sat on the mat, today!", "a dog"]
    >>> evaluation = evaluate([(0, 1, 1), (0, 2, 0)], corpus=texts)
    >>> evaluation.losses.never_met, evaluation.sweep.best is not None
    (0, True)
    """

    judged: str
    golden: LabelledPairs
    operating_point: dict[str, Any]
    labels: Scores
    candidates: Scores | None
    similarity: Scores | None
    losses: Losses | None
    rand: Rand | None
    sweep: ThresholdSweep | None
    false_positives: list[Case]
    false_negatives: list[Case]
    profile: CorpusProfile | None
    notes: list[str]
    drift: list[str] | None = None
    cosines: ThresholdSweep | None = None

    @property
    def of_vectors(self) -> bool:
        """Whether documents were compared by their vectors alone."""
        return bool(self.operating_point["spec"].get("unit") == VECTOR)

    @property
    def record(self) -> dict[str, Any]:
        """The content of evaluation.json."""

        def scores(of: Scores | None) -> dict[str, Any] | None:
            return None if of is None else of.record

        return {
            "kind": KIND,
            "version": neardup.__version__,
            "judged": self.judged,
            "golden": _described(self.golden),
            "operating_point": self.operating_point,
            "labels": scores(self.labels),
            "candidates": scores(self.candidates),
            "similarity": scores(self.similarity),
            "losses": self.losses and asdict(self.losses),
            "rand": self.rand and asdict(self.rand),
            "sweep": self.sweep and asdict(self.sweep),
            **({} if self.cosines is None else {"cosines": asdict(self.cosines)}),
            "false_positives": [case.record for case in self.false_positives],
            "false_negatives": [case.record for case in self.false_negatives],
            "profile": self.profile and self.profile.record,
            "notes": self.notes,
            "drift": self.drift,
        }

    def __str__(self) -> str:
        return format_summary(self)


def _described(golden: LabelledPairs) -> dict[str, Any]:
    """Return the golden set as evaluation.json has it: counts, digest and flaws."""
    positives = int(np.count_nonzero(golden.label))
    return {
        "kind": "pairs" if golden.clusters is None else "clusters",
        "pairs": len(golden),
        "positives": positives,
        "negatives": len(golden) - positives,
        "documents": len(np.unique(np.concatenate([golden.a, golden.b]))),
        "digest": _digest(golden),
        **({} if golden.weights is None else {"stand_for": golden.weights.pairs}),
        "flaws": {name: asdict(flaw) for name, flaw in golden.flaws.items() if flaw.count},
    }


def _digest(golden: LabelledPairs) -> str:
    """Return a digest of the labelled pairs that does not depend on their order."""
    each = np.array([xxhash.xxh64_intdigest(id.encode()) for id in golden.ids], np.uint64)
    x, y = each[golden.a], each[golden.b]
    codes = np.minimum(x, y) * np.uint64(0x9E3779B97F4A7C15) + np.maximum(x, y)
    codes ^= golden.label.astype(np.uint64)
    order = np.argsort(codes)
    content = codes[order].tobytes()
    if golden.weights is not None:
        content += golden.weights.weight[order].tobytes()
    return xxhash.xxh3_128_hexdigest(content)


LABELS: Final = "labels"


@dataclass(frozen=True)
class QualityGate:
    """A score and its least allowed value. An undefined score does not meet it.

    Attributes:
        name: The score: recall, precision or f1.
        by: "labels" or "similarity".
        least: The least allowed value.
        value: The measured value; None if undefined.
    """

    name: str
    by: str
    least: float
    value: float | None

    @property
    def met(self) -> bool:
        """Whether the score reaches the least value."""
        return self.value is not None and self.value >= self.least

    def __str__(self) -> str:
        """
        >>> print(QualityGate("recall", "labels", 0.95, 0.9))
        recall by labels 0.9000 misses --min-recall 0.95 by 0.0500
        """
        figure, option = f"{self.name} by {self.by}", f"--min-{self.name} {self.least:g}"
        if self.value is None:
            cure = "label pairs" if self.by == LABELS else "give pairs, or an operating point,"
            return f"{figure} is undefined, which misses {option}: {cure} that say something of it"
        if self.met:
            return f"{figure} {self.value:.4f} meets {option}"
        return f"{figure} {self.value:.4f} misses {option} by {self.least - self.value:.4f}"


def check_gates(
    evaluation: Evaluation, by: str, least: Mapping[str, float | None]
) -> list[QualityGate]:
    """Return a gate for each score that has a least value.

    Args:
        evaluation: The evaluation.
        by: "labels" or "similarity".
        least: The least value of each score by name; None for no gate.
    """
    scores = evaluation.labels if by == LABELS else evaluation.similarity
    return [
        QualityGate(name, by, x, None if scores is None else getattr(scores, name).value)
        for name, x in least.items()
        if x is not None
    ]
