"""A bad file is named in the error, or skipped and listed; the run resumes once it is fixed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support import batch_engine
from support.command_line import WRITERS, neardup, refused
from support.sizes import each_once, full

from neardup.errors import InputError
from neardup.pipeline import run as batch_run


def cut(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])


def garbage(path: Path) -> None:
    path.write_bytes(b"\x28\xb5\x2f\xfd" + b"no such data" * 30)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def sources(folder: Path, extension: str, files: int = 9, each: int = 12) -> list[Path]:
    folder.mkdir()
    documents = [row | {"lang": "x", "score": 1.0} for row in batch_engine.rows(41, files * each)]
    paths = [folder / f"{number}.{extension}" for number in range(files)]
    for number, path in enumerate(paths):
        WRITERS[extension](path, documents[number * each : (number + 1) * each])
    return paths


FORMATS = ["parquet", "jsonl.gz", "jsonl.zst", "arrow"]


@pytest.mark.parametrize(
    ("extension", "damage", "place"), each_once(FORMATS, [cut, garbage, emptied], [0, 4, -1])
)
def test_a_bad_file_is_named_or_skipped(
    tmp_path: Path, extension: str, damage: Callable[[Path], None], place: int
) -> None:
    """The shards hold several files each, whole ones before and after the bad one."""
    paths = sources(tmp_path / "in", extension)
    bad = paths[place]
    whole = bad.read_bytes()
    plain = batch_engine.go(paths, tmp_path / "plain", shard=8_000)
    damage(bad)
    with pytest.raises(InputError, match=bad.name):
        batch_engine.go(paths, tmp_path / "out", shard=8_000)
    others = [path for path in paths if path != bad]
    got = batch_engine.go(paths, tmp_path / "skipped", shard=8_000, others={"skip_bad_files": True})
    without = batch_engine.go(others, tmp_path / "others", shard=8_000)
    assert got == without
    (listed,) = json.loads((tmp_path / "skipped" / "run.json").read_bytes())["skipped_files"]
    assert listed["file"] == str(bad) and bad.name in listed["reason"]
    bad.write_bytes(whole)
    assert batch_engine.go(paths, tmp_path / "out", shard=8_000) == plain


@pytest.mark.parametrize("count", [120, full(400)])
@pytest.mark.parametrize("extension", ["jsonl.gz", "parquet"])
def test_damage_late_in_a_large_file_is_reported(
    tmp_path: Path, extension: str, count: int
) -> None:
    """Its first part has been sketched by then; nothing of it may stay."""
    small = sources(tmp_path / "in", "jsonl", files=2)
    large = tmp_path / "in" / f"large.{extension}"
    documents = [row | {"lang": "x", "score": 1.0} for row in batch_engine.rows(42, count)]
    WRITERS[extension](large, documents)
    whole = large.read_bytes()
    inputs = [small[0], large, small[1]]
    plain = batch_engine.go(inputs, tmp_path / "plain")
    middle = len(whole) * 9 // 10
    if extension == "parquet":  # in a text: the other columns are read only to be written
        layout = pq.ParquetFile(large).metadata
        group = layout.row_group(layout.num_row_groups // 2)
        columns = [group.column(place) for place in range(group.num_columns)]
        text = next(column for column in columns if column.path_in_schema == "text")
        middle = text.data_page_offset + text.total_compressed_size // 2 - 30
    large.write_bytes(whole[:middle] + bytes(60) + whole[middle + 60 :])
    with pytest.raises(InputError, match=large.name):
        batch_engine.go(inputs, tmp_path / "out")
    got = batch_engine.go(inputs, tmp_path / "skipped", others={"skip_bad_files": True})
    assert got == batch_engine.go(small, tmp_path / "others")
    large.write_bytes(whole)
    assert batch_engine.go(inputs, tmp_path / "out") == plain


def test_several_bad_files_are_all_listed(tmp_path: Path) -> None:
    paths = sources(tmp_path / "in", "jsonl.zst", files=30, each=4)
    bad = [paths[0], *paths[10:14], paths[-1]]
    for path in bad:
        cut(path)
    got = batch_engine.go(paths, tmp_path / "out", shard=3_000, others={"skip_bad_files": True})
    record = json.loads((tmp_path / "out" / "run.json").read_bytes())
    assert {one["file"] for one in record["skipped_files"]} == {str(path) for path in bad}
    others = [path for path in paths if path not in bad]
    assert got == batch_engine.go(others, tmp_path / "others", shard=3_000)


def test_a_run_with_only_bad_files_is_an_error(tmp_path: Path) -> None:
    paths = sources(tmp_path / "in", "jsonl.gz", files=3)
    for path in paths:
        cut(path)
    got = batch_engine.go(paths, tmp_path / "out", others={"skip_bad_files": True})
    assert got.counts["documents"] == 0 and got.kept == {}


def test_files_read_before_a_bad_file_are_not_read_again(tmp_path: Path) -> None:
    paths = sources(tmp_path / "in", "jsonl.gz")
    whole = paths[-1].read_bytes()
    cut(paths[-1])
    with pytest.raises(InputError):
        batch_engine.go(paths, tmp_path / "out", shard=600)
    paths[-1].write_bytes(whole)
    shown = batch_engine.Silent()
    batch_run.run_job(batch_engine.job(paths, tmp_path / "out", shard=600), shown)
    assert any("are already read" in message for message in shown.said)


def test_skip_bad_files_on_the_command_line(tmp_path: Path) -> None:
    paths = sources(tmp_path / "in", "jsonl.gz")
    cut(paths[3])
    command = ["dedup", *paths, "-o", tmp_path / "out"]
    refused(neardup(*command, "-q"), 1, str(paths[3]), "truncated or corrupt gzip data")
    ran = neardup(*command, "--skip-bad-files")
    assert ran.code == 0
    assert f"skipped: {paths[3]}" in ran.err
    assert "skipped             1 bad file; run.json lists them" in ran.out
