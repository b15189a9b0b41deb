"""Draws the pairs of a run that people label.

The documents are those of the run, identical ones once; of a large run a sample, in which
near-duplicates come together. All their pairs are compared down to half of the threshold, whether
they have shared a bucket or not: so recall is not that of the method itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from neardup.errors import UsageError
from neardup.evaluation.drawn_pairs import StratumSize
from neardup.evaluation.label_figures import DrawnPair
from neardup.evaluation.pair_drawing import SearchedPairs, draw_strata, queue
from neardup.evaluation.sample import choose_from_files
from neardup.evaluation.scores import components
from neardup.evaluation.systems import RunSystem
from neardup.evaluation.truth import Truth, brute_force
from neardup.options import Options
from neardup.planner.tuner import TrialSample
from neardup.report.run_documents import RunDocuments, read_run_record
from neardup.review.label_journal import LabelJournal, PairDraw
from neardup.review.run_subject import RunSubject
from neardup.runtime import Progress
from neardup.text.arrays import Ragged

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]

SAMPLE: Final = 10_000
"""Documents that are compared with one another."""
LOOSE: Final = 0.5
"""Pairs are searched for down to this part of the threshold."""
SEED: Final = 0


def draw_pairs(
    subject: RunSubject,
    journal: LabelJournal,
    count: int,
    workers: int,
    progress: Progress,
    sample: int = SAMPLE,
    seed: int = SEED,
) -> None:
    """Draw pairs of a run until so many are stored; those that are stored stay.

    Args:
        subject: The run.
        journal: Where they are stored.
        count: The number of pairs.
        workers: Threads.
        progress: Receives the progress.
        sample: The number of documents that are compared.
        seed: The seed of all that is drawn.
    """
    if journal.draw is not None and len(journal.draw.pairs) >= count:
        return
    options = _options(subject)
    trial = _sample(subject, options, sample, seed, workers, progress)
    ids = [trial.sample.ids[row] for row in trial.chosen.tolist()]
    run = RunSystem.of(subject.run, ids)
    threshold = Options.of().threshold if options.by_bits else subject.threshold
    floor = LOOSE * threshold
    truth = brute_force(trial.sets, floor, workers, progress)
    close = truth.similarity >= threshold
    pairs = SearchedPairs(
        len(ids),
        truth.a,
        truth.b,
        truth.similarity,
        floor,
        run.duplicates(truth.a, truth.b),
        run.cluster,
        components(len(ids), truth.a[close], truth.b[close]),
        trial.sample.share,
    )

    def weigh(a: Integers, b: Integers) -> Reals:
        return trial.weights(_truth_of(trial.sets, truth, a, b))

    strata = list(draw_strata(pairs, threshold, weigh, seed))
    chosen = []
    for number, (stratum, place) in enumerate(queue(strata, count, seed)):
        one = strata[stratum]
        a, b = int(one.a[place]), int(one.b[place])
        chosen.append(DrawnPair(number, ids[a], ids[b], one.name, jaccard(trial.sets, a, b)))
    texts = dict(zip(ids, (trial.sample.texts[row] for row in trial.chosen.tolist()), strict=True))
    journal.store(
        PairDraw(
            subject.fingerprint or "",
            trial.sample.about,
            floor,
            {one.name: StratumSize(one.size, one.units) for one in strata},
            chosen,
        ),
        {id: texts[id] for pair in chosen for id in (pair.a, pair.b)},
    )


def _options(subject: RunSubject) -> Options:
    """Return the options of a run, or refuse one whose pairs can't be drawn."""
    run = RunSystem.of(subject.run, [])
    if run.of_copies:
        raise UsageError("a run of neardup exact has no similar pairs to label: label one of dedup")
    if run.vectors is not None:
        raise UsageError(
            "pairs are drawn by the similarity of texts, and this run has compared vectors: label "
            "pairs of your own, and give them to neardup evaluate --run"
        )
    if run.merged:
        raise UsageError(
            "documents of this run are made of several rows (--merge-rows), and pairs are drawn of "
            "rows: label a run without it"
        )
    return Options.of(**run.operating_point)


def _sample(
    subject: RunSubject, options: Options, count: int, seed: int, workers: int, progress: Progress
) -> TrialSample:
    """Read the documents of a run again, or a sample of them, each with an id of its own."""
    documents = RunDocuments(subject.run, read_run_record(subject.run), workers, progress)
    inputs = documents.inputs
    if inputs is None or not documents.check_all(inputs):
        raise UsageError(f"no pairs can be drawn: {documents.problem}")
    chosen = choose_from_files(
        inputs.files, inputs.reading.columns, count, seed, options.spec, progress, workers
    )
    trial = TrialSample.of(chosen, options)
    return _without_repeats(trial)


def _without_repeats(trial: TrialSample) -> TrialSample:
    """Leave out documents with the id of an earlier one: an answer could be about either."""
    first: dict[str, int] = {}
    rows = np.array(
        [
            place
            for place, row in enumerate(trial.chosen.tolist())
            if first.setdefault(trial.sample.ids[row], place) == place
        ],
        np.int64,
    )
    if len(rows) == len(trial.chosen):
        return trial
    return replace(
        trial,
        chosen=trial.chosen[rows],
        documents=trial.documents.take(rows),
        sets=trial.sets.take(rows),
    )


def _truth_of(sets: Ragged, truth: Truth, a: Integers, b: Integers) -> Truth:
    """Return pairs as a truth has them, with their similarities."""
    if a is truth.a:
        return truth
    similarity = np.array([jaccard(sets, x, y) for x, y in zip(a, b, strict=True)], np.float64)
    return replace(truth, a=a, b=b, similarity=similarity)


def jaccard(sets: Ragged, a: int, b: int) -> float:
    """Return the similarity of two documents by their sorted sets of shingles."""
    mine, theirs = (sets.data[sets.offsets[row] : sets.offsets[row + 1]] for row in (a, b))
    both = len(np.intersect1d(mine, theirs, assume_unique=True))
    return both / (len(mine) + len(theirs) - both)
