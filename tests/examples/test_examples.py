"""The programs of examples/ run, and their own assertions hold."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NEEDS_SPARK = {"spark_dataframe.py"}  # tests/pipeline/backends/spark has a session for it
NAMES = sorted({path.name for path in EXAMPLES.glob("*.py")} - NEEDS_SPARK)


def run_example(name: str, *arguments: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")


@pytest.mark.parametrize("name", NAMES)
def test_example_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_example(name)
    assert not list(tmp_path.iterdir()), "an example leaves no files where it is started"


def test_arriving_posts_are_there_in_a_second_run(tmp_path, capsys):
    run_example("arriving_posts.py", str(tmp_path / "posts"))
    run_example("arriving_posts.py", str(tmp_path / "posts"))
    assert capsys.readouterr().out.splitlines()[-1] == "{'duplicate': 1, 'again': 4}"


def test_every_example_is_in_the_table():
    page = (EXAMPLES / "README.md").read_text("utf-8")
    missing = [name for name in [*NAMES, *NEEDS_SPARK] if f"[{name}]({name})" not in page]
    assert missing == []
