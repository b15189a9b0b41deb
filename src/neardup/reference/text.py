"""Cut a text into words, characters or lines, by the shipped Unicode tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import accumulate
from pathlib import Path
from struct import pack

from neardup.reference.hashes import element_hash
from neardup.spec import UNIFYING, Spec


@dataclass
class UnicodeTables:
    """The shipped Unicode tables; the head of their file explains them."""

    kind: dict[int, str]
    ccc: dict[int, int]
    lower: dict[int, int]
    canonical: dict[int, list[int]]
    compatible: dict[int, list[int]]
    composed: dict[tuple[int, int], int]


@cache
def unicode_tables() -> UnicodeTables:
    t = UnicodeTables({}, {}, {}, {}, {}, {})
    never: set[int] = set()
    path = Path(__file__).parents[1] / "text" / "unicode-14.0.0.txt"
    for line in path.read_text(encoding="ascii").splitlines():
        match line.split():
            case [] | ["#", *_]:
                pass
            case ["canonical", whole, *steps]:
                t.canonical[int(whole, 16)] = [int(step, 16) for step in steps]
            case ["compatible", whole, *steps]:
                t.compatible[int(whole, 16)] = [int(step, 16) for step in steps]
            case [first, last, kind, ccc, check, lower]:
                for code in range(int(first, 16), int(last, 16) + 1):
                    t.kind[code] = kind
                    t.ccc[code] = int(ccc)
                    t.lower[code] = code + int(lower)
                    if check == "N":
                        never.add(code)
    for code, parts in t.canonical.items():
        if len(parts) == 2 and code not in never:
            t.composed[parts[0], parts[1]] = code
    return t


def kind(code: int) -> str:
    return unicode_tables().kind.get(code, "-")


def decompose(code: int, compatible: bool) -> Iterator[int]:
    if 0xAC00 <= code < 0xAC00 + 11172:  # Hangul syllables, by arithmetic
        lead, rest = divmod(code - 0xAC00, 588)
        yield from (0x1100 + lead, 0x1161 + rest // 28)
        if rest % 28:
            yield 0x11A7 + rest % 28
        return
    parts = unicode_tables().canonical.get(code) or (
        unicode_tables().compatible.get(code) if compatible else None
    )
    if not parts:
        yield code
        return
    for part in parts:
        yield from decompose(part, compatible)


def decomposed(codes: Sequence[int], compatible: bool) -> list[int]:
    """NFD or NFKD: decompose, then sort each run of marks by combining class."""
    out = [part for code in codes for part in decompose(code, compatible)]
    ccc = unicode_tables().ccc
    start = 0
    for end in range(len(out) + 1):
        if end == len(out) or ccc.get(out[end], 0) == 0:
            out[start:end] = sorted(out[start:end], key=lambda c: ccc.get(c, 0))
            start = end + 1
    return out


def compose(first: int, second: int) -> int | None:
    if 0x1100 <= first < 0x1113 and 0x1161 <= second < 0x1176:
        return 0xAC00 + ((first - 0x1100) * 21 + second - 0x1161) * 28
    if 0xAC00 <= first < 0xD7A4 and (first - 0xAC00) % 28 == 0 and 0x11A8 <= second < 0x11C3:
        return first + second - 0x11A7
    return unicode_tables().composed.get((first, second))


def recomposed(codes: Sequence[int]) -> list[int]:
    """Unicode's canonical composition of decomposed text."""
    out: list[int] = []
    starter, last_ccc = -1, -1
    for code in codes:
        ccc = unicode_tables().ccc.get(code, 0)
        both = compose(out[starter], code) if starter >= 0 and last_ccc < ccc else None
        if both is not None:
            out[starter] = both
            continue
        out.append(code)
        if ccc == 0:
            starter, last_ccc = len(out) - 1, -1
        else:
            last_ccc = ccc
    return out


HIDDEN = (
    (0x061C, 0x061C),  # Arabic letter mark
    (0x200B, 0x200B),  # zero-width space, which is white space in the other profiles
    (0x200E, 0x200F),  # left-to-right and right-to-left marks
    (0x202A, 0x202E),  # embeddings and overrides of the direction
    (0x2061, 0x2064),  # invisible operators
    (0x2066, 0x206F),  # isolates, deprecated format characters
    (0x3164, 0x3164),  # Hangul filler
    (0xFFA0, 0xFFA0),  # half-width Hangul filler
    (0xFFF9, 0xFFFB),  # interlinear annotation
    (0xE0001, 0xE0001),  # language tag
    (0xE0020, 0xE007F),  # tags
)
VOWEL_MARKS = (
    (0x0591, 0x05BD),  # Hebrew accents and points
    (0x05BF, 0x05BF),
    (0x05C1, 0x05C2),
    (0x05C4, 0x05C5),
    (0x05C7, 0x05C7),
    (0x0610, 0x061A),  # Arabic honorifics and Koranic signs
    (0x0640, 0x0640),  # tatweel, which stretches a word
    (0x064B, 0x0652),  # harakat; madda and hamza (0653 to 0655) make other letters, and stay
    (0x0656, 0x065F),
    (0x0670, 0x0670),
    (0x06D6, 0x06DC),
    (0x06DF, 0x06E4),
    (0x06E7, 0x06E8),
    (0x06EA, 0x06ED),
    (0x08D3, 0x08E1),
    (0x08E3, 0x08FF),
)
FILLERS = (
    (0x115F, 0x1160),  # Hangul fillers, also what compatibility forms of them become
    (0x17B4, 0x17B5),  # Khmer inherent vowels
    (0x1D173, 0x1D17A),  # beams and slurs of music
)
# Profile -> the characters that it drops besides those that every profile does.
DROPPED = {
    "plain": (*HIDDEN, *VOWEL_MARKS),
    "look-alikes": (*HIDDEN, *FILLERS, *VOWEL_MARKS),
}


@cache
def look_alikes() -> dict[int, int]:
    """Return the Latin letter that a character passes for; the head of the file explains it."""
    path = Path(__file__).parents[1] / "text" / "look-alikes.txt"
    lines = path.read_text(encoding="ascii").splitlines()
    found = (line.split() for line in lines if not line.startswith("#"))
    return {int(code, 16): ord(letter) for code, letter in found}


def normal_form(text: str, profile: str) -> list[int]:
    """Return the code points of a profile's normal form, before case and digits are folded."""
    codes = [ord(c) for c in text]
    if profile in UNIFYING:
        unwanted = "AD" if profile == "look-alikes" else "A"
        codes = [c for c in decomposed(codes, compatible=True) if kind(c) not in unwanted]
    if profile == "look-alikes":  # before composition, so that nothing unseen is in its way
        codes = visible(codes, profile)
    return visible(recomposed(decomposed(codes, compatible=False)), profile)


def visible(codes: list[int], profile: str) -> list[int]:
    dropped = DROPPED.get(profile, ())
    return [c for c in codes if not any(a <= c <= b for a, b in dropped)]


def numbers(text: str, profile: str) -> list[str]:
    """Return the numbers of a text: maximal runs of decimal digits, in ASCII.

    Digits of all scripts count by their value. Dropped characters don't end a run, all others do:
    2,864 is two numbers. Leading zeros belong to a number, because 1.05 is not 1.5.
    """
    found = [""]
    for code in normal_form(text, profile):
        if kind(code) == "N":
            found[-1] += str(digit_value(code))
        elif kind(code) != "D" and found[-1]:
            found.append("")
    return [number for number in found if number]


def digit_value(code: int) -> int:
    """Return the value of a decimal digit: digits are in runs of ten, from 0 to 9."""
    first = code
    while kind(first - 1) == "N":
        first -= 1
    return (code - first) % 10


def normalise(text: str, profile: str) -> list[int]:
    """Return the code points that a profile compares: normal form, case, digits, look-alikes."""
    codes = normal_form(text, profile)
    if profile == "conservative":
        return codes
    codes = [unicode_tables().lower.get(c, c) for c in codes]
    if profile in UNIFYING:
        codes = [0x30 if kind(c) == "N" else c for c in codes]
    return [look_alikes().get(c, c) for c in codes] if profile == "look-alikes" else codes


def words(codes: list[int]) -> Iterator[str]:
    """Yield runs of letters, digits, underscores and marks; in unspaced scripts, characters."""
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


def segmented(codes: list[int], segment: Callable[[str], Sequence[str]]) -> Iterator[str]:
    """Yield words as `words` does, but in unspaced scripts those that a segmenter finds.

    Args:
        codes: The code points of a normalised text.
        segment: Cuts a run of characters of unspaced scripts, with their marks, into pieces.
    """
    shown = "".join(chr(code) if kind(code) != "D" else "" for code in codes)
    of_kinds = "".join("M" if kind(ord(c)) == "A" else kind(ord(c)) for c in shown)
    for found in re.finditer("S[SM]*|[^S]+", of_kinds):
        part = shown[found.start() : found.end()]
        if found[0][0] != "S":
            yield from words([ord(c) for c in part])
            continue
        ends = set(accumulate(map(len, segment(part))))
        word, at = "", 0
        for char in words([ord(c) for c in part]):
            if word and at in ends:
                yield word
                word = ""
            word, at = word + char, at + len(char)
        yield word


def units(
    text: str,
    spec: Spec,
    stem: Callable[[str], str] = str,
    segment: Callable[[str], Sequence[str]] = tuple,
) -> list[bytes]:
    """Return the units that shingles are made of; none only for a text with nothing visible.

    Args:
        text: The text.
        spec: The specification.
        stem: Returns the stem of a word, if the specification has stems.
        segment: Cuts a run of an unspaced script, if the specification has a segmenter; by default
            character by character.
    """
    codes = normalise(text, spec.profile)
    if spec.unit == "word":
        cut = segmented(codes, segment) if spec.segment else words(codes)
        found = list(map(stem, cut)) or [whole(codes)]
    elif spec.unit == "char":
        found = list(whole(codes))
    else:
        lines = "".join(map(chr, codes)).replace("\r", "\n").split("\n")
        found = [whole([ord(c) for c in line]) for line in lines]
    return [unit.encode() for unit in found if unit]


def whole(codes: list[int]) -> str:
    """Return the text with single spaces, none at the ends, and without dropped characters."""
    kept = (c for c in codes if kind(c) != "D")
    return " ".join("".join(" " if kind(c) == "_" else chr(c) for c in kept).split())


def token_units(tokens: Sequence[int]) -> list[bytes]:
    """Return token ids as units: eight bytes each, little-endian, two's complement."""
    return [pack("<q", token) for token in tokens]


def line_hash(line: str, spec: Spec, key: bytes = b"") -> int | None:
    """Return the hash that identifies a line; None for a line with nothing visible."""
    squeezed = whole(normalise(line, spec.profile))
    return element_hash(squeezed.encode(), spec, key) if squeezed else None


def frequent_lines(texts: Sequence[str], share: Fraction, spec: Spec) -> dict[int, int]:
    """Return the lines of strictly more than this share of the texts, and of at least two.

    Each with its number of texts. Texts without any line don't count.
    """
    sets = [{line_hash(line, spec) for line in re.split("[\r\n]", text)} for text in texts]
    counts = Counter(line for lines in sets for line in lines if line is not None)
    documents = sum(lines != {None} for lines in sets)
    return {
        line: count for line, count in counts.items() if count >= 2 and count > share * documents
    }


def ignore_lines(text: str, ignored: Container[int], spec: Spec) -> str:
    """Return the text with the ignored lines made empty; unchanged if no line would remain."""
    pieces = re.split("([\r\n])", text)  # lines at even places, their line breaks at odd
    hashes = [line_hash(line, spec) for line in pieces[::2]]
    if all(line is None or line in ignored for line in hashes):
        return text
    pieces[::2] = [
        "" if line is not None and line in ignored else piece
        for line, piece in zip(hashes, pieces[::2], strict=True)
    ]
    return "".join(pieces)
