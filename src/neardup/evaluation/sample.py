"""A sample of a corpus in which near-duplicates are chosen together; edited copies of documents.

Few pairs of a corpus are similar. If documents were chosen independently, a share of p, the sample
would have only p^2 of the similar pairs. Here a document's least shingle, in an order that depends
on the seed, is hashed, and the documents with the least hashes are chosen: each with the same
chance p, but documents with the same least shingle together. A pair of similarity J shares it with
chance J, so that it is in the sample with chance p (J + (1 - J) p).

A crowd of near-copies would be in a sample entirely or not at all, and with it most of the pairs of
the corpus: only the first few with the same least shingle are chosen together, each further one
independently. Its pairs are in the sample with chance p^2, which is enough for a crowd.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from neardup import kernels
from neardup.corpus.documents import Columns, Documents
from neardup.corpus.inputs import InputFile
from neardup.corpus.read import Chunk, parse_chunk
from neardup.corpus.shards import Reading, Shard, cut_shards
from neardup.errors import InputError, ParameterError
from neardup.evaluation.lab import as_documents
from neardup.evaluation.truth import Truth
from neardup.formatting import format_bytes
from neardup.runtime import SILENT, Progress, map_in_order
from neardup.sketcher import Sketcher
from neardup.spec import Spec, check_whole

MOST_EDITED = 0.15
"""Up to this share of a copy's words is replaced: five-word shingles are then 0.3 similar."""
FEW_WORDS = 5
LONGEST = 1 << 20
"""Longer texts are cut: a sample has to fit into memory."""
MOST_TEXT = 1 << 28
"""Characters of all texts of a sample: it has fewer documents if they are longer."""
MOST_READ = 2 * 10**9
"""Stored bytes that are read at most, about; of larger inputs, randomly chosen shards are read."""

UNUSABLE = np.uint64(2**64 - 1)

CROWD = 8
"""Documents with the same least shingle that are chosen together."""
CELLS = 1 << 24

Hashes = NDArray[np.uint64]
ChosenDocument = tuple[int, int, bool, str, str]
"""The hash that a document is chosen by, its number, whether it is of a crowd, id and text."""


@dataclass(frozen=True)
class Sample:
    """Chosen documents, in input order.

    texts       their texts
    ids         their own ids, or file and row
    crowded     which were chosen independently, because they are of a crowd
    documents   the number of usable documents that were read
    read        bytes of input that were read
    stored      bytes of the whole input
    """

    texts: list[str]
    ids: list[str]
    crowded: NDArray[np.bool_]
    documents: int
    read: int
    stored: int

    @property
    def share(self) -> float:
        """The chance of each document of the corpus to be chosen."""
        return self._chosen_share * self._read_share

    def weights(self, truth: Truth) -> NDArray[np.float64]:
        """Return how many pairs of the corpus each pair of the sample's truth stands for.

        If only a part of the input was read, similar documents are assumed to be anywhere in it;
        pairs that are near each other in the input are then overestimated.
        """
        alone = self.crowded[truth.a] | self.crowded[truth.b]
        together = np.where(alone, 0.0, truth.similarity)
        both = self._chosen_share * (together + (1 - together) * self._chosen_share)
        return 1 / (both * self._read_share**2)

    @property
    def about(self) -> str:
        """How the sample was chosen, as a sentence."""
        chosen = f"{len(self.texts):,} of {self.documents:,} documents"
        if self.read < self.stored:
            chosen += (
                f" in {format_bytes(self.read)} of {format_bytes(self.stored)}, "
                "randomly chosen pieces"
            )
        if len(self.texts) == self.documents:
            return chosen
        return (
            f"{chosen}; near-duplicates are chosen together, each document as likely as any other"
        )

    @property
    def _chosen_share(self) -> float:
        return len(self.texts) / self.documents

    @property
    def _read_share(self) -> float:
        return min(self.read / self.stored, 1.0) if self.stored else 1.0


def choose_from_files(
    files: Sequence[InputFile],
    columns: Columns,
    count: int,
    seed: int,
    spec: Spec,
    progress: Progress = SILENT,
    workers: int = 1,
    most_read: int = MOST_READ,
) -> Sample:
    """Choose `count` usable documents of files, all of them if there are fewer.

    The hashes are independent of those of a run; otherwise a run would be measured on the pairs
    that it is likely to find.

    Args:
        files: The input files.
        columns: The names of their columns.
        count: The number of documents to choose.
        seed: The seed of the choice.
        spec: The shingles by which near-duplicates are chosen together.
        progress: Receives the bytes read.
        workers: Threads.
        most_read: The most bytes that are read, about.
    """
    shards = cut_shards(files, Reading(columns))
    stored = sum(shard.stored for shard in shards)
    everything = stored <= most_read
    sketcher = _one_slot(spec, seed)
    _load_kernels(files, sketcher)
    progress.stage("sampling", min(stored, most_read), "bytes")

    def read_piece(piece: tuple[Shard, Chunk]) -> tuple[Documents, Hashes]:
        documents = parse_chunk(piece[1], columns)
        return documents, _hashes(documents, sketcher)

    pieces = _pieces(shards if everything else _choose_shards(shards, most_read, seed), most_read)
    best, read, rows = _Best(count, seed), 0, Counter[str]()
    for (shard, chunk), (documents, hashes) in map_in_order(pieces, read_piece, workers):
        name = chunk.files[0].name if everything else shard.name
        best.add(documents, hashes, name, rows[name])
        rows[name] += len(documents)
        read += chunk.stored
        progress.advance(chunk.stored)
    return best.sample(stored if everything else read, stored)


def choose_among(batches: Iterable[Documents], count: int, seed: int, spec: Spec) -> Sample:
    """Choose `count` documents of batches; those without an id are named by their row."""
    sketcher, best, row = _one_slot(spec, seed), _Best(count, seed), 0
    for documents in batches:
        best.add(documents, _hashes(documents, sketcher), "row", row)
        row += len(documents)
    return best.sample(0, 0)


def _load_kernels(files: Sequence[InputFile], sketcher: Sketcher) -> None:
    """Load the kernels before the progress starts: they may have to be compiled."""
    tiny = as_documents(["one document"])
    _Best(1, 0).add(tiny, _hashes(tiny, sketcher), "", 0)
    if any(file.format == "jsonl" for file in files):
        _ = kernels.read_records
    if any(file.format == "json" for file in files):
        _ = kernels.read_records, kernels.lines_of_json


def _one_slot(spec: Spec, seed: int) -> Sketcher:
    """Return a sketcher of one slot: the least shingle of a document by a hash of the seed."""
    if spec.unit == "token":
        raise ParameterError("a sample is made of texts: shingle by word, char or line, not token")
    own = xxhash.xxh64_intdigest(b"sample", check_whole("seed", seed, 0, 2**64 - 1))
    one = Spec(
        **spec.reading,
        unit=spec.unit,
        size=spec.size,
        seed=own,
        family="affine-m61",
        bits=64,
        slots=1,
    )
    return Sketcher(one)


def _choose_shards(shards: list[Shard], most_read: int, seed: int) -> list[Shard]:
    """Return randomly chosen shards of about `most_read` bytes together, in order."""
    shuffled = list(range(len(shards)))
    random.Random(seed).shuffle(shuffled)  # noqa: S311  # not for security
    ends = np.cumsum([shards[number].stored for number in shuffled])
    enough = int(np.searchsorted(ends, most_read)) + 1
    return [shards[number] for number in sorted(shuffled[:enough])]


def _pieces(shards: list[Shard], most_read: int) -> Iterator[tuple[Shard, Chunk]]:
    """Yield the chunks of shards, at most `most_read` bytes of each: a compressed file is one."""
    for shard in shards:
        read = 0
        for chunk in shard.chunks():
            yield shard, chunk
            read += chunk.stored
            if read >= most_read:
                break


def _hashes(documents: Documents, sketcher: Sketcher) -> Hashes:
    """Return the hash of each document's least shingle; `UNUSABLE` if it has none."""
    sketch = sketcher(documents)
    # Hashed again: the least value of a long document is less than that of a short one.
    hashes = _hashed(sketch.signatures.reshape(-1), 0)
    hashes[sketch.empty] = UNUSABLE
    hashes[list(documents.rejected)] = UNUSABLE
    return hashes


def _hashed(values: NDArray[np.uint64], seed: int) -> Hashes:
    """Return the hash of each value, always less than `UNUSABLE`."""
    ends = 8 * np.arange(len(values) + 1)
    hashes: Hashes = kernels.hash_rows(values.view(np.uint8), ends, np.uint64(seed))
    return hashes >> np.uint64(1)


class _Best:
    """Collects the documents with the least hashes; of equal hashes the first."""

    def __init__(self, count: int, seed: int) -> None:
        self._count, self._seed, self._worst = count, seed, UNUSABLE
        self._held: list[ChosenDocument] = []
        self._seen = self._usable = self._characters = 0
        self._cells = np.zeros(CELLS, np.uint8)

    def add(self, documents: Documents, hashes: Hashes, name: str, first: int) -> None:
        """Add a batch: rows `first` and so on of the file called `name`."""
        usable = np.flatnonzero(hashes < UNUSABLE)
        shared = hashes[usable]
        crowded = kernels.beyond(shared, self._cells, CROWD)
        own = _hashed((usable + self._seen).astype(np.uint64), self._seed)
        by = np.where(crowded, own, shared)
        for place in np.flatnonzero(by < self._worst).tolist():
            row = int(usable[place])
            id = documents.ids[row]
            id = id.as_py() if isinstance(id, pa.Scalar) else id
            id = f"{name}:{first + row}" if id is None else str(id)
            text = documents.texts[row].as_py()[:LONGEST]
            self._held.append((int(by[place]), self._seen + row, bool(crowded[place]), id, text))
            self._characters += len(text)
        self._usable += len(usable)
        self._seen += len(documents)
        if len(self._held) > 2 * self._count or self._characters > 2 * MOST_TEXT:
            self._drop()

    def sample(self, read: int, stored: int) -> Sample:
        """Return the chosen documents; `read` of `stored` bytes of input were read."""
        self._drop()
        if len(self._held) < 2:
            raise InputError(
                "there are fewer than two documents with a text: nothing to compare; "
                "give more input, or another --text column"
            )
        chosen = sorted(self._held, key=lambda one: one[1])
        _, _, crowded, ids, texts = map(list, zip(*chosen, strict=True))
        return Sample(texts, ids, np.array(crowded), self._usable, read, stored)

    def _drop(self) -> None:
        """Drop the documents that don't fit, by number or by characters."""
        self._held.sort()
        ends = np.cumsum([len(text) for *_, text in self._held])
        fit = min(self._count, max(int(np.searchsorted(ends, MOST_TEXT, "right")), 2))
        if fit < len(self._held):
            # A document beyond the first that does not fit can never fit later.
            self._worst = np.uint64(self._held[fit][0])
            del self._held[fit:]
            self._characters = int(ends[fit - 1])


def add_edited_copies(texts: Sequence[str], seed: int) -> list[str]:
    """Return the texts, followed by a copy of each with up to 15 % of its words replaced."""
    return [*texts, *_copies(texts, random.Random(seed))]  # noqa: S311  # not for security


def _copies(texts: Sequence[str], chance: random.Random) -> Iterator[str]:
    """Yield an edited copy of each text."""
    for text in texts:
        rate = MOST_EDITED * chance.random()
        other = texts[int(chance.random() * len(texts))]
        yield edit_text(text, other, rate, chance)


def edit_text(text: str, other: str, rate: float, chance: random.Random) -> str:
    """Return a text with a share of its words replaced by words of another text.

    A text of fewer than five words is edited by characters.
    """
    between = " " if len(text.split()) >= FEW_WORDS else ""
    parts, others = (text.split(), other.split()) if between else (list(text), list(other))
    for place in range(len(parts)):
        if chance.random() < rate:
            parts[place] = others[int(chance.random() * len(others))]
    return between.join(parts)
