"""The decisions of people about a run, in an SQLite file beside it, stored at once and for good.

Nothing is deleted: what is undone is marked. Several tabs, people and servers may write to it.
Whoever decides says which state of the file was seen; if something was decided about the same
cluster since, that is said, and nothing is stored.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, cast

from neardup.decisions import PAIR_ACTIONS, Action, Decision
from neardup.errors import Conflict
from neardup.formats.decisions import write_decisions
from neardup.review.stored_file import StoredFile

VERSION: Final = 1
TIME: Final = "%Y-%m-%dT%H:%M:%S.%fZ"
MOST_TOLD: Final = 3
"""Decisions that are listed of those that came in between."""
SCHEMA: Final = """
CREATE TABLE decisions (
    number INTEGER PRIMARY KEY, step INTEGER NOT NULL, action TEXT NOT NULL, a TEXT NOT NULL,
    b TEXT NOT NULL, who TEXT NOT NULL, time TEXT NOT NULL, note TEXT NOT NULL,
    run TEXT NOT NULL, cluster INTEGER, change INTEGER NOT NULL, state TEXT NOT NULL
);
CREATE INDEX decisions_cluster ON decisions (cluster, change);
CREATE INDEX decisions_who ON decisions (who, state, step);
CREATE INDEX decisions_step ON decisions (step);
CREATE INDEX decisions_pair ON decisions (a, b);
CREATE INDEX decisions_b ON decisions (b);
"""
CONTESTED: Final = """
WITH RECURSIVE
    valid AS (SELECT * FROM decisions WHERE state = 'valid'),
    merged (name) AS (
        SELECT a FROM valid WHERE action = 'same' UNION SELECT b FROM valid WHERE action = 'same'
    ),
    asked (a, b) AS (
        SELECT a, b FROM valid AS one WHERE action NOT IN ('same', 'unsure') AND (
            (a IN merged AND (b = '' OR b IN merged))
            OR EXISTS (
                SELECT 1 FROM valid AS other
                WHERE other.a = one.a AND other.b = one.b AND other.action <> one.action
            )
            OR EXISTS (
                SELECT 1 FROM valid AS other
                WHERE other.a = one.b AND other.b = one.a AND other.action <> one.action
            )
        )
    ),
    reached (name) AS (
        SELECT a FROM asked UNION SELECT b FROM asked WHERE b <> ''
        UNION SELECT valid.b FROM reached JOIN valid ON valid.a = name WHERE action = 'same'
        UNION SELECT valid.a FROM reached JOIN valid ON valid.b = name WHERE action = 'same'
    )
SELECT * FROM decisions WHERE state = 'valid' AND number IN (
    SELECT number FROM reached JOIN decisions ON a = name
    UNION SELECT number FROM reached JOIN decisions ON b = name
) ORDER BY number
"""
"""What people disagree on; what is the same, and different or kept too; all that is the same."""
VALID, UNDONE, DROPPED = "valid", "undone", "dropped"
"""States of a decision: undone can be redone; dropped can't, as something was decided since."""


class NewDecision(NamedTuple):
    """What someone decides.

    action   same, different or unsure about a pair; keep, prefer or drop about a document
    a        the id of a document; of a pair, that of the kept one
    b        the id of the other one; empty if there is none
    cluster  the cluster that it is about, in the tables of the run; None if there is none
    """

    action: str
    a: str
    b: str = ""
    cluster: int | None = None


class StoredDecision(NamedTuple):
    """A decision as it is stored; `state` says whether it was undone."""

    number: int
    step: int
    action: str
    a: str
    b: str
    who: str
    time: str
    note: str
    run: str
    cluster: int | None
    change: int
    state: str

    @property
    def subject(self) -> tuple[str, ...]:
        """What it is about: two documents in any order, or one."""
        if self.action in PAIR_ACTIONS:
            return (*sorted((self.a, self.b)),)
        return (self.a,)


class DecisionJournal(StoredFile):
    """Stores decisions. Used by several threads; other processes may use the same file.

    Args:
        path: The file; it is made with its folder when the first decision is stored.
        run: The fingerprint of the documents of the run, stored with each decision; None if it
            has none.
        clock: Returns the time of a decision.
    """

    def __init__(
        self,
        path: Path,
        run: str | None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(path, SCHEMA, VERSION, "decisions")
        self._run, self._clock = run or "", clock

    # -- what is stored ---------------------------------------------------------------------------

    def decide(
        self, decisions: Iterable[NewDecision], who: str, note: str = "", seen: int | None = None
    ) -> int:
        """Store decisions as one step, which is undone as one, and return how many they are.

        Args:
            decisions: The decisions.
            who: The name of the person.
            note: What the person remarks.
            seen: The number of changes that the person has seen; None to store them in any case.

        Raises:
            Conflict: something was decided about one of the clusters since.
        """
        now = self._clock().astimezone(UTC).strftime(TIME)
        with self.change() as (opened, change):
            # The latest decision holds: a clock that is set back must not make it an earlier one.
            query = "SELECT time FROM decisions ORDER BY number DESC LIMIT 1"
            time = max(now, *opened.execute(query).fetchone() or ("",))
            step = opened.execute("SELECT coalesce(max(step), 0) + 1 FROM decisions").fetchone()[0]
            rows = [
                (step, one.action, one.a, one.b, who, time, note, self._run, one.cluster, change)
                for one in decisions
            ]
            if seen is not None:
                self._check_unchanged(opened, {row[8] for row in rows}, seen)
            opened.execute(
                "UPDATE decisions SET state = ? WHERE who = ? AND state = ?", (DROPPED, who, UNDONE)
            )
            opened.executemany(
                "INSERT INTO decisions VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'valid')", rows
            )
        return len(rows)

    @staticmethod
    def _check_unchanged(opened: sqlite3.Connection, clusters: set[int | None], seen: int) -> None:
        for cluster in clusters - {None}:
            query = "SELECT * FROM decisions WHERE cluster = ? AND change > ? ORDER BY number DESC"
            found = [StoredDecision(*row) for row in opened.execute(query, (cluster, seen))]
            if found:
                told = "; ".join(
                    f"{one.who} {'undid' if one.state != VALID else 'decided'} {one.action!r} of "
                    f"{one.a}{' and ' if one.b else ''}{one.b} at {one.time}"
                    for one in found[:MOST_TOLD]
                )
                raise Conflict(
                    f"this cluster has changed since you opened the page: {told}. Nothing was "
                    "stored; look at it again, then decide"
                )

    def undo(self, who: str) -> tuple[StoredDecision | None, int]:
        """Undo the last step of a person; return its first decision, and how many it had.

        Args:
            who: The name of the person.
        """
        return self._turn(who, VALID, UNDONE, "max")

    def redo(self, who: str) -> tuple[StoredDecision | None, int]:
        """Redo what a person has undone last; return its first decision, and how many it has.

        Args:
            who: The name of the person.
        """
        return self._turn(who, UNDONE, VALID, "min")

    def _turn(self, who: str, old: str, new: str, end: str) -> tuple[StoredDecision | None, int]:
        with self.change() as (opened, change):
            query = f"SELECT {end}(step) FROM decisions WHERE who = ? AND state = ?"  # noqa: S608
            step = opened.execute(query, (who, old)).fetchone()[0]
            turned = opened.execute(
                "UPDATE decisions SET state = ?, change = ? WHERE step = ?", (new, change, step)
            ).rowcount
            query = "SELECT * FROM decisions WHERE step = ? ORDER BY number LIMIT 1"
            found = opened.execute(query, (step,)).fetchone()
        return None if found is None else StoredDecision(*found), turned

    # -- questions --------------------------------------------------------------------------------

    def about(self, ids: Sequence[str], alone: str = "") -> list[StoredDecision]:
        """Return the valid decisions about documents, in order; of one person the last of each.

        Args:
            ids: The ids of the documents.
            alone: The id of another one, of which decisions about pairs are left out.
        """
        marks = ", ".join("?" * len(ids))
        query = (
            f"SELECT * FROM decisions WHERE (a IN ({marks}) OR b IN ({marks}) "  # noqa: S608
            "OR (a = ? AND b = '')) AND state = 'valid' ORDER BY number"
        )
        return latest(StoredDecision(*row) for row in self.ask(query, *ids, *ids, alone))

    def count_by_cluster(self, clusters: Sequence[int]) -> dict[int, int]:
        """Return the number of valid decisions about clusters; of those without any, nothing.

        Args:
            clusters: Their numbers in the tables of the run.
        """
        marks = ", ".join("?" * len(clusters))
        query = (
            f"SELECT cluster, count(*) FROM decisions WHERE cluster IN ({marks}) "  # noqa: S608
            "AND state = 'valid' GROUP BY cluster"
        )
        return dict(self.ask(query, *clusters))

    def decided_pairs(self, pairs: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """Return those of some pairs of a kept document and a copy about which someone decided.

        Args:
            pairs: Their ids.
        """
        if not pairs:
            return set()
        rows = ", ".join(["(?, ?)"] * len(pairs))
        query = (
            f"WITH pairs (kept, copy) AS (VALUES {rows}) "  # noqa: S608 -- marks alone
            "SELECT kept, copy FROM pairs WHERE EXISTS ("
            "SELECT 1 FROM decisions WHERE a = kept AND b IN (copy, '') AND state = 'valid') "
            "OR EXISTS (SELECT 1 FROM decisions WHERE a = copy AND b IN (kept, '') "
            "AND state = 'valid')"
        )
        return set(self.ask(query, *(id for pair in pairs for id in pair)))

    def decided_subjects(self) -> set[tuple[str, ...]]:
        """Return the pairs and documents about which someone decided, as decisions name them."""
        query = "SELECT DISTINCT a, b FROM decisions WHERE state = 'valid'"
        return {(a, b) if b else (a,) for a, b in self.ask(query)}

    def export(self) -> Iterator[Decision]:
        """Yield all valid decisions, in order, as other programs read them."""
        return self._each("SELECT * FROM decisions WHERE state = 'valid' ORDER BY number")

    def contested(self) -> Iterator[Decision]:
        """Yield the valid decisions that may contradict one another, with all that depends on them.

        Contradictions among them are those among all. Of a million decisions that agree, which
        someone made at once, they are few.
        """
        return self._each(CONTESTED)

    def _each(self, query: str) -> Iterator[Decision]:
        for one in (StoredDecision(*row) for row in self.ask(query)):
            yield Decision(
                cast(Action, one.action),
                one.a,
                one.b or None,
                who=one.who,
                when=one.time,
                note=one.note,
                fingerprint=one.run or None,
            )

    def write(self, path: Path) -> int:
        """Write all valid decisions to a file, and return how many they are.

        Args:
            path: Where to write; .parquet or .jsonl at its end is the format.
        """
        decisions = list(self.export())
        write_decisions(path, decisions)
        return len(decisions)

    def recent(self, start: int, count: int) -> list[StoredDecision]:
        """Return decisions, the last first, also those that were undone.

        Args:
            start: The number of decisions before the first one.
            count: How many, at most.
        """
        query = "SELECT * FROM decisions ORDER BY number DESC LIMIT ? OFFSET ?"
        return [StoredDecision(*row) for row in self.ask(query, count, start)]

    def counts(self) -> dict[str, int]:
        """Return the number of valid decisions by action."""
        query = "SELECT action, count(*) FROM decisions WHERE state = 'valid' GROUP BY action"
        return dict(self.ask(query))


def latest(decisions: Iterable[StoredDecision]) -> list[StoredDecision]:
    """Return of each person the last decision on each subject, in order.

    Whoever decides again on the same documents has changed their mind; what other people have
    decided stays, and may contradict.

    Args:
        decisions: Decisions, in order.
    """
    found = {(one.who, one.subject): one for one in decisions}
    return sorted(found.values(), key=lambda one: one.number)
