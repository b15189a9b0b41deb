"""Every candidate pair once: the documents that share a bucket, bucket by bucket.

`members` lists the documents of each bucket in rank order, `starts` where a bucket begins,
`band_of` its band. A pair that shares several buckets is met in the first band that it shares.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import I64, I64_ROWS, int64, kernel


@kernel(I64_ROWS, I64, I64, I64, int64, int64, int64, int64)
def candidate_pairs(buckets, members, starts, band_of, cap, first_bucket, first_place, limit):
    """Up to about `limit` pairs from (first_bucket, first_place) on, and where to go on.

    Only the first `cap` members of a bucket are paired.
    """
    left, right = np.empty(limit, np.int64), np.empty(limit, np.int64)
    count, place = 0, first_place
    for bucket in range(first_bucket, starts.size - 1):
        begin, band = starts[bucket], band_of[bucket]
        size = min(starts[bucket + 1] - begin, cap)
        while place < size:
            if count + place > limit and count > 0:
                return left[:count], right[:count], bucket, place
            v = members[begin + place]
            for i in range(place):
                u = members[begin + i]
                earlier = False
                for j in range(band):
                    if buckets[u, j] >= 0 and buckets[u, j] == buckets[v, j]:
                        earlier = True
                        break
                if not earlier:
                    left[count], right[count] = u, v
                    count += 1
            place += 1
        place = 1
    return left[:count], right[:count], starts.size - 1, 1
