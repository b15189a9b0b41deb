"""neardup index add -o: what is new of each day, by an index of all days before."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import pytest
from support.command_line import (
    DOCUMENTS,
    edited,
    expected,
    neardup,
    refused,
    table,
    write_jsonl,
)

import neardup as library
from neardup.errors import NeardupError
from neardup.index.additions import Additions
from neardup.index.index import Index
from neardup.index.writer import IndexWriter

DAYS = [DOCUMENTS[:6], DOCUMENTS[6:11], DOCUMENTS[11:]]
NEW = [{"id": "new-1", "text": edited(50)}, {"id": "new-2", "text": edited(51)}]


def add(folder: Path, day: object, out: Path, *options: object) -> dict:
    ran = neardup("index", "add", folder, day, "-o", out, "--json", *options)
    assert (ran.code, ran.err) == (0, ""), ran
    return json.loads(ran.out)


def first_day(tmp_path: Path) -> Path:
    """An index of the first documents, made without an output."""
    given = write_jsonl(tmp_path / "first.jsonl", DAYS[0])
    assert neardup("index", "build", tmp_path / "ix", given, "-q").code == 0
    return tmp_path / "ix"


def kept_ids(out: Path) -> list[str]:
    files = [out] if out.is_file() else sorted((out / "kept").iterdir())
    return [json.loads(line)["id"] for file in files for line in file.read_text().splitlines()]


def removed(out: Path) -> dict[str, tuple[str, float]]:
    return {row["id"]: (row["witness"], row["similarity"]) for row in table(out, "removed")}


class Killed(BaseException):
    """The process is gone: nothing that would run after an error has run."""


def kill(place: str, after: int = 0):
    """Stop the process where it calls `place` for the time after `after` others."""
    calls = iter(range(after))

    def end(*arguments, **options):
        if next(calls, None) is None:
            raise Killed
        return original(*arguments, **options)

    patch = mock.patch(place, autospec=True)
    original = patch.get_original()[0]
    gone = ExitStack()
    gone.enter_context(mock.patch.object(Additions, "stop", lambda *_: None))
    gone.enter_context(mock.patch("neardup.increments.confirm_increment", lambda *_: None))
    return gone, mock.patch(place, end)


PLACES = {
    "while documents are added": ("neardup.index.increment.SketchWriter.add", 1),
    "after all are added": ("neardup.index.increment.write_tables", 0),
    "when the rows are written": ("neardup.index.increment.write_kept_files", 0),
    "before the end is noted": ("neardup.index.additions.Additions.finish", 0),
    "after the end is noted": ("neardup.pipeline.output._move_to_out", 0),
    "after the output is in its place": ("neardup.pipeline.output._remove_quietly", 0),
}


def test_days_give_the_answer_of_dedup_over_all_of_them(tmp_path):
    """The first day is built, the others are added with an output."""
    folder = first_day(tmp_path)
    texts = [row["text"] for row in DOCUMENTS]
    verdicts = dict(zip([row["id"] for row in DOCUMENTS], expected(texts), strict=True))
    for day, rows in enumerate(DAYS[1:], 2):
        given, out = write_jsonl(tmp_path / f"day{day}.jsonl", rows), tmp_path / f"clean{day}"
        record = add(folder, given, out)
        ids = [row["id"] for row in rows]
        assert kept_ids(out) == [id for id in ids if verdicts[id] is None]
        assert removed(out) == {
            id: (f"doc-{found[0]}", found[1])
            for id in ids
            if (found := verdicts[id]) is not None and found[1] > 0
        }
        assert (
            record["counts"]["documents"]
            == len(rows)
            == sum(record["counts"][name] for name in ("kept", "removed", "rejected"))
        )
        assert (out / "report.html").exists() and record["index"] == str(folder)
    witnesses = {row["witness"]: row for row in table(out, "removed")}
    assert witnesses["doc-0"]["witness_file"] == str(folder)
    assert witnesses["doc-0"]["witness_row"] == 1, "its number in the index"
    assert witnesses["doc-11"]["witness_file"] == str(given)


def test_the_first_day_makes_the_index_and_has_an_output(tmp_path):
    """The same options on every day; the answer is that of dedup over all days."""
    texts = [row["text"] for row in DOCUMENTS]
    verdicts = dict(zip([row["id"] for row in DOCUMENTS], expected(texts), strict=True))
    options = ("--threshold", 0.8, "--keep-texts")
    for day, rows in enumerate(DAYS, 1):
        given = write_jsonl(tmp_path / f"day{day}.jsonl", rows)
        add(tmp_path / "ix", given, tmp_path / f"clean{day}", *options)
        ids = [row["id"] for row in rows]
        assert kept_ids(tmp_path / f"clean{day}") == [id for id in ids if verdicts[id] is None]
    with Index.open(tmp_path / "ix", read_only=True) as index:
        assert index.settings.keep_texts
    made = library.add_files(
        tmp_path / "python", tmp_path / "day1.jsonl", tmp_path / "clean", threshold=0.9
    )
    assert made.options.threshold == 0.9 and made.counts["documents"] == len(DAYS[0])


def test_a_first_day_that_fails_leaves_no_index(tmp_path):
    given = write_jsonl(tmp_path / "day.jsonl", NEW)
    command = ("index", "add", tmp_path / "ix", given, "-o", tmp_path / "out")
    refused(neardup(*command, "--id", "key", "-q"), 2, "key")
    refused(neardup(*command, "--strip", "lines:2%", "-q"), 2, "counted over all documents")
    assert not (tmp_path / "ix").exists()
    ran = neardup(*command)
    assert ran.code == 0 and f"{tmp_path / 'ix'} is a new index" in ran.err, ran


def test_an_index_that_has_all_documents_before_says_so(tmp_path):
    """It was built of the first day, and the first day is added again for an output."""
    folder = first_day(tmp_path)
    ran = neardup("index", "add", folder, tmp_path / "first.jsonl", "-o", tmp_path / "out")
    assert "all documents were in the index before" in ran.out, ran
    given = write_jsonl(tmp_path / "day.jsonl", [DAYS[0][0], *NEW])
    ran = neardup("index", "add", folder, given, "-o", tmp_path / "new")
    assert "indexed before      1: " in ran.out, ran


def test_documents_that_another_output_has_are_answered_with_how_to_write_it_again(tmp_path):
    given = write_jsonl(tmp_path / "day.jsonl", DAYS[0])
    ix, former = tmp_path / "ix", tmp_path / "former"
    add(ix, given, former)
    rows = kept_ids(former)
    ran = neardup("index", "add", ix, given, "-o", tmp_path / "other")
    assert f"no row is new: -o {former} --force with the inputs of that output writes" in ran.out
    assert "make the index" not in ran.out
    add(ix, given, former, "--force")
    assert kept_ids(former) == rows and len(rows) > 1


@pytest.mark.parametrize("place", PLACES)
def test_a_stopped_run_gives_the_same_output_when_it_is_run_again(tmp_path, place):
    """No document is lost, none is removed as a copy of itself, none is written twice."""
    rows = [*DAYS[1], *NEW, *DAYS[2]]
    given = write_jsonl(tmp_path / "day.jsonl", rows)
    whole = first_day(tmp_path)
    shutil.copytree(whole, tmp_path / "other")
    add(whole, given, tmp_path / "at-once")
    name, after = PLACES[place]
    with mock.patch("neardup.pipeline.job.CHUNK", 2_000):
        held, end = kill(name, after)
        with held, end, pytest.raises(Killed):
            neardup("index", "add", tmp_path / "other", given, "-o", tmp_path / "out", "-q")
    if not (tmp_path / "out" / "run.json").exists():
        add(tmp_path / "other", given, tmp_path / "out")
    assert kept_ids(tmp_path / "out") == kept_ids(tmp_path / "at-once")
    assert removed(tmp_path / "out") == removed(tmp_path / "at-once")
    with Index.open(whole, read_only=True) as one, Index.open(tmp_path / "other") as other:
        assert len(one) == len(other)
    # The next day, the same documents are copies of themselves.
    add(tmp_path / "other", given, tmp_path / "again")
    assert kept_ids(tmp_path / "again") == []


def test_documents_of_a_stopped_run_are_written_by_another_one_and_once(tmp_path):
    folder, given = first_day(tmp_path), write_jsonl(tmp_path / "day.jsonl", NEW)
    held, end = kill("neardup.index.increment.write_tables")
    with held, end, pytest.raises(Killed):
        neardup("index", "add", folder, given, "-o", tmp_path / "out", "-q")
    third = {"id": "new-3", "text": edited(52)}
    with Index.open(folder) as index:  # what another process adds meanwhile is not of that run
        index.add(third["id"], third["text"])
    one = write_jsonl(tmp_path / "part.jsonl", [NEW[1], third])
    ran = neardup("index", "add", folder, one, "-o", tmp_path / "part")
    assert ran.code == 0 and "no output has 1 document of" in ran.err, ran.err
    assert kept_ids(tmp_path / "part") == ["new-2"]
    assert removed(tmp_path / "part") == {"new-3": ("new-3", 1.0)}
    add(folder, given, tmp_path / "out")
    assert kept_ids(tmp_path / "out") == ["new-1"], "the other one is in part"


def test_force_writes_an_output_again_that_exists_or_was_deleted(tmp_path):
    folder, given = first_day(tmp_path), write_jsonl(tmp_path / "day.jsonl", NEW)
    add(folder, given, tmp_path / "out")
    ran = neardup("index", "add", folder, given, "-o", tmp_path / "out")
    refused(ran, 2, "holds a finished run")
    add(folder, given, tmp_path / "out", "--force")
    assert kept_ids(tmp_path / "out") == ["new-1", "new-2"]
    shutil.rmtree(tmp_path / "out")
    ran = neardup("index", "add", folder, given, "-o", tmp_path / "out")
    assert ran.code == 0 and "2 documents of the inputs had been written to" in ran.err, ran
    assert kept_ids(tmp_path / "out") == [], "they may be where the output was moved to"
    add(folder, given, tmp_path / "out", "--force")
    assert kept_ids(tmp_path / "out") == ["new-1", "new-2"]


@pytest.mark.parametrize("out", ["out", "out.jsonl"])
def test_a_corrected_or_renamed_input_loses_nothing_with_force(tmp_path, monkeypatch, out):
    folder, given = first_day(tmp_path), tmp_path / "day.jsonl"
    write_jsonl(given, [{"id": "new-1", "text": None}, NEW[1]])
    add(folder, given, tmp_path / out)
    write_jsonl(given, NEW)
    add(folder, given, tmp_path / out, "--force")
    assert kept_ids(tmp_path / out) == ["new-1", "new-2"]
    monkeypatch.chdir(tmp_path)
    given.rename("renamed.jsonl")
    add(Path("ix"), "renamed.jsonl", Path(out), "--force")
    assert kept_ids(tmp_path / out) == ["new-1", "new-2"]
    (tmp_path / out).rename(tmp_path / f"moved-{out}")
    add(folder, "renamed.jsonl", tmp_path / f"moved-{out}", "--force")
    assert kept_ids(tmp_path / f"moved-{out}") == ["new-1", "new-2"]


def test_rows_of_a_replaced_output_that_are_not_in_the_new_one_are_left_for_another(tmp_path):
    folder, out = first_day(tmp_path), tmp_path / "out"
    given = write_jsonl(tmp_path / "day.jsonl", NEW)
    add(folder, given, out)
    part = write_jsonl(tmp_path / "part.jsonl", NEW[:1])
    ran = neardup("index", "add", folder, part, "-o", out, "--force")
    assert ran.code == 0 and "no output has 1 document of" in ran.err, ran
    assert kept_ids(out) == ["new-1"]
    add(folder, given, tmp_path / "other")
    assert kept_ids(tmp_path / "other") == ["new-2"]


def test_an_output_that_is_moved_away_each_day_keeps_its_documents(tmp_path):
    """The same names, and inputs of the same size: what the archive has is not written again."""
    folder, given, out = first_day(tmp_path), tmp_path / "today.jsonl", tmp_path / "clean"
    rows = [{"id": f"new-{n}", "text": edited(50 + n)} for n in range(5)]
    for day, (some, kept) in enumerate([((0, 3), [0, 1, 2]), ((2, 5), [3, 4])]):
        add(folder, write_jsonl(given, rows[slice(*some)]), out)
        assert kept_ids(out) == [f"new-{n}" for n in kept]
        out.rename(tmp_path / f"archive-{day}")


@pytest.mark.parametrize(
    ("out", "place"),
    [
        ("out", "neardup.pipeline.output._move_to_out"),
        ("out.jsonl", "neardup.pipeline.output_file._move"),
    ],
)
def test_an_output_that_never_came_to_its_place_is_written_by_another_run(tmp_path, out, place):
    """Killed when it was complete; then with another OUT and another input."""
    folder, given = first_day(tmp_path), write_jsonl(tmp_path / "day.jsonl", NEW)
    held, end = kill(place)
    with held, end, pytest.raises(Killed):
        neardup("index", "add", folder, given, "-o", tmp_path / out, "-q")
    assert not (tmp_path / out).exists()
    more = write_jsonl(tmp_path / "more.jsonl", [*NEW, {"id": "new-3", "text": edited(54)}])
    add(folder, more, tmp_path / f"other-{out}")
    assert kept_ids(tmp_path / f"other-{out}") == ["new-1", "new-2", "new-3"]


@pytest.mark.parametrize("out", ["out", "out.jsonl"])
def test_an_output_is_on_the_disk_before_the_index_calls_it_written(tmp_path, monkeypatch, out):
    """A power failure may lose what is not synced; the index would never write it again."""
    folder, given = first_day(tmp_path), write_jsonl(tmp_path / "day.jsonl", NEW)
    out, synced, sync = tmp_path / out, [], os.fsync

    def note(handle):
        synced.append(os.fstat(handle).st_ino)
        sync(handle)

    monkeypatch.setattr(os, "fsync", note)
    add(folder, given, out)
    files = [out] if out.is_file() else [path for path in out.rglob("*") if path.is_file()]
    assert len(files) == (1 if out.suffix else 7)
    places = [out.parent] if out.is_file() else [out / "kept", out, out.parent]
    noted = len(synced) - synced[::-1].index((folder / "additions.json").stat().st_ino)
    assert {path.stat().st_ino for path in [*files, *places]} <= set(synced[:noted])


def test_a_report_that_cannot_be_written_leaves_the_rows_for_the_next_run(tmp_path):
    folder, given = first_day(tmp_path), write_jsonl(tmp_path / "day.jsonl", NEW)
    (tmp_path / "file").write_text("")
    wrong = ("--report", tmp_path / "file" / "report.html")
    ran = neardup("index", "add", folder, given, "-o", tmp_path / "out.jsonl", "-q", *wrong)
    assert ran.code == 1, ran
    add(folder, given, tmp_path / "other.jsonl")
    assert kept_ids(tmp_path / "other.jsonl") == ["new-1", "new-2"]


def test_rows_that_were_not_written_are_in_no_output(tmp_path):
    folder, given = first_day(tmp_path), write_jsonl(tmp_path / "day.jsonl", NEW)
    ran = neardup("index", "add", folder, given, "-o", tmp_path / "only", "--no-kept")
    assert ran.code == 0 and "no output has 2 documents of" in ran.err, ran
    add(folder, given, tmp_path / "out")
    assert kept_ids(tmp_path / "out") == ["new-1", "new-2"]


def test_a_document_that_comes_again_on_a_later_day_is_removed(tmp_path):
    folder = first_day(tmp_path)
    rows = [DOCUMENTS[0], DOCUMENTS[2], NEW[0], NEW[0], {"id": "doc-1", "text": edited(60)}]
    given = write_jsonl(tmp_path / "day.jsonl", rows)
    record = add(folder, given, tmp_path / "out")
    assert kept_ids(tmp_path / "out") == ["new-1"]
    found = [(row["id"], row["witness"]) for row in table(tmp_path / "out", "removed")]
    assert found == [("doc-0", "doc-0"), ("doc-2", "doc-0"), ("new-1", "new-1")]
    assert record["counts"]["identical"] == 3
    assert list(record["reasons"]) == [
        "this id is there with another content: give another id, or replace it"
    ]


def test_one_file_and_standard_input(tmp_path, monkeypatch):
    folder = first_day(tmp_path)
    given = write_jsonl(tmp_path / "day.jsonl", [*NEW, DOCUMENTS[0]])
    removed_file = tmp_path / "removed.jsonl"
    add(folder, given, tmp_path / "new.jsonl", "--removed", removed_file)
    assert kept_ids(tmp_path / "new.jsonl") == ["new-1", "new-2"]
    assert json.loads(removed_file.read_text())["witness"] == "doc-0"
    third = write_jsonl(tmp_path / "third.jsonl", [{"id": "new-3", "text": edited(53)}])
    monkeypatch.setattr(sys, "stdin", third.open())
    add(folder, "-", tmp_path / "piped.jsonl")
    assert kept_ids(tmp_path / "piped.jsonl") == ["new-3"]


def test_too_many_rejected_documents_fail_after_the_output_is_written(tmp_path):
    folder = first_day(tmp_path)
    given = write_jsonl(tmp_path / "day.jsonl", [{"id": "doc-0", "text": edited(61)}, NEW[0]])
    out = tmp_path / "out"
    ran = neardup("index", "add", folder, given, "-o", out, "--max-rejected", 0.4, "-q")
    refused(ran, 1, "1 of 2 documents rejected", "rejected.parquet lists them")
    assert kept_ids(out) == ["new-1"]
    ran = neardup("index", "add", folder, given, "-o", tmp_path / "strict", "--strict", "-q")
    refused(ran, 1, "document 'doc-0' can't be used", "--strict")
    assert not (tmp_path / "strict").exists()


def test_wrong_uses_change_nothing(tmp_path):
    folder, given = first_day(tmp_path), write_jsonl(tmp_path / "day.jsonl", NEW)
    out = tmp_path / "out"

    def wrong(*options, code=2):
        ran = neardup("index", "add", *options, "-q")
        assert ran.code == code, ran
        return ran

    refused(wrong(folder, given, "-o", out, "--replace"), 2, "--replace can't take back")
    refused(wrong(folder, given, "-o", "-"), 2, "choose a file or a folder for -o")
    refused(wrong(folder, given, "-o", folder / "out"), 2, "inside the index")
    refused(wrong(folder, given, "-o", "s3://bucket/out"), 2, "choose a path for -o")
    refused(wrong(folder, given, "--force"), 2, "--force goes with -o OUT")
    refused(wrong(tmp_path / "none", given), 2, "holds no index")
    refused(wrong(folder, given, "-o", out, "--threshold", 0.9), 2, "this index has threshold 0.8")
    refused(wrong(folder, given, "-o", out, "--keep-texts"), 2, "made without its texts")
    refused(wrong(folder, given, "-o", out, "--id", "key"), 2, "key")
    with Index.open(folder):
        refused(wrong(folder, given, "-o", out, code=1), 1, "is written to by process", "stop it")
    assert not out.exists() and not Path("s3:").exists()
    with Index.open(folder, read_only=True) as index:
        assert len(index) == len(DAYS[0])


def test_a_damaged_list_of_additions_is_an_error(tmp_path):
    folder, given = first_day(tmp_path), write_jsonl(tmp_path / "day.jsonl", NEW)
    for content in (
        "{",
        '{"version": 1}',
        '{"version":2,"open":null,"unconfirmed":null,"unwritten":[[3,1]],"written":{}}',
        '{"version":2,"open":null,"unconfirmed":null,"unwritten":[],"written":{"out":[[1,2]]}}',
    ):
        (folder / "additions.json").write_text(content)
        ran = neardup("index", "add", folder, given, "-o", tmp_path / "out", "-q")
        refused(ran, 1, "additions.json")


def test_python_adds_files_as_the_command_does(tmp_path):
    """With an open index, or its folder; wrong options are refused before anything is added."""
    folder, given = first_day(tmp_path), write_jsonl(tmp_path / "day.jsonl", [*NEW, DOCUMENTS[0]])
    shutil.copytree(folder, tmp_path / "other")
    record = add(folder, given, tmp_path / "out")
    with pytest.raises(NeardupError, match="this index has threshold"):
        library.add_files(tmp_path / "other", given, tmp_path / "no", threshold=0.9)
    with Index.open(tmp_path / "other") as index:
        with pytest.raises(NeardupError, match="this index has threshold"):
            library.add_files(index, given, tmp_path / "no", threshold=0.9)
        run = library.add_files(index, given, tmp_path / "python", format="jsonl")
    assert run.counts == record["counts"]
    assert kept_ids(run.path) == kept_ids(tmp_path / "out") == ["new-1", "new-2"]
    assert removed(run.path) == removed(tmp_path / "out") == {"doc-0": ("doc-0", 1.0)}
    assert "2 kept" in run.summary() and run.report.exists()


def test_files_of_two_days_with_one_name_and_without_ids_are_other_documents(tmp_path):
    """Text files in two folders have the same generated ids; also without an output."""
    texts = [edited(n) for n in range(70, 76)]
    days = [[*texts[:3]], [texts[3], texts[1], texts[4], texts[5]], [texts[0], texts[3]]]
    for day, some in enumerate(days):
        (tmp_path / f"d{day}").mkdir()
        for n, text in enumerate(some):
            (tmp_path / f"d{day}" / f"f{n}.txt").write_text(text)
    for name in ("ix", "plain"):
        assert neardup("index", "build", tmp_path / name, tmp_path / "d0", "-q").code == 0
    kept = []
    for day in (1, 2):
        held, end = kill("neardup.index.increment.write_tables")
        with held, end, pytest.raises(Killed):
            neardup("index", "add", tmp_path / "ix", tmp_path / f"d{day}", "-o", tmp_path / "o")
        record = add(tmp_path / "ix", tmp_path / f"d{day}", tmp_path / f"out{day}")
        assert record["counts"]["rejected"] == 0
        kept.append(sorted(file.name for file in (tmp_path / f"out{day}" / "kept").iterdir()))
        ran = neardup("index", "add", tmp_path / "plain", tmp_path / f"d{day}", "--json")
        assert json.loads(ran.out)["counts"]["rejected"] == 0, ran
    assert kept == [["f0.txt", "f2.txt", "f3.txt"], []]
    ran = neardup("index", "add", tmp_path / "plain", tmp_path / "d1", "--json")
    assert json.loads(ran.out)["counts"]["again"] == 4, "the same documents have the same ids"


def test_an_export_carries_which_documents_are_in_no_output(tmp_path):
    folder, given = first_day(tmp_path), write_jsonl(tmp_path / "day.jsonl", NEW)
    add(folder, write_jsonl(tmp_path / "one.jsonl", NEW[:1]), tmp_path / "one")
    held, end = kill("neardup.index.increment.write_tables")
    with held, end, pytest.raises(Killed):
        neardup("index", "add", folder, given, "-o", tmp_path / "out", "-q")
    assert neardup("index", "export", folder, tmp_path / "file", "-q").code == 0
    assert neardup("index", "import", tmp_path / "copy", tmp_path / "file", "-q").code == 0
    add(tmp_path / "copy", given, tmp_path / "out")
    assert kept_ids(tmp_path / "out") == ["new-2"]


def test_more_short_documents_than_may_wait_are_added(tmp_path):
    """Chunks are cut by their bytes; what may wait for the index is counted in documents."""
    folder, days = first_day(tmp_path), []
    for day in range(3):
        rows = [{"id": f"{day}-{n}", "text": f"w{n} x{day} y{n}-{day} z{n}"} for n in range(30)]
        days.append(write_jsonl(tmp_path / f"short{day}.jsonl", rows))
    execute = IndexWriter.execute

    def slowly(writer, requests):
        time.sleep(0.02)
        execute(writer, requests)

    with (
        mock.patch.object(IndexWriter, "execute", slowly),
        mock.patch("neardup.index.increment.TOGETHER", 3),
        Index.open(folder, most_waiting=40) as index,
    ):
        run = library.add_files(index, days, tmp_path / "out")
    assert run.counts["documents"] == 90 and run.counts["rejected"] == 0


def test_full_buckets_are_counted(tmp_path):
    first = write_jsonl(tmp_path / "first.jsonl", DOCUMENTS[:1])
    options = ("--limit", 1, "--bands", 6, "--rows", 1, "--slots", 6, "--threshold", 0.95)
    assert neardup("index", "build", tmp_path / "ix", first, "-q", *options).code == 0
    near = [{"id": f"n{n}", "text": edited(1, *range(8 * n, 8 * n + 8))} for n in range(1, 6)]
    ran = neardup(
        "index",
        "add",
        tmp_path / "ix",
        write_jsonl(tmp_path / "n.jsonl", near),
        "-o",
        tmp_path / "out",
    )
    assert "in which not every document was compared\n" in ran.out, ran
    assert json.loads((tmp_path / "out" / "run.json").read_text())["full_buckets"]["count"] > 0


def test_why_of_a_day_points_to_the_index_for_texts_of_earlier_days(tmp_path: Path) -> None:
    folder = first_day(tmp_path)
    day = write_jsonl(tmp_path / "day.jsonl", [DAYS[0][0] | {"id": "again"}])
    add(folder, day, tmp_path / "out")
    ran = neardup("why", tmp_path / "out", "again", "-q")
    assert (ran.code, ran.err) == (0, "")
    assert f"the index {folder} keeps no texts (--keep-texts)" in " ".join(ran.out.split())


def test_why_of_an_id_that_an_earlier_day_has_too_means_the_document_of_the_day(
    tmp_path: Path,
) -> None:
    folder = first_day(tmp_path)
    rows = [{"id": "same", "text": DAYS[0][0]["text"]}]
    add(folder, write_jsonl(tmp_path / "day.jsonl", rows), tmp_path / "out")
    ran = neardup("why", tmp_path / "out", "same", "-q")
    assert ran.code == 0 and ran.out.startswith("'same' was removed")
