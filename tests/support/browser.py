"""Look at a page in a real browser: keys are pressed, scripts run or don't, as for a person."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LONGEST = 120
KEYS = {"ArrowRight": 39, "ArrowLeft": 37, "Home": 36, "End": 35, "Tab": 9, " ": 32}


class Page:
    """One page in a browser that is spoken to through a pair of pipes (DevTools protocol)."""

    def __init__(self, commands: BinaryIO, answers: BinaryIO) -> None:
        self._commands, self._answers = commands, answers
        self._number = 0
        self._session: dict[str, str] = {}
        self.complaints: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters} | self._session
        self._commands.write(json.dumps(command).encode() + b"\0")
        self._commands.flush()
        while (message := self._next()).get("id") != self._number:
            pass
        assert "error" not in message, message
        found: dict[str, Any] = message["result"]
        return found

    def _next(self) -> dict[str, Any]:
        content = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "the browser is gone"
            content += byte
        message: dict[str, Any] = json.loads(content)
        if message.get("method") == "Log.entryAdded":
            self.complaints.append(message["params"]["entry"]["text"])
        if message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(message["params"]["exceptionDetails"]))
        return message

    def open(self, path: Path, width: int = 1000, height: int = 1400, dark: bool = False) -> None:
        self.complaints.clear()
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Page.navigate", url=path.resolve().as_uri())
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def value(self, expression: str) -> Any:
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    def press(self, key: str) -> None:
        pressed = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        self.ask("Input.dispatchKeyEvent", type="rawKeyDown", **pressed)
        if key == " ":
            self.ask("Input.dispatchKeyEvent", type="char", text=" ")
        self.ask("Input.dispatchKeyEvent", type="keyUp", **pressed)

    def picture(self, path: Path) -> None:
        """The whole page as a PNG file."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        shot = self.ask(
            "Page.captureScreenshot", captureBeyondViewport=True, clip=size | {"scale": 1}
        )
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def browser(profile: Path, *options: str) -> Iterator[Page]:
    """A page in a browser of its own; the test is skipped where none is installed."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
    # The browser reads commands from descriptor 3 and answers on 4.
    command = [
        "bash",
        "-c",
        f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}',
        program,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--remote-debugging-pipe",
        f"--user-data-dir={profile}",
        *options,
    ]
    process = subprocess.Popen(
        command,
        pass_fds=(theirs_in, theirs_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    too_long = threading.Timer(LONGEST, process.kill)  # then its answers end, and the test fails
    too_long.start()
    try:
        with os.fdopen(ours_out, "wb") as commands, os.fdopen(ours_in, "rb") as answers:
            yield Page(commands, answers)
    finally:
        too_long.cancel()
        process.terminate()
        process.wait(30)
