"""The vectors of an index: what they decide, their centre and their planes.

A run counts its vectors before it sketches them. An index has none when it is made, so that its
centre is given, and its planes are planned by the angle alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.documents import MATRIX_ENDING
from neardup.corpus.vectors import (
    MOST_NUMBERS,
    ConvertedVectors,
    convert_matrix,
    convert_values,
)
from neardup.errors import ParameterError
from neardup.lsh.angle_plan import plan_by_angle
from neardup.lsh.plane_curve import PlaneCurve
from neardup.option_table import VectorOptions, options_of
from neardup.options import Options
from neardup.pipeline.saved import read_centre_file
from neardup.sketch.centre import VectorCentre
from neardup.sketch.hyperplane import digest_centre
from neardup.spec import check_whole
from neardup.vector_layout import VectorLayout, read_centre
from neardup.vector_signal import ALONE, NO_CENTRE, VectorSignal, take_signal

NAMES: Final = tuple(options_of(VectorOptions))
"""The options about vectors."""


def lay_out_index(options: Options, dimension: int | None) -> tuple[Options, VectorCentre]:
    """Return the options of a new index with the planes of its vectors, and their centre.

    Args:
        options: The options as they are given.
        dimension: The numbers of a vector; None without vectors.
    """
    signal = options.vectors
    if signal is None:
        if dimension is not None:
            raise ParameterError(
                "dimension is that of vectors: say what these are for (vectors, also or unless)"
            )
        return options, VectorCentre()
    if dimension is None:
        raise ParameterError(
            "an index with vectors needs dimension, the numbers of a vector: give dimension=384"
        )
    dimension = check_whole("dimension", dimension, 1, MOST_NUMBERS)
    if not signal.finds:
        return VectorLayout().apply(options, dimension), VectorCentre()
    centre = VectorCentre(find_centre(signal.centre, dimension))
    planes = signal.planes or plan_by_angle(signal.threshold, options.recall)
    # The digest of the centre is in the specification; where it came from counts no more.
    nameless = replace(options, vectors=replace(signal, centre=None))
    return VectorLayout(PlaneCurve(planes), centre).apply(nameless, dimension), centre


def find_centre(given: str | None, dimension: int) -> NDArray[np.int16]:
    """Return the centre that is given: none, an .npy file, or the folder of a finished run.

    Args:
        given: What is given; None for none.
        dimension: The numbers of a vector.
    """
    name = NO_CENTRE if given is None else str(given)
    if name == NO_CENTRE or not Path(name).is_dir():
        return read_centre(name, dimension)
    centre = read_centre_file(Path(name))
    if len(centre.numbers) != dimension:
        has = f"one of {len(centre.numbers)} numbers" if centre else "no centre of vectors"
        raise ParameterError(
            f"centre {name}: the folder has {has}, vectors have {dimension}: give that of a run "
            "over such vectors, an .npy file, or none"
        )
    return centre.numbers


def retune_vectors(options: Options, changes: Mapping[str, Any]) -> VectorSignal:
    """Return what the vectors of an index decide with another cosine, other planes or centre.

    Args:
        options: The options of the index.
        changes: What changes, by the names of options.
    """
    signal = options.vectors
    if signal is None:
        raise ParameterError(
            f"this index compares texts alone: leave out {' and '.join(changes)}, or build "
            "another index"
        )
    asked = {**signal.given, **changes}
    cosine = asked.pop("cosine", signal.threshold)
    if signal.role == ALONE:
        asked["cosine"] = cosine
    else:
        asked[signal.role] = f"{signal.column}:{cosine}"
    made = take_signal(asked)
    assert made is not None  # noqa: S101  # it has a role
    if made.finds and made.threshold < signal.threshold and "planes" not in changes:
        raise ParameterError(
            f"the planes of this index find vectors of cosine {signal.threshold:g}, and fewer of "
            f"{made.threshold:g}: give planes, too, in bands of fewer than {signal.tables.rows}"
        )
    return made


def require_vectors(
    existing: Options, asked: Mapping[str, Any], dimension: int | None
) -> dict[str, Any]:
    """Raise an error unless an index has the vectors that a caller requires.

    An .npy file is no column: it belongs to the files that are added with it.

    Args:
        existing: The options of the index.
        asked: The options that the caller gives.
        dimension: The numbers of a vector; None for no requirement.

    Returns:
        The options that are not about vectors.
    """
    others = {name: value for name, value in asked.items() if name not in NAMES}
    given = {name: asked[name] for name in NAMES if asked.get(name) is not None}
    if not given and dimension is None:
        return others
    signal, has = take_signal(dict(given)), existing.vectors
    if has is None:
        raise ParameterError(
            "this index compares texts alone, and vectors are asked for: leave them out, or build "
            "another index"
        )
    wrong = []
    if dimension not in (None, existing.spec.dimension):
        wrong.append(f"vectors of {existing.spec.dimension} numbers, not {dimension}")
    if signal is not None:
        wrong += [
            f"{name} {value}, not {signal.stated[name]}"
            for name, value in has.stated.items()
            if name != "centre"
            and signal.stated[name] not in (None, value)
            and not (name == "vectors" and MATRIX_ENDING in {value[-4:], signal.column[-4:]})
        ]
        stated = existing.spec.vectors.partition(":")[2]
        if signal.centre is not None:
            digest = digest_centre(find_centre(signal.centre, existing.spec.dimension))
            if digest != stated:
                wrong.append(f"the centre {stated}, not {digest}")
    if wrong:
        raise ParameterError(
            f"this index has {', '.join(wrong)}: leave it out, or build another index"
        )
    return others


def convert_vectors(
    options: Options, texts: Sequence[Any] | None, given: Sequence[Any] | NDArray[Any] | None
) -> ConvertedVectors | None:
    """Return the vectors of documents as a matrix, with the unusable ones rejected.

    Args:
        options: The options of the index.
        texts: The texts of the documents; None for none.
        given: Their vectors; None for none.

    Returns:
        The vectors; None if the index has none.
    """
    if options.vectors is None:
        if given is not None:
            raise ParameterError(
                "this index compares texts alone: leave out the vectors, or make an index with "
                "vectors (also=, unless= or vectors=)"
            )
        return None
    dimension = options.spec.dimension
    if given is None:
        raise ParameterError(
            f"this index compares vectors of {dimension} numbers: give one with each document"
        )
    if isinstance(given, (str, bytes)) or not hasattr(given, "__len__"):
        raise ParameterError("vectors are a matrix, or a list with one vector for each document")
    if texts is not None and len(given) != len(texts):
        raise ParameterError(f"{len(given)} vectors for {len(texts)} texts: give one each")
    if isinstance(given, np.ndarray) and given.ndim == 2 and given.dtype.kind in "fiu":
        return convert_matrix(given, dimension)
    return convert_values(list(given), dimension)


def require_texts_alone(options: Options, what: str, cure: str) -> None:
    """Refuse what is not supported for an index with vectors.

    Args:
        options: The options of the index.
        what: What is asked for, as the beginning of a sentence.
        cure: What to do instead.
    """
    if options.vectors is not None:
        verb = "are" if what.endswith("s") else "is"
        raise ParameterError(f"{what} {verb} not supported for an index with vectors: {cure}")
