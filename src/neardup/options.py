"""What a run is asked to do, checked once, in one frozen value.

Everything here can change without a new sketch; what can't is the `Spec` that it carries.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from neardup.errors import ParameterError
from neardup.lsh.curve import Curve, check_threshold, choose
from neardup.spec import Spec, one_of, whole

VERIFY: Final = ("exact", "estimate", "none")
CLUSTER: Final = ("stars", "components")
LIMIT: Final = 256
MOST: Final = 2**31 - 1

# Operating points that others have published, so that their results can be followed.
PRESETS: Final[dict[str, dict[str, Any]]] = {
    "fineweb": {"shingle": "word:5", "slots": 112, "bands": 14, "rows": 8},
    "nemo": {"shingle": "char:24", "slots": 260, "bands": 20, "rows": 13},
}


@dataclass(frozen=True)
class Options:
    """How to find candidates, how to judge them, and which copy stays."""

    spec: Spec = field(default_factory=Spec)
    threshold: float = 0.8
    recall: float = 0.99
    bands: int | None = None
    rows: int | None = None
    verify: str = "exact"
    keep: str = "first"
    cluster: str = "stars"
    limit: int = LIMIT

    def __post_init__(self) -> None:
        one_of("verify", self.verify, VERIFY)
        one_of("cluster", self.cluster, CLUSTER)
        plain = {
            "threshold": real("threshold", self.threshold),
            "recall": real("recall", self.recall),
            "limit": whole("limit", self.limit, 1, MOST),
        }
        for name in ("bands", "rows"):
            if (given := getattr(self, name)) is not None:
                plain[name] = whole(name, given, 1, MOST)
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        check_threshold(self.threshold)
        _ = self.keep_policy, self.curve

    @classmethod
    def of(cls, *, preset: str | None = None, shingle: str | None = None,
           slots: int | None = None, text_profile: str = "standard", seed: int = 0,
           **others: Any) -> Options:  # fmt: skip
        """Options as people write them; what is given goes before what a preset says."""
        base: dict[str, Any] = {"shingle": "word:5", "slots": 128}
        if preset is not None:
            one_of("preset", preset, tuple(PRESETS))
            base.update(PRESETS[preset])
        given = {"shingle": shingle, "slots": slots, **others}
        base.update({name: value for name, value in given.items() if value is not None})
        spec = Spec.of(
            base.pop("shingle"), slots=base.pop("slots"), profile=text_profile, seed=seed
        )
        return cls(spec=spec, **base)

    @property
    def curve(self) -> Curve:
        """The bands: as given, or the steepest that reach the wanted recall at the threshold."""
        if self.bands is None and self.rows is None:
            return choose(self.spec.slots, self.threshold, self.recall)
        if self.bands is None or self.rows is None:
            raise ParameterError("bands and rows belong together: give both or neither")
        curve = Curve(self.bands, self.rows)
        if curve.slots > self.spec.slots:
            raise ParameterError(
                f"{self.bands} bands of {self.rows} rows need {curve.slots} slots, there are "
                f"{self.spec.slots}: use fewer bands or rows, or --slots {curve.slots}"
            )
        return curve

    @property
    def keep_policy(self) -> tuple[str, str | None]:
        """`first`, `longest`, `max` or `min`, and the column of the last two."""
        name, _, column = str(self.keep).partition(":")
        if self.keep in ("first", "longest"):
            return self.keep, None
        if name in ("max", "min") and column:
            return name, column
        raise ParameterError(
            f"keep {self.keep!r} is not known: use first, longest, max:COLUMN or min:COLUMN"
        )


def real(what: str, value: object) -> float:
    """The value as a float, if it is a number."""
    if isinstance(value, (str, bytes, bool)):
        raise ParameterError(f"{what} must be a number, not {value!r}")
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{what} must be a number, not {value!r}") from None
