"""Random texts and corpora that look for trouble."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st

from neardup.spec import PROFILES

USUAL = 40
"""Random examples of a property in `make test`; `tests/conftest.py` has those of other runs."""


def examples(count: int) -> int:
    """So many examples in `make test`, a quarter in `make test-fast`, ten times in `make soak`."""
    return max(1, count * settings().max_examples // USUAL)


# Letters that fold to another length, marks, unspaced scripts, Hangul in pieces, joiners,
# characters newer than the tables, emoji, every kind of space; letters that pass for Latin ones.
TROUBLE = "AZaz09_ .,\n\r\t\x00é́ßẞİıſΣσςKȺⱥﬁ١أًकिक्ษกี่你好ひらカーｶ가각ாொ­‍‌️﻿​　 😀𠀀\U000323b0͸ǅŉ½²Ⅷ"
TROUBLE += "аѴΝꓐᎪø🅰\u202e\u3164\u1160"

texts = st.one_of(
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=80),
    st.text(alphabet=TROUBLE, max_size=80),
    st.text(alphabet="aB1_ .\n", max_size=200),
    st.builds(lambda a, b: a + b, st.text("abc _", min_size=50, max_size=90), st.text(TROUBLE)),
)

specs = st.tuples(
    st.sampled_from(["word:1", "word:2", "word:5", "char:1", "char:4", "line:1", "line:2"]),
    st.sampled_from(PROFILES),
)


@st.composite
def corpora(draw: st.DrawFn, most: int = 25) -> list[str]:
    """Few words and many edits of the same text, so that chains, stars and copies are common."""
    words = [f"w{i}" for i in range(12)]
    found: list[str] = []
    for _ in range(draw(st.integers(1, most))):
        if found and draw(st.integers(0, 3)):
            text = draw(st.sampled_from(found)).split()
            for _ in range(draw(st.integers(0, 2))):
                if text:
                    text[draw(st.integers(0, len(text) - 1))] = draw(st.sampled_from(words))
        else:
            text = draw(st.lists(st.sampled_from(words), max_size=14))
        found.append(" ".join(text) if text else draw(st.sampled_from(["", " ", "!", "?!", "!!"])))
    return found
