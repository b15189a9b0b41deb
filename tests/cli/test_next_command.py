"""The command that plan, tune and evaluate print last runs as it is printed."""

from __future__ import annotations

import json
import random
import shlex
from pathlib import Path

import pytest
from support.command_line import Ran, neardup

from neardup.planner import trial_cache


@pytest.fixture(autouse=True)
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a space in its name, two tables with columns of their own, and a note."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trial_cache, "default_folder", lambda: tmp_path / "trials")
    chance = random.Random(1)
    folder = Path("my pages")
    folder.mkdir()
    labels = []
    for part in (1, 2):
        lines = ["key;body"]
        for number in range(40):
            words = [f"w{chance.randrange(10**6)}" for _ in range(30)]
            lines.append(f"p{part}-{number};{' '.join(words)}")
            lines.append(f"q{part}-{number};{' '.join([*words, 'end'])}")
            labels.append(f"p{part}-{number},q{part}-{number},1")
            labels.append(f"p{part}-{number},q{part}-{(number + 1) % 40},0")
        (folder / f"part-{part}.csv").write_text("\n".join(lines) + "\n", "utf-8")
    (folder / "notes.csv").write_text("remember;the milk\n")
    Path("labels.csv").write_text("left,right,same\n" + "\n".join(labels) + "\n")


READ = ("--text", "body", "--delimiter", ";", "--exclude", "notes.*", "--format", "csv")
SMALL = ("--sample", 100, "--slots", 16, "--sketches", "minhash", "--workers", 1)


def run_next(ran: Ran) -> dict[str, object]:
    """Run the last line that a command printed; return its run.json."""
    assert ran.code == 0, ran.err
    label, command = ran.out.splitlines()[-1].split(": ", 1)
    assert label == "next"
    program, *words = shlex.split(command)
    assert program == "neardup"
    following = neardup(*words, "-q")
    assert following.code == 0, following.err
    return json.loads(Path("OUT", "run.json").read_text())


def test_plan():
    asked = ("--no-calibrate", "--memory", "1GB", "-o", "a plan.toml")
    ran = neardup("plan", "--sample", "my pages", *READ, *asked)
    assert "--config 'a plan.toml' --memory 1GB" in ran.out.splitlines()[-1]
    assert run_next(ran)


def test_plan_for_an_index():
    ran = neardup("plan", "--sample", "my pages", *READ, "--no-calibrate", "--for", "index")
    words = shlex.split(ran.out.splitlines()[-1])
    assert words[1:6] == ["neardup", "index", "build", "INDEX", "my pages"]
    assert neardup(*words[2:], "-q").code == 0


def test_tune():
    files = ("my pages/part-1.csv", "my pages/part-2.csv")
    ran = neardup("tune", *files, *READ[:4], *SMALL, "--recall", "0.9", "-o", "the sweep")
    assert "--config 'the sweep/tuned.toml'" in ran.out
    assert run_next(ran)


def test_tune_by_labels():
    golden = ("--golden", "labels.csv", "--id", "key", "--shingles", "char:5")
    ran = neardup("tune", "my pages", *READ, *SMALL, *golden, "--threshold", "0.99")
    assert "--id key" in ran.out.splitlines()[-1]
    assert run_next(ran)


def test_evaluate():
    read = ("--corpus", "my pages", "--id", "key", *READ, "--threshold", "0.99")
    assert run_next(neardup("evaluate", "labels.csv", *read))
