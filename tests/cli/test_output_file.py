"""`-o clean.jsonl` writes one file with the kept rows of all inputs, and nothing else unasked."""

from __future__ import annotations

import csv
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.command_line import (
    DOCUMENTS,
    TEXTS,
    WRITERS,
    kept_rows,
    neardup,
    read_rows,
    refused,
    table,
    write_jsonl,
)

from neardup.pipeline import run as batch_run

KEPT = [DOCUMENTS[row] for row in kept_rows(TEXTS)]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)


@pytest.mark.parametrize("ending", sorted(WRITERS))
def test_one_file_of_every_format(tmp_path: Path, ending: str) -> None:
    if ending in ("csv", "tsv"):
        os.remove("a.jsonl")
        WRITERS[ending](tmp_path / f"a.{ending}", DOCUMENTS)
    ran = neardup(
        "dedup", f"a.{ending}" if ending in ("csv", "tsv") else "a.jsonl", "-o", f"b.{ending}"
    )
    assert ran.code == 0, ran.err
    assert ran.out.startswith("17 documents   9 kept")
    assert "report.html" not in ran.out
    assert read_rows(tmp_path / f"b.{ending}") == KEPT
    assert len(os.listdir()) == 2


@pytest.mark.parametrize("first", ["jsonl", "parquet", "csv", "arrow"])
@pytest.mark.parametrize("to", ["jsonl", "parquet"])
def test_inputs_of_two_formats_become_one_file(tmp_path: Path, first: str, to: str) -> None:
    rows = [row | {"score": str(row["score"])} for row in DOCUMENTS]  # CSV has strings only
    WRITERS[first](tmp_path / f"1.{first}", rows[:8])
    write_jsonl(tmp_path / "2.jsonl", rows[8:])
    ran = neardup("dedup", f"1.{first}", "2.jsonl", "-o", f"both.{to}", "-q")
    assert ran.code == 0, ran.err
    assert read_rows(tmp_path / f"both.{to}") == [rows[row] for row in kept_rows(TEXTS)]


def test_texts_become_rows_with_id_and_text(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    for name in ("b", "a"):
        (tmp_path / "texts" / f"{name}.txt").write_text(f"this is the text of {name}")
    ran = neardup("dedup", "texts", "-o", "texts.jsonl", "-q")
    assert ran.code == 0, ran.err
    assert [tuple(row.values()) for row in read_rows(tmp_path / "texts.jsonl")] == [
        ("a.txt", "this is the text of a"),
        ("b.txt", "this is the text of b"),
    ]


def test_rows_are_in_the_order_of_the_inputs_whatever_is_preferred(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "1.jsonl", [{"id": 1, "text": "one"}, {"id": 2, "text": "two"}])
    write_jsonl(tmp_path / "2.jsonl", [{"id": 3, "text": "two"}, {"id": 4, "text": "four"}])
    ran = neardup("dedup", "1.jsonl", "2.jsonl", "--prefer", "2.jsonl", "-o", "c.jsonl", "-q")
    assert ran.code == 0, ran.err
    assert [row["id"] for row in read_rows(tmp_path / "c.jsonl")] == [1, 3, 4]


def test_removed_and_report_on_request(tmp_path: Path) -> None:
    assert neardup("dedup", "a.jsonl", "-o", "run", "-q").code == 0
    ran = neardup(
        "dedup", "a.jsonl", "-o", "b.jsonl", "--removed", "r/removed.parquet", "--report", "b.html"
    )
    assert ran.code == 0, ran.err
    assert "b.html shows it" in ran.out
    assert table(tmp_path / "r", "removed") == table(tmp_path / "run", "removed")
    assert sorted(os.listdir()) == ["a.jsonl", "b.html", "b.jsonl", "r", "run"]


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_removed_list_beside_a_folder_has_the_rows_of_its_table(
    tmp_path: Path, ending: str
) -> None:
    asked = ("dedup", "a.jsonl", "-o", "run", "--removed", f"removed.{ending}", "-q")
    ran = neardup(*asked)
    assert ran.code == 0, ran.err
    rows = table(tmp_path / "run", "removed")
    path = tmp_path / f"removed.{ending}"
    if ending == "csv":
        with open(path, newline="") as file:
            assert [row["id"] for row in csv.DictReader(file)] == [row["id"] for row in rows]
    else:
        assert read_rows(path) == rows
    refused(neardup(*asked), 2, f"removed.{ending} exists", "--force")
    assert neardup(*asked, "--force").code == 0
    assert neardup("exact", "a.jsonl", "-o", "same", "--removed", f"same.{ending}").code == 0
    assert neardup("dedup", "a.jsonl", "-o", "new", "--removed", f"new/list.{ending}").code == 0


def test_shell_loop_over_the_removed_files_of_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "my notes"
    (folder / "old").mkdir(parents=True)
    for name in ("a note.txt", "old/a note.txt", "other.txt"):
        (folder / name).write_text("something else" if "other" in name else "the same words")
    guide = Path(__file__).parents[2].joinpath("docs", "command-line.md").read_text("utf-8")
    recipe = guide.partition("### What to do with removed files")[2].partition("### ")[0]
    (loop,) = [line for line in recipe.splitlines() if "while" in line and "python" in line]
    assert neardup("dedup", folder, "-o", "clean", "--removed", "removed.jsonl", "-q").code == 0
    (tmp_path / "notes").symlink_to(folder)
    (tmp_path / "duplicates").mkdir()
    shell = f'python() {{ {shlex.quote(sys.executable)} "$@"; }}\n{loop}'
    subprocess.run(["bash", "-c", shell], check=True)
    assert not (folder / "old/a note.txt").exists()
    assert os.listdir("duplicates") == ["a note.txt"]


def test_an_existing_file_is_replaced_by_force_only(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text("mine")
    refused(neardup("dedup", "a.jsonl", "-o", "b.jsonl", "-q"), 2, "b.jsonl exists", "--force")
    (tmp_path / "r.parquet").write_text("mine")
    asked = ("dedup", "a.jsonl", "-o", "c.jsonl", "--removed", "r.parquet", "-q")
    refused(neardup(*asked), 2, "r.parquet exists", "--force")
    assert (tmp_path / "b.jsonl").read_text() == "mine"
    assert neardup("dedup", "a.jsonl", "-o", "b.jsonl", "--force", "-q").code == 0
    assert read_rows(tmp_path / "b.jsonl") == KEPT


def test_a_stopped_run_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(batch_run, "write_tables", stop)
        ran = neardup("dedup", "a.jsonl", "-o", "b.jsonl", "-q")
        assert (ran.code, "the same command goes on" in ran.err) == (130, True)
    assert sorted(os.listdir()) == [".b.jsonl.unfinished", "a.jsonl"]
    assert "stopped: " in neardup("status", "b.jsonl").out
    ran = neardup("dedup", "a.jsonl", "-o", "b.jsonl")
    assert ran.code == 0 and "resuming: " in ran.err
    assert read_rows(tmp_path / "b.jsonl") == KEPT
    assert sorted(os.listdir()) == ["a.jsonl", "b.jsonl"]


def test_a_failed_run_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text("mine")
    (tmp_path / "bad.jsonl").write_text("{")
    asked = ("dedup", "bad.jsonl", "-o", "b.jsonl", "--force", "--strict", "-q")
    refused(neardup(*asked), 1, "row 0")
    assert (tmp_path / "b.jsonl").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("-o", "a.jsonl", "--force"), ("a.jsonl is an input",)),
        (("-o", "b.jsonl", "--pairs"), ("--pairs", "folder")),
        (("-o", "b.jsonl", "--save-sketches"), ("--save-sketches", "folder")),
        (("-o", "b.jsonl", "--no-kept"), ("--no-kept", "folder")),
        (("-o", "out", "--removed", "out/removed.parquet"), ("a name of the run's own",)),
        (("-o", "out", "--removed", "out/kept/r.csv"), ("a name of the run's own",)),
        (("-o", "out", "--removed", "a.jsonl"), ("a.jsonl is an input",)),
        (("-o", "out", "--removed", "s3://bucket/r.csv"), ("a local file",)),
        (("-o", "b.jsonl", "--removed", "r.txt"), ("r.txt", ".parquet, .jsonl or .csv")),
        (("-o", "b.jsonl", "--removed", "b.jsonl"), ("the same file",)),
        (("-o", "b.csv"), ("jsonl", "csv", ".jsonl")),
        (("-o", "b.txt"), ("text", ".jsonl or .parquet")),
        (("-o", "b.jsonl", "--engine", "spark"), ("--engine spark", "folder")),
    ],
)
def test_what_does_not_go_together_is_refused(options: tuple[str, ...], parts: tuple[str]) -> None:
    refused(neardup("dedup", "a.jsonl", *options, "-q"), 2, *parts)
    assert os.listdir() == ["a.jsonl"]


def test_an_output_inside_of_the_input_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_jsonl(tmp_path / "in" / "x.jsonl", DOCUMENTS)
    refused(neardup("dedup", "in", "-o", "in/out.jsonl", "-q"), 2, "inside the input")


def test_csv_with_another_header_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("text,n\na,1\n")
    (tmp_path / "2.csv").write_text("n,text\n1,b\n")
    refused(
        neardup("dedup", "1.csv", "2.csv", "-o", "b.csv", "-q"), 2, "different headers", "folder"
    )
    assert neardup("dedup", "1.csv", "2.csv", "-o", "b.jsonl", "-q").code == 0
    assert read_rows(tmp_path / "b.jsonl") == [{"text": "a", "n": "1"}, {"n": "1", "text": "b"}]


def test_a_field_of_two_types_has_no_column(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "1.jsonl", [{"text": "one", "n": 1}])
    write_jsonl(tmp_path / "2.jsonl", [{"text": "two", "n": "secret"}])
    ran = neardup("dedup", "1.jsonl", "2.jsonl", "-o", "b.parquet", "-q")
    refused(ran, 2, "2.jsonl", "'n'", "folder")
    assert "secret" not in ran.err
    assert sorted(os.listdir()) == [".b.parquet.unfinished", "1.jsonl", "2.jsonl", "a.jsonl"]


def test_the_record_on_request(tmp_path: Path) -> None:
    ran = neardup("dedup", "a.jsonl", "-o", "b.parquet", "--json")
    assert json.loads(ran.out)["counts"]["kept"] == 9
    assert pq.read_table(tmp_path / "b.parquet").num_rows == 9


def test_an_ending_that_is_not_known_is_a_folder_and_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_jsonl(tmp_path / "a.jsonl", DOCUMENTS[:2])
    assert "out.xyz, since .xyz is no ending" in neardup("dedup", "a.jsonl", "-o", "out.xyz").out
    assert "no ending" not in neardup("dedup", "a.jsonl", "-o", "clean.2026-11").out
