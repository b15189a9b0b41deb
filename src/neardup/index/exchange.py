"""Export an index to one file, for a backup or another machine, and import it again.

A file of blocks (`formats/blocks.py`) of the kind "index export". Its header has the settings,
the number of documents, and the content of additions.json if the index has it. The first block has
the settings that are bytes; each other block has a batch of documents in the order of their
numbers, as columns:

    number, witness (0 if it is kept), similarity (NaN if it is kept), exact, added, content
    cosine (NaN if it is not known), only of an index with vectors
    id, metadata, signatures, shingles, texts    bytes of different lengths, three columns each:
        NAME.rows   which documents of the block have it
        NAME.ends   where each one's bytes end
        NAME.data   the bytes, one after the other

Every column has a checksum, and so does the list of them: a file that was cut or altered is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from neardup.errors import FormatError, MissingInput, ParameterError
from neardup.formats.blocks import BlockReader, BlockWriter
from neardup.index.additions import Additions
from neardup.index.arrivals import SignatureCodec
from neardup.index.folder import ADDITIONS, write_durably
from neardup.index.place import new_index
from neardup.index.redis_store.address import URL, is_redis
from neardup.index.settings import IndexSettings
from neardup.index.store import BLOBS, VERSIONS, WITH_VECTORS, Row, StoredDocuments
from neardup.runtime import SILENT, Progress

KIND: Final = "index export"
AT_ONCE: Final = 2_048
"""Documents of a block."""

Columns = dict[str, NDArray[Any]]
Blobs = dict[str, list[tuple[int, bytes]]]
Parts = dict[int, bytes]
"""Bytes of documents of a block, by their place in it."""


class ExportedStore(StoredDocuments, Protocol):
    """Read access to all documents in the order of their numbers."""

    def counts(self) -> tuple[int, int]: ...
    def last_number(self) -> int: ...
    def rows_after(self, number: int, most: int) -> list[Row]: ...


def export_store(
    store: ExportedStore,
    settings: IndexSettings,
    file: Path,
    progress: Progress = SILENT,
    **header: Any,
) -> int:
    """Write one state of all documents to a file; return how many there are.

    Args:
        store: The documents.
        settings: The settings of their index.
        file: The path of the file.
        progress: Receives the progress.
        **header: More fields of the file's header.
    """
    with store.snapshot():
        documents = store.counts()[0]
        progress.stage("exporting", documents, "documents")
        stored = settings.stored
        plain = {name: value for name, value in stored.items() if not isinstance(value, bytes)}
        with BlockWriter(
            file,
            KIND,
            version=settings.version,
            settings=plain,
            documents=documents,
            last_number=store.last_number(),
            **header,
        ) as writer:
            writer.add(
                {
                    name: np.frombuffer(value, np.uint8)
                    for name, value in stored.items()
                    if isinstance(value, bytes)
                }
            )
            last = 0
            while rows := store.rows_after(last, AT_ONCE):
                last = rows[-1].number
                writer.add(_columns(store, rows, settings))
                progress.advance(len(rows))
            writer.close()
    return documents


def describe_additions(folder: Path) -> dict[str, Any]:
    """Return which documents are in which output, as a field of the header; {} without outputs."""
    additions = Additions.of(folder)
    return {"additions": additions.content} if additions.path.exists() else {}


def _columns(store: StoredDocuments, rows: Sequence[Row], settings: IndexSettings) -> Columns:
    """Return documents and their blobs as the columns of a block."""
    numbers = [row.number for row in rows]
    columns: Columns = {
        "number": np.array(numbers, np.int64),
        "witness": np.array([row.witness or 0 for row in rows], np.int64),
        "similarity": np.array(
            [np.nan if row.similarity is None else row.similarity for row in rows], np.float64
        ),
        "exact": np.array([row.exact for row in rows], np.uint8),
        "added": np.array([row.added for row in rows], np.float64),
        "content": np.frombuffer(b"".join(row.content for row in rows), np.uint8),
    }
    if settings.version == WITH_VECTORS:
        cosines = [np.nan if row.cosine is None else row.cosine for row in rows]
        columns["cosine"] = np.array(cosines, np.float64)
    parts: dict[str, Parts] = {
        "id": {at: row.id.encode() for at, row in enumerate(rows)},
        "metadata": {
            at: row.metadata.encode() for at, row in enumerate(rows) if row.metadata is not None
        },
    }
    for table in BLOBS:
        blobs = store.blobs(table, numbers)
        parts[table] = {at: blobs[one] for at, one in enumerate(numbers) if one in blobs}
    for name, by_place in parts.items():
        columns |= _packed(name, by_place)
    return columns


def _packed(name: str, parts: Parts) -> Columns:
    return {
        f"{name}.rows": np.array(list(parts), np.int64),
        f"{name}.ends": np.cumsum([len(data) for data in parts.values()], dtype=np.int64),
        f"{name}.data": np.frombuffer(b"".join(parts.values()), np.uint8),
    }


class Export(BlockReader):
    """An exported file, open."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, KIND)
        if self.header.get("version") not in VERSIONS:
            raise FormatError(
                f"{file}: version {self.header.get('version')!r} of the export is not known, this "
                f"neardup reads versions {VERSIONS[0]} to {VERSIONS[-1]}: use the neardup that "
                "wrote it"
            )

    def damaged(self, why: str) -> FormatError:
        return FormatError(
            f"{self.path} is no export of an index, or damaged ({why}): take another copy of it, "
            "or export the index again"
        )

    @property
    def settings(self) -> IndexSettings:
        """The settings of the index that was exported."""
        names = self._blocks[0]["columns"]
        stored = self.header["settings"] | {name: self.read(0, name).tobytes() for name in names}
        settings = IndexSettings.of_stored(stored, str(self.path))
        settings.require_version(self.header["version"], str(self.path))
        return settings

    def documents(self, block: int) -> tuple[list[Row], Blobs]:
        """Return the documents of a block, and their blobs: table -> (number, bytes)."""
        columns = {
            name: self.read(block, name).tolist()
            for name in ("number", "witness", "similarity", "exact", "added")
        }
        numbers: list[int] = columns["number"]
        cosines: list[float] = [np.nan] * len(numbers)
        if self.header["version"] == WITH_VECTORS:
            cosines = self.read(block, "cosine").tolist()
        contents = self.read(block, "content").tobytes()
        ids, metadata = self._parts(block, "id"), self._parts(block, "metadata")
        rows = [
            Row(
                number,
                ids[at].decode(),
                contents[16 * at : 16 * at + 16],
                witness or None,
                similarity if witness else None,
                exact,
                added,
                metadata[at].decode() if at in metadata else None,
                None if np.isnan(cosines[at]) else cosines[at],
            )
            for at, (number, witness, similarity, exact, added) in enumerate(
                zip(*columns.values(), strict=True)
            )
        ]
        blobs = {
            table: [(numbers[at], data) for at, data in self._parts(block, table).items()]
            for table in BLOBS
        }
        return rows, blobs

    def _parts(self, block: int, name: str) -> Parts:
        rows, ends = (self.read(block, f"{name}.{part}").tolist() for part in ("rows", "ends"))
        data = self.read(block, f"{name}.data").tobytes()
        spans = zip(rows, pairwise([0, *ends]), strict=True)
        return {at: data[begin:end] for at, (begin, end) in spans}


def import_index(file: str | Path, path: str | Path, progress: Progress = SILENT) -> int:
    """Make the index of an exported file in a new folder, or on Redis servers.

    Args:
        file: The exported file.
        path: The new folder, or the address of servers that have no index of this name.
        progress: Receives the progress.

    Returns:
        The number of documents.
    """
    if URL.match(str(file)):  # not shown: it may have a password
        raise ParameterError(
            "an index is imported from a file that neardup index export wrote, not from a URL: "
            "give the place of the new index first, then the file"
        )
    if not Path(file).exists():
        raise MissingInput(f"{file}: no such file: give one that neardup index export wrote")
    export = Export(Path(file))
    documents, last = int(export.header["documents"]), int(export.header["last_number"])
    progress.stage("importing", documents, "documents")
    try:
        with new_index(path, export.settings) as loader:
            _load(export, loader.add, progress)
            loader.reach(last)
        if "additions" in export.header and not is_redis(path):
            write_durably(Path(path) / ADDITIONS, dict(export.header["additions"]))
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise export.damaged(f"its content, {type(error).__name__}") from None
    return loader.documents


def _load(export: Export, add: Callable[[list[Row], Blobs], object], progress: Progress) -> None:
    """Load all documents; raise FormatError if some are missing or don't fit the settings."""
    size = SignatureCodec.of(export.settings).blob_bytes
    kept: set[int] = set()
    witnesses: set[int] = set()
    documents = 0
    for block in range(1, len(export)):
        rows, blobs = export.documents(block)
        if [len(data) for _, data in blobs["signatures"]] != [size] * len(rows):
            raise export.damaged("signatures")
        kept |= {row.number for row in rows if row.witness is None}
        witnesses |= {row.witness for row in rows if row.witness is not None}
        documents += len(rows)
        add(rows, blobs)
        progress.advance(len(rows))
    if documents != export.header["documents"] or not witnesses <= kept:
        raise export.damaged("documents are missing")
