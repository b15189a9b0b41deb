"""What of an evaluation can be compared with an earlier one?

Texts can, whatever is done with them. Shingles can if both cut texts in the same way; how they are
hashed moves no figure. Who meets depends on all of the operating point.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from neardup.errors import FormatError, ParameterError, UsageError
from neardup.evaluation.profile import TENTHS, Profile
from neardup.lsh.curve import parse_layout
from neardup.spec import MINHASHES

KIND: Final = "neardup evaluation"
LARGEST: Final = 64 << 20
COUNTED: Final = ("ignored",)
"""What is counted in the corpus and drifts with it."""
READ: Final = ("profile", "strip", "unicode", "version")
"""What decides the words of a text..."""
CUT: Final = (*READ, "unit", "size")
"""...and its shingles."""
NEARLY_ALL: Final = 0.95
"""Pairs that meet with this chance can be compared, whatever the bands are."""


@dataclass(frozen=True)
class Snapshot:
    """What of an evaluation can be compared with another.

    `point` has specification and parameters, those that are set. Document frequencies are counted
    in the corpus: of weights, parameters say the kind.
    """

    point: dict[str, Any]
    judged: str
    golden: str
    recall: dict[str, Any]
    profile: Profile | None

    @classmethod
    def of(cls, record: Any, where: str) -> Snapshot:
        """Of what evaluation.json holds."""
        if not isinstance(record, dict) or record.get("kind") != KIND:
            raise FormatError(
                f"{where} is not an evaluation: give the evaluation.json that neardup evaluate -o "
                "wrote"
            )
        try:
            point, profile = record["operating_point"], record["profile"]
            recall = record["labels"]["recall"]
            said = {**point["spec"], **point["parameters"]}
            if not all(_is_share(recall[name]) for name in ("value", "low", "high")):
                raise ValueError
            return cls(
                {name: x for name, x in said.items() if x and name not in COUNTED},
                str(record["judged"]),
                str(record["golden"]["digest"]),
                recall,
                None if profile is None else Profile.from_record(profile, where),
            )
        except (LookupError, TypeError, ValueError) as error:
            raise FormatError(
                f"{where} is damaged ({type(error).__name__}): evaluate the earlier corpus again"
            ) from None

    def same(self, other: Snapshot, names: Iterable[str]) -> bool:
        return all(self.point.get(name) == other.point.get(name) for name in names)

    def differing(self, before: Snapshot) -> str:
        """What of the operating point is another one, from what to what; empty if nothing is."""
        names = [name for name in {**before.point, **self.point} if not self.same(before, [name])]
        return ", ".join(
            f"{name} {before.point.get(name)} to {self.point.get(name)}" for name in names
        )

    @property
    def all_meet_from(self) -> int | None:
        """The first tenth of similarity in which nearly all pairs meet; None if nobody can say."""
        tables = self.point.get("tables")
        if self.point.get("sketch") not in MINHASHES or self.point.get("measure") != "jaccard":
            return None
        try:
            curve = parse_layout(str(tables))
        except ParameterError:
            return None
        found = (n for n in range(TENTHS) if curve.probability(n / TENTHS) >= NEARLY_ALL)
        return next(found, None)


def _is_share(value: Any) -> bool:
    return value is None or (isinstance(value, float) and 0.0 <= value <= 1.0)


def read_baseline(path: Path) -> Snapshot:
    """An earlier evaluation.json."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise UsageError(f"{path} can't be read ({why}): give an earlier evaluation.json") from None
    try:
        record = json.loads(data) if len(data) <= LARGEST else None
    except (ValueError, RecursionError):
        record = None
    return Snapshot.of(record, str(path))
