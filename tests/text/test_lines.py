"""Frequent lines are found exactly, whatever the batches, their order and the table's size."""

from __future__ import annotations

import pickle
import threading
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup import reference
from neardup.errors import FormatError, SpecMismatch, UsageError
from neardup.spec import PROFILES, Spec
from neardup.text.lines import IgnoredLines, LineCounts, require_ignored_lines

LINES = [f"line {i}" for i in range(9)] + ["LINE  1", "", " ", "été", "e\u0301té"]
documents = st.lists(st.lists(st.sampled_from(LINES), max_size=6).map("\n".join), max_size=30)
shares = st.builds(Fraction, st.integers(1, 99), st.just(100))


def column(found) -> pa.Array:
    return pa.array(found, pa.large_string())


def found_in(batches, share, spec, slots=4) -> IgnoredLines:
    counts = LineCounts(spec, slots)
    for batch in batches:
        counts.add(column(batch))
    frequent = counts.above(share)
    for batch in batches:
        frequent.add(column(batch))
    return frequent.freeze()


@given(documents, shares, st.sampled_from(PROFILES))
def test_ignored_lines_equal_counting_by_brute_force(found, share, profile):
    spec = Spec(profile=profile)
    got = found_in([found], share, spec)
    want = reference.frequent_lines(found, share, spec)
    assert dict(zip(got.hashes.tolist(), got.counts.tolist(), strict=True)) == want
    assert got.hashes.tolist() == sorted(want)
    for line, sample in zip(got.hashes.tolist(), got.samples, strict=True):
        assert reference.line_hash(sample, spec) == line


@given(documents, shares, st.randoms(), st.integers(1, 7), st.sampled_from([1, 4, 1024]))
def test_ignored_lines_do_not_depend_on_batches_order_or_slots(found, share, random, size, slots):
    whole = found_in([found], share, Spec())
    shuffled = random.sample(found, len(found))
    batches = [shuffled[at : at + size] for at in range(0, len(found), size)]
    assert found_in(batches, share, Spec(), slots).to_bytes() == whole.to_bytes()


@given(documents, documents, shares)
def test_merged_counts_equal_counting_at_once(left, right, share):
    parts = [LineCounts(Spec(), 8), LineCounts(Spec(), 8)]
    for part, found in zip(parts, (left, right), strict=True):
        part.add(column(found))
    parts[0].merge(pickle.loads(pickle.dumps(parts[1])))
    passes = [parts[0].above(share), pickle.loads(pickle.dumps(parts[0].above(share)))]
    for one, found in zip(passes, (left, right), strict=True):
        one.add(column(found))
    passes[1].merge(passes[0])
    assert passes[1].freeze().to_bytes() == found_in([left + right], share, Spec()).to_bytes()


def test_counts_of_threads_are_not_lost():
    batches = [column([f"shared\nown {t} {i}" for i in range(200)]) for t in range(8)]

    def by_threads(add) -> None:
        threads = [threading.Thread(target=add, args=(batch,)) for batch in batches]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    counts = LineCounts(Spec())
    by_threads(counts.add)
    frequent = counts.above(Fraction(1, 2))
    by_threads(frequent.add)
    assert frequent.freeze().most_frequent() == [("shared", 1600)]


def test_a_frequent_line_is_in_more_than_the_share_and_in_two_documents():
    found = ["a\nx", "a\nb", "b\nc", "d"]
    assert [line for line, _ in found_in([found], Fraction(1, 4), Spec()).most_frequent()] == [
        "a",
        "b",
    ]
    assert not len(found_in([found], Fraction(2, 4), Spec()))
    assert not len(found_in([["a\na\na", "b"]], Fraction(1, 10), Spec()))


def test_documents_without_lines_do_not_count():
    found = ["a", "a", "b", None, "", " \n "]
    assert found_in([found], Fraction(1, 2), Spec()).most_frequent() == [("a", 2)]


def test_samples_are_cut():
    long = "Ä" * 300
    assert found_in([[long, long]], Fraction(1, 2), Spec()).samples == ("ä" * 200,)


def test_lines_of_pages_are_those_that_they_show():
    pages = [f"<p class={i}>banner<p>{i}" for i in range(3)]
    assert found_in([pages], Fraction(1, 2), Spec(strip="html")).most_frequent() == [("banner", 3)]


def test_passes_over_different_documents_are_refused():
    counts = LineCounts(Spec())
    counts.add(column(["a", "b"]))
    frequent = counts.above(Fraction(1, 2))
    frequent.add(column(["a"]))
    with pytest.raises(UsageError, match="of 2 documents were counted, then of 1"):
        frequent.freeze()
    with pytest.raises(SpecMismatch, match="seed"):
        counts.merge(LineCounts(Spec(seed=1)))


@given(documents, shares)
def test_bytes_round_trip(found, share):
    ignored = found_in([found], share, Spec())
    again = IgnoredLines.from_bytes(ignored.to_bytes())
    assert again.to_bytes() == ignored.to_bytes()
    assert (again.digest, again.samples) == (ignored.digest, ignored.samples)
    assert again.documents == ignored.documents


def test_altered_bytes_are_refused():
    data = found_in([["a\nb\nc"] * 3], Fraction(1, 2), Spec()).to_bytes()
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        for bad in (bytes(changed), data[:at]):
            with pytest.raises(FormatError):
                IgnoredLines.from_bytes(bad)
    with pytest.raises(FormatError):
        IgnoredLines.from_bytes(data + b"x")


def test_another_list_than_that_of_the_specification_is_refused():
    ignored = found_in([["a", "a"]], Fraction(1, 2), Spec())
    assert IgnoredLines().digest == ""
    require_ignored_lines(Spec(ignored=ignored.digest), ignored)
    with pytest.raises(SpecMismatch, match="pass the list"):
        require_ignored_lines(Spec(), ignored)
    with pytest.raises(SpecMismatch, match="the given list is empty"):
        require_ignored_lines(Spec(ignored=ignored.digest), IgnoredLines())


def test_the_digest_follows_docs_format():
    ignored = found_in([["we use cookies", "We use  cookies"]], Fraction(1, 2), Spec())
    assert ignored.hashes.dtype == np.uint64
    assert f"{ignored.hashes[0]:016x}" == "94975cd6063abe13"
    assert ignored.digest == "3ffeb7fceb72424546a31293db5e4fc2"
