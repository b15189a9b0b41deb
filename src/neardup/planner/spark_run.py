"""The cost of a run on Spark, stage by stage. The model of docs/scale.md, "Past one machine".

Kernels cost what they cost in the local engine; what Spark does with rows comes on top. Every
figure of Spark's that a plan rests on is a field of `SparkCosts`, with its source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from neardup.options import Options
from neardup.pipeline.backends.spark.limits import (
    MEMORY_SHARES,
    TASK_MEMORY,
    fits_on_driver,
    keys_fit_one_task,
    sets_fit_one_task,
)
from neardup.planner.costs import MB, Costs
from neardup.planner.requirements import Sla
from neardup.planner.workload import IN_A_BUCKET, Workload


@dataclass(frozen=True)
class SparkCosts:
    """Bytes and seconds of one core for what Spark does itself.

    Bytes are fitted, where nothing else is said, to 110,000 pages of RFCs on local[2], 21 bands of
    6 rows, 25,385 candidates with 77.1 MB of sets in 83,106 buckets, shuffles as lz4 has them,
    where a task held too little to do without them. See docs/scale.md for how far the model is off
    where it was not fitted.

    hash_row     a document: content hash, rank. 2,608,825 bytes less the bits of 3,062 copies
    key_row      a document in one band: band, key, rank. 36,401,074 bytes less the bits of members
    bit          a number on its way into a bitmap, before it is a bit: four bytes of uint32
    where_row    a candidate on its way to where its text is read again: 1,290,012 bytes
    sketch       a document in the table of sketches, besides its id and 8 a band: 21,143,435 bytes
    bucket       a bucket in the tables of buckets, of which there are two: 1,956,003 bytes
    named        a document whose name is looked up, besides its id; all are, twice. With
    ranked       a candidate whose rank is, twice, and
    removed      a removed document, it makes 4,768,705 bytes; how these split is estimated
    sorted       a document while all are sorted, besides 8 a band: estimated from the columns
    pair         a pair on its way to its range. Estimated: 8 bytes, which lz4 can't make fewer
    known        a pair that was compared before, with its similarity. Estimated: 17 bytes
    edge         a similar pair on its way to be settled: 8 bytes
    rounds       1, 4, 16, 64, 256 leaders, and once more to see that nothing changes: the most
    pass_row     seconds for a row that passes through the JVM, and from or to Python: assumed
    sort_row     seconds for a row that is shuffled and sorted: what banding took longer than
                 collapsing, 2.8 s for 2.1 million rows, as if both cores had worked all along. The
                 same run on a busy machine says 9 microseconds, so this is a rough figure
    speed        bytes a second that disk and network of an executor read or write: assumed
    start        seconds of any run: of the 34 that those documents took, what work does not explain
    """

    hash_row: float = 23.6
    key_row: float = 15.9
    bit: float = 4.0
    where_row: float = 50.8
    sketch: float = 19.2
    bucket: float = 23.5
    named: float = 12.0
    ranked: float = 12.0
    removed: float = 43.0
    sorted: float = 70.0
    pair: float = 10.0
    known: float = 17.0
    edge: float = 8.0
    rounds: int = 6
    pass_row: float = 0.35e-6
    sort_row: float = 2.6e-6
    speed: float = 5e8
    start: float = 25.0
    source: str = (
        "bytes are fitted to 110,000 pages; a million tweets shuffled within a tenth of them, and "
        "a fifth of what is said for rounds, an upper bound; seconds of Spark's own rows are rough"
    )


MEASURED: Final = SparkCosts()


@dataclass(frozen=True)
class RunAmounts:
    """How much of everything there is in a run: numbers, not shares.

    candidates   documents that share a bucket with another
    sets         bytes of what is compared of them
    members      places in buckets that are shared, over all bands
    copies       documents that are identical to another
    compared     pairs, and how many of them are `similar`
    id           bytes of a document's id
    ranges       in which pairs are compared, by rounds; 0 if one task decides everything
    ordered      whether all documents are sorted: any policy but `first`, or a DataFrame
    exact        whether shingles are compared, which are made again from the texts
    task         bytes that a task may hold
    earlier      whether there is an earlier corpus, which always takes shuffles
    """

    documents: float
    bands: int
    candidates: float
    sets: float
    removed: float
    buckets: float = 0.0
    members: float = 0.0
    copies: float = 0.0
    compared: float = 0.0
    similar: float = 0.0
    id: float = 12.0
    ranges: int = 0
    ordered: bool = False
    exact: bool = True
    task: float = TASK_MEMORY
    earlier: bool = False

    @property
    def met_by_one(self) -> bool:
        """Whether one task finds all identical documents and buckets."""
        return keys_fit_one_task(self.documents, self.bands, self.task) and not self.earlier

    @property
    def held(self) -> bool:
        """Whether the driver has what is removed."""
        return not self.ranges and fits_on_driver(self.candidates, self.copies)

    @classmethod
    def of_run(cls, record: Mapping[str, Any], id: float = 12.0, tasks: int = 1) -> RunAmounts:
        """Those of a finished run, from its run.json. `tasks` ran at once."""
        counts, spark, buckets = record["counts"], record["spark"], record["metrics"]["buckets"]
        asked, rounds = record["parameters"], spark["rounds"]
        ranking = sum(one["shuffle_written"] for one in spark["stages"] if one["name"] == "ranking")
        return cls(
            counts["documents"] + counts["earlier"],
            asked["bands"],
            spark["candidates"],
            spark["set_bytes"],
            counts["removed"],
            buckets,
            IN_A_BUCKET * buckets,
            counts["identical"],
            counts["comparisons"],
            rounds[-1]["edges"] if rounds else 0.0,
            id,
            count_ranges(spark["set_bytes"], tasks) if rounds else 0,
            ranking > 0,
            asked["verify"] == "exact",
            record["memory_budget_bytes"],
            counts["earlier"] > 0,
        )


def count_ranges(sets: float, tasks: int, task: float = TASK_MEMORY) -> int:
    """In how many ranges pairs are compared, if one task can't decide everything."""
    return max(int(sets * MEMORY_SHARES / task), tasks, 1)


def shuffle_bytes(some: RunAmounts, costs: SparkCosts = MEASURED) -> dict[str, float]:
    """What is shuffled in each stage of run.json."""
    count, bits = some.documents, costs.bit
    names = 2 * (costs.named + some.id) * count + 2 * costs.ranked * some.candidates
    shuffled = {
        "sketching": 0.0,
        "ranking": (8 * some.bands + costs.sorted) * count if some.ordered else 0.0,
        "collapsing": costs.hash_row * count + bits * some.copies,
        "banding": costs.key_row * some.bands * (count - some.copies) + bits * some.members,
        "shingling": costs.where_row * some.candidates if some.exact and some.ordered else 0.0,
        "deciding": _by_rounds(some, costs) if some.ranges else 0.0,
        "writing tables": names + costs.removed * some.removed,
        "writing": bits * some.removed,
    }
    spared = ["collapsing", "banding"] if some.met_by_one else []
    spared += ["writing tables", "writing"] if some.held else []
    return shuffled | dict.fromkeys(spared, 0.0)


def _by_rounds(some: RunAmounts, costs: SparkCosts) -> float:
    """Pairs to ranges, and the sets to them.

    Every place in a bucket but the first is a pair of the first round. The sets are joined with
    what needs them once for each round but the last; then each goes to its own range, and with each
    pair to that of the other document, though never twice to the same.
    """
    pairs = some.members - some.buckets + 2 * some.compared
    again = costs.known * some.compared + costs.edge * some.similar
    moves = some.candidates + min(some.compared, some.candidates * (some.ranges - 1))
    joined = (costs.rounds - 1) * some.sets
    each = some.sets / max(some.candidates, 1)
    return costs.pair * pairs + costs.rounds * again + joined + moves * each


A_TABLE_ROW: Final = 35
"""Bytes of a removed document in the tables of OUT: measured."""


@dataclass(frozen=True)
class SparkStageCost:
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
class SparkRun:
    """A run at one operating point; `slots` are the bytes of a document's slots as compared."""

    sla: Sla
    costs: Costs
    profile: Workload
    options: Options
    slots: int
    spark: SparkCosts = MEASURED
    task: float = TASK_MEMORY

    @cached_property
    def amounts(self) -> RunAmounts:
        """Everything for all documents."""
        seen, count = self.profile, self.sla.documents
        exact = self.options.verify == "exact"
        each = seen.sets if exact else seen.candidates * self.slots
        sets, members = count * each, count * seen.members
        fits = sets_fit_one_task(sets, members, self.task)
        return RunAmounts(
            count,
            self.options.hash_tables.count,
            count * seen.candidates,
            sets,
            count * seen.removed,
            count * seen.buckets,
            members,
            0.0,
            count * seen.compared,
            count * (seen.compared - seen.false),
            seen.id,
            0 if fits else count_ranges(sets, self.sla.cores, self.task),
            False,
            exact,
            self.task,
        )

    def stages(self) -> tuple[SparkStageCost, ...]:
        """All stages, in the order and by the names of run.json."""
        shuffled, work, alone = shuffle_bytes(self.amounts, self.spark), self._work, self._alone
        bytes_ = self._bytes
        return tuple(
            SparkStageCost(name, work[name], alone.get(name, 0.0), shuffled[name], *bytes_[name])
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
