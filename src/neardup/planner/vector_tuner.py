"""neardup.tune with vectors: labels choose the least cosine, and planes are planned for it.

    labelled pairs -> their cosines -> a cosine, judged on held-out pairs -> planes for all vectors

With a second signal the texts keep their threshold: the cosine decides what they leave open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.documents import Columns
from neardup.corpus.inputs import InputOptions
from neardup.errors import ParameterError, UsageError
from neardup.evaluation.evaluation import read_point
from neardup.evaluation.golden import LabelledPairs
from neardup.evaluation.operating_point import OperatingPoint, usable_pairs
from neardup.option_table import VectorOptions, given_options, options_of
from neardup.options import Options
from neardup.planner.label_choice import COSINE, THRESHOLDS, LabelChoice, choose_among_points
from neardup.planner.shingle_comparison import ComparedShingle
from neardup.runtime import Progress

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
Reals = NDArray[np.float64]

PROFILED = 2
"""Documents of the profile of a corpus, which nobody looks at here."""


@dataclass(frozen=True)
class LabelledCosines:
    """Judges labelled pairs by the cosines of their vectors; all are taken to be compared.

    point  the operating point that has their texts and vectors
    """

    point: OperatingPoint

    def figures(self, a: Integers, b: Integers) -> Reals:
        """Return the cosine of each pair; 1 where the texts are enough, -1 where they veto it."""
        similar, cosine = self.point.similarity(a, b), self.point.cosines(a, b)
        signal = self.point.options.vectors
        if cosine is None or signal is None:
            return similar
        enough = similar >= self.point.options.threshold
        return np.where(enough, 1.0, cosine) if signal.finds else np.where(enough, cosine, -1.0)

    def similarity(self, _shingle: str, _threshold: float, a: Integers, b: Integers, /) -> Reals:
        """Return the figure that the least cosine is compared with."""
        return self.figures(a, b)

    def met(self, _shingle: str, _threshold: float, a: Integers, _b: Integers, /) -> Flags:
        """Return that all pairs are: planes are planned for each cosine."""
        return np.ones(len(a), bool)


@dataclass(frozen=True)
class VectorTuning:
    """The cosine that labels choose, and the planes for it.

    Attributes:
        labels: What labels chose, with figures on held-out pairs; its thresholds are cosines.
        options: The operating point, for `neardup.dedup`.
        reasons: The reasons for it, in sentences.
    """

    labels: LabelChoice
    options: dict[str, Any]
    reasons: list[str]

    def to_json(self) -> dict[str, Any]:
        """Return everything but the pairs, for JSON."""
        return {
            "options": self.options,
            "labels": self.labels.to_json(),
            "reasons": self.reasons,
            "trials": [],
        }


def has_vectors(given: Mapping[str, Any]) -> bool:
    """Return whether there are options about vectors among those that are given."""
    return bool(given_options(given).keys() & options_of(VectorOptions).keys())


def check_no_axes(axes: Mapping[str, Any]) -> None:
    """Refuse axes of a sweep: with vectors there are no trials.

    Args:
        axes: The axes by name; None where none is given.
    """
    for name, values in axes.items():
        if values is not None:
            raise ParameterError(
                f"{name} is an axis of trials of texts: leave it out, labels choose the cosine of "
                "vectors, and planes are planned"
            )


def tune_vectors(
    labelled: LabelledPairs | None,
    corpus: Any,
    columns: Columns,
    input_options: InputOptions,
    given: Mapping[str, Any],
    workers: int,
    progress: Progress,
) -> VectorTuning:
    """Choose the least cosine by labelled pairs, and plan planes for it.

    Args:
        labelled: The labelled pairs.
        corpus: The documents: paths, a list or a table.
        columns: The columns of their texts and ids.
        input_options: How files are read.
        given: The options about texts and vectors, by name.
        workers: Threads.
        progress: Receives the progress.
    """
    if labelled is None:
        raise UsageError(
            "the cosine of vectors is chosen by labels: give --golden; the planes for a cosine "
            "that you know are planned by neardup plan --sample INPUT"
        )
    asked = Options.of(**given)

    def read(options: Options) -> OperatingPoint:
        return read_point(
            labelled, corpus, columns, input_options, options, PROFILED, workers, progress
        )[0]

    point = read(asked)
    signal = asked.vectors
    assert signal is not None  # noqa: S101  # the caller has vectors
    used, judge = usable_pairs(labelled, point), LabelledCosines(point)
    reference = ComparedShingle(COSINE, signal.threshold)
    predicted = judge.figures(used.a, used.b) >= signal.threshold
    choice = choose_among_points(
        used, predicted, reference, [COSINE], lambda: list(THRESHOLDS), judge, progress
    )
    best = replace(signal, threshold=choice.chosen.threshold)
    texts = {name: value for name, value in given.items() if name not in signal.given}
    options = {**texts, **best.given}
    if choice.changed:
        point = read(Options.of(**options))
    a, b = used.a[used.label], used.b[used.label]
    similar = judge.figures(a, b) >= best.threshold
    missed = int(np.count_nonzero(similar & ~point.duplicates(a, b)))
    choice = replace(choice, missed=missed)
    return VectorTuning(choice, options, [*choice.sentences(), *_describe_planes(point.options)])


def _describe_planes(options: Options) -> list[str]:
    """Return the planes of a run with these options over the same documents, in a sentence."""
    signal = options.vectors
    if signal is None or not signal.finds:
        return []
    return [
        f"A run over these documents has {signal.meeting}, which find "
        f"{signal.meeting.probability(signal.threshold):.4f} of the pairs at cosine "
        f"{signal.threshold:g}; neardup plan predicts its time, memory and disk."
    ]
