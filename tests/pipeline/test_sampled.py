"""Scripts of documents from all over the inputs, in bounded memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from neardup.pipeline.sampled import MOST_CHUNKS, OF_A_CHUNK, ScriptSample, sample_scripts
from neardup.pipeline.stages.removed import RemovedBatch
from neardup.text.scripts import SCRIPTS


def test_sample_of_many_chunks_is_bounded_and_spread_over_all_of_them() -> None:
    sample, chunks = ScriptSample(), 10 * MOST_CHUNKS
    for chunk in range(chunks):
        sample.add("shard", chunk, np.array([chunk % 2]))
    kept = np.arange(chunks) < chunks // 2
    table = sample.decided({"shard": 0}, kept, [])
    (only,) = table.values()  # every second chunk, or every fourth, ... has the same script
    assert MOST_CHUNKS // 2 < only["documents"] <= MOST_CHUNKS


def test_decisions_of_sampled_documents_are_those_of_their_numbers() -> None:
    sample = ScriptSample()
    latin, han = SCRIPTS.index("Latin"), SCRIPTS.index("Han")
    sample.add("earlier", 0, np.array([latin]))
    sample.add("first", 0, np.array([latin, -1]))
    sample.add("first", 5, np.array([han, han]))
    sample.add("second", 0, np.array([latin]))
    sample.add("second", 1, None)  # token ids
    kept = np.ones(21, bool)
    kept[[10, 15, 16]] = False
    documents, witnesses = np.array([3, 10, 15, 16]), np.zeros(4, np.int64)
    removed = RemovedBatch(
        documents,
        witnesses,
        witnesses,
        np.array([0.1, 0.9, 0.8, 0.7]),
        np.ones(4, bool),
        np.full(4, np.nan),
    )
    assert sample.decided({"first": 10, "second": 20}, kept, [removed]) == {
        "Latin": {"documents": 2, "kept": 1, "removed": 1, "median_similarity": 0.9},
        "Han": {"documents": 2, "kept": 0, "removed": 2, "median_similarity": 0.75},
    }
    assert ScriptSample().decided({}, kept, [removed]) == {}


def test_only_the_first_documents_of_a_chunk_are_looked_at() -> None:
    texts = pa.array(["text"] * 100, pa.large_string())
    found = sample_scripts(texts)
    assert found is not None and len(found) == OF_A_CHUNK
    assert sample_scripts(pa.array([[1]], pa.large_list(pa.int64()))) is None
