"""Regular expressions as tables for a kernel, which reads each symbol once and never goes back.

An expression has characters, escaped characters, sets `[a-z_]`, groups, `|`, and `?`, `*`, `+`,
`{2}`, `{2,}` and `{0,2}` behind what is repeated. It becomes a nondeterministic automaton
(Thompson), and that a deterministic one (subsets).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

Symbols = frozenset[str]
DEAD = 0
"""The state from which nothing matches any more."""


@dataclass
class _Automaton:
    """States with edges that read a symbol of a set, and edges that read nothing."""

    reading: list[list[tuple[Symbols, int]]] = field(default_factory=list)
    silent: list[list[int]] = field(default_factory=list)

    def state(self) -> int:
        self.reading.append([])
        self.silent.append([])
        return len(self.silent) - 1

    def closure(self, states: Iterable[int]) -> frozenset[int]:
        """Return the states that are reached without reading anything."""
        found, open_states = set(states), list(states)
        while open_states:
            for target in self.silent[open_states.pop()]:
                if target not in found:
                    found.add(target)
                    open_states.append(target)
        return frozenset(found)


Part = Callable[[_Automaton, int], int]
"""A part of an expression: adds itself behind a state, and returns the state behind it."""


def _reading(symbols: Symbols) -> Part:
    def add(automaton: _Automaton, begin: int) -> int:
        end = automaton.state()
        automaton.reading[begin].append((symbols, end))
        return end

    return add


def _in_turn(parts: list[Part]) -> Part:
    def add(automaton: _Automaton, begin: int) -> int:
        for part in parts:
            begin = part(automaton, begin)
        return begin

    return add


def _any_of(parts: list[Part]) -> Part:
    def add(automaton: _Automaton, begin: int) -> int:
        end = automaton.state()
        for part in parts:
            automaton.silent[part(automaton, begin)].append(end)
        return end

    return add


def _repeated(part: Part, low: int, high: int | None) -> Part:
    def add(automaton: _Automaton, begin: int) -> int:
        end, state = automaton.state(), _in_turn([part] * low)(automaton, begin)
        if high is None:
            loop = automaton.state()
            automaton.silent[state].append(loop)
            automaton.silent[part(automaton, loop)].append(loop)
            state = loop
        for _ in range((high or low) - low):
            automaton.silent[state].append(end)
            state = part(automaton, state)
        automaton.silent[state].append(end)
        return end

    return add


class _Reader:
    """Reads an expression, from left to right."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.at = pattern, 0

    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def take(self) -> str:
        self.at += 1
        return self.pattern[self.at - 1]

    def character(self) -> str:
        first = self.take()
        return self.take() if first == "\\" else first

    def alternatives(self) -> Part:
        """Read up to the end of the expression, or of a group."""
        found = [self.sequence()]
        while self.peek() == "|":
            self.take()
            found.append(self.sequence())
        return _any_of(found)

    def sequence(self) -> Part:
        parts = []
        while self.peek() not in ("", "|", ")"):
            parts.append(_repeated(self.piece(), *self.repeats()))
        return _in_turn(parts)

    def piece(self) -> Part:
        """Read a group, a set or a character."""
        if self.peek() == "(":
            self.take()
            inside = self.alternatives()
            self.take()
            return inside
        return _reading(self.set() if self.peek() == "[" else frozenset(self.character()))

    def set(self) -> Symbols:
        self.take()
        found: set[str] = set()
        while self.peek() != "]":
            first = last = self.character()
            if self.peek() == "-" and self.pattern[self.at + 1] != "]":
                self.take()
                last = self.character()
            found.update(map(chr, range(ord(first), ord(last) + 1)))
        self.take()
        return frozenset(found)

    def repeats(self) -> tuple[int, int | None]:
        """Read how often the piece before comes: at least, and at most if there is a limit."""
        given = _REPEATS.match(self.pattern, self.at)
        if given is None:
            return 1, 1
        self.at = given.end()
        if given[0] in _SIGNS:
            return _SIGNS[given[0]]
        return int(given[1]), int(given[3]) if given[3] else None if given[2] else int(given[1])


_SIGNS: Final[dict[str, tuple[int, int | None]]] = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_REPEATS: Final = re.compile(r"[?*+]|\{(\d+)(,?)(\d*)\}")


@dataclass(frozen=True)
class RuleTable:
    """Expressions as one deterministic automaton, with a state for each to begin in.

    Symbols that no expression tells apart share a column.

    Attributes:
        columns: The column of each symbol.
        transitions: State and column -> next state.
        accepting: Whether what was read up to a state matches.
        starts: The first state of each expression.
    """

    columns: NDArray[np.int64]
    transitions: NDArray[np.int16]
    accepting: NDArray[np.uint8]
    starts: NDArray[np.int64]


def compile_rules(
    patterns: Sequence[str], symbols: Sequence[str], told_apart: Iterable[str]
) -> RuleTable:
    """Return expressions as a table.

    Args:
        patterns: The expressions.
        symbols: All symbols of texts; the others of the expressions never match.
        told_apart: Sets of symbols that are told apart besides.
    """
    automaton = _Automaton()
    begins = [automaton.state() for _ in patterns]
    ends = [
        _Reader(pattern).alternatives()(automaton, begin)
        for pattern, begin in zip(patterns, begins, strict=True)
    ]
    sets = {symbols for edges in automaton.reading for symbols, _ in edges}
    kinds = sorted([*map(sorted, sets), *map(sorted, told_apart)])
    members = {symbol: tuple(symbol in kind for kind in kinds) for symbol in symbols}
    columns = {kind: place for place, kind in enumerate(dict.fromkeys(members.values()))}
    samples = {columns[kind]: symbol for symbol, kind in members.items()}
    rows, numbers, starts = _determine(automaton, begins, [samples[c] for c in range(len(samples))])
    accepting = [bool(states.intersection(ends)) for states in numbers]
    return RuleTable(
        np.array([columns[members[symbol]] for symbol in symbols], np.int64),
        np.array(rows, np.int16),
        np.array(accepting, np.uint8),
        np.array(starts, np.int64),
    )


def _determine(
    automaton: _Automaton, begins: list[int], samples: list[str]
) -> tuple[list[list[int]], list[frozenset[int]], list[int]]:
    """Return transitions, the states of each state, and the states to begin in."""
    numbers: dict[frozenset[int], int] = {frozenset(): DEAD}
    starts = [numbers.setdefault(automaton.closure([one]), len(numbers)) for one in begins]
    rows: list[list[int]] = []
    while len(rows) < len(numbers):
        states = list(numbers)[len(rows)]
        edges = [edge for state in states for edge in automaton.reading[state]]
        targets = (
            automaton.closure([to for symbols, to in edges if sample in symbols])
            for sample in samples
        )
        rows.append([numbers.setdefault(target, len(numbers)) for target in targets])
    return rows, list(numbers), starts
