"""Masks: numbers, dates, URLs and e-mail addresses that are replaced before texts are compared.

The rules are regular expressions over *symbols*: a character of ASCII in lower case, a decimal
digit of any script by its value, or one of the stand-ins below for all other characters of a kind.
They never change, because the specification states nothing about a mask but its name.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from neardup.reference.text import digit_value, kind

LETTER, ALONE, MARK, SPACE, OTHER = "é", "一", "\u0301", "\u00a0", "¿"
"""What stands for the characters beyond ASCII: letters, characters of scripts without spaces,
marks, white space, and all others."""
UNITS_OF_DATES: Final = "年月日년월일"
"""The characters beyond ASCII that the rules name."""
ASCII_WORD: Final = "0123456789_abcdefghijklmnopqrstuvwxyz"
WORD: Final = ASCII_WORD + LETTER + MARK + "년월일"
LOCAL: Final = ".%+-"
"""What an address has before its @, besides letters, digits and underscores."""

_YEAR, _MONTH, _DAY = "[12][0-9]{3}", "(0?[1-9]|1[0-2])", "(0?[1-9]|[12][0-9]|3[01])"
_GAP = f"[ {SPACE},./-]{{0,2}}"
_WEEKDAY = "(mon|tues?|wed(nes)?|thu(rs?)?|fri|sat(ur)?|sun)(day)?"
_NAME = (
    "(jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?|"
    "nov(ember)?|dec(ember)?)"
)
_TH = "(st|nd|rd|th)?"
_NUMERIC = "|".join(
    f"{_YEAR}{point}{_MONTH}{point}{_DAY}|({_DAY}{point}{_MONTH}|{_MONTH}{point}{_DAY}){point}{_YEAR}"
    for point in ("-", "/", r"\.")
)
_SHORT = f"({_DAY}/{_MONTH}|{_MONTH}/{_DAY})/[0-9]{{2}}"
_SHORT_POINTS = r"(0[1-9]|[12][0-9]|3[01])\.(0[1-9]|1[0-2])\.[0-9]{2}"
_NAMED = (
    f"{_DAY}{_TH}{_GAP}{_NAME}{_GAP}{_YEAR}|{_NAME}{_GAP}{_DAY}{_TH}({_GAP}{_YEAR})?|"
    f"{_NAME}{_GAP}{_YEAR}"
)
_EAST_ASIAN = (
    f"([0-9]{{2,4}}[年년] ?)?{_MONTH}[月월] ?{_DAY}[日일]|[0-9]{{2,4}}[年년] ?{_MONTH}[月월]"
)
_TIME = (
    r"([01]?[0-9]|2[0-4]):[0-5][0-9](:[0-5][0-9]([.,][0-9]{1,9})?)?"
    rf"([ {SPACE}]?[ap]\.?m\.?)?([ {SPACE}]?(z|utc|gmt|[+-][0-9]{{2}}:?[0-9]{{2}}))?"
)
_DATE = f"({_NUMERIC}|{_SHORT}|{_SHORT_POINTS}|{_NAMED}|{_EAST_ASIAN})"
_CLOCKED = f"{_NAME}{_GAP}{_DAY}{_GAP}{_TIME}{_GAP}{_YEAR}"
_OF_URL = r"[!#$%&'()*+,./0-9:;=?@A-Z_a-z~\[\]-]"
_END_OF_URL = r"[#$%&(+/0-9=@A-Z_a-z~\[-]"


@dataclass(frozen=True)
class MaskRule:
    """What one mask replaces.

    Attributes:
        name: The name of the mask.
        pattern: The regular expression of its symbols; the longest match counts.
        barred: The symbols after which no match begins.
        guarded: Whether a match that ends in an ASCII letter or digit ends where a word does.
    """

    name: str
    pattern: str
    barred: str = WORD
    guarded: bool = False

    @property
    def placeholder(self) -> str:
        """What stands for a match: one word, that no text profile changes."""
        return f"_{self.name.removesuffix('s')}_"

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern)


MASKS: Final = (
    MaskRule("urls", rf"((https?|ftps?)://|www\.){_OF_URL}*{_END_OF_URL}"),
    MaskRule("emails", r"[a-z0-9._%+-]+@[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z]{2,}", barred=WORD + LOCAL),
    MaskRule(
        "dates",
        f"({_WEEKDAY}{_GAP})?({_DATE}((t|{_GAP}){_TIME})?|{_CLOCKED})|{_TIME}",
        guarded=True,
    ),
    MaskRule("numbers", "[0-9]+([.,:'][0-9]+)*"),
)
"""The masks; where several match, the first of them counts."""


def symbol(char: str) -> str:
    """Return the symbol that stands for a character in the rules."""
    if char in UNITS_OF_DATES:
        return char
    found = kind(ord(char))
    if found == "N":
        return str(digit_value(ord(char)))
    if char.isascii():
        return char.lower()
    kinds = {"W": LETTER, "S": ALONE, "M": MARK, "A": MARK, "_": SPACE}
    return kinds.get(found, OTHER)


def mask(text: str, names: Container[str]) -> str:
    """Return the text with what these masks match replaced by their placeholders.

    Args:
        text: The text.
        names: The names of the masks.
    """
    symbols, out, at = "".join(map(symbol, text)), "", 0
    rules = [rule for rule in MASKS if rule.name in names]
    while at < len(text):
        ends = ((longest_match(rule, symbols, at), rule) for rule in rules)
        end, rule = next((found for found in ends if found[0]), (0, None))
        out += text[at] if rule is None else rule.placeholder
        at = end or at + 1
    return out


def longest_match(rule: MaskRule, symbols: str, at: int) -> int:
    """Return where the longest match that begins here ends; 0 without one."""
    if at and symbols[at - 1] in rule.barred:
        return 0
    for end in range(len(symbols), at, -1):
        splits = symbols[end - 1] in ASCII_WORD and symbols[end : end + 1] in tuple(WORD)
        if not (rule.guarded and splits) and rule.compiled.fullmatch(symbols, at, end):
            return end
    return 0
