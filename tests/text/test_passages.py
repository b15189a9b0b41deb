"""The passages that two texts have in common: all of them, exactly, wherever they are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import examples

from neardup import common_passages
from neardup.errors import ParameterError
from neardup.text import passages

WORDS = st.lists(st.sampled_from("abc"), max_size=14)


def longest_runs(a: list[str], b: list[str]) -> list[int]:
    """For each word of `a` the longest run from it on that `b` has, by trying all."""
    joined = f" {' '.join(b)} "
    return [
        max(n for n in range(len(a) - i + 1) if n == 0 or f" {' '.join(a[i : i + n])} " in joined)
        for i in range(len(a))
    ]


@settings(max_examples=examples(60))
@given(WORDS, WORDS, st.integers(1, 4))
def test_every_common_run_counts_and_listed_ones_are_in_both_texts(a, b, least):
    first, second = " ".join(a), " ".join(b)
    found = common_passages(first, second, least=least, most=20)
    for own, other, covered in ((a, b, found.covered[0]), (b, a, found.covered[1])):
        runs = longest_runs(own, other)
        inside = {at + k for at, n in enumerate(runs) if n >= least for k in range(n)}
        assert len(inside) == covered
    places = []
    for one in found.listed:
        assert one.text == first[one.first.start : one.first.stop]
        assert one.text == second[one.second.start : one.second.stop]
        assert len(one.text.split()) == one.words >= least
        assert first[: one.first.start].split() == a[: one.first.word - 1]
        places += range(one.first.word, one.first.word + one.words)
    assert len(places) == len(set(places)) <= found.covered[0]
    sizes = [one.words for one in found.listed]
    assert sizes == sorted(sizes, reverse=True)
    assert max(longest_runs(a, b), default=0) in (sizes[:1] or range(least))


def test_a_copied_passage_is_found_across_case_punctuation_and_line_ends():
    copied = "the ordering of the objects for all standard messages is given below"
    essay = f"My own first words. {copied.upper().replace(' ', chr(10))}! And my last ones."
    found = common_passages(essay, f"RFC 2961: {copied}; MORE")
    (one,) = found.listed
    assert (one.words, one.first.word, one.second.word) == (12, 5, 3)
    assert found.covered == (12, 12) and found.words == (20, 15)


def test_scripts_without_spaces_are_compared_by_character():
    (one,) = common_passages("\u6587\u5b57\u5217\u6bd4\u8f03", "\u5b57\u5217\u6bd4", least=3).listed
    assert one.text == "\u5b57\u5217\u6bd4"


def test_long_texts_are_compared_up_to_a_limit_that_is_told(monkeypatch):
    monkeypatch.setattr(passages, "COMPARED", 10)
    assert common_passages("a " * 10, "a " * 10).complete
    found = common_passages("a " * 11, "a " * 10)
    assert not found.complete and found.words == (10, 10)


def test_empty_texts_and_wrong_values():
    assert common_passages("", "a b c", least=1).shares == (0.0, 0.0)
    for wrong in ({"least": 0}, {"most": -1}, {"least": 1.5}):
        with pytest.raises(ParameterError, match="must be a whole number of at least"):
            common_passages("a", "a", **wrong)
