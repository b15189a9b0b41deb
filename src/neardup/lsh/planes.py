"""Split the signs of a vector into bands; equal signs in a band make two documents candidates.

Signs are packed into the columns of a signature: columns of 64 bits, or of 32 beside the slots of
texts. The keys of bands of planes differ from those of bands of slots, whatever their numbers.

`VectorCounts` learns in one pass what planes depend on, and `plan_planes` says how many bands of
how many planes find the similar vectors with the least work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import ParameterError
from neardup.formatting import format_count
from neardup.lsh.angles import Agreements, Surroundings
from neardup.lsh.curve import BELOW_ONE, Meeting
from neardup.spec import check_whole, suggest_share

MOST_ROWS: Final = 63
"""The most planes of a band: its signs are one number."""
MOST_PLANES: Final = 65_536
SAMPLED: Final = 2_048
"""Vectors of a sample."""
LEAST_CENTRED: Final = 100
"""Of fewer vectors the mean is no centre: near-duplicates would be on both sides of it."""
SIGN_SECONDS: Final = 1e-11
"""For one number of a vector and one plane; measured, as the next two, on one core."""
KEY_SECONDS: Final = 1e-7
"""For a key of a document: made, sorted and found to be alone."""
PAIR_SECONDS: Final = 2e-7
"""For a comparison."""
MOST_PAIRS: Final = 10**9
"""So many comparisons take minutes, however many documents there are."""
MOST_PER_DOCUMENT: Final = 5_000
"""Comparisons of a document beyond which the work is called quadratic."""
MOST_SINGLE: Final = 1_024
"""Bands of one plane: one at random compares half of all pairs, so that more are work in vain."""

Columns = NDArray[Any]
Keys = NDArray[np.uint64]


@dataclass(frozen=True)
class Planes:
    """Bands of planes: the tables that find vectors.

    Attributes:
        bands: The number of bands.
        rows: The planes of a band, at most 63.

    >>> Planes(20, 12).bits
    240
    """

    bands: int
    rows: int

    def __post_init__(self) -> None:
        check_whole("the number of bands of planes", self.bands, 1, MOST_PLANES)
        check_whole("the number of planes of a band", self.rows, 1, MOST_ROWS)
        if self.bits > MOST_PLANES:
            raise ParameterError(
                f"{self} are {self.bits:,} planes, more than {MOST_PLANES:,}: use fewer bands"
            )

    @property
    def bits(self) -> int:
        """The number of planes, which is the number of signs."""
        return self.bands * self.rows

    @property
    def count(self) -> int:
        """The number of tables."""
        return self.bands

    @property
    def stated(self) -> list[Any]:
        """The parameters, besides the specification, that keys depend on; files state them."""
        return [[self.bands, self.rows]]

    def columns(self, table: int, width: int = 64) -> slice:
        """Return the columns of the signs that a table uses.

        Args:
            table: The number of the table.
            width: The bits of a column, 32 or 64.
        """
        first = table * self.rows
        return slice(first // width, (first + self.rows - 1) // width + 1)

    def column_keys(self, columns: Columns, table: int) -> Keys:
        """Return the documents' keys in one table.

        Args:
            columns: The columns that the table uses, of 32 or 64 bits: (columns x documents).
            table: The number of the table.
        """
        first = table * self.rows % (8 * columns.itemsize)
        keys: Keys = kernels.plane_keys(np.ascontiguousarray(columns), first, self.rows, table)
        return keys

    def keys(self, signatures: Columns) -> Keys:
        """Return the keys in all tables: (documents x tables).

        Args:
            signatures: A row of signs a document, in words of 32 or 64 bits.
        """
        width = 8 * signatures.itemsize
        columns = np.ascontiguousarray(signatures.T)
        tables = range(self.bands)
        keys = (self.column_keys(columns[self.columns(table, width)], table) for table in tables)
        return np.stack(list(keys), axis=1)

    def __str__(self) -> str:
        return f"{format_count(self.bands, 'band')} of {format_count(self.rows, 'plane')}"


class VectorCounts:
    """The sum and a sample of vectors; rows of zeros, which are no vectors, are not counted.

    Sums are whole numbers and the sample is the vectors with the least content hashes, so that
    neither depends on the order, the batches or the workers.

    Attributes:
        documents: How many vectors were counted.
        sample: The sampled vectors, quantised, a row each; equal vectors are sampled once.
    """

    def __init__(self) -> None:
        self.documents = 0
        self.sample = np.empty((0, 0), np.int16)
        self._hashes = np.empty(0, np.uint64)
        self._sums = np.empty(0, np.int64)

    def add(self, vectors: NDArray[np.float32], contents: NDArray[np.uint64]) -> None:
        """Count vectors.

        Args:
            vectors: A row a document, all of one dimension.
            contents: The content hash of each, two words.
        """
        self._widen(vectors.shape[1])
        self.documents += kernels.sum_quantised(vectors, self._sums)
        usable = np.flatnonzero(vectors.any(axis=1))
        if len(self._hashes) == SAMPLED:
            usable = usable[contents[usable, 0] < self._hashes[-1]]
        hashes, first = np.unique(contents[usable, 0], return_index=True)
        chosen = np.ascontiguousarray(vectors[usable[first[:SAMPLED]]])
        self._sample(hashes[:SAMPLED], kernels.quantised(chosen))

    def merge(self, other: VectorCounts) -> None:
        """Count what others have counted, too.

        Args:
            other: The counts of vectors of the same dimension, or of none.
        """
        if other.documents:
            self._widen(other.sample.shape[1])
            self.documents += other.documents
            self._sums += other._sums
            self._sample(other._hashes, other.sample)

    def scaled_to(self, documents: int) -> VectorCounts:
        """Return about what more vectors like these would have counted; of fewer, these counts.

        Args:
            documents: How many vectors there are.
        """
        more = VectorCounts()
        more.merge(self)
        if documents > self.documents > 0:
            more.documents = documents
            more._sums = np.rint(self._sums * (documents / self.documents)).astype(np.int64)
        return more

    def centre(self, dimension: int) -> NDArray[np.int16]:
        """Return the mean of the quantised vectors, rounded; zeros if they are few.

        Args:
            dimension: The numbers of a vector.
        """
        if self.documents < LEAST_CENTRED:
            return np.zeros(dimension, np.int16)
        return ((2 * self._sums + self.documents) // (2 * self.documents)).astype(np.int16)

    def _widen(self, dimension: int) -> None:
        if not self._sums.size:
            self._sums = np.zeros(dimension, np.int64)
            self.sample = np.empty((0, dimension), np.int16)
        if dimension != self._sums.size:
            raise ParameterError(
                f"vectors have {dimension} numbers, those before have {self._sums.size}: give "
                "vectors of one model"
            )

    def _sample(self, hashes: Keys, vectors: NDArray[np.int16]) -> None:
        every, first = np.unique(np.concatenate([self._hashes, hashes]), return_index=True)
        self._hashes = every[:SAMPLED]
        self.sample = np.concatenate([self.sample, vectors])[first[:SAMPLED]]


@dataclass(frozen=True)
class PlanePrediction(Meeting):
    """What bands of planes are predicted to find, and to cost.

    Attributes:
        planes: The bands.
        threshold: The cosine from which on vectors are similar.
        around: How vectors lie around the centre of the planes.
        documents: The number of vectors.
        dimension: The numbers of a vector.
    """

    planes: Planes
    threshold: float
    around: Surroundings
    documents: int
    dimension: int

    @classmethod
    def of(
        cls, planes: Planes, threshold: float, counts: VectorCounts, centre: NDArray[np.int16]
    ) -> PlanePrediction:
        """Predict by counted vectors.

        Args:
            planes: The bands.
            threshold: The cosine from which on vectors are similar.
            counts: What one pass over the vectors has counted.
            centre: The centre of the planes, quantised.
        """
        around = Surroundings.measure(counts.sample, centre, threshold)
        return cls(planes, threshold, around, counts.documents, centre.size)

    def probability(self, similarity: float) -> float:
        """Return the probability that two vectors of this cosine share a bucket."""
        return self.around.at(similarity).meet(self.planes.bands, self.planes.rows)

    @cached_property
    def recall(self) -> float:
        """The share of the pairs at the threshold that share a bucket."""
        return self.probability(self.threshold)

    @cached_property
    def candidates(self) -> float:
        """The number of pairs below the threshold that share a bucket."""
        pairs = self.documents * (self.documents - 1) / 2
        return pairs * self.around.others.meet(self.planes.bands, self.planes.rows)

    @property
    def compared(self) -> float:
        """The pairs below the threshold that share a bucket, for each document."""
        return self.candidates / max(self.documents, 1)

    @property
    def members(self) -> float:
        """The buckets of a document that it shares with one below the threshold."""
        one_band = self.around.others.meet(1, self.planes.rows)
        return self.planes.bands * -math.expm1(-self.documents * one_band)

    @property
    def met(self) -> float:
        """The share of the documents that share a bucket with one below the threshold."""
        return -math.expm1(-2.0 * self.compared)

    @property
    def key_seconds(self) -> float:
        """The work of one core until all documents have their keys, about."""
        signs = self.planes.bits * self.dimension * SIGN_SECONDS
        return self.documents * (signs + self.planes.bands * KEY_SECONDS)

    @property
    def seconds(self) -> float:
        """The work of one core, about."""
        return self.key_seconds + self.candidates * PAIR_SECONDS

    @property
    def is_quadratic(self) -> bool:
        """Whether documents are compared with so many others that a large corpus takes forever."""
        return self.candidates > max(MOST_PAIRS, MOST_PER_DOCUMENT * self.documents)

    @property
    def is_opposite(self) -> bool:
        """Whether vectors at the threshold lie on opposite sides of the centre."""
        return self.planes.rows == 1 and self.planes.bands > MOST_SINGLE

    def __str__(self) -> str:
        return str(self.planes)


def plan_planes(
    threshold: float,
    recall: float,
    counts: VectorCounts,
    centre: NDArray[np.int16],
    most: int | None = None,
) -> Planes:
    """Return the bands that find this share of the pairs at the threshold with the least work.

    Args:
        threshold: The cosine from which on vectors are similar.
        recall: The share of the pairs at the threshold that must share a bucket.
        counts: What one pass over the vectors has counted.
        centre: The centre of the planes, quantised.
        most: The most planes; None for as many as there can be.

    Raises:
        ParameterError: No bands reach the recall, or they would compare nearly all pairs.
    """
    if not 0.0 < recall < 1.0:
        cure = suggest_share(recall) or f": {BELOW_ONE}"
        raise ParameterError(f"recall must be above 0 and below 1, not {recall:g}{cure}")
    best = _best(threshold, recall, counts, centre, most)
    if best is None:
        few = "" if most is None else f"{most} planes are too few: "
        raise ParameterError(
            f"no bands of planes find {recall:g} of the pairs at cosine {threshold:g} in these "
            f"vectors: {few}use a higher cosine, a lower --recall, or --centre none"
        )
    if best.is_opposite:
        raise ParameterError(
            f"nearly all of these vectors are nearer to each other than a cosine of {threshold:g}, "
            f"and duplicates by it; around their mean it would need {best}: use a higher cosine, "
            "or --centre none, which finds them"
        )
    if best.is_quadratic:
        raise ParameterError(
            f"vectors of cosine {threshold:g} are hardly nearer than others here: about "
            f"{format_count(round(best.candidates), 'pair')} of "
            f"{format_count(best.documents, 'document')} would be compared in vain: use "
            f"{_suggest_cosine(threshold, recall, counts, centre, most)}a lower --recall"
        )
    return best.planes


def _best(
    threshold: float,
    recall: float,
    counts: VectorCounts,
    centre: NDArray[np.int16],
    most: int | None,
) -> PlanePrediction | None:
    """Return the plan of the least work, quadratic or not; None if no bands reach the recall."""
    around = Surroundings.measure(counts.sample, centre, threshold)
    similar, best = around.at(threshold), None
    for rows in range(1, MOST_ROWS + 1):
        bands = fewest_bands(similar, recall, rows, most)
        if bands is None:
            break  # nor would bands of more rows
        planes = Planes(bands, rows)
        plan = PlanePrediction(planes, threshold, around, counts.documents, centre.size)
        if best is None or plan.seconds < best.seconds:
            best = plan
        elif plan.key_seconds > best.seconds:
            break  # more rows need more bands
    return best


def fewest_bands(
    similar: Agreements, recall: float, rows: int, most: int | None = None
) -> int | None:
    """Return the fewest bands of so many planes that reach the recall; None if none do.

    Args:
        similar: In how many signs pairs at the threshold agree.
        recall: The share of them that must share a bucket.
        rows: The planes of a band.
        most: The most planes; None for as many as there can be.
    """
    low, high = 0, (most or MOST_PLANES) // rows if 1 <= rows <= MOST_ROWS else 0
    if not high or similar.meet(high, rows) < recall:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        enough = similar.meet(middle, rows) >= recall
        low, high = (low, middle) if enough else (middle, high)
    return high


def _suggest_cosine(
    threshold: float,
    recall: float,
    counts: VectorCounts,
    centre: NDArray[np.int16],
    most: int | None,
) -> str:
    """Return the least higher cosine, in hundredths, that is not quadratic, for a message."""
    low, high = math.floor(threshold * 100), 100
    while high - low > 1:
        middle = (low + high) // 2
        plan = _best(middle / 100, recall, counts, centre, most)
        low, high = (middle, high) if plan is None or plan.is_quadratic else (low, middle)
    return f"cosine {high / 100:g} or more, or " if high < 100 else ""
