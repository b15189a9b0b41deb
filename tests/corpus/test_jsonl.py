"""JSONL in: every line is a document, or is rejected with a reason."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from neardup.corpus import documents
from neardup.corpus.documents import Columns, concat_keep
from neardup.errors import ColumnError, ParameterError

GOOD = b'{"text": "good"}'
Read = Callable[..., Any]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"hello", "not JSON"),
        (b'{"text": "a"} {"text": "b"}', "not JSON"),
        (b'{"text": "a', "not JSON"),
        (b'{"text": "\x00"}', "not JSON"),
        (b'{"text": "a", "score": NaN}', "not JSON: it has no NaN"),
        (b"[" * 100_000, "JSON nested too deeply"),
        (b"[1, 2]", "JSON, but not an object"),
        (b"null", "JSON, but not an object"),
        (b'{"text": null}', "text is null"),
        (b'{"text": 7}', "text is a number, not a string"),
        (b'{"text": 7.5}', "text is a number, not a string"),
        (b'{"text": true}', "text is a boolean, not a string"),
        (b'{"text": ["a"]}', "text is a list, not a string"),
        (b'{"text": {"a": 1}}', "text is an object, not a string"),
        (b'{"body": "a"}', "no field 'text'"),
        (b'{"text": "\xff"}', "invalid UTF-8"),
        (b'{"text": "\xed\xa0\x80"}', "invalid UTF-8"),
        (b'{"text": "a \\ud83d b"}', "a lone surrogate escape"),
    ],
)
def test_only_the_invalid_line_is_rejected(
    tmp_path: Path, read: Read, line: bytes, reason: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join([GOOD, line, GOOD]))
    found = read(path)
    assert found.texts == ["good", None, "good"]
    assert found.rejected == {1: reason}


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"text": ""}', ""),
        (b'{"text": "a\\u0000b"}', "a\0b"),
        (b'  {"text": "padded"}\t\r', "padded"),
        (b'{"text": "x", "text": "y"}', "y"),
        (b'{"text": "\\ud83d\\ude00"}', "\U0001f600"),
        (b'{"text": "ok", "other": "\\ud83d"}', "ok"),
        (b'{"text": "ok", "other": 1e999}', "ok"),
    ],
)
def test_unusual_valid_line_is_a_document(
    tmp_path: Path, read: Read, line: bytes, text: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(line)
    found = read(path)
    assert (found.texts, found.rejected) == ([text], {})


@pytest.mark.parametrize(
    "content", [b"", b"\n", b" \n\t\r\n\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"]
)
def test_file_without_lines_has_no_documents(tmp_path: Path, read: Read, content: bytes) -> None:
    (tmp_path / "a.jsonl").write_bytes(content)
    assert read(tmp_path / "a.jsonl").texts == []


def test_blank_lines_get_no_row_and_bom_is_tolerated(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"text": "a"}\r\n\r\n  \n{"text": "b"}\n\n{"text": "c"}')
    for size in (1, 5, 1000):
        assert read(path, size=size).texts == ["a", "b", "c"]


def test_ids(tmp_path: Path, read: Read) -> None:
    big = 123456789012345678901234567890
    values = ["s", 7, None, True, 1.50, big, [1], {"$oid": "x"}, 2**63]
    path = tmp_path / "a.jsonl"
    lines = [json.dumps({"text": "t", "id": value}) for value in values] + ['{"text": "t"}']
    path.write_text("\n".join(lines))
    expected = ["s", "7", None, "true", "1.5", str(big), "[1]", '{"$oid":"x"}', str(2**63), None]
    assert read(path).ids == expected


def test_a_rejected_document_keeps_its_id(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": null}\n{"id": 2, "text": "x"}\n')
    assert read(tmp_path / "a.jsonl").ids == ["1", "2"]


def test_missing_column_error_names_the_existing_columns(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"body": "a", "url": 1}\n{"body": "b"}\nno json\n')
    with pytest.raises(ColumnError, match=r"'text'.*body, url.*--text"):
        read(path)
    for option in ("id", "keep", "within"):
        with pytest.raises(ColumnError, match=rf"'nope'.*body, url.*--{option}"):
            read(path, Columns(text="body", **{option: "nope"}))
    assert read(path, Columns(text="body", id="url")).ids == ["1", None, None]


def test_first_chunk_without_records_does_not_check_columns(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.jsonl").write_text("junk\njunk\n")
    assert read(tmp_path / "a.jsonl").rejected == {0: "not JSON", 1: "not JSON"}


def keep_values(tmp_path: Path, read: Read, *values: Any, size: int = 1 << 20) -> pa.Array:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": "t", "q": value}) + "\n" for value in values))
    return read(path, Columns(keep="q"), size).keep


def test_keep_column(tmp_path: Path, read: Read) -> None:
    assert keep_values(tmp_path, read, 1, None, True) == pa.array([1, None, 1])
    assert keep_values(tmp_path, read, 1, 2.5, [3], {}) == pa.array([1, 2.5, None, None])
    assert keep_values(tmp_path, read, 2**63, -1) == pa.array([2.0**63, -1.0])
    strings = keep_values(tmp_path, read, "2024-01-01", None)
    assert strings == pa.array(["2024-01-01", None], pa.large_string())
    assert keep_values(tmp_path, read, None).null_count == 1


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_keep_column_is_promoted_or_refused_whatever_the_chunks(
    tmp_path: Path, read: Read, size: int
) -> None:
    mixed = keep_values(tmp_path, read, None, 1, 2.5, size=size)
    assert mixed == pa.array([None, 1, 2.5])
    with pytest.raises(ParameterError, match=r"keep column contains .* and .*"):
        keep_values(tmp_path, read, 1, "one", size=size)


def test_concat_keep() -> None:
    assert len(concat_keep([])) == 0
    assert concat_keep([pa.nulls(2), pa.array([1])]) == pa.array([None, None, 1])
    assert concat_keep([pa.array([1]), pa.array([0.5])]) == pa.array([1.0, 0.5])
    with pytest.raises(ParameterError, match="int64 and timestamp"):
        concat_keep([pa.array([1]), pa.array([0], pa.timestamp("us"))])


def test_within_column(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "l": "en"}\n{"text": "b"}\n{"text": "c", "l": 3}\n')
    assert read(path, Columns(within="l")).within == ["en", None, "3"]


def test_tokens(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "a.jsonl"
    rows = [[1, 2], [], [1.5], [True], [None], "abc", None, [2**63], [-(2**63)], 5]
    path.write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    found = read(path, Columns(tokens=True))
    good = {0: [1, 2], 1: [], 8: [-(2**63)]}
    assert found.texts == [good.get(row) for row in range(len(rows))]
    assert found.rejected[2] == "a token id is a number"
    assert found.rejected[4] == "a token id is null"
    assert found.rejected[5] == "text is a string, not a list of token ids"
    assert found.rejected[7] == "a token id is beyond 64 bits"


def test_a_line_beyond_the_limit_is_rejected(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("documents", "streams", "jsonl"):
        monkeypatch.setattr(f"neardup.corpus.{module}.LONGEST", 1000)
    assert documents.LONGEST == 1000
    content = GOOD + b"\n" + json.dumps({"text": "x" * 200_000}).encode() + b"\n" + GOOD + b"\n"
    (tmp_path / "a.jsonl").write_bytes(content)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(content))
    for name in ("a.jsonl", "a.jsonl.gz"):
        for size in (1, 50, 300_000):
            found = read(tmp_path / name, size=size)
            assert found.texts == ["good", None, "good"]
            assert found.rejected == {1: "longer than 1 GiB"}


TEXTS = st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=40), max_size=20)
ENDINGS = st.sampled_from(["\n", "\r\n", "\n\n", " \n"])
PRIVATE_FOLDER = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@PRIVATE_FOLDER
@given(texts=TEXTS, size=st.integers(1, 300), ascii=st.booleans(), end=ENDINGS)
def test_texts_do_not_depend_on_the_chunks(
    tmp_path: Path, read: Read, texts: list[str], size: int, ascii: bool, end: str
) -> None:
    lines = [json.dumps({"id": n, "text": t}, ensure_ascii=ascii) for n, t in enumerate(texts)]
    content = end.join(lines).encode()
    (tmp_path / "a.jsonl").write_bytes(content)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(content))
    for name in ("a.jsonl", "a.jsonl.gz"):
        found = read(tmp_path / name, size=size)
        assert found.texts == texts
        assert found.ids == [str(n) for n in range(len(texts))]
        assert not found.rejected


@PRIVATE_FOLDER
@given(content=st.binary(max_size=200), size=st.integers(1, 50))
@example(content=b"{}", size=1)
def test_any_bytes_never_crash(tmp_path: Path, read: Read, content: bytes, size: int) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    rows = [line for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
    try:
        assert len(read(path, size=size).texts) == len(rows)
    except ColumnError:
        assert any(line.lstrip().startswith(b"{") for line in rows), "an object without the column"
