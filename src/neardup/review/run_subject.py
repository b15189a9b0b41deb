"""A finished run that people review."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from neardup.decided_run import apply_decisions
from neardup.decisions import Decisions, fingerprint_run
from neardup.errors import Conflict, UsageError
from neardup.formatting import format_similarity
from neardup.keys import Key
from neardup.pipeline.output import RUN_FILE
from neardup.pipeline.progress_display import ReportStage
from neardup.report.html import name
from neardup.report.run_documents import read_run_record
from neardup.report.run_explanation import RunExplainer
from neardup.report.run_folder import RunRecord, read_record
from neardup.report.run_verdicts import RunExplanation
from neardup.review.run_tables import RunTables, least_similarity
from neardup.review.sources import SourceNames
from neardup.review.subject import ReviewExplanation, ReviewNeighbour
from neardup.review.texts import RunTexts
from neardup.runtime import SILENT

REVIEW_FOLDER: Final = "review"
"""The folder in OUT with what the review stores; a new run in OUT leaves it alone."""


class RunSubject:
    """A finished run, as `ReviewSubject` describes it.

    Args:
        run: The folder of the run.
        key: The secret of its keyed hashes, for explanations; None if it has none.
    """

    def __init__(self, run: Path, key: Key | None = None) -> None:
        self.run, self._key = run, key
        self._stamp = self._read_stamp()
        content: dict[str, Any] = read_run_record(run)
        self.record: RunRecord = read_record(run)
        if self.record.parameters.get("keep") == "none":
            raise UsageError(
                f"{run} has kept nothing of its clusters (--keep none), so there is no choice to "
                "review: run neardup dedup with another --keep"
            )
        self.name, self.folder = run.resolve().name, run / REVIEW_FOLDER
        self.threshold = least_similarity(self.record)
        self.fingerprint = fingerprint_run(content)
        self.sources = SourceNames(file.file for file in self.record.inputs)
        self.texts = RunTexts(run, content)
        self.tables = RunTables(run, self.sources, self.texts.spans, self.record)

    @property
    def unheeded(self) -> str:
        """Why decisions can't be applied to this run, whatever they are; empty if they can."""
        if self.record.is_exact:
            return "it removed identical documents alone: neardup dedup obeys decisions"
        if self.record.parameters.get("cluster", "stars") != "stars":
            return "its clusters are components: neardup dedup --cluster stars obeys decisions"
        return ""

    def apply(self, decisions: Decisions, out: Path, report: ReportStage) -> dict[str, int]:
        """Make the run again with decisions, and return its counts.

        Args:
            decisions: The decisions.
            out: The folder to write.
            report: Told how far it is.
        """
        return apply_decisions(self.run, decisions, out, progress=report, key=self._key).counts

    def check(self) -> None:
        """Raise `Conflict` if there is another run in this folder now, or none."""
        if self._read_stamp() != self._stamp:
            raise Conflict(
                f"{self.run} is another run now, or none: start neardup review again; what was "
                "decided about this one is stored"
            )

    def _read_stamp(self) -> tuple[int, int, int] | None:
        try:
            found = (self.run / RUN_FILE).stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def explain(self, id: str) -> ReviewExplanation:
        """Sketch a document and all that it may have met again, and explain what became of it."""
        explained = self._explainer.explain(id, nearest=True)
        near = (ReviewNeighbour(one.similarity, one.id, one.status) for one in explained.nearest)
        return ReviewExplanation(explained.sentence, [*_facts(explained)], [*near], explained.notes)

    def compare(self, a: str, b: str) -> ReviewExplanation:
        """Explain why two documents are duplicates, or why not."""
        pair = self._explainer.explain_pair(a, b)
        facts = []
        if pair.verdict.similarity is not None:
            facts.append(("similarity", format_similarity(pair.verdict.similarity)))
        if pair.shingles is not None:
            own, its, both = pair.shingles
            facts += [
                ("shingles of both", f"{both:,}"),
                ("of the one, the other", f"{own:,}, {its:,}"),
            ]
        return ReviewExplanation(pair.verdict.sentence, facts, (), pair.notes)

    @property
    def _explainer(self) -> RunExplainer:
        return RunExplainer(self.run, self._key, 1, SILENT)


def _facts(explained: RunExplanation) -> Iterator[tuple[str, str]]:
    yield "document", name(f"{explained.file}:{explained.row}")
    if explained.rule:
        yield "rule", explained.rule
    if explained.shingles is not None:
        own, its, both = explained.shingles
        yield "shingles of both", f"{both:,}"
        yield "shingles of itself, of its witness", f"{own:,}, {its:,}"
    if explained.buckets is not None:
        yield "buckets that both are in", "{:,} of {:,}".format(*explained.buckets)
    if explained.met is not None:
        yield "documents that share a bucket with it", f"{explained.met:,}"
