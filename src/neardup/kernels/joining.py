"""Find all pairs of similar sets, exactly, by an inverted index of prefixes.

`tokens` are shingles numbered by how many sets they are in, the rarest first. Sets are sorted rows
of them; row i is tokens[begins[i] : ends[i]], and the rows are in order of their sizes. The index
lists, for each token, the rows that have it in their prefix, that is among their first tokens. A
row is compared with those before it, from firsts[row] on: earlier ones are too small.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import (
    I64,
    OUT_I64,
    OUT_U8,
    OUT_U32,
    U32,
    U64,
    U64_ROWS,
    float64,
    inner,
    int64,
    kernel,
)
from neardup.kernels.hashing import spread
from neardup.kernels.intrinsics import AHEAD, bits_set, prefetch, scaled
from neardup.kernels.measures import common_at_least, overlap_needed, part_needed

SHORT = 48
"""Rows up to this length are sorted faster by insertion."""


@inner
def equal_rows(data, offsets, u, v):
    """Return whether rows u and v are equal."""
    size = offsets[u + 1] - offsets[u]
    if offsets[v + 1] - offsets[v] != size:
        return False
    for i in range(size):
        if data[offsets[u] + i] != data[offsets[v] + i]:
            return False
    return True


@kernel(U64, I64, U64, I64)
def first_equal(data, offsets, hashes, order):
    """Return the first row equal to each row; `order` sorts rows by hash, then by number."""
    first = np.empty(order.size, np.int64)
    begin = 0
    for end in range(1, order.size + 1):
        if end < order.size and hashes[order[end]] == hashes[order[begin]]:
            continue
        for i in range(begin, end):
            row = order[i]
            first[row] = row
            for j in range(begin, i):
                # Different rows with equal hashes are rare, so that this loop is short.
                if first[order[j]] == order[j] and equal_rows(data, offsets, order[j], row):
                    first[row] = order[j]
                    break
        begin = end
    return first


@kernel(U64, OUT_U8, int64)
def beyond(keys, counts, limit):
    """Return which keys come after `limit` others of the same cell, and count the others.

    `counts` has the count of each cell so far. The low bits of a key choose its cell; the number of
    cells is a power of two.
    """
    out = np.empty(keys.size, np.bool_)
    for i in range(keys.size):
        cell = keys[i] & U(counts.size - 1)
        out[i] = np.int64(counts[cell]) >= limit
        if not out[i]:
            counts[cell] += np.uint8(1)
    return out


@inner
def doubled(array, used):
    """Return an array of twice the length with the first `used` entries of this one."""
    longer = np.empty(2 * array.size, array.dtype)
    longer[:used] = array[:used]
    return longer


@inner
def home(entries, key):
    """Return where the search for a key begins; an entry is a key and its number + 1, or 0."""
    return scaled(spread(key, U(0)), U(entries.size >> 1)) << U(1)


@inner
def place_of(entries, key):
    """Return the entry of a key, or the free one where it would go, from its home on."""
    at = home(entries, key)
    while entries[at + U(1)] != U(0) and entries[at] != key:
        at += U(2)
        if at == U(entries.size):
            at = U(0)
    return at


@inner
def wider(entries):
    """Return the same table with twice the entries."""
    to = np.zeros(2 * entries.size, np.uint64)
    for i in range(0, entries.size, 2):
        if i + 2 * AHEAD < entries.size:
            prefetch(to, home(to, entries[i + 2 * AHEAD]))
        if entries[i + 1] != U(0):
            at = place_of(to, entries[i])
            to[at], to[at + U(1)] = entries[i], entries[i + 1]
    return to


@kernel(U64, I64, I64)
def number_shingles(data, offsets, rows):
    """Number the shingles of the given rows by first appearance, and count each of them."""
    size = 0
    for row in rows:
        size += offsets[row + 1] - offsets[row]
    found, counts = np.empty(size, np.uint32), np.empty(ROOM, np.int64)
    entries = np.zeros(4 * ROOM, np.uint64)
    write, used = 0, 0
    for row in rows:
        for p in range(offsets[row], offsets[row + 1]):
            if p + AHEAD < data.size:
                prefetch(entries, home(entries, data[p + AHEAD]))
            at = place_of(entries, data[p])
            number = np.int64(entries[at + U(1)]) - 1
            if number < 0:
                number = used
                entries[at], entries[at + U(1)] = data[p], U(number + 1)
                if used == counts.size:
                    counts = doubled(counts, used)
                counts[number] = 0
                used += 1
                if 4 * used > entries.size:
                    entries = wider(entries)
            found[write] = number
            counts[number] += 1
            write += 1
    return found, counts[:used].copy()


@kernel(I64)
def rank_counts(counts):
    """Return each number's rank by its count, the least first."""
    starts = np.zeros(counts.max() + 2 if counts.size else 1, np.int64)
    for count in counts:
        starts[count + 1] += 1
    for count in range(starts.size - 1):
        starts[count + 1] += starts[count]
    ranks = np.empty(counts.size, np.uint32)
    for number in range(counts.size):
        ranks[number] = starts[counts[number]]
        starts[counts[number]] += 1
    return ranks


@inner
def sort_row(row):
    if row.size > SHORT:
        row.sort()
        return
    for i in range(1, row.size):
        value, j = row[i], i
        while j > 0 and row[j - 1] > value:
            row[j] = row[j - 1]
            j -= 1
        row[j] = value


@kernel(OUT_U32, I64, I64, U32)
def rank_rows(numbers, begins, ends, ranks):
    """Replace the numbers of each row by their ranks, and sort the row."""
    for row in range(begins.size):
        for p in range(begins[row], ends[row]):
            numbers[p] = ranks[numbers[p]]
        sort_row(numbers[begins[row] : ends[row]])


U = np.uint64
SURELY = 1.0 - 1e-9
"""Below the floor times this is certainly below the floor, whatever the rounding."""
ROOM = 1024


@inner
def not_before(values, begin, end, limit):
    """Return the place of the first value, of ascending ones, that is not below the limit."""
    while begin < end:
        middle = (begin + end) // 2
        if np.int64(values[middle]) < limit:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel(I64, float64)
def prefixes(sizes, floor):
    """Return how many first tokens to look up, and how many to index, to miss no similar pair.

    A similar pair shares so many tokens that it shares one of these. The larger set of a pair is
    looked up; the smaller one is in the index, which needs fewer tokens.
    """
    looked_up, listed = np.empty(sizes.size, np.int64), np.empty(sizes.size, np.int64)
    for row in range(sizes.size):
        looked_up[row] = sizes[row] - part_needed(sizes[row], floor) + 1
        listed[row] = sizes[row] - overlap_needed(sizes[row], sizes[row], floor) + 1
    return looked_up, listed


@kernel(U32, I64, I64, int64)
def tokens_below(tokens, begins, ends, limit):
    """Return how many of each row's ascending tokens are below a limit."""
    out = np.empty(begins.size, np.int64)
    for row in range(begins.size):
        out[row] = not_before(tokens, begins[row], ends[row], limit) - begins[row]
    return out


@kernel(U32, I64, I64, int64)
def index_rows(tokens, begins, takes, vocabulary):
    """Return the rows that have each token in their prefix of takes[row], and each list's start."""
    starts = np.zeros(vocabulary + 1, np.int64)
    for row in range(takes.size):
        for p in range(begins[row], begins[row] + takes[row]):
            starts[np.int64(tokens[p]) + 1] += 1
    for token in range(vocabulary):
        starts[token + 1] += starts[token]
    free, rows = starts[:-1].copy(), np.empty(starts[-1], np.uint32)
    for row in range(takes.size):
        for p in range(begins[row], begins[row] + takes[row]):
            rows[free[tokens[p]]] = row
            free[tokens[p]] += 1
    return rows, starts


@kernel(U32, I64, I64, I64, int64)
def token_bits(tokens, begins, ends, takes, vocabulary):
    """Return a bitmap of each row's tokens after the first takes[row]; bit 0 is the last token."""
    most = np.int64(0)
    for row in range(takes.size):
        if takes[row] < ends[row] - begins[row]:
            most = max(most, vocabulary - np.int64(tokens[begins[row] + takes[row]]))
    bits = np.zeros((takes.size, (most + 63) // 64), np.uint64)
    for row in range(takes.size):
        for p in range(begins[row] + takes[row], ends[row]):
            bit = U(vocabulary - 1 - np.int64(tokens[p]))
            bits[row, bit >> U(6)] |= U(1) << (bit & U(63))
    return bits


@inner
def common_bits(one, other):
    common = 0
    for word in range(one.size):
        common += bits_set(one[word] & other[word])
    return common


@kernel(U32, I64, I64, I64, U32, I64, U64_ROWS, I64, float64, I64, OUT_I64, int64)
def count_rows(
    tokens, begins, ends, takes, listed, starts, bits, firsts, floor, wanted, held, most_held
):
    """Return the pairs of the wanted rows, by counting: (smaller row, row, similarity).

    The index tells which prefix tokens a row shares with others, the bitmaps how many of the
    frequent ones. `held` counts the pairs of all threads; the search stops above `most_held`,
    because more would not fit into memory.
    """
    left, right = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64)
    found, used = np.empty(ROOM, np.float64), 0
    counts = np.empty(takes.size, np.uint32)
    for row in wanted:
        if held[0] > most_held:
            break
        before = used
        first, size = firsts[row], ends[row] - begins[row]
        counts[first:row] = 0
        for p in range(begins[row], begins[row] + takes[row]):
            token = tokens[p]
            at = U(not_before(listed, starts[token], starts[token + 1], first))
            # The row itself is in the list, so that the loop ends.
            while listed[at] < row:
                counts[listed[at]] += np.uint32(1)
                at += U(1)
        rest, mine = size - takes[row], bits[row]
        for other in range(first, row):
            size_other = ends[other] - begins[other]
            common = np.int64(counts[other])
            most = common + min(rest, size_other - takes[other])
            if most < SURELY * floor * (size + size_other - most):
                continue
            if most > common:
                common += common_bits(mine, bits[other])
            similarity = common / (size + size_other - common)
            if similarity >= floor:
                if used == left.size:
                    left, right = doubled(left, used), doubled(right, used)
                    found = doubled(found, used)
                left[used], right[used], found[used] = other, row, similarity
                used += 1
        held[0] += used - before
    return left[:used].copy(), right[:used].copy(), found[:used].copy()


@kernel(U32, I64, I64, I64, U32, I64, I64, float64, I64, OUT_I64, int64)
def match_rows(tokens, begins, ends, takes, listed, starts, firsts, floor, wanted, held, most_held):
    """Return the pairs of the wanted rows, by comparing those that share a prefix token.

    Tokens are looked up in order, so that a pair has nothing in common before the first shared one.
    """
    left, right = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64)
    found, used = np.empty(ROOM, np.float64), 0
    met = np.full(takes.size, -1, np.int64)
    for row in wanted:
        if held[0] > most_held:
            break
        before = used
        end, size = ends[row], ends[row] - begins[row]
        for p in range(begins[row], begins[row] + takes[row]):
            token = tokens[p]
            begin = not_before(listed, starts[token], starts[token + 1], firsts[row])
            for at in range(begin, starts[token + 1]):
                other = np.int64(listed[at])
                if other >= row:
                    break
                if met[other] == row:
                    continue
                met[other] = row
                q, size_other = begins[other], ends[other] - begins[other]
                while tokens[q] < token:
                    q += 1
                need = overlap_needed(size, size_other, floor)
                common = common_at_least(tokens, p, end, q, ends[other], need)
                if common >= 0:
                    if used == left.size:
                        left, right = doubled(left, used), doubled(right, used)
                        found = doubled(found, used)
                    left[used], right[used] = other, row
                    found[used] = common / (size + size_other - common)
                    used += 1
        held[0] += used - before
    return left[:used].copy(), right[:used].copy(), found[:used].copy()
