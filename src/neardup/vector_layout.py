"""How the vectors of a run are sketched: their dimension, their centre and their planes.

They follow from the vectors themselves, which are counted in a pass of its own: the centre is their
mean, and the planes are planned for the cosines that a sample of them has. An earlier corpus has
settled the centre and the number of planes already.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from neardup.corpus.documents import Columns, Documents
from neardup.corpus.vectors import with_dimension
from neardup.errors import ParameterError, UsageError
from neardup.framing import seal, unseal
from neardup.lsh.planes import Planes, VectorCounts, plan_planes
from neardup.options import Options
from neardup.sketch.centre import VectorCentre
from neardup.sketch.hyperplane import quantise_centre
from neardup.sketcher import pack_vectors
from neardup.spec import Spec
from neardup.text.shingle import hash_unit_sequences
from neardup.vector_signal import NO_CENTRE

ENDING = ".npy"
MAGIC = b"ndl1" + bytes(4)


@dataclass(frozen=True, eq=False)
class VectorLayout:
    """The planes and the centre of vectors; no planes where vectors find no candidates."""

    planes: Planes | None = None
    centre: VectorCentre = field(default_factory=VectorCentre)

    def to_bytes(self) -> bytes:
        """Return the bytes that `from_bytes` reads."""
        planes = json.dumps(None if self.planes is None else asdict(self.planes)).encode()
        return seal(MAGIC + len(planes).to_bytes(8, "little") + planes + self.centre.to_bytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> VectorLayout:
        """Return the layout of bytes that `to_bytes` made; raise `FormatError` for others."""
        body = unseal(data, MAGIC, "a layout of vectors", 16)
        end = 16 + int.from_bytes(body[8:16], "little")
        planes = json.loads(body[16:end])
        centre = VectorCentre.from_bytes(body[end:])
        return cls(None if planes is None else Planes(**planes), centre)

    def apply(self, options: Options, dimension: int, bits: int | None = None) -> Options:
        """Return options with this layout.

        Args:
            options: The options of a run with vectors.
            dimension: The numbers of a vector.
            bits: The planes of a sketch; None for those of the bands.
        """
        planes = self.planes
        if planes is None:
            return options.laid_out(dimension, None, NO_CENTRE, 0)
        digest = self.centre.digest
        return options.laid_out(dimension, planes, digest, planes.bits if bits is None else bits)


def find_dimension(batches: Iterable[Documents], columns: Columns) -> int:
    """Return how many numbers the first vector has that can be compared; 1 without documents.

    Args:
        batches: The documents, read without a dimension.
        columns: The columns that they were read by.
    """
    found = (with_dimension(columns, documents).dimension for documents in batches)
    return next(filter(None, found), 1)


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


def add_vectors(counts: VectorCounts, documents: Documents) -> None:
    """Count the vectors of documents, those without one left out.

    Args:
        counts: The counts.
        documents: The documents, with vectors.
    """
    if documents.vectors is not None and documents.vectors.shape[1]:
        counts.add(documents.vectors, hash_unit_sequences(pack_vectors(documents.vectors)))


def lay_out_vectors(
    options: Options,
    dimension: int,
    counts: VectorCounts | None,
    earlier: tuple[Spec, VectorCentre] | None = None,
) -> VectorLayout:
    """Return the planes of the vectors, and their centre.

    Args:
        options: The options of a run with vectors.
        dimension: The numbers of a vector.
        counts: The counted vectors; None if `counts_vectors` says that there is no need.
        earlier: The specification and the centre of an earlier corpus.
    """
    signal = options.vectors
    assert signal is not None  # noqa: S101  # the caller has vectors
    if not signal.finds:
        return VectorLayout()
    if earlier is not None:
        centre = earlier[1]
    elif signal.centre is not None:
        centre = read_centre(signal.centre, dimension)
    else:
        assert counts is not None  # noqa: S101  # see `counts_vectors`
        centre = VectorCentre(counts.centre(dimension))
    most = None if earlier is None else earlier[0].planes
    planes = signal.planes
    if planes is None:
        assert counts is not None  # noqa: S101  # see `counts_vectors`
        planes = plan_planes(signal.threshold, options.recall, counts, centre.numbers, most)
    elif most is not None and planes.bits > most:
        raise ParameterError(
            f"--planes {planes.bands}x{planes.rows} needs {planes.bits} planes, and the earlier "
            f"corpus was sketched by {most}: use fewer, or give its files themselves"
        )
    return VectorLayout(planes, centre)


def read_centre(name: str, dimension: int) -> VectorCentre:
    """Return the centre that the option names: zeros for `none`, else that of an .npy file.

    Args:
        name: The value of the option.
        dimension: The numbers of a vector.
    """
    if name == NO_CENTRE:
        return VectorCentre(np.zeros(dimension, np.int16))
    path = Path(name)
    try:
        values = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--centre {name}: can't be read as an {ENDING} file ({type(error).__name__}): give "
            "one with the numbers of a vector, or none"
        ) from None
    is_vector = getattr(values, "shape", None) == (dimension,)
    if not is_vector or values.dtype.kind not in "fiu" or not np.isfinite(values).all():
        raise UsageError(
            f"--centre {name}: it must have {dimension} numbers, as the vectors have: give the "
            "mean of vectors of length 1"
        )
    return VectorCentre(quantise_centre(values.astype(np.float64)))


def columns_of_vectors(options: Options, columns: Columns) -> Columns:
    """Return the columns with that of the vectors, as the options name it.

    Args:
        options: The options of the run.
        columns: The columns without it.
    """
    signal = options.vectors
    if signal is None:
        return columns
    return replace(
        columns,
        vectors=signal.column,
        textless=options.spec.of_vectors,
        vectors_option=signal.option,
    )
