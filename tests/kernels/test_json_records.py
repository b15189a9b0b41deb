"""JSON arrays and sequences of objects as JSON lines: the kernel agrees with its slow twin on any
bytes, cut anywhere; and the lines of valid JSON are its records."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.strategies import examples

from neardup import kernels
from neardup.reference.json_records import (
    DONE,
    LOOSE_COMMA,
    NO_COMMA,
    STRAY,
    JsonLines,
)

values = st.recursive(
    st.one_of(st.text(max_size=20), st.integers(), st.booleans(), st.none()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
indents = st.sampled_from([None, 0, 2, "\t", 20])
pieces_of_json = st.lists(
    st.sampled_from(
        [
            *(b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"\n", b" ", b"\r", b"1", b"a" * 9),
            *(b'{"text": "x"}', b'"\\""', b"\xef\xbb\xbf", b"\xff", b" " * 9, b"\x01"),
        ]
    ),
    max_size=30,
).map(b"".join)


def by_kernel(data: bytes, size: int) -> tuple[bytes, int]:
    """The lines, made of blocks of `size` bytes, and the error."""
    state = np.zeros(4, np.int64)
    out = b""
    for start in range(0, len(data), size):
        block = np.frombuffer(data[start : start + size], np.uint8)
        lines, breaks, how, end = kernels.lines_of_json(block, state)
        out += np.insert(lines[:end], breaks, ord("\n")).tobytes()
        if how != DONE:
            return out, how
    return out, DONE


def by_twin(data: bytes) -> JsonLines:
    twin = JsonLines()
    twin.read(data)
    return twin


@given(pieces_of_json, st.integers(1, 40))
@settings(max_examples=examples(150))
@example(b'[1 "a,b"]', 1)
@example(b'{"a":1}{"a":2}\n{"a":3},', 3)
def test_the_kernel_agrees_with_its_twin_on_any_bytes(data: bytes, size: int) -> None:
    twin = by_twin(data)
    assert by_kernel(data, size) == (bytes(twin.lines), twin.error)
    assert len(twin.lines) == len(data) + len(twin.breaks) or twin.error


@given(st.lists(values, max_size=5), indents, st.booleans(), st.integers(1, 50))
@settings(max_examples=examples(100))
def test_the_lines_of_an_array_are_its_elements(
    elements: list[object], indent: int | str | None, ascii: bool, size: int
) -> None:
    data = json.dumps(elements, indent=indent, ensure_ascii=ascii).encode("utf-8", "surrogatepass")
    lines, error = by_kernel(data, size)
    assert not error and len(lines) == len(data)
    assert by_twin(data).is_whole
    assert [json.loads(line) for line in lines.split(b"\n") if line.strip()] == json.loads(data)


@given(st.lists(st.dictionaries(st.text(), values, max_size=3), min_size=1, max_size=5), indents)
@settings(max_examples=examples(100))
def test_the_lines_of_a_sequence_are_its_objects(
    objects: list[object], indent: int | str | None
) -> None:
    for between in (b"", b" ", b"\n", b"\r\n\r\n"):
        data = between.join(json.dumps(one, indent=indent).encode() for one in objects)
        lines, error = by_kernel(data, 7)
        assert not error
        assert [json.loads(line) for line in lines.split(b"\n") if line.strip()] == objects


@pytest.mark.parametrize("text", ['[{"a": [1, "]"]}, 2, "x, y", null]', '{"a": "}"}\n {"b": [{}]}'])
def test_data_that_ends_inside_a_record_or_array_is_not_whole(text: str) -> None:
    data = text.encode()
    assert by_twin(data).is_whole
    if data.startswith(b"["):
        assert not any(by_twin(data[:cut]).is_whole for cut in range(1, len(data)))
    else:
        whole = [cut for cut in range(len(data)) if by_twin(data[:cut]).is_whole]
        assert whole == [0, 10, 11, 12]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"[1, 2] 3", STRAY),
        (b"[] []", STRAY),
        (b"[1}]", DONE),  # the element is "1}", for the reader of lines to reject
        (b"[{}}]", STRAY),
        (b"[{} {}]", NO_COMMA),
        (b"[1,, 2]", LOOSE_COMMA),
        (b"[,1]", LOOSE_COMMA),
        (b"[1, ]", LOOSE_COMMA),
        (b'{"a": 1}, {"a": 2}', LOOSE_COMMA),
    ],
)
def test_what_is_between_records_is_checked(data: bytes, error: int) -> None:
    assert by_kernel(data, 100)[1] == error
