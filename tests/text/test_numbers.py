"""The numbers of texts, as the definition has them."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import texts

from neardup import reference
from neardup.reference.text import digit_value, unicode_tables
from neardup.spec import PROFILES
from neardup.text.numbers import find_numbers


def found_in(several: list[str | None], profile: str) -> list[list[str]]:
    rows = find_numbers(pa.array(several, pa.large_string()), profile)
    ends = rows.offsets.tolist()
    return [rows.data[begin:end].tobytes().decode("ascii").split() for begin, end in pairwise(ends)]


@given(st.lists(texts, max_size=8), st.sampled_from(PROFILES))
def test_kernel_finds_the_numbers_of_the_definition(several: list[str], profile: str) -> None:
    assert found_in(several, profile) == [reference.numbers(text, profile) for text in several]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("H.R. 2864 and H.R. 873", ["2864", "873"]),
        ("1.05 is not 1.5", ["1", "05", "1", "5"]),
        ("2,864 is two numbers", ["2", "864"]),
        ("on 2024-01-31 at 7:05", ["2024", "01", "31", "7", "05"]),
        ("v2beta10x", ["2", "10"]),
        ("١٢٣ १२३ １２３ 𝟙𝟚𝟛", ["123"] * 4),
        ("a soft hyphen, 28\u00ad64, and a joiner, 28\u200d64", ["2864", "2864"]),
        ("x² and ½ and Ⅷ", []),
        ("none", []),
        ("", []),
    ],
)
def test_a_number_is_a_run_of_decimal_digits(text: str, numbers: list[str]) -> None:
    assert reference.numbers(text, "standard") == numbers
    assert found_in([text], "standard") == [numbers]


def test_digits_that_the_aggressive_profile_folds_are_still_told_apart() -> None:
    assert found_in(["bill 12", "bill 34", "x²", None], "aggressive") == [["12"], ["34"], ["2"], []]


def test_the_value_of_every_decimal_digit_is_that_of_python() -> None:
    """Characters newer than Python's own tables have no value there."""
    digits = [code for code, kind in unicode_tables().kind.items() if kind == "N"]
    assert len(digits) > 600
    assert all(digit_value(code) == int(chr(code)) for code in digits)
