"""From documents to an operating point: the truth, the sweep, the advice, its files."""

from __future__ import annotations

import csv
import json
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.command_line import neardup, refused, write_jsonl

from neardup.errors import InputError, ParameterError
from neardup.evaluation.lab import as_documents
from neardup.evaluation.sample import choose_among
from neardup.formats.config import load_config
from neardup.in_memory import dedup
from neardup.planner import trial_cache as kept
from neardup.planner.recommendation import Target
from neardup.planner.trial_cache import TrialCache
from neardup.planner.tuner import SweepRequest, TrialSample, run_sweep, tune
from neardup.planner.tuning import COLUMNS
from neardup.runtime import SILENT

WORDS = [f"w{number}" for number in range(3_000)]


def tweets(count: int, seed: int = 0) -> list[str]:
    """Short texts; each third is an earlier one with a word before it, after it, or changed."""
    chance = random.Random(seed)
    found: list[str] = []
    for number in range(count):
        words = chance.choices(WORDS, k=chance.randint(8, 40))
        if number % 3 == 2:
            words = chance.choice(found).split()
            for _ in range(chance.randint(0, 2)):
                place = chance.choice([0, len(words), chance.randrange(len(words))])
                words[place : place + chance.randint(0, 1)] = [chance.choice(WORDS)]
        found.append(" ".join(words))
    return found


def tweet_file(folder: Path, count: int = 50) -> Path:
    return write_jsonl(folder / "a.jsonl", [{"text": text} for text in tweets(count)])


def tune_command(path: Path, *more: object, **axes: object) -> Any:
    """Run `neardup tune` on a file; `axes` are options with values, `more` all others."""
    values = {"sketches": "minhash"} | axes
    options = [part for name, value in values.items() for part in (f"--{name}", value)]
    return neardup("tune", path, *options, *more)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Trials of other tests and runs are not there, nor are these for them."""
    monkeypatch.setattr(kept, "default_folder", lambda: tmp_path / "trials")


@pytest.fixture(scope="module")
def tuned():
    return tune(tweets(1_000), threshold=0.8, slots="16,64", sketches="minhash", workers=1)


def test_420_hashes_find_what_brute_force_finds():
    """The seeds' check. 84 bands of 5 miss a pair at 0.9 with a chance of 1e-32. An estimate of
    420 slots at 0.9 has a standard error of 0.015, so that it is wrong about pairs near 0.9."""
    tuning = tune(
        tweets(5_000),
        threshold=0.9,
        slots=420,
        bands="84x5",
        sketches="minhash",
        verify="exact,estimate",
        workers=1,
    )
    exact, estimate = tuning.rows[1:]
    assert tuning.true_pairs > 200
    assert exact.recall is not None and exact.recall >= 0.99
    assert exact.precision == 1.0
    assert exact.pairs == tuning.true_pairs
    assert estimate.recall is not None and estimate.recall >= 0.85
    assert estimate.precision is not None and estimate.precision >= 0.85


def test_best_trial_is_the_cheapest_with_enough_recall(tuned):
    enough = [row for row in tuned.rows if row.recall >= 0.99 and row.precision >= 0.99]
    assert tuned.met
    assert tuned.best in enough
    assert tuned.default is tuned.rows[0]
    # Times that are equal in two digits are the same; the default stands without a real gain.
    least = min(row.seconds for row in enough)
    kept = tuned.best is tuned.default and tuned.best.seconds - least < 1.0
    assert kept or tuned.best.seconds <= 1.1 * least
    assert tuned.sampled + tuned.copies == tuned.documents == 1_000
    assert any("The default" in reason or "the default" in reason for reason in tuned.reasons)


def test_summary_has_advice_and_reasons(tuned):
    told = [f"Use {tuned.best.point}", *tuned.reasons, *tuned.compared]
    assert str(tuned).splitlines() == told
    assert repr(tuned) == (
        f"<Tuning of {tuned.sampled} documents, {len(tuned.rows)} trials: Use {tuned.best.point}>"
    )


def test_options_record_the_recall(tuned):
    assert tuned.options["recall"] == 0.99
    fingerprints = tune(tweets(50), slots=64, sketches="simhash", workers=1)
    simhash = replace(fingerprints, best=fingerprints.rows[1])
    assert "recall" not in simhash.options  # a run with a simhash takes none
    assert dedup(tweets(50), **simhash.options).options.by_bits


def test_trials_with_the_same_signatures_share_the_least_time(tuned):
    times = {(row.point.slots, row.t_sig) for row in tuned.rows}
    assert len(times) == len({row.point.slots for row in tuned.rows}) == 3


def test_run_at_the_best_point_removes_what_was_measured(tuned):
    texts = list(dict.fromkeys(tweets(1_000)))
    assert len(dedup(texts, **tuned.options).pairs) == tuned.best.pairs


def test_tune_says_how_much_a_run_would_remove(tuned):
    texts = tweets(1_000)
    kept = dedup(texts, **tuned.options).kept
    assert tuned.removed == pytest.approx(1 - len(kept) / len(texts), abs=0.01)
    assert f"would remove about {tuned.removed:.1%} of the documents" in str(tuned)
    assert tuned.to_json()["removed"] == tuned.removed


def test_measured_recall_is_near_the_s_curve(tuned):
    """Bands that find about half: of 200 and more pairs, four standard errors are 0.14."""
    half = tune(tweets(1_000), slots=24, bands="2x12", sketches="minhash", workers=1).rows[1]
    wanted = Target(0.99, 0.99, tuned.reference, tuned.truth, 1_000, 1_000, 1_000)
    expected = wanted.expected(half.point)
    assert 0.2 < half.recall < 0.8
    assert abs(half.recall - expected) < 0.14


def test_trials_with_other_shingles_and_thresholds_have_the_same_truth():
    tuning = tune(
        tweets(300),
        shingles="word:5,char:5",
        thresholds="0.6,0.8",
        slots=64,
        bands="16x4",
        sketches="minhash",
        workers=1,
    )
    assert len({row.true_pairs for row in tuning.rows}) == 1
    looser = [row for row in tuning.rows if row.point.threshold == 0.6]
    assert all(row.precision < 1.0 for row in looser)
    assert tuning.best.point.threshold == 0.8


def test_precision_rules_out_verify_none():
    texts = tweets(300)
    tuning = tune(texts, verify="none,exact", slots=32, sketches="minhash", workers=1)
    assert tuning.best.point.verify == "exact"
    free = tune(texts, verify="none", slots=32, sketches="minhash", precision=0.0, workers=1)
    assert free.met


def test_experimental_points_are_not_recommended():
    tuning = tune(tweets(300), slots=16, bands="4x4", buckets=50, sketches="minhash", workers=1)
    assert not tuning.best.point.only_for_sweeps
    assert tuning.rows[1].point.buckets == 50


def test_sample_without_similar_pairs_has_no_recall():
    chance = random.Random(1)
    texts = [" ".join(chance.choices(WORDS, k=20)) for _ in range(50)]
    tuning = tune(texts, slots="16,64", sketches="minhash", workers=1)
    assert tuning.met is None
    assert {row.recall for row in tuning.rows} == {None}
    assert {row.precision for row in tuning.rows} == {None}
    assert "larger --sample" in tuning.reasons[0]
    assert tuning.best.point.meeting.probability(0.8) >= 0.99


def test_identical_documents_are_dropped_and_counted():
    tuning = tune([*tweets(50), *tweets(50)], slots=16, sketches="minhash", workers=1)
    assert tuning.copies >= 50
    assert tuning.sampled <= 50


@pytest.mark.parametrize("texts", [[], ["one"], ["one", "One!"], ["", " ", "\u200b"]])
def test_fewer_than_two_different_documents_are_refused(texts):
    with pytest.raises(InputError, match="fewer than two"):
        tune(texts)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"sample": 1}, "sample must be a whole number"),
        ({"time_limit": 0}, "above 0 and at most"),
        ({"precision": 2}, "from 0 to 1"),
        ({"recall": 1.0}, "recall must be .*below 1"),
        ({"shingle": "token:5"}, "tokens can't be tuned"),
        ({"workers": 0}, "workers must be"),
    ],
)
def test_invalid_requests_are_refused(asked, message):
    with pytest.raises(ParameterError, match=message):
        tune(tweets(10), **asked)


def sample_of(texts: list[str], request: SweepRequest) -> TrialSample:
    options = request.options
    return TrialSample.of(choose_among([as_documents(texts)], 5_000, 0, options.spec), options)


class Interrupted(TrialCache):
    """Somebody presses Ctrl-C when there are so many results."""

    def __init__(self, folder: Path, most: int) -> None:
        super().__init__(folder)
        self.most = most

    def put(self, *given: Any) -> None:
        super().put(*given)
        if len(list(self.entries())) == self.most:
            raise KeyboardInterrupt


def test_interrupted_sweep_resumes_from_the_cache(tmp_path):
    request = SweepRequest.of(axes={"slots": "16,32", "sketches": "minhash"})
    sample = sample_of(tweets(200), request)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(sample, request, 1, SILENT, Interrupted(tmp_path, most=4))
    first = {entry.key: entry.results for entry in TrialCache(tmp_path).entries()}
    tuning = run_sweep(sample, request, 1, SILENT, TrialCache(tmp_path))
    kept = {entry.key: entry.results for entry in TrialCache(tmp_path).entries()}
    assert len(first) == 4
    assert len(kept) == len(tuning.rows) == 9
    assert first.items() <= kept.items()
    again = run_sweep(sample, request, 1, SILENT, TrialCache(tmp_path))
    assert again.rows == tuning.rows  # times too: nothing was run


def test_invalid_cached_results_are_run_again(tmp_path):
    request = SweepRequest.of(axes={"slots": 16, "bands": "4x4", "sketches": "minhash"})
    sample, cache = sample_of(tweets(100), request), TrialCache(tmp_path)
    tuning = run_sweep(sample, request, 1, SILENT, cache)
    for entry in list(cache.entries()):
        cache.put(entry.config, {"outcome": {"status": "done"}, "time_limit": 1.0}, 0.0)
    again = run_sweep(sample, request, 1, SILENT, cache)
    assert [row.pairs for row in again.rows] == [row.pairs for row in tuning.rows]


def test_cache_distinguishes_documents_and_references(tmp_path):
    point = {"slots": 16, "bands": "4x4", "sketches": "minhash"}
    for count, threshold in ((100, 0.8), (101, 0.8), (100, 0.9), (100, 0.8)):
        tune(tweets(count), threshold=threshold, workers=1, cache=tmp_path, **point)
    assert len(list(TrialCache(tmp_path).entries())) == 3 * 2


def test_cached_timeout_is_run_again_with_a_longer_limit(tmp_path):
    point = {"slots": 2_000, "bands": "1000x2", "buckets": 1, "sketches": "minhash"}
    hasty, patient = (
        SweepRequest.of(time_limit=0.05, axes=point),
        SweepRequest.of(time_limit=300, axes=point),
    )
    sample, cache = sample_of(tweets(1_200), hasty), TrialCache(tmp_path)
    assert run_sweep(sample, hasty, 1, SILENT, cache).rows[1].status == "timeout"
    before = {entry.key: entry.at for entry in cache.entries()}
    assert run_sweep(sample, hasty, 1, SILENT, cache).rows[1].status == "timeout"
    assert {entry.key: entry.at for entry in cache.entries()} == before
    assert run_sweep(sample, patient, 1, SILENT, cache).rows[1].status == "done"
    assert run_sweep(sample, hasty, 1, SILENT, cache).rows[1].status == "done"


def test_command_writes_config_table_and_page(tmp_path):
    path = tweet_file(tmp_path, 400)
    swept = {"slots": "16,64", "bands": "auto,8x8", "sketches": "minhash,simhash"}
    ran = tune_command(path, "-o", tmp_path / "out", workers=1, **swept)
    assert ran.code == 0, ran.err
    assert "recommended" in ran.out and "Not tried: " in ran.out
    assert max(map(len, ran.out.splitlines()[:-1])) <= 100
    stated = json.loads((tmp_path / "out/tuning.json").read_text())
    with (tmp_path / "out/sweep.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == len(stated["trials"])
    assert float(rows[0]["t_tot"]) == pytest.approx(
        float(rows[0]["t_sig"]) + float(rows[0]["t_rest"]), abs=2e-6
    )
    point = load_config(tmp_path / "out/tuned.toml")
    assert point == stated["options"]
    done = neardup(
        "dedup", path, "-o", tmp_path / "clean", "--config", tmp_path / "out/tuned.toml", "--json"
    )
    assert done.code == 0, done.err
    assert json.loads(done.out)["spec"]["slots"] == point["slots"]
    assert json.loads(done.out)["parameters"]["recall"] == point["recall"] == 0.99
    again = tune_command(path, "-o", tmp_path / "out", "--json", "--force", **swept)
    assert json.loads(again.out) == stated  # times too: nothing was run
    assert again.err == ""


def test_tune_output_named_like_a_config_file_is_refused_with_a_folder_to_name(tmp_path):
    """It made a folder of the name tuned.toml, which --config could not read."""
    ran = tune_command(tweet_file(tmp_path), "-o", tmp_path / "best.toml", slots=16, bands="4x4")
    refused(ran, 2, f"name a folder, such as {tmp_path / 'best'}; its tuned.toml is the config")
    assert not (tmp_path / "best.toml").exists()


def test_earlier_sweep_is_replaced_only_with_force(tmp_path):
    path = tweet_file(tmp_path)

    def command(*more: object) -> Any:
        out = ("-o", tmp_path / "out", "--quiet")
        return tune_command(path, *out, *more, slots=16, bands="4x4", workers=1)

    assert command().code == 0
    (tmp_path / "out/mine.txt").write_text("mine")
    before = (tmp_path / "out/tuning.json").read_bytes()
    refused(command("--recall", 0.9), 2, "holds an earlier sweep", "--force")
    assert (tmp_path / "out/tuning.json").read_bytes() == before
    assert command("--recall", 0.9, "--force").code == 0
    assert json.loads((tmp_path / "out/tuning.json").read_text())["recall"] == 0.9
    assert (tmp_path / "out/mine.txt").read_text() == "mine"


@pytest.mark.parametrize(("columns", "missing"), [("80", {"bucket"}), ("130", set())])
def test_table_fits_the_terminal(tmp_path, monkeypatch, columns, missing):
    monkeypatch.setenv("COLUMNS", columns)
    path = tweet_file(tmp_path)
    ran = neardup("tune", path, "--slots", "16,256", "--recall", 0.95, "--workers", 1)
    assert ran.code == 0, ran.err
    *lines, command = ran.out.splitlines()
    assert max(map(len, lines)) <= int(columns)
    assert command.startswith("next: "), "a command is one line, however long"
    assert "\N{HORIZONTAL ELLIPSIS}" not in ran.out
    head = next(line.split() for line in lines if line.split()[:1] == ["sketch"])
    assert {"slots", "all", "recall", "precision", "MB"} <= set(head)
    assert {"bucket"} - set(head) == missing
    assert any(line.split()[:3] == ["oneperm", "16", "4x4"] for line in lines)
    told = " ".join(ran.out.split())
    assert "the default for a recall of 0.95" in told
    marked = any(line.split()[:1] == ["d"] for line in lines)
    assert (", d the default" in told) == marked, "a mark is explained where a row has it"


def test_bits_are_shown_if_they_differ(tmp_path):
    path = tweet_file(tmp_path)
    ran = tune_command(path, slots=64, bands="16x4", bits="8,32", verify="estimate", workers=1)
    rows = [line.replace(">", "").split() for line in ran.out.splitlines()]
    assert ["minhash", "64", "16x4", "8"] in [row[:4] for row in rows]


def test_table_on_a_tiny_terminal_has_long_lines(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    path = tweet_file(tmp_path)
    ran = tune_command(path, slots=64, workers=1)
    assert "sketch  slots bands" in ran.out and "precision" in ran.out


def test_trial_without_figures_is_in_the_table(tmp_path):
    path = tweet_file(tmp_path, 3_000)
    limits = ("-o", tmp_path / "out", "--time-limit", 0.05)
    ran = tune_command(path, *limits, slots=2_000, bands="1000x2", buckets=1)
    assert ran.code == 0, ran.err
    assert "timeout" in ran.out
    with (tmp_path / "out/sweep.csv").open(newline="") as lines:
        late = list(csv.DictReader(lines))[1]
    assert late["status"] == "timeout"
    assert late["error"] == "took more than 0.05 s"
    assert {late[name] for name in ("t_sig", "t_rest", "t_tot", "pairs", "recall")} == {""}


def test_invalid_commands_are_refused(tmp_path):
    one = write_jsonl(tmp_path / "one.jsonl", [{"text": "only this"}])
    empty = write_jsonl(tmp_path / "empty.jsonl", [])
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"no Parquet at all")
    for path, code, part in (
        (one, 1, "fewer than two"),
        (empty, 1, "fewer than two"),
        (bad, 1, "bad.parquet"),
        (tmp_path / "none.jsonl", 2, "none.jsonl"),
    ):
        refused(neardup("tune", path, "--quiet"), code, part)
    refused(neardup("tune", one, "--slots", "x"), 2, "slots must be")
    (tmp_path / "taken").write_text("a file")
    refused(neardup("tune", one, "--cache", tmp_path / "taken"), 1, "--cache")
    refused(neardup("tune", one, "-o", tmp_path / "taken"), 1, "taken")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/sweep.csv").write_text("mine")
    refused(neardup("tune", one, "-o", tmp_path / "theirs"), 2, "not from a sweep")
    (tmp_path / "theirs/tuning.json").write_text('{"mine": 1}')
    refused(neardup("tune", one, "-o", tmp_path / "theirs"), 2, "not from a sweep")


@pytest.mark.skipif(sys.platform != "linux", reason="a folder that nobody can write to")
def test_unwritable_folder_is_refused_before_the_work(tmp_path):
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"would be refused when it is read")
    refused(neardup("tune", bad, "-o", "/proc/self"), 1, "/proc/self can't be written")


def test_folder_name_is_printed_unchanged(tmp_path):
    path = tweet_file(tmp_path)
    ran = tune_command(path, "-o", tmp_path / "x[b]y", slots=16, bands="4x4", workers=1)
    assert ran.code == 0, ran.err
    assert f"--config '{tmp_path / 'x[b]y'}/tuned.toml'" in ran.out


def test_ctrl_c_ends_the_command_and_its_worker(tmp_path):
    path = tweet_file(tmp_path, 30_000)
    command = [
        sys.executable,
        "-m",
        "neardup",
        "tune",
        str(path),
        "--slots",
        "2000",
        "--bands",
        "1000x2",
        "--buckets",
        "1",
        "--sketches",
        "minhash",
        "--time-limit",
        "600",
        "--no-cache",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if "trying" in line:
                break
        time.sleep(0.5)
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True
        ).stdout.split()
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130
    assert said.startswith("neardup: interrupted; nothing is kept")
    alive = subprocess.run(["ps", "-o", "pid=", "-p", ",".join(children)], capture_output=True)
    assert children and not alive.stdout.strip()
