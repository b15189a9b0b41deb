"""What vectors find beside texts on labelled sets: the rows of a table of docs/quality.md.

The vectors are stand-ins for those of trained encoders, made of the texts by
`tests/support/embeddings.py`: `hashed` ones know which words two texts share, `learnt` ones which
words occur near one another in the set. The pairs are halved as those of other tables; cosines are
chosen on one half, scored on the other one, and the other way round.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from table import Row

from neardup.corpus.documents import Columns
from neardup.evaluation.evaluation import read_point
from neardup.evaluation.golden import LabelledPairs, load_golden
from neardup.evaluation.operating_point import OperatingPoint, usable_pairs
from neardup.evaluation.scores import Scores
from neardup.options import Options
from neardup.runtime import SILENT

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.embeddings import WordVectors, hashed_vectors

SETS = ("linux_doc_6.1_6.12", "scancode_license_texts", "mccormick_articles_2500")
DIMENSION = 384
HIGH, LOW = 0.8, 0.3
"""Thresholds of texts: the default, and the lowest that is advised."""
NEAR_BEST = 0.005
NEARLY_ALL = 0.98
"""A veto may cost the other duplicates that texts find."""
STEPS = 1_000
"""Cosines to choose from: thousandths."""

Flags = NDArray[np.bool_]
Reals = NDArray[np.float64]


def embeddings(texts: Sequence[str]) -> Iterator[tuple[str, NDArray[np.float32]]]:
    yield "hashed", hashed_vectors(texts, DIMENSION)
    yield "learnt", WordVectors.fit(texts, DIMENSION).embed(texts)


@dataclass(frozen=True)
class JudgedHalf:
    """The pairs of a half by an operating point: what is found, and the figures of each pair."""

    found: Flags
    label: Flags
    similarity: Reals
    cosine: Reals | None

    @classmethod
    def of(cls, corpus: pa.Table, labelled: LabelledPairs, **asked: Any) -> JudgedHalf:
        workers = len(os.sched_getaffinity(0))
        columns = Columns(id="id")
        options = Options.of(**asked)
        point, _ = read_point(labelled, corpus, columns, {}, options, 2, workers, SILENT)
        used = usable_pairs(labelled, point)
        return cls._judge(point, used)

    @classmethod
    def _judge(cls, point: OperatingPoint, used: LabelledPairs) -> JudgedHalf:
        a, b = used.a, used.b
        return cls(point.duplicates(a, b), used.label, point.similarity(a, b), point.cosines(a, b))


@dataclass(frozen=True)
class SignalSet:
    """A labelled set with vectors.

    Attributes:
        name: Of the set, and of the vectors.
        corpus: A table with id, text and v.
        halves: The labels of each half.
    """

    name: str
    vectors: str
    corpus: pa.Table
    halves: tuple[LabelledPairs, LabelledPairs]

    @cached_property
    def by_text(self) -> list[JudgedHalf]:
        """The halves by the default operating point, with the cosines of their pairs."""
        # Any cosine: a pair is found by its text alone, as no vector is less similar than this.
        return [self.judge(half, unless="v:-0.999") for half in self.halves]

    def judge(self, half: LabelledPairs, **asked: Any) -> JudgedHalf:
        return JudgedHalf.of(self.corpus, half, **asked)

    def rows(self) -> Iterator[Row]:
        low = [self.judge(half, threshold=LOW) for half in self.halves]
        text = [one.found for one in self.by_text], [one.found for one in low]
        yield self.row("texts", ["0.8"], self.by_text, text)
        yield self.row("texts", [f"{LOW}"], low, text)
        chosen = [self.choose(other, "alone") for other in reversed(self.by_text)]
        pairs = list(zip(self.halves, chosen))
        found = [self.judge(half, vectors="v", cosine=cosine) for half, cosine in pairs]
        yield self.row("vectors", [f"{cosine:.3f}" for cosine in chosen], found, text)
        for threshold in (HIGH, LOW):
            chosen = [self.choose(other, "also", threshold) for other in reversed(self.by_text)]
            pairs = list(zip(self.halves, chosen))
            found = [self.judge(half, also=f"v:{c}", threshold=threshold) for half, c in pairs]
            points = [f"{threshold} or {cosine:.3f}" for cosine in chosen]
            yield self.row("either", points, found, text)
        chosen = [self.choose(other, "unless", LOW) for other in reversed(self.by_text)]
        pairs = list(zip(self.halves, chosen))
        found = [self.judge(half, unless=f"v:{c}", threshold=LOW) for half, c in pairs]
        yield self.row("both", [f"{LOW} and {cosine:.3f}" for cosine in chosen], found, text)

    def choose(self, half: JudgedHalf, role: str, threshold: float = HIGH) -> float:
        """Return a cosine whose F1 is nearly the best on this half: the one that removes least.

        With a veto it is the highest that still finds nearly all duplicates of the texts.

        Args:
            half: The pairs by which it is chosen.
            role: The role of the vectors.
            threshold: That of the texts.
        """
        assert half.cosine is not None
        beside = half.cosine
        if role == "also":
            beside = np.where(half.similarity >= threshold, 1.0, beside)
        cosines = np.arange(1, STEPS) / STEPS
        if role == "unless":
            of_duplicates = beside[half.label & (half.similarity >= threshold)]
            found = np.array([np.mean(of_duplicates >= cosine) for cosine in cosines])
            return float(cosines[found >= NEARLY_ALL].max(initial=cosines[0]))
        f1 = np.array([_f1(beside >= cosine, half.label) for cosine in cosines])
        return float(cosines[f1 >= f1.max() - NEAR_BEST][-1])

    def row(
        self,
        signals: str,
        points: list[str],
        halves: list[JudgedHalf],
        text: tuple[list[Flags], list[Flags]],
    ) -> Row:
        found = np.concatenate([one.found for one in halves])
        label = np.concatenate([one.label for one in halves])
        high, low = (np.concatenate(flags) for flags in text)
        scores = Scores.of(found, label)
        return {
            "set": self.name,
            "vectors": "" if signals == "texts" else self.vectors,
            "compared by": signals,
            "thresholds": " / ".join(dict.fromkeys(points)),
            "duplicates": int(label.sum()),
            "recall": f"{scores.recall.value:.3f}",
            "precision": f"{scores.precision.value:.3f}" if found.any() else "undefined",
            "F1": f"{scores.f1.value:.3f}",
            "wrong": scores.fp,
            f"found, not by texts at {HIGH}": int(np.sum(found & ~high & label)),
            f"found, not by texts at {LOW}": int(np.sum(found & ~low & label)),
            f"missed, not by texts at {LOW}": int(np.sum(~found & low & label)),
        }


def _f1(found: Flags, label: Flags) -> float:
    return float(Scores.of(found, label).f1.value or 0.0)


def rows_of(name: str, corpus: list[dict[str, str]], halves: Sequence[Any]) -> Iterator[Row]:
    """Return the rows of a set, the texts alone once.

    Args:
        name: Of the set.
        corpus: Its documents, with id and text.
        halves: The golden set of each half, as `neardup.evaluate` takes it.
    """
    first, second = (load_golden(half, None, None) for half in halves)
    texts = [row["text"] for row in corpus]
    for number, (kind, vectors) in enumerate(embeddings(texts)):
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), DIMENSION)
        ids = pa.array([row["id"] for row in corpus])
        table = pa.table({"id": ids, "text": texts, "v": column})
        for row in SignalSet(name, kind, table, (first, second)).rows():
            if number == 0 or row["vectors"]:
                yield row
