"""Lines: the kernels equal their slow twins."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import specs, texts

from neardup import kernels, reference
from neardup.keys import make_hasher
from neardup.spec import UNIFYING, Spec
from neardup.text.arrays import view_strings
from neardup.text.characters import character_table, normalise_texts
from neardup.text.lines import hash_lines, ignore_lines

seeds = st.sampled_from([0, 7, 2**64 - 1])
lined = st.one_of(
    texts,
    st.lists(st.sampled_from(["a b", "A  B ", "", "é", "e\u0301", "\u0301", "x" * 70])).map(
        "\n".join
    ),
)
hashes = st.integers(0, 2**64 - 1)


def column(found) -> pa.Array:
    return pa.array(found, pa.large_string())


@given(st.lists(lined, max_size=6), specs, seeds)
def test_line_hashes_equal_their_twin(found, shape, seed):
    spec = Spec.of(shape[0], profile=shape[1], seed=seed)
    got = hash_lines(column(found), spec)
    for i, text in enumerate(found):
        lines = (reference.line_hash(line, spec) for line in text.replace("\r", "\n").split("\n"))
        row = got.data[got.offsets[i] : got.offsets[i + 1]].tolist()
        assert row == [line for line in lines if line is not None]


@given(st.lists(st.one_of(lined, st.none()), max_size=6), specs, seeds, st.data())
def test_ignoring_lines_equals_its_twin(found, shape, seed, data):
    spec = Spec.of(shape[0], profile=shape[1], seed=seed)
    there = sorted(set(hash_lines(column(found), spec).data.tolist()))
    ignored = data.draw(st.sets(st.sampled_from(there))) if there else set()
    ignored |= data.draw(st.sets(hashes, max_size=3))
    got = ignore_lines(column(found), np.array(sorted(ignored), np.uint64), spec)
    assert got.to_pylist() == [
        None if text is None else reference.ignore_lines(text, ignored, spec) for text in found
    ]


def test_slices_of_columns():
    found = column(["zero", "a\nb", None, "b\nc"])[1:]
    ignored = np.unique(hash_lines(column(["b"]), Spec()).data)
    assert ignore_lines(found, ignored, Spec()).to_pylist() == ["a\n", None, "\nc"]
    assert ignore_lines(column([]), ignored, Spec()).to_pylist() == []


@given(st.lists(lined, max_size=5), specs, seeds, st.integers(1, 90))
def test_texts_of_lines_equal_their_twin(found, shape, seed, most):
    spec = Spec.of(shape[0], profile=shape[1], seed=seed)
    want = {
        reference.line_hash(line, spec): reference.whole(reference.normalise(line, spec.profile))
        for text in found
        for line in text.replace("\r", "\n").split("\n")
    }
    want.pop(None, None)
    wanted = np.array(sorted(want), np.uint64)
    plain, table = (
        normalise_texts(view_strings(column(found)), spec.profile),
        character_table(spec.profile),
    )
    data, begins, ends = kernels.line_texts(
        plain.data,
        plain.offsets,
        table.stage1,
        table.stage2,
        spec.profile != "conservative",
        spec.profile in UNIFYING,
        wanted,
        make_hasher(spec, None),
        most,
    )
    for line, begin, end in zip(wanted.tolist(), begins, ends, strict=True):
        assert data[begin:end].tobytes() == want[line].encode()[:most]


@given(st.lists(st.lists(st.one_of(hashes, st.integers(0, 9).map(lambda n: n << 40)))))
def test_distinct_values_of_rows(rows):
    data = np.array([value for row in rows for value in row], np.uint64)
    got, starts = kernels.distinct_rows(data, np.cumsum([0, *map(len, rows)]))
    for row, begin, end in zip(rows, starts[:-1], starts[1:], strict=True):
        assert got[begin:end].tolist() == list(dict.fromkeys(row))


@given(st.lists(st.integers(0, 40).map(lambda n: n << 32 | n * 7), max_size=80), st.integers(0, 9))
def test_line_counters_are_never_too_low(lines, limit):
    table = np.zeros((2, 8), np.uint32)
    kernels.count_lines(np.array(lines, np.uint64), table)
    lower = Counter(line % 8 for line in lines)
    upper = Counter((line >> 32) % 8 for line in lines)
    assert table.tolist() == [
        [lower[slot] for slot in range(8)],
        [upper[slot] for slot in range(8)],
    ]
    got = kernels.lines_above(np.array(lines, np.uint64), table, limit).tolist()
    assert got == [ln for ln in lines if min(lower[ln % 8], upper[(ln >> 32) % 8]) > limit]


def test_a_full_counter_stays_full():
    table = np.full((2, 1), 2**32 - 2, np.uint32)
    kernels.count_lines(np.zeros(3, np.uint64), table)
    assert (table == 2**32 - 1).all()
