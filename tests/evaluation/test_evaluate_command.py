"""neardup evaluate, as a user types it."""

from __future__ import annotations

import gzip
import json
import re

import pytest
from support.command_line import neardup, write_jsonl
from support.golden_set import planted

from neardup.errors import OutputError
from neardup.evaluation.evaluation import evaluate
from neardup.evaluation.results import format_summary
from neardup.formats.config import write_config

SET = planted()


@pytest.fixture
def folder(tmp_path):
    write_jsonl(tmp_path / "in.jsonl", SET.rows)
    (tmp_path / "golden.tsv").write_text(SET.tsv)
    return tmp_path


def run(folder, *options):
    return neardup("evaluate", folder / "golden.tsv", "--corpus", folder / "in.jsonl", *options)


def test_output_equals_the_library(folder):
    done = run(folder, "-o", folder / "out", "--threshold", 0.6)
    assert done.code == 0, done.err
    want = evaluate(SET.golden, corpus=SET.rows, threshold=0.6)
    assert json.loads((folder / "out" / "evaluation.json").read_text()) == want.record
    *shown, following = done.out.splitlines(keepends=True)
    assert "".join(shown) == f"{want}{folder}/out/evaluation.html shows it\n"
    assert following.startswith(f"next: neardup dedup {folder}/in.jsonl -o OUT --threshold ")
    assert {path.name for path in (folder / "out").iterdir()} == {
        "evaluation.json",
        "evaluation.html",
    }
    printed = run(folder, "--json", "--threshold", 0.6)
    assert json.loads(printed.out) == want.record and printed.err == ""
    assert run(folder, "-q").out == ""


def test_missed_gate_exits_with_1(folder):
    found = evaluate(SET.golden, corpus=SET.rows).labels
    assert 0.1 < found.recall.value < 0.95 and found.precision.value == 1.0
    assert run(folder, "--min-recall", 0.1, "--min-precision", 1, "--min-f1", 0.1).code == 0
    done = run(folder, "-q", "--min-recall", 0.99, "--min-f1", 1)
    assert done.code == 1
    by = 0.99 - found.recall.value
    value = f"{found.recall.value:.4f}"
    assert f"recall by labels {value} misses --min-recall 0.99 by {by:.4f}" in done.err
    assert "f1 " in done.err and "precision" not in done.err
    assert run(folder, "--min-recall", 2).code == 2


def test_undefined_score_misses_its_gate(folder):
    (folder / "golden.tsv").write_text("a0\tb1\t0\n")
    done = run(folder, "-q", "--min-recall", 0, "-o", folder / "out")
    assert done.code == 1 and "labels is undefined, which misses --min-recall 0" in done.err
    assert tile((folder / "out" / "evaluation.html").read_text(), "recall by labels") == "near"


def test_gates_by_similarity(folder):
    """Edits beyond the threshold are no loss by similarity; labels count them."""
    assert run(folder, "-q", "--min-recall", 0.95).code == 1
    assert run(folder, "-q", "--min-recall", 0.95, "--by", "similarity").code == 0
    done = run(folder, "-q", "--min-recall", 0.95, "--by", "similarity", "--bands", 1, "--rows", 60)
    assert done.code == 1 and "recall by similarity 0." in done.err
    found = run(folder, "-q", "--min-recall", 0.5, "--by", "similarity", "--sketch", "simhash")
    assert found.code == 1 and "recall by similarity is undefined" in found.err
    texts = neardup("evaluate", folder / "golden.tsv", "--run", folder, "--by", "similarity")
    assert texts.code == 2 and "--corpus" in texts.err
    other = run(folder, "--by", "eye")
    assert other.code == 2 and "choose labels or similarity" in other.err


def test_corpus_of_another_run_is_refused(folder):
    assert neardup("dedup", folder / "in.jsonl", "-o", folder / "run", "-q").code == 0
    assert run(folder, "--run", folder / "run", "-q").code == 0
    write_jsonl(folder / "other.jsonl", SET.rows[1:])
    done = neardup(
        "evaluate",
        folder / "golden.tsv",
        "--corpus",
        folder / "other.jsonl",
        "--run",
        folder / "run",
    )
    assert done.code == 2 and "other.jsonl" in done.err and "in.jsonl" in done.err
    assert "reading" not in done.err
    both = run(folder, "--corpus", folder / "other.jsonl", "--run", folder / "run", "-q")
    assert both.code == 0, both.err


def test_ids_of_another_corpus_are_shown_beside_those_of_this_one(folder):
    (folder / "golden.tsv").write_text("x\ty\t1\n")
    done = run(folder, "-o", folder / "out")
    assert done.code == 1 and not (folder / "out").exists()
    assert "x and y, the corpus as a0 and a1" in done.err
    assert "--id" in done.err and "--pairs" in done.err
    (folder / "golden.tsv").write_text("id\tcluster\nx\t1\ny\t1\n")
    assert "--clusters" in run(folder).err


@pytest.mark.parametrize("rows", ["id1\tid2\tlabel\n", "id\tcluster\n", "a0\ta0\t1\n"])
def test_a_golden_set_without_a_pair_is_an_error(folder, rows):
    (folder / "golden.tsv").write_text(rows)
    done = run(folder)
    assert done.code == 1 and "no pair that can be used" in done.err
    assert ("1 self-pairs" in done.err) == rows.startswith("a0")


def test_truncated_golden_set_is_refused(folder):
    whole = gzip.compress(SET.tsv.encode())
    (folder / "golden.tsv.gz").write_bytes(whole[:-20])
    done = neardup("evaluate", folder / "golden.tsv.gz", "--corpus", folder / "in.jsonl")
    assert done.code == 1 and "truncated or corrupt gzip data" in done.err
    assert "get it again" in done.err and "--skip-bad-files" not in done.err


def test_summary_fits_the_terminal(folder):
    """In a file no line is longer than 100, and on a terminal none than it is wide."""
    *lines, command = run(folder, "--bands", 2, "--rows", 30).out.splitlines()
    assert max(map(len, lines)) <= 100
    assert command.startswith("next: "), "a command is one line, however long"
    assert any(line.startswith(" " * 20) and line.strip() for line in lines)
    found = evaluate(SET.golden, corpus=SET.rows)
    narrow, wide = (format_summary(found, width) for width in (60, 1_000))
    assert max(map(len, narrow.splitlines())) <= 60
    assert narrow.split() == wide.split()


def test_run_of_other_documents_is_refused(folder):
    other = folder / "other.jsonl"
    other.write_text("".join(f'{{"id": "other-{n}", "text": "a b c d e f g"}}\n' for n in range(3)))
    assert neardup("dedup", other, "-o", folder / "run", "-q").code == 0
    done = neardup("evaluate", folder / "golden.tsv", "--run", folder / "run")
    assert done.code == 2
    assert "none of the" in done.err and "look like other-" in done.err


def tile(page: str, title: str) -> str:
    """The class of a card."""
    return re.search(rf'<div class="tile ?(\w*)"><dt>{title}</dt>', page)[1]


def test_page_states_gates_and_system(folder):
    done = run(folder, "-o", folder / "out", "--min-recall", 0.99, "--min-precision", 0.9)
    assert done.code == 1
    page = (folder / "out" / "evaluation.html").read_text()
    title = "golden.tsv: minhash of word:5, 21x6, threshold 0.8"
    assert f"<title>neardup: evaluation, {title}</title>" in page
    assert f"<h1>{title}</h1>" in page
    assert tile(page, "recall by labels") == "near"
    assert tile(page, "precision by labels") == "kept"
    assert tile(page, "F1 by labels") == tile(page, "recall by similarity") == ""
    assert "precision by labels 1.0000 meets --min-precision 0.9" in page
    assert '<li class="missed">recall by labels' in page
    assert page.count('<figure class="narrow"><svg') == 2


def test_page_without_negatives_has_no_precision_curve(folder):
    (folder / "golden.tsv").write_text("".join(f"a{n}\tb{n}\t1\n" for n in range(60)))
    assert run(folder, "-o", folder / "out").code == 0
    page = (folder / "out" / "evaluation.html").read_text()
    assert page.count("<svg") == 1 and "Precision against recall" not in page
    assert page.count("<polyline") == 1 and "Recall by threshold" in page


@pytest.mark.parametrize(
    "header, rows, told",
    [
        (
            "left,right,same",
            "a0,b0,yes\na0,b1,no\n",
            "golden set the ids are left and right; same is 1, true or yes for duplicates, 0, "
            "false or no for others by labels",
        ),
        ("document,group", "a0,1\nb0,1\n", "golden set the ids are document, the clusters group "),
        (
            "left,right",
            "a0,b0\n",
            "golden set the ids are left and right; all pairs are duplicates ",
        ),
    ],
)
def test_summary_says_how_a_header_of_its_own_was_read(folder, header, rows, told):
    (folder / "labels.csv").write_text(f"{header}\n{rows}")
    command = ("evaluate", folder / "labels.csv", "--corpus", folder / "in.jsonl")
    assert told in " ".join(neardup(*command).out.split())
    option = "--clusters" if "group" in header else "--pairs"
    assert "the ids are" not in neardup(*command, option, header).out, "the user has named them"


def test_summary_does_not_explain_the_usual_columns(folder):
    (folder / "golden.tsv").write_text("id1\tid2\tlabel\na0\tb0\t1\na0\tb1\t0\n")
    assert "the ids are" not in run(folder).out


def test_other_columns_and_a_config_file(folder):
    (folder / "golden.tsv").write_text(
        "x\tleft\tright\n" + "".join(f"0\t{a}\t{b}\n" for a, b, label in SET.golden if label)
    )
    write_config(folder / "point.toml", {"threshold": 0.5, "bands": 20, "rows": 3})
    done = run(folder, "--pairs", "left,right", "--config", folder / "point.toml", "--json")
    point = json.loads(done.out)["operating_point"]["parameters"]
    assert (point["threshold"], point["tables"]) == (0.5, "20x3")
    other = run(
        folder,
        "--pairs",
        "left,right",
        "--config",
        folder / "point.toml",
        "--json",
        "--threshold",
        0.9,
    )
    point = json.loads(other.out)["operating_point"]["parameters"]
    assert point["threshold"] == 0.9 and point["tables"] != "20x3"


def test_foreign_folder_is_not_replaced(folder):
    out = folder / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    done = run(folder, "-o", out)
    assert done.code == 2 and "is not empty (mine.txt)" in done.err
    assert run(folder, "-o", out, "--force").code == 0
    assert (out / "mine.txt").read_text() == "mine"
    again = run(folder, "-o", out)
    assert again.code == 2 and "holds an evaluation" in again.err
    assert run(folder, "-o", out, "--force").code == 0
    (out / "evaluation.json").write_text("[1]")
    foreign = run(folder, "-o", out, "--force")
    assert foreign.code == 2 and "is not an evaluation" in foreign.err
    (out / "evaluation.json").unlink()
    assert run(folder, "-o", out, "--force").code == 0  # the page alone: an evaluation was stopped
    (out / "evaluation.json").unlink()
    (out / "evaluation.html").write_text("mine")
    foreign = run(folder, "-o", out, "--force")
    assert foreign.code == 2 and "evaluation.html is not an evaluation" in foreign.err
    assert (out / "evaluation.html").read_text() == "mine"
    file = run(folder, "-o", out / "mine.txt")
    assert file.code == 2 and "is a file" in file.err


def test_output_folder_is_checked_first_and_removed_on_failure(folder):
    done = run(folder, "-o", folder / "in.jsonl" / "out")
    assert done.code == 1 and "can't be written" in done.err and "reading" not in done.err
    (folder / "golden.tsv").write_text("a0\tb0\t1\na1\tb1\tmaybe\n")
    assert run(folder, "-o", folder / "new" / "out").code == 1
    assert not (folder / "new").exists()


def test_earlier_evaluation_survives_a_failed_write(folder, monkeypatch):
    out = folder / "out"
    assert run(folder, "-o", out, "-q").code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}

    def full(path, value):
        raise OutputError(f"{path} can't be written (No space left on device)")

    monkeypatch.setattr("neardup.formats.tables.write_json", full)
    assert run(folder, "-o", out, "-q", "--force", "--threshold", 0.5).code == 1
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert run(folder, "-o", folder / "new", "-q").code == 1 and not (folder / "new").exists()


def test_page_escapes_texts_and_marks_differences(folder):
    rows = [
        {"id": "<b>1", "text": "one two three four five six <script>"},
        {"id": "2", "text": "one two three four five seven"},
        *SET.rows,
    ]
    write_jsonl(folder / "in.jsonl", rows)
    (folder / "golden.tsv").write_text("<b>1\t2\t1\n2\t2\t1\na0\tb1\t0\n")
    assert run(folder, "-o", folder / "out").code == 0
    page = (folder / "out" / "evaluation.html").read_text()
    assert "<script" not in page and "<b>1" not in page
    assert "&lt;b&gt;1" in page and "<ins>seven</ins>" in page
    assert page.count("<svg") == 2 and "self-pairs" in page


def test_a_page_of_a_run_without_texts(folder):
    assert neardup("dedup", folder / "in.jsonl", "-o", folder / "run", "-q").code == 0
    done = neardup("evaluate", folder / "golden.tsv", "--run", folder / "run", "-o", folder / "out")
    assert done.code == 0, done.err
    page = (folder / "out" / "evaluation.html").read_text()
    assert "pass --corpus" in page and "<svg" not in page
    assert "<h1>golden.tsv: the run run</h1>" in page


def test_baseline_adds_drift(folder):
    assert run(folder, "-o", folder / "out", "-q").code == 0
    earlier = folder / "out" / "evaluation.json"
    done = run(folder, "--baseline", earlier, "-o", folder / "new")
    assert "since the baseline  nothing moved" in done.out
    assert "nothing moved" in (folder / "new" / "evaluation.html").read_text()
    for content in ("", "{}", "[", '{"kind": "neardup evaluation"}'):
        earlier.write_text(content)
        done = run(folder, "--baseline", earlier)
        assert done.code == 1 and "evaluation" in done.err and "reading" not in done.err
    gone = run(folder, "--baseline", folder / "none.json")
    assert gone.code == 2 and "give an earlier evaluation.json" in gone.err
