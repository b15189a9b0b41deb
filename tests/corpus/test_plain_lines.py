"""--format lines: each line that is not blank is a document."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neardup.corpus.documents import Columns, make_strings
from neardup.corpus.inputs import find_inputs
from neardup.corpus.read import parse_chunk, parse_rows, read_chunks
from neardup.corpus.rows import Edit
from neardup.corpus.shards import Reading, cut_shards
from neardup.errors import InputError, UsageError

Read = Callable[..., Any]
Rewrite = Callable[..., Path]
CONTENT = b'\xef\xbb\xbffirst \n\n {"text": 1}\r\n \t\r\nb\xc3\xa9\n\xff bad\nlast\0'
TEXTS = ["first ", ' {"text": 1}', "bé", None, "last\0"]


def test_each_line_is_a_document(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.txt").write_bytes(CONTENT)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(CONTENT))
    for name in ("a.txt", "b.txt.gz"):
        for size in (1, 10, 1 << 20):
            found = read(tmp_path / name, size=size, format="lines")
            assert (found.texts, found.ids) == (TEXTS, [None] * 5)
            assert found.rejected == {3: "invalid UTF-8"}


def test_a_line_beyond_the_limit_is_rejected(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("streams", "plain_lines"):
        monkeypatch.setattr(f"neardup.corpus.{module}.LONGEST", 100)
    (tmp_path / "a.txt").write_bytes(b"one\n" + b"x" * 101 + b"\nthree\n" + b"y" * 100)
    found = read(tmp_path / "a.txt", size=10, format="lines")
    assert found.rejected == {1: "longer than 1 GiB"}
    assert found.texts == ["one", None, "three", "y" * 100]


def test_kept_lines_are_copied_byte_for_byte(tmp_path: Path, rewrite: Rewrite) -> None:
    (tmp_path / "a.txt").write_bytes(CONTENT)
    kept = rewrite(
        tmp_path / "a.txt", [True, True, False, False, True], tmp_path / "b", None, format="lines"
    )
    assert kept.read_bytes() == b'\xef\xbb\xbffirst \n {"text": 1}\r\nlast\0'


def test_new_texts_keep_the_line_end(tmp_path: Path, rewrite: Rewrite) -> None:
    (tmp_path / "a.txt").write_bytes(CONTENT)
    edit = Edit(
        np.array([True, True, False, False, True]),
        Columns(),
        lambda rows, texts: make_strings([f"{text}!" for text in texts.to_pylist()]),
    )
    kept = rewrite(
        tmp_path / "a.txt", [True, True, True, False, True], tmp_path / "b", edit, format="lines"
    )
    assert kept.read_bytes() == b'\xef\xbb\xbffirst !\n {"text": 1}!\r\nb\xc3\xa9\nlast\0!'


def test_a_large_file_is_cut_into_byte_ranges(tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(300)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    (file,) = find_inputs([tmp_path / "a.txt"], "lines")
    shards = cut_shards([file], Reading(Columns(), 64, 500))
    assert len(shards) > 3
    chunks = [chunk for shard in shards for chunk in shard.chunks()]
    found = [text for c in chunks for text in parse_chunk(c, Columns()).texts.to_pylist()]
    assert found == lines


def test_rows_are_read_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(CONTENT)
    (file,) = find_inputs([tmp_path / "a.txt"], "lines")
    (chunk,) = read_chunks(file, Columns())
    again = parse_rows(chunk, Columns(), np.array([1, 4]), 5)
    assert again.texts.to_pylist() == [TEXTS[1], TEXTS[4]]
    with pytest.raises(InputError, match="changed during the run"):
        parse_rows(chunk, Columns(), np.array([1]), 6)


def test_lines_have_no_columns(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.txt").write_bytes(CONTENT)
    for columns in (Columns(id="id"), Columns(keep="date"), Columns(tokens=True)):
        with pytest.raises(UsageError, match="is a lines file and has no columns"):
            read(tmp_path / "a.txt", columns, format="lines")
