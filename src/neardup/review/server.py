"""The server of `neardup review`: on 127.0.0.1, for one person, until Ctrl-C."""

from __future__ import annotations

import getpass
import socket
import sys
from typing import Final

import pyarrow as pa
import uvicorn

from neardup.decisions import LONGEST_WHO
from neardup.errors import ParameterError
from neardup.review.application import create_review
from neardup.review.browser import open_if_possible
from neardup.review.desk import ReviewDesk
from neardup.review.label_desk import LabelDesk
from neardup.review.subject import ReviewSubject

ADDRESS: Final = "127.0.0.1"
SHUTDOWN_SECONDS: Final = 3
MOST_CONNECTIONS: Final = 100


def serve_review(
    subject: ReviewSubject,
    who: str | None,
    port: int,
    opens_browser: bool,
    labels: LabelDesk | None = None,
    start: str = "",
) -> None:
    """Serve the review page of a run or an index until Ctrl-C.

    Args:
        subject: What is reviewed.
        who: The name that decisions are stored under; None for the login name.
        port: The port; 0 for any free one.
        opens_browser: Whether the page is opened in a browser, if there is one.
        labels: The pairs that people label; None if none were drawn.
        start: The path of the first page.
    """
    # Batches are small: the memory that Arrow's own pool keeps for later ones is 30 MB here.
    pa.set_memory_pool(pa.system_memory_pool())
    name = check_name(who)
    with _listen(port) as bound:
        number = bound.getsockname()[1]

        def address(token: str) -> str:
            return f"http://{ADDRESS}:{number}/open?token={token}"

        def renew(token: str) -> None:
            print(f"that address was used; a new one:\n{address(token)}", file=sys.stderr)

        desk = ReviewDesk(subject, name, number, renew, labels=labels)
        desk.start = start
        url = address(desk.token.value)
        print(f"{url}\nThis address works once. Ctrl-C ends the review.", file=sys.stderr)
        config = uvicorn.Config(
            create_review(desk),
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            lifespan="on",
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        if opens_browser:
            open_if_possible(url)
        uvicorn.Server(config).run(sockets=[bound])


def check_name(who: str | None) -> str:
    """Return the name that decisions are stored under, or refuse it.

    Args:
        who: What was given; None for the login name.
    """
    try:
        name = (getpass.getuser() if who is None else who).strip()
    except (KeyError, OSError):  # no login name, as in some containers
        name = ""
    if not name or len(name) > LONGEST_WHO or not name.isprintable():
        raise ParameterError(
            f"the name is empty, has a control character or more than {LONGEST_WHO} characters: "
            "give one with --who"
        )
    return name


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((ADDRESS, port))
    except OSError as error:
        raise ParameterError(
            f"can't listen on {ADDRESS} port {port} ({error.strerror}): choose another --port"
        ) from None
