"""The model of a run over files: its bytes beside a real run, its slices, its costs."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from support.command_line import dedup, write_jsonl

from neardup.options import Options
from neardup.planner.costs import Costs, random_texts
from neardup.planner.local_run import LocalRun, StageCost
from neardup.planner.planner import plan
from neardup.planner.prediction import stored_bytes
from neardup.planner.requirements import Sla
from neardup.planner.workload import assume_workload

GB = 10**9
PROFILE = replace(
    assume_workload(Sla(1000), Options()), stored=3000.0, kept=2700.0, sets=800.0, candidates=0.2
)


def stages(
    sla: Sla, options: Options | None = None, costs: Costs | None = None
) -> dict[str, StageCost]:
    options = options or Options()
    run = LocalRun(sla, costs or Costs(), PROFILE, options, stored_bytes(options))
    return {stage.name: stage for stage in run.stages()}


def work_files(out: Path, done: threading.Event, most: dict[str, int]) -> None:
    while not done.wait(0.002):
        for folder in ("shards", "sets", "buckets"):
            here = (out / ".unfinished" / folder).glob("*")
            try:
                size = sum(path.stat().st_size for path in here)
            except OSError:
                continue
            most[folder] = max(most.get(folder, 0), size)


def test_predicted_bytes_on_disk_equal_a_real_run(tmp_path: Path) -> None:
    texts = list(islice(random_texts(300, 1800), 3_000))
    rows = [{"id": f"document-{number}", "text": text} for number, text in enumerate(texts)]
    file, out = write_jsonl(tmp_path / "c.jsonl", rows), tmp_path / "out"
    done, most = threading.Event(), dict[str, int]()
    watch = threading.Thread(target=work_files, args=(out, done, most))
    watch.start()
    dedup(file, "-o", out, "--id", "id")
    done.set()
    watch.join()
    made = plan(sample=file, cores=1, calibrate=False)
    said = {stage.name: stage.written for stage in made.predicted.stages}
    assert said["sketch"] == pytest.approx(most["shards"], rel=0.03)
    assert said["match"] == pytest.approx(most["sets"], rel=0.03)
    assert said["filter"] == pytest.approx((out / "kept" / "c.jsonl").stat().st_size, rel=0.03)


def test_stages_add_up_to_the_total() -> None:
    made = plan(50_000, cores=2, calibrate=False).predicted
    assert made.stages[0].name == "start"
    assert made.stages[0].seconds == Costs().start
    assert made.seconds == pytest.approx(sum(stage.seconds for stage in made.stages))
    assert made.work == pytest.approx(sum(stage.work for stage in made.stages))


def test_slices_equal_the_worked_example_of_docs_scale() -> None:
    sla = Sla(10**9, size=3000.0, memory=48 * GB, cores=32)
    seen = stages(sla)
    # slices(72, M/2) = 2 ^ bit_length(72e9 / 22.9e9)
    assert seen["rank"].read == 20 * 10**9 * 4
    # 12 GB of keys fit into half of 45.8 GB: one slice, by one thread, of 21 keys of 8 bytes.
    assert seen["band"].read == 168 * GB


def test_memory_is_within_the_limit_or_the_least_needed() -> None:
    plenty = stages(Sla(10**8, memory=500 * GB, cores=4))
    tight = stages(Sla(10**8, memory=2 * GB, cores=4))
    assert max(one.memory for one in tight.values()) == 2 * GB
    assert plenty["rank"].memory - plenty["sketch"].memory == 72 * 10**8
    assert plenty["rank"].seconds < tight["rank"].seconds
    none = stages(Sla(10**9, memory=2 * GB, cores=4))
    assert none["match"].memory == none["sketch"].memory + 2 * 10**9 > 2 * GB


def test_parallel_stages_use_all_cores() -> None:
    one, four = (stages(Sla(10**6, memory=64 * GB, cores=cores)) for cores in (1, 4))
    for name in ("sketch", "match", "band"):
        assert one[name].seconds / four[name].seconds == pytest.approx(4 * Costs().efficiency)
    for name in ("rank", "tables", "filter"):
        assert one[name].seconds == four[name].seconds
    assert all(one[name].work == four[name].work for name in one)
    # Of deciding, all cores compare pairs; one sorts and decides them.
    compared = Costs().compare * 10**6 * PROFILE.compared
    saved = compared * (1 - 1 / (4 * Costs().efficiency))
    assert one["decide"].seconds - four["decide"].seconds == pytest.approx(saved)


def test_slow_disk_limits_runs_beyond_memory() -> None:
    sla = Sla(10**8, size=3000.0, memory=8 * GB, cores=64)
    slow, fast = (stages(sla, costs=Costs(disk=speed)) for speed in (1e8, 1e12))
    assert slow["sketch"].seconds == (slow["sketch"].read + slow["sketch"].written) / 1e8
    assert fast["sketch"].seconds < slow["sketch"].seconds


def test_estimates_write_signatures_instead_of_shingles() -> None:
    seen = stages(Sla(1000), Options.of(verify="estimate", bits=8))
    assert seen["match"].written == pytest.approx(1000 * 0.2 * (128 + 24))
    assert seen["sketch"].written == pytest.approx(1000 * (128 + 8 * 21 + 36 + 12))
