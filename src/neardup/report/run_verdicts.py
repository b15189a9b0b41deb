"""What `neardup why` says about a document of a run, or about two: values that print as a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from neardup.explanation import PairVerdict
from neardup.formatting import format_similarity, make_printable
from neardup.report.component_chain import ChainLink, chain_lines
from neardup.report.differences import TextComparison, passage_lines
from neardup.text.passages import CommonPassages

WIDTH: Final = 14
EARLIER: Final = "of --against"
OF_THIS, OF_OTHER = "this", "other"


def _shared(own: int, other: int, both: int) -> str:
    shingles = "shingle" if both == 1 else "shingles"
    return f"{both:,} {shingles} of {own:,} here and {other:,} there"


@dataclass(frozen=True)
class NearDocument:
    """A document that the explained one met.

    Attributes:
        id: Its id.
        file, row: Where it is.
        similarity: How similar the two are.
        buckets: The hash tables in which they met.
        status: What was decided about it, in words.
        part: By a measure with a direction, which of the two the similarity is a share of:
            `this`, the explained one, or `other`; empty by others.
    """

    id: str
    file: str
    row: int
    similarity: float
    buckets: int
    status: str
    part: str = ""

    def __str__(self) -> str:
        similarity = format_similarity(self.similarity)
        likeness = f"{similarity} {self.id}"
        if self.part:
            likeness = f"{similarity} of it is in {self.id}"
        if self.part == OF_OTHER:
            likeness = f"{similarity} of {self.id} is in it"
        return f"{likeness}, {self.status}"


@dataclass(frozen=True)
class RunExplanation:
    """Why a document of a run was kept, removed or rejected; `str()` gives a page to read.

    Attributes:
        id: The id of the document.
        status: `kept`, `removed` or `rejected`.
        sentence: What was decided, and why.
        file, row: Where it is.
        witness: The id of its witness; of a vetoed document, of the one that it would have.
        similarity: How similar the two are.
        vetoed: Whether it is kept only because of --distinguish or --unless.
        rule: What counts as similar.
        veto: The option that keeps it, if it is kept only because of that.
        shingles: The number of its shingles, of its witness's, and of those that both have.
        buckets: The hash tables in which it met its witness, and the number of all.
        copies: The number of documents that were removed because of it.
        met: The number of documents that it shares a bucket with; None if they were not counted.
        nearest: The most similar of them.
        chain: In a run with --cluster components, the documents between it and its witness, both
            included, each linked with the next; empty if the two are linked themselves.
        notes: What could not be found out, and why.
        passages: What its text and that of its witness have in common, if both could be read.
        differences: How its text differs from that of its witness, if both could be read.
    """

    id: str
    status: str
    sentence: str
    file: str = ""
    row: int = 0
    witness: str | None = None
    similarity: float | None = None
    vetoed: bool = False
    rule: str = ""
    veto: str = ""
    shingles: tuple[int, int, int] | None = None
    buckets: tuple[int, int] | None = None
    copies: int = 0
    met: int | None = None
    nearest: tuple[NearDocument, ...] = ()
    chain: tuple[ChainLink, ...] = ()
    notes: tuple[str, ...] = ()
    passages: CommonPassages | None = field(default=None, repr=False)
    differences: TextComparison | None = field(default=None, repr=False)

    @property
    def as_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        lines = (f"{name:{WIDTH}}{make_printable(what)}" for name, what in self._lines())
        return "\n".join([self.sentence, *lines])

    def _lines(self) -> Iterator[tuple[str, str]]:
        yield "document", f"{self.file}:{self.row}"
        if self.witness is not None:
            yield "witness", self.witness
        if self.shingles is not None:
            yield "shared", _shared(*self.shingles)
        if self.buckets is not None:
            without = f" without {self.veto.partition(' ')[0]}" if self.vetoed else ""
            yield "buckets", "{:,} of {:,} shared".format(*self.buckets) + without
        yield from chain_lines(self.chain)
        if self.met is not None:
            what = "1 document shares" if self.met == 1 else f"{self.met:,} documents share"
            yield "met", f"{what} a bucket with it ({self.rule})"
        for place, near in enumerate(self.nearest):
            name = "" if place else "nearest"
            yield name, str(near)
        for note in self.notes:
            yield "note", note
        yield from passage_lines(self.passages)


@dataclass(frozen=True)
class RunPair:
    """How two documents of a run compare; `str()` gives a page to read.

    Attributes:
        verdict: What follows from the decisions and the comparison.
        shingles: The number of shingles of both, and of those that both have.
        chain: In a run with --cluster components, the documents between the two, as above.
        notes: What could not be found out, and why.
        passages: What the texts have in common, if both could be read.
        differences: How the texts differ, if both could be read.
    """

    verdict: PairVerdict
    shingles: tuple[int, int, int] | None = None
    chain: tuple[ChainLink, ...] = ()
    notes: tuple[str, ...] = ()
    passages: CommonPassages | None = field(default=None, repr=False)
    differences: TextComparison | None = field(default=None, repr=False)

    @property
    def as_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [self.verdict.sentence]
        if self.shingles is not None:
            lines.append(f"{'shared':{WIDTH}}{_shared(*self.shingles)}")
        lines += (f"{name:{WIDTH}}{make_printable(what)}" for name, what in chain_lines(self.chain))
        lines += (f"{'note':{WIDTH}}{make_printable(note)}" for note in self.notes)
        common = passage_lines(self.passages)
        lines += (f"{name:{WIDTH}}{make_printable(what)}" for name, what in common)
        return "\n".join(lines)
