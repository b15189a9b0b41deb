"""A text as words, characters or lines; lines that are ignored; the parts of a text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from fractions import Fraction
from struct import pack

from neardup.reference.characters import kind, normalise
from neardup.reference.hashes import element_hash
from neardup.spec import Spec


def words(codes: list[int]) -> Iterator[str]:
    """Maximal runs of letters, digits, underscores and marks; some scripts a character a word."""
    word, alone = "", False
    for code in codes:
        match kind(code):
            case "D":
                continue
            case "W" | "N" if not (word and alone):
                word, alone = word + chr(code), False
            case "M" | "A" if word:
                word += chr(code)
            case found:
                if word:
                    yield word
                starts = found in "WNS"
                word, alone = (chr(code) if starts else ""), found == "S"
    if word:
        yield word


def units(text: str, spec: Spec) -> list[bytes]:
    """The sequence that shingles are cut from. Empty only for a text with nothing visible."""
    codes = normalise(text, spec.profile)
    if spec.unit == "word":
        found = list(words(codes)) or [whole(codes)]
    elif spec.unit == "char":
        found = list(whole(codes))
    else:
        lines = "".join(map(chr, codes)).replace("\r", "\n").split("\n")
        found = [whole([ord(c) for c in line]) for line in lines]
    return [unit.encode() for unit in found if unit]


def whole(codes: list[int]) -> str:
    """The text with runs of white space made one space, none at the ends, dropped ones gone."""
    kept = (c for c in codes if kind(c) != "D")
    return " ".join("".join(" " if kind(c) == "_" else chr(c) for c in kept).split())


def token_units(tokens: Sequence[int]) -> list[bytes]:
    """Ready-made token ids: each is eight bytes, little-endian, two's complement."""
    return [pack("<q", token) for token in tokens]


def line_hash(line: str, spec: Spec, key: bytes = b"") -> int | None:
    """What a line is known by; None for a line with nothing visible in it."""
    squeezed = whole(normalise(line, spec.profile))
    return element_hash(squeezed.encode(), spec, key) if squeezed else None


def frequent_lines(texts: Sequence[str], share: Fraction, spec: Spec) -> dict[int, int]:
    """The lines of strictly more than this share of the texts, and of at least two.

    With the number of texts that each is in. Texts without any line don't count.
    """
    found = [{line_hash(line, spec) for line in re.split("[\r\n]", text)} for text in texts]
    counts = Counter(line for lines in found for line in lines if line is not None)
    documents = sum(lines != {None} for lines in found)
    return {
        line: count for line, count in counts.items() if count >= 2 and count > share * documents
    }


def ignore_lines(text: str, ignored: Container[int], spec: Spec) -> str:
    """The text with the ignored lines made empty; whole, if no line would be left."""
    pieces = re.split("([\r\n])", text)  # lines at even places, their line breaks at odd
    hashes = [line_hash(line, spec) for line in pieces[::2]]
    if all(line is None or line in ignored for line in hashes):
        return text
    pieces[::2] = [
        "" if line is not None and line in ignored else piece
        for line, piece in zip(hashes, pieces[::2], strict=True)
    ]
    return "".join(pieces)
