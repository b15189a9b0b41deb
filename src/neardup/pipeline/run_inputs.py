"""The inputs of a run as its files describe them, and how its documents are read again.

run.json and set.json say where each input was and how it was read. A file that is gone or has
changed since is refused: what it has now would explain nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import xxhash

from neardup.corpus.dialects import USUAL, Dialect
from neardup.corpus.documents import Columns, Documents
from neardup.corpus.folders import printable
from neardup.corpus.format_table import COMPRESSIONS, FORMATS
from neardup.corpus.inputs import InputFile
from neardup.corpus.read import Chunk, chunks_of, count_rows, parse_chunk
from neardup.corpus.shards import Reading, Shard
from neardup.corpus.streams import name_read_errors
from neardup.corpus.vector_files import EMBEDDED_FILE, RowsBeside, VectorFile
from neardup.errors import InputError
from neardup.pipeline.stored_shards import StoredShard
from neardup.runtime import SILENT, Progress, map_in_order

Done = TypeVar("Done")
QUICKLY_READ = 64 << 20
"""Bytes that are read without showing progress."""


def describe_file(file: InputFile) -> dict[str, Any]:
    """Return an input for a JSON file."""
    # File names are bytes; JSON has only text.
    listed = asdict(file) | {"path": os.fsencode(os.path.abspath(file.path)).hex()}
    if file.dialect == USUAL:
        del listed["dialect"]
    if not file.records:
        del listed["records"]
    stored = os.fsencode(file.kept_name)
    if stored != file.kept_name.encode("utf-8", "replace"):
        listed["kept_name"] = {"bytes": stored.hex()}
    return listed


def parse_file(listed: dict[str, Any]) -> InputFile:
    """Return the input that `describe_file` has described."""
    path = Path(os.fsdecode(bytes.fromhex(listed["path"])))
    folders, name = listed.get("folders"), listed["kept_name"]
    file = InputFile(
        **{
            **listed,
            "path": path,
            "kept_name": name
            if isinstance(name, str)
            else os.fsdecode(bytes.fromhex(name["bytes"])),
            "folders": None if folders is None else tuple(folders),
            "dialect": Dialect(**listed.get("dialect", {})),
        }
    )
    known = file.format in FORMATS and file.compression in (None, *COMPRESSIONS)
    texts = (file.name, file.encoding, file.records, *(file.folders or ()))
    if not known or not all(isinstance(text, str) for text in texts):
        raise ValueError("not an input file")
    return file


def describe_reading(reading: Reading) -> dict[str, Any]:
    """Return how inputs are read for a JSON file."""
    return asdict(reading) | {"columns": reading.columns.stated}


def parse_reading(listed: dict[str, Any]) -> Reading:
    """Return the reading that `describe_reading` has described."""
    columns, sizes = Columns(**listed["columns"]), (listed["chunk"], listed["shard"])
    names = (columns.text, columns.id_option, *columns.distinguish)
    known = all(isinstance(name, str) for name in names)
    if not known or not all(isinstance(size, int) and size > 0 for size in sizes):
        raise ValueError("not a way to read files")
    return Reading(columns, *sizes)


def hash_file(file: InputFile) -> tuple[int, str]:
    """Return the size of a file, and the hash of its bytes."""
    digest, size = xxhash.xxh3_128(), 0
    with name_read_errors(file), open(file.path, "rb", buffering=0) as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
            size += len(block)
    return size, digest.hexdigest()


def describe_earlier(shards: Sequence[Shard]) -> dict[str, list[dict[str, Any]]]:
    """Return the entries of run.json with an earlier corpus: its files, and its indexes.

    The files are in groups read alike. They are not hashed: a file of the same size and time of
    change counts as unchanged. Documents of an index are in no file.
    """
    groups: list[dict[str, Any]] = []
    indexes = [shard.store.path for shard in shards if isinstance(shard, StoredShard)]
    before: Reading | None = None
    last: InputFile | None = None
    for shard in shards:
        if isinstance(shard, StoredShard):
            continue
        if shard.reading != before:
            groups.append({"reading": describe_reading(shard.reading), "files": []})
            before, last = shard.reading, None
        for file, (size, modified) in zip(shard.files, shard.stamps, strict=True):
            if file != last:  # the next part of a large file
                source = describe_file(file)
                listed = {"file": file.name, "size": size, "modified_ns": modified}
                groups[-1]["files"].append(listed | {"source": source})
            last = file
    return ({"earlier_inputs": groups} if groups else {}) | describe_indexes(indexes)


def describe_indexes(paths: Sequence[Path | str]) -> dict[str, list[dict[str, Any]]]:
    """Return the entry of run.json with the indexes whose documents are an earlier corpus.

    Args:
        paths: Their folders, and the addresses of those on servers.
    """
    listed = [
        {"file": path, "address": path}
        if isinstance(path, str)
        else {"file": printable(str(path)), "path": os.fsencode(os.path.abspath(path)).hex()}
        for path in paths
    ]
    return {"earlier_indexes": listed} if listed else {}


def parse_indexes(record: dict[str, Any]) -> dict[str, Path | str]:
    """Return the folders or addresses of the indexes of run.json, by their names in tables."""
    return {
        one["file"]: one.get("address") or Path(os.fsdecode(bytes.fromhex(one["path"])))
        for one in record.get("earlier_indexes", [])
    }


def _is_same(file: InputFile, recorded: dict[str, Any]) -> bool:
    """Return whether a file is as run.json describes it."""
    if not file.path.is_file() or file.path.stat().st_size != recorded["size"]:
        return False
    if "xxh3_128" in recorded:
        return bool(hash_file(file)[1] == recorded["xxh3_128"])
    return bool(file.path.stat().st_mtime_ns == recorded["modified_ns"])


@dataclass(frozen=True)
class FoundDocument:
    """A document of a run, read again; `documents` has it alone.

    `earlier` says whether it is of the earlier corpus of --against.
    """

    name: str
    file: str
    row: int
    documents: Documents
    earlier: bool = False

    @property
    def text(self) -> str:
        """Its text, or its tokens with blanks between them."""
        value = self.documents.texts[0].as_py()
        return value if isinstance(value, str) else " ".join(map(str, value or []))


@dataclass(frozen=True)
class ReadBatch:
    """Consecutive documents of a file, or one of each file; their files and rows."""

    documents: Documents
    files: tuple[InputFile, ...]
    first_row: int
    earlier: bool = False

    def place(self, at: int) -> tuple[str, int]:
        """Return the file and the row of document number `at`."""
        if len(self.files) > 1:
            return self.files[at].name, 0
        return self.files[0].name, self.first_row + at

    def at(self, places: Collection[tuple[str, int]]) -> Iterator[tuple[tuple[str, int], int, str]]:
        """Yield those of the places that are in this batch, each with its number and its id."""
        mine = {self.place(at): at for at in range(len(self.documents))}
        chosen = [place for place in places if place in mine]
        names = self.names() if chosen else []
        yield from ((place, mine[place], names[mine[place]]) for place in chosen)

    def names(self) -> list[str]:
        """Return the ids of the documents, or file:row where they have none."""
        own = self.documents.ids
        ids = own if isinstance(own, list) else own.to_pylist()
        return [
            "{}:{}".format(*self.place(at)) if id is None else str(id) for at, id in enumerate(ids)
        ]

    def document(self, at: int, name: str) -> FoundDocument:
        """Return document number `at`."""
        alone = self.documents.take(np.array([at]))
        return FoundDocument(name, *self.place(at), alone, self.earlier)


@dataclass(frozen=True)
class RunInputs:
    """The inputs of a finished run, or files of its earlier corpus that are read alike.

    files    in input order
    records  what run.json says about each
    reading  how they were read
    earlier  whether they are of the earlier corpus
    """

    files: list[InputFile]
    records: list[dict[str, Any]]
    reading: Reading
    earlier: bool = False

    @classmethod
    def of(cls, record: dict[str, Any]) -> RunInputs | None:
        """Return the inputs that run.json describes; None if an older version wrote it."""
        listed = record.get("inputs", [])
        if "reading" not in record or not all("source" in one for one in listed):
            return None
        files = [parse_file(one["source"]) for one in listed]
        return cls(files, listed, parse_reading(record["reading"]))

    @classmethod
    def earlier_of(cls, record: dict[str, Any]) -> list[RunInputs]:
        """Return the files of the earlier corpus that run.json describes, in input order."""
        return [
            cls(
                [parse_file(one["source"]) for one in group["files"]],
                group["files"],
                parse_reading(group["reading"]),
                earlier=True,
            )
            for group in record.get("earlier_inputs", [])
        ]

    @property
    def stored(self) -> int:
        """The bytes of all inputs."""
        return sum(int(one["size"]) for one in self.records)

    def named(self, names: Collection[str]) -> list[InputFile]:
        """Return the files with these names, in input order."""
        return [file for file in self.files if file.name in names]

    def check(self, files: Iterable[InputFile]) -> None:
        """Raise `InputError` if one of the files is gone or has changed since the run."""
        records = dict(zip(self.files, self.records, strict=True))
        for file in files:
            if not _is_same(file, records[file]):
                how = "has changed since the run" if file.path.exists() else "is not there any more"
                raise InputError(
                    f"{file.name} {how}, so that its texts can't be read again: restore it, or run "
                    "again",
                    file.name,
                )
        self._open_vectors()

    def _open_vectors(self) -> VectorFile | None:
        """Return the file of the vectors, if they are beside; `InputError` if they are gone."""
        columns = self.reading.columns
        if columns.vectors is None or columns.vector_column is not None:
            return None
        if Path(columns.vectors).name == EMBEDDED_FILE and not Path(columns.vectors).exists():
            raise InputError(
                "the vectors that a function made are not kept after a run, so that documents "
                "can't be compared again: put them into a column of the inputs, and run again"
            )
        file = VectorFile.open(columns.vectors)
        file.check_count(sum(int(one["documents"]) for one in self.records))
        return file

    def _place_chunks(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Yield the chunks of any of the files with the places of their vectors."""
        vectors = self._open_vectors()
        if vectors is None:
            yield from chunks
            return
        counts = (int(one["documents"]) for one in self.records)
        starts = dict(zip(self.files, accumulate(counts, initial=0), strict=False))
        for chunk in chunks:
            for file in chunk.files:  # several are text files, each of which is one document
                one = replace(chunk, files=(file,), beside=RowsBeside(vectors, starts[file]))
                starts[file] += count_rows(one)
                yield one
                chunk = replace(chunk, stored=0)

    def read(
        self,
        files: list[InputFile],
        work: Callable[[Documents], Done],
        workers: int,
        progress: Progress,
    ) -> Iterator[tuple[ReadBatch, Done]]:
        """Yield the documents of these files, in order, each batch with what `work` makes of it."""
        columns = self.reading.columns
        before: InputFile | None = None
        row = 0
        chunks = self._place_chunks(chunks_of(files, columns, self.reading.chunk))

        def parse(chunk: Chunk) -> tuple[Documents, Done]:
            documents = parse_chunk(chunk, columns)
            return documents, work(documents)

        total = sum(file.path.stat().st_size for file in files)
        progress = progress if total > QUICKLY_READ else SILENT
        progress.stage("reading", total, "bytes")
        for chunk, (documents, done) in map_in_order(chunks, parse, workers):
            progress.advance(chunk.stored)
            if len(chunk.files) > 1 or chunk.files[0] != before:
                row = 0
            yield ReadBatch(documents, chunk.files, row, self.earlier), done
            before, row = chunk.files[-1], row + len(documents)
