"""Predicts the cost of a run on Spark, stage by stage.

docs/scale.md, "Past one machine", states the model: kernels cost what they cost in the local
engine, and the rows that Spark moves are added. Each figure for Spark is a field of `SparkCosts`,
with its source.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from neardup.options import Options
from neardup.planner.costs import MB, Costs
from neardup.planner.requirements import Sla
from neardup.planner.spark_limits import (
    MEMORY_SHARES,
    TASK_MEMORY,
    fits_on_driver,
    keys_fit_one_task,
    sets_fit_one_task,
)
from neardup.planner.workload import IN_A_BUCKET, Workload


@dataclass(frozen=True)
class SparkCosts:
    """Bytes, and seconds of one core, for the rows that Spark moves.

    Bytes are fitted, unless stated otherwise, to 110,000 pages of RFCs on local[2], 21 bands of
    6 rows, 25,385 candidates with 77.1 MB of sets in 83,106 buckets, shuffles compressed by lz4,
    with so little memory per task that all stages shuffle. docs/scale.md has the errors of the
    model on other data.

    hash_row     a document: content hash, rank. 2,608,825 bytes less the bits of 3,062 copies
    key_row      a document in one band: band, key, rank. 36,401,074 bytes less the bits of members
    bit          a number on its way into a bitmap, before it is a bit: four bytes of uint32
    where_row    a candidate on its way to the task that reads its text again: 1,290,012 bytes
    sketch       a document in the table of sketches, besides its id and 8 a band: 21,143,435 bytes
    bucket       a bucket in the tables of buckets, of which there are two: 1,956,003 bytes
    named        a document whose name is looked up, besides its id; all are, twice. With
    ranked       a candidate whose rank is, twice, and
    removed      a removed document, it makes 4,768,705 bytes; how these split is estimated
    sorted       a document while all are sorted, besides 8 a band: estimated from the columns
    pair         a pair on its way to its range: 533,324 bytes for 60,167 pairs of tweets
    known        a pair that was compared before, with its similarity: 194,549 bytes for 22,433
    edge         a similar pair on its way to the task that settles it: 69,002 bytes for 7,906
    needed       a set on the list of those that a task needs: 114,414 bytes for 22,085
    apart        the share of pairs, beyond one for two candidates, that bring a set to another
                 range: pages moved 1.3 sets a candidate, tweets 1.1; most pairs are of few
                 documents, or of near ranks
    rounds       1, 4, 16, 64, 256 leaders; most runs need no more to see that nothing changes
    pass_row     seconds for a row that passes through the JVM, and from or to Python: assumed
    sort_row     seconds for a row that is shuffled and sorted: what banding took longer than
                 collapsing, 2.8 s for 2.1 million rows, as if both cores had worked all along. The
                 same run on a busy machine says 9 microseconds, so this is a rough figure
    speed        bytes a second that disk and network of an executor read or write: assumed
    start        seconds of any run: of the 34 of those documents, those that work does not explain
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
    pair: float = 8.9
    known: float = 8.7
    edge: float = 8.7
    needed: float = 5.2
    apart: float = 0.2
    rounds: int = 5
    pass_row: float = 0.35e-6
    sort_row: float = 2.6e-6
    speed: float = 5e8
    start: float = 25.0
    source: str = (
        "bytes are fitted to 110,000 pages and 200,000 tweets; others shuffled within a quarter of "
        "them; seconds of Spark's own rows are rough"
    )


MEASURED: Final = SparkCosts()
SENT_TO_ALL: Final = 10 * 2**20
"""Bytes of a table that Spark sends to all tasks, rather than shuffle what it is joined with: its
default of `spark.sql.autoBroadcastJoinThreshold`."""


@dataclass(frozen=True)
class RunAmounts:
    """The amounts of a run: numbers, not shares.

    candidates   documents that share a bucket with another
    sets         bytes of the candidates' sets
    removed      removed documents
    buckets      shared buckets, over all bands
    members      places in shared buckets, over all bands
    copies       documents that are identical to another
    compared     pairs that are compared; `similar` of them reach the threshold
    id           bytes of a document's id
    ranges       ranges of documents in which pairs are compared by rounds; 0 if one task decides
    ordered      whether all documents are sorted: any policy but `first`, or a DataFrame
    exact        whether shingles are compared, which are made from the texts again
    task         bytes that a task may hold
    earlier      whether there is an earlier corpus, which always needs shuffles
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
        """Whether one task finds all identical documents and all buckets."""
        return keys_fit_one_task(self.documents, self.bands, self.task) and not self.earlier

    @property
    def held(self) -> bool:
        """Whether the driver holds the list of removed documents."""
        return not self.ranges and fits_on_driver(self.candidates, self.copies)

    @classmethod
    def of_run(cls, record: Mapping[str, Any], id: float = 12.0, tasks: int = 1) -> RunAmounts:
        """Return the amounts of a finished run.

        Args:
            record: The content of its run.json.
            id: Mean bytes of a document's id.
            tasks: Tasks that ran at the same time.
        """
        counts, spark, buckets = record["counts"], record["spark"], record["metrics"]["buckets"]
        parameters, rounds = record["parameters"], spark["rounds"]
        ranking = sum(one["shuffle_written"] for one in spark["stages"] if one["name"] == "ranking")
        return cls(
            counts["documents"] + counts["earlier"],
            parameters["bands"],
            spark["candidates"],
            spark["set_bytes"],
            counts["removed"],
            buckets,
            IN_A_BUCKET * buckets,
            counts["identical"],
            counts["comparisons"],
            rounds[-1]["edges"] if rounds else 0.0,
            id,
            count_ranges(spark["set_bytes"], tasks, record["memory_budget_bytes"]) if rounds else 0,
            ranking > 0,
            parameters["verify"] == "exact",
            record["memory_budget_bytes"],
            counts["earlier"] > 0,
        )


def count_ranges(sets: float, tasks: int, task: float = TASK_MEMORY) -> int:
    """Return the number of ranges in which pairs are compared, if one task can't decide all."""
    return max(int(sets * MEMORY_SHARES / task), tasks, 1)


def shuffle_bytes(amounts: RunAmounts, costs: SparkCosts = MEASURED) -> dict[str, float]:
    """Return the bytes that each stage of run.json shuffles."""
    count, bits = amounts.documents, costs.bit
    names = 2 * (costs.named + amounts.id) * count + 2 * costs.ranked * amounts.candidates
    shuffled = {
        "sketching": 0.0,
        "ranking": (8 * amounts.bands + costs.sorted) * count if amounts.ordered else 0.0,
        "collapsing": costs.hash_row * count + bits * amounts.copies,
        "banding": costs.key_row * amounts.bands * (count - amounts.copies)
        + bits * amounts.members,
        "shingling": costs.where_row * amounts.candidates
        if amounts.exact and amounts.ordered
        else 0.0,
        "deciding": _by_rounds(amounts, costs) if amounts.ranges else 0.0,
        "writing tables": names + costs.removed * amounts.removed,
        "writing": bits * amounts.removed,
    }
    spared = ["collapsing", "banding"] if amounts.met_by_one else []
    spared += ["writing tables", "writing"] if amounts.held else []
    return shuffled | dict.fromkeys(spared, 0.0)


def _by_rounds(amounts: RunAmounts, costs: SparkCosts) -> float:
    """Return the bytes shuffled by the rounds: pairs to ranges, and sets to the pairs.

    Every place in a bucket but the first is a pair of the first round. All known pairs are merged
    with the new ones of each round. The list of the sets that are needed is sent to all tasks, or
    the sets are shuffled to be joined with it, if it is too long.
    """
    pairs = amounts.members - amounts.buckets + amounts.compared
    again = costs.known * amounts.compared + costs.edge * amounts.similar
    # The last round has no new pairs.
    moves, later = count_moves(amounts, costs), costs.rounds - 2
    joins = (costs.needed * amounts.candidates > SENT_TO_ALL) + later * (
        costs.needed * (moves - amounts.candidates) > later * SENT_TO_ALL
    )
    each = amounts.sets / max(amounts.candidates, 1)
    sets = joins * amounts.sets + moves * (each + costs.needed)
    return costs.pair * pairs + costs.rounds * again + sets


def count_moves(amounts: RunAmounts, costs: SparkCosts = MEASURED) -> float:
    """Return how often sets go to a task that compares pairs, in all rounds.

    A task compares the pairs whose documents v are in one of R ranges, and u in one of k classes
    (`PairGroups`). So each v goes to the classes of its pairs, and each u to the ranges of its
    pairs; a pair that has both documents in one place already moves none.
    """
    count, compared, ranges = amounts.candidates, amounts.compared, amounts.ranges
    if not count:
        return 0.0
    classes = max(min(compared // (2 * count), ranges), 1)
    as_second = classes * -math.expm1(-compared / (count * classes))
    further = max(compared / count - 0.5, 0.0)  # one pair for two candidates moves no more
    as_first = (ranges - 1) * -math.expm1(-costs.apart * further / ranges)
    return count * (max(as_second, 1.0) + as_first)


A_TABLE_ROW: Final = 35
"""Bytes of a removed document in the tables of OUT: measured."""


@dataclass(frozen=True)
class SparkStageCost:
    """The cost of one stage on Spark.

    Attributes:
        name: The stage, as in run.json.
        work: Seconds of all cores together.
        alone: Those of them in which a single task works.
        shuffled: Bytes shuffled.
        read: Bytes read.
        written: Bytes written to the work folder.
        out: Bytes written to OUT.
    """

    name: str
    work: float
    alone: float
    shuffled: float
    read: float
    written: float
    out: float

    @property
    def moved(self) -> float:
        """All bytes that are read or written; shuffled bytes are both."""
        return 2 * self.shuffled + self.read + self.written + self.out


@dataclass(frozen=True)
class SparkRun:
    """A run on Spark at one operating point.

    sla        the requirements; cores, memory and disk are those of an executor
    costs      seconds of each kind of work
    workload   amounts per document
    options    the operating point
    slots      bytes of a document's stored slots
    spark      bytes and seconds of the rows that Spark moves
    task       bytes that a task may hold
    """

    sla: Sla
    costs: Costs
    workload: Workload
    options: Options
    slots: int
    spark: SparkCosts = MEASURED
    task: float = TASK_MEMORY

    @cached_property
    def amounts(self) -> RunAmounts:
        """The amounts for all documents."""
        load, count = self.workload, self.sla.documents
        exact = self.options.verify == "exact"
        each = load.sets if exact else load.candidates * self.slots
        sets, members = count * each, count * load.members
        fits = sets_fit_one_task(sets, members, self.task)
        return RunAmounts(
            count,
            self.options.hash_tables.count,
            count * load.candidates,
            sets,
            count * load.removed,
            count * load.buckets,
            members,
            0.0,
            count * load.compared,
            count * (load.compared - load.false),
            load.id,
            0 if fits else count_ranges(sets, self.sla.cores, self.task),
            False,
            exact,
            self.task,
        )

    def stages(self) -> tuple[SparkStageCost, ...]:
        """Return the cost of each stage, in the order and by the names of run.json."""
        shuffled, work, alone = shuffle_bytes(self.amounts, self.spark), self._work, self._alone
        bytes_ = self._bytes
        return tuple(
            SparkStageCost(name, work[name], alone.get(name, 0.0), shuffled[name], *bytes_[name])
            for name in shuffled
        )

    @cached_property
    def _work(self) -> dict[str, float]:
        """Seconds of each stage: kernels as in the local engine, and the rows that Spark moves."""
        amounts, costs, spark, spec = self.amounts, self.costs, self.spark, self.options.spec
        count, passing, sorting = amounts.documents, self.spark.pass_row, self.spark.sort_row
        sketch = costs.sketch(spec.sketch, spec.slots, self.sla.shingles, self.sla.size)
        again = (
            (costs.reread * self._text + costs.match * amounts.sets) / MB if amounts.exact else 0.0
        )
        deciding = (
            costs.set * amounts.sets / MB
            + (costs.compare + costs.pair) * amounts.compared
            + costs.member * amounts.members
        )
        if amounts.ranges:
            pairs = amounts.members - amounts.buckets + (1 + spark.rounds) * amounts.compared
            deciding += sorting * (pairs + spark.rounds * amounts.similar)
        return {
            "sketching": count * (sketch + passing),
            "ranking": 0.0,
            "collapsing": 0.0 if amounts.met_by_one else count * sorting,
            "banding": count * (passing if amounts.met_by_one else amounts.bands * sorting)
            + 2 * passing * amounts.buckets,
            "shingling": again + passing * count + 2 * passing * amounts.candidates,
            "deciding": deciding,
            "writing tables": (costs.table + 2 * sorting) * amounts.removed
            + (passing * count if amounts.held else 2 * sorting * (count + amounts.candidates)),
            "writing": costs.keep * self._kept / MB + passing * amounts.removed,
        }

    @property
    def _alone(self) -> dict[str, float]:
        """Seconds of each stage in which a single task works; one task writes each table."""
        amounts = self.amounts
        tables = amounts.removed * (self.costs.table + 2 * self.spark.sort_row)
        deciding = {} if amounts.ranges else {"deciding": self._work["deciding"]}
        banding = {"banding": self._work["banding"]} if amounts.met_by_one else {}
        return {"writing tables": tables} | deciding | banding

    @cached_property
    def _bytes(self) -> dict[str, tuple[float, float, float]]:
        """Bytes of each stage: read, written to the work folder, written to OUT."""
        amounts, spark, text = self.amounts, self.spark, self._text
        sketches = amounts.documents * self._sketch
        buckets = spark.bucket * amounts.buckets
        times = spark.rounds if amounts.ranges else 1
        pairs = spark.known * amounts.compared if amounts.ranges else 0.0
        names = (8 + amounts.id) * amounts.documents
        return {
            "sketching": (text, sketches, 0.0),
            "ranking": (0.0, 0.0, 0.0),
            "collapsing": (24 * amounts.documents, 16 * amounts.copies, 0.0),
            "banding": (8 * amounts.bands * amounts.documents + buckets, buckets, 0.0),
            "shingling": (text if amounts.exact else sketches, amounts.sets, 0.0),
            "deciding": (
                (buckets / 2 + pairs) * times + amounts.sets * max(times - 1, 1),
                pairs * times + 12 * amounts.removed,
                0.0,
            ),
            # Inputs are read again to hash them.
            "writing tables": (
                2 * names + text,
                16 * amounts.removed,
                A_TABLE_ROW * amounts.removed,
            ),
            "writing": (text, 0.0, self._kept),
        }

    @property
    def _sketch(self) -> float:
        """Bytes of a document in the table of sketches."""
        amounts = self.amounts
        return (
            self.spark.sketch
            + amounts.id
            + 8 * amounts.bands
            + (0 if amounts.exact else self.slots)
        )

    @property
    def _text(self) -> float:
        return self.sla.documents * self.workload.stored

    @property
    def _kept(self) -> float:
        return self.sla.documents * self.workload.kept
