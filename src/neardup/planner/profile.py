"""What is known of the documents: how many are alike, and how much of them has to be compared?"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from neardup.options import Options
from neardup.planner.accuracy import Pairs
from neardup.planner.sla import Sla

REMOVED: Final = 0.1
ALIKE, ALIKE_IN_A_BAND = 0.15, 0.06
"""Documents that share a bucket because they are near-duplicates: in any band, and in each."""
CROWDING: Final = 0.09
"""Fitted to the same pages: those that meet others by chance are in crowds, not evenly spread."""
IN_A_BUCKET: Final = 2.3
"""Documents, where there are at least two."""

USUAL: Final[Pairs] = (
    (0.00009, 0.9959),
    (0.016, 1.3e-3),
    (0.024, 1.2e-3),
    (0.036, 5.0e-4),
    (0.062, 1.6e-4),
    (0.087, 1.2e-4),
    (0.124, 1.8e-4),
    (0.173, 1.2e-4),
    (0.225, 9.6e-5),
    (0.274, 8.6e-5),
    (0.322, 5.3e-5),
    (0.372, 2.6e-5),
    (0.423, 1.3e-5),
    (0.472, 7.0e-6),
    (0.523, 4.2e-6),
    (0.574, 2.5e-6),
    (0.625, 1.7e-6),
    (0.674, 8.7e-7),
    (0.722, 5.3e-7),
    (0.773, 4.3e-7),
    (0.819, 1.4e-6),
    (0.881, 1.6e-6),
    (0.915, 1.4e-6),
)
"""How many pairs of each similarity there are for a pair of different documents.

Counted by brute force in 16,000 of 110,000 pages of RFCs without their near-duplicates: those of
0.8 and more; for the last three, which only a higher threshold leaves, those of 0.95 and more.
The first is the mean of what is below 0.01.
"""


@dataclass(frozen=True)
class Profile:
    """Amounts for each document of the corpus, on average.

    stored        bytes in the input files
    removed       the share that is removed
    kept          bytes of the kept files
    candidates    the share that shares a bucket with another, once copies are set aside
    sets          bytes of the candidates' sets of shingles
    compared      pairs that are compared
    false         those of them that are not similar enough
    members       places in buckets that are shared, over all bands
    buckets       such buckets
    id            bytes of its id
    pairs         all pairs by their similarity; None if nobody knows
    """

    stored: float
    removed: float
    kept: float
    candidates: float
    sets: float
    compared: float
    false: float
    members: float
    buckets: float
    id: float = 12.0
    pairs: Pairs | None = None


def grown(profile: Profile, times: float, most: float) -> Profile:
    """The same for so many times the documents, of the same kind.

    Whatever is not similar enough and meets by chance, or because it is of the same template, is
    there so many times more often; a document is compared with `most` others at most. What is
    removed, and what that takes, is a share.
    """
    false = max(min(profile.false * times, most), profile.false)
    return replace(profile, false=false, compared=profile.compared - profile.false + false)


def assumed(sla: Sla, options: Options) -> Profile:
    """What is usual among pages of manuals: a tenth goes, the others meet as often as those do."""
    parts, most = options.curve.parts, options.tables.count * options.limit
    met = sum(share * options.curve.probability(similarity) for similarity, share in _below(sla))
    false = min(sla.documents * met / 2, most)
    candidates = _sharing(ALIKE, sla.documents * met)
    members = sum(
        part.bands * _sharing(ALIKE_IN_A_BAND, sla.documents * _meeting_in_a_band(sla, part.rows))
        for part in parts
    )
    return Profile(
        stored=sla.size,
        removed=REMOVED,
        kept=(1 - REMOVED) * sla.size,
        candidates=candidates,
        sets=candidates * 8 * sla.shingles,
        compared=REMOVED + false,
        false=false,
        members=members,
        buckets=members / IN_A_BUCKET,
    )


def _below(sla: Sla) -> Pairs:
    return [(similarity, share) for similarity, share in USUAL if similarity < sla.threshold]


def _meeting_in_a_band(sla: Sla, rows: int) -> float:
    return sum(share * similarity**rows for similarity, share in _below(sla))


def _sharing(alike: float, met: float) -> float:
    """The share of documents that share a bucket, if each meets so many that are not alike."""
    return 1 - (1 - alike) * math.exp(-CROWDING * math.sqrt(met))
