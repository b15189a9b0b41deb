"""Settings that make small local runs start faster, and the archive of Java's classes."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from neardup import kernels
from neardup.pipeline.backends.spark import startup
from neardup.pipeline.backends.spark.startup import (
    DAEMON_KERNELS,
    SILENT,
    SMALL_INPUT_BYTES,
    ClassArchive,
    configure_fast_start,
    is_small_local_input,
    is_this_python,
)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*,3]"])
def test_small_local_input_is_recognized(master: str) -> None:
    assert is_small_local_input(master, SMALL_INPUT_BYTES)
    assert not is_small_local_input(master, SMALL_INPUT_BYTES + 1)
    assert not is_small_local_input(master, None)


@pytest.mark.parametrize("master", [None, "yarn", "spark://local:7077", "locally"])
def test_a_cluster_is_never_small_local_input(master: str | None) -> None:
    assert not is_small_local_input(master, 1)


@pytest.mark.parametrize(
    ("master", "tasks"), [("local", "1"), ("local[3,2]", "3"), ("local[*]", str(os.cpu_count()))]
)
def test_settings_of_the_user_override_the_fast_ones(
    monkeypatch: pytest.MonkeyPatch, master: str, tasks: str
) -> None:
    theirs = "--conf spark.ui.enabled=true pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", theirs)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    configure_fast_start(master, "-Xsome -Xother")
    words = shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])
    assert words[-3:] == shlex.split(theirs)
    given = dict(word.split("=", 1) for word in words if "=" in word)
    assert given["spark.ui.enabled"] == "true"
    assert given["spark.sql.shuffle.partitions"] == tasks
    assert given["spark.driver.defaultJavaOptions"].endswith(" -Xsome -Xother")
    assert given["spark.python.daemon.module"].startswith("neardup.")


@pytest.mark.parametrize("how", ["variable", "setting"])
def test_another_python_does_not_use_the_daemon(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    other = str(tmp_path / "python")
    monkeypatch.setenv("PYSPARK_PYTHON", other if how == "variable" else sys.executable)
    setting = f"--conf spark.pyspark.python={other} " if how == "setting" else ""
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"{setting}pyspark-shell")
    configure_fast_start("local[2]", "")
    assert "daemon" not in os.environ["PYSPARK_SUBMIT_ARGS"]


def test_a_symlink_to_this_python_is_recognized(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real, other = tmp_path / "python3.11", tmp_path / "python"
    real.touch()
    other.symlink_to(real)
    monkeypatch.setattr(sys, "executable", str(other))
    assert is_this_python(str(real))
    elsewhere = tmp_path / "env"
    elsewhere.mkdir()
    (elsewhere / "python").symlink_to(real)
    assert not is_this_python(str(elsewhere / "python"))


def test_kernels_that_the_daemon_loads_exist() -> None:
    existing = {name for names in kernels.KERNELS.values() for name in names}
    assert set(DAEMON_KERNELS) <= existing


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_class_archive_is_made_once_and_then_read(cache: Path) -> None:
    archive = ClassArchive()
    assert archive.path is not None
    assert archive.path.parent == cache / "neardup"
    assert "-XX:ArchiveClassesAtExit=" in archive.options
    archive.path.touch()
    assert archive.options == f"{SILENT} -XX:SharedArchiveFile={archive.path}"


def test_another_java_gets_another_class_archive(cache: Path, tmp_path: Path, monkeypatch) -> None:
    usual = ClassArchive().path
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    other = ClassArchive().path
    assert other is not None
    assert other != usual


@pytest.mark.parametrize("why", ["no room", "a space in its name", "no Java"])
def test_java_starts_without_a_class_archive_if_none_can_be_made(
    cache: Path, tmp_path: Path, monkeypatch, why: str
) -> None:
    if why == "no room":
        monkeypatch.setattr(startup, "NEEDED_BYTES", 1 << 62)
    elif why == "a space in its name":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a b"))
    else:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    assert ClassArchive().options == SILENT
