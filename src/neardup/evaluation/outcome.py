"""What does an evaluation say? Scores, losses, the worst cases; as a record and as a summary."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xxhash

import neardup
from neardup.evaluation.golden import Golden
from neardup.evaluation.profile import Profile
from neardup.evaluation.scores import Scores, Sweep
from neardup.evaluation.snapshot import KIND
from neardup.evaluation.summary import summary


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
    golden: Golden
    operating_point: dict[str, Any]
    labels: Scores
    candidates: Scores | None
    similarity: Scores | None
    losses: Losses | None
    rand: Rand | None
    sweep: Sweep | None
    false_positives: list[Case]
    false_negatives: list[Case]
    profile: Profile | None
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
        return summary(self)


def _described(golden: Golden) -> dict[str, Any]:
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


def _digest(golden: Golden) -> str:
    """The same for the same labelled pairs, whatever their order."""
    each = np.array([xxhash.xxh64_intdigest(id.encode()) for id in golden.ids], np.uint64)
    x, y = each[golden.a], each[golden.b]
    codes = np.minimum(x, y) * np.uint64(0x9E3779B97F4A7C15) + np.maximum(x, y)
    return xxhash.xxh3_128_hexdigest(np.sort(codes ^ golden.label.astype(np.uint64)).tobytes())
