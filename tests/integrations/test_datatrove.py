"""The step for datatrove, in pipelines of its own executor."""

from __future__ import annotations

import gzip
import json

import pytest
from datatrove.data import Document
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter

import neardup
from neardup.errors import ColumnError, ParameterError
from neardup.integrations.datatrove import NearDuplicateFilter

PAGE = " ".join(f"word{i}" for i in range(60))
ROWS = [
    {"id": "a", "text": PAGE, "score": 1},
    {"id": "b", "text": PAGE + " again", "score": 2},
    {"id": "c", "text": "something else", "score": 3},
    {"id": "d", "text": PAGE.upper(), "score": 4},
]


def documents() -> list[Document]:
    return [Document(row["text"], row["id"], metadata={"score": row["score"]}) for row in ROWS]


def written(folder) -> list[dict]:
    return [
        json.loads(line)
        for file in sorted(folder.glob("*.jsonl.gz"))
        for line in gzip.open(file, "rt", encoding="utf-8")
    ]


def test_pipeline_drops_near_duplicates_and_writes_them_elsewhere(tmp_path):
    (tmp_path / "in").mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "in/x.jsonl").write_text(lines)
    step = NearDuplicateFilter(
        threshold=0.8, exclusion_writer=JsonlWriter(str(tmp_path / "dropped"))
    )
    pipeline = [JsonlReader(str(tmp_path / "in")), step, JsonlWriter(str(tmp_path / "out"))]
    LocalPipelineExecutor(pipeline, tasks=1, logging_dir=str(tmp_path / "logs")).run()
    assert [row["id"] for row in written(tmp_path / "out")] == ["a", "c"]
    dropped = written(tmp_path / "dropped")
    assert [(row["id"], row["metadata"]["duplicate_of"]) for row in dropped] == [
        ("b", "a"),
        ("d", "a"),
    ]
    stats = json.loads((tmp_path / "logs/stats.json").read_text())
    counted = next(step["stats"] for step in stats if "neardup" in step["name"])
    assert (counted["total"], counted["dropped"]) == (4, 2)


def test_metadata_are_columns():
    step = NearDuplicateFilter(keep="max:score", within=None)
    assert [document.id for document in step(iter(documents()))] == ["c", "d"]
    with pytest.raises(ColumnError, match="language"):
        list(NearDuplicateFilter(within="language")(iter(documents())))


def test_documents_without_a_text_are_passed_on_and_no_documents_are_fine():
    rows = [*documents(), Document("", "empty")]
    assert [document.id for document in NearDuplicateFilter()(iter(rows))] == ["a", "c", "empty"]
    assert list(NearDuplicateFilter()(None)) == []


def test_wrong_options_are_refused_before_the_pipeline_runs():
    with pytest.raises(ParameterError, match="threshold"):
        NearDuplicateFilter(threshold=2.0)
    with pytest.raises(TypeError, match="did you mean 'threshold'"):
        NearDuplicateFilter(treshold=0.5)


def test_what_datatrove_wrote_is_read_by_dedup_files(tmp_path):
    with JsonlWriter(str(tmp_path / "out")) as writer:
        for document in documents():
            writer.write(document, 0)
    with neardup.dedup_files(tmp_path / "out") as result:
        assert result.counts["kept"] == 2
