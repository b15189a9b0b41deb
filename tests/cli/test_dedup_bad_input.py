"""Bad input gets a clear answer and loses nothing."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.command_line import (
    DOCUMENTS,
    WRITERS,
    dedup,
    edited,
    neardup,
    read_rows,
    refused,
    table,
    unprivileged,
)
from support.command_line import write_jsonl as jsonl

from neardup.pipeline.stages import sketch, tables

SECRET = "classified"
GOOD = {"text": edited(1)}

BAD_LINES = {
    b"not json, classified": "not JSON",
    b'{"text": "classified"': "not JSON",
    b'{"text": "classified"} {"text": "b"}': "not JSON",
    b'{"text": NaN}': "not JSON: it has no NaN",
    b'["classified"]': "JSON, but not an object",
    b'"classified"': "JSON, but not an object",
    b"7": "JSON, but not an object",
    b"null": "JSON, but not an object",
    b'{"text": null}': "text is null",
    b'{"text": 7}': "text is a number, not a string",
    b'{"text": true}': "text is a boolean, not a string",
    b'{"text": ["classified"]}': "text is a list, not a string",
    b'{"text": {"classified": 1}}': "text is an object, not a string",
    b'{"other": "classified"}': "no field 'text'",
    b'{"text": "classified \xff"}': "invalid UTF-8",
    b'{"text": "classified \xed\xa0\x80"}': "invalid UTF-8",
    b'{"text": "classified \\ud800"}': "a lone surrogate escape",
    b'{"text": "classified \x00"}': "not JSON",
    b'{"text": ""}': "empty",
    b'{"text": " \\t\\n\\u00a0\\u2028"}': "empty",
    b"[" * 100_000: "JSON nested too deeply",
    b"\xff\xfe{\x00}\x00": "invalid UTF-8",
}


def test_bad_lines_are_set_aside_with_their_reasons(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    good = json.dumps(GOOD).encode()
    source.write_bytes(b"\n".join([good, *BAD_LINES, good]) + b"\n")
    record = dedup(source, "-o", tmp_path / "out", "--max-rejected", 1)
    found = table(tmp_path / "out", "rejected")
    assert [r["reason"] for r in found] == list(BAD_LINES.values())
    assert [r["row"] for r in found] == list(range(1, len(BAD_LINES) + 1))
    assert [r["id"] for r in found] == [f"{source}:{r['row']}" for r in found]
    counts = record["counts"]
    assert (counts["documents"], counts["kept"], counts["removed"]) == (len(BAD_LINES) + 2, 1, 1)
    assert (tmp_path / "out" / "kept" / "a.jsonl").read_bytes() == good + b"\n"


@pytest.mark.parametrize("line", BAD_LINES, ids=list(map(str, range(len(BAD_LINES)))))
def test_strict_stops_at_the_first_bad_row(tmp_path: Path, line: bytes) -> None:
    source = tmp_path / "a.jsonl"
    good = json.dumps(GOOD).encode()
    source.write_bytes(b"\n".join([good, b"", good, line, b"bad too"]))
    ran = neardup("dedup", source, "-o", tmp_path / "out", "--strict", "-q")
    refused(ran, 1, f"{source}, row 2: {BAD_LINES[line]}")
    assert SECRET not in ran.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["dedup", "exact"])
def test_strict_stops_at_a_bad_row_that_a_stopped_run_has_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    good = json.dumps(GOOD).encode()
    first.write_bytes(good + b"\n" + good + b"\n")
    second.write_bytes(b"\n".join([good, good, b'{"text": null}', b"bad too"]))
    asked = (command, first, second, "-o", tmp_path / "out", "-q")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(tables, "write_rejected", stop)
        assert neardup(*asked).code == 130
    monkeypatch.setattr(sketch, "make_chunk", stop)  # what was read is not read again
    refused(neardup(*asked, "--strict"), 1, f"{second}, row 2: text is null")


def test_nul_bytes_and_unusual_characters_are_accepted(tmp_path: Path) -> None:
    texts = [
        "a\0b c d e",
        "\ud83c\udf89".encode("utf-16", "surrogatepass").decode("utf-16"),
        "\u200d",
        "\u0301",
        "\ufeff x",
        "\U0010ffff",
        "\x1f\x7f",
    ]
    record = dedup(jsonl(tmp_path / "a.jsonl", [{"text": t} for t in texts]), "-o", tmp_path / "o")
    assert record["counts"]["documents"] == len(texts)
    assert record["counts"]["rejected"] + record["counts"]["kept"] == len(texts)


def test_bad_rows_of_tables_are_rejected(tmp_path: Path) -> None:
    bad = pa.array([b"a good text", b"classified \xff", None, b"  "]).cast(pa.binary())
    column = pa.Array.from_buffers(pa.string(), 4, bad.buffers())
    pq.write_table(pa.table({"text": column}), tmp_path / "a.parquet")
    dedup(tmp_path / "a.parquet", "-o", tmp_path / "out", "--max-rejected", 0.8)
    reasons = [(r["row"], r["reason"]) for r in table(tmp_path / "out", "rejected")]
    assert reasons == [(1, "invalid UTF-8"), (2, "text is null"), (3, "empty")]
    assert pq.read_table(tmp_path / "out" / "kept" / "a.parquet").num_rows == 1


def test_bad_records_of_csv_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"text,n\nclassified,1,2\ngood,1\n\xff,1\n,1\nshort\n")
    dedup(tmp_path / "a.csv", "-o", tmp_path / "out", "--max-rejected", 0.8)
    reasons = [(r["row"], r["reason"]) for r in table(tmp_path / "out", "rejected")]
    assert reasons == [
        (0, "row has 3 fields, the header has 2"),
        (2, "invalid UTF-8"),
        (3, "empty"),
        (4, "row has 1 fields, the header has 2"),
    ]
    assert (tmp_path / "out" / "kept" / "a.csv").read_bytes() == b"text,n\ngood,1\n"


def test_bad_text_files_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, data in {"a": b"\xffa", "b": b"", "c": b"good", "d": b"a\0b"}.items():
        (tmp_path / "in" / name).write_bytes(data)
    dedup(tmp_path / "in", "-o", tmp_path / "out")
    reasons = [(r["id"], r["reason"]) for r in table(tmp_path / "out", "rejected")]
    assert reasons == [("a", "invalid UTF-8"), ("b", "empty")]
    assert sorted(os.listdir(tmp_path / "out" / "kept")) == ["c", "d"]


def test_line_of_20_megabytes_is_read(tmp_path: Path) -> None:
    giant = {"text": "one two three four five six seven " * 600_000, "id": "giant"}
    source = jsonl(tmp_path / "a.jsonl", [GOOD, giant, GOOD, giant])
    record = dedup(source, "-o", tmp_path / "out")
    assert record["counts"]["removed"] == 2
    lines = source.read_bytes().splitlines(keepends=True)
    assert (tmp_path / "out" / "kept" / "a.jsonl").read_bytes() == lines[0] + lines[1]


def test_missing_file_is_refused(tmp_path: Path) -> None:
    ran = neardup("dedup", tmp_path / "none.jsonl", "-o", tmp_path / "out")
    refused(ran, 2, f"{tmp_path}/none.jsonl", "no such file")
    ran = neardup("dedup", tmp_path / "*.jsonl", "-o", tmp_path / "out")
    refused(ran, 2, f"{tmp_path}/*.jsonl", "no file matches")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("extension", sorted(WRITERS))
@pytest.mark.parametrize("option", ["--text", "--id", "--within", "--keep"])
def test_missing_column_error_lists_the_columns(
    tmp_path: Path, extension: str, option: str
) -> None:
    source = tmp_path / f"a.{extension}"
    WRITERS[extension](source, DOCUMENTS)
    value = "max:body" if option == "--keep" else "body"
    ran = neardup("dedup", source, "-o", tmp_path / "deep" / "out", option, value, "-q")
    refused(ran, 2, str(source), "'body'", "id, text, score, lang", option)
    assert os.listdir(tmp_path) == [source.name]


def test_column_options_are_refused_for_text_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    ran = neardup("dedup", tmp_path / "a.txt", "-o", tmp_path / "out", "--within", "lang", "-q")
    refused(ran, 2, "a.txt", "no columns", "--within")


def test_empty_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    ran = neardup("dedup", tmp_path / "in", "-o", tmp_path / "out")
    refused(ran, 2, str(tmp_path / "in"), "no files in this folder")


@pytest.mark.parametrize("extension", ["jsonl", "csv", "tsv"])
def test_an_empty_file_has_no_documents(tmp_path: Path, extension: str) -> None:
    (tmp_path / f"a.{extension}").touch()
    assert dedup(tmp_path / f"a.{extension}", "-o", tmp_path / "out")["counts"]["documents"] == 0
    assert (tmp_path / "out" / "kept" / f"a.{extension}").read_bytes() == b""


@pytest.mark.parametrize(
    "extension", ["jsonl.gz", "jsonl.zst", "parquet", "arrow", "feather", "arrows"]
)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_a_truncated_file_is_an_error(tmp_path: Path, extension: str, share: float) -> None:
    source = tmp_path / f"a.{extension}"
    rows = [{"text": edited(n), "id": n} for n in range(200)]
    WRITERS[extension](source, rows)
    data = source.read_bytes()
    source.write_bytes(data[: int(len(data) * share)])
    ran = neardup("dedup", source, "-o", tmp_path / "out", "-q")
    refused(ran, 1, str(source))
    assert "w671" not in ran.err
    assert os.listdir(tmp_path) == [source.name]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.parquet", b"PAR1 classified, but not a table PAR1"),
        ("a.jsonl.gz", b"classified"),
        ("a.jsonl.zst", gzip.compress(b'{"text": "classified"}', mtime=0)),
        ("a.csv", b'text\n"classified\n'),
        ("a.csv", b'text\n"classified"x\n'),
        ("a.arrow", b"ARROW1\0\0classified"),
    ],
)
def test_file_of_another_format_than_its_name_is_an_error(
    tmp_path: Path, name: str, data: bytes
) -> None:
    (tmp_path / name).write_bytes(data)
    ran = neardup("dedup", tmp_path / name, "-o", tmp_path / "out", "-q")
    refused(ran, 1, str(tmp_path / name))
    assert SECRET not in ran.err
    assert not (tmp_path / "out").exists()


def test_one_bad_file_stops_the_run(tmp_path: Path) -> None:
    good = jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(good.read_bytes())[:-9])
    ran = neardup("dedup", good, tmp_path / "b.jsonl.gz", "-o", tmp_path / "out", "-q")
    refused(ran, 1, "b.jsonl.gz", "truncated")
    assert not (tmp_path / "out").exists()


def test_keep_column_of_mixed_types_is_refused(tmp_path: Path) -> None:
    rows = [{"text": edited(n), "v": v} for n, v in enumerate([1, "one"])]
    source = jsonl(tmp_path / "a.jsonl", rows)
    ran = neardup("dedup", source, "-o", tmp_path / "out", "--keep", "max:v", "-q")
    refused(ran, 2, "numbers and strings", "no common order")


def test_keep_column_of_different_types_in_two_files_is_refused(tmp_path: Path) -> None:
    one = jsonl(tmp_path / "a.jsonl", [{"text": edited(1), "v": 1}])
    two = jsonl(tmp_path / "b.jsonl", [{"text": edited(2), "v": "one"}])
    ran = neardup("dedup", one, two, "-o", tmp_path / "out", "--keep", "max:v", "-q")
    refused(ran, 2, "no common order")
    assert not (tmp_path / "out").exists()


def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    source = jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    source.chmod(0)
    ran = unprivileged("dedup", source, "-o", tmp_path / "out", "-q")
    refused(ran, 1, str(source), "cannot be read (Permission denied)")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--threshold", "0"], "threshold must be above 0"),
        (["--threshold", "1.01"], "at most 1, not 1.01"),
        (["--threshold", "-1"], "threshold"),
        (["--threshold", "nan"], "not nan"),
        (["--threshold", "inf"], "not inf"),
        (["--threshold", "high"], "'--threshold'"),
        (["--recall", "1"], "recall must be above 0 and below 1"),
        (["--recall", "nan"], "recall"),
        (["--threshold", "0.01", "--recall", "0.999"], "use --slots"),
        (["--bands", "30", "--rows", "5"], "need 150 slots, there are 128"),
        (["--bands", "10"], "bands and rows belong together"),
        (["--rows", "10"], "bands and rows belong together"),
        (["--bands", "0", "--rows", "5"], "from 1 to"),
        (
            ["--tables", "20x5,10x8"],
            "need 180 slots, there are 128: use fewer bands or rows, or --slots 180",
        ),
        (["--tables", "2", "--bands", "20", "--rows", "5"], "or --slots 200"),
        (["--tables", "20x5", "--bands", "20", "--rows", "5"], "leave out bands, rows and preset"),
        (["--tables", "20by5"], "such as 20x5,10x8"),
        (["--tables", "0"], "tables must be a whole number from 1"),
        (["--measure", "overlap"], "jaccard, containment"),
        (["--measure", "containment", "--verify", "estimate"], "use --verify exact"),
        (["--measure", "containment", "--cluster", "components"], "--cluster stars"),
        (["--slots", "0"], "number of slots"),
        (["--slots", "1000000"], "number of slots"),
        (["--seed", "-1"], "seed"),
        (["--shingle", "word"], "'word' is not UNIT:SIZE"),
        (["--shingle", "word:0"], "shingle size"),
        (["--shingle", "verse:1"], "verse"),
        (["--text-profile", "loud"], "conservative, standard, plain, aggressive, look-alikes"),
        (["--preset", "mine"], "fineweb, nemo"),
        (["--verify", "maybe"], "exact, estimate, none"),
        (["--cluster", "circles"], "stars, components"),
        (["--keep", "best"], "first, "),
        (["--keep", "max:"], "max:COLUMN"),
        (["--format", "xml"], "jsonl, json, parquet"),
        (["--workers", "0"], "--workers must be at least 1"),
        (["--workers", "-2"], "--workers must be at least 1"),
        (["--workers", "two"], "'--workers'"),
        (["--nonsense"], "--nonsense"),
        (["--shingle", "token:5"], "token"),
    ],
)
def test_wrong_usage_is_one_line_with_exit_code_2(
    tmp_path: Path, options: list[str], message: str
) -> None:
    (tmp_path / "a.csv").write_text("text\nhello\n")
    ran = neardup("dedup", tmp_path / "a.csv", "-o", tmp_path / "out", "-q", *options)
    refused(ran, 2, message)
    assert os.listdir(tmp_path) == ["a.csv"]


def test_file_that_shrinks_during_the_run_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from neardup.pipeline.stages import tables

    source = jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    decided = tables.write_removed

    def truncating(*arguments: object) -> None:
        decided(*arguments)  # type: ignore[arg-type]
        jsonl(source, DOCUMENTS[:5])

    monkeypatch.setattr(tables, "write_removed", truncating)
    ran = neardup("dedup", source, "-o", tmp_path / "out", "-q")
    refused(ran, 1, str(source), "changed during the run")
    assert os.listdir(tmp_path / "out") == [".unfinished"]
    assert len(read_rows(source)) == 5


def test_an_empty_file_is_remarked_on(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    ran = neardup("dedup", tmp_path / "empty.jsonl", "-o", tmp_path / "out")
    assert ran.code == 0 and "the inputs hold no document: check INPUT" in ran.out
