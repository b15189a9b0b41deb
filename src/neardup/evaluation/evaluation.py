"""neardup.evaluate: measure an operating point, a run or a service by a golden set.

    golden pairs -> their texts -> candidates, similarities -> scores, losses, worst cases

A label is a person's judgement, similarity a figure of the texts. Labelled duplicates that are
missed because their texts are dissimilar are counted separately from similar ones that share no
bucket.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Unpack

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.documents import Columns, Documents, join_names
from neardup.corpus.frames import require_rereadable
from neardup.corpus.inputs import FileOptions, InputOptions, find_inputs, split_options
from neardup.errors import ParameterError, UsageError
from neardup.evaluation.drawn_pairs import RANDOM
from neardup.evaluation.drift import EvaluationRecord, describe_drift, read_baseline
from neardup.evaluation.golden import (
    FEW,
    SEVERAL,
    LabelledPairs,
    load_golden,
    no_pairs_error,
    printable_id,
)
from neardup.evaluation.golden_file import Names
from neardup.evaluation.operating_point import (
    GoldenFinder,
    OperatingPoint,
    corpus_files,
    read_beside,
    reader,
    usable_pairs,
)
from neardup.evaluation.profile import CorpusProfile
from neardup.evaluation.results import Case, Evaluation, Losses, Rand
from neardup.evaluation.sample import choose_among
from neardup.evaluation.scores import (
    Scores,
    ThresholdSweep,
    adjusted_rand,
    components,
    note_easy_labels,
    sweep_thresholds,
)
from neardup.evaluation.shares import Share
from neardup.evaluation.systems import (
    NOT_ALL_PAIRS,
    EvaluatedSystem,
    IndexedDocuments,
    RunSystem,
    ServiceClient,
)
from neardup.explanation import is_by_distance
from neardup.formatting import format_count
from neardup.in_memory import find_frequencies, find_ignored_lines
from neardup.keyword_arguments import takes_options
from neardup.option_table import given_options
from neardup.options import Options
from neardup.runtime import SILENT, Progress
from neardup.sketcher import Sketcher
from neardup.spec import KEYED
from neardup.vector_layout import columns_of_vectors, find_layout

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
Reals = NDArray[np.float64]

SAMPLE: Final = 10_000
SEED: Final = 5
WORST: Final = 20
CASE_TEXT: Final = 20_000
"""Characters of a text that a case keeps for the page."""
GIVEN: Final = "the clusters of the golden set"
NO_PAIRS: Final = (
    "a run lists removed documents, not all similar pairs: for the recall of pairs use dedup "
    "--pairs, or --config instead of --run"
)
MADE: Final = (
    "made of the positive pairs; documents that nobody has paired count as different, so that it "
    "is rather too low"
)


@takes_options("neardup.evaluate", find_inputs)
def evaluate(
    golden: Any,
    *,
    corpus: Any = None,
    run: str | Path | None = None,
    service: str | None = None,
    api_key: str | None = None,
    text: str | Sequence[str] = "text",
    id: str | None = None,
    pairs: Names = None,
    clusters: Names = None,
    baseline: str | Path | None = None,
    sample: int = SAMPLE,
    workers: int = 1,
    progress: Progress = SILENT,
    **options: Unpack[FileOptions],
) -> Evaluation:
    """Measure recall and precision of an operating point, a finished run or a service.

    Args:
        golden: A TSV, CSV, Parquet or Arrow file of pairs (id1, id2, label) or of clusters (id,
            cluster), a list of (id1, id2, label), or a dict of clusters by id.
        corpus: The documents of the golden set: a path, a list of `Path`s, or a list or table as
            `neardup.dedup` takes it. Required for an operating point; with `run` it adds the
            figures that need texts.
        run: The folder of a finished run, to evaluate that run instead of an operating point.
        service: The address of a running service, to evaluate it by the documents in its index.
        api_key: The API key for the service, which needs the scope read.
        text: The column of the texts.
        id: The column of the ids; by default `id` if there is one, else file:row.
        pairs: The columns of a golden file of pairs, such as "id1,id2,label".
        clusters: The columns of a golden file of clusters, such as "id,cluster".
        baseline: An earlier evaluation.json, to describe what has changed since.
        sample: The number of documents of the corpus that its profile is made of.
        workers: Threads.
        progress: Receives stages and their progress; silent by default.
        **options: How the files of the corpus are read; and the operating point to evaluate:
            matching options, as in `neardup.dedup`.

    Returns:
        The scores by labels and, with a corpus, by similarity; why pairs were missed; the worst
        cases; and the profile of the corpus.

    Raises:
        UsageError: If none of `corpus`, `run` and `service` is given, or they don't go together.
        InputError: If the golden set has no pair of documents that can be used.

    >>> texts = ["the cat sat on the mat today", "The cat sat on the mat, today!", "a dog"]
    >>> evaluation = evaluate([(0, 1, 1), (0, 2, 0)], corpus=texts)
    >>> evaluation.labels.recall.value, evaluation.labels.precision.value
    (1.0, 1.0)
    """
    input_options, matching = split_options(options)
    operating_point = given_options(matching)
    _check(corpus, run, service, operating_point)
    before = None if baseline is None else read_baseline(Path(baseline))
    labelled = load_golden(golden, pairs, clusters)
    if not len(labelled):
        raise no_pairs_error(labelled)
    if service is not None:
        indexed = ServiceClient(service, api_key).look_up(labelled.ids, progress)
        return _with_drift(_evaluate_service(labelled, indexed), before)
    finished = None if run is None else RunSystem.of(Path(run), labelled.ids)
    if finished is not None and corpus is not None:
        finished.require_of(corpus_files(corpus, input_options))
    point = profile = None
    if corpus is not None:
        if finished is not None:
            finished.require_own_vectors()
        chosen = _options(operating_point if finished is None else finished.operating_point)
        columns = Columns(text=join_names(text), id=id)
        point, profile = read_point(
            labelled, corpus, columns, input_options, chosen, sample, workers, progress
        )
    used, notes = _usable(labelled, point, finished)
    progress.stage("comparing", len(used), "pairs")
    judge: EvaluatedSystem = next(one for one in (finished, point) if one is not None)
    return _with_drift(_measure(used, judge, point, profile, notes), before)


def _check(corpus: Any, run: Any, service: str | None, operating_point: Mapping[str, Any]) -> None:
    """Raise an error if the arguments don't name one system to evaluate."""
    if corpus is None and run is None and service is None:
        raise UsageError(
            "nothing to evaluate: give a corpus (--corpus), a run (--run), both, or a service "
            "(--service)"
        )
    if service is not None and (corpus is not None or run is not None):
        raise UsageError(
            "a service is judged by the documents that it holds: leave out the corpus and the run"
        )
    if operating_point and (run is not None or service is not None):
        judged = "service" if run is None else "run"
        raise UsageError(f"a {judged} has its operating point: leave out others, or the {judged}")


def _with_drift(evaluation: Evaluation, before: EvaluationRecord | None) -> Evaluation:
    """Add what has changed since a baseline, if there is one."""
    if before is None:
        return evaluation
    now = EvaluationRecord.of(evaluation.record, "this evaluation")
    return replace(evaluation, drift=describe_drift(now, before))


def _options(operating_point: Mapping[str, Any]) -> Options:
    """Return the options of an operating point.

    A keyed hash is replaced by the default: the figures don't depend on the hash, and the key is
    not needed.
    """
    chosen = {**operating_point, "keep": "first"}
    if chosen.get("hash") == KEYED:
        del chosen["hash"]
    options = Options.of(**chosen)
    if options.spec.unit == "token":
        raise ParameterError("evaluate looks at texts: choose word, char or line shingles")
    if options.distinguish.columns:
        raise ParameterError(
            "evaluate looks at texts, not at columns: distinguish numbers, or make a run and "
            "evaluate it (--run)"
        )
    return options


def read_point(
    labelled: LabelledPairs,
    corpus: Any,
    columns: Columns,
    input_options: InputOptions,
    options: Options,
    sample: int,
    workers: int,
    progress: Progress,
) -> tuple[OperatingPoint, CorpusProfile | None]:
    """Read the corpus once: sketch its golden documents and make its profile.

    The profile is that of the texts; documents that are vectors alone have none.
    """
    columns = columns_of_vectors(options, columns)
    if options.vectors is not None:
        require_rereadable(corpus)

    rows = read_beside(corpus, options, columns, input_options, workers)

    def first(at: Columns) -> Iterator[Documents]:
        return (batch for batch, _ in reader(corpus, at, input_options, workers, SILENT, rows)())

    options, columns, centre = find_layout(first, options, columns)
    read = reader(corpus, columns, input_options, workers, progress, rows)

    def documents() -> Iterator[Documents]:
        return (batch for batch, _ in read())

    if options.strip.lines is not None or options.weights == "tf-idf":
        require_rereadable(corpus)
    ignored = find_ignored_lines(documents, options)
    options = options.ignoring(ignored.digest)
    frequencies = find_frequencies(documents, options, ignored)
    options = options.weighing(frequencies.stated)
    numbers = options.distinguish.numbers
    finder, profile = GoldenFinder(labelled.ids), None
    watched = finder.watch(read())
    if options.spec.of_vectors:
        deque(watched, maxlen=0)
    else:
        of_texts = options.of_texts
        chosen = choose_among(watched, sample, SEED, of_texts.spec)
        sketcher = Sketcher(of_texts.spec, ignored, None, frequencies, numbers=numbers)
        profile = CorpusProfile.of(chosen, of_texts, sketcher)
    sketcher = Sketcher(
        options.spec,
        ignored,
        None,
        frequencies,
        numbers=numbers,
        centre=centre,
        vetoes=options.vetoes_by_vectors,
    )
    return OperatingPoint.of(options, finder.result(), sketcher, workers), profile


def _usable(
    labelled: LabelledPairs, point: OperatingPoint | None, finished: RunSystem | None
) -> tuple[LabelledPairs, list[str]]:
    """Return the golden set without documents that can't be compared, and notes about it."""
    used, notes = labelled, []
    if point is not None:
        used = usable_pairs(labelled, point)
    elif finished is not None:
        used = replace(used, flaws=used.flaws | {SEVERAL: finished.repeated})
        if len(finished.unnamed) == len(used.ids) and finished.named:
            raise UsageError(
                f"none of the {len(used.ids):,} ids of the golden set is in a cluster of "
                f"{finished.path}, whose ids look like {printable_id(finished.named)}, not like "
                f"{printable_id(used.ids[0])}: give the golden set of this run"
            )
        if unnamed := len(finished.unnamed):
            notes.append(
                f"{unnamed:,} golden documents are in no cluster of the run: they were kept alone, "
                "or are not in it at all; with --corpus, unknown ids are told apart"
            )
    return used, notes + _one_sided(used)


def _evaluate_service(labelled: LabelledPairs, indexed: IndexedDocuments) -> Evaluation:
    """Evaluate the documents of an index."""
    used = indexed.select(labelled)
    return _measure(used, indexed, None, None, _one_sided(used))


def _one_sided(used: LabelledPairs) -> list[str]:
    """Return a note if all labels are the same, or if there are few of one kind."""
    if not used.label.any():
        return ["no pair is a duplicate by its label: recall is undefined"]
    if used.label.all():
        return [
            "no pair is labelled as different: precision by labels says nothing, and there is no "
            "best threshold"
        ]
    different = int(np.count_nonzero(~used.label))
    if different < FEW:
        return [
            f"only {format_count(different, 'pair')} labelled as different: precision and the best "
            f"threshold are uncertain; label {FEW} or more pairs that look alike and are not"
        ]
    duplicates = len(used) - different
    if duplicates < FEW:
        return [
            f"only {format_count(duplicates, 'pair')} labelled as duplicates: recall and the best "
            f"threshold are uncertain; label {FEW} or more"
        ]
    return []


def _measure(
    used: LabelledPairs,
    judge: EvaluatedSystem,
    point: OperatingPoint | None,
    profile: CorpusProfile | None,
    notes: list[str],
) -> Evaluation:
    """Score a system by the labelled pairs.

    Args:
        used: The pairs that can be used.
        judge: The system: an operating point, a run or an index.
        point: The operating point with the texts, if there is a corpus.
        profile: The profile of the corpus.
        notes: Notes, to which more are added.
    """
    a, b, label, weights = used.a, used.b, used.label, used.weights
    weight = None if weights is None else weights.weight
    predicted = judge.duplicates(a, b)
    if len(used) and not predicted.any():
        notes.append("no pair was judged to be a duplicate: precision is undefined")
    similarity = cosine = decisive = met = similar = None
    if point is not None:
        similarity, cosine = point.similarity(a, b), point.cosines(a, b)
        decisive = point.decisive(similarity, cosine)
        by_bands = not (isinstance(judge, RunSystem) and judge.of_copies)
        met = point.met(a, b) if by_bands else None
        if by_bands and not is_by_distance(point.options):
            similar = decisive >= point.options.threshold
            if len(used) and not similar.any():
                notes.append("no pair reaches the threshold: recall by similarity is undefined")
            if point.options.vectors is None:
                notes += note_easy_labels(
                    similarity, label, point.options.spec.shingle, point.options.threshold, FEW
                )
            if cosine is not None:
                notes.append(describe_vectors(point.options, similarity, cosine, label))
    notes += _of_strata(used)
    missed, wrong = label & ~predicted, predicted & ~label
    losses = None
    if point is not None and similar is not None and met is not None:
        losses = _losses(missed, similar, met, met & point.verified(a, b))
    apart = missed.any() if losses is None else losses.apart
    if isinstance(judge, RunSystem) and not judge.of_pairs and apart:
        notes.append(NO_PAIRS)
    if isinstance(judge, IndexedDocuments) and apart:
        notes.append(NOT_ALL_PAIRS)
    return Evaluation(
        judged=judge.described,
        golden=used,
        operating_point=judge.stated,
        labels=Scores.of(predicted, label, weights=weights),
        candidates=None if met is None else Scores.of(met, label, weights=weights),
        similarity=None if similar is None else Scores.of(predicted, similar, weights=weights),
        losses=losses,
        rand=_rand(used, judge),
        sweep=None if decisive is None else sweep_thresholds(decisive, label, weight),
        false_positives=_cases(used, wrong, similarity, met, point, cosine),
        false_negatives=_cases(used, missed, similarity, met, point, cosine),
        profile=profile,
        notes=notes,
        cosines=_sweep_cosines(point, similarity, cosine, label, weight),
    )


def _sweep_cosines(
    point: OperatingPoint | None,
    similarity: Reals | None,
    cosine: Reals | None,
    label: Flags,
    weight: Reals | None,
) -> ThresholdSweep | None:
    """Score all least cosines beside the threshold of the texts; None without a second signal."""
    if point is None or similarity is None or cosine is None or not point.options.has_two_signals:
        return None
    by_text = similarity >= point.options.threshold
    beside = np.where(by_text, cosine, -1.0)
    if not point.options.vetoes_by_vectors:
        beside = np.where(by_text, 1.0, cosine)
    return sweep_thresholds(beside, label, weight)


def describe_vectors(options: Options, similarity: Reals, cosine: Reals, label: Flags) -> str:
    """Return what vectors change beside texts, of labelled pairs, as a sentence.

    Args:
        options: The operating point, with two signals.
        similarity: The similarity of the texts of each pair.
        cosine: The cosine of each pair.
        label: Whether it is a duplicate.
    """
    signal = options.vectors
    assert signal is not None  # noqa: S101  # the caller has two signals
    by_text, by_vectors = similarity >= options.threshold, cosine >= signal.threshold
    changed = ~by_text & by_vectors if signal.finds else by_text & ~by_vectors
    duplicates = format_count(int((changed & label).sum()), "labelled duplicate")
    others = format_count(int((changed & ~label).sum()), "other pair")
    if signal.finds:
        return f"{duplicates} and {others} are similar by their vectors alone"
    return f"{duplicates} and {others} have similar texts, and are kept apart by their vectors"


def _of_strata(used: LabelledPairs) -> Iterator[str]:
    """Yield what the figures of drawn pairs leave open."""
    if used.weights is None or RANDOM not in used.weights.names:
        return
    rows = used.weights.stratum == list(used.weights.names).index(RANDOM)
    count, stand = int(rows.sum()), float(used.weights.weight[rows].sum())
    if count and not used.label[rows].any():
        most = Share.of(0, count).high or 0.0
        yield (
            f"none of {format_count(count, 'random pair')} is a duplicate: of the {stand:,.0f} "
            f"pairs that no search has found, at most {most:.1%} are, but even a few would be "
            "many; recall is that of the others"
        )


def _losses(missed: Flags, similar: Flags, met: Flags, verified: Flags) -> Losses:
    """Count missed pairs by the step that lost them."""
    lost = missed & similar
    parts = (missed & ~similar, lost & ~met, lost & met & ~verified, lost & verified)
    return Losses(*(int(np.count_nonzero(part)) for part in parts))


def _rand(used: LabelledPairs, judge: EvaluatedSystem) -> Rand | None:
    """Return the adjusted Rand index of the paired documents; None without duplicates."""
    if not used.label.any():
        return None
    clusters = used.clusters
    if clusters is None:
        clusters = components(len(used.ids), used.a[used.label], used.b[used.label])
    documents = np.unique(np.concatenate([used.a, used.b]))
    value = adjusted_rand(judge.clusters()[documents], clusters[documents])
    return Rand(value, GIVEN if used.clusters is not None else MADE)


def _cases(
    used: LabelledPairs,
    chosen: Flags,
    similarity: Reals | None,
    met: Flags | None,
    point: OperatingPoint | None,
    cosine: Reals | None,
) -> list[Case]:
    """Return the most similar of the chosen pairs; the first ones without similarities."""
    rows = np.flatnonzero(chosen)
    if similarity is not None:
        rows = rows[np.argsort(-similarity[rows], kind="stable")]
    cases = []
    for row in rows[:WORST].tolist():
        x, y = int(used.a[row]), int(used.b[row])
        texts = None
        if point is not None and not point.options.spec.of_vectors:
            texts = point.golden.text(x)[:CASE_TEXT], point.golden.text(y)[:CASE_TEXT]
        cases.append(
            Case(
                used.ids[x],
                used.ids[y],
                None if similarity is None else float(similarity[row]),
                None if met is None else bool(met[row]),
                texts,
                None if cosine is None else float(cosine[row]),
            )
        )
    return cases
