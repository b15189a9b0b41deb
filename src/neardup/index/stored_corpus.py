"""The kept documents of an index as an earlier corpus of a batch run: `dedup --against INDEX`.

Their sketches are written to a file of the run, their shingles are read from the index when they
are compared. Nothing of the index changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.corpus.documents import Columns, make_strings
from neardup.errors import InputError, UsageError
from neardup.formats.blocks import BlockReader
from neardup.index import folder
from neardup.index.arrivals import SignatureCodec
from neardup.index.exchange import ExportedStore
from neardup.index.generation import opened_store
from neardup.index.redis_store.address import RedisAddress, is_redis
from neardup.index.redis_store.open_servers import kept_documents
from neardup.index.settings import DISTINGUISH, VECTORS, IndexSettings, stated
from neardup.index.store import Row
from neardup.index.validation import decode_text
from neardup.options import Distinguish, Options
from neardup.pipeline.sketch_files import (
    KEYS,
    PACKED,
    SLOTS,
    SignatureStorage,
    SketchedChunk,
    SketchWriter,
)
from neardup.pipeline.stage_files import StageFiles, digest
from neardup.pipeline.stored_shards import StoredShard
from neardup.sketch.centre import VectorCentre
from neardup.spec import Spec
from neardup.text.arrays import Ragged
from neardup.text.frequencies import Frequencies
from neardup.text.lines import IgnoredLines
from neardup.text.shingle import hash_unit_sequences
from neardup.vector_signal import VectorSignal

AT_ONCE: Final = 2_048
"""Documents that are read at a time."""
NOT_COMPARED: Final = ("recall", "verify", DISTINGUISH, VECTORS)
"""Options of the operating point that may be others: bands are stated, and estimates are known; or
that are compared by themselves."""


class CorpusStore(ExportedStore, Protocol):
    """What an earlier corpus needs of a store."""

    def describe_state(self) -> tuple[object, ...]:
        """Return what no other state of the index has."""


@dataclass(frozen=True)
class IndexCorpus:
    """The documents of an open store; `path` is the folder of the index, or its address."""

    path: Path | str
    store: CorpusStore
    settings: IndexSettings

    @property
    def spec(self) -> Spec:
        return self.settings.options.spec

    @property
    def ignored(self) -> IgnoredLines:
        return self.settings.ignored

    @property
    def frequencies(self) -> Frequencies:
        return self.settings.frequencies

    @property
    def centre(self) -> VectorCentre:
        return self.settings.centre

    @cached_property
    def documents(self) -> int:
        """The number of kept documents."""
        return self.store.counts()[1]

    def check(self, options: Options, columns: Columns) -> None:
        """Raise an error unless documents are decided by these options in the index, too."""
        self._check_vectors(options.vectors)
        has, asked = stated(self.settings.options), stated(options)
        for name in (name for name in has if name not in NOT_COMPARED):
            if has[name] != asked.get(name):
                raise UsageError(
                    f"--against {self.path}: the index has {name} {has[name]}, this run "
                    f"{asked.get(name)}: give --{name} {has[name]}, or change the index with "
                    "neardup index retune"
                )
        made = self.settings.options.distinguish
        if made != Distinguish(columns.numbers, columns.distinguish):
            how = f"with --distinguish {made}" if made else "without --distinguish"
            raise UsageError(
                f"--against {self.path}: the index was made {how}, and its documents would never "
                "match: give the same --distinguish, or give the files themselves"
            )
        within = self.settings.within
        if bool(within) != bool(columns.within):
            how = f"with --within {within}" if within else "without --within"
            raise UsageError(
                f"--against {self.path}: the index was made {how}, and its documents would never "
                f"match: {'give' if within else 'leave out'} --within, or give the files themselves"
            )

    def _check_vectors(self, asked: VectorSignal | None) -> None:
        """Raise an error unless the vectors of a run decide what they decide in the index.

        Its planes may be fewer; that both have vectors, and of which length, is known already.
        """
        has = self.settings.options.vectors
        if has is None or asked is None:
            return
        if (has.role, has.threshold) != (asked.role, asked.threshold):
            raise UsageError(
                f"--against {self.path}: the index has vectors in the role {has.role} with cosine "
                f"{has.threshold}, this run {asked.role} with {asked.threshold}: give the same, or "
                "give the files themselves"
            )

    def write_sketches(
        self, stage: StageFiles, columns: Columns
    ) -> tuple[StoredShard, BlockReader, str]:
        """Write the sketches of the kept documents, or find those of a run that was stopped."""
        with self.store.snapshot():
            place = self.path.resolve() if isinstance(self.path, Path) else self.path
            key = digest(str(place), *self.store.describe_state())
            if (file := stage.find(key, key)) is None:
                self._write(stage.path(key), key, columns)
                file = stage.open(key)
        numbers = [file.read(block, "number") for block in range(len(file))]
        joined = np.concatenate([np.empty(0, np.int64), *numbers])
        return StoredShard.of(self, joined, columns), file, key

    def _write(self, path: Path, key: str, columns: Columns) -> None:
        shard = StoredShard.of(self, np.empty(0, np.int64), columns)
        writer = SketchWriter(path, self.spec, key, shard)
        try:
            for rows in self._kept_rows():
                writer.add(self._sketched(rows, shard))
            writer.close()
        finally:
            writer.abandon()

    def _kept_rows(self) -> Iterator[list[Row]]:
        last = 0
        while rows := self.store.rows_after(last, AT_ONCE):
            last = rows[-1].number
            if kept := [row for row in rows if row.witness is None]:
                yield kept

    def _sketched(self, rows: list[Row], shard: StoredShard) -> SketchedChunk:
        """Return the sketches of documents as rows of a sketch file."""
        numbers = [row.number for row in rows]
        blobs = self.store.blobs("signatures", numbers)
        codec = SignatureCodec.of(self.settings)
        keys, compared, apart = codec.unpack([blobs[number] for number in numbers])
        groups = {}
        if apart is not None:  # the keys of sketch files are those without groups
            keys = keys ^ apart[:, :1]
            groups["apart"] = apart[:, 0].copy()
            if self.settings.options.distinguish:
                groups["distinct"] = apart[:, -1].copy()
        if self.settings.options.vetoes_by_vectors:
            groups["vetoing"] = self._hash_vectors(numbers)
        content = np.frombuffer(b"".join(row.content for row in rows), np.uint64).reshape(-1, 2)
        signatures: dict[str, Any] = (
            {KEYS: np.ascontiguousarray(keys.T), PACKED: np.ascontiguousarray(compared.T)}
            if self.spec.narrow
            else {SLOTS: kernels.transposed(compared)}
        )
        return SketchedChunk(
            signatures
            | {
                "content": np.ascontiguousarray(content.T),
                "lengths": np.zeros(len(rows), np.int64),
                "number": np.array(numbers, np.int64),
            }
            | groups,
            make_strings([row.id for row in rows]),
            None,
            {},
            len(rows),
            shard.files,
            SignatureStorage(self.spec, codec.lsh).stated,
        )

    def read_shingles(self, numbers: Sequence[int]) -> Ragged:
        """Return the sorted shingles of documents; an error if the index does not have them."""
        stored = self.store.blobs("shingles", numbers)
        missing = [number for number in numbers if number not in stored]
        if missing and len(self.store.rows(missing)) < len(missing):
            raise InputError(
                f"{self.path}: documents were removed from the index during the run: run again"
            )
        if missing:
            raise UsageError(
                f"--against {self.path}: documents of the index came as sketches, without "
                "shingles: compare signatures with --verify estimate"
            )
        rows = [np.frombuffer(stored[number], np.uint64) for number in numbers]
        ends = np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)
        return Ragged(np.concatenate([np.empty(0, np.uint64), *rows]), ends)

    def _hash_vectors(self, numbers: Sequence[int]) -> NDArray[np.uint64]:
        """Return the hash of the vector of each document, which is in its content."""
        rows, words = self.read_shingles(numbers), (self.spec.dimension + 1) // 2
        tails = rows.offsets[1:, None] - words + np.arange(words)
        offsets = np.arange(len(numbers) + 1, dtype=np.int64) * words
        hashes: NDArray[np.uint64] = hash_unit_sequences(
            Ragged(rows.data[tails.reshape(-1)], offsets)
        )[:, 0]
        return hashes

    def read_texts(self, numbers: Sequence[int]) -> dict[int, Any]:
        """Return the texts that the index keeps, by number."""
        stored = self.store.blobs("texts", numbers)
        tokens = self.spec.unit == "token"
        return {number: decode_text(data, tokens=tokens) for number, data in stored.items()}


@contextmanager
def open_indexes(paths: Iterable[str | Path]) -> Iterator[tuple[IndexCorpus, ...]]:
    """Open those of the paths that are folders of indexes, or addresses of such on Redis.

    Other processes may write to them meanwhile.
    """
    with ExitStack() as stack:
        opened = []
        for path in paths:
            if is_redis(path):
                address = RedisAddress.parse(str(path))
                documents, settings = stack.enter_context(kept_documents(address))
                opened.append(IndexCorpus(str(address), documents, settings))
            elif folder.is_index(Path(path)):
                name = folder.require_index(Path(path)).current
                with opened_store(Path(path), name, read_only=True) as (store, settings):
                    stack.callback(store.close)
                    opened.append(IndexCorpus(Path(path), store, settings))
        yield tuple(opened)


def split_addresses(against: Iterable[str | Path]) -> tuple[list[str], list[str]]:
    """Split what --against names into paths and URLs, and addresses of indexes on Redis."""
    listed = list(map(str, against))
    return [one for one in listed if not is_redis(one)], [one for one in listed if is_redis(one)]
