"""What systemd is told: that the service is ready, and that it stops (sd_notify)."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Final

ADDRESS: Final = "NOTIFY_SOCKET"
"""The variable with the socket of a supervisor; others set none."""
READY, STOPPING = "READY=1", "STOPPING=1"


def notify(state: str) -> None:
    """Tell the supervisor a state, if there is one that listens."""
    address = os.environ.get(ADDRESS, "")
    if not address:
        return
    if address.startswith("@"):  # a name that is in no folder
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.setblocking(False)
        out.sendto(state.encode(), address)
