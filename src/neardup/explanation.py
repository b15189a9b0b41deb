"""Explain in sentences how two documents compare: one wording for results, runs and an index.

Each of these finds the facts in its own way; `explain_pair` says what follows from them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from neardup.formatting import format_similarity
from neardup.measure_table import MEASURES
from neardup.options import Options
from neardup.spec import Spec

KEPT, REMOVED, REJECTED = "kept", "removed", "rejected"


@dataclass(frozen=True)
class DecidedDocument:
    """The decision about a document: kept, removed with its witness, or rejected.

    `decision` is what people decided about it; of a removed document, what removed it.
    """

    id: Any
    status: str
    witness: Any = None
    decision: str | None = None


@dataclass(frozen=True)
class PairFacts:
    """What is known about two documents.

    Attributes:
        buckets: The hash tables in which both have the same key, or would without what keeps them
            apart.
        tables: The number of hash tables.
        similarity: How similar they are; None if that is not known.
        exact: Whether the similarity is exact, not estimated.
        identical: Whether they are word for word the same.
        apart: What keeps them apart however similar they are, in words; empty if nothing does.
        part: By a measure with a direction, whose share in the other one it is, that of worse
            rank: 0 for the first of the two, 1 for the second. None without a direction.
        cosine: The cosine of their vectors, if these are a second signal and it is known.
    """

    buckets: int
    tables: int
    similarity: float | None
    exact: bool
    identical: bool = False
    apart: tuple[str, ...] = ()
    part: int | None = None
    cosine: float | None = None


@dataclass(frozen=True)
class PairVerdict:
    """How two documents compare, and why they are or are not duplicates; `str()` is a sentence.

    Attributes:
        a, b: The ids of the documents.
        verdict: `copy` (one is the witness of the other), `decided` (by people), `same cluster`,
            `identical`, `vetoed`, `other group`, `never met`, `not similar`, `other witness`,
            `not compared` or `rejected`.
        sentence: What was decided, and why.
        similarity: How similar they are; None if that is not known.
        exact: Whether the similarity is exact, not estimated.
        buckets: The hash tables in which both have the same key.
        tables: The number of hash tables.
        probability: How likely documents of this similarity meet in a bucket.
        cosine: The cosine of their vectors, if these are a second signal and it is known.
    """

    a: Any
    b: Any
    verdict: str
    sentence: str
    similarity: float | None
    exact: bool
    buckets: int
    tables: int
    probability: float | None
    cosine: float | None = None

    @property
    def as_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return self.sentence


def explain_pair(
    options: Options, a: DecidedDocument, b: DecidedDocument, facts: PairFacts
) -> PairVerdict:
    """Return why two documents are duplicates, or why they are not.

    Args:
        options: The options of the run or the index.
        a: The decision about the one that is asked for first.
        b: The decision about the other one.
        facts: How they compare.
    """
    verdict, reason = _verdict(options, a, b, facts)
    chance = None
    if facts.similarity is not None:
        chance = options.meeting.probability(facts.similarity)
    return PairVerdict(
        a.id,
        b.id,
        verdict,
        f"{a.id!r} and {b.id!r}: {reason}",
        facts.similarity,
        facts.exact,
        facts.buckets,
        facts.tables,
        chance,
        facts.cosine,
    )


def _verdict(
    options: Options, a: DecidedDocument, b: DecidedDocument, facts: PairFacts
) -> tuple[str, str]:
    """Return the verdict about a pair, and its reason."""
    rejected = [one for one in (a, b) if one.status == REJECTED]
    if rejected:
        names = " and ".join(repr(one.id) for one in rejected)
        return REJECTED, f"{names} could not be compared with any document"
    likeness = describe_similarity(options, a.id, b.id, facts)
    for copy, witness in ((a, b), (b, a)):
        if copy.witness == witness.id and copy.status == REMOVED:
            said = f", decided: {copy.decision}" if copy.decision else ""
            return "copy", f"{copy.id!r} was removed because of {witness.id!r}{said}; {likeness}"
    for one in (a, b):
        if one.status == REMOVED and one.witness is None and one.decision:
            return "decided", f"{one.id!r} was removed: {one.decision}; {likeness}"
    if a.status == b.status == REMOVED and a.witness == b.witness:
        if options.cluster == "components":
            return "same cluster", f"both are in the component of {a.witness!r}; {likeness}"
        return "same cluster", f"both were removed as copies of {a.witness!r}; {likeness}"
    if facts.apart and (apart := _decisive(options, facts)):
        return apart, f"kept apart by {' and '.join(facts.apart)}; {likeness}"
    said = "; ".join(dict.fromkeys(filter(None, (a.decision, b.decision))))
    kept = a.status == b.status == KEPT
    if said and kept and (facts.identical or (facts.buckets and is_similar(options, facts))):
        return "decided", f"both were kept; decided about them: {said}; {likeness}"
    if facts.identical:
        how = "the same vector" if options.spec.of_vectors else "word for word the same"
        return "identical", how
    if not facts.buckets:
        return "never met", f"they never met: {likeness}{_chance(options, facts)}"
    if not is_similar(options, facts):
        met = f"kept apart by {' and '.join(facts.apart)}" if facts.apart else "they met"
        return "not similar", f"{met}, and are not similar enough: {likeness}"
    return _similar_and_met(options, a, b, likeness)


def _similar_and_met(
    options: Options, a: DecidedDocument, b: DecidedDocument, likeness: str
) -> tuple[str, str]:
    removed = [one for one in (a, b) if one.status == REMOVED]
    if removed:
        each = " and ".join(
            f"{one.id!r} {'' if place else 'was removed '}because of {one.witness!r}"
            for place, one in enumerate(removed)
        )
        best = "each the best-ranked kept document" if removed[1:] else "the best-ranked kept one"
        return "other witness", f"{each}, {best} that it is similar to; {likeness}"
    return (
        "not compared",
        f"both were kept: they were not compared because more than {options.limit:,} kept "
        f"documents are in their buckets (--limit); {likeness}",
    )


def _decisive(options: Options, facts: PairFacts) -> str:
    """Return the verdict about a pair that is kept apart; empty if it would be apart anyway."""
    if any(one.startswith("--within") for one in facts.apart):
        return "other group"
    similar = facts.similarity is None or facts.identical or is_similar(options, facts)
    return "vetoed" if similar and (facts.buckets or facts.identical) else ""


def is_similar(options: Options, facts: PairFacts) -> bool:
    """Return whether two documents are similar enough, if they met."""
    if options.verify == "none":
        return facts.buckets > 0
    if facts.similarity is None:
        return False
    signal = options.vectors
    if signal is None or facts.cosine is None or not signal.finds:
        # What --unless keeps apart is among `facts.apart`.
        return facts.similarity >= options.threshold
    return facts.similarity >= options.threshold or facts.cosine >= signal.threshold


def _chance(options: Options, facts: PairFacts) -> str:
    if facts.similarity is None:
        return ""
    chance = options.meeting.probability(facts.similarity)
    return f"; documents that similar meet with a probability of {chance:.4f}"


def describe_similarity(options: Options, a: Any, b: Any, facts: PairFacts) -> str:
    """Return the similarity, the rule and the shared buckets, as part of a sentence.

    Args:
        options: The options of the run or the index.
        a, b: The ids of the documents.
        facts: How they compare.
    """
    met = f"in {facts.buckets:,} of {facts.tables:,} buckets together"
    if not facts.buckets:
        met = f"in none of {facts.tables:,} buckets together"
    elif facts.apart:
        met = f"without {'them' if facts.apart[1:] else 'it'} {met}"
    if facts.similarity is None:
        return f"{met}, how similar they are is not known"
    how = "" if facts.exact else " (estimated)"
    likeness = f"{format_similarity(facts.similarity)} similar"
    if options.spec.of_vectors:
        likeness = f"cosine {format_similarity(facts.similarity)}"
    elif facts.cosine is not None:
        likeness += f", cosine {format_similarity(facts.cosine)}"
    if facts.part is not None and not facts.identical:
        part, whole = (b, a) if facts.part else (a, b)
        likeness = f"{format_similarity(facts.similarity)} of {part!r} is in {whole!r}"
    return f"{likeness}{how} ({describe_rule(options)}), {met}"


def has_direction(options: Options) -> bool:
    """Return whether similarity is the share of one document, that of worse rank, in the other."""
    return options.verify == "exact" and not options.exact_measure.components


def describe_rule(options: Options) -> str:
    """Return in words what counts as similar."""
    if options.verify == "none":
        return "a shared bucket is enough"
    if is_by_distance(options):
        return f"at most {options.hamming} bits differ"
    what = name_measure(options) if options.verify == "exact" else name_estimate(options)
    rule, signal = f"{what} >= {options.threshold:g}", options.vectors
    if signal is None or not options.has_two_signals:
        return rule
    return f"{rule} {'or' if signal.finds else 'and'} cosine >= {signal.threshold:g}"


SIGNAL_NAMES: Final = ("text", "vector", "both", "copy")
"""Which of two signals removed a document; `copy` where it is identical to its witness."""


def name_signals(
    options: Options, similarity: NDArray[np.float64], cosine: NDArray[np.float64]
) -> list[str | None]:
    """Return which signal removed each document: text, vector or both; copy of identical ones.

    None where neither would have done it: two documents of a component, or the word of people.

    Args:
        options: The options of the run, with two signals.
        similarity: The similarity of the texts of each removed document and its witness.
        cosine: The cosine of their vectors; NaN of identical documents.
    """
    assert options.vectors is not None  # noqa: S101  # with two signals
    by_text, by_vector = similarity >= options.threshold, cosine >= options.vectors.threshold
    names = np.array([None, "text", "vector", "both"], object)
    return np.where(np.isnan(cosine), "copy", names[by_text + 2 * by_vector]).tolist()  # type: ignore[no-any-return]


def is_by_distance(options: Options) -> bool:
    """Return whether documents are judged by the distance of their fingerprints."""
    return options.by_bits and options.verify == "estimate"


def name_estimate(options: Options) -> str:
    """Return what signatures are compared by, in a sentence."""
    if options.by_bits:
        return f"{options.spec.slots}-bit SimHash"
    return f"estimated {name_measure(options)}"


def name_measure(options: Options) -> str:
    """Return the measure's name in a sentence; with two signals that of the texts."""
    return (
        MEASURES[options.measure].label if options.has_two_signals else options.exact_measure.label
    )


def name_units(options: Options) -> str:
    """Return what of documents is compared, in a sentence: shingles, or vectors."""
    if options.vectors is not None and options.spec.of_vectors:
        return f"the vectors in {options.vectors.column!r}"
    return f"{options.spec.shingle} shingles{_name_reading(options.spec)}"


def _name_reading(spec: Spec) -> str:
    """Return what of the words was replaced before they were compared, in brackets."""
    stem, segmenter = spec.stem.partition(":")[0], spec.segment.replace("icu:", "ICU ")
    said = (
        f"{spec.mask.replace(',', ', ')} masked" if spec.mask else "",
        f"stems in {stem}" if stem else "",
        f"words by {segmenter}" if segmenter else "",
    )
    return f" [{'; '.join(filter(None, said))}]" if any(said) else ""
