"""Combine unit hashes to shingle hashes and content hashes; sort rows and drop repeats."""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import I64, OUT_U8, OUT_U64, U8, U64, int64, kernel
from neardup.kernels.hashing import mix, xxh64

U = np.uint64
BASE = U(0x9E3779B97F4A7C15)
LENGTH = U(0xD6E8FEB86659FD93)


@kernel(U64, I64, int64)
def shingle(units, offsets, size):
    """Return the hash of every run of `size` units of each document, unsorted, with repeats."""
    rows = offsets.size - 1
    starts = np.zeros(rows + 1, np.int64)
    for i in range(rows):
        have = offsets[i + 1] - offsets[i]
        starts[i + 1] = starts[i] + (max(have - size + 1, 1) if have else 0)
    out = np.zeros(starts[rows], np.uint64)
    for i in range(rows):
        units_here = units[offsets[i] : offsets[i + 1]]
        here = out[starts[i] : starts[i + 1]]
        width = min(size, units_here.size)
        for term in range(width):
            for p in range(here.size):
                here[p] = here[p] * BASE + units_here[p + term]
        added = U(width) * LENGTH
        for p in range(here.size):
            here[p] = mix(here[p] + added)
    return out, starts


@kernel(U8, I64)
def content_hashes(unit_bytes, offsets):
    """Return a 128-bit hash of each document's unit hashes, which come as bytes, 8 a unit."""
    rows = offsets.size - 1
    out = np.empty((rows, 2), np.uint64)
    for i in range(rows):
        start, length = offsets[i] * 8, (offsets[i + 1] - offsets[i]) * 8
        out[i, 0] = xxh64(unit_bytes, start, length, U(1))
        out[i, 1] = xxh64(unit_bytes, start, length, U(2))
    return out


@kernel(OUT_U64, I64, int64)
def sort_short(values, offsets, longest):
    """Sort each row of at most `longest` values in place; longer rows are left as they are."""
    for i in range(offsets.size - 1):
        begin, end = offsets[i], offsets[i + 1]
        if end - begin > longest:
            continue
        for p in range(begin + 1, end):
            value, q = values[U(p)], p
            while q > begin and values[U(q - 1)] > value:
                values[U(q)] = values[U(q - 1)]
                q -= 1
            values[U(q)] = value


@kernel(U8, I64, I64, OUT_U8)
def copy_rows(data, starts, sizes, out):
    """Copy the rows data[starts[i] : starts[i] + sizes[i]] to `out`, one after the other."""
    at = 0
    for i in range(starts.size):
        out[at : at + sizes[i]] = data[starts[i] : starts[i] + sizes[i]]
        at += sizes[i]


@kernel(OUT_U64, I64)
def unique_sorted(values, offsets):
    """Drop repeats in each sorted row, in place, without gaps; return the new offsets."""
    rows = offsets.size - 1
    starts = np.zeros(rows + 1, np.int64)
    write = 0
    for i in range(rows):
        begin = write
        for p in range(offsets[i], offsets[i + 1]):
            if write == begin or values[p] != values[write - 1]:
                values[write] = values[p]
                write += 1
        starts[i + 1] = write
    return starts
