"""Lines and paragraphs: the kernels equal their slow twins."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import texts

from neardup import reference
from neardup.spec import Spec
from neardup.text.shingle import find_parts, hash_parts, hash_texts, remove_parts

PIECES = ["a b", "A  b!", " ", "\t", "\u00ad", "é", "x" * 30, "\n", "\n\n", "\r\n", "\r", "\u2028"]
lined = st.one_of(texts, st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
units = st.sampled_from(["line", "paragraph"])
lengths = st.sampled_from([1, 2, 3, 20])


def column(found) -> pa.Array:
    return pa.array(found, pa.large_string())


def wanted(text, unit, least):
    """The contents of the parts that count."""
    pieces = [content for _, content in reference.parts(text, unit) if content is not None]
    return [content for content in pieces if reference.visible(content) >= least]


@given(lined)
def test_the_twins_pieces_are_the_text(text):
    for unit in ("line", "paragraph"):
        assert "".join(piece for piece, _ in reference.parts(text, unit)) == text


@given(st.lists(st.one_of(lined, st.none()), max_size=6), units, lengths)
def test_parts_equal_their_twin(found, unit, least):
    got = find_parts(column(found), unit, least)
    data = got.texts.data.tobytes()
    for i, text in enumerate(found):
        mine = slice(got.firsts[i], got.firsts[i + 1])
        contents = [
            data[begin:end].decode()
            for begin, end in zip(got.begins[mine], got.ends[mine], strict=True)
        ]
        assert contents == wanted(text or "", unit, least)
        assert got.counts[i] == len(wanted(text or "", unit, 1))


@given(st.lists(lined, max_size=6), units, lengths)
def test_hashes_of_parts_equal_their_twin(found, unit, least):
    got = find_parts(column(found), unit, least)
    contents = [content for text in found for content in wanted(text, unit, least)]
    raw = [(reference.xxh64(c.encode(), 1), reference.xxh64(c.encode(), 2)) for c in contents]
    assert hash_parts(got, None).tolist() == [list(halves) for halves in raw]
    for spec in (Spec(), Spec(profile="aggressive")):
        sequences = [reference.unit_hashes(reference.units(c, spec), spec) for c in contents]
        twins = [list(reference.content_hash(sequence)) for sequence in sequences]
        assert hash_parts(got, spec).tolist() == twins


@given(st.lists(lined, max_size=6))
def test_hashes_of_texts_equal_their_twin(found):
    twins = [[reference.xxh64(text.encode(), seed) for seed in (1, 2)] for text in found]
    assert hash_texts(column(found)).tolist() == twins


@given(st.lists(lined, max_size=6), units, lengths, st.data())
def test_a_text_without_parts_is_the_rest_of_it(found, unit, least, data):
    parts = find_parts(column(found), unit, least)
    gone = data.draw(st.lists(st.booleans(), min_size=len(parts), max_size=len(parts)))
    flags = iter(gone)
    rest = []
    for text in found:
        pieces = reference.parts(text, unit)
        stays = [
            content is None or reference.visible(content) < least or not next(flags)
            for _, content in pieces
        ]
        rest.append("".join(p for (p, _), stay in zip(pieces, stays, strict=True) if stay))
    assert remove_parts(parts, np.array(gone, np.uint8)).to_pylist() == rest


@given(lined, units, st.data())
def test_remaining_text_has_the_remaining_parts(text, unit, data):
    """Cutting never makes new parts: a second run finds nothing more."""
    parts = find_parts(column([text]), unit, 1)
    gone = data.draw(st.lists(st.booleans(), min_size=len(parts), max_size=len(parts)))
    (left,) = remove_parts(parts, np.array(gone, np.uint8)).to_pylist()
    stayed = [part for part, cut in zip(wanted(text, unit, 1), gone, strict=True) if not cut]
    assert wanted(left, unit, 1) == stayed


def test_slices_of_columns():
    found = column(["zero", "a\nb\n", None, "b\r\nc"])[1:]
    parts = find_parts(found, "line", 1)
    assert parts.counts.tolist() == [2, 0, 2]
    assert remove_parts(parts, np.array([0, 1, 1, 0], np.uint8)).to_pylist() == ["a\n", "", "c"]
    assert len(find_parts(column([]), "paragraph", 1)) == 0
