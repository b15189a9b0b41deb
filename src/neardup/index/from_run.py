"""Make an index of the sketches that a batch run has saved, without any text.

Documents that the run kept are kept, and documents that it removed are copies of the same witness.
None has shingles, so similarities to them are estimated by signatures.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from neardup.errors import FormatError, UsageError
from neardup.index.arrivals import SignatureCodec
from neardup.index.place import IndexLoader, new_index
from neardup.index.settings import DISTINGUISH, POINT_NAMES, IndexSettings, changed, options_of
from neardup.index.store import Row
from neardup.index.validation import is_valid_id
from neardup.lsh.bands import Tables
from neardup.lsh.curve import format_layout
from neardup.option_table import LAYOUT
from neardup.options import Options
from neardup.pipeline.catalogue import Catalogue
from neardup.pipeline.output import RUN_FILE, is_run
from neardup.pipeline.saved import SketchSet, find_sketch_folder
from neardup.pipeline.sketch_files import OPEN, SLOTS, TABLES, SketchBlock, Sketches, read_compared
from neardup.runtime import SILENT, Progress

AT_ONCE: Final = 4_096
"""Documents of a transaction."""

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class LoadedRun:
    """The result of loading a run."""

    settings: IndexSettings
    documents: int
    kept: int
    left_out: int
    """Removed documents whose witness is not in the run, and rejected ones."""
    renamed: int
    """Documents that are called by file and row, because their id is invalid or repeated."""

    @property
    def copies(self) -> int:
        return self.documents - self.kept


@dataclass(frozen=True)
class RunDecisions:
    """The decision of a run about each document, and whether the document is loaded."""

    loaded: NDArray[np.bool_]
    witness: Integers
    """-1 if it is kept."""
    similarity: NDArray[np.float64]
    exact: NDArray[np.bool_]

    @cached_property
    def numbers(self) -> Integers:
        """The number of each loaded document in the index."""
        return np.cumsum(self.loaded)


def load_sketches(
    run: str | Path,
    path: str | Path,
    point: dict[str, Any],
    progress: Progress = SILENT,
    clock: Callable[[], float] = time.time,
) -> LoadedRun:
    """Make an index of a run, or of a set of saved sketches, in a new folder or on Redis.

    Args:
        run: The folder of the run or of the sketches.
        path: The folder of the index, or the address of servers that have none of this name.
        point: Options of the operating point that differ from those of the run.
        progress: Receives the progress.
        clock: Returns the time at which the documents are added.
    """
    sketches = Path(run)
    if is_run(folder := find_sketch_folder(sketches)):  # of a run over URLs, with its decisions
        sketches = folder
    saved = SketchSet.open(folder)
    _check(saved, sketches)
    record = json.loads((sketches / RUN_FILE).read_bytes()) if is_run(sketches) else None
    settings = IndexSettings(
        _options(saved, record, point),
        False,
        saved.ignored,
        saved.frequencies,
        within=_find_groups(saved, sketches),
    )
    everything = Sketches(saved.shards, saved.files)
    _require_keys(everything, settings, sketches)
    decided = _run_decisions(sketches, saved, everything, record)
    with new_index(path, settings) as loader:
        names = _Names(Catalogue.of(everything))
        progress.stage("loading", len(everything), "documents")
        for block in everything.blocks:
            _load(loader, block, decided, names, SignatureCodec.of(settings), clock())
            progress.advance(block.rows)
    left_out = len(everything) - loader.documents
    return LoadedRun(settings, loader.documents, loader.kept, left_out, names.renamed)


def _check(saved: SketchSet, where: Path) -> None:
    """Refuse sketches of runs whose documents an index would judge differently."""
    columns = [shard.reading.columns for shard in saved.shards]
    option = None
    if any(one.vectors for one in columns):
        option = f"--{next(one.vectors_option for one in columns if one.vectors)}"
    elif any(one.distinguish for one in columns):
        option = "--distinguish COLUMN"
    elif any(one.id_option == "merge-rows" for one in columns) or any(
        file.note_of(block).get(OPEN) for file in saved.files for block in range(len(file))
    ):
        option = "--merge-rows"
    if option is not None:
        raise UsageError(
            f"{where} was made with {option}, which an index of saved sketches does not support: "
            "build the index from the files"
        )


def _find_groups(saved: SketchSet, where: Path) -> str:
    """Return the column of the groups of documents; "" if they have none."""
    named = {shard.reading.columns.within or "" for shard in saved.shards}
    if len(named) > 1:
        raise UsageError(
            f"{where} was made with several columns for --within: build the index from the files"
        )
    return named.pop() if named else ""


def _options(saved: SketchSet, record: dict[str, Any] | None, changes: dict[str, Any]) -> Options:
    """Return the operating point of the run with `changes`; `record` is its run.json."""
    saved_bands = [file.note_of(0).get(TABLES) for file in saved.files if len(file)]
    changes_bands = bool(changes.keys() & LAYOUT)
    point: dict[str, Any] = {}
    if record is not None:
        names = [name for name in POINT_NAMES if name not in ("bands", "rows")]
        point = {name: record["parameters"].get(name) for name in names}
    elif saved_bands and saved_bands[0] is not None and not changes_bands:
        point = {"tables": ",".join(f"{bands}x{rows}" for bands, rows in saved_bands[0])}
    if saved.spec.sketch == "simhash" and point.get("verify") != "exact":
        point.pop("threshold", None)
    if any(shard.reading.columns.numbers for shard in saved.shards):
        point[DISTINGUISH] = "numbers"
    options = options_of(saved.spec, point)
    return changed(options, changes) if changes else options


def _require_keys(everything: Sketches, settings: IndexSettings, where: Path) -> None:
    """Refuse other bands for narrow slots: only the keys of their run are stored."""
    tables = settings.options.hash_tables
    for block in everything.blocks:
        note = block.file.note_of(block.number)
        if not block.file.has(block.number, SLOTS) and note.get(TABLES) != tables.stated:
            raise UsageError(
                f"the slots of {where} are cut, and its keys are for other bands than "
                f"{format_layout(settings.options.curve)}: leave out what changes the bands"
            )


def _run_decisions(
    where: Path, saved: SketchSet, everything: Sketches, record: dict[str, Any] | None
) -> RunDecisions:
    usable = np.concatenate([np.empty(0, bool), *(block.usable() for block in everything.blocks)])
    kept = usable & saved.kept
    size = len(kept)
    decided = RunDecisions(kept.copy(), np.full(size, -1), np.zeros(size), np.ones(size, bool))
    if record is None or record["parameters"]["against"]:
        return decided  # removed documents may be copies of documents of an earlier corpus
    removed = np.flatnonzero(usable & ~kept)
    table = pq.read_table(
        where / "removed.parquet", columns=["cluster", "similarity", "exact"], use_threads=False
    )
    if len(table) != len(removed):
        raise FormatError(
            f"{where}: removed.parquet and the sketches don't belong together: run again"
        )
    witness, similarity, exact = (
        table.column(name).to_numpy() for name in ("cluster", "similarity", "exact")
    )
    with_witness = np.flatnonzero(~np.isnan(witness.astype(np.float64)))
    rows = removed[with_witness]
    decided.witness[rows] = witness[with_witness].astype(np.int64)
    decided.similarity[rows] = similarity[with_witness]
    decided.exact[rows] = exact[with_witness]
    decided.loaded[rows] = kept[decided.witness[rows]]
    return decided


class _Names:
    """The ids of documents; an invalid or repeated id is replaced by file and row."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._taken: set[str] = set()
        self.renamed = 0

    def of(self, documents: Integers) -> list[str]:
        """Return the ids of documents."""
        names: list[str] = self._catalogue.names(documents).to_pylist()
        for at, name in enumerate(names):
            if name in self._taken or not is_valid_id(name):
                file, row = self._catalogue.place(documents[at : at + 1])
                names[at] = f"{file[0]}:{row[0]}"
                self.renamed += 1
            self._taken.add(names[at])
        return names


def _load(
    loader: IndexLoader,
    block: SketchBlock,
    decided: RunDecisions,
    names: _Names,
    codec: SignatureCodec,
    now: float,
) -> None:
    """Load the documents of a block, AT_ONCE in a transaction."""
    loaded = np.flatnonzero(decided.loaded[block.start : block.end])
    if not len(loaded):
        return
    contents = np.ascontiguousarray(block.column("content").T)
    compared = np.ascontiguousarray(read_compared(block.file, block.number).T)
    keys = _keys(block, codec.lsh) if codec.options.spec.narrow else None
    hashes = [block.column(name) for name in ("apart", "distinct")[: codec.hashes]]
    apart = np.stack(hashes, axis=1) if hashes else None
    numbers = decided.numbers
    for start in range(0, len(loaded), AT_ONCE):
        rows = loaded[start : start + AT_ONCE]
        documents = rows + block.start
        stored = list(_rows(documents, contents[rows], names.of(documents), decided, numbers, now))
        signatures = codec.pack(
            compared[rows] if keys is None else keys[rows],
            compared[rows],
            None if apart is None else apart[rows],
        )
        blobs = list(zip(numbers[documents].tolist(), signatures, strict=True))
        loader.add(stored, {"signatures": blobs})


def _rows(
    documents: Integers,
    contents: NDArray[np.uint64],
    ids: Sequence[str],
    decided: RunDecisions,
    numbers: Integers,
    now: float,
) -> Iterator[Row]:
    """Yield the rows that are stored of documents."""
    columns = (numbers, decided.witness, decided.similarity, decided.exact)
    each = zip(*(column[documents].tolist() for column in columns), strict=True)
    for (number, witness, similarity, exact), id, content in zip(each, ids, contents, strict=True):
        if witness < 0:
            yield Row(number, id, content.tobytes(), None, None, 1, now, None)
        else:
            yield Row(
                number,
                id,
                content.tobytes(),
                int(numbers[witness]),
                similarity,
                int(exact),
                now,
                None,
            )


def _keys(block: SketchBlock, tables: Tables) -> NDArray[np.uint64]:
    return np.stack([block.keys(tables, table) for table in range(tables.count)], axis=1)
