"""Delay Ctrl-C and SIGTERM until a step of a run is complete.

Numba does not expect a Python exception while it hands over a kernel's result: a signal that
arrives then ends in a SystemError, or in a crash.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from neardup.runtime import Progress

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SIGNAL_OF: dict[type[BaseException], signal.Signals] = {
    KeyboardInterrupt: signal.SIGINT,
    SystemExit: signal.SIGTERM,
}
REPEAT_SECONDS = 0.1


@contextmanager
def hold_signals() -> Iterator[Callable[[], None]]:
    """Hold signals back; where the function that this gives is called, they take effect.

    Who asks a second time is obeyed at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None  # signals don't arrive here
        return
    # Only those that would raise: what ends the process at once, or is ignored, may do so.
    handlers = {n: now for n in SIGNALS if callable(now := signal.getsignal(n))}
    came: list[int] = []

    def obey() -> None:
        if came:
            handlers[signal.Signals(came[0])](came[0], None)

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            obey()

    for number in handlers:
        signal.signal(number, note)
    try:
        yield obey
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    obey()


@contextmanager
def interrupt_at_once() -> Iterator[Callable[[], None]]:
    """Hold nothing back: for work in which no compiled function of ours runs here.

    Python drops what a signal raises while an object is cleared away: that signal comes again.
    """
    before, main = sys.unraisablehook, threading.main_thread().ident

    def dropped(what: sys.UnraisableHookArgs) -> None:
        number = SIGNAL_OF.get(what.exc_type)
        if number is None or main is None:
            before(what)
        else:
            threading.Timer(REPEAT_SECONDS, signal.pthread_kill, (main, number)).start()

    sys.unraisablehook = dropped
    try:
        yield lambda: None
    finally:
        sys.unraisablehook = before


class InterruptibleProgress:
    """Progress whose every step is a place to interrupt."""

    def __init__(self, progress: Progress, obey: Callable[[], None]) -> None:
        self._progress, self._obey = progress, obey

    def stage(self, name: str, total: int, unit: str) -> None:
        self._obey()
        self._progress.stage(name, total, unit)

    def advance(self, amount: int) -> None:
        self._obey()
        self._progress.advance(amount)

    def say(self, message: str) -> None:
        self._progress.say(message)
