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
"""The most bytes of a chunk's signatures, if its documents have SHORT_TEXT bytes or more."""
SHORT_TEXT = 200
LEAST_CHUNK = 1 << 16


@dataclass(frozen=True)
class Job:
    """Everything that a run is asked to do.

    inputs          the files to deduplicate, in input order
    folders         those of the paths that the user gave as inputs which are folders
    pairs           write pairs.parquet
    kept            write the kept rows to OUT/kept
    strict          stop at the first bad row, instead of rejecting it
    skip_bad_files  skip files that can't be read, instead of stopping
    finish          called with the folder that becomes OUT, when everything else is in it
    against         the earlier corpus: folders of runs or sketches, or files
    prefer          pattern of the input files that rank before the others
    keep_full       save the full slots besides those that --bits has cut
    merge_rows      rows with the same id are one document
    ignored         lines that are not part of any document
    key             the secret of keyed hashes
    frequencies     document frequencies that shingles are weighted by
    shard, chunk    bytes of input that are sketched into one file, and at a time
    """

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
    budget: Budget = field(default_factory=Budget)
    against: tuple[Path, ...] = ()
    prefer: str | None = None
    save_sketches: bool = False
    keep_full: bool = False
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
        """Whether a file ranks before the others."""
        return self.prefer is not None and (
            fnmatchcase(file.name, self.prefer) or fnmatchcase(file.path.name, self.prefer)
        )

    def ordered_inputs(self) -> list[InputFile]:
        """Return the inputs, the preferred ones first; an error if none is preferred."""
        if self.prefer is not None and not any(map(self.prefers, self.inputs)):
            raise UsageError(
                f"--prefer {self.prefer!r} matches none of the inputs: check the pattern"
            )
        return sorted(self.inputs, key=lambda file: not self.prefers(file))

    @property
    def reading(self) -> Reading:
        """How the inputs are cut into shards and chunks."""
        # Long signatures of short documents take more memory than the texts: smaller chunks.
        signature = self.options.spec.slots * self.options.spec.width // 8
        fits = max(SIGNATURE_BYTES // signature * SHORT_TEXT, LEAST_CHUNK)
        return Reading(self.columns, min(self.chunk, fits), self.shard)

    @property
    def sketcher(self) -> Sketcher:
        """The sketcher of the job's documents; with --merge-rows, empty slots stay empty."""
        return Sketcher(
            self.options.spec, self.ignored, self.key, self.frequencies, open=self.merge_rows
        )

    @property
    def storage(self) -> SignatureStorage:
        """How signatures are written to sketch files."""
        return SignatureStorage(
            self.options.spec, self.options.hash_tables, self.keep_full, self.merge_rows
        )
