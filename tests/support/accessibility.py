"""What axe-core finds on a page that people who can't see or use a mouse would stumble over."""

from __future__ import annotations

import json
import sys
import warnings
from functools import cache
from pathlib import Path

import pytest

from support.browser import Page

AXE = Path(sys.prefix) / "axe/package/axe.min.js"
"""Where `make setup` puts it."""
RUN = "axe.run({resultTypes: ['violations']}).then(found => JSON.stringify(found.violations))"
GRAVE = ("serious", "critical")


@cache
def read_axe() -> str:
    if not AXE.exists():
        missing = "no axe-core (make setup, with npm): accessibility is not checked"
        warnings.warn(missing, stacklevel=2)
        pytest.skip(missing)
    return AXE.read_text("utf-8")


def find_barriers(page: Page) -> list[str]:
    """Return the serious violations on a page: the rule, and the elements."""
    page.value(read_axe() + "; true")
    return [
        f"{one['id']}: {[node['html'][:200] for node in one['nodes']][:5]}"
        for one in json.loads(page.value(RUN))
        if one["impact"] in GRAVE
    ]
