"""The writers of `redis_model.py` with documents that have vectors, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
import xxhash

from neardup.index.redis_store.keyspace import KEPT
from support.redis_model import World
from support.vector_definition import DefinedAnswer, Signals

NUMBERS = (-1.0, 0.0, 0.5, 1.0)


def vector_of(text: str) -> list[float]:
    """One of few vectors, which has nothing to do with the words of a text."""
    chosen = xxhash.xxh3_64_intdigest(text.encode())
    return [1.0, *(NUMBERS[chosen >> shift & 3] for shift in (0, 2))]


class VectorWorld(World):
    """An index of texts and vectors, its writers, and what they were told."""

    point: ClassVar[dict[str, Any]] = {}
    dimension = 3

    def __init__(self, patch: pytest.MonkeyPatch, seed: int, asked: Signals) -> None:
        self.asked = asked
        super().__init__(patch, seed, **asked.options)

    def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        return [vector_of(text) for text in texts]

    def defined(self) -> DefinedAnswer | None:
        """The answer about the stored documents in the order of their numbers; None of none."""
        texts = [self.text(record) for record, _ in self.stored().values()]
        if not texts:
            return None
        return DefinedAnswer([{"text": text, "v": vector_of(text)} for text in texts], self.asked)

    def copies(self) -> list[tuple[int, int, float, float | None]]:
        """Place, place of the witness, and both numbers of each copy."""
        stored = self.stored()
        place = {number: at for at, number in enumerate(stored)}
        return [
            (place[number], place[state.witness], state.similarity, state.cosine)
            for number, (_, state) in stored.items()
            if state.kind != KEPT
        ]

    def check_definition(self) -> None:
        defined = self.defined()
        answer = [] if defined is None else defined.answer
        assert self.copies() == [(at, *one) for at, one in enumerate(answer) if one is not None]

    def check_promises(self) -> None:
        defined, copies = self.defined(), self.copies()
        if defined is None:
            return
        count = len(defined.vectors)
        kept = sorted(set(range(count)) - {at for at, *_ in copies})
        for at, witness, *numbers in copies:
            assert witness in kept
            assert tuple(numbers) in defined.numbers(witness, at)
        if self.asked.limit > count:
            assert not any(defined.are_copies(u, v) for u in kept for v in kept if u < v)
