"""Values that people write at first, and what the message says to write instead."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from support.command_line import neardup

import neardup as library
from neardup.errors import ParameterError

COMMANDS: dict[str, list[str]] = {
    "dedup": ["dedup", "p.jsonl", "-o", "out"],
    "tune": ["tune", "p.jsonl"],
    "evaluate": ["evaluate", "labels.tsv", "--corpus", "p.jsonl"],
    "plan": ["plan", "--documents", "1000", "--no-calibrate"],
    "compare-sketches": ["compare-sketches", "p.jsonl"],
    "index build": ["index", "build", "index", "p.jsonl"],
}
SKETCHING = ["dedup", "evaluate", "plan", "index build"]


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.jsonl").write_text('{"id": "a", "text": "one"}\n{"id": "b", "text": "two"}\n')
    Path("labels.tsv").write_text("a\tb\t0\n")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "option, value, write",
    [
        ("--threshold", "80%", "0.8"),
        ("--threshold", "8", "0.8, or 0.08 for 8 %"),
        ("--threshold", "80", "0.8"),
        ("--threshold", "0,8", "0.8"),
        ("--recall", "99 %", "0.99"),
        ("--recall", "99", "0.99"),
    ],
)
def test_a_percentage_is_answered_with_the_number_to_write(command, option, value, write):
    ran = neardup(*COMMANDS[command], option, value)
    assert ran.code == 2
    message = ran.err.strip()
    assert f"write {write}" in message and option.strip("-") in message
    assert "\n" not in message and "valid number" not in message


@pytest.mark.parametrize(
    "arguments, write",
    [
        (["tune", "p.jsonl", "--precision", "95%"], "0.95"),
        (["tune", "p.jsonl", "--precision", "95"], "0.95"),
        (["tune", "p.jsonl", "--thresholds", "0.7,80%"], "0.8"),
        (["plan", "--documents", "9", "--no-calibrate", "--precision", "95"], "0.95"),
        (["evaluate", "labels.tsv", "--corpus", "p.jsonl", "--min-recall", "95"], "0.95"),
        (["dedup", "p.jsonl", "-o", "out", "--max-rejected", "5%"], "0.05"),
        (["dedup", "p.jsonl", "-o", "out", "--max-rejected", "5"], "0.5, or 0.05 for 5 %"),
    ],
)
def test_so_are_the_other_shares(arguments, write):
    ran = neardup(*arguments)
    assert ran.code == 2 and f"write {write}" in ran.err


def test_no_number_at_all_is_named():
    ran = neardup(*COMMANDS["dedup"], "--threshold", "high")
    assert (ran.code, "'high' is not a number" in ran.err) == (2, True)


def test_python_says_the_same():
    for value in ("80%", 80):
        with pytest.raises(ParameterError, match=r"write 0\.8"):
            library.dedup(["a", "b"], threshold=value)


@pytest.mark.parametrize(
    "command, wrong",
    [
        *itertools.product(SKETCHING, [("--sketch", "minhsh", "minhash")]),
        *itertools.product(SKETCHING, [("--verify", "estimates", "estimate")]),
        ("dedup", ("--preset", "shrt", "short")),
        ("dedup", ("--measure", "Jacard", "jaccard")),
        ("dedup", ("--text-profile", "standart", "standard")),
        ("tune", ("--sketches", "minhsh", "minhash")),
    ],
)
def test_a_misspelt_choice_is_answered_with_the_nearest(command, wrong):
    option, value, meant = wrong
    ran = neardup(*COMMANDS[command], option, value)
    assert ran.code == 2 and f"did you mean {meant}?" in ran.err
    assert "hyperloglog" not in ran.err, "a sketch that the command would refuse is not offered"


@pytest.mark.parametrize("command", [*SKETCHING, "tune"])
def test_three_bits_are_refused_with_the_possible_ones(command):
    ran = neardup(*COMMANDS[command], "--bits", "3")
    assert ran.code == 2 and "bits 3 is not known: choose one of" in ran.err and "16" in ran.err


def test_a_recall_of_one_is_answered_with_one_that_is_possible():
    ran = neardup(*COMMANDS["dedup"], "--recall", 1)
    assert ran.code == 2 and "below 1, not 1: give one such as 0.99" in ran.err


def test_a_threshold_a_little_above_one_is_no_percentage():
    Path("neardup.toml").write_text("threshold = 1.9\n")
    ran = neardup(*COMMANDS["dedup"])
    assert ran.code == 2 and "write" not in ran.err
    assert ran.err.strip().endswith(
        "neardup.toml: threshold must be above 0 and at most 1, not 1.9"
    )


def test_a_value_of_the_config_file_that_an_option_refuses_names_the_file():
    Path("neardup.toml").write_text("max-rejected = 5\n")
    ran = neardup(*COMMANDS["dedup"])
    assert ran.code == 2 and "neardup.toml: --max-rejected must be from 0 to 1" in ran.err


@pytest.mark.parametrize(
    "option, value, meant",
    [
        ("--keep", "longst", "did you mean longest?"),
        ("--keep", "newst:date", "did you mean newest:date?"),
        ("--keep", "newest", "did you mean newest:COLUMN?"),
        ("--format", "line", "did you mean lines?"),
        ("--treshold", "0.8", "No such option: --treshold: did you mean --threshold? (see"),
    ],
)
def test_a_typo_is_answered_with_the_nearest_choice(option, value, meant):
    ran = neardup(*COMMANDS["dedup"], option, value)
    assert ran.code == 2 and meant in ran.err


@pytest.mark.parametrize("option, value", [("--size", "5KB"), ("--days", "8"), ("--machine", "9")])
def test_an_option_that_is_no_typo_is_answered_without_nonsense(option, value):
    ran = neardup("plan", "--documents", "1M", option, value)
    assert ran.code == 2 and "did you mean" not in ran.err
    assert f"No such option: {option} (see neardup plan --help)" in ran.err


@pytest.mark.parametrize(
    "command, option, value, why",
    [
        ("index add", "--keep", "newest:date", "an index keeps the first copy"),
        ("index build", "--keep", "newest:date", "an index keeps the first copy"),
        ("index retune", "--shingle", "word:3", "the documents are sketched already"),
        ("exact", "--text-profil", "plain", "did you mean --text-profile?"),
        ("exact", "--threshold", "0.8", "nothing is sketched, copies are equal"),
        ("evaluate", "--keep", "first", "pairs are judged one by one"),
    ],
)
def test_an_option_of_other_commands_is_answered_with_why_this_one_lacks_it(
    command, option, value, why
):
    ran = neardup(*command.split(), "ix", "day.jsonl", option, value)
    assert ran.code == 2
    assert ran.err.startswith(f"neardup: No such option: {option}: {why}"), ran.err


def test_evaluate_of_documents_without_corpus_names_the_option():
    ran = neardup("evaluate", "labels.csv", "rfc.jsonl")
    assert ran.code == 2 and "(rfc.jsonl): give documents with --corpus" in ran.err


def test_the_beginning_of_an_option_is_answered_with_it():
    ran = neardup("plan", "--documents", "1M", "--mem", "9GB")
    assert ran.code == 2 and "did you mean --memory?" in ran.err


def test_without_arguments_an_example_shows_the_command():
    ran = neardup("dedup")
    assert ran.code == 2 and "Missing argument 'INPUT'. Example: neardup dedup pages" in ran.err


def test_a_command_that_is_an_option_is_answered_with_it():
    ran = neardup("version")
    assert ran.code == 2 and "Did you mean neardup --version?" in ran.err


@pytest.mark.parametrize("command", ["dedup", "plan", "index build"])
def test_memory_without_a_unit_is_answered_with_one(command: str) -> None:
    ran = neardup(*COMMANDS[command], "--memory", "4")
    assert ran.code == 2
    assert "--memory 4 is 4 bytes: did you mean 4GB?" in ran.err
    with pytest.raises(ParameterError, match="did you mean 4GB"):
        library.dedup_files("p.jsonl", memory=4)
