"""Lines and paragraphs: find them, hash them, count their documents, remove them from texts.

A line is identified by the hash of its folded and squeezed text, as in `units.py`. It ends at a
newline; a return before it belongs to the line break. A line is blank if it has no visible
character. A paragraph is a run of lines that are not blank.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.characters import DROPPED, NEWLINE, RETURN, SPACE, U, decode, entry
from neardup.kernels.compile import (
    HASHER,
    I64,
    OUT_U32_ROWS,
    U8,
    U16,
    U32,
    U32_ROWS,
    U64,
    boolean,
    inner,
    int64,
    kernel,
)
from neardup.kernels.hashing import xxh64
from neardup.kernels.units import hash_unit, longest, scratch, squeeze

FULL = np.uint32(2**32 - 1)


@inner
def place_in(ascending, value):
    """Return the place of a value in an ascending array, or -1."""
    low, high = 0, ascending.size
    while low < high:
        middle = (low + high) >> 1
        if ascending[U(middle)] < value:
            low = middle + 1
        else:
            high = middle
    return low if low < ascending.size and ascending[low] == value else -1


@inner
def end_of_line(data, at, end):
    while at < end and data[U(at)] != NEWLINE and data[U(at)] != RETURN:
        at += 1
    return at


@inner
def append(out, write, data, begin, end):
    """Copy data[begin:end] to out[write:]; return the position after it."""
    out[write : write + end - begin] = data[begin:end]
    return write + end - begin


@kernel(U8, I64, U8, I64, boolean, U16, U32, boolean, boolean, U64, HASHER)
def ignore_lines(
    data,
    offsets,
    plain,
    plain_offsets,
    same,
    stage1,
    stage2,
    fold_case,
    fold_digits,
    ignored,
    hasher,
):
    """Return the texts without the lines whose hashes are in `ignored`; line breaks stay.

    `plain` holds the texts in normal form, which have the same line breaks; with `same` it is
    `data` itself. A text that would lose all its lines keeps them.
    """
    rows = offsets.size - 1
    out = np.empty(offsets[rows] - offsets[0], np.uint8)
    starts = np.zeros(rows + 1, np.int64)
    buffer = scratch(longest(plain_offsets))
    rules, yes = (stage1, stage2, fold_case, fold_digits), rows >= 0
    write = 0
    for i in range(rows):
        at, end = offsets[i], offsets[i + 1]
        plain_at, plain_end = plain_offsets[i], plain_offsets[i + 1]
        done, kept = at, 0  # bytes before `done` are copied or ignored
        while plain_at < plain_end:
            plain_at, size = squeeze(plain, plain_at, plain_end, rules, yes, buffer)
            line_end = plain_at if same else end_of_line(data, at, end)
            if size and place_in(ignored, hash_unit(buffer, 0, size, hasher)) >= 0:
                write = append(out, write, data, done, at)
                done = line_end
            elif size:
                kept += 1
            plain_at, at = plain_at + 1, line_end + 1
        if not kept:
            write, done = starts[i], offsets[i]
        write = append(out, write, data, done, end)
        starts[i + 1] = write
    return out[:write], starts


@kernel(U8, I64, U16, U32, boolean, boolean, U64, HASHER, int64)
def line_texts(plain, offsets, stage1, stage2, fold_case, fold_digits, wanted, hasher, most):
    """Return the folded and squeezed text, up to `most` bytes, of each line with a wanted hash.

    `wanted` ascends. The results are bytes, and where each wanted line begins and ends in them.
    """
    rows = offsets.size - 1
    buffer = scratch(longest(offsets))
    out = np.empty(min(wanted.size * most, 2 * (offsets[rows] - offsets[0])), np.uint8)
    begins, ends = np.zeros(wanted.size, np.int64), np.zeros(wanted.size, np.int64)
    rules, yes = (stage1, stage2, fold_case, fold_digits), rows >= 0
    write, missing = 0, wanted.size
    for i in range(rows):
        at, end = offsets[i], offsets[i + 1]
        while at < end and missing:
            at, size = squeeze(plain, at, end, rules, yes, buffer)
            place = place_in(wanted, hash_unit(buffer, 0, size, hasher)) if size else -1
            if place >= 0 and ends[place] == 0:
                begins[place] = write
                write = append(out, write, buffer, 0, min(size, most))
                ends[place] = write
                missing -= 1
            at += 1
    return out[:write], begins, ends


@kernel(U64, I64)
def distinct_rows(values, offsets):
    """Return each row's values without repeats, in their order, and where each row begins."""
    rows = offsets.size - 1
    out, starts = np.empty(values.size, np.uint64), np.zeros(rows + 1, np.int64)
    size = 1
    while size < 2 * longest(offsets):
        size *= 2
    # One hash table for all rows: a slot is taken if it is stamped with the row's number.
    seen, stamp, mask = np.empty(size, np.uint64), np.full(size, -1, np.int64), U(size - 1)
    write = 0
    for i in range(rows):
        for p in range(offsets[i], offsets[i + 1]):
            slot = values[p] & mask
            while stamp[slot] == i and seen[slot] != values[p]:
                slot = (slot + U(1)) & mask
            if stamp[slot] != i:
                stamp[slot], seen[slot] = i, values[p]
                out[write] = values[p]
                write += 1
        starts[i + 1] = write
    return out[:write], starts


@inner
def counter_of(line, row, slots):
    """Return a line's counter: in row 0 by the lower half of its hash, in row 1 by the upper."""
    return (line >> U(32 * row)) & U(slots - 1)


@kernel(U64, OUT_U32_ROWS)
def count_lines(lines, table):
    """Add one to the counters of each line, in both rows; a full counter stays full."""
    for row in range(table.shape[0]):
        for i in range(lines.size):
            at = counter_of(lines[i], row, table.shape[1])
            if table[row, at] != FULL:
                table[row, at] += np.uint32(1)


@kernel(U64, U32_ROWS, int64)
def lines_above(lines, table, limit):
    """Return the lines whose counters are all above the limit; rows have a power of two."""
    out = np.empty(lines.size, np.uint64)
    write = 0
    for i in range(lines.size):
        least = np.int64(FULL)
        for row in range(table.shape[0]):
            least = min(least, np.int64(table[row, counter_of(lines[i], row, table.shape[1])]))
        if least > limit:
            out[write] = lines[i]
            write += 1
    return out[:write]


@inner
def visible(data, at, end, stage1, stage2, most):
    """Count the characters that are neither white space nor dropped, up to `most`."""
    count = 0
    while at < end and count < most:
        code, length = decode(data, at)
        kind = entry(code, stage1, stage2) & 7
        if kind != SPACE and kind != DROPPED:
            count += 1
        at += length
    return count


@inner
def line_at(data, at, end):
    """Return where the line at `at` ends without its line break, and where the next begins."""
    stop = at
    while stop < end and data[U(stop)] != NEWLINE:
        stop += 1
    if stop == end:
        return end, end
    cut = stop - 1 if stop > at and data[U(stop - 1)] == RETURN else stop
    return cut, stop + 1


@inner
def most_lines(data, offsets):
    """Return an upper bound of the number of lines: newlines, and one a text."""
    rows = offsets.size - 1
    count = rows
    for at in range(offsets[0], offsets[rows]):
        count += data[U(at)] == NEWLINE
    return count


@kernel(U8, I64, U16, U32, boolean, int64)
def parts(data, offsets, stage1, stage2, paragraphs, least):
    """Find the lines, or paragraphs, with `least` > 0 visible characters or more.

    Returns where each part begins, ends, and ends with its line break; the number of each text's
    first part; and how many parts of any size each text has.
    """
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
    """Return a 128-bit hash of each data[begins[i] : ends[i]]."""
    out = np.empty((begins.size, 2), np.uint64)
    for i in range(begins.size):
        out[i, 0] = xxh64(data, begins[i], ends[i] - begins[i], U(1))
        out[i, 1] = xxh64(data, begins[i], ends[i] - begins[i], U(2))
    return out


@kernel(U8, I64, I64, I64, I64, U8)
def without_parts(data, offsets, begins, nexts, firsts, removed):
    """Return the texts without the parts, and their line breaks, where `removed` is not 0."""
    rows = offsets.size - 1
    out = np.empty(offsets[rows] - offsets[0], np.uint8)
    starts = np.zeros(rows + 1, np.int64)
    write = 0
    for i in range(rows):
        done = offsets[i]
        for part in range(firsts[i], firsts[i + 1]):
            if removed[part]:
                write = append(out, write, data, done, begins[part])
                done = nexts[part]
        write = append(out, write, data, done, offsets[i + 1])
        starts[i + 1] = write
    return out[:write], starts
