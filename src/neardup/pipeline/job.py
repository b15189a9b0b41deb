"""The job of a batch run: inputs, output, options and limits.

`make_job` makes one of what a user gives, on the command line or in Python.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Literal

from neardup.corpus.conversion import COLUMNAR, DELIMITED
from neardup.corpus.documents import MERGE_ROWS, Columns, join_names
from neardup.corpus.fields import folder_columns
from neardup.corpus.folders import UnreadFiles
from neardup.corpus.format_table import JSON
from neardup.corpus.inputs import InputFile, InputOptions
from neardup.corpus.one_file import KeptFile
from neardup.corpus.read import CHUNK
from neardup.corpus.shards import SHARD, Reading
from neardup.corpus.standard_input import DASH, find_with_standard_input, is_standard_input
from neardup.corpus.urls import is_url
from neardup.decisions import Decisions
from neardup.errors import ParameterError, UsageError
from neardup.formats.decisions import DecisionSource, load_decisions
from neardup.formatting import parse_bytes
from neardup.keys import Key
from neardup.options import Options
from neardup.pipeline.backends.backend import Backend, LocalBackend
from neardup.pipeline.budget import Budget, check_workers
from neardup.pipeline.output_file import OutputFile, RemovedList, choose_output, choose_removed
from neardup.pipeline.sketch_files import SignatureStorage
from neardup.pipeline.stored_shards import StoredCorpus
from neardup.sketch.centre import VectorCentre
from neardup.sketcher import Sketcher
from neardup.source_counts import RemovalLimits
from neardup.spec import WEIGHTED, check_choice, check_number
from neardup.text.frequencies import Frequencies
from neardup.text.lines import IgnoredLines
from neardup.vector_layout import columns_of_vectors

SIGNATURE_BYTES = 4 << 20
"""The most bytes of a chunk's signatures, if its documents have SHORT_TEXT bytes or more."""
SHORT_TEXT = 200
LEAST_CHUNK = 1 << 16
MAX_REJECTED = 0.5
ANNOTATE: Final = ("kept", "all")
SAVED: Final = ("parquet",)
_WITH_COLUMNS = "write one file for --annotate, -o NAME.jsonl or NAME.parquet"


@dataclass(frozen=True)
class Job:
    """Everything that a run is asked to do.

    inputs          the files to deduplicate, in input order
    folders         those of the paths that the user gave as inputs which are folders
    input_options   what the user said about the input files beside their paths
    unread          the files that were found and are not read
    hints           what the user may have meant otherwise, in sentences
    max_rejected    the largest share of rejected documents with which the run succeeds
    pairs           write pairs.parquet
    kept            write the kept rows to OUT/kept
    annotate        write new columns, to the rows that are kept, or to all; None for none
    limits          how much may be removed; more stops the run before it writes kept rows
    strict          stop at the first bad row, instead of rejecting it
    skip_bad_files  skip files that can't be read, instead of stopping
    finish          called with the folder that becomes OUT, when everything else is in it
    against         the earlier corpus: folders of runs or sketches, files, addresses of indexes
    stored          those of the earlier corpus that are indexes, open
    against_names   what the user calls them, if these are fetched copies
    decisions       what people decided about documents and pairs
    same_ids        the user vouches that ids in decisions about other inputs mean these documents
    repeats         the finished run that this one is with other decisions
    prefer          pattern of the input files that rank before the others
    keep_full       save the full slots besides those that --bits has cut
    merge_rows      rows with the same id are one document
    ignored         lines that are not part of any document
    key             the secret of keyed hashes
    frequencies     document frequencies that shingles are weighted by
    centre          the centre of vectors
    removed         the list of removed documents that is written besides OUT, if OUT is a folder
    file            the file or standard output for the kept rows, if OUT is not a folder
    kept_file       the format of that file; known when the inputs are
    has_files       the inputs are files that the user knows, and so sources of documents
    shard, chunk    bytes of input that are sketched into one file, and at a time
    backend         does the work of the stages, on this machine or on a cluster
    """

    inputs: list[InputFile]
    out: Path
    options: Options
    columns: Columns
    workers: int
    folders: tuple[str, ...] = ()
    input_options: InputOptions = field(default_factory=InputOptions)
    unread: UnreadFiles = field(default_factory=UnreadFiles)
    hints: tuple[str, ...] = ()
    max_rejected: float = MAX_REJECTED
    pairs: bool = False
    kept: bool = True
    annotate: Literal["kept", "all"] | None = None
    limits: RemovalLimits = field(default_factory=RemovalLimits)
    force: bool = False
    strict: bool = False
    skip_bad_files: bool = False
    finish: Callable[[Path], object] = lambda _: None
    budget: Budget = field(default_factory=Budget)
    against: tuple[Path | str, ...] = ()
    stored: tuple[StoredCorpus, ...] = ()
    against_names: tuple[str, ...] = ()
    decisions: Decisions | None = None
    same_ids: bool = False
    repeats: Path | None = None
    prefer: str | None = None
    save_sketches: bool | Literal["parquet"] = False
    keep_full: bool = False
    merge_rows: bool = False
    ignored: IgnoredLines = field(default_factory=IgnoredLines)
    key: Key | None = None
    frequencies: Frequencies = field(default_factory=Frequencies)
    centre: VectorCentre = field(default_factory=VectorCentre)
    removed: RemovedList | None = None
    file: OutputFile | None = None
    kept_file: KeptFile | None = None
    has_files: bool = True
    shard: int = SHARD
    chunk: int = CHUNK
    backend: Backend = field(default_factory=LocalBackend)

    def __post_init__(self) -> None:
        if not 0 <= check_number("--max-rejected", self.max_rejected) <= 1:
            raise ParameterError(
                f"--max-rejected is a share from 0 to 1, not {self.max_rejected}: 1 allows all"
            )
        if (
            not self.has_files
            and self.columns.source is None
            and self.limits.per_source is not None
        ):
            raise UsageError(
                "--max-removed-per-source needs the column of the sources, since there are no "
                "files: give --source COLUMN"
            )
        narrow = self.options.spec.narrow
        if narrow and self.merge_rows:
            raise UsageError(
                "--merge-rows is not supported with --bits, whose slots can't be merged"
            )
        if self.options.vectors is not None and self.merge_rows:
            raise UsageError(
                f"--merge-rows is not supported with --{self.options.vectors.option}, as vectors "
                "of several rows can't be joined: leave one out"
            )
        if self.columns.distinguishes and self.merge_rows:
            raise UsageError(
                "--distinguish is not supported with --merge-rows, whose documents have the values "
                "and numbers of several rows: leave one out"
            )
        if not isinstance(self.save_sketches, bool):
            check_choice("form of saved sketches", self.save_sketches, SAVED)
        if self.annotate is not None:
            self._check_annotate()
        if self.keep_full and not narrow:
            raise UsageError("--keep-full needs --bits: without it, full slots are stored anyway")
        if self.file is not None:
            folder_only = {
                "--pairs": self.pairs,
                "--save-sketches": self.save_sketches,
                "--no-kept": not self.kept,
            }
            for option in (option for option, given in folder_only.items() if given):
                raise UsageError(
                    f"{option} needs a folder as the output: choose a name without an ending for -o"
                )

    def _check_annotate(self) -> None:
        """Refuse what does not go with new columns, as far as it is known before files are read."""
        check_choice("--annotate", self.annotate, ANNOTATE)
        if not self.kept:
            raise UsageError("--annotate adds columns to the rows that --no-kept leaves out")
        if self.merge_rows:
            raise UsageError("--annotate is not supported with --merge-rows: leave one out")
        if self.kept_file is not None and self.kept_file.format == "lines":
            raise UsageError(f"{self.kept_file.name} has no columns: {_WITH_COLUMNS}")
        for file in self.inputs if self.file is None else ():
            # What standard input holds is known when it is copied.
            if file.format not in (*JSON, *DELIMITED, *COLUMNAR) and not is_standard_input(file):
                raise UsageError(f"{file.name} is {file.format}, without columns: {_WITH_COLUMNS}")

    @property
    def described_columns(self) -> dict[str, str | None]:
        """The columns that name and contain documents, for run.json."""
        return {
            "text": self.columns.text,
            "id": None if self.merge_rows else self.columns.id,
            "merge_rows": self.columns.id if self.merge_rows else None,
        }

    @property
    def can_resume(self) -> bool:
        """Whether the same command can go on after it was stopped."""
        return not self.is_piped and not any(map(is_standard_input, self.inputs))

    @property
    def is_piped(self) -> bool:
        """Whether the kept rows go to standard output."""
        return self.file is not None and self.file.path is None

    @property
    def rejected_list(self) -> str:
        """Where the rejected documents of the finished run are listed, in words."""
        if self.file is None:
            return f"{self.out} is complete, and its rejected.parquet lists them"
        return "the kept rows are written; a folder as the output has a list of the others"

    @property
    def report_page(self) -> str | None:
        """Where the report of the finished run is, if it has one."""
        if self.file is None:
            return f"{self.out}/report.html"
        return None if self.file.report is None else str(self.file.report)

    def prefers(self, file: InputFile) -> bool:
        """Whether a file ranks before the others."""
        return matches_preferred(file, self.prefer)

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
        signature = self.storage.full_size
        fits = max(SIGNATURE_BYTES // signature * SHORT_TEXT, LEAST_CHUNK)
        return Reading(self.columns, min(self.chunk, fits), self.shard)

    @property
    def sketcher(self) -> Sketcher:
        """The sketcher of the job's documents; with --merge-rows, empty slots stay empty."""
        return Sketcher(
            self.options.spec,
            self.ignored,
            self.key,
            self.frequencies,
            open=self.merge_rows,
            numbers=self.columns.numbers,
            centre=self.centre,
            vetoes=self.options.vetoes_by_vectors,
        )

    @property
    def vetoes(self) -> bool:
        """Whether an option keeps similar documents, which are listed."""
        return self.columns.distinguishes or self.options.vetoes_by_vectors

    @property
    def storage(self) -> SignatureStorage:
        """How signatures are written to sketch files."""
        compared = self.options.verify != "exact"
        return SignatureStorage(
            self.options.spec,
            self.options.hash_tables,
            self.keep_full,
            self.merge_rows,
            temporary=not (
                compared or bool(self.save_sketches) or self.merge_rows or self.keep_full
            ),
        )


def matches_preferred(file: InputFile, prefer: str | None) -> bool:
    """Return whether the pattern of --prefer, if there is one, matches a file."""
    return prefer is not None and (
        fnmatchcase(file.name, prefer) or fnmatchcase(file.path.name, prefer)
    )


def make_job(
    inputs: Sequence[str | Path],
    out: str | Path | None,
    options: Options,
    *,
    text: str | Sequence[str] = "text",
    id: str | None = None,
    input_options: InputOptions | None = None,
    within: str | None = None,
    source: str | None = None,
    against: Sequence[str | Path] = (),
    merge_rows: str | None = None,
    decisions: DecisionSource | None = None,
    memory: str | int | None = None,
    workers: int | None = None,
    write_report: Callable[[Path, str], object] | None = None,
    removed: str | Path | None = None,
    report: str | Path | None = None,
    no_kept: bool = False,
    max_removed: float | None = None,
    max_removed_per_source: float | None = None,
    yes: bool = False,
    **others: Any,
) -> Job:
    """Return the job that a user asks for; find the inputs and check everything that can be.

    Args:
        inputs: Files, folders and globs; - for standard input.
        out: The folder to write; a file by its ending, or - for standard output, for the kept rows
            only; None for standard output if standard input is read.
        options: The matching options, checked.
        text: The column of the texts.
        id: The column of the ids.
        input_options: What the user says about the input files, beside their paths.
        within: The column whose value similar documents must share.
        source: The column by whose values removed documents are counted.
        against: The earlier corpus; those that are indexes are also given open, as `stored`.
        merge_rows: The column whose value the rows of one document share.
        decisions: What people decided: a file, or decisions.
        memory: The most memory to use, in bytes or as `2GB`; None for half of the free memory.
        workers: Threads to use; None for one per core.
        write_report: Called with the finished folder and with the title of its report.
        removed: The file for the table of removed documents, .parquet, .jsonl or .csv.
        report: The file for the report page, if `out` is a file.
        no_kept: Whether the kept rows are not written.
        max_removed: The largest share of all documents that may be removed.
        max_removed_per_source: The largest share of the documents of a source.
        yes: Whether more may be removed, after it was seen.
        **others: Fields of `Job` that are given to it as they are.
    """
    if out is None:
        if DASH not in map(str, inputs):
            raise UsageError("give -o OUT: a folder, a file, or - for standard output")
        out = DASH
    removed_list = choose_removed(removed)
    file = choose_output(out, removed_list, report)
    place = Path(tempfile.gettempdir(), "neardup-stdout") if str(out) == DASH else Path(out)
    if write_report is not None and (file is None or file.report is not None):
        others["finish"] = lambda folder: write_report(folder, place.resolve().name)
    input_options = input_options or {}
    files = find_with_standard_input(inputs, input_options)
    return Job(
        inputs=files,
        input_options=input_options,
        unread=files.unread,
        hints=(*files.hints, *_hint_of_folders(files, file is not None and not no_kept)),
        out=place,
        file=file,
        removed=removed_list if file is None else None,
        options=options,
        columns=make_columns(options, text, id, within, merge_rows, source),
        workers=check_workers(workers),
        kept=not no_kept,
        limits=RemovalLimits(max_removed, max_removed_per_source, yes),
        folders=tuple(os.fspath(path) for path in inputs if os.path.isdir(path)),
        against=to_earlier(against),
        merge_rows=merge_rows is not None,
        decisions=load_decisions(decisions, options.cluster, options.keep),
        budget=Budget(parse_bytes(memory) if isinstance(memory, str) else memory),
        **others,
    )


def to_earlier(against: Iterable[str | Path]) -> tuple[Path | str, ...]:
    """Return what --against names: paths; and addresses, which URLs are that were not fetched."""
    return tuple(one if isinstance(one, str) and is_url(one) else Path(one) for one in against)


def _hint_of_folders(files: Sequence[InputFile], is_one: bool) -> Iterator[str]:
    """Yield a sentence if inputs are in hive folders, and their kept rows go to one file."""
    named = {key: None for file in files if is_one for key in folder_columns(file)}
    if named:
        yield (
            f"the values of the folders {', '.join(named)} are not in the output, unless the files "
            "have columns of these names: give a folder as -o, which keeps the folders"
        )


def make_columns(
    options: Options,
    text: str | Sequence[str],
    id: str | None,
    within: str | None,
    merge_rows: str | None,
    source: str | None,
) -> Columns:
    """Return the columns to read; refuse those that don't go with one another or with options."""
    named = {"id": id, "within": within, "merge_rows": merge_rows, "source": source}
    if not isinstance(text, Sequence):
        named["text"] = text
    for option, name in named.items():
        if name is not None and not isinstance(name, str):
            raise ParameterError(
                f"{option} is {name!r}: pass the name of a column, such as {option}='name'"
            )
    if merge_rows is not None and id is not None:
        raise UsageError("--merge-rows names the documents: leave out --id")
    if merge_rows is not None and source is not None:
        raise UsageError(
            "--source is not supported with --merge-rows, whose documents may have rows of several "
            "sources: leave one out"
        )
    if merge_rows is not None and options.spec.sketch in WEIGHTED:
        what = "fingerprints" if options.by_bits else "those of bags"
        raise UsageError(
            f"--merge-rows joins sketches, and {what} can't be joined: use --sketch minhash, "
            "or join the rows before"
        )
    columns = Columns(
        text=join_names(text),
        id=merge_rows or id,
        id_option=MERGE_ROWS if merge_rows else "id",
        keep=options.keep_policy.column,
        dates=options.keep_policy.dates,
        within=within,
        tokens=options.spec.unit == "token",
        distinguish=options.distinguish.columns,
        numbers=options.distinguish.numbers,
        source=source,
    )
    return columns_of_vectors(options, columns)
