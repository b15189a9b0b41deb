"""Larger corpora, made of the smaller ones, and what is known about them.

`tweets` adds edited copies: each fifth document is the next original, the others are copies of an
earlier one, picked at random, so that every prefix of the file has the same mix. Beside it are the
counts by kind of edit (`.json`) and the planted pairs with exact Jaccard >= 0.9 (`.tsv`).

`ciphered` repeats a corpus; in each repetition the letters are others. Words stay words, so the
duplicates inside a repetition stay as similar as they were, and none are between repetitions.
`shuffled` does so with compact lines and strings as ids, a compressed file each repetition.
"""

from __future__ import annotations

import json
import mmap
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import orjson
import pyarrow as pa
from harness import documents, shingles

SEED = 1
ORIGINAL_EVERY = 5
SIMILAR = 0.9
VOCABULARY_DOCUMENTS = 20_000
SAID_EVERY = 500_000
PIECE = 8 << 20

KINDS = {
    "exact copy": 0.05,
    "other case, more punctuation": 0.05,
    "a word before": 0.05,
    "a word after": 0.05,
    "1 % of words replaced": 0.05,
    "3 % of words replaced": 0.05,
    "10 % of words replaced": 0.05,
    "30 % of words replaced": 0.05,
    "60 % of words replaced": 0.60,
}
"""Kinds of copies and the share of each."""

# Letters that no escape of JSON consists of: what is permuted stays valid.
ROTATED = b"ghijklmopqsvwxyz"


def tweets(source: Path, target: Path, count: int) -> Path:
    """`count` documents: originals of the source, and edited copies."""
    if target.exists():
        return target
    kinds: Counter[str] = Counter()
    with writing(target) as out, writing(pairs_of(target)) as pairs:
        for document in islice(_mixed(source), count):
            out.write(document.line)
            kinds[document.kind] += 1
            if document.similarity >= SIMILAR:
                pairs.write(b"%s\t%s\n" % (document.key.encode(), document.source.encode()))
            _say(target, kinds.total(), count)
        kinds_of(target).write_text(json.dumps(kinds, indent=1))
    return target


def pairs_of(corpus: Path) -> Path:
    return corpus.with_suffix(".tsv")


def kinds_of(corpus: Path) -> Path:
    return corpus.with_suffix(".json")


def ciphered(source: Path, target: Path, size: int) -> Path:
    """At least `size` bytes of the source's documents, again and again in other letters."""
    if target.exists():
        return target
    with writing(target) as out:
        for turn in range(len(ROTATED)):
            others = ROTATED[turn:] + ROTATED[:turn]
            letters = bytes.maketrans(ROTATED + ROTATED.upper(), others + others.upper())
            print(f"  {target.name}: {out.tell() / 1e6:,.0f} MB", file=sys.stderr, flush=True)
            with source.open("rb") as lines:
                for line in lines:
                    head, text = line.split(b', "text": ', 1)
                    key = turn * 10**9 + int(head.removeprefix(b'{"id": '))
                    out.write(b'{"id": %d, "text": %s' % (key, text.translate(letters)))
                    if out.tell() >= size:
                        return target
    raise ValueError(f"{source} is too small to make {size} bytes of it")


def letters_of(turn: int) -> bytes:
    """What `shuffled` translates letters by, ids included."""
    others = bytes(random.Random(turn).sample(ROTATED, len(ROTATED)))
    return bytes.maketrans(ROTATED + ROTATED.upper(), others + others.upper())


def shuffled(source: Path, folder: Path, turns: int) -> Path:
    """`turns` files, each the source in other letters; `t07-` is before the ids of number 7."""
    folder.mkdir(parents=True, exist_ok=True)
    for turn in range(turns):
        target = folder / f"part-{turn:02}.jsonl.zst"
        if target.exists():
            continue
        letters = letters_of(turn)
        # Quotes inside of strings are escaped, so these occur where they belong alone.
        head, middle = b'{"id":"', b'","text":"'
        with (
            source.open("rb") as lines,
            writing(target) as raw,
            pa.CompressedOutputStream(raw, "zstd") as out,
        ):
            while block := lines.read(PIECE) + lines.readline():
                block = block.translate(letters)
                block = block.replace(head.translate(letters), b"%st%02d-" % (head, turn))
                out.write(block.replace(middle.translate(letters), middle))
        print(
            f"  {target.name}: {target.stat().st_size / 1e6:,.0f} MB", file=sys.stderr, flush=True
        )
    return folder


@contextmanager
def writing(target: Path) -> Iterator[BinaryIO]:
    """A file that has its name only when it is complete."""
    part = target.with_name(f"{target.name}.part")
    with part.open("wb", buffering=1 << 20) as out:
        yield out
    part.rename(target)


class _Document:
    """A line, where it is from, and its exact similarity to that; -1 if it can't be judged.

    The exact join splits words by `\\w+`, which is how neardup does it for ASCII alone.
    """

    def __init__(self, key: str, text: str, kind: str, source: str = "", of: str = "") -> None:
        self.key, self.kind, self.source = key, kind, source
        self.line = orjson.dumps({"id": key, "text": text}) + b"\n"
        self.similarity = -1.0
        if source and text.isascii() and of.isascii():
            self.similarity = 1.0 if text == of else jaccard(text, of)


def jaccard(left: str, right: str) -> float:
    a, b = set(shingles(left)), set(shingles(right))
    common = len(a & b)
    return common / (len(a) + len(b) - common)


def _mixed(source: Path) -> Iterator[_Document]:
    rng = random.Random(SEED)
    words = _vocabulary(source)
    originals: list[int] = []
    with source.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as lines:

        def read(at: int) -> tuple[str, str]:
            lines.seek(at)
            row = orjson.loads(lines.readline())
            return row["id"], row["text"]

        at, number = 0, 0
        while at < len(lines):
            key, text = read(at)
            originals.append(at)
            at = lines.tell()
            yield _Document(key, text, "original")
            for _ in range(ORIGINAL_EVERY - 1):
                number += 1
                [kind] = rng.choices(list(KINDS), list(KINDS.values()))
                key, text = read(originals[int(rng.random() * len(originals))])
                copy = _edited(text, kind, words, rng)
                yield _Document(f"copy{number}", copy, kind, key, text)


def _edited(text: str, kind: str, words: list[str], rng: random.Random) -> str:
    def word() -> str:
        return words[int(rng.random() * len(words))]

    if percent := re.match(r"(\d+) %", kind):
        rate = int(percent[1]) / 100
        return " ".join(word() if rng.random() < rate else kept for kept in text.split(" "))
    edits = {
        "exact copy": text,
        "other case, more punctuation": f"{text.upper()} !!",
        "a word before": f"{word()} {text}",
        "a word after": f"{text} {word()}",
    }
    return edits[kind]


def _vocabulary(source: Path) -> list[str]:
    """Words as often as they are written."""
    some = islice(documents(source), VOCABULARY_DOCUMENTS)
    return [word for _, text in some for word in text.split()]


def _say(target: Path, done: int, count: int) -> None:
    if done % SAID_EVERY == 0:
        print(f"  {target.name}: {done:,} of {count:,}", file=sys.stderr, flush=True)
