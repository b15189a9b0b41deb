"""How decisions, counts and methods are put into words, in results, summaries and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import Any, NamedTuple

from neardup.corpus.encodings import INVALID
from neardup.explanation import (
    PairVerdict,
    is_by_distance,
    name_estimate,
    name_measure,
    name_units,
)
from neardup.formatting import (
    format_count,
    format_percent,
    format_similarity,
    make_printable,
)
from neardup.measure_table import MEASURES
from neardup.options import Options
from neardup.source_counts import name_source

SHOWN_REASONS = 3
SHOWN_SOURCES = 3
LONGEST_ID = 80


class TextDifference(NamedTuple):
    """A passage in which a removed document and its witness differ, with the words around it.

    Words that the other text does not have are in brackets.
    """

    witness: str
    document: str


@dataclass(frozen=True)
class Verdict:
    """The decision about one document; `str()` of it is a sentence, and lines with differences.

    Attributes:
        id: The id of the document.
        verdict: `kept`, `removed` or `rejected`.
        sentence: The decision and its reason.
        witness: The id of the witness of a removed document.
        similarity: How similar the two are.
        differences: Where a removed document and its witness differ, if their texts were given.
    """

    id: Any
    verdict: str
    sentence: str
    witness: Any = None
    similarity: float | None = None
    differences: tuple[TextDifference, ...] = ()

    def __str__(self) -> str:
        lines = [self.sentence]
        for one in self.differences:
            lines += [f"{self.witness!r}: {one.witness}", f"{self.id!r}: {one.document}"]
        return "\n".join(lines)


@dataclass(frozen=True)
class ComparedPair(PairVerdict):
    """How two documents compare, whose texts were given; `str()` has lines with the differences.

    Attributes:
        differences: The passages in which they differ, of `a` and of `b`, with the words around
            them; words that the other text does not have are in brackets.
    """

    differences: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        lines = [self.sentence]
        for of_a, of_b in self.differences:
            lines += [f"{self.a!r}: {of_a}", f"{self.b!r}: {of_b}"]
        return "\n".join(lines)


def shorten_id(id: Any) -> str:
    """Return an id as a text of at most LONGEST_ID characters."""
    text = str(id)
    return text if len(text) <= LONGEST_ID else text[: LONGEST_ID - 1] + "…"


def html_table(label: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a small table for notebooks, escaped; "" without rows."""
    if not rows:
        return ""
    heads = "".join(f"<th>{escape(column)}</th>" for column in columns)
    cells = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return (
        f"<table><caption>{escape(label)}</caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def describe_counts(counts: Mapping[str, int]) -> str:
    """Return the counts of a run as they stand in the `repr` of its result."""
    return (
        f"{format_count(counts['documents'], 'document')}: {counts['kept']:,} kept, "
        f"{counts['removed']:,} removed ({counts['identical']:,} identical), "
        f"{counts['rejected']:,} rejected"
    )


def explain_kept(name: Any, copies: int, decision: str | None = None) -> Verdict:
    """Return the verdict about a kept document.

    Args:
        name: Its id.
        copies: How many documents were removed because of it.
        decision: What people decided about it, if they did.
    """
    also = f"; {copies} removed because of it" if copies else ""
    said = f"; decided about it: {decision}" if decision else ""
    return Verdict(name, "kept", f"{name!r} was kept{also}{said}")


def explain_vetoed(
    options: Options, name: Any, copies: int, witness: Any, similarity: float
) -> Verdict:
    """Return the verdict about a document that only `distinguish` or `unless` keeps."""
    sentence = (
        f"{explain_kept(name, copies).sentence}; without {options.veto} it "
        f"would be removed: {format_similarity(similarity)} similar to {witness!r}"
    )
    return Verdict(name, "kept", sentence, witness, similarity)


def explain_rejected(name: Any, reason: str) -> Verdict:
    """Return the verdict about a document that could not be compared."""
    return Verdict(name, "rejected", f"{name!r} was rejected: {reason}")


def explain_removed(
    options: Options,
    name: Any,
    witness: Any,
    similarity: float,
    exact: bool,
    decision: str | None = None,
    cosine: float | None = None,
) -> Verdict:
    """Return the verdict about a removed document.

    Args:
        options: The options of the run.
        name: Its id.
        witness: The id of its witness; None if people dropped it.
        similarity: How similar the two are.
        exact: Whether that is exact.
        decision: The decisions of people because of which it is removed, if there are any.
        cosine: With two signals, the cosine of the two documents, if it is known.
    """
    if witness is None:
        return Verdict(name, "removed", f"{name!r} was removed: {decision}")
    how = f"exact {name_measure(options)}" if exact else name_estimate(options)
    decisive = f", decided: {decision}" if decision else _judgement(options)
    judged = f"{how} of {name_units(options)}{decisive}"
    likeness = describe_likeness(options, format_similarity(similarity), repr(witness))
    if cosine is not None and _is_by_vector(options, similarity, cosine):
        likeness = describe_cosine(format_similarity(cosine), repr(witness))
        likeness += f", with texts {format_similarity(similarity)} similar"
    elif cosine is not None:
        likeness += f", with cosine {format_similarity(cosine)}"
    fate = "which was removed too" if options.keep_policy.keeps_none else "which was kept"
    sentence = f"{name!r} was removed: {likeness}, {fate} ({judged})"
    return Verdict(name, "removed", sentence, witness, similarity)


def _is_by_vector(options: Options, similarity: float, cosine: float) -> bool:
    """Return whether the vectors of two documents decided, not their texts."""
    signal = options.vectors
    return signal is not None and similarity < options.threshold and cosine >= signal.threshold


def _judgement(options: Options) -> str:
    if options.cluster == "components":
        return ", not decisive: both are in one component"
    if options.verify == "none":
        return ", not decisive: a shared bucket is enough"
    if is_by_distance(options):
        return f", at most {options.hamming} bits differ"
    return f", threshold {options.threshold:g}{_second_rule(options)}"


def _second_rule(options: Options) -> str:
    """Return what vectors decide beside texts, as a part of a sentence; empty without both."""
    signal = options.vectors
    if signal is None or not options.has_two_signals:
        return ""
    if signal.finds:
        return f", or cosine >= {signal.threshold:g} of the vectors in {signal.column!r}"
    return f", unless the cosine of the vectors in {signal.column!r} is < {signal.threshold:g}"


def format_counts(documents: int, kept: int, removed: int, identical: int, rejected: int) -> str:
    """Return the counts of a run as a line."""
    return (
        f"{format_count(documents, 'document')}   {kept:,} kept   "
        f"{removed:,} removed ({identical:,} identical)   {rejected:,} rejected"
    )


def format_by_earlier(removed: int, by_earlier: int) -> str:
    """Return how many documents were removed because of the earlier corpus, as a line.

    >>> format_by_earlier(5, 3)
    'removed             3 because of the earlier corpus, 2 within the new documents'
    """
    within = removed - by_earlier
    return (
        f"removed             {by_earlier:,} because of the earlier corpus, {within:,} within the "
        "new documents"
    )


def format_largest_clusters(largest: list[tuple[str, int]]) -> str:
    """Return the kept documents with the most copies as a line; (name, copies), largest first."""
    (name, copies), *others = largest
    shown = [f"{copies:,} {'copy' if copies == 1 else 'copies'} of {name}"]
    shown += [f"{copies:,} of {name}" for name, copies in others]
    return make_printable("largest clusters    " + "   ".join(shown))


def format_sources(sources: Mapping[str, Any] | None) -> list[str]:
    """Return a line with the sources that lost most documents; none without several sources.

    Args:
        sources: The summary by source, as in run.json; None if it has none.
    """
    if sources is None or sources["count"] < 2:
        return []
    lost = [one for one in sources["listed"] if one["removed"]][:SHOWN_SOURCES]
    if not lost:
        return []
    shown = [
        f"{one['removed']:,} of {one['documents']:,} ({format_percent(one['share'])}) of "
        f"{name_source(one['source'])}"
        for one in lost
    ]
    return ["removed by source   " + "   ".join(shown)]


def format_vetoed(count: int, options: Options) -> str:
    """Return how many documents are kept because of an option, as a line."""
    are = "document is" if count == 1 else "documents are"
    return f"vetoed              {count:,} {are} kept because of {options.veto}"


def describe_decisions(counts: Mapping[str, int]) -> str:
    """Return how many decisions of people were obeyed.

    Args:
        counts: What run.json says of them.

    >>> describe_decisions({"in_force": 12, "documents": 15, "missing": 1})
    '12 decisions of people about 15 documents; 1 more document is not there'
    """
    missing = counts["missing"]
    gone = f"; {missing:,} more {'document is' if missing == 1 else 'documents are'} not there"
    return (
        f"{format_count(counts['in_force'], 'decision')} of people about "
        f"{format_count(counts['documents'], 'document')}{gone if missing else ''}"
    )


def format_decisions(counts: Mapping[str, int]) -> str:
    """Return how many decisions of people were obeyed, as a line."""
    return f"decided             {describe_decisions(counts)}"


def format_indexed_before(before: int, documents: int, former: str | None) -> str:
    """Return the line of a summary about documents that an index had before they were added.

    Args:
        before: Their number.
        documents: The number of all documents of the run.
        former: The output that has their rows; None if none has them.

    >>> format_indexed_before(3, 8, None)
    'indexed before      3: a document that comes again is a copy of itself'
    """
    if before < documents:
        return f"indexed before      {before:,}: a document that comes again is a copy of itself"
    cure = "for an output of the first files too, make the index with neardup index add -o"
    if former is not None:
        cure = f"-o {former} --force with the inputs of that output writes its rows again"
    return make_printable(
        f"indexed before      all documents were in the index before, and no row is new: {cure}"
    )


def format_advice(advice: str) -> str:
    """Return advice as a line."""
    return f"advice              {advice}"


def format_method(options: Options, recall: float) -> str:
    """Return how candidates were found and judged, as a line."""
    if is_by_distance(options):
        return (
            f"Hamming distance <= {options.hamming} of {name_estimate(options)} of "
            f"{options.spec.shingle} shingles, {options.meeting}: all pairs within it meet"
        )
    how = "exact" if options.verify == "exact" else "estimated"
    exactly = options.threshold == round(options.threshold, 2)
    threshold = f"{options.threshold:.2f}" if exactly else f"{options.threshold:g}"
    judged = f"{how} {name_measure(options)} >= {threshold} of"
    if options.verify == "none":
        judged = "not verified, a shared bucket is enough:"
    return (
        f"{judged} {name_units(options)}, {options.meeting}: "
        f"predicted recall at the threshold{options.meeting.condition} {recall:.4f}"
    )


def format_second_signal(options: Options) -> list[str]:
    """Return what vectors decide beside texts as a line; none without them."""
    signal = options.vectors
    if signal is None or not options.has_two_signals:
        return []
    if not signal.finds:
        return [
            f"vectors             only if the cosine of those in {signal.column!r} is at least "
            f"{signal.threshold:g} too"
        ]
    recall = signal.meeting.probability(signal.threshold)
    return [
        f"vectors             also if the cosine of those in {signal.column!r} is at least "
        f"{signal.threshold:g}, {signal.meeting}: predicted recall at it {recall:.4f}"
    ]


def format_by_signal(by: Mapping[str, int] | None) -> list[str]:
    """Return how many documents each of two signals removed, as a line; none without them.

    >>> format_by_signal({"text": 5, "vector": 1200, "both": 0, "copy": 2})
    ['removed by          5 texts alone, 1,200 vectors alone, 2 identical']
    """
    words = {"text": "texts alone", "vector": "vectors alone", "both": "both", "copy": "identical"}
    found = [f"{count:,} {words[name]}" for name, count in (by or {}).items() if count]
    return [f"removed by          {', '.join(found)}"] if found else []


def describe_likeness(options: Options, similarity: str, witness: str) -> str:
    """Return how a removed document is like its witness, in a sentence."""
    return options.exact_measure.likeness.format(similarity=similarity, witness=witness)


def describe_cosine(cosine: str, witness: str) -> str:
    """Return how the vector of a removed document is like that of its witness."""
    return MEASURES["cosine"].likeness.format(similarity=cosine, witness=witness)


def format_example(
    options: Options, name: str, witness: str, decisive: float, by_vector: bool = False
) -> str:
    """Return a removed document as a line.

    Args:
        options: The options of the run.
        name: The document.
        witness: Its witness.
        decisive: The similarity that decided.
        by_vector: Whether that is the cosine of two signals.
    """
    shown = format_similarity(decisive, 2)
    likeness = describe_likeness(options, shown, witness)
    if by_vector:
        likeness = describe_cosine(shown, witness)
    return make_printable(f"an example          {name} removed, {likeness}")


def format_rejected(reasons: Mapping[str, int], rejected: int) -> list[str]:
    """Return a line with the most common reasons for rejection; none without a reason."""
    listed = list_reasons(reasons, rejected)
    return ["rejected            " + "   ".join(listed)] if listed else []


def add_cures(reasons: Mapping[str, int]) -> dict[str, int]:
    """Return reasons for the rejection of documents in files, each with its cure."""
    return {add_cure(reason): count for reason, count in reasons.items()}


def add_cure(reason: str) -> str:
    """Return why a document in a file was rejected, and what helps, if an option may.

    >>> add_cure("invalid UTF-8"), add_cure("empty")
    ('invalid UTF-8 (another encoding? --encoding NAME)', 'empty')
    """
    if reason.startswith("vector has ") and reason.endswith(tuple("0123456789")):
        return f"{reason} as the first (of another model?)"
    return f"{reason} (another encoding? --encoding NAME)" if reason == INVALID else reason


def list_reasons(reasons: Mapping[str, int], rejected: int) -> list[str]:
    """Return the most common reasons for rejection, each with its number of documents.

    Args:
        reasons: Reason -> documents, the most common first; not necessarily all of them.
        rejected: The number of all rejected documents.
    """
    shown = dict(islice(reasons.items(), SHOWN_REASONS))
    listed = [f"{count:,} {reason}" for reason, count in shown.items()]
    if listed and (more := rejected - sum(shown.values())):
        listed.append(f"{more:,} for other reasons")
    return listed


def format_reading(options: Options, ignored: int) -> list[str]:
    """Return what of the texts was not compared as it is, a line each.

    Args:
        options: The options of the run.
        ignored: The number of lines that were ignored.
    """
    strip, found = options.strip, []
    if str(strip):
        lines = f"   {ignored:,} {'line' if ignored == 1 else 'lines'} ignored"
        found.append(f"stripped            {strip}" + (lines if strip.lines is not None else ""))
    if options.spec.mask:
        found.append(f"masked              {options.spec.mask}")
    if options.spec.segment:
        found.append(f"words cut by        {options.spec.segment.replace('icu:', 'ICU ')}")
    if options.spec.stem:
        found.append(f"stemmed             {options.spec.stem.replace(':', ', PyStemmer ')}")
    return found


def format_undated(undated: int, options: Options) -> str:
    """Return how many documents have no date by which they could be ranked, as a line."""
    has = "document has" if undated == 1 else "documents have"
    column = options.keep_policy.column
    return f"without a date      {undated:,} {has} none in {column!r} that can be read: ranked last"


def format_earlier(options: Options) -> str:
    """Return that the keep policy does not reach into the earlier corpus, as a line."""
    return (
        f"earlier corpus      --keep {options.keep} ranks the new documents only: those of "
        "--against stay, also where it prefers a copy of them"
    )
