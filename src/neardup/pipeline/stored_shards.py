"""Documents of an earlier corpus that are stored elsewhere, such as in an index, not in files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.documents import Columns
from neardup.corpus.folders import printable
from neardup.corpus.inputs import InputFile
from neardup.corpus.read import Chunk
from neardup.corpus.shards import Reading, Shard
from neardup.formats.blocks import BlockReader
from neardup.options import Options
from neardup.pipeline.stage_files import StageFiles
from neardup.sketch.centre import VectorCentre
from neardup.spec import Spec
from neardup.text.arrays import Ragged
from neardup.text.frequencies import Frequencies
from neardup.text.lines import IgnoredLines

Integers = NDArray[np.int64]


class DocumentStore(Protocol):
    """Where the documents are, by a path or an address; they have numbers there."""

    @property
    def path(self) -> Path | str: ...
    def read_texts(self, numbers: Sequence[int]) -> dict[int, Any]:
        """Return the texts, or tokens, of the documents that have them, by number."""

    def read_shingles(self, numbers: Sequence[int]) -> Ragged:
        """Return the sorted shingles of documents."""


class StoredCorpus(DocumentStore, Protocol):
    """A store whose kept documents are an earlier corpus.

    path         what --against names
    documents    how many documents are kept
    ignored      the ignored lines, the document frequencies, and the centre of vectors, by which
                 they were sketched
    """

    @property
    def spec(self) -> Spec: ...
    @property
    def documents(self) -> int: ...
    @property
    def ignored(self) -> IgnoredLines: ...
    @property
    def frequencies(self) -> Frequencies: ...
    @property
    def centre(self) -> VectorCentre: ...

    def check(self, options: Options, columns: Columns) -> None:
        """Raise an error unless documents were decided by these options there, too."""

    def write_sketches(
        self, stage: StageFiles, columns: Columns
    ) -> tuple[StoredShard, BlockReader, str]:
        """Write the sketches of the kept documents, or find them; return also the file's key."""


@dataclass(frozen=True, eq=False)
class StoredShard(Shard):
    """Documents of a store, by their numbers there; they have no files to read."""

    store: DocumentStore = field(kw_only=True)
    numbers: Integers = field(kw_only=True)

    @classmethod
    def of(cls, store: DocumentStore, numbers: Integers, columns: Columns) -> StoredShard:
        """Make the shard of these documents; in tables, the store is their file."""
        file = InputFile(Path(store.path), printable(str(store.path)), "", "", None)
        return cls((file,), ((0, 0),), Reading(columns), store=store, numbers=numbers)

    def __getstate__(self) -> dict[str, Any]:
        # A store is open in one process. Tasks elsewhere read only the sketches of its documents.
        return {**vars(self), "store": None}

    def chunks(self) -> Iterator[Chunk]:
        """Yield nothing: there are no records to read."""
        return iter(())

    def check(self) -> None:
        """Do nothing: no file can have changed."""

    def texts(self, places: Sequence[int]) -> dict[int, Any]:
        """Return the texts, or tokens, of documents that have them, by place in the shard."""
        place_of = {int(self.numbers[place]): place for place in places}
        found = self.store.read_texts(sorted(place_of))
        return {place_of[number]: text for number, text in found.items()}

    def shingles(self, places: Integers) -> Ragged:
        """Return the sorted shingles of documents, by place in the shard."""
        return self.store.read_shingles(self.numbers[places].tolist())

    @property
    def stored(self) -> int:
        """The number of bytes to read: none."""
        return 0
