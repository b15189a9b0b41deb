"""Run folders made by hand, with whatever is wanted in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neardup.formats import tables
from neardup.spec import Spec

Row = dict[str, Any]
MakeRun = Callable[..., Path]

TEXT = "one two three four five six seven eight nine ten eleven twelve"


def full_record(id: str, file: str, removed: int) -> Row:
    """All that run.json may hold, with `id` and `file` wherever strings of the data are."""
    return {
        "version": "0.1.0",
        "spec": {"unit": "word", "size": 5, "hash": id},
        "fingerprint": Spec().fingerprint,
        "parameters": {
            "threshold": 0.8,
            "bands": 21,
            "rows": 6,
            "verify": "exact",
            "keep": "first",
            "cluster": "stars",
            "text": id,
            "within": None,
        },
        "counts": {
            "documents": removed + 4,
            "kept": 3,
            "removed": removed,
            "rejected": 1,
            "identical": 1,
            "comparisons": 77,
        },
        "reasons": {id: 1},
        "predicted": {"recall_at_threshold": 0.9983},
        "full_buckets": {
            "count": 1,
            "listed": [{"band": 1, "key": "ab", "size": 300, "not_compared": 44, "sample": id}],
        },
        "hot_buckets": [
            {"band": 2, "key": id, "size": 8123, "not_compared": 45, "sample": [id, id]}
        ],
        "metrics": {
            "candidate_pairs_per_doc": 1.25,
            "bucket_size_p99": 7.0,
            "verify_drop_rate": 0.25,
            "buckets": 1234,
            "candidates": 5678,
        },
        "inputs": [{"file": file, "size": 2_000, "documents": 9, "xxh3_128": "00ff"}],
        "skipped_files": [{"file": file, "reason": id}],
        "seconds": {"sketch": 1.5, "decide": 0.25, "total": 2.0},
        "stages": [{"name": id, "seconds": 1.5, "peak_memory_bytes": 3_000_000}],
        "peak_memory_bytes": 5_000_000,
        "memory_budget_bytes": 10**9,
    }


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """A run of one cluster; `texts` are the kept document's and its copies'."""

    def make(
        id: str = "an id",
        file: str = "a file",
        texts: tuple[str | None, ...] = (TEXT, TEXT + "!"),
        similarities: tuple[float, ...] = (0.85, 1.0),
        **changed: Any,
    ) -> Path:
        run = tmp_path / "run"
        run.mkdir(exist_ok=True)
        record = full_record(id, file, len(similarities)) | changed
        (run / "run.json").write_text(json.dumps(record))
        place = {"id": id, "file": file, "row": 3}
        write(
            run / "removed.parquet",
            tables.REMOVED,
            [
                place
                | {
                    "witness": id,
                    "witness_file": file,
                    "witness_row": 0,
                    "similarity": s,
                    "exact": True,
                    "cluster": 0,
                }
                for s in similarities
            ],
        )
        write(
            run / "clusters.parquet",
            tables.CLUSTERS,
            [place | {"cluster": 0, "size": len(similarities) + 1}],
        )
        write(run / "rejected.parquet", tables.REJECTED, [place | {"reason": id}])
        write(
            run / "samples.parquet",
            tables.SAMPLES,
            [
                place
                | {
                    "cluster": 0,
                    "kept": n == 0,
                    "similarity": 1.0 if n == 0 else 0.85,
                    "text": text,
                }
                for n, text in enumerate(texts)
            ],
        )
        return run

    return make


def write(path: Path, schema: pa.Schema, rows: list[Row]) -> None:
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, row_group_size=3)
