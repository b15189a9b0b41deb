"""neardup.tune: finds the cheapest operating point that finds enough, on the user's documents.

    sample -> ground truth by brute force -> a trial of each point -> recommendation

A trial's recall and precision are those of the pairs that it finds, against the pairs whose exact
similarity by the reference's shingles reaches the reference's threshold, whatever shingles, sketch
and threshold the trial has. Identical documents are found without bands: all but one are left out.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.documents import Columns, Documents
from neardup.corpus.frames import read_data
from neardup.corpus.inputs import InputFile
from neardup.errors import FormatError, InputError
from neardup.evaluation.lab import DistinctDocuments, ShingleSets, as_documents
from neardup.evaluation.sample import Sample, choose_among, choose_from_files
from neardup.evaluation.truth import Truth, brute_force, expected_seconds
from neardup.option_table import ReferenceOptions, takes_options
from neardup.options import Options
from neardup.pipeline.run_progress import InterruptibleProgress, hold_signals
from neardup.planner.recommendation import Growth, Target, advise
from neardup.planner.sweep import TIME_LIMIT, SweepRequest
from neardup.planner.trial_cache import TrialCache
from neardup.planner.trial_worker import TrialWorker, write_task
from neardup.planner.tuning import COUNTING, DONE, TIMEOUT, TrialOutcome, TrialPoint, Tuning
from neardup.runtime import SILENT, Progress
from neardup.sketcher import Sketcher
from neardup.spec import check_whole
from neardup.text.arrays import Ragged, view_strings

LOOSE = 0.5
"""The truth goes down to this share of the threshold, so that pages can show what is below it."""


USUAL = 5_000
LARGEST = 100_000


@dataclass(frozen=True)
class TrialSample:
    """The sample without identical documents, and its sets of shingles by the reference.

    `chosen` are the numbers of the others in the sample.
    """

    sample: Sample
    chosen: NDArray[np.int64]
    documents: Documents
    sets: Ragged
    copies: int

    @classmethod
    def of(cls, sample: Sample, options: Options) -> TrialSample:
        documents = as_documents(sample.texts)
        cut = Sketcher(options.spec).cut(documents)
        visible = np.flatnonzero(cut.shingles.sizes > 0)
        different = DistinctDocuments.of(cut.content, visible).first
        if len(different) < 2:
            raise InputError(
                "there are fewer than two different documents with a text: nothing to compare"
            )
        documents = documents.take(different)
        sets = ShingleSets.of(documents, options.spec).sets
        return cls(sample, different, documents, sets, len(visible) - len(different))

    def weights(self, truth: Truth) -> NDArray[np.float64]:
        """How many pairs of the corpus each pair stands for."""
        return self.sample.weights(replace(truth, a=self.chosen[truth.a], b=self.chosen[truth.b]))

    @property
    def corpus(self) -> int:
        """How many documents the corpus has, about."""
        return round(len(self.sample.texts) / self.sample.share)

    @cached_property
    def digest(self) -> str:
        """Which documents these are."""
        texts = view_strings(self.documents.texts)
        found = hashlib.blake2b(texts.offsets.tobytes(), digest_size=16)
        found.update(texts.data[texts.offsets[0] : texts.offsets[-1]].tobytes())
        return found.hexdigest()


def sample_files(
    files: Sequence[InputFile],
    text: str,
    count: int,
    options: Options,
    workers: int,
    progress: Progress,
) -> TrialSample:
    """Some documents of files."""
    number, columns = check_whole("the sample", count, 2, LARGEST), Columns(text=text)
    with hold_signals() as obey:
        steps = InterruptibleProgress(progress, obey)
        spec = options.spec
        return TrialSample.of(
            choose_from_files(files, columns, number, spec.seed, spec, steps, workers), options
        )


def sample_table(data: object, text: str, count: int, options: Options) -> TrialSample:
    """Some documents of a list or a table."""
    number, batches = (
        check_whole("the sample", count, 2, LARGEST),
        read_data(data, Columns(text=text)),
    )
    return TrialSample.of(choose_among(batches, number, options.spec.seed, options.spec), options)


def run_sweep(
    specimen: TrialSample,
    request: SweepRequest,
    workers: int,
    progress: Progress,
    results: TrialCache | None = None,
) -> Tuning:
    """The truth, all trials, and what follows from them."""
    points, pruned = request.space.points(request.reference, request.recall)
    truth = _truth(specimen, request, workers, progress)
    if pruned:
        progress.say(f"{sum(pruned.values()):,} combinations make no sense and are not tried")
    progress.stage("trying", len(points), "points")
    documents = request.documents or specimen.corpus
    wanted = Target(
        request.recall,
        request.precision,
        request.reference,
        truth,
        documents,
        sample=len(specimen.sample.texts),
        largest_sample=min(specimen.corpus, LARGEST),
    )
    with tempfile.TemporaryDirectory(prefix="neardup-tune-") as folder:
        task = Path(folder)
        write_task(
            task,
            specimen.documents,
            request.reference,
            wanted.true_pairs,
            truth.floor,
            request.shared,
        )
        rows = []
        with TrialWorker(task, request.time_limit) as worker:
            for point in points:
                rows.append(_tried(point, worker, specimen, request, results))
                progress.advance(1)
    weights = specimen.weights(truth) * (documents / specimen.corpus) ** 2
    times = documents / len(specimen.sample.texts)
    grown = Growth(times, truth, weights, request.reference)
    rows = list(map(grown, _timed_together(rows)))
    advice = advise(rows, wanted)
    return Tuning(
        about=specimen.sample.about,
        documents=documents,
        sampled=len(specimen.documents),
        copies=specimen.copies,
        reference=request.reference,
        recall=request.recall,
        precision=request.precision,
        truth=truth,
        rows=rows,
        pruned=dict(pruned),
        best=advice.best,
        reasons=advice.reasons,
        met=advice.met,
        shared=request.shared,
    )


def _truth(specimen: TrialSample, request: SweepRequest, workers: int, progress: Progress) -> Truth:
    floor = LOOSE * request.reference.threshold
    with hold_signals() as obey:
        steps = InterruptibleProgress(progress, obey)
        seconds = expected_seconds(specimen.sets, floor, workers)
        steps.say(f"all pairs of {len(specimen.documents):,} documents: about {seconds:.2g} s")
        return brute_force(specimen.sets, floor, workers, steps)


def _tried(
    point: TrialPoint,
    worker: TrialWorker,
    specimen: TrialSample,
    request: SweepRequest,
    results: TrialCache | None,
) -> TrialOutcome:
    """The outcome of a trial, run now or earlier."""
    reference = request.reference
    config = point.stated | {
        "corpus": specimen.digest,
        "spec": point.options(**request.shared).spec.fingerprint,
        "reference": {"shingle": reference.shingle, "threshold": reference.threshold},
        "counting": COUNTING,
    }
    if results is not None and (known := _known(results.get(config), request.time_limit)):
        return known
    row = worker.run(point)
    if results is not None and row.status in (DONE, TIMEOUT):
        found = {"outcome": row.to_json(), "time_limit": request.time_limit}
        results.put(config, found, row.seconds)
    return row


def _known(found: Mapping[str, Any] | None, time_limit: float) -> TrialOutcome | None:
    """An earlier outcome, unless it can't be read or took too long for less time than there is."""
    try:
        row = None if found is None else TrialOutcome.from_json(found["outcome"])
        if found is None or row is None or (not row.done and found["time_limit"] < time_limit):
            return None
        return row
    except (FormatError, LookupError, TypeError):
        return None


def _timed_together(rows: Sequence[TrialOutcome]) -> list[TrialOutcome]:
    """The least time counts that the same signatures took in any trial: others were disturbed."""
    least: dict[tuple[Any, ...], float] = {}
    for row in rows:
        if row.done:
            made = row.point.signed_as
            least[made] = min(row.t_sig, least.get(made, row.t_sig))
    return [replace(row, t_sig=least[row.point.signed_as]) if row.done else row for row in rows]


@takes_options("neardup.tune")
def tune(
    data: object,
    *,
    text: str = "text",
    sample: int = USUAL,
    documents: float | str | None = None,
    precision: float = 0.99,
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
    workers: int | None = None,
    cache: str | Path | None = None,
    **options: Unpack[ReferenceOptions],
) -> Tuning:
    """Try operating points on a sample of the documents; recommend the cheapest that finds enough.

    All pairs of the sample are compared; those that are at least `threshold` similar by `shingle`
    shingles are to be found, a share of `recall` of them. An axis of the sweep is a value, a list,
    or a text such as `"16,32"`; every combination is tried.

    Args:
        data: The documents, as `neardup.dedup` takes them.
        text: The column that holds them, if they are in a table.
        sample: How many documents operating points are tried on.
        documents: How many there will be, if the data is only some of them: what costs least for
            few documents does not for many.
        precision: The share of what a trial finds that must be similar.
        slots: An axis: slots of a signature.
        bands: An axis: bands and rows, such as "14x8,20x5"; "auto" chooses them for the recall.
        shingles: An axis: shingles of the trials; by default the one of `shingle`.
        sketches: An axis: minhash, oneperm, weighted, simhash.
        thresholds: An axis: thresholds of the trials; by default `threshold`.
        verify: An axis: exact, estimate, none.
        bits: An axis: bits of a slot, for verify estimate.
        buckets: An axis: only this many buckets a band.
        vocabulary: An axis: only this many different shingles.
        time_limit: Seconds after which a trial is ended.
        workers: Threads that compare all pairs; by default one a core.
        cache: A folder in which results of trials are kept, which are then not run again.
        **options: What similar means, and how much of it must be found.

    >>> words = [f"w{n}" for n in range(300)]
    >>> texts = [" ".join(words[n : n + 60]) for n in range(0, 240, 30)]
    >>> tuning = tune([*texts, texts[0] + " end"], slots=16, sketches="minhash")
    >>> tuning.options["slots"] in (16, 128)
    True
    """
    axes = {
        "slots": slots,
        "bands": bands,
        "shingles": shingles,
        "sketches": sketches,
        "thresholds": thresholds,
        "verify": verify,
        "bits": bits,
        "buckets": buckets,
        "vocabulary": vocabulary,
    }
    request = SweepRequest.of(
        precision=precision, time_limit=time_limit, documents=documents, axes=axes, **options
    )
    threads = os.cpu_count() or 1 if workers is None else check_whole("workers", workers, 1, 1_000)
    specimen = sample_table(data, text, sample, request.options)
    results = None if cache is None else TrialCache(Path(cache))
    return run_sweep(specimen, request, threads, SILENT, results)
