"""neardup.plan: choose an operating point for requirements, with reasons and predicted cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from os import cpu_count
from pathlib import Path
from typing import Any, Unpack

from neardup.corpus.documents import Columns, join_names
from neardup.corpus.inputs import (
    InputFile,
    InputFiles,
    InputOptions,
    find_inputs,
    say_notes,
    split_options,
)
from neardup.errors import ParameterError
from neardup.evaluation.sample import choose_from_files
from neardup.formats.config import write_config
from neardup.formatting import (
    format_bytes,
    format_count,
    format_duration,
    parse_bytes,
    parse_count,
    parse_memory,
    parse_number,
)
from neardup.keyword_arguments import takes_options
from neardup.option_table import (
    PlanOptions,
    VectorOptions,
    default_of,
    given_options,
    options_of,
)
from neardup.options import Options
from neardup.pipeline.backends.engine import ENGINES
from neardup.planner import costs as measuring
from neardup.planner.costs import Costs
from neardup.planner.explanation import Choice, explain_choices
from neardup.planner.prediction import Prediction, Predictor, stored_bytes
from neardup.planner.redis_cluster import RedisIndex, RedisSize, find_redis_problems
from neardup.planner.requirements import BYTES_OF_A_SHINGLE, SHINGLES, FixedOptions, Sla
from neardup.planner.search import Search
from neardup.planner.spark_cluster import (
    CORES,
    ClusterSize,
    find_cluster_problems,
    note_driver,
    size_cluster,
)
from neardup.planner.spark_run import SparkRun
from neardup.planner.unmet_limits import UnmetLimit, find_problems, note_comparisons
from neardup.planner.vector_plan import (
    PlannedVectors,
    VectorPlan,
    sample_vectors,
    take_planned_signal,
)
from neardup.planner.workload import SampledCorpus, Workload, assume_workload, scale_workload
from neardup.runtime import SILENT, Progress
from neardup.spec import check_choice, check_whole
from neardup.vector_signal import ALONE

LOCAL, SPARK, REDIS = PLANNED = (*ENGINES, "redis")
"""What a plan can be for: the engines of a run, and servers of an index."""
MOST_SAMPLED = 100_000
MANY_TIMES = 1.5
"""A plan for more than this many times the sampled corpus states that it extrapolates."""


@dataclass(frozen=True)
class Plan:
    """An operating point, the reasons for it, and its predicted quality and cost.

    Attributes:
        sla: The requirements, with defaults filled in and figures of the sample.
        options: The operating point, as keyword arguments of `neardup.dedup`.
        choices: One `Choice` for each parameter: its value, the reason, the rejected values.
        predicted: The `Prediction`: recall, precision, memory, disk, time on one machine.
        problems: The requirements that can't be met, each with its cures; empty if all are met.
        sources: Where the figures come from: stored or measured costs, assumed or sampled
            documents.
        notes: Warnings that are not failures.
        spark: The size of the cluster with `engine="spark"`, else None.
        redis: The servers with `engine="redis"`, else None.
        vectors: What is planned for vectors, a `VectorPlan`; None if there are none.

    >>> from neardup import plan
    >>> planned = plan("1M", memory="8GB", cores=4, calibrate=False)
    >>> planned.met, planned.options["slots"]
    (True, 128)
    >>> [choice.name for choice in planned.choices][:3]
    ['slot width', 'slots', 'scheme']
    """

    sla: Sla
    options: dict[str, Any]
    choices: list[Choice]
    predicted: Prediction
    problems: list[UnmetLimit]
    sources: dict[str, str]
    notes: list[str] = field(default_factory=list)
    spark: ClusterSize | None = None
    redis: RedisSize | None = None
    vectors: VectorPlan | None = None

    @property
    def met(self) -> bool:
        """Whether all requirements are met."""
        return not self.problems

    @property
    def is_of_vectors(self) -> bool:
        """Whether documents are compared by their vectors alone."""
        return self.vectors is not None and self.vectors.role == ALONE

    def to_json(self) -> dict[str, Any]:
        """Return the whole plan as JSON values; figures that are not known are null."""
        record = {
            "met": self.met,
            "sla": asdict(self.sla),
            "options": self.options,
            "choices": [asdict(choice) for choice in self.choices],
            "predicted": asdict(self.predicted),
            "problems": [asdict(problem) for problem in self.problems],
            "sources": self.sources,
            "notes": self.notes,
        }
        if self.spark is not None:
            record["spark"] = asdict(self.spark)
        if self.redis is not None:
            record["redis"] = asdict(self.redis)
        if self.vectors is not None:
            record["vectors"] = asdict(self.vectors)
        return _finite(record)  # type: ignore[no-any-return]

    @property
    def reasons(self) -> list[str]:
        """One line for each choice, as the config file has them in comments."""
        return [f"{one.name}: {one.value} ({one.reason})" for one in self.choices]

    def write(self, path: str | Path) -> None:
        """Write the operating point as a TOML file, for `neardup dedup --config`.

        Args:
            path: The file to write; reasons, notes and missed requirements are comments in it.
        """
        missed = [f"not met: {problem}" for problem in self.problems]
        noted = [f"note: {note}" for note in self.notes]
        write_config(Path(path), self.options, [*missed, *noted, *self.reasons])

    def __repr__(self) -> str:
        point = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        predicted = self.predicted
        met = "met" if self.met else f"missed: {', '.join(one.limit for one in self.problems)}"
        cost = f"{format_bytes(predicted.memory)} of memory, "
        cost += f"{format_bytes(predicted.disk)} of disk, " + format_duration(predicted.seconds)
        if (spark := self.spark) is not None:
            cost = (
                f"{format_count(spark.executors, 'executor')} of "
                f"{format_count(spark.cores, 'core')} and "
            )
            cost += f"{format_bytes(spark.memory)}, {format_duration(spark.seconds)}"
        if (redis := self.redis) is not None:
            cost = f"{format_count(redis.masters, 'master')} of {format_bytes(redis.memory)}, "
            cost += f"{redis.rate:,.0f} documents a second"
        return f"Plan({point}; recall {predicted.recall:.4f}, {cost}; {met})"


def _finite(value: Any) -> Any:
    """Return a copy of JSON values in which NaN and infinity are None."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class PlanFileOptions(PlanOptions, InputOptions, total=False):
    """The matching options of a plan, and what a user says about the files of the sample."""


@takes_options("neardup.plan", find_inputs)
def plan(
    documents: float | str | None = None,
    *,
    sample: Sequence[str | Path] | str | Path = (),
    text: str | Sequence[str] = "text",
    shingles: float | str | None = None,
    bytes: float | str | None = None,
    precision: float | None = None,
    memory: float | str | None = None,
    disk: float | str | None = None,
    rate: float | str | None = None,
    hours: float | str | None = None,
    cores: int | None = None,
    purpose: str | None = None,
    sample_size: int = 10_000,
    seed: int = 1,
    calibrate: bool = True,
    engine: str = "local",
    progress: Progress = SILENT,
    **options: Unpack[PlanFileOptions],
) -> Plan:
    """Choose an operating point from requirements: slots, bands, verification, and their cost.

    Numbers may have a unit: "300M", "100GB". A requirement that is left out is no limit. With
    `engine="spark"`, memory and cores are those of one executor, disk is that of the folder that
    all machines share, and `Plan.spark` has the size of the cluster. With `engine="redis"` the plan
    is for an index, memory and disk are those of a machine with one server, `Plan.redis` has the
    servers, and `Plan.predicted` is the same index in a folder on one machine.

    Args:
        documents: The number of documents; by default that of the sample's files.
        sample: Files of the corpus, or of a similar one, on which shingles, bytes and duplicates
            are measured. Without it, documents are assumed to be like pages of manuals. Vectors
            can only be planned by a sample.
        text: The column of the texts in the sample's files.
        shingles: Distinct shingles of a document, on average; by default derived from `bytes`,
            else 300.
        bytes: Bytes of a document's text, on average; by default derived from `shingles`.
        precision: The least share of reported duplicates that must be duplicates.
        memory: The most bytes of memory on one machine.
        disk: The most bytes of disk on one machine.
        rate: Documents that arrive per second. The plan is then for an index, unless `purpose`
            is "files". On Spark, documents per second that the run must process.
        hours: Hours in which a run over all documents must end, instead of `rate`.
        cores: Cores of one machine; by default all of this one, on Spark 4.
        purpose: "files", a run over files; or "index", whose tables are held in memory.
        sample_size: How many documents of the sample are compared with one another.
        seed: The seed by which these are chosen.
        calibrate: Measure the speed of this machine for a few seconds; False uses stored figures.
        engine: "local", one machine; "spark", a cluster; or "redis", the servers of an index.
        progress: Receives stages and their progress; silent by default.
        **options: How the files of the sample are read; the required `threshold` and `recall`, and
            matching options that are fixed, while the plan chooses the others.

    Returns:
        The operating point with its reasons and its cost. A plan is also returned if requirements
        can't be met: `Plan.problems` lists them, each with its cures.

    Raises:
        ParameterError: If neither `documents` nor `sample` is given, or a value is out of range.

    >>> planned = plan("300M", threshold=0.85, recall=0.95, memory="100GB", rate=5000, cores=4,
    ...                shingles=300, calibrate=False)
    >>> planned.options["bands"], planned.options["rows"], planned.met
    (14, 9, True)
    >>> missed = plan("300M", memory="1GB", purpose="index", cores=4, calibrate=False).problems
    >>> [problem.limit for problem in missed]
    ['memory']
    """
    check_whole("sample_size", sample_size, 2, MOST_SAMPLED)
    check_choice("engine", engine, PLANNED)
    on_spark, on_redis = engine == SPARK, engine == REDIS
    input_options, fixed_options = split_options(options)
    decided = given_options(fixed_options)
    paths = [sample] if isinstance(sample, (str, Path)) else list(sample)
    is_for_files = purpose != "index" and (rate is None or purpose == "files")
    signal = take_planned_signal(decided, engine, is_for_files, bool(paths))
    alone = signal is not None and signal.role == ALONE
    threshold = decided.pop("threshold", default_of("threshold"))
    if signal is not None and alone:
        threshold = signal.threshold
    recall = decided.pop("recall", default_of("recall"))
    fixed = FixedOptions(**decided)
    cores = (CORES if on_spark else cpu_count() or 1) if cores is None else cores
    files, columns = InputFiles(), Columns(text=join_names(text))
    if paths:
        files = find_inputs(paths, **input_options)
        say_notes(files, progress)
    if documents is None and not files:
        raise ParameterError(
            "the number of documents is missing: give --documents, or --sample with their files"
        )
    # Everything is checked before anything is read.
    within = None if hours is None else parse_number(hours, "hours")
    if on_redis:
        purpose = purpose or "index"
    if within is not None and (rate is not None or purpose == "index" or not within > 0):
        raise ParameterError(
            "hours are those of a run over files, above 0: leave out rate and index, or the hours"
        )
    sla = Sla(
        documents=1 if documents is None else parse_count(documents, "documents"),
        **_sizes(shingles, bytes),
        threshold=threshold,
        recall=recall,
        precision=precision,
        memory=None if memory is None else parse_memory(memory),
        disk=None if disk is None else parse_bytes(disk, "disk"),
        rate=None if rate is None else parse_number(rate, "rate"),
        cores=cores,
        purpose=purpose or ("files" if rate is None or on_spark else "index"),
    )
    if on_spark and sla.purpose == "index":
        raise ParameterError(
            "an index is not on Spark: plan one with engine local or redis, or plan files"
        )
    if on_redis and sla.purpose == "files":
        raise ParameterError("Redis servers have an index: leave out files, or plan with spark")
    sampled = vectors = None
    if files and not alone:
        sampled = sample_corpus(
            files, columns, fixed, sample_size, seed, cores, progress, threshold
        )
        sla = fill_from_sample(sla, sampled, documents is None, shingles is None, bytes is None)
    if signal is not None:
        seen = sample_vectors(files, columns, signal)
        if alone:
            count = round(seen.documents) if documents is None else sla.documents
            sla = replace(sla, documents=max(count, 1), size=seen.stored)
        vectors = PlannedVectors.of(signal, seen, recall, sla.documents)
    if within is not None:
        sla = replace(sla, rate=sla.documents / (3600 * within))
    # Limits of an executor or a server are no limits of a single machine: as many as it takes.
    many = on_spark or on_redis
    chosen_for = replace(sla, memory=None, disk=None, rate=None) if many else sla
    predict = Predictor(chosen_for, Costs(), _workloads(sla, sampled, vectors))
    search = Search(chosen_for, fixed, predict, vectors)
    if calibrate:
        progress.say("measuring this machine, a few seconds")
        costs = _measure_costs(search, [] if alone else files, columns)
        search = replace(search, predict=replace(search.predict, costs=costs))
    planned = make_plan(search, sampled)
    if on_redis:
        return plan_servers(planned, sla, search.predict)
    return plan_cluster(planned, sla, search.predict) if on_spark else planned


def _measure_costs(search: Search, files: Sequence[InputFile], columns: Columns) -> Costs:
    """Measure this machine by texts, also for vectors: the costs of these follow from theirs.

    Args:
        search: The search with stored costs.
        files: The files of texts; texts are made up without any.
        columns: Their columns.
    """
    sla, options, point = search.sla, Options.of(), dict[str, Any]()
    texts = measuring.random_texts(sla.shingles, sla.shingles * BYTES_OF_A_SHINGLE)
    if search.vectors is None or not search.vectors.are_all:
        solution = search.run()
        options = solution.options.of_texts
        of_vectors = options_of(VectorOptions)
        point = {name: value for name, value in solution.point.items() if name not in of_vectors}
        texts = (
            measuring.read_texts(files, columns)
            if files
            else measuring.random_texts(sla.shingles, sla.size)
        )
    cores = min(sla.cores, cpu_count() or 1)
    return measuring.measure_costs(texts, options, point, sla.shingles, cores)


def plan_cluster(local: Plan, sla: Sla, predict: Predictor) -> Plan:
    """Return the plan of the same operating point on Spark.

    Args:
        local: The plan for one machine without limits.
        sla: The requirements; memory and cores are those of one executor.
        predict: The prediction that the local plan is based on.
    """
    options = Options.of(**local.options)
    run = SparkRun(sla, predict.costs, predict.workload_at(options), options, stored_bytes(options))
    cluster = size_cluster(run)
    return replace(
        local,
        sla=sla,
        problems=[*local.problems, *find_cluster_problems(cluster, run)],
        notes=[*local.notes, *note_driver(cluster, run)],
        spark=cluster,
        sources=local.sources | {"spark": run.spark.source},
    )


def plan_servers(local: Plan, sla: Sla, predict: Predictor) -> Plan:
    """Return the plan of the same operating point on Redis servers.

    Args:
        local: The plan for one machine without limits.
        sla: The requirements; memory and disk are those of a machine with a server.
        predict: The prediction that the local plan is based on.
    """
    options = Options.of(**local.options)
    size = RedisIndex(sla, predict.costs, predict.workload_at(options), options).size()
    problems = [*local.problems, *find_redis_problems(size, sla)]
    sources = local.sources | {"redis": size.source}
    return replace(local, sla=sla, problems=problems, redis=size, sources=sources)


def make_plan(search: Search, sampled: SampledCorpus | None = None) -> Plan:
    """Run the search and explain its solution."""
    solution = search.run()
    return Plan(
        search.sla,
        solution.point,
        explain_choices(search, solution),
        solution.predicted,
        find_problems(search, solution),
        {
            "costs": search.predict.costs.source,
            "documents": _describe_source(sampled, search.sla, search.vectors),
        },
        note_comparisons(search, solution),
        vectors=None if search.vectors is None else search.vectors.described,
    )


def _describe_source(
    sampled: SampledCorpus | None, sla: Sla, vectors: PlannedVectors | None = None
) -> str:
    """State what the figures of the documents are based on."""
    if sampled is None and vectors is not None:
        seen = format_count(vectors.layout.sample.sampled, "sampled vector")
        return f"{seen} say how many compare in vain; a tenth is assumed to be removed"
    if sampled is None:
        return (
            "assumed to be like pages of manuals: a tenth is removed, and others meet as often as "
            "such pages do; --sample measures it"
        )
    if sla.documents <= MANY_TIMES * sampled.documents:
        return sampled.sample.about
    times = sla.documents / sampled.documents
    return (
        f"{sampled.sample.about}. There will be {times:,.0f} times as many: "
        "if they are of the same kind, each meets that many times more dissimilar documents"
    )


def sample_corpus(
    files: Sequence[InputFile],
    columns: Columns,
    fixed: FixedOptions,
    count: int,
    seed: int,
    workers: int,
    progress: Progress = SILENT,
    threshold: float = default_of("threshold"),
) -> SampledCorpus:
    """Choose `count` documents of the files and compare all pairs of them.

    Args:
        files: The files of the corpus.
        columns: The names of their columns.
        fixed: Options that the caller has fixed; its shingle counts.
        count: The number of documents to choose.
        seed: The seed by which they are chosen.
        workers: Threads.
        progress: Receives the progress of reading.
        threshold: Pairs at least this similar are counted.
    """
    spec = Options.of(shingle=fixed.shingle).spec
    chosen = choose_from_files(files, columns, count, seed, spec, progress, workers)
    return SampledCorpus.of(chosen, spec, chosen.read / chosen.documents, workers, threshold)


def fill_from_sample(
    sla: Sla, sampled: SampledCorpus, documents: bool, shingles: bool, size: bool
) -> Sla:
    """Return the requirements with the figures of a sample; the flags select which to replace."""
    return replace(
        sla,
        documents=round(sampled.documents) if documents else sla.documents,
        shingles=sampled.shingles if shingles else sla.shingles,
        size=sampled.size if size else sla.size,
    )


def _sizes(shingles: float | str | None, size: float | str | None) -> dict[str, float]:
    """Return shingles and bytes of a document; a missing one is derived from the other."""
    count = None if shingles is None else parse_number(shingles, "shingles")
    if size is not None:
        length = float(parse_bytes(size, "bytes"))
        return {
            "shingles": max(length / BYTES_OF_A_SHINGLE, 1.0) if count is None else count,
            "size": length,
        }
    count = SHINGLES if count is None else count
    return {"shingles": count, "size": count * BYTES_OF_A_SHINGLE}


def _workloads(
    sla: Sla, sampled: SampledCorpus | None, vectors: PlannedVectors | None = None
) -> Callable[[Options], Workload]:
    """Return a function that gives the workload at an operating point, each computed once."""
    if vectors is not None and vectors.are_all:
        return cache(lambda _: vectors.work_alone(sla.size))
    if vectors is not None:
        of_texts = _workloads(sla, sampled)
        return lambda options: vectors.add_work(of_texts(options.of_texts), sla.shingles)
    if sampled is None:
        return cache(lambda options: assume_workload(sla, options))
    times = max(sla.documents / sampled.documents, 1.0)
    measured: dict[tuple[Any, ...], Workload] = {}

    def measure(options: Options) -> Workload:
        # Who meets whom does not depend on stored bits and verification: bands are made before.
        tables, spec = options.hash_tables, options.spec
        key = (spec.sketch, spec.slots, str(tables.stated), options.threshold, options.limit)
        if key not in measured:
            most = tables.count * options.limit
            measured[key] = scale_workload(sampled.workload(options), times, most)
        return measured[key]

    return measure
