"""What does a run on Spark take, stage by stage? The model of docs/scale.md, "Past one machine".

Kernels cost what they cost in the local engine; what Spark does with rows comes on top.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from neardup.options import Options
from neardup.pipeline.backends.spark.limits import TASK_MEMORY, sets_fit_one_task
from neardup.planner.costs import MB, Costs
from neardup.planner.profile import Profile
from neardup.planner.shuffles import MEASURED, Amounts, SparkCosts, ranges, shuffle_bytes
from neardup.planner.sla import Sla

A_TABLE_ROW: Final = 35
"""Bytes of a removed document in the tables of OUT: measured."""


@dataclass(frozen=True)
class SparkStage:
    """Seconds of all cores; `alone`, those that one task needs by itself; bytes shuffled, read,
    written to the work folder, and to OUT."""

    name: str
    work: float
    alone: float
    shuffled: float
    read: float
    written: float
    out: float

    @property
    def moved(self) -> float:
        """All bytes that are read or written; what is shuffled is both."""
        return 2 * self.shuffled + self.read + self.written + self.out


@dataclass(frozen=True)
class RunOnSpark:
    """A run at one operating point; `slots` are the bytes of a document's slots as compared."""

    sla: Sla
    costs: Costs
    profile: Profile
    options: Options
    slots: int
    spark: SparkCosts = MEASURED
    task: float = TASK_MEMORY

    @cached_property
    def amounts(self) -> Amounts:
        """Everything for all documents."""
        seen, count = self.profile, self.sla.documents
        exact = self.options.verify == "exact"
        each = seen.sets if exact else seen.candidates * self.slots
        sets, members = count * each, count * seen.members
        fits = sets_fit_one_task(sets, members, self.task)
        return Amounts(
            count,
            self.options.tables.count,
            count * seen.candidates,
            sets,
            count * seen.removed,
            count * seen.buckets,
            members,
            0.0,
            count * seen.compared,
            count * (seen.compared - seen.false),
            seen.id,
            0 if fits else ranges(sets, self.sla.cores, self.task),
            False,
            exact,
            self.task,
        )

    def stages(self) -> tuple[SparkStage, ...]:
        """All stages, in the order and by the names of run.json."""
        shuffled, work, alone = shuffle_bytes(self.amounts, self.spark), self._work, self._alone
        bytes_ = self._bytes
        return tuple(
            SparkStage(name, work[name], alone.get(name, 0.0), shuffled[name], *bytes_[name])
            for name in shuffled
        )

    @cached_property
    def _work(self) -> dict[str, float]:
        """Kernels as in the local engine, and the rows that Spark moves."""
        some, costs, spark, spec = self.amounts, self.costs, self.spark, self.options.spec
        count, passing, sorting = some.documents, self.spark.pass_row, self.spark.sort_row
        sketch = costs.sketch(spec.sketch, spec.slots, self.sla.shingles, self.sla.size)
        again = (costs.reread * self._text + costs.match * some.sets) / MB if some.exact else 0.0
        deciding = (
            costs.set * some.sets / MB + costs.pair * some.compared + costs.member * some.members
        )
        if some.ranges:
            pairs = some.members - some.buckets + (1 + spark.rounds) * some.compared
            deciding += sorting * (pairs + spark.rounds * some.similar)
        return {
            "sketching": count * (sketch + passing),
            "ranking": 0.0,
            "collapsing": 0.0 if some.met_by_one else count * sorting,
            "banding": count * (passing if some.met_by_one else some.bands * sorting)
            + 2 * passing * some.buckets,
            "shingling": again + passing * count + 2 * passing * some.candidates,
            "deciding": deciding,
            "writing tables": (costs.table + 2 * sorting) * some.removed
            + (passing * count if some.held else 2 * sorting * (count + some.candidates)),
            "writing": costs.keep * self._kept / MB + passing * some.removed,
        }

    @property
    def _alone(self) -> dict[str, float]:
        """Each table is written by one task."""
        some = self.amounts
        tables = some.removed * (self.costs.table + 2 * self.spark.sort_row)
        deciding = {} if some.ranges else {"deciding": self._work["deciding"]}
        banding = {"banding": self._work["banding"]} if some.met_by_one else {}
        return {"writing tables": tables} | deciding | banding

    @cached_property
    def _bytes(self) -> dict[str, tuple[float, float, float]]:
        """Read, written to the work folder, written to OUT."""
        some, spark, text = self.amounts, self.spark, self._text
        sketches = some.documents * self._sketch
        buckets = spark.bucket * some.buckets
        times = spark.rounds if some.ranges else 1
        pairs = spark.known * some.compared if some.ranges else 0.0
        names = (8 + some.id) * some.documents
        return {
            "sketching": (text, sketches, 0.0),
            "ranking": (0.0, 0.0, 0.0),
            "collapsing": (24 * some.documents, 16 * some.copies, 0.0),
            "banding": (8 * some.bands * some.documents + buckets, buckets, 0.0),
            "shingling": (text if some.exact else sketches, some.sets, 0.0),
            "deciding": (
                (buckets / 2 + pairs) * times + some.sets * max(times - 1, 1),
                pairs * times + 12 * some.removed,
                0.0,
            ),
            # Inputs are read once more, for their hashes.
            "writing tables": (2 * names + text, 16 * some.removed, A_TABLE_ROW * some.removed),
            "writing": (text, 0.0, self._kept),
        }

    @property
    def _sketch(self) -> float:
        """Bytes of a document in the table of sketches."""
        some = self.amounts
        return self.spark.sketch + some.id + 8 * some.bands + (0 if some.exact else self.slots)

    @property
    def _text(self) -> float:
        return self.sla.documents * self.profile.stored

    @property
    def _kept(self) -> float:
        return self.sla.documents * self.profile.kept
