"""`cat x.jsonl | neardup dedup - > y.jsonl`: rows come and go by pipes, nothing else does."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.command_line import (
    DOCUMENTS,
    TEXTS,
    WRITERS,
    kept_rows,
    neardup,
    neardup_piped,
    write_jsonl,
)

from neardup.corpus.inputs import find_inputs
from neardup.errors import UsageError
from neardup.pipeline import output_file
from neardup.pipeline.output_file import OutputFile

LINES = [json.dumps(row).encode() + b"\n" for row in DOCUMENTS]
DATA = b"".join(LINES)
KEPT = b"".join(LINES[row] for row in kept_rows(TEXTS))


@pytest.fixture(autouse=True)
def no_leftovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Temporary files go to a folder that must be empty afterwards."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.chdir(tmp_path)
    yield
    tempfile.tempdir = None
    assert os.listdir(folder) == []


def test_kept_rows_go_to_standard_output_and_the_summary_does_not() -> None:
    code, out, err = neardup_piped(DATA, "dedup", "-")
    assert (code, out) == (0, KEPT)
    assert "17 documents   9 kept   7 removed (3 identical)   1 rejected\n" in err
    assert "report.html" not in err


def test_quiet_writes_rows_and_nothing_else() -> None:
    assert neardup_piped(DATA, "dedup", "-", "-o", "-", "-q") == (0, KEPT, "")


def test_the_record_goes_to_standard_error_on_request() -> None:
    code, out, err = neardup_piped(DATA, "dedup", "-", "--json")
    assert (code, out) == (0, KEPT)
    assert json.loads(err)["counts"]["removed"] == 7
    assert json.loads(err)["inputs"][0]["file"] == "stdin"


def test_exact_takes_a_pipe_too() -> None:
    code, out, err = neardup_piped(LINES[0] * 3 + LINES[1], "exact", "-")
    assert (code, out) == (0, LINES[0] + LINES[1]), err


def test_lines_are_cut_out_of_a_pipe() -> None:
    head = "a line that is in all of the documents"
    rows = [{"text": f"{head}\nand here is line number {n} of mine"} for n in range(3)]
    data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    code, out, err = neardup_piped(data, "exact", "-", "--unit", "line", "-q")
    assert code == 0, err
    texts = [json.loads(line)["text"] for line in out.splitlines()]
    assert [head in text for text in texts] == [True, False, False]


@pytest.mark.parametrize("command", ["dedup", "exact"])
def test_nothing_in_is_nothing_out(command: str) -> None:
    code, out, _ = neardup_piped(b"", command, "-")
    assert (code, out) == (0, b"")


@pytest.mark.parametrize("name", ["jsonl.gz", "jsonl.zst"])
def test_compressed_input_is_recognised_and_comes_out_plain(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / f"x.{name}", DOCUMENTS)
    data = (tmp_path / f"x.{name}").read_bytes()
    assert neardup_piped(data, "dedup", "-", "-q") == (0, KEPT, "")


def test_parquet_comes_out_as_parquet(tmp_path: Path) -> None:
    WRITERS["parquet"](tmp_path / "x.parquet", DOCUMENTS)
    code, out, err = neardup_piped((tmp_path / "x.parquet").read_bytes(), "dedup", "-", "-q")
    assert code == 0, err
    kept = [DOCUMENTS[row] for row in kept_rows(TEXTS)]
    assert pq.read_table(pa.BufferReader(out)).to_pylist() == kept


def test_csv_needs_its_name(tmp_path: Path) -> None:
    WRITERS["csv"](tmp_path / "x.csv", DOCUMENTS)
    data = (tmp_path / "x.csv").read_bytes()
    code, out, err = neardup_piped(data, "dedup", "-", "--format", "csv", "-q")
    assert code == 0, err
    assert out.startswith(b"id,text,score,lang\r\n") and len(out) < len(data)


def test_a_table_in_a_pipe_is_never_one_document_unasked() -> None:
    data = b'nr;inhalt\n1;"one;\ntext"\n2;a text of words\n'
    code, out, err = neardup_piped(data, "dedup", "-", "-q")
    assert (code, out) == (2, b"") and "stdin looks like a table" in err
    assert "use --format csv --delimiter ';', or --format text if it is one" in err
    code, out, err = neardup_piped(data, "dedup", "-", "-q", "--format", "text")
    assert (code, err) == (0, "") and json.loads(out)["text"] == data.decode()


def test_objects_on_one_line_in_a_pipe_are_documents_as_in_a_file() -> None:
    data = b"".join(line.strip() for line in LINES[:3])
    code, out, err = neardup_piped(data, "dedup", "-")
    assert code == 0 and "3 documents" in err
    assert LINES[0].strip() in out


def test_truncated_compressed_data_is_an_error_and_nothing_comes_out() -> None:
    code, out, err = neardup_piped(gzip.compress(DATA)[:-20], "dedup", "-", "-q")
    assert (code, out) == (1, b"")
    assert err.startswith("neardup: stdin: truncated or corrupt gzip data")


def test_binary_rows_are_not_for_a_terminal(tmp_path: Path) -> None:
    WRITERS["parquet"](tmp_path / "x.parquet", DOCUMENTS)
    with mock.patch.object(output_file.sys, "stdout", mock.Mock(isatty=lambda: True)):
        with pytest.raises(UsageError, match=r"not for a terminal.* -o"):
            OutputFile(None).choose_format(find_inputs([tmp_path / "x.parquet"]))
        write_jsonl(tmp_path / "x.jsonl", DOCUMENTS)
        assert OutputFile(None).choose_format(find_inputs(["x.jsonl"])).format == "jsonl"


def test_standard_input_may_stand_between_files(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", DOCUMENTS[:3])
    write_jsonl(tmp_path / "b.jsonl", DOCUMENTS[8:])
    middle = b"".join(LINES[3:8])
    code, out, err = neardup_piped(middle, "dedup", "a.jsonl", "-", "b.jsonl", "-q")
    assert (code, out) == (0, KEPT), err


def test_standard_input_to_a_folder(tmp_path: Path) -> None:
    code, out, err = neardup_piped(DATA, "dedup", "-", "-o", "out", "-q")
    assert (code, out, err) == (0, b"", "")
    assert (tmp_path / "out" / "kept" / "stdin.jsonl").read_bytes() == KEPT
    assert not (tmp_path / "out" / ".unfinished").exists()


def test_removed_documents_on_request(tmp_path: Path) -> None:
    code, out, _ = neardup_piped(DATA, "dedup", "-", "--removed", "r.jsonl", "--report", "r.html")
    assert (code, out) == (0, KEPT)
    rows = [json.loads(line) for line in (tmp_path / "r.jsonl").read_bytes().splitlines()]
    assert [row["id"] for row in rows[:2]] == ["doc-2", "doc-3"]
    assert "<html" in (tmp_path / "r.html").read_text("utf-8")
    assert sorted(os.listdir(tmp_path)) == ["r.html", "r.jsonl", "tmp"]


def test_a_failed_run_writes_no_row(tmp_path: Path) -> None:
    code, out, err = neardup_piped(LINES[0] + b"{\n", "dedup", "-", "--strict", "-q")
    assert (code, out) == (1, b"")
    assert "stdin, row 1: not JSON" in err


def test_without_output_and_without_pipe_the_message_names_both(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    ran = neardup("dedup", "a.jsonl")
    assert ran.code == 2 and ran.out == ""
    assert "-o OUT" in ran.err and "standard output" in ran.err


def test_a_dash_is_no_input_of_other_commands(tmp_path: Path) -> None:
    ran = neardup("tune", "-", "-o", tmp_path / "tuned")
    assert ran.code == 2
    assert "-: no such file or folder" in ran.err


def start(*arguments: str, **others: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "neardup", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **others,
    )


@pytest.mark.process
def test_a_reader_that_is_gone_ends_the_run_without_a_traceback() -> None:
    rows = (
        {"text": f"text {n} " + " ".join(f"w{n * 90 + k}" for k in range(80))} for n in range(400)
    )
    data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    assert len(data) > 1 << 17  # more than a pipe holds
    with start("dedup", "-", "-q") as run:
        run.stdout.close()
        run.stdin.write(data)
        run.stdin.close()
        assert run.wait(60) == 141
        assert run.stderr.read() == b""


@pytest.mark.process
def test_ctrl_c_while_waiting_for_input_leaves_nothing(tmp_path: Path) -> None:
    with start("dedup", "-", "-o", "out.jsonl") as run:
        run.stdin.write(LINES[0])
        run.stdin.flush()
        assert b"reading standard input" in run.stderr.readline()
        time.sleep(0.1)
        run.send_signal(signal.SIGINT)
        assert run.wait(60) == 130
        assert b"can't be resumed" in run.stderr.read()
        run.stdin.close()
    assert sorted(os.listdir(tmp_path)) == ["tmp"]


@pytest.mark.process
def test_help_whose_reader_is_gone_exits_as_other_commands_do() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "neardup", "-h"]
    try:
        ran = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=60)
    finally:
        os.close(writing)
    assert (ran.returncode, ran.stderr) == (141, b"")


@pytest.mark.process
def test_a_closed_standard_output_is_one_whose_reader_is_gone(tmp_path: Path) -> None:
    """`neardup -h >&-`, and jobs whose starter closes all that it does not read."""
    source = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    for arguments in (["-h"], ["dedup", source, "-o", tmp_path / "out", "-q", "--json"]):
        ran = closed(">&- <&-", *arguments)
        assert (ran.returncode, ran.stderr) == (141, b"")
    assert (tmp_path / "out" / "run.json").exists()


@pytest.mark.process
@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full", "2> >(true)"])
def test_a_standard_error_that_can_not_be_written_loses_messages_and_no_row(
    tmp_path: Path, streams: str
) -> None:
    """It is closed, its disk is full, or its reader is gone."""
    source = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    ran = closed(streams, "dedup", source, "-o", "-")
    assert (ran.returncode, ran.stdout) == (0, KEPT)
    ran = closed(streams, "dedup", tmp_path / "missing.jsonl", "-o", "-")
    assert ran.returncode == 2


def closed(streams: str, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """Run a command with standard streams closed or directed, as a shell writes it."""
    command = [sys.executable, "-m", "neardup", *map(str, arguments)]
    shell = ["bash", "-c", f'exec "$@" {streams}', "bash", *command]
    return subprocess.run(shell, capture_output=True, timeout=60)
