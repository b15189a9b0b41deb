"""`Index.verify` checks one state of store and tables, also while documents are added."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support import batch_engine
from support.command_line import neardup

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


WRITER = """
import sys
from neardup import Index

def text(number):
    return " ".join(f"w{number * 7 + at}" for at in range(40))

with Index.open(sys.argv[1]) as index:
    number = 0
    while True:
        number += 8
        ids = [f"d{at}" for at in range(number, number + 8)]
        index.add_batch(ids, [text(at // 2) for at in range(number, number + 8)])
        index.add(f"d{number // 2}", text(number + 5), replace=True)
        index.add(f"d{number}", text(number // 2).upper(), metadata={"n": number}, replace=True)
        index.remove_batch([f"d{number // 3}", f"d{number - 5}"])
        if number == 8:
            print("begun", flush=True)
        if number % 200 == 0:
            index.snapshot()
        if number % 1_000 == 0:
            index.compact()
"""


def test_the_command_finds_no_damage_beside_a_process_that_writes(tmp_path: Path) -> None:
    """8 of 8 times it listed damage at 350 documents a second."""
    Index.open(tmp_path, **batch_engine.SMALL).close()
    with subprocess.Popen(
        batch_engine.command(WRITER, tmp_path),
        stdout=subprocess.PIPE,
        env=batch_engine.environment(),
    ) as process:
        try:
            assert process.stdout.readline() == b"begun\n"
            with Index.open(tmp_path, read_only=True) as reader:
                enough, verified = reader.sequence + 100, 0
                while verified < 8 or reader.stats().sequence < enough:  # disks differ in speed
                    ran = neardup("index", "verify", tmp_path)
                    assert (ran.code, ran.err) == (0, ""), ran
                    assert reader.verify() == []
                    verified += 1
        finally:
            process.kill()


def test_verify_loads_tables_again_that_are_of_a_later_state(tmp_path: Path) -> None:
    """Changes that a reader lacks were dropped by compaction, and the snapshot is newer."""
    with (
        Index.open(tmp_path, **batch_engine.SMALL) as writer,
        Index.open(tmp_path, read_only=True) as reader,
    ):
        for turn in range(3):
            writer.add_batch([f"{turn}-{at}" for at in range(20)], [text(at) for at in range(20)])
            writer.remove(f"{turn}-3")
            writer.compact()
            assert reader.verify() == []
