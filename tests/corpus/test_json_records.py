"""JSON files: arrays, pretty-printed and concatenated objects are read as JSON Lines are."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neardup.corpus.documents import Columns
from neardup.corpus.inputs import find_inputs
from neardup.errors import ColumnError, InputError, UsageError

Read = Callable[..., Any]
RECORDS = [{"id": n, "text": f'a "{n}" \\ ,]}}[\n'} for n in range(5)]
FILES = {
    "array": json.dumps(RECORDS),
    "pretty array": json.dumps(RECORDS, indent=2),
    "array of lines": "[" + ",\n".join(map(json.dumps, RECORDS)) + "]\n",
    "pretty objects": "\n".join(json.dumps(record, indent="\t") for record in RECORDS),
    "adjacent objects": "".join(map(json.dumps, RECORDS)),
    "objects on a line": " ".join(map(json.dumps, RECORDS)),
    "carriage returns": json.dumps(RECORDS, indent=1).replace("\n", "\r\n"),
    "blank before and after": f"\n \t{json.dumps(RECORDS)}\n\n",
}


def write(folder: Path, content: str | bytes, name: str = "a.json") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_records_are_read_however_they_are_laid_out(
    tmp_path: Path, read: Read, kind: str, mark: str
) -> None:
    path = write(tmp_path, mark + FILES[kind])
    assert find_inputs([path])[0].format == "json"
    for size in (1, 7, 100, 1 << 20):
        found = read(path, size=size)
        assert found.texts == [record["text"] for record in RECORDS]
        assert (found.ids, found.rejected) == (list("01234"), {})
    path.rename(tmp_path / "a.jsonl")  # a wrong name
    assert read(tmp_path / "a.jsonl", format="json").ids == list("01234")
    packed = write(tmp_path, gzip.compress((mark + FILES[kind]).encode()), "a.json.gz")
    assert read(packed).ids == list("01234")


def test_json_lines_named_json_are_read_as_before(tmp_path: Path, read: Read) -> None:
    for content in (
        '{"text": "a"}\n',
        '{"text": "a"}\n{"text": "b"}',
        '\n\n{"text": "a"}\r\n\r\nnot JSON\n{"text": "b',
        '{"text": "dama\n{"text": "b"}\n',
        "not JSON\n",
        "",
    ):
        path = write(tmp_path, content)
        assert find_inputs([path])[0].format == "jsonl"
        same = read(write(tmp_path, content, "a.jsonl"))
        assert vars(read(path)) == vars(same)


def test_elements_that_are_no_records_are_rejected_one_by_one(tmp_path: Path, read: Read) -> None:
    content = b'[{"text": "a"}, 1, "x, y", null, [{"text": "b"}], nope, {"text": 7}, {"text" "c"},'
    content += b'{"text": "two\nlines"}, {"text": "\xff"}, {"text": [}], {"body": "d"}]'
    for size in (1, 1 << 20):
        found = read(write(tmp_path, content), size=size)
        assert found.texts == ["a"] + [None] * 11
        assert list(found.rejected.values()) == [
            *["JSON, but not an object"] * 4,
            "not JSON",
            "text is a number, not a string",
            *["not JSON"] * 2,
            "invalid UTF-8",
            "not JSON",
            "no field 'text'",
        ]


def test_lines_of_garbage_between_objects_are_rejected(tmp_path: Path, read: Read) -> None:
    content = '{\n"text": "a"\n}\n-- garbage { " --\n{\n"text": "b"}\n}\n7\n"x"'
    found = read(write(tmp_path, content))
    assert found.texts == ["a", None, "b", None, None, None]
    assert list(found.rejected) == [1, 3, 4, 5]


@pytest.mark.parametrize("content", ["[]", " [ ] \n", "[\n]", "\ufeff[]"])
def test_an_empty_array_has_no_documents(tmp_path: Path, read: Read, content: str) -> None:
    assert read(write(tmp_path, content)).texts == []


@pytest.mark.parametrize("kind", ["array", "pretty array", "blank before and after"])
def test_an_array_truncated_at_any_byte_is_an_error(tmp_path: Path, read: Read, kind: str) -> None:
    content = FILES[kind].rstrip()
    for cut in range(content.index("[") + 1, len(content)):
        path = write(tmp_path, content[:cut])
        with pytest.raises(InputError, match=r"a\.json: truncated JSON .*--skip-bad-files"):
            read(path, format="json")
        if cut > 12:
            assert find_inputs([path])[0].format == "json"


def test_objects_truncated_inside_one_are_an_error(tmp_path: Path, read: Read) -> None:
    content = FILES["pretty objects"]
    for cut in range(2, len(content)):
        path = write(tmp_path, content[:cut])
        if content[: cut + 1].endswith("}\n"):
            assert read(path, format="json").rejected == {}
        elif content[cut - 1 : cut + 1] != "\n{":
            with pytest.raises(InputError, match="truncated JSON"):
                read(path, format="json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"text": "a"}] [{"text": "b"}]', "after 16 bytes .data after the end of the array"),
        ('[{"text": "a"}]]', "data after the end"),
        ('[{"text": "a"}}]', "a bracket too many"),
        ('[{"text": "a"} {"text": "b"}]', "comma is missing"),
        ('[{"text": "a"},, {"text": "b"}]', "comma without a record"),
        ('[{"text": "a"},]', "comma without a record"),
        ('{"text": "a"},\n{"text": "b"}', "outside an array"),
    ],
)
def test_what_is_not_json_between_records_is_an_error(
    tmp_path: Path, read: Read, content: str, message: str
) -> None:
    with pytest.raises(InputError, match=rf"a\.json: not JSON .*{message}"):
        read(write(tmp_path, content), format="json")


def test_an_element_nested_too_deeply_is_rejected(tmp_path: Path, read: Read) -> None:
    deep = "[" * 200_000 + "]" * 200_000
    found = read(write(tmp_path, f'[{{"text": "a"}}, {deep}, {{"text": "b"}}]'))
    assert (found.texts, found.rejected) == (["a", None, "b"], {1: "JSON nested too deeply"})


def test_a_record_beyond_the_limit_is_rejected(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("documents", "streams", "jsonl", "json_records"):
        monkeypatch.setattr(f"neardup.corpus.{module}.LONGEST", 1000)
    records = [{"text": "a"}, {"text": "long " * 2000}, {"text": "b"}]
    path = write(tmp_path, json.dumps(records, indent=2))
    for size in (64, 1 << 20):
        found = read(path, size=size)
        assert (found.texts, found.rejected) == (["a", None, "b"], {1: "longer than 1 GiB"})


def test_a_missing_column_is_named(tmp_path: Path, read: Read) -> None:
    path = write(tmp_path, json.dumps([{"body": "a", "url": 1}], indent=2))
    with pytest.raises(ColumnError, match=r"'text'.*body, url.*--text"):
        read(path)
    assert read(path, Columns(text="body", id="url")).ids == ["1"]


@pytest.mark.parametrize("indent", [None, 2])
def test_records_inside_of_an_object_are_an_error_that_names_their_list(
    tmp_path: Path, read: Read, indent: int | None
) -> None:
    path = write(tmp_path, json.dumps({"count": 5, "data": RECORDS}, indent=indent))
    with pytest.raises(
        UsageError, match=r"a\.json: one object, whose list 'data' .*--records data"
    ):
        read(path)
    assert read(write(tmp_path, '{"text": "a", "data": [{"text": "b"}]}')).texts == ["a"]


json_values = st.recursive(
    st.one_of(st.none(), st.integers(0, 9), st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), json_values), max_size=6),
    st.sampled_from([None, 0, 3]),
    st.integers(1, 100),
)
def test_an_array_is_read_as_the_lines_of_its_elements(
    tmp_path: Path, read: Read, records: list[dict[str, Any]], indent: int | None, size: int
) -> None:
    records = [{"text": "t", **record} for record in records]
    array = write(tmp_path, json.dumps(records, indent=indent))
    lines = write(tmp_path, "\n".join(map(json.dumps, records)), "a.jsonl")
    columns = Columns(id="a") if any("a" in record for record in records[:1]) else Columns()
    found, expected = read(array, columns, size, format="json"), read(lines, columns)
    assert (found.texts, found.ids, found.rejected) == (
        expected.texts,
        expected.ids,
        expected.rejected,
    )
