"""The JavaScript client in a browser: a static page loads the module as it is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.browser import Page
from support.javascript import CLIENT

from neardup.reference import sketches as reference
from neardup.reference.text import units
from neardup.spec import Spec

TEXT = "Der Fuchs sagt\u0308e:  „ÀB\u0327e\u0301“ – 狐と鴉, कि ﬁ 2024\u00ad."
PAGE = """<!doctype html><meta charset="utf-8"><title>A signature</title>
<script type="module">
  import { Sketcher, Spec } from "./js/index.js";
  const made = new Sketcher(Spec.of("word:2", { slots: 16 })).sketch(window.name);
  window.signature = { slots: [...made.slots], keys: made.bandKeys([4, 4]) };
</script>"""


class SilentHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """Serve a folder with the page and the client, as any web server would."""
    (tmp_path / "page.html").write_text(PAGE)
    (tmp_path / "favicon.ico").write_bytes(b"")
    (tmp_path / "js").symlink_to(CLIENT)
    handler = partial(SilentHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_page_makes_the_signature_of_the_reference(site: str, page: Page) -> None:
    page.open(f"{site}/favicon.ico")
    page.value(f"window.name = {TEXT!r}")
    page.open(f"{site}/page.html")
    found = page.wait_for("window.signature")
    spec = Spec.of("word:2", slots=16)
    shingles = reference.shingles(reference.unit_hashes(units(TEXT, spec), spec), spec.size)
    slots = reference.signature(shingles, spec)
    keys = [f"{key:016x}" for key in reference.band_keys(slots, 4, 4)]
    assert found == {"slots": slots, "keys": keys}
    assert page.complaints == []
