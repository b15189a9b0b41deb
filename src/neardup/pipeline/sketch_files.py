"""The file of a shard's sketches, and the corpus made of all such files.

A file contains blocks of about ten thousand documents. Slots are stored as columns: a band is a
stretch of each block, so that any bands can be read without the others. Nothing in the file depends
on bands or thresholds, but in two cases. Cut slots (--bits) can't be banded again, so band keys are
written beside them, for the bands of the run that made them; the full slots as well only with
--keep-full. And a run that compares shingles and saves no sketches needs no slots after banding: it
writes the keys alone, a third of the bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup import kernels
from neardup.corpus.documents import Documents, concat_keep
from neardup.corpus.inputs import InputFile
from neardup.corpus.read import Chunk
from neardup.corpus.shards import Shard
from neardup.errors import UsageError
from neardup.formats.blocks import BlockReader, BlockWriter
from neardup.lsh.bands import Tables
from neardup.sketch.bulk import Signatures, column_count, column_type, pack_signatures
from neardup.sketcher import SketchedDocuments
from neardup.spec import Spec

SLOTS, KEYS, PACKED = "slots", "keys", "packed"
TABLES, OPEN, EMPTY, UNREAD = "tables", "open", "empty_slots", "unread"


@dataclass(frozen=True)
class SignatureStorage:
    """How signatures are written.

    tables     the hash tables, whose keys are written if slots are cut
    keep_full  write the full slots besides cut ones
    open       leave empty slots empty: rows are still to be merged
    temporary  only bands are made of the signatures, and only in this run
    """

    spec: Spec
    tables: Tables
    keep_full: bool = False
    open: bool = False
    temporary: bool = False

    @property
    def keys_only(self) -> bool:
        """Whether keys are written instead of slots, as they take fewer bytes."""
        return self.temporary and 8 * self.tables.count < self.full_size

    @property
    def full_size(self) -> int:
        """The bytes of a signature that is not cut."""
        return column_count(self.spec) * np.dtype(column_type(self.spec)).itemsize

    @property
    def stated(self) -> dict[str, Any]:
        """What a block of the file states besides the specification."""
        has_keys = self.spec.narrow or self.keys_only
        tables = {TABLES: self.tables.stated} if has_keys else {}
        return tables | ({OPEN: True} if self.open and self.spec.sketch == "oneperm" else {})

    def columns(self, signatures: Signatures) -> dict[str, NDArray[Any]]:
        """Return the columns of a block for these signatures."""
        if not self.spec.narrow and not self.keys_only:
            return {SLOTS: kernels.transposed(signatures)}
        keys = {KEYS: kernels.transposed(self.tables.keys(signatures))}
        if self.keys_only:
            return keys
        narrow = keys | {PACKED: np.ascontiguousarray(pack_signatures(signatures, self.spec).T)}
        return narrow | ({SLOTS: kernels.transposed(signatures)} if self.keep_full else {})

    def size(self) -> int:
        """Return the bytes of a document's signature."""
        keys = 8 * self.tables.count
        if self.keys_only:
            return keys
        if not self.spec.narrow:
            return self.full_size
        narrow = keys + self.spec.slots * self.spec.bits // 8
        return narrow + (self.full_size if self.keep_full else 0)

    def check(self, file: BlockReader, name: str) -> None:
        """Refuse sketches of an earlier corpus that can't be used by this run."""
        for block in range(len(file)):
            note = file.note_of(block)
            if note.get(OPEN, False) != self.stated.get(OPEN, False):
                how = "with" if note.get(OPEN) else "without"
                raise UsageError(
                    f"--against: the sketches of {name} were made {how} --merge-rows: "
                    f"run {how} it, or give the files themselves"
                )
            stored: list[list[int]] = note.get(TABLES, [])
            if not file.has(block, SLOTS) and not (stored and file.has(block, PACKED)):
                raise file.damaged(f"block {block} has no {SLOTS}")
            if not file.has(block, SLOTS) and stored != self.tables.stated:
                made = " and ".join(f"{bands} bands of {rows} rows" for bands, rows in stored)
                raise UsageError(
                    f"--against: the sketches of {name} were made for {made}, and their slots are "
                    f"cut: give {_format_band_options(stored)}, or sketch again with --keep-full"
                )


def _format_band_options(curves: list[list[int]]) -> str:
    """Return the command-line options that select these bands."""
    if len(curves) == 1:
        return "--bands {} --rows {}".format(*curves[0])
    return "--tables " + ",".join(f"{bands}x{rows}" for bands, rows in curves)


def read_keys(file: BlockReader, block: int, tables: Tables, table: int) -> NDArray[np.uint64]:
    """Return the keys of a block's documents in one table: as stored, or made of their slots."""
    if file.note_of(block).get(TABLES) == tables.stated:
        keys: NDArray[np.uint64] = file.read(block, KEYS, slice(table, table + 1))[0]
        return keys
    return tables.column_keys(file.read(block, SLOTS, tables.columns(table)), table)


def read_compared(file: BlockReader, block: int) -> NDArray[Any]:
    """Return the part of a block's signatures that estimates compare, as columns."""
    return file.read(block, PACKED if file.has(block, PACKED) else SLOTS)


def have_same_layout(files: list[BlockReader]) -> bool:
    """Whether all files were written for the same tables, and all or none with open slots."""
    notes = [file.note_of(block) for file in files for block in range(len(file))]
    return all(
        (note.get(TABLES), note.get(OPEN)) == (notes[0].get(TABLES), notes[0].get(OPEN))
        for note in notes
    )


SKETCHES_KIND = "sketches"
ONE_THREAD = pa.ipc.IpcReadOptions(use_threads=False)
"""Arrow's threads may still use Python's memory when a process ends, which aborts it."""

BLOCK_ROWS, BLOCK_BYTES = 1 << 15, 32 << 20

Array = NDArray[Any]


class Specification(Protocol):
    """The rules by which hashes or sketches are made, with a fingerprint."""

    @property
    def canonical(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...


@dataclass
class SketchedChunk:
    """The sketches of a chunk's documents, as they are written.

    keep         the values of the keep policy's column, if it has one
    sources      the values of the column of sources, if there is one
    rejected     row -> reason
    files        the file of the chunk; or one for each row, if each is a document
    stated       what a block of such documents states besides
    empty_slots  how many slots of all documents were empty before they were filled
    unread       how many records or members of the file are no documents, by reason
    scripts      the scripts of its first documents, which are not written
    """

    columns: dict[str, Array]
    ids: pa.Array
    keep: pa.Array | None
    rejected: dict[int, str]
    rows: int
    files: tuple[InputFile, ...]
    stated: dict[str, Any] = field(default_factory=dict)
    empty_slots: int = 0
    unread: dict[str, int] = field(default_factory=dict)
    scripts: NDArray[np.int64] | None = None
    sources: pa.Array | None = None

    @property
    def size(self) -> int:
        """Bytes of the columns."""
        return sum(values.nbytes for values in self.columns.values())

    @classmethod
    def of(
        cls,
        chunk: Chunk,
        documents: Documents,
        sketch: SketchedDocuments,
        storage: SignatureStorage,
    ) -> SketchedChunk:
        columns = {
            **storage.columns(sketch.signatures),
            "content": np.ascontiguousarray(sketch.content.T),
            "lengths": sketch.lengths,
        }
        if sketch.apart is not None:
            columns["apart"] = sketch.apart
        if sketch.distinct is not None:
            columns["distinct"] = sketch.distinct
        if sketch.vetoing is not None:
            columns["vetoing"] = sketch.vetoing
        empty = dict.fromkeys(sketch.empty.tolist(), "empty")
        return cls(
            columns,
            documents.ids,
            documents.keep,
            empty | documents.rejected,
            len(documents),
            chunk.files,
            storage.stated,
            sketch.empty_slots,
            sources=documents.sources,
        )


class SketchWriter:
    """Writes the sketches of one shard, a chunk at a time."""

    def __init__(self, path: Path, spec: Specification, key: str, shard: Shard) -> None:
        self._file = BlockWriter(
            path,
            SKETCHES_KIND,
            shared=True,
            fingerprint=spec.fingerprint,
            spec=spec.canonical,
            key=key,
        )
        self._held: list[SketchedChunk] = []
        self._rows = dict.fromkeys((file.path for file in shard.files), 0)
        self._unread: Counter[str] = Counter()

    def add(self, piece: SketchedChunk) -> None:
        """Add the next chunk. If it has several files, each is one document."""
        self._held.append(piece)
        self._unread.update(piece.unread)
        rows_per_file = piece.rows if len(piece.files) == 1 else 1
        for file in piece.files:
            self._rows[file.path] += rows_per_file
        rows, size = sum(held.rows for held in self._held), sum(held.size for held in self._held)
        if rows >= BLOCK_ROWS or size >= BLOCK_BYTES:
            self._flush()

    def rows_of(self, file: InputFile) -> int:
        """Return how many documents of an input file were added so far."""
        return self._rows[file.path]

    def close(self) -> None:
        """Complete the file."""
        if self._held:
            self._flush()
        unread: dict[str, Any] = {UNREAD: dict(self._unread)} if self._unread else {}
        self._file.close(rows=list(self._rows.values()), **unread)

    def abandon(self) -> None:
        """Remove the unfinished file."""
        self._file.__exit__(None, None, None)

    def _flush(self) -> None:
        held, self._held = self._held, []
        columns = {
            name: np.concatenate([piece.columns[name] for piece in held], axis=-1)
            for name in held[0].columns
        }
        codes: dict[str, int] = {}
        for reason in (reason for piece in held for reason in piece.rejected.values()):
            codes.setdefault(reason, len(codes) + 1)
        columns["rejected"] = np.concatenate([_code_reasons(piece, codes) for piece in held])
        columns["ids"] = pack_column(pa.concat_arrays([piece.ids for piece in held]))
        if held[0].keep is not None:
            columns["keep"] = pack_column(concat_keep(piece.keep for piece in held))
        if held[0].sources is not None:
            sources = pa.concat_arrays([piece.sources for piece in held])
            columns["sources"] = pack_column(sources.dictionary_encode())
        empty = sum(piece.empty_slots for piece in held)
        self._file.add(
            columns,
            chunks=[piece.rows for piece in held],
            reasons=list(codes),
            **held[0].stated,
            **({EMPTY: empty} if empty else {}),
        )


def _code_reasons(piece: SketchedChunk, codes: dict[str, int]) -> NDArray[np.uint32]:
    """Return for each document the code of the reason to reject it; 0 if it is not rejected."""
    coded = np.zeros(piece.rows, np.uint32)
    for row, reason in piece.rejected.items():
        coded[row] = codes[reason]
    return coded


def pack_column(values: pa.Array) -> NDArray[np.uint8]:
    """Return an Arrow column as the bytes of an Arrow stream."""
    batch = pa.RecordBatch.from_arrays([values], names=["values"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return np.frombuffer(sink.getvalue(), np.uint8)


def unpack_column(data: Array) -> pa.Array:
    """Return the Arrow column of `pack_column`."""
    return pa.ipc.open_stream(pa.py_buffer(data), options=ONE_THREAD).read_next_batch().column(0)


@dataclass(frozen=True)
class SketchBlock:
    """Consecutive documents of a shard; `start` is the first one's number in the corpus."""

    file: BlockReader
    number: int
    start: int
    counts: NDArray[np.bool_] | None = None
    """Of an earlier corpus: for each document whether it was kept; the others take no part."""
    distinguished: bool = True
    """Whether options keep similar documents apart; see `Sketches.undistinguished`."""

    @property
    def rows(self) -> int:
        return self.file.shape(self.number, "lengths")[0]

    @property
    def end(self) -> int:
        return self.start + self.rows

    @property
    def chunks(self) -> list[int]:
        """The number of documents of each chunk of input."""
        counts: list[int] = self.file.note_of(self.number)["chunks"]
        return counts

    def column(self, name: str) -> Array:
        values = self.file.read(self.number, name)
        if self.distinguished or name != "content":
            return values
        for mixed in ("distinct", "vetoing"):
            if self.file.has(self.number, mixed):
                values ^= self.file.read(self.number, mixed)
        return values

    def usable(self) -> NDArray[np.bool_]:
        """Return for each document whether it takes part: neither rejected nor removed earlier."""
        good: NDArray[np.bool_] = np.equal(self.column("rejected"), 0)
        return good if self.counts is None else good & self.counts

    @property
    def empty_slots(self) -> int:
        """The number of slots of all documents that were empty before they were filled."""
        count: int = self.file.note_of(self.number).get(EMPTY, 0)
        return count

    def rejected(self) -> tuple[NDArray[np.int64], list[str]]:
        """Return the numbers of the rejected documents in the corpus, and the reasons."""
        codes = self.column("rejected")
        rows = np.flatnonzero(codes)
        reasons = self.file.note_of(self.number)["reasons"]
        return rows + self.start, [reasons[code - 1] for code in codes[rows].tolist()]

    def arrow(self, name: str) -> pa.Array:
        """Read a column that was written by `pack_column`."""
        return unpack_column(self.column(name))

    def keys(self, tables: Tables, table: int) -> NDArray[np.uint64]:
        """Return the documents' keys in one table, different for documents that are kept apart."""
        keys = read_keys(self.file, self.number, tables, table)
        if self.file.has(self.number, "apart"):
            keys ^= self.column("apart")
        if not self.distinguished and self.file.has(self.number, "distinct"):
            keys ^= self.column("distinct")
        return keys


class Sketches:
    """The documents of all shards, numbered from 0 in input order.

    The first `earlier` shards are of an earlier corpus, of which nothing is removed. `counts` has
    for its first documents, those with saved sketches, whether they were kept there.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        files: Sequence[BlockReader],
        earlier: int = 0,
        counts: NDArray[np.bool_] | None = None,
    ) -> None:
        self.shards, self.files, self.earlier = list(shards), list(files), earlier
        rows = [sum(file.note["rows"]) for file in files]
        self.starts = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
        """The number of each shard's first document, and of all documents."""
        self.first_new = int(self.starts[earlier])
        known = 0 if counts is None else len(counts)
        self.blocks: list[SketchBlock] = []
        for file, start in zip(files, self.starts.tolist(), strict=False):
            for number in range(len(file)):
                block = SketchBlock(file, number, start)
                if counts is not None and block.end <= known:
                    block = SketchBlock(file, number, start, counts[start : block.end])
                self.blocks.append(block)
                start = block.end

    def __len__(self) -> int:
        return int(self.starts[-1])

    def undistinguished(self) -> Sketches:
        """Return the same documents as if no option kept similar ones."""
        twin = copy(self)
        twin.blocks = [replace(block, distinguished=False) for block in self.blocks]
        return twin

    def rejected(self) -> Iterator[tuple[NDArray[np.int64], list[str]]]:
        """Yield the rejected new documents and the reasons, block by block."""
        for block in self.blocks:
            documents, reasons = block.rejected()
            if len(documents) and block.start >= self.first_new:
                yield documents, reasons

    def unread(self) -> Counter[str]:
        """Return how many records or members of the new inputs are no documents, by reason."""
        counted: Counter[str] = Counter()
        for file in self.files[self.earlier :]:
            counted.update(file.note.get(UNREAD, {}))
        return counted

    def blocks_of(self, shard: int) -> list[SketchBlock]:
        """Return the blocks of a shard."""
        # Not by file: one that is an input and in the earlier corpus belongs to two shards.
        begin, end = self.starts[shard : shard + 2].tolist()
        return [block for block in self.blocks if begin <= block.start < end]
