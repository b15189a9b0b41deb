"""Masks: what they match, kernel and reference alike."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import texts

from neardup import reference
from neardup.errors import ParameterError
from neardup.reference.masks import MASKS as RULES
from neardup.spec import MASKS, Spec, join_masks
from neardup.text.masks import mask_texts

ALL = ",".join(MASKS)
PIECES = [
    *("1", "12", "2024", "-01-02", "/3/", ".", ",", ":", "'", "10:30", ":05", "T", "Z", "+01:00"),
    *("pm", "a.m.", "jan", "March", "may", "3rd", "sun", "Friday", "年", "月", "日", "3월", "12일"),
    *("http://", "https://", "www.", "x.com", "/", "?", ")", "].", "@", "a@b.co", "b-c.de", "_"),
    *("%", "+", "é", "e\u0301", "一", "٣", "\u0660\u0661", "１２", "\xa0", "\u00ad", "\n", " "),
    *("mp3", "UTC", "23", "59", "31.12.24", "#a", "Sept", "ſ", "K"),
]
dense = st.lists(st.sampled_from(PIECES), max_size=9).map("".join)


def masked(text: str, *masks: str) -> str:
    return mask_texts(pa.array([text], pa.large_string()), join_masks(masks))[0].as_py()


@given(
    st.lists(st.one_of(dense, texts), max_size=5),
    st.sets(st.sampled_from(MASKS), min_size=1),
)
def test_kernel_masks_as_the_definition_does(several: list[str], masks: set[str]) -> None:
    found = mask_texts(pa.array(several, pa.large_string()), join_masks(masks)).to_pylist()
    assert found == [reference.mask(text, masks) for text in several]


def test_every_mask_has_its_rule() -> None:
    assert sorted(rule.name for rule in RULES) == list(MASKS)


@pytest.mark.parametrize(
    "date",
    [
        "2024-03-12",
        "2024/3/12",
        "12.03.2024",
        "12.03.24",
        "3/12/24",
        "12-3-2024",
        "12 March 2024",
        "12th Mar, 2024",
        "12-Mar-2024",
        "March 12",
        "March 12th, 2024",
        "Sept 2024",
        "Fri, 20 Nov 2026 00:32:54 UTC",
        "Friday, March 12",
        "Fri Nov 20 00:32:54 2026",
        "2024-03-12T10:30:05.123Z",
        "2024-03-12 10:30+01:00",
        "10:30",
        "10:30:05",
        "10:30 pm",
        "7:05 a.m.",
        "2024年3月12日",
        "3月12日",
        "2024년 3월 12일",
        "٢٠٢٤-٠٣-١٢",
        "２０２４/０３/１２",
    ],
)
def test_dates_and_times(date: str) -> None:
    assert masked(f"on {date}, it", "dates") == reference.mask(f"on {date}, it", {"dates"})
    assert masked(f"on {date}, it", "dates") == "on _date_, it"
    assert masked(date, "dates") == "_date_"


@pytest.mark.parametrize(
    "text",
    ["12 markets", "sun 5", "chapter 12", "1.2.34", "10.0.12.1", "25:00", "2024-13-41", "a10:30"],
)
def test_what_is_no_date(text: str) -> None:
    assert masked(text, "dates") == text


@pytest.mark.parametrize(
    ("mask", "text", "result"),
    [
        ("numbers", "page 3 of 1,234.50", "page _number_ of _number_"),
        ("numbers", "第3页, ٣ and 12k", "第_number_页, _number_ and _number_k"),
        ("numbers", "mp3 a_1 x1.5 192.168.0.1", "mp3 a_1 x1._number_ _number_"),
        ("urls", "(see HTTPS://x.org/a?b=1#c).", "(see _url_)."),
        ("urls", "www.x.org/a, ftp://y，http://", "_url_, _url_，http://"),
        ("urls", "see x.org and awww.x.org", "see x.org and awww.x.org"),
        ("emails", "<Ann.B+tag@mail.x-y.org>, a@b", "<_email_>, a@b"),
        ("emails", "a@b.com으로", "_email_으로"),
        ("urls,emails", "https://a@b.com/ a@b.com", "_url_ _email_"),
        (ALL, "2024-01-02 3 a5@b.com www.4.de", "_date_ _number_ _email_ _url_"),
    ],
)
def test_what_each_mask_replaces(mask: str, text: str, result: str) -> None:
    assert masked(text, mask) == reference.mask(text, mask.split(",")) == result


def test_nulls_slices_and_nothing() -> None:
    several = pa.array(["x 1", None, "22", ""], pa.large_string())
    assert mask_texts(several, "numbers").to_pylist() == ["x _number_", None, "_number_", ""]
    assert mask_texts(several[2:], "numbers").to_pylist() == ["_number_", ""]
    assert mask_texts(several[:0], ALL).to_pylist() == []
    assert mask_texts(several, "") is several


@pytest.mark.parametrize(
    "piece",
    [
        "a-",
        "a.",
        "1.",
        "1-",
        "1 ",
        "a@",
        "a@b.",
        "http://",
        "www.",
        "Jan ",
        "10:",
        "é",
        "1月",
        "%+",
    ],
)
def test_no_text_takes_more_than_linear_time(piece: str) -> None:
    def seconds(count: int) -> float:
        column = pa.array([piece * count], pa.large_string())
        began = time.perf_counter()
        mask_texts(column, ALL)
        return time.perf_counter() - began

    seconds(10)
    assert seconds(500_000) < 1.0


@pytest.mark.parametrize("wrong", ["number", "dates;urls", 5, ["x"]])
def test_unknown_masks_are_refused(wrong: object) -> None:
    with pytest.raises(ParameterError, match="not known"):
        join_masks(wrong)  # type: ignore[arg-type]


def test_a_specification_states_masks_in_one_order() -> None:
    assert Spec(mask="dates,urls").stated["mask"] == "dates,urls"
    with pytest.raises(ParameterError, match="write dates,urls"):
        Spec(mask="urls,dates")
    with pytest.raises(ParameterError, match="has no text"):
        Spec(unit="token", mask="urls")
