"""Write the tables of OUT (removed, clusters, rejected, samples) and the kept files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from heapq import nlargest
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.corpus.annotations import Annotate
from neardup.corpus.documents import make_strings
from neardup.corpus.one_file import KeptRows, write_one_file
from neardup.corpus.read import parse_rows
from neardup.corpus.rows import Edit
from neardup.corpus.write import write_kept
from neardup.errors import NeardupError
from neardup.explanation import SIGNAL_NAMES, name_signals
from neardup.formats import tables
from neardup.formats.blocks import remove_abandoned
from neardup.formats.tables import TableWriter, to_arrow
from neardup.options import Options
from neardup.overrides import Overrides
from neardup.pipeline.backends.backend import Advance
from neardup.pipeline.budget import Budget
from neardup.pipeline.catalogue import Catalogue
from neardup.pipeline.job import Job
from neardup.pipeline.output import copy_whole
from neardup.pipeline.sketch_files import Sketches
from neardup.pipeline.stages.annotate import StoredAnnotations
from neardup.pipeline.stages.removed import RemovedBatch, RemovedDocuments
from neardup.pipeline.stored_shards import StoredShard
from neardup.runtime import Progress, map_reporting

SAMPLED_CLUSTERS = 10
SAMPLED_COPIES = 3
SHOWN_ROWS = 3
MAX_TEXT = 20_000
BYTES_PER_FILE = 192 << 20
"""Bytes for a file that is written again: a row group of Parquet, and its columns compressed."""


class DocumentNames(Protocol):
    """Looks up the names of documents."""

    def names(self, documents: NDArray[np.int64]) -> pa.Array: ...


class DocumentPlaces(DocumentNames, Protocol):
    """Looks up also their places."""

    def place(self, documents: NDArray[np.int64]) -> tuple[pa.Array, pa.Array]: ...


class DocumentLookup(DocumentPlaces, Protocol):
    """Looks up also their texts."""

    def texts(self, documents: NDArray[np.int64]) -> pa.Array: ...


class RemovedTally(NamedTuple):
    """How many documents were removed because of what.

    Args:
        by_earlier: Those whose witness is in an earlier corpus.
        by_signal: Those that each of two signals removed; None with one signal.
    """

    by_earlier: int
    by_signal: dict[str, int] | None


def write_removed(
    folder: Path,
    lookup: DocumentPlaces,
    verdicts: Iterable[RemovedBatch],
    first_new: int,
    overrides: Overrides | None,
    options: Options | None = None,
) -> RemovedTally:
    """Write removed.parquet: every removed document and its witness, in input order.

    With decisions, also which of them removed it; with two signals, which of them did. Return how
    many of the witnesses are before `first_new`, in an earlier corpus, and how many documents each
    signal removed.
    """
    by_earlier, by_signal = 0, Counter[str | None]()
    schema = tables.REMOVED if overrides is None else tables.REMOVED_DECIDED
    two = options is not None and options.has_two_signals
    schema = pa.schema([*schema, *tables.SIGNALS]) if two else schema
    with TableWriter(folder / "removed.parquet", schema) as table:
        for batch in verdicts:
            columns = removed_columns(lookup, batch)
            if overrides is not None:
                said = overrides.explain_all(batch.documents, batch.witnesses)
                columns["decision"] = make_strings(said)
            if two and options is not None:
                of_signals = signal_columns(options, batch)
                by_signal.update(of_signals["by"].to_pylist())
                columns |= of_signals
            table.add(columns)
            is_earlier = (batch.witnesses >= 0) & (batch.witnesses < first_new)
            by_earlier += int(np.count_nonzero(is_earlier))
    named = {name: by_signal[name] for name in SIGNAL_NAMES} if two else None
    return RemovedTally(by_earlier, named)


def removed_columns(lookup: DocumentPlaces, batch: RemovedBatch) -> dict[str, object]:
    """Return the columns of removed.parquet for a batch."""
    file, row = lookup.place(batch.documents)
    known = batch.witnesses >= 0
    witnesses = batch.witnesses[known]
    witness_file, witness_row = lookup.place(witnesses)
    named = {
        "witness": lookup.names(witnesses),
        "witness_file": witness_file,
        "witness_row": witness_row,
        "similarity": to_arrow(batch.similarity[known]),
        "cluster": to_arrow(batch.clusters[known]),
    }
    return {
        "id": lookup.names(batch.documents),
        "file": file,
        "row": row,
        "exact": batch.exact,
        **{name: spread_to_known(known, values) for name, values in named.items()},
    }


def map_decisive(
    batches: Iterable[RemovedBatch], options: Options | None
) -> Iterator[RemovedBatch]:
    """Yield removed documents with the similarity that decided: of vectors, if texts did not."""
    for batch in batches:
        if options is None or not options.has_two_signals:
            yield batch
            continue
        by_vector = (batch.similarity < options.threshold) & ~np.isnan(batch.cosine)
        yield replace(batch, similarity=np.where(by_vector, batch.cosine, batch.similarity))


def signal_columns(options: Options, batch: RemovedBatch) -> dict[str, pa.Array]:
    """Return the columns about two signals for a batch of removed documents.

    Args:
        options: The options of the run.
        batch: The documents.
    """
    known = ~np.isnan(batch.cosine)
    by = np.array(name_signals(options, batch.similarity, batch.cosine), object)
    by[batch.witnesses < 0] = None
    return {
        "cosine": spread_to_known(known, to_arrow(batch.cosine[known])),
        "by": make_strings(by.tolist()),
    }


def spread_to_known(known: NDArray[np.bool_], values: pa.Array) -> pa.Array:
    """Return an array with the next of `values` where `known` is set, and null elsewhere."""
    if known.all():
        return values
    places = np.cumsum(known) - 1
    bits = pa.py_buffer(np.packbits(known, bitorder="little"))
    return values.take(pa.Array.from_buffers(pa.int64(), len(known), [bits, pa.py_buffer(places)]))


def write_clusters(
    folder: Path, catalogue: Catalogue, verdicts: RemovedDocuments, largest: int
) -> list[tuple[int, int]]:
    """Write clusters.parquet: every kept document with copies, in input order.

    Return the `largest` clusters: (document, copies).
    """
    most: list[tuple[int, int]] = []
    with TableWriter(folder / "clusters.parquet", tables.CLUSTERS) as table:
        for leaders, copies in verdicts.clusters():
            file, row = catalogue.place(leaders)
            table.add(
                {
                    "cluster": leaders,
                    "id": catalogue.names(leaders),
                    "file": file,
                    "row": row,
                    "size": copies + 1,
                }
            )
            best = np.lexsort([leaders, -copies])[:largest]
            sizes = zip(leaders[best].tolist(), copies[best].tolist(), strict=True)
            most = nlargest(largest, [*most, *sizes], key=lambda one: (one[1], -one[0]))
    return most


def write_rejected(folder: Path, catalogue: Catalogue, sketches: Sketches) -> Counter[str]:
    """Write rejected.parquet; return how many documents were rejected for each reason."""
    counted: Counter[str] = Counter()
    with TableWriter(folder / "rejected.parquet", tables.REJECTED) as table:
        for documents, reasons in sketches.rejected():
            file, row = catalogue.place(documents)
            table.add(
                {
                    "id": catalogue.names(documents),
                    "file": file,
                    "row": row,
                    "reason": make_strings(reasons),
                }
            )
            counted.update(reasons)
    return counted


@dataclass(frozen=True)
class WriteKept:
    """Writes inputs again, without the rows that are not kept; several files at once.

    edit  returns the rows of a file that get another text, for the number of the file
    """

    folder: Path
    edit: Callable[[int], Edit] | None
    budget: Budget

    def __call__(
        self, items: Iterable[tuple[int, KeptRows]], threads: int, advance: Advance
    ) -> Iterator[int]:
        files = list(items)
        together = max(min(threads, len(files), self.budget.share() // BYTES_PER_FILE), 1)
        write = partial(self._write, threads=threads // together)
        if together > 1:
            yield from map_reporting(files, write, together, advance)
        else:
            for item in files:
                yield write(item, advance)

    def _write(self, item: tuple[int, KeptRows], advance: Advance, threads: int) -> int:
        """Write a file, and return its number."""
        place, rows = item
        edit = None if self.edit is None else self.edit(place)
        path = self.folder / rows.file.kept_name
        write_kept(rows.file, rows.keep, path, advance, threads, edit, rows.annotate)
        return place


def write_kept_files(
    job: Job,
    folder: Path,
    catalogue: Catalogue,
    kept: NDArray[np.bool_],
    progress: Progress,
    edit: Callable[[int], Edit] | None = None,
    annotations: Path | None = None,
    same: Callable[[int], Path | None] | None = None,
) -> None:
    """Write kept/: a copy of every input without the rows of removed and rejected documents.

    With `job.kept_file`, it is one file with the rows of all inputs, in the order of the inputs.
    `edit` returns the rows of a file that get another text, for the number of the file. The new
    columns of the rows are in the file `annotations`, if they get any. `same` returns a file that
    has the kept rows of a file already, None if there is none.
    """
    progress.stage("writing", len(kept) - catalogue.sketches.first_new, "rows")
    folder.mkdir(exist_ok=True)
    masks = {
        place: kept[catalogue.starts[place] : catalogue.starts[place + 1]]
        for place in range(catalogue.new, len(catalogue.files))
    }

    def annotate(place: int) -> Annotate | None:
        start = int(catalogue.starts[place])
        return None if annotations is None else StoredAnnotations(annotations, start)

    if job.kept_file is not None:
        order = {file: number for number, file in enumerate(job.inputs)}
        rows = [
            KeptRows(catalogue.files[place], masks[place], edit and edit(place), annotate(place))
            for place in sorted(masks, key=lambda place: order[catalogue.files[place]])
        ]
        path = folder / job.kept_file.name
        write_one_file(rows, job.kept_file, path, progress.advance, job.workers)
        return
    items = []
    for place, mask in masks.items():
        file = catalogue.files[place]
        if same is not None and (found := same(place)) is not None:
            copy_whole(found, folder / file.kept_name)
            progress.advance(len(mask))
        else:
            items.append((place, KeptRows(file, mask, annotate=annotate(place))))
    work = WriteKept(folder, edit, job.budget)
    for _ in job.backend.run(work, items, job.workers, progress.advance):
        pass
    if job.backend.is_remote:
        remove_abandoned(folder)


def sample_clusters(
    folder: Path,
    catalogue: Catalogue,
    verdicts: Iterable[RemovedBatch],
    largest: list[tuple[int, int]],
) -> list[tuple[str, str, float, bool]]:
    """Write samples.parquet: documents of the largest clusters, each with its kept document first.

    Return removed documents to show on the terminal, near-copies if there are any:
    (name, witness, decisive similarity, whether that is the cosine of two signals).
    """
    chosen: dict[int, list[tuple[float, int]]] = {kept: [] for kept, _ in largest}
    near: list[tuple[int, int, float, bool]] = []
    other: list[tuple[int, int, float, bool]] = []
    for batch in verdicts:
        for kept, copies in chosen.items():
            places = np.flatnonzero((batch.clusters == kept) & (batch.documents != kept))
            least = places[np.argsort(batch.similarity[places], kind="stable")[:SAMPLED_COPIES]]
            found = zip(
                batch.similarity[least].tolist(), batch.documents[least].tolist(), strict=True
            )
            copies[:] = sorted([*copies, *found])[:SAMPLED_COPIES]
        for listed, mask in ((near, batch.similarity < 1.0), (other, batch.similarity >= 1.0)):
            for place in np.flatnonzero(mask)[: SHOWN_ROWS - len(listed)].tolist():
                listed.append(
                    (
                        int(batch.documents[place]),
                        int(batch.witnesses[place]),
                        float(batch.similarity[place]),
                        bool(batch.similarity[place] == batch.cosine[place]),
                    )
                )
    write_samples(folder / "samples.parquet", CatalogueLookup(catalogue), largest, chosen)
    return name_examples(catalogue, near or other)


def name_examples(
    lookup: DocumentNames, shown: list[tuple[int, int, float, bool]]
) -> list[tuple[str, str, float, bool]]:
    """Replace the numbers of removed documents and their witnesses by their names."""
    names = lookup.names(np.array([one[0] for one in shown], np.int64)).to_pylist()
    witnesses = lookup.names(np.array([one[1] for one in shown], np.int64)).to_pylist()
    return [
        (name, witness, similarity, by_vector)
        for name, witness, (_, _, similarity, by_vector) in zip(
            names, witnesses, shown, strict=True
        )
    ]


def name_largest(lookup: DocumentNames, largest: list[tuple[int, int]]) -> list[tuple[str, int]]:
    """Return the largest clusters to show on the terminal: (name, copies)."""
    shown = largest[:SHOWN_ROWS]
    names = lookup.names(np.array([document for document, _ in shown], np.int64)).to_pylist()
    return [(name, copies) for name, (_, copies) in zip(names, shown, strict=True)]


def write_samples(
    path: Path,
    lookup: DocumentLookup,
    largest: list[tuple[int, int]],
    chosen: dict[int, list[tuple[float, int]]],
) -> None:
    """Write a table of samples: the kept document and chosen copies of the largest clusters.

    `chosen` has for each kept document its copies: (similarity, document).
    """
    rows = [
        (kept, document, document == kept, similarity)
        for kept, _ in largest
        for similarity, document in [(1.0, kept), *chosen[kept]]
    ]
    cluster, documents, is_kept, similarity = zip(*rows, strict=True) if rows else ((),) * 4
    numbers = np.array(documents, np.int64)
    file, row = lookup.place(numbers)
    with TableWriter(path, tables.SAMPLES) as table:
        table.add(
            {
                "cluster": np.array(cluster, np.int64),
                "id": lookup.names(numbers),
                "file": file,
                "row": row,
                "kept": np.array(is_kept, bool),
                "similarity": np.array(similarity, float),
                "text": lookup.texts(numbers),
            }
        )


@dataclass(frozen=True)
class CatalogueLookup:
    """Looks up documents of a local run; their texts are read from the inputs again."""

    catalogue: Catalogue

    def place(self, documents: NDArray[np.int64]) -> tuple[pa.Array, pa.Array]:
        return self.catalogue.place(documents)

    def names(self, documents: NDArray[np.int64]) -> pa.Array:
        return self.catalogue.names(documents)

    def texts(self, documents: NDArray[np.int64]) -> pa.Array:
        return read_texts(self.catalogue, self.catalogue.first_rows(documents).tolist())


def read_texts(catalogue: Catalogue, documents: list[int]) -> pa.Array:
    """Read the beginnings of documents' texts again; null where that fails."""
    texts: dict[int, str] = {}
    sketches = catalogue.sketches
    shards = np.searchsorted(sketches.starts, documents, side="right") - 1
    for shard in sorted(set(shards.tolist())):
        start, end = sketches.starts[shard : shard + 2].tolist()
        wanted = {document for document in documents if start <= document < end}
        if isinstance(stored := sketches.shards[shard], StoredShard):
            found = stored.texts([document - start for document in sorted(wanted)])
            texts |= {start + place: cut_text(text) for place, text in found.items()}
            continue
        reading, chunks = sketches.shards[shard].reading, sketches.shards[shard].chunks()
        counts = [count for block in sketches.blocks_of(shard) for count in block.chunks]
        try:
            for count, chunk in zip(counts, chunks, strict=False):
                in_chunk = sorted(d for d in wanted if start <= d < start + count)
                if in_chunk:
                    rows = np.array(in_chunk, np.int64) - start
                    column = parse_rows(chunk, reading.columns, rows, count).texts
                    for place, document in enumerate(in_chunk):
                        texts[document] = cut_text(column[place].as_py())
                start += count
        except NeardupError:
            continue
    return make_strings([texts.get(document) for document in documents])


def cut_text(text: str | list[int] | None) -> str:
    """Return the beginning of a text, or of a list of tokens, that samples.parquet has."""
    whole = text if isinstance(text, str) else " ".join(map(str, text or []))
    return whole[:MAX_TEXT]


@dataclass(frozen=True)
class TableSummary:
    """What run.json and the terminal show of the tables; see `FinishedRun` and `RunCounts`."""

    reasons: Counter[str]
    largest: list[tuple[str, int]]
    examples: list[tuple[str, str, float, bool]]
    tally: RemovedTally


def write_tables(
    folder: Path,
    catalogue: Catalogue,
    sketches: Sketches,
    verdicts: RemovedDocuments,
    progress: Progress,
    overrides: Overrides | None = None,
    options: Options | None = None,
) -> TableSummary:
    """Write all tables of OUT but pairs.parquet, cut.parquet and decided.parquet."""
    progress.stage("writing tables", verdicts.count, "documents")
    first_new = sketches.first_new
    tally = write_removed(folder, catalogue, verdicts, first_new, overrides, options)
    largest = write_clusters(folder, catalogue, verdicts, SAMPLED_CLUSTERS)
    reasons = write_rejected(folder, catalogue, sketches)
    examples = sample_clusters(folder, catalogue, map_decisive(verdicts, options), largest)
    return TableSummary(reasons, name_largest(catalogue, largest), examples, tally)
