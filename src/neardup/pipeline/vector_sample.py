"""The planes that the vectors of a run would have, by a sample of them, before they are counted."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np

from neardup.corpus.documents import Columns
from neardup.corpus.shards import Shard
from neardup.corpus.vector_files import VectorFile
from neardup.corpus.vectors import convert_matrix
from neardup.errors import ParameterError
from neardup.lsh.planes import SAMPLED, PlanePrediction
from neardup.options import Options
from neardup.pipeline.disk_estimate import read_samples
from neardup.pipeline.job import Job
from neardup.vector_layout import CountedVectors, VectorLayout, lay_out_vectors

FEW: Final = 512
"""Vectors by which the disk space is estimated: the work of a plan grows with their square."""


@dataclass(frozen=True)
class VectorSample:
    """Some vectors of the inputs.

    Attributes:
        counted: The vectors.
        dimension: The numbers of each.
        documents: The estimated number of documents of the inputs.
        stored: The bytes of a document in these, on average.
    """

    counted: CountedVectors
    dimension: int
    documents: float
    stored: float

    @classmethod
    def read(
        cls, shards: Sequence[Shard], columns: Columns, most: int = SAMPLED
    ) -> VectorSample | None:
        """Read vectors from all over the inputs; None if there are none that can be read yet.

        Args:
            shards: The shards of the inputs.
            columns: Their columns, with the dimension of the vectors if it is known.
            most: The most vectors.
        """
        if columns.vectors is None or columns.dimension is None:
            return None
        counted, stored = CountedVectors(), sum(shard.stored for shard in shards)
        if columns.vector_column is None:
            file = VectorFile.open(columns.vectors)
            places = np.linspace(0, len(file) - 1, min(len(file), most)).astype(np.int64)
            counted.add_rows(convert_matrix(file[places], columns.dimension).matrix)
            documents = float(len(file))
        else:
            samples = list(read_samples(shards))
            for sample in samples:
                if sample.documents.vectors is not None:
                    counted.add_rows(sample.documents.vectors[: -(-most // len(samples))])
            rows = sum(len(sample.documents) for sample in samples)
            documents = rows * stored / max(sum(sample.stored for sample in samples), 1)
        if not counted.counts.documents:
            return None
        return cls(counted, columns.dimension, documents, stored / documents)

    @property
    def sampled(self) -> int:
        """The number of vectors that were read."""
        return self.counted.counts.documents

    def lay_out(self, options: Options, documents: float | None = None) -> SampledLayout:
        """Return the planes for so many vectors like these.

        Raises `ParameterError` where they would be refused.

        Args:
            options: The options of the run.
            documents: How many there are; None for those of the inputs.
        """
        signal = options.vectors
        assert signal is not None  # noqa: S101  # the caller has vectors
        counted = self.counted.scaled_to(round(self.documents if documents is None else documents))
        layout = lay_out_vectors(options, self.dimension, counted)
        found = None
        if layout.curve is not None:
            found = PlanePrediction.of(
                layout.curve.planes, signal.threshold, counted.counts, layout.centre.numbers
            )
        return SampledLayout(self, layout, found)


@dataclass(frozen=True)
class SampledLayout:
    """The planes of a run by a sample of its vectors.

    Attributes:
        sample: The sample.
        layout: The planes and their centre.
        found: What they find, and how many pairs they compare in vain; None if vectors find none.
    """

    sample: VectorSample
    layout: VectorLayout
    found: PlanePrediction | None

    def apply(self, options: Options) -> Options:
        """Return options with these planes."""
        return self.layout.apply(options, self.sample.dimension)


def sample_layout(job: Job, shards: Sequence[Shard], most: int = SAMPLED) -> SampledLayout | None:
    """Return the planes that a run would have by a sample; None if that is not known before.

    Raises `ParameterError` where the vectors of all inputs, if they are like these, would be
    refused.

    Args:
        job: The job, with the dimension of its vectors.
        shards: The shards of its inputs.
        most: The most vectors to read.
    """
    if job.options.vectors is None or job.against or job.stored:
        return None
    sample = VectorSample.read(shards, job.columns, most)
    return None if sample is None else sample.lay_out(job.options)


def expect_layout(job: Job, shards: Sequence[Shard]) -> SampledLayout | None:
    """Return what `sample_layout` does; None where only all vectors can tell if they are refused.

    Args:
        job: The job, with the dimension of its vectors.
        shards: The shards of its inputs.
    """
    with suppress(ParameterError):
        return sample_layout(job, shards, FEW)
    return None
