"""Compares an evaluation with an earlier one and describes the changes in sentences.

Only changes beyond noise are reported: large enough to matter, and larger than three standard
errors of both samples. The chance that two documents of some similarity share a bucket does not
depend on the corpus; what drifts is the number, the length and the similarity of its documents.

The two operating points decide which figures can be compared. Texts always can. Shingles can if
both evaluations cut texts in the same way, whatever the hash. Candidates can if the operating
points are the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from neardup.errors import FormatError, ParameterError, UsageError
from neardup.evaluation.profile import TENTHS, VOCABULARY, CorpusProfile, Spread, overlap
from neardup.lsh.curve import parse_layout
from neardup.spec import MINHASHES, READING

KIND: Final = "neardup evaluation"
LARGEST: Final = 64 << 20
COUNTED: Final = ("ignored",)
"""Parameters that are counted in the corpus and drift with it."""
READ: Final = (*READING, "unicode", "version")
"""Parameters that decide the words of a text..."""
CUT: Final = (*READ, "unit", "size")
"""...and its shingles."""
NEARLY_ALL: Final = 0.95
"""Similarities at which this share of pairs meets can be compared for any bands."""


@dataclass(frozen=True)
class EvaluationRecord:
    """The part of an evaluation that can be compared with another.

    point     specification and parameters that are set, without those counted in the corpus
    judged    the system, in words
    golden    the digest of the golden set
    recall    the recall by labels, with its interval
    profile   the profile of the corpus; None without a corpus
    """

    point: dict[str, Any]
    judged: str
    golden: str
    recall: dict[str, Any]
    profile: CorpusProfile | None

    @classmethod
    def of(cls, record: Any, where: str) -> EvaluationRecord:
        """Read the content of evaluation.json; `where` names it in errors."""
        if not isinstance(record, dict) or record.get("kind") != KIND:
            raise FormatError(
                f"{where} is not an evaluation: give the evaluation.json that neardup evaluate -o "
                "wrote"
            )
        try:
            point, profile = record["operating_point"], record["profile"]
            recall = record["labels"]["recall"]
            parameters = {**point["spec"], **point["parameters"]}
            if not all(_is_share(recall[name]) for name in ("value", "low", "high")):
                raise ValueError
            return cls(
                {name: x for name, x in parameters.items() if x and name not in COUNTED},
                str(record["judged"]),
                str(record["golden"]["digest"]),
                recall,
                None if profile is None else CorpusProfile.from_record(profile, where),
            )
        except (LookupError, TypeError, ValueError) as error:
            raise FormatError(
                f"{where} is damaged ({type(error).__name__}): evaluate the earlier corpus again"
            ) from None

    def same(self, other: EvaluationRecord, names: Iterable[str]) -> bool:
        """Return whether both have the same values of these parameters."""
        return all(self.point.get(name) == other.point.get(name) for name in names)

    def differing(self, before: EvaluationRecord) -> str:
        """Return the parameters that differ, with both values; empty if none do."""
        names = [name for name in {**before.point, **self.point} if not self.same(before, [name])]
        return ", ".join(
            f"{name} {before.point.get(name)} to {self.point.get(name)}" for name in names
        )

    @property
    def all_meet_from(self) -> int | None:
        """The first tenth of similarity in which nearly all pairs meet; None if unknown."""
        tables = self.point.get("tables")
        if self.point.get("sketch") not in MINHASHES or self.point.get("measure") != "jaccard":
            return None
        try:
            curve = parse_layout(str(tables))
        except ParameterError:
            return None
        tenths = (n for n in range(TENTHS) if curve.probability(n / TENTHS) >= NEARLY_ALL)
        return next(tenths, None)


def _is_share(value: Any) -> bool:
    """Return whether a value is None or from 0 to 1."""
    return value is None or (isinstance(value, float) and 0.0 <= value <= 1.0)


def read_baseline(path: Path) -> EvaluationRecord:
    """Read an earlier evaluation.json."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise UsageError(f"{path} can't be read ({why}): give an earlier evaluation.json") from None
    try:
        record = json.loads(data) if len(data) <= LARGEST else None
    except (ValueError, RecursionError):
        record = None
    return EvaluationRecord.of(record, str(path))


LENGTH: Final = 0.1
"""Changes of a mean by less than this share are not reported."""
FACTOR: Final = 1.5
"""Changes of counts and shares by less than this factor are not reported."""
SHARE: Final = 0.01
ERRORS: Final = 3.0
EMPTY_BINS: Final = 0.02
NOTHING: Final = "nothing moved"


def describe_drift(now: EvaluationRecord, before: EvaluationRecord) -> list[str]:
    """Describe the changes, a sentence each; figures that can't be compared come first."""
    same_words, same_shingles = now.same(before, READ), now.same(before, CUT)
    differing = now.differing(before)
    first = 0 if not differing else _comparable_from(now, before) if same_shingles else None
    changes = [*_not_compared(differing, same_words, same_shingles, first)]
    if not differing:
        changes += _recall(now, before)
    if now.profile is None or before.profile is None:
        changes.append("without a corpus on both sides there is no profile: texts are not compared")
        return changes
    new, old = now.profile, before.profile
    changes += _lengths(new, old)
    if same_words:
        changes += _words(new, old)
    if same_shingles:
        changes += _shingles(new, old)
        changes += _copies(new, old)
        if now.same(before, ["slots"]):
            changes += _empty_bins(new, old)
    threshold = now.point.get("threshold") if now.point.get("tables") else None
    if not differing:
        changes += _candidates(new, old, threshold)
        changes += _buckets(new, old)
    if first is not None:
        changes += _similarity(new, old, threshold, first)
    return changes or [NOTHING]


def _comparable_from(now: EvaluationRecord, before: EvaluationRecord) -> int | None:
    """Return the first tenth of similarity in which nearly all pairs meet on both sides."""
    new, old = now.all_meet_from, before.all_meet_from
    return None if new is None or old is None else max(new, old)


def _not_compared(
    differing: str, same_words: bool, same_shingles: bool, first: int | None
) -> Iterator[str]:
    """Describe the figures that can't be compared."""
    if not differing:
        return
    skipped = ["buckets, candidates and recall"]
    if first is None:
        skipped.insert(0, "similarities")
    if not same_shingles:
        skipped.insert(0, "shingles")
    if not same_words:
        skipped.insert(0, "words")
    what = "operating points" if same_shingles else "specifications"
    yield f"the {what} differ ({differing}): {', '.join(skipped)} are not compared"


def _recall(now: EvaluationRecord, before: EvaluationRecord) -> Iterator[str]:
    """Describe a recall whose intervals don't overlap."""
    if now.golden != before.golden:
        yield "the golden sets differ: recall is not compared"
        return
    if now.judged != before.judged:
        yield "one is of a finished run, the other of single pairs: recall is not compared"
        return
    new, old = now.recall, before.recall
    if new["value"] is None or old["value"] is None:
        if new["value"] != old["value"]:
            yield "recall is undefined on one side: it is not compared"
    elif new["low"] > old["high"] or new["high"] < old["low"]:
        follows = "" if new["value"] > old["value"] else ": look at the false negatives"
        yield f"recall went from {old['value']:.4f} to {new['value']:.4f}{follows}"


def _words(now: CorpusProfile, before: CorpusProfile) -> Iterator[str]:
    """Describe a changed vocabulary, of samples of about the same size: larger ones have more."""
    mine, theirs = now.words(), before.words()
    if mine.spec != theirs.spec or not _about_same(now.sampled, before.sampled):
        return
    common, usual = overlap(mine, theirs), min(now.halves, before.halves)
    if usual - common > max(LENGTH, ERRORS * math.sqrt(2 * 0.25 / VOCABULARY)):
        yield (
            f"{common:.0%} of the words are common to both corpora, halves of one have {usual:.0%} "
            "in common: new kinds of texts came; label pairs of them, and count lines and document "
            "frequencies again where they are used"
        )


def _about_same(one: float, other: float) -> bool:
    """Return whether two numbers differ by less than FACTOR."""
    return 1 / FACTOR < one / other < FACTOR


def _lengths(now: CorpusProfile, before: CorpusProfile) -> Iterator[str]:
    """Describe longer or shorter documents."""
    if _other_mean(now.bytes, before.bytes, now, before):
        ratio = now.bytes.mean / before.bytes.mean
        yield (
            f"documents are {_percent(ratio)} {'longer' if ratio > 1 else 'shorter'} (bytes: "
            f"{before.bytes.mean:,.0f} to {now.bytes.mean:,.0f}): expect reading and sketching to "
            f"take about {ratio:.1f} times as long a document; by itself that changes neither "
            "recall nor candidates"
        )


def _shingles(now: CorpusProfile, before: CorpusProfile) -> Iterator[str]:
    """Describe more or fewer shingles per document."""
    if _other_mean(now.shingles, before.shingles, now, before):
        ratio = now.shingles.mean / before.shingles.mean
        yield (
            f"shingles per document {'up' if ratio > 1 else 'down'} by {_percent(ratio)}, from "
            f"{before.shingles.mean:,.0f} to {now.shingles.mean:,.0f}: expect so much "
            f"{'more' if ratio > 1 else 'less'} time for a comparison"
        )


def _other_mean(new: Spread, old: Spread, now: CorpusProfile, before: CorpusProfile) -> bool:
    """Return whether two means differ by more than noise."""
    error = math.hypot(
        new.deviation / math.sqrt(now.sampled), old.deviation / math.sqrt(before.sampled)
    )
    return abs(new.mean - old.mean) > max(LENGTH * old.mean, ERRORS * error) and old.mean > 0


def _percent(ratio: float) -> str:
    return f"{100 * abs(ratio - 1):.0f} %"


def _about(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _empty_bins(now: CorpusProfile, before: CorpusProfile) -> Iterator[str]:
    """Describe more or fewer empty slots of a one-permutation sketch."""
    new, old = now.empty_bins, before.empty_bins
    if new is None or old is None or abs(new - old) < EMPTY_BINS:
        return
    follows = "estimates are noisier; use fewer slots" if new > old else "estimates are better"
    yield f"empty bins went from {old:.1%} to {new:.1%} of the slots: {follows}"


def _candidates(
    now: CorpusProfile, before: CorpusProfile, threshold: float | None
) -> Iterator[str]:
    """Describe more or fewer candidates per document."""
    if not before.met or not now.met:
        if now.met + before.met > ERRORS**2:
            yield f"candidates went from {before.candidates:.2f} to {now.candidates:.2f} a document"
        return
    ratio = now.candidates / before.candidates
    error = math.sqrt(1 / now.effective + 1 / before.effective)
    if abs(math.log(ratio)) < max(math.log(FACTOR), ERRORS * error):
        return
    yield (
        f"candidates per document {'up' if ratio > 1 else 'down'} from "
        f"{_about(before.candidates)} to {_about(now.candidates)}: expect about {_about(ratio)} "
        "times the comparisons"
        f"{_why_candidates(now, before, threshold)}"
    )


def _why_candidates(now: CorpusProfile, before: CorpusProfile, threshold: float | None) -> str:
    """Return whether most of the difference is below the threshold, where steeper bands help."""
    if threshold is None:
        return ""
    below = int(threshold * TENTHS)
    below_threshold = [one.candidates * sum(one.similarity[:below]) for one in (now, before)]
    more = now.candidates > before.candidates
    if abs(below_threshold[0] - below_threshold[1]) > abs(now.candidates - before.candidates) / 2:
        cure = "consider more rows" if more else "fewer rows would cost little"
        return f"; most of the difference is below the threshold: {cure}"
    return f"; most of the difference are duplicates: there are {'more' if more else 'fewer'}"


def _similarity(
    now: CorpusProfile, before: CorpusProfile, threshold: float | None, first: int
) -> Iterator[str]:
    """Describe the tenths of similarity, from `first` on, whose share of candidates changed."""
    new_all, old_all = sum(now.similarity[first:]), sum(before.similarity[first:])
    if not new_all or not old_all:
        return
    new_pairs, old_pairs = now.effective * new_all, before.effective * old_all
    among = f" and are {first / TENTHS:g} similar or more" if first else ""
    for tenth in range(first, TENTHS):
        new, old = now.similarity[tenth] / new_all, before.similarity[tenth] / old_all
        both = (new * new_pairs + old * old_pairs) / (new_pairs + old_pairs)
        error = math.sqrt(max(both * (1 - both), 0.0) * (1 / new_pairs + 1 / old_pairs))
        if abs(new - old) < max(ERRORS * error, SHARE) or max(new, old) < FACTOR * min(new, old):
            continue
        low, high = tenth / TENTHS, (tenth + 1) / TENTHS
        near = threshold is not None and abs((low + high) / 2 - threshold) <= 1 / TENTHS
        follows = ": more verdicts are close to the threshold" if near and new > old else ""
        yield (
            f"pairs between {low:g} and {high:g} went from {old:.0%} to {new:.0%} of those that "
            f"meet{among}{follows}"
        )


def _copies(now: CorpusProfile, before: CorpusProfile) -> Iterator[str]:
    """Describe more or fewer copies, if about the same share of the documents was sampled."""
    if _about_same(now.share, before.share) and abs(now.identical - before.identical) > LENGTH:
        yield (
            f"identical copies went from {before.identical:.0%} to {now.identical:.0%} of the "
            "documents that were looked at: they cost a hash each, and no comparison"
        )


def _buckets(now: CorpusProfile, before: CorpusProfile) -> Iterator[str]:
    """Describe larger or smaller buckets, if about the same share was sampled."""
    new, old = now.buckets, before.buckets
    if not _about_same(now.share, before.share) or _about_same(max(new.p99, 2), max(old.p99, 2)):
        return
    grown = "look for boilerplate, and consider --strip lines"
    yield (
        f"the largest hundredth of the buckets went from {old.p99:,.0f} to {new.p99:,.0f} "
        f"documents, the largest from {old.largest:,} to {new.largest:,}: "
        f"{grown if new.p99 > old.p99 else 'less boilerplate is shared'}"
    )
