"""What only a process of its own shows: start, signals, workers, terminals."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from support.command_line import DOCUMENTS, WRITERS, dedup, edited, neardup, process, refused, table
from support.command_line import write_jsonl as jsonl

import neardup as package
from neardup.corpus import write
from neardup.formatting import format_bytes
from neardup.pipeline import progress_display
from neardup.pipeline import run as batch_run
from neardup.spec import Spec

START = [sys.executable, "-m", "neardup"]


def test_help_loads_neither_numba_nor_pyarrow() -> None:
    code = (
        "import sys; sys.argv = ['neardup', *sys.argv[1:]]\n"
        "from neardup.cli import main\n"
        "try: main()\n"
        "finally: print(sorted({'numba', 'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    for arguments in (
        ["--help"],
        ["dedup", "--help"],
        ["exact", "--help"],
        ["--version"],
    ):
        ran = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True
        )
        assert ran.returncode == 0
        assert ran.stdout.splitlines()[-1] == "[]"


def test_dedup_of_local_files_loads_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(f'{{"text": "the text of document {i}"}}\n' for i in range(50)))
    code = (
        "import sys; sys.argv = ['neardup', *sys.argv[1:]]\n"
        "from neardup.cli import main\n"
        "try: main()\n"
        "finally: print(sorted({'pandas', 'pydantic', 'numpy.ma', 'neardup.index', 'http.client'}"
        " & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, "dedup", texts, "-o", tmp_path / "out"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "[]"


def test_help_names_every_option() -> None:
    ran = neardup("dedup", "--help-all")
    assert ran.code == 0
    options = """
        text id format strict threshold recall bands rows slots shingle text-profile preset seed
        verify tables measure within keep cluster pairs no-kept force workers quiet json out
    """
    for option in options.split():
        assert f"--{option}" in ran.out


def test_version_is_that_of_the_package() -> None:
    ran = neardup("--version")
    assert (ran.code, ran.out) == (0, f"neardup {package.__version__}\n")


def test_no_arguments_shows_help() -> None:
    ran = neardup()
    assert ran.code == 2
    assert "dedup" in ran.out + ran.err


def test_usage_errors_are_one_line() -> None:
    refused(neardup("nonsense"), 2, "nonsense", "neardup --help")
    refused(neardup("dedup"), 2, "INPUT", "neardup dedup --help")
    refused(neardup("dedup", "a.jsonl"), 2, "give -o OUT")
    refused(neardup("spec", "--shingle", "word"), 2, "UNIT:SIZE")


def test_spec_shows_fingerprint_and_options() -> None:
    ran = neardup("spec", "--json", "--shingle", "char:24", "--slots", 260, "--seed", 3)
    assert ran.code == 0
    wanted = Spec.of("char:24", slots=260, seed=3)
    assert Spec.from_json(ran.out) == wanted
    digest = hashlib.blake2b(ran.out.strip().encode(), digest_size=16).hexdigest()
    assert digest == wanted.fingerprint
    lines = dict(line.split() for line in neardup("spec").out.splitlines())
    assert lines["fingerprint"] == Spec().fingerprint
    assert (lines["unit"], lines["size"], lines["slots"]) == ("word", "5", "128")


def test_demo_finds_the_code_pages() -> None:
    ran = neardup("demo")
    assert ran.code == 0, ran.err
    assert "encodings/cp1140.py" in ran.out
    assert "similar to encodings/cp" in ran.out
    documents = int(ran.out.split(" documents")[0].split()[-1].replace(",", ""))
    assert documents > 500


def test_debug_shows_a_traceback(tmp_path: Path) -> None:
    ran = process("dedup", tmp_path / "none", "-o", tmp_path / "out", "--debug")
    assert ran.returncode == 1
    assert "Traceback" in ran.stderr and "MissingInput" in ran.stderr
    ran = process("--debug", "dedup", tmp_path / "none", "-o", tmp_path / "out")
    assert "Traceback" in ran.stderr


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (pa.ArrowMemoryError("malloc of size 1048576 failed"), "out of memory: "),
        (MemoryError(), "out of memory: "),
        (RuntimeError("can't start new thread"), "can't start new thread: "),
    ],
)
def test_too_little_memory_is_not_told_as_a_damaged_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    """As under `ulimit -v`."""

    def fail(*_: object, **__: object) -> None:
        raise error

    source = jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    monkeypatch.setattr("neardup.corpus.read.parse_lines", fail)
    ran = neardup("dedup", source, "-o", tmp_path / "out", "-q", "--skip-bad-files")
    refused(ran, 1, told, "--workers", "ulimit -v")


def test_internal_error_quotes_no_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("classified text")

    monkeypatch.setattr(batch_run, "rank_and_collapse", broken)
    source = jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    ran = neardup("dedup", source, "-o", tmp_path / "out", "-q")
    refused(ran, 1, "internal error (ValueError, run.py:", "--debug")
    assert "classified" not in ran.err
    assert os.listdir(tmp_path / "out") == [".unfinished"]


def test_dedup_prints_progress_and_summary_as_a_process(tmp_path: Path) -> None:
    jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    ran = process("dedup", "a.jsonl", "-o", "clean", cwd=tmp_path)
    assert ran.returncode == 0
    assert ran.stdout.startswith("17 documents   9 kept   7 removed (3 identical)   1 rejected\n")
    first, *others = ran.stderr.splitlines()
    assert first.startswith("neardup: about 17 documents: the run will need about ")
    assert [re.sub(r" [\d.,]+ \w+$", "", line) for line in others] == [
        "neardup: reading",
        "neardup: ranking",
        "neardup: banding",
        "neardup: shingling",
        "neardup: deciding",
        "neardup: writing tables",
        "neardup: writing",
    ]
    ran = process("dedup", "none.jsonl", "-o", "other", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "neardup: none.jsonl: no such file or folder: check the path\n"


# -- the same answer, however it is computed ----------------------------------------------------


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight chunks of documents, a third of them copies of documents in other chunks."""
    rows = [{"text": edited(n % 3_000, n % 80, count=300), "v": n % 7} for n in range(4_500)]
    rows[1_234] = {"text": None}  # type: ignore[dict-item]
    return jsonl(tmp_path_factory.mktemp("many") / "many.jsonl", rows)


def outcome(out: Path) -> dict[str, bytes]:
    names = ("removed.parquet", "clusters.parquet", "rejected.parquet", "kept/many.jsonl")
    return {name: (out / name).read_bytes() for name in names}


def test_the_number_of_workers_changes_nothing(tmp_path: Path, many: Path) -> None:
    outcomes = []
    for workers in (1, 2, 3):
        out = tmp_path / str(workers)
        record = dedup(many, "-o", out, "--workers", workers, "--keep", "max:v")
        assert record["counts"]["removed"] > 1_000
        outcomes.append(outcome(out))
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_the_hash_seed_changes_nothing(tmp_path: Path, many: Path) -> None:
    outcomes = []
    for seed in ("1", "2"):
        ran = process("dedup", many, "-o", tmp_path / seed, "-q", env={"PYTHONHASHSEED": seed})
        assert ran.returncode == 0, ran.stderr
        outcomes.append(outcome(tmp_path / seed))
    assert outcomes[0] == outcomes[1]


def test_error_in_a_worker_is_reported_in_one_line(tmp_path: Path, many: Path) -> None:
    options = ("-o", tmp_path / "out", "--workers", 2, "-q")
    refused(neardup("dedup", many, *options, "--text", "body"), 2, "'body'", "text, v")
    refused(neardup("dedup", many, *options, "--strict"), 1, f"{many}, row 1234: text is null")
    assert not (tmp_path / "out").exists()


# -- signals ------------------------------------------------------------------------------------


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)


def started(tmp_path: Path, many: Path, workers: int) -> subprocess.Popen[str]:
    """A run in a process group of its own, as a shell starts it, while it reads."""
    big = tmp_path / "big.jsonl"
    big.write_bytes(many.read_bytes() * 25)
    command = [*START, "dedup", str(big), "-o", str(tmp_path / "out"), "--workers", str(workers)]
    run = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert run.stderr is not None
    assert any(line.startswith("neardup: reading") for line in iter(run.stderr.readline, ""))
    return run


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_prints_one_line_and_the_run_is_known_as_stopped(
    tmp_path: Path, many: Path, workers: int
) -> None:
    run = started(tmp_path, many, workers)
    os.killpg(run.pid, signal.SIGINT)
    out, err = run.communicate(timeout=30)
    assert run.returncode == 130, err
    assert out == ""
    assert err == "neardup: interrupted; the same command goes on from here\n"
    assert os.listdir(tmp_path / "out") == [".unfinished"]
    assert neardup("status", tmp_path / "out").out.startswith("stopped: reading ")


def test_sigterm_leaves_no_output(tmp_path: Path, many: Path) -> None:
    run = started(tmp_path, many, 2)
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=30)
    assert run.returncode == 143
    assert os.listdir(tmp_path / "out") == [".unfinished"]


def test_killed_run_is_resumed(tmp_path: Path, many: Path) -> None:
    run = started(tmp_path, many, 2)
    run.kill()
    run.communicate(timeout=30)
    assert not (tmp_path / "out" / "run.json").exists()
    dedup(many, "-o", tmp_path / "out")
    assert table(tmp_path / "out", "removed")


# -- progress -----------------------------------------------------------------------------------


class Recorder(progress_display.PlainProgress):
    def __init__(self) -> None:
        super().__init__()
        self.steps: dict[str, tuple[int, list[int]]] = {}

    def stage(self, name: str, total: int | None, unit: str) -> None:
        self.steps[name] = total, []
        self.latest = self.steps[name][1]

    def advance(self, amount: int) -> None:
        self.latest.append(amount)


def test_progress_of_a_stage_without_a_total(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_display, "EVERY_SECONDS", 0.0)
    progress = progress_display.PlainProgress()
    progress.stage("deciding", None, "rounds")
    progress.advance(3)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "neardup: deciding"
    assert second.startswith("neardup: deciding 3 rounds, ") and "left" not in second


@pytest.mark.parametrize(
    "extension", ["jsonl", "jsonl.gz", "jsonl.zst", "csv", "parquet", "arrow", "arrows", "txt"]
)
def test_progress_counts_the_bytes_on_disk_and_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extension: str
) -> None:
    recorder = Recorder()
    monkeypatch.setattr(progress_display, "PlainProgress", lambda: recorder)
    rows = [{"text": edited(n, count=300)} for n in range(2_500)]
    sources = [tmp_path / f"{n}.txt" for n in range(600)]
    if extension == "txt":
        for source, row in zip(sources, rows, strict=False):
            source.write_text(row["text"])
    else:
        sources = [tmp_path / f"a.{extension}"]
        WRITERS[extension](sources[0], rows)
    monkeypatch.setattr(write, "_BATCH", 1 << 18)
    assert neardup("dedup", *sources, "-o", tmp_path / "out").code == 0
    total, steps = recorder.steps["reading"]
    assert total == sum(source.stat().st_size for source in sources)
    assert 0.9 * total <= sum(steps) <= total
    assert len(steps) > 1 and max(steps) < 0.9 * total
    documents = len(sources) if extension == "txt" else len(rows)
    total, steps = recorder.steps["writing"]
    assert total == sum(steps) == documents
    assert len(steps) > 1


def test_progress_in_a_pipe_is_lines_with_a_rate(
    tmp_path: Path, many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_display, "EVERY_SECONDS", 0.0)
    ran = neardup("dedup", many, "-o", tmp_path / "out")
    lines = ran.err.splitlines()
    assert all(line.startswith("neardup: ") for line in lines)
    assert any(
        f" MB of {format_bytes(many.stat().st_size)}, " in line
        and "B/s, " in line
        and " s left, " in line
        and line.endswith("B of memory")
        for line in lines
    )
    assert "\x1b" not in ran.err and "\r" not in ran.err


def on_a_terminal(*arguments: object) -> tuple[int, str]:
    """Run with standard error on a terminal; what was shown there."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    run = subprocess.Popen(
        [*START, *map(str, arguments)], stdout=subprocess.PIPE, stderr=theirs, env=environment
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            block = os.read(ours, 4096)
        except OSError:  # the other side is closed
            break
        if not block:
            break
        shown += block
    os.close(ours)
    run.communicate(timeout=30)
    return run.returncode, shown.decode()


def test_progress_on_a_terminal_is_a_bar(tmp_path: Path, many: Path) -> None:
    big = tmp_path / "big.jsonl"
    big.write_bytes(many.read_bytes() * 4)
    code, shown = on_a_terminal("dedup", big, "-o", tmp_path / "out", "--workers", 1)
    assert code == 0
    assert "reading 32 MB" in shown and "\x1b[" in shown
    assert "MB/s" in shown
    code, shown = on_a_terminal("dedup", many, "-o", tmp_path / "quiet", "--quiet")
    assert (code, shown) == (0, "")


def test_json_is_the_only_output(tmp_path: Path, many: Path) -> None:
    ran = process("dedup", many, "-o", tmp_path / "out", "--json")
    assert json.loads(ran.stdout)["counts"]["documents"] == 4_500
    assert ran.stderr == ""


def test_short_names_of_help_and_version() -> None:
    assert neardup("-V").out == neardup("--version").out
    for arguments in (("-h",), ("help",)):
        assert neardup(*arguments).out == neardup("--help").out
    full = neardup("dedup", "--help").out
    assert neardup("dedup", "-h").out == neardup("help", "dedup").out == full
    assert neardup("help", "index", "build").out == neardup("index", "build", "-h").out


def test_status_of_a_finished_run_as_json(tmp_path: Path) -> None:
    dedup(jsonl(tmp_path / "a.jsonl", DOCUMENTS), "-o", tmp_path / "out")
    status = json.loads(neardup("status", tmp_path / "out", "--json").out)
    assert status["state"] == "finished"
    assert status["counts"]["documents"] == len(DOCUMENTS)


def test_keys_as_json(tmp_path: Path) -> None:
    neardup("keys", "add", "crawler", "--data", tmp_path, "--scope", "read")
    (key,) = json.loads(neardup("keys", "list", "--data", tmp_path, "--json").out)
    assert (key["name"], key["scopes"]) == ("crawler", ["read"])
