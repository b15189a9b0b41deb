"""A damaged work file of a stopped run is made again; one of a running run is an error."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import batch_engine
from support.sizes import each_once, full

from neardup.errors import FormatError
from neardup.pipeline import run as batch_run
from neardup.pipeline import sorting
from neardup.pipeline.output import RUN_NAMES

ASKED = {"limit": 3, "keep": "longest"}
STAGES = ["shards", "buckets", "sets", "pairs"]


class Stopped(BaseException):
    pass


def stop(_: Path) -> None:
    raise Stopped


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return batch_engine.write(tmp_path_factory.mktemp("in"), batch_engine.rows(21, 150), files=2)


@pytest.fixture(scope="module")
def plain(inputs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> batch_engine.Outcome:
    found = batch_engine.go(inputs, tmp_path_factory.mktemp("plain") / "out", **ASKED)
    assert found.counts["removed"] > 30
    return found


@pytest.fixture(scope="module")
def stopped(inputs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped at its very end: the files of all stages are there."""
    out = tmp_path_factory.mktemp("stopped") / "out"
    with pytest.raises(Stopped):
        batch_engine.go(inputs, out, others={"finish": stop}, **ASKED)
    return out


def copied(stopped: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(stopped, target)
    return batch_engine.unfinished(target)


def files(work: Path, stage: str) -> list[Path]:
    return sorted(path for path in (work / stage).iterdir())


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << place % 8
    path.write_bytes(data)


def spread(size: int, count: int) -> Iterator[int]:
    """Some places, of which the first and the last are some."""
    yield from sorted({round(n * (size - 1) / (count - 1)) for n in range(count)})


def check_flips(
    inputs: list[Path],
    plain: batch_engine.Outcome,
    stopped: Path,
    target: Path,
    stage: str,
    count: int,
) -> None:
    for number, path in enumerate(files(batch_engine.unfinished(stopped), stage)[:2]):
        for place in spread(path.stat().st_size, count):
            work = copied(stopped, target / f"{number}-{place}")
            flip(work / stage / path.name, place)
            assert batch_engine.go(inputs, target / f"{number}-{place}", **ASKED) == plain


@pytest.mark.parametrize("stage", STAGES)
def test_a_flipped_byte_is_noticed_when_the_run_resumes(
    tmp_path: Path, inputs: list[Path], plain: batch_engine.Outcome, stopped: Path, stage: str
) -> None:
    check_flips(inputs, plain, stopped, tmp_path, stage, 3)


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_a_flipped_byte_anywhere_is_noticed_when_the_run_resumes(
    tmp_path: Path, inputs: list[Path], plain: batch_engine.Outcome, stopped: Path, stage: str
) -> None:
    check_flips(inputs, plain, stopped, tmp_path, stage, 500)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def garbage(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(path.stat().st_size))


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").write_text("x")


def loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))


def another_stage(path: Path) -> None:
    other = "buckets" if path.parent.name == "shards" else "shards"
    shutil.copy(files(path.parent.parent, other)[0], path)


def neighbour(path: Path) -> None:
    there = files(path.parent.parent, path.parent.name)
    shutil.copy(there[there.index(path) - 1], path)


DAMAGES = [empty, cut, garbage, folder, loop, dangling, another_stage, neighbour, Path.unlink]


@pytest.mark.parametrize(("stage", "damage"), each_once(STAGES, DAMAGES))
def test_a_foreign_entry_in_place_of_a_stage_file_is_replaced(
    tmp_path: Path,
    inputs: list[Path],
    plain: batch_engine.Outcome,
    stopped: Path,
    stage: str,
    damage: Callable[[Path], object],
) -> None:
    work = copied(stopped, tmp_path / "out")
    for path in files(work, stage):
        if path.name != "verdicts":  # never read again
            damage(path)
            break
    assert batch_engine.go(inputs, tmp_path / "out", **ASKED) == plain


def test_comparisons_of_a_stopped_run_are_counted_once(
    tmp_path: Path, inputs: list[Path], stopped: Path
) -> None:
    copied(stopped, tmp_path / "out")
    batch_engine.go(inputs, tmp_path / "plain", **ASKED)
    batch_engine.go(inputs, tmp_path / "out", **ASKED)
    resumed, plain = (
        json.loads((tmp_path / name / "run.json").read_bytes())["counts"]["comparisons"]
        for name in ("out", "plain")
    )
    assert resumed == plain > 0


def test_buckets_of_one_band_are_not_those_of_the_others(
    tmp_path: Path, inputs: list[Path], plain: batch_engine.Outcome, stopped: Path
) -> None:
    first, *others = files(copied(stopped, tmp_path / "out"), "buckets")
    for path in others:
        shutil.copy(first, path)
    assert batch_engine.go(inputs, tmp_path / "out", **ASKED) == plain


WEIGHTED = {**ASKED, "sketch": "weighted", "weights": "tf-idf"}


@pytest.fixture(scope="module")
def weighted(
    inputs: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, batch_engine.Outcome]:
    """A stopped run with document frequencies, and the outcome of one that was not stopped."""
    folder = tmp_path_factory.mktemp("weighted")
    with pytest.raises(Stopped):
        batch_engine.go(inputs, folder / "out", others={"finish": stop}, **WEIGHTED)
    return folder / "out", batch_engine.go(inputs, folder / "plain", **WEIGHTED)


@pytest.mark.parametrize(
    ("name", "damage"),
    each_once(["document-frequencies", "made-of"], [empty, cut, folder, dangling, Path.unlink]),
)
def test_damaged_document_frequencies_are_counted_again(
    tmp_path: Path,
    inputs: list[Path],
    weighted: tuple[Path, batch_engine.Outcome],
    name: str,
    damage: Callable[[Path], object],
) -> None:
    stopped, plain = weighted
    found = copied(stopped, tmp_path / "out") / "weights" / name
    assert found.is_file()
    damage(found)
    assert batch_engine.go(inputs, tmp_path / "out", **WEIGHTED) == plain


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *each_once([*STAGES, "kept", "run.json", "old"], ["file", "folder"]),
        ("removed-0", "file"),
        full("copies-0", "file"),
    ],
)
def test_a_foreign_entry_in_the_work_folder_changes_nothing(
    tmp_path: Path,
    inputs: list[Path],
    plain: batch_engine.Outcome,
    stopped: Path,
    name: str,
    content: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sorting, "LEAST_BLOCK", 8)
    path = copied(stopped, tmp_path / "out") / name
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if content == "file":
        path.write_text("foreign")
    else:
        (path / "deeper").mkdir(parents=True)
        (path / "deeper" / "file").write_text("foreign")
    got = batch_engine.go(inputs, tmp_path / "out", budget=batch_engine.Little(1_000), **ASKED)
    assert got == plain


# -- while it runs ------------------------------------------------------------------------------

READ_LATER = {
    "shards": "rank_and_collapse",
    "buckets": "decide_documents",
    "sets": "PairComparer",
    "pairs": "collect_removed",
}
"""Each stage, and the function of the run before which its files are damaged."""


def run_damaged(
    monkeypatch: pytest.MonkeyPatch,
    before: str,
    damage: Callable[[], object],
    inputs: list[Path],
    out: Path,
    **asked: Any,
) -> batch_engine.Outcome | str:
    """The outcome, or what the FormatError says."""
    usual = getattr(batch_run, before)

    def damaged(*given: Any) -> Any:
        damage()
        return usual(*given)

    with monkeypatch.context() as patch:
        patch.setattr(batch_run, before, damaged)
        try:
            return batch_engine.go(inputs, out, **asked)
        except FormatError as error:
            return str(error)


@pytest.mark.parametrize("count", [3, full(40)])
@pytest.mark.parametrize(("stage", "each"), each_once(STAGES, [1_000, 1 << 28]))
def test_a_byte_that_flips_during_the_run_is_an_error_or_changes_nothing(
    tmp_path: Path,
    inputs: list[Path],
    plain: batch_engine.Outcome,
    stopped: Path,
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
    each: int,
    count: int,
) -> None:
    found = files(batch_engine.unfinished(stopped), stage)
    name = "verdicts" if stage == "pairs" else found[0].name
    size = (batch_engine.unfinished(stopped) / stage / name).stat().st_size
    noticed = 0
    for place in spread(size - 200, count):
        out = tmp_path / str(place)
        path = batch_engine.unfinished(out) / stage / name
        got = run_damaged(
            monkeypatch,
            READ_LATER[stage],
            lambda p=path, at=place: flip(p, at),
            inputs,
            out,
            budget=batch_engine.Little(each),
            **ASKED,
        )
        if isinstance(got, str):
            assert str(path) in got
            noticed += 1
            assert batch_engine.go(inputs, out, **ASKED) == plain, "and the same command goes on"
        else:
            assert got == plain
    assert noticed > count / 4


@pytest.mark.parametrize(
    ("stage", "damage"), each_once(STAGES, [empty, cut, garbage, folder, Path.unlink])
)
def test_a_file_that_breaks_during_the_run_is_an_error(
    tmp_path: Path,
    inputs: list[Path],
    plain: batch_engine.Outcome,
    stopped: Path,
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
    damage: Callable[[Path], object],
) -> None:
    name = (
        "verdicts" if stage == "pairs" else files(batch_engine.unfinished(stopped), stage)[0].name
    )
    path = batch_engine.unfinished(tmp_path / "out") / stage / name
    got = run_damaged(
        monkeypatch, READ_LATER[stage], lambda: damage(path), inputs, tmp_path / "out", **ASKED
    )
    if damage is cut and got == plain:
        return  # its end has been read before
    assert isinstance(got, str) and str(path) in got
    assert batch_engine.go(inputs, tmp_path / "out", **ASKED) == plain


def test_a_sorted_run_that_is_damaged_is_an_error(
    tmp_path: Path, inputs: list[Path], plain: batch_engine.Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorting, "LEAST_BLOCK", 8)
    out = tmp_path / "out"
    for place in (0, 40, 100, -40, -1):
        path = batch_engine.unfinished(out) / "copies-0"
        got = run_damaged(
            monkeypatch,
            "collect_removed",
            lambda p=path, at=place: flip(p, at),
            inputs,
            out,
            budget=batch_engine.Little(500),
            **ASKED,
        )
        assert isinstance(got, str) and str(path) in got
    assert batch_engine.go(inputs, out, **ASKED) == plain


# -- who may read it ----------------------------------------------------------------------------


def test_work_files_are_readable_by_their_owner_only(
    tmp_path: Path, inputs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorting, "LEAST_BLOCK", 8)
    kinds: set[str] = set()

    def look(work: Path) -> None:
        assert work.stat().st_mode & 0o777 == 0o700
        for stage in STAGES:
            assert (work / stage).stat().st_mode & 0o777 == 0o700
        for path in work.rglob("*"):
            place = path.relative_to(work).parts[0]
            if path.is_file() and place not in RUN_NAMES:
                kinds.add(place.split("-")[0])
                assert path.stat().st_mode & 0o777 == 0o600, path

    batch_engine.go(
        inputs, tmp_path / "out", others={"finish": look}, budget=batch_engine.Little(1_000)
    )
    assert kinds == {*STAGES, "copies", "removed", "clusters", "status.json"}
