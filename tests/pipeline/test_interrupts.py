"""Ctrl-C is obeyed even if Python drops the exception that it raises."""

from __future__ import annotations

import signal
import sys
import time

import pytest

from neardup.pipeline.interrupts import interrupt_at_once


class Interrupted:
    """The signal arrives while this is cleared away."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_a_dropped_interrupt_is_raised_again(capsys: pytest.CaptureFixture[str]) -> None:
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    hook = sys.unraisablehook
    try:
        with pytest.raises(KeyboardInterrupt), interrupt_at_once():
            Interrupted()
            time.sleep(20)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert sys.unraisablehook is hook
    assert capsys.readouterr().err == ""
