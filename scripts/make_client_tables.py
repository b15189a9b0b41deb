"""Write clients/js/src/unicode-14.0.0.js: the package's character tables as a JavaScript module.

A browser can't read the package's files; a module of a page needs no build step. Run it after a
change of src/neardup/text/*.txt; the tests compare.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = ROOT / "src/neardup/text"
TARGET = ROOT / "clients/js/src/unicode-14.0.0.js"
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"

HEADER = """\
// The Unicode 14.0.0 data of neardup. Made by scripts/make_client_tables.py: don't edit.
//
// PROPERTIES has decimal numbers, the others have base 36.
//   PROPERTIES  class, canonical combining class, NFC quick check, what to add for lower case, of
//               characters of one kind; src/neardup/text/unicode-14.0.0.txt explains the letters
//   RANGES      code points that were left out since the range before, code points of this range,
//               the place of their kind in PROPERTIES
//   CANONICAL, COMPATIBLE  code point less the one before, its decomposition, one step
//   LOOK_ALIKES code point less the one before, the letter that it passes for
"""


def base36(number: int) -> str:
    digits = ""
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = DIGITS[digit] + digits
    return digits


def read_lines(name: str) -> Iterator[list[str]]:
    for line in (TEXT / name).read_text(encoding="ascii").splitlines():
        if not line.startswith("#"):
            yield line.split()


def written(name: str, items: Iterable[str]) -> str:
    body = textwrap.fill(" ".join(items), 100, break_long_words=False, break_on_hyphens=False)
    return f"export const {name} = `\n{body}`;\n"


def decompositions(lines: Iterable[list[str]]) -> Iterator[str]:
    before = 0
    for code, *parts in ([int(part, 16) for part in line[1:]] for line in lines):
        yield ",".join([base36(code - before), *map(base36, parts)])
        before = code


def look_alikes() -> Iterator[str]:
    before = 0
    for code, letter in read_lines("look-alikes.txt"):
        yield f"{base36(int(code, 16) - before)},{letter}"
        before = int(code, 16)


def make_module() -> str:
    """Return the text of the module."""
    named: dict[str, list[list[str]]] = {"canonical": [], "compatible": [], "range": []}
    for line in read_lines("unicode-14.0.0.txt"):
        named.get(line[0], named["range"]).append(line)
    kinds: dict[str, int] = {}
    ranges, end = [], 0
    for first, last, *kind in named["range"]:
        place = kinds.setdefault(",".join(kind), len(kinds))
        begin, after = int(first, 16), int(last, 16) + 1
        ranges.append(",".join(map(base36, (begin - end, after - begin, place))))
        end = after
    return HEADER + "".join(
        (
            written("PROPERTIES", kinds),
            written("RANGES", ranges),
            written("CANONICAL", decompositions(named["canonical"])),
            written("COMPATIBLE", decompositions(named["compatible"])),
            written("LOOK_ALIKES", look_alikes()),
        )
    )


if __name__ == "__main__":
    TARGET.write_text(make_module(), encoding="ascii")
