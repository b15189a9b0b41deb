"""The quick reader of JSON lines: where it is sure, it agrees with orjson; and it is sure of
usual lines."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import examples

from neardup import kernels

KEYS = [b"text", b"id"]
strings = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30)
plain = st.one_of(
    strings,
    st.integers(-(10**20), 10**20),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False, allow_infinity=False),
)
values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3)
)
dumps = st.sampled_from(
    [
        lambda v: json.dumps(v, ensure_ascii=False).encode(),
        lambda v: json.dumps(v).encode(),
        lambda v: json.dumps(v, separators=(" , ", "\t:  ")).encode(),
        lambda v: b" " + json.dumps(v, separators=(",", ":")).encode() + b" \r",
    ]
)


def read(data: bytes):
    """(texts, ids) of all lines, or None if the kernel is not sure."""
    parts = [np.frombuffer(part, np.uint8) for part in (data, *KEYS)]
    sure, texts, text_ends, ids, id_ends, has_id = kernels.read_records(*parts)
    if not sure:
        return None
    found = [
        [flat.tobytes()[a:b].decode() for a, b in pairwise(ends)]
        for flat, ends in ((texts, text_ends), (ids, id_ends))
    ]
    return found[0], [i if yes else None for i, yes in zip(found[1], has_id, strict=True)]


def by_library(data: bytes):
    lines = [line for line in data.split(b"\n") if line.strip(b" \t\r")]
    records = [orjson.loads(line) for line in lines]
    assert all(isinstance(record, dict) for record in records)
    ids = [record.get("id") for record in records]
    assert all(isinstance(record["text"], str) for record in records)
    assert all(i is None or type(i) in (str, int) for i in ids)
    return [r["text"] for r in records], [None if i is None else str(i) for i in ids]


@given(
    st.lists(
        st.tuples(
            strings,
            st.one_of(strings, st.integers(-(10**18) + 1, 10**18 - 1), st.none()),
            st.dictionaries(st.text("abc", max_size=3), values, max_size=3),
            dumps,
        ),
        max_size=4,
    ),
    st.sampled_from([b"", b" " * 64]),
)
def test_usual_lines_are_read(rows, rest):
    lines = [dump({"id": id, **more, "text": text}) for text, id, more, dump in rows]
    data = b"\n".join(lines) + b"\n\n \n" + rest  # what is left is read in blocks of 64 bytes
    got = read(data)
    exponents = any(sign in repr(more) for _, _, more, _ in rows for sign in ("e+", "e-"))
    if got is None:
        assert exponents, "only numbers with an exponent may be left to orjson here"
    else:
        assert got == by_library(data)


@given(st.lists(st.tuples(values, values, dumps), max_size=3))
def test_accepted_lines_equal_the_json_library(rows):
    lines = [dump({"text": text, "id": id}) for text, id, dump in rows]
    data = b"\n".join(lines)
    got = read(data)
    if got is not None:
        assert got == by_library(data)


LINE = (
    b'{"id": "a1", "text": "line\\nbreak \\u00e9\\ud83d\\ude00 \xc3\xa9", '
    b'"n": [1, -2.5, {"k": null}], "ok": true, "no": false, "z": {}, "y": []}'
)


@settings(max_examples=examples(300))
@given(
    st.integers(0, len(LINE)),
    st.integers(0, 3),
    st.one_of(
        st.binary(max_size=3),
        st.sampled_from(
            [
                b'"',
                b"\\",
                b"\\u",
                b"{",
                b"}",
                b"[",
                b"]",
                b",",
                b":",
                b"0",
                b"-",
                b".",
                b"e",
                b"\n",
                b"\xc3",
                b"\xed\xa0\x80",
                b"\\ud800",
                b"\x00",
                b"null",
                b'"id":1,',
                b'"text":"x",',
            ]
        ),
    ),
)
def test_damaged_lines_are_never_misread(at, removed, inserted):
    damaged = LINE[:at] + inserted + LINE[at + removed :]
    for data in (damaged, damaged + b"\n" + LINE, LINE + b"\n" + damaged + b"\n"):
        got = read(data)
        if got is not None:
            assert got == by_library(data)


def test_the_undamaged_line_is_read():
    assert read(LINE) == by_library(LINE) == (["line\nbreak é😀 é"], ["a1"])


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b'"text"',
        b"{}",
        b'{"id": 1}',
        b'{"text": 1}',
        b'{"text": null}',
        b'{"text": ["a"]}',
        b'{"text": "a"} x',
        b'{"text": "a"',
        b'{"text": "a',
        b'{"text": "a\x01"}',
        b'{"text": "\\x"}',
        b'{"text": "\\ud800"}',
        b'{"text": "\\ud800\\u0041"}',
        b'{"text": "\xff"}',
        b'{"text": "\xc3"}',
        b'{"text": "\xed\xa0\x80"}',
        b'{"text": "\xf5\x80\x80\x80"}',
        b'{"text": "\xc0\x80"}',
        b'{"text": "a", "id": 1.5}',
        b'{"text": "a", "id": true}',
        b'{"text": "a", "id": {}}',
        b'{"text": "a", "text": "b"}',
        b'{"te\\u0078t": "a"}',
        b'{"text": "a", "n": 01}',
        b'{"text": "a", "n": -}',
        b'{"text": "a", "n": 1.}',
        b'{"text": "a", "n": NaN}',
        b'{"text": "a", "n": tru}',
        b'{"text": "a",}',
        b'{"text": "a" "b": 1}',
        b'{"text": "a", "n": [1,]}',
        b'{"text": "a", "n": [1}',
        b'{"text": "a", "id": -0}',
        b'{"text" "a"}',
        b"{'text': 'a'}",
        b'{"text": "a", "id": 1234567890123456789}',
        b'{"text": "a", "id": "x", "id": null}',
    ],
)
def test_unusual_lines_are_left_to_the_library(line):
    assert read(line) is None


def test_an_empty_block_has_no_records():
    assert read(b"") == read(b"\n \n\r\n") == ([], [])


@given(st.lists(st.binary(max_size=150), max_size=9))
def test_lines_end_after_their_newlines(lines):
    for data in (b"\n".join(lines), b"\n".join([*lines, b""])):
        ends = [at + 1 for at, byte in enumerate(data) if byte == ord("\n")]
        ends += [len(data)] if data and not data.endswith(b"\n") else []
        assert kernels.line_ends(np.frombuffer(data, np.uint8)).tolist() == ends
