"""What has moved since an earlier evaluation, and what follows from it? In words.

Only what is beyond noise is said: a change must be large enough to matter, and larger than three
standard errors of both samples. Whether two documents of some similarity meet does not depend on
the corpus; what drifts is how similar its documents are, how long and how many they are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from neardup.errors import FormatError, UsageError
from neardup.evaluate.profile import TENTHS, VOCABULARY, Profile, Spread, overlap

KIND: Final = "neardup evaluation"
LARGEST: Final = 64 << 20
LENGTH: Final = 0.1
"""A mean that changes by less than this share is not worth a word."""
FACTOR: Final = 1.5
"""Counts and shares that change by less than this factor are not either."""
SHARE: Final = 0.01
ERRORS: Final = 3.0
EMPTY_BINS: Final = 0.02
COUNTED: Final = ("ignored", "weights")
"""Of a specification, what is counted in the corpus and drifts with it."""
NOTHING: Final = "nothing moved"


@dataclass(frozen=True)
class Snapshot:
    """What of an evaluation can be compared with another."""

    spec: dict[str, Any]
    parameters: dict[str, Any]
    judged: str
    golden: str
    recall: dict[str, Any]
    profile: Profile | None

    @classmethod
    def of(cls, record: Any, where: str) -> Snapshot:
        """Of what evaluation.json holds."""
        if not isinstance(record, dict) or record.get("kind") != KIND:
            raise FormatError(
                f"{where} is not an evaluation: give the evaluation.json that neardup evaluate -o "
                "wrote"
            )
        try:
            point, profile = record["operating_point"], record["profile"]
            recall = record["labels"]["recall"]
            if not all(isinstance(x, dict) for x in (point["spec"], point["parameters"], recall)):
                raise TypeError
            for name in ("value", "low", "high"):
                if not isinstance(recall[name], float | None):
                    raise TypeError
            spec = {name: said for name, said in point["spec"].items() if name not in COUNTED}
            return cls(
                spec, point["parameters"], str(record["judged"]),
                str(record["golden"]["digest"]), recall,
                None if profile is None else Profile.from_record(profile, where),
            )  # fmt: skip
        except (LookupError, TypeError) as error:
            raise FormatError(
                f"{where} is damaged ({type(error).__name__}): evaluate the earlier corpus again"
            ) from None


def read_baseline(path: Path) -> Snapshot:
    """An earlier evaluation.json."""
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
    return Snapshot.of(record, str(path))


def moved(now: Snapshot, before: Snapshot) -> list[str]:
    """What has changed, a sentence each, what can't be compared first; or that nothing has."""
    same_spec = now.spec == before.spec
    same_tables = same_spec and now.parameters == before.parameters
    said: list[str] = []
    if not same_spec:
        said.append(
            f"the specifications differ ({_differing(before.spec, now.spec)}): shingles, "
            "similarities, buckets, candidates and recall are not compared"
        )
    elif not same_tables:
        said.append(
            f"the operating points differ ({_differing(before.parameters, now.parameters)}): "
            "buckets, candidates and recall are not compared"
        )
    if same_tables:
        said += _recall(now, before)
    if now.profile is None or before.profile is None:
        said.append("without a corpus on both sides there is no profile: texts are not compared")
        return said
    said += _lengths(now.profile, before.profile)
    said += _words(now.profile, before.profile)
    if same_spec:
        said += _shingles(now.profile, before.profile)
        said += _copies(now.profile, before.profile)
        said += _empty_bins(now.profile, before.profile)
    if same_tables:
        said += _candidates(now.profile, before.profile)
        threshold = now.parameters.get("threshold")
        said += _similarity(now.profile, before.profile, threshold)
        said += _buckets(now.profile, before.profile)
    return said or [NOTHING]


def _differing(before: dict[str, Any], now: dict[str, Any]) -> str:
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return ", ".join(f"{name} {before.get(name)} to {now.get(name)}" for name in names)


def _recall(now: Snapshot, before: Snapshot) -> Iterator[str]:
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


def _words(now: Profile, before: Profile) -> Iterator[str]:
    """Larger samples have more words: only samples of about the same size are compared."""
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
    return 1 / FACTOR < one / other < FACTOR


def _lengths(now: Profile, before: Profile) -> Iterator[str]:
    if _other_mean(now.bytes, before.bytes, now, before):
        ratio = now.bytes.mean / before.bytes.mean
        yield (
            f"documents are {_percent(ratio)} {'longer' if ratio > 1 else 'shorter'} (bytes: "
            f"{before.bytes.mean:,.0f} to {now.bytes.mean:,.0f}): expect reading and sketching to "
            f"take about {ratio:.1f} times as long a document; by itself that changes neither "
            "recall nor candidates"
        )


def _shingles(now: Profile, before: Profile) -> Iterator[str]:
    if _other_mean(now.shingles, before.shingles, now, before):
        ratio = now.shingles.mean / before.shingles.mean
        yield (
            f"shingles per document {'up' if ratio > 1 else 'down'} by {_percent(ratio)}, from "
            f"{before.shingles.mean:,.0f} to {now.shingles.mean:,.0f}: expect so much "
            f"{'more' if ratio > 1 else 'less'} time for a comparison"
        )


def _other_mean(new: Spread, old: Spread, now: Profile, before: Profile) -> bool:
    error = math.hypot(
        new.deviation / math.sqrt(now.sampled), old.deviation / math.sqrt(before.sampled)
    )
    return abs(new.mean - old.mean) > max(LENGTH * old.mean, ERRORS * error) and old.mean > 0


def _percent(ratio: float) -> str:
    return f"{100 * abs(ratio - 1):.0f} %"


def _empty_bins(now: Profile, before: Profile) -> Iterator[str]:
    new, old = now.empty_bins, before.empty_bins
    if new is None or old is None or abs(new - old) < EMPTY_BINS:
        return
    follows = "estimates are noisier; use fewer slots" if new > old else "estimates are better"
    yield f"empty bins went from {old:.1%} to {new:.1%} of the slots: {follows}"


def _candidates(now: Profile, before: Profile) -> Iterator[str]:
    if not before.met or not now.met:
        if now.met + before.met > ERRORS**2:
            yield f"candidates went from {before.candidates:.2f} to {now.candidates:.2f} a document"
        return
    ratio = now.candidates / before.candidates
    error = math.sqrt(1 / now.effective + 1 / before.effective)
    if abs(math.log(ratio)) < max(math.log(FACTOR), ERRORS * error):
        return
    follows = "consider more rows" if ratio > 1 else "fewer rows would cost little"
    yield (
        f"candidates per document {'up' if ratio > 1 else 'down'} from {before.candidates:.2g} to "
        f"{now.candidates:.2g}: expect about {ratio:.2g} times the comparisons; {follows}"
    )


def _similarity(now: Profile, before: Profile, threshold: Any) -> Iterator[str]:
    """Of the pairs that meet, which tenths have grown or shrunk?"""
    pairs = zip(now.similarity, before.similarity, strict=False)  # of nothing there are none
    for tenth, (new, old) in enumerate(pairs):
        both = (new * now.effective + old * before.effective) / (now.effective + before.effective)
        error = math.sqrt(both * (1 - both) * (1 / now.effective + 1 / before.effective))
        if abs(new - old) < max(ERRORS * error, SHARE) or max(new, old) < FACTOR * min(new, old):
            continue
        low, high = tenth / TENTHS, (tenth + 1) / TENTHS
        near = isinstance(threshold, float) and abs((low + high) / 2 - threshold) <= 1 / TENTHS
        follows = ": more verdicts are close to the threshold" if near and new > old else ""
        yield (
            f"pairs between {low:g} and {high:g} went from {old:.0%} to {new:.0%} of those that "
            f"meet{follows}"
        )


def _copies(now: Profile, before: Profile) -> Iterator[str]:
    """Of copies, as of buckets, more is seen if a larger share of the documents is looked at."""
    if _about_same(now.share, before.share) and abs(now.identical - before.identical) > LENGTH:
        yield (
            f"identical copies went from {before.identical:.0%} to {now.identical:.0%} of the "
            "documents that were looked at: they cost a hash each, and no comparison"
        )


def _buckets(now: Profile, before: Profile) -> Iterator[str]:
    new, old = now.buckets, before.buckets
    if not _about_same(now.share, before.share) or _about_same(max(new.p99, 2), max(old.p99, 2)):
        return
    grown = "look for boilerplate, and consider --strip lines"
    yield (
        f"the largest hundredth of the buckets went from {old.p99:,.0f} to {new.p99:,.0f} "
        f"documents, the largest from {old.largest:,} to {new.largest:,}: "
        f"{grown if new.p99 > old.p99 else 'less boilerplate is shared'}"
    )
