"""What does run.json say? Checked once, typed; what an older version did not write is empty."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from neardup.errors import FormatError, UsageError
from neardup.lsh.blocks import Blocks, ByJaccard
from neardup.lsh.curve import ByContainment, Curve, Meeting, parse_layout
from neardup.pipeline.output import RUN_FILE

LONGEST_REASON: Final = 100


@dataclass(frozen=True)
class Counts:
    documents: int
    kept: int
    removed: int
    rejected: int
    identical: int = 0
    comparisons: int = 0

    def __post_init__(self) -> None:
        if min(self.kept, self.removed - self.identical, self.identical, self.rejected) < 0:
            raise ValueError("a count is negative")
        if self.documents != self.kept + self.removed + self.rejected:
            raise ValueError("the counts don't add up")


@dataclass(frozen=True)
class Cut:
    """Paragraphs or lines that were cut; `short` ones never are, `shorter` documents were kept."""

    found: int
    short: int
    cut: int
    bytes: int
    shorter: int


@dataclass(frozen=True)
class Stage:
    name: str
    seconds: float
    peak_memory: int | None


@dataclass(frozen=True)
class Bucket:
    band: int
    key: str
    size: int
    not_compared: int
    sample: list[str]


@dataclass(frozen=True)
class Input:
    file: str
    size: int
    documents: int
    digest: str


@dataclass(frozen=True)
class Record:
    """A finished run. `curve` and `threshold` are None where the run does not tell them."""

    version: str
    fingerprint: str
    spec: dict[str, str]
    parameters: dict[str, str]
    counts: Counts
    reasons: dict[str, int]
    curve: Meeting | None
    threshold: float | None
    metrics: dict[str, float]
    stages: list[Stage]
    seconds: float | None
    peak_memory: int | None
    memory_budget: int | None
    buckets: list[Bucket]
    inputs: list[Input]
    skipped: list[tuple[str, str]]
    cut: Cut | None = None

    @property
    def is_exact(self) -> bool:
        """Whether only what is exactly the same was looked for: there is nothing like bands."""
        return "by" in self.spec


def read_record(run: Path) -> Record:
    try:
        data = (run / RUN_FILE).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
            f"{run} holds no finished run: give the folder that neardup dedup -o wrote"
        ) from None
    try:
        return _record(json.loads(data))
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        why = f"{type(error).__name__}: {error}"[:LONGEST_REASON]
        raise FormatError(f"{run / RUN_FILE} is damaged ({why}): run neardup dedup again") from None


def _record(given: dict[str, Any]) -> Record:
    parameters, seconds = given.get("parameters", {}), given.get("seconds", {})
    return Record(
        version=str(given["version"]),
        fingerprint=str(given["fingerprint"]),
        spec=_shown(given.get("spec", {})),
        parameters=_shown(parameters),
        counts=Counts(
            **{name: int(given["counts"].get(name, 0)) for name in Counts.__dataclass_fields__}
        ),
        reasons={str(reason): int(n) for reason, n in given.get("reasons", {}).items()},
        curve=_curve(parameters, given.get("spec", {})),
        threshold=_optional_real(parameters.get("threshold")),
        metrics={str(k): _real(v) for k, v in given.get("metrics", {}).items() if v is not None},
        stages=_stages(given, seconds),
        seconds=_optional_real(seconds.get("total")),
        peak_memory=_optional_whole(given.get("peak_memory_bytes")),
        memory_budget=_optional_whole(given.get("memory_budget_bytes")),
        buckets=[_bucket(bucket) for bucket in _buckets(given)],
        inputs=[_input(file) for file in given.get("inputs", [])],
        skipped=[(str(s["file"]), str(s["reason"])) for s in given.get("skipped_files", [])],
        cut=_cut(given.get("cut")),
    )


def _shown(values: dict[str, Any]) -> dict[str, str]:
    """As people read them: what was not given is left out."""
    words = {True: "yes", False: "no"}
    return {
        str(name): words[value] if isinstance(value, bool) else str(value)
        for name, value in values.items()
        if value is not None
    }


def _curve(parameters: dict[str, Any], spec: dict[str, Any]) -> Meeting | None:
    if "hamming" in parameters:
        blocks = Blocks(int(spec["slots"]), int(parameters["hamming"]), int(parameters["blocks"]))
        return ByJaccard(blocks) if parameters.get("verify") == "exact" else blocks
    if "tables" in parameters:
        curve = parse_layout(str(parameters["tables"]))
        contained = parameters.get("measure") == "containment"
        return ByContainment(curve) if contained else curve
    if "bands" not in parameters or "rows" not in parameters:
        return None
    return Curve(int(parameters["bands"]), int(parameters["rows"]))


def _cut(given: dict[str, Any] | None) -> Cut | None:
    if given is None:
        return None
    return Cut(**{name: int(given[name]) for name in Cut.__dataclass_fields__})


def _stages(given: dict[str, Any], seconds: dict[str, Any]) -> list[Stage]:
    if "stages" not in given:
        return [Stage(str(n), _real(s), None) for n, s in seconds.items() if n != "total"]
    return [
        Stage(str(s["name"]), _real(s["seconds"]), _optional_whole(s.get("peak_memory_bytes")))
        for s in given["stages"]
    ]


def _buckets(given: dict[str, Any]) -> list[dict[str, Any]]:
    if "hot_buckets" in given:
        return list(given["hot_buckets"])
    return list(given.get("full_buckets", {}).get("listed", []))


def _bucket(given: dict[str, Any]) -> Bucket:
    sample = given.get("sample", [])
    names = sample if isinstance(sample, list) else [sample]
    return Bucket(
        int(given["band"]),
        str(given["key"]),
        int(given["size"]),
        int(given.get("not_compared", 0)),
        [str(name) for name in names],
    )


def _input(given: dict[str, Any]) -> Input:
    return Input(
        str(given["file"]),
        int(given.get("size", 0)),
        int(given.get("documents", 0)),
        str(given.get("xxh3_128", "")),
    )


def _real(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a finite number")
    return number


def _optional_real(value: Any) -> float | None:
    return None if value is None else _real(value)


def _optional_whole(value: Any) -> int | None:
    return None if value is None else int(value)
