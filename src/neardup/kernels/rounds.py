"""The keep list by rounds, for corpora that don't fit into memory.

Documents are numbered by rank. `state` and `bound` have a byte for each: `state` whether it is kept
and whether the last round changed that; `bound`, for a removed one, its witness's rank without the
lowest `shift` bits. A pair of documents u < v is one number, v << 32 | u << 1; its lowest bit is 1
if they share only hot buckets (of more members than the limit), where u counts only while it is one
of the leaders.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import F64, I64, OUT_U8, U32, U64, int64, kernel, uncounted

U = np.uint64
KEPT, CHANGED = np.uint8(1), np.uint8(4)
UNKNOWN, SETTLED_KEPT, REMOVED, REMOVED_PENDING = (
    np.uint8(0),
    np.uint8(1),
    np.uint8(2),
    np.uint8(3),
)


@uncounted
def counts_for(u, v, state, bound, shift):
    """Return whether u, if it is similar, could change the verdict on v."""
    return (state[v] & KEPT) != 0 or (u >> shift) <= np.int64(bound[v])


@uncounted
def has_changed(members, begin, end, state):
    for at in range(begin, end):
        if (state[members[at]] & CHANGED) != 0:
            return True
    return False


@kernel(U32, I64, OUT_U8, OUT_U8, int64, int64, int64, int64, int64, int64, int64, int64)
def leader_pairs(
    members, starts, state, bound, shift, new, limit, fresh, most, bucket, place, room
):
    """Return pairs of each bucket's leaders number `fresh` to `most` with its later members.

    A bucket's leaders are its first `limit` kept members. For a hot bucket, and for one that the
    last round changed, all leaders are paired, from number 0. Members with a rank below `new` only
    lead. Returns about `room` pairs from (bucket, place) on, where to continue, and the largest
    number of leaders of a bucket; buckets without pairs, which have at most `most`, are left out.
    """
    out = np.empty(room + most, np.uint64)
    leaders = np.empty(limit, np.int64)
    count, longest = 0, 0
    for g in range(bucket, starts.size - 1):
        begin, size = starts[g], starts[g + 1] - starts[g]
        hot, leading = U(size > limit), 0
        first = 0 if hot or has_changed(members, begin, begin + size, state) else fresh
        if size < first + 2:  # no leader has a later member, and they are fewer than `most`
            continue
        for at in range(size):
            v = np.int64(members[begin + at])
            if at >= place and v >= new:
                if count >= room:
                    return out[:count], g, at, longest
                for i in range(first, min(leading, most)):
                    u = leaders[i]
                    if counts_for(u, v, state, bound, shift):
                        out[count] = U(v) << U(32) | U(u) << U(1) | hot
                        count += 1
            if (state[v] & KEPT) != 0 and leading < limit:
                leaders[leading] = v
                leading += 1
        longest = max(longest, leading)
        place = 0
    return out[:count], starts.size - 1, 0, longest


@kernel(U64, U64)
def merge_pairs(wanted, known):
    """Merge wanted pairs into known ones; both are sorted, without repeats.

    A pair is hot if all of its appearances are. Returns the pairs, and for each whether it was
    known, whether it is wanted, and whether it is new or not hot any more.
    """
    out = np.empty(wanted.size + known.size, np.uint64)
    was_known, is_wanted = np.zeros(out.size, np.bool_), np.zeros(out.size, np.bool_)
    is_fresh = np.zeros(out.size, np.bool_)
    i, j, count = 0, 0, 0
    while i < wanted.size or j < known.size:
        take = i < wanted.size and (j == known.size or (wanted[i] | U(1)) <= (known[j] | U(1)))
        again = j < known.size and (i == wanted.size or (known[j] | U(1)) <= (wanted[i] | U(1)))
        out[count] = known[j] if again else wanted[i]
        if again and take:
            out[count] &= wanted[i]  # they differ in the lowest bit only
        was_known[count], is_wanted[count] = again, take
        is_fresh[count] = not again or out[count] != known[j]
        i, j, count = i + np.int64(take), j + np.int64(again), count + 1
    return out[:count], was_known[:count], is_wanted[:count], is_fresh[:count]


@kernel(U64, F64, OUT_U8, OUT_U8, OUT_U8, int64)
def decide(pairs, similarity, marks, state, bound, shift):
    """Decide each document on the right of a pair, in rank order.

    It is removed if a kept document is similar to it and its pair counts (`marks`). Returns the
    places of the deciding pairs, and whether a document changed; those are marked in `state`.
    """
    out = np.empty(pairs.size, np.int64)
    count, changed = 0, False
    at = 0
    while at < pairs.size:
        v = np.int64(pairs[at] >> U(32))
        witness = -1
        while at < pairs.size and np.int64(pairs[at] >> U(32)) == v:
            u = np.int64((pairs[at] & U(0xFFFFFFFF)) >> U(1))
            if witness < 0 and similarity[at] >= 0.0 and marks[at] and (state[u] & KEPT) != 0:
                witness = u
                out[count] = at
                count += 1
            at += 1
        was, before = (state[v] & KEPT) != 0, bound[v]
        if witness >= 0:
            state[v] &= ~KEPT
            bound[v] = np.uint8(witness >> shift)
            different = was or bound[v] != before
        else:
            state[v] |= KEPT
            different = not was
        if different:
            state[v] |= CHANGED
            changed = True
    return out[:count], changed


@kernel(U64, OUT_U8, OUT_U8, int64)
def settle(pairs, status, bound, shift):
    """Decide each document v of similar pairs, as far as the documents before it are decided.

    `status` is a byte for each document: UNKNOWN, SETTLED_KEPT, REMOVED, or REMOVED_PENDING, which
    is certainly removed, but may still get a better-ranked witness. Pairs are sorted, so that
    documents of better rank come first. Returns the number of pairs of undecided documents.
    """
    undecided, at = 0, 0
    while at < pairs.size:
        v, begin = np.int64(pairs[at] >> U(32)), at
        witness, unknown = np.int64(-1), False
        while at < pairs.size and np.int64(pairs[at] >> U(32)) == v:
            u = np.int64((pairs[at] & U(0xFFFFFFFF)) >> U(1))
            if witness < 0 and status[u] == SETTLED_KEPT:
                witness = u
            elif witness < 0 and status[u] == UNKNOWN:
                unknown = True
            at += 1
        if witness < 0:
            status[v] = UNKNOWN if unknown else SETTLED_KEPT
        else:
            status[v] = REMOVED_PENDING if unknown else REMOVED
            bound[v] = np.uint8(witness >> shift)
        if unknown:
            undecided += at - begin
    return undecided


@kernel(U32, I64, OUT_U8)
def kept_in(members, starts, state):
    """Return how many of each bucket's members are kept."""
    out = np.zeros(starts.size - 1, np.int64)
    for g in range(out.size):
        for at in range(starts[g], starts[g + 1]):
            out[g] += np.int64(state[members[at]] & KEPT)
    return out


@kernel(U32, I64, U32, int64, int64, int64, int64, int64, int64, int64)
def member_pairs(members, starts, roots, new, fresh, most, last, bucket, place, room):
    """Return pairs of each bucket's members number `fresh` to `most` with later ones before `last`.

    Pairs with the same root, and pairs of two ranks below `new`, are left out. Returns about `room`
    pairs from (bucket, place) on, and where to continue.
    """
    out = np.empty(room + most, np.uint64)
    count = 0
    for g in range(bucket, starts.size - 1):
        begin, size = starts[g], min(starts[g + 1] - starts[g], last)
        for at in range(place, size):
            if count >= room:
                return out[:count], g, at
            v = np.int64(members[begin + at])
            for i in range(fresh, min(at, most) if v >= new else 0):
                u = np.int64(members[begin + i])
                if roots[u] != roots[v]:
                    out[count] = U(v) << U(32) | U(u) << U(1)
                    count += 1
        place = 0
    return out[:count], starts.size - 1, 0
