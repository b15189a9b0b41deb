"""Written rows get their cluster, its size, the witness and the similarity, in every format."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import batch_engine
from support.command_line import (
    DOCUMENTS,
    WRITERS,
    Row,
    dedup,
    neardup,
    read_rows,
    refused,
    table,
    write_jsonl,
)

import neardup as library
from neardup.pipeline.stages import annotate as annotate_stage

NEW = ("cluster", "cluster_size", "witness", "similarity")


def expected(out: Path, rows: list[Row], what: str) -> list[Row]:
    """The new columns by the tables of the run, for each row that is written."""
    removed = {row["row"]: row for row in table(out, "removed")}
    rejected = {row["row"] for row in table(out, "rejected")}
    sizes = Counter(row["cluster"] for row in removed.values() if row["cluster"] != row["row"])
    found = []
    for number, row in enumerate(rows):
        if number in rejected or (what == "kept" and number in removed):
            continue
        copy = removed.get(number)
        cluster = number if copy is None else copy["cluster"]
        found.append(
            row
            | {
                "cluster": cluster,
                "cluster_size": sizes[cluster] + 1,
                "witness": copy and copy["witness"],
                "similarity": copy and copy["similarity"],
            }
        )
    return found


def typed(row: Row) -> Row:
    """A row as it was before CSV."""
    return row | {
        "cluster": int(row["cluster"]),
        "cluster_size": int(row["cluster_size"]),
        "witness": row["witness"] or None,
        "similarity": float(row["similarity"]) if row["similarity"] not in ("", None) else None,
    }


@pytest.mark.parametrize("what", ["kept", "all"])
@pytest.mark.parametrize("ending", sorted(WRITERS))
def test_rows_get_the_columns_in_their_own_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, what: str
) -> None:
    monkeypatch.setattr(annotate_stage, "BLOCK", 5)
    source = tmp_path / f"in.{ending}"
    WRITERS[ending](source, DOCUMENTS)
    out = tmp_path / "out"
    record = dedup(source, "-o", out, "--annotate", what)
    assert record["parameters"]["annotate"] == what
    rows = [typed(row) for row in read_rows(out / "kept" / source.name)]
    assert rows == expected(out, DOCUMENTS, what)
    assert len(rows) == record["counts"]["kept"] + (what == "all") * record["counts"]["removed"]
    assert any(row["cluster_size"] > 2 for row in rows)


@pytest.mark.parametrize("target", ["jsonl", "json", "parquet", "arrow", "jsonl.gz"])
@pytest.mark.parametrize("ending", ["jsonl", "json", "csv", "parquet"])
def test_rows_get_the_columns_in_one_file(tmp_path: Path, ending: str, target: str) -> None:
    source, one = tmp_path / f"in.{ending}", tmp_path / f"one.{target}"
    WRITERS[ending](source, DOCUMENTS)
    dedup(source, "-o", tmp_path / "out")
    ran = neardup("dedup", source, "-o", one, "--annotate", "all", "-q")
    assert ran.code == 0, ran.err
    wanted = [
        {name: row[name] for name in ("id", *NEW)}
        for row in expected(tmp_path / "out", DOCUMENTS, "all")
    ]
    found = read_rows(one)
    assert list(found[0])[-4:] == list(NEW)
    assert [{name: row[name] for name in ("id", *NEW)} for row in found] == wanted


def test_texts_get_the_columns_in_one_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "in" / f"{name}.txt").write_text("one and the same" if name < "c" else "else")
    ran = neardup("dedup", tmp_path / "in", "-o", tmp_path / "x.jsonl", "--annotate", "kept", "-q")
    assert ran.code == 0, ran.err
    found = [
        (row["cluster"], row["cluster_size"], row["witness"])
        for row in read_rows(tmp_path / "x.jsonl")
    ]
    assert found == [(0, 2, None), (2, 1, None)]
    folder = neardup("dedup", tmp_path / "in", "-o", tmp_path / "y", "--annotate", "all", "-q")
    refused(folder, 2, "is text, without columns", "-o NAME.jsonl")


def test_bytes_of_records_stay(tmp_path: Path) -> None:
    """White space, byte order mark, line ends and the last line without one."""
    source = tmp_path / "in.jsonl"
    source.write_bytes(b'\xef\xbb\xbf{"text": "a b c" , "n":1e3}  \r\n\n{"text":"d e f"}')
    dedup(source, "-o", tmp_path / "out", "--annotate", "kept")
    new = b',"cluster":%d,"cluster_size":1,"witness":null,"similarity":null}'
    assert (tmp_path / "out" / "kept" / "in.jsonl").read_bytes() == (
        b'\xef\xbb\xbf{"text": "a b c" , "n":1e3' + new % 0 + b'  \r\n{"text":"d e f"' + new % 1
    )
    source = tmp_path / "in.csv"
    source.write_bytes(b'id,text\r\n"x, ""y""",a b c\r\n2,"d\r\ne"\r\n3,a b c')
    dedup(source, "-o", tmp_path / "csv", "--annotate", "all")
    written = (tmp_path / "csv" / "kept" / "in.csv").read_bytes()
    assert written == (
        b"id,text,cluster,cluster_size,witness,similarity\r\n"
        b'"x, ""y""",a b c,0,2,,\r\n2,"d\r\ne",1,1,,\r\n3,a b c,0,2,"x, ""y""",1.0'
    )
    assert len(list(csv.reader(io.StringIO(written.decode(), newline="")))) == 4
    source = tmp_path / "in.json"
    source.write_bytes(b'[\n  {"text": "a b c"},\n  {"text": "d e f"}\n]\n')
    dedup(source, "-o", tmp_path / "json", "--annotate", "kept")
    assert (tmp_path / "json" / "kept" / "in.json").read_bytes() == (
        b'[\n  {"text": "a b c"' + new % 0 + b',\n  {"text": "d e f"' + new % 1 + b"\n]\n"
    )


@pytest.mark.parametrize("ending", ["jsonl", "json", "csv", "parquet", "arrow"])
def test_column_that_exists_is_refused(tmp_path: Path, ending: str) -> None:
    source = tmp_path / f"in.{ending}"
    WRITERS[ending](source, [row | {"similarity": 1.0} for row in DOCUMENTS])
    ran = neardup("dedup", source, "-o", tmp_path / "out", "--annotate", "all", "-q")
    refused(ran, 2, "has a column 'similarity' already", "rename or drop it")


def test_column_of_a_later_row_is_refused(tmp_path: Path) -> None:
    rows = [{"text": f"text {n}"} for n in range(3_000)]
    rows[-1]["clu\u0073ter"] = 1
    source = write_jsonl(tmp_path / "in.jsonl", rows)
    line = source.read_bytes().replace(b'"cluster"', b'"clu\\u0073ter"')
    source.write_bytes(line)
    ran = neardup("dedup", source, "-o", tmp_path / "out", "--annotate", "kept", "-q")
    refused(ran, 2, "has a column 'cluster' already")
    assert not (tmp_path / "out" / "kept").exists()
    source.write_bytes(line.replace(b'"clu\\u0073ter": 1', b'"in": {"cluster": 1}'))
    assert neardup("dedup", source, "-o", tmp_path / "out", "--annotate", "kept", "-q").code == 0


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", DOCUMENTS)
    asked = ("dedup", source, "-o", tmp_path / "out", "-q", "--annotate")
    refused(neardup(*asked, "some"), 2, "--annotate", "kept", "all")
    refused(neardup(*asked, "all", "--no-kept"), 2, "--no-kept")
    refused(neardup(*asked, "all", "--merge-rows", "id"), 2, "--merge-rows")


@pytest.mark.parametrize("block", [7, 1 << 16])
def test_annotations_of_many_files_whatever_the_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    """With an earlier corpus, and without the limits, which are about removals."""
    monkeypatch.setattr(annotate_stage, "BLOCK", block)
    rows = batch_engine.rows(5, 120)
    inputs = batch_engine.write(tmp_path / "in", rows, files=4)
    earlier = batch_engine.write(tmp_path / "earlier", batch_engine.rows(5, 30), files=1)
    found = {}
    for what in (None, "kept", "all"):
        others: dict[str, Any] = {"against": (earlier[0],), "annotate": what}
        batch_engine.go(inputs, tmp_path / str(what), others=others)
        kept = tmp_path / str(what) / "kept"
        found[what] = [
            json.loads(line) for path in sorted(kept.rglob("*.jsonl")) for line in path.open()
        ]
    removed = {row["id"]: row for row in table(tmp_path / "all", "removed")}
    sizes = {row["cluster"]: row["size"] for row in table(tmp_path / "all", "clusters")}
    plain = [{k: v for k, v in row.items() if k not in NEW} for row in found["kept"]]
    assert plain == found[None]
    assert [row for row in found["all"] if row["id"] not in removed] == found["kept"]
    assert len(found["all"]) == len(found["kept"]) + len(removed)
    for row in found["all"]:
        copy = removed.get(row["id"])
        assert row["witness"] == (copy and copy["witness"])
        assert row["similarity"] == (copy and copy["similarity"])
        assert row["cluster_size"] == sizes.get(row["cluster"], 1)
        assert copy is None or row["cluster"] == copy["cluster"]


def test_limits_are_not_for_rows_that_stay(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", [{"text": "the same"}] * 5)
    asked = ("dedup", source, "-q", "--max-removed", 0.1)
    refused(neardup(*asked, "-o", tmp_path / "a", "--annotate", "kept"), 3, "4 of 5 documents")
    assert neardup(*asked, "-o", tmp_path / "b", "--annotate", "all").code == 0
    with library.dedup_files(source, annotate="all") as result:
        assert len(result.kept[0].read_text().splitlines()) == 5
