"""The pages about the service are true: commands print what is shown, limits are all there are."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.running import running
from support.serving import key, text

from neardup import runtime
from neardup.service.limits import ServiceLimits

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "service.md").read_text("utf-8")
RUNBOOK = (DOCS / "runbook.md").read_text("utf-8")
BLOCK = re.compile(r"^```(sh|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "--- the next block ---"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("bash")), reason="needs curl, bash")
def test_commands_of_the_page_print_what_it_shows(tmp_path: Path) -> None:
    found = BLOCK.findall(PAGE.replace("8080", str(free_port())))
    assert [kind for kind, _ in found] == ["sh", "json"] * (len(found) // 2)
    (tmp_path / "neardup").write_text(f'#!/bin/sh\nexec {sys.executable} -m neardup "$@"\n')
    (tmp_path / "neardup").chmod(0o700)
    blocks = [block for kind, block in found if kind == "sh"]
    script = "set -m\n" + f"\necho\necho '{MARK}'\n".join(blocks)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    printed = ran.stdout.split(MARK)
    shown = [block for kind, block in found if kind == "json"]
    assert len(printed) == len(shown), ran
    for wanted, was in zip(shown, printed, strict=True):
        pattern = re.escape(wanted.strip()).replace(re.escape("..."), ".*")
        assert re.fullmatch(pattern, was.strip()), (wanted, was)


def test_stream_client_of_the_docs_reads_while_it_sends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = CODE.findall(PAGE)
    names: dict[str, Any] = {}
    with running(tmp_path / "data") as service:
        service.event("ready")
        exec(example.replace("8080", str(service.address[1])), names)
        assert capsys.readouterr().out == "1 new\n2 new\n3 new\n"
        secret = key(service.data, "write")["Authorization"].removeprefix("Bearer ")
        with pytest.raises(RuntimeError, match="unauthorized"):
            next(names["stream"]([], port=service.address[1]))
        answered = threading.Semaphore()

        def documents() -> Iterator[dict[str, Any]]:
            for n in range(5):
                assert answered.acquire(timeout=60), "the one before has its answer"
                yield {"id": 100 + n, "text": text(n)}

        found = []
        for answer in names["stream"](documents(), port=service.address[1], key=secret):
            found.append((answer["line"], answer["id"], answer["status"]))
            answered.release()
        assert found == [(n + 1, str(100 + n), "new") for n in range(5)]


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="needs curl, jq")
def test_runbook_promotes_another_operating_point(tmp_path: Path) -> None:
    asking, trying = (
        re.search(rf"^(    {first}.*?)\n\n", RUNBOOK, re.MULTILINE | re.DOTALL)
        for first in ("umask 077", "ask .*/v1/shadow/start")
    )
    assert asking and trying
    (tmp_path / "neardup").write_text(f'#!/bin/sh\nexec {sys.executable} -m neardup "$@"\n')
    (tmp_path / "neardup").chmod(0o700)
    with running(tmp_path / "DIR") as service:
        service.event("ready")
        with httpx.Client(base_url=service.url) as client:
            documents = [{"text": text(n)} for n in range(50)]
            client.post("/v1/documents", json={"documents": documents}).raise_for_status()
        lines = asking[1].replace("http://127.0.0.1:8080", service.url) + "\n" + trying[1]
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        ran = subprocess.run(
            ["bash", "-ec", lines],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert '"state": "in step"' in ran.stdout, ran
        assert ran.stdout.endswith('{"moved":0}'), ran


def test_unit_of_the_page_has_a_writable_kernel_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = dict(re.findall(r"^(\w+)=(.*)$", PAGE, re.MULTILINE))
    name, _, folder = unit["Environment"].partition("=")
    monkeypatch.setenv(name, folder)
    assert runtime.cache_home() == Path("/var/cache") / unit["CacheDirectory"]


def test_every_limit_is_in_the_table_with_its_default() -> None:
    rows = re.findall(r"^\| (`[^|]*) \| ([0-9, ]+) \|", PAGE, re.MULTILINE)
    told = {}
    for names, values in rows:
        told |= dict(zip(re.findall("`([a-z_]+)`", names), values.split(", "), strict=True))
    settings = ServiceLimits()
    assert told == {field.name: str(getattr(settings, field.name)) for field in fields(settings)}
