"""The table of measures: what similarity is, and what each measure can be used for.

A row says what a measure compares, which kernels do it, how it is named in sentences, and what can
be derived from it. Options, candidates, verification, explanations and reports ask the row; none of
them asks for a name. To add a measure of sets, add a row here, its similarity in
`kernels/measures.py` with its kernels in `kernels/verification.py`, and its slow twin in
`reference/sketches.py`; of vectors in `kernels/signals.py` and `reference/vectors.py`.

Importing this module imports neither NumPy nor PyArrow: `neardup --help` needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

SETS: Final = "sorted sets of shingles"
BAGS: Final = "sorted bags of shingles"
SLOTS: Final = "MinHash slots"
BITS: Final = "SimHash fingerprints"
VECTORS: Final = "vectors"
SIGNALS: Final = "sorted sets of shingles, and vectors"


def jaccard_of_equals(common: int, size: int) -> float:
    """Return the Jaccard similarity of two sets of equal size, by their common elements."""
    return common / (2 * size - common)


def containment_of_equals(common: int, size: int) -> float:
    """Return how much of a set is in another one of equal size, by their common elements."""
    return common / size


class Measure(NamedTuple):
    """A row of the table.

    Args:
        label: Its name in a sentence.
        compares: What a document is for it: SETS, BAGS, SLOTS, BITS, VECTORS or SIGNALS.
        pairs: The kernel that compares pairs: arrays, left, right, threshold.
        keep: The kernel of the keep list: buckets, room, arrays, threshold.
        components: The kernel of connected components: documents, members, starts, cap, arrays,
            threshold; empty if the measure has a direction, which components have not.
        choice: What it is, as the help of --measure describes it; empty if other options decide.
        estimated: Whether the slots of a MinHash estimate it.
        likeness: How a removed document is like its witness, with {similarity} and {witness}.
        to_jaccard: From a similarity by this measure to the Jaccard similarity of the same sets,
            which decides whether they share a bucket; None if it is the Jaccard similarity.
        condition: What `to_jaccard` supposes of the sets, if anything.
        of_equals: The measure of two sets of equal size: common elements, elements of each.
    """

    label: str
    compares: str
    pairs: str
    keep: str
    components: str = ""
    choice: str = ""
    estimated: bool = False
    likeness: str = "{similarity} similar to {witness}"
    to_jaccard: Callable[[float], float] | None = None
    condition: str = ""
    of_equals: Callable[[int, int], float] = jaccard_of_equals


def jaccard_of_containment(containment: float, ratio: float = 1.0) -> float:
    """Return the Jaccard similarity of sets A and B of which B contains this share of A.

    Args:
        containment: The share of A that is also in B.
        ratio: The size of B divided by the size of A.

    >>> jaccard_of_containment(0.8), jaccard_of_containment(1.0, ratio=4)
    (0.6666666666666667, 0.25)
    """
    return containment / (1.0 + ratio - containment)


MEASURES: Final = {
    "jaccard": Measure(
        label="Jaccard",
        compares=SETS,
        pairs="exact_pairs",
        keep="keep_exact",
        components="components_exact",
        choice="the Jaccard similarity of the shingles",
        estimated=True,
    ),
    "containment": Measure(
        label="containment",
        compares=SETS,
        pairs="contained_pairs",
        keep="keep_contained",
        choice="how much of a document is contained in a kept one",
        likeness="{similarity} of it is in {witness}",
        to_jaccard=jaccard_of_containment,
        condition=" for documents of equal size",
        of_equals=containment_of_equals,
    ),
    "weighted": Measure(
        label="weighted Jaccard",
        compares=BAGS,
        pairs="bag_pairs",
        keep="keep_bags",
        components="components_bags",
        estimated=True,
    ),
    "slots": Measure(
        label="equal slots",
        compares=SLOTS,
        pairs="slot_pairs",
        keep="keep_slots",
        components="components_slots",
    ),
    "hamming": Measure(
        label="equal bits",
        compares=BITS,
        pairs="near_pairs",
        keep="keep_near",
        components="components_near",
    ),
    "cosine": Measure(
        label="cosine",
        compares=VECTORS,
        pairs="cosine_pairs",
        keep="keep_cosine",
        components="components_cosine",
        likeness="cosine {similarity} to {witness}",
    ),
    "either": Measure(
        label="Jaccard or cosine",
        compares=SIGNALS,
        pairs="either_pairs",
        keep="keep_either",
        components="components_either",
    ),
    "both": Measure(
        label="Jaccard, and a cosine that is enough",
        compares=SIGNALS,
        pairs="both_pairs",
        keep="keep_both",
        components="components_both",
    ),
}
MeasureName: TypeAlias = Literal["jaccard", "containment"]
CHOICES: Final = tuple(name for name, row in MEASURES.items() if row.choice)
"""The names that --measure takes, the default first."""


def exact_measure(name: str, sketch: str) -> Measure:
    """Return the measure by which shingles are compared exactly.

    Args:
        name: The value of --measure.
        sketch: The sketch of the documents: a weighted one is of bags, the others of sets.

    >>> exact_measure("containment", "minhash").label, exact_measure("jaccard", "weighted").label
    ('containment', 'weighted Jaccard')
    """
    return MEASURES["weighted" if sketch == "weighted" else name]


def describe_choices() -> str:
    """Return what --measure chooses between, for its help.

    >>> describe_choices().partition(", or ")[0]
    'the Jaccard similarity of the shingles'
    """
    *first, last = (MEASURES[name].choice for name in CHOICES)
    return f"{', '.join(first)}, or {last}"
