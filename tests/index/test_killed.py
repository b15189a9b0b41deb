"""kill -9 under write load: the index has the acknowledged documents, and no others."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import batch_engine

KILLING = Path(batch_engine.__file__).with_name("index_killing.py")


def killing(folder: Path, **given: object) -> dict[str, int]:
    """Let processes be killed, one after the other; how many during which kind of work."""
    asked = json.dumps({"folder": str(folder), **given})
    ran = subprocess.run(
        [sys.executable, str(KILLING), asked],
        capture_output=True,
        text=True,
        timeout=1800,
        env=batch_engine.environment(),
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


WORK = ("add", "remove", "snapshot", "compact", "checkpoint")


def test_killed_thirty_times(tmp_path: Path) -> None:
    during = killing(tmp_path, seed=1, kills=33, longest=0.15)
    assert set(during) >= set(WORK), during


def test_killed_with_tables_on_disk(tmp_path: Path) -> None:
    killing(tmp_path, seed=3, kills=12, longest=0.15, memory=200_000)
    assert list((tmp_path / "index").glob("g*/cold*"))


@pytest.mark.slow
@pytest.mark.parametrize("memory", [None, 400_000])
def test_killed_a_hundred_and_fifty_times(tmp_path: Path, memory: int | None) -> None:
    during = killing(tmp_path, seed=2, kills=150, longest=0.6, memory=memory)
    assert min(during[what] for what in WORK) >= 15, during
