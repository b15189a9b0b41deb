"""Decide about posts while they arrive: is this one a copy of something that came before?

    python examples/arriving_posts.py [FOLDER]

The index is a folder. It survives the end of the process, also by `kill -9`: what was answered is
stored. Run it twice with the same FOLDER: all posts but the removed one were there before.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import neardup

STORY = (
    "The city council has decided to plant two hundred trees along the river this spring, "
    "and asks everyone who has a spade to come to the old bridge on Saturday morning."
)


def posts() -> Iterator[tuple[str, str]]:
    yield "ann/1", STORY
    yield "bob/1", "Does anybody know when the library opens on Saturdays? I have books to return."
    yield "cid/1", "READ THIS!! " + STORY.upper()
    yield "dan/1", STORY.replace("Saturday", "Sunday")
    yield "eve/1", "Nobody believes what I saw on the bridge this morning: a heron with a spade."


def main(folder: Path) -> None:
    seen = Counter[str]()
    with neardup.Index.open(folder, threshold=0.7) as index:
        for id, text in posts():
            answer = index.add(id, text, metadata={"author": id.split("/")[0]})
            seen["again" if answer.again else answer.status] += 1
            if answer.status == "duplicate":
                print(f"{id}: a copy of {answer.duplicate_of}, {answer.similarity:.2f} similar")
            else:
                print(f"{id}: {answer.status}")

        # A moderator removes the original: its copies are judged again, and one of them stays.
        index.remove("ann/1")
        survivor = index.get("cid/1")
        print(f"without ann/1, cid/1 is {survivor.status}")
        print(index.explain(STORY))
        assert survivor.status == "new"
        assert index.query(STORY).duplicate_of == "cid/1"
    print(dict(seen))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as name:
            main(Path(name) / "posts")
