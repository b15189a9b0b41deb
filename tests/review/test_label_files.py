"""Labels go to golden sets, Label Studio and Splink, and come back; bad files are one line."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.command_line import neardup
from support.labelled_run import make_labelled_run, truth

from neardup.errors import InputError, MissingInput, NeardupError, UsageError
from neardup.review.label_desk import LabelDesk
from neardup.review.label_files import import_labels, write_labels
from neardup.review.run_subject import RunSubject


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_labelled_run(tmp_path_factory.mktemp("labelled"), 30)


@pytest.fixture
def labels(made: Path) -> Any:
    desk = LabelDesk(RunSubject(made))
    with desk.journal.change() as (opened, _):
        opened.execute("DELETE FROM answers")
    yield desk
    desk.close()


def answer_some(labels: LabelDesk) -> dict[int, str]:
    answers = {pair.number: truth(pair) for pair in labels.draw.pairs[:20]} | {3: "unsure"}
    labels.journal.answer(answers.items(), "ann@example.org")
    return answers


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.json", None), ("a.csv", "splink"), ("a.parquet", "splink"), ("b.json", "label-studio")],
)
def test_answers_come_back(labels: LabelDesk, tmp_path: Path, name: str, kind: str | None) -> None:
    answers = answer_some(labels)
    write_labels(labels, tmp_path / name, kind)
    with labels.journal.change() as (opened, _):
        opened.execute("DELETE FROM answers")
    assert import_labels(labels, tmp_path / name, "ben") == (20, 0)
    who = "ann@example.org" if name.endswith("json") else "ben"
    assert labels.journal.answers() == {who: answers}


def test_tasks_of_label_studio_are_blind(labels: LabelDesk, tmp_path: Path) -> None:
    write_labels(labels, tmp_path / "tasks.json", None)
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert len(tasks) == 30
    for task, pair in zip(tasks, labels.draw.pairs, strict=True):
        assert set(task["data"]) == {"id1", "id2", "text1", "text2"}
        assert {task["data"]["id1"], task["data"]["id2"]} == {pair.a, pair.b}
        assert task["data"]["text1"] == labels.journal.text(task["data"]["id1"])
        assert task["annotations"] == []


def test_splink_has_the_columns_of_its_labels(labels: LabelDesk, tmp_path: Path) -> None:
    answer_some(labels)
    write_labels(labels, tmp_path / "labels.csv", "splink")
    with (tmp_path / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "source_dataset_l",
        "unique_id_l",
        "source_dataset_r",
        "unique_id_r",
        "clerical_match_score",
    ]
    assert {row["clerical_match_score"] for row in rows} == {"0.0", "0.5", "1.0"}


def test_what_label_studio_writes_is_read(labels: LabelDesk, tmp_path: Path) -> None:
    """A cancelled annotation counts nothing; who answered is a number in its exports."""
    pair, other = labels.draw.pairs[:2]

    def annotated(pair: Any, *choices: str, **more: object) -> dict[str, Any]:
        given = [{"type": "choices", "value": {"choices": [one]}} for one in choices]
        results = [{"result": [one], "completed_by": 7, **more} for one in given]
        return {"data": {"id1": pair.b, "id2": pair.a}, "annotations": results}

    tasks = [annotated(pair, "Same"), annotated(other, "different", was_cancelled=True)]
    strange = {"data": {"id1": "x", "id2": "y"}, "annotations": tasks[0]["annotations"]}
    (tmp_path / "done.json").write_text(json.dumps([*tasks, strange]))
    assert import_labels(labels, tmp_path / "done.json", "ben") == (1, 1)
    assert labels.journal.answers() == {"7": {pair.number: "same"}}


TASK = {"data": {"id1": "a", "id2": "b"}, "annotations": []}
CHOICE = {"type": "choices", "value": {"choices": ["perhaps"]}}
BAD = [
    ("a.json", b"{", InputError, "is no JSON file"),
    ("a.json", b"\xff\xfe", InputError, "is no JSON file"),
    ("a.json", b"[" * 100_000, InputError, "is no JSON file"),
    ("a.json", b"{}", InputError, "are a list"),
    ("a.json", b"[3]", InputError, "task 1: not a task"),
    ("a.json", b'[{"data": {"id1": 1}}]', InputError, "task 1: not a task"),
    (
        "a.json",
        json.dumps([TASK, TASK | {"annotations": [{"result": [CHOICE]}]}]).encode(),
        InputError,
        "task 2: 'perhaps' is no answer",
    ),
    (
        "a.json",
        json.dumps([TASK | {"annotations": [{"result": [{"type": "choices"}]}]}]).encode(),
        InputError,
        "task 1: not a task",
    ),
    ("a.json", json.dumps([TASK]).encode(), InputError, "none of its 0 answers"),
    ("a.csv", b"", InputError, "has no column unique_id_l"),
    ("a.csv", b"id1,id2,label\na,b,1\n", InputError, "has no column unique_id_l"),
    ("a.csv", b"unique_id_l,unique_id_r\na,b\n", InputError, "no column clerical_match_score"),
    ("a.csv", b"\xff\xff", InputError, "no CSV file in UTF-8"),
    ("a.parquet", b"PAR1", InputError, "is no Parquet file"),
    ("a.txt", b"", UsageError, "named .json, .csv or .parquet"),
]
SPLINK = b"unique_id_l,unique_id_r,clerical_match_score\n"


@pytest.mark.parametrize(("name", "content", "error", "said"), BAD)
def test_bad_files_are_one_line(
    labels: LabelDesk,
    tmp_path: Path,
    name: str,
    content: bytes,
    error: type[NeardupError],
    said: str,
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=said) as told:
        import_labels(labels, tmp_path / name, "ben")
    assert "\n" not in str(told.value)
    assert labels.journal.answers() == {}


@pytest.mark.parametrize("row", [b"a,b,", b"a,b,1.5", b"a,b,nan", b"a,b,yes", b"a", b",b,1"])
def test_bad_scores_are_refused(labels: LabelDesk, tmp_path: Path, row: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(SPLINK + b"x,y,1\n" + row + b"\n")
    with pytest.raises(InputError, match="row 2: a label is two ids and"):
        import_labels(labels, tmp_path / "a.csv", "ben")


def test_a_bad_score_in_parquet_is_refused(labels: LabelDesk, tmp_path: Path) -> None:
    table = pa.table(
        {"unique_id_l": [1], "unique_id_r": ["b"], "clerical_match_score": [None]},
    )
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(InputError, match="row 1"):
        import_labels(labels, tmp_path / "a.parquet", "ben")


def test_missing_files_and_folders(labels: LabelDesk, tmp_path: Path) -> None:
    with pytest.raises(MissingInput, match="no such file"):
        import_labels(labels, tmp_path / "none.json", "ben")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(InputError, match="can't be read"):
        import_labels(labels, tmp_path / "folder.json", "ben")
    with pytest.raises(UsageError, match=r"named \.csv, \.parquet or \.json"):
        write_labels(labels, tmp_path / "labels.txt", None)
    with pytest.raises(NeardupError, match="can't be written"):
        write_labels(labels, tmp_path / "none" / "labels.csv", None)


# -- the command -----------------------------------------------------------------------------------


def test_command_writes_reads_and_prints(made: Path, labels: LabelDesk, tmp_path: Path) -> None:
    answer_some(labels)
    told = neardup("review", made, "--export-labels", tmp_path / "golden.csv")
    assert f"golden.csv: {len(labels.labels())} labels" in told.err
    assert "parts of all pairs have none" not in told.err
    labels.journal.answer([(0, "same")], "zoe")
    told = neardup("review", made, "--export-labels", tmp_path / "few.csv", "--who", "zoe")
    assert "few.csv: 1 labels; " in told.err
    assert "parts of all pairs have none, and figures by these leave them out" in told.err
    labels.journal.undo("zoe")
    neardup("review", made, "--export-labels", tmp_path / "x.csv", "--labels-as", "splink")
    told = neardup("review", made, "--import-labels", tmp_path / "x.csv", "--who", "ben")
    assert "20 answers stored" in told.err
    told = neardup("review", made, "--agreement")
    assert told.out.startswith("After 20 answers: ")
    assert "ann@example.org and ben: 19 of 19 pairs alike; kappa 1.00 (" in told.out
    assert neardup("evaluate", tmp_path / "golden.csv", "--run", made).code == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--label", "5"], "--label"),
        (["--labels-as", "splink"], "give both"),
        (["--labels-as", "xml", "--export-labels", "x.csv"], "choose golden"),
        (["--import-labels", "none.json"], "no such file"),
    ],
)
def test_command_refuses_in_one_line(made: Path, options: list[str], said: str) -> None:
    told = neardup("review", made, *options)
    assert told.code == 2
    assert said in told.err


def test_command_without_drawn_pairs_says_how_to_draw_them(tmp_path: Path) -> None:
    run = make_labelled_run(tmp_path, 20)
    for file in (run / "review").iterdir():
        file.unlink()
    told = neardup("review", run, "--agreement")
    assert told.code == 2
    assert "--label 200 draws some" in told.err
