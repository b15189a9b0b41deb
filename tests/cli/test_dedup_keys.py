"""--hash and --key-file: a keyed run from end to end, and that its key is nowhere to be found."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from support.command_line import DOCUMENTS, Ran, edited, neardup, refused, table, write_jsonl

from neardup import reference
from neardup.keys import Key
from neardup.spec import Spec

SECRET = bytes.fromhex("c0ffee00badc0de5feedfacecafebeef")
OTHER = bytes(range(16))
KEYED = ("--hash", "siphash", "--key-file")


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return key_in(tmp_path / "key", SECRET)


def key_in(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def is_nowhere(folder: Path, *runs: Ran) -> None:
    """The key is in no file below a folder, and in nothing that was printed."""
    halves = [SECRET[:8], SECRET[8:]]
    numbers = [str(int.from_bytes(half, order)) for half in halves for order in ("little", "big")]
    forms = [
        *halves,
        *(half[::-1] for half in halves),
        *(number.encode() for number in numbers),
        SECRET.hex().encode(),
        SECRET.hex().upper().encode(),
        base64.b64encode(SECRET).rstrip(b"="),
        base64.urlsafe_b64encode(SECRET).rstrip(b"="),
        repr(SECRET).encode()[2:-1],
    ]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    shown = [(run.out + run.err).encode() for run in runs]
    for content in (*(path.read_bytes() for path in files), *shown):
        for form in forms:
            assert form not in content


@pytest.mark.parametrize("name", ["murmur3", "fnv1a", "siphash"])
def test_the_answer_is_that_of_the_slow_twin(inputs, key_file, tmp_path, name):
    keyed = name == "siphash"
    more = ["--key-file", key_file] if keyed else []
    ran = neardup("dedup", inputs, "-o", tmp_path / "out", "--hash", name, *more, "--json")
    assert ran.code == 0, ran.err
    spec = Spec(hash=name, key=Key(SECRET).id if keyed else "")
    assert json.loads(ran.out)["fingerprint"] == spec.fingerprint
    verdicts = reference.dedup(
        [row["text"] for row in DOCUMENTS], spec, 21, 6, 0.8, key=SECRET if keyed else b""
    )
    gone = {
        (f"doc-{row}", f"doc-{verdict[0]}", verdict[1])
        for row, verdict in enumerate(verdicts)
        if verdict is not None and verdict[0] != row
    }
    removed = table(tmp_path / "out", "removed")
    assert {(row["id"], row["witness"], row["similarity"]) for row in removed} == gone


@pytest.mark.parametrize("content", [SECRET, SECRET.hex().encode() + b"\n"])
def test_key_is_not_written_to_any_file(inputs, tmp_path, monkeypatch, content):
    out, file = tmp_path / "out", key_in(tmp_path / "key", content)
    asked = (
        "dedup",
        inputs,
        "-o",
        out,
        *KEYED,
        file,
        "--save-sketches",
        "--pairs",
        "--strip",
        "lines:40%",
    )
    with monkeypatch.context() as patched:
        patched.setattr("neardup.report.run_page.write_report", interrupt)
        stopped = neardup(*asked)
    assert stopped.code == 130
    assert list((out / ".unfinished").rglob("*"))
    is_nowhere(out, stopped)
    done = neardup(*asked)
    assert done.code == 0, done.err
    told = neardup(*asked, "--force", "--json")
    is_nowhere(out, done, told)
    record = json.loads((out / "run.json").read_text("utf-8"))
    assert record["spec"]["key"] == Key(SECRET).id


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_stopped_run_does_not_go_on_with_another_key(inputs, key_file, tmp_path, monkeypatch):
    asked = ("dedup", inputs, "-o", tmp_path / "out", "--save-sketches", *KEYED)
    with monkeypatch.context() as patched:
        patched.setattr("neardup.report.run_page.write_report", interrupt)
        assert neardup(*asked, key_file).code == 130
    assert neardup(*asked, key_in(tmp_path / "other", OTHER)).code == 0
    plain = ("dedup", inputs, "-o", tmp_path / "plain", "--save-sketches", *KEYED)
    assert neardup(*plain, tmp_path / "other").code == 0
    found, wanted = (
        {path.name: path.read_bytes() for path in (tmp_path / name / "sketches").iterdir()}
        for name in ("out", "plain")
    )
    assert len(found) > 2 and found == wanted


@pytest.mark.parametrize("saved", [["--save-sketches"], []])
def test_against_a_keyed_run_needs_its_key(inputs, key_file, tmp_path, saved):
    first = tmp_path / "first"
    assert neardup("dedup", inputs, "-o", first, *KEYED, key_file, *saved).code == 0
    new = write_jsonl(tmp_path / "new.jsonl", [{"text": edited(1, 78)}, {"text": edited(7)}])
    asked = ("dedup", new, "-o", tmp_path / "second", "--against", first)
    ran = neardup(*asked, *KEYED, key_file, "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["counts"]["removed"] == 1
    name = Key(SECRET).id
    refused(neardup(*asked, "--force", "-q"), 1, name, "--hash", "--key-file")
    other = key_in(tmp_path / "other", OTHER)
    wrong = neardup(*asked, *KEYED, other, "--force", "-q")
    refused(wrong, 1, name, Key(OTHER).id, "--key-file")
    is_nowhere(tmp_path / "second", ran, wrong)


def test_merging_keyed_sets_needs_no_key(inputs, key_file, tmp_path):
    for name in ("a", "b"):
        neardup("dedup", inputs, "-o", tmp_path / name, *KEYED, key_file, "--save-sketches", "-q")
    ran = neardup("merge", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "both")
    assert ran.code == 0, ran.err
    is_nowhere(tmp_path / "both", ran)


@pytest.mark.parametrize(
    "content", [b"", b"not a key, but private", SECRET + b"\n", b"0" * 31, b"x" * 10**6]
)
def test_key_file_without_a_key_is_refused(inputs, tmp_path, content):
    file = key_in(tmp_path / "key", content)
    ran = neardup("dedup", inputs, "-o", tmp_path / "out", *KEYED, file)
    refused(ran, 2, str(file), "16 bytes", "openssl rand")
    said = ran.err.replace(str(file), "")
    assert not any(part in said for part in ("private", "000", "xx"))


def test_missing_key_file_or_folder_is_refused(inputs, tmp_path):
    for file in (tmp_path / "none", tmp_path):
        ran = neardup("dedup", inputs, "-o", tmp_path / "out", *KEYED, file)
        refused(ran, 1, f"key file {file} can't be read")


def test_siphash_and_key_file_need_each_other(inputs, key_file, tmp_path):
    asked = ("dedup", inputs, "-o", tmp_path / "out")
    refused(neardup(*asked, "--hash", "siphash"), 2, "needs a key", "--key-file")
    refused(neardup(*asked, "--key-file", key_file), 2, "a key goes with hash siphash")
    refused(neardup(*asked, "--hash", "md5"), 2, "'md5'", "siphash")


def test_readable_key_file_is_warned_about_once(inputs, key_file, tmp_path):
    key_file.chmod(0o644)
    ran = neardup("dedup", inputs, "-o", tmp_path / "out", *KEYED, key_file)
    assert ran.err.count(f"others can read the key file: chmod 600 {key_file}") == 1
    quiet = neardup("dedup", inputs, "-o", tmp_path / "out", *KEYED, key_file, "-q", "--force")
    assert quiet.err == ""
    key_file.chmod(0o600)
    assert "chmod" not in neardup("spec", *KEYED, key_file).err


def test_spec_shows_the_key_id(key_file):
    ran = neardup("spec", *KEYED, key_file, "--json")
    assert json.loads(ran.out)["key"] == Key(SECRET).id
