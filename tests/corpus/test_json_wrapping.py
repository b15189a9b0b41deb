"""Records in a list inside of an object, `{"data": [...]}`, are read and written by --records."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from itertools import compress, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import neardup, neardup_piped

from neardup.corpus import json_records, json_wrapping
from neardup.corpus.documents import Columns, make_strings
from neardup.corpus.inputs import find_inputs
from neardup.corpus.rows import Edit
from neardup.errors import InputError, UsageError

Read = Callable[..., Any]
Rewrite = Callable[..., Path]
RECORDS = [{"id": n, "text": f'text "{n}" ]}}, "data": [', "data": [{"x": 1}]} for n in range(4)]
FILES: dict[str, tuple[str, Any]] = {
    "alone": ("data", {"data": RECORDS}),
    "between others": ("data", {"count": 4, "links": ["data"], "data": RECORDS, "next": None}),
    "after lists of the same name": (
        "data",
        {"a": {"data": [1]}, "b": [{"data": []}], "data": RECORDS},
    ),
    "inside of another": ("answer.items", {"answer": {"n": 4, "items": RECORDS}, "ok": True}),
    "a name with a dot": ("answer.items", {"answer.items": RECORDS}),
    "a name with escapes": ('da"ta\u00e9', {'da"ta\u00e9': RECORDS}),
}


def write(folder: Path, content: str | bytes, name: str = "a.json") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("indent", [None, 2])
def test_records_are_read_from_the_named_list(
    tmp_path: Path, read: Read, kind: str, indent: int | None
) -> None:
    name, value = FILES[kind]
    content = json.dumps(value, indent=indent)
    path = write(tmp_path, content)
    for size in (1, 7, 1 << 20):
        found = read(path, size=size, records=name)
        assert found.texts == [record["text"] for record in RECORDS]
        assert (found.ids, found.rejected) == (list("0123"), {})
    marked = write(tmp_path, "\ufeff" + content + "\n\n", "marked.json")
    assert read(marked, records=name).ids == list("0123")
    assert read(write(tmp_path, gzip.compress(content.encode()), "a.json.gz"), records=name).ids
    wide = write(tmp_path, content.encode("utf-16"), "wide.json")
    assert read(wide, records=name, encoding="utf-16").ids == list("0123")


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("block", [1, 10, 1 << 20])
def test_kept_records_stay_in_their_object(
    tmp_path: Path, rewrite: Rewrite, kind: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_records, "_BLOCK", block)
    name, value = FILES[kind]
    content = json.dumps(value, indent=2)
    path, out = write(tmp_path, content), tmp_path / "kept.json"
    for keep in product([True, False], repeat=4):
        kept = rewrite(path, list(keep), out, records=name).read_text()
        assert json.dumps(json.loads(kept)) == json.dumps(value).replace(
            json.dumps(RECORDS), json.dumps(list(compress(RECORDS, keep)))
        )
    assert rewrite(path, [True] * 4, out, records=name).read_text() == content


def test_cut_texts_are_written_into_the_list(tmp_path: Path, rewrite: Rewrite) -> None:
    path = write(tmp_path, json.dumps({"count": 4, "data": RECORDS}))
    edit = Edit(np.array([False, True, False, False]), Columns(), lambda *_: make_strings(["cut"]))
    kept = rewrite(path, [False, True, True, True], tmp_path / "out.json", edit, records="data")
    value = json.loads(kept.read_text())
    assert value == {"count": 4, "data": [{**RECORDS[1], "text": "cut"}, *RECORDS[2:]]}


BROKEN = {
    '{"data": [{"text": "a"}': "ends inside the array",
    '{"data": [{"text": "a': "ends inside a record",
    '{"data": [{"text": "a"}]': "truncated or broken JSON around the list 'data'",
    '{"data": [{"text": "a"}], "next"': "truncated or broken JSON around",
    '{"data": [{"text": "a"}]]}': "truncated or broken JSON around",
    '{"data": [{"text": "a"}]} {"data": [{"text": "b"}]}': "truncated or broken JSON around",
    '{"data": [{"text": "a"} {"text": "b"}]}': "a comma is missing",
    '{"data": [{"text": "a"}], "data": [{"text": "b"}]}': "two lists 'data'",
    '{"data": [{"text": "a"}], "data": 5}': "two lists 'data'",
    '{"dat': "truncated or broken JSON around",
    '{"count": 1, "rows": [{"text": "a"}]}': "no list 'data'.*name one that it has .'rows'.",
    '{"data": {"data": [{"text": "a"}]}}': "no list 'data'.*it has .'data.data'.",
    '{"data": {"text": "a"}}': "no list 'data' .--records.: leave it out",
    f'{{"x": {"[" * 10_000}': "truncated or broken JSON around",
}


@pytest.mark.parametrize("content", BROKEN, ids=lambda content: content[:40])
def test_broken_files_are_errors_that_name_the_file_and_lose_nothing(
    tmp_path: Path, read: Read, content: str
) -> None:
    path = write(tmp_path, content)
    for size in (3, 1 << 20):
        with pytest.raises(InputError, match=rf"a\.json: .*{BROKEN[content]}"):
            read(path, size=size, records="data")


def test_an_empty_list_is_no_documents(tmp_path: Path, read: Read) -> None:
    assert read(write(tmp_path, '{"data": [ ], "n": 0}'), records="data").texts == []


def test_what_is_around_the_list_is_bounded(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_wrapping, "MOST_AROUND", 1_000)
    long = "x" * 2_000
    for value, where in (
        ({"long": long, "data": RECORDS}, "before"),
        ({"data": RECORDS, "long": long}, "after"),
    ):
        with pytest.raises(InputError, match=f"MiB {where} the list 'data'"):
            read(write(tmp_path, json.dumps(value)), size=100, records="data")


def test_records_of_other_formats_and_no_name_are_refused(tmp_path: Path) -> None:
    table = write(tmp_path, "id,text\n1,a\n", "a.csv")
    with pytest.raises(UsageError, match=r"names the list inside .*a\.csv is csv: leave it out"):
        find_inputs([table], records="data")
    with pytest.raises(UsageError, match="text: leave it out"):
        find_inputs([write(tmp_path, "{}", "a")], format="text", records="data")
    with pytest.raises(UsageError, match="names no field"):
        find_inputs([write(tmp_path, "{}")], records="")


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("a.jsonl", '{"text": "a"}\n{"text": "b"}\n', "JSON lines"),
        ("a.json", '{"text": "a"}\n{"text": "b"}\n', "JSON lines"),
        ("a.json", '[{"data": [{"text": "a"}]}]', "a list of records"),
    ],
)
def test_who_names_a_list_where_records_are_in_none_is_told_to_leave_it_out(
    tmp_path: Path, name: str, content: str, what: str
) -> None:
    with pytest.raises(UsageError, match=f"{name}: {what}.*: leave out --records"):
        find_inputs([write(tmp_path, content, name)], records="data")


def test_a_list_that_does_not_exist_is_a_mistake_on_the_command_line(tmp_path: Path) -> None:
    page = write(tmp_path, json.dumps({"n": 1, "answer": {"items": RECORDS}}), "page.json")
    wrong = neardup("dedup", page, "-o", tmp_path / "out", "--records", "nope", "-q")
    assert wrong.code == 2 and "name one that it has ('answer.items')" in wrong.err
    right = neardup("dedup", page, "-o", tmp_path / "out", "--records", "answer.items", "-q")
    assert right.code == 0


def test_one_output_file_has_the_records_on_lines_and_nothing_else(tmp_path: Path) -> None:
    """The object around the list became spaces, without a newline at the end."""
    rows = [{"id": n, "text": f"a page of {word} words"} for n, word in enumerate("abcd")]
    for name, part in (("1.json", rows[:2]), ("2.json", rows[2:])):
        write(tmp_path, json.dumps({"total": 4, "data": part, "next": None}, indent=2), name)
    both, out = (tmp_path / "1.json", tmp_path / "2.json"), tmp_path / "kept.jsonl"
    assert neardup("dedup", *both, "-o", out, "--records", "data", "-q").code == 0
    lines = out.read_text().split("\n")
    assert [json.loads(line) for line in lines[:-1]] == rows and lines[-1] == ""
    assert all(line == line.strip() for line in lines)
    array = tmp_path / "kept.json"
    assert neardup("dedup", *both, "-o", array, "--records", "data", "-q").code == 0
    assert json.loads(array.read_text()) == rows


def test_records_of_a_pipe_come_out_as_lines() -> None:
    """An object on several lines was taken for a text, because a pipe has no name."""
    rows = [{"id": n, "text": f"a page of {word} words"} for n, word in enumerate("ab")]
    data = json.dumps({"total": 2, "data": rows}, indent=2).encode()
    code, out, err = neardup_piped(data, "dedup", "-", "--records", "data", "-q")
    assert (code, err) == (0, "")
    assert [json.loads(line) for line in out.split(b"\n")[:-1]] == rows


def test_an_answer_of_an_api_is_deduplicated_as_it_is(tmp_path: Path) -> None:
    """{"data": [...]} had to be taken apart by jq first."""
    rows = [{"id": n, "text": f"a page of some words about {name}"} for n, name in enumerate("xyx")]
    page = write(tmp_path, json.dumps({"total": 3, "data": rows}, indent=2), "page.json")
    refused = neardup("dedup", page, "-o", tmp_path / "out", "-q")
    assert refused.code == 2 and "use --records data" in refused.err
    out = tmp_path / "out"
    assert neardup("dedup", page, "-o", out, "--records", "data", "-q").code == 0
    kept = json.loads((out / "kept" / "page.json").read_text())
    assert kept == {"total": 3, "data": rows[:2]}
    assert "'2' was removed" in neardup("why", out, "2").out
    again = neardup(
        "dedup", page, "-o", tmp_path / "again", "--records", "data", "--against", out, "-q"
    )
    assert again.code == 0
    lines = tmp_path / "kept.jsonl"
    assert neardup("dedup", page, "-o", lines, "--records", "data", "-q").code == 0
    assert [json.loads(line) for line in lines.read_text().splitlines()] == rows[:2]
    bad = write(tmp_path, '{"data": [{"text": "a"}', "bad.json")
    mixed = neardup(
        "dedup", page, bad, "-o", tmp_path / "m", "--records", "data", "--skip-bad-files", "-q"
    )
    assert mixed.code == 0
    (skipped,) = json.loads((tmp_path / "m" / "run.json").read_text())["skipped_files"]
    assert skipped["file"].endswith("bad.json")
