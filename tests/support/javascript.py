"""The JavaScript client, in a Node process that answers one request after the other.

with JavaScript() as client:
    client.ask("sketch", spec=Spec().canonical, text="...")
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

CLIENT = Path(__file__).parents[2] / "clients/js"
WORKER = Path(__file__).with_name("javascript_worker.mjs")


def find_node() -> str:
    """Return the path of Node; fail, and say how to get it, where none is installed."""
    program = shutil.which("node") or shutil.which("nodejs")
    if program is None:
        pytest.fail("no Node is installed, which the tests of clients/js need: run make setup")
    return program


def run_node(*arguments: Path | str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script to its end, with these variables in its environment besides the path."""
    return subprocess.run(
        [find_node(), *map(str, arguments)],
        env={"PATH": "/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )


class JavaScript:
    """A process of Node with the client."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [find_node(), WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def ask(self, task: str, **given: Any) -> Any:
        """Return what a task of the worker gives; an error is an object with its name."""
        return self.send({"task": task, **given})

    def send(self, request: Mapping[str, Any]) -> Any:
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())
