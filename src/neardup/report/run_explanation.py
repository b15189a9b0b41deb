"""Explain the decisions of a finished run: from its tables, and from its inputs, read again.

The tables say what was decided. Why it was decided is found by sketching the documents again: those
that are asked for, and for a kept document all that it may have met, which are compared with it
while the inputs are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from neardup.errors import FormatError, UsageError
from neardup.explanation import (
    KEPT,
    REJECTED,
    REMOVED,
    PairFacts,
    PairVerdict,
    describe_rule,
    explain_pair,
    has_direction,
    is_similar,
)
from neardup.formatting import format_bytes
from neardup.keys import Key
from neardup.pipeline.output import RUN_FILE
from neardup.pipeline.run_inputs import FoundDocument, RunInputs
from neardup.report.component_chain import (
    MOST_MEMBERS,
    ChainLink,
    Neighbours,
    SketchedLinks,
    WrittenLinks,
    common_root,
    find_chain,
)
from neardup.report.differences import compare_texts
from neardup.report.run_comparison import (
    MeetingSearch,
    RunComparison,
    keeps_order,
    options_of_run,
)
from neardup.report.run_documents import Place, RunDocument, RunDocuments, read_run_record
from neardup.report.run_verdicts import (
    EARLIER,
    OF_OTHER,
    OF_THIS,
    NearDocument,
    RunExplanation,
    RunPair,
)
from neardup.runtime import SILENT, Progress
from neardup.text.passages import common_passages
from neardup.wording import (
    add_cure,
    explain_kept,
    explain_rejected,
    explain_removed,
    explain_vetoed,
)

NEAREST: Final = 5
"""The documents that are shown of those that a kept one met."""
READ_UNASKED: Final = 2 << 30
"""Bytes of inputs that are read again for a kept document without being asked to."""


class RunExplainer:
    """Answers questions about the documents of a finished run.

    Args:
        run: The folder of the run.
        key: The secret key of hash siphash, if the run had one.
        workers: Threads that read and sketch.
        progress: Told how far reading is.
    """

    def __init__(
        self, run: Path, key: Key | None = None, workers: int = 1, progress: Progress = SILENT
    ) -> None:
        record = read_run_record(run)
        self._run = run
        try:
            self.options = options_of_run(record)
            self._documents = RunDocuments(run, record, workers, progress)
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(
                f"{run / RUN_FILE} is damaged ({type(error).__name__}): run neardup dedup again"
            ) from None
        none = record["parameters"].get("keep") == "none"
        self._fate = "which was removed too" if none else "which was kept"
        self._locked = ""
        self._compared: RunComparison | None = None
        if self.options is None:
            return
        if self.options.spec.key and key is None:
            self._locked = "the run had a secret key: give --key-file to compare its documents"
        else:
            within = record["parameters"].get("within")
            self._compared = RunComparison.of(run, self.options, key, within)

    def explain(self, id: str, nearest: bool = False) -> RunExplanation:
        """Explain the decision about a document.

        Args:
            id: The id of the document, or file:row.
            nearest: Read all inputs again for a kept document, however large they are.
        """
        document, found = self._documents.find([id])[0]
        explained = RunExplanation(
            document.id,
            document.status,
            self._sentence(document),
            found.file if found else document.file,
            found.row if found else document.row,
            document.witness,
            document.similarity,
            document.vetoed,
            "" if self.options is None else describe_rule(self.options),
            "" if self.options is None or not document.vetoed else self.options.veto,
            copies=document.copies,
            notes=tuple(filter(None, [self._locked])),
        )
        if found is None:
            return self._add_chain(_noted(explained, self._documents.problem), document, nearest)
        if document.witness is not None:
            explained = self._add_witness(explained, document, found, nearest)
        if document.status == KEPT and self._compared is not None:
            explained = self._add_nearest(explained, found, self._compared, nearest)
        return explained

    def explain_pair(self, a: str, b: str, nearest: bool = False) -> RunPair:
        """Explain why two documents are duplicates of one another, or why they are not.

        Args:
            a: The id of a document, or file:row.
            b: The id of another one.
            nearest: Read all inputs again for the chain between them, however large they are.
        """
        if self.options is None:
            raise UsageError(
                f"{self._run} is a run of neardup exact, which compares no pairs: ask about one id"
            )
        (one, first), (other, second) = self._documents.find([a, b])
        if first is None or second is None or self._compared is None:
            note = self._locked or self._documents.problem
            chain, notes = self._chain(one, other, None, nearest)
            return RunPair(self._by_tables(one, other), chain=chain, notes=(note, *notes))
        is_later = self._ranks_before(other, second, one, first)
        facts, shingles = self._compared.compare_in_order(
            first.documents, second.documents, is_later
        )
        chain, notes = self._chain(one, other, facts, nearest)
        if self.options.spec.of_vectors:
            verdict = explain_pair(self.options, one.decided, other.decided, facts)
            return RunPair(verdict, None, chain, notes)
        return RunPair(
            explain_pair(self.options, one.decided, other.decided, facts),
            shingles,
            chain,
            notes,
            common_passages(first.text, second.text),
            compare_texts(first.text, second.text),
        )

    def _ranks_before(
        self, one: RunDocument, first: FoundDocument, other: RunDocument, second: FoundDocument
    ) -> bool:
        """Return whether a document is of better rank than another one."""
        if one.witness == other.id or other.witness == one.id:
            return other.witness == one.id and not other.copies
        return self._is_better(self._best_copy(one, first), self._best_copy(other, second))

    def _is_better(self, one: FoundDocument, other: FoundDocument) -> bool:
        """Return whether a document is of better rank than another one, by the keep policy."""
        mine, its = self._documents.position(one), self._documents.position(other)
        if self.options is None or mine[0] != its[0]:
            return mine < its
        if mine < its:
            return keeps_order(self.options, one.documents, other.documents)
        return not keeps_order(self.options, other.documents, one.documents)

    def _best_copy(self, document: RunDocument, found: FoundDocument) -> FoundDocument:
        """Return the witness of an identical copy, by which it was compared; itself of another."""
        options, compared = self.options, self._compared
        if options is None or compared is None or not has_direction(options):
            return found
        if document.status != REMOVED or document.similarity != 1.0:
            return found
        witness = self._documents.read([(document.witness_file, document.witness_row)])
        if witness and compared.compare(witness[0].documents, found.documents)[0].identical:
            return witness[0]
        return found

    def _chain(
        self, one: RunDocument, other: RunDocument, facts: PairFacts | None, asked: bool
    ) -> tuple[tuple[ChainLink, ...], tuple[str, ...]]:
        """Return the chain between two documents of a component, and why it is not known."""
        options, root = self.options, common_root(one, other)
        if options is None or options.cluster != "components" or root is None:
            return (), ()
        if facts and (facts.identical or (facts.buckets and is_similar(options, facts))):
            return (), ()
        members = self._documents.component(root)
        places = [place for _, place in members]
        if one.place not in places or other.place not in places:
            return (), ("the chain between them is not known: one is in an earlier corpus",)
        first, last = places.index(one.place), places.index(other.place)
        for source in (self._written_links, self._sketched_links):
            links, problem = source(members, asked)
            found = links and find_chain(first, last, len(places), links)
            if found:
                return tuple(ChainLink(members[at][0], value) for at, value in found), ()
        return (), (f"the chain between them is not known: {problem}",)

    def _written_links(
        self, members: Sequence[tuple[str, Place]], _asked: bool
    ) -> tuple[Neighbours | None, str]:
        """Return the links that a run with --pairs has written; None if there are none."""
        pairs, ids = self._run / "pairs.parquet", [id for id, _ in members]
        has_links = pairs.exists() and len(set(ids)) == len(ids)
        return WrittenLinks(pairs, ids) if has_links else None, ""

    def _sketched_links(
        self, members: Sequence[tuple[str, Place]], asked: bool
    ) -> tuple[Neighbours | None, str]:
        """Return the links of a component's documents, read again; or why they are not known."""
        inputs, problem, read = self._documents.inputs, "", []
        if len(members) > MOST_MEMBERS:
            problem = (
                f"their component has {len(members):,} documents, at most {MOST_MEMBERS:,} are "
                "compared again; a run with --pairs writes all links"
            )
        elif self._compared is None or inputs is None:
            problem = self._locked or self._documents.problem
        elif inputs.stored > READ_UNASKED and not asked:
            problem = f"it is found by reading {format_bytes(inputs.stored)}: give --nearest"
        else:
            read = self._documents.read([place for _, place in members])
        if self._compared is None or len(read) < len(members):
            return None, problem or self._documents.problem
        sketches = [self._compared.sketcher(one.documents) for one in read]
        return SketchedLinks(self._compared, sketches), "its texts have changed since the run"

    def _by_tables(self, one: RunDocument, other: RunDocument) -> PairVerdict:
        """Return what the tables alone say about two documents."""
        assert self.options is not None  # noqa: S101  # runs of neardup exact are refused
        tables = self.options.hash_tables.count
        for copy, witness in ((one, other), (other, one)):
            if copy.decided.witness == witness.id:
                facts = PairFacts(0, tables, copy.similarity, copy.exact)
                verdict = explain_pair(self.options, one.decided, other.decided, facts)
                return replace(verdict, sentence=self._sentence(copy))
        sentence = f"{self._sentence(one)}; {self._sentence(other)}"
        return PairVerdict(one.id, other.id, "unknown", sentence, None, True, 0, tables, None)

    def _sentence(self, document: RunDocument) -> str:
        if document.earlier:
            return f"{document.id!r} is of the earlier corpus (--against), which is never removed"
        if document.status == REJECTED:
            return explain_rejected(document.id, add_cure(document.reason)).sentence
        if document.status == REMOVED:
            return self._removed_sentence(document)
        if self.options is None or not document.vetoed or document.similarity is None:
            return explain_kept(document.id, document.copies, document.decision).sentence
        return explain_vetoed(
            self.options, document.id, document.copies, document.witness, document.similarity
        ).sentence

    def _removed_sentence(self, document: RunDocument) -> str:
        if document.witness is None and document.decision is not None:
            return f"{document.id!r} was removed: {document.decision}"
        if document.witness is None or document.similarity is None:
            return f"{document.id!r} was removed: a filter has seen it; its witness is not known"
        if self.options is None:
            return f"{document.id!r} was removed: a copy of {document.witness!r}, {self._fate}"
        return explain_removed(
            self.options,
            document.id,
            document.witness,
            document.similarity,
            document.exact,
            document.decision,
            document.cosine,
        ).sentence

    def _add_witness(
        self, explained: RunExplanation, document: RunDocument, found: FoundDocument, asked: bool
    ) -> RunExplanation:
        """Add how the document compares with its witness."""
        found_witness = self._documents.read([(document.witness_file, document.witness_row)])
        read = [one for one in found_witness if one.name == document.witness]
        if not read:
            note = f"the text of {document.witness!r} is not among the inputs"
            corpora, file = self._documents.corpora, document.witness_file
            if file in self._documents.indexes or any(one.named({file}) for one in corpora):
                note = self._documents.problem
            return self._add_chain(_noted(explained, note), document, asked)
        has_texts = self.options is None or not self.options.spec.of_vectors
        if has_texts:
            explained = replace(
                explained,
                passages=common_passages(found.text, read[0].text),
                differences=compare_texts(read[0].text, found.text),
            )
        if self._compared is None:
            return explained
        facts, (witness, own, both) = self._compared.compare(read[0].documents, found.documents)
        explained = replace(
            explained,
            buckets=(facts.buckets, facts.tables),
            shingles=(own, witness, both) if has_texts else None,
        )
        return self._add_chain(explained, document, asked, facts)

    def _add_chain(
        self,
        explained: RunExplanation,
        document: RunDocument,
        asked: bool,
        facts: PairFacts | None = None,
    ) -> RunExplanation:
        """Add the chain between a removed document and the one that its component keeps."""
        if document.status != REMOVED or document.witness is None:
            return explained
        place = document.witness_file, document.witness_row
        chain, notes = self._chain(
            document, RunDocument(document.witness, KEPT, *place), facts, asked
        )
        return replace(explained, chain=chain, notes=(*explained.notes, *notes))

    def _add_nearest(
        self, explained: RunExplanation, found: FoundDocument, compared: RunComparison, asked: bool
    ) -> RunExplanation:
        """Add what a kept document met, and the most similar of it."""
        corpora = self._documents.corpora
        if not corpora or not all(map(self._documents.check_all, corpora)):
            return _noted(explained, f"what it met is not known; {self._documents.problem}")
        stored = sum(inputs.stored for inputs in corpora)
        if stored > READ_UNASKED and not asked:
            size = format_bytes(stored)
            return _noted(explained, f"what it met is found by reading {size}: give --nearest")
        for name in self._documents.indexes:
            explained = _noted(explained, f"what it met in the index {name} is not counted")
        met = 0
        best: list[NearDocument] = []
        for near in self._meetings(corpora, found, MeetingSearch(compared, found.documents)):
            met += 1
            best = sorted([*best, near], key=lambda one: -one.similarity)[:NEAREST]
        nearest = tuple(replace(one, status=self._status(one)) for one in best)
        return replace(explained, met=met, nearest=nearest)

    def _meetings(
        self, corpora: Sequence[RunInputs], found: FoundDocument, search: MeetingSearch
    ) -> Iterator[NearDocument]:
        """Yield the documents that share a bucket with one."""
        workers, progress = self._documents.workers, self._documents.progress
        directed = has_direction(search.compared.options)
        for inputs in corpora:
            for batch, near in inputs.read(inputs.files, search, workers, progress):
                names = batch.names() if near else []
                for met in near:
                    other = batch.document(met.row, names[met.row])
                    is_better = directed and self._is_better(other, found)
                    if (other.file, other.row, other.earlier) != (found.file, found.row, False):
                        yield NearDocument(
                            other.name,
                            other.file,
                            other.row,
                            met.if_better if is_better else met.if_worse,
                            met.buckets,
                            EARLIER if other.earlier else KEPT,
                            (OF_THIS if is_better else OF_OTHER) if directed else "",
                        )

    def _status(self, near: NearDocument) -> str:
        """Return what was decided about a document that was met, in words."""
        if near.status == EARLIER:
            return EARLIER
        document = self._documents.look_up(f"{near.file}:{near.row}")
        if document is None or document.status == KEPT:
            return KEPT
        return f"removed because of {document.witness}" if document.witness else document.status


def _noted(explained: RunExplanation, note: str) -> RunExplanation:
    return replace(explained, notes=(*explained.notes, note))
