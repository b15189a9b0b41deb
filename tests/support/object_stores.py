"""Real servers on loopback: S3 by moto, files by HTTP, and a proxy that makes faults."""

from __future__ import annotations

import base64
import http.client
import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

BUCKET = "pages-bucket"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "very-secret",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_REGION": "us-east-1",
}


@contextmanager
def s3_server() -> Iterator[tuple[Any, str]]:
    """Start moto's S3 with an empty bucket; yield a client and the address of the server."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        address = "http://{}:{}".format(*server.get_host_and_port())
        client = boto3.client(
            "s3",
            endpoint_url=address,
            region_name="us-east-1",
            aws_access_key_id="AKIDEXAMPLE",
            aws_secret_access_key="very-secret",
        )
        client.create_bucket(Bucket=BUCKET)
        yield client, address
    finally:
        server.stop()


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def file_server(
    folder: Path, ranges: bool = True, login: str = "", signatures: set[str] | None = None
) -> Iterator[str]:
    """Serve the files of a folder, by ranges unless `ranges` is false; also by ?file=NAME.

    With `login`, user:password, only to those that send it; with `signatures`, only by URLs that
    end with one of them.
    """
    expected = f"Basic {base64.b64encode(login.encode()).decode()}" if login else None

    class Files(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, body: bool) -> None:
            if self.headers.get("Authorization") != expected:
                self.send_error(401)
                return
            name, _, query = self.path.lstrip("/").partition("?")
            if signatures is not None and query.rpartition("=")[2] not in signatures:
                self.send_error(403)
                return
            path = folder / (query.removeprefix("file=") if "file=" in query else name)
            if not path.is_file():
                self.send_error(404)
                return
            data, status = path.read_bytes(), path.stat()
            asked = self.headers.get("Range") if ranges else None
            start, end = 0, len(data)
            if asked:
                first, _, last = asked.removeprefix("bytes=").partition("-")
                start, end = int(first), min(int(last) + 1, len(data))
                if start >= len(data):
                    self.send_error(416)
                    return
            self.send_response(206 if asked else 200)
            if asked:
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
            self.send_header("Content-Length", str(end - start))
            self.send_header("ETag", f'"{status.st_mtime_ns}"')
            self.end_headers()
            if body:
                self.wfile.write(data[start:end])

    with serving(Files) as address:
        yield address


@contextmanager
def faulty_proxy(target: str, faults: list[str]) -> Iterator[str]:
    """Forward requests to an HTTP server; each GET of an object meets the next of `faults`, if any.

    reset: the connection is cut at once; cut: in the middle of the body; 503: an error; slow: the
    body comes in small pieces; whole: the server is not told of the range.
    """
    host = target.partition("://")[2]
    lock = threading.Lock()

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def _forward(self) -> None:
            is_read = self.command == "GET" and "list-type" not in self.path
            with lock:
                fault = faults.pop(0) if is_read and faults else ""
            if fault == "503":
                self.send_response(503)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if fault == "reset":
                self._reset()
                return
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            server = http.client.HTTPConnection(host, timeout=30)
            headers = dict(self.headers)
            if fault == "whole":
                headers.pop("Range", None)
            server.request(self.command, self.path, body, headers)
            answer = server.getresponse()
            data = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                    self.send_header(name, value)
            size = answer.getheader("Content-Length") if self.command == "HEAD" else len(data)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            if fault == "cut":
                self.wfile.write(data[: len(data) // 2])
                self.wfile.flush()
                self._reset()
                return
            step = max(1, len(data) // 5) if fault == "slow" else max(1, len(data))
            for start in range(0, len(data), step):
                self.wfile.write(data[start : start + step])
                if fault == "slow":
                    time.sleep(0.05)
            server.close()

        def _reset(self) -> None:
            self.close_connection = True
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.close()

        def handle(self) -> None:
            with suppress(OSError, ValueError):  # the connection was cut on purpose
                super().handle()

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _forward  # noqa: N815

    with serving(Proxy) as address:
        yield address


def use_store(address: str, monkeypatch: Any) -> None:
    """Let this process find the S3 server."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
