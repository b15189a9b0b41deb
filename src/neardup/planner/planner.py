"""neardup.plan: from requirements to an operating point, with its reasons and its cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from os import cpu_count
from pathlib import Path
from typing import Any, Unpack

from neardup.corpus.documents import Columns
from neardup.corpus.inputs import InputFile, find_inputs
from neardup.errors import ParameterError
from neardup.evaluation.sample import choose_from_files
from neardup.formats.config import write_config
from neardup.formatting import (
    format_bytes,
    format_count,
    format_duration,
    parse_bytes,
    parse_count,
    parse_number,
)
from neardup.option_table import PlanOptions, default_of, given_options, takes_options
from neardup.options import Options
from neardup.pipeline.backends import ENGINES
from neardup.planner import costs as measuring
from neardup.planner.costs import Costs
from neardup.planner.explanation import (
    Choice,
    UnmetLimit,
    explain_choices,
    find_problems,
    note_flat_bands,
)
from neardup.planner.prediction import Prediction, Predictor, stored_bytes
from neardup.planner.requirements import BYTES_OF_A_SHINGLE, SHINGLES, FixedOptions, Sla
from neardup.planner.search import Search
from neardup.planner.spark_cluster import (
    CORES,
    ClusterSize,
    find_cluster_problems,
    note_shuffles,
    size_cluster,
)
from neardup.planner.spark_run import SparkRun
from neardup.planner.workload import SampledCorpus, Workload, assume_workload, scale_workload
from neardup.runtime import SILENT, Progress
from neardup.spec import check_choice, check_whole

MOST_SAMPLED = 100_000
MANY_TIMES = 1.5
"""So many times the documents of a sample's files are said to be more of the same."""


@dataclass(frozen=True)
class Plan:
    """An operating point, why it is what it is, and what is expected of it.

    options    keyword arguments of `neardup.dedup`
    notes      what is no failure, but should be known
    spark      the cluster, if the run is to be on one; `predicted` is of one machine all the same
    """

    sla: Sla
    options: dict[str, Any]
    choices: list[Choice]
    predicted: Prediction
    problems: list[UnmetLimit]
    sources: dict[str, str]
    notes: list[str] = field(default_factory=list)
    spark: ClusterSize | None = None

    @property
    def met(self) -> bool:
        """Whether everything that is asked for can be had."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON has it; what is not known is null."""
        found = {
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
            found["spark"] = asdict(self.spark)
        return _finite(found)  # type: ignore[no-any-return]

    @property
    def reasons(self) -> list[str]:
        """One line a choice, for a config file."""
        return [f"{one.name}: {one.value} ({one.reason})" for one in self.choices]

    def write(self, path: str | Path) -> None:
        """The operating point as a file, for `neardup dedup --config`."""
        missed = [f"not met: {problem}" for problem in self.problems]
        noted = [f"note: {note}" for note in self.notes]
        write_config(Path(path), self.options, [*missed, *noted, *self.reasons])

    def __repr__(self) -> str:
        point = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        seen = self.predicted
        met = "met" if self.met else f"missed: {', '.join(one.limit for one in self.problems)}"
        spent = f"{format_bytes(seen.memory)} of memory, {format_bytes(seen.disk)} of disk, "
        spent += format_duration(seen.seconds)
        if (spark := self.spark) is not None:
            spent = (
                f"{format_count(spark.executors, 'executor')} of "
                f"{format_count(spark.cores, 'core')} and "
            )
            spent += f"{format_bytes(spark.memory)}, {format_duration(spark.seconds)}"
        return f"Plan({point}; recall {seen.recall:.4f}, {spent}; {met})"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@takes_options("neardup.plan")
def plan(
    documents: float | str | None = None,
    *,
    sample: Sequence[str | Path] | str | Path = (),
    text: str = "text",
    format: str = "auto",
    shingles: float | str | None = None,
    bytes: float | str | None = None,
    precision: float | None = None,
    memory: float | str | None = None,
    disk: float | str | None = None,
    rate: float | str | None = None,
    cores: int | None = None,
    purpose: str | None = None,
    sample_size: int = 10_000,
    seed: int = 1,
    calibrate: bool = True,
    engine: str = "local",
    progress: Progress = SILENT,
    **options: Unpack[PlanOptions],
) -> Plan:
    """Choose an operating point from requirements: slots, bands, verification, and their cost.

    Numbers may be written as people do: "300M", "100GB". With `engine="spark"`, memory, disk and
    cores are those of an executor, and `spark` of the plan has the cluster.

    Args:
        documents: How many there will be; by default those of the sample's files.
        sample: Files of the corpus, or of one like it: shingles, bytes and duplicates are measured
            on them.
        text: The column that holds the documents.
        format: The format of the sample's files; by default their names say it.
        shingles: Distinct shingles of a document, on average.
        bytes: Bytes of a document's text, on average.
        precision: The share of what is called a duplicate that must be one.
        memory: Bytes of memory that one machine may use.
        disk: Bytes on disk that one machine may use.
        rate: Documents that arrive in a second; the plan is then for an index, unless `purpose`
            is files. On Spark, documents that a run gets through in a second.
        cores: Cores of one machine; by default those of this one, on Spark 4.
        purpose: "files", a run over files; or "index", whose tables are held in memory.
        sample_size: Compare this many documents of the sample.
        seed: The seed by which they are chosen.
        calibrate: Measure this machine for a few seconds, instead of using stored figures.
        engine: "local", one machine; or "spark", a cluster.
        progress: Told how far it is.
        **options: Threshold and recall that must be reached, and matching options that are decided
            already; the plan chooses the others.

    >>> found = plan("300M", threshold=0.85, recall=0.95, memory="100GB", rate=5000, cores=4,
    ...              shingles=300, calibrate=False)
    >>> found.options["bands"], found.options["rows"], found.met
    (14, 9, True)
    """
    check_whole("sample_size", sample_size, 2, MOST_SAMPLED)
    check_choice("engine", engine, ENGINES)
    on_spark = engine == "spark"
    decided = given_options(options)
    threshold = decided.pop("threshold", default_of("threshold"))
    recall = decided.pop("recall", default_of("recall"))
    given = FixedOptions(**decided)
    cores = (CORES if on_spark else cpu_count() or 1) if cores is None else cores
    paths = [sample] if isinstance(sample, (str, Path)) else list(sample)
    files, columns = find_inputs(paths, format) if paths else [], Columns(text=text)
    if documents is None and not files:
        raise ParameterError("how many documents? Give --documents, or --sample with their files")
    # Everything is checked before anything is read.
    sla = Sla(
        documents=1 if documents is None else parse_count(documents, "documents"),
        **_sizes(shingles, bytes),
        threshold=threshold,
        recall=recall,
        precision=precision,
        memory=None if memory is None else parse_bytes(memory, "memory"),
        disk=None if disk is None else parse_bytes(disk, "disk"),
        rate=None if rate is None else parse_number(rate, "rate"),
        cores=cores,
        purpose=purpose or ("files" if rate is None or on_spark else "index"),
    )
    if on_spark and sla.purpose == "index":
        raise ParameterError("an index is not on Spark: plan one with engine local, or plan files")
    seen = None
    if files:
        seen = sample_corpus(files, columns, given, sample_size, seed, cores, progress, threshold)
        sla = fill_from_sample(sla, seen, documents is None, shingles is None, bytes is None)
    chosen_for = replace(sla, memory=None, disk=None, rate=None) if on_spark else sla
    search = Search(chosen_for, given, Predictor(chosen_for, Costs(), _profiles(sla, seen)))
    if calibrate:
        progress.say("measuring this machine, a few seconds")
        texts = (
            measuring.read_texts(files, columns)
            if files
            else measuring.random_texts(sla.shingles, sla.size)
        )
        found = search.run()
        costs = measuring.measure_costs(
            texts, found.options, found.point, sla.shingles, min(cores, cpu_count() or 1)
        )
        search = replace(search, predict=replace(search.predict, costs=costs))
    made = make_plan(search, seen)
    return plan_cluster(made, sla, search.predict) if on_spark else made


def plan_cluster(made: Plan, sla: Sla, predict: Predictor) -> Plan:
    """The same operating point on Spark, whose executors have what `sla` says."""
    options = Options.of(**made.options)
    run = SparkRun(sla, predict.costs, predict.profile_at(options), options, stored_bytes(options))
    found = size_cluster(run)
    return replace(
        made,
        sla=sla,
        problems=[*made.problems, *find_cluster_problems(found, run)],
        notes=[*made.notes, *note_shuffles(found, run)],
        spark=found,
        sources=made.sources | {"spark": run.spark.source},
    )


def make_plan(search: Search, seen: SampledCorpus | None = None) -> Plan:
    """The plan that a search ends in."""
    found = search.run()
    return Plan(
        search.sla,
        found.point,
        explain_choices(search, found),
        found.predicted,
        find_problems(search, found),
        {"costs": search.predict.costs.source, "documents": _known_from(seen, search.sla)},
        note_flat_bands(search, found),
    )


def _known_from(seen: SampledCorpus | None, sla: Sla) -> str:
    if seen is None:
        return (
            "assumed to be like pages of manuals: a tenth is removed, and others meet as often as "
            "such pages do; --sample measures it"
        )
    if sla.documents <= MANY_TIMES * seen.documents:
        return seen.sample.about
    return (
        f"{seen.sample.about}. There will be {sla.documents / seen.documents:,.0f} times as many: "
        "if they are of the same kind, so many times more pairs meet without being similar"
    )


def sample_corpus(
    files: Sequence[InputFile],
    columns: Columns,
    given: FixedOptions,
    count: int,
    seed: int,
    workers: int,
    progress: Progress = SILENT,
    threshold: float = default_of("threshold"),
) -> SampledCorpus:
    """Choose a sample and compare everything in it."""
    spec = Options.of(shingle=given.shingle).spec
    chosen = choose_from_files(files, columns, count, seed, spec, progress, workers)
    return SampledCorpus.of(chosen, spec, chosen.read / chosen.documents, workers, threshold)


def fill_from_sample(
    sla: Sla, seen: SampledCorpus, documents: bool, shingles: bool, size: bool
) -> Sla:
    """The same, with what a sample says of the corpus where nothing else was said."""
    return replace(
        sla,
        documents=round(seen.documents) if documents else sla.documents,
        shingles=seen.shingles if shingles else sla.shingles,
        size=seen.size if size else sla.size,
    )


def _sizes(shingles: float | str | None, size: float | str | None) -> dict[str, float]:
    """Shingles and bytes of a document: as given, or one from the other."""
    many = None if shingles is None else parse_number(shingles, "shingles")
    if size is not None:
        long = float(parse_bytes(size, "bytes"))
        return {
            "shingles": max(long / BYTES_OF_A_SHINGLE, 1.0) if many is None else many,
            "size": long,
        }
    many = SHINGLES if many is None else many
    return {"shingles": many, "size": many * BYTES_OF_A_SHINGLE}


def _profiles(sla: Sla, seen: SampledCorpus | None) -> Callable[[Options], Workload]:
    """What is known of the documents at an operating point, each looked at once."""
    if seen is None:
        return cache(lambda options: assume_workload(sla, options))
    times = max(sla.documents / seen.documents, 1.0)
    return cache(
        lambda options: scale_workload(
            seen.profile(options), times, options.hash_tables.count * options.limit
        )
    )
