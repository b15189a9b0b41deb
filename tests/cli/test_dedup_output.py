"""OUT holds every decision: the tables, run.json, and what the terminal shows."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import xxhash
from support.command_line import (
    DOCUMENTS,
    TEXTS,
    Row,
    dedup,
    edited,
    expected,
    kept_rows,
    neardup,
    table,
    words,
    write_jsonl,
)

import neardup as package
from neardup import reference
from neardup.lsh.curve import Curve
from neardup.pipeline.run_inputs import parse_file
from neardup.spec import Spec

SCHEMAS = {
    "removed": "id file row witness witness_file witness_row similarity exact cluster",
    "clusters": "cluster id file row size",
    "rejected": "id file row reason",
    "pairs": "a b similarity",
}
TYPES = {
    "row": "int64",
    "witness_row": "int64",
    "cluster": "int64",
    "size": "int64",
    "similarity": "double",
    "exact": "bool",
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Row]:
    folder = tmp_path_factory.mktemp("run")
    source = write_jsonl(folder / "documents.jsonl", DOCUMENTS)
    record = dedup(source, "-o", folder / "out", "--pairs")
    return source, folder / "out", record


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_tables_have_the_documented_columns(ran: tuple[Path, Path, Row], name: str) -> None:
    schema = pq.read_schema(ran[1] / f"{name}.parquet")
    assert " ".join(schema.names) == SCHEMAS[name]
    for field in schema:
        assert str(field.type) == TYPES.get(field.name, "large_string")


def test_an_empty_run_has_all_tables_too(tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").touch()
    record = dedup(tmp_path / "none.jsonl", "-o", tmp_path / "out", "--pairs")
    assert not any(record["counts"].values())
    for name, columns in SCHEMAS.items():
        found = pq.read_table(tmp_path / "out" / f"{name}.parquet")
        assert (found.num_rows, " ".join(found.column_names)) == (0, columns)
    assert (tmp_path / "out" / "kept" / "none.jsonl").read_bytes() == b""


def test_out_holds_the_documented_files_only(ran: tuple[Path, Path, Row]) -> None:
    names = {path.name for path in ran[1].iterdir()}
    assert names == {
        "kept",
        "run.json",
        "report.html",
        "samples.parquet",
        *(f"{name}.parquet" for name in SCHEMAS),
    }


def test_stated_similarity_is_that_of_the_texts(
    ran: tuple[Path, Path, Row],
) -> None:
    shingles = [
        reference.shingles(reference.unit_hashes(reference.units(text, Spec()), Spec()), 5)
        for text in TEXTS
    ]
    removed = table(ran[1], "removed")
    assert len(removed) == 7
    kept = set(kept_rows(TEXTS))
    for row in removed:
        assert row["similarity"] >= 0.8
        assert row["similarity"] == reference.jaccard(
            shingles[row["row"]], shingles[row["witness_row"]]
        )
        assert row["exact"] is True
        assert row["cluster"] == row["witness_row"] in kept  # one file: its rows are the numbers
        assert DOCUMENTS[row["row"]]["id"] == row["id"]
        assert DOCUMENTS[row["witness_row"]]["id"] == row["witness"]


def test_clusters_are_the_kept_documents_with_copies(ran: tuple[Path, Path, Row]) -> None:
    source, out, _ = ran
    witnesses = [row["witness_row"] for row in table(out, "removed")]
    assert table(out, "clusters") == [
        {
            "cluster": row,
            "id": f"doc-{row}",
            "file": str(source),
            "row": row,
            "size": witnesses.count(row) + 1,
        }
        for row in sorted(set(witnesses))
    ]


def test_a_cluster_has_the_number_of_its_document_in_input_order(tmp_path: Path) -> None:
    first = write_jsonl(tmp_path / "z.jsonl", [{"text": edited(n)} for n in range(3)])
    (tmp_path / "empty.jsonl").touch()
    rows = [{"text": edited(9)}, {"text": None}, {"text": edited(9, 79)}, {"text": edited(1)}]
    second = write_jsonl(tmp_path / "a.jsonl", rows)
    dedup(first, tmp_path / "empty.jsonl", second, "-o", tmp_path / "out")
    found = [
        (r["file"], r["row"], r["witness_file"], r["witness_row"], r["cluster"])
        for r in table(tmp_path / "out", "removed")
    ]
    assert found == [(str(second), 2, str(second), 0, 3), (str(second), 3, str(first), 1, 1)]
    clusters = [(r["cluster"], r["row"]) for r in table(tmp_path / "out", "clusters")]
    assert clusters == [(1, 1), (3, 0)]
    assert table(tmp_path / "out", "rejected")[0]["id"] == f"{second}:1"


def test_pairs_are_all_similar_pairs_that_share_a_bucket(ran: tuple[Path, Path, Row]) -> None:
    hashes = [reference.unit_hashes(reference.units(text, Spec()), Spec()) for text in TEXTS]
    shingles = [reference.shingles(found, 5) for found in hashes]
    keys = [
        set(enumerate(reference.band_keys(reference.signature(found, Spec()), 21, 6)))
        for found in shingles
    ]
    wanted = [
        {"a": f"doc-{a}", "b": f"doc-{b}", "similarity": similarity}
        for a, b in combinations(range(len(TEXTS)), 2)
        if shingles[a]
        and shingles[b]
        and keys[a] & keys[b]
        and (similarity := reference.jaccard(shingles[a], shingles[b])) >= 0.8
    ]
    assert table(ran[1], "pairs") == wanted
    assert ran[2]["pairs"]["written"] == len(wanted) > len(table(ran[1], "removed"))


def test_run_json_has_spec_parameters_and_counts(ran: tuple[Path, Path, Row]) -> None:
    source, out, record = ran
    assert json.loads((out / "run.json").read_text("utf-8")) == record
    counts = record["counts"]
    assert counts["documents"] == len(TEXTS)
    assert counts["documents"] == counts["kept"] + counts["removed"] + counts["rejected"]
    assert counts["kept"] == len(kept_rows(TEXTS))
    assert counts["removed"] == len(table(out, "removed"))
    assert counts["rejected"] == len(table(out, "rejected")) == 1
    assert record["reasons"] == {"empty": 1}
    assert counts["identical"] == 3  # the capitals, the copy, the line break
    assert record["version"] == package.__version__
    assert record["fingerprint"] == Spec().fingerprint
    assert Spec.from_json(json.dumps(record["spec"])) == Spec()
    assert record["predicted"]["recall_at_threshold"] == Curve(21, 6).probability(0.8)
    assert {
        "threshold": 0.8,
        "bands": 21,
        "rows": 6,
        "keep": "first",
        "verify": "exact",
        "within": None,
        "text": "text",
    }.items() <= record["parameters"].items()
    data = source.read_bytes()
    (given,) = record["inputs"]
    assert parse_file(given.pop("source")).path == source
    assert given == {
        "file": str(source),
        "size": len(data),
        "documents": len(TEXTS),
        "xxh3_128": xxhash.xxh3_128_hexdigest(data),
    }
    seconds = record["seconds"]
    assert set(seconds) == {
        "sketch",
        "rank",
        "band",
        "match",
        "decide",
        "tables",
        "pairs",
        "filter",
        "total",
    }
    assert [stage["name"] for stage in record["stages"]] == list(seconds)[:-1]
    assert 0 < sum(seconds.values()) - seconds["total"] <= seconds["total"] + 0.001
    assert 10_000_000 < record["peak_memory_bytes"] < 10_000_000_000


def test_summary_of_a_run(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "documents.jsonl", DOCUMENTS)
    ran = neardup("dedup", source, "-o", tmp_path / "out")
    assert ran.code == 0
    first, second, *others = ran.out.splitlines()
    assert first == "17 documents   9 kept   7 removed (3 identical)   1 rejected"
    assert second == (
        "exact Jaccard >= 0.80 of word:5 shingles, 21 bands of 6: "
        "predicted recall at the threshold 0.9983"
    )
    text = "\n".join(others)
    assert "largest clusters    3 copies of doc-0   1 of doc-1   1 of doc-4" in text
    assert text.count("an example ") == 3
    assert "doc-2 removed, 0.97 similar to doc-0" in text
    assert "rejected            1 empty" in text
    assert f"{tmp_path}/out/report.html shows it" in text
    assert all(word not in ran.out + ran.err for word in words(1))


def test_quiet_prints_nothing(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "documents.jsonl", DOCUMENTS)
    ran = neardup("dedup", source, "-o", tmp_path / "out", "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert (tmp_path / "out" / "run.json").exists()


def test_no_kept_writes_decisions_only(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "documents.jsonl", DOCUMENTS)
    record = dedup(source, "-o", tmp_path / "out", "--no-kept")
    assert not (tmp_path / "out" / "kept").exists()
    assert len(table(tmp_path / "out", "removed")) == record["counts"]["removed"] == 7
    assert not (tmp_path / "out" / "pairs.parquet").exists()
    assert record["pairs"] is None


def test_ids_are_strings_or_file_and_row(tmp_path: Path) -> None:
    ids: list[object] = [7, "7", 1.5, True, None, 2**70, {"a": [1]}, "é\u2028"]
    rows = [{"id": id, "text": edited(1)} for id in ids] + [{"text": edited(1)}]
    source = write_jsonl(tmp_path / "a.jsonl", rows)
    dedup(source, "-o", tmp_path / "out")
    found = [r["id"] for r in table(tmp_path / "out", "removed")]
    assert found == [
        "7",
        "1.5",
        "true",
        f"{source}:4",
        str(2**70),
        '{"a":[1]}',
        "é\u2028",
        f"{source}:8",
    ]
    assert {r["witness"] for r in table(tmp_path / "out", "removed")} == {"7"}


def test_the_id_column_can_be_chosen(tmp_path: Path) -> None:
    rows = [{"id": n, "url": f"http://{n}", "body": edited(1)} for n in range(2)]
    source = write_jsonl(tmp_path / "a.jsonl", rows)
    dedup(source, "-o", tmp_path / "out", "--id", "url", "--text", "body")
    (removed,) = table(tmp_path / "out", "removed")
    assert (removed["id"], removed["witness"]) == ("http://1", "http://0")


def test_duplicate_ids_are_told_apart_by_file_and_row(tmp_path: Path) -> None:
    rows = [{"id": "same", "text": text} for text in TEXTS]
    dedup(write_jsonl(tmp_path / "a.jsonl", rows), "-o", tmp_path / "out")
    found = [(r["row"], r["witness_row"]) for r in table(tmp_path / "out", "removed")]
    assert found == [(row, v[0]) for row, v in enumerate(expected(TEXTS)) if v and v[1]]


def test_ids_that_are_the_texts_do_not_depend_on_other_lines(tmp_path: Path) -> None:
    rows = [{"id": "one two", "x": 1}, {"id": "one two", "x": 1}]
    for extra in (1, 1e300):
        rows[0]["x"] = extra
        out = tmp_path / str(extra)
        dedup(write_jsonl(tmp_path / "a.jsonl", rows), "-o", out, "--text", "id")
        assert [row["id"] for row in table(out, "removed")] == ["one two"]


def test_deeply_nested_line_with_an_unusual_id_is_read(tmp_path: Path) -> None:
    line = '{"id": 1e17, "text": "hello there", "n": ' + "[" * 990 + "]" * 990 + "}\n"
    source = tmp_path / "a.jsonl"
    source.write_text(line)
    assert dedup(source, "-o", tmp_path / "out")["counts"]["kept"] == 1
