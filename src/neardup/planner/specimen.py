"""Which documents are operating points tried on? Different ones, near-duplicates together."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from neardup import cluster
from neardup.corpus.documents import Columns, Documents
from neardup.corpus.frames import read_data
from neardup.corpus.inputs import InputFile
from neardup.errors import InputError
from neardup.evaluation.sample import Sample, as_documents, choose_among, choose_from_files
from neardup.evaluation.truth import Truth
from neardup.options import Options
from neardup.pipeline.interrupts import InterruptibleProgress, hold_signals
from neardup.pipeline.set_files import sort_sets
from neardup.runtime import Progress
from neardup.sketcher import Sketcher
from neardup.spec import check_whole
from neardup.text.arrays import Ragged, view_strings

USUAL = 5_000
LARGEST = 100_000


@dataclass(frozen=True)
class Specimen:
    """The sample without identical documents, and its sets of shingles by the reference.

    `chosen` are the numbers of the others in the sample.
    """

    sample: Sample
    chosen: NDArray[np.int64]
    documents: Documents
    sets: Ragged
    copies: int

    @classmethod
    def of(cls, sample: Sample, options: Options) -> Specimen:
        documents = as_documents(sample.texts)
        cut = Sketcher(options.spec).cut(documents)
        visible = np.flatnonzero(cut.shingles.sizes > 0)
        different = np.unique(cluster.find_identical(cut.content, visible)[visible])
        if len(different) < 2:
            raise InputError(
                "there are fewer than two different documents with a text: nothing to compare"
            )
        documents = documents.take(different)
        sets = sort_sets(Sketcher(options.spec).cut(documents).shingles)
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


def from_files(
    files: Sequence[InputFile],
    text: str,
    count: int,
    options: Options,
    workers: int,
    progress: Progress,
) -> Specimen:
    """Some documents of files."""
    number, columns = check_whole("the sample", count, 2, LARGEST), Columns(text=text)
    with hold_signals() as obey:
        steps = InterruptibleProgress(progress, obey)
        spec = options.spec
        return Specimen.of(
            choose_from_files(files, columns, number, spec.seed, spec, steps, workers), options
        )


def from_table(data: object, text: str, count: int, options: Options) -> Specimen:
    """Some documents of a list or a table."""
    number, batches = (
        check_whole("the sample", count, 2, LARGEST),
        read_data(data, Columns(text=text)),
    )
    return Specimen.of(choose_among(batches, number, options.spec.seed, options.spec), options)
