"""Forgetting documents by their age."""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support import batch_engine
from support.index_corpora import decided, ids_of
from support.redis_index import check_order_of_numbers, fresh_address, fresh_ring

from neardup import Index
from neardup.errors import ParameterError, UsageError
from neardup.formatting import parse_duration
from neardup.index import expiry, removal
from neardup.index.expiry import read_date

DAY = 86_400.0
NOW = 2_000_000_000.0
POINT = {"threshold": 0.6, "shingle": "word:2", "bands": 24, "rows": 2, "slots": 48}


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def texts(count: int) -> list[str]:
    """Clusters of five, whose documents come one after the other."""
    return [
        " ".join([*(f"c{at % (count // 5)}w{n}" for n in range(30)), f"end{at}"])
        for at in range(count)
    ]


@pytest.fixture(params=["folder", "Redis", "ring"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Any]:
    """Returns where another new index may be."""
    names = itertools.count()
    on_servers = {"Redis": fresh_address, "ring": fresh_ring}
    return on_servers.get(request.param, lambda: tmp_path / f"index-{next(names)}")


def aged(place: Any, count: int = 60, clock: Clock | None = None) -> tuple[Index, Clock]:
    """An index to which documents were added, one a day; the last one today."""
    clock = clock or Clock()
    index = Index.open(place, clock=clock, **POINT)
    for at, text in enumerate(texts(count)):
        clock.now = NOW - (count - 1 - at) * DAY
        index.add(str(at), text, metadata={"seen": clock.now} if at % 3 else None)
    return index, clock


@pytest.mark.parametrize("sizes", [(8_192, 512, 65_536), (7, 2, 5)])
def test_what_is_forgotten_is_decided_as_if_it_was_removed(
    fresh: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int, int]
) -> None:
    monkeypatch.setattr(expiry, "NUMBERS_AT_ONCE", sizes[0])
    monkeypatch.setattr(removal, "SLICE_DOCUMENTS", sizes[1])
    monkeypatch.setattr(expiry, "TOGETHER", sizes[2])
    index, _ = aged(fresh())
    other, _ = aged(fresh())
    gone = ids_of(texts(60))[:30]
    with index, other:
        assert index.forget("29.5d", dry_run=True).documents == 30
        assert len(index) == 60
        result = index.forget("29.5d")
        assert (result.documents, result.examined, result.undated) == (30, 60, 0)
        assert result.before == NOW - 29.5 * DAY
        for id in gone:
            assert other.remove(id)
        assert decided(index, ids_of(texts(60))) == decided(other, ids_of(texts(60)))
        assert all(index.get(id) is None for id in gone)
        assert {index.get(str(at)).status for at in range(30, 42)} == {"new"}
        assert index.verify() == []
        assert index.forget("29.5d").documents == 0
        counted = index.stats().since_open
        assert (counted.forgotten, counted.removed) == (30, 30)


@pytest.mark.parametrize("limit", [2, 5])
def test_leaders_of_full_buckets_are_forgotten_together(limit: int) -> None:
    """Others lead the buckets then: what is similar to them is a copy, as in a batch run."""
    common = [f"common{at}" for at in range(8)]
    first = {str(at): " ".join([*common, *(f"w{at}x{n}" for n in range(5))]) for at in range(30)}
    later = {f"{id}-again": f"{text} more" for id, text in first.items()}
    clock = Clock()
    place = fresh_address()
    with Index.open(place, clock=clock, **batch_engine.SMALL, limit=limit) as index:
        for id, text in first.items():
            clock.now = NOW - (40 if int(id) % 3 else 0) * DAY
            index.add(id, text)
        clock.now = NOW
        kept = index.stats().kept
        assert index.forget("30d").documents == 20 < kept
        assert len(index) == 10 and index.verify() == []
        index.add_batch(list(later), list(later.values()))
        assert index.verify() == []
        assert check_order_of_numbers(index, first | later) > 0


@pytest.mark.parametrize("value", [NOW - 90 * DAY, "2020-01-31", 1_580_428_800_000, "1580428800"])
def test_dates_of_metadata(fresh: Callable[[], Any], value: object) -> None:
    with Index.open(fresh(), clock=Clock(), **POINT) as index:
        metadata = [{"page": {"seen": value}}, {"page": {"seen": NOW}}, None, {"page": "2001"}]
        index.add_batch(ids_of(metadata), texts(5)[:1] * 4, metadata=metadata)
        result = index.forget("30d", by="page.seen")
        assert (result.documents, result.examined, result.undated) == (1, 4, 2)
        assert [index.get(str(at)) is None for at in range(4)] == [True, False, False, False]
        assert index.get("1").status == "new" and index.verify() == []


def test_a_document_that_was_renewed_meanwhile_stays(fresh: Callable[[], Any]) -> None:
    index, _ = aged(fresh())
    with index:
        work = index.forget_in_steps("30d", by="seen")
        for _ in work.find():
            pass
        assert work.found.documents == 19
        index.add("1", texts(60)[1], metadata={"seen": NOW}, replace=True)
        index.add("2", "replaced by something else", metadata={"seen": 0}, replace=True)
        for _ in work.remove():
            pass
        assert work.result.documents == 17
        assert index.get("1") is not None and index.get("2") is not None


def test_metadata_without_the_field_is_an_error_that_names_it(fresh: Callable[[], Any]) -> None:
    index, _ = aged(fresh())
    with index:
        for dry_run in (True, False):
            with pytest.raises(UsageError, match=r"none of 60 documents has a date in .*'saw'"):
                index.forget("1d", by="saw", dry_run=dry_run)
        assert len(index) == 60
    with Index.open(fresh()) as empty:
        assert empty.forget("1d", by="saw").examined == 0


@pytest.mark.parametrize(
    "duration", ["", "-3d", "0d", "30", "d", "3 fortnights", "nan", "1e3d", -1, 0, None, True]
)
def test_bad_durations_are_refused(tmp_path: Path, duration: object) -> None:
    with Index.open(tmp_path) as index, pytest.raises(ParameterError, match="older_than"):
        index.forget(duration)


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [
        ("30d", 30 * DAY),
        ("1.5 years", 1.5 * 365 * DAY),
        ("12H", DAY / 2),
        ("90min", 5_400),
        ("45 s", 45),
        ("2w", 14 * DAY),
        (7, 7),
        (timedelta(days=2), 2 * DAY),
    ],
)
def test_durations(duration: object, seconds: float) -> None:
    assert parse_duration(duration) == seconds


@pytest.mark.parametrize("by", ["", 7])
def test_a_field_is_a_name(tmp_path: Path, by: object) -> None:
    with Index.open(tmp_path) as index, pytest.raises(ParameterError, match="field"):
        index.forget("1d", by=by)


@pytest.mark.parametrize("metadata", [None, "{}", '{"a": null}', '{"a": true}', '{"a": "soon"}'])
def test_fields_without_a_date(metadata: str | None) -> None:
    assert read_date(metadata, "a") is None


def test_a_field_with_a_dot_in_its_name_is_found_first() -> None:
    metadata = json.dumps({"a.b": 5, "a": {"b": 7}})
    assert read_date(metadata, "a.b") == 5.0
    assert read_date(metadata, "a.c") is None
    moment = datetime(2024, 1, 15, tzinfo=UTC)
    assert read_date('{"a": "Mon, 15 Jan 2024 00:00:00 GMT"}', "a") == moment.timestamp()


def test_a_clock_that_goes_back_forgets_nothing_too_early(fresh: Callable[[], Any]) -> None:
    index, clock = aged(fresh())
    with index:
        clock.now = NOW - 200 * DAY
        index.add("late", "added while the clock was wrong")
        assert index.forget("100d").documents == 0
        clock.now = NOW
        assert index.forget("100d").documents == 1
        assert index.get("late") is None and index.verify() == []


def test_dry_run_reads_beside_a_process_that_writes(fresh: Callable[[], Any]) -> None:
    index, clock = aged(place := fresh())
    with index, Index.open(place, read_only=True, clock=clock) as reader:
        assert reader.forget("29.5d", dry_run=True).documents == 30
        with pytest.raises(UsageError, match="read-only"):
            reader.forget("29.5d")


def test_forgetting_goes_on_in_the_next_generation(tmp_path: Path) -> None:
    clock = Clock()
    with Index.open(tmp_path, clock=clock, keep_texts=True, **POINT) as index:
        clock.now = NOW - 50 * DAY
        index.add_batch(ids_of(texts(40)), texts(40))
        clock.now = NOW
        index.add("new", "a document of today")
        work = index.forget_in_steps("30d")
        for _ in work.find():
            pass
        steps = work.remove()
        next(steps)
        index.reindex(shingle="word:3")
        for _ in steps:
            pass
        assert work.result.documents == 40
        assert len(index) == 1 and index.verify() == []


KILLED = """
import os, signal, sys
from neardup import Index
from neardup.index import removal

removal.SLICE_DOCUMENTS = 3
index = Index.open(sys.argv[1], clock=lambda: float(sys.argv[2]))
work = index.forget_in_steps("29.5d")
list(work.find())
steps = work.remove()
for _ in range(int(sys.argv[3])):
    next(steps, None)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_in_the_middle_the_next_pass_finds_the_rest(tmp_path: Path) -> None:
    index, clock = aged(tmp_path)
    index.close()
    for steps in (1, 3, 5):
        ran = batch_engine.process(KILLED, tmp_path, NOW, steps)
        assert ran.returncode == -signal.SIGKILL, ran.stderr
        with Index.open(tmp_path, read_only=True) as reader:
            assert reader.verify() == []
            assert 30 < len(reader) < 60
            assert all(reader.get(str(at)) is not None for at in range(30, 60))
    with Index.open(tmp_path, clock=clock) as again:
        again.forget("29.5d")
        assert len(again) == 30 and again.verify() == []
