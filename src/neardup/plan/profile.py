"""What is known of the documents: how many are alike, and how much of them has to be compared?"""

from __future__ import annotations

from dataclasses import dataclass, replace

from neardup.plan.accuracy import Pairs
from neardup.plan.sla import Sla

REMOVED, CANDIDATES = 0.1, 0.2
"""What is usual, if nothing is known."""


@dataclass(frozen=True)
class Profile:
    """Amounts for each document of the corpus, on average.

    stored        bytes in the input files
    id            bytes of its id
    removed       the share that is removed
    kept          bytes of the kept files
    candidates    the share that shares a bucket with another, once copies are set aside
    sets          bytes of the candidates' sets of shingles
    compared      pairs that are compared
    false         those of them that are not similar enough
    members       places in buckets that are shared, over all bands
    buckets       such buckets
    pairs         all pairs by their similarity; None if nobody knows
    """

    stored: float
    id: float = 12.0
    removed: float = REMOVED
    kept: float = 0.0
    candidates: float = CANDIDATES
    sets: float = 0.0
    compared: float = 0.4
    false: float = 0.3
    members: float = 2.0
    buckets: float = 1.0
    pairs: Pairs | None = None


def grown(profile: Profile, times: float, most: float) -> Profile:
    """The same for so many times the documents, of the same kind.

    Whatever is not similar enough and meets by chance, or because it is of the same template, is
    there so many times more often; a document is compared with `most` others at most. What is
    removed, and what that takes, is a share.
    """
    false = max(min(profile.false * times, most), profile.false)
    return replace(profile, false=false, compared=profile.compared - profile.false + false)


def assumed(sla: Sla) -> Profile:
    """What is usual: a tenth of the documents goes, and a fifth shares a bucket with others."""
    return Profile(
        stored=sla.size, kept=(1 - REMOVED) * sla.size, sets=CANDIDATES * 8 * sla.shingles
    )
