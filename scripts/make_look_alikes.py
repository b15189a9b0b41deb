"""Write src/neardup/text/look-alikes.txt: characters that pass for a Latin letter.

Run with Python 3.11, as make_unicode_tables.py. The lists name letters by what Unicode calls them;
those of the Latin script follow from their names. The shipped file never changes: texts that were
compared by it would no longer be comparable. A longer list is another profile.
"""

from __future__ import annotations

import re
import sys
import unicodedata as ucd
from collections.abc import Iterator
from pathlib import Path
from string import ascii_lowercase

from make_unicode_tables import ACCENTS, VERSION, lower

TARGET = Path(__file__).parents[1] / "src/neardup/text/look-alikes.txt"

# Letters that pass for a Latin one in usual fonts, as lower case or as capitals. Two letters of one
# script are never the same Latin letter, or its words would become equal: of several that look
# alike, the one that looks so in lower case is listed. Of Greek, mu and omega are left out, which
# are units of measurement.
SCRIPTS = {
    "CYRILLIC SMALL LETTER": {
        "a": "A",
        "b": "VE",
        "c": "ES",
        "d": "KOMI DE",
        "e": "IE",
        "g": "KOMI SJE",
        "h": "SHHA",
        "i": "BYELORUSSIAN-UKRAINIAN I",
        "j": "JE",
        "k": "KA",
        "l": "PALOCHKA",
        "m": "EM",
        "n": "PE",
        "o": "O",
        "p": "ER",
        "q": "QA",
        "r": "GHE",
        "s": "DZE",
        "t": "TE",
        "v": "IZHITSA",
        "w": "WE",
        "x": "HA",
        "y": "U",
    },
    "GREEK SMALL LETTER": {
        "a": "ALPHA",
        "b": "BETA",
        "e": "EPSILON",
        "i": "IOTA",
        "k": "KAPPA",
        "n": "ETA",
        "o": "OMICRON",
        "p": "RHO",
        "t": "TAU",
        "u": "UPSILON",
        "v": "NU",
        "x": "CHI",
        "y": "GAMMA",
        "z": "ZETA",
    },
    "GREEK LETTER": {"j": "YOT"},
    "ARMENIAN SMALL LETTER": {
        "g": "CO",
        "h": "HO",
        "j": "YI",
        "l": "LIWN",
        "n": "VO",
        "o": "OH",
        "q": "ZA",
        "u": "SEH",
        "w": "AYB",
    },
    "CHEROKEE SMALL LETTER": {
        "a": "GO",
        "b": "YV",
        "c": "TLI",
        "d": "A",
        "e": "GV",
        "g": "NAH",
        "h": "MI",
        "i": "V",
        "j": "GU",
        "k": "TSO",
        "l": "TLE",
        "m": "LU",
        "p": "TLV",
        "r": "E",
        "s": "DU",
        "t": "I",
        "v": "DO",
        "w": "LA",
        "y": "MU",
        "z": "NO",
    },
    "COPTIC SMALL LETTER": {
        "a": "ALFA",
        "b": "VIDA",
        "c": "SIMA",
        "e": "EIE",
        "h": "HATE",
        "i": "IAUDA",
        "k": "KAPA",
        "m": "MI",
        "n": "NI",
        "o": "O",
        "p": "RO",
        "t": "TAU",
        "x": "KHI",
        "y": "UA",
        "z": "ZATA",
    },
    "LISU LETTER": {
        "a": "A",
        "b": "BA",
        "c": "CA",
        "d": "DA",
        "e": "E",
        "f": "TSA",
        "g": "GA",
        "h": "XA",
        "i": "I",
        "j": "JA",
        "k": "KA",
        "l": "LA",
        "m": "MA",
        "n": "NA",
        "o": "O",
        "p": "PA",
        "r": "ZHA",
        "s": "SA",
        "t": "TA",
        "u": "U",
        "v": "HA",
        "w": "WA",
        "x": "SHA",
        "y": "YA",
        "z": "DZA",
    },
    "LATIN SMALL LETTER": {"a": "ALPHA", "g": "SCRIPT G", "i": "DOTLESS I", "j": "DOTLESS J"},
}

# Strokes and hooks that have no code point of their own count as accents do; small capitals, and
# white letters in black circles and squares, are the letter.
LATIN = re.compile(
    "LATIN SMALL LETTER ([A-Z]) WITH .*"
    "|LATIN LETTER SMALL CAPITAL ([A-Z])( WITH .*)?"
    "|NEGATIVE (CIRCLED|SQUARED) LATIN CAPITAL LETTER ([A-Z])"
)

HEADER = """\
# The look-alikes of Latin letters, by which profile look-alikes folds characters in lower case.
# Made by scripts/make_look_alikes.py.
#
# CODE_POINT LETTER
"""


def folded_before(code: int) -> bool:
    """Whether lower case or the folding of accents and compatibility forms changes it already."""
    plain = [c for c in ucd.normalize("NFKD", chr(code)) if ord(c) not in ACCENTS]
    return plain != [chr(code)] or lower(code) != code


def look_alikes() -> Iterator[tuple[int, str]]:
    for script, names in SCRIPTS.items():
        for letter, name in names.items():
            yield ord(ucd.lookup(f"{script} {name}")), letter
    for code in range(0x80, 0x110000):
        found = LATIN.fullmatch(ucd.name(chr(code), ""))
        if found:
            letter = next(one for one in found.groups() if one and one in ascii_lowercase.upper())
            yield code, letter.lower()


def main() -> None:
    if ucd.unidata_version != VERSION:
        sys.exit(f"needs Unicode {VERSION}, this Python has {ucd.unidata_version}: use Python 3.11")
    found = sorted(one for one in look_alikes() if not folded_before(one[0]))
    lines = [f"{code:04X} {letter}\n" for code, letter in found]
    TARGET.write_text(HEADER + "".join(lines), encoding="ascii")


if __name__ == "__main__":
    main()
