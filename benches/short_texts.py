"""Which shingle and threshold finds short texts with changed words; the table of docs/choosing.md.

    python benches/short_texts.py --data DIR

19,000 tweets with 1,000 spam posts of three templates, in which names, amounts, words and the link
differ (up to eight of about 22 words). *Spam* is the share of the posts that are removed for one
of the same template. The tweets have near-duplicates of their own: *same post* is the share of
those removed of which six of ten words are the same, in order. *Same licence* is the share of the
licence notices of 8 to 40 words that are removed for one of the same licence: texts in which one
word or number is all that matters.
"""

from __future__ import annotations

import argparse
import difflib
import random
import re
import string
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

import neardup
from neardup.result import Removed

TEMPLATES = (
    "hey {name} I made {amount} dollars this week working from home with this simple trick {word} "
    "check it out here {link}",
    "LAST CHANCE {name}! {brand} watches {share} off {day} only, free shipping to {city}, {word} "
    "order now at {link} before they are gone",
    "{name} is giving away {amount} free {coin} to the first 500 followers, just send your wallet "
    "and {word} visit {link} to claim it",
)
VALUES = {
    "name": "anna ben carla david elena felix gina hugo irene jack karen liam maria nina oscar",
    "amount": "500 1200 3500 790 9000 15000",
    "word": "really quickly now simply just totally",
    "brand": "Rolex Omega Seiko Tissot Citizen",
    "share": "50% 60% 70% 80% 90%",
    "day": "today tonight tomorrow friday",
    "city": "London Paris Berlin Madrid Rome Oslo",
    "coin": "bitcoin ethereum dogecoin solana",
}
REPLACED = ["great", "super", "amazing", "wow", "nice", "real", "best"]
POINTS = [
    ("word:5", 0.8),
    ("word:5", 0.5),
    ("word:3", 0.5),
    ("word:2", 0.5),
    ("word:1", 0.7),
    ("word:1", 0.6),
    ("char:3", 0.6),
    ("char:4", 0.5),
    ("char:5", 0.8),
    ("char:5", 0.6),
    ("char:5", 0.5),
    ("char:5", 0.4),
    ("char:8", 0.4),
]
POSTS, SPAM = 19_000, 1_000
SAME = 0.6


def spam_post(draw: random.Random, template: str) -> str:
    values = {name: draw.choice(words.split()) for name, words in VALUES.items()}
    link = "https://t.co/" + "".join(draw.choices(string.ascii_letters + string.digits, k=10))
    words = template.format(link=link, **values).split()
    if draw.random() < 0.5:
        words[draw.randrange(len(words) - 1)] = draw.choice(REPLACED)
    return " ".join(words)


def is_same_post(a: str, b: str) -> bool:
    one, other = (re.findall(r"\w+", re.sub(r"https?://\S+", "", text).lower()) for text in (a, b))
    blocks = difflib.SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks) >= SAME * max(len(one), len(other))


def read(path: Path) -> list[dict[str, Any]]:
    with pa.CompressedInputStream(str(path), "zstd") as lines:
        return [orjson.loads(line) for line in lines.read().splitlines()]


def share(removed: list[Removed], good: Callable[[Removed], bool]) -> str:
    near = [one for one in removed if one.similarity < 1.0]
    return f"{sum(map(good, near)) / max(len(near), 1):.2f} of {len(near):,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    data = parser.parse_args().data
    draw = random.Random(1)
    tweets = [row["text"] for row in read(data / "tweets_1m.jsonl.zst")[::10]]
    labelled = [(-1, text) for text in draw.sample(tweets, POSTS)]
    labelled += [(n % 3, spam_post(draw, TEMPLATES[n % 3])) for n in range(SPAM)]
    draw.shuffle(labelled)
    label, posts = [one for one, _ in labelled], [text for _, text in labelled]
    notices = [
        row
        for row in read(data / "scancode_license_texts.documents.jsonl.zst")
        if 8 <= len(re.findall(r"\w+", row["text"])) <= 40
    ]
    texts, licence = [row["text"] for row in notices], [row["license"] for row in notices]
    neardup.dedup(posts[:100])  # compiles
    print("| shingle | threshold | spam | same post | same licence | seconds |")
    print("| --- | --- | --- | --- | --- | --- |")
    for shingle, threshold in POINTS:
        begun = time.perf_counter()
        found = neardup.dedup(posts, shingle=shingle, threshold=threshold).removed
        seconds = time.perf_counter() - begun
        spam = [one for one in found if label[one.id] >= 0]
        right = sum(label[one.id] == label[one.witness] for one in spam)
        tweeted = [one for one in found if label[one.id] < 0]
        same = share(tweeted, lambda one: is_same_post(posts[one.id], posts[one.witness]))
        noted = neardup.dedup(texts, shingle=shingle, threshold=threshold).removed
        agree = share(noted, lambda one: licence[one.id] == licence[one.witness])
        print(
            f"| `{shingle}` | {threshold:g} | {right / (SPAM - 3):.3f} | {same} | {agree} | "
            f"{seconds:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
