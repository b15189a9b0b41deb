"""Find the cheapest operating point that finds enough, on documents of one's own.

    sample -> truth by brute force -> a trial of each point -> advice

A trial's recall and precision are those of the pairs that it finds, against the pairs whose exact
similarity by the reference's shingles reaches the reference's threshold, whatever shingles, sketch
and threshold the trial has. Identical documents are found without bands: all but one are left out.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from neardup import cluster
from neardup.batch.candidates import as_sets
from neardup.batch.interrupts import Interruptible, held
from neardup.batch.job import Progress
from neardup.corpus.documents import Columns, Documents
from neardup.corpus.frames import from_data
from neardup.corpus.inputs import InputFile
from neardup.dedup import Sketcher
from neardup.errors import InputError, ParameterError
from neardup.evaluate.sample import Sample, as_documents, choose, choose_from
from neardup.evaluate.truth import Truth, brute_force, expected_seconds
from neardup.options import Options
from neardup.plan.cache import Cache
from neardup.plan.recommend import Wanted, advise
from neardup.plan.space import Space, text_shingle
from neardup.plan.trial import COUNTING, DONE, TIMEOUT, Outcome, Point
from neardup.plan.tuning import Tuning
from neardup.plan.worker import Worker, write_task
from neardup.spec import real, whole
from neardup.text.arrays import Ragged, strings

SAMPLE = 5_000
LARGEST_SAMPLE = 100_000
TIME_LIMIT = 60.0
LOOSE = 0.5
"""The truth goes down to this share of the threshold, so that pages can show what is below it."""


@dataclass(frozen=True)
class Request:
    """What is wanted of a sweep, checked."""

    reference: Point
    recall: float
    precision: float
    space: Space
    shared: Mapping[str, Any] = field(default_factory=dict)
    time_limit: float = TIME_LIMIT

    @classmethod
    def of(
        cls, *, threshold: float = 0.8, recall: float = 0.99, precision: float = 0.99,
        shingle: str = "word:5", text_profile: str = "standard", seed: int = 0,
        time_limit: float = TIME_LIMIT, **axes: Any,
    ) -> Request:  # fmt: skip
        """As people write it."""
        if not real("time limit", time_limit) > 0.0:
            raise ParameterError(f"the time limit must be above 0 seconds, not {time_limit:g}")
        if not 0.0 <= real("precision", precision) <= 1.0:
            raise ParameterError(f"precision must be from 0 to 1, not {precision}")
        text_shingle(shingle)
        shared: dict[str, Any] = {"text_profile": text_profile}
        default = Options.of(
            threshold=threshold, recall=recall, shingle=shingle, seed=seed, **shared
        )
        reference = Point.of(default)
        space = Space.of(reference, **axes)
        return cls(reference, default.recall, float(precision), space, shared, float(time_limit))

    @property
    def options(self) -> Options:
        return self.reference.options(**self.shared)


@dataclass(frozen=True)
class Specimen:
    """The sample without identical documents, and its sets of shingles by the reference."""

    sample: Sample
    documents: Documents
    sets: Ragged
    copies: int

    @classmethod
    def of(cls, sample: Sample, options: Options) -> Specimen:
        documents = as_documents(sample.texts)
        cut = Sketcher(options.spec).cut(documents)
        visible = np.flatnonzero(cut.shingles.sizes > 0)
        different = np.unique(cluster.identical(cut.content, visible)[visible])
        if len(different) < 2:
            raise InputError(
                "there are fewer than two different documents with a text: nothing to compare"
            )
        documents = documents.take(different)
        sets = as_sets(Sketcher(options.spec).cut(documents).shingles)
        return cls(sample, documents, sets, len(visible) - len(different))

    @property
    def corpus(self) -> int:
        """How many documents the corpus has, about."""
        return round(len(self.sample.texts) / self.sample.share)

    @property
    def digest(self) -> str:
        """Which documents these are."""
        texts = strings(self.documents.texts)
        found = hashlib.blake2b(texts.offsets.tobytes(), digest_size=16)
        found.update(texts.data[texts.offsets[0] : texts.offsets[-1]].tobytes())
        return found.hexdigest()


class Quiet:
    """Progress that nobody sees."""

    def stage(self, name: str, total: int, unit: str) -> None:
        pass

    def advance(self, amount: int) -> None:
        pass

    def say(self, message: str) -> None:
        pass


def sweep(
    specimen: Specimen, request: Request, workers: int, progress: Progress,
    results: Cache | None = None,
) -> Tuning:  # fmt: skip
    """The truth, all trials, and what follows from them."""
    points, pruned = request.space.points(request.reference, request.recall)
    truth = _truth(specimen, request, workers, progress)
    if pruned:
        progress.say(f"{sum(pruned.values()):,} combinations make no sense and are not tried")
    progress.stage("trying", len(points), "points")
    wanted = Wanted(request.recall, request.precision, request.reference, truth, specimen.corpus)
    with tempfile.TemporaryDirectory(prefix="neardup-tune-") as folder:
        task = Path(folder)
        write_task(task, specimen.documents, request.reference, wanted.true_pairs, request.shared)
        rows = []
        with Worker(task, request.time_limit) as worker:
            for point in points:
                rows.append(_tried(point, worker, specimen.digest, request, results))
                progress.advance(1)
    rows = _timed_together(rows)
    advice = advise(rows, wanted)
    return Tuning(
        about=specimen.sample.about, documents=specimen.corpus,
        sampled=len(specimen.documents), copies=specimen.copies, reference=request.reference,
        recall=request.recall, precision=request.precision,
        truth=truth, rows=rows, pruned=dict(pruned), best=advice.best, reasons=advice.reasons,
        met=advice.met, shared=request.shared,
    )  # fmt: skip


def _truth(specimen: Specimen, request: Request, workers: int, progress: Progress) -> Truth:
    floor = LOOSE * request.reference.threshold
    with held() as obey:
        steps = Interruptible(progress, obey)
        seconds = expected_seconds(specimen.sets, floor, workers)
        steps.say(f"all pairs of {len(specimen.documents):,} documents: about {seconds:.2g} s")
        return brute_force(specimen.sets, floor, workers, steps)


def _tried(
    point: Point, worker: Worker, corpus: str, request: Request, results: Cache | None
) -> Outcome:
    """The outcome of a trial, run now or earlier."""
    config = point.stated | {
        "corpus": corpus, "spec": point.options(**request.shared).spec.fingerprint,
        "reference": request.reference.stated, "counting": COUNTING,
    }  # fmt: skip
    if results is not None and (known := results.get(config)) is not None:
        row = Outcome.from_json(known["outcome"])
        # A longer time may be enough for what took too long.
        if row.status == DONE or known["time_limit"] >= request.time_limit:
            return row
    row = worker.run(point)
    if results is not None and row.status in (DONE, TIMEOUT):
        found = {"outcome": row.to_json(), "time_limit": request.time_limit}
        results.put(config, found, row.seconds)
    return row


def _timed_together(rows: Sequence[Outcome]) -> list[Outcome]:
    """The least time counts that the same signatures took in any trial: others were disturbed."""
    least: dict[tuple[Any, ...], float] = {}
    for row in rows:
        if row.done:
            made = row.point.signed_as
            least[made] = min(row.t_sig, least.get(made, row.t_sig))
    return [replace(row, t_sig=least[row.point.signed_as]) if row.done else row for row in rows]


def tune(
    data: object,
    *,
    text: str = "text",
    sample: int = SAMPLE,
    threshold: float = 0.8,
    recall: float = 0.99,
    precision: float = 0.99,
    shingle: str = "word:5",
    text_profile: str = "standard",
    slots: object = None,
    bands: object = None,
    shingles: object = None,
    sketches: object = None,
    thresholds: object = None,
    verify: object = None,
    bits: object = None,
    buckets: object = None,
    vocabulary: object = None,
    time_limit: float = TIME_LIMIT,
    seed: int = 0,
    workers: int | None = None,
    cache: str | Path | None = None,
) -> Tuning:
    """Try operating points on a sample of the documents, and find the cheapest that finds enough.

    `data` is what `neardup.dedup` takes. All pairs of the sample are compared; those that are at
    least `threshold` similar by `shingle` shingles are to be found, a share of `recall` of them,
    and a share of `precision` of what is found is to be so. The other parameters are the axes of
    the sweep: a value, a list, or a text such as `"16,32"`. In a folder `cache`, results of trials
    are kept, which are then not run again.

        tuning = neardup.tune(texts, threshold=0.9)
        result = neardup.dedup(texts, **tuning.options)
    """
    request = Request.of(
        threshold=threshold, recall=recall, precision=precision, shingle=shingle,
        text_profile=text_profile, seed=seed, time_limit=time_limit, slots=slots, bands=bands,
        shingles=shingles, sketches=sketches, thresholds=thresholds, verify=verify, bits=bits,
        buckets=buckets, vocabulary=vocabulary,
    )  # fmt: skip
    threads = os.cpu_count() or 1 if workers is None else whole("workers", workers, 1, 1_000)
    number = whole("the sample", sample, 2, LARGEST_SAMPLE)
    batches = from_data(data, Columns(text=text))
    options = request.options
    specimen = Specimen.of(choose_from(batches, number, seed, options.spec), options)
    results = None if cache is None else Cache(Path(cache))
    return sweep(specimen, request, threads, Quiet(), results)


def sampled(
    files: Sequence[InputFile], text: str, count: int, request: Request, workers: int,
    progress: Progress,
) -> Specimen:  # fmt: skip
    """Some documents of files to try operating points on."""
    number = whole("the sample", count, 2, LARGEST_SAMPLE)
    options, columns = request.options, Columns(text=text)
    with held() as obey:
        chosen = choose(
            files, columns, number, request.reference.seed, options.spec,
            Interruptible(progress, obey), workers,
        )  # fmt: skip
        return Specimen.of(chosen, options)
