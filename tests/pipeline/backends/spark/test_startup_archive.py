"""The archive of Java's classes: where it is, and what Java is told."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from neardup.pipeline.backends.spark import startup
from neardup.pipeline.backends.spark.startup import SILENT, ClassArchive


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
def test_java_starts_without_a_class_archive_that_can_not_be_made(
    cache: Path, tmp_path: Path, monkeypatch, why: str
) -> None:
    if why == "no room":
        monkeypatch.setattr(startup, "NEEDED_BYTES", 1 << 62)
    elif why == "a space in its name":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a b"))
    else:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    assert ClassArchive().options == SILENT
