"""The job of a batch run: inputs, output, options and limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from neardup.corpus.documents import Columns
from neardup.corpus.inputs import InputFile
from neardup.corpus.read import CHUNK
from neardup.corpus.shards import SHARD, Reading
from neardup.errors import UsageError
from neardup.keys import Key
from neardup.options import Options
from neardup.pipeline.budget import Budget
from neardup.pipeline.sketch_files import SignatureStorage
from neardup.sketcher import Sketcher
from neardup.text.frequencies import Frequencies
from neardup.text.lines import IgnoredLines

SIGNATURE_BYTES = 4 << 20
"""Bytes of a chunk's signatures, at most, if its documents are not shorter than this:"""
SHORT_TEXT = 200
LEAST_CHUNK = 1 << 16


@dataclass(frozen=True)
class Job:
    """Everything that a run is asked to do. `folders` are the inputs that are folders."""

    inputs: list[InputFile]
    out: Path
    options: Options
    columns: Columns
    workers: int
    folders: tuple[str, ...] = ()
    pairs: bool = False
    kept: bool = True
    force: bool = False
    strict: bool = False
    skip_bad_files: bool = False
    finish: Callable[[Path], object] = lambda _: None
    """Called with the folder that becomes OUT, when everything else is in it."""
    budget: Budget = field(default_factory=Budget)
    against: tuple[Path, ...] = ()
    prefer: str | None = None
    save_sketches: bool = False
    keep_full: bool = False
    """Whether saved sketches whose slots are cut have the full ones as well."""
    merge_rows: bool = False
    ignored: IgnoredLines = field(default_factory=IgnoredLines)
    key: Key | None = None
    frequencies: Frequencies = field(default_factory=Frequencies)
    shard: int = SHARD
    chunk: int = CHUNK

    def __post_init__(self) -> None:
        narrow = self.options.spec.narrow
        if narrow and self.merge_rows:
            raise UsageError(
                "--merge-rows is not supported with --bits, whose slots can't be merged"
            )
        if self.keep_full and not narrow:
            raise UsageError("--keep-full needs --bits: without it, full slots are stored anyway")

    def prefers(self, file: InputFile) -> bool:
        """Whether a file goes before the others."""
        return self.prefer is not None and (
            fnmatchcase(file.name, self.prefer) or fnmatchcase(file.path.name, self.prefer)
        )

    def ordered_inputs(self) -> list[InputFile]:
        """The inputs, the preferred ones first."""
        if self.prefer is not None and not any(map(self.prefers, self.inputs)):
            raise UsageError(
                f"--prefer {self.prefer!r} matches none of the inputs: check the pattern"
            )
        return sorted(self.inputs, key=lambda file: not self.prefers(file))

    @property
    def reading(self) -> Reading:
        """How the inputs are read."""
        # Of short documents with long signatures, fewer at a time.
        each = self.options.spec.slots * self.options.spec.width // 8
        fits = max(SIGNATURE_BYTES // each * SHORT_TEXT, LEAST_CHUNK)
        return Reading(self.columns, min(self.chunk, fits), self.shard)

    @property
    def sketcher(self) -> Sketcher:
        return Sketcher(
            self.options.spec, self.ignored, self.key, self.frequencies, open=self.merge_rows
        )

    @property
    def storage(self) -> SignatureStorage:
        """What of the signatures is written."""
        return SignatureStorage(
            self.options.spec, self.options.hash_tables, self.keep_full, self.merge_rows
        )
