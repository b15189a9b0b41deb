"""Cold postings: segments on disk answer as a dict would; damage is an error."""

from __future__ import annotations

import resource
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import examples

from neardup.errors import FormatError, OutputError, ParameterError
from neardup.index import segment
from neardup.index.cold import MOST_SEGMENTS, Segments, merge_segments
from neardup.index.postings import Postings
from neardup.index.segment import PAGE, Segment
from neardup.reference import filters as slow

TABLES = 2
ALL = 2**31 - 1
NONE = np.empty(0, np.uint8)
"""Nobody is dead."""
keys = st.integers(0, 5) | st.sampled_from([2**63, 2**64 - 1])
# Runs of numbers: some buckets are longer than a page of 340, or than two.
runs = st.tuples(keys, st.integers(0, 900), st.sampled_from([1, 3, 50, 340, 700]))
spills = st.lists(st.lists(runs, max_size=6), min_size=TABLES, max_size=TABLES)
deaths = st.sets(st.integers(0, 1200)) | st.just(set(range(0, 1200, 3)))
limits = st.sampled_from([0, 1, 2, 100, 340, 341, 1000, ALL])


def postings(runs: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """The last run first, and each one twice, if it is short: order and repeats don't matter."""
    found = [(key, first + i) for key, first, count in reversed(runs) for i in range(count)]
    return found + found[:50]


def arrays(spill: list[list[tuple[int, int]]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for table in spill:
        yield (
            np.array([key for key, _ in table], np.uint64),
            np.array([number for _, number in table], np.uint32),
        )


def random_tables(count: int, seed: int, first: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    source = np.random.default_rng(seed)
    numbers = np.arange(first, first + count, dtype=np.uint32)
    return [(source.integers(0, 2**64, count, np.uint64), numbers) for _ in range(TABLES)]


def asked(values: list[tuple[int, ...]]) -> np.ndarray:
    return np.array(values, np.uint64).reshape(-1, TABLES)


def filled(spills: list[list[list[tuple[int, int]]]]) -> list[dict[int, list[int]]]:
    """The twin of each table."""
    held = [defaultdict(set) for _ in range(TABLES)]
    for spill in spills:
        for buckets, table in zip(held, spill, strict=True):
            for key, number in table:
                buckets[key].add(number)
    return [{key: sorted(numbers) for key, numbers in buckets.items()} for buckets in held]


@settings(deadline=None)
@given(
    st.lists(spills, max_size=4),
    spills,
    st.lists(st.tuples(*[keys] * TABLES), max_size=5),
    limits,
    deaths,
    st.sampled_from(["", "merge", "open", "refresh"]),
    st.sampled_from([1, 2, 100]),
)
def test_segments_answer_as_dicts_do(given_spills, warm, wanted, limit, dead, then, at_once):
    spilled = [[postings(table) for table in spill] for spill in given_spills]
    memory = Postings(TABLES)
    in_memory = [postings(table) for table in warm]
    for table, (held, numbers) in zip(memory.tables, arrays(in_memory), strict=True):
        table.put(held, numbers)
    marks = np.isin(np.arange(2000), list(dead)).astype(np.uint8)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment, "BLOCK_PAGES", at_once)
        patch.setattr(segment, "STRIDE", at_once)
        patch.setattr(segment, "AT_ONCE", at_once)
        cold, reader = Segments(Path(folder)), Segments(Path(folder), read_only=True)
        for spill in spilled:
            cold.add(arrays(spill))
        if then == "merge":
            assert cold.merge(marks, everything=True) == bool(spilled)
            assert len(cold) == bool(spilled)
            living = [
                sum(number not in dead for number in held)
                for twin in filled(spilled)
                for held in twin.values()
            ]
            assert np.repeat(*cold.sizes(TABLES)).tolist() == sorted(filter(None, living))
        elif then == "open":
            cold = Segments(Path(folder), len(spilled))
        elif then == "refresh":
            reader.refresh(cold.last)
            cold = reader
        found = cold.find(asked(wanted), marks, limit)
        second = cold.find(asked(wanted)[:, 1:], marks, limit, 1)
        both = cold.find(asked(wanted), marks, limit, 0, memory.find(asked(wanted), marks, limit))
        cold.verify()
    twins, all_twins = filled(spilled), filled([*spilled, in_memory])
    assert listed(found) == expected(twins, wanted, dead, limit)
    assert listed(both) == expected(all_twins, wanted, dead, limit)
    assert listed(second) == expected(twins[1:], [keys[1:] for keys in wanted], dead, limit)


def listed(found: tuple[np.ndarray, np.ndarray, np.ndarray]) -> list[list[list[int]]]:
    """For each table, and each who asked, the numbers."""
    counts, rows, numbers = found
    assert numbers.dtype == np.uint32
    assert rows.tolist() == [
        row for table in counts.tolist() for row, count in enumerate(table) for _ in range(count)
    ]
    rest = iter(numbers.tolist())
    return [[[next(rest) for _ in range(count)] for count in table] for table in counts.tolist()]


def expected(twins, wanted, dead, limit) -> list[list[list[int]]]:
    return [
        [slow.find_postings(twin, row[table], dead, limit) for row in wanted]
        for table, twin in enumerate(twins)
    ]


@settings(deadline=None, max_examples=examples(30))
@given(spills, st.integers(0, TABLES))
def test_segment_counts_postings_and_buckets(given_runs, first_tables):
    spill = [postings(table) for table in given_runs]
    with tempfile.TemporaryDirectory() as folder:
        cold = Segments(Path(folder))
        spilled = cold.add(arrays(spill), made="for this test")
        sizes, counts = cold.sizes(first_tables)
        on_disk = sum(path.stat().st_size for path in Path(folder).iterdir())
    held = [[len(bucket) for bucket in twin.values()] for twin in filled([spill])]
    assert spilled.note == {"made": "for this test"}
    assert cold.postings == spilled.postings == sum(map(sum, held))
    assert cold.buckets == spilled.buckets == sum(map(len, held))
    assert cold.disk_bytes == spilled.disk_bytes == on_disk
    assert np.repeat(sizes, counts).tolist() == sorted(chain(*held[:first_tables]))


def test_memory_and_disk_for_a_posting(tmp_path):
    written = Segment.write(tmp_path / "cold", random_tables(100_000, 1))
    assert written.nbytes < 1.3 * written.postings
    assert written.disk_bytes < 13.5 * written.postings


def test_missing_keys_rarely_read_a_page(tmp_path, monkeypatch):
    written = Segment.write(tmp_path / "cold", random_tables(100_000, 1))
    read = []
    pages = Segment._read
    monkeypatch.setattr(
        Segment, "_read", lambda self, firsts, n: read.extend(firsts) or pages(self, firsts, n)
    )
    rows = np.random.default_rng(2).integers(0, 2**64, (20_000, TABLES), np.uint64)
    assert len(written.find(rows, NONE, 10)[0]) == 0
    # 1 % of 40,000, with seven standard deviations.
    assert abs(len(read) - 400) < 7 * 20


def test_find_reads_pages_up_to_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(segment, "AT_ONCE", 3)
    bucket = (np.full(2000, 7, np.uint64), np.arange(2000, dtype=np.uint32))
    written = Segment.write(tmp_path / "cold", [bucket, *random_tables(10, 1)[:1]])
    read = []
    pages = Segment._read
    monkeypatch.setattr(
        Segment,
        "_read",
        lambda self, firsts, n: read.append(list(firsts)) or pages(self, firsts, n),
    )
    cells, numbers = written.find(asked([(7, 0)] * 4), NONE, 400)
    assert np.bincount(cells).tolist() == [400] * 4
    assert np.unique(numbers).tolist() == list(range(400))
    assert read == [[0], [1]] * 2, "three keys at once, then the fourth one"
    dead = (np.arange(2000) < 1999).astype(np.uint8)
    assert written.find(asked([(7, 0)]), dead, 2)[1].tolist() == [1999]


def test_merged_segments_give_the_same_answers(tmp_path):
    cold = Segments(tmp_path)
    spilled = [random_tables(20, seed, 20 * seed) for seed in range(100)]
    most, written = 0, 0
    for tables in spilled:
        cold.add(tables)
        before = cold._open
        if cold.merge(NONE):
            written += sum(part.postings for span, part in cold._open.items() if span not in before)
        most = max(most, len(cold))
    assert most == MOST_SEGMENTS
    assert written < 3 * cold.postings, "large ones are not written again for each small one"
    again = Segments(tmp_path, 100)
    assert len(again) == len(cold) and again.last == 100
    for tables in spilled:
        found = again.find(np.stack([keys for keys, _ in tables], 1), NONE, 1)[2]
        assert found.tolist() == tables[0][1].tolist() * TABLES
    again.clear()
    assert len(again) == again.last == 0 and list(tmp_path.iterdir()) == []


def test_a_merge_that_was_cut_off(tmp_path):
    cold = Segments(tmp_path)
    for seed in range(3):
        cold.add(random_tables(10, seed))
    parts = list(cold._open.values())[1:]
    merge_segments(parts, tmp_path / "cold-000002-000003-1", NONE)  # its parts are still there
    (tmp_path / ".cold-000001-000003-2.tmp").write_bytes(b"ndblock1")
    (tmp_path / "other").write_bytes(b"is not ours")
    Segments(tmp_path, read_only=True)
    assert len(list(tmp_path.iterdir())) == 6, "who only reads leaves everything as it is"
    again = Segments(tmp_path, 3)
    assert again.postings == cold.postings
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "cold-000001-000001-0",
        "cold-000002-000003-1",
        "other",
    ]


@pytest.mark.parametrize(
    ("gone", "missed"), [(1, "000001-000001"), (2, "000002-000002"), (3, "000003-000003")]
)
def test_missing_segment_is_an_error(tmp_path, gone, missed):
    cold = Segments(tmp_path)
    for seed in range(3):
        cold.add(random_tables(10, seed))
    (tmp_path / f"cold-{gone:06}-{gone:06}-0").unlink()
    with pytest.raises(FormatError, match=f"cold-{missed}-0 is missing: open the index again"):
        Segments(tmp_path, cold.last)


@pytest.fixture
def written(tmp_path) -> Segment:
    return Segment.write(tmp_path / "cold-000001-000001-0", random_tables(1000, 1))


def test_a_damaged_page_is_named_when_it_is_read(written):
    keys = next(written.walk(1))[0]
    content = bytearray(written.path.read_bytes())
    content[written._start + 4 * PAGE + 100] ^= 1
    written.path.write_bytes(content)
    found, there = Segment(written.path), np.stack([keys[:5], keys[:5]], 1)
    assert len(found.find(there, NONE, 1)[0]) == 5, "another page of the table"
    with pytest.raises(FormatError, match=r"cold-000001-000001-0 is damaged \(page 4\): delete it"):
        found.find(np.stack([keys[400:405]] * 2, 1), NONE, 1)
    with pytest.raises(FormatError, match="page 4"):
        found.verify()


def test_swapped_pages_are_an_error(written):
    content = bytearray(written.path.read_bytes())
    first, second = (slice(written._start + at, written._start + at + PAGE) for at in (0, PAGE))
    content[first], content[second] = content[second], content[first]
    written.path.write_bytes(content)
    with pytest.raises(FormatError, match="page 0"):
        Segment(written.path).verify()


@pytest.mark.parametrize("length", [0, 5, 300, 5000, -100, -1])
def test_a_truncated_file(written, length):
    written.path.write_bytes(written.path.read_bytes()[:length])
    with pytest.raises(FormatError, match=r"cold-000001-000001-0 is damaged .* built again"):
        Segments(written.path.parent)


def test_a_file_that_shrinks_while_it_is_open(written):
    keys = np.stack([table[0][:50] for table in random_tables(1000, 1)], 1)
    with open(written.path, "r+b") as file:
        file.truncate(written._start + 100)
    with pytest.raises(FormatError, match="too short"):
        written.find(keys, NONE, 1)


@pytest.mark.parametrize("at", [0.001, 0.97, 0.985, 0.9999])
def test_flipped_bit_in_the_description_is_an_error(written, at):
    content = bytearray(written.path.read_bytes())
    content[int(len(content) * at)] ^= 4
    written.path.write_bytes(content)
    with pytest.raises(FormatError, match="cold-000001-000001-0 is damaged"):
        Segment(written.path)


def test_foreign_files(tmp_path, written):
    from neardup.formats.blocks import BlockWriter

    with BlockWriter(tmp_path / "run", "run") as writer:
        writer.close()
    (tmp_path / "text").write_text("no such file")
    for name in ("run", "text", "not there", "."):
        with pytest.raises(FormatError, match="is damaged"):
            Segment(tmp_path / name)
    with pytest.raises(ParameterError, match="has 2 tables, not 3"):
        written.find(np.zeros((1, 3), np.uint64), NONE, 1)


@pytest.fixture
def full_disk() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_what_was_there(tmp_path, full_disk):
    cold = Segments(tmp_path)
    for seed in range(2):
        cold.add(random_tables(2000, seed))
    files = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(OutputError, match="cold-000003-000003-0 can't be written"):
        cold.add(random_tables(9000, 3))
    with pytest.raises(OutputError, match="cold-000001-000002-1 can't be written"):
        cold.merge(NONE, everything=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == files
    tables = random_tables(2000, 0)
    found = cold.find(np.stack([keys for keys, _ in tables], 1), NONE, 1)[2]
    assert len(found) == 2000 * TABLES


def test_look_ups_while_segments_are_added_and_merged(tmp_path):
    cold, reader = Segments(tmp_path), Segments(tmp_path, read_only=True)
    spilled = [random_tables(300, seed, 300 * seed) for seed in range(24)]
    cold.add(spilled[0])

    def ask(seed: int, follows: bool) -> int:
        wrong = 0
        while (known := cold.last) < len(spilled):
            if follows:
                reader.refresh(known)
            keys, numbers = zip(*spilled[seed % known], strict=True)
            found = (reader if follows else cold).find(np.stack(keys, 1), NONE, 1)[2]
            wrong += not np.array_equal(found, np.concatenate(numbers))
        return wrong

    with ThreadPoolExecutor(3) as threads:
        asking = [
            threads.submit(ask, 5, False),
            threads.submit(ask, 7, False),
            threads.submit(ask, 9, True),
        ]
        for tables in spilled[1:]:
            cold.add(tables)
            cold.merge(NONE)
        assert [future.result() for future in asking] == [0, 0, 0]


def test_reader_opens_merged_files_when_a_merge_removes_those_it_listed(tmp_path, monkeypatch):
    writer = Segments(tmp_path)
    for seed in range(3):
        writer.add(random_tables(10, seed))

    def open_after_a_merge(path: Path) -> Segment:
        monkeypatch.undo()  # the merge opens a segment, too
        writer.merge(NONE, everything=True)
        return Segment(path)

    monkeypatch.setattr("neardup.index.cold.Segment", open_after_a_merge)
    reader = Segments(tmp_path, 3, read_only=True)
    assert len(reader) == 1 and reader.postings == 3 * 10 * TABLES
