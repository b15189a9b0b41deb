"""Folders as people have them: documentation sites, repositories of data sets, job output."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neardup import Index
from tests.support.command_line import dedup, neardup, refused, table

TEXTS = [f"the {n}th page tells about {n} other matters of {n} kinds" for n in range(4)]


def write(folder: Path, **files: str | bytes) -> Path:
    for name, content in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def lines(*texts: str | None) -> bytes:
    return b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts)


def site(folder: Path) -> Path:
    write(folder / "_posts", a=TEXTS[0], b=TEXTS[0])
    write(folder, **{"_index.md": TEXTS[1], "README.md": TEXTS[2], ".gitignore": "x"})
    return folder


def test_documentation_site_keeps_its_posts_and_says_what_was_not_read(tmp_path: Path) -> None:
    source = site(tmp_path / "site")
    ran = neardup("dedup", source, "-o", tmp_path / "out")
    assert ran.code == 0
    assert "4 documents   3 kept   1 removed" in ran.out
    assert "\nnot read            1 hidden file; run.json lists them\n" in ran.out
    record = json.loads((tmp_path / "out/run.json").read_bytes())
    assert record["unread_files"] == {
        "count": 1,
        "reasons": {"hidden file": 1},
        "listed": [{"file": f"{source}/.gitignore", "reason": "hidden file"}],
    }
    page = (tmp_path / "out/report.html").read_text()
    assert "Files that were left out" in page and f"{source}/.gitignore" in page
    assert (tmp_path / "out/kept/_index.md").read_text() == TEXTS[1]


def test_repository_of_a_data_set_just_works(tmp_path: Path) -> None:
    source = write(tmp_path / "repo", **{"README.md": "# Data", "dataset_infos.json": "{}"})
    (source / "data").mkdir()
    for number in range(2):
        name = f"train-0000{number}-of-00002.parquet"
        pq.write_table(pa.table({"text": TEXTS}), source / "data" / name)
    record = dedup(source, "-o", tmp_path / "out")
    shown = neardup("dedup", source, "-o", tmp_path / "again").out
    assert "not read            2 files that are no data (README.md, dataset_infos.json)" in shown
    assert record["counts"]["kept"] == 4 and record["counts"]["removed"] == 4
    assert record["unread_files"]["reasons"] == {"beside data files": 2}
    assert [file["documents"] for file in record["inputs"]] == [4, 4]


def test_readmes_that_were_not_read_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    files = {f"{place}README.md": "about" for place in ("", "en__", "de__")}
    source = write(tmp_path / "in", **files, **{"en__a.jsonl": lines(*TEXTS)})
    write(source, **{"de__b.jsonl": lines(TEXTS[0])})
    ran = neardup("dedup", source, "-o", tmp_path / "out")
    named = "3 files that are no data (README.md, de/README.md, en/README.md)"
    assert f"not read            {named}; run.json lists them" in ran.out
    assert named in (tmp_path / "out/report.html").read_text()


def test_part_files_without_endings_are_read(tmp_path: Path) -> None:
    source = write(tmp_path / "in", **{"part-00000": lines(*TEXTS), "_SUCCESS": b""})
    write(source, **{"part-00001.gz": gzip.compress(lines(TEXTS[0]))})
    record = dedup(source, "-o", tmp_path / "out")
    assert record["counts"]["documents"] == 5 and record["counts"]["removed"] == 1
    kept = tmp_path / "out/kept"
    assert (kept / "part-00000").read_bytes() == lines(*TEXTS)
    assert gzip.decompress((kept / "part-00001.gz").read_bytes()) == b""
    again = dedup(source, "-o", tmp_path / "again", "--against", tmp_path / "out")
    assert again["counts"]["removed"] == 5


def test_name_that_lies_about_its_compression_is_an_error_that_says_so(tmp_path: Path) -> None:
    source = write(tmp_path / "in", **{"a.jsonl.gz": lines(*TEXTS), "b.jsonl": lines(*TEXTS)})
    refused(
        neardup("dedup", source, "-o", tmp_path / "out", "-q"),
        1,
        "a.jsonl.gz: not gzip data, in spite of its name: rename it",
        "--skip-bad-files",
    )
    record = dedup(source, "-o", tmp_path / "out", "--skip-bad-files")
    assert [one["file"] for one in record["skipped_files"]] == [f"{source}/a.jsonl.gz"]


def test_one_document_is_one_document(tmp_path: Path) -> None:
    write(tmp_path, **{"a.jsonl": lines(TEXTS[0]), "empty.jsonl": b""})
    for command in ("dedup", "exact"):
        ran = neardup(command, tmp_path / "a.jsonl", "-o", tmp_path / command)
        assert ran.out.startswith("1 document   1 kept") and "1 documents" not in ran.err
    assert "about 0" not in neardup("dedup", tmp_path / "empty.jsonl", "-o", tmp_path / "x").err


def test_earlier_run_is_read_in_the_format_that_it_was_told(tmp_path: Path) -> None:
    source = write(tmp_path / "in", **{"a.txt": lines(*TEXTS), "b.jsonl": lines(*TEXTS)})
    dedup(source, "-o", tmp_path / "out", "--format", "text")
    record = dedup(
        source / "a.txt", "-o", tmp_path / "next", "--format", "text", "--against", tmp_path / "out"
    )
    assert record["counts"]["removed"] == 1


@pytest.mark.parametrize("command", ["dedup", "exact"])
def test_include_and_exclude_choose_files_of_a_folder(tmp_path: Path, command: str) -> None:
    source = site(tmp_path / "site")
    ran = neardup(
        *(command, source, "-o", tmp_path / "out", "--json"),
        *("--include", "*.md", "--include", "_posts", "--exclude", "README.md"),
    )
    record = json.loads(ran.out)
    assert record["counts"]["documents"] == 3
    assert record["unread_files"]["reasons"] == {"hidden file": 1, "in --exclude": 1}
    assert record["parameters"]["include"] == ["*.md", "_posts"]
    refused(
        neardup(command, source, "-o", tmp_path / "no", "--include", "*.markdown"),
        2,
        "--include '*.markdown' matches no file",
    )


def test_folder_of_data_and_texts_is_an_error_with_real_endings(tmp_path: Path) -> None:
    source = write(tmp_path / "in", **{"a.jsonl": lines(*TEXTS), "notes.rst": "a text"})
    cures = ("--include '*.jsonl' or --include '*.rst'", "--format text")
    refused(neardup("dedup", source, "-o", tmp_path / "out"), 2, *cures)


def test_text_file_of_json_lines_is_refused_and_a_text_of_many_lines_gets_a_hint(
    tmp_path: Path,
) -> None:
    write(tmp_path, **{"a.txt": lines(*TEXTS), "b.txt": "one post\n" * 30})
    ran = neardup("dedup", tmp_path / "a.txt", "-o", tmp_path / "out")
    refused(ran, 2, "a.txt", "--format jsonl")
    ran = neardup("dedup", tmp_path / "b.txt", "-o", tmp_path / "out")
    assert ran.code == 0 and "b.txt is one document" in ran.err and "--format lines" in ran.err
    record = json.loads((tmp_path / "out/run.json").read_bytes())
    assert len(record["hints"]) == 1


@pytest.mark.parametrize("command", ["dedup", "exact"])
def test_run_that_rejects_most_documents_fails_and_says_why(tmp_path: Path, command: str) -> None:
    source = write(tmp_path, **{"a.jsonl": lines(TEXTS[0], None, None) + b"[]\n"}) / "a.jsonl"
    out = tmp_path / "out"
    ran = neardup(command, source, "-o", out)
    assert ran.code == 1 and "3 rejected" in ran.out
    last = ran.err.splitlines()[-1]
    assert last.startswith(
        "neardup: 3 of 4 documents rejected (2 text is null; 1 JSON, but not an object), more"
    )
    assert "--max-rejected 0.5" in last and f"{out} is complete" in last
    assert len(table(out, "rejected")) == 3 and len(table(out, "removed")) == 0
    ran = neardup(command, source, "-o", tmp_path / "b", "--max-rejected", 0.75)
    assert ran.code == 0
    record = json.loads((tmp_path / "b/run.json").read_bytes())
    assert record["parameters"]["max_rejected"] == 0.75


def test_run_of_which_everything_is_rejected_fails_and_an_empty_file_does_not(
    tmp_path: Path,
) -> None:
    write(tmp_path, **{"bad.jsonl": b"[]\n[]\n", "empty.jsonl": b""})
    ran = neardup("dedup", tmp_path / "bad.jsonl", "-o", tmp_path / "out", "-q")
    refused(ran, 1, "2 of 2 documents rejected", "rejected.parquet")
    ran = neardup("dedup", tmp_path / "bad.jsonl", "-o", tmp_path / "all", "--max-rejected", 1)
    assert ran.code == 0
    assert neardup("dedup", tmp_path / "empty.jsonl", "-o", tmp_path / "none").code == 0
    ran = neardup("dedup", tmp_path / "bad.jsonl", "-o", tmp_path / "x", "--max-rejected", 2)
    refused(ran, 2, "--max-rejected must be from 0 to 1")


def test_index_takes_folders_as_they_are_and_fails_if_most_is_rejected(tmp_path: Path) -> None:
    source = site(tmp_path / "site")
    ran = neardup("index", "build", tmp_path / "index", source, "--exclude", "README.md")
    assert ran.code == 0 and "2 not read: 1 hidden file, 1 in --exclude" in ran.err
    with Index.open(tmp_path / "index") as index:
        assert index.get("_index.md") is not None
    write(tmp_path, **{"bad.jsonl": b"[]\n[]\n", "mixed.jsonl": lines(None, None, TEXTS[3])})
    ran = neardup("index", "build", tmp_path / "new", tmp_path / "bad.jsonl", "-q")
    refused(ran, 1, "2 of 2 documents rejected", "nothing is added", "--strict")
    assert not (tmp_path / "new").exists()
    ran = neardup("index", "add", tmp_path / "index", tmp_path / "mixed.jsonl", "-q")
    refused(ran, 1, "2 of 3 documents rejected", f"the others are in {tmp_path / 'index'}")
    allowed = ("--max-rejected", 0.9, "--json")
    ran = neardup("index", "add", tmp_path / "index", tmp_path / "mixed.jsonl", *allowed)
    assert ran.code == 0 and json.loads(ran.out)["counts"]["again"] == 1


def test_plan_and_tune_say_what_they_do_not_read(tmp_path: Path) -> None:
    source = write(tmp_path / "in", **{"a.jsonl": lines(*TEXTS), "README.md": "about"})
    ran = neardup("plan", "--sample", source, "--no-calibrate")
    assert ran.code == 0 and "1 not read: 1 file that is no data (README.md)" in ran.err
    ran = neardup("compare-sketches", source)
    assert "1 not read: 1 file that is no data (README.md)" in ran.err


@pytest.mark.parametrize("command", ["dedup", "exact"])
def test_texts_of_another_encoding_are_answered_with_the_option(
    tmp_path: Path, command: str
) -> None:
    source = write(tmp_path / "in", **{"a.txt": TEXTS[0], "b.txt": "un café noir".encode("cp1252")})
    out, cure = tmp_path / "out", "invalid UTF-8 (another encoding? --encoding NAME)"
    ran = neardup(command, source, "-o", out)
    assert f"\nrejected            1 {cure}\n" in ran.out
    assert f"'b.txt' was rejected: {cure}" in neardup("why", out, "b.txt").out
    ran = neardup(command, source, "-o", tmp_path / "few", "--max-rejected", "0.1", "-q")
    refused(ran, 1, f"1 of 2 documents rejected (1 {cure})")
    record = json.loads((out / "run.json").read_bytes())
    assert record["reasons"] == {"invalid UTF-8": 1}
    ran = neardup(command, source, "-o", tmp_path / "new", "--encoding", "cp1252")
    assert "   0 rejected" in ran.out
