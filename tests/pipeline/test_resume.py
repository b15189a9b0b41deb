"""A stopped run resumes with the same command, and gives the answer of an uninterrupted run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support import batch_engine
from support.command_line import dedup, neardup, refused, table, write_jsonl
from support.killing import sketches
from support.sizes import each_once, full

from neardup.errors import InputError, OutputError
from neardup.pipeline import run as batch_run
from neardup.pipeline.job import Job
from neardup.pipeline.stages import tables

KILLING = Path(batch_engine.__file__).with_name("killing.py")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return batch_engine.write(tmp_path_factory.mktemp("in"), batch_engine.rows(11, 250), files=3)


def killing(what: str, inputs: list[Path], folder: Path, **given: Any) -> list[int]:
    """Let runs be killed; how often each of them was."""
    asked = json.dumps(given | {"inputs": [str(path) for path in inputs], "folder": str(folder)})
    ran = subprocess.run(
        [sys.executable, str(KILLING), what, asked],
        capture_output=True,
        text=True,
        timeout=900,
        env=batch_engine.environment(),
    )
    assert ran.returncode == 0 and ran.stderr == "", ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize(("count", "wanted"), [(800, 5), full(5_000, 100)])
def test_run_resumes_after_kills_at_random_moments(tmp_path: Path, count: int, wanted: int) -> None:
    inputs = batch_engine.write(tmp_path / "in", batch_engine.rows(12, count), files=5)
    kills = killing("at_random_times", inputs, tmp_path, seed=count, wanted=wanted)
    assert sum(kills) >= wanted
    plain = batch_engine.outcome(tmp_path / "plain")
    assert plain.counts["removed"] > 100
    for number in range(len(kills)):
        assert batch_engine.outcome(tmp_path / str(number)) == plain


def kill_at_steps(inputs: list[Path], folder: Path, **given: Any) -> None:
    kills = killing("at_steps", inputs, folder, **given)
    assert len(kills) > 4 and set(kills[:-1]) == {1} and kills[-1] == 0
    asked = {name: value for name, value in given["asked"].items() if name != "force"}
    plain = batch_engine.go(inputs, folder / "plain", **asked)
    for number in range(len(kills)):
        assert batch_engine.outcome(folder / str(number)) == plain


@pytest.mark.parametrize("force", [False, True])
def test_run_resumes_after_a_kill_before_chosen_steps(
    tmp_path: Path, inputs: list[Path], force: bool
) -> None:
    """A step makes, renames or removes a file or a folder."""
    asked = {"limit": 2} | ({"force": True} if force else {})
    kill_at_steps(inputs, tmp_path, first=3, every=67 if force else 53, asked=asked)


@pytest.mark.slow
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("cluster", ["stars", "components"])
def test_run_resumes_after_a_kill_before_each_step(
    tmp_path: Path, inputs: list[Path], force: bool, cluster: str
) -> None:
    asked = {"limit": 2, "cluster": cluster, "workers": 2} | ({"force": True} if force else {})
    kill_at_steps(inputs, tmp_path, first=1, every=1, asked=asked)


# -- signals ------------------------------------------------------------------------------------

DRIVER = """
import sys, neardup.cli
from support import batch_engine
from pathlib import Path
from neardup.pipeline import job, run
shard = 1_000
made = job.Job
run.Job = job.Job = lambda **given: made(**given, shard=shard, chunk=500)
neardup.cli.main()
"""


@pytest.mark.parametrize("count", [1_500, full(4_000)])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_resumes(
    tmp_path: Path, number: signal.Signals, code: int, count: int
) -> None:
    inputs = batch_engine.write(tmp_path / "in", batch_engine.rows(13, count), files=3)
    out = tmp_path / "out"
    line = batch_engine.command(DRIVER, "dedup", *inputs, "-o", out, "--workers", 2, "-q")
    run = subprocess.Popen(
        line,
        stderr=subprocess.PIPE,
        text=True,
        env=batch_engine.environment(),
        start_new_session=True,
    )
    end = time.monotonic() + 60
    while len(sketches(batch_engine.unfinished(out))) < 5:
        assert run.poll() is None and time.monotonic() < end
        time.sleep(0.002)
    run.send_signal(number)
    _, said = run.communicate(timeout=60)
    assert run.returncode == code
    assert said == ("neardup: interrupted; the same command goes on from here\n" * (code == 130))
    complete = sketches(batch_engine.unfinished(out))
    assert len(complete) >= 5
    going_on = batch_engine.process(DRIVER, "dedup", *inputs, "-o", out, "--workers", 2)
    assert going_on.returncode == 0, going_on.stderr
    assert "neardup: resuming: " in going_on.stderr
    run_json = json.loads((out / "run.json").read_bytes())
    options = {"threshold": run_json["parameters"]["threshold"]}
    plain = tmp_path / "plain"
    batch_run.run_job(cli_like(inputs, plain, **options), batch_engine.Silent())
    assert batch_engine.outcome(out) == batch_engine.outcome(plain)


def cli_like(inputs: list[Path], out: Path, **options: Any) -> Job:
    nothing = dict.fromkeys(batch_engine.SMALL)
    return batch_engine.job(inputs, out, **nothing | options)


# -- what is different when it goes on ----------------------------------------------------------


class Stopped(BaseException):
    pass


class Attempt:
    """One attempt at a run; `again` are the shards that it has sketched."""

    def __init__(self, inputs: list[Path], out: Path, stop: bool = False, **asked: Any) -> None:
        before = sketches(batch_engine.unfinished(out))

        def finish(work: Path) -> None:
            now = sketches(work)
            self.again = [name for name, file in now.items() if before.get(name) != file]
            self.shards = len(now)
            if stop:
                raise Stopped

        others = {"finish": finish} | asked.pop("others", {})
        asking = batch_engine.job(inputs, out, others=others, **asked)
        if stop:
            with pytest.raises(Stopped):
                batch_run.run_job(asking, batch_engine.Silent())
        else:
            batch_run.run_job(asking, batch_engine.Silent())
            self.outcome = batch_engine.outcome(out)


FIRST = {"threshold": 0.5, "limit": 3}


@pytest.fixture(scope="module")
def first(inputs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was stopped at its end; tests go on in copies of it."""
    out = tmp_path_factory.mktemp("first") / "out"
    attempt = Attempt(inputs, out, stop=True, **FIRST)
    assert len(attempt.again) == attempt.shards > 5
    return out


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"threshold": 0.4},
        full({"threshold": 0.9}),
        full({"limit": 1}),
        {"measure": "containment"},
        full({"keep": "longest"}),
        {"verify": "estimate"},
        full({"verify": "none"}),
        {"cluster": "components"},
        {"workers": 2},
        {"budget": batch_engine.Little(1_000)},
    ],
    ids=str,
)
def test_options_outside_the_sketch_reuse_sketches(
    tmp_path: Path, inputs: list[Path], first: Path, asked: batch_engine.Row
) -> None:
    shutil.copytree(first, tmp_path / "out")
    second = Attempt(inputs, tmp_path / "out", **FIRST | asked)
    assert second.again == []
    assert second.outcome == batch_engine.go(inputs, tmp_path / "plain", **FIRST | asked)


@pytest.mark.parametrize(("bits", "saved"), each_once([None, 8], [False, True]))
def test_band_keys_of_a_stopped_run_are_not_taken_for_signatures(
    tmp_path: Path, inputs: list[Path], bits: int | None, saved: bool
) -> None:
    asked = {"threshold": 0.8, "slots": 64, "bands": 8, "rows": 8, "bits": bits}
    then = asked if saved else asked | {"verify": "estimate"}
    Attempt(inputs, tmp_path / "out", stop=True, **asked)
    got = Attempt(inputs, tmp_path / "out", **then, others={"save_sketches": saved}).outcome
    assert got == batch_engine.go(inputs, tmp_path / "plain", **then)
    if saved:
        compared = asked | {"verify": "estimate"}
        against = {"against": (tmp_path / "out",)}
        batch_engine.go(inputs, tmp_path / "next", **compared, others=against)


@pytest.mark.parametrize(
    "asked", [{"bands": 4, "rows": 3}, {"bands": None, "rows": None, "tables": "2x3,3x2"}], ids=str
)
def test_other_bands_read_again_unless_signatures_are_compared_or_saved(
    tmp_path: Path, inputs: list[Path], asked: batch_engine.Row
) -> None:
    plain = batch_engine.go(inputs, tmp_path / "plain", **FIRST | asked)
    for name, others, again in [("keys", {}, True), ("slots", {"save_sketches": True}, False)]:
        first = Attempt(inputs, tmp_path / name, stop=True, **FIRST, others=dict(others))
        second = Attempt(inputs, tmp_path / name, **FIRST | asked, others=dict(others))
        assert (len(second.again) == first.shards) is again
        assert second.outcome.removed == plain.removed


@pytest.mark.parametrize(
    "asked",
    [
        {"seed": 1},
        full({"slots": 16}),
        {"shingle": "word:3"},
        full({"shingle": "char:4"}),
        {"text_profile": "aggressive"},
        {"within": "lang"},
        full({"distinguish": "lang"}),
        {"distinguish": "numbers"},
        {"keep": "max:score"},
        {"chunk": 600},
    ],
    ids=str,
)
def test_options_of_the_sketch_make_new_sketches(
    tmp_path: Path, inputs: list[Path], first: Path, asked: batch_engine.Row
) -> None:
    shutil.copytree(first, tmp_path / "out")
    second = Attempt(inputs, tmp_path / "out", **FIRST | asked)
    assert len(second.again) == second.shards > 5
    assert second.outcome == batch_engine.go(inputs, tmp_path / "plain", **FIRST | asked)


def test_saved_sketches_serve_other_tables(tmp_path: Path, inputs: list[Path]) -> None:
    """More recall without a rebuild: slots that the first run did not use are there."""
    out, saving = tmp_path / "out", {"others": {"save_sketches": True, "force": True}}

    def places() -> dict[str, int]:
        files = {path.name: path.stat().st_ino for path in (out / "sketches").iterdir()}
        return {name: files[name] for name in set(files) - {"set.json", "kept"}}

    few = batch_engine.go(inputs, out, bands=2, rows=3, **saving)
    saved = places()
    asked = {"bands": None, "rows": None, "tables": "2x3,3x2"}
    more = batch_engine.go(inputs, out, **asked | saving)
    assert places() == saved
    assert more == batch_engine.go(inputs, tmp_path / "plain", **asked)
    assert more.counts["removed"] > few.counts["removed"]


def test_resuming_with_merge_rows_does_not_reuse_decisions(tmp_path: Path) -> None:
    rows = [row | {"id": f"d{number % 90}"} for number, row in enumerate(batch_engine.rows(7, 150))]
    inputs = batch_engine.write(tmp_path / "in", rows)
    asked: batch_engine.Row = {}
    merging = {"others": {"merge_rows": True}}
    for number, (before, now) in enumerate([(asked, merging), (merging, asked)]):
        Attempt(inputs, tmp_path / f"out{number}", stop=True, **before)
        second = Attempt(inputs, tmp_path / f"out{number}", **now)
        assert second.outcome == batch_engine.go(inputs, tmp_path / f"plain{number}", **now)


def test_an_earlier_run_made_again_with_another_threshold_is_noticed(tmp_path: Path) -> None:
    old = batch_engine.write(tmp_path / "old", batch_engine.rows(3, 80))
    new = batch_engine.write(tmp_path / "new", batch_engine.rows(3, 150)[60:])
    against = {"against": (tmp_path / "earlier",)}
    saving = {"save_sketches": True, "force": True}
    batch_engine.go(old, tmp_path / "earlier", threshold=0.95, others=saving)
    Attempt(new, tmp_path / "out", stop=True, others=against)
    batch_engine.go(old, tmp_path / "earlier", threshold=0.3, others=saving)
    second = Attempt(new, tmp_path / "out", others=against)
    assert second.outcome == batch_engine.go(new, tmp_path / "plain", others=against)


def test_result_contains_no_files_of_another_attempt(tmp_path: Path) -> None:
    """Text files that are removed now, tables and files that nobody asks for any more."""
    (tmp_path / "in").mkdir()
    for number, text in enumerate(batch_engine.texts(3, 100)):
        (tmp_path / "in" / f"{number:03}.txt").write_text(text)
    inputs = [tmp_path / "in"]
    Attempt(inputs, tmp_path / "out", stop=True, threshold=1.0, others={"pairs": True})
    (batch_engine.unfinished(tmp_path / "out") / "kept" / "other.txt").write_text("of another run")
    second = Attempt(inputs, tmp_path / "out", threshold=0.3)
    assert second.outcome == batch_engine.go(inputs, tmp_path / "plain", threshold=0.3)
    assert not (tmp_path / "out" / "pairs.parquet").exists()


# -- inputs that change -------------------------------------------------------------------------


def other_words(path: Path) -> None:
    """Of the same size."""
    path.write_bytes(path.read_bytes().replace(b"w1 ", b"w2 "))


def appended(path: Path) -> None:
    with open(path, "ab") as file:
        file.write(b'{"id": "d9999", "text": "w1 w2 w3 w4 w5", "score": 1, "lang": "en"}\n')


def shortened(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-5]))


def replaced(path: Path) -> None:
    beside = path.with_suffix(".new")
    beside.write_bytes(b"".join(sorted(path.read_bytes().splitlines(keepends=True))))
    beside.rename(path)


def touched(path: Path) -> None:
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))


def emptied(path: Path) -> None:
    path.write_bytes(b"")


CHANGES = [other_words, appended, shortened, replaced, touched, emptied]


@pytest.mark.parametrize("change", CHANGES)
def test_an_input_that_changed_between_attempts_is_read_again(
    tmp_path: Path, inputs: list[Path], change: Callable[[Path], None]
) -> None:
    mine = [Path(shutil.copy2(path, tmp_path)) for path in inputs]
    first = Attempt(mine, tmp_path / "out", stop=True, **FIRST)
    change(mine[1])
    second = Attempt(mine, tmp_path / "out", **FIRST)
    assert 0 < len(second.again) < 0.7 * first.shards, "the other files' shards are as they were"
    assert second.outcome == batch_engine.go(mine, tmp_path / "plain", **FIRST)


def test_a_removed_or_added_input_is_noticed(tmp_path: Path, inputs: list[Path]) -> None:
    mine = [Path(shutil.copy2(path, tmp_path)) for path in inputs]
    Attempt(mine, tmp_path / "out", stop=True, **FIRST)
    second = Attempt(mine[1:], tmp_path / "out", stop=True, **FIRST)
    assert second.again == []
    third = Attempt([*mine[1:], mine[0]], tmp_path / "out", **FIRST)
    assert third.outcome == batch_engine.go([*mine[1:], mine[0]], tmp_path / "plain", **FIRST)
    mine[0].unlink()
    with pytest.raises(InputError, match=r"0\.jsonl: no such file"):
        Attempt(mine, tmp_path / "other", **FIRST)


STAGES = [
    (batch_run, "rank_and_collapse"),
    (batch_run, "band_documents"),
    (batch_run, "decide_documents"),
    (tables, "write_removed"),
    (batch_run, "write_kept_files"),
]


@pytest.mark.parametrize(("stage", "change"), each_once(STAGES, [*CHANGES, Path.unlink]))
def test_an_input_that_changes_during_the_run_is_named(
    tmp_path: Path,
    inputs: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    stage: tuple[ModuleType, str],
    change: Callable[[Path], None],
) -> None:
    module, name = stage
    mine = [Path(shutil.copy2(path, tmp_path)) for path in inputs]
    usual = getattr(module, name)

    def disturbed(*given: Any) -> Any:
        change(mine[1])
        return usual(*given)

    monkeypatch.setattr(module, name, disturbed)
    with pytest.raises(InputError, match=r"1\.jsonl") as raised:
        Attempt(mine, tmp_path / "out", **FIRST)
    assert raised.value.file == str(mine[1])
    assert os.listdir(tmp_path / "out") == [".unfinished"]
    monkeypatch.undo()
    if mine[1].exists():
        going_on = Attempt(mine, tmp_path / "out", **FIRST)
        assert going_on.outcome == batch_engine.go(mine, tmp_path / "plain", **FIRST)


def test_a_text_that_changed_since_it_was_sketched_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if its size and time are as before."""
    (tmp_path / "in").mkdir()
    for number in range(20):
        (tmp_path / "in" / f"{number:02}.txt").write_text(f"w1 w2 w3 w4 w5 w{number:02}")
    usual = batch_run.band_documents
    changed = tmp_path / "in" / "13.txt"

    def disturbed(*given: Any) -> Any:
        times = changed.stat()
        changed.write_text("w1 w2 x3 w4 w5 w13")
        os.utime(changed, ns=(times.st_atime_ns, times.st_mtime_ns))
        return usual(*given)

    monkeypatch.setattr(batch_run, "band_documents", disturbed)
    with pytest.raises(InputError, match=r"13\.txt: changed during the run"):
        Attempt([tmp_path / "in"], tmp_path / "out", **FIRST)


# -- two at once --------------------------------------------------------------------------------


def test_a_second_run_on_the_same_output_is_refused(tmp_path: Path, inputs: list[Path]) -> None:
    refused: list[str] = []

    def finish(work: Path) -> None:
        for force in (False, True):
            with pytest.raises(OutputError) as raised:
                batch_engine.go(inputs, tmp_path / "out", others={"force": force})
            refused.append(str(raised.value))

    got = batch_engine.go(inputs, tmp_path / "out", others={"finish": finish})
    assert len(refused) == 2
    assert all("another run is writing to" in message for message in refused)
    assert got == batch_engine.go(inputs, tmp_path / "plain")


def test_saved_sketches_have_the_folders_of_their_own_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = batch_engine.rows(1, 1)[0]["text"]
    inner = tmp_path / "data" / "lang=a"
    for folder in ("x", "y"):
        (inner / folder).mkdir(parents=True)
        write_jsonl(inner / folder / "1.jsonl", [{"text": text}])
    monkeypatch.chdir(tmp_path)
    saving = ("-o", tmp_path / "out", "--force", "--save-sketches", "--within")
    for folder, kept in (("data", 1), ("data/lang=a", 2)):
        assert dedup(folder, *saving, "folder:1")["counts"]["kept"] == kept, folder
    assert dedup("data", *saving, "lang")["counts"]["kept"] == 1
    monkeypatch.chdir(inner)
    refused(neardup("dedup", "x", "y", *saving, "lang", "-q"), 2, "'lang'")


def test_saved_sketches_of_texts_have_the_ids_of_their_own_run(tmp_path: Path) -> None:
    sub = tmp_path / "docs" / "sub"
    sub.mkdir(parents=True)
    for name in ("x.txt", "y.txt"):
        (sub / name).write_text(batch_engine.rows(1, 1)[0]["text"])
    saving = ("-o", tmp_path / "out", "--force", "--save-sketches")
    for folder, removed in ((sub.parent, "sub/y.txt"), (sub, "y.txt")):
        dedup(folder, *saving)
        assert [row["id"] for row in table(tmp_path / "out", "removed")] == [removed]
