"""What all rooms use to run: pieces of work that report their progress."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from neardup.runtime import AHEAD, map_reporting

Report = Callable[[int], None]


def test_results_come_in_order_and_progress_in_the_thread_of_the_caller() -> None:
    seen: list[tuple[int, int]] = []

    def do(piece: int, report: Report) -> int:
        for _ in range(piece % 3):
            report(piece)
        time.sleep(0.001 * (piece % 4))
        return piece * piece

    def advance(amount: int) -> None:
        seen.append((amount, threading.get_ident()))

    assert list(map_reporting(range(40), do, 3, advance)) == [n * n for n in range(40)]
    assert sum(amount for amount, _ in seen) == sum(n * (n % 3) for n in range(40))
    assert {thread for _, thread in seen} == {threading.get_ident()}


def test_progress_is_shown_before_a_piece_is_complete() -> None:
    shown = threading.Event()

    def do(piece: int, report: Report) -> bool:
        report(1)
        return shown.wait(10)

    assert list(map_reporting([1, 2], do, 2, lambda amount: shown.set() if amount else None)) == [
        True,
        True,
    ]


def test_the_first_error_ends_the_others_where_they_report() -> None:
    began, ended = threading.Event(), threading.Event()

    def do(piece: int, report: Report) -> None:
        if piece == 0:
            began.wait(10)
            raise ValueError("the first")
        began.set()
        try:
            while True:
                report(1)
                time.sleep(0.001)
        finally:
            ended.set()

    with pytest.raises(ValueError, match="the first"):
        list(map_reporting([0, 1], do, 2, lambda _: None))
    assert ended.is_set()


def test_an_interrupt_of_the_caller_ends_all_pieces() -> None:
    def do(piece: int, report: Report) -> None:
        while True:
            report(1)
            time.sleep(0.001)

    def advance(amount: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(map_reporting(range(100), do, 2, advance))


def test_few_pieces_are_taken_ahead() -> None:
    taken: list[int] = []

    def pieces() -> object:
        for piece in range(1000):
            taken.append(piece)
            yield piece

    results = map_reporting(pieces(), lambda piece, _: piece, 2, lambda _: None)  # type: ignore[arg-type]
    assert next(results) == 0
    assert len(taken) <= 2 * AHEAD + 2
    results.close()  # type: ignore[attr-defined]
