"""UTF-8 text to the hashes of its units: words, characters or lines.

`stage1` and `stage2` are the two-stage character table of `text/tables.py`; an entry packs a
character's class, its NFC quick check, its combining class and what it is folded to. Input is
valid UTF-8: the corpus room has rejected everything else.

What was tried for words (one core, 3 KB documents): classify by table into a mask array, then
find boundaries, then hash: 345 MB/s. Classifying eight bytes at a time inside a 64-bit word,
packing 64 flags into one mask and jumping from set bit to set bit: 580 MB/s.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import I64, U8, U16, U32, boolean, inline, inner, kernel, uint64
from neardup.kernels.hashing import load64, store64, trailing_zeros, xxh64, xxh64_short

U = np.uint64
OTHER, WORD, ALONE, MARK, DROPPED, SPACE = 0, 1, 2, 3, 4, 5
NEWLINE, RETURN = 10, 13

ONES = U(0x0101010101010101)
HIGH = U(0x8080808080808080)
FROM_UPPER, PAST_UPPER = ONES * U(0x80 - 65), ONES * U(0x80 - 91)
FROM_LOWER, PAST_LOWER = ONES * U(0x80 - 97), ONES * U(0x80 - 123)
FROM_DIGIT, PAST_DIGIT = ONES * U(0x80 - 48), ONES * U(0x80 - 58)
UNDERSCORES, SEVENS = ONES * U(95), ONES * U(0x7F)
GATHER = U(0x0002040810204081)


@inner
def decode(data, at):
    """The code point at a position, and its length in bytes."""
    first = np.int64(data[at])
    if first < 0x80:
        return first, 1
    second = np.int64(data[at + 1]) & 0x3F
    if first < 0xE0:
        return (first & 0x1F) << 6 | second, 2
    third = np.int64(data[at + 2]) & 0x3F
    if first < 0xF0:
        return (first & 0x0F) << 12 | second << 6 | third, 3
    return (first & 0x07) << 18 | second << 12 | third << 6 | (np.int64(data[at + 3]) & 0x3F), 4


@inner
def encode(out, at, code):
    """Write a code point as UTF-8; returns the position after it."""
    if code < 0x80:
        out[at] = code
        return at + 1
    if code < 0x800:
        out[at] = 0xC0 | code >> 6
        out[at + 1] = 0x80 | code & 0x3F
        return at + 2
    if code < 0x10000:
        out[at] = 0xE0 | code >> 12
        out[at + 1] = 0x80 | code >> 6 & 0x3F
        out[at + 2] = 0x80 | code & 0x3F
        return at + 3
    out[at] = 0xF0 | code >> 18
    out[at + 1] = 0x80 | code >> 12 & 0x3F
    out[at + 2] = 0x80 | code >> 6 & 0x3F
    out[at + 3] = 0x80 | code & 0x3F
    return at + 4


@inline
def entry(code, stage1, stage2):
    return np.int64(stage2[np.int64(stage1[code >> 7]) << 7 | code & 127])


@inline
def folded(code, packed):
    """What the profile makes of a character: the entry holds what to add, mod 2^21."""
    return (code + (packed >> 10)) & 0x1FFFFF


@inline
def classify(bytes8, fold_case, fold_digits):
    """Eight ASCII bytes at once: folded, and 0x80 in each byte that belongs to a word."""
    upper = (bytes8 + FROM_UPPER) & ~(bytes8 + PAST_UPPER) & HIGH
    lower = bytes8 | (upper >> U(2))
    alpha = (lower + FROM_LOWER) & ~(lower + PAST_LOWER)
    digit = (bytes8 + FROM_DIGIT) & ~(bytes8 + PAST_DIGIT) & HIGH
    under = ~((bytes8 ^ UNDERSCORES) + SEVENS)
    kept = lower if fold_case else bytes8
    if fold_digits:
        kept &= ~((digit >> U(7)) * U(0x0F))
    return kept, (alpha | digit | under) & HIGH


@inline
def ascii64(data, at):
    every = U(0)
    for i in range(8):
        every |= load64(data, at + 8 * i)
    return every & HIGH == U(0)


@inline
def gather(flags):
    """The eight 0x80 flags of a word as eight bits."""
    return ((flags >> U(7)) * GATHER >> U(49)) & U(0xFF)


@inline
def hash_unit(buffer, start, length, seed):
    if length < 8:
        return xxh64_short(load64(buffer, start), length, seed)
    return xxh64(buffer, start, length, seed)


@inline
def emit_ended(flags, within, carry, base, start, buffer, seed, out, count):
    """Hash every word that ends inside the flagged bytes at buffer[base:]."""
    edges = (flags ^ ((flags << U(1)) | carry)) & within
    while edges != U(0):
        bit = trailing_zeros(edges)
        edges &= edges - U(1)
        if (flags >> U(bit)) & U(1):
            start = base + bit
        else:
            out[count] = hash_unit(buffer, start, base + bit - start, seed)
            count += 1
    return start, count


@inner
def words_of(data, begin, end, stage1, stage2, fold_case, fold_digits, seed, buffer, out, count):
    """Append the hashes of one text's words to out[count:]; returns the new count."""
    at, write, start, state = begin, 0, 0, OTHER
    while at < end:
        if state == OTHER:
            write = 0
        if at + 8 <= end:
            first8 = load64(data, at)
            if first8 & HIGH == U(0):
                if state == ALONE:  # ASCII has no marks: the character by itself is complete
                    out[count] = hash_unit(buffer, start, write - start, seed)
                    count += 1
                    state = OTHER
                carry = U(1) if state == WORD else U(0)
                size = 64 if at + 64 <= end and ascii64(data, at) else 8
                if size == 64:
                    flags = U(0)
                    for i in range(8):
                        eight, part = classify(load64(data, at + 8 * i), fold_case, fold_digits)
                        store64(buffer, write + 8 * i, eight)
                        flags |= gather(part) << U(8 * i)
                    start, count = emit_ended(
                        flags, ~U(0), carry, write, start, buffer, seed, out, count
                    )
                else:
                    eight, part = classify(first8, fold_case, fold_digits)
                    store64(buffer, write, eight)
                    flags = gather(part)
                    start, count = emit_ended(
                        flags, U(0xFF), carry, write, start, buffer, seed, out, count
                    )
                state = WORD if (flags >> U(size - 1)) & U(1) else OTHER
                at += size
                write += size
                continue
        code, length = decode(data, at)
        at += length
        packed = entry(code, stage1, stage2)
        kind = packed & 7
        if kind == DROPPED:
            continue
        if (kind == WORD and state == WORD) or (kind == MARK and state != OTHER):
            write = encode(buffer, write, folded(code, packed))
            continue
        if state != OTHER:
            out[count] = hash_unit(buffer, start, write - start, seed)
            count += 1
            state = OTHER
        if kind in (WORD, ALONE):
            start = write
            write = encode(buffer, write, folded(code, packed))
            state = kind
    if state != OTHER:
        out[count] = hash_unit(buffer, start, write - start, seed)
        count += 1
    return count


@inner
def squeezed_of(data, begin, end, stage1, stage2, per_char, per_line, seed, buffer, out, count):
    """Append the hashes of a text's characters, lines, or of the whole as one unit.

    Runs of white space count as one space, and none at the beginning or end of a unit.
    """
    at, write, gap = begin, 0, False
    while at < end:
        code, length = decode(data, at)
        at += length
        if per_line and code in (NEWLINE, RETURN):
            if write:
                out[count] = hash_unit(buffer, 0, write, seed)
                count += 1
            write, gap = 0, False
            continue
        packed = entry(code, stage1, stage2)
        kind = packed & 7
        if kind == DROPPED:
            continue
        if kind == SPACE:
            gap = write > 0
            continue
        if per_char:
            if gap:
                buffer[0] = 32
                out[count] = hash_unit(buffer, 0, 1, seed)
                count += 1
            write = encode(buffer, 0, folded(code, packed))
            out[count] = hash_unit(buffer, 0, write, seed)
            count += 1
        else:
            if gap:
                buffer[write] = 32
                write += 1
            write = encode(buffer, write, folded(code, packed))
        gap = False
    if write and not per_char:
        out[count] = hash_unit(buffer, 0, write, seed)
        count += 1
    return count


@inner
def longest(offsets):
    most = 0
    for i in range(offsets.size - 1):
        most = max(most, offsets[i + 1] - offsets[i])
    return most


@inner
def scratch(offsets):
    # Folding a character can lengthen it by half; blocks of 64 may be written past the end.
    return np.empty(2 * longest(offsets) + 128, np.uint8)


@kernel(U8, I64, U16, U32, boolean, boolean, uint64)
def word_units(data, offsets, stage1, stage2, fold_case, fold_digits, seed):
    """The hashes of all texts' words, and where each text's begin.

    A text without any word is one unit, its whole text; a text with nothing visible has none.
    """
    rows = offsets.size - 1
    out = np.empty((offsets[rows] - offsets[0]) // 2 + rows + 1, np.uint64)
    starts = np.zeros(rows + 1, np.int64)
    buffer = scratch(offsets)
    count = np.int64(0)
    no = rows < 0
    for i in range(rows):
        begin, end = offsets[i], offsets[i + 1]
        count = words_of(
            data, begin, end, stage1, stage2, fold_case, fold_digits, seed, buffer, out, count
        )
        if count == starts[i]:
            count = squeezed_of(data, begin, end, stage1, stage2, no, no, seed, buffer, out, count)
        starts[i + 1] = count
    return out[:count], starts


@kernel(U8, I64, U16, U32, boolean, boolean, uint64)
def squeezed_units(data, offsets, stage1, stage2, per_char, per_line, seed):
    """The hashes of all texts' characters or lines, and where each text's begin."""
    rows = offsets.size - 1
    out = np.empty(offsets[rows] - offsets[0] + rows + 1, np.uint64)
    starts = np.zeros(rows + 1, np.int64)
    buffer = scratch(offsets)
    count = np.int64(0)
    for i in range(rows):
        count = squeezed_of(
            data, offsets[i], offsets[i + 1], stage1, stage2, per_char, per_line, seed, buffer,
            out, count,
        )  # fmt: skip
        starts[i + 1] = count
    return out[:count], starts


@kernel(U8, I64, U16, U32)
def text_state(data, offsets, stage1, stage2):
    """For each text: 0 is ASCII, 1 is in normal form C already, 2 has to be normalised."""
    rows = offsets.size - 1
    state = np.zeros(rows, np.uint8)
    for i in range(rows):
        begin, end = offsets[i], offsets[i + 1]
        every = np.uint8(0)
        for at in range(begin, end):
            every |= data[at]
        if every < 0x80:
            continue
        state[i] = 1
        at, last_class = begin, 0
        while at < end:
            # Nothing below U+0300 composes, decomposes or is reordered.
            if data[at] < 0xCC:
                at += 1
                last_class = 0
                continue
            code, length = decode(data, at)
            at += length
            packed = entry(code, stage1, stage2)
            mark_class = packed >> 4 & 63
            if packed & 8 or (mark_class and mark_class < last_class):
                state[i] = 2
                break
            last_class = mark_class
    return state


@kernel(U8, I64, uint64)
def hash_rows(data, offsets, seed):
    """xxHash64 of every row of a byte or string column."""
    rows = offsets.size - 1
    out = np.empty(rows, np.uint64)
    for i in range(rows):
        out[i] = xxh64(data, offsets[i], offsets[i + 1] - offsets[i], seed)
    return out
