"""Texts to their lines or paragraphs, these to hashes, and texts without some of them.

A line ends at a newline; a return before it belongs to the line break. A line is blank if it has
nothing visible in it. A paragraph is a run of lines that are not blank.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.characters import DROPPED, NEWLINE, RETURN, SPACE, U, decode, entry
from neardup.kernels.compile import I64, U8, U16, U32, boolean, inner, int64, kernel
from neardup.kernels.hashing import xxh64
from neardup.kernels.lines import append


@inner
def visible(data, at, end, stage1, stage2, most):
    """How many characters are neither white space nor dropped; counted up to `most`."""
    found = 0
    while at < end and found < most:
        code, length = decode(data, at)
        kind = entry(code, stage1, stage2) & 7
        if kind != SPACE and kind != DROPPED:
            found += 1
        at += length
    return found


@inner
def line_at(data, at, end):
    """Where the line that begins here ends without its line break, and where the next begins."""
    stop = at
    while stop < end and data[U(stop)] != NEWLINE:
        stop += 1
    if stop == end:
        return end, end
    cut = stop - 1 if stop > at and data[U(stop - 1)] == RETURN else stop
    return cut, stop + 1


@inner
def most_lines(data, offsets):
    """No text has more lines than newlines and one."""
    rows = offsets.size - 1
    count = rows
    for at in range(offsets[0], offsets[rows]):
        count += data[U(at)] == NEWLINE
    return count


@kernel(U8, I64, U16, U32, boolean, int64)
def parts(data, offsets, stage1, stage2, paragraphs, least):
    """The parts with `least` > 0 visible characters or more: where each begins, ends, ends with
    its line break; where each text's first one is; and how many parts of any size a text has."""
    rows = offsets.size - 1
    room = most_lines(data, offsets)
    begins, ends, nexts = (
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
    )
    firsts, counts = np.zeros(rows + 1, np.int64), np.zeros(rows, np.int64)
    write = 0
    for i in range(rows):
        at, end = offsets[i], offsets[i + 1]
        size = 0  # visible characters of the part that is open; its places are written already
        while at < end:
            line_end, after = line_at(data, at, end)
            seen = visible(data, at, line_end, stage1, stage2, max(least - size, 1))
            if seen and size == 0:
                begins[write] = at
                counts[i] += 1
            if seen:
                ends[write], nexts[write] = line_end, after
                size += seen
            if seen == 0 or not paragraphs:
                write += size >= least
                size = 0
            at = after
        write += size >= least
        firsts[i + 1] = write
    return begins[:write], ends[:write], nexts[:write], firsts, counts


@kernel(U8, I64, I64)
def span_hashes(data, begins, ends):
    """128 bits for each stretch of bytes."""
    out = np.empty((begins.size, 2), np.uint64)
    for i in range(begins.size):
        out[i, 0] = xxh64(data, begins[i], ends[i] - begins[i], U(1))
        out[i, 1] = xxh64(data, begins[i], ends[i] - begins[i], U(2))
    return out


@kernel(U8, I64, I64, I64, I64, U8)
def without_parts(data, offsets, begins, nexts, firsts, gone):
    """The texts without the parts, and their line breaks, where `gone` is not 0."""
    rows = offsets.size - 1
    out = np.empty(offsets[rows] - offsets[0], np.uint8)
    starts = np.zeros(rows + 1, np.int64)
    write = 0
    for i in range(rows):
        left = offsets[i]
        for part in range(firsts[i], firsts[i + 1]):
            if gone[part]:
                write = append(out, write, data, left, begins[part])
                left = nexts[part]
        write = append(out, write, data, left, offsets[i + 1])
        starts[i + 1] = write
    return out[:write], starts
