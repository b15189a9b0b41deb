"""What is told to whoever waits: a stage begins with its amount of work, then advances."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Something that shows how far a long piece of work has come."""

    def stage(self, name: str, total: int, unit: str) -> None: ...
    def advance(self, amount: int) -> None: ...
    def say(self, message: str) -> None: ...


class Silent:
    """Says nothing."""

    def stage(self, name: str, total: int, unit: str) -> None:
        pass

    def advance(self, amount: int) -> None:
        pass

    def say(self, message: str) -> None:
        pass


SILENT = Silent()
