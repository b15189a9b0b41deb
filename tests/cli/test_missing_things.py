"""What a command names and does not exist: exit code 2, one line with the name and the cure."""

from __future__ import annotations

import json
import tarfile
from io import BytesIO
from pathlib import Path

import pytest
from support.command_line import neardup, refused, words, write_jsonl

TEXT = " ".join(words(1))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus, a finished run and an index; nothing called `none`."""
    folder = tmp_path_factory.mktemp("place")
    rows = [{"id": f"doc-{n}", "text": " ".join(words(n))} for n in range(3)]
    corpus = write_jsonl(folder / "corpus.jsonl", rows)
    (folder / "empty").mkdir()
    assert neardup("dedup", corpus, "-o", folder / "run", "--quiet").code == 0
    assert neardup("index", "build", folder / "index", corpus, "--quiet").code == 0
    return folder


MISSING = [
    # inputs, however they are named
    ("dedup none.jsonl -o out", "no such file"),
    ("dedup none*.jsonl -o out", "no file matches"),
    ("dedup corpus.jsonl -o out --against none", "none"),
    ("dedup corpus.jsonl -o out --config none.toml", "config file"),
    ("exact none.jsonl -o out", "no such file"),
    ("plan --sample none.jsonl", "no such file"),
    ("tune none.jsonl -o out", "no such file"),
    ("evaluate none.tsv --corpus corpus.jsonl", "no such file"),
    ("index build new none.jsonl", "no such file"),
    ("index build new --from none", "no such folder"),
    ("index build new --from run", "--save-sketches"),
    ("index add index none.jsonl", "no such file"),
    ("index import new none.export", "neardup index export"),
    ("merge none run -o out", "no such folder"),
    ("query index --file none.txt", "no such file"),
    ("spec diff none index", "no such file"),
    # the folder of an index
    ("index stats none", "no such folder"),
    ("index stats empty", "holds no index"),
    ("index stats run", "holds a run, not an index"),
    ("index stats corpus.jsonl", "is a file"),
    ("query none text", "neardup index build"),
    ("index query run text", "holds a run, not an index"),
    ("index get none doc-1", "no such folder"),
    ("index clusters none", "no such folder"),
    ("index remove none doc-1", "no such folder"),
    ("index add none corpus.jsonl", "no such folder"),
    ("index verify none", "no such folder"),
    ("index compact none", "no such folder"),
    ("index export none file", "no such folder"),
    ("index retune none --threshold 0.9", "no such folder"),
    ("index reindex none --shingle char:5", "no such folder"),
    ("index convert none --bits 8", "no such folder"),
    # the folder of a run
    ("report none", "no finished run"),
    ("status none", "no run"),
    ("why none doc-1", "neither a finished run nor an index"),
    # a document, a key, an entry
    ("why run none", "no document 'none'"),
    ("why index none", "no document 'none'"),
    ("index get index none", "no document 'none'"),
    ("query index --explain --id none", "no document 'none'"),
    ("keys list --data none", "does not exist"),
    ("keys revoke none --data none", "does not exist"),
    ("keys revoke none --data index", "has no key 'none', and no others"),
    ("keys add name --data run", "holds a run, not an index"),
    ("cache show none --cache empty", "no entry 'none'"),
]


@pytest.mark.parametrize(("command", "message"), MISSING, ids=[command for command, _ in MISSING])
def test_what_does_not_exist_is_a_wrong_command_line(
    place: Path, monkeypatch: pytest.MonkeyPatch, command: str, message: str
) -> None:
    monkeypatch.chdir(place)
    before = [str(path) for path in place.rglob("*")]
    refused(neardup(*command.split()), 2, message)
    ours = [path for path in place.rglob("*") if not path.name.startswith(("lock", "index.sqlite"))]
    assert {str(path) for path in ours} <= set(before), "nothing is written"


def test_removing_a_missing_document_says_so_after_the_others_are_removed(place: Path) -> None:
    ran = neardup("index", "remove", place / "index", "none", "doc-2")
    assert (ran.code, ran.out) == (2, "1 removed\n")
    assert "no document 'none'" in ran.err and "--missing-ok" in ran.err


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://host:abc/x.jsonl", "http://host:...: the port"),
        ("https://host:70000/x.jsonl", "the port"),
        ("http://user:secret@host:0/x.jsonl", "http://host:...: the port"),
        ("http://me:secret/x.jsonl", "http://me:...: the port"),
        ("http:///x.jsonl", "no host"),
        ("http://:80/x.jsonl", "no host"),
    ],
)
def test_a_url_that_no_server_can_have_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, message: str
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("it is not tried again"))
    ran = neardup("dedup", url, "-o", tmp_path / "out")
    refused(ran, 2, message)
    assert "secret" not in ran.err and not (tmp_path / "out").exists()


def test_index_build_tells_what_was_not_read_as_dedup_does(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    with tarfile.open(folder / "pages.tar", "w") as archive:
        link = tarfile.TarInfo("link.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "a.txt"
        archive.addfile(link)
        member = tarfile.TarInfo("a.txt")
        member.size = len(TEXT)
        archive.addfile(member, BytesIO(TEXT.encode()))
    told = neardup("dedup", folder, "-o", tmp_path / "run").out.splitlines()
    wanted = [
        line.partition(";")[0] for line in told if line.startswith(("no documents", "not read"))
    ]
    assert len(wanted) == 2, told
    built = neardup("index", "build", tmp_path / "index", folder).out.splitlines()
    assert [line for line in built if line.startswith(("no documents", "not read"))] == wanted
    again = json.loads(neardup("index", "add", tmp_path / "index", folder, "--json").out)
    record = json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))
    assert again["not_documents"] == record["not_documents"] != {}


def test_a_key_comes_alone_on_standard_output_and_its_meaning_beside(tmp_path: Path) -> None:
    first = neardup("keys", "add", "a", "--data", tmp_path)
    assert first.out.startswith("neardup_") and first.out.count("\n") == 1
    assert "requests without a key are refused from now on" in first.err
    second = neardup("keys", "add", "b", "--data", tmp_path, "--scope", "read")
    assert "key b (read)" in second.err and "refused" not in second.err
