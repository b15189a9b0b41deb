"""Which parts does the report have, and what are they called?"""

from __future__ import annotations

from typing import Final

from neardup.report.html import Html, tag

TITLES: Final = {
    "similarity": "How similar",
    "clusters": "Clusters",
    "buckets": "Hot buckets",
    "rejected": "Rejected",
    "resources": "Time and memory",
    "settings": "Specification and inputs",
}


def section(anchor: str, *content: str) -> Html:
    """A part of the page, under its title."""
    return tag("section", tag("h2", TITLES[anchor]), *content, id=anchor)


def contents() -> Html:
    """Links to all parts."""
    links = (tag("a", title, href=f"#{anchor}") for anchor, title in TITLES.items())
    return tag("nav", *links, aria_label="Contents")
