"""Decisions are applied on the page and on the command line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
from support.batch_engine import table
from support.command_line import neardup, refused
from support.reviewer import DOCUMENTS, Reviewer

from neardup.decisions import Decisions
from neardup.errors import Busy
from neardup.review.apply_work import ApplyWork
from neardup.review.journal import NewDecision


@pytest.fixture
def reviewer(review: Callable[..., Reviewer]) -> Reviewer:
    return review()


@pytest.fixture
def run(reviewer: Reviewer) -> Path:
    return reviewer.desk.run


def test_a_person_decides_and_applies(reviewer: Reviewer, run: Path) -> None:
    assert "Nothing is decided yet" in reviewer.get("/apply")
    assert "can't be applied" not in reviewer.get("/")
    reviewer.decide("different", 0)
    assert 'href="/apply"' in reviewer.get("/decisions")
    page = reviewer.get("/apply")
    (folder,) = re.findall(r'name="folder" value="([^"]+)"', page)
    assert folder == f"{run.name}-decided"
    assert "Apply 1 decision" in page
    for wrong in ("", "..", "a/b", "x" * 300, "\x1b[2J"):
        assert "give the name of a folder" in reviewer.send("/apply", 400, folder=wrong)
    assert "exists: give another name" in reviewer.send("/apply", 409, folder=run.name)
    reviewer.send("/apply", folder=folder)
    reviewer.desk.apply_work.wait()
    page = reviewer.get("/apply")
    assert "Done" in page and "(+1)" in page and "(-1)" in page
    before = {row["id"] for row in table(run, "removed")}
    after = {row["id"] for row in table(run.parent / folder, "removed")}
    assert len(before - after) == 1 and after < before
    assert f'value="{folder}-2"' in page


def test_contradictions_are_not_applied(reviewer: Reviewer) -> None:
    reviewer.decide("same", 0)
    (one,) = reviewer.desk.journal.recent(0, 1)
    reviewer.desk.journal.decide([NewDecision("different", one.a, one.b, one.cluster)], "bob")
    assert "contradict" in reviewer.send("/apply", 400, folder="decided")


def test_a_run_that_no_decision_changes_says_so_before_anybody_decides(
    make_run: Callable[..., Path], review: Callable[..., Reviewer]
) -> None:
    made = make_run(DOCUMENTS, "--cluster", "components")
    reviewer = review(made)
    assert "can't be applied to it: its clusters are components" in reviewer.get("/")
    reviewer.decide("different", 0)
    page = reviewer.get("/apply")
    assert "can't be applied" in page and 'name="folder"' not in page
    exact = made.parent / "exact"
    assert neardup("exact", made.parent / "texts.jsonl", "-o", exact, "--quiet").code == 0
    assert "it removed identical documents alone" in review(exact).get("/")


def test_a_failure_is_told(reviewer: Reviewer, run: Path) -> None:
    reviewer.decide("different", 0)
    (source,) = run.parent.glob("*.jsonl")
    source.write_bytes(source.read_bytes() + b"\n")
    reviewer.send("/apply", folder="decided")
    reviewer.desk.apply_work.wait()
    assert "has changed since the run" in reviewer.get("/apply")
    assert not (run.parent / "decided").exists()


def test_decisions_are_applied_by_a_command(reviewer: Reviewer, run: Path) -> None:
    refused(neardup("review", run, "--apply", run.parent / "out"), 2, "nothing is decided about")
    reviewer.decide("different", 0)
    refused(neardup("review", run, "--apply", run), 2, "choose another folder")
    ran = neardup("review", run, "--apply", run.parent / "out")
    assert ran.code == 0, ran.err
    assert "1 decision of people about 2 documents" in ran.out
    assert len(table(run.parent / "out", "removed")) == len(table(run, "removed")) - 1
    ran = neardup("review", run, "--apply", run.parent / "out")
    assert ran.code != 0 and "out" in ran.err


def test_a_run_with_decisions_is_reviewed_and_changed_again(
    reviewer: Reviewer, run: Path, review: Callable[..., Reviewer]
) -> None:
    """Dropped documents have no cluster; what was decided before goes on to hold."""
    removed = table(run, "removed")
    reviewer.desk.journal.decide([NewDecision("drop", removed[0]["id"])], "ann")
    first = run.parent / "first"
    assert neardup("review", run, "--apply", first).code == 0
    again = review(first)
    for path in (
        "/",
        "/clusters",
        "/next",
        "/pair/1",
        "/decisions",
        f"/document?id={removed[0]['id']}",
    ):
        again.get(path)
    position = next(at for at, row in enumerate(table(first, "removed")) if row["witness"])
    again.decide("different", position)
    second = run.parent / "second"
    assert neardup("review", first, "--apply", second).code == 0
    rows = {row["id"]: row for row in table(second, "removed")}
    assert rows[removed[0]["id"]]["decision"].startswith("drop")
    assert len(rows) == len(removed) - 1


def test_work_that_breaks_says_so(tmp_path: Path) -> None:
    def apply(*_: object) -> dict[str, int]:
        raise OSError(28, "No space left on device")

    work = ApplyWork(apply)
    work.begin(Decisions, tmp_path)
    work.wait()
    assert "No space left" in str(work.failure) and work.counts is None


def test_work_ends_with_the_server(tmp_path: Path) -> None:
    begun = Event()

    def apply(_: Decisions, __: Path, report: Callable[..., object]) -> dict[str, int]:
        while True:
            report("reading", 1, 2, "bytes")
            begun.set()

    work = ApplyWork(apply)
    work.begin(Decisions, tmp_path)
    assert begun.wait(10)
    assert (work.stage, work.done, work.is_under_way) == ("reading", 0.5, True)
    with pytest.raises(Busy, match="being applied"):
        work.begin(Decisions, tmp_path)
    work.stop()
    assert not work.is_under_way and "the server ended" in str(work.failure)


def test_documents_whose_ids_are_not_names_are_decided_by_their_places(
    make_run: Callable[..., Path], review: Callable[..., Reviewer]
) -> None:
    """Several have one id, or it is empty, or longer than a decision may have."""
    ids = ["a", "a", "", "x" * 5_000, "b", "a", "b", "c"]
    texts = [one["text"] for one in DOCUMENTS]
    made = make_run([{"id": id, "text": text} for id, text in zip(ids, texts, strict=False)])
    file = f"{made.parent / 'texts.jsonl'}:"
    reviewer = review(made)
    reviewer.decide("different", 0)
    reviewer.decide("keep", 1)
    reviewer.decide("prefer", 2)
    reviewer.decide("same", 5)
    assert reviewer.decisions() == [
        ("different", f"{file}0", f"{file}1"),
        ("keep", f"{file}2", None),
        ("prefer", f"{file}3", None),
        ("same", f"{file}4", "c"),
    ]
    assert "kept" in reviewer.get("/pair/1") and "undo" in reviewer.get("/decisions").lower()
    out = made.parent / "decided"
    assert neardup("review", made, "--apply", out).code == 0
    outcomes = {row["row"]: row["outcome"] for row in table(out, "decided")}
    assert outcomes == {0: "removed", 1: "removed", 2: "kept", 3: "kept", 4: "kept", 7: "removed"}
    reviewer.send("/bulk", source="", least=0, most=1, action="same", count=2)
    assert {one.b for one in reviewer.desk.journal.export()} >= {f"{file}5", f"{file}6"}
