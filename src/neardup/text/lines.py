"""Lines that are in so many documents that they say nothing about any of them.

Found in two passes over the corpus, in bounded memory, a batch at a time, in any order:

    counts = LineCounts(spec)               pass 1: counts.add(texts) for every batch
    frequent = counts.above(share)          pass 2: frequent.add(texts) for every batch
    ignored = frequent.freeze()             the answer: exact, the same whatever the batches

Pass 1 adds up in a table of fixed size, where lines can share counters: it never counts too few.
Pass 2 counts the lines exactly that the table does not rule out. Both objects may be shared by
threads, or be filled apart and merged.

The answer, `IgnoredLines`, as bytes:

    0        4  magic "ndl1"
    4        4  number n of lines, little-endian, as everything here
    8        8  number of documents that were counted
    16       8n hashes of the lines, ascending
    16+8n    8n in how many documents each line is
    16+16n   m  the lines, cut to 200 characters, as UTF-8, with U+000A between them
    16+16n+m 8  XXH3-64 of everything before
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import FormatError, SpecMismatch, UsageError
from neardup.framing import seal, unseal
from neardup.keys import Key, make_hasher
from neardup.spec import Spec
from neardup.text.arrays import Ragged, view_strings
from neardup.text.characters import character_table, normalise_texts
from neardup.text.html import strip_markup
from neardup.text.shingle import hash_units

MAGIC = b"ndl1"
HEAD = 16
SAMPLE = 200
"""Characters of a line that are kept to show it."""


@dataclass(frozen=True, eq=False)
class IgnoredLines:
    """Lines that are in too many documents. Row i of every column is line i.

    The samples are the lines as they are compared: normalised, squeezed, cut to 200 characters.
    """

    hashes: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    counts: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    samples: tuple[str, ...] = ()
    documents: int = 0

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def digest(self) -> str:
        """What a specification says of the list: 32 hexadecimal digits, nothing if it is empty."""
        data = self.hashes.astype("<u8").tobytes()
        return hashlib.blake2b(data, digest_size=16).hexdigest() if data else ""

    def most_frequent(self) -> list[tuple[str, int]]:
        """The lines and in how many documents they are, most frequent first."""
        rows = zip(self.samples, self.counts.tolist(), strict=True)
        return sorted(rows, key=lambda row: (-row[1], row[0]))

    def to_bytes(self) -> bytes:
        content = b"".join(
            (
                MAGIC,
                len(self).to_bytes(4, "little"),
                self.documents.to_bytes(8, "little"),
                self.hashes.astype("<u8").tobytes(),
                self.counts.astype("<u8").tobytes(),
                "\n".join(self.samples).encode(),
            )
        )
        return seal(content)

    @classmethod
    def from_bytes(cls, data: bytes) -> IgnoredLines:
        """The list that `to_bytes` wrote, checked in every respect."""
        body = unseal(data, MAGIC, "a list of ignored lines", HEAD)
        size = int.from_bytes(body[4:8], "little")
        columns = np.frombuffer(body[HEAD : HEAD + 16 * size], "<u8")
        samples = body[HEAD + 16 * size :].decode(errors="replace").split("\n")
        if len(columns) != 2 * size or len(samples) != max(1, size):
            raise FormatError(f"the list of ignored lines does not hold {size} lines")
        return cls(
            columns[:size].astype(np.uint64),
            columns[size:].astype(np.int64),
            tuple(samples[:size]),
            int.from_bytes(body[8:HEAD], "little"),
        )


SLOTS = 1 << 22
FULL = 2**32 - 1

Lines = NDArray[np.uint64]


def hash_lines(texts: pa.Array, spec: Spec, key: Key | None = None) -> Ragged:
    """What the lines of each text are known by: the hashes of the specification's unit `line`."""
    return hash_units(texts, replace(spec, unit="line", size=1), key)


def ignore_lines(texts: pa.Array, ignored: Lines, spec: Spec, key: Key | None = None) -> pa.Array:
    """The texts without the lines whose hashes are in the ascending `ignored`.

    What stays, stays byte for byte, line breaks too. A text of which no line would stay stays
    whole, because nothing vanishes.
    """
    if not ignored.size:
        return texts
    raw = view_strings(texts)
    plain = normalise_texts(raw, spec.profile)
    data, offsets = kernels.ignore_lines(
        raw.data,
        raw.offsets,
        plain.data,
        plain.offsets,
        plain is raw,
        *_rules(spec),
        ignored,
        make_hasher(spec, key),
    )
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    left = pa.Array.from_buffers(texts.type, len(texts), buffers)
    return pc.if_else(texts.is_valid(), left, pa.scalar(None, texts.type))


def _rules(spec: Spec) -> tuple[Any, ...]:
    """How the kernels fold and squeeze a line."""
    table = character_table(spec.profile)
    return table.stage1, table.stage2, spec.profile != "conservative", spec.profile == "aggressive"


def _distinct_lines(texts: pa.Array, spec: Spec, key: Key | None) -> tuple[Lines, int]:
    """Every document's lines, each once, one after another; and how many documents have any."""
    found = hash_lines(texts, spec, key)
    lines, _ = kernels.distinct_rows(found.data, found.offsets)
    return lines, int(np.count_nonzero(found.sizes))


class _Shared:
    """What threads share has a lock, which does not travel to other processes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())


class LineCounts(_Shared):
    """Pass 1: in how many documents each line is at most. Threads may share it; 32 MB.

    Two rows of counters, as in a count-min sketch: a line has one counter in each, the lesser
    counts. Counting is plain addition, so neither batches nor their order can change it.
    """

    def __init__(self, spec: Spec, slots: int = SLOTS, key: Key | None = None) -> None:
        super().__init__()
        self.spec, self.key = spec, key
        self.documents = 0
        self._table = np.zeros((2, slots), np.uint32)

    def add(self, texts: pa.Array) -> None:
        """Count the lines of some documents. Nulls and texts without any line don't count."""
        texts = strip_markup(texts, self.spec)
        lines, documents = _distinct_lines(texts, self.spec, self.key)
        with self._lock:
            self.documents += documents
            kernels.count_lines(lines, self._table)

    def merge(self, other: LineCounts) -> None:
        """Take in what another has counted, of other documents."""
        self.spec.require_same(other.spec, "these counts", "the others")
        with self._lock:
            self.documents += other.documents
            room = FULL - self._table
            self._table += np.minimum(other._table, room)

    def above(self, share: Fraction) -> FrequentLines:
        """Pass 2, for the lines that are in strictly more than this share of the documents."""
        return FrequentLines(self.spec, self.key, share, self.documents, self._table)


class FrequentLines(_Shared):
    """Pass 2: exact counts of the lines that may be frequent. Threads may share it.

    If documents have k different lines on average, at most k / share lines are frequent. When a
    thousand are, one in ten million of the others is counted in vain.
    """

    def __init__(
        self,
        spec: Spec,
        key: Key | None,
        share: Fraction,
        documents: int,
        table: NDArray[np.uint32],
    ) -> None:
        super().__init__()
        self.spec, self.key, self.share, self.documents = spec, key, share, documents
        self.limit = max(1, int(share * documents))
        self._table = table
        self._seen = 0
        self._lines, self._counts = np.empty(0, np.uint64), np.empty(0, np.int64)
        self._samples: dict[int, str] = {}

    def add(self, texts: pa.Array) -> None:
        """Count the lines of some documents: of all those that pass 1 has counted, once each."""
        texts = strip_markup(texts, self.spec)
        lines, documents = _distinct_lines(texts, self.spec, self.key)
        likely = kernels.lines_above(lines, self._table, min(self.limit, FULL - 1))
        found, counts = np.unique(likely, return_counts=True)
        fresh = np.array([line for line in found.tolist() if line not in self._samples], np.uint64)
        samples = _texts_of(fresh, texts, self.spec, self.key)
        with self._lock:
            self._take(documents, found, counts, samples)

    def merge(self, other: FrequentLines) -> None:
        """Take in what another has counted, of other documents."""
        self.spec.require_same(other.spec, "these lines", "the others")
        with self._lock:
            self._take(other._seen, other._lines, other._counts, other._samples)

    def _take(
        self, documents: int, lines: Lines, counts: NDArray[np.int64], samples: dict[int, str]
    ) -> None:
        self._seen += documents
        self._lines, places = np.unique(np.append(self._lines, lines), return_inverse=True)
        sums = np.zeros(len(self._lines), np.int64)
        np.add.at(sums, places, np.append(self._counts, counts))
        self._counts = sums
        self._samples.update(samples)

    def freeze(self) -> IgnoredLines:
        """The lines that are in more than the share of the documents, and in two at least."""
        if self._seen != self.documents:
            raise UsageError(
                f"the lines of {self.documents} documents were counted, then of {self._seen}: "
                "both passes must read the same documents"
            )
        over = self._counts > self.limit
        lines = self._lines[over]
        samples = tuple(self._samples[line] for line in lines.tolist())
        return IgnoredLines(lines, self._counts[over], samples, self.documents)


def _texts_of(lines: Lines, texts: pa.Array, spec: Spec, key: Key | None) -> dict[int, str]:
    """Hash -> the line as it is compared, cut. The same wherever the line was found."""
    if not lines.size:
        return {}
    plain = normalise_texts(view_strings(texts), spec.profile)
    # A character has up to four bytes; one that the cut has hit is dropped by the second cut.
    data, begins, ends = kernels.line_texts(
        plain.data, plain.offsets, *_rules(spec), lines, make_hasher(spec, key), 4 * SAMPLE
    )
    return {
        line: data[begin:end].tobytes().decode(errors="ignore")[:SAMPLE]
        for line, begin, end in zip(lines.tolist(), begins.tolist(), ends.tolist(), strict=True)
    }


def strip_texts(
    texts: pa.Array, spec: Spec, ignored: IgnoredLines, key: Key | None = None
) -> pa.Array:
    """The texts as they are cut into shingles. A step that would leave nothing is left out."""
    return ignore_lines(strip_markup(texts, spec), ignored.hashes, spec, key)


def require_ignored_lines(spec: Spec, ignored: IgnoredLines) -> None:
    """Refuse a list of ignored lines that is not the one which the specification names."""
    if spec.ignored != ignored.digest:
        raise SpecMismatch(
            f"the specification ignores the lines {spec.ignored or 'of no list'}, the list at hand "
            f"is {ignored.digest or 'empty'}: pass the list that the specification was made with"
        )
