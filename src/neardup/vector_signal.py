"""The second signal: a vector of each document, in one of three roles, by its options.

`alone`, the documents are their vectors, and similar ones have a cosine of at least the threshold.
`also`, documents are similar by their shingles or by their vectors. `unless`, documents that are
similar by their shingles are no duplicates if their vectors are not similar too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from neardup.errors import ParameterError
from neardup.lsh.plane_curve import PlaneCurve
from neardup.lsh.planes import Planes
from neardup.option_table import VectorOptions, all_rows, options_of
from neardup.spec import check_number, suggest_share

Role: TypeAlias = Literal["alone", "also", "unless"]
ALONE, ALSO, UNLESS = "alone", "also", "unless"
NO_CENTRE: Final = "none"
EMBED: Final = "embed"
"""The option of a function that makes vectors, and the name of these in other options."""
MEASURE_OF: Final = {ALONE: "cosine", ALSO: "either", UNLESS: "both"}
"""Role -> the name of the measure by which documents are compared."""
ASSUMED: Final = Planes(32, 16)
"""About the planes of a run, before its vectors have been counted."""
MOST_PLANES: Final = 1 << 16
OF_ALL: Final = frozenset({"recall", "seed", "keep", "cluster", "limit", "distinguish", "verify"})
"""The options that documents have which are compared by their vectors alone."""


@dataclass(frozen=True)
class VectorSignal:
    """The vectors of documents, and what they decide.

    Attributes:
        column: The column of the vectors.
        role: `alone`, `also` or `unless`.
        threshold: The least cosine of similar vectors.
        planes: How candidates are found by vectors: as given, or as planned for the vectors that
            were counted; None before that, and in the role `unless`, which finds none.
        centre: The file of the centre that is subtracted from vectors, or `none`; None for their
            mean.
        points: Of the curve by which the planes find vectors, if these were counted.
        embed: The function that makes the vectors of texts, MODULE:FUNCTION; the column is EMBED.
    """

    column: str
    role: Role
    threshold: float
    planes: Planes | None = None
    centre: str | None = None
    points: tuple[tuple[float, float], ...] = ()
    embed: str | None = None

    @property
    def option(self) -> str:
        """The option that names the column, without dashes."""
        return "vectors" if self.role == ALONE else self.role

    @property
    def finds(self) -> bool:
        """Whether vectors make documents candidates."""
        return self.role != UNLESS

    @property
    def tables(self) -> Planes:
        """The tables that make candidates; before the vectors are counted, about as many."""
        return self.planes or ASSUMED

    @property
    def meeting(self) -> PlaneCurve:
        """The probability that two vectors of a cosine share a band of planes."""
        return PlaneCurve(self.tables, self.points)

    @property
    def stated(self) -> dict[str, Any]:
        """The fields by name, for run.json and the keys of files."""
        planes = None if self.planes is None else f"{self.planes.bands}x{self.planes.rows}"
        return {
            "vectors": self.column,
            "role": self.role,
            "cosine": self.threshold,
            "planes": planes,
            "centre": self.centre,
            **({} if self.embed is None else {"embed": self.embed}),
        }

    @property
    def given(self) -> dict[str, Any]:
        """The options that ask for it, planes and centre as they are."""
        rest = {"planes": self.stated["planes"], "centre": self.centre} if self.finds else {}
        asked = {"vectors": self.column, "cosine": self.threshold}
        if self.role != ALONE:
            asked = {self.option: f"{self.column}:{self.threshold!r}"}
        if self.embed is not None:
            asked = {EMBED: self.embed, **{n: v for n, v in asked.items() if n != "vectors"}}
        return asked | {name: value for name, value in rest.items() if value is not None}

    @classmethod
    def of_stated(
        cls, stated: Mapping[str, Any], points: Iterable[Iterable[float]] = ()
    ) -> VectorSignal | None:
        """Return the signal that `stated` has described; None if there are no vectors.

        Args:
            stated: These fields among others.
            points: Of the curve.
        """
        if stated.get("vectors") is None:
            return None
        planes = stated["planes"]
        return cls(
            stated["vectors"],
            stated["role"],
            stated["cosine"],
            None if planes is None else parse_planes(planes),
            stated["centre"],
            tuple((float(cosine), float(found)) for cosine, found in points),
            stated.get("embed"),
        )


def take_signal(given: dict[str, Any]) -> VectorSignal | None:
    """Remove the options about vectors from those that are given, and return what they mean.

    Args:
        given: Options by name, all with a value.
    """
    asked = {name: given.pop(name) for name in options_of(VectorOptions) if name in given}
    embed = asked.get(EMBED)
    if embed is not None and not isinstance(embed, str):
        raise ParameterError(
            f"{EMBED} is a name, 'MODULE:FUNCTION', not of type {type(embed).__name__}: write it, "
            f"or call the function yourself and pass matrix=FUNCTION(texts) with {ALSO}='matrix:T'"
        )
    if embed is not None and "vectors" in asked:
        raise ParameterError("--embed makes the vectors: leave out --vectors")
    if embed is not None and "cosine" in asked:
        asked["vectors"] = EMBED
    roles = [name for name in ("vectors", ALSO, UNLESS) if name in asked]
    if len(roles) > 1:
        raise ParameterError(
            f"a run uses vectors in one way: give one of {' and '.join(map(_flag, roles))}"
        )
    if not roles:
        if embed is not None:
            raise ParameterError(
                f"--embed needs to know what the vectors decide: give --cosine T, --{ALSO} "
                f"{EMBED}:T or --{UNLESS} {EMBED}:T"
            )
        for name in asked:
            raise ParameterError(
                f"{_flag(name)} is about vectors: give their column with --vectors COLUMN"
                + (
                    ", or in Python a NumPy matrix as the data"
                    if name == "cosine"
                    else ", --also or --unless"
                )
            )
        return None
    (name,) = roles
    if name == "vectors":
        if "cosine" not in asked:
            raise ParameterError(
                "--vectors needs --cosine, the least cosine of similar vectors, such as 0.95"
            )
        column, threshold = asked[name], _check_cosine("cosine", asked["cosine"], 0.0)
        if not isinstance(column, str) or not column:
            raise ParameterError(f"vectors is {column!r}: pass the name of a column")
        if column.endswith(".npz"):
            raise ParameterError(
                f"{column} is an archive of arrays: save one by numpy.save('vectors.npy', array)"
            )
    else:
        if "cosine" in asked:
            raise ParameterError(
                f"--cosine is for --vectors: write the threshold as --{name} COLUMN:0.95"
            )
        column, threshold = _parse_column(name, asked[name])
    if embed is not None and column != EMBED:
        raise ParameterError(f"--embed makes the vectors: write --{name} {EMBED}:{threshold:g}")
    if name == UNLESS:
        for option in ("planes", "centre"):
            if option in asked:
                raise ParameterError(
                    f"--unless finds no candidates by vectors: leave out {_flag(option)}"
                )
    role: Role = "alone" if name == "vectors" else "also" if name == ALSO else "unless"
    planes = parse_planes(asked["planes"]) if "planes" in asked else None
    return VectorSignal(column, role, threshold, planes, asked.get("centre"), embed=embed)


def _flag(name: str) -> str:
    return f"--{name}"


def _parse_column(option: str, given: object) -> tuple[str, float]:
    """Return the column and the threshold of `COLUMN:T`."""
    column, colon, threshold = str(given).rpartition(":")
    if not colon or not column:
        raise ParameterError(
            f"{option} {given!r} is not COLUMN:T: write the column and the least cosine, as in "
            f"--{option} embedding:0.95"
        )
    try:
        number: object = float(threshold)
    except ValueError:
        number = threshold
    return column, _check_cosine(f"the cosine of {option}", number, 0.0 if option == ALSO else -1.0)


def _check_cosine(what: str, value: object, above: float) -> float:
    number = check_number(what, value)
    if not above < number <= 1:
        raise ParameterError(
            f"{what} must be above {above:g} and at most 1, not {number:g}{suggest_share(number)}"
        )
    return number


def parse_planes(given: object) -> Planes:
    """Parse the option planes: `BxR`, so many bands of so many planes."""
    found = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d?)", str(given), re.ASCII)
    if not found or int(found[1]) * int(found[2]) > MOST_PLANES:
        raise ParameterError(
            f"planes {given!r} is not BxR, bands of at most 63 planes, {MOST_PLANES:,} in all: "
            "write 20x16, or leave it out"
        )
    return Planes(int(found[1]), int(found[2]))


def refuse_text_options(given: Mapping[str, Any]) -> None:
    """Refuse options about texts for documents that are compared by their vectors alone.

    Args:
        given: Options by name, without those about vectors.
    """
    cures = {
        "threshold": "leave it out, --cosine is the threshold",
        **dict.fromkeys(("bands", "rows", "tables", "slots"), "give --planes BxR"),
    }
    for name, value in given.items():
        if name not in OF_ALL and value != all_rows()[name].default:
            cure = cures.get(name, "leave it out, or give --also COLUMN:T")
            flag = all_rows()[name].flag
            raise ParameterError(f"{flag} is about texts, and --vectors compares none: {cure}")
