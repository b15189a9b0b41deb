"""Frequent lines (menus, footers, licences), which are ignored when documents are compared.

They are found in two passes over the corpus, in bounded memory, by batches in any order:

    counts = LineCounts(spec)               pass 1: counts.add(texts) for every batch
    frequent = counts.above(share)          pass 2: frequent.add(texts) for every batch
    ignored = frequent.freeze()             exact, and the same for any batches

Pass 1 counts in a table of fixed size, where lines can share counters: a count is never too low.
Pass 2 counts exactly the lines that the table does not rule out. Threads may share both objects, or
fill objects of their own that are merged.

`IgnoredLines` as bytes, little-endian:

    0        4  magic "ndl1"
    4        4  number n of lines
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
from neardup.spec import UNIFYING, Spec
from neardup.text.arrays import Ragged, view_strings
from neardup.text.characters import character_table, normalise_texts
from neardup.text.masks import prepare_texts
from neardup.text.shingle import hash_units

MAGIC = b"ndl1"
HEAD = 16
SAMPLE = 200
"""Characters of a line that are kept for display."""


@dataclass(frozen=True, eq=False)
class IgnoredLines:
    """Lines that are in too many documents.

    Attributes:
        hashes: The hash of each line, ascending.
        counts: The number of documents that have the line.
        samples: The lines as they are compared: normalised, with single spaces, cut to 200
            characters.
        documents: The number of documents that were counted.
    """

    hashes: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    counts: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    samples: tuple[str, ...] = ()
    documents: int = 0

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def digest(self) -> str:
        """The digest that a specification states: 32 hexadecimal digits, empty for no lines."""
        data = self.hashes.astype("<u8").tobytes()
        return hashlib.blake2b(data, digest_size=16).hexdigest() if data else ""

    def most_frequent(self) -> list[tuple[str, int]]:
        """Return the lines with their numbers of documents, most frequent first."""
        rows = zip(self.samples, self.counts.tolist(), strict=True)
        return sorted(rows, key=lambda row: (-row[1], row[0]))

    def to_bytes(self) -> bytes:
        """Return the bytes that `from_bytes` reads."""
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
        """Return the list of bytes that `to_bytes` made; raise `FormatError` for others."""
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
    """Return the hashes that identify the lines of each text: those of the unit `line`."""
    return hash_units(texts, replace(spec, unit="line", size=1, stem="", segment=""), key)


def ignore_lines(texts: pa.Array, ignored: Lines, spec: Spec, key: Key | None = None) -> pa.Array:
    """Return the texts without the ignored lines.

    The other bytes stay as they are, line breaks included. A text that would lose all its lines
    keeps them, so that no document becomes empty.

    Args:
        texts: A large_string column.
        ignored: The hashes of the lines to remove, ascending.
        spec: The specification, whose profile lines are compared by.
        key: The secret key of a keyed specification.
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
    remaining = pa.Array.from_buffers(texts.type, len(texts), buffers)
    return pc.if_else(texts.is_valid(), remaining, pa.scalar(None, texts.type))


def _rules(spec: Spec) -> tuple[Any, ...]:
    """Return the kernels' arguments for folding a line: character table, case, digits."""
    table = character_table(spec.profile)
    return table.stage1, table.stage2, spec.profile != "conservative", spec.profile in UNIFYING


def _distinct_lines(texts: pa.Array, spec: Spec, key: Key | None) -> tuple[Lines, int]:
    """Return the distinct lines of each document, in one array, and how many documents have any."""
    hashes = hash_lines(texts, spec, key)
    lines, _ = kernels.distinct_rows(hashes.data, hashes.offsets)
    return lines, int(np.count_nonzero(hashes.sizes))


class _Shared:
    """An object with a lock that threads share; pickles leave the lock out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())


class LineCounts(_Shared):
    """Pass 1: an upper bound of each line's number of documents, in 32 MB. Thread-safe.

    A count-min sketch of two rows: a line has one counter in each, and its count is the lesser.
    Counting is plain addition, so that the result does not depend on batches or their order.

    Args:
        spec: The specification, whose profile lines are compared by.
        slots: The counters of a row, a power of two.
        key: The secret key of a keyed specification.
    """

    def __init__(self, spec: Spec, slots: int = SLOTS, key: Key | None = None) -> None:
        super().__init__()
        self.spec, self.key = spec, key
        self.documents = 0
        self._table = np.zeros((2, slots), np.uint32)

    def add(self, texts: pa.Array) -> None:
        """Count the lines of a batch of documents. Nulls and texts without lines don't count."""
        texts = prepare_texts(texts, self.spec)
        lines, documents = _distinct_lines(texts, self.spec, self.key)
        with self._lock:
            self.documents += documents
            kernels.count_lines(lines, self._table)

    def merge(self, other: LineCounts) -> None:
        """Add the counts of other documents."""
        self.spec.require_same(other.spec, "these counts", "the others")
        with self._lock:
            self.documents += other.documents
            room = FULL - self._table
            self._table += np.minimum(other._table, room)

    def above(self, share: Fraction) -> FrequentLines:
        """Return pass 2 for lines that are in strictly more than this share of the documents."""
        return FrequentLines(self.spec, self.key, share, self.documents, self._table)


class FrequentLines(_Shared):
    """Pass 2: exact counts of the lines that may be frequent. Thread-safe.

    If documents have k distinct lines on average, at most k / share lines are frequent. If a
    thousand are, one in ten million of the others is counted needlessly.

    Args:
        spec: The specification, whose profile lines are compared by.
        key: The secret key of a keyed specification.
        share: A line is frequent if it is in more than this share of the documents.
        documents: The number of documents of pass 1.
        table: The counters of pass 1.
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
        """Count the lines of a batch; all documents of pass 1 must be added, each once."""
        texts = prepare_texts(texts, self.spec)
        lines, documents = _distinct_lines(texts, self.spec, self.key)
        above = kernels.lines_above(lines, self._table, min(self.limit, FULL - 1))
        likely, counts = np.unique(above, return_counts=True)
        new = np.array([line for line in likely.tolist() if line not in self._samples], np.uint64)
        samples = _texts_of(new, texts, self.spec, self.key)
        with self._lock:
            self._add_counts(documents, likely, counts, samples)

    def merge(self, other: FrequentLines) -> None:
        """Add the counts of other documents."""
        self.spec.require_same(other.spec, "these lines", "the others")
        with self._lock:
            self._add_counts(other._seen, other._lines, other._counts, other._samples)

    def _add_counts(
        self, documents: int, lines: Lines, counts: NDArray[np.int64], samples: dict[int, str]
    ) -> None:
        self._seen += documents
        self._lines, places = np.unique(np.append(self._lines, lines), return_inverse=True)
        sums = np.zeros(len(self._lines), np.int64)
        np.add.at(sums, places, np.append(self._counts, counts))
        self._counts = sums
        self._samples.update(samples)

    def freeze(self) -> IgnoredLines:
        """Return the lines that are in more than the share of the documents, and at least two."""
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
    """Return hash -> sample of lines that are in the texts; it does not depend on the document."""
    if not lines.size:
        return {}
    plain = normalise_texts(view_strings(texts), spec.profile)
    # A character has up to four bytes; one that the first cut splits is dropped by the second.
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
    """Return the texts as they are shingled: without markup, masked, without ignored lines.

    A step that would leave a text empty is skipped for that text.
    """
    return ignore_lines(prepare_texts(texts, spec), ignored.hashes, spec, key)


def require_ignored_lines(spec: Spec, ignored: IgnoredLines) -> None:
    """Raise `SpecMismatch` if a list of ignored lines is not the one of the specification."""
    if spec.ignored != ignored.digest:
        raise SpecMismatch(
            f"the specification ignores the lines {spec.ignored or 'of no list'}, the given list "
            f"is {ignored.digest or 'empty'}: pass the list that the specification was made with"
        )
