"""find_inputs: which files, in which order, as what."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import shlex
import socket
from pathlib import Path

import pyarrow as pa
import pytest

from neardup.corpus.inputs import InputFiles, find_inputs
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


def names(files: InputFiles) -> list[str]:
    return [file.kept_name for file in files]


def test_posts_and_index_pages_whose_names_begin_with_an_underscore_are_read(
    tmp_path: Path,
) -> None:
    touch(tmp_path, "_index.md", "_posts/2024-01-01-a.md", "_drafts/b.md", "about.md")
    files = find_inputs([tmp_path])
    assert names(files) == ["_drafts/b.md", "_index.md", "_posts/2024-01-01-a.md", "about.md"]
    assert files.unread.describe() == {"count": 0, "reasons": {}, "listed": []}


def test_what_is_left_out_of_a_folder_is_counted_and_named(tmp_path: Path) -> None:
    touch(tmp_path, "a.jsonl", ".hidden", ".git/x.jsonl", ".git/y", "__pycache__/x.pyc")
    touch(tmp_path, "sub/_SUCCESS", "sub/._SUCCESS.crc", "sub/_temporary/0/part", "_metadata")
    touch(tmp_path, "_common_metadata", "_committed_123", "_started_123", "_delta_log/0.json")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "broken").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    files = find_inputs([tmp_path])
    assert names(files) == ["a.jsonl"]
    assert files.unread.reasons == {
        "mark of Spark or Hive": 7,
        "hidden file": 2,
        "broken link": 1,
        "cache of Python": 1,
        "hidden folder": 1,
        "link to a folder": 1,
        "not a regular file": 1,
    }
    listed = {one["file"]: one["reason"] for one in files.unread.describe()["listed"]}
    assert listed[f"{tmp_path}/.git/"] == "hidden folder"
    assert listed[f"{tmp_path}/pipe"] == "not a regular file"


def test_only_the_first_unread_files_are_listed_and_all_are_counted(tmp_path: Path) -> None:
    touch(tmp_path, "a.txt", *(f".{number}" for number in range(120)))
    described = find_inputs([tmp_path]).unread.describe()
    assert (described["count"], len(described["listed"])) == (120, 100)


def test_folder_of_texts(tmp_path: Path) -> None:
    touch(tmp_path, "a.txt", "sub/b.py", "sub/c")
    files = find_inputs([tmp_path])
    assert {file.format for file in files} == {"text"}
    assert [file.kept_name for file in files] == ["a.txt", "sub/b.py", "sub/c"]


def test_folder_of_data_and_texts_is_refused_with_the_options_that_choose(tmp_path: Path) -> None:
    touch(tmp_path, "a.jsonl", "notes.md", "more.md", "x.txt")
    expected = r"a\.jsonl.*more\.md.*--include '\*\.jsonl' or --include '\*\.md'.*--format text"
    with pytest.raises(UsageError, match=expected):
        find_inputs([tmp_path])
    assert {file.format for file in find_inputs([tmp_path], "text")} == {"text"}
    assert len(find_inputs([f"{tmp_path}/*.jsonl"])) == 1
    assert names(find_inputs([tmp_path], include=["*.md"])) == ["more.md", "notes.md"]


def test_folder_of_data_and_texts_is_read_if_include_names_both(tmp_path: Path) -> None:
    touch(tmp_path, "a.txt", "b.md", "part-0", "table.csv", "x.csv.gz")
    (tmp_path / "part-1").write_text('{"text": "a"}\n')
    with pytest.raises(UsageError) as refused:
        find_inputs([tmp_path])
    command = str(refused.value).partition("read both with ")[2].partition(", or by naming")[0]
    patterns = shlex.split(command)[1::2]
    assert patterns == ["part-1", "*.csv", "*.csv.gz", "*.txt", "*.md", "part-0"]
    assert len(find_inputs([tmp_path], include=patterns)) == 6
    assert names(find_inputs([tmp_path], include=["*.txt", "*.csv"])) == ["a.txt", "table.csv"]
    with pytest.raises(UsageError, match="read both with"):  # one pattern may match by accident
        find_inputs([tmp_path], include=["*a*", "*.csv"])


def test_folder_of_many_kinds_is_refused_without_a_long_list(tmp_path: Path) -> None:
    touch(tmp_path, "a.csv", *(f"{n}.e{n}" for n in range(20)))
    with pytest.raises(UsageError, match="read both with an --include for each kind, or by naming"):
        find_inputs([tmp_path])


def test_pictures_and_other_binaries_are_not_suggested_as_texts(tmp_path: Path) -> None:
    touch(tmp_path, "a.csv")
    (tmp_path / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    (tmp_path / "tool").write_bytes(b"\x7fELF\2\1\1\0\0")
    with pytest.raises(UsageError, match=r"\(logo.png, tool\): choose with --include '\*.csv',"):
        find_inputs([tmp_path])
    (tmp_path / "b.doc").write_text("a text of another time", "utf-16")
    with pytest.raises(
        UsageError, match=r"texts \(b.doc\): read both with --include '\*.csv' --inc"
    ):
        find_inputs([tmp_path])
    assert names(find_inputs([tmp_path], include=["*.csv", "*.doc"])) == ["a.csv", "b.doc"]


HUB = (
    "README.md",
    "LICENSE",
    "dataset_infos.json",
    "my_data.py",
    ".gitattributes",
    "data/train-00000-of-00002.parquet",
    "data/train-00001-of-00002.parquet",
)


def test_repository_of_a_data_set_is_read_without_its_readme(tmp_path: Path) -> None:
    touch(tmp_path, *HUB)
    files = find_inputs([tmp_path])
    assert names(files) == list(HUB[-2:])
    assert files.unread.reasons == {"beside data files": 4, "hidden file": 1}
    assert names(find_inputs([tmp_path], include=["README.md"])) == ["README.md"]


def test_readme_is_read_if_include_names_it_besides_the_data(tmp_path: Path) -> None:
    touch(tmp_path, *HUB)
    both = find_inputs([tmp_path], include=["*.parquet", "*.md"])
    assert names(both) == ["README.md", *HUB[-2:]]
    assert names(find_inputs([tmp_path], include=["*"])) == list(HUB[-2:])  # names none of them


def test_readme_is_left_out_only_by_data_in_its_folder_or_below(tmp_path: Path) -> None:
    touch(tmp_path, "old.zip", "README.md", "docs/README.md", "docs/CHANGELOG.md")
    touch(tmp_path, "sets/README.md", "sets/en/LICENSE", "sets/en/train/a.parquet")
    with pytest.raises(UsageError, match=r"texts \(CHANGELOG.md, README.md\)"):
        find_inputs([tmp_path])
    files = find_inputs([tmp_path], exclude=["docs"])
    assert names(files) == ["old.zip", "sets/en/train/a.parquet"]
    assert files.unread.reasons["beside data files"] == 3


def test_data_set_that_was_saved_to_disk_is_read(tmp_path: Path) -> None:
    touch(tmp_path, "dataset_dict.json", "train/state.json", "train/dataset_info.json")
    touch(tmp_path, "train/data-00000-of-00001.arrow")
    assert names(find_inputs([tmp_path])) == ["train/data-00000-of-00001.arrow"]


def test_companions_are_documents_or_data_where_there_is_nothing_else(tmp_path: Path) -> None:
    touch(tmp_path, "texts/README.md", "texts/LICENSE", "texts/a.md", "json/state.json")
    assert names(find_inputs([tmp_path / "texts"])) == ["LICENSE", "README.md", "a.md"]
    assert names(find_inputs([tmp_path / "json"])) == ["state.json"]


def test_source_code_beside_a_table_is_not_taken_for_loading_scripts(tmp_path: Path) -> None:
    touch(tmp_path, "a.csv", *(f"{number}.py" for number in range(6)))
    with pytest.raises(UsageError, match=r"--include '\*\.py'"):
        find_inputs([tmp_path])
    touch(tmp_path / "deep", "a.csv", "src/a.py")
    with pytest.raises(UsageError, match="data files"):
        find_inputs([tmp_path / "deep"])


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (["*.md"], [], ["a.md", "en/b.md", "en/old/c.md"]),
        (["en"], [], ["en/b.md", "en/d.txt", "en/old/c.md"]),
        (["en/*"], ["old"], ["en/b.md", "en/d.txt"]),
        (["en/**/*.md"], [], ["en/b.md", "en/old/c.md"]),
        (["**/c.md", "[!b-z].md"], [], ["a.md", "en/old/c.md"]),
        ([], ["en/"], ["a.md"]),
        ([], ["*.md"], ["en/d.txt"]),
        (["?.txt"], [], ["en/d.txt"]),
    ],
)
def test_include_and_exclude(
    tmp_path: Path, include: list[str], exclude: list[str], expected: list[str]
) -> None:
    touch(tmp_path, "a.md", "en/b.md", "en/old/c.md", "en/d.txt")
    files = find_inputs([tmp_path], "auto", include, exclude)
    assert names(files) == expected
    assert files.unread.describe()["count"] == 4 - len(expected)
    again = find_inputs([f"{tmp_path}/**"], "auto", include, exclude)
    assert [file.path for file in again] == [file.path for file in files]


def test_pattern_that_matches_nothing_or_leaves_nothing_is_refused(tmp_path: Path) -> None:
    touch(tmp_path, "a.md", "b.md")
    with pytest.raises(UsageError, match=r"--exclude '\*\.txt' matches no file"):
        find_inputs([tmp_path], exclude=["*.txt"])
    with pytest.raises(UsageError, match=r"--include 'c\.md' matches no file"):
        find_inputs([tmp_path], include=["a.md", "c.md"])
    with pytest.raises(UsageError, match="matches no file"):  # files themselves are always read
        find_inputs([tmp_path / "a.md"], exclude=["a.md"])
    with pytest.raises(InputError, match="no file is left"):
        find_inputs([tmp_path], exclude=["*.md"])
    for pattern in ("", "/", "[z-a]"):
        with pytest.raises(ParameterError, match="pattern"):
            find_inputs([tmp_path], include=[pattern])


def test_file_that_is_excluded_in_its_folder_is_read_if_it_is_named(tmp_path: Path) -> None:
    touch(tmp_path, "a.md", "b.md")
    files = find_inputs([tmp_path, tmp_path / "b.md"], exclude=["b.md"])
    assert names(files) == ["a.md", "b.md"]


LINES = b'{"text": "a"}\n{"text": "b"}\n'


@pytest.mark.parametrize(
    ("name", "content", "format", "compression"),
    [
        ("part-00000", LINES, "jsonl", None),
        ("part-00000", b"\xef\xbb\xbf\n" + LINES, "jsonl", None),
        ("part-00000", b'{"text": "a"}', "jsonl", None),
        ("part-00000", b'{"text": "' + b"a" * 70_000 + b'"}\n', "jsonl", None),
        ("part-00000.gz", gzip.compress(LINES, mtime=0), "jsonl", "gzip"),
        ("part-00000", gzip.compress(LINES, mtime=0), "jsonl", "gzip"),
        ("data", pa.compress(LINES, "zstd", asbytes=True), "jsonl", "zstd"),
        ("x.log", LINES, "jsonl", None),
        ("x.log", b"{not json\n", "text", None),
        ("x.log", b"a line\n" + LINES, "text", None),
        ("x.log.gz", gzip.compress(b"a line\n", mtime=0), "text", "gzip"),
        ("data", b"PAR1...", "parquet", None),
        ("data", b"ARROW1\0\0", "arrow", None),
        ("data", b"\xff\xff\xff\xff\0", "arrow-stream", None),
        ("data", b"", "text", None),
        ("data", b'[\n  {"text": "a"}\n]', "json", None),
        ("data", bz2.compress(LINES), "jsonl", "bz2"),
        ("data", bz2.compress(LINES, 1), "jsonl", "bz2"),
        ("data", bz2.compress(b""), "text", "bz2"),
        ("data", b"BZhang wrote a letter.", "text", None),
        ("data", b"BZh4 is a school.", "text", None),
        ("data", lzma.compress(LINES), "jsonl", "xz"),
        ("data", b"WARC/1.0\r\n", "warc", None),
        ("data", b"PK\3\4", "zip", None),
        ("data", b"[1] A footnote", "text", None),
        ("letter.docx", b"PK\3\4", "text", None),
        ("a.ipynb", b'{\n  "cells": []\n}\n', "text", None),
        ("config", b'{\n  "a": 1\n}\n', "text", None),
    ],
)
def test_file_without_a_known_ending_is_recognised_by_its_content(
    tmp_path: Path, name: str, content: bytes, format: str, compression: str | None
) -> None:
    (tmp_path / name).write_bytes(content)
    (file,) = find_inputs([tmp_path / name])
    assert (file.format, file.compression) == (format, compression)


def test_empty_part_beside_data_files_is_no_document(tmp_path: Path) -> None:
    (tmp_path / "part-0").write_bytes(LINES)
    (tmp_path / "part-1").write_bytes(b"")
    (tmp_path / "part-2.gz").write_bytes(gzip.compress(b""))
    assert {file.format for file in find_inputs([tmp_path])} == {"jsonl"}
    (tmp_path / "__init__.py").write_bytes(b"")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/__init__.py").write_bytes(b"")
    with pytest.raises(UsageError, match=r"--include part-0 or --include '\*\.py'"):
        find_inputs([tmp_path])


def test_compressed_part_files_take_a_format_that_is_given(tmp_path: Path) -> None:
    (tmp_path / "part-0").write_bytes(gzip.compress(b"a,text\n"))
    (file,) = find_inputs([tmp_path], "csv")
    assert (file.format, file.compression) == ("csv", "gzip")
    (tmp_path / "part-1.gz").write_bytes(gzip.compress(b"PAR1"))
    with pytest.raises(InputError, match="parquet inside gzip: unpack it first"):
        find_inputs([tmp_path / "part-1.gz"])


def test_text_file_of_json_lines_is_an_error_with_the_cure(tmp_path: Path) -> None:
    for name, content in (("a.txt", LINES), ("a.md.gz", gzip.compress(LINES))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UsageError, match=f"{name}.*--format jsonl, or --format text"):
            find_inputs([tmp_path / name])
        for format in ("jsonl", "text"):
            assert find_inputs([tmp_path / name], format)[0].format == format
    (tmp_path / "one.txt").write_bytes(LINES[: len(LINES) // 2])  # one object is a text as well
    assert find_inputs([tmp_path / "one.txt"])[0].format == "text"


def test_only_input_that_is_a_text_of_many_lines_gets_a_hint(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a post\n" * 50)
    (hint,) = find_inputs([tmp_path / "a.txt"]).hints
    assert (
        hint == f"{tmp_path}/a.txt is one document; if every line of it is one, use --format lines"
    )
    assert find_inputs([tmp_path / "a.txt"], "text").hints == []
    (tmp_path / "b.txt").write_text("another")
    assert find_inputs([tmp_path]).hints == []
    assert find_inputs([tmp_path / "b.txt"]).hints == []


def test_folders_and_pipes_that_a_glob_matches_are_counted(tmp_path: Path) -> None:
    touch(tmp_path, "a.txt", "sub/b.txt")
    os.mkfifo(tmp_path / "pipe")
    files = find_inputs([f"{tmp_path}/*"])
    assert names(files) == ["a.txt"]
    assert files.unread.reasons == {"folder that a pattern matches": 1, "not a regular file": 1}
    assert find_inputs([f"{tmp_path}/**"]).unread.reasons == {"not a regular file": 1}


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
    with pytest.raises(ParameterError, match="format 'xml' is not known"):
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


TABLES = {
    "csv": (b"id,text\n1,a\n2,b\n", "--format csv"),
    "tsv": (b"id\ttext\n1\ta\n", "--format tsv"),
    "semicolons, cut": (b"id;inhalt\n" + b'1;"a;\nb"\n' * 10_000, "--format csv --delimiter ';'"),
    "some rows are wrong": (b"a|b\n" + b"1|2\n" * 20 + b"3\n", "--format csv --delimiter '|'"),
}
TEXTS = {
    "prose": b"Late, and dark\nit rained, and blew\n" * 20,
    "one line": b"id,text\n",
    "numbers": b"1,2\n3,4\n",
    "quotes": b'a,b\n"c,d\n',
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_whose_name_does_not_say_so_is_refused_with_the_option(tmp_path, name) -> None:
    content, cure = TABLES[name]
    (tmp_path / "data").write_bytes(content)
    with pytest.raises(UsageError, match=f"data looks like a table.*use {re.escape(cure)}, or"):
        find_inputs([tmp_path / "data"])
    assert len(find_inputs([tmp_path / "data"], format="text")) == 1
    (tmp_path / "data.txt").write_bytes(content)
    (hint,) = find_inputs([tmp_path / "data.txt"]).hints
    assert hint.endswith(f"if it is a table, use {cure}")


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_with_commas_is_no_table(tmp_path, name) -> None:
    (tmp_path / "data").write_bytes(TEXTS[name])
    assert find_inputs([tmp_path / "data"])[0].format == "text"
