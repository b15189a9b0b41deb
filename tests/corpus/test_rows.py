"""Another text in a row, everything else as it is."""

from __future__ import annotations

import csv
import io
import json
from itertools import repeat

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.corpus.rows import edit_line, edit_record, edit_strings

json_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
long_text = st.text(st.sampled_from('ab"\\\n\x00\x7féあ。😀'), max_size=60)
names = st.one_of(st.sampled_from(["text", "id", 'te"xt', "te\\xt", "é"]), json_text)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), json_text),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(names, values, max_size=5), names, json_text, json_text, st.booleans())
def test_a_field_of_a_line_is_replaced(record, field, old, new, ascii_only):
    record[field] = old
    line = json.dumps(record, ensure_ascii=ascii_only).encode()
    got = edit_line(line, field, new)
    assert json.loads(got) == record | {field: new}
    assert list(json.loads(got)) == list(record)
    assert got.isascii() or not line.isascii()


@given(
    st.lists(
        st.tuples(st.dictionaries(names, values, max_size=4), json_text | long_text, st.booleans())
    )
)
def test_kernel_equals_the_python_edit(found):
    lines = [
        json.dumps(record | {"text": "old " * 3}, ensure_ascii=ascii_only).encode() + b"\n"
        for record, _, ascii_only in found
    ]
    ends = np.cumsum([0, *map(len, lines)])
    texts = [text for _, text, _ in found]
    got = edit_strings(
        b"".join(lines), ends[:-1], ends[1:], "text", pa.array(texts, pa.large_string())
    )
    assert got == b"".join(map(edit_line, lines, repeat("text"), texts))


def test_the_rest_of_a_line_stays_byte_for_byte():
    line = ' { "id" : 1.50,\t"text":"a\\u00e9\\n" ,"b":{"text":"x"}, "c":["text","\\"{"]}\r\n'
    assert edit_line(line.encode(), "text", "é").decode() == line.replace(
        '"a\\u00e9\\n"', '"\\u00e9"'
    )
    assert edit_line(b'\xef\xbb\xbf{"text":"a"}', "text", "b") == b'\xef\xbb\xbf{"text":"b"}'
    # Of two fields of one name the last one counts, here as when it is read.
    assert edit_line(b'{"text":"a","text":"a"}', "text", "b") == b'{"text":"a","text":"b"}'
    assert edit_line(b'{"te\\u0078t":"a"}', "text", "b") == b'{"te\\u0078t":"b"}'


cells = st.text(st.sampled_from("ab,\t\"' \né\r"), max_size=8)


@pytest.mark.parametrize("delimiter", [",", "\t"])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r", ""])
@given(
    row=st.lists(cells, min_size=2, max_size=4),
    place=st.integers(0, 1),
    new=cells,
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_a_field_of_a_record_is_replaced(row, place, new, quoting, delimiter, ending):
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, quoting=quoting).writerow(row)
    record = out.getvalue().removesuffix("\r\n") + ending
    got = edit_record(record, place, delimiter, new)
    assert got.endswith(ending)
    (found,) = csv.reader([got], delimiter=delimiter, strict=True)
    assert found == [*row[:place], new, *row[place + 1 :]]


def test_the_rest_of_a_record_stays_byte_for_byte():
    assert edit_record('"1", a ,"old",x"y\r\n', 2, ",", 'n"w') == '"1", a ,"n""w",x"y\r\n'
    assert edit_record("old\t1\n", 0, "\t", "a,b") == "a,b\t1\n"
    assert edit_record("1,old", 1, ",", "two\nlines") == '1,"two\nlines"'
