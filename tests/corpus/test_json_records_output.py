"""Kept records of JSON files: valid JSON of the same layout, each record byte for byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import compress, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neardup.corpus import json_records
from neardup.corpus.documents import Columns, make_strings
from neardup.corpus.rows import Edit

Read = Callable[..., Any]
Rewrite = Callable[..., Path]
RECORDS = [{"id": n, "text": f"text {n}, ]", "more": {"a": [1, {}]}} for n in range(4)]


def rows_of(text: str) -> list[dict[str, Any]]:
    """The values of a sequence of JSON."""
    values, decoder, at = [], json.JSONDecoder(), 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        value, at = decoder.raw_decode(text, at)
        values.append(value)
    return values


@pytest.mark.parametrize("block", [1, 10, 1 << 20])
@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_stays_an_array(
    tmp_path: Path, rewrite: Rewrite, indent: int | None, block: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(json_records, "_BLOCK", block)
    path, out = tmp_path / "a.json", tmp_path / "kept.json"
    content = json.dumps(RECORDS, indent=indent) + "\n"
    path.write_text(content)
    for keep in product([True, False], repeat=4):
        kept = rewrite(path, list(keep), out).read_text()
        assert json.loads(kept) == list(compress(RECORDS, keep))
        assert kept.startswith("[") and kept.endswith("]\n")
        for record in compress(RECORDS, keep):
            text = json.dumps(record, indent=indent)
            assert (text if indent is None else text.replace("\n", "\n  ")) in kept
    assert rewrite(path, [True] * 4, out).read_text() == content
    assert rewrite(path, [False] * 4, out).read_text() == "[]\n"
    pretty = rewrite(path, [False, True, True, False], out).read_text()
    assert pretty == json.dumps(RECORDS[1:3], indent=indent) + "\n" or indent is None


@pytest.mark.parametrize("content", ["[]", "\ufeff[ \n ]\n"])
def test_an_empty_array_stays_one(tmp_path: Path, rewrite: Rewrite, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    kept = rewrite(tmp_path / "a.json", [], tmp_path / "kept.json").read_text()
    assert kept.replace(" \n ", "") == content.replace(" \n ", "")


@pytest.mark.parametrize("between", ["", " ", "\n", "\r\n\r\n"])
@pytest.mark.parametrize("indent", [None, 1])
def test_objects_stay_objects(
    tmp_path: Path, rewrite: Rewrite, between: str, indent: int | None
) -> None:
    path, out = tmp_path / "a.json", tmp_path / "kept.json"
    content = between.join(json.dumps(record, indent=indent) for record in RECORDS)
    path.write_bytes(content.encode())
    for keep in product([True, False], repeat=4):
        kept = rewrite(path, list(keep), out, format="json").read_bytes().decode()
        assert rows_of(kept) == list(compress(RECORDS, keep))
        assert all(json.dumps(one, indent=indent) in kept for one in compress(RECORDS, keep))
    if between == "\n":
        assert rewrite(path, [True] * 4, out, format="json").read_text() == content


@pytest.mark.parametrize("layout", ["array", "objects"])
@pytest.mark.parametrize("block", [1, 1 << 20])
def test_new_texts_are_put_into_kept_records(
    tmp_path: Path, rewrite: Rewrite, layout: str, block: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(json_records, "_BLOCK", block)
    path, out = tmp_path / "a.json", tmp_path / "kept.json"
    if layout == "array":
        path.write_text(json.dumps(RECORDS, indent=2))
    else:
        path.write_text("".join(json.dumps(record, indent=2) for record in RECORDS))

    def rewrite_texts(rows: Any, texts: Any) -> Any:
        pairs = zip(rows.tolist(), texts.to_pylist(), strict=True)
        return make_strings([f"{text} new {row}\n" for row, text in pairs])

    edit = Edit(np.array([True, True, False, True]), Columns(), rewrite_texts)
    kept = rewrite(path, [True, False, True, True], out, edit, format="json").read_text()
    expected = [
        RECORDS[0] | {"text": "text 0, ] new 0\n"},
        RECORDS[2],
        RECORDS[3] | {"text": "text 3, ] new 3\n"},
    ]
    assert (json.loads(kept) if layout == "array" else rows_of(kept)) == expected
