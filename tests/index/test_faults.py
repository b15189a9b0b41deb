"""Full disks, flipped bits, foreign folders, clocks that go backwards: one line, nothing lost."""

from __future__ import annotations

import os
import platform
import signal
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from support import batch_engine
from support.disks import NUMBERS, full_disk

from neardup import Index
from neardup.errors import FormatError, IndexLocked, OutputError, SpecMismatch, UsageError

TEXT = "a document of some words that is in the index already"
PAGE = 32 << 10
TEXTS = [text for text in batch_engine.texts(13, 300, words=30) if text.strip()]


def open_index(folder: Path, **given: object) -> Index:
    return Index.open(folder / "index", **batch_engine.SMALL | given)


def filled(folder: Path) -> dict[str, object]:
    """An index with documents and a snapshot; everything that it says of them."""
    with open_index(folder) as index:
        index.add_batch([str(number) for number in range(len(TEXTS))], TEXTS)
        index.snapshot()
        return everything(index)


def everything(index: Index) -> dict[str, object]:
    return {id: index.get(id) for id in map(str, range(len(TEXTS)))}


def database(folder: Path) -> Path:
    (found,) = (folder / "index").glob("g*/index.sqlite")
    return found


def snapshot(folder: Path) -> Path:
    (found,) = (folder / "index").glob("g*/snapshot")
    return found


def test_a_full_disk(tmp_path: Path) -> None:
    before = filled(tmp_path)
    with open_index(tmp_path) as index:
        wal = database(tmp_path).with_name(f"{database(tmp_path).name}-wal")
        index.add("last", TEXT)
        with full_disk(wal.stat().st_size):
            for turn in range(3):
                with pytest.raises(OutputError, match="index"):
                    index.add_batch(
                        ["a", "b"], [f"{TEXT} but longer {turn}", "nothing of the kind"]
                    )
                assert index.query(TEXT).duplicate_of == "last"
                assert index.get("a") is index.get("b") is None
                assert index.query("nothing of the kind").status == "new"
            with pytest.raises(OutputError, match="index"):
                index.remove("last")
            assert index.verify() == []
        assert index.add("a", "nothing of the kind").status == "new"
        assert index.remove("last")
        assert everything(index) == before
    with open_index(tmp_path) as index:
        assert everything(index) == before
        assert index.get("a") is not None and index.get("b") is index.get("last") is None
        assert index.verify() == []


@pytest.mark.parametrize("size", [1_000, 60_000, 150_000])
def test_full_disk_during_snapshot_and_compaction(tmp_path: Path, size: int) -> None:
    """What is derived can't be written, or the log not moved: documents are all there."""
    before = filled(tmp_path)
    with open_index(tmp_path) as index:
        index.add("last", TEXT)
        index.remove("last")
        for keep_house in (index.snapshot, index.compact):
            with full_disk(size), pytest.raises(OutputError, match=str(tmp_path / "index")):
                keep_house()
            assert everything(index) == before
            assert index.verify() == []
        assert index.add("a", "nothing of the kind").status == "new"
    with open_index(tmp_path) as index:
        assert everything(index) == before
        assert index.get("a") is not None
        assert index.verify() == []


def flip(path: Path, at: int) -> None:
    found = bytearray(path.read_bytes())
    found[at] ^= 0x40
    path.write_bytes(found)


def halve(path: Path, at: int) -> None:
    os.truncate(path, at)


@pytest.mark.parametrize("harm", [flip, halve])
@pytest.mark.parametrize("where", [0.0, 0.1, 0.5, 0.9])
def test_a_corrupt_snapshot_is_made_again(
    tmp_path: Path, harm: Callable[[Path, int], None], where: float
) -> None:
    before = filled(tmp_path)
    file = snapshot(tmp_path)
    harm(file, int(where * file.stat().st_size))
    said: list[str] = []
    with open_index(tmp_path, say=said.append) as index:
        assert everything(index) == before
        assert index.verify() == []
    [damaged] = said
    assert str(file) in damaged and "built again" in damaged


def test_no_snapshot(tmp_path: Path) -> None:
    before = filled(tmp_path)
    snapshot(tmp_path).unlink()
    with open_index(tmp_path) as index:
        assert everything(index) == before


def noticed(folder: Path) -> str:
    """What is said of damage, when it is opened or looked for."""
    try:
        with open_index(folder) as index:
            return "; ".join(index.verify())
    except FormatError as error:
        return str(error)


def test_every_corrupt_page_is_noticed(tmp_path: Path) -> None:
    filled(tmp_path)
    file = database(tmp_path)
    sound = file.read_bytes()
    for begin in range(0, len(sound), PAGE):
        file.write_bytes(sound[:begin] + os.urandom(PAGE) + sound[begin + PAGE :])
        said = noticed(tmp_path)
        assert str(file) in said or "page" in said.lower(), begin // PAGE
        file.write_bytes(sound)
        assert noticed(tmp_path) == ""


def test_a_flipped_bit_of_a_document_is_refused(tmp_path: Path) -> None:
    """SQLite does not notice: every row has a checksum."""
    filled(tmp_path)
    snapshot(tmp_path).unlink()
    file = database(tmp_path)
    sound = file.read_bytes()
    with sqlite3.connect(file) as connection:
        for table in ("signatures", "shingles"):
            blobs = connection.execute(f"SELECT data FROM {table}").fetchall()
            part = next(blob for (blob,) in blobs if sound.count(blob) == 1)
            flip(file, sound.index(part) + 5)
            assert str(file) in noticed(tmp_path)
            file.write_bytes(sound)
    connection.close()


@pytest.mark.parametrize("other", [{"seed": 7}, {"shingle": "word:3"}, {"slots": 24}])
def test_an_index_of_another_specification(tmp_path: Path, other: dict[str, object]) -> None:
    filled(tmp_path)
    with pytest.raises(SpecMismatch, match=r"this index .* differ in \w+ \d+ against \d+: "):
        open_index(tmp_path, **other)


def test_another_operating_point_names_retune(tmp_path: Path) -> None:
    filled(tmp_path)
    with pytest.raises(UsageError, match=r"threshold.*retune"):
        open_index(tmp_path, threshold=0.9)


def test_an_index_of_another_version(tmp_path: Path) -> None:
    filled(tmp_path)
    with sqlite3.connect(database(tmp_path)) as connection:
        connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(FormatError, match=r"99.*1|1.*99"):
        open_index(tmp_path)


@pytest.mark.parametrize("name", ["notes.txt", "index.sqlite"])
def test_a_foreign_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "index"
    folder.mkdir()
    (folder / name).write_text("somebody's notes " * 1000)
    with pytest.raises((UsageError, FormatError, OutputError), match="index"):
        open_index(tmp_path)
    assert [path.name for path in folder.iterdir()] == [name]
    assert (folder / name).read_text() == "somebody's notes " * 1000


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "index").write_text("")
    with pytest.raises((UsageError, OutputError), match="index"):
        open_index(tmp_path)


def test_a_folder_that_is_not_there_can_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="index"):
        Index.open(tmp_path / "index", read_only=True)
    assert not (tmp_path / "index").exists()


def test_a_clock_that_goes_backwards(tmp_path: Path) -> None:
    """Order is by number; what is the time only stands beside it."""
    now = iter(range(1_000_000, 0, -1_000))
    with open_index(tmp_path, clock=lambda: float(next(now))) as index:
        index.add_batch([str(number) for number in range(len(TEXTS))], TEXTS)
        for number in range(5):
            index.add(f"late-{number}", TEXT)
        late = [index.get(f"late-{number}") for number in range(5)]
        assert [one.added for one in late] == sorted((one.added for one in late), reverse=True)
        assert [one.number for one in late] == sorted(one.number for one in late)
        assert {one.duplicate_of for one in late[1:]} == {"late-0"}
        assert index.verify() == []


READER = """
import os, sys, tempfile
from neardup import Index

path, text, user = sys.argv[1:]
with Index.open(path, read_only=True) as index:  # everything is loaded while that is allowed
    index.query(text), index.verify()
for name in ("index.sqlite-shm", "index.sqlite-wal"):
    os.remove(f"{path}/g1/{name}")
os.setuid(int(user))
with Index.open(path, read_only=True) as index:
    print(index.query(text).duplicate_of, index.verify())
try:
    Index.open(path)
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_folder_that_can_only_be_read() -> None:
    """By somebody who may not write there, while nobody does."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        filled(folder)
        for path in (folder / "index", *(folder / "index").rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        ran = batch_engine.process(READER, folder / "index", TEXTS[0], 65534)
        assert ran.stderr == ""
        read, refused = ran.stdout.splitlines()
        assert read == "0 []"
        assert refused.startswith("OutputError") and str(folder / "index") in refused


UNSYNCED = """
import os, signal, sys
from neardup import Index
from neardup.errors import OutputError
from support.disks import fail_syncs

index = Index.open(sys.argv[1])
index.add("a", sys.argv[2])
fail_syncs()
for number in range(int(sys.argv[3])):
    try:
        index.add_batch([f"b{number}", f"c{number}"], ["it was refused", "and so was that"])
    except OutputError as error:
        print("refused", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(platform.machine() not in NUMBERS, reason="numbers of system calls")
@pytest.mark.parametrize("times", [1, 3])
def test_a_document_that_was_refused_because_of_a_failed_sync_does_not_come_back(
    tmp_path: Path, times: int
) -> None:
    """The commit was complete in the log: after a kill the next start found it."""
    filled(tmp_path)
    ran = batch_engine.process(UNSYNCED, tmp_path / "index", TEXT, times)
    assert ran.stdout.split() == ["refused"] * times, ran
    assert ran.returncode == -signal.SIGKILL
    with open_index(tmp_path) as index:
        assert index.get("a") is not None
        assert index.get("b0") is None and index.get("c0") is None
        assert index.verify() == []
        assert index.add("b0", "it was refused").status == "new"


OTHER_WRITER = """
import sys
from neardup import Index

with Index.open(sys.argv[1]) as index:
    print(index.add("other", sys.argv[2]).status, flush=True)
    sys.stdin.readline()
    try:
        index.add("more", sys.argv[2] + " once more")
    except Exception as error:
        print(type(error).__name__)
"""


@pytest.mark.parametrize("writes", [True, False])
def test_a_second_writer_after_the_lock_was_deleted(tmp_path: Path, writes: bool) -> None:
    """Both wrote, and neither knew of the documents of the other."""
    filled(tmp_path)
    with open_index(tmp_path) as index:
        (tmp_path / "index" / "lock").unlink()
        if not writes:  # the lock is taken again, and the second process is refused
            assert index.add("mine", TEXT).status == "new"
            ran = batch_engine.process(OTHER_WRITER, tmp_path / "index", TEXT)
            assert "IndexLocked" in ran.stderr and f"process {os.getpid()}" in ran.stderr
            assert index.verify() == []
            return
        with subprocess.Popen(
            batch_engine.command(OTHER_WRITER, tmp_path / "index", TEXT),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=batch_engine.environment(),
        ) as other:
            assert other.stdout.readline() == "new\n"
            for _ in range(2):
                with pytest.raises(IndexLocked, match=f"process {other.pid}"):
                    index.add("mine", TEXT)
            assert index.query(TEXTS[0]).duplicate_of is not None
            (tmp_path / "index" / "lock").unlink()
            with pytest.raises(IndexLocked, match="was written to by another process"):
                index.remove("0")
            assert other.communicate("go on\n")[0] == "IndexLocked\n"
    with open_index(tmp_path) as index:
        assert index.get("other") is not None and index.get("mine") is index.get("more") is None
        assert index.verify() == []
