"""A file of blocks gives back what was written, or an error that names it."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

from neardup.errors import FormatError, OutputError
from neardup.formats import blocks
from neardup.formats.blocks import DTYPES, BlockReader, BlockWriter


def written(path: Path, seed: int = 1) -> list[dict[str, np.ndarray]]:
    """A file of some blocks with columns of every type; what is in it."""
    chance = np.random.default_rng(seed)
    made = []
    with BlockWriter(path, "test", key="k", number=7) as writer:
        for number in range(3):
            columns = {
                f"c{dtype}": chance.integers(0, 200, 5 * number).astype(dtype) for dtype in DTYPES
            }
            columns["rows"] = chance.integers(0, 2**32, (4, number), np.uint32)
            writer.add(columns, block=number)
            made.append(columns)
        writer.close(end="x")
    return made


def everything(path: Path) -> list[dict[str, np.ndarray]]:
    file = BlockReader(path, "test")
    names = [*(f"c{dtype}" for dtype in DTYPES), "rows"]
    return [{name: file.read(block, name) for name in names} for block in range(len(file))]


def same(a: list[dict[str, np.ndarray]], b: list[dict[str, np.ndarray]]) -> bool:
    return len(a) == len(b) and all(
        x.keys() == y.keys()
        and all(x[n].dtype == y[n].dtype and np.array_equal(x[n], y[n]) for n in x)
        for x, y in zip(a, b, strict=True)
    )


def test_written_columns_are_read_back(tmp_path: Path) -> None:
    made = written(tmp_path / "f")
    assert same(everything(tmp_path / "f"), made)
    file = BlockReader(tmp_path / "f", "test")
    file.verify()
    assert file.header == {"kind": "test", "key": "k", "number": 7}
    assert file.note == {"end": "x"}
    assert [file.note_of(block) for block in range(3)] == [{"block": n} for n in range(3)]
    assert np.array_equal(file.read(2, "rows", slice(1, 3)), made[2]["rows"][1:3])
    assert file.shape(2, "rows") == (4, 2)
    assert file.has(0, "rows") and not file.has(0, "other")


def test_a_file_has_its_name_only_when_it_is_complete(tmp_path: Path) -> None:
    with BlockWriter(tmp_path / "f", "test") as writer:
        writer.add({"a": np.arange(9)})
        assert not (tmp_path / "f").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_flipped_bit_anywhere_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "f"
    written(path)
    whole = path.read_bytes()
    for place in range(0, len(whole), 3):
        changed = bytes([whole[place] ^ 1 << place % 8])
        path.write_bytes(whole[:place] + changed + whole[place + 1 :])
        with pytest.raises(FormatError, match=str(path)):
            everything(path)


def test_a_truncated_or_extended_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "f"
    written(path)
    whole = path.read_bytes()
    for end in range(0, len(whole), 3):
        path.write_bytes(whole[:end])
        with pytest.raises(FormatError, match=str(path)):
            everything(path)
    for more in (b"\0", b"x" * 100, whole[-24:]):
        path.write_bytes(whole + more)
        with pytest.raises(FormatError, match=str(path)):
            everything(path)
    path.write_bytes(whole[1:])
    with pytest.raises(FormatError, match=str(path)):
        everything(path)


def test_garbage_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "f"
    chance = random.Random(1)
    for _ in range(300):
        middle = chance.randbytes(chance.randrange(200))
        front = chance.choice([b"", blocks.FRONT, blocks.HEAD.pack(blocks.FRONT, 3)])
        path.write_bytes(front + middle + chance.choice([b"", blocks.END]))
        with pytest.raises(FormatError, match=str(path)):
            everything(path)


@pytest.mark.parametrize(("byte", "said"), [(b"2", "format version 2"), (b"\x1b", "not a file")])
def test_another_version_is_told_and_nothing_unprintable(
    tmp_path: Path, byte: bytes, said: str
) -> None:
    path = tmp_path / "f"
    head = blocks.HEAD.pack(blocks.FRONT[:-1] + byte, 3)
    path.write_bytes(head + b"{}" + blocks.END)
    with pytest.raises(FormatError, match=said) as caught:
        everything(path)
    assert str(caught.value).isprintable()


def test_blocks_of_another_file_are_noticed(tmp_path: Path) -> None:
    """Two halves of valid files are no valid file."""
    written(tmp_path / "a", 1)
    written(tmp_path / "b", 2)
    a, b = ((tmp_path / name).read_bytes() for name in "ab")
    (tmp_path / "c").write_bytes(a[: len(a) // 3] + b[len(a) // 3 :])
    with pytest.raises(FormatError, match="checksum"):
        everything(tmp_path / "c")


def test_an_entry_that_is_no_block_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "empty").touch()
    for name in ("folder", "loop", "empty", "absent"):
        with pytest.raises(FormatError, match=name):
            BlockReader(tmp_path / name, "test")
    written(tmp_path / "f")
    with pytest.raises(FormatError, match="contains 'test', not 'other'"):
        BlockReader(tmp_path / "f", "other")


def test_a_file_deleted_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    written(tmp_path / "f")
    file = BlockReader(tmp_path / "f", "test")
    os.truncate(tmp_path / "f", 200)
    with pytest.raises(FormatError, match="f is damaged"):
        file.verify()
    (tmp_path / "f").unlink()
    with pytest.raises(FormatError, match="f is damaged"):
        file.verify()


def test_an_unwritable_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="absent/f"):
        BlockWriter(tmp_path / "absent" / "f", "test")
    (tmp_path / "f").mkdir()
    with pytest.raises(OutputError, match="f"), BlockWriter(tmp_path / "f", "test") as writer:
        writer.close()


def test_block_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        written(tmp_path / "f")
    finally:
        os.umask(before)
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600
