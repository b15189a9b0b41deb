"""The work of making a run again with the decisions: in a thread that pages ask how far it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final

import pyarrow as pa

from neardup.decisions import Decisions
from neardup.errors import Busy, NeardupError, OutputError
from neardup.pipeline.progress_display import ReportStage

ApplyTo = Callable[[Decisions, Path, ReportStage], dict[str, int]]
"""Makes the run again with decisions in a folder, tells how far it is, and returns the counts."""
STOPPED: Final = "the server ended: apply the decisions to the same folder again, which goes on"


class ApplyWork:
    """Applies decisions, one folder at a time. Used by several threads.

    Args:
        apply: Does it.
    """

    def __init__(self, apply: ApplyTo) -> None:
        self._apply, self._lock, self._stopped = apply, Lock(), Event()
        self._thread: Thread | None = None
        self.out: Path | None = None
        """The folder that is written, or was last."""
        self.stage, self.done = "", 0.0
        """What is being done, and which part of it is, from 0 to 1."""
        self.counts: dict[str, int] | None = None
        """The counts of the run that was made; None before its end."""
        self.failure: NeardupError | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether a run is being made."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self, read: Callable[[], Decisions], out: Path) -> None:
        """Begin to apply decisions.

        Args:
            read: Returns the decisions, of which there may be a million.
            out: The folder to write.

        Raises:
            Busy: others are being applied.
        """
        with self._lock:
            if self.is_under_way:
                raise Busy("decisions are being applied: wait until that is done")
            self.out, self.stage, self.done = out, "reading", 0.0
            self.counts = self.failure = None
            self._thread = Thread(target=self._run, args=(read, out), daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Return when nothing is under way."""
        if self._thread is not None:
            self._thread.join()

    def stop(self) -> None:
        """End what is under way; the same decisions to the same folder go on from there."""
        self._stopped.set()
        self.wait()

    def _run(self, read: Callable[[], Decisions], out: Path) -> None:
        try:
            self.counts = self._apply(read(), out, self._report)
        except NeardupError as error:
            self.failure = error
        except (OSError, MemoryError, pa.ArrowException) as error:
            self.failure = OutputError(f"{out} can't be written ({error or type(error).__name__})")

    def _report(self, stage: str, done: int, total: int | None, _unit: str) -> None:
        if self._stopped.is_set():
            raise Busy(STOPPED)
        self.stage, self.done = stage, done / total if total else 0.0
