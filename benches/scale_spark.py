"""Predict what a cluster takes: the part of docs/scale.md about Spark, for `scale.py`.

Kernels cost what the local engine was measured to take; what Spark does is the model of
`neardup plan --engine spark`. What a run has shuffled is read from the results of
`spark_cluster.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from batch_figures import IN_ALL, MB
from table import Row, Value, grid

from neardup.options import Options
from neardup.planner.costs import Costs
from neardup.planner.local_run import A_BUCKET, A_MEMBER, A_PAIR
from neardup.planner.requirements import BYTES_OF_A_SHINGLE, Sla
from neardup.planner.spark_cluster import ClusterSize, size_cluster
from neardup.planner.spark_run import RunAmounts, SparkRun, shuffle_bytes
from neardup.planner.workload import IN_A_BUCKET, Workload

WHOLE = "110,000 documents of 3 KB on a cluster"
TIGHT = "1 million tweets on a cluster, in little memory"
TEXT = 333_819_750
"""Bytes of those documents."""
HOUR, GB, TB = 3600, 1e9, 1e12
BYTES_OF_A_TOKEN = 4


@dataclass(frozen=True)
class Ran:
    """A run on Spark: bytes that each stage has shuffled, and by the model."""

    documents: float
    shuffled: Mapping[str, float]
    planned: Mapping[str, float]


FITTED = Ran(
    110_000,
    {
        "collapsing": 2_608_825,
        "banding": 36_383_941,
        "shingling": 0,
        "deciding": 108_860_411,
        "writing tables": 4_873_857,
        "writing": 38_803,
    },
    shuffle_bytes(
        RunAmounts(
            documents=110_000,
            bands=21,
            candidates=25_385,
            sets=77_138_488,
            removed=9_676,
            buckets=83_106,
            members=IN_A_BUCKET * 83_106,
            copies=3_062,
            compared=85_804,
            similar=8_782,
            id=5,
            ranges=5,
            task=60_000_000,
        )
    ),
)
"""110,000 pages on local[2], where a task may hold 60 MB; the figures of `SparkCosts` are fitted to
it, but for deciding."""


@dataclass(frozen=True)
class Rates:
    """What was measured of the local engine; seconds of a core for a MB of text, or a document."""

    sketch: float
    match: float
    filter: float
    decide: float
    tables: float
    bucket_bytes: float
    candidates: float
    pair_bytes: float
    removed: float

    def profile(self, size: float) -> Workload:
        """The documents of the measured figures, in other sizes."""
        buckets = self.bucket_bytes / (A_MEMBER * IN_A_BUCKET + A_BUCKET)
        compared = self.pair_bytes / A_PAIR
        return Workload(
            stored=size,
            removed=self.removed,
            kept=(1 - self.removed) * size,
            candidates=self.candidates,
            sets=8 * self.candidates * size / BYTES_OF_A_SHINGLE,
            compared=compared,
            false=max(compared - self.removed, 0.0),
            members=IN_A_BUCKET * buckets,
            buckets=buckets,
        )

    def costs(self, profile: Workload) -> Costs:
        """Everything by the MB or the document, as it was measured."""
        return Costs(
            text=self.sketch,
            document=0.0,
            update=0.0,
            reread=self.match,
            match=0.0,
            set=0.0,
            compare=0.0,
            pair=0.0,
            member=self.decide / profile.members,
            table=self.tables / self.removed,
            keep=self.filter / (1 - self.removed),
        )


@dataclass(frozen=True)
class Measured:
    """The runs of the cluster: one that takes shuffles, and how long the usual one took."""

    tight: Ran
    seconds: float

    @classmethod
    def of(cls, results: Path) -> Measured:
        figures = {one["title"]: one["rows"] for one in json.loads(results.read_text())["figures"]}
        whole, tight = ({row["stage"]: row for row in figures[name]} for name in (WHOLE, TIGHT))
        total = tight.pop(IN_ALL)
        moved, planned = (
            {stage: MB * row[name] for stage, row in tight.items()}
            for name in ("shuffled MB", "plan MB")
        )
        documents = MB * total["shuffled MB"] / total["bytes a document"]
        return cls(Ran(documents, moved, planned), whole[IN_ALL]["seconds"])


def filled(documents: float, size: float, rates: Rates, known: Measured) -> str:
    """Planned beside measured, a large corpus by stage, and what others have reported."""
    profile = rates.profile(size)
    sla = Sla(int(documents), size=size, shingles=size / BYTES_OF_A_SHINGLE, cores=4)
    options = Options()
    found = size_cluster(SparkRun(sla, rates.costs(profile), profile, options, 0))
    text = documents * size
    head = (
        f"{documents:,.0f} documents of {size:,.0f} bytes, {found.executors} executors of "
        f"{found.cores} cores and {found.memory / GB:,.0f} GB, {found.seconds / HOUR:.1f} hours:"
    )
    return "\n".join(
        [
            "",
            *grid(_beside(known)),
            "",
            head,
            "",
            *grid(_stages(found, documents, text)),
            "",
            *grid(_others(found, text, known)),
            "",
        ]
    )


def _beside(known: Measured) -> list[Row]:
    """Bytes a document, measured and by the model, of runs that take shuffles."""
    runs = {"110,000 pages": FITTED, "1 million tweets": known.tight}
    rows = []
    for stage in FITTED.shuffled:
        row: dict[str, Value] = {"bytes a document": stage}
        for name, run in runs.items():
            row[f"{name}, measured"] = run.shuffled[stage] / run.documents
            row[f"{name}, model"] = run.planned[stage] / run.documents
        rows.append(row)
    return [*rows, _all(rows)]


def _all(rows: list[dict[str, Value]]) -> Row:
    first, *others = rows[0]
    return {first: "all", **{name: sum(row[name] for row in rows) for name in others}}


def _stages(found: ClusterSize, documents: float, text: float) -> list[Row]:
    rows: list[dict[str, Value]] = [
        {
            "stage": one.name,
            "core-hours": one.work / HOUR,
            "core-hours for a TB": one.work / HOUR / (text / TB),
            "bytes shuffled a document": one.shuffled / documents,
            "GB read": one.read / GB,
            "GB to the work folder": one.written / GB,
            "GB to OUT": one.out / GB,
        }
        for one in found.stages
    ]
    return [*rows, _all(rows)]


def _others(found: ClusterSize, text: float, known: Measured) -> list[Row]:
    reserved = found.executors * found.cores
    runs = [
        ("SlimPajama", 64, 60.0, 1.2e12 * BYTES_OF_A_TOKEN),
        ("data-juicer", 1280, 168 / 60, 5 * TB),
        ("the model, cores reserved", reserved, found.seconds / HOUR, text),
        ("110,000 documents, measured", 2, known.seconds / HOUR, TEXT),
    ]
    return [
        {
            "run": name,
            "cores": cores,
            "hours": hours,
            "TB of text": size / TB,
            "core-hours": cores * hours,
            "core-hours for a TB": cores * hours / (size / TB),
        }
        for name, cores, hours, size in runs
    ]
