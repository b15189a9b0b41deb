"""Pages in a real browser: keys are pressed, the mouse clicks, scripts run, as for a person.

    with browser(folder) as page: ...    # one page in a browser of its own
    page.tab(), page.stranger()          # a second tab; one of somebody else, with other cookies

The browser is Debian's, or Chrome, and is spoken to through a pair of pipes (DevTools protocol);
nothing is downloaded.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 30
"""Seconds until a browser that does not answer, or a page that is not as it should be, fails."""
KEYS = {
    "ArrowRight": 39,
    "ArrowLeft": 37,
    "Home": 36,
    "End": 35,
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
}
"""Keys that write nothing, with their codes in Windows."""
TEXTS = {"Enter": "\r"}
MOVED = ("context was destroyed", "Cannot find context", "navigated or closed")
"""What a browser answers about a page that has just been left."""


class BrowserRefusalError(AssertionError):
    """The browser could not do what it was asked."""


class Connection:
    """The pipes to a browser, which carry the commands and events of all its pages."""

    def __init__(self, commands: BinaryIO, answers: BinaryIO) -> None:
        self._commands, self._answers = commands, answers
        self._number, self._held = 0, bytearray()
        self.pages: dict[str, Page] = {}

    def tell(self, method: str, session: str = "", **parameters: Any) -> int:
        """Send a command, and return its number."""
        self._number += 1
        command: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        command |= {"sessionId": session} if session else {}
        self._commands.write(json.dumps(command).encode() + b"\0")
        self._commands.flush()
        return self._number

    def ask(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """Send a command, and return the answer."""
        number, ends = self.tell(method, session, **parameters), time.monotonic() + PATIENCE
        while (message := self.read(ends)).get("id") != number:
            pass
        if "error" in message:
            raise BrowserRefusalError(f"{method}: {message['error']['message']}")
        found: dict[str, Any] = message["result"]
        return found

    def read(self, ends: float) -> dict[str, Any]:
        """Wait for the next message; a page hears of its events."""
        while (end := self._held.find(b"\0")) < 0:
            ready, _, _ = select.select([self._answers], [], [], max(0, ends - time.monotonic()))
            assert ready, f"the browser did not answer within {PATIENCE} seconds"
            read = os.read(self._answers.fileno(), 1 << 20)
            assert read, "the browser is gone"
            self._held += read
        message: dict[str, Any] = json.loads(self._held[:end])
        del self._held[: end + 1]
        page = self.pages.get(message.get("sessionId", ""))
        if page is not None and "method" in message:
            page.hear(message["method"], message["params"])
        return message


class Page:
    """A page in a browser: one tab.

    Attributes:
        complaints: What the browser reported of this page: errors of scripts, what its policy has
            forbidden, dialogs, answers with an error.
        loads: How often a page was loaded.
    """

    def __init__(self, connection: Connection, context: str = "") -> None:
        self._connection, self._context = connection, context
        self.complaints: list[str] = []
        self.loads = 0
        place = {"browserContextId": context} if context else {}
        self._target = connection.ask("Target.createTarget", url="about:blank", **place)["targetId"]
        attached = connection.ask("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session = str(attached["sessionId"])
        connection.pages[self._session] = self
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def tab(self) -> Page:
        """Open another tab of the same person."""
        return Page(self._connection, self._context)

    def stranger(self) -> Page:
        """Open a tab of somebody else, who has none of these cookies."""
        made = self._connection.ask("Target.createBrowserContext", disposeOnDetach=True)
        return Page(self._connection, made["browserContextId"])

    def close(self) -> None:
        self._connection.ask("Target.closeTarget", targetId=self._target)
        del self._connection.pages[self._session]

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._connection.ask(method, self._session, **parameters)

    def hear(self, method: str, event: dict[str, Any]) -> None:
        if method == "Log.entryAdded" and event["entry"]["level"] != "verbose":  # no mere advice
            self.complaints.append(event["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(event["exceptionDetails"]))
        elif method == "Page.javascriptDialogOpening":
            self.complaints.append(f"dialog: {event['message']}")
            self._connection.tell("Page.handleJavaScriptDialog", self._session, accept=True)
        elif method == "Page.loadEventFired":
            self.loads += 1

    # -- what a person does -----------------------------------------------------------------------

    def open(
        self, place: Path | str, width: int = 1000, height: int = 1400, dark: bool = False
    ) -> None:
        """Open a file, or an address, in a window of this size."""
        self.complaints.clear()
        self.resize(width, height, dark)
        with self.loading():
            self.ask(
                "Page.navigate",
                url=place.resolve().as_uri() if isinstance(place, Path) else place,
            )

    def resize(self, width: int, height: int = 1400, dark: bool = False) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Emulation.setScrollbarsHidden", hidden=True)

    def press(self, *keys: str) -> None:
        """Press keys: characters, or names such as Enter."""
        for key in keys:
            text = TEXTS.get(key, key if len(key) == 1 else "")
            pressed: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": KEYS.get(key, 0)}
            written = {"text": text} if text else {}
            kind = "keyDown" if text else "rawKeyDown"
            self.ask("Input.dispatchKeyEvent", type=kind, **pressed, **written)
            self.ask("Input.dispatchKeyEvent", type="keyUp", **pressed)

    def hold(self, key: str, times: int = 5) -> None:
        """Go on holding down a key that has been pressed."""
        for _ in range(times):
            self.ask("Input.dispatchKeyEvent", type="keyDown", key=key, text=key, autoRepeat=True)

    def write(self, text: str) -> None:
        """Write a text where the cursor is."""
        self.ask("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """Click on an element with the mouse; it must be seen and lie in front."""
        place = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return;"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const r = e.getClientRects()[0]; if (!r) return;"
            "const x = r.x + r.width / 2, y = r.y + r.height / 2;"
            "return e.contains(document.elementFromPoint(x, y)) ? {x, y} : null; })()"
        )
        assert place, f"there is nothing to click on: {selector}"
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", **place)
        for kind in ("mousePressed", "mouseReleased"):
            pressed = {"type": kind, "button": "left", "clickCount": 1}
            self.ask("Input.dispatchMouseEvent", **pressed, **place)

    # -- what a person sees -----------------------------------------------------------------------

    @contextmanager
    def loading(self, count: int = 1) -> Iterator[None]:
        """Wait until what is done here has loaded a page, or several one after the other."""
        wanted = self.loads + count
        yield
        ends = time.monotonic() + PATIENCE
        while self.loads < wanted:
            self._connection.read(ends)

    def value(self, expression: str) -> Any:
        """Return what an expression of JavaScript gives; of a promise what it resolves to."""
        found = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        return found["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Wait until an expression gives something, also of the page that is being loaded."""
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            try:
                if found := self.value(expression):
                    return found
            except BrowserRefusalError as refusal:
                if not any(text in str(refusal) for text in MOVED):
                    raise
            time.sleep(0.02)
        raise AssertionError(f"not within {PATIENCE} seconds: {expression}; {self.text()[:2_000]}")

    def text(self, selector: str = "body") -> str:
        """Return the text of an element as it is seen."""
        return str(self.value(f"document.querySelector({json.dumps(selector)})?.innerText"))

    @property
    def path(self) -> str:
        """The path and the query of the page's address."""
        return str(self.value("location.pathname + location.search"))

    def picture(self, path: Path, height: int | None = None) -> None:
        """Write the page as a PNG file, or the top of it."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        size["height"] = size["height"] if height is None else height
        shot = self.ask(
            "Page.captureScreenshot", captureBeyondViewport=True, clip=size | {"scale": 1}
        )
        path.write_bytes(base64.b64decode(shot["data"]))


def find_browser() -> str:
    """Return the path of a browser; skip the test, and say so, where none is installed."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        missing = "no Chromium is installed (make setup): tests with a browser are skipped"
        warnings.warn(missing, stacklevel=2)
        pytest.skip(missing)
    return program


@contextmanager
def browser(profile: Path, *options: str) -> Iterator[Page]:
    """A page in a browser of its own; the test is skipped where none is installed."""
    program = find_browser()
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
        "--disable-background-networking",
        "--disable-component-update",
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
    try:
        with os.fdopen(ours_out, "wb") as commands, os.fdopen(ours_in, "rb", 0) as answers:
            yield Page(Connection(commands, answers))
    finally:
        process.terminate()
        process.wait(30)
