"""A sample of a corpus in which near-duplicates are chosen together; edited copies of documents.

Few pairs of a corpus are similar. Of documents chosen one by one, a share of p, only p^2 of the
similar pairs would be left. Here a document's least shingle, in an order that depends on the seed,
is hashed, and documents with the least hashes are chosen: each with the same chance p, but those
that share their least shingle together. A pair of similarity J shares it with chance J, so that it
is in the sample with chance p (J + (1 - J) p).

A crowd of near-copies would be in a sample whole or not at all, and with it most of the corpus's
pairs: only the first few with the same least shingle are chosen together, each further one for
itself. Its pairs are in the sample with chance p^2, which is enough where there are so many.
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
"""For the same reason there are fewer documents if they have more characters than this together."""
MOST_READ = 2 * 10**9
"""Of larger inputs, only randomly chosen pieces are looked at, about so many stored bytes."""

UNUSABLE = np.uint64(2**64 - 1)

CROWD = 8
"""So many documents with the same least shingle are chosen together."""
CELLS = 1 << 24

Hashes = NDArray[np.uint64]
ChosenDocument = tuple[int, int, bool, str, str]
"""What a document is chosen by, its number, whether it is of a crowd, its id and its text."""


@dataclass(frozen=True)
class Sample:
    """Chosen documents, in input order.

    ids         their own ids, or the file and the row
    crowded     which were chosen for themselves, because they are of a crowd
    documents   how many usable documents were looked at
    read        of `stored` bytes of input so many were looked at
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
        return self._chosen * self._looked_at

    def weights(self, truth: Truth) -> NDArray[np.float64]:
        """How many pairs of the corpus each pair of the sample's truth stands for.

        If only a part was looked at, this takes it that similar documents are anywhere: of pairs
        that are near each other in the input, more are seen and fewer are stood for.
        """
        alone = self.crowded[truth.a] | self.crowded[truth.b]
        together = np.where(alone, 0.0, truth.similarity)
        both = self._chosen * (together + (1 - together) * self._chosen)
        return 1 / (both * self._looked_at**2)

    @property
    def about(self) -> str:
        """A sentence for whoever reads the figures."""
        found = f"{len(self.texts):,} of {self.documents:,} documents"
        if self.read < self.stored:
            found += (
                f" in {format_bytes(self.read)} of {format_bytes(self.stored)}, "
                "randomly chosen pieces"
            )
        if len(self.texts) == self.documents:
            return found
        return f"{found}; near-duplicates are chosen together, each document as likely as any other"

    @property
    def _chosen(self) -> float:
        return len(self.texts) / self.documents

    @property
    def _looked_at(self) -> float:
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
    """So many usable documents, all of them if there are fewer.

    Of the specification only the shingles count: the seed makes hashes that have nothing to do
    with those of a run, or a run would be measured on pairs that are like what it finds.
    """
    shards = cut_shards(files, Reading(columns))
    stored = sum(shard.stored for shard in shards)
    everything = stored <= most_read
    sketcher = _one_slot(spec, seed)
    _load_kernels(files, sketcher)
    progress.stage("sampling", min(stored, most_read), "bytes")

    def look(piece: tuple[Shard, Chunk]) -> tuple[Documents, Hashes]:
        documents = parse_chunk(piece[1], columns)
        return documents, _hashes(documents, sketcher)

    pieces = _pieces(shards if everything else _some(shards, most_read, seed), most_read)
    best, read, rows = _Best(count, seed), 0, Counter[str]()
    for (shard, chunk), (documents, hashes) in map_in_order(pieces, look, workers):
        name = chunk.files[0].name if everything else shard.name
        best.add(documents, hashes, name, rows[name])
        rows[name] += len(documents)
        read += chunk.stored
        progress.advance(chunk.stored)
    return best.sample(stored if everything else read, stored)


def choose_among(batches: Iterable[Documents], count: int, seed: int, spec: Spec) -> Sample:
    """The same of documents that are in memory; those without an id are called by their row."""
    sketcher, best, row = _one_slot(spec, seed), _Best(count, seed), 0
    for documents in batches:
        best.add(documents, _hashes(documents, sketcher), "row", row)
        row += len(documents)
    return best.sample(0, 0)


def _load_kernels(files: Sequence[InputFile], sketcher: Sketcher) -> None:
    """They may have to be compiled: that is no part of what a progress measures."""
    tiny = as_documents(["one document"])
    _Best(1, 0).add(tiny, _hashes(tiny, sketcher), "", 0)
    if any(file.format == "jsonl" for file in files):
        _ = kernels.read_records


def _one_slot(spec: Spec, seed: int) -> Sketcher:
    if spec.unit == "token":
        raise ParameterError("a sample is made of texts: shingle by word, char or line, not token")
    own = xxhash.xxh64_intdigest(b"sample", check_whole("seed", seed, 0, 2**64 - 1))
    one = Spec(
        profile=spec.profile,
        unit=spec.unit,
        size=spec.size,
        strip=spec.strip,
        seed=own,
        family="affine-m61",
        bits=64,
        slots=1,
    )
    return Sketcher(one)


def _some(shards: list[Shard], most_read: int, seed: int) -> list[Shard]:
    """Randomly chosen shards, in order, of about so many bytes together."""
    shuffled = list(range(len(shards)))
    random.Random(seed).shuffle(shuffled)  # noqa: S311  # not for security
    ends = np.cumsum([shards[number].stored for number in shuffled])
    enough = int(np.searchsorted(ends, most_read)) + 1
    return [shards[number] for number in sorted(shuffled[:enough])]


def _pieces(shards: list[Shard], most_read: int) -> Iterator[tuple[Shard, Chunk]]:
    """The shards' chunks; of a large compressed file, which is one shard, only the first."""
    for shard in shards:
        read = 0
        for chunk in shard.chunks():
            yield shard, chunk
            read += chunk.stored
            if read >= most_read:
                break


def _hashes(documents: Documents, sketcher: Sketcher) -> Hashes:
    """The hash of each document's least shingle; `UNUSABLE` where there is none."""
    sketch = sketcher(documents)
    # Hashed once more: the least value of a long document would be less than that of a short one.
    found = _hashed(sketch.signatures.reshape(-1), 0)
    found[sketch.empty] = UNUSABLE
    found[list(documents.rejected)] = UNUSABLE
    return found


def _hashed(values: NDArray[np.uint64], seed: int) -> Hashes:
    """Each value's hash, less than `UNUSABLE`."""
    ends = 8 * np.arange(len(values) + 1)
    found: Hashes = kernels.hash_rows(values.view(np.uint8), ends, np.uint64(seed))
    return found >> np.uint64(1)


class _Best:
    """The documents with the least hashes so far; of equal ones the first."""

    def __init__(self, count: int, seed: int) -> None:
        self._count, self._seed, self._worst = count, seed, UNUSABLE
        self._held: list[ChosenDocument] = []
        self._seen = self._usable = self._characters = 0
        self._cells = np.zeros(CELLS, np.uint8)

    def add(self, documents: Documents, hashes: Hashes, name: str, first: int) -> None:
        """Take in the next documents, rows `first` and so on of what has that name."""
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
        self._held.sort()
        ends = np.cumsum([len(text) for *_, text in self._held])
        fit = min(self._count, max(int(np.searchsorted(ends, MOST_TEXT, "right")), 2))
        if fit < len(self._held):
            # What comes after the first that does not fit never will, whatever is still to come.
            self._worst = np.uint64(self._held[fit][0])
            del self._held[fit:]
            self._characters = int(ends[fit - 1])


def add_edited_copies(texts: Sequence[str], seed: int) -> list[str]:
    """The texts, and of each a copy in which a share of the words, up to 0.15, is replaced."""
    return [*texts, *_copies(texts, random.Random(seed))]  # noqa: S311  # not for security


def _copies(texts: Sequence[str], chance: random.Random) -> Iterator[str]:
    for text in texts:
        rate = MOST_EDITED * chance.random()
        other = texts[int(chance.random() * len(texts))]
        yield edit_text(text, other, rate, chance)


def edit_text(text: str, other: str, rate: float, chance: random.Random) -> str:
    """The text with a share of its words replaced by words of another, by characters if it has
    few words."""
    between = " " if len(text.split()) >= FEW_WORDS else ""
    parts, others = (text.split(), other.split()) if between else (list(text), list(other))
    for place in range(len(parts)):
        if chance.random() < rate:
            parts[place] = others[int(chance.random() * len(others))]
    return between.join(parts)
