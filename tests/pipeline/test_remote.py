"""Inputs and OUT in object stores: the answer of local files, whatever the network does."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.command_line import (
    DOCUMENTS,
    TEXTS,
    WRITERS,
    dedup,
    kept_rows,
    neardup,
    neardup_piped,
    refused,
    table,
    write_jsonl,
)
from support.object_stores import BUCKET, faulty_proxy, file_server, s3_server, use_store

import neardup as package
from neardup import runtime
from neardup.cli.dedup import urls_only
from neardup.corpus import object_store, storage
from neardup.corpus.urls import hide_secrets
from neardup.errors import UsageError
from neardup.pipeline import remote as remote_runs
from neardup.pipeline import remote_inputs

LINES = [json.dumps(row).encode() + b"\n" for row in DOCUMENTS]
DATA = b"".join(LINES)
KEPT = b"".join(LINES[row] for row in kept_rows(TEXTS))
HERE = f"s3://{BUCKET}"


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Any, str]]:
    with s3_server() as started:
        yield started


@pytest.fixture
def s3(server: tuple[Any, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The client of an empty bucket; caches and the working folder are temporary."""
    client, address = server
    use_store(address, monkeypatch)
    monkeypatch.setattr(remote_runs, "cache_home", lambda: tmp_path / "cache")
    monkeypatch.setattr(object_store, "FIRST_PAUSE", 0.001)
    monkeypatch.chdir(tmp_path)
    yield client
    for key in keys(client):
        client.delete_object(Bucket=BUCKET, Key=key)


def put(client: Any, **objects: bytes) -> None:
    for key, data in objects.items():
        client.put_object(Bucket=BUCKET, Key=key, Body=data)


def keys(client: Any) -> list[str]:
    listed = client.list_objects_v2(Bucket=BUCKET).get("Contents", [])
    return [one["Key"] for one in listed]


def get(client: Any, key: str) -> bytes:
    return client.get_object(Bucket=BUCKET, Key=key)["Body"].read()


def test_an_object_is_an_input(s3: Any, tmp_path: Path) -> None:
    put(s3, **{"in/a.jsonl": DATA})
    record = dedup(f"{HERE}/in/a.jsonl", "-o", "out")
    assert (tmp_path / "out" / "kept" / "a.jsonl").read_bytes() == KEPT
    assert record["inputs"][0]["file"] == f"{HERE}/in/a.jsonl"
    assert table(tmp_path / "out", "removed")[0]["file"] == f"{HERE}/in/a.jsonl"
    assert sorted(os.listdir()) == ["out"]


def test_a_day_in_a_bucket_is_added_to_an_index(s3: Any, tmp_path: Path) -> None:
    """By the command and from Python; documents without ids are named by their URLs."""
    put(s3, **{"day/1.jsonl": b"".join(LINES[:8]), "day/2.jsonl": b"".join(LINES[8:])})
    put(s3, **{"notes/a.jsonl": b'{"text": "one note of seven words for all"}'})
    ran = neardup("index", "add", "ix", f"{HERE}/day", "-o", "out", "-q")
    assert (ran.code, ran.err) == (0, "")
    kept = [path.read_bytes() for path in sorted((tmp_path / "out" / "kept").rglob("*.jsonl"))]
    assert b"".join(kept) == KEPT
    assert table(tmp_path / "out", "removed")[0]["file"].startswith(f"{HERE}/day/")
    found = package.add_files("ix", [f"{HERE}/notes/*.jsonl", f"{HERE}/day/1.jsonl"], "second")
    assert (found.counts["kept"], found.counts["removed"]) == (1, 8)
    with package.Index.open("ix", read_only=True) as index:
        answer = index.query("One note of seven words for all")
        assert answer.duplicate_of == f"{HERE}/notes/a.jsonl:0"
    assert sorted(os.listdir()) == ["ix", "out", "second"]


def test_a_day_that_is_not_in_its_bucket_makes_no_index(s3: Any, tmp_path: Path) -> None:
    ran = neardup("index", "add", "ix", f"{HERE}/none", "-o", "out", "-q")
    refused(ran, 2, f"{HERE}/none: no such object or prefix")
    assert not os.path.exists("ix") and not os.path.exists("out")
    put(s3, **{"in/a.jsonl": DATA})
    ran = neardup("index", "build", "ix", f"{HERE}/in/a.jsonl", "-q")
    refused(ran, 2, "URLs are inputs of neardup dedup, exact and index add -o: download it first")


@pytest.mark.parametrize("what", ["in", "in/", "in/**/*.jsonl", "in/*/[ab].jsonl", "in/*/?.json?"])
def test_a_prefix_and_a_glob_are_inputs(s3: Any, tmp_path: Path, what: str) -> None:
    put(s3, **{"in/1/a.jsonl": b"".join(LINES[:8]), "in/2/b.jsonl": b"".join(LINES[8:])})
    put(s3, **{"inside.jsonl": b"{", "other/c.jsonl": b"{"})
    dedup(f"{HERE}/{what}", "-o", "out")
    kept = [path.read_bytes() for path in sorted((tmp_path / "out" / "kept").rglob("*.jsonl"))]
    assert b"".join(kept) == KEPT


def test_objects_named_like_incomplete_files_and_a_url_given_twice(s3: Any, tmp_path: Path) -> None:
    rows = {"in/a.jsonl": LINES[:8], "in/a.jsonl.part": LINES[8:]}
    put(s3, **{key: b"".join(lines) for key, lines in rows.items()})
    record = dedup(f"{HERE}/in", f"{HERE}/in", "-o", "out", "--format", "jsonl")
    assert [one["documents"] for one in record["inputs"]] == [8, len(LINES) - 8]
    kept = [path.read_bytes() for path in sorted((tmp_path / "out" / "kept").iterdir())]
    assert b"".join(kept) == KEPT


def test_compressed_and_columnar_objects(s3: Any, tmp_path: Path) -> None:
    for ending in ("jsonl.gz", "parquet"):
        WRITERS[ending](tmp_path / f"x.{ending}", DOCUMENTS)
        put(s3, **{f"in/x.{ending}": (tmp_path / f"x.{ending}").read_bytes()})
        code, out, err = neardup_piped(b"", "dedup", f"{HERE}/in/x.{ending}", "-o", "-", "-q")
        assert code == 0, err
        if ending == "parquet":
            assert pq.read_table(pa.BufferReader(out)).num_rows == len(kept_rows(TEXTS))
        else:
            assert out == KEPT


def test_out_is_uploaded_and_run_json_comes_last(s3: Any, tmp_path: Path) -> None:
    put(s3, **{"in/a.jsonl": DATA})
    ran = neardup("dedup", f"{HERE}/in/a.jsonl", "-o", f"{HERE}/runs/out", "--save-sketches")
    assert ran.code == 0, ran.err
    assert f"{HERE}/runs/out/report.html shows it" in ran.out
    found = keys(s3)
    assert get(s3, "runs/out/kept/a.jsonl") == KEPT
    assert {"runs/out/removed.parquet", "runs/out/report.html", "runs/out/run.json"} <= {*found}
    assert not [key for key in found if "unfinished" in key]
    assert os.listdir() == ["cache"] and os.listdir("cache/remote") == []
    times = {
        one["Key"]: one["LastModified"]
        for one in s3.list_objects_v2(Bucket=BUCKET, Prefix="runs/")["Contents"]
        if not one["Key"].endswith("/")  # PyArrow marks folders
    }
    assert times["runs/out/run.json"] == max(times.values())


def test_one_object_as_output(s3: Any) -> None:
    put(s3, **{"in/a.jsonl": DATA})
    asked = ("dedup", f"{HERE}/in/a.jsonl", "-o", f"{HERE}/clean.jsonl", "-q")
    assert neardup(*asked).code == 0
    assert get(s3, "clean.jsonl") == KEPT
    refused(neardup(*asked), 2, "clean.jsonl exists", "--force")
    assert neardup(*asked, "--force").code == 0


def test_a_finished_run_is_replaced_by_force_only(s3: Any) -> None:
    put(s3, **{"in/a.jsonl": DATA, "in/b.jsonl": LINES[0]})
    out = ("-o", f"{HERE}/out", "-q")
    assert neardup("dedup", f"{HERE}/in", *out, "--pairs").code == 0
    assert "out/pairs.parquet" in keys(s3)
    refused(neardup("dedup", f"{HERE}/in/a.jsonl", *out), 2, "holds a finished run", "--force")
    put(s3, **{"out/mine.txt": b"mine"})
    assert neardup("dedup", f"{HERE}/in/a.jsonl", *out, "--force").code == 0
    assert "out/pairs.parquet" not in keys(s3) and "out/kept/b.jsonl" not in keys(s3)
    assert get(s3, "out/mine.txt") == b"mine"


def test_an_output_with_foreign_objects_is_refused(s3: Any) -> None:
    put(s3, **{"in/a.jsonl": DATA, "out/mine.txt": b"mine"})
    ran = neardup("dedup", f"{HERE}/in/a.jsonl", "-o", f"{HERE}/out", "-q")
    refused(ran, 2, "is not empty (mine.txt)", "--force")


def test_against_a_remote_run(s3: Any) -> None:
    put(s3, **{"a.jsonl": b"".join(LINES[:3]), "b.jsonl": b"".join(LINES[3:])})
    assert neardup("dedup", f"{HERE}/a.jsonl", "-o", f"{HERE}/first", "-q").code == 0
    record = dedup(f"{HERE}/b.jsonl", "-o", f"{HERE}/second", "--against", f"{HERE}/first")
    assert record["parameters"]["against"] == [f"{HERE}/first"]
    assert get(s3, "first/kept/a.jsonl") + get(s3, "second/kept/b.jsonl") == KEPT


def test_a_failed_upload_leaves_the_finished_run(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(s3, **{"in/a.jsonl": DATA})
    plain = storage.ArrowStore.write

    def fail(self: storage.ArrowStore, path: str, source: Path) -> None:
        if path.endswith("run.json"):
            raise OSError("AWS Error ACCESS_DENIED")
        plain(self, path, source)

    with monkeypatch.context() as patched:
        patched.setattr(storage.ArrowStore, "write", fail)
        ran = neardup("dedup", f"{HERE}/in/a.jsonl", "-o", f"{HERE}/out", "-q")
    refused(ran, 1, f"{HERE}/out: access denied", "the finished run is in ")
    finished = Path(ran.err.strip().rpartition(" ")[2])
    assert (finished / "kept" / "a.jsonl").read_bytes() == KEPT
    assert "out/run.json" not in keys(s3)
    monkeypatch.setattr(runtime, "cache_home", lambda: tmp_path / "cache")
    assert "1 folder of stopped runs" in neardup("cache", "list").out
    again = ("dedup", f"{HERE}/in/a.jsonl", "-o", f"{HERE}/out", "--force", "-q")
    assert neardup(*again).code == 0
    assert "out/run.json" in keys(s3) and not finished.exists()
    finished.mkdir(parents=True)
    assert neardup("cache", "clear", "--fetched", "--yes").out == "1 removed\n"
    assert not finished.exists()


def test_other_commands_say_who_reads_urls(s3: Any) -> None:
    ran = neardup("tune", f"s3://key:secret@{BUCKET}/a.jsonl", "-o", "tuned")
    assert ran.code == 2 and "neardup dedup, exact and" in ran.err and "secret" not in ran.err


def test_what_is_not_read_of_a_prefix_is_named_by_urls(s3: Any) -> None:
    put(s3, **{"in/a.jsonl": DATA, "in/_SUCCESS": b"", "in/.hidden": b"", "texts/b.txt": b"b"})
    record = dedup(f"{HERE}/in", "-o", "out")
    listed = [one["file"] for one in record["unread_files"]["listed"]]
    assert listed == [f"{HERE}/in/.hidden", f"{HERE}/in/_SUCCESS"]
    put(s3, **{"in/b.txt": b"b"})
    refused(
        neardup("dedup", f"{HERE}/in", "-o", "x", "-q"), 2, f"{HERE}/in: data files", "--include"
    )


def test_exact_and_python_take_urls(s3: Any, tmp_path: Path) -> None:
    put(s3, **{"a.jsonl": LINES[0] + LINES[0] + LINES[1]})
    assert neardup("exact", f"{HERE}/a.jsonl", "-o", f"{HERE}/exact.jsonl", "-q").code == 0
    assert get(s3, "exact.jsonl") == LINES[0] + LINES[1]
    result = package.dedup_files(f"{HERE}/a.jsonl", tmp_path / "out")
    assert result.kept[0].read_bytes() == LINES[0] + LINES[1]


def test_faults_of_the_network_change_nothing(
    s3: Any, server: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_inputs, "BLOCK", 1 << 10)  # many ranges of a small object
    put(s3, **{"in/a.jsonl": DATA})
    faults = ["reset", "503", "cut", "slow", "reset", "cut", "503", "slow"]
    with faulty_proxy(server[1], faults) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        code, out, err = neardup_piped(b"", "dedup", f"{HERE}/in", "-o", "-", "-q")
    assert (code, out, err) == (0, KEPT, "")
    assert faults == []


def test_a_store_that_never_recovers_is_one_line(
    s3: Any, server: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "ATTEMPTS", 2)
    put(s3, **{"in/a.jsonl": DATA})
    with faulty_proxy(server[1], ["503"] * 100) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        ran = neardup("dedup", f"{HERE}/in/a.jsonl", "-o", "out", "-q")
    refused(ran, 1, f"{HERE}/in/a.jsonl", "does not answer", "run again")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    ran = neardup("dedup", f"{HERE}/in/a.jsonl", "-o", "out", "-q")
    refused(ran, 1, "does not answer", "network")


def test_a_stopped_run_does_not_fetch_again(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(s3, **{"in/a.jsonl": LINES[0], "in/b.jsonl": b"{"})
    asked = ("dedup", f"{HERE}/in", "-o", "out", "--strict", "-q")
    refused(neardup(*asked), 1, f"{HERE}/in/b.jsonl, row 0")
    assert (tmp_path / ".out.fetched").is_dir()
    put(s3, **{"in/b.jsonl": LINES[1]})
    opened: list[str] = []
    plain = storage.ArrowStore.open

    def watch(self: storage.ArrowStore, found: storage.StoredObject) -> Any:
        opened.append(found.path)
        return plain(self, found)

    monkeypatch.setattr(storage.ArrowStore, "open", watch)
    assert neardup(*asked).code == 0
    assert opened == [f"{BUCKET}/in/b.jsonl"]
    assert os.listdir() == ["out"]


def test_an_object_that_changes_during_the_run_is_noticed(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(s3, **{"in/a.jsonl": DATA})
    plain = remote_inputs.Fetcher.run

    def fetch_and_change(self: Any) -> None:
        plain(self)
        put(s3, **{"in/a.jsonl": LINES[0]})

    monkeypatch.setattr(remote_inputs.Fetcher, "run", fetch_and_change)
    for what in ("in/a.jsonl", "in", "in/*.jsonl"):
        put(s3, **{"in/a.jsonl": DATA})
        ran = neardup("dedup", f"{HERE}/{what}", "-o", "out", "-q")
        refused(ran, 1, f"{HERE}/in/a.jsonl: changed during the run")
    assert not (tmp_path / "out" / "run.json").exists()


@pytest.mark.parametrize(
    ("url", "code", "parts"),
    [
        ("s3://no-such-bucket-here/a.jsonl", 2, ("no such bucket", "AWS_ENDPOINT_URL")),
        (f"{HERE}/none.jsonl", 2, ("no such object or prefix",)),
        (f"{HERE}/none/*.jsonl", 2, ("no object matches",)),
        ("ftp://host/a.jsonl", 2, ("ftp://", "s3")),
        ("s3://*/a.jsonl", 2, ("bucket",)),
        ("http://[x", 2, ("http://...", "malformed")),
    ],
)
def test_what_is_not_there_is_one_line(s3: Any, url: str, code: int, parts: tuple[str]) -> None:
    refused(neardup("dedup", url, "-o", "out", "-q"), code, *parts)


def test_a_dry_run_fetches_and_writes_nothing(s3: Any) -> None:
    put(s3, **{"in/a.jsonl": DATA})
    write_jsonl(Path("b.jsonl"), DOCUMENTS)
    for asked in (
        (f"{HERE}/in/a.jsonl", "-o", "out"),
        ("b.jsonl", "-o", f"{HERE}/out"),
        ("b.jsonl", "-o", "out", "--against", f"{HERE}/in"),
    ):
        refused(neardup("dedup", *asked, "--dry-run"), 2, "--dry-run", "neardup plan")
    assert keys(s3) == ["in/a.jsonl"] and os.listdir() == ["b.jsonl"]


def test_outputs_that_can_not_be_written_are_refused_at_once(s3: Any) -> None:
    put(s3, **{"in/a.jsonl": DATA})
    asked = ("dedup", f"{HERE}/in/a.jsonl", "-q", "-o")
    refused(neardup(*asked, "https://host/out"), 2, "only read")
    refused(neardup(*asked, f"{HERE}/in/a.jsonl/out"), 2, "contain one another")
    refused(neardup(*asked, "s3://no-such-bucket-here/out"), 2, "no such bucket")


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        ("AWS Error ACCESS_DENIED during HeadObject", ("access denied", "AWS_ACCESS_KEY_ID")),
        ("AWS Error UNKNOWN (HTTP status 400): ExpiredToken", ("expired", "new ones")),
        ("AWS Error INVALID_ACCESS_KEY_ID: AKIDEXAMPLE", ("access denied",)),
    ],
)
def test_credentials_are_named_and_not_shown(
    s3: Any, monkeypatch: pytest.MonkeyPatch, message: str, parts: tuple[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(message)

    monkeypatch.setattr(storage.ArrowStore, "find", refuse)
    url = f"s3://KEYID:very-secret@{BUCKET}/in/a.jsonl"
    ran = neardup("dedup", url, "-o", "out", "-q")
    refused(ran, 1, f"s3://{BUCKET}/in/a.jsonl", *parts)
    assert "very-secret" not in ran.err and "AKIDEXAMPLE" not in ran.err


def test_signatures_and_passwords_are_not_shown() -> None:
    account = "abfss://pages@account.dfs.core.windows.net/in"
    assert hide_secrets(f"{account}?sig=very-secret") == account
    assert hide_secrets("/in/a?b@c") == "/in/a?b@c"
    with pytest.raises(UsageError, match="pages@account") as mixed:
        urls_only([f"{account}?sig=very-secret", "a.jsonl"], "spark")
    with pytest.raises(UsageError, match="malformed") as malformed:
        hide_secrets("http://me:very-secret@[x/a.jsonl")
    assert "very-secret" not in f"{mixed.value}{malformed.value}"


@pytest.mark.parametrize("ranges", [True, False])
def test_files_of_a_web_server(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranges: bool
) -> None:
    monkeypatch.setattr(remote_inputs, "BLOCK", 1 << 10)
    (tmp_path / "www").mkdir()
    write_jsonl(tmp_path / "www" / "a.jsonl", DOCUMENTS)
    with file_server(tmp_path / "www", ranges) as address:
        faults = ["reset", "cut", "503", "cut"]
        with faulty_proxy(address, faults) as proxy:
            record = dedup(f"{proxy}/a.jsonl?signature=secret", "-o", "out")
        assert faults == []
        refused(neardup("dedup", f"{address}/none.jsonl", "-o", "x", "-q"), 2, "no such object")
        (tmp_path / "www" / "empty.jsonl").touch()
        assert neardup("dedup", f"{address}/empty.jsonl", "-o", "empty", "-q").code == 0
    assert (tmp_path / "out" / "kept" / "a.jsonl").read_bytes() == KEPT
    assert record["inputs"][0]["file"] == f"{proxy}/a.jsonl"
    assert "secret" not in (tmp_path / "out" / "run.json").read_text()


def test_a_server_that_sometimes_ignores_ranges_stores_nothing_wrong(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_inputs, "BLOCK", 1 << 10)
    (tmp_path / "www").mkdir()
    write_jsonl(tmp_path / "www" / "a.jsonl", DOCUMENTS)
    faults = ["", "", "whole", "", "whole", "whole"]  # the first finds the file
    with (
        file_server(tmp_path / "www") as address,
        faulty_proxy(address, faults) as proxy,
    ):
        dedup(f"{proxy}/a.jsonl", "-o", "out")
    assert faults == []
    assert (tmp_path / "out" / "kept" / "a.jsonl").read_bytes() == KEPT


def test_files_of_a_web_server_that_differ_in_the_query(s3: Any, tmp_path: Path) -> None:
    (tmp_path / "www").mkdir()
    write_jsonl(tmp_path / "www" / "a.jsonl", DOCUMENTS[:8])
    write_jsonl(tmp_path / "www" / "b.jsonl", DOCUMENTS[8:])
    with file_server(tmp_path / "www") as address:
        urls = [f"{address}/get.jsonl?file={name}.jsonl" for name in "ab"]
        record = dedup(*urls, "-o", "out")
    assert [one["documents"] for one in record["inputs"]] == [8, len(DOCUMENTS) - 8]
    kept = [path.read_bytes() for path in sorted((tmp_path / "out" / "kept").rglob("*.jsonl"))]
    assert sorted(b"".join(kept).splitlines()) == sorted(KEPT.splitlines())


def test_a_web_server_that_wants_a_password(s3: Any, tmp_path: Path) -> None:
    (tmp_path / "www").mkdir()
    write_jsonl(tmp_path / "www" / "a.jsonl", DOCUMENTS)
    with file_server(tmp_path / "www", login="me:very@secret") as address:
        host = address.removeprefix("http://")
        record = dedup(f"http://me:very%40secret@{host}/a.jsonl", "-o", "out")
        ran = neardup("dedup", f"http://me:wrong@{host}/a.jsonl", "-o", "x", "-q")
    refused(ran, 1, f"{address}/a.jsonl: access denied")
    assert "wrong" not in ran.err
    assert record["inputs"][0]["file"] == f"{address}/a.jsonl"
    assert (tmp_path / "out" / "kept" / "a.jsonl").read_bytes() == KEPT


def test_files_of_the_hub(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder stands for the Hub, which needs a network: fsspec's interface is the same."""
    fsspec = pytest.importorskip("fsspec")
    hub = pytest.importorskip("huggingface_hub")
    dirfs = pytest.importorskip("fsspec.implementations.dirfs")
    data = tmp_path / "hub" / "datasets" / "me" / "pages" / "data"
    data.mkdir(parents=True)
    write_jsonl(data / "a.jsonl", DOCUMENTS)
    local = dirfs.DirFileSystem(str(tmp_path / "hub"), fsspec.filesystem("file"))
    monkeypatch.setattr(hub, "HfFileSystem", lambda: local)
    monkeypatch.setattr(remote_inputs, "BLOCK", 1 << 10)
    record = dedup("hf://datasets/me/pages/data", "-o", "out")
    assert record["inputs"][0]["file"] == "hf://datasets/me/pages/data/a.jsonl"
    assert (tmp_path / "out" / "kept" / "a.jsonl").read_bytes() == KEPT
    ran = neardup("dedup", "hf://datasets/me/none", "-o", "none", "-q")
    refused(ran, 2, "hf://datasets/me/none: no such object or prefix")


def signed(address: str, signature: str) -> str:
    return f"{address}/a.jsonl?X-Amz-Date=1&X-Amz-Expires=60&X-Amz-Signature={signature}"


def test_signed_url_that_expires_is_signed_again_and_the_run_goes_on(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "www").mkdir()
    write_jsonl(tmp_path / "www" / "a.jsonl", DOCUMENTS)
    plain, signatures = remote_inputs.Fetcher.run, {"old"}

    def stop(self: Any) -> None:
        plain(self)
        raise KeyboardInterrupt

    def refetch(*_: object) -> int:
        raise AssertionError("fetched again")

    with file_server(tmp_path / "www", signatures=signatures) as address:
        with monkeypatch.context() as patched:
            patched.setattr(remote_inputs.Fetcher, "run", stop)
            assert neardup("dedup", signed(address, "old"), "-o", "out", "-q").code == 130
        signatures.clear()
        ran = neardup("dedup", signed(address, "old"), "-o", "out", "-q")
        refused(ran, 1, f"{address}/a.jsonl", "may have expired", "sign it again")
        assert "X-Amz" not in ran.err
        signatures.add("new")
        with monkeypatch.context() as patched:
            patched.setattr(remote_inputs._FetchedObject, "_fetch", refetch)
            dedup(signed(address, "new"), "-o", "out")
    assert (tmp_path / "out" / "kept" / "a.jsonl").read_bytes() == KEPT


def test_signed_url_that_expires_after_it_was_fetched_is_no_reason_to_fail(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "www").mkdir()
    write_jsonl(tmp_path / "www" / "a.jsonl", DOCUMENTS)
    plain, signatures = remote_inputs.Fetcher.run, {"old"}

    def expire(self: Any) -> None:
        plain(self)
        signatures.clear()

    monkeypatch.setattr(remote_inputs.Fetcher, "run", expire)
    with file_server(tmp_path / "www", signatures=signatures) as address:
        ran = neardup("dedup", signed(address, "old"), "-o", "out")
    assert ran.code == 0, ran.err
    assert "not known whether it has changed" in ran.err and "X-Amz" not in ran.err
    assert (tmp_path / "out" / "kept" / "a.jsonl").read_bytes() == KEPT


@pytest.mark.parametrize(
    ("url", "cure"),
    [("hf://pages", "hf://datasets/OWNER/NAME"), ("http://127.0.0.1:1/\u00e4.jsonl", "%XX")],
)
def test_urls_that_can_not_be(s3: Any, url: str, cure: str) -> None:
    pytest.importorskip("huggingface_hub")
    refused(neardup("dedup", url, "-o", "out", "-q"), 1, cure)
