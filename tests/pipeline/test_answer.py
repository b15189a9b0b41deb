"""The engine's answer is the definition's, and the library's, whatever is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support import engine

import neardup
from neardup import reference
from neardup.spec import Spec

QUESTIONS: list[engine.Row] = [
    {},
    {"limit": 1},
    {"limit": 2, "threshold": 0.3},
    {"limit": 3, "threshold": 0.7},
    {"keep": "longest"},
    {"keep": "max:score", "limit": 2},
    {"keep": "min:score"},
    {"within": "lang"},
    {"within": "lang", "keep": "max:score", "limit": 1},
    {"verify": "estimate"},
    {"verify": "none", "limit": 2},
    {"measure": "containment"},
    {"measure": "containment", "keep": "longest", "limit": 2, "threshold": 0.7},
    {"bands": None, "rows": None, "tables": "2x3,3x2"},
    {"tables": 2, "rows": 1},
    {"cluster": "components"},
    {"cluster": "components", "verify": "estimate", "keep": "longest"},
    {"cluster": "components", "verify": "none", "threshold": 1.0},
]


def by_library(documents: list[engine.Row], **asked: Any) -> neardup.Result:
    schema = pa.schema(
        [("id", pa.string()), ("text", pa.string()), ("score", pa.float64()), ("lang", pa.string())]
    )
    return neardup.dedup(pa.Table.from_pylist(documents, schema), **engine.SMALL | asked)


@pytest.mark.parametrize("asked", QUESTIONS, ids=str)
def test_the_answer_is_the_library_s(tmp_path: Path, asked: engine.Row) -> None:
    removed = 0
    for seed in range(4):
        documents = engine.rows(seed, 150 if seed else 3, words=12 + 10 * seed)
        paths = engine.write(tmp_path / f"in{seed}", documents)
        got = engine.go(paths, tmp_path / f"out{seed}", workers=1 + seed % 2, **asked)
        want = by_library(documents, **asked)
        assert [
            (row["id"], row["witness"], row["similarity"], row["exact"]) for row in got.removed
        ] == [(r.id, r.witness, r.similarity, r.exact) for r in want.removed]
        assert [(row["id"], row["size"]) for row in got.clusters] == sorted(
            ((c.id, c.size) for c in want.clusters), key=lambda one: int(one[0][1:])
        )
        assert [(row["id"], row["reason"]) for row in got.rejected] == [
            (r.id, r.reason) for r in want.rejected
        ]
        assert kept_ids(got) == want.kept
        removed += len(got.removed)
    assert removed > 30, "or this has seen nothing"


def kept_ids(got: engine.Outcome) -> list[str]:
    lines = b"".join(data for _, data in sorted(got.kept.items())).splitlines()
    return [line.split(b'"id": "')[1].split(b'"')[0].decode() for line in lines]


@pytest.mark.parametrize("measure", ["jaccard", "containment"])
@pytest.mark.parametrize("limit", [1, 2, 5, 256])
def test_the_answer_is_the_definition(tmp_path: Path, limit: int, measure: str) -> None:
    spec, by = Spec(size=2, slots=engine.SLOTS), getattr(reference, measure)
    full = 0
    for seed in range(20):
        documents = engine.rows(seed, 40, words=6)
        threshold = [0.3, 0.5, 0.75, 1.0][seed % 4]
        want = reference.dedup(
            [row["text"] for row in documents],
            spec,
            engine.BANDS,
            engine.ROWS,
            threshold,
            limit,
            measure=by,
        )
        got = engine.go(
            engine.write(tmp_path / f"in{seed}", documents),
            tmp_path / f"out{seed}",
            threshold=threshold,
            limit=limit,
            measure=measure,
            shard=300 + 70 * seed,
            chunk=100 + 50 * seed,
        )
        answer: list[tuple[int, float] | None] = [None] * len(documents)
        for row in got.removed:
            answer[int(row["id"][1:])] = (int(row["witness"][1:]), row["similarity"])
        for row in got.rejected:
            answer[int(row["id"][1:])] = (int(row["id"][1:]), 0.0)
        assert answer == want
        full += limit < 256 and got.counts["kept"] > limit
    assert full > 10 or limit == 256


@pytest.mark.parametrize("measure", ["jaccard", "containment"])
def test_pairs_are_the_library_s(tmp_path: Path, measure: str) -> None:
    documents = engine.rows(5, 120)
    paths = engine.write(tmp_path / "in", documents)
    engine.go(paths, tmp_path / "out", others={"pairs": True}, keep="longest", measure=measure)
    got = [tuple(row.values()) for row in engine.table(tmp_path / "out", "pairs")]
    want = by_library(documents, keep="longest", measure=measure).pairs
    assert got == [(pair.a, pair.b, pair.similarity) for pair in want]
    assert len(got) > 50


def test_nothing_at_all_is_an_answer_too(tmp_path: Path) -> None:
    for name, content in (("none", b""), ("blank", b"\n\n"), ("one", b'{"text": "alone"}\n')):
        (tmp_path / f"{name}.jsonl").write_bytes(content)
        for cluster in ("stars", "components"):
            out = tmp_path / f"{name}-{cluster}"
            got = engine.go(
                [tmp_path / f"{name}.jsonl"], out, cluster=cluster, others={"pairs": True}
            )
            assert got.removed == got.clusters == got.rejected == []
            assert got.kept == {f"{name}.jsonl".encode(): content if name == "one" else b""}


def test_copies_of_one_page_are_never_compared(tmp_path: Path) -> None:
    documents = [{"id": f"d{number}", "text": "a page that all copy"} for number in range(900)]
    paths = engine.write(tmp_path / "in", documents)
    got = engine.go(paths, tmp_path / "out")
    assert {row["witness"] for row in got.removed} == {"d0"}
    assert (got.counts["removed"], got.counts["identical"]) == (899, 899)


def test_strict_names_the_row_whatever_the_shards(tmp_path: Path) -> None:
    documents = [{"text": f"text number {number}"} for number in range(200)]
    documents[137] = {"text": " "}
    paths = engine.write(tmp_path / "in", documents, files=1)
    for shard in (300, 1_000, 1 << 20):
        with pytest.raises(neardup.errors.RowError, match="row 137: empty"):
            engine.go(paths, tmp_path / "out", shard=shard, chunk=100, others={"strict": True})
