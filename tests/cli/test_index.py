"""neardup index, neardup query: an index from the command line."""

from __future__ import annotations

import json
import random

import pytest
from support.command_line import (
    DOCUMENTS,
    TEXTS,
    WRITERS,
    edited,
    expected,
    neardup,
    process,
    refused,
    write_jsonl,
)

from neardup.index.index import Index

USABLE = [row for row in DOCUMENTS if row["text"].strip()]


def index(*arguments):
    return neardup("index", *arguments)


def built(tmp_path, *options):
    ran = index(
        "build", tmp_path / "ix", write_jsonl(tmp_path / "in.jsonl", DOCUMENTS), "--json", *options
    )
    assert (ran.code, ran.err) == (0, ""), ran
    return tmp_path / "ix", json.loads(ran.out)


def add(tmp_path, folder, rows, *options):
    more = write_jsonl(tmp_path / "more.jsonl", rows)
    ran = index("add", folder, more, "--max-rejected", 1, "--json", *options)
    assert (ran.code, ran.err) == (0, ""), ran
    return json.loads(ran.out)["counts"]


@pytest.mark.parametrize("kind", [*WRITERS, "folder"])
def test_build_gives_the_answer_of_a_run(tmp_path, kind):
    given = tmp_path / f"in.{kind}"
    if kind == "folder":
        given.mkdir()
        for row in DOCUMENTS:
            (given / row["id"]).write_text(row["text"], newline="")
    else:
        WRITERS[kind](given, DOCUMENTS)
    ran = index("build", tmp_path / "ix", given, "--json")
    assert ran.code == 0, ran.err
    rows = sorted(DOCUMENTS, key=lambda row: row["id"]) if kind == "folder" else DOCUMENTS
    verdicts = expected([row["text"] for row in rows])
    counts = json.loads(ran.out)["counts"]
    assert counts["documents"] == len(rows)
    assert counts["new"] == sum(verdict is None for verdict in verdicts)
    assert counts["rejected"] == 1
    with Index.open(tmp_path / "ix", read_only=True) as found:
        for at, (row, verdict) in enumerate(zip(rows, verdicts, strict=True)):
            document = found.get(row["id"])
            if verdict is None:
                assert document.status == "new"
            elif verdict[0] == at:
                assert document is None
            else:
                assert (document.duplicate_of, document.similarity) == (
                    rows[verdict[0]]["id"],
                    verdict[1],
                )


def test_documents_without_an_id_get_file_and_row(tmp_path):
    rows = [{"body": text} for text in TEXTS]
    given = write_jsonl(tmp_path / "in.jsonl", rows)
    ran = index("build", tmp_path / "ix", given, "--text", "body")
    assert ran.code == 0
    assert ran.out.startswith("17 documents   ") and "rejected            1 empty" in ran.out
    assert " documents/s, " in ran.out and ran.err.startswith("neardup: indexing ")
    ran = neardup("query", tmp_path / "ix", TEXTS[2])
    assert ran.out.startswith(f"duplicate of {given}:0, ")


def test_many_commits_give_the_answer_of_one(tmp_path, monkeypatch):
    chance = random.Random(1)
    rows = [
        {"id": str(n), "text": edited(chance.randrange(60), chance.randrange(80))}
        for n in range(300)
    ]
    given = write_jsonl(tmp_path / "in.jsonl", rows)
    monkeypatch.setattr("neardup.index.load.TOGETHER", 7)
    monkeypatch.setattr("neardup.corpus.read.read_chunks.__defaults__", (2_000, None))
    assert index("build", tmp_path / "a", given, "-q", "--workers", "3").code == 0
    monkeypatch.undo()
    assert index("build", tmp_path / "b", given, "-q", "--workers", "1").code == 0
    with (
        Index.open(tmp_path / "a", read_only=True) as a,
        Index.open(tmp_path / "b", read_only=True) as b,
    ):
        for row in rows:
            one, other = a.get(row["id"]), b.get(row["id"])
            assert (one.number, one.cluster, one.similarity) == (
                other.number,
                other.cluster,
                other.similarity,
            )


def test_add_same_replaced_and_conflicting_documents(tmp_path):
    folder, record = built(tmp_path)
    again = add(tmp_path, folder, DOCUMENTS)
    assert (again["again"], again["new"], again["rejected"]) == (len(USABLE), 0, 1)
    other = [
        {"id": "doc-1", "text": edited(77)},
        {"id": "doc-1", "text": edited(78)},
        {"id": "x" * 1_025, "text": edited(79)},
    ]
    assert add(tmp_path, folder, other)["rejected"] == 3
    assert add(tmp_path, folder, other[:2], "--replace")["new"] == 2
    assert neardup("query", folder, edited(78)).out.startswith("duplicate of doc-1, 1.0000")
    assert neardup("query", folder, edited(77)).out == "new\n"
    assert record["index_documents"] == len(USABLE)


def test_strict_stops_and_names_the_document(tmp_path):
    rows = [{"id": "good", "text": edited(1)}, {"id": "bad", "text": None}]
    given = write_jsonl(tmp_path / "in.jsonl", rows)
    refused(index("build", tmp_path / "ix", given, "--strict", "-q"), 1, "'bad'", "text is null")
    assert not (tmp_path / "ix").exists()
    given = write_jsonl(tmp_path / "in.jsonl", [{"id": "empty", "text": " "}])
    refused(index("build", tmp_path / "ix", given, "--strict", "-q"), 1, "'empty'", "empty")


def test_a_build_that_fails_leaves_api_keys_alone(tmp_path):
    (tmp_path / "ix").mkdir()
    (tmp_path / "ix" / "api-keys.json").write_text("keys")
    first = write_jsonl(tmp_path / "in.jsonl", [{"id": "a", "text": 7}])
    ran = index("build", tmp_path / "ix", first, "--strict")
    assert ran.code == 1
    assert [path.name for path in (tmp_path / "ix").iterdir()] == ["api-keys.json"]


def test_options_and_config(tmp_path):
    config = tmp_path / "point.toml"
    config.write_text(
        'version = 1\n[dedup]\nthreshold = 0.6\nbands = 30\nrows = 4\nkeep = "first"\n'
    )
    folder, _ = built(tmp_path, "--config", config, "--shingle", "word:3", "--keep-texts")
    ran = index("stats", folder)
    assert "Jaccard >= 0.60 of word:3 shingles, 30 bands of 4" in ran.out
    assert "texts         kept" in ran.out
    stats = json.loads(index("stats", folder, "--json").out)
    assert stats["documents"] == len(USABLE) and stats["keep_texts"]
    config.write_text('version = 1\n[dedup]\nkeep = "longest"\n')
    given = tmp_path / "in.jsonl"
    for options, part in [
        (("--config", config), "keeps the first"),
        (("--strip", "lines:1%"), "--from a run"),
        (("--threshold", 2), "threshold"),
        (("--from", tmp_path), "either INPUT"),
        (("--text", "body"), "no column 'body'"),
    ]:
        refused(index("build", tmp_path / "other", given, "-q", *options), 2, part)
        assert not (tmp_path / "other").exists()


def test_folders_without_an_index_or_with_other_files_are_refused(tmp_path):
    folder, _ = built(tmp_path)
    given = tmp_path / "in.jsonl"
    refused(index("build", folder, given), 2, "holds an index", "neardup index add")
    refused(index("build", tmp_path, given), 2, "not empty")
    refused(index("add", tmp_path / "nowhere", given), 2, "holds no index", "index build")
    for command in (("query", tmp_path, "a"), ("stats", tmp_path), ("verify", tmp_path)):
        refused(index(*command), 2, "not an index")
    refused(index("query", tmp_path / "nowhere", "a"), 2, "holds no index")
    (folder / "g1" / "index.sqlite").write_bytes(b"something else")
    refused(index("stats", folder), 1, "damaged", "restore a copy")


def test_a_second_writer_is_refused_and_readers_are_not(tmp_path):
    folder, _ = built(tmp_path)
    given = tmp_path / "in.jsonl"
    with Index.open(folder) as writer:
        writer.add("later", edited(50))
        for command in (
            ("add", folder, given, "-q"),
            ("remove", folder, "doc-1"),
            ("compact", folder, "-q"),
        ):
            refused(index(*command), 1, "is written to by process", "over HTTP")
        assert neardup("query", folder, edited(50)).out.startswith("duplicate of later, 1.0000")
        assert index("get", folder, "later").code == 0
        assert index("verify", folder).out == f"{len(USABLE) + 1} documents, no problems\n"


def test_query_one_text(tmp_path):
    folder, _ = built(tmp_path)
    near = edited(1, 79)
    assert neardup("query", folder, near).out == (
        f"duplicate of doc-0, {expected([edited(1), near])[1][1]:.4f} similar, cluster 1\n"
    )
    (tmp_path / "text").write_text(near)
    assert index("query", folder, "--file", tmp_path / "text").out.startswith("duplicate of doc-0")
    answer = json.loads(neardup("query", folder, near, "--json").out)
    assert (answer["status"], answer["duplicate_of"], answer["id"]) == ("duplicate", "doc-0", None)
    explained = neardup("query", folder, near, "--explain").out
    for step in ("shingles", "slots", "identical", "look-ups", "candidates", "nearest", "decision"):
        assert f"\n{step} " in "\n" + explained
    assert "w1" not in explained
    assert json.loads(neardup("query", folder, near, "--explain", "--json").out)["slots"] == 128
    best = neardup("query", folder, near, "--similar", 3).out.splitlines()
    assert best[0].endswith(" doc-0") and len(best) <= 3
    assert json.loads(neardup("query", folder, near, "--similar", 1, "--json").out)[0]["cluster"]
    assert neardup("query", folder, "nothing like it", "--similar", 1).out.startswith("no kept")
    assert neardup("query", folder, " ").out == "rejected: empty\n"


def test_contradicting_query_options_are_refused(tmp_path):
    folder, _ = built(tmp_path)
    refused(neardup("query", folder, "a", "--file", "b"), 2, "not both")
    refused(neardup("query", folder, "a", "--explain", "--similar", 2), 2, "--similar")
    refused(neardup("query", folder, "a", "--explain", "--id", "doc-2"), 2, "leave out the text")
    refused(neardup("query", folder, "--explain"), 2, "one text", "--id ID")
    refused(neardup("query", folder, "--file", tmp_path / "none"), 2, "no such file")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    refused(neardup("query", folder, "--file", tmp_path / "binary"), 1, "not UTF-8")


def test_a_stored_document_is_explained(tmp_path):
    folder, _ = built(tmp_path, "--keep-texts")
    copy = json.loads(index("get", folder, "doc-2", "--json", "--text").out)
    assert (copy["duplicate_of"], copy["text"]) == ("doc-0", DOCUMENTS[2]["text"])
    assert index("get", folder, "doc-2", "--text").out.endswith(f"\n\n{copy['text']}\n")
    said = index("query", folder, "--id", "doc-2", "--explain").out.splitlines()
    names = [line.split()[0] for line in said]
    assert names[:6] == ["document", "shingles", "witness", "similarity", "shared", "buckets"]
    assert f"duplicate of doc-0, {copy['similarity']:.4f} similar, cluster 1: " in "\n".join(said)
    marked = [line for line in said if line.startswith(("its witness", "itself"))]
    assert len(marked) == 2 and all("[" in line for line in marked)
    found = json.loads(index("query", folder, "--id", "doc-2", "--explain", "--json").out)
    assert found["witness"]["id"] == "doc-0" and found["tables"] == 21
    kept = index("query", folder, "--id", "doc-0", "--explain").out
    assert "decision      kept: " in kept and "itself" not in kept
    refused(index("query", folder, "--id", "none", "--explain"), 2, "no document 'none'")


def test_get_text_of_an_index_without_texts_is_refused(tmp_path):
    folder, _ = built(tmp_path)
    refused(index("get", folder, "doc-2", "--text"), 2, "no text of 'doc-2'", "--keep-texts")
    assert "itself" not in index("query", folder, "--id", "doc-2", "--explain").out


def test_query_json_lines(tmp_path):
    folder, _ = built(tmp_path)
    lines = [json.dumps({"id": 7, "text": edited(1)}), "no JSON", json.dumps({"text": "all new"})]
    ran = process("query", folder, input="\n".join(lines))
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [(one["id"], one["status"], one["reason"]) for one in found] == [
        ("7", "duplicate", None),
        (None, "rejected", "not JSON"),
        (None, "new", None),
    ]
    assert found[0]["duplicate_of"] == "doc-0"


def test_get_and_remove(tmp_path):
    folder, _ = built(tmp_path)
    shown = index("get", folder, "doc-2").out
    assert "duplicate of  doc-0 (" in shown and "cluster       1, " in shown
    found = json.loads(index("get", folder, "doc-2", "--json").out)
    assert found["duplicate_of"] == "doc-0" and "doc-2" in found["members"]
    refused(index("get", folder, "none"), 2, "no document 'none'")
    assert index("remove", folder, "doc-0", "doc-1").out == "2 removed\n"
    assert index("get", folder, "doc-2").out.splitlines()[1] == "status        new"
    ran = index("remove", folder, "doc-0", "doc-4")
    assert (ran.code, ran.out) == (2, "1 removed\n") and "no document 'doc-0'" in ran.err
    assert index("remove", folder, "doc-0", "--missing-ok").out == "0 removed\n"
    assert " now" in index("compact", folder).out
    assert index("verify", folder).code == 0


def test_remove_ids_of_a_file(tmp_path):
    folder, _ = built(tmp_path)
    (tmp_path / "ids").write_text("doc-0\n\ndoc-1\n")
    assert index("remove", folder, "doc-3", "--ids-file", tmp_path / "ids").out == "3 removed\n"
    refused(index("remove", folder), 2, "give their ids, or --ids-file")
    refused(index("remove", folder, "--ids-file", tmp_path / "none"), 2, "no such file")
    ran = process("index", "remove", folder, "--ids-file", "-", input="doc-4\ndoc-0\n")
    assert (ran.returncode, ran.stdout) == (2, "1 removed\n") and "'doc-0'" in ran.stderr
    assert index("verify", folder).code == 0


def test_forget_documents_by_age(tmp_path):
    folder = tmp_path / "ix"
    with Index.open(folder, clock=lambda: 1e9) as old:
        old.add_batch(["a", "b"], [edited(1), edited(1, 79)], metadata=[{"seen": "2001"}, None])
    with Index.open(folder) as writer:
        writer.add("c", edited(1, 78))
        shown = index("forget", folder, "--older-than", "30d", "--dry-run").out
        assert shown.startswith("2 would be removed, which were added before 20")
        assert shown.endswith(f"Z; 3 documents in {folder}\n")
        refused(index("forget", folder, "--older-than", "30d"), 1, "is written to by process")
    ran = index("forget", folder, "--older-than", "30d", "--by", "seen", "--dry-run", "--json")
    result = json.loads(ran.out)
    assert (result["documents"], result["undated"], result["index_documents"]) == (1, 2, 3)
    refused(
        index("forget", folder, "--older-than", "30d", "--by", "saw"),
        2,
        "a date in the field 'saw'",
    )
    for wrong in ("-3d", "0d", "30", "soon"):
        refused(index("forget", folder, f"--older-than={wrong}"), 2, "--older-than")
    refused(index("forget", folder), 2, "Missing option '--older-than'")
    refused(index("forget", tmp_path / "none", "--older-than", "1d"), 2, "holds no index")
    assert index("forget", folder, "--older-than", "30d").out.startswith("2 removed, which were")
    assert index("get", folder, "c").out.splitlines()[1] == "status        new"
    assert index("verify", folder).code == 0


def test_verify_lists_problems(tmp_path):
    folder, _ = built(tmp_path)
    file = folder / "g1" / "index.sqlite"
    data = bytearray(file.read_bytes())
    at = data.index(b"doc-5")
    data[at : at + 5] = b"doc-X"
    file.write_bytes(data)
    ran = index("verify", folder)
    assert ran.code == 1
    assert "checksum of document" in ran.out + ran.err


def test_export_and_import(tmp_path):
    folder, _ = built(tmp_path)
    file = tmp_path / "backup"
    assert index("export", folder, file, "-q").out == ""
    refused(index("export", folder, file), 2, "--force")
    assert index("export", folder, file, "--force").out.startswith(f"{len(USABLE)} documents, ")
    ran = index("import", tmp_path / "copy", file)
    assert ran.out == f"{len(USABLE)} documents in {tmp_path / 'copy'}\n"
    assert "API keys" not in index("export", folder, file, "--force").out
    assert neardup("keys", "add", "someone", "--data", folder).code == 0
    assert "(api-keys.json) are not exported" in index("export", folder, file, "--force").out
    assert neardup("spec", "diff", file, tmp_path / "copy").code == 0
    refused(index("import", tmp_path / "copy", file, "-q"), 2, "holds an index")
    file.write_bytes(file.read_bytes()[:-100])
    refused(index("import", tmp_path / "third", file, "-q"), 1, "damaged", "export the index again")


def test_build_from_a_run(tmp_path):
    given = write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)
    assert neardup("dedup", given, "-o", tmp_path / "run", "--save-sketches", "-q").code == 0
    ran = index("build", tmp_path / "ix", "--from", tmp_path / "run")
    kept = sum(verdict is None for verdict in expected(TEXTS))
    assert ran.out.startswith(f"{len(USABLE)} documents   {kept} kept   ")
    assert "estimated by signatures" in ran.out
    ran = neardup("query", tmp_path / "ix", edited(1, 79))
    assert "doc-0" in ran.out
    refused(index("build", tmp_path / "b", "--from", tmp_path / "run", "--slots", 64), 2, "--slots")
    refused(index("build", tmp_path / "b", "--from", tmp_path / "in.jsonl"), 2, "--save-sketches")
    refused(index("build", tmp_path / "b"), 2, "either INPUT")


def test_index_with_a_key_needs_it(tmp_path):
    for name in ("key", "other"):
        (tmp_path / name).write_text(name.encode().hex().ljust(32, "0"))
        (tmp_path / name).chmod(0o600)
    folder, _ = built(tmp_path, "--hash", "siphash", "--key-file", tmp_path / "key")
    key = ("--key-file", tmp_path / "key")
    assert neardup("query", folder, edited(1), *key).out.startswith("duplicate of doc-0")
    assert index("stats", folder, *key).code == 0
    refused(neardup("query", folder, edited(1)), 2, "key", "is missing")
    refused(neardup("query", folder, "a", "--key-file", tmp_path / "other"), 1, "is needed")
    assert index("export", folder, tmp_path / "file", "-q", *key).code == 0
    assert index("import", tmp_path / "copy", tmp_path / "file", "-q").code == 0
    assert neardup("query", tmp_path / "copy", edited(1), *key).out.startswith("duplicate of doc-0")


def test_retune_without_options_is_refused(tmp_path):
    folder, _ = built(tmp_path)
    refused(index("retune", folder), 2, "no change requested")
    ran = index("retune", folder, "--bands", 50, "--rows", 5, "-q")
    refused(ran, 2, "250 slots, there are 128", "neardup index reindex --slots 250")


def test_damaged_snapshot_is_rebuilt_and_reported_once(tmp_path):
    folder, _ = built(tmp_path)
    assert index("compact", folder, "-q").code == 0
    (folder / "g1" / "snapshot").write_bytes(b"something else")
    ran = index("compact", folder)
    assert "its tables are built again from the stored documents" in ran.err
    assert "run again" not in ran.err


def test_spec_diff(tmp_path):
    folder, _ = built(tmp_path)
    assert neardup("dedup", tmp_path / "in.jsonl", "-o", tmp_path / "run", "-q").code == 0
    plain, narrow, other = tmp_path / "plain.json", tmp_path / "narrow.json", tmp_path / "c.toml"
    plain.write_text(neardup("spec", "--json").out)
    narrow.write_text(neardup("spec", "--json", "--bits", 8).out)
    other.write_text("version = 1\n[dedup]\nslots = 64\nshingle = 'char:9'\n")
    for side in (plain, tmp_path / "run"):
        ran = neardup("spec", "diff", folder, side)
        assert (ran.code, ran.out.splitlines()[-1][:6]) == (0, "equal:")
    for a, b in ((folder, narrow), (narrow, folder)):
        ran = neardup("spec", "diff", a, b)
        assert ran.code == 1
        assert "convert --bits 8" in ran.out and f"the slots of {folder}" in ran.out
    ran = neardup("spec", "diff", plain, other)
    assert ran.code == 1
    assert "slots       128 against 64" in ran.out and "unit        word against char" in ran.out
    assert "reindex" in ran.out
    told = json.loads(neardup("spec", "diff", plain, other, "--json").out)
    assert set(told["differences"]) == {"unit", "size", "slots"} and not told["equal"]
    refused(neardup("spec", "diff", plain, tmp_path / "none"), 2, "no such file")
    refused(neardup("spec", "diff", plain, tmp_path / "in.jsonl"), 2, "has no specification")
    refused(neardup("spec", "diff", plain, tmp_path), 2, "has no specification")


def test_every_field_of_a_specification_has_a_meaning():
    from dataclasses import fields

    from neardup.cli.spec import MEANING
    from neardup.spec import Spec

    assert list(MEANING) == [field.name for field in fields(Spec)]


def test_clusters_are_listed_in_pages(tmp_path):
    folder, _ = built(tmp_path)
    page = json.loads(index("clusters", folder, "--most", "1", "--json").out)
    (largest,) = page["clusters"]
    copies = json.loads(index("get", folder, largest["id"], "--json").out)["members"]
    assert largest["size"] == 1 + len(copies) >= 2
    printed = index("clusters", folder).out.splitlines()
    assert printed[0].split() == ["documents", "cluster", "kept", "document"]
    assert printed[1].split() == [str(largest["size"]), str(largest["number"]), largest["id"]]
    refused(index("clusters", folder, "--after", "page 2"), 2, "the page before")
    refused(index("clusters", folder, "--most", "0"), 2, "from 1 to 10,000")
    if page["next"]:
        rest = json.loads(index("clusters", folder, "--after", page["next"], "--json").out)
        assert largest not in rest["clusters"] and rest["clusters"]


def test_ids_with_control_characters_can_t_command_the_terminal(tmp_path):
    name, text = "a\x1b]0;owned\x07\x9b2J\nb", " ".join(f"w{n}" for n in range(40))
    rows = [{"id": name, "text": text}, {"id": f"{name}2", "text": f"{text} more"}]
    corpus = tmp_path / "c.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert index("build", tmp_path / "i", corpus, "--quiet").code == 0
    printed = [
        index("query", tmp_path / "i", text).out,
        index("query", tmp_path / "i", text, "--similar", "3").out,
        index("query", tmp_path / "i", text, "--explain").out,
        index("query", tmp_path / "i", "--id", name).out,
        index("get", tmp_path / "i", f"{name}2").out,
        index("clusters", tmp_path / "i").out,
        index("remove", tmp_path / "i", f"{name}3").err,
        index("get", tmp_path / "i", f"{name}3").err,
        neardup("why", tmp_path / "i", f"{name}2", name).out,
    ]
    for out in printed:
        assert "owned" in out
        assert all(c.isprintable() or c == "\n" for c in out), out
        assert not any(line.startswith("b") for line in out.splitlines()), out
