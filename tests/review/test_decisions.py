"""What people decide is stored at once, undone and redone, and never silently lost."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial

import pytest
from support.command_line import neardup, refused, table
from support.reviewer import Reviewer

from neardup.decisions import ACTIONS, PAIR_ACTIONS, Decisions
from neardup.errors import Conflict, FormatError, OutputError
from neardup.formats.decisions import read_decisions
from neardup.review.desk import ReviewDesk
from neardup.review.journal import DecisionJournal, NewDecision
from neardup.review.run_subject import RunSubject


@pytest.fixture
def journal(tmp_path):
    found = DecisionJournal(tmp_path / "review" / "decisions.sqlite", "f" * 32)
    yield found
    found.close()


@pytest.mark.parametrize("action", ["same", "different", "unsure"])
def test_decision_about_a_pair(review, action):
    reviewer = review()
    row = table(reviewer.desk.run, "removed")[0]
    page = reviewer.decide(action, 0, note="seen twice")
    assert reviewer.decisions() == [(action, row["witness"], row["id"])]
    (stored,) = reviewer.desk.journal.export()
    assert (stored.who, stored.note) == ("ann", "seen twice") and stored.when.endswith("Z")
    assert "Is the removed one the same?" in page  # the next pair
    assert "seen twice" in reviewer.get("/pair/0")


@pytest.mark.parametrize("action", ["keep", "prefer"])
def test_decision_about_a_document(review, action):
    reviewer = review()
    row = table(reviewer.desk.run, "removed")[0]
    reviewer.decide(action, 0)
    assert reviewer.decisions() == [(action, row["id"], None)]


def test_override_takes_two_clicks(review):
    """From the overview: the button that starts the review, and a decision."""
    reviewer = review()
    assert 'href="/next"' in reviewer.get("/")
    assert 'value="different"' in reviewer.get("/next")


def test_cluster_is_kept_whole_and_dropped_whole(review):
    reviewer = review()
    cluster = table(reviewer.desk.run, "clusters")[1]
    sent = {"cluster": cluster["cluster"], "seen": 0}
    reviewer.send("/decide-cluster", action="keep", **sent)
    kept = [("keep", f"b{n}", None) for n in range(4)]
    assert sorted(reviewer.decisions()) == kept
    reviewer.send("/undo")
    assert reviewer.decisions() == []
    reviewer.send("/decide-cluster", action="drop", **sent | {"seen": 9})
    assert sorted(reviewer.decisions()) == [("drop", id, None) for _, id, _ in kept]
    reviewer.send("/decide-cluster", 400, action="burn", **sent)


def test_undo_and_redo(review):
    reviewer = review()
    reviewer.decide("same", 0)
    reviewer.decide("different", 1)
    whole = reviewer.decisions()
    reviewer.send("/undo")
    assert reviewer.decisions() == whole[:1]
    reviewer.send("/undo")
    assert reviewer.decisions() == []
    assert "nothing to undo" in reviewer.send("/undo", 409)
    reviewer.send("/redo")
    reviewer.send("/redo")
    assert reviewer.decisions() == whole
    assert "nothing to redo" in reviewer.send("/redo", 409)
    reviewer.send("/undo")
    reviewer.decide("unsure", 2)  # now the undone one is gone
    assert "nothing to redo" in reviewer.send("/redo", 409)


def test_decided_pairs_do_not_come_again(review):
    reviewer = review()
    met = set()
    for _ in range(9):
        answer = reviewer.client.get("/next", follow_redirects=False)
        position = int(answer.headers["location"].rpartition("/")[2])
        assert position not in met
        met.add(position)
        reviewer.decide("same", position)
    assert "That was the last one" in reviewer.get("/next")


def test_decision_on_what_changed_meanwhile_is_refused_and_said(review):
    """Two tabs, or two people at once: the second one is told, and decides again."""
    ann = review()
    bob = review(ann.desk.run, who="bob")
    ann.get("/pair/0")
    bob.decide("different", 0)
    said = ann.decide("same", 0, 409, seen="0")
    assert "bob" in said and "different" in said
    assert [one.who for one in ann.desk.journal.export()] == ["bob"]
    ann.decide("same", 0)  # with what is there now
    assert {one.who for one in ann.desk.journal.export()} == {"ann", "bob"}
    assert "two people disagree" in ann.get("/decisions")


def test_two_tabs_of_one_person(review):
    reviewer = review()
    reviewer.decide("same", 0)
    assert "ann decided" in reviewer.decide("different", 0, 409, seen="0")
    reviewer.decide("different", 0)
    row = table(reviewer.desk.run, "removed")[0]
    assert ("different", row["witness"], row["id"]) in reviewer.decisions()
    assert "two people disagree" not in reviewer.get("/decisions")  # she has changed her mind


def test_contradictions_are_shown(review):
    reviewer = review()
    cluster = table(reviewer.desk.run, "clusters")[0]
    sent = {"cluster": cluster["cluster"], "seen": 0}
    reviewer.send("/decide-cluster", action="keep", **sent)
    reviewer.decide("same", 0)
    assert "the same, and both are to stay" in reviewer.get("/decisions")


def test_bulk_says_the_number_before(review):
    reviewer = review()
    removed = table(reviewer.desk.run, "removed")
    least = sorted(row["similarity"] for row in removed)[4]
    meant = [row for row in removed if row["similarity"] >= least]
    source = removed[0]["file"]
    page = reviewer.get(f"/bulk?source={source}&least={least}&most=1&action=same")
    assert f"{len(meant)} pairs" in page
    sent = {"source": source, "least": least, "most": 1, "action": "same"}
    assert "count them again" in reviewer.send("/bulk", 409, count=len(meant) + 1, **sent)
    reviewer.send("/bulk", count=len(meant), note="all seen", **sent)
    assert sorted(reviewer.decisions()) == sorted(
        ("same", row["witness"], row["id"]) for row in meant
    )
    reviewer.send("/undo")
    assert reviewer.decisions() == []
    assert "There is none" in reviewer.get("/bulk?least=0&most=0.1&action=keep")
    assert "from 0 to 1" in reviewer.get("/bulk?least=97&most=1&action=keep", 400)


def test_bulk_leaves_alone_what_was_decided_one_by_one(review):
    reviewer = review()
    reviewer.decide("different", 0)
    reviewer.decide("keep", 4)
    reviewer.decide("unsure", 5)
    before = reviewer.decisions()
    page = reviewer.get("/bulk?source=&least=0&most=1&action=same")
    assert "6 pairs" in page and "3 that are decided already" in page
    reviewer.send("/bulk", count=6, source="", least=0, most=1, action="same")
    assert reviewer.decisions()[:3] == before
    assert [one[0] for one in reviewer.decisions()[3:]] == ["same"] * 6
    assert "There is none" in reviewer.get("/bulk?source=&least=0&most=1&action=drop")


def test_bulk_does_not_override_what_somebody_decided_meanwhile(review):
    ann = review()
    bob = review(ann.desk.run, who="bob")
    assert "9 pairs" in ann.get("/bulk?least=0&most=1&action=same")
    bob.decide("different", 0)
    sent = {"source": "", "least": 0, "most": 1, "action": "same"}
    assert "they are 8 now" in ann.send("/bulk", 409, count=9, **sent)
    assert [one.who for one in ann.desk.journal.export()] == ["bob"]


def test_decisions_are_exported(review, tmp_path):
    reviewer = review()
    reviewer.decide("different", 0, note="日本語 <b>")
    run = reviewer.desk.run
    for name in ("decisions.parquet", "decisions.jsonl"):
        ran = neardup("review", run, "--export", tmp_path / name)
        assert ran.code == 0 and "1 decisions" in ran.err
        assert list(read_decisions(tmp_path / name)) == list(reviewer.desk.journal.export())
        sent = reviewer.client.get(f"/export/{name.rpartition('.')[2]}")
        assert sent.content == (tmp_path / name).read_bytes()
    assert json.loads((tmp_path / "decisions.jsonl").read_text())["note"] == "日本語 <b>"
    refused(neardup("review", run, "--export", tmp_path / "x.csv"), 2, ".parquet or .jsonl")
    refused(neardup("review", tmp_path, "--export", tmp_path / "x.jsonl"), 2, "finished run")


def test_new_run_in_the_folder_keeps_the_decisions(review, make_run):
    reviewer = review()
    reviewer.decide("same", 0)
    reviewer.desk.close()
    run = make_run([{"id": "a0", "text": "another one"}], "--force")
    again = review(run)
    assert len(again.decisions()) == 1
    assert "1 document" in again.get("/")


def test_run_that_is_replaced_while_it_is_reviewed(review, make_run):
    reviewer = review()
    reviewer.decide("same", 0)
    make_run([{"id": "a0", "text": "another one"}], "--force")
    assert "start neardup review again" in reviewer.get("/pair/1", 409)
    fields = {"position": 1, "seen": 1, "action": "same", "then": "next"}
    assert "another run now" in reviewer.send("/decide", 409, **fields)
    assert len(reviewer.decisions()) == 1
    assert "You are logged out" in reviewer.send("/logout")


def test_note_that_is_too_long_is_refused(review):
    reviewer = review()
    assert "shorten it" in reviewer.decide("same", 0, 400, note="x" * 2_001)
    assert reviewer.decisions() == []


def test_full_disk_loses_nothing(journal):
    journal.decide([NewDecision("same", "a", "b", 1)], "ann")
    pages = journal._opened.execute("PRAGMA page_count").fetchone()[0]
    journal._opened.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(OutputError, match="nothing was stored"):
        journal.decide([NewDecision("drop", f"{n}" * 200) for n in range(1_000)], "ann")
    assert [one.action for one in journal.export()] == ["same"]
    journal._opened.execute("PRAGMA max_page_count = 100000")
    journal.decide([NewDecision("drop", "c")], "ann")
    assert [one.action for one in journal.export()] == ["same", "drop"]


def test_file_that_is_none_is_refused(tmp_path):
    path = tmp_path / "decisions.sqlite"
    path.write_bytes(b"nonsense" * 1_000)
    with pytest.raises(FormatError, match="no file of decisions"):
        DecisionJournal(path, None)


@pytest.mark.parametrize("tables", ["other (a)", "about (version, changes)"])
def test_other_database_is_refused(tmp_path, tables):
    path = tmp_path / "decisions.sqlite"
    with sqlite3.connect(path) as opened:
        opened.execute(f"CREATE TABLE {tables}")
    with pytest.raises(FormatError, match="no file of decisions"):
        DecisionJournal(path, None)


def test_file_of_another_version_is_refused(journal):
    journal.decide([NewDecision("drop", "c")], "ann")
    journal.close()
    with sqlite3.connect(journal.path) as opened:
        opened.execute("UPDATE about SET version = 9")
    with pytest.raises(FormatError, match="version 9"):
        DecisionJournal(journal.path, None)


def test_several_writers_share_the_file(journal):
    others = [DecisionJournal(journal.path, None) for _ in range(4)]

    def write(number: int) -> None:
        for n in range(10):
            others[number].decide([NewDecision("keep", f"{number}-{n}", "", number)], str(number))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    assert len(list(journal.export())) == 40 and journal.changes == 40
    for other in others:
        other.close()


def test_conflict_is_about_the_cluster_alone(journal):
    journal.decide([NewDecision("same", "a", "b", 1)], "ann", seen=0)
    journal.decide([NewDecision("same", "c", "d", 2)], "bob", seen=0)
    with pytest.raises(Conflict, match="ann"):
        journal.decide([NewDecision("same", "a", "e", 1)], "bob", seen=0)
    journal.undo("ann")
    with pytest.raises(Conflict, match="ann undid"):
        journal.decide([NewDecision("same", "a", "e", 1)], "bob", seen=2)


def test_time_is_that_of_the_clock(tmp_path):
    moment = datetime(2026, 3, 1, 12, 0, 0, 5, UTC)
    journal = DecisionJournal(tmp_path / "decisions.sqlite", None, lambda: moment)
    journal.decide([NewDecision("drop", "a")], "ann")
    assert [one.when for one in journal.export()] == ["2026-03-01T12:00:00.000005Z"]
    journal.close()


def test_clock_that_is_set_back_does_not_bring_back_an_earlier_decision(tmp_path):
    hours = iter([12, 11, 13])
    clock = partial(next, (datetime(2026, 3, 1, hour, tzinfo=UTC) for hour in hours))
    journal = DecisionJournal(tmp_path / "decisions.sqlite", None, clock)
    for action in ("keep", "drop", "prefer"):
        journal.decide([NewDecision(action, "a")], "ann")
        assert [one.action for one in Decisions.of(journal.export()).in_force] == [action]
    assert [one.when[11:13] for one in journal.export()] == ["12", "12", "13"]
    journal.close()


@pytest.mark.parametrize("seed", range(30))
def test_contradictions_are_found_among_those_that_may_contradict(journal, seed):
    chance = random.Random(seed)
    names = [f"d{n}" for n in range(chance.choice([4, 8, 20]))]
    for _ in range(chance.choice([3, 10, 40])):
        action = chance.choice(chance.choice([ACTIONS, ("same", "different"), ("same", "keep")]))
        a, b = chance.sample(names, 2)
        decision = NewDecision(action, a, b if action in PAIR_ACTIONS else "")
        journal.decide([decision], chance.choice(["ann", "bob"]))
        if chance.random() < 0.1:
            journal.undo("ann")
    everything = Decisions.of(journal.export())
    found = Decisions.of(journal.contested())
    assert list(map(str, found.contradictions())) == list(map(str, everything.contradictions()))


def test_decisions_that_agree_are_not_looked_through_for_contradictions(journal):
    """A page shows contradictions, and someone may have decided about a million pairs at once."""
    agreeing = [NewDecision("same", f"a{n}", f"b{n}") for n in range(100)]
    journal.decide([*agreeing, NewDecision("keep", "a0"), NewDecision("keep", "c")], "ann")
    journal.decide([NewDecision("different", f"x{n}", f"y{n}") for n in range(100)], "ann")
    assert {one.a for one in journal.contested()} == {"a0"}


KILLED = """
import os, sys
from pathlib import Path
from neardup.review.journal import DecisionJournal, NewDecision
journal = DecisionJournal(Path(sys.argv[1]), None)
for number in range(1_000_000):
    journal.decide([NewDecision("keep", str(number), "", number)], "ann")
    os.write(1, b"%d\\n" % number)
"""


def test_killed_server_loses_nothing(tmp_path):
    path = tmp_path / "decisions.sqlite"
    command = [sys.executable, "-c", KILLED, str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    told = [process.stdout.readline() for _ in range(20)]
    os.kill(process.pid, signal.SIGKILL)
    told += process.stdout.read().splitlines()
    process.wait()
    journal = DecisionJournal(path, None)
    stored = {one.a for one in journal.export()}
    assert {str(int(line)) for line in told} <= stored
    journal.close()


def test_run_whose_inputs_changed_says_so_and_shows_what_is_stored(review):
    reviewer = review()
    reviewer.desk.close()
    source = reviewer.desk.run.parent / "texts.jsonl"
    source.write_text(source.read_text().upper())
    again = review(reviewer.desk.run)
    page = again.get("/pair/0")
    assert "<ins>" in page  # the run has stored texts of its largest clusters
    (again.desk.run / "samples.parquet").unlink()
    other = Reviewer(ReviewDesk(RunSubject(again.desk.run), "bob", 8123))
    assert "has changed since the run" in other.get("/pair/0")
    other.decide("same", 0)
    source.unlink()
    other.desk.close()
    gone = review(again.desk.run)
    assert "is not there any more" in gone.get("/pair/1")


def test_run_of_another_version_is_reviewed_without_texts(review, make_run):
    run = make_run()
    record = json.loads((run / "run.json").read_text())
    del record["reading"]
    record["version"] = "0.0.1"
    (run / "run.json").write_text(json.dumps(record))
    (run / "samples.parquet").unlink()
    reviewer = review(run)
    assert "9 of 12 documents" in reviewer.get("/")
    assert "can't be compared" in reviewer.get("/pair/0")
    reviewer.decide("same", 0)
    assert len(reviewer.decisions()) == 1
