"""Hash documents, paragraphs or lines to 128 bits, by the rules of what counts as equal.

The result for a shard is a sketch file without slots. For documents it has a hash each; for
paragraphs and lines it has also

    part_hashes   both halves of the hash of every part of min_length or more, document by document
    part_sizes    the bytes that are removed with each of these parts
    part_counts   the number of these parts of each document
    all_parts     the number of all parts of each document, the short ones too
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.corpus.documents import Documents
from neardup.corpus.read import Chunk
from neardup.errors import ParameterError
from neardup.pipeline.sketch_files import SketchedChunk
from neardup.pipeline.stages.sketch import BYTES_BESIDES_SLOTS
from neardup.sketcher import apart_hashes
from neardup.spec import PROFILES, Spec, check_choice, check_whole
from neardup.text.arrays import view_strings
from neardup.text.shingle import (
    Parts,
    find_parts,
    hash_parts,
    hash_texts,
    hash_unit_sequences,
    hash_units,
)

BY: Final = ("text", "words")
UNITS: Final = ("document", "paragraph", "line")
VERSION: Final = 1
MIN_LENGTH: Final = 20
MAX_LENGTH: Final = 2**31 - 1
BYTES_PER_PART: Final = 40
"""About the bytes of a line; paragraphs have more."""


@dataclass(frozen=True)
class ExactSpec:
    """What counts as equal: which units are compared, as texts or as words.

    `min_length` counts characters that are not white space.

    >>> ExactSpec().fingerprint == ExactSpec(by="words").fingerprint
    False
    """

    by: str = "text"
    unit: str = "document"
    min_length: int = 0
    profile: str = "standard"
    version: int = VERSION

    def __post_init__(self) -> None:
        check_choice("by", self.by, BY)
        check_choice("unit", self.unit, UNITS)
        check_choice("text profile", self.profile, PROFILES)
        least = 0 if self.unit == "document" else 1
        object.__setattr__(
            self, "min_length", check_whole("min length", self.min_length, least, MAX_LENGTH)
        )

    @classmethod
    def of(cls, by: str, unit: str, min_length: int | None, profile: str) -> ExactSpec:
        """Make it from options; `min_length` of paragraphs and lines is MIN_LENGTH by default."""
        if min_length is None:
            min_length = 0 if unit == "document" else MIN_LENGTH
        elif unit == "document":
            raise ParameterError(
                "--min-length is supported with --unit paragraph and --unit line only"
            )
        return cls(by, unit, min_length, profile)

    @property
    def spec(self) -> Spec | None:
        """The specification of words; None if texts are compared as they are."""
        return Spec(profile=self.profile) if self.by == "words" else None

    @property
    def stated(self) -> dict[str, Any]:
        """The settings that have an effect, by name."""
        settings = asdict(self)
        if self.spec is None:
            del settings["profile"]
        if self.unit == "document":
            del settings["min_length"]
        return settings | ({} if self.spec is None else {"words": self.spec.fingerprint})

    @property
    def canonical(self) -> str:
        """The settings as JSON, in one canonical form."""
        return json.dumps(self.stated, sort_keys=True, separators=(",", ":"))

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that are equal if and only if the settings are."""
        return hashlib.blake2b(self.canonical.encode(), digest_size=16).hexdigest()

    def parts(self, texts: pa.Array) -> Parts:
        """Find the parts of texts that are compared."""
        return find_parts(texts, self.unit, self.min_length)


@dataclass(frozen=True)
class HashMaker:
    """Makes hashes of documents, or of their parts."""

    spec: ExactSpec

    @property
    def basis(self) -> str:
        return self.spec.fingerprint

    def room(self, documents: int, length: int) -> float:
        """Estimate the bytes on disk; see `ChunkMaker`."""
        parts = 0 if self.spec.unit == "document" else length / BYTES_PER_PART
        return BYTES_BESIDES_SLOTS * documents + 21 * parts

    def __call__(self, chunk: Chunk, documents: Documents) -> SketchedChunk:
        hash_chunk = self._hash_whole if self.spec.unit == "document" else self._hash_parts
        columns, empty = hash_chunk(documents)
        columns["lengths"] = view_strings(documents.texts).sizes
        rejected = dict.fromkeys(empty.tolist(), "empty") if self.spec.by == "words" else {}
        return SketchedChunk(
            columns,
            documents.ids,
            documents.keep,
            rejected | documents.rejected,
            len(documents),
            chunk.files,
            sources=documents.sources,
        )

    def _hash_whole(
        self, documents: Documents
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
        """Return the hash of each document, and which documents are empty."""
        if self.spec.spec is None:
            hashes, empty = hash_texts(documents.texts), np.empty(0, np.int64)
        else:
            units = hash_units(documents.texts, self.spec.spec)
            hashes, empty = hash_unit_sequences(units), np.flatnonzero(units.sizes == 0)
        if (apart := apart_hashes(documents)) is not None:
            hashes = hashes ^ apart[:, None]
        return {"content": np.ascontiguousarray(hashes.T)}, empty

    def _hash_parts(
        self, documents: Documents
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
        """Return the columns of parts, and which documents are empty."""
        parts = self.spec.parts(documents.texts)
        hashes, counts = hash_parts(parts, self.spec.spec), np.diff(parts.firsts)
        if (apart := apart_hashes(documents)) is not None:
            hashes = hashes ^ np.repeat(apart, counts)[:, None]
        columns: dict[str, NDArray[Any]] = {
            "part_hashes": np.ascontiguousarray(hashes.T),
            "part_sizes": (parts.nexts - parts.begins).astype(np.uint32),
            "part_counts": counts,
            "all_parts": parts.counts,
        }
        return columns, np.flatnonzero(parts.counts == 0)
