"""Ask a neardup service over HTTP, with nothing but Python's standard library.

    neardup serve --data data --port 8080
    python examples/service_client.py http://127.0.0.1:8080 [KEY]

Without an address it starts a service of its own. A request that failed on its way can be sent
again: the same id with the same text is stored once.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

RETRIES = 60


class Client:
    """A service at an address; waits and asks again while it is busy."""

    def __init__(self, url: str, key: str = "") -> None:
        self._url = url.rstrip("/")
        self._headers = {"Content-Type": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"

    def check(self, text: str) -> dict[str, Any]:
        """What the service says about a text, which is not stored."""
        return self._post("/v1/check", {"text": text})

    def add(self, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Store documents in one commit; an answer for each."""
        return list(self._post("/v1/documents", {"documents": documents})["answers"])

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            self._url + path, json.dumps(body).encode(), self._headers, method="POST"
        )
        for attempt in range(RETRIES):
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return dict(json.load(answer))
            except urllib.error.HTTPError as error:
                problem = json.load(error)
                if error.code not in (429, 503) or attempt == RETRIES - 1:
                    raise RuntimeError(f"{problem['error']}: {problem['message']}") from None
                time.sleep(float(error.headers.get("Retry-After", 1)))
        raise AssertionError("the loop returns or raises")


@contextmanager
def service(data: Path) -> Iterator[str]:
    """The address of a service that runs as long as the block."""
    command = [sys.executable, "-m", "neardup", "serve", "--data", str(data), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr or ():
            event = json.loads(line)
            if event["event"] == "listening":
                yield event["url"]
                break
        else:
            raise RuntimeError("the service did not start")
    finally:
        process.terminate()
        process.communicate()


def main(url: str, key: str = "") -> None:
    client = Client(url, key)
    story = "A fox and a crow met under the old tree by the river, and the crow had some cheese."
    documents = [
        {"id": "story-1", "text": story, "metadata": {"source": "book"}},
        {"id": "story-2", "text": "Another story, about a hare that was slower than it thought."},
    ]
    for answer in client.add(documents):
        print(answer["id"], answer["status"])
    found = client.check(story.upper())
    print(f"copy of {found['duplicate_of']}, {found['similarity']:.2f} similar")
    assert found["duplicate_of"] == "story-1"
    try:
        client.add([{"id": "story-3", "texts": "a field that does not exist"}])
    except RuntimeError as error:
        print(error)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(*sys.argv[1:3])
    else:
        with tempfile.TemporaryDirectory() as name, service(Path(name) / "data") as address:
            main(address)
