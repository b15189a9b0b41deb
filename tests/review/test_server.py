"""`neardup review` as people start it: the address, the browser, Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from urllib.request import urlopen

import pytest
from support.command_line import neardup, refused

from neardup.review.browser import has_screen
from neardup.review.server import check_name


def test_command_serves_until_it_is_interrupted(make_run, tmp_path):
    run, opened = make_run(), tmp_path / "opened"
    browser = tmp_path / "my-browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    command = [sys.executable, "-m", "neardup", "review", str(run), "--who", "ann"]
    environment = os.environ | {"BROWSER": str(browser)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        url = process.stderr.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/open\?token=[\w-]{43}", url)
        assert "works once" in process.stderr.readline()
        with urlopen(url, timeout=30) as answer:
            assert answer.status == 200 and "HttpOnly" in answer.headers["set-cookie"]
        ends = time.monotonic() + 30
        while not opened.exists() or not opened.read_text():
            assert time.monotonic() < ends
            time.sleep(0.02)
        assert opened.read_text().strip() == url
        process.send_signal(signal.SIGINT)
        assert process.wait(30) in (0, 130)
        assert "Traceback" not in process.stderr.read()


def test_port_that_is_taken_is_refused(make_run, serve):
    server = serve()
    port = server.url.rpartition(":")[2]
    ran = neardup("review", server.run, "--port", port, "--no-open")
    refused(ran, 2, "choose another --port")


@pytest.mark.parametrize("who", ["", " ", "a\nb", "x" * 300])
def test_name_that_is_none_is_refused(make_run, who):
    refused(neardup("review", make_run(), "--who", who, "--no-open"), 2, "--who")


def test_name_is_that_of_the_login(monkeypatch):
    monkeypatch.setenv("LOGNAME", "carla")
    assert check_name(None) == "carla" and check_name(" ann ") == "ann"


def test_screen_is_that_of_the_machine(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    assert has_screen() == (sys.platform == "darwin")
    monkeypatch.setenv("DISPLAY", ":0")
    assert has_screen()
