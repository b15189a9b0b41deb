"""neardup.tune: find the cheapest operating point that reaches a recall, by trials on a sample.

    sample -> ground truth by brute force -> a trial of each point -> recommendation

A trial's recall and precision are those of the pairs that it finds, against the pairs whose exact
similarity by the reference's shingles reaches the reference's threshold, whatever shingles, sketch
and threshold the trial has. Identical documents are found without bands: one of each is tried.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.documents import Columns, Documents, join_names
from neardup.corpus.frames import read_data
from neardup.corpus.inputs import InputFile
from neardup.errors import FormatError, InputError, UsageError
from neardup.evaluation.golden import LabelledPairs, load_golden, no_pairs_error
from neardup.evaluation.golden_file import Names
from neardup.evaluation.lab import DistinctDocuments, ShingleSets, as_documents
from neardup.evaluation.operating_point import GoldenFinder, NamedDocuments, read_named_data
from neardup.evaluation.sample import Sample, choose_among, choose_from_files
from neardup.evaluation.truth import Truth, brute_force, expected_seconds
from neardup.first_look import FirstDocuments
from neardup.formatting import format_duration
from neardup.keyword_arguments import takes_options
from neardup.option_table import ReferenceOptions, TuneOptions, given_options
from neardup.options import Options
from neardup.pipeline.run_progress import InterruptibleProgress, hold_signals
from neardup.planner.label_choice import LabelledDocuments, choose_by_labels
from neardup.planner.recommendation import Growth, Target, advise
from neardup.planner.requirements import SKETCHES
from neardup.planner.shingle_comparison import ComparedShingle, ShingleComparison, compare_shingles
from neardup.planner.sweep import TIME_LIMIT, SweepRequest
from neardup.planner.trial_cache import TrialCache
from neardup.planner.trial_worker import TrialWorker, write_task
from neardup.planner.tuning import COUNTING, DONE, TIMEOUT, TrialOutcome, TrialPoint, Tuning
from neardup.planner.vector_tuner import check_no_axes, has_vectors, tune_vectors
from neardup.planner.workload import SampledCorpus
from neardup.runtime import SILENT, Progress
from neardup.sketcher import Sketcher
from neardup.spec import check_whole
from neardup.text.arrays import Ragged, view_strings

LOOSE = 0.5
"""The truth has pairs down to this share of the threshold, for the histogram of the page."""


USUAL = 5_000
LARGEST = 100_000
"""Documents of a sample: the default, and the most."""


@dataclass(frozen=True)
class TrialSample:
    """The sample without identical documents, and its sets of shingles by the reference.

    sample      the chosen documents
    chosen      the numbers of the distinct ones in the sample
    documents   the distinct documents
    sets        their sets of shingles
    copies      documents that were dropped because they are identical to another
    """

    sample: Sample
    chosen: NDArray[np.int64]
    documents: Documents
    sets: Ragged
    copies: int

    @classmethod
    def of(cls, sample: Sample, options: Options) -> TrialSample:
        """Drop identical and empty documents of a sample and cut the others into shingles."""
        documents = as_documents(sample.texts)
        cut = Sketcher(options.spec).cut(documents)
        visible = np.flatnonzero(cut.shingles.sizes > 0)
        distinct = DistinctDocuments.of(cut.content, visible).first
        if len(distinct) < 2:
            raise InputError(
                "there are fewer than two different documents with a text: nothing to compare"
            )
        documents = documents.take(distinct)
        sets = ShingleSets.of(documents, options.spec).sets
        return cls(sample, distinct, documents, sets, len(visible) - len(distinct))

    def weights(self, truth: Truth) -> NDArray[np.float64]:
        """Return how many pairs of the corpus each pair of the truth stands for."""
        return self.sample.weights(replace(truth, a=self.chosen[truth.a], b=self.chosen[truth.b]))

    @property
    def corpus(self) -> int:
        """The number of documents of the corpus, estimated."""
        return round(len(self.sample.texts) / self.sample.share)

    @cached_property
    def digest(self) -> str:
        """A digest of the distinct texts, for the cache."""
        texts = view_strings(self.documents.texts)
        digest = hashlib.blake2b(texts.offsets.tobytes(), digest_size=16)
        digest.update(texts.data[texts.offsets[0] : texts.offsets[-1]].tobytes())
        return digest.hexdigest()


def sample_files(
    files: Sequence[InputFile],
    text: str,
    count: int,
    options: Options,
    workers: int,
    progress: Progress,
) -> TrialSample:
    """Choose `count` documents of files."""
    number, columns = check_whole("the sample", count, 2, LARGEST), Columns(text=text)
    with hold_signals() as raise_signals:
        steps = InterruptibleProgress(progress, raise_signals)
        spec = options.spec
        return TrialSample.of(
            choose_from_files(files, columns, number, spec.seed, spec, steps, workers), options
        )


def sample_table(
    data: object, text: str | Sequence[str], count: int, options: Options
) -> TrialSample:
    """Choose `count` documents of a list or a table."""
    number, batches = (
        check_whole("the sample", count, 2, LARGEST),
        read_data(data, Columns(text=join_names(text))),
    )
    return TrialSample.of(choose_among(batches, number, options.spec.seed, options.spec), options)


def load_labels(golden: Any, pairs: Names, clusters: Names) -> LabelledPairs | None:
    """Return the labelled pairs of a golden set; None without one."""
    if golden is None:
        if pairs or clusters:
            raise UsageError("pairs and clusters name the columns of a golden set: give one")
        return None
    labelled = load_golden(golden, pairs, clusters)
    if not len(labelled):
        raise no_pairs_error(labelled)
    return labelled


def find_labelled(
    batches: Iterable[NamedDocuments], labelled: LabelledPairs, count: int, options: Options
) -> tuple[TrialSample, LabelledDocuments]:
    """Choose `count` documents of named batches, and find those that are labelled.

    Args:
        batches: The documents with their names.
        labelled: The labelled pairs.
        count: The number of documents of the sample.
        options: The options that define a true pair, unless labels choose others.
    """
    number, spec = check_whole("the sample", count, 2, LARGEST), options.spec
    finder = GoldenFinder(labelled.ids)
    sample = choose_among(finder.watch(batches), number, spec.seed, spec)
    return TrialSample.of(sample, options), LabelledDocuments(labelled, finder.result())


def tune_by_labels(
    sample: TrialSample,
    labels: LabelledDocuments,
    request: SweepRequest,
    workers: int,
    progress: Progress,
    results: TrialCache | None = None,
) -> Tuning:
    """Choose shingle and threshold by labels, then the sketch and the bands by trials.

    Args:
        sample: The documents to try operating points on.
        labels: The labelled documents.
        request: What is required; shingles and thresholds are those to choose from.
        workers: Threads that compare pairs; a trial has one.
        progress: Receives the progress.
        results: The cache of trials; None runs all of them.
    """
    reference, space = request.reference, request.space
    with hold_signals() as raise_signals:
        choice = choose_by_labels(
            labels,
            ComparedShingle(reference.shingle, reference.threshold),
            request.recall,
            space.shingles,
            space.thresholds,
            {**request.shared, "seed": reference.seed},
            workers,
            InterruptibleProgress(progress, raise_signals),
        )
    decided = request.at(choice.chosen.shingle, choice.chosen.threshold)
    if decided.reference.shingle != reference.shingle:
        sample = TrialSample.of(sample.sample, decided.options)
    tuning = run_sweep(sample, decided, workers, progress, results)
    if tuning.best.done:
        options = tuning.best.point.options(**request.shared)
        choice = choice.with_bands(labels.golden, options, workers)
    return replace(tuning, labels=choice)


def run_sweep(
    sample: TrialSample,
    request: SweepRequest,
    workers: int,
    progress: Progress,
    results: TrialCache | None = None,
) -> Tuning:
    """Compare all pairs of the sample, run all trials, and recommend one.

    Args:
        sample: The documents to try operating points on.
        request: What is required, and the axes.
        workers: Threads that compare all pairs; a trial has one.
        progress: Receives the progress.
        results: The cache of trials; None runs all of them.
    """
    points, pruned = request.space.points(request.reference, request.recall)
    truth = _truth(sample, request, workers, progress)
    if pruned:
        progress.say(f"{sum(pruned.values()):,} combinations make no sense and are not tried")
    progress.stage("trying", len(points), "points")
    documents = request.documents or sample.corpus
    wanted = Target(
        request.recall,
        request.precision,
        request.reference,
        truth,
        documents,
        sample=len(sample.sample.texts),
        largest_sample=min(sample.corpus, LARGEST),
    )
    with tempfile.TemporaryDirectory(prefix="neardup-tune-") as folder:
        task = Path(folder)
        write_task(
            task,
            sample.documents,
            request.reference,
            wanted.true_pairs,
            truth.floor,
            request.shared,
        )
        rows = []
        with TrialWorker(task, request.time_limit) as worker:
            for point in points:
                rows.append(_run_trial(point, worker, sample, request, results))
                progress.advance(1)
    weights = sample.weights(truth) * (documents / sample.corpus) ** 2
    times = documents / len(sample.sample.texts)
    grow = Growth(times, truth, weights, request.reference)
    rows = list(map(grow, _share_least_times(rows)))
    advice = advise(rows, wanted)
    removed = _share_removed(sample, advice.best, request) if advice.best.done else None
    comparison = _comparison(sample, request, workers, progress)
    return Tuning(
        about=sample.sample.about,
        documents=documents,
        sampled=len(sample.documents),
        copies=sample.copies,
        reference=request.reference,
        recall=request.recall,
        precision=request.precision,
        truth=truth,
        rows=rows,
        pruned=dict(pruned),
        best=advice.best,
        reasons=[*advice.reasons, *_say_removed(removed)],
        met=advice.met,
        shared=request.shared,
        comparison=comparison,
        removed=removed,
    )


def _share_removed(sample: TrialSample, best: TrialOutcome, request: SweepRequest) -> float | None:
    """Estimate the share of the documents that a run at the recommended point removes.

    None for sketches of which a plan has no figures either.
    """
    options = best.point.options(**request.shared)
    if options.spec.sketch not in SKETCHES or best.point.only_for_sweeps or options.spec.of_bags:
        return None
    chosen = sample.sample
    cut = ShingleSets.of(as_documents(chosen.texts), options.spec)
    corpus = SampledCorpus(chosen, 0.0, cut.content, cut.sets, [])
    return corpus.workload(options).removed


def _say_removed(removed: float | None) -> list[str]:
    """Return the share of removed documents as a sentence."""
    if removed is None:
        return []
    return [
        f"A run would remove about {removed:.1%} of the documents, identical ones included, "
        "estimated from the sample."
    ]


def _comparison(
    sample: TrialSample, request: SweepRequest, workers: int, progress: Progress
) -> ShingleComparison | None:
    """Compare the shingles that are asked for, or advised for such documents; None if none is."""
    first = FirstDocuments(request.options.spec)
    first.add(sample.documents.texts)
    look = first.look()
    advised = look is not None and bool(look.short_advice(request.options))
    points = request.compared(advised)
    if not points:
        return None
    ids = [sample.sample.ids[row] for row in sample.chosen.tolist()]
    with hold_signals() as raise_signals:
        steps = InterruptibleProgress(progress, raise_signals)
        return compare_shingles(sample.documents, ids, points, request.shared, workers, steps)


def _truth(sample: TrialSample, request: SweepRequest, workers: int, progress: Progress) -> Truth:
    floor = LOOSE * request.reference.threshold
    with hold_signals() as raise_signals:
        steps = InterruptibleProgress(progress, raise_signals)
        seconds = expected_seconds(sample.sets, floor, workers)
        steps.say(
            f"all pairs of {len(sample.documents):,} documents: about {format_duration(seconds)}"
        )
        return brute_force(sample.sets, floor, workers, steps)


def _run_trial(
    point: TrialPoint,
    worker: TrialWorker,
    sample: TrialSample,
    request: SweepRequest,
    results: TrialCache | None,
) -> TrialOutcome:
    """Return the outcome of a trial, from the cache if it has one."""
    reference = request.reference
    config = point.stated | {
        "corpus": sample.digest,
        "spec": point.options(**request.shared).spec.fingerprint,
        "reference": {"shingle": reference.shingle, "threshold": reference.threshold},
        "counting": COUNTING,
    }
    if results is not None and (cached := _cached(results.get(config), request.time_limit)):
        return cached
    row = worker.run(point)
    if results is not None and row.status in (DONE, TIMEOUT):
        entry = {"outcome": row.to_json(), "time_limit": request.time_limit}
        results.put(config, entry, row.seconds)
    return row


def _cached(entry: Mapping[str, Any] | None, time_limit: float) -> TrialOutcome | None:
    """Return a cached outcome; None if it is invalid or timed out with a shorter limit."""
    try:
        row = None if entry is None else TrialOutcome.from_json(entry["outcome"])
        if entry is None or row is None or (not row.done and entry["time_limit"] < time_limit):
            return None
        return row
    except (FormatError, LookupError, TypeError):
        return None


def _share_least_times(rows: Sequence[TrialOutcome]) -> list[TrialOutcome]:
    """Give trials with the same signatures the least time that these took in any of them."""
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
    text: str | Sequence[str] = "text",
    id: str | None = None,
    golden: Any = None,
    pairs: Names = None,
    clusters: Names = None,
    sample: int = USUAL,
    documents: float | str | None = None,
    precision: float = 0.99,
    compare: str | Sequence[str] | None = None,
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
    cache: str | Path | Sequence[str | Path] | None = None,
    **options: Unpack[TuneOptions],
) -> Any:
    """Try operating points on a sample of the documents; recommend the cheapest with enough recall.

    All pairs of the sample are compared. Those that are at least `threshold` similar by `shingle`
    shingles are true; an operating point must find a share of `recall` of them. Each axis of the
    sweep takes a value, a list, or a text such as `"16,32"`; every combination is tried.

    Args:
        data: The documents, as `neardup.dedup` takes them.
        text: The column of the texts, if `data` is a table.
        id: The column of the ids that `golden` has; by default `id` if there is one, else the
            number of the row.
        golden: Labelled pairs or clusters, as `neardup.evaluate` takes them. They choose the
            shingle and the threshold, from `shingles` and `thresholds`, with figures on pairs that
            are held out; `shingle` and `threshold` are kept unless others are better.
        pairs: The columns of a golden file of pairs, such as "id1,id2,label".
        clusters: The columns of a golden file of clusters, such as "id,cluster".
        sample: The number of documents that operating points are tried on, at most 100,000.
        documents: The number of documents of a run, if `data` is only a part of them: the cheapest
            point for few documents is not the cheapest for many.
        precision: The least share of the pairs that a trial finds that must be true.
        compare: Shingles with their thresholds, such as "char:5@0.5", or a list: all pairs are
            found by each, and those that only one finds are listed. "none" for no comparison; by
            default that of preset `short` if many documents are short.
        slots: An axis: slots of a signature; by default 16 to 256.
        bands: An axis: bands and rows, such as "14x8,20x5"; "auto", the default, chooses them for
            the recall.
        shingles: An axis: shingles of the trials; by default that of `shingle`, with `golden`
            word:5, word:3, word:2, char:9 and char:5.
        sketches: An axis: minhash, oneperm, weighted, simhash; by default the first two.
        thresholds: An axis: thresholds of the trials; by default `threshold`, with `golden` 0.3 to
            0.99.
        verify: An axis: exact, estimate, none; by default exact.
        bits: An axis: bits of a slot, with verify estimate; by default all.
        buckets: An axis: buckets per band, for experiments; by default not limited.
        vocabulary: An axis: different shingles, for experiments; by default not limited.
        time_limit: Seconds after which a trial is ended.
        workers: Threads that compare all pairs; by default one per core.
        cache: A folder for the results of trials, which are then not run again; of a list of
            folders, each has a share of them.
        **options: The `threshold`, `shingle` and other options that define a true pair, and the
            `recall` to reach. With those of vectors, `golden` chooses the least cosine, and nothing
            else is tried.

    Returns:
        A `Tuning`: the recommended operating point with its reasons, and the outcome of each trial.
        With vectors a `VectorTuning`: `options`, `labels` and `reasons`.

    Raises:
        InputError: If there are fewer than two different documents, or no labels of both kinds
            for them.
        ParameterError: If a value is out of range, or the axes have too many combinations.

    >>> words = [f"w{n}" for n in range(300)]
    >>> texts = [" ".join(words[n : n + 60]) for n in range(0, 240, 30)]
    >>> tuning = tune([*texts, texts[0] + " end"], slots=16, sketches="minhash")
    >>> tuning.options["slots"] in (16, 128)
    True
    >>> tuning.sampled, tuning.true_pairs
    (9, 1)
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
    threads = os.cpu_count() or 1 if workers is None else check_whole("workers", workers, 1, 1_000)
    if has_vectors(options):
        check_no_axes(axes)
        columns = Columns(text=join_names(text), id=id)
        labelled = load_labels(golden, pairs, clusters)
        return tune_vectors(labelled, data, columns, {}, given_options(options), threads, SILENT)
    request = SweepRequest.of(
        compare=compare,
        precision=precision,
        time_limit=time_limit,
        documents=documents,
        axes=axes,
        by_labels=golden is not None,
        **cast(ReferenceOptions, options),
    )
    folders = [cache] if isinstance(cache, str | Path) else cache or []
    results = TrialCache(*map(Path, folders)) if folders else None
    labelled = load_labels(golden, pairs, clusters)
    if labelled is not None:
        named = read_named_data(data, Columns(text=join_names(text), id=id))
        chosen, labels = find_labelled(named, labelled, sample, request.options)
        return tune_by_labels(chosen, labels, request, threads, SILENT, results)
    chosen = sample_table(data, text, sample, request.options)
    return run_sweep(chosen, request, threads, SILENT, results)
