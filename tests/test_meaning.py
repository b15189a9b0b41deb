"""Texts that say the same in other words: no shingle finds them, and their vectors do.

The vectors are no trained encoder's: `hashed_vectors` knows the words of two texts, whatever their
order. That is enough where five words in a row are never the same.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.command_line import neardup
from support.embeddings import hashed_vectors

import neardup as library

TEXTS = [
    "The transformer architecture uses self-attention to process sequences in parallel",
    "Transformer models use self-attention mechanisms to process input sequences in parallel",
    "BERT uses bidirectional training and masked language modeling objectives",
    "GPT models are trained with autoregressive language modeling on large text corpora",
    "BERT is trained with bidirectional attention and masked language modeling",
    "Convolutional neural networks process images with spatial filters and pooling layers",
]
PAIRS = [("1", "0"), ("4", "2")]
"""The second of each pair says what the first does."""
COSINE = 0.5


@pytest.fixture(scope="module")
def table() -> pa.Table:
    ids = [str(number) for number in range(len(TEXTS))]
    return pa.table({"id": ids, "text": TEXTS, "embedding": hashed_vectors(TEXTS, 32).tolist()})


def test_texts_alone_find_nothing() -> None:
    assert not library.dedup(TEXTS, threshold=0.05).removed


def test_vectors_find_the_pairs_beside_texts_and_alone(table: pa.Table) -> None:
    beside = library.dedup(table, also=f"embedding:{COSINE}")
    assert [(one.id, one.witness) for one in beside.removed] == PAIRS
    assert {(one.similarity, one.by) for one in beside.removed} == {(0.0, "vector")}
    alone = library.dedup(table, vectors="embedding", cosine=COSINE)
    assert [(one.id, one.witness) for one in alone.removed] == PAIRS


def test_command_finds_the_pairs_and_says_why(table: pa.Table, tmp_path: Path) -> None:
    pq.write_table(table, tmp_path / "in.parquet")
    out = tmp_path / "out"
    done = neardup("dedup", tmp_path / "in.parquet", "-o", out, "--also", f"embedding:{COSINE}")
    assert done.code == 0, done.err
    removed = pq.read_table(out / "removed.parquet").to_pylist()
    assert [(one["id"], one["witness"]) for one in removed] == PAIRS
    why = neardup("why", out, "4")
    cosine = removed[1]["cosine"]
    assert f"removed: cosine {cosine:.4f} to '2', with texts 0.0000 similar, which" in why.out
    assert f"4 removed, cosine {cosine:.2f} to 2" in done.out
