"""What vectors add to a plan: their planes, by a sample of them, and the work that these make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from neardup.corpus.column_check import check_columns, find_dimension
from neardup.corpus.documents import Columns
from neardup.corpus.inputs import InputFile
from neardup.corpus.shards import Reading, cut_shards
from neardup.errors import InputError, ParameterError
from neardup.lsh.planes import PlanePrediction
from neardup.options import Options
from neardup.pipeline.vector_sample import SampledLayout, VectorSample
from neardup.planner.workload import IN_A_BUCKET, NEAR, NEAR_IN_A_BAND, REMOVED, Workload
from neardup.vector_layout import columns_of_vectors
from neardup.vector_signal import ALONE, VectorSignal, refuse_text_options, take_signal


@dataclass(frozen=True)
class VectorPlan:
    """The vectors of a plan.

    Attributes:
        column: The column of the vectors, or their file.
        role: "alone", "also" or "unless": what they decide.
        cosine: The least cosine of similar vectors.
        dimension: The numbers of a vector.
        planes: Bands and planes of a band, as the option has them; None if vectors find nothing.
        recall: The share of the pairs at that cosine that they find; None as above.
        compared: Pairs below that cosine that they compare, for each document; None as above.
        sampled: The vectors of the sample.
    """

    column: str
    role: str
    cosine: float
    dimension: int
    planes: str | None
    recall: float | None
    compared: float | None
    sampled: int


def take_planned_signal(
    given: dict[str, Any], engine: str, is_for_files: bool, has_sample: bool
) -> VectorSignal | None:
    """Remove the options about vectors from those that are given, and return what they mean.

    Args:
        given: Options by name, all with a value.
        engine: What the plan is for.
        is_for_files: Whether it is for a run over files.
        has_sample: Whether there are files to sample.
    """
    signal = take_signal(given)
    if signal is None:
        return None
    if engine != "local" or not is_for_files:
        raise ParameterError(
            "with vectors a plan is of a run over files on one machine: leave out --engine, --rate "
            "and --for; --hours asks for a rate"
        )
    if not has_sample:
        raise ParameterError(
            f"the planes of vectors follow from the vectors: give some of them by --sample FILES, "
            f"with --{signal.option}"
        )
    if signal.threshold >= 1.0:
        raise ParameterError("a plan needs a cosine below 1: give one such as 0.95")
    if signal.role == ALONE:
        refuse_text_options(given)
    return signal


def sample_vectors(
    files: Sequence[InputFile], columns: Columns, signal: VectorSignal
) -> VectorSample:
    """Read vectors from all over files.

    Args:
        files: The files.
        columns: The columns of their texts.
        signal: What the vectors are for.
    """
    columns = columns_of_vectors(_asking(signal), columns)
    check_columns(files, columns)
    columns = find_dimension(files, columns)
    sample = VectorSample.read(cut_shards(files, Reading(columns)), columns)
    if sample is None:
        raise InputError(f"the sample has no usable vector in {signal.column}: give other files")
    return sample


def _asking(signal: VectorSignal) -> Options:
    """Return options that ask for nothing but these vectors."""
    return Options.of(**signal.given)


@dataclass(frozen=True)
class PlannedVectors:
    """The vectors of a corpus, laid out for a run over all of it.

    Attributes:
        signal: What they are for, as it was asked.
        layout: Their planes.
    """

    signal: VectorSignal
    layout: SampledLayout

    @classmethod
    def of(
        cls, signal: VectorSignal, sample: VectorSample, recall: float, documents: float
    ) -> PlannedVectors:
        """Plan the planes for so many documents; an error where a run would refuse them.

        Args:
            signal: What the vectors are for.
            sample: Some of them.
            recall: The share of the pairs at the threshold that must share a bucket.
            documents: The number of documents of the corpus.
        """
        options = replace(_asking(signal), recall=recall)
        return cls(signal, sample.lay_out(options, documents))

    @property
    def are_all(self) -> bool:
        """Whether documents are compared by their vectors alone."""
        return self.signal.role == ALONE

    @property
    def found(self) -> PlanePrediction | None:
        """What their planes find; None if vectors find no candidates."""
        return self.layout.found

    @property
    def point(self) -> dict[str, Any]:
        """The options about vectors, with the planned planes."""
        if self.found is None:
            return self.signal.given
        return replace(self.signal, planes=self.found.planes).given

    def at(self, point: Mapping[str, Any]) -> tuple[Options, dict[str, Any]]:
        """Return an operating point with these vectors, checked and as it is written.

        Args:
            point: The options about texts, and those that vectors have, too.
        """
        whole = {**point, **self.point}
        return self.layout.apply(Options.of(**whole)), whole

    @property
    def described(self) -> VectorPlan:
        """These vectors, as a plan has them."""
        found, point = self.found, self.point
        return VectorPlan(
            column=self.signal.column,
            role=self.signal.role,
            cosine=self.signal.threshold,
            dimension=self.layout.sample.dimension,
            planes=point.get("planes"),
            recall=None if found is None else found.recall,
            compared=None if found is None else found.compared,
            sampled=self.layout.sample.sampled,
        )

    def work_alone(self, stored: float) -> Workload:
        """Return the workload of documents that are their vectors.

        Args:
            stored: Bytes of a document in the input files.
        """
        nothing = Workload(stored, REMOVED, (1 - REMOVED) * stored, NEAR, 0, REMOVED, 0, 0, 0)
        return self.add_work(nothing, 0.0)

    def add_work(self, load: Workload, shingles: float) -> Workload:
        """Return a workload with that of the vectors.

        Args:
            load: The workload of the texts.
            shingles: Distinct shingles of a document, which are stored of every candidate.
        """
        vector, found = 4.0 * self.layout.sample.dimension, self.found
        if found is None:
            return replace(load, sets=load.sets + load.candidates * vector)
        candidates = load.candidates + (1 - load.candidates) * found.met
        others = candidates - load.candidates
        near = NEAR_IN_A_BAND * found.planes.bands
        members = found.members + near * (1 - found.members / found.planes.bands)
        return replace(
            load,
            candidates=candidates,
            sets=load.sets + 8.0 * shingles * others + vector * candidates,
            compared=load.compared + found.compared,
            false=load.false + found.compared,
            members=load.members + members,
            buckets=load.buckets + members / IN_A_BUCKET,
            met_by_planes=found.compared,
            members_of_planes=members,
        )
