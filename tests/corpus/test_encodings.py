"""Other encodings than UTF-8: named or recognised, read as UTF-8, written again as they were."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.corpus.documents import Columns, make_strings
from neardup.corpus.encodings import check_encoding, decode_document, from_utf8, to_utf8
from neardup.corpus.inputs import find_inputs
from neardup.corpus.rows import Edit
from neardup.errors import InputError, ParameterError, UsageError

Read = Callable[..., Any]
Rewrite = Callable[..., Path]
TEXTS = ["héllo", 'Grüße, "you"\nthere', "naïve"]
JAPANESE = [
    "日本語のテキスト",
    "二番目",
    "ソ表示ポ",
]  # the last has 0x5C as a second byte in Shift JIS
LINES = "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in TEXTS)
ARRAY = json.dumps([{"text": text} for text in TEXTS], ensure_ascii=False, indent=2)
TABLE = io.StringIO()
csv.writer(TABLE).writerows([["text", "n"], *([text, n] for n, text in enumerate(TEXTS))])
FILES = {"a.jsonl": LINES, "a.json": ARRAY, "a.csv": TABLE.getvalue()}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "cp1252", "cp037", "utf-7"])
def test_records_are_decoded(tmp_path: Path, read: Read, name: str, encoding: str) -> None:
    (tmp_path / name).write_bytes(FILES[name].encode(encoding))
    for size in (1, 7, 1 << 20):
        found = read(tmp_path / name, size=size, encoding=encoding)
        assert (found.texts, found.rejected) == (TEXTS, {})
    packed = tmp_path / f"{name}.bz2"
    packed.write_bytes(bz2.compress(FILES[name].encode(encoding)))
    assert read(packed, encoding=encoding).texts == TEXTS


def test_second_bytes_that_look_like_ascii_are_none(tmp_path: Path, read: Read) -> None:
    rows = [{"text": text} for text in JAPANESE]
    for encoding in ("shift_jis", "cp932", "big5hkscs", "gb18030", "iso2022_jp", "euc_jp"):
        content = json.dumps(rows, ensure_ascii=False).encode(encoding, "ignore")
        (tmp_path / "a.json").write_bytes(content)
        found = read(tmp_path / "a.json", size=3, encoding=encoding)
        assert found.texts == json.loads(content.decode(encoding)) or found.texts == [
            row["text"] for row in json.loads(content.decode(encoding))
        ]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32-le", "cp1252"])
def test_kept_rows_are_written_in_the_encoding_of_the_file(
    tmp_path: Path, rewrite: Rewrite, name: str, encoding: str
) -> None:
    content = FILES[name].encode(encoding)
    (tmp_path / name).write_bytes(content)
    same = rewrite(tmp_path / name, [True] * 3, tmp_path / "out", encoding=encoding)
    assert same.read_bytes() == content
    kept = rewrite(tmp_path / name, [False, True, True], tmp_path / "out", encoding=encoding)
    assert kept.read_bytes()[:2] == content[:2] or encoding != "utf-16"  # the byte order mark
    text = kept.read_bytes().decode(encoding)
    assert not text.startswith("\ufeff")
    assert "héllo" not in text and "naïve" in text
    if name == "a.json":
        assert json.loads(text) == [{"text": text} for text in TEXTS[1:]]


@pytest.mark.parametrize("mark", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-8"])
@pytest.mark.parametrize("name", [*FILES, "a.txt"])
def test_auto_goes_by_the_byte_order_mark(tmp_path: Path, read: Read, name: str, mark: str) -> None:
    (tmp_path / name).write_bytes(f"\ufeff{FILES.get(name, 'héllo')}".encode(mark))
    found = read(tmp_path / name, encoding="auto")
    assert found.texts == (TEXTS if name in FILES else ["héllo"])
    (tmp_path / name).write_bytes(FILES.get(name, "héllo").encode())
    assert read(tmp_path / name, encoding="auto").texts == found.texts


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("name", FILES)
def test_a_file_in_utf16_is_refused_with_the_option_that_reads_it(
    tmp_path: Path, read: Read, name: str, encoding: str
) -> None:
    cure = rf"{name}.*: {encoding.upper()}, not UTF-8: read it with --encoding {encoding}"
    (tmp_path / name).write_bytes(FILES[name].encode(encoding))
    with pytest.raises(InputError, match=cure):
        read(tmp_path / name)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(FILES[name].encode(encoding)))
    with pytest.raises(InputError, match=cure):
        read(tmp_path / f"{name}.gz")


def test_a_text_in_utf16_is_rejected_with_the_option_that_reads_it(
    tmp_path: Path, read: Read
) -> None:
    (tmp_path / "a.txt").write_bytes("text".encode("utf-16"))
    found = read(tmp_path / "a.txt")
    assert found.rejected == {0: "UTF-16, not UTF-8: read it with --encoding utf-16"}
    assert read(tmp_path / "a.txt", encoding="utf-16").texts == ["text"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('<html><head><meta charset="shift_jis">{}', None),
        (
            "<!doctype html>\n<META http-equiv=x content='text/html; charset=Shift_JIS'>{}",
            None,
        ),
        ('<?xml version="1.0" encoding="Shift_JIS"?><p>{}', None),
        ('<meta charset="x-sjis">{}', None),
        ('<meta charset="euc-jp">{}', "invalid euc_jp"),  # it lies
        (
            "<meta charset=klingon>{}",
            "declares a charset that is not known: name it with --encoding",
        ),
        ("<p>" + "x" * 1100 + "<meta charset=shift_jis>{}", "invalid UTF-8"),
        ("In HTML, <meta charset=shift_jis> declares it. {}", "invalid UTF-8"),
    ],
)
def test_auto_goes_by_what_a_page_declares(
    tmp_path: Path, read: Read, content: str, reason: str | None
) -> None:
    text = content.format("".join(JAPANESE))
    (tmp_path / "a.html").write_bytes(text.encode("cp932"))
    found = read(tmp_path / "a.html", encoding="auto")
    assert found.texts == [None if reason else text]
    assert found.rejected == ({0: reason} if reason else {})
    assert read(tmp_path / "a.html", encoding="cp932").texts == [text]
    assert read(tmp_path / "a.html").rejected == {0: "invalid UTF-8"}


def test_what_a_page_declares_is_not_the_encoding_of_a_file_of_pages(
    tmp_path: Path, read: Read
) -> None:
    page = "<meta charset=shift_jis>日本"
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": page}, ensure_ascii=False))
    assert read(tmp_path / "a.jsonl", encoding="auto").texts == [page]


def test_bytes_that_the_encoding_does_not_have_reject_their_row_only(
    tmp_path: Path, read: Read, rewrite: Rewrite
) -> None:
    good = '{"text": "日本"}\n'.encode("cp932")
    (tmp_path / "a.jsonl").write_bytes(good + b'{"text": "\x81\xff"}\n' + good + b'{"text": "\x81')
    for size in (1, 1 << 20):
        found = read(tmp_path / "a.jsonl", size=size, encoding="cp932")
        assert found.texts == ["日本", None, "日本", None]
        assert found.rejected == {1: "invalid cp932", 3: "invalid cp932"}
    kept = rewrite(
        tmp_path / "a.jsonl", [True, False, True, False], tmp_path / "out", encoding="cp932"
    )
    assert kept.read_bytes() == good * 2
    (tmp_path / "a.csv").write_bytes(b"text,other\na,\x81\nb,\xfc\xfd\n\x83\x5c,d\n")
    found = read(tmp_path / "a.csv", encoding="cp932")
    assert found.rejected == {0: "invalid cp932", 1: "invalid cp932"}
    assert found.texts[2] == "ソ"


def test_utf16_with_an_odd_byte_rejects_the_last_row(tmp_path: Path, read: Read) -> None:
    content = LINES.encode("utf-16")
    (tmp_path / "a.jsonl").write_bytes(content[:-1])
    found = read(tmp_path / "a.jsonl", encoding="utf-16")
    assert found.texts == [*TEXTS[:2], None]
    assert found.rejected == {2: "invalid utf-16-le"}
    (tmp_path / "b.txt").write_bytes("text".encode("utf-16")[:-1])
    assert read(tmp_path / "b.txt", encoding="utf-16").rejected == {0: "invalid utf-16-le"}


def test_lines_of_text(tmp_path: Path, read: Read, rewrite: Rewrite) -> None:
    content = "日本\r\n\r\n語\n".encode("utf-16")
    (tmp_path / "a.txt").write_bytes(content)
    how = {"format": "lines", "encoding": "utf-16"}
    assert read(tmp_path / "a.txt", size=1, **how).texts == ["日本", "語"]
    kept = rewrite(tmp_path / "a.txt", [False, True], tmp_path / "out", **how)
    assert kept.read_bytes() == "語\n".encode("utf-16")


def test_texts_are_copied_byte_for_byte(tmp_path: Path, rewrite: Rewrite) -> None:
    for encoding in ("utf-16", "cp932", "iso2022_jp"):
        content = "\n".join(JAPANESE).encode(encoding)
        (tmp_path / "a.txt").write_bytes(content)
        kept = rewrite(tmp_path / "a.txt", [True], tmp_path / "out", encoding=encoding)
        assert kept.read_bytes() == content


def test_members_of_archives(tmp_path: Path, read: Read) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("1.html", "<meta charset=shift_jis>日本".encode("cp932"))
        archive.writestr("2.txt", "日本".encode("utf-16"))
        archive.writestr("3.txt", "日本")
        archive.writestr("4.txt", b"\xff\x81")
        archive.writestr("5.txt", b"")
    found = read(tmp_path / "a.zip", encoding="auto")
    assert found.texts == ["<meta charset=shift_jis>日本", "日本", "日本", None, ""]
    assert found.rejected == {3: "invalid UTF-8"}
    strict = read(tmp_path / "a.zip").rejected
    assert strict[1] == "UTF-16, not UTF-8: read it with --encoding utf-16"
    assert list(strict) == [0, 1, 3]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.txt"])
def test_new_texts_are_written_in_the_encoding_of_the_file(
    tmp_path: Path, read: Read, rewrite: Rewrite, name: str
) -> None:
    for encoding in ("utf-16", "cp1252"):
        (tmp_path / name).write_bytes(FILES.get(name, "héllo").encode(encoding))
        rows = 3 if name in FILES else 1
        edit = Edit(
            np.ones(rows, bool),
            Columns(),
            lambda _, texts: make_strings([f"ü {text}" for text in texts.to_pylist()]),
        )
        out = tmp_path / f"out{name}"
        rewrite(tmp_path / name, [True] * rows, out, edit, encoding=encoding)
        assert read(out, encoding=encoding).texts == [f"ü {text}" for text in TEXTS[:rows]]


def test_a_character_that_the_encoding_does_not_have_is_escaped_in_json(
    tmp_path: Path, read: Read, rewrite: Rewrite
) -> None:
    line = '{"text": "é \\u4e2d\\ud83d\\ude00", "b": "\\u4e2d"}\n'
    (tmp_path / "a.jsonl").write_bytes(line.encode("cp1252"))
    edit = Edit(np.ones(1, bool), Columns(), lambda _, texts: texts)
    kept = rewrite(tmp_path / "a.jsonl", [True], tmp_path / "b.jsonl", edit, encoding="cp1252")
    assert kept.read_bytes() == line.encode("cp1252")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("latin-9000", "unknown text encoding 'latin-9000': did you mean"),
        ("utf_61", "did you mean .*utf"),
        ("shift-jsi", "did you mean .*shift_?jis"),
        ("base64", "unknown text encoding"),
        ("rot13", "unknown text encoding"),
        ("idna", "unknown text encoding"),
        ("punycode", "unknown text encoding"),
        ("unicode_escape", "unknown text encoding"),
        ("undefined", "unknown text encoding"),
        ("../../etc/passwd", "unknown text encoding"),
        ("", "unknown text encoding"),
        ("a\0b", "unknown text encoding"),
    ],
)
def test_an_unknown_encoding_is_refused_with_near_names(
    tmp_path: Path, name: str, message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        find_inputs([tmp_path], encoding=name)


def test_utf8_by_any_name_is_the_default() -> None:
    assert {check_encoding(name) for name in ("UTF8", "utf_8", "U8", "utf-8-sig")} == {"utf-8"}


def test_formats_that_state_their_encoding_refuse_another(tmp_path: Path) -> None:
    for name in ("a.parquet", "a.arrow", "a.warc"):
        (tmp_path / name).write_bytes(b"WARC/1.0")
        with pytest.raises(UsageError, match="states the encoding of its texts"):
            find_inputs([tmp_path / name], encoding="cp1252")
        assert find_inputs([tmp_path / name], encoding="auto")[0].encoding == "utf-8"


@given(
    st.binary(max_size=200),
    st.sampled_from(["cp932", "gb18030", "cp1252", "big5hkscs", "euc_kr", "ascii"]),
    st.integers(1, 50),
)
def test_any_bytes_become_utf8_and_bytes_again(data: bytes, encoding: str, size: int) -> None:
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    decoded = b"".join(to_utf8(pieces, encoding))
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        with pytest.raises(UnicodeDecodeError):
            decoded.decode()
        assert decode_document(data, encoding) == (None, f"invalid {encoding}")
    else:
        assert decoded.decode() == text
    assert from_utf8(decoded, encoding, is_json=False).decode(encoding, "replace") == data.decode(
        encoding, "replace"
    )


@given(st.binary(max_size=100), st.sampled_from(["utf-16-le", "utf-16-be", "utf-32-le"]))
def test_any_code_units_become_utf8_and_bytes_again(data: bytes, encoding: str) -> None:
    data = data[: len(data) // 4 * 4]
    assert from_utf8(b"".join(to_utf8([data], encoding)), encoding, is_json=False) == data
