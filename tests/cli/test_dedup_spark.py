"""neardup dedup --engine spark, as people type it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support import batch_engine
from support.command_line import Ran, neardup
from support.sizes import full

ON_SPARK = ("--engine", "spark", "--master", "local[1]")
SMALL = ("--shingle", "word:2", "--threshold", "0.5")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--master", "local"], "--master belongs to --engine spark"),
        (["--engine", "ray"], "engine 'ray' is not known"),
        (["--engine", "spark", "--workers", "2"], "--workers belongs to --engine local"),
        (["--engine", "spark", "--against", "s3a://bucket/x"], "write all of them as URLs"),
        (["--against", "s3a://bucket/x"], "use --engine spark"),
    ],
)
def test_conflicting_options_are_refused(tmp_path: Path, given: list[str], message: str) -> None:
    paths = batch_engine.write(tmp_path / "in", batch_engine.rows(1, 4))
    ran = neardup("dedup", *paths, "-o", tmp_path / "out", *given)
    assert ran.code == 2
    assert message in ran.err.replace("\n", " ")
    assert not (tmp_path / "out").exists()
    assert "starting" not in ran.err


def test_an_occupied_output_is_refused_before_spark_starts(tmp_path: Path) -> None:
    paths = batch_engine.write(tmp_path / "in", batch_engine.rows(1, 4))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    ran = neardup("dedup", *paths, "-o", tmp_path / "out", *ON_SPARK)
    assert ran.code == 2
    assert "is not empty" in ran.err
    assert "starting" not in ran.err


def started(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "neardup", "dedup", *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def finished(*arguments: object) -> Ran:
    """Run the command in a process of its own, whose Spark has the usual settings."""
    process = started(*arguments, *ON_SPARK)
    output, message = process.communicate(timeout=300)
    return Ran(process.returncode, output, message)


def in_session(*arguments: object) -> Ran:
    """Run the command in this process, which has a session."""
    return neardup("dedup", *arguments, "--engine", "spark")


@pytest.mark.parametrize("run", [in_session, full(finished)])
def test_command_line_deduplicates_files_and_urls(spark: Any, tmp_path: Path, run: Any) -> None:
    paths = batch_engine.write(tmp_path / "in", batch_engine.rows(2, 60))
    with tarfile.open(tmp_path / "texts.tgz", "w:gz") as archive:
        for name in ("a.txt", ".hidden"):
            (tmp_path / name).write_text("a text inside an archive")
            archive.add(tmp_path / name, name)
    paths.append(tmp_path / "texts.tgz")
    local, out = tmp_path / "local", tmp_path / "out"
    assert neardup("dedup", *paths, "-o", local, *SMALL, "-q").code == 0
    ran = run(*paths, "-o", out, *SMALL)
    assert ran.code == 0, ran.err
    assert ran.out.startswith("61 documents")
    assert "hidden file: 1" in ran.out
    assert "WARN" not in ran.err
    assert "neardup: deciding" in ran.err
    assert (out / "removed.parquet").read_bytes() == (local / "removed.parquet").read_bytes()
    assert "<html" in (out / "report.html").read_text("utf-8")
    urls = tmp_path / "urls"
    ran = run((tmp_path / "in").as_uri(), "-o", urls.as_uri(), "--id", "id", *SMALL, "--json")
    assert ran.code == 0, ran.err
    counts = json.loads((local / "run.json").read_bytes())["counts"]
    assert json.loads(ran.out)["counts"]["documents"] == counts["documents"] - 1
    assert pq.read_table(urls / "removed.parquet").num_rows > 0


@pytest.mark.slow
def test_an_interrupted_run_reports_it_and_leaves_out_unchanged(tmp_path: Path) -> None:
    paths = batch_engine.write(tmp_path / "in", batch_engine.rows(3, 60))
    process = started(*paths, "-o", tmp_path / "out", *SMALL, *ON_SPARK)
    status = tmp_path / "out" / ".unfinished" / "status.json"
    while not (status.exists() and "banding" in status.read_text("utf-8")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, message = process.communicate(timeout=120)
    assert process.returncode == 130, message
    assert "Traceback" not in message, message
    assert not (tmp_path / "out" / "run.json").exists()
