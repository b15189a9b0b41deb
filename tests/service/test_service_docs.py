"""docs/service.md is true: its commands print what it shows, its limits are all there are."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from neardup.service.settings import Settings

PAGE = (Path(__file__).parents[2] / "docs/service.md").read_text("utf-8")
BLOCK = re.compile(r"^```(sh|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "--- the next block ---"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("bash")), reason="needs curl, bash")
def test_the_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    found = BLOCK.findall(PAGE.replace("8080", str(free_port())))
    assert [kind for kind, _ in found] == ["sh", "json"] * (len(found) // 2)
    (tmp_path / "neardup").write_text(f'#!/bin/sh\nexec {sys.executable} -m neardup "$@"\n')
    (tmp_path / "neardup").chmod(0o700)
    blocks = [block for kind, block in found if kind == "sh"]
    script = "set -m\n" + f"\necho\necho '{MARK}'\n".join(blocks)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env={**os.environ, "PATH": path},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    printed = ran.stdout.split(MARK)
    shown = [block for kind, block in found if kind == "json"]
    assert len(printed) == len(shown), ran
    for wanted, was in zip(shown, printed, strict=True):
        pattern = re.escape(wanted.strip()).replace(re.escape("..."), ".*")
        assert re.fullmatch(pattern, was.strip()), (wanted, was)


def test_every_limit_is_in_the_table_with_its_default() -> None:
    rows = re.findall(r"^\| (`[^|]*) \| ([0-9, ]+) \|", PAGE, re.MULTILINE)
    told = {}
    for names, values in rows:
        told |= dict(zip(re.findall("`([a-z_]+)`", names), values.split(", "), strict=True))
    settings = Settings()
    assert told == {field.name: str(getattr(settings, field.name)) for field in fields(settings)}
