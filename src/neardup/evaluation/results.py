"""The result of an evaluation as a record and as a summary, and the quality gates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import xxhash

import neardup
from neardup.evaluation.drift import KIND
from neardup.evaluation.golden import SEVERAL, LabelledPairs, printable_id
from neardup.evaluation.profile import CorpusProfile
from neardup.evaluation.scores import Scores, ThresholdSweep

if TYPE_CHECKING:
    pass
    from neardup.evaluation.scores import Scores


SHOWN: Final = 3
WIDTH: Final = 100
"""Columns where nobody says how many there are."""
INDENT: Final = 20
NARROWEST: Final = 20
BETWEEN: Final = "   "

Line = tuple[str, Sequence[str]]
"""What it is about, and what is said: parts that stay whole if they can."""


def format_summary(found: Evaluation, width: int = WIDTH) -> str:
    """Some lines, the figures first; what is longer than a line goes on below its beginning."""
    golden = found.golden
    positives = int(golden.label.sum())
    counts = (
        f"{len(golden):,} labelled pairs",
        f"{positives:,} duplicates",
        f"{len(golden) - positives:,} others",
    )
    lines = [*_packed(counts, width), *wrap(found.judged, width, subsequent_indent=" " * INDENT)]
    for name, parts in _lines(found):
        first, *others = _packed(parts, max(width - INDENT, NARROWEST))
        lines += [f"{name:{INDENT}}{first}", *(" " * INDENT + other for other in others)]
    return "\n".join(lines) + "\n"


def _packed(parts: Sequence[str], width: int) -> list[str]:
    """As many parts on a line as have room there. Names are not broken, so that they can be
    copied."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(BETWEEN) + len(part) <= width:
            lines[-1] += BETWEEN + part
        else:
            lines += wrap(part, width, break_long_words=False, break_on_hyphens=False)
    return lines


def _lines(found: Evaluation) -> Iterator[Line]:
    for name, flaw in found.golden.flaws.items():
        if flaw.count:
            first, *others = (" ~ ".join(map(printable_id, one)) for one in flaw.listed[:SHOWN])
            title = "not unique" if name == SEVERAL else "left out"
            yield title, [f"{flaw.count:,} {name}: {first}", *others]
    yield "by labels", _scores(found.labels)
    if found.similarity is not None:
        yield "by similarity", _scores(found.similarity)
    if found.candidates is not None:
        yield "that meet", [f"recall {found.candidates.recall}"]
    if found.losses is not None and found.labels.fn:
        yield "missed", _losses(found.losses)
    if (rand := found.rand) is not None:
        yield "adjusted Rand", [f"{_number(rand.value)}; golden clusters: {rand.clusters}"]
    if (sweep := found.sweep) is not None and sweep.best is not None:
        recall, precision, f1 = map(_number, sweep.at_best)
        said = f"{sweep.best:g}: recall {recall}, precision {precision}, F1 {f1}, if all pairs met"
        yield "best threshold", [said]
    for name, cases in (
        ("false positives", found.false_positives),
        ("false negatives", found.false_negatives),
    ):
        if cases:
            yield name, [_case(case) for case in cases[:SHOWN]]
    for note in found.notes:
        yield "note", [note]
    for change in found.drift or ():
        yield "since the baseline", [change]


def _scores(scores: Scores) -> list[str]:
    return [f"recall {scores.recall}", f"precision {scores.precision}", f"F1 {scores.f1}"]


def _losses(losses: Losses) -> list[str]:
    """Why pairs were missed; the last two only if there are any."""
    said = [
        f"{losses.dissimilar:,} are less similar than the threshold",
        f"{losses.never_met:,} are similar and never met",
    ]
    if losses.misjudged:
        said.append(f"{losses.misjudged:,} were misjudged by their estimates")
    if losses.apart:
        said.append(
            f"{losses.apart:,} are similar and in different clusters: each went with another kept "
            "document, or was kept for itself"
        )
    return said


def _case(case: Case) -> str:
    similarity = "" if case.similarity is None else f" ({case.similarity:.2f})"
    return f"{printable_id(case.id1)} ~ {printable_id(case.id2)}{similarity}"


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


@dataclass(frozen=True)
class Case:
    """A pair that was judged wrongly; what is not known is None. Texts are cut, or not there."""

    id1: str
    id2: str
    similarity: float | None
    met: bool | None
    texts: tuple[str, str] | None

    @property
    def record(self) -> dict[str, Any]:
        """Without the texts."""
        return {"id1": self.id1, "id2": self.id2, "similarity": self.similarity, "met": self.met}


@dataclass(frozen=True)
class Losses:
    """Why labelled duplicates were missed.

    dissimilar  their texts are less similar than the threshold: another threshold, or shingle
    never_met   similar, but in no common bucket: more bands, fewer rows
    misjudged   similar and met, but the estimate was wrong
    apart       found to be similar, but a run has them in different clusters, and wrote no pairs
    """

    dissimilar: int
    never_met: int
    misjudged: int
    apart: int


@dataclass(frozen=True)
class Rand:
    """The adjusted Rand index, and what the golden clusters are."""

    value: float | None
    clusters: str


@dataclass(frozen=True)
class Evaluation:
    """What was found. `record` is the content of evaluation.json, `str()` of it a summary.

    labels      against what people say
    candidates  the same before verification: a pair that meets counts
    similarity  against the texts: a pair whose exact similarity reaches the threshold is true
    What needs the texts is None without a corpus.
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

    @property
    def record(self) -> dict[str, Any]:
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
            "false_positives": [case.record for case in self.false_positives],
            "false_negatives": [case.record for case in self.false_negatives],
            "profile": self.profile and self.profile.record,
            "notes": self.notes,
            "drift": self.drift,
        }

    def __str__(self) -> str:
        return format_summary(self)


def _described(golden: LabelledPairs) -> dict[str, Any]:
    positives = int(np.count_nonzero(golden.label))
    return {
        "kind": "pairs" if golden.clusters is None else "clusters",
        "pairs": len(golden),
        "positives": positives,
        "negatives": len(golden) - positives,
        "documents": len(np.unique(np.concatenate([golden.a, golden.b]))),
        "digest": _digest(golden),
        "flaws": {name: asdict(flaw) for name, flaw in golden.flaws.items() if flaw.count},
    }


def _digest(golden: LabelledPairs) -> str:
    """The same for the same labelled pairs, whatever their order."""
    each = np.array([xxhash.xxh64_intdigest(id.encode()) for id in golden.ids], np.uint64)
    x, y = each[golden.a], each[golden.b]
    codes = np.minimum(x, y) * np.uint64(0x9E3779B97F4A7C15) + np.maximum(x, y)
    return xxhash.xxh3_128_hexdigest(np.sort(codes ^ golden.label.astype(np.uint64)).tobytes())


LABELS: Final = "labels"


@dataclass(frozen=True)
class QualityGate:
    """A figure and the least that it may be. What is undefined is not met.

    name   recall, precision or f1
    by     whose figure it is: that by labels, or by similarity
    """

    name: str
    by: str
    least: float
    value: float | None

    @property
    def met(self) -> bool:
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


def check_gates(found: Evaluation, by: str, least: Mapping[str, float | None]) -> list[QualityGate]:
    """One for each figure of which something is asked."""
    scores = found.labels if by == LABELS else found.similarity
    return [
        QualityGate(name, by, x, None if scores is None else getattr(scores, name).value)
        for name, x in least.items()
        if x is not None
    ]
