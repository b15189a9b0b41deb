"""Which parts of a text may not be in normal form C?"""

from __future__ import annotations

import numpy as np

from neardup.kernels.characters import BLANK, U, ascii_ahead, decode, entry, is_ascii
from neardup.kernels.compile import I64, U8, U16, U32, boolean, inner, kernel

MOST_STRETCHES = 8


@inner
def unsettled_in(data, begin, end, stage1, stage2, every, spans, count):
    at, last_class, low, first = begin, 0, begin, count
    while at < end:
        size = ascii_ahead(data, at, end)
        if size:
            at += size
            last_class = 0
            continue
        here = at
        code, length = decode(data, at)
        at += length
        packed = entry(code, stage1, stage2)
        mark_class = packed >> 4 & 63
        settled = packed & 8 == 0 and (mark_class == 0 or mark_class >= last_class)
        last_class = mark_class
        if (settled and not every) or code < 0x80:
            continue
        if count - first == MOST_STRETCHES:
            spans[first, 0], spans[first, 1] = begin, end
            return first + 1
        while here > low and data[U(here - 1)] != BLANK:
            here -= 1
        while at < end and data[U(at)] != BLANK:
            at += 1
        spans[count, 0], spans[count, 1] = here, at
        count += 1
        low, last_class = at, 0
    return count


@kernel(U8, I64, U16, U32, boolean)
def unsettled(data, offsets, stage1, stage2, every):
    """Where texts may not be in normal form C: [begin, end) of whole stretches between spaces.

    With `every`, all stretches that are not ASCII. A text with many is one stretch.
    """
    rows = offsets.size - 1
    spans = np.empty(((offsets[rows] - offsets[0]) // 2 + rows + 1, 2), np.int64)
    count = np.int64(0)
    for i in range(rows):
        begin, end = offsets[i], offsets[i + 1]
        if not is_ascii(data, begin, end):
            count = unsettled_in(data, begin, end, stage1, stage2, every, spans, count)
    return spans[:count]
