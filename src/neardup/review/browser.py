"""Open a page in the browser of the person, if there is one."""

from __future__ import annotations

import os
import sys
import webbrowser
from threading import Thread


def open_if_possible(url: str) -> None:
    """Open a page if this machine has a screen; a browser that starts slowly keeps nobody waiting.

    Args:
        url: The address of the page.
    """
    if has_screen():
        Thread(target=webbrowser.open, args=(url,), daemon=True).start()


def has_screen() -> bool:
    """Return whether this machine has a screen to open a page on."""
    if sys.platform == "darwin":
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
