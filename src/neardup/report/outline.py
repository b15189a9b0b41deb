"""Which parts does the report have, and what are they called?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from neardup.report.html import Html, tag

TITLES: Final = {
    "similarity": "How similar",
    "cut": "What was cut",
    "clusters": "Clusters",
    "buckets": "Hot buckets",
    "rejected": "Rejected",
    "resources": "Time and memory",
    "settings": "Specification and inputs",
}


def section(anchor: str, *content: str) -> Html:
    """A part of the page, under its title."""
    return tag("section", tag("h2", TITLES[anchor]), *content, id=anchor)


def contents(anchors: Iterable[str]) -> Html:
    """Links to the parts that there are."""
    links = (tag("a", TITLES[anchor], href=f"#{anchor}") for anchor in anchors)
    return tag("nav", *links, aria_label="Contents")
