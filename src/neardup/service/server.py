"""Listening: one process, one event loop."""

from __future__ import annotations

import signal
import socket

import uvicorn
from fastapi import FastAPI

from neardup.errors import ParameterError
from neardup.service.connections import Patient
from neardup.service.logs import forward
from neardup.service.state import Service


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound, or an error that names the cure."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ParameterError(
            f"can't listen on {host} port {port} ({why}): choose others with --host and --port"
        ) from None


def run(app: FastAPI, bound: socket.socket, proxy: str | None) -> None:
    """Serve until told to stop; then finish what is under way. An index that can't be loaded
    ends it too, with the error."""
    service: Service = app.state.service
    settings = service.settings
    forward(service.log, "uvicorn", "uvicorn.error", "asyncio")
    config = uvicorn.Config(
        app,
        http=type("Protocol", (Patient,), {"settings": settings}),
        loop="uvloop",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        proxy_headers=proxy is not None,
        forwarded_allow_ips=proxy or "",
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=settings.shutdown_seconds,
    )
    server = uvicorn.Server(config)

    def end() -> None:
        server.should_exit = True

    service.when_failed, service.stopping = end, lambda: server.should_exit
    # Before the server listens to signals, and when it has stopped: then it sends itself the one
    # that it was stopped by.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end())
    name, port = bound.getsockname()[:2]
    where = f"[{name}]" if ":" in name else name
    service.log.event("listening", url=f"http://{where}:{port}")
    server.run(sockets=[bound])
    if service.failure is not None:
        raise service.failure
