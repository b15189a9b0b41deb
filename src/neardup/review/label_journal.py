"""The pairs that were drawn for people to label, and their answers, in a file beside the run.

An answer is stored at once, and for good; what is undone is marked. The pairs have their texts with
them, so that pages need nothing else, whatever becomes of the inputs.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from neardup.errors import UsageError
from neardup.evaluation.drawn_pairs import StratumSize
from neardup.evaluation.label_figures import ANSWERS, DrawnPair
from neardup.review.journal import DROPPED, TIME, UNDONE, VALID
from neardup.review.stored_file import StoredFile

VERSION: Final = 1
SCHEMA: Final = """
CREATE TABLE draw (run TEXT, about TEXT, floor REAL);
CREATE TABLE strata (name TEXT PRIMARY KEY, pairs REAL, units REAL);
CREATE TABLE pairs (
    number INTEGER PRIMARY KEY, a TEXT, b TEXT, stratum TEXT, similarity REAL
);
CREATE TABLE texts (id TEXT PRIMARY KEY, text BLOB);
CREATE TABLE answers (
    number INTEGER PRIMARY KEY, pair INTEGER NOT NULL, answer TEXT NOT NULL, who TEXT NOT NULL,
    time TEXT NOT NULL, state TEXT NOT NULL
);
CREATE INDEX answers_who ON answers (who, state, number);
"""


class PairDraw(NamedTuple):
    """Pairs that were drawn.

    run      the fingerprint of the documents of the run; empty if it has none
    about    of which documents, as a sentence
    floor    the lowest similarity that was searched for
    sizes    the size of each stratum
    pairs    the pairs, in their order
    """

    run: str
    about: str
    floor: float
    sizes: Mapping[str, StratumSize]
    pairs: Sequence[DrawnPair]


class LabelJournal(StoredFile):
    """Stores drawn pairs and answers. Used by several threads; other processes may use the file.

    Args:
        path: The file; it is made with its folder when pairs are stored first.
        run: The fingerprint of the documents of the run; None if it has none.
        clock: Returns the time of an answer.
    """

    def __init__(
        self,
        path: Path,
        run: str | None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(path, SCHEMA, VERSION, "labels")
        self._clock = clock
        drawn = self.draw
        if drawn is not None and drawn.run != (run or ""):
            raise UsageError(
                f"{path} has labels of other documents than this run has now: move it away, to "
                "label pairs of these"
            )

    # -- pairs ------------------------------------------------------------------------------------

    @cached_property
    def draw(self) -> PairDraw | None:
        """The pairs that were drawn; None if none were."""
        found = self.ask("SELECT run, about, floor FROM draw")
        if not found:
            return None
        found_sizes = self.ask("SELECT name, pairs, units FROM strata")
        sizes = {name: StratumSize(*size) for name, *size in found_sizes}
        query = "SELECT number, a, b, stratum, similarity FROM pairs ORDER BY number"
        run, about, floor = found[0]
        return PairDraw(run, about, floor, sizes, [DrawnPair(*row) for row in self.ask(query)])

    def store(self, draw: PairDraw, texts: Mapping[str, str]) -> None:
        """Store pairs, after those that are stored already.

        Args:
            draw: All pairs; those that are stored already come first, and unchanged.
            texts: The texts of their documents, by their ids.

        Raises:
            UsageError: other pairs are stored already.
        """
        before = [] if self.draw is None else self.draw.pairs
        if list(draw.pairs[: len(before)]) != list(before):
            raise UsageError(
                f"the run is another one than when the pairs in {self.path} were drawn, so that "
                "more of them can't be drawn: move it away, to draw others"
            )
        with self.change() as (opened, _):
            opened.execute("DELETE FROM draw")
            opened.execute("INSERT INTO draw VALUES (?, ?, ?)", (draw.run, draw.about, draw.floor))
            rows = ((name, *size) for name, size in draw.sizes.items())
            opened.executemany("INSERT OR REPLACE INTO strata VALUES (?, ?, ?)", rows)
            added = draw.pairs[len(before) :]
            opened.executemany("INSERT INTO pairs VALUES (?, ?, ?, ?, ?)", added)
            packed = ((id, _pack(text)) for id, text in texts.items())
            opened.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", packed)
        self.__dict__.pop("draw", None)

    def text(self, id: str) -> str:
        """Return the text of a document of a pair.

        Args:
            id: Its id.
        """
        found = self.ask("SELECT text FROM texts WHERE id = ?", id)
        return zlib.decompress(found[0][0]).decode("utf-8", "surrogatepass") if found else ""

    # -- answers ----------------------------------------------------------------------------------

    def answer(self, answers: Iterable[tuple[int, str]], who: str) -> int:
        """Store answers, and return how many they are.

        Args:
            answers: The numbers of pairs, and `same`, `different` or `unsure`.
            who: The name of the person.
        """
        time = self._clock().astimezone(UTC).strftime(TIME)
        rows = [(pair, answer, who, time) for pair, answer in answers]
        if any(answer not in ANSWERS for _, answer, *_ in rows):
            raise UsageError(f"there is no such answer: {', '.join(ANSWERS)} are the answers")
        with self.change() as (opened, _):
            opened.execute(
                "UPDATE answers SET state = ? WHERE who = ? AND state = ?", (DROPPED, who, UNDONE)
            )
            opened.executemany("INSERT INTO answers VALUES (NULL, ?, ?, ?, ?, 'valid')", rows)
        return len(rows)

    def undo(self, who: str) -> int | None:
        """Undo the last answer of a person, and return the number of its pair; None without one.

        Args:
            who: The name of the person.
        """
        return self._turn(who, VALID, UNDONE, "max")

    def redo(self, who: str) -> int | None:
        """Redo what a person has undone last, and return the number of its pair.

        Args:
            who: The name of the person.
        """
        return self._turn(who, UNDONE, VALID, "min")

    def _turn(self, who: str, old: str, new: str, end: str) -> int | None:
        with self.change() as (opened, _):
            query = f"SELECT {end}(number) FROM answers WHERE who = ? AND state = ?"  # noqa: S608
            number = opened.execute(query, (who, old)).fetchone()[0]
            if number is None:
                return None
            opened.execute("UPDATE answers SET state = ? WHERE number = ?", (new, number))
            found = opened.execute("SELECT pair FROM answers WHERE number = ?", (number,))
            return int(found.fetchone()[0])

    def answers(self, who: str | None = None) -> dict[str, dict[int, str]]:
        """Return the answers of each person by the numbers of pairs; the last of each pair.

        Args:
            who: The name of the person; None for all.
        """
        query = (
            "SELECT who, pair, answer FROM answers WHERE state = 'valid' "
            "AND (? IS NULL OR who = ?) ORDER BY number"
        )
        found: dict[str, dict[int, str]] = {}
        for person, pair, answer in self.ask(query, who, who):
            found.setdefault(person, {})[pair] = answer
        return found


def _pack(text: str) -> bytes:
    return zlib.compress(text.encode("utf-8", "surrogatepass"), 1)
