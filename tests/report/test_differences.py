"""What is marked differs, what is not is equal, and nothing is lost but what is said to be."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.report.differences import (
    COMPARED,
    CONTEXT,
    FOLDED,
    MOST_EDITS,
    SHOWN,
    TextPiece,
    TextWords,
    compare_texts,
    matching_blocks,
)

WORDS = st.lists(st.sampled_from("abc"), max_size=12)
TEXTS = st.text(st.sampled_from("ab ,\n漢字é"), max_size=30)


def longest_common(a: list[str], b: list[str]) -> int:
    """The length of the longest common subsequence, by the book."""
    above = [0] * (len(b) + 1)
    for x in a:
        row = [0]
        for place, y in enumerate(b):
            row.append(above[place] + 1 if x == y else max(above[place + 1], row[-1]))
        above = row
    return above[-1]


@given(WORDS, WORDS)
def test_matching_blocks_are_a_longest_common_subsequence(a: list[str], b: list[str]) -> None:
    blocks = matching_blocks(a, b)
    x = y = 0
    for kept, copy, size in blocks:
        assert size and kept >= x and copy >= y
        assert a[kept : kept + size] == b[copy : copy + size]
        x, y = kept + size, copy + size
    assert sum(block.size for block in blocks) == longest_common(a, b)


@given(TEXTS, TEXTS)
def test_pieces_of_short_texts_join_to_the_texts(kept: str, copy: str) -> None:
    found = compare_texts(kept, copy)
    assert found.complete
    if not found.hunks:
        assert squeezed(kept) == squeezed(copy)
        return
    (hunk,) = found.hunks
    assert (hunk.same_before, found.same_after) == (0, 0)
    for text, pieces in ((kept, hunk.kept), (copy, hunk.copy)):
        assert "".join(piece.text for piece in pieces) == (text if text.strip() else "")
    same = (
        squeezed("".join(piece.text for piece in side if not piece.changed))
        for side in (hunk.kept, hunk.copy)
    )
    assert next(same) == next(same)


def squeezed(text: str) -> str:
    return "".join(text.split())


def numbered(count: int, *changed: int) -> str:
    return " ".join(f"x{n}" if n in changed else f"w{n}" for n in range(count))


def test_equal_words_are_folded_and_counted() -> None:
    found = compare_texts(numbered(1_000), numbered(1_000, 300, 305, 700))
    first, second = found.hunks
    assert first.same_before == 300 - CONTEXT
    assert second.same_before == 700 - 306 - 2 * CONTEXT
    assert found.same_after == 1_000 - 701 - CONTEXT
    assert [p.text for p in first.copy if p.changed] == ["x300 ", "x305 "]
    assert second.kept[1] == TextPiece("w700 ", changed=True)
    assert found.complete


@pytest.mark.parametrize("equal", [CONTEXT + FOLDED - 1, CONTEXT + FOLDED])
def test_short_runs_of_equal_words_are_not_folded(equal: int) -> None:
    found = compare_texts(numbered(equal + 1), numbered(equal + 1, equal))
    assert found.hunks[0].same_before == (0 if equal < CONTEXT + FOLDED else FOLDED)


def test_inserted_words_are_marked_in_one_text_alone() -> None:
    (hunk,) = compare_texts("one three", "one two three").hunks
    assert [piece.text for piece in hunk.kept if piece.changed] == []
    assert [piece.text for piece in hunk.copy if piece.changed] == ["two "]


@pytest.mark.parametrize(("kept", "copy"), [("", ""), ("a b", "a  b\n"), (" a", "a")])
def test_white_space_is_no_difference(kept: str, copy: str) -> None:
    assert compare_texts(kept, copy).hunks == []


def test_scripts_without_spaces_are_compared_by_character() -> None:
    (hunk,) = compare_texts("漢字かな交じり文", "漢字カナ交じり文").hunks
    assert [piece.text for piece in hunk.copy] == ["漢字", "カナ", "交じり文"]


def test_differences_beyond_the_edit_limit_are_marked() -> None:
    kept, copy = numbered(MOST_EDITS, *range(MOST_EDITS)), numbered(MOST_EDITS)
    found = compare_texts(f"same {kept} end", f"same {copy} end")
    (hunk,) = found.hunks
    assert [piece.text for piece in hunk.kept] == ["same ", f"{kept} ", "end"]


def test_truncated_text_does_not_end_with_a_false_difference() -> None:
    text = numbered(COMPARED)
    found = compare_texts(text, f"new {text}")
    assert not found.complete
    (hunk,) = found.hunks
    assert [piece.text for piece in hunk.copy if piece.changed] == ["new "]


@pytest.mark.parametrize("kept", ["x" * 50_000, numbered(9_000), "漢" * 50_000])
def test_what_is_shown_is_bounded(kept: str) -> None:
    found = compare_texts(kept, kept[::-1].replace("w", "v").replace("漢", "字").replace("x", "y"))
    for hunk in found.hunks:
        for side in (hunk.kept, hunk.copy):
            assert sum(len(piece.text) for piece in side) <= SHOWN
    assert not found.complete


def test_comparison_time_is_bounded() -> None:
    pick = random.Random(1)
    pairs = [
        ("a b " * 5_000, "a b " * 2_500 + "a c " * 2_500),
        (numbered(4_000), numbered(4_000, *range(4_000))),
        tuple("".join(pick.choices("漢字", k=COMPARED)) for _ in range(2)),
        ("a" * COMPARED, "a " * COMPARED),
        ("a " * COMPARED, "a " * 300),
    ]
    begun = time.process_time()
    for kept, copy in pairs:
        compare_texts(kept, copy)
    assert (
        time.process_time() - begun < 5
    )  # 0.15 s where it was written; difflib, for a fifth of the first pair: 5 s


@pytest.mark.parametrize("emoji", ["👩‍👩‍👧‍👦", "🇫🇷", "❤️", "👍🏽", "👩🏽‍🚀"])
def test_an_emoji_of_several_characters_is_one_word(emoji: str) -> None:
    assert TextWords(f"a {emoji}{emoji} b!").words == ["a", emoji, emoji, "b", "!"]
