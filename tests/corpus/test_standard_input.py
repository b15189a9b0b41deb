"""Standard input is an input file like others, at its place among them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from neardup.corpus.inputs import InputFile, InputOptions
from neardup.corpus.standard_input import (
    copy_standard_input,
    find_with_standard_input,
    is_standard_input,
)
from neardup.errors import UsageError
from neardup.runtime import SILENT


def copied(folder: Path, data: bytes, monkeypatch: pytest.MonkeyPatch, **options: str) -> InputFile:
    (folder / "source").write_bytes(data)
    asked = InputOptions(**options)
    with open(folder / "source") as source:
        monkeypatch.setattr(sys, "stdin", source)
        files = find_with_standard_input(["-"], asked)
        (file,) = copy_standard_input(files, asked, folder, SILENT)
    assert file.path.read_bytes() == data
    return file


def test_options_about_files_are_also_about_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = "name;text\na;caf\u00e9\n".encode("latin-1")
    given = {"format": "csv", "delimiter": ";", "encoding": "latin-1"}
    file = copied(tmp_path, data, monkeypatch, **given)
    assert (file.name, file.kept_name, file.format) == ("stdin", "stdin.csv", "csv")
    assert file.dialect.delimiter == ";" and file.encoding != "utf-8"


@pytest.mark.parametrize(
    ("data", "format"),
    [
        (b"", "jsonl"),
        (b'{"text": "a"}\n', "jsonl"),
        (b"PAR1", "parquet"),
        (b"just a text", "text"),
    ],
)
def test_the_content_tells_the_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, format: str
) -> None:
    assert copied(tmp_path, data, monkeypatch).format == format


def test_errors_call_it_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError) as error:
        copied(tmp_path, b"a text", monkeypatch, delimiter=";")
    assert str(tmp_path) not in str(error.value)


def test_its_place_is_that_of_the_dash(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.jsonl").write_text('{"text": "a"}\n')
    given = [tmp_path / "b.jsonl", tmp_path / "a.jsonl", "-", tmp_path / "c.jsonl"]
    files = find_with_standard_input(given, InputOptions())
    assert [is_standard_input(file) for file in files] == [False, False, True, False]


def test_its_place_is_found_among_files_that_patterns_choose(tmp_path: Path) -> None:
    for name in ("mix/a.jsonl", "mix/b.jsonl", "mix/note.txt", "more/c.jsonl", "more/old.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"text": "a"}\n' if "jsonl" in name else "a note")
    given = [tmp_path / "mix", "-", tmp_path / "more"]
    options = InputOptions(include=["*.jsonl"], exclude=["old.jsonl"])
    files = find_with_standard_input(given, options)
    assert [file.path.name for file in files] == ["a.jsonl", "b.jsonl", "-", "c.jsonl"]
    files = find_with_standard_input(given[:2], InputOptions(include=["*.jsonl"]))
    assert [file.path.name for file in files] == ["a.jsonl", "b.jsonl", "-"]
