"""One run over files: read and sketch, decide, write. In memory but for texts and shingles."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

import neardup
from neardup.batch.output import RUN, check_output, made_beside
from neardup.batch.sketching import ReadAndSketch, sketched
from neardup.cluster import Decisions, FullBucket
from neardup.corpus.documents import Columns
from neardup.corpus.inputs import InputFile
from neardup.corpus.read import Chunk, chunks_of
from neardup.corpus.source import reading
from neardup.corpus.write import write_kept
from neardup.dedup import MAX_PAIRS, Corpus, Sketcher
from neardup.errors import RowError
from neardup.formats import tables
from neardup.options import Options

Integers = NDArray[np.int64]
SMALL = 32 << 20
LISTED_BUCKETS = 100
EXAMPLES = 3


class Progress(Protocol):
    """Shown to whoever waits: a stage begins with its amount of work, then advances."""

    def stage(self, name: str, total: int, unit: str) -> None: ...
    def advance(self, amount: int) -> None: ...


@dataclass(frozen=True)
class Job:
    """Everything that a run is asked to do."""

    inputs: list[InputFile]
    out: Path
    options: Options
    columns: Columns
    workers: int
    pairs: bool = False
    kept: bool = True
    force: bool = False
    strict: bool = False


@dataclass
class Catalogue:
    """Where each document comes from: file by file, in input order."""

    files: list[InputFile]
    rows: list[int]
    ids: list[pa.Array] = field(default_factory=list)

    @property
    def starts(self) -> Integers:
        return np.concatenate([[0], np.cumsum(self.rows)]).astype(np.int64)

    def place(self, documents: Integers) -> tuple[pa.Array, pa.Array]:
        """The file's name and the row in it of each document."""
        starts = self.starts
        file = np.searchsorted(starts, documents, side="right") - 1
        names = pa.array([printable(f.name) for f in self.files], tables.TEXT)
        return names.take(pa.array(file)), pa.array(documents - starts[file])

    def names(self, documents: Integers) -> pa.Array:
        """The id of each document: its own, or file:row."""
        own = pa.chunked_array(self.ids, tables.TEXT).take(pa.array(documents))
        own = own.combine_chunks()
        if own.null_count == 0:
            return own
        file, row = self.place(documents)
        return pc.coalesce(own, pc.binary_join_element_wise(file, row.cast(tables.TEXT), ":"))


def printable(name: str) -> str:
    """A file name that can be written as UTF-8, whatever its bytes are."""
    return name.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True)
class Finished:
    """What a run leaves: its record, as in run.json, and what the terminal shows of it."""

    record: dict[str, Any]
    largest: list[tuple[str, int]]
    examples: list[tuple[str, str, float]]


class Clock:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - begin, 4)


def run(job: Job, progress: Progress) -> Finished:
    """Do the job; OUT is complete afterwards, or as it was."""
    check_output(job.out, job.inputs, job.force)
    clock = Clock()
    with made_beside(job.out) as beside:
        corpus = Corpus(job.options, str(beside))
        with clock.stage("sketch"):
            catalogue = read(job, corpus, progress)
        with clock.stage("decide"):
            progress.stage("deciding", corpus.size, "documents")
            decisions = corpus.decide()
        write_decisions(beside, catalogue, decisions, corpus.rejected)
        found = None
        if job.pairs:
            with clock.stage("pairs"):
                progress.stage("pairing", corpus.size, "documents")
                found = write_pairs(beside, catalogue, corpus)
        if job.kept:
            with clock.stage("write"):
                write_files(beside / "kept", catalogue, decisions.kept, progress)
        with clock.stage("fingerprint"):
            inputs = describe_inputs(catalogue)
        record = describe(job, catalogue, decisions, corpus, found, inputs, clock)
        tables.write_json(beside / RUN, record)
        return Finished(record, *highlights(catalogue, decisions))


def read(job: Job, corpus: Corpus, progress: Progress) -> Catalogue:
    """Read and sketch all documents; the catalogue says where each is."""
    total = sum(file.path.stat().st_size for file in job.inputs)
    progress.stage("reading", total, "bytes")
    catalogue = Catalogue(job.inputs, [0] * len(job.inputs))
    number = {file.path: place for place, file in enumerate(job.inputs)}
    workers = job.workers if total > SMALL else 1
    work = ReadAndSketch(job.columns, Sketcher(job.options))
    chunks = advancing(chunks_of(job.inputs, job.columns), progress.advance)
    for chunk, documents, sketch in sketched(chunks, work, workers):
        before = corpus.size
        corpus.add(documents, sketch)
        catalogue.ids.append(documents.ids)
        if len(chunk.files) > 1:
            for file in chunk.files:
                catalogue.rows[number[file.path]] = 1
        else:
            catalogue.rows[number[chunk.files[0].path]] += corpus.size - before
        if job.strict and corpus.rejected:
            refuse(catalogue, corpus.rejected)
    return catalogue


def advancing(chunks: Iterator[Chunk], advance: Callable[[int], None]) -> Iterator[Chunk]:
    """Tell how much of the input has been handed out: a file's size, spread over its chunks."""
    for chunk in chunks:
        yield chunk
        advance(chunk.span[1] if chunk.span else len(chunk.data))


def refuse(catalogue: Catalogue, rejected: dict[int, str]) -> None:
    row, reason = min(rejected.items())
    file, place = catalogue.place(np.array([row]))
    raise RowError(
        f"{file[0].as_py()}, row {place[0].as_py()}: {reason}. "
        "Mend it, or run without --strict to set such rows aside"
    )


def write_decisions(
    folder: Path, catalogue: Catalogue, decisions: Decisions, rejected: dict[int, str]
) -> None:
    gone = decisions.removed
    witness = decisions.witness[gone]
    file, row = catalogue.place(gone)
    witness_file, witness_row = catalogue.place(witness)
    tables.write_table(folder / "removed.parquet", tables.REMOVED, {
        "id": catalogue.names(gone), "file": file, "row": row,
        "witness": catalogue.names(witness), "witness_file": witness_file,
        "witness_row": witness_row, "similarity": decisions.similarity[gone],
        "exact": decisions.exact[gone], "cluster": witness,
    })  # fmt: skip
    leaders, copies = np.unique(witness, return_counts=True)
    file, row = catalogue.place(leaders)
    tables.write_table(folder / "clusters.parquet", tables.CLUSTERS, {
        "cluster": leaders, "id": catalogue.names(leaders), "file": file, "row": row,
        "size": copies + 1,
    })  # fmt: skip
    bad = np.array(sorted(rejected), np.int64)
    file, row = catalogue.place(bad)
    tables.write_table(folder / "rejected.parquet", tables.REJECTED, {
        "id": catalogue.names(bad), "file": file, "row": row,
        "reason": [rejected[document] for document in bad.tolist()],
    })  # fmt: skip


def write_pairs(folder: Path, catalogue: Catalogue, corpus: Corpus) -> dict[str, int]:
    found = corpus.pairs()
    tables.write_table(folder / "pairs.parquet", tables.PAIRS, {
        "a": catalogue.names(found.a), "b": catalogue.names(found.b),
        "similarity": found.similarity,
    })  # fmt: skip
    return {"written": len(found.a), "limit": MAX_PAIRS, "beyond_limit": found.dropped,
            "capped_buckets": found.capped}  # fmt: skip


def write_files(
    folder: Path, catalogue: Catalogue, kept: NDArray[np.bool_], progress: Progress
) -> None:
    progress.stage("writing", sum(f.path.stat().st_size for f in catalogue.files), "bytes")
    folder.mkdir()
    starts = catalogue.starts
    for place, file in enumerate(catalogue.files):
        write_kept(file, kept[starts[place] : starts[place + 1]], folder / file.kept_name)
        progress.advance(file.path.stat().st_size)


def describe_inputs(catalogue: Catalogue) -> list[dict[str, Any]]:
    """Each input's size, hash and number of documents."""
    return [
        {"file": printable(file.name), "size": file.path.stat().st_size, "documents": rows,
         "xxh3_128": file_hash(file)}
        for file, rows in zip(catalogue.files, catalogue.rows, strict=True)
    ]  # fmt: skip


def file_hash(file: InputFile) -> str:
    digest = xxhash.xxh3_128()
    with reading(file), open(file.path, "rb", buffering=0) as stream:
        while block := stream.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


def describe(
    job: Job, catalogue: Catalogue, decisions: Decisions, corpus: Corpus,
    pairs: dict[str, int] | None, inputs: list[dict[str, Any]], clock: Clock,
) -> dict[str, Any]:  # fmt: skip
    """The content of run.json."""
    options, curve = job.options, job.options.curve
    removed = len(decisions.removed)
    full = sorted(decisions.full_buckets, key=lambda bucket: -bucket.beyond)
    return {
        "version": neardup.__version__,
        "spec": asdict(options.spec),
        "fingerprint": options.spec.fingerprint,
        "parameters": {
            "threshold": options.threshold, "recall": options.recall, "bands": curve.bands,
            "rows": curve.rows, "verify": options.verify, "keep": options.keep,
            "cluster": options.cluster, "limit": options.limit, "text": job.columns.text,
            "id": job.columns.id, "within": job.columns.within, "workers": job.workers,
            "pairs": job.pairs, "kept_files": job.kept, "strict": job.strict,
        },
        "counts": {
            "documents": corpus.size,
            "kept": int(np.count_nonzero(decisions.kept)),
            "removed": removed,
            "rejected": len(corpus.rejected),
            "identical": decisions.identical,
            "comparisons": decisions.compared,
        },
        "predicted": {
            "recall_at_threshold": curve.probability(options.threshold),
            "false_candidate_rate": curve.false_positive_rate(options.threshold),
        },
        "full_buckets": {
            "count": len(full),
            "listed": [describe_bucket(bucket, catalogue) for bucket in full[:LISTED_BUCKETS]],
        },
        "pairs": pairs,
        "seconds": clock.seconds | {"total": round(sum(clock.seconds.values()), 4)},
        "peak_memory_bytes": peak_memory(),
        "inputs": inputs,
    }  # fmt: skip


def describe_bucket(bucket: FullBucket, catalogue: Catalogue) -> dict[str, Any]:
    sample = catalogue.names(np.array([bucket.sample]))[0].as_py()
    return {"band": bucket.band, "key": f"{bucket.key:016x}", "size": bucket.size,
            "kept_beyond_limit": bucket.beyond, "sample": sample}  # fmt: skip


def peak_memory() -> int:
    """The largest resident size of this process plus that of its largest worker, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(resource.getrusage(one).ru_maxrss * unit for one in who)


def highlights(
    catalogue: Catalogue, decisions: Decisions
) -> tuple[list[tuple[str, int]], list[tuple[str, str, float]]]:
    """The largest clusters, and removed documents to show, near-copies rather than identical."""
    gone = decisions.removed
    leaders, copies = np.unique(decisions.witness[gone], return_counts=True)
    order = np.lexsort((leaders, -copies))[:EXAMPLES]
    names = catalogue.names(leaders[order]).to_pylist()
    largest = list(zip(names, copies[order].tolist(), strict=True))
    near = gone[decisions.similarity[gone] < 1.0]
    shown = (near if near.size else gone)[:EXAMPLES]
    examples = zip(
        catalogue.names(shown).to_pylist(),
        catalogue.names(decisions.witness[shown]).to_pylist(),
        decisions.similarity[shown].tolist(),
        strict=True,
    )
    return largest, list(examples)
