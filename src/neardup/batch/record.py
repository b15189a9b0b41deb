"""What is there to say about a run? The content of run.json, and what a terminal shows of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xxhash

import neardup
from neardup.batch.catalogue import Catalogue
from neardup.batch.job import Job, Progress
from neardup.cluster import Decisions, FullBucket
from neardup.corpus.inputs import InputFile
from neardup.corpus.source import reading

LISTED_BUCKETS = 100
LISTED_REASONS = 20
EXAMPLES = 3


class Clock:
    """Seconds by stage, and in total."""

    def __init__(self) -> None:
        self._begun = time.perf_counter()
        self._stages: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self._stages[name] = round(time.perf_counter() - begun, 4)

    @property
    def seconds(self) -> dict[str, float]:
        return self._stages | {"total": round(time.perf_counter() - self._begun, 4)}


@dataclass(frozen=True)
class Finished:
    """What a run leaves: its record, as in run.json, and what the terminal shows of it."""

    record: dict[str, Any]
    largest: list[tuple[str, int]]
    examples: list[tuple[str, str, float]]


def describe(
    job: Job,
    catalogue: Catalogue,
    decisions: Decisions,
    rejected: dict[int, str],
    pairs: dict[str, int] | None,
) -> dict[str, Any]:
    """What was asked for, and what came out."""
    options, columns, curve = job.options, job.columns, job.options.curve
    return {
        "version": neardup.__version__,
        "spec": asdict(options.spec),
        "fingerprint": options.spec.fingerprint,
        "parameters": {
            "threshold": options.threshold, "recall": options.recall, "bands": curve.bands,
            "rows": curve.rows, "verify": options.verify, "keep": options.keep,
            "cluster": options.cluster, "limit": options.limit, "text": columns.text,
            "id": columns.id, "within": columns.within, "workers": job.workers,
            "pairs": job.pairs, "kept_files": job.kept, "strict": job.strict,
        },
        "counts": {
            "documents": len(decisions.witness),
            "kept": int(np.count_nonzero(decisions.kept)),
            "removed": len(decisions.removed),
            "rejected": len(rejected),
            "identical": decisions.identical,
            "comparisons": decisions.compared,
        },
        "reasons": dict(Counter(rejected.values()).most_common(LISTED_REASONS)),
        "predicted": {
            "recall_at_threshold": curve.probability(options.threshold),
            "false_candidate_rate": curve.false_positive_rate(options.threshold),
        },
        "full_buckets": full_buckets(decisions, catalogue),
        "pairs": pairs,
    }  # fmt: skip


def full_buckets(decisions: Decisions, catalogue: Catalogue) -> dict[str, Any]:
    full = sorted(decisions.full_buckets, key=lambda bucket: -bucket.beyond)
    listed = [_bucket(bucket, catalogue) for bucket in full[:LISTED_BUCKETS]]
    return {"count": len(full), "listed": listed}


def _bucket(bucket: FullBucket, catalogue: Catalogue) -> dict[str, Any]:
    sample = catalogue.names(np.array([bucket.sample]))[0].as_py()
    return {"band": bucket.band, "key": f"{bucket.key:016x}", "size": bucket.size,
            "not_compared": bucket.beyond, "sample": sample}  # fmt: skip


def inputs(catalogue: Catalogue, progress: Progress) -> list[dict[str, Any]]:
    """Each input's size, hash and number of documents."""
    described = []
    for file, rows in zip(catalogue.files, catalogue.rows, strict=True):
        size, digest = _hashed(file, progress)
        described.append(
            {"file": file.name, "size": size, "documents": rows, "xxh3_128": digest}
        )  # fmt: skip
    return described


def _hashed(file: InputFile, progress: Progress) -> tuple[int, str]:
    digest, size = xxhash.xxh3_128(), 0
    with reading(file), open(file.path, "rb", buffering=0) as stream:
        while block := stream.read(1 << 22):
            digest.update(block)
            size += len(block)
            progress.advance(len(block))
    return size, digest.hexdigest()


def finished(record: dict[str, Any], catalogue: Catalogue, decisions: Decisions) -> Finished:
    """With the largest clusters, and removed documents to show: near-copies, if there are."""
    gone = decisions.removed
    leaders, copies = np.unique(decisions.witness[gone], return_counts=True)
    order = np.lexsort((leaders, -copies))[:EXAMPLES]
    names = catalogue.names(leaders[order]).to_pylist()
    near = gone[decisions.similarity[gone] < 1.0]
    shown = (near if near.size else gone)[:EXAMPLES]
    examples = zip(
        catalogue.names(shown).to_pylist(),
        catalogue.names(decisions.witness[shown]).to_pylist(),
        decisions.similarity[shown].tolist(),
        strict=True,
    )
    return Finished(record, list(zip(names, copies[order].tolist(), strict=True)), list(examples))
