"""Find essays that are made of somebody else's text, by containment.

    python examples/plagiarism.py

A passage that was cut out of a longer source has a low Jaccard similarity to it. Containment asks
which share of the passage is in the source, and it is exact. Essays are cut into paragraphs first,
so that one borrowed paragraph is enough.
"""

from __future__ import annotations

import neardup

SOURCES = {
    "encyclopedia/bees": (
        "A colony of honey bees may hold sixty thousand workers in the summer, and a few thousand "
        "of them live through the winter in a cluster around the queen. Workers that have found a "
        "rich meadow tell the others by a dance, whose angle to the vertical is the angle between "
        "the sun and the way to the flowers."
    ),
    "encyclopedia/bridges": (
        "An arch carries its load by pressing its stones together, so that it needs no mortar, and "
        "many bridges that the Romans built two thousand years ago carry traffic to this day."
    ),
}
ESSAYS = {
    "ann": "Bees dance. I watched them do it all summer behind our house, and wrote down when.",
    "bob": (
        "My essay is about bees, which I like very much because they make honey.\n\n"
        "As everybody knows, workers that have found a rich meadow tell the others by a dance, "
        "whose angle to the vertical is the angle between the sun and the way to the flowers."
    ),
    "cid": (
        "an arch carries its load by pressing its stones together so that it needs no mortar and "
        "many bridges that the Romans built 2000 years ago carry traffic to this day"
    ),
}
THRESHOLD = 0.6


def main() -> None:
    # Sources come first, and the first one stays: an essay is never the witness against a source.
    rows = [{"id": name, "text": text} for name, text in SOURCES.items()]
    for author, essay in ESSAYS.items():
        for number, paragraph in enumerate(essay.split("\n\n"), 1):
            rows.append({"id": f"{author}, paragraph {number}", "text": paragraph})
    result = neardup.dedup(
        rows, measure="containment", threshold=THRESHOLD, shingle="word:4", recall=0.999, slots=256
    )
    texts = {row["id"]: row["text"] for row in rows}
    for found in result.removed:
        print(f"{found.similarity:.0%} of {found.id} is in {found.witness}")
        jaccard = neardup.similarity(texts[found.id], texts[found.witness], shingle="word:4")
        print(f"    their Jaccard similarity is {jaccard:.2f}")
    assert [(found.id, found.witness) for found in result.removed] == [
        ("bob, paragraph 2", "encyclopedia/bees"),
        ("cid, paragraph 1", "encyclopedia/bridges"),
    ]


if __name__ == "__main__":
    main()
