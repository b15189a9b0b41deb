"""A folder that is no finished run, or a damaged one, is one line with the cure."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.command_line import neardup, refused, unprivileged

from neardup.formats import tables

MakeRun = Any


@pytest.mark.parametrize(
    "make",
    [
        lambda path: None,
        lambda path: path.mkdir(),
        lambda path: path.write_text("a file"),
    ],
)
def test_no_finished_run(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "run")
    ran = neardup("report", tmp_path / "run")
    refused(ran, 2, f"{tmp_path / 'run'} holds no finished run", "neardup dedup -o")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"version": 1, "fingerprint": 2, "counts": 3}',
    ],
)
def test_a_record_that_is_none(make_run: MakeRun, content: bytes) -> None:
    run = make_run()
    (run / "run.json").write_bytes(content)
    refused(neardup("report", run), 1, "run.json is damaged", "run neardup dedup again")
    assert not (run / "report.html").exists()


@pytest.mark.parametrize(
    "changed",
    [
        {"counts": {"documents": 9, "kept": 3, "removed": 2, "rejected": 1}},
        {"counts": {"documents": 2, "kept": -1, "removed": 2, "rejected": 1}},
        {"parameters": {"threshold": 0.8, "bands": 0, "rows": 6}},
        {"parameters": {"threshold": float("nan"), "bands": 21, "rows": 6}},
        {"stages": [{"name": "sketch", "seconds": float("inf")}]},
        {"stages": 7},
        {"inputs": [None]},
        {"hot_buckets": [{"size": "x"}]},
        {"reasons": []},
        {"metrics": {"buckets": "many"}},
        {"skipped_files": [{}]},
    ],
)
def test_a_record_that_makes_no_sense(make_run: MakeRun, changed: dict[str, Any]) -> None:
    refused(neardup("report", make_run(**changed)), 1, "run.json is damaged", "dedup again")


@pytest.mark.parametrize("name", ["removed", "clusters", "rejected"])
def test_a_missing_table(make_run: MakeRun, name: str) -> None:
    run = make_run()
    (run / f"{name}.parquet").unlink()
    refused(neardup("report", run), 1, f"{name}.parquet", "missing", "run neardup dedup again")


@pytest.mark.parametrize("name", ["removed", "clusters", "rejected", "samples"])
def test_a_truncated_or_altered_table(make_run: MakeRun, name: str) -> None:
    run = make_run()
    path = run / f"{name}.parquet"
    data = path.read_bytes()
    for broken in (b"", data[:-9], data[: len(data) // 2], b"PAR1" + bytes(60) + data[64:]):
        path.write_bytes(broken)
        refused(neardup("report", run), 1, f"{name}.parquet is damaged")


@pytest.mark.parametrize("name", ["removed", "clusters", "rejected", "samples"])
def test_a_table_with_other_columns(make_run: MakeRun, name: str) -> None:
    run = make_run()
    pq.write_table(pa.table({"id": [1, 2]}), run / f"{name}.parquet")
    refused(neardup("report", run), 1, f"{name}.parquet is damaged", "columns")


def test_a_table_that_does_not_fit_the_record(make_run: MakeRun) -> None:
    run = make_run()
    pq.write_table(tables.REMOVED.empty_table(), run / "removed.parquet")
    refused(neardup("report", run), 1, "removed.parquet", "it has 0 rows, run.json says 2")


@pytest.mark.parametrize("column", ["similarity", "id", "cluster"])
def test_a_table_with_a_value_missing(make_run: MakeRun, column: str) -> None:
    run = make_run()
    path = run / "removed.parquet"
    rows = [row | {column: None} for row in pq.read_table(path).to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, schema=tables.REMOVED), path)
    refused(neardup("report", run), 1, "removed.parquet is damaged")


def test_a_folder_that_can_not_be_written_keeps_its_report(make_run: MakeRun) -> None:
    run = make_run()
    (run / "report.html").write_text("an older report")
    run.chmod(0o555)
    try:
        refused(unprivileged("report", run), 1, "report.html can't be written")
    finally:
        run.chmod(0o755)
    assert (run / "report.html").read_text() == "an older report"
    assert json.loads((run / "run.json").read_bytes())
    assert not list(run.glob(".*"))
