"""Words as text, and words that stand for others: what stems and segmenters need."""

from __future__ import annotations

import numpy as np

from neardup.kernels.characters import U
from neardup.kernels.compile import I64, OUT_U8, OUT_U64, U8, U16, U32, U64, boolean, kernel
from neardup.kernels.units import find_words, scratch


@kernel(U8, I64, U16, U32, boolean, boolean)
def word_spans(data, offsets, stage1, stage2, fold_case, fold_digits):
    """Return the folded texts, where each word begins and ends there, and each text's first word.

    The words are those that `word_units` hashes, in the same order; edges alternate.
    """
    rows = offsets.size - 1
    size = offsets[rows] - offsets[0]
    folded, edge = scratch(size), np.empty(size + 2 * rows + 128, np.int64)
    starts = np.zeros(rows + 1, np.int64)
    write, edges, rules = np.int64(0), np.int64(0), (stage1, stage2, fold_case, fold_digits)
    for i in range(rows):
        write, edges = find_words(
            data, offsets[i], offsets[i + 1], rules, folded, write, edge, edges
        )
        starts[i + 1] = edges >> 1
    return folded[:write], edge[:edges], starts


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
