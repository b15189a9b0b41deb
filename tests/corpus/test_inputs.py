"""find_inputs: which files, in which order, as what."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pyarrow as pa
import pytest

from neardup.corpus.inputs import find_inputs
from neardup.errors import InputError, ParameterError, UsageError


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")


@pytest.mark.parametrize(
    ("name", "format", "compression"),
    [
        ("a.jsonl", "jsonl", None),
        ("a.NDJSON", "jsonl", None),
        ("a.jl", "jsonl", None),
        ("c4.json.gz", "jsonl", "gzip"),
        ("a.jsonl.zst", "jsonl", "zstd"),
        ("a.jsonl.zstd", "jsonl", "zstd"),
        ("a.parquet", "parquet", None),
        ("a.pq", "parquet", None),
        ("a.csv", "csv", None),
        ("a.tsv.gz", "tsv", "gzip"),
        ("a.arrows", "arrow-stream", None),
        ("a.jl.gz", "jsonl", "gzip"),
        ("README", "text", None),
        ("notes.txt.gz", "text", "gzip"),
    ],
)
def test_format_by_name(tmp_path: Path, name: str, format: str, compression: str | None) -> None:
    touch(tmp_path, name)
    (file,) = find_inputs([tmp_path / name])
    assert (file.format, file.compression, file.kept_name) == (format, compression, name)


def test_arrow_file_and_stream_are_distinguished_by_their_first_bytes(tmp_path: Path) -> None:
    table = pa.table({"text": ["a"]})
    for name, new in (("file.arrow", pa.ipc.new_file), ("stream.arrow", pa.ipc.new_stream)):
        with new(str(tmp_path / name), table.schema) as writer:
            writer.write_table(table)
    assert [file.format for file in find_inputs([tmp_path])] == ["arrow", "arrow-stream"]


def test_order_is_arguments_then_path_bytes(tmp_path: Path) -> None:
    touch(tmp_path, "f/b.jsonl", "f/a/z.jsonl", "f/a.jsonl", "f/B.jsonl", "f/é.jsonl", "x.jsonl")
    files = find_inputs([tmp_path / "x.jsonl", tmp_path / "f"])
    expected = ["x.jsonl", "B.jsonl", "a.jsonl", "a/z.jsonl", "b.jsonl", "é.jsonl"]
    assert [file.kept_name for file in files] == expected
    assert files[3].name == f"{tmp_path}/f/a/z.jsonl"


def test_file_reached_twice_is_listed_once_at_its_first_position(tmp_path: Path) -> None:
    touch(tmp_path, "a.jsonl", "b.jsonl")
    (tmp_path / "c.jsonl").symlink_to("a.jsonl")
    files = find_inputs([tmp_path / "b.jsonl", tmp_path, f"{tmp_path}/../{tmp_path.name}/*.jsonl"])
    assert [file.kept_name for file in files] == ["b.jsonl", "a.jsonl"]


def test_hidden_and_private_files_are_skipped(tmp_path: Path) -> None:
    touch(tmp_path, "a.jsonl", ".hidden", "_SUCCESS", ".git/x.jsonl", "__pycache__/x.pyc", "_t/y")
    assert [file.kept_name for file in find_inputs([tmp_path])] == ["a.jsonl"]


def test_folder_of_texts(tmp_path: Path) -> None:
    touch(tmp_path, "a.txt", "sub/b.py", "sub/c")
    files = find_inputs([tmp_path])
    assert {file.format for file in files} == {"text"}
    assert [file.kept_name for file in files] == ["a.txt", "sub/b.py", "sub/c"]


def test_folder_of_data_and_texts_is_refused(tmp_path: Path) -> None:
    touch(tmp_path, "a.jsonl", "README.md")
    with pytest.raises(UsageError, match=r"a\.jsonl.*README\.md.*glob.*--format text"):
        find_inputs([tmp_path])
    assert [file.format for file in find_inputs([tmp_path], "text")] == ["text", "text"]
    assert len(find_inputs([f"{tmp_path}/*.jsonl"])) == 1


def test_glob(tmp_path: Path) -> None:
    touch(tmp_path, "x/1.jsonl", "x/y/2.jsonl", "x/3.txt")
    files = find_inputs([f"{tmp_path}/**/*.jsonl"])
    assert [file.kept_name for file in files] == ["1.jsonl", "2.jsonl"]
    touch(tmp_path, "literal[1].jsonl")
    assert len(find_inputs([f"{tmp_path}/literal[1].jsonl"])) == 1


def test_colliding_kept_names_become_paths_from_the_common_folder(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.jsonl", "b/1.jsonl", "b/2.jsonl")
    files = find_inputs([tmp_path / "a", tmp_path / "b"])
    assert [file.kept_name for file in files] == ["a/1.jsonl", "b/1.jsonl", "b/2.jsonl"]


def test_a_kept_file_is_never_a_folder_of_another(tmp_path: Path) -> None:
    touch(tmp_path, "one/x", "two/x/y")
    names = [file.kept_name for file in find_inputs([tmp_path / "one/x", tmp_path / "two"])]
    assert names == ["one/x", "two/x/y"]


def test_relative_arguments_with_dots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "a/1.jsonl", "b/1.jsonl", "c/x")
    monkeypatch.chdir(tmp_path / "c")
    files = find_inputs(["../a/1.jsonl", "../b/1.jsonl"])
    assert [file.name for file in files] == ["../a/1.jsonl", "../b/1.jsonl"]
    assert [file.kept_name for file in files] == ["a/1.jsonl", "b/1.jsonl"]
    assert [file.kept_name for file in find_inputs(["."])] == ["x"]


def test_missing_and_empty_inputs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    cases = {"missing": "no such", "*.jsonl": "no file matches", "empty": "no files in"}
    for name, message in (cases | {"dangling": "cannot be read"}).items():
        with pytest.raises(InputError, match=message):
            find_inputs([tmp_path / name])


def test_special_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "a.txt")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert [file.kept_name for file in find_inputs([tmp_path])] == ["a.txt"]
    for name in ("pipe", "socket", "/dev/null"):
        with pytest.raises(InputError, match="not a regular file"):
            find_inputs([name])


def test_forced_format(tmp_path: Path) -> None:
    touch(tmp_path, "data.txt.gz")
    (file,) = find_inputs([tmp_path], "jsonl")
    assert (file.format, file.compression) == ("jsonl", "gzip")
    with pytest.raises(ParameterError, match="unknown format 'xml'"):
        find_inputs([tmp_path], "xml")


@pytest.mark.parametrize("name", ["a.jsonl.lz4", "a.csv.br", "a.parquet.gz"])
def test_unsupported_compressions_are_refused(tmp_path: Path, name: str) -> None:
    touch(tmp_path, name)
    with pytest.raises(InputError, match="unpack it"):
        find_inputs([tmp_path / name])


def test_name_that_is_not_utf8_is_shown_escaped(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"\xff.txt")
    with open(path, "wb") as file:
        file.write(b"x")
    (found,) = find_inputs([tmp_path])
    assert found.name.endswith("\\xff.txt")
    assert found.path.read_bytes() == b"x"


def test_files_know_the_folders_that_they_are_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    touch(tmp_path, "in/a/b/x.jsonl", "in/y.jsonl")

    def folders(argument: str) -> list[tuple[str, ...] | None]:
        return [file.folders for file in find_inputs([argument])]

    assert folders("in") == folders("in/") == folders(str(tmp_path / "in")) == [("a", "b"), ()]
    assert folders("in/*/b/*.jsonl") == folders(str(tmp_path / "in/*/b/*")) == [("a", "b")]
    assert folders("in/**/*.jsonl") == [("a", "b"), ()]
    assert folders("in/y.jsonl") == [None]
