"""OUT is complete, or as it was: whatever is there, whatever goes wrong."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.command_line import (
    DOCUMENTS,
    WRITERS,
    Ran,
    dedup,
    edited,
    neardup,
    process,
    refused,
    table,
    unprivileged,
)
from support.command_line import write_jsonl as jsonl


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return jsonl(tmp_path / "in" / "a.jsonl", DOCUMENTS)


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def run(*arguments: object) -> Ran:
    return neardup("dedup", *arguments, "-q")


def test_a_finished_run_is_refused(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    dedup(source, "-o", out, "--pairs")
    before = contents(out)
    refused(run(source, "-o", out), 2, str(out), "holds a finished run", "--force")
    assert contents(out) == before


def test_foreign_files_are_refused(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("years")
    refused(run(source, "-o", out), 2, str(out), "not empty (thesis.tex)", "--force")
    assert contents(out) == {"thesis.tex": b"years"}


def test_force_replaces_the_run_and_leaves_other_files_alone(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    dedup(source, "-o", out, "--pairs")
    (out / "thesis.tex").write_text("years")
    other = jsonl(tmp_path / "in" / "b.jsonl", [{"text": "something else"}])
    dedup(other, "-o", out, "--force")
    assert sorted(os.listdir(out)) == [
        "clusters.parquet",
        "kept",
        "rejected.parquet",
        "removed.parquet",
        "report.html",
        "run.json",
        "samples.parquet",
        "thesis.tex",
    ]
    assert os.listdir(out / "kept") == ["b.jsonl"]
    assert table(out, "removed") == []
    assert (out / "thesis.tex").read_text() == "years"


def test_a_run_that_fails_leaves_the_old_one_as_it_was(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    dedup(source, "-o", out)
    before = contents(out)
    refused(run(source, "-o", out, "--force", "--strict"), 1, "row 8: empty")
    assert contents(out) == before


def test_a_move_that_fails_halfway_is_undone(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    dedup(source, "-o", out)
    before = contents(out)
    rename, calls = Path.rename, []

    def failing(path: Path, target: Path) -> Path:
        calls.append(path.name)
        if len(calls) == 12:
            raise OSError(5, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", failing)
    refused(run(source, "-o", out, "--force", "--pairs"), 1, str(out), "Input/output error")
    assert len(calls) > 12
    shutil.rmtree(out / ".unfinished")
    assert contents(out) == before


def test_empty_output_folder_is_accepted(tmp_path: Path, source: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "out")
    dedup(source, "-o", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "out" / "run.json").exists()


def test_parents_of_the_output_are_created(tmp_path: Path, source: Path) -> None:
    dedup(source, "-o", tmp_path / "a" / "b" / "out")
    assert (tmp_path / "a" / "b" / "out" / "run.json").exists()


def test_output_that_is_a_file_is_refused(tmp_path: Path, source: Path) -> None:
    (tmp_path / "out").write_text("mine")
    refused(run(source, "-o", tmp_path / "out", "--force"), 2, "out is a file")
    refused(run(source, "-o", tmp_path / "out" / "deeper"), 1, "Not a directory")
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_output_inside_an_input_is_refused(tmp_path: Path, source: Path, force: list[str]) -> None:
    before = contents(tmp_path)
    folder = source.parent
    refused(run(source, "-o", folder, *force), 2, str(source), "choose an output outside")
    refused(run(source, "-o", tmp_path, *force), 2, str(source), "choose an output outside")
    refused(run(folder, "-o", folder, *force), 2, "choose an output outside")
    refused(run(folder, "-o", folder / "new" / "out", *force), 2, str(folder), "outside")
    os.symlink(folder, tmp_path / "alias")
    refused(run(folder, "-o", tmp_path / "alias" / "out", *force), 2, "outside")
    os.remove(tmp_path / "alias")
    assert contents(tmp_path) == before


def test_output_beside_the_inputs_is_accepted(source: Path) -> None:
    dedup(source, "-o", source.parent / "out")
    assert (source.parent / "out" / "run.json").exists()


def test_files_of_a_killed_run_are_replaced(tmp_path: Path, source: Path) -> None:
    left = tmp_path / "out" / ".unfinished" / "kept"
    left.mkdir(parents=True)
    (left / "half.jsonl").write_text("{")
    dedup(source, "-o", tmp_path / "out")
    assert ".unfinished" not in os.listdir(tmp_path / "out")


def test_second_run_into_the_same_folder_is_refused(tmp_path: Path, source: Path) -> None:
    (tmp_path / "out").mkdir()
    handle = os.open(tmp_path / "out", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    refused(run(source, "-o", tmp_path / "out"), 1, "another run is writing to", "out")
    os.close(handle)
    dedup(source, "-o", tmp_path / "out")


@pytest.mark.parametrize(("mode", "name"), [(0o500, "out"), (0o500, "."), (0, "out"), (0, ".")])
def test_unwritable_output_folder_is_refused(
    tmp_path: Path, source: Path, mode: int, name: str
) -> None:
    out = tmp_path / "locked" / name
    (tmp_path / "locked").mkdir(mode=mode)
    ran = unprivileged("dedup", source, "-o", out, "-q")
    refused(ran, 1, f"{out} can't be written (Permission denied): choose another output")


def test_read_only_file_system_is_refused(source: Path) -> None:
    refused(run(source, "-o", "/proc/neardup/out"), 1, "/proc/neardup/out", "can't be written")


def test_too_long_output_name_is_refused(tmp_path: Path, source: Path) -> None:
    refused(run(source, "-o", tmp_path / "deep" / ("x" * 300)), 1, "name too long")
    assert os.listdir(tmp_path) == ["in"]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("only root can mount a tiny disk")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("extension", ["jsonl", "jsonl.zst", "csv", "parquet", "arrow"])
def test_no_space_for_the_kept_files(
    tmp_path: Path, tiny_disk: Path, extension: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neardup.pipeline.stages.sketch.check_disk", lambda *_: None)
    source = tmp_path / f"a.{extension}"
    random = np.random.default_rng(1)
    rows = [{"text": random.bytes(2_000).hex(" ", 2), "id": n} for n in range(700)]
    WRITERS[extension](source, rows)
    assert source.stat().st_size > 1 << 20
    ran = run(source, "-o", tiny_disk / "out")
    refused(ran, 1, f"a.{extension}", "No space left on device", "choose another output")
    assert os.listdir(tiny_disk / "out") == [".unfinished"]


def test_too_little_space_is_noticed_before_the_run_begins(tmp_path: Path, tiny_disk: Path) -> None:
    rows = [{"text": f"{n} " * 500} for n in range(1_000)]
    ran = run(jsonl(tmp_path / "a.jsonl", rows), "-o", tiny_disk / "out")
    refused(ran, 1, str(tiny_disk), "of disk", "on another disk")
    assert os.listdir(tiny_disk) == []


def test_out_on_a_disk_of_its_own(source: Path, tiny_disk: Path) -> None:
    dedup(source, "-o", tiny_disk)
    assert (tiny_disk / "run.json").exists()


def test_closed_pipe_ends_without_a_traceback(tmp_path: Path, source: Path) -> None:
    command = f"'{os.sys.executable}' -m neardup dedup '{source}' -o '{tmp_path}/out' | true"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert "Traceback" not in ran.stderr and "Exception" not in ran.stderr
    assert (tmp_path / "out" / "run.json").exists()


def test_ascii_terminal_gets_escaped_names(tmp_path: Path) -> None:
    rows = [{"id": "é", "text": edited(1)}, {"id": "漢", "text": edited(1)}]
    source = jsonl(tmp_path / "a.jsonl", rows)
    ran = process("dedup", source, "-o", tmp_path / "out", env={"PYTHONIOENCODING": "ascii"})
    assert ran.returncode == 0, ran.stderr
    assert "\\u6f22 removed" in ran.stdout


def test_force_never_replaces_what_is_not_a_run(tmp_path: Path) -> None:
    source = jsonl(tmp_path / "a.jsonl", [{"text": "one two"}])
    out = tmp_path / "mine"
    (out / "kept").mkdir(parents=True)
    (out / "kept" / "important.txt").write_text("precious")
    refused(neardup("dedup", source, "-o", out, "--force"), 2, "kept", "move it away")
    (out / "run.json").write_text("not ours")
    refused(neardup("dedup", source, "-o", out, "--force"), 2, "does not belong to a finished run")
    assert (out / "kept" / "important.txt").read_text() == "precious"
