"""Write the new columns of all documents to a file, from which the kept files get them.

Documents come in blocks of consecutive ones. Needs twelve bytes a cluster in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.corpus.annotations import ANNOTATIONS
from neardup.formats.blocks import BlockReader, BlockWriter
from neardup.formats.tables import to_arrow
from neardup.pipeline.catalogue import Catalogue
from neardup.pipeline.sketch_files import pack_column, unpack_column
from neardup.pipeline.stages.removed import RemovedBatch, RemovedDocuments

KIND = "annotations"
BLOCK = 1 << 16
"""The documents of a block."""

Integers = NDArray[np.int64]


def write_annotations(
    path: Path, catalogue: Catalogue, verdicts: RemovedDocuments, count: int
) -> None:
    """Write the cluster, its size, the witness and the similarity of each document.

    Args:
        path: The file to write.
        catalogue: The names of the documents.
        verdicts: The removed documents.
        count: The number of all documents.
    """
    leaders, sizes = np.empty(0, np.int64), np.empty(0, np.uint32)
    for more, copies in verdicts.clusters():
        leaders = np.append(leaders, more)
        sizes = np.append(sizes, (copies + 1).astype(np.uint32))
    with BlockWriter(path, KIND) as file:
        for start, removed in _cut_blocks(verdicts, count):
            # Documents that people dropped have no witness, and are in no cluster.
            removed = removed.take(removed.witnesses >= 0)
            rows = min(BLOCK, count - start)
            cluster, size = np.arange(start, start + rows), np.ones(rows, np.int64)
            own = slice(*np.searchsorted(leaders, [start, start + rows]))
            size[leaders[own] - start] = sizes[own]
            places = removed.documents - start
            cluster[places] = removed.clusters
            size[places] = sizes[np.searchsorted(leaders, removed.clusters)]
            file.add(
                {
                    "cluster": cluster,
                    "cluster_size": size,
                    "removed": removed.documents,
                    "similarity": removed.similarity,
                    "witness": pack_column(catalogue.names(removed.witnesses)),
                }
            )
        file.close()


def _cut_blocks(verdicts: RemovedDocuments, count: int) -> Iterator[tuple[int, RemovedBatch]]:
    """Yield the first document of each block, and the removed documents in it."""
    batches, held = iter(verdicts), RemovedBatch.empty()
    for start in range(0, count, BLOCK):
        while not len(held.documents) or held.documents[-1] < start + BLOCK:
            following = next(batches, None)
            if following is None:
                break
            held = RemovedBatch.join([held, following])
        end = int(np.searchsorted(held.documents, start + BLOCK))
        yield start, held.take(slice(0, end))
        held = held.take(slice(end, None))


class StoredAnnotations:
    """Returns the new columns of the rows of a file, as `corpus.annotations` asks for them.

    Args:
        path: The file that `write_annotations` has written.
        start: The number of the first document of the rows' file.
    """

    def __init__(self, path: Path, start: int) -> None:
        self._path, self._start = path, start
        self._held: tuple[int, pa.RecordBatch] | None = None

    def __call__(self, rows: Integers) -> pa.RecordBatch:
        documents = rows + self._start
        parts = [] if len(rows) else [pa.RecordBatch.from_pylist([], ANNOTATIONS)]
        for number in np.unique(documents // BLOCK).tolist():
            begin, end = np.searchsorted(documents, [number * BLOCK, (number + 1) * BLOCK])
            parts.append(self._block(number).take(to_arrow(documents[begin:end] - number * BLOCK)))
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def _block(self, number: int) -> pa.RecordBatch:
        """Return a block; the last one is held, because files are written from front to end."""
        if self._held is None or self._held[0] != number:
            self._held = number, _read_block(BlockReader(self._path, KIND), number)
        return self._held[1]


def _read_block(file: BlockReader, number: int) -> pa.RecordBatch:
    cluster = file.read(number, "cluster")
    removed = file.read(number, "removed") - number * BLOCK
    places, is_removed = np.zeros(len(cluster), np.int64), np.zeros(len(cluster), bool)
    places[removed] = np.arange(len(removed))
    is_removed[removed] = True
    null = pa.py_buffer(np.packbits(is_removed, bitorder="little"))
    taken = pa.Array.from_buffers(pa.int64(), len(cluster), [null, pa.py_buffer(places)])
    witness = unpack_column(file.read(number, "witness")).take(taken)
    similarity = to_arrow(file.read(number, "similarity")).take(taken)
    sizes = to_arrow(file.read(number, "cluster_size"))
    columns = [to_arrow(cluster), sizes, witness, similarity]
    return pa.RecordBatch.from_arrays(columns, schema=ANNOTATIONS)
