"""How the vectors of a run are sketched: their dimension, their centre and their planes.

They follow from the vectors themselves, which are counted in a pass of its own: the centre is their
mean, and the planes are planned for the cosines that a sample of them has. An earlier corpus has
settled the centre and the number of planes already.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.documents import MATRIX_ENDING, Columns, Documents
from neardup.corpus.vector_files import DAMAGED
from neardup.corpus.vectors import with_dimension
from neardup.errors import ParameterError, UsageError
from neardup.framing import seal, unseal
from neardup.lsh.plane_curve import PlaneCurve
from neardup.lsh.planes import PlanePrediction, Planes, VectorCounts, plan_planes
from neardup.options import Options
from neardup.sketch.centre import VectorCentre
from neardup.sketch.hyperplane import quantise_centre
from neardup.sketcher import pack_vectors
from neardup.spec import Spec
from neardup.text.shingle import hash_unit_sequences
from neardup.vector_signal import NO_CENTRE

MAGIC = b"ndl1" + bytes(4)
HEAD = 16
WORD = 64
"""Planes of a sketch are so many or a multiple: their signs are stored in words."""


@dataclass(frozen=True, eq=False)
class VectorLayout:
    """The planes and the centre of vectors; no curve where vectors find no candidates.

    Attributes:
        curve: The bands of planes, and what they find.
        centre: The centre of the planes.
    """

    curve: PlaneCurve | None = None
    centre: VectorCentre = field(default_factory=VectorCentre)

    def to_bytes(self) -> bytes:
        """Return the bytes that `from_bytes` reads."""
        curve = json.dumps(None if self.curve is None else asdict(self.curve)).encode()
        return seal(MAGIC + len(curve).to_bytes(8, "little") + curve + self.centre.to_bytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> VectorLayout:
        """Return the layout of bytes that `to_bytes` made; raise `FormatError` for others."""
        body = unseal(data, MAGIC, "a layout of vectors", HEAD)
        end = HEAD + int.from_bytes(body[len(MAGIC) : HEAD], "little")
        stated, centre = json.loads(body[HEAD:end]), VectorCentre.from_bytes(body[end:])
        if stated is None:
            return cls(None, centre)
        points = tuple((cosine, found) for cosine, found in stated["points"])
        return cls(PlaneCurve(Planes(**stated["planes"]), points), centre)

    def apply(self, options: Options, dimension: int, bits: int | None = None) -> Options:
        """Return options with this layout.

        Args:
            options: The options of a run with vectors.
            dimension: The numbers of a vector.
            bits: The planes of a sketch; None for those of the bands, in whole words.
        """
        if self.curve is None:
            return options.laid_out(dimension, None, NO_CENTRE, 0)
        whole = -(-self.curve.planes.bits // WORD) * WORD
        digest = self.centre.digest
        return options.laid_out(dimension, self.curve, digest, whole if bits is None else bits)


class CountedVectors:
    """Counts the vectors of documents, on any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts = VectorCounts()

    def add(self, documents: Documents) -> None:
        """Count the vectors of documents; those that are rejected have none."""
        if documents.vectors is not None and documents.vectors.shape[1]:
            self.add_rows(documents.vectors)

    def add_rows(self, vectors: NDArray[np.float32]) -> None:
        """Count vectors, a row each; rows of zeros are none."""
        contents = hash_unit_sequences(pack_vectors(vectors))
        with self._lock:
            self.counts.add(vectors, contents)

    def scaled_to(self, documents: int) -> CountedVectors:
        """Return about what would be counted of so many documents like these."""
        return self._of(self.counts.scaled_to(documents))

    def merge(self, other: CountedVectors) -> None:
        """Add the counts of other documents."""
        with self._lock:
            self.counts.merge(other.counts)

    def __reduce__(self) -> tuple[Callable[[VectorCounts], CountedVectors], tuple[VectorCounts]]:
        return CountedVectors._of, (self.counts,)

    @classmethod
    def _of(cls, counts: VectorCounts) -> CountedVectors:
        counted = cls()
        counted.counts = counts
        return counted


def _find_dimension(batches: Iterable[Documents], columns: Columns) -> int:
    """Return how many numbers the first vector has that can be compared; 1 without documents.

    Args:
        batches: The documents, read without a dimension.
        columns: The columns that they were read by.
    """
    found = (with_dimension(columns, documents).dimension for documents in batches)
    return next(filter(None, found), 1)


def find_layout(
    read: Callable[[Columns], Iterable[Documents]], options: Options, columns: Columns
) -> tuple[Options, Columns, VectorCentre]:
    """Return options and columns for the vectors of documents, and their centre.

    Args:
        read: Reads all documents from the beginning; called up to twice if there are vectors.
        options: The options of the run.
        columns: The columns to read.
    """
    if options.vectors is None:
        return options, columns, VectorCentre()
    dimension = _find_dimension(read(columns), columns)
    columns = replace(columns, dimension=dimension)
    counted = None
    if counts_vectors(options):
        counted = CountedVectors()
        for documents in read(columns):
            counted.add(documents)
    layout = lay_out_vectors(options, dimension, counted)
    return layout.apply(options, dimension), columns, layout.centre


def counts_vectors(options: Options, earlier: Spec | None = None) -> bool:
    """Return whether the vectors must be counted before they are sketched.

    Args:
        options: The options of the run.
        earlier: The specification of an earlier corpus.
    """
    signal = options.vectors
    if signal is None or not signal.finds:
        return False
    return signal.planes is None or (signal.centre is None and earlier is None)


def lay_out_vectors(
    options: Options,
    dimension: int,
    counted: CountedVectors | None,
    earlier: tuple[Spec, VectorCentre] | None = None,
) -> VectorLayout:
    """Return the planes of the vectors, and their centre.

    Args:
        options: The options of a run with vectors.
        dimension: The numbers of a vector.
        counted: The counted vectors; None if `counts_vectors` says that there is no need.
        earlier: The specification and the centre of an earlier corpus.
    """
    signal = options.vectors
    assert signal is not None  # noqa: S101  # the caller has vectors
    if not signal.finds:
        return VectorLayout()
    centre = None
    if earlier is not None:
        centre = earlier[1].numbers
        if len(centre) != dimension:
            raise ParameterError(
                f"--against: the vectors of the earlier corpus have {len(centre)} numbers, these "
                f"have {dimension}: compare vectors of one model"
            )
        if signal.centre is not None:
            given = read_centre(signal.centre, dimension)
            if not np.array_equal(given, centre):
                raise ParameterError(
                    f"--centre {signal.centre}: the earlier corpus was sketched with another "
                    "centre: leave out --centre, or give the files of the earlier corpus"
                )
    elif signal.centre is not None:
        centre = read_centre(signal.centre, dimension)
    most = None if earlier is None else earlier[0].planes
    if signal.planes is not None:
        _check_planes(signal.planes, most)
    if counted is None:
        assert signal.planes is not None and centre is not None  # noqa: S101
        return VectorLayout(PlaneCurve(signal.planes), VectorCentre(centre))
    counts = counted.counts
    centre = counts.centre(dimension) if centre is None else centre
    planes = signal.planes
    if not counts.documents:
        return VectorLayout(PlaneCurve(signal.tables), VectorCentre(centre))
    if planes is None:
        planes = plan_planes(signal.threshold, options.recall, counts, centre, most)
    predicted = PlanePrediction.of(planes, signal.threshold, counts, centre)
    return VectorLayout(PlaneCurve.of(predicted), VectorCentre(centre))


def _check_planes(planes: Planes, most: int | None) -> None:
    """Refuse more planes than an earlier corpus was sketched by."""
    if most is not None and planes.bits > most:
        raise ParameterError(
            f"{planes} are more than the {most} planes by which the earlier corpus was sketched: "
            "use a higher cosine or a lower recall, give fewer with --planes BxR, or give the "
            "files of the earlier corpus"
        )


def read_centre(name: str, dimension: int) -> NDArray[np.int16]:
    """Return the centre that the option names: zeros for `none`, else that of an .npy file.

    Args:
        name: The value of the option.
        dimension: The numbers of a vector.
    """
    if name == NO_CENTRE:
        return np.zeros(dimension, np.int16)
    path = Path(name)
    try:
        with np.errstate(over="ignore"):
            values = np.load(path, mmap_mode="r", allow_pickle=False)
            if getattr(values, "shape", None) == (dimension,):
                values = np.load(path, allow_pickle=False)  # a map of a file that is cut off kills
    except (OSError, *DAMAGED) as error:
        raise UsageError(
            f"--centre {name}: can't be read as an {MATRIX_ENDING} file ({type(error).__name__}): "
            "give one with the numbers of a vector, or none"
        ) from None
    is_vector = getattr(values, "shape", None) == (dimension,)
    if not is_vector or values.dtype.kind not in "fiu" or not np.isfinite(values).all():
        raise UsageError(
            f"--centre {name}: it must have {dimension} finite numbers, as many as the vectors: "
            "give the mean of vectors of length 1"
        )
    return quantise_centre(values.astype(np.float64))


def columns_of_vectors(options: Options, columns: Columns) -> Columns:
    """Return the columns with that of the vectors, as the options name it.

    Args:
        options: The options of the run.
        columns: The columns without it.
    """
    signal = options.vectors
    if signal is None or signal.embed is not None:  # which is read when they are made
        return columns
    is_file = signal.column.endswith(MATRIX_ENDING)
    return replace(
        columns,
        vectors=os.path.abspath(signal.column) if is_file else signal.column,
        textless=options.spec.of_vectors,
        vectors_option=signal.option,
    )
