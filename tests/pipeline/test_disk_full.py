"""A full disk in any stage gives a one-line error; the run resumes when there is space."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from support import batch_engine
from support.command_line import neardup, refused

from neardup.pipeline import job
from neardup.pipeline.job import Job

PLACES = ["shards", "buckets", "sets", "pairs", "kept"]
PAGE = 4096


def resize(disk: Path, size: int, how: str = "remount,") -> bool:
    mount = ["mount", "-t", "tmpfs", "-o", f"{how}size={size}", "tmpfs", str(disk)]
    return subprocess.run(mount, capture_output=True).returncode == 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0 or not resize(place, 1 << 20, how=""):
        pytest.skip("only root can mount a tiny disk")
    yield place
    # The errors of failed runs may hold files open until they are collected.
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
def inputs(tmp_path: Path) -> list[Path]:
    documents = batch_engine.rows(31, 400)
    for row in documents[::2]:
        row["more"] = os.urandom(200).hex()  # kept files are as large as the sketches
    return batch_engine.write(tmp_path / "in", documents, files=3)


def fill(
    disk: Path, inputs: list[Path], monkeypatch: pytest.MonkeyPatch, sizes: range
) -> dict[str, int]:
    """Runs on disks of these sizes, which go on with more room; where they stopped, how often."""
    monkeypatch.setattr(job, "Job", partial(Job, shard=8_000, chunk=2_000))
    monkeypatch.setattr("neardup.pipeline.stages.sketch.check_disk", lambda *_: None)
    command = ["dedup", *inputs, "--shingle", "word:2", "--bands", 20, "--rows", 2, "-q"]
    resize(disk, 1 << 26)
    assert neardup(*command, "-o", disk / "plain").code == 0
    plain = batch_engine.outcome(disk / "plain")
    subprocess.run(["rm", "-r", str(disk / "plain")], check=True)
    stopped: dict[str, int] = dict.fromkeys(PLACES, 0)
    for size in sizes:
        out = disk / f"out{size}"
        assert resize(disk, size)
        ran = neardup(*command, "-o", out)
        if ran.code == 0:
            assert batch_engine.outcome(out) == plain
            break
        refused(ran, 1, "No space left on device", str(out))
        assert not (out / "run.json").exists()
        place = re.sub(r".*\.unfinished/([^/ :]+).*", r"\1", ran.err.strip())
        stopped[place] = stopped.get(place, 0) + 1
        assert resize(disk, 1 << 26)
        going_on = neardup(*command, "-o", out)
        assert going_on.code == 0, going_on.err
        assert batch_engine.outcome(out) == plain
        subprocess.run(["rm", "-r", str(out)], check=True)
    else:
        pytest.fail("no disk was large enough")
    return stopped


def test_a_full_disk_in_any_stage_is_reported_and_resumed(
    disk: Path, inputs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = fill(disk, inputs, monkeypatch, range(5 * PAGE, 1 << 22, 7 * PAGE))
    assert all(stopped[place] for place in PLACES), stopped


@pytest.mark.slow
def test_a_full_disk_at_every_page_is_reported_and_resumed(
    disk: Path, inputs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = fill(disk, inputs, monkeypatch, range(2 * PAGE, 1 << 22, PAGE))
    assert all(stopped[place] for place in PLACES), stopped
