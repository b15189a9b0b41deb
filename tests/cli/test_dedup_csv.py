"""CSV files as people have them: what they see first, and the command that works."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command_line import dedup, neardup, neardup_piped, table

from neardup.corpus.documents import Columns
from neardup.corpus.inputs import find_inputs
from neardup.corpus.shards import Reading, cut_shards
from neardup.pipeline.stage_files import shard_key

LONG = " ".join(f"word{number}" for number in range(60))
OTHER = " ".join(f"other{number}" for number in range(60))
SEMICOLONS = f'id;text\r\n1;"{LONG}; end"\r\n2;{OTHER}\r\n3;{LONG}\r\n'


def test_semicolons_are_an_error_that_names_the_option_that_works(tmp_path: Path) -> None:
    source = tmp_path / "export.csv"
    source.write_bytes(SEMICOLONS.encode())
    ran = neardup("dedup", source, "-o", tmp_path / "out")
    assert ran.code == 2
    assert "use --delimiter ';'" in ran.err
    assert "word1" not in ran.err
    made = dedup(source, "-o", tmp_path / "out", "--delimiter", ";")
    assert made["counts"]["removed"] == 1
    assert made["parameters"]["delimiter"] == ";"
    first, *rows = SEMICOLONS.encode().splitlines(keepends=True)
    assert (tmp_path / "out/kept/export.csv").read_bytes() == first + rows[0] + rows[1]
    new = tmp_path / "new.csv"
    new.write_bytes(SEMICOLONS.replace("1;", "7;").encode())
    against = dedup(new, "-o", tmp_path / "next", "--delimiter", ";", "--against", source)
    assert against["counts"]["removed"] == 3
    run = dedup(new, "-o", tmp_path / "last", "--delimiter", ";", "--against", tmp_path / "out")
    assert run["counts"]["removed"] == 3


def test_semicolons_are_named_though_no_column_is_called_text(tmp_path: Path) -> None:
    source = tmp_path / "export.csv"
    source.write_text(SEMICOLONS.replace("id;text", "nr;titel;inhalt"))
    ran = neardup("dedup", source, "-o", tmp_path / "out")
    assert ran.code == 2 and "--no-header" not in ran.err
    assert "its columns are nr, titel, inhalt: use --delimiter ';', and choose one with --text" in (
        ran.err
    )


def test_a_file_without_a_header_shows_no_text_and_works_by_numbers(tmp_path: Path) -> None:
    source = tmp_path / "labels.csv"
    rows = [f"spam,{LONG} a\n", f"ham,{OTHER}\n", f"spam,{LONG} b\n"]
    source.write_text("".join(rows))
    ran = neardup("dedup", source, "-o", tmp_path / "out")
    assert ran.code == 2
    assert "use --no-header and the number of a column" in ran.err
    assert "word1" not in ran.err
    made = dedup(source, "-o", tmp_path / "out", "--no-header", "--text", "2", "--within", "1")
    assert made["counts"]["documents"] == 3
    assert (tmp_path / "out/kept/labels.csv").read_text() == rows[0] + rows[1]
    assert [row["row"] for row in table(tmp_path / "out", "removed")] == [2]


def test_a_pipe_of_csv(tmp_path: Path) -> None:
    options = ("--format", "csv", "--delimiter", ";")
    code, out, message = neardup_piped(SEMICOLONS.encode(), "dedup", "-", *options)
    assert code == 0, message
    assert out == b"".join(SEMICOLONS.encode().splitlines(keepends=True)[:3])
    code, out, message = neardup_piped(b'{"text": "a"}\n', "dedup", "-", "--delimiter", ";")
    assert (code, out) == (2, b"")
    assert "no input is a CSV file" in message
    assert "--format csv" in message


def test_lines_are_cut_from_quoted_texts(tmp_path: Path) -> None:
    source = tmp_path / "a.csv"
    notice = "This line is in every document, and is cut."
    source.write_text(f"id|text\n1|'One''s.\n{notice}'\n2|'Two''s.\n{notice}'\n")
    ran = neardup(
        *("exact", source, "-o", tmp_path / "out", "--unit", "line", "--quiet"),
        *("--delimiter", "|", "--quote", "'"),
    )
    assert ran.code == 0, ran.err
    kept = (tmp_path / "out/kept/a.csv").read_text()
    assert kept == f"id|text\n1|'One''s.\n{notice}'\n2|'Two''s.\n'\n"


@pytest.mark.parametrize("options", [{"delimiter": ";"}, {"quote": "none"}, {"no_header": True}])
def test_sketches_of_another_dialect_are_not_used_again(
    tmp_path: Path, options: dict[str, str | bool]
) -> None:
    source = tmp_path / "a.csv"
    source.write_text("text\na\n")
    keys = [
        shard_key(cut_shards(find_inputs([source], **given), Reading(Columns()))[0], "spec")
        for given in ({}, options)
    ]
    assert keys[0] != keys[1]
