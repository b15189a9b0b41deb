"""The kernels of the batch engine equal plain Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neardup import kernels, reference
from neardup.lsh.buckets import RepeatedKeys, find_shared_keys

words = st.integers(0, 2**64 - 1)
seeds = st.integers(0, 2**32 - 1)


def ragged(rows: list[list[int]], dtype: type = np.uint64) -> tuple[np.ndarray, np.ndarray]:
    flat = np.array([value for row in rows for value in row], dtype)
    return flat, np.cumsum([0, *map(len, rows)]).astype(np.int64)


# -- sketches -----------------------------------------------------------------------------------


@given(seeds, st.integers(0, 40), st.integers(1, 9), st.integers(0, 20))
def test_columns_have_the_keys_of_rows(seed, documents, rows, band):
    random = np.random.default_rng(seed)
    signatures = random.integers(0, 2**32, (documents, rows), np.uint32)
    columns = kernels.transposed(signatures)
    assert columns.flags.c_contiguous
    assert np.array_equal(columns, signatures.T)
    keys = kernels.column_keys(columns, band).tolist()
    padded = [[0] * rows * band + row for row in signatures.tolist()]
    assert keys == [reference.band_keys(row, band + 1, rows)[band] for row in padded]


# -- sets ---------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.one_of(words, st.integers(0, 3)), max_size=12)), st.integers(0, 8))
def test_short_rows_are_sorted_and_long_ones_left_alone(rows, longest):
    values, offsets = ragged(rows)
    kernels.sort_short(values, offsets, longest)
    want = [sorted(row) if len(row) <= longest else row for row in rows]
    assert values.tolist() == [value for row in want for value in row]


@given(st.binary(max_size=200), st.lists(st.tuples(st.integers(0, 200), st.integers(0, 30))))
def test_rows_are_copied_from_anywhere(data, places):
    places = [(start, size) for start, size in places if start + size <= len(data)]
    starts, sizes = (np.array([p[k] for p in places], np.int64) for k in (0, 1))
    out = np.full(int(sizes.sum()), 255, np.uint8)
    kernels.copy_rows(np.frombuffer(data, np.uint8), starts, sizes, out)
    assert out.tobytes() == b"".join(data[start : start + size] for start, size in places)


# -- buckets ------------------------------------------------------------------------------------


def naive_meeting(keys: list[int]) -> tuple[list[int], list[int]]:
    found = [[p for p, other in enumerate(keys) if other == key] for key in sorted(set(keys))]
    buckets = [places for places in found if len(places) > 1]
    return [place for places in buckets for place in places], [len(places) for places in buckets]


def check_meeting(keys: list[int]) -> None:
    places, sizes = find_shared_keys(np.array(keys, np.uint64))
    assert (places.tolist(), sizes.tolist()) == naive_meeting(keys)


@given(st.lists(st.one_of(words, st.integers(0, 5), st.integers(2**64 - 5, 2**64 - 1))))
def test_rows_with_equal_keys_share_a_bucket(keys):
    check_meeting(keys)


@given(words, st.lists(st.integers(0, 9), max_size=40))
def test_keys_that_differ_in_their_lowest_bits_share_no_bucket(key, low):
    check_meeting([key ^ bits for bits in low])


@given(st.lists(st.sampled_from([0, 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64 - 2]), max_size=40))
def test_the_least_and_greatest_key_share_buckets(keys):
    check_meeting(keys)


def test_many_places_need_many_of_the_lowest_bits():
    random = np.random.default_rng(1)
    keys = random.integers(0, 1 << 18, 70_000, np.uint64)
    places, sizes = find_shared_keys(keys)
    values, counts = np.unique(keys, return_counts=True)
    assert sizes.tolist() == counts[counts > 1].tolist()
    assert keys[places].tolist() == np.repeat(values[counts > 1], sizes).tolist()
    starts = np.cumsum(sizes) - sizes
    rising = np.diff(places) > 0
    rising[starts[1:] - 1] = True
    assert rising.all()


def naive_repeats(keys: list[int], chosen: list[int], skipped: int, bits: int) -> list[int]:
    cells = [(key << skipped & 2**64 - 1) >> 64 - bits for key in keys]
    counts = Counter(cell for cell, one in zip(cells, chosen, strict=True) if one)
    rows = zip(cells, chosen, strict=True)
    return [place for place, (cell, one) in enumerate(rows) if one and counts[cell] > 1]


@given(
    st.lists(st.tuples(st.one_of(words, st.integers(0, 5)), st.sampled_from([0, 1, 1, 3]))),
    st.sampled_from([0, 1, 7]),
    st.integers(2, 12),
    st.integers(0, 50),
)
def test_keys_are_counted_by_their_leading_bits(rows, skipped, bits, cut):
    keys = np.array([key for key, _ in rows], np.uint64)
    chosen = np.array([one for _, one in rows], np.uint8)
    cells, again = np.zeros(1 << (bits - 2), np.uint8), 0
    for part in (slice(cut), slice(cut, None)):
        again += kernels.count_keys(keys[part], chosen[part], cells, skipped, 64 - bits)
    found = kernels.find_repeats(keys, chosen, cells, skipped, 64 - bits).tolist()
    assert found == naive_repeats(keys.tolist(), chosen.tolist(), skipped, bits)
    cell_of = keys[chosen != 0] << np.uint64(skipped) >> np.uint64(64 - bits)
    assert again == len(cell_of) - len(np.unique(cell_of))
    assert len(found) <= 2 * again


@given(st.lists(st.one_of(words, st.integers(0, 9))))
def test_no_repeated_key_is_missed(keys):
    rows, chosen = np.array(keys, np.uint64), np.ones(len(keys), np.uint8)
    repeats = RepeatedKeys(len(keys))
    repeats.add(rows, chosen)
    assert set(naive_meeting(keys)[0]) <= set(repeats.find(rows, chosen).tolist())


def test_few_keys_seem_to_be_repeated():
    keys = np.random.default_rng(1).integers(0, 2**63, 100_000, np.uint64) << np.uint64(1)
    repeats, chosen = RepeatedKeys(len(keys)), np.ones(len(keys), np.uint8)
    assert repeats.add(keys, chosen) < 0.13 * len(keys)
    assert len(repeats.find(keys, chosen)) < 0.25 * len(keys)


@st.composite
def bucketed(draw):
    """Some buckets of ascending documents, and a byte of state for each document."""
    count = draw(st.integers(2, 20))
    buckets = draw(
        st.lists(
            st.lists(st.integers(0, count - 1), min_size=2, max_size=12, unique=True).map(sorted),
            max_size=5,
        )
    )
    # Kept or not, a candidate or not; few have changed, or every bucket would have.
    kinds = st.sampled_from([0, 1, 2, 3, 3, 3, 7])
    state = draw(st.lists(kinds, min_size=count, max_size=count))
    return buckets, np.array(state, np.uint8)


def pair(u: int, v: int, hot: bool = False) -> int:
    return v << 32 | u << 1 | hot


@given(bucketed())
def test_kept_members_are_counted(graph):
    buckets, state = graph
    members, starts = ragged(buckets, np.uint32)
    got = kernels.kept_in(members, starts, state).tolist()
    assert got == [sum(int(state[v]) & 1 for v in bucket) for bucket in buckets]


def all_pieces(give, buckets):
    """Call a kernel that goes on where it stopped, until the end; its pairs, and what else."""
    found, others, bucket, place = [], [], 0, 0
    while bucket < len(buckets):
        before = bucket, place
        pairs, bucket, place, *rest = give(bucket, place)
        assert (bucket, place) > before, "or it would never end"
        found += pairs.tolist()
        others.append(rest)
    return found, others


@given(
    bucketed(),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(0, 3),
    st.integers(1, 9),
    st.integers(0, 2),
    st.randoms(use_true_random=False),
)
def test_leaders_are_paired_with_later_members(graph, limit, most, fresh, room, shift, random):
    buckets, state = graph
    new = random.randrange(len(state) + 1)
    bound = np.array([random.randrange(6) for _ in state], np.uint8)
    members, starts = ragged(buckets, np.uint32)
    got, longest = all_pieces(
        lambda bucket, place: kernels.leader_pairs(
            members, starts, state, bound, shift, new, limit, fresh, most, bucket, place, room
        ),
        buckets,
    )
    want, leading = [], 0
    for bucket in buckets:
        hot = len(bucket) > limit
        changed = any(state[v] & 4 for v in bucket)
        for place, v in enumerate(bucket):
            leaders = [u for u in bucket[:place] if state[u] & 1][:limit]
            want += [
                pair(u, v, hot)
                for u in leaders[0 if hot or changed else fresh : most]
                if v >= new and (state[v] & 1 or u >> shift <= bound[v])
            ]
        leading = max(leading, min(sum(int(state[v]) & 1 for v in bucket), limit))
    assert got == want
    found = max((one for (one,) in longest), default=0)
    assert found <= leading
    if fresh < most:
        assert (found > most) == (leading > most), "whether more leaders have to be paired"


@given(
    bucketed(),
    st.integers(0, 4),
    st.integers(1, 8),
    st.integers(1, 15),
    st.integers(1, 9),
    st.randoms(use_true_random=False),
)
def test_members_are_paired_unless_they_are_connected(graph, fresh, most, last, room, random):
    buckets, state = graph
    new = random.randrange(len(state) + 1)
    roots = np.array([random.randrange(3) for _ in state], np.uint32)
    members, starts = ragged(buckets, np.uint32)
    got, _ = all_pieces(
        lambda bucket, place: kernels.member_pairs(
            members, starts, roots, new, fresh, most, last, bucket, place, room
        ),
        buckets,
    )
    assert got == [
        pair(u, v)
        for bucket in buckets
        for place, v in enumerate(bucket[:last])
        for u in bucket[fresh : min(place, most)]
        if v >= new and roots[u] != roots[v]
    ]


# -- who stays ----------------------------------------------------------------------------------


some_pairs = st.dictionaries(st.integers(0, 30), st.booleans())


@given(some_pairs, some_pairs)
def test_wanted_pairs_are_merged_into_known_ones(wanted, known):
    """A pair is hot (its lowest bit is set) if it is in all places where it occurs."""
    arrays = (
        np.array([pair << 1 | hot for pair, hot in sorted(side.items())], np.uint64)
        for side in (wanted, known)
    )
    got = [column.tolist() for column in kernels.merge_pairs(*arrays)]
    pairs = sorted({**wanted, **known})
    hot = [wanted.get(pair, True) and known.get(pair, True) for pair in pairs]
    assert got[0] == [pair << 1 | is_hot for pair, is_hot in zip(pairs, hot, strict=True)]
    assert got[1] == [pair in known for pair in pairs]
    assert got[2] == [pair in wanted for pair in pairs]
    assert got[3] == [known.get(pair) != is_hot for pair, is_hot in zip(pairs, hot, strict=True)]


@given(st.integers(2, 15), st.integers(0, 3), st.randoms(use_true_random=False))
def test_a_document_is_removed_by_the_best_ranked_kept_one_that_counts(count, shift, random):
    pairs = [(u, v) for v in range(count) for u in range(v) if random.random() < 0.5]
    similar = [random.choice([-1.0, 0.0, 0.5, 1.0]) for _ in pairs]
    marks = [random.randrange(2) for _ in pairs]
    state = np.array([random.choice([0, 1, 2, 3]) for _ in range(count)], np.uint8)
    bound = np.array([random.randrange(4) for _ in range(count)], np.uint8)
    kept = [bool(byte & 1) for byte in state.tolist()]
    others, bounds = (state & 2).tolist(), bound.tolist()
    deciding, anew = [], set()
    for v in sorted({v for _, v in pairs}):
        found = [
            place
            for place, (u, w) in enumerate(pairs)
            if w == v and similar[place] >= 0.0 and marks[place] and kept[u]
        ][:1]
        witness = [pairs[place][0] >> shift for place in found]
        if kept[v] == bool(found) or (found and witness[0] != bounds[v]):
            anew.add(v)
        kept[v], bounds[v] = not found, (witness or [bounds[v]])[0]
        deciding += found
    keys = np.array([pair(u, v, random.random() < 0.5) for u, v in pairs], np.uint64)
    got, changed = kernels.decide(
        keys, np.array(similar), np.array(marks, np.uint8), state, bound, shift
    )
    assert got.tolist() == deciding
    assert changed == bool(anew)
    assert bound.tolist() == bounds
    assert state.tolist() == [
        other | keep | 4 * (v in anew)
        for v, (other, keep) in enumerate(zip(others, kept, strict=True))
    ]


@given(st.integers(1, 30), st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29))))
def test_joined_documents_have_the_best_ranked_root(count, edges):
    edges = [(u, v) for u, v in edges if u < count and v < count]
    best = list(range(count))
    for _ in range(count):
        for u, v in edges:
            best[u] = best[v] = min(best[u], best[v])
    parent = np.arange(count, dtype=np.uint32)
    left, right = (np.array([edge[k] for edge in edges], np.int64) for k in (0, 1))
    middle = len(edges) // 2
    kernels.join_all(parent, left[:middle], right[:middle])
    kernels.to_roots(parent)
    kernels.join_all(parent, left[middle:], right[middle:])
    kernels.to_roots(parent)
    assert parent.tolist() == best


@given(st.integers(2, 14), st.randoms(use_true_random=False))
def test_documents_are_settled_as_far_as_possible(count, random):
    edges = sorted(
        (v, u)
        for v in range(count)
        for u in range(v)
        if random.random() < random.choice([0.1, 0.5])
    )
    known = [random.randrange(4) for _ in range(count)]
    status, bound, left = list(known), [0] * count, 0
    for v in sorted({v for v, _ in edges}):
        mine = [u for w, u in edges if w == v]
        kept = [u for u in mine if status[u] == 1]
        unknown = any(status[u] == 0 for u in mine if not kept or u < kept[0])
        if kept:
            status[v], bound[v] = 3 if unknown else 2, kept[0] >> 1
        else:
            status[v] = 0 if unknown else 1
        left += len(mine) * unknown
    got, bounds = np.array(known, np.uint8), np.zeros(count, np.uint8)
    pairs = np.array([pair(u, v, random.random() < 0.5) for v, u in edges], np.uint64)
    assert kernels.settle(np.sort(pairs), got, bounds, 1) == left
    assert got.tolist() == status
    assert bounds.tolist() == bound
