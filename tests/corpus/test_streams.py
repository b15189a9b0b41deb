"""Compressed and broken files: all of the contents, or an error with the file's name."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.sizes import full

from neardup.corpus.inputs import InputFile, find_inputs
from neardup.corpus.read import Columns, chunks_of, parse_chunk, read_chunks
from neardup.corpus.streams import read_decompressed
from neardup.errors import InputError, UsageError

Read = Callable[..., Any]


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


PACKERS = {".gz": gzip.compress, ".zst": zstd, ".bz2": bz2.compress, ".xz": lzma.compress}
packed = pytest.mark.parametrize("suffix", PACKERS)
ROWS = [json.dumps({"text": random.Random(n).randbytes(20).hex()}) + "\n" for n in range(40)]
CONTENT = "".join(ROWS).encode()


@packed
def test_members_and_frames_are_concatenated(tmp_path: Path, read: Read, suffix: str) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    pack = PACKERS[suffix]
    path.write_bytes(pack(CONTENT[:700]) + pack(b"") + pack(CONTENT[700:]))
    assert len(read(path, size=100).texts) == 40


@pytest.mark.parametrize("step", [7, full(1)])
@packed
def test_file_truncated_at_any_byte_is_an_error(
    tmp_path: Path, read: Read, suffix: str, step: int
) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    whole = PACKERS[suffix](CONTENT)
    for cut in {*range(0, len(whole), step), *range(len(whole) - 20, len(whole))}:
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError, match=r"a\.jsonl.*truncated.*get it again"):
            read(path)


@packed
def test_file_truncated_in_a_second_member_is_an_error(
    tmp_path: Path, read: Read, suffix: str
) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    whole = PACKERS[suffix](CONTENT)
    for cut in range(1, len(whole), 13):
        path.write_bytes(whole + whole[:cut])
        with pytest.raises(InputError, match=r"a\.jsonl"):
            read(path)


@packed
def test_large_file_truncated_at_a_block_is_an_error(
    tmp_path: Path, read: Read, suffix: str
) -> None:
    path = tmp_path / f"a.txt{suffix}"
    whole = PACKERS[suffix](random.Random(1).randbytes(200_000))
    for near in (65536, 131072):
        for cut in range(near - 3, near + 4):
            path.write_bytes(whole[:cut])
            with pytest.raises(InputError, match="truncated"):
                read(path)


@packed
@pytest.mark.parametrize("garbage", [b"\0", b"\0" * 511, b"garbage", b"\x1f\x8b", b"(\xb5/\xfd"])
def test_garbage_after_compressed_data_is_an_error(
    tmp_path: Path, read: Read, suffix: str, garbage: bytes
) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(PACKERS[suffix](CONTENT) + garbage)
    with pytest.raises(InputError, match=r"a\.jsonl"):
        read(path)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])  # zstd's checksum is optional
def test_flipped_bit_is_an_error(tmp_path: Path, read: Read, suffix: str) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    whole = bytearray(PACKERS[suffix](CONTENT))
    whole[len(whole) // 2] ^= 4
    path.write_bytes(whole)
    with pytest.raises(InputError, match=r"corrupt (gzip|bz2|xz) data"):
        read(path)


def test_xz_may_be_padded_after_each_stream(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "a.jsonl.xz"
    pack = lzma.compress
    path.write_bytes(pack(CONTENT[:700]) + b"\0" * 8 + pack(CONTENT[700:]) + b"\0" * 70000)
    assert len(read(path, size=100).texts) == 40


def test_xz_that_asks_for_too_much_memory_is_refused(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neardup.corpus.packing.XZ_MEMORY", 1 << 20)
    (tmp_path / "a.jsonl.xz").write_bytes(lzma.compress(CONTENT))
    with pytest.raises(InputError, match=r"a\.jsonl.*1 MB of memory do not suffice.*xz -9"):
        read(tmp_path / "a.jsonl.xz")


@packed
def test_a_bomb_is_read_in_small_pieces(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a.txt{suffix}").write_bytes(PACKERS[suffix](b"\0" * (8 << 20)))
    sizes = [len(piece) for piece in read_decompressed(find_inputs([tmp_path])[0], 1 << 16)]
    assert (sum(sizes), max(sizes)) == (8 << 20, 1 << 16)


@packed
def test_kept_rows_are_compressed_as_the_input_was(
    tmp_path: Path, read: Read, rewrite: Callable[..., Path], suffix: str
) -> None:
    path, magic = tmp_path / f"a.jsonl{suffix}", PACKERS[suffix](b"")[:3]
    path.write_bytes(PACKERS[suffix](CONTENT))
    kept = rewrite(path, [row % 2 == 0 for row in range(40)], tmp_path / f"b.jsonl{suffix}")
    assert kept.read_bytes().startswith(magic)
    assert read(kept).texts == read(path).texts[::2]


def test_uncompressed_data_in_a_gz_file_is_an_error(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.jsonl.zst").write_bytes(CONTENT)
    with pytest.raises(InputError, match="not zstd data, in spite of its name"):
        read(tmp_path / "a.jsonl.zst")


def test_deleted_file_is_an_error(tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.csv", "a.jsonl.gz", "a.parquet", "a.txt"):
        file = InputFile(tmp_path / name, name, name, "jsonl", None)
        with pytest.raises(InputError, match=f"{name}: cannot be read .No such file"):
            list(read_chunks(file, Columns()))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file_is_an_error(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.jsonl").write_bytes(CONTENT)
    (tmp_path / "a.jsonl").chmod(0)
    with pytest.raises(InputError, match="Permission denied"):
        read(tmp_path / "a.jsonl")


def test_file_that_shrinks_between_cutting_and_parsing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(CONTENT)
    (chunk,) = read_chunks(find_inputs([tmp_path])[0], Columns())
    (tmp_path / "a.jsonl").write_bytes(CONTENT[:100])
    with pytest.raises(InputError, match="changed during the run"):
        parse_chunk(chunk, Columns())


def test_text_files_share_a_chunk(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}.txt").write_text(f"text {number}")
    (tmp_path / "03.txt").write_bytes(b"\xff\xfea\0")
    (tmp_path / "04.txt").write_bytes(b"\xef\xbb\xbfmarked")
    (tmp_path / "05.txt").write_bytes(b"")
    (tmp_path / "06.txt").rename(tmp_path / "06.txt.gz")
    (tmp_path / "06.txt.gz").write_bytes(gzip.compress(b"packed"))
    files = find_inputs([tmp_path])
    assert len(list(chunks_of(files, Columns()))) == 1
    for size in (1, 20, 1 << 20):
        pieces = list(chunks_of(files, Columns(), size))
        found = [parse_chunk(piece, Columns()) for piece in pieces]
        texts = [text for documents in found for text in documents.texts.to_pylist()]
        assert texts[2:8] == ["text 2", None, "marked", "", "packed", "text 7"]
        assert [len(piece.files) for piece in pieces] == list(map(len, found))
        ids = [id for documents in found for id in documents.ids.to_pylist()]
        assert ids == [file.kept_name for file in files]
        assert sum(len(documents.rejected) for documents in found) == 1


def test_text_and_data_files_keep_their_order(tmp_path: Path) -> None:
    names = ["a.txt", "b.jsonl", "c.txt", "d.txt"]
    for name in names:
        (tmp_path / name).write_text('{"text": "x"}\n')
    files = find_inputs([tmp_path / name for name in names])
    order = [file.kept_name for chunk in chunks_of(files, Columns()) for file in chunk.files]
    assert order == names


def test_text_files_have_no_columns(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(UsageError, match="leave out --keep"):
        list(read_chunks(find_inputs([tmp_path])[0], Columns(keep="date")))
