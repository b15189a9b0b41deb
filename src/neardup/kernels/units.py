"""Hash the words, characters or lines of UTF-8 texts, or whole texts.

Runs of white space count as one space.

What was tried for words (one core, 3 KB documents): classifying by table into a mask array, then
finding boundaries, then hashing: 345 MB/s. Classifying eight bytes at a time inside a 64-bit word,
packing 64 flags into one mask, jumping from set bit to set bit and hashing there: 570 MB/s, of
which hashing was half. Noting the words' edges first and hashing in a loop that the compiler turns
into vector instructions: 640 to 800 MB/s. Classifying 64 bytes at a time in vector registers,
hashing words of up to 15 bytes in vectors, and the words of several short texts together: in 0.6
of that time, in half of it for texts of 200 bytes.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.characters import (
    ALONE,
    BLANK,
    DROPPED,
    HIGH,
    MARK,
    NEWLINE,
    ONES,
    RETURN,
    SEVENS,
    SPACE,
    WORD,
    U,
    ascii_ahead,
    classify,
    decode,
    encode,
    entry,
    folded,
)
from neardup.kernels.compile import (
    HASHER,
    I64,
    U8,
    U16,
    U32,
    boolean,
    inline,
    inner,
    kernel,
    uncounted,
)
from neardup.kernels.hashing import P5, XXH64, absorb, finish, hash_bytes, xxh64, xxh64_short
from neardup.kernels.intrinsics import (
    BLOCK,
    bits_set,
    bytes_within,
    copy_folded,
    load64,
    store64,
    trailing_zeros,
)

BLANKS, PAST_CONTROL, FLAG = ONES * U(32), ONES * U(0x80 - 32), U(0x80)
EVERY = U(0xFFFFFFFFFFFFFFFF)
TOGETHER = 4096
"""Bytes of folded texts whose words are hashed together: they stay in the processor's cache."""


@inline
def hash_unit(buffer, start, length, hasher):
    """Return the hash of a unit in the scratch buffer, which may be read past the unit's end."""
    if length < 8 and hasher[0] == XXH64:
        return xxh64_short(load64(buffer, start), length, hasher[1])
    return hash_bytes(buffer, start, length, hasher)


@uncounted
def squeeze(data, begin, end, rules, per_line, buffer):
    """Write a text, or its first line, folded and squeezed, to the buffer.

    Runs of white space become one space, and are dropped at the beginning and end. Returns where it
    stopped, at the line break or the end, and how many bytes it wrote. `rules` are the character
    table and whether it folds case and digits. `after_space` is FLAG where another space would be
    dropped.
    """
    stage1, stage2, fold_case, fold_digits = rules
    at, write, after_space = begin, 0, FLAG
    while at < end:
        if at + 8 <= data.size:
            # Flags after a byte that is not ASCII are wrong, and not used.
            eight = load64(data, at)
            spaces = ~((eight ^ BLANKS) + SEVENS) & HIGH
            doubled = spaces & (spaces << U(8) | after_space)
            special = (eight | ~(eight + PAST_CONTROL)) & HIGH | doubled
            size = min(trailing_zeros(special) >> 3, end - at)
            if size:
                kept, _ = classify(eight, fold_case, fold_digits)
                store64(buffer, write, kept)
                after_space = spaces >> U(8 * size - 8) & FLAG
                at += size
                write += size
                continue
        code, length = decode(data, at)
        if per_line and (code == NEWLINE or code == RETURN):
            break
        at += length
        packed = entry(code, stage1, stage2)
        kind = packed & 7
        if kind == SPACE and after_space == U(0):
            buffer[write] = BLANK
            write += 1
            after_space = FLAG
        elif kind != SPACE and kind != DROPPED:
            write = encode(buffer, write, folded(code, packed))
            after_space = U(0)
    if write and after_space:
        write -= 1
    return at, write


@uncounted
def squeezed_of(data, begin, end, rules, per_line, hasher, buffer, out, count):
    """Append the hashes of a text's lines, or of the whole text as one unit."""
    at = begin
    while at < end:
        at, size = squeeze(data, at, end, rules, per_line, buffer)
        if size:
            out[count] = hash_unit(buffer, 0, size, hasher)
            count += 1
        at += 1
    return count


@uncounted
def hash_char(code, hasher, buffer):
    """Return the hash of a character's UTF-8; xxHash64 is computed in registers."""
    if hasher[0] != XXH64:
        return hash_bytes(buffer, 0, encode(buffer, 0, code), hasher)
    c, seed = U(code), hasher[1]
    if code < 0x80:
        return xxh64_short(c, 1, seed)
    last = U(0x80) | c & U(0x3F)
    if code < 0x800:
        return xxh64_short(U(0xC0) | c >> U(6) | last << U(8), 2, seed)
    middle = U(0x80) | c >> U(6) & U(0x3F)
    if code < 0x10000:
        return xxh64_short(U(0xE0) | c >> U(12) | middle << U(8) | last << U(16), 3, seed)
    second = U(0x80) | c >> U(12) & U(0x3F)
    first = U(0xF0) | c >> U(18)
    return xxh64_short(first | second << U(8) | middle << U(16) | last << U(24), 4, seed)


@uncounted
def chars_of(data, begin, end, stage1, stage2, hasher, buffer, ascii_hash, out, count):
    """Append the hashes of a text's characters; runs of white space count as one space."""
    at, place, gap, started = begin, U(count), False, False
    while at < end:
        code, length = decode(data, at)
        at += length
        packed = entry(code, stage1, stage2)
        kind = packed & 7
        if kind == DROPPED:
            continue
        if kind == SPACE:
            gap = started
            continue
        if gap:
            out[place] = ascii_hash[32]
            place += U(1)
            gap = False
        started = True
        mapped = folded(code, packed)
        if mapped < 0x80:
            out[place] = ascii_hash[U(mapped)]
        else:
            out[place] = hash_char(mapped, hasher, buffer)
        place += U(1)
    return np.int64(place)


@uncounted
def longest(offsets):
    most = 0
    for i in range(offsets.size - 1):
        most = max(most, offsets[i + 1] - offsets[i])
    return most


@inner
def scratch(most):
    # Folding a character can lengthen it by half; blocks of 64 may be written past the end.
    return np.empty(2 * most + 128, np.uint8)


@kernel(U8, I64, U16, U32, boolean, boolean, boolean, HASHER)
def squeezed_units(data, offsets, stage1, stage2, fold_case, fold_digits, per_char, hasher):
    """Return the hashes of all texts' characters, or lines, and where each text's begin."""
    rows = offsets.size - 1
    out = np.empty(offsets[rows] - offsets[0] + rows + 1, np.uint64)
    starts = np.zeros(rows + 1, np.int64)
    buffer = scratch(longest(offsets))
    ascii_hash = np.empty(128, np.uint64)
    for code in range(128):
        ascii_hash[code] = hash_char(code, hasher, buffer)
    count, rules = np.int64(0), (stage1, stage2, fold_case, fold_digits)
    yes = rows >= 0
    for i in range(rows):
        begin, end = offsets[i], offsets[i + 1]
        if per_char:
            count = chars_of(
                data, begin, end, stage1, stage2, hasher, buffer, ascii_hash, out, count
            )
        else:
            count = squeezed_of(data, begin, end, rules, yes, hasher, buffer, out, count)
        starts[i + 1] = count
    return out[:count], starts


@inline
def note_edges(turns, base, edge, edges):
    """Write base + the number of every set bit to edge[edges:].

    Eight are written at a time, even if fewer are set, because a loop that ends with the last bit
    is mispredicted about once a block.
    """
    place = U(edges)
    last = place + U(bits_set(turns))
    while place < last:
        for i in range(8):
            edge[place + U(i)] = base + trailing_zeros(turns)
            turns &= turns - U(1)
        place += U(8)
    return np.int64(last)


@uncounted
def find_words(data, begin, end, rules, folded_text, write, edge, edges):
    """Append a text, folded, to `folded_text`, and where its words begin and end there to `edge`.

    Returns where it stopped in either. While the number of edges is odd, a word is open; `alone` is
    true if that is a character of an unspaced script, which only marks can extend.
    """
    stage1, stage2, fold_case, fold_digits = rules
    at, alone = begin, False
    while at < end:
        size = ascii_ahead(data, at, end)
        if size:
            if alone:  # ASCII has no marks
                edge[edges] = write
                edges += 1
                alone = False
            copy_folded(folded_text, write, data, at, fold_case, fold_digits)
            upper, lower = bytes_within(data, at, 65, 90), bytes_within(data, at, 97, 122)
            digit, under = bytes_within(data, at, 48, 57), bytes_within(data, at, 95, 95)
            flags = upper | lower | digit | under
            turns = flags ^ ((flags << U(1)) | U(edges & 1))
            edges = note_edges(turns & (EVERY >> U(BLOCK - size)), write, edge, edges)
            at += size
            write += size
            continue
        code, length = decode(data, at)
        at += length
        packed = entry(code, stage1, stage2)
        kind = packed & 7
        if kind == DROPPED:
            continue
        is_open = U(edges & 1)
        if is_open and (kind == MARK or (kind == WORD and not alone)):
            write = encode(folded_text, write, folded(code, packed))
            continue
        if is_open:
            edge[edges] = write
            edges += 1
        alone = kind == ALONE
        if alone or kind == WORD:
            edge[edges] = write
            edges += 1
            write = encode(folded_text, write, folded(code, packed))
    if edges & 1:
        edge[edges] = write
        edges += 1
    return write, edges


@uncounted
def hash_words(folded_text, edge, edges, seed, first8, second8, lengths, long, out, count):
    """Append the words' xxHash64 to out[count:]; return the new count.

    The first loop gathers, the second hashes all words as if they had less than 16 bytes, eight
    words at a time in vector registers, the third hashes the long ones again.
    """
    words, many_long = edges >> 1, U(0)
    here = out[count : count + words]
    for i in range(words):
        start, stop = edge[2 * i], edge[2 * i + 1]
        first8[i] = load64(folded_text, start)
        second8[i] = load64(folded_text, start + 8)
        lengths[i] = stop - start
        long[many_long] = i
        many_long += U(stop - start >= 16)
    for i in range(words):
        h = seed + P5 + U(lengths[i])
        more = U(0) - U(lengths[i] >= 8)
        h ^= (h ^ absorb(h, first8[i])) & more
        rest = first8[i] ^ ((first8[i] ^ second8[i]) & more)
        here[i] = finish(h, rest, lengths[i] & 7)
    for j in range(many_long):
        i = U(long[j])
        here[i] = xxh64(folded_text, edge[U(2) * i], lengths[i], seed)
    return count + words


@uncounted
def hash_words_singly(folded_text, edge, edges, hasher, out, count):
    """Append the words' hashes by any hash function, word by word; return the new count."""
    for i in range(edges >> 1):
        start = edge[2 * i]
        out[count + i] = hash_bytes(folded_text, start, edge[2 * i + 1] - start, hasher)
    return count + (edges >> 1)


@kernel(U8, I64, U16, U32, boolean, boolean, HASHER)
def word_units(data, offsets, stage1, stage2, fold_case, fold_digits, hasher):
    """Return the hashes of all texts' words, and where each text's begin.

    A text without any word is one unit, the whole text; a text without visible characters has none.
    Words of several short texts are hashed together.
    """
    rows, most = offsets.size - 1, longest(offsets)
    words = most // 2 + 1 + TOGETHER
    out = np.empty((offsets[rows] - offsets[0]) // 2 + rows + 1, np.uint64)
    starts = np.zeros(rows + 1, np.int64)
    text, edge = scratch(most + TOGETHER), np.empty(2 * words + 128, np.int64)
    first8, second8 = np.empty(words, np.uint64), np.empty(words, np.uint64)
    lengths, long = np.empty(words, np.int64), np.empty(words + 1, np.int64)
    count, write, edges, rules = np.int64(0), 0, 0, (stage1, stage2, fold_case, fold_digits)
    no = rows < 0
    for i in range(rows):
        begin, end, before = offsets[i], offsets[i + 1], edges
        write, edges = find_words(data, begin, end, rules, text, write, edge, edges)
        starts[i + 1] = count + (edges >> 1)
        if write < TOGETHER and edges > before and i + 1 < rows:
            continue
        if hasher[0] == XXH64:
            count = hash_words(
                text, edge, edges, hasher[1], first8, second8, lengths, long, out, count
            )
        else:
            count = hash_words_singly(text, edge, edges, hasher, out, count)
        if edges == before:
            count = squeezed_of(data, begin, end, rules, no, hasher, text, out, count)
            starts[i + 1] = count
        write = edges = 0
    return out[:count], starts
