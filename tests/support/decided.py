"""Decisions of people, and corpora that they are about."""

from __future__ import annotations

import random

from neardup.decisions import Action, Decision, Decisions
from support.definition import Row

ACTIONS: tuple[Action, ...] = ("same", "different", "unsure", "keep", "prefer", "drop")


def decide(action: Action, a: str, b: str | None = None, who: str = "ann") -> Decision:
    return Decision(action, a, b, who=who, when="2026-03-01T12:00:00Z")


def random_decisions(names: list[str], seed: int) -> list[Decision]:
    """Decisions that don't contradict one another, about a few documents that often come again."""
    chance = random.Random(seed)
    some = [*chance.sample(names, min(len(names), chance.randrange(2, 9))), "nobody"]
    said: list[Decision] = []
    for _ in range(chance.randrange(1, 10)):
        action = chance.choice(ACTIONS)
        pair = chance.sample(some, 2)
        b = pair[1] if action in ACTIONS[:3] else None
        said.append(decide(action, pair[0], b, chance.choice("xyz")))
    return consistent(said)


def consistent(said: list[Decision]) -> list[Decision]:
    """The decisions without those that contradict earlier ones."""
    chosen: list[Decision] = []
    for one in said:
        if not any(Decisions.of([*chosen, one]).contradictions()):
            chosen.append(one)
    return chosen


def posts(count: int) -> list[str]:
    """Families of texts that differ in a word or two, and copies."""
    chance = random.Random(7)
    words = [f"w{number}" for number in range(20)]
    kinds = [chance.choices(words, k=10) for _ in range(6)]
    texts = []
    for _ in range(count):
        text = list(chance.choice(kinds))
        for _ in range(chance.randrange(3)):
            text[chance.randrange(len(text))] = chance.choice(words)
        texts.append(" ".join(text))
    return texts


def rows_of(texts: list[str]) -> list[Row]:
    return [
        {"id": f"d{number:04}", "text": text, "lang": "ab"[number % 2]}
        for number, text in enumerate(texts)
    ]
