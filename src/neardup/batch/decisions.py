"""What does OUT say about every document? The tables and the kept files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neardup.batch.catalogue import Catalogue
from neardup.batch.job import Progress
from neardup.cluster import Decisions
from neardup.corpus.values import strings
from neardup.corpus.write import write_kept
from neardup.dedup import MAX_PAIRS, Corpus
from neardup.formats import tables


def write_decisions(
    folder: Path, catalogue: Catalogue, decisions: Decisions, rejected: dict[int, str]
) -> None:
    """removed.parquet, clusters.parquet and rejected.parquet."""
    gone = decisions.removed
    witness = decisions.witness[gone]
    file, row = catalogue.place(gone)
    witness_file, witness_row = catalogue.place(witness)
    tables.write_table(folder / "removed.parquet", tables.REMOVED, {
        "id": catalogue.names(gone), "file": file, "row": row,
        "witness": catalogue.names(witness), "witness_file": witness_file,
        "witness_row": witness_row, "similarity": decisions.similarity[gone],
        "exact": decisions.exact[gone], "cluster": witness,
    })  # fmt: skip
    leaders, copies = np.unique(witness, return_counts=True)
    file, row = catalogue.place(leaders)
    tables.write_table(folder / "clusters.parquet", tables.CLUSTERS, {
        "cluster": leaders, "id": catalogue.names(leaders), "file": file, "row": row,
        "size": copies + 1,
    })  # fmt: skip
    bad = np.array(sorted(rejected), np.int64)
    file, row = catalogue.place(bad)
    tables.write_table(folder / "rejected.parquet", tables.REJECTED, {
        "id": catalogue.names(bad), "file": file, "row": row,
        "reason": strings([rejected[document] for document in bad.tolist()]),
    })  # fmt: skip


def write_pairs(folder: Path, catalogue: Catalogue, corpus: Corpus) -> dict[str, int]:
    """pairs.parquet; and how many pairs are in it, or are not."""
    found = corpus.pairs()
    tables.write_table(folder / "pairs.parquet", tables.PAIRS, {
        "a": catalogue.names(found.a), "b": catalogue.names(found.b),
        "similarity": found.similarity,
    })  # fmt: skip
    return {"written": len(found.a), "limit": MAX_PAIRS, "beyond_limit": found.dropped,
            "capped_buckets": found.capped}  # fmt: skip


def write_files(
    folder: Path, catalogue: Catalogue, kept: NDArray[np.bool_], progress: Progress
) -> None:
    """kept/: every input again, without the rows that go."""
    progress.stage("writing", len(kept), "documents")
    folder.mkdir()
    starts = catalogue.starts
    for place, file in enumerate(catalogue.files):
        mask = kept[starts[place] : starts[place + 1]]
        write_kept(file, mask, folder / file.kept_name, progress.advance)
