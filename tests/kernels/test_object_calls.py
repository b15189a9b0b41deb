"""Calls of kernels in shared objects: wrong arguments are refused, and memory is given back."""

from __future__ import annotations

import gc
import resource
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from neardup import kernels
from neardup.kernels import cache

needs_objects = pytest.mark.skipif(not cache.uses_objects(), reason="kernels are not objects here")


@pytest.mark.parametrize(
    "given",
    [
        (np.zeros(8, np.int64), 1, np.zeros(1, np.uint64), 0),
        (np.zeros((1, 8), np.uint64), 1, np.zeros(1, np.uint64), 0),
        (np.zeros(16, np.uint64)[::2], 1, np.zeros(1, np.uint64), 0),
        (np.zeros(65, np.uint8)[1:].view(np.uint64), 1, np.zeros(1, np.uint64), 0),
        (np.zeros(8, np.uint64).astype(">u8"), 1, np.zeros(1, np.uint64), 0),
        (np.zeros(8, np.uint64), 1.5, np.zeros(1, np.uint64), 0),
        (np.zeros(8, np.uint64), 1, [1], 0),
        (np.zeros(8, np.uint64), 1, np.zeros(1, np.uint64)),
        (np.zeros(8, np.uint64), 1, np.zeros(1, np.uint64), 0, 0),
        (np.zeros(8, np.uint64), 1, np.zeros(1, np.uint64), "0"),
    ],
)
@needs_objects
def test_object_refuses_arguments_of_other_types(given):
    with pytest.raises(TypeError, match="kernel bloom_contains takes"):
        kernels.bloom_contains(*given)


@needs_objects
def test_object_writes_only_to_arrays_that_may_be_written():
    words = np.zeros(8, np.uint64)
    words.flags.writeable = False
    keys = np.ones(1, np.uint64)
    assert not kernels.bloom_contains(words, 2, keys, 0)[0]
    with pytest.raises(TypeError, match="kernel bloom_insert takes"):
        kernels.bloom_insert(words, 2, keys, 0, 1)


ROW = np.frombuffer(b"one two three four", np.uint8)
WORDS = (ROW, np.array([0, 18]), np.zeros(8704, np.uint16), np.zeros(128, np.uint32), True, True)


@pytest.mark.parametrize(
    "hasher", [(0, 0), (0, 0, 0, 0), (0, 0.5, 0), [0, 0, 0], (0, np.zeros(1, np.uint64), 0), 0]
)
@needs_objects
def test_object_refuses_tuples_of_other_parts(hasher):
    with pytest.raises(TypeError, match=r"takes .*\(int64, uint64, uint64\)"):
        kernels.word_units(*WORDS, hasher)


@needs_objects
def test_object_refuses_names_of_arguments():
    with pytest.raises(TypeError, match="no keyword arguments"):
        kernels.block_fills(words=np.zeros(8, np.uint64))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64, np.uint16, ">u8"])
def test_kernel_refuses_arrays_that_no_signature_is_for(dtype):
    for signatures in (np.zeros((2, 8), dtype), np.zeros((2, 8, 1), np.uint32)):
        with pytest.raises((TypeError, ValueError)):
            kernels.transposed(signatures)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64, np.ulonglong])
def test_kernel_is_called_for_the_type_of_its_arguments(dtype):
    signatures = np.arange(40, dtype=dtype).reshape(4, 10)
    turned = kernels.transposed(signatures)
    assert turned.dtype == signatures.dtype
    assert turned.flags.writeable
    assert np.array_equal(turned, signatures.T)


def test_numbers_may_be_those_of_numpy():
    words, keys = np.zeros(8, np.uint64), np.ones(3, np.uint64)
    plain = kernels.bloom_contains(words, 2, keys, 0)
    assert np.array_equal(kernels.bloom_contains(words, np.int32(2), keys, np.uint64(0)), plain)
    with pytest.raises(OverflowError):
        kernels.bloom_contains(words, 1 << 70, keys, 0)


def test_call_keeps_no_reference_to_its_arguments():
    signatures = np.zeros((4, 10), np.uint32)
    before = sys.getrefcount(signatures)
    turned = [kernels.transposed(signatures) for _ in range(100)]
    assert sys.getrefcount(signatures) == before
    del signatures
    gc.collect()
    assert not any(one.any() for one in turned)


def test_memory_of_returned_arrays_is_freed():
    signatures = np.zeros((1000, 1000), np.uint32)
    kernels.transposed(signatures)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(200):  # 800 MB
        kernels.transposed(signatures)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_kernels_are_called_from_several_threads():
    signatures = np.arange(40_000, dtype=np.uint32).reshape(200, 200)
    with ThreadPoolExecutor(4) as pool:
        turned = list(pool.map(kernels.transposed, [signatures] * 200))
    assert all(np.array_equal(one, signatures.T) for one in turned)
