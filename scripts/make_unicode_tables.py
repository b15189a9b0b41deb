"""Write src/neardup/text/unicode-14.0.0.txt, the character tables that ship with the package.

Run with Python 3.11, whose `unicodedata` is Unicode 14.0.0, the oldest that neardup supports:
what later versions of Unicode say about these characters' normal forms can't change by its
stability policy, so the tables give the same answer under every newer Python.
"""

from __future__ import annotations

import sys
import unicodedata as ucd
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

VERSION = "14.0.0"
TARGET = Path(__file__).parents[1] / "src/neardup/text" / f"unicode-{VERSION}.txt"

UNSPACED = (
    "CJK ",
    "HIRAGANA ",
    "KATAKANA",
    "HALFWIDTH KATAKANA ",
    "IDEOGRAPHIC ",
    "THAI ",
    "LAO ",
    "KHMER ",
    "MYANMAR ",
)
DROPPED = {
    0x00AD,
    0x034F,
    0x200C,
    0x200D,
    0x2060,
    0xFEFF,
    *range(0x180B, 0x1810),
    *range(0xFE00, 0xFE10),
    *range(0xE0100, 0xE01F0),
}
SPACE = {0x200B, *(c for c in range(0x3001) if chr(c).isspace())}
# Accents are the marks that `aggressive` folds away: combining diacritics, Hebrew points,
# Arabic vowel signs. Marks that carry the letters of a script (Indic, Thai) are not accents.
ACCENTS = {
    *range(0x0300, 0x0370),
    *range(0x0591, 0x05C8),
    *range(0x0610, 0x061B),
    *range(0x064B, 0x0660),
    0x0670,
    *range(0x06D6, 0x06EE),
    *range(0x1AB0, 0x1B00),
    *range(0x1DC0, 0x1E00),
    *range(0x20D0, 0x2100),
    *range(0xFE20, 0xFE30),
}
HANGUL_MEDIAL_FINAL = {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}

HEADER = f"""\
# Unicode {VERSION}, as far as neardup needs it. Made by scripts/make_unicode_tables.py.
#
# range lines: FIRST LAST CLASS CCC QC LOWER
#   CLASS  W word, N decimal digit (a word too), S a word by itself, M mark, A mark that is an
#          accent, D dropped, _ white space, U unassigned, - anything else
#   CCC    canonical combining class
#   QC     NFC quick check: Y, N (no) or M (maybe)
#   LOWER  what to add to a code point of the range to make it lower case
# Code points that no line covers are: - 0 Y 0
# canonical and compatible lines: CODE_POINT ITS_DECOMPOSITION, one step
"""


def character_class(code: int) -> str:
    char = chr(code)
    category = ucd.category(char)
    if code in DROPPED:
        return "D"
    if code in SPACE:
        return "_"
    if 0x20000 <= code <= 0x3FFFD:  # ideographs, those of later versions too
        return "S"
    if category == "Cn":
        return "U"
    if category[0] == "M":
        return "A" if code in ACCENTS else "M"
    if category == "Nd":
        return "N"
    if category[0] in "LN":
        return "S" if ucd.name(char, "").startswith(UNSPACED) else "W"
    return "W" if char == "_" else "-"


def lower(code: int) -> int:
    mapped = chr(code).lower()
    return ord(mapped) if len(mapped) == 1 else ord("i") if code == 0x130 else code


def decompositions(compatible: bool) -> Iterator[tuple[int, list[int]]]:
    for code in range(0x110000):
        tag, *rest = ucd.decomposition(chr(code)).split() or [""]
        if tag and compatible == tag.startswith("<"):
            yield code, [int(c, 16) for c in (rest if compatible else [tag, *rest])]


def main() -> None:
    if ucd.unidata_version != VERSION:
        sys.exit(f"needs Unicode {VERSION}, this Python has {ucd.unidata_version}: use Python 3.11")
    canonical = dict(decompositions(compatible=False))
    never = {c for c in canonical if ucd.normalize("NFC", chr(c)) != chr(c)}
    maybe = HANGUL_MEDIAL_FINAL | {
        parts[1] for c, parts in canonical.items() if len(parts) == 2 and c not in never
    }

    def row(code: int) -> tuple[str, int, str, int]:
        check = "N" if code in never else "M" if code in maybe else "Y"
        return character_class(code), ucd.combining(chr(code)), check, lower(code) - code

    lines = [HEADER]
    codes = (c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF)
    for key, run in groupby(((c, row(c)) for c in codes), key=lambda item: item[1]):
        if key != ("-", 0, "Y", 0):
            members = [c for c, _ in run]
            lines.append(
                f"{members[0]:04X} {members[-1]:04X} {key[0]} {key[1]} {key[2]} {key[3]}\n"
            )
    for name, table in (("canonical", canonical), ("compatible", dict(decompositions(True)))):
        for code, parts in table.items():
            lines.append(f"{name} {code:04X} {' '.join(f'{p:04X}' for p in parts)}\n")
    TARGET.write_text("".join(lines), encoding="ascii")


if __name__ == "__main__":
    main()
