"""What people decided about documents and pairs: `Decision`, `Decisions`, and their contradictions.

A run or an index obeys decisions before its own comparison (docs/decisions/049-decisions.md):

    about a pair      same        they count as similar, whatever their similarity
                      different   neither is ever the witness of the other
                      unsure      as if nothing had been decided
    about a document  keep        it stays, at its own rank
                      prefer      it stays, and ranks before all documents that nobody prefers
                      drop        it is removed, with the person as the reason, and witness of none

Of several decisions of one person about the same document or pair, the latest holds. What people
say of pairs is taken at its word: same as the same is the same. Where that, or two people, can't
both be right, nothing is guessed: the contradiction is listed. `formats/decisions.py` has the
files.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Any, Final, Literal, get_args

from neardup.errors import ParameterError, UsageError
from neardup.formatting import make_printable

PairAction = Literal["same", "different", "unsure"]
DocumentAction = Literal["keep", "prefer", "drop"]
Action = Literal[PairAction, DocumentAction]
PAIR_ACTIONS: Final[tuple[str, ...]] = get_args(PairAction)
DOCUMENT_ACTIONS: Final[tuple[str, ...]] = get_args(DocumentAction)
ACTIONS: Final[tuple[str, ...]] = (*PAIR_ACTIONS, *DOCUMENT_ACTIONS)
MOST_DECISIONS: Final = 10_000_000
LONGEST_NAME: Final = 4_096
"""Characters of the name of a document."""
LONGEST_WHO: Final = 200
LONGEST_NOTE: Final = 2_000
LISTED: Final = 20
"""The number of contradictions that an error message lists."""
SAME_IDS: Final = "--same-ids"
"""The option by which the user vouches for ids that name the same documents as before."""
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")
_FINGERPRINT: Final = re.compile(r"[0-9a-z:_-]{1,100}")
_SIGNS: Final = {"same": "=", "different": "≠"}

Subject = tuple[str, ...]
"""What a decision is about: a document, or the two documents of a pair in the order of names."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's decision about a document or a pair of documents.

    Args:
        action: `same`, `different` or `unsure` about a pair; `keep`, `prefer` or `drop` about a
            document.
        a: The document, named as runs name it: its id, or file:row.
        b: The other document of a pair; None for an action about one document.
        who: The person, at most 200 characters on one line.
        when: The time in UTC, as RFC 3339 with a Z: 2026-03-01T12:00:00Z.
        note: Why, in the person's words: at most 2,000 characters.
        fingerprint: That of the documents that the person saw (`fingerprint_run`, or of an index);
            None if it is not known.

    >>> Decision("same", "a.txt:0", "b.txt:0", who="ann", when="2026-03-01T12:00:00Z").subject
    ('a.txt:0', 'b.txt:0')
    """

    action: Action
    a: str
    b: str | None = None
    who: str = field(kw_only=True)
    when: str = field(kw_only=True)
    note: str = field(kw_only=True, default="")
    fingerprint: str | None = field(kw_only=True, default=None)

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise ParameterError(
                f"action {str(self.action)[:40]!r} is not known: use one of {', '.join(ACTIONS)}"
            )
        _check_text("a", self.a, LONGEST_NAME)
        if self.action in DOCUMENT_ACTIONS:
            if self.b is not None:
                raise ParameterError(f"{self.action} is about one document: leave out b")
        elif self.b is None:
            raise ParameterError(f"{self.action} is about a pair: b is missing")
        else:
            _check_text("b", self.b, LONGEST_NAME)
            if self.a == self.b:
                raise ParameterError("a and b are one document: a pair has two")
        _check_text("who", self.who, LONGEST_WHO)
        if _CONTROL.search(self.who):
            raise ParameterError("who has a line break or another control character")
        _check_time(self.when)
        _check_text("note", self.note, LONGEST_NOTE, least=0)
        known = self.fingerprint
        if known is not None and not (isinstance(known, str) and _FINGERPRINT.fullmatch(known)):
            raise ParameterError("fingerprint is not one that neardup writes: leave it out")

    @property
    def subject(self) -> Subject:
        """What the decision is about, whichever of a pair's documents is named first."""
        if self.b is None:
            return (self.a,)
        return (self.a, self.b) if self.a < self.b else (self.b, self.a)

    def __str__(self) -> str:
        said = f"{self.action} {shorten(self.a)}"
        if self.b is not None:
            sign = _SIGNS.get(self.action, "?")
            said = f"{shorten(self.a)} {sign} {shorten(self.b)}"
        return f"{said} ({make_printable(self.who)}, {self.when})"


def shorten(name: str) -> str:
    """Return a name as messages show it: at most 60 characters, on one line."""
    clean = make_printable(name)
    return clean if len(clean) <= 60 else f"{clean[:28]}...{clean[-28:]}"


def _check_text(field: str, value: object, longest: int, least: int = 1) -> None:
    if not isinstance(value, str):
        raise ParameterError(f"{field} must be a text, not {type(value).__name__}")
    if not least <= len(value) <= longest:
        why = "is empty" if not value else f"has {len(value):,} characters"
        raise ParameterError(f"{field} {why}: give {least:,} to {longest:,}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ParameterError(f"{field} is not Unicode text: it has half a character") from None


def _check_time(when: object) -> None:
    try:
        if isinstance(when, str) and _TIME.fullmatch(when):
            datetime.fromisoformat(when[:19])
            return
    except ValueError:
        pass
    raise ParameterError("when must be a time in UTC such as 2026-03-01T12:00:00Z")


@dataclass(frozen=True)
class Contradiction:
    """Decisions that can't all be right.

    Attributes:
        reason: What is wrong, in words.
        decisions: The decisions, each of which is needed for the contradiction.
    """

    reason: str
    decisions: tuple[Decision, ...]

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.decisions[:6]))
        more = f" and {len(self.decisions) - 6} more" if len(self.decisions) > 6 else ""
        return f"{self.reason}: {shown}{more}"


@dataclass(frozen=True)
class Decisions:
    """Decisions in the order in which they were read or made.

    Args:
        given: The decisions; also those that a later one of the same person replaces.

    >>> when = "2026-03-01T12:00:00Z"
    >>> pairs = [("same", "a", "b"), ("same", "b", "c"), ("different", "a", "c")]
    >>> decisions = Decisions.of(Decision(*pair, who="ann", when=when) for pair in pairs)
    >>> [one.reason for one in decisions.contradictions()]
    ['the same and different']
    >>> len(decisions.in_force)
    3
    """

    given: tuple[Decision, ...] = ()

    @classmethod
    def of(cls, decisions: Iterable[Decision]) -> Decisions:
        """Make decisions of any iterable; more than 10 million are refused."""
        given = tuple(islice(decisions, MOST_DECISIONS + 1))
        if len(given) > MOST_DECISIONS:
            raise UsageError(f"more than {MOST_DECISIONS:,} decisions: split them")
        return cls(given)

    def __len__(self) -> int:
        return len(self.given)

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.given)

    @cached_property
    def in_force(self) -> tuple[Decision, ...]:
        """The latest decision of each person about each document or pair; none that is `unsure`.

        Ties in time go to the later one of the two. The order is that of the subjects.
        """
        latest: dict[tuple[Subject, str], Decision] = {}
        for one in sorted(self.given, key=lambda one: one.when.rstrip("Z")):
            latest[one.subject, one.who] = one
        return tuple(latest[key] for key in sorted(latest) if latest[key].action != "unsure")

    @cached_property
    def by_document(self) -> dict[str, Decision]:
        """The decision that holds about each document; of `keep` and `prefer`, `prefer`."""
        strength = {"keep": 0, "prefer": 1, "drop": 2}
        held: dict[str, Decision] = {}
        for one in self.in_force:
            other = held.get(one.a) if one.b is None else None
            if one.b is None and (other is None or strength[other.action] < strength[one.action]):
                held[one.a] = one
        return held

    @cached_property
    def by_pair(self) -> dict[tuple[str, str], Decision]:
        """The decision that holds about each pair, by its names in their order."""
        return {(one.subject[0], one.subject[1]): one for one in self.in_force if one.b is not None}

    @cached_property
    def classes(self) -> dict[str, str]:
        """Each document that is the same as another, with the name that stands for all of them.

        That is the first name of the class in the order of names.
        """
        parent: dict[str, str] = {}

        def find(name: str) -> str:
            while (above := parent.setdefault(name, name)) != name:
                parent[name] = parent[above]
                name = parent[name]
            return name

        for one in self.in_force:
            if one.action == "same":
                first, second = sorted(map(find, one.subject))
                parent[second] = first
        return {name: find(name) for name in parent}

    @cached_property
    def names(self) -> frozenset[str]:
        """The documents that decisions in force are about."""
        return frozenset(name for one in self.in_force for name in one.subject)

    @cached_property
    def fingerprints(self) -> frozenset[str | None]:
        """The fingerprints of the documents that the decisions in force were made on."""
        return frozenset(one.fingerprint for one in self.in_force)

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield the decisions that can't all be right, in the order of the names.

        People who disagree about a document or a pair; documents that are called the same and,
        by way of others, different; two documents that are called the same and both stay.
        """
        held: dict[Subject, Decision] = {}
        for one in self.in_force:
            other = held.setdefault(one.subject, one)
            if other.action != one.action and {other.action, one.action} != {"keep", "prefer"}:
                yield Contradiction("two people disagree", (other, one))
        staying: dict[str, Decision] = {}
        for name, decision in self.by_document.items():
            of = self.classes.get(name)
            if of is None or decision.action == "drop":
                continue
            other = staying.setdefault(of, decision)
            if other is not decision:
                path = self.path(other.a, name)
                yield Contradiction("the same, and both are to stay", (other, *path, decision))
        for (a, b), one in self.by_pair.items():
            of = self.classes.get(a)
            if one.action == "different" and of is not None and of == self.classes.get(b):
                path = self.path(a, b)
                if len(path) > 1 or path[0].who == one.who:
                    yield Contradiction("the same and different", (*path, one))

    def check(self, where: str) -> None:
        """Refuse decisions that contradict one another, and name them.

        Args:
            where: What has the decisions, for the message: a file.
        """
        found = list(islice(self.contradictions(), LISTED + 1))
        if found:
            listed = "; ".join(map(str, found[:LISTED]))
            more = "; and more" if len(found) > LISTED else ""
            raise UsageError(
                f"{where}: decisions contradict one another: {listed}{more}. "
                "Change or remove one of each"
            )

    def check_documents(self, where: str, fingerprint: str | None) -> None:
        """Refuse decisions that were made about other documents than these.

        Args:
            where: What has the decisions, for the message: a file.
            fingerprint: That of the documents; None if they have none.
        """
        others = sorted(filter(None, self.fingerprints - {fingerprint}))
        if others:
            these = fingerprint or "without a fingerprint, as they are in no file"
            raise UsageError(
                f"{where}: the decisions were made about other documents (fingerprint {others[0]}, "
                f"these are {these}): if each id still names the same document, give {SAME_IDS} "
                "(in Python: same_ids=True); else decide again"
            )

    @cached_property
    def _same(self) -> dict[str, list[Decision]]:
        """The decisions that a document is the same as another, by both documents."""
        found: dict[str, list[Decision]] = {}
        for one in self.in_force:
            if one.action == "same":
                for name in one.subject:
                    found.setdefault(name, []).append(one)
        return found

    @cached_property
    def _about(self) -> dict[str, list[Decision]]:
        found: dict[str, list[Decision]] = {}
        for one in self.in_force:
            for name in one.subject:
                found.setdefault(name, []).append(one)
        return found

    def about(self, name: str) -> list[Decision]:
        """Return the decisions in force that name a document.

        Args:
            name: The name of the document.
        """
        return self._about.get(name, [])

    def path(self, start: str, end: str) -> tuple[Decision, ...]:
        """Return the fewest decisions that make two documents of one class the same.

        Args:
            start: The name of a document.
            end: That of another one of its class.
        """
        came: dict[str, Decision | None] = {start: None}
        waiting = deque([start])
        while end not in came:
            name = waiting.popleft()
            for one in self._same[name]:
                other = one.subject[1] if one.subject[0] == name else one.subject[0]
                if other not in came:
                    came[other] = one
                    waiting.append(other)
        path: list[Decision] = []
        while (step := came[end]) is not None:
            path.append(step)
            end = step.subject[1] if step.subject[0] == end else step.subject[0]
        return tuple(reversed(path))


def fingerprint_run(record: Mapping[str, Any]) -> str | None:
    """Return the fingerprint of the documents of a finished run, from its run.json.

    It covers the bytes of the inputs (not their names, places or order), which column has the ids,
    which the texts, and whether rows are merged: what a document's name refers to. It does not
    cover how documents are compared: a decision outlives another threshold. None if the run had
    no files as inputs.

    Args:
        record: The content of run.json.
    """
    inputs, parameters = record.get("inputs"), record.get("parameters", {})
    if not inputs:
        return None
    covered = {
        "id": parameters.get("id") or parameters.get("merge_rows") or "id",
        "inputs": sorted([file["size"], file["xxh3_128"]] for file in inputs),
        "merge_rows": bool(parameters.get("merge_rows")),
        "text": parameters.get("text"),
    }
    canonical = json.dumps(covered, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(canonical.encode(), digest_size=16).hexdigest()
