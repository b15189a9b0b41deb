"""Copies that are made to slip through, and how similar they are to their original.

The tables of docs/evasion.md are made of them: `PYTHONPATH=tests python -m support.evasions`.
"""

from __future__ import annotations

import re
import runpy
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import neardup
from neardup.spec import PROFILES

EXAMPLES = Path(__file__).parents[2] / "examples"
POST = (
    "Hello everyone, I finally found a simple way to earn extra money from home. Last week I made "
    "more than five hundred dollars in only two hours a day, and you do not need any experience. "
    "Just follow the link in my profile, enter your name and start today. The first ten people "
    "get a free bonus, so hurry before the offer ends."
)
OTHER = (
    "Hello everyone, I finally found a good way to learn more from home. Last month I spent only "
    "two evenings a week on the free course of my library, and you do not need any experience. "
    "Just follow the link on their page, enter your name and choose a day. The first lesson is "
    "about money, so bring your questions."
)
PARAPHRASE = (
    "Hi all! At long last I discovered something easy that brings in cash while sitting on my "
    "couch. Over the past seven days my earnings exceeded 500 bucks, working a couple of hours "
    "each afternoon; beginners are welcome. Visit the address shown on my page, register and "
    "begin immediately. A present awaits the earliest ten, but be quick: this deal closes soon."
)
FILLER = (
    "The weather was warm and the streets were full of people who had come to see the old bridge. "
    "Some of them carried umbrellas although nobody expected rain. A man sold oranges at the "
    "corner, two children chased a dog, and the clock of the town hall struck four while the last "
    "boat of the afternoon left for the island with a band on its upper deck and flags everywhere."
)
SYNONYMS = {
    "simple": "easy",
    "earn": "gain",
    "extra": "additional",
    "money": "cash",
    "dollars": "bucks",
    "need": "require",
    "Just": "Simply",
    "follow": "click",
    "start": "begin",
    "people": "persons",
    "free": "gratis",
    "hurry": "rush",
}
"""A word in five of the post."""
FEW_SYNONYMS = dict(list(SYNONYMS.items())[::4])


def letters(table: Mapping[str, str]) -> Callable[[str], str]:
    """Return the evasion that writes letters otherwise."""
    return lambda text: text.translate(str.maketrans(dict(table)))


def named(alphabet: str, prefix: str) -> dict[str, str]:
    """Return for each letter the character that Unicode calls by this prefix and the letter."""
    return {c: unicodedata.lookup(f"{prefix} {c}") for c in alphabet}


def inside(mark: str) -> Callable[[str], str]:
    """Return the evasion that puts a mark into the middle of each word."""
    return lambda text: re.sub(r"\b(\w+)(\w)", rf"\1{mark}\2", text)


def words(table: Mapping[str, str]) -> Callable[[str], str]:
    """Return the evasion that writes words otherwise."""
    return lambda text: re.sub(r"\w+", lambda word: table.get(word[0], word[0]), text)


LOWER = "abcdefghijklmnopqrstuvwxyz"
BY_LETTERS: dict[str, Callable[[str], str]] = {
    "accents (móńéy)": letters({c: f"{c}\u0301" for c in "aeiouncs"}),
    "stacked marks (m̷͇o̷͇n̷͇)": letters({c: f"{c}\u0337\u0347" for c in LOWER}),
    "full-width letters (ｍｏｎｅｙ)": letters(named(LOWER, "FULLWIDTH LATIN SMALL LETTER")),
    "mathematical letters (𝐦𝐨𝐧𝐞𝐲)": letters(named(LOWER, "MATHEMATICAL BOLD SMALL")),
    "soft hyphens inside words": inside("\u00ad"),
    "zero-width spaces inside words": inside("\u200b"),
    "marks of the direction inside words": inside("\u202d\u202c"),
    "Cyrillic letters (аеорсухі)": letters(dict(zip("aeopcyxi", "аеорсухі", strict=True))),
    "Greek letters (οικν)": letters(dict(zip("oikv", "οικν", strict=True))),
    "small capitals (ᴍᴏɴᴇʏ)": letters(
        named("abcdeghijklmnoprtuvwyz", "LATIN LETTER SMALL CAPITAL")
    ),
    "white on black (🅼🅾🅽🅴🆈)": letters(named(LOWER, "NEGATIVE SQUARED LATIN CAPITAL LETTER")),
    "capitals, of them Greek ΑΕΚΟΡΤΧ": lambda text: text.upper().translate(
        str.maketrans("AEKOPTX", "ΑΕΚΟΡΤΧ")
    ),
    "capitals, of them Greek ΗΜΝΥ": lambda text: text.upper().translate(
        str.maketrans("HMNY", "ΗΜΝΥ")
    ),
    "leetspeak (m0n3y)": letters(dict(zip("aeiost", "431057", strict=True))),
    "letters apart (m o n e y)": lambda text: " ".join(text.replace(" ", "")),
}
BY_WORDS: dict[str, Callable[[str], str]] = {
    "synonyms of 3 words": words(FEW_SYNONYMS),
    "synonyms of 12 words, one in five": words(SYNONYMS),
    "sentences in the reverse order": lambda text: " ".join(re.split(r"(?<=\.) ", text)[::-1]),
    "two neighbouring words exchanged, throughout": lambda text: re.sub(
        r"(\w+)(\W+)(\w+)", r"\3\2\1", text
    ),
    "all words in alphabetical order": lambda text: " ".join(sorted(text.split())),
    "as much text about something else behind it": lambda text: f"{text} {FILLER}",
    "the same in other words": lambda text: PARAPHRASE,
    "*no copy*: another subject, the same phrases": lambda text: OTHER,
}
SIGNALS = {
    "`word:5`": {"shingle": "word:5"},
    "`word:1`": {"shingle": "word:1"},
    "`char:5`": {"shingle": "char:5"},
    "`word:5`, containment": {"shingle": "word:5", "measure": "containment"},
}


def letters_table() -> str:
    """Return the similarity of each copy with other letters by each text profile, by `word:5`."""
    columns = [{"text_profile": profile} for profile in PROFILES if profile != "conservative"]
    heads = [f"`{column['text_profile']}`" for column in columns]
    return _table(BY_LETTERS, heads, columns)


def words_table() -> str:
    """Return the similarity of each copy with other words by each signal, by `standard`."""
    return _table(BY_WORDS, list(SIGNALS), list(SIGNALS.values()))


def vectors_table() -> str:
    """Return the cosine of each copy with the original by vectors of WordLlama, beside `word:5`."""
    evasions = BY_LETTERS | BY_WORDS
    embed = runpy.run_path(str(EXAMPLES / "embedders.py"))["embed"]
    units = embed([POST, *(evade(POST) for evade in evasions.values())])
    rows = [
        (name, neardup.similarity(POST, evade(POST)), cosine)
        for (name, evade), cosine in zip(evasions.items(), units[1:] @ units[0], strict=True)
    ]
    lines = ["| what was done | `word:5` | cosine |", "| --- | --- | --- |"]
    return "\n".join([*lines, *(f"| {name} | {a:.2f} | {b:.2f} |" for name, a, b in rows)])


def _table(
    evasions: Mapping[str, Callable[[str], str]],
    heads: Sequence[str],
    columns: Sequence[Mapping[str, str]],
) -> str:
    lines = [["what was done", *heads], ["---"] * (len(heads) + 1)]
    for name, evade in evasions.items():
        found = (neardup.similarity(POST, evade(POST), **options) for options in columns)
        lines.append([name, *(f"{similarity:.2f}" for similarity in found)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    print(letters_table(), words_table(), vectors_table(), sep="\n\n")
