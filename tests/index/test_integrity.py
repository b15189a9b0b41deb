"""`Index.verify` checks one state of store and tables, also while documents are added."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support import batch_engine

from neardup import Index


def text(number: int) -> str:
    return " ".join(f"w{number * 7 + at}" for at in range(40))


@contextmanager
def busy(index: Index) -> Iterator[None]:
    """Documents are added, replaced and removed all the time."""
    stopped = threading.Event()

    def write() -> None:
        number = 0
        while not stopped.is_set():
            number += 1
            index.add(f"d{number}", text(number))
            index.add(f"d{number // 2}", text(number + 5), replace=True)
            index.remove(f"d{number // 3}")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def test_verify_finds_no_damage_beside_a_process_that_writes(tmp_path: Path) -> None:
    with (
        Index.open(tmp_path, **batch_engine.SMALL) as writer,
        Index.open(tmp_path, read_only=True) as reader,
        busy(writer),
    ):
        for _ in range(10):
            assert reader.verify() == []


def test_verify_finds_no_damage_in_the_index_that_is_written_to(tmp_path: Path) -> None:
    with Index.open(tmp_path, **batch_engine.SMALL) as index, busy(index):
        for _ in range(5):
            assert index.verify() == []


def test_verify_lists_a_document_that_the_tables_lack(tmp_path: Path) -> None:
    with Index.open(tmp_path, **batch_engine.SMALL) as index:
        index.add("a", text(1))
        tables = index._opened.generation.view.tables
        tables.ids = type(tables.ids)()
        assert index.verify() == ["document 1 is missing in the table of ids"]
