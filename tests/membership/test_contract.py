"""What every filter promises; each kind is in the list at the head."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import xxhash

from neardup import (
    BloomFilter,
    CountingBloomFilter,
    CuckooFilter,
    ExactSet,
    ScalableBloomFilter,
    load_filter,
    save_filter,
)
from neardup.errors import FilterFull, FormatError, ParameterError, SpecMismatch, UsageError
from neardup.membership.bloom import MOST_GENERATIONS, share
from neardup.membership.filter import Filter
from neardup.reference.hashes import siphash

Make = Callable[[int], Filter]

FILTERS: dict[str, Make] = {
    "set": lambda n: ExactSet(),
    "set of 64 bits": lambda n: ExactSet(n, bits=64, seed=3),
    "bloom": lambda n: BloomFilter(n, 0.01),
    "strict bloom": lambda n: BloomFilter(n, 0.0001, seed=2**64 - 1),
    "counting": lambda n: CountingBloomFilter(n, 0.01),
    "cuckoo": lambda n: CuckooFilter(n),
    "scalable": lambda n: ScalableBloomFilter(n // 50 + 1, 0.01),
}
"""Made for so many keys; the scalable one for far fewer."""
RATES = {
    "set": 0,
    "set of 64 bits": 0,
    "bloom": 0.01,
    "strict bloom": 0.0001,
    "counting": 0.01,
    "cuckoo": 0.0018,
    "scalable": 0.01,
}
REMOVING = ["set", "set of 64 bits", "counting", "cuckoo"]
KEYS, OTHERS = [f"key {i}" for i in range(20_000)], [f"other {i}" for i in range(20_000)]


@pytest.fixture(params=FILTERS)
def make(request: pytest.FixtureRequest) -> Make:
    return FILTERS[request.param]


@pytest.fixture(params=REMOVING)
def removing(request: pytest.FixtureRequest) -> Make:
    return FILTERS[request.param]


def test_inserted_keys_are_present(make):
    seen = make(len(KEYS))
    for start in range(0, len(KEYS), 3_000):
        seen.insert_many(KEYS[start : start + 3_000])
        assert seen.contains_many(KEYS[: start + 3_000]).all()
    assert KEYS[7] in seen


def test_an_empty_filter_contains_no_key(make):
    seen = make(100)
    assert len(seen) == 0 and seen.estimated_fpr == 0
    assert not seen.contains_many(OTHERS).any()
    assert seen.contains_many([]).tolist() == seen.insert_many([]).tolist() == []


@pytest.mark.parametrize("name", FILTERS)
def test_false_positive_rate_is_the_planned_one(name):
    """200,000 keys, a million others: within 10 % and four standard deviations of the target;
    the scalable one stays below it."""
    chance = np.random.Generator(np.random.PCG64(1))
    keys, others = (chance.integers(0, 2**64, n, np.uint64) for n in (200_000, 1_000_000))
    if name == "set":
        keys, others = (np.stack([some, some], axis=1) for some in (keys, others))
    seen = FILTERS[name](len(keys))
    seen.insert_many(keys)
    rate, wanted = seen.contains_many(others).mean(), RATES[name]
    noise = 4 * (wanted / len(others)) ** 0.5 + 1e-9
    assert abs(rate - seen.estimated_fpr) <= 0.03 * wanted + noise
    assert rate <= 1.1 * wanted + noise
    if name != "scalable":
        assert rate >= 0.9 * wanted - noise


def test_a_bloom_filter_of_one_percent_takes_less_than_ten_bits_a_key():
    assert BloomFilter(10**6, 0.01).nbytes * 8 / 10**6 == pytest.approx(9.6, rel=0.15)


def test_repeats_count_in_one_batch_and_between_batches(make):
    one, other = make(1000), make(1000)
    keys = ["a", "b", "a", "c", "b", "a"]
    expected = [False, False, True, False, True, True]
    assert one.insert_many(keys, once=True).tolist() == expected
    assert [other.insert(key, once=True) for key in keys] == expected
    assert len(one) == len(other) == 3
    assert one.insert_many(keys).all()


def test_equal_bytes_are_one_key_in_every_type(make):
    words = ["", "a", "ä漢🎉", "x" * 100, "key"]
    data = [word.encode() for word in words]
    forms = [
        words,
        data,
        tuple(words),
        (word for word in words),
        np.array(words, object),
        pa.array(words),
        pa.array(words, pa.large_string()),
        pa.array(data),
        pa.array(["0", *words])[1:],
        pa.chunked_array([words[:2], [], words[2:]]),
        pa.array(data, pa.large_binary()),
        pa.array(words).dictionary_encode(),
        pa.array(words, pa.string_view()),
        pl.Series(words),
        pl.Series(words, dtype=pl.Categorical),
    ]
    for form in forms:
        seen = make(100)
        assert not seen.insert_many(form).any()
        assert seen.contains_many(words).all()
        assert all(word in seen for word in words) and all(some in seen for some in data)


def test_uint64_keys_are_used_as_hashes(make):
    seen = make(1000)
    hashes = np.arange(200, dtype=np.uint64)
    if isinstance(seen, ExactSet) and seen.bits == 128:
        hashes = hashes.reshape(100, 2)
        with pytest.raises(ParameterError, match="bits=64"):
            seen.insert(5)
    else:
        assert not seen.insert(5) and 5 in seen and np.uint64(5) in seen
        assert seen.contains_many(pa.array([5], pa.uint64())).all()
        assert seen.remove(5) if seen.kind in ("set", "counting", "cuckoo") else True
    assert seen.insert_many(hashes).sum() <= 1
    assert seen.contains_many(hashes).all() and seen.contains_many(hashes[::2]).all()


WRONG = {
    "one string": "one",
    "bytes": b"one",
    "a number": 5,
    "nothing": None,
    "numbers": [1, 2],
    "a null": ["a", None],
    "signed": np.arange(3),
    "rows of three": np.zeros((2, 3), np.uint64),
    "floats": pa.array([1.5]),
    "an Arrow null": pa.array(["a", None]),
    "reals": np.array([1.0]),
    "a null word": pa.DictionaryArray.from_arrays(np.array([0, 1]), pa.array(["a", None])),
    "a null number": pa.array([1, None], pa.uint64()),
}


@pytest.mark.parametrize("keys", WRONG.values(), ids=WRONG)
def test_invalid_batches_of_keys_are_refused(make, keys):
    seen = make(100)
    for method in (seen.insert_many, seen.contains_many):
        with pytest.raises(ParameterError):
            method(keys)
    assert len(seen) == 0


@pytest.mark.parametrize("key", [None, 1.5, True, -1, 2**64, ["a"]], ids=repr)
def test_an_invalid_key_is_refused(make, key):
    with pytest.raises(ParameterError):
        make(100).insert(key)


def test_removing_inserted_keys_leaves_the_others(removing):
    seen = removing(len(KEYS))
    seen.insert_many(KEYS)
    assert seen.remove_many(KEYS[::2]).all()
    assert seen.contains_many(KEYS[1::2]).all()
    assert seen.contains_many(KEYS[::2]).mean() < 0.01
    assert len(seen) == len(KEYS) // 2
    assert seen.remove(KEYS[1]) and seen.remove_many(KEYS[3::2]).all()
    assert len(seen) == 0 and seen.estimated_fpr == 0, "nothing is left of them"


def test_removing_a_missing_key_changes_nothing(removing):
    seen = removing(1000)
    seen.insert_many(KEYS[:100])
    assert not seen.remove("another") and not seen.remove_many(OTHERS[:10]).any()
    assert len(seen) == 100 and seen.contains_many(KEYS[:100]).all()


@pytest.mark.parametrize("name", ["bloom", "strict bloom", "scalable"])
def test_removing_from_a_bloom_filter_is_refused(name):
    seen = FILTERS[name](100)
    seen.insert("a")
    with pytest.raises(UsageError, match=r"can't forget.*CountingBloomFilter, CuckooFilter"):
        seen.remove("a")
    assert "a" in seen


@pytest.mark.parametrize("name", ["counting", "cuckoo"])
def test_keys_inserted_twice_are_removed_twice(name):
    seen = FILTERS[name](100)
    seen.insert_many(["a", "a"])
    assert len(seen) == 2
    assert seen.remove("a") and "a" in seen
    assert seen.remove("a") and "a" not in seen


def test_a_saved_filter_loads_equal(make, tmp_path):
    seen = make(len(KEYS))
    seen.insert_many(KEYS)
    save_filter(seen, tmp_path / "f")
    loaded = load_filter(tmp_path / "f")
    assert type(loaded) is type(seen) and len(loaded) == len(seen)
    assert loaded.estimated_fpr == seen.estimated_fpr
    asked = KEYS + OTHERS
    assert (loaded.contains_many(asked) == seen.contains_many(asked)).all()
    more = [f"more {i}" for i in range(500)]
    assert (loaded.insert_many(more) == seen.insert_many(more)).all()
    assert (loaded.contains_many(asked) == seen.contains_many(asked)).all()
    before = load_filter(tmp_path / "f")
    assert before.contains_many(more).mean() < 0.05, "the file is as it was"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_pickled_filter_is_equal(make):
    seen = make(100)
    seen.insert_many(KEYS[:50])
    twin = pickle.loads(pickle.dumps(seen))
    assert type(twin) is type(seen) and len(twin) == len(seen)
    assert twin.contains_many(KEYS[:50]).all()
    twin.insert_many(OTHERS[:50])
    assert seen.contains_many(OTHERS[:50]).mean() < 0.5


def test_a_filter_unpickled_from_read_only_memory_is_writable(make):
    seen = make(100)
    seen.insert("a")
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(seen, protocol=5, buffer_callback=buffers.append)
    twin = pickle.loads(data, buffers=[bytes(some) for some in buffers])
    assert buffers and not twin.insert("b") and twin.contains_many(["a", "b"]).all()


def test_truncated_altered_and_foreign_files_are_refused(make, tmp_path):
    seen = make(50)
    seen.insert_many(KEYS[:40])
    path = tmp_path / "filter.nd"
    save_filter(seen, path)
    whole = path.read_bytes()
    bad = [b"", b"ndfilter", b"{}" * 100, whole + b"\0", whole[:8] + b"\7" + whole[9:]]
    bad += [whole[:end] for end in range(0, len(whole), len(whole) // 23 + 1)]
    # Only the zeros between the arrays, and before them, are in no checksum.
    covered = [at for at in range(0, len(whole), 37) if whole[at]]
    bad += [whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :] for at in covered]
    for data in bad:
        path.write_bytes(data)
        with pytest.raises(FormatError, match=r"filter\.nd"):
            load_filter(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FormatError, match=r"nowhere.*check the name"):
        load_filter(tmp_path / "nowhere")


def test_saving_another_object_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="not dict"):
        save_filter({}, tmp_path / "f")  # type: ignore[arg-type]


def test_no_key_is_lost_between_threads(make):
    seen = make(len(KEYS))
    found = list[int]()

    def work(start: int) -> None:
        there = [
            seen.insert_many(KEYS[at : at + 100], once=True) for at in range(start, len(KEYS), 400)
        ]
        found.append(int(np.concatenate(there).sum()))

    threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen.contains_many(KEYS).all()
    assert len(seen) == len(KEYS) - sum(found), "no insert got lost"


def test_seeds_have_different_false_positives():
    one, other = BloomFilter(1000, 0.05), BloomFilter(1000, 0.05, seed=1)
    one.insert_many(KEYS[:1000])
    other.insert_many(KEYS[:1000])
    both = one.contains_many(OTHERS) & other.contains_many(OTHERS)
    assert both.mean() < 0.01, "about 0.05 * 0.05"


@pytest.mark.parametrize("kind", [BloomFilter, CountingBloomFilter, ScalableBloomFilter])
@pytest.mark.parametrize(
    "n, fpr",
    [
        (0, 0.01),
        (-5, 0.01),
        (2.5, 0.01),
        ("9", 0.01),
        (10**14, 0.01),
        (True, 0.01),
        (10, 0),
        (10, 1),
        (10, -0.1),
        (10, 1.5),
        (10, float("nan")),
        (10, "1%"),
        (10, None),
        (10, 1e-300),
    ],
)
def test_invalid_parameters_are_refused(kind, n, fpr):
    with pytest.raises(ParameterError):
        kind(n, fpr)


def test_invalid_parameters_of_one_class_are_refused():
    for make in (
        lambda: CuckooFilter(0),
        lambda: CuckooFilter(2**70),
        lambda: ExactSet(-1),
        lambda: ExactSet(bits=32),
        lambda: BloomFilter(5, seed=-1),
        lambda: CuckooFilter(5, seed=2**64),
    ):
        with pytest.raises(ParameterError):
            make()


def test_a_filter_that_does_not_fit_into_memory_is_refused():
    with pytest.raises(ParameterError, match="does not fit into memory: plan for fewer"):
        BloomFilter(10**13, 1e-9)


def test_merged_bloom_filters_have_the_keys_of_both():
    one, other, whole = (BloomFilter(20_000, 0.01, seed=5) for _ in range(3))
    one.insert_many(KEYS[:12_000])
    other.insert_many(KEYS[8_000:])
    whole.insert_many(KEYS)
    one.merge(other)
    asked = KEYS + OTHERS
    assert (one.contains_many(asked) == whole.contains_many(asked)).all()
    assert one.fill == whole.fill and one.estimated_fpr == whole.estimated_fpr
    assert len(one) == pytest.approx(20_000, rel=0.02)
    one.merge(one)
    assert one.fill == whole.fill


def test_merging_an_empty_filter_keeps_the_count():
    one, empty = BloomFilter(1000), BloomFilter(1000)
    one.insert_many(KEYS[:500])
    count = len(one)
    one.merge(empty)
    assert len(one) == count and len(empty) == 0
    empty.merge(one)
    assert len(empty) == count and empty.contains_many(KEYS[:500]).all()


@pytest.mark.parametrize(
    "other",
    [
        BloomFilter(1000, 0.01),
        BloomFilter(100, 0.1),
        BloomFilter(100, 0.01, seed=1),
    ],
)
def test_bloom_filters_of_other_shape_or_seed_are_not_merged(other):
    with pytest.raises(SpecMismatch, match="same n, fpr and seed"):
        BloomFilter(100, 0.01).merge(other)


def test_only_bloom_filters_are_merged():
    with pytest.raises(ParameterError, match="not CuckooFilter"):
        BloomFilter(100).merge(CuckooFilter(100))  # type: ignore[arg-type]


def test_saturated_counters_stay():
    seen = CountingBloomFilter(100)
    seen.insert_many(["a"] * 20)
    assert seen.saturated > 0
    assert seen.remove_many(["a"] * 40).all() and "a" in seen, "nobody knows how often it was in"
    assert len(seen) == 0 and not seen


def test_a_full_cuckoo_filter_raises_and_stays_usable():
    seen = CuckooFilter(2_000)
    with pytest.raises(FilterFull, match=r"full at .* of .* places.*remove some, or make") as error:
        seen.insert_many(KEYS)
    taken = error.value.taken
    assert seen.load >= 0.93 and taken == len(seen) >= 2_000
    assert seen.contains_many(KEYS[:taken]).all(), "nothing is lost"
    with pytest.raises(FilterFull):
        seen.insert_many(KEYS[taken:])
    assert seen.contains_many(KEYS[: len(seen)]).all()
    assert seen.remove_many(KEYS[:500]).all()
    assert len(seen.insert_many(OTHERS[:400])) == 400
    assert seen.contains_many(KEYS[500:taken]).all() and seen.contains_many(OTHERS[:400]).all()


def test_a_cuckoo_filter_holds_the_planned_keys():
    for n in [*range(1, 60), 100, 1000, 50_000]:
        for seed in range(5 if n < 50_000 else 1):
            seen = CuckooFilter(n, seed=seed)
            keys = [f"{seed} {i}" for i in range(n)]
            seen.insert_many(keys)
            assert seen.contains_many(keys).all()
    assert seen.load >= 0.93


def test_one_key_fits_into_a_cuckoo_filter_eight_times():
    seen = CuckooFilter(1000)
    seen.insert_many(["a"] * 8)
    with pytest.raises(FilterFull, match="eight times at most"):
        seen.insert("a")
    assert seen.insert("a", once=True) and len(seen) == 8
    assert seen.remove_many(["a"] * 9).tolist() == [True] * 8 + [False]


def test_a_scalable_filter_keeps_its_rate_beyond_the_plan():
    chance = np.random.Generator(np.random.PCG64(2))
    seen = ScalableBloomFilter(1_000, 0.01)
    for _ in range(10):
        seen.insert_many(chance.integers(0, 2**64, 10_000, np.uint64))
    rate = seen.contains_many(chance.integers(0, 2**64, 200_000, np.uint64)).mean()
    assert seen.generations == 7 and rate < 0.011
    assert rate == pytest.approx(seen.estimated_fpr, rel=0.15)


def test_a_scalable_filter_grows_at_low_rates_or_is_refused_at_once():
    seen = ScalableBloomFilter(10, 1e-12)
    assert not seen.insert_many(np.arange(100_000, dtype=np.uint64)).any()
    assert seen.generations == 14 and 0 < seen.estimated_fpr < 1e-12
    with pytest.raises(ParameterError, match="use ExactSet, or a higher rate"):
        ScalableBloomFilter(10, 1e-15)


def test_all_generations_together_keep_the_rate():
    shares = [share(generation) for generation in range(MOST_GENERATIONS)]
    assert shares[0] == 0.5 and 0.97 < sum(shares) < 1


def test_a_scalable_filter_does_not_grow_by_repeats():
    seen = ScalableBloomFilter(1_000, 0.01)
    for _ in range(50):
        seen.insert_many(KEYS[:900])
    assert seen.generations == 1


def test_the_second_half_of_a_key_is_another_hash():
    """Texts that are made for XXH64 with the seeds 0 and 1 at once: two words, 32 bytes apart."""
    one, other = (
        bytes.fromhex(first)
        + b" is the middle of this, "
        + bytes.fromhex(second)
        + b" and this is its end    "
        for first, second in (
            ("f5b165224a58b791", "7bd5d47e446fcec2"),
            ("f5b165224a58b711", "7bd5d4be166f86f4"),
        )
    )
    for seed in (0, 1):
        assert xxhash.xxh64_digest(one, seed) == xxhash.xxh64_digest(other, seed)
        assert ExactSet(bits=64, seed=seed).insert_many([one, other]).tolist() == [False, True]
        assert not ExactSet(seed=seed).insert_many([one, other]).any()
        halves = [xxhash.xxh64_intdigest(one, seed), siphash(one, seed.to_bytes(16, "little"))]
        seen = ExactSet(seed=seed)
        seen.insert_many(np.array([halves], np.uint64))
        assert one in seen and other not in seen
