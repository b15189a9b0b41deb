"""Every format comes in, and comes out again as it was but for the rows that go."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.command_line import (
    DOCUMENTS,
    TEXTS,
    WRITERS,
    dedup,
    edited,
    kept_rows,
    neardup,
    read_rows,
    table,
)
from support.command_line import expected as expected_answer


@pytest.mark.parametrize("extension", sorted(WRITERS))
def test_every_format_gives_the_slow_twins_answer_and_keeps_its_rows(
    tmp_path: Path, extension: str
) -> None:
    source = tmp_path / f"documents.{extension}"
    WRITERS[extension](source, DOCUMENTS)
    before = source.read_bytes()
    record = dedup(source, "-o", tmp_path / "out")
    answer = expected_answer(TEXTS)
    removed = [(row, *verdict) for row, verdict in enumerate(answer) if verdict and verdict[1]]
    found = table(tmp_path / "out", "removed")
    assert [(r["row"], r["witness_row"], r["similarity"]) for r in found] == removed
    assert [(r["id"], r["witness"]) for r in found] == [
        (f"doc-{row}", f"doc-{witness}") for row, witness, _ in removed
    ]
    assert {r["file"] for r in found} == {r["witness_file"] for r in found} == {str(source)}
    (rejected,) = table(tmp_path / "out", "rejected")
    assert rejected == {"id": "doc-8", "file": str(source), "row": 8, "reason": "empty"}
    assert [path.name for path in (tmp_path / "out" / "kept").iterdir()] == [source.name]
    kept = read_rows(tmp_path / "out" / "kept" / source.name)
    assert kept == [DOCUMENTS[row] for row in kept_rows(TEXTS)]
    assert record["counts"]["kept"] == len(kept)
    assert source.read_bytes() == before


@pytest.mark.parametrize("extension", ["parquet", "arrow", "arrows", "feather"])
def test_a_table_keeps_its_schema_and_metadata(tmp_path: Path, extension: str) -> None:
    schema = pa.schema(
        [("text", pa.string()), ("n", pa.int8()), ("tags", pa.list_(pa.string()))],
        metadata={"made": "here"},
    )
    rows = [{"text": t, "n": i, "tags": [t[:2], None]} for i, t in enumerate(TEXTS)]
    source = tmp_path / f"t.{extension}"
    found = pa.Table.from_pylist(rows, schema)
    if extension == "parquet":
        pq.write_table(found, source, compression="gzip")
    else:
        new = pa.ipc.new_stream if extension == "arrows" else pa.ipc.new_file
        with pa.OSFile(str(source), "wb") as sink, new(sink, schema) as writer:
            writer.write_table(found)
    dedup(source, "-o", tmp_path / "out")
    kept = tmp_path / "out" / "kept" / source.name
    if extension == "parquet":
        got, schema = pq.read_table(kept), pq.read_schema(source)  # lists' items are renamed
        assert pq.ParquetFile(kept).metadata.row_group(0).column(0).compression == "GZIP"
    else:
        open_ = pa.ipc.open_stream if extension == "arrows" else pa.ipc.open_file
        got = open_(kept.read_bytes()).read_all()
    assert got.schema.equals(schema, check_metadata=True)
    assert got.to_pylist() == [rows[row] for row in kept_rows(TEXTS)]


A, B = edited(1), edited(2)
LINES = [
    b'{"text": "%s"}\r\n' % A.encode(),
    b'  { "text" :"%s" , "n":1e3}\t\n' % B.encode(),
    b"\n",
    b'{"text":"%s","n":2}\n' % A.encode(),
    b" \t \r\n",
    '{"text":"straße","é":"\\u00e9 \\/ \\ud83c\\udf89"}\n'.encode(),
    b'{"text":"a\\u0000b\\ttab","text2":[1 ,2],"n":18446744073709551616}\n',
    b'{"a":1,"a":2,"text":"two keys of one name"}\n',
    b'{"text":"the last line has no newline"}',
]


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
def test_lines_are_kept_byte_for_byte(tmp_path: Path, packing: str) -> None:
    source = tmp_path / f"odd.jsonl{packing}"
    data = b"".join(LINES)
    if packing == ".gz":
        source.write_bytes(gzip.compress(data))
    elif packing == ".zst":
        with pa.CompressedOutputStream(str(source), "zstd") as sink:
            sink.write(data)
    else:
        source.write_bytes(data)
    record = dedup(source, "-o", tmp_path / "out")
    assert record["counts"]["documents"] == 7
    (removed,) = table(tmp_path / "out", "removed")
    assert (removed["row"], removed["witness_row"]) == (2, 0)
    kept = (tmp_path / "out" / "kept" / source.name).read_bytes()
    if packing == ".gz":
        kept = gzip.decompress(kept)
    if packing == ".zst":
        kept = pa.CompressedInputStream(pa.BufferReader(kept), "zstd").read()
    assert kept == b"".join(LINES[n] for n in (0, 1, 5, 6, 7, 8))


def test_csv_records_are_kept_byte_for_byte(tmp_path: Path) -> None:
    lines = [
        "\ufefftext,n\r\n",
        f'"{A}\nsecond line","1, ""quoted"""\r\n',
        f"{B},2\n",
        "\r\n",
        f'"{A}\nsecond LINE",3\r\n',
        "last,4",
    ]
    (tmp_path / "odd.csv").write_bytes("".join(lines).encode())
    assert dedup(tmp_path / "odd.csv", "-o", tmp_path / "out")["counts"]["removed"] == 1
    kept = (tmp_path / "out" / "kept" / "odd.csv").read_bytes().decode()
    assert kept == lines[0] + lines[1] + lines[2] + lines[5]


def test_folder_of_text_files_is_one_document_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    for name, text in {"b/1.txt": A, "a.md": A + "\n", "b/2": B, "é.txt": "", "c": "ok"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    (folder / ".hidden").write_text(A)
    dedup(folder, "-o", tmp_path / "out")
    (removed,) = table(tmp_path / "out", "removed")
    assert (removed["id"], removed["witness"], removed["row"]) == ("b/1.txt", "a.md", 0)
    assert removed["file"] == str(folder / "b" / "1.txt")
    (rejected,) = table(tmp_path / "out", "rejected")
    assert (rejected["id"], rejected["reason"]) == ("é.txt", "empty")
    kept = tmp_path / "out" / "kept"
    files = {str(p.relative_to(kept)): p.read_text() for p in kept.rglob("*") if p.is_file()}
    assert files == {"a.md": A + "\n", "b/2": B, "c": "ok"}


def test_files_of_one_name_stay_apart(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        WRITERS["jsonl"](tmp_path / folder / "a.jsonl", [{"text": A}, {"text": folder * 9}])
    x, y = tmp_path / "x" / "a.jsonl", tmp_path / "y" / "a.jsonl"
    dedup(y, x, "-o", tmp_path / "out")
    (removed,) = table(tmp_path / "out", "removed")
    assert (removed["file"], removed["witness_file"]) == (str(x), str(y))
    assert (removed["id"], removed["witness"]) == (f"{x}:0", f"{y}:0")
    assert len(read_rows(tmp_path / "out" / "kept" / "x" / "a.jsonl")) == 1
    assert len(read_rows(tmp_path / "out" / "kept" / "y" / "a.jsonl")) == 2


def test_globs_and_the_order_of_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("in/b.jsonl", "in/a.jsonl", "in/deep/er/c.jsonl", "in/skip.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        WRITERS["jsonl"](tmp_path / name, [{"text": A}])
    monkeypatch.chdir(tmp_path)
    dedup("in/*.jsonl", "-o", "flat")
    (removed,) = table(Path("flat"), "removed")
    assert (removed["id"], removed["witness"]) == ("in/b.jsonl:0", "in/a.jsonl:0")
    record = dedup("in/deep/er/c.jsonl", "in/**/*.jsonl", "-o", "deep")
    assert [i["file"] for i in record["inputs"]] == [
        "in/deep/er/c.jsonl",
        "in/a.jsonl",
        "in/b.jsonl",
    ]
    assert {r["witness"] for r in table(Path("deep"), "removed")} == {"in/deep/er/c.jsonl:0"}


def test_several_formats_in_one_run(tmp_path: Path) -> None:
    sources = [tmp_path / f"documents.{extension}" for extension in WRITERS]
    for source, write in zip(sources, WRITERS.values(), strict=True):
        write(source, DOCUMENTS)
    record = dedup(*sources, "-o", tmp_path / "out")
    first = len(kept_rows(TEXTS))
    assert record["counts"]["kept"] == first
    assert record["counts"]["rejected"] == len(sources)
    assert [i["documents"] for i in record["inputs"]] == [len(TEXTS)] * len(sources)
    for source in sources:
        kept = read_rows(tmp_path / "out" / "kept" / source.name)
        assert len(kept) == (first if source == sources[0] else 0)


def test_format_option_overrides_the_file_name(tmp_path: Path) -> None:
    source = tmp_path / "lines.log"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in (A, B, A)))
    assert dedup(source, "-o", tmp_path / "1")["counts"]["removed"] == 1
    record = dedup(source, "-o", tmp_path / "2", "--format", "text")
    assert record["counts"]["documents"] == 1


def test_file_names_that_are_not_utf8_are_kept(tmp_path: Path) -> None:
    source = Path(str(tmp_path / "bad\udcff.jsonl"))
    WRITERS["jsonl"](source, [{"text": A}, {"text": A}])
    record = dedup(source, "-o", tmp_path / "out\udcfe")
    out = Path(str(tmp_path / "out\udcfe"))
    assert record["inputs"][0]["file"].endswith("bad\\xff.jsonl")
    assert table(out, "removed")[0]["id"].endswith("bad\\xff.jsonl:1")
    assert len(read_rows(out / "kept" / source.name)) == 1


def test_a_crawl_and_an_archive_of_texts_are_deduplicated_and_everything_is_counted(
    tmp_path: Path,
) -> None:
    texts = [" ".join(f"word{n}" for n in range(start, start + 60)) for start in (0, 100, 0)]

    def record(kind: str, body: str) -> bytes:
        head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Date: 2024-05-17T10:11:12Z\r\n"
        head += f"WARC-Record-ID: <urn:{len(body)}>\r\nContent-Type: text/plain\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n{body}\r\n\r\n".encode()

    crawl = [record("warcinfo", "x"), *(record("conversion", text) for text in texts)]
    members = [gzip.compress(one) for one in crawl]
    (tmp_path / "crawl.warc.wet.gz").write_bytes(b"".join(members))
    with tarfile.open(tmp_path / "texts.tgz", "w:gz") as archive:
        for name, text in zip(("a.txt", ".hidden", "b.txt"), texts, strict=True):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    sources = tmp_path / "crawl.warc.wet.gz", tmp_path / "texts.tgz"
    made = dedup(*sources, "-o", tmp_path / "out")
    assert (made["counts"]["documents"], made["counts"]["kept"]) == (5, 2)
    assert made["not_documents"] == {"warcinfo record": 1, "hidden file": 1}
    assert (tmp_path / "out/kept/crawl.warc.wet.gz").read_bytes() == b"".join(members[:3])
    with tarfile.open(tmp_path / "out/kept/texts.tgz") as kept:
        assert kept.getnames() == []
    removed = [row["id"] for row in table(tmp_path / "out", "removed")]
    assert removed == [f"urn:{len(texts[2])}", "a.txt", "b.txt"]
    assert "Parts of files that are no documents" in (tmp_path / "out/report.html").read_text()


POSTS = [" ".join(text.replace('"', "").split()) for text in TEXTS if text.strip()]
POSTS = [line for line in POSTS if line.isascii()]


@pytest.mark.parametrize("encoding", ["utf-16", "cp1252", "auto"])
def test_my_export_from_windows_is_read_and_written_as_it_is(tmp_path: Path, encoding: str) -> None:
    source = tmp_path / "export.csv"
    stored = "utf-16" if encoding == "auto" else encoding
    texts = [f"Größe: {line}" for line in POSTS]
    lines = ["text,n", *(f'"{text}",{n}' for n, text in enumerate(texts))]
    source.write_bytes("\r\n".join(lines).encode(stored))
    record = dedup(source, "-o", tmp_path / "out", "--encoding", encoding)
    assert record["counts"]["documents"] == len(texts)
    kept = (tmp_path / "out" / "kept" / "export.csv").read_bytes().decode(stored).splitlines()
    assert kept == ["text,n", *(f'"{texts[row]}",{row}' for row in kept_rows(texts))]


def test_utf16_without_the_option_is_an_error_with_the_cure(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes('{"text": "a"}\n'.encode("utf-16"))
    ran = neardup("dedup", tmp_path / "a.jsonl", "-o", tmp_path / "out")
    assert ran.code == 1
    assert ran.err.endswith("a.jsonl: UTF-16, not UTF-8: read it with --encoding utf-16\n")


def test_a_misspelt_encoding_names_the_near_ones(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    out = tmp_path / "out"
    ran = neardup("dedup", tmp_path / "a.jsonl", "-o", out, "--encoding", "shift-jsi")
    assert ran.code == 2
    assert "unknown text encoding 'shift-jsi': did you mean" in ran.err


def test_one_post_a_line(tmp_path: Path) -> None:
    (tmp_path / "posts.txt").write_text("\n\n".join(POSTS))
    record = dedup(tmp_path / "posts.txt", "-o", tmp_path / "out", "--format", "lines")
    assert record["counts"]["documents"] == len(POSTS)
    kept = (tmp_path / "out" / "kept" / "posts.txt").read_text().splitlines()
    assert kept == [POSTS[row] for row in kept_rows(POSTS)]


def test_an_earlier_corpus_is_read_in_the_same_encoding(tmp_path: Path) -> None:
    content = "".join(json.dumps({"text": post}) + "\n" for post in POSTS).encode("utf-16")
    for name in ("old.jsonl", "new.jsonl"):
        (tmp_path / name).write_bytes(content)
    how = ("--encoding", "utf-16", "--against")
    dedup(tmp_path / "old.jsonl", "-o", tmp_path / "run", "--encoding", "utf-16")
    for number, earlier in enumerate(("old.jsonl", "run")):
        out = tmp_path / f"{number}"
        record = dedup(tmp_path / "new.jsonl", "-o", out, *how, tmp_path / earlier)
        assert record["counts"]["kept"] == 0
