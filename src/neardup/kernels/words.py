"""Words as text, and words that stand for others: what stems and segmenters need."""

from __future__ import annotations

import numpy as np

from neardup.kernels.characters import (
    ALONE,
    DROPPED,
    MARK,
    NEWLINE,
    WORD,
    U,
    decode,
    encode,
    entry,
    folded,
)
from neardup.kernels.compile import I64, OUT_U8, OUT_U64, U8, U16, U32, U64, boolean, kernel
from neardup.kernels.units import find_words, scratch


@kernel(U8, I64, U16, U32, boolean, boolean)
def word_spans(data, offsets, stage1, stage2, fold_case, fold_digits):
    """Return the folded texts, where each word begins and ends there, and each text's first word.

    The words are those that `word_units` hashes, in the same order; edges alternate.
    """
    rows = offsets.size - 1
    size = offsets[rows] - offsets[0]
    folded_text, edge = scratch(size), np.empty(size + 2 * rows + 128, np.int64)
    starts = np.zeros(rows + 1, np.int64)
    write, edges, rules = np.int64(0), np.int64(0), (stage1, stage2, fold_case, fold_digits)
    for i in range(rows):
        write, edges = find_words(
            data, offsets[i], offsets[i + 1], rules, folded_text, write, edge, edges
        )
        starts[i + 1] = edges >> 1
    return folded_text[:write], edge[:edges], starts


@kernel(U64, U64, U64, U8)
def translate(values, keys, mapped, used):
    """Return what stands for each value, and the places of the values that nothing stands for.

    `keys` is a hash table of 2^k places, `used` tells which are taken, `mapped` what stands there.
    """
    out, missing = values.copy(), np.empty(values.size, np.int64)
    mask, count = U(keys.size - 1), 0
    for i in range(values.size):
        value = values[U(i)]
        slot = value & mask
        while used[slot] and keys[slot] != value:
            slot = (slot + U(1)) & mask
        if used[slot]:
            out[U(i)] = mapped[slot]
        else:
            missing[count] = i
            count += 1
    return out, missing[:count]


@kernel(U64, U64, OUT_U64, OUT_U64, OUT_U8)
def learn(values, stand_ins, keys, mapped, used):
    """Enter values and what stands for them into the hash table of `translate`, which has room."""
    mask = U(keys.size - 1)
    for i in range(values.size):
        slot = values[U(i)] & mask
        while used[slot] and keys[slot] != values[U(i)]:
            slot = (slot + U(1)) & mask
        keys[slot], mapped[slot], used[slot] = values[U(i)], stand_ins[U(i)], 1


@kernel(U8, I64, U16, U32)
def unspaced_words(data, offsets, stage1, stage2):
    """Return the words of texts, and runs of words without spaces, for a segmenter.

    The words are folded, one after the other, with where each begins and the number of each text's
    first word. The runs are those of the scripts that are written without spaces: the same words,
    with a newline behind each run. `places` tells where a word begins in the runs, -1 for others;
    `joined` whether it goes on where the word before ended.
    """
    rows = offsets.size - 1
    size = offsets[rows] - offsets[0]
    folded_text, runs = scratch(size), np.empty(3 * size + 128, np.uint8)
    begins, starts = np.empty(size + 1, np.int64), np.zeros(rows + 1, np.int64)
    places, joined = np.empty(size, np.int64), np.zeros(size, np.uint8)
    write, wrote, count = np.int64(0), np.int64(0), np.int64(0)
    for i in range(rows):
        at, end = offsets[i], offsets[i + 1]
        is_open, alone = False, False
        while at < end:
            code, length = decode(data, at)
            at += length
            packed = entry(code, stage1, stage2)
            kind = packed & 7
            if kind == DROPPED:
                continue
            goes_on = is_open and (kind == MARK or (kind == WORD and not alone))
            follows = is_open and alone and kind == ALONE
            if is_open and alone and not goes_on and not follows:
                runs[U(wrote)] = NEWLINE
                wrote += 1
            if not goes_on:
                is_open, alone = kind == WORD or kind == ALONE, kind == ALONE
                if not is_open:
                    continue
                begins[count], joined[count] = write, follows
                places[count] = wrote if alone else -1
                count += 1
            before = write
            write = encode(folded_text, write, folded(code, packed))
            if alone:
                for place in range(before, write):
                    runs[U(wrote)] = folded_text[U(place)]
                    wrote += 1
        if is_open and alone:
            runs[U(wrote)] = NEWLINE
            wrote += 1
        starts[i + 1] = count
    begins[count] = write
    return (
        folded_text[:write],
        begins[: count + 1],
        starts,
        runs[:wrote],
        places[:count],
        joined[:count],
    )
