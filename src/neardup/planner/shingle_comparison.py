"""Compare shingles with one another: which pairs of a sample does one find, and another not?

The truth of a sweep is made of the reference's shingles, so that it can't say that these are wrong.
Here all pairs of the sample are found by each shingle at its own threshold, without bands, and the
differences are shown with examples: a person sees which of them are copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.documents import Documents
from neardup.errors import ParameterError
from neardup.evaluation.lab import ShingleSets
from neardup.evaluation.truth import Truth, brute_force
from neardup.formatting import format_similarity
from neardup.lsh.curve import check_threshold
from neardup.option_table import PRESETS
from neardup.options import Options
from neardup.runtime import Progress
from neardup.spec import Spec
from neardup.text.arrays import Ragged

AUTO: Final = "auto"
NONE: Final = "none"
MOST_COMPARED: Final = 5_000
"""Documents whose pairs are compared; of a larger sample, the first ones."""
EXAMPLES: Final = 5
LONGEST_TEXT: Final = 2_000
"""Characters of a text that the page shows."""

Integers = NDArray[np.int64]


@dataclass(frozen=True, order=True)
class ComparedShingle:
    """A shingle and the least similarity of a pair that it finds.

    >>> str(ComparedShingle.parse("char:5@0.5", 0.8)), str(ComparedShingle.parse("word:3", 0.8))
    ('char:5 at 0.5', 'word:3 at 0.8')
    """

    shingle: str
    threshold: float

    @classmethod
    def parse(cls, text: str, threshold: float) -> ComparedShingle:
        """Read SHINGLE@THRESHOLD, or SHINGLE, which gets the given threshold."""
        shingle, at, number = text.strip().partition("@")
        try:
            least = float(number) if at else threshold
        except ValueError:
            raise ParameterError(
                f"compare {text!r}: {number!r} is no threshold: write char:5@0.5"
            ) from None
        check_threshold(least)
        spec = Spec.of(shingle)
        if spec.unit == "token":
            raise ParameterError("tokens can't be compared with texts: give word, char or line")
        return cls(spec.shingle, least)

    def __str__(self) -> str:
        return f"{self.shingle} at {self.threshold:g}"


def parse_compared(
    given: str | Sequence[str] | None, reference: ComparedShingle, advised: bool
) -> list[ComparedShingle]:
    """Return the shingles to compare, the reference first; [] for no comparison.

    Args:
        given: Shingles, separated by commas or as a list; `auto`, `none`, or None for `auto`.
        reference: The shingle and threshold that define a true pair.
        advised: Whether the documents are such that another shingle is advised (`auto`).
    """
    listed = (given or AUTO).split(",") if isinstance(given, str | None) else list(given)
    if listed == [NONE]:
        return []
    if listed == [AUTO]:
        short = PRESETS["short"]
        others = [ComparedShingle(short["shingle"], short["threshold"])] if advised else []
    else:
        others = [ComparedShingle.parse(text, reference.threshold) for text in listed]
    found = list(dict.fromkeys([reference, *others]))
    return found if len(found) > 1 else []


@dataclass(frozen=True)
class PairExample:
    """A pair that one shingle finds and another does not, by the ids of its documents."""

    a: str
    b: str
    similarity: float
    other_similarity: float
    texts: tuple[str, str]


@dataclass(frozen=True)
class ShingleDifference:
    """The pairs that `finds` has and `misses` has not, with a few examples."""

    finds: ComparedShingle
    misses: ComparedShingle
    pairs: int
    examples: Sequence[PairExample]


@dataclass(frozen=True)
class ShingleComparison:
    """How many pairs each shingle finds, and which the others miss.

    documents     the number of documents whose pairs were compared
    found         the number of pairs by shingle, the reference first
    differences   for each two shingles, in both directions
    """

    documents: int
    found: Mapping[ComparedShingle, int]
    differences: Sequence[ShingleDifference]

    def to_json(self) -> dict[str, Any]:
        """Return the comparison for JSON, without texts."""
        return {
            "documents": self.documents,
            "found": [asdict(point) | {"pairs": pairs} for point, pairs in self.found.items()],
            "differences": [
                {
                    "finds": asdict(one.finds),
                    "misses": asdict(one.misses),
                    "pairs": one.pairs,
                    "examples": [
                        {
                            "a": pair.a,
                            "b": pair.b,
                            "similarity": pair.similarity,
                            "other_similarity": pair.other_similarity,
                        }
                        for pair in one.examples
                    ],
                }
                for one in self.differences
            ],
        }

    def sentences(self) -> list[str]:
        """Return the comparison in sentences, an example for each difference."""
        counts = ", ".join(f"{point} finds {pairs:,}" for point, pairs in self.found.items())
        lines = [f"Shingles compared, all pairs of {self.documents:,} documents: {counts}."]
        for one in self.differences:
            if not one.pairs:
                lines.append(f"None is found by {one.finds} alone, beside {one.misses}.")
                continue
            pair = one.examples[0]
            lines.append(
                f"{one.pairs:,} are found by {one.finds} and not by {one.misses}, such as {pair.a} "
                f"and {pair.b}: {format_similarity(pair.similarity, 2)} and "
                f"{format_similarity(pair.other_similarity, 2)}."
            )
        lines.append(
            "Which of these are copies no figure can tell: look at them (-o OUT, tuning.html), "
            "then choose --shingle and --threshold."
        )
        return lines


def compare_shingles(
    documents: Documents,
    ids: Sequence[str],
    points: Sequence[ComparedShingle],
    shared: Mapping[str, Any],
    workers: int,
    progress: Progress,
) -> ShingleComparison:
    """Find all pairs by each shingle, and the differences.

    Args:
        documents: The documents of the sample, all different.
        ids: Their ids.
        points: The shingles with their thresholds, the reference first.
        shared: Options that all shingles share.
        workers: Threads.
        progress: Receives the progress.
    """
    if len(documents) > MOST_COMPARED:
        documents = documents.take(np.arange(MOST_COMPARED))
    sets = {
        point: ShingleSets.of(documents, Options.of(shingle=point.shingle, **shared).spec).sets
        for point in points
    }
    truths = {
        point: brute_force(sets[point], point.threshold, workers, progress) for point in points
    }
    differences = [
        _difference(one, other, truths, sets, documents, ids)
        for one in points
        for other in points
        if one != other
    ]
    found = {point: len(truth.a) for point, truth in truths.items()}
    return ShingleComparison(len(documents), found, differences)


def _difference(
    one: ComparedShingle,
    other: ComparedShingle,
    truths: Mapping[ComparedShingle, Truth],
    sets: Mapping[ComparedShingle, Ragged],
    documents: Documents,
    ids: Sequence[str],
) -> ShingleDifference:
    truth = truths[one]
    alone = np.flatnonzero(truths[other].of(truth.a, truth.b) == 0.0)
    # Examples from all over: the most similar pairs are often the least instructive ones.
    order = alone[np.argsort(-truth.similarity[alone], kind="stable")]
    chosen = order[np.unique(np.linspace(0, len(order) - 1, EXAMPLES).astype(int))[: len(order)]]
    examples = [_example(truth, at, sets[other], documents, ids) for at in chosen.tolist()]
    middle = len(examples) // 2  # the one to show alone
    return ShingleDifference(one, other, len(alone), [*examples[middle:], *examples[:middle]])


def _example(
    truth: Truth, place: int, other: Ragged, documents: Documents, ids: Sequence[str]
) -> PairExample:
    a, b = int(truth.a[place]), int(truth.b[place])
    text_a, text_b = (str(documents.texts[row])[:LONGEST_TEXT] for row in (a, b))
    similarity = float(truth.similarity[place])
    return PairExample(ids[a], ids[b], similarity, _jaccard(other, a, b), (text_a, text_b))


def _jaccard(sets: Ragged, a: int, b: int) -> float:
    one, two = (sets.data[sets.offsets[row] : sets.offsets[row + 1]] for row in (a, b))
    common = len(np.intersect1d(one, two, assume_unique=True))
    return common / max(len(one) + len(two) - common, 1)
