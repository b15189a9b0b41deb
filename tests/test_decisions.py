"""Decisions of people: what holds, what contradicts, and files that are right or refused."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neardup.decisions import Decision, Decisions, fingerprint_run
from neardup.errors import NeardupError, ParameterError, UsageError
from neardup.formats.decisions import DECISIONS, read_decisions, write_decisions

WHEN = "2026-03-01T12:00:00Z"


def decide(action, a, b=None, who="ann", when=WHEN, **more) -> Decision:
    return Decision(action, a, b, who=who, when=when, **more)


def reasons(*decisions: Decision) -> list[str]:
    return [one.reason for one in Decisions.of(decisions).contradictions()]


def test_importing_decisions_is_quick():
    code = (
        "import sys, neardup.decisions; assert not {'numba','pyarrow','numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"action": "merge"}, "not known: use one of same"),
        ({"a": ""}, "a is empty"),
        ({"a": "x" * 5000}, "5,000 characters"),
        ({"a": "\ud800"}, "half a character"),
        ({"a": 7}, "a must be a text, not int"),
        ({"b": None}, "b is missing"),
        ({"b": "1"}, "one document"),
        ({"action": "drop"}, "leave out b"),
        ({"who": ""}, "who is empty"),
        ({"who": "a\nb"}, "control character"),
        ({"when": "yesterday"}, "time in UTC"),
        ({"when": "2026-02-30T12:00:00Z"}, "time in UTC"),
        ({"when": "2026-02-03T12:00:00+02:00"}, "time in UTC"),
        ({"note": "x" * 2001}, "2,001 characters"),
        ({"fingerprint": "x y"}, "fingerprint"),
    ],
)
def test_wrong_fields_are_refused(fields, message):
    right = {"action": "same", "a": "1", "b": "2", "who": "ann", "when": WHEN}
    with pytest.raises(ParameterError, match=message):
        Decision(**{**right, **fields})


def test_the_latest_decision_of_a_person_holds():
    decisions = Decisions.of(
        [
            decide("same", "1", "2", when="2026-03-01T12:00:01Z"),
            decide("different", "2", "1", when="2026-03-01T12:00:00.5Z"),
            decide("keep", "3"),
            decide("drop", "3"),
            decide("same", "4", "5"),
            decide("unsure", "5", "4", when="2026-03-02T12:00:00Z"),
        ]
    )
    assert [one.action for one in decisions.in_force] == ["same", "drop"]
    assert decisions.names == {"1", "2", "3"}
    decisions.check("x")


def test_contradictions_are_listed():
    assert reasons(decide("keep", "1"), decide("drop", "1", who="bob")) == ["two people disagree"]
    assert reasons(decide("same", "1", "2"), decide("different", "2", "1", who="bob")) == [
        "two people disagree"
    ]
    assert reasons(decide("keep", "1"), decide("prefer", "1", who="bob")) == []
    assert reasons(decide("same", "1", "2"), decide("unsure", "2", "1", who="bob")) == []
    both = [decide("same", "1", "2"), decide("same", "2", "3")]
    assert reasons(*both, decide("keep", "1"), decide("prefer", "3")) == [
        "the same, and both are to stay"
    ]
    assert reasons(*both, decide("keep", "1"), decide("drop", "3")) == []
    assert reasons(*both, decide("different", "3", "1", who="bob")) == ["the same and different"]
    with pytest.raises(UsageError, match=r"file: .*1 = 2 \(ann, .*2 = 3 .*3 ≠ 1 \(bob"):
        Decisions.of([*both, decide("different", "3", "1", who="bob")]).check("file")


def test_contradictions_are_those_of_the_closure():
    """Random decisions contradict one another exactly where all that is implied does."""
    for seed in range(200):
        chance = random.Random(seed)
        names = [str(number) for number in range(7)]
        pairs = chance.sample(list(combinations(names, 2)), 6)
        decisions = [decide(chance.choice(["same", "different"]), *pair) for pair in pairs]
        same = {(a, a) for a in names}
        same |= {pair for d in decisions if d.action == "same" for pair in [(d.a, d.b), (d.b, d.a)]}
        for middle in names:
            same |= {(a, b) for a in names for b in names if {(a, middle), (middle, b)} <= same}
        wrong = [d for d in decisions if d.action == "different" and (d.a, d.b) in same]
        found = list(Decisions.of(decisions).contradictions())
        assert sorted(map(str, (one.decisions[-1] for one in found))) == sorted(map(str, wrong))
        for one in found:  # the path leads from the one document to the other
            assert all(step.action == "same" for step in one.decisions[:-1])
            ends = [name for step in one.decisions for name in step.subject]
            assert all(ends.count(name) == 2 for name in ends)


def test_messages_are_bounded():
    many = [decide("keep", f"{n}" * 50) for n in range(1000)]
    many += [decide("drop", f"{n}" * 50, who="bob") for n in range(1000)]
    with pytest.raises(UsageError) as caught:
        Decisions.of(many).check("file")
    assert len(str(caught.value)) < 6000 and "and more" in str(caught.value)


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_files_give_back_what_was_written(tmp_path: Path, suffix):
    written = Decisions.of(
        [
            decide("same", "a.txt:0", "b\n\t\x00.txt:0", note="ünd\nso 🎉", fingerprint="00ff"),
            decide("drop", "x" * 4096, note="\x00" * 2000),
            *(decide("unsure", f"{n}", "x", who="bob") for n in range(40_000)),
        ]
    )
    path = tmp_path / f"decisions.{suffix}"
    write_decisions(path, written)
    assert read_decisions(path) == written
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    write_decisions(path, [])
    assert len(read_decisions(path)) == 0


RIGHT = json.dumps({"action": "same", "a": "1", "b": "2", "who": "ann", "when": WHEN})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nonsense", "line 3: not a line of JSON"),
        ("[1]", "line 3: not a JSON object"),
        ("[" * 100_000, "line 3: not a line of JSON"),
        (b"\xff\xfe", "line 3: not a line of JSON"),
        (RIGHT.replace("who", "whom"), "line 3: field 'whom' is not known"),
        (RIGHT.replace('"b"', '"a"'), "line 3: a field is there twice"),
        (RIGHT.replace('"ann"', "null"), "line 3: who is missing"),
        (RIGHT.replace('"1"', "1"), "line 3: a must be a text, not int"),
        (RIGHT.replace("same", "sane"), "line 3: action 'sane'"),
        (RIGHT[:-1] + ', "note": "' + "x" * 5_000_000 + '"}', "line 3: longer than any decision"),
        (RIGHT[:-1] + ', "note": "' + "x" * 5_000 + '"}', "line 3: note has 5,000 characters"),
    ],
)
def test_wrong_lines_are_refused_with_their_number(tmp_path: Path, line, message):
    path = tmp_path / "decisions.jsonl"
    line = line if isinstance(line, bytes) else line.encode()
    path.write_bytes(b"\xef\xbb\xbf" + RIGHT.encode() + b"\r\n\r\n" + line + b"\n")
    with pytest.raises(NeardupError, match=message) as caught:
        read_decisions(path)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"action": ["same"], "a": ["1"], "who": ["ann"]}, "column 'when' is missing"),
        ({"action": ["keep"], "a": [1], "who": ["ann"], "when": [WHEN]}, "column 'a' is no text"),
        (
            {"action": ["keep"], "a": ["1"], "who": ["ann"], "when": [WHEN], "x": ["1"]},
            "column 'x' is not known",
        ),
        (
            {"action": ["keep"] * 2, "a": ["1", "\x00" * 5000], "who": ["ann"] * 2}
            | {"when": [WHEN] * 2},
            "row 2: a has 5,000 characters",
        ),
    ],
)
def test_wrong_tables_are_refused(tmp_path: Path, table, message):
    path = tmp_path / "decisions.parquet"
    pq.write_table(pa.table(table), path)
    with pytest.raises(NeardupError, match=message):
        read_decisions(path)


def test_a_small_file_of_long_names_is_refused_at_its_first_row(tmp_path: Path):
    """A dictionary has the name once, and rows that all have it would take 20 GB."""
    path, rows = tmp_path / "decisions.parquet", 20_000
    names = pa.DictionaryArray.from_arrays(
        pa.array([0] * rows, pa.int32()), pa.array(["x" * 10**6])
    )
    columns = {"action": ["keep"] * rows, "a": names, "who": ["ann"] * rows, "when": [WHEN] * rows}
    pq.write_table(pa.table(columns), path, store_schema=False, dictionary_pagesize_limit=1 << 22)
    assert path.stat().st_size < 100_000
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))"
    script = f"{limit}; import sys; from neardup.formats.decisions import read_decisions as read"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}; read(sys.argv[1])", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "row 1: a has 1,000,000 characters" in done.stderr


def test_signs_that_command_a_terminal_are_not_in_messages():
    said = str(decide("same", "a\x9b2J", "b\u202e", who="ann\u009b\u202e"))
    assert said.isprintable()


def test_broken_and_foreign_files_are_refused(tmp_path: Path):
    path = tmp_path / "decisions.parquet"
    newer = DECISIONS.with_metadata({"neardup.decisions": "2"})
    pq.write_table(newer.empty_table(), path)
    with pytest.raises(NeardupError, match=r"version '2'.*update neardup"):
        read_decisions(path)
    write_decisions(path, [decide("keep", str(n)) for n in range(1000)])
    whole = path.read_bytes()
    for seed in range(60):
        chance = random.Random(seed)
        cut = bytearray(whole[: chance.randrange(len(whole))] if seed % 2 else whole)
        for _ in range(3):
            if cut:
                cut[chance.randrange(len(cut))] = chance.randrange(256)
        path.write_bytes(cut)
        try:
            read_decisions(path)
        except NeardupError as error:
            assert path.name in str(error)
    for name, error in {"x.csv": "named .parquet or .jsonl", "x.jsonl": "no such file"}.items():
        with pytest.raises(NeardupError, match=error):
            read_decisions(tmp_path / name)
    with pytest.raises(UsageError, match="named"):
        write_decisions(tmp_path / "x.csv", [])
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(NeardupError, match="can't be read"):
        read_decisions(tmp_path / "folder.jsonl")


def test_fingerprint_covers_the_inputs_and_what_names_their_documents():
    def record(*sizes: int, **parameters: object) -> dict[str, object]:
        inputs = [{"file": str(n), "size": n, "xxh3_128": "00"} for n in sizes]
        given = {"id": None, "text": "text", "merge_rows": None, "threshold": 0.8}
        return {"inputs": inputs, "parameters": given | parameters}

    one = fingerprint_run(record(1, 2))
    assert (
        one
        == fingerprint_run(record(2, 1, threshold=0.5))
        == fingerprint_run(record(1, 2, id="id"))
    )
    others = [
        record(1),
        record(1, 2, id="n"),
        record(1, 2, text="t"),
        record(1, 2, merge_rows="id"),
    ]
    assert len({one, *map(fingerprint_run, others)}) == 5
    assert fingerprint_run(record()) is None
