"""datatrove: a step that drops the near-duplicates among the documents of a task.

    pipeline = [JsonlReader("in"), NearDuplicateFilter(threshold=0.8), JsonlWriter("out")]
    LocalPipelineExecutor(pipeline, tasks=1).run()

A task sees its own documents alone: near-duplicates in the documents of other tasks stay. For a
corpus in many tasks let datatrove write it, and run `neardup.dedup_files` over what it wrote.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, Unpack

from neardup.corpus.frames import require_library
from neardup.in_memory import dedup
from neardup.keyword_arguments import takes_options
from neardup.option_table import MatchingOptions
from neardup.options import Options
from neardup.result import Result

require_library("datatrove")

from datatrove.data import Document  # noqa: E402
from datatrove.pipeline.base import PipelineStep  # noqa: E402
from datatrove.utils.typeshelper import StatHints  # noqa: E402


class NearDuplicateFilter(PipelineStep):
    """Drop near-duplicates among the documents of a task, which are held in memory meanwhile.

    Kept documents are passed on unchanged, in order. Documents without a text, which can't be
    compared, are passed on too. Dropped ones get the id of the kept document (`duplicate_of`) and
    the `similarity` into their metadata.

    Args:
        within: Compare only documents with the same value of this entry of their metadata.
        exclusion_writer: A writer of datatrove, for the dropped documents.
        **options: The matching options of `neardup.dedup`; the columns of `keep` are entries of the
            metadata, as in `keep="max:score"`.
    """

    type = "DEDUP"
    name = "neardup"

    @takes_options("neardup.integrations.datatrove.NearDuplicateFilter")
    def __init__(
        self,
        within: str | None = None,
        exclusion_writer: Any = None,
        **options: Unpack[MatchingOptions],
    ) -> None:
        super().__init__()
        Options.of(**options)  # wrong values are refused now, not in a task
        self.within, self.exclusion_writer, self.options = within, exclusion_writer, options

    def run(
        self,
        data: Iterator[Document],
        rank: int = 0,
        world_size: int = 1,  # noqa: ARG002
    ) -> Iterator[Document]:
        """Yield the documents without near-duplicates.

        Args:
            data: The documents of the task.
            rank: The number of the task.
            world_size: The number of tasks.
        """
        documents = list(data or ())
        if not documents:
            return
        with self.track_time("task"):
            result = self._decide(documents)
        with self.exclusion_writer or nullcontext() as writer:
            for row, document in enumerate(documents):
                self.stat_update(StatHints.total)
                witness = int(result.decisions.witness[row])
                if witness < 0:
                    self.stat_update(StatHints.forwarded)
                    self.update_doc_stats(document)
                    yield document
                    continue
                self.stat_update(StatHints.dropped)
                if writer is not None:
                    document.metadata["duplicate_of"] = documents[witness].id
                    document.metadata["similarity"] = float(result.decisions.similarity[row])
                    writer.write(document, rank)

    def _decide(self, documents: list[Document]) -> Result:
        rows = [
            document.metadata | {"id": document.id, "text": document.text} for document in documents
        ]
        return dedup(rows, text="text", id="id", within=self.within, **self.options)
