"""Read text and id of JSON lines that have nothing unusual in them.

A strict reader that accepts a block only if it certainly agrees with a full JSON library; the
library reads all other blocks. Unsure are: invalid JSON or UTF-8, a text that is missing, repeated
or not a string, an id that is not a plain string or a short integer, escapes in keys, lone
surrogates, exponents, deep nesting.

What was tried: orjson a line at a time takes 2.1 ns a byte with everything around it (reading,
splitting, making Python strings, copying them into an Arrow column). This took 0.7; 0.4 since it
looks for quotes and escapes 64 bytes at a time, and its functions don't count references.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.characters import HIGH, ONES, ascii_ahead, encode
from neardup.kernels.compile import U8, inline, kernel, uncounted
from neardup.kernels.intrinsics import BLOCK, bits_set, bytes_within, copy_block, trailing_zeros

U = np.uint64
QUOTE, BACKSLASH, OPEN, CLOSE = 0x22, 0x5C, 0x7B, 0x7D
OPEN_LIST, CLOSE_LIST, COMMA, COLON, NEWLINE = 0x5B, 0x5D, 0x2C, 0x3A, 0x0A
QUOTES, BACKSLASHES, BLANKS = ONES * U(QUOTE), ONES * U(BACKSLASH), ONES * U(0x20)
KEY_OR_END, KEY, VALUE_OR_END, VALUE, AFTER = 0, 1, 2, 3, 4
PLAIN, TEXT, ID = 0, 1, 2
MOST_DEPTH, MOST_DIGITS = 60, 18


@inline
def special(eight):
    """Return 0x80 in the lowest byte that is a quote, a backslash or a control character.

    Bytes above that one may be marked wrongly; the lowest mark is always right.
    """
    quote, backslash = eight ^ QUOTES, eight ^ BACKSLASHES
    return (
        ((quote - ONES) & ~quote) | ((backslash - ONES) & ~backslash) | ((eight - BLANKS) & ~eight)
    ) & HIGH


@uncounted
def skip_blanks(data, at, end):
    while at < end and (data[U(at)] == 0x20 or data[U(at)] == 0x09 or data[U(at)] == 0x0D):
        at += 1
    return at


@uncounted
def hex4(data, at, end):
    """Return the value of four hexadecimal digits, or -1."""
    if at + 4 > end:
        return -1
    value = 0
    for i in range(4):
        c = np.int64(data[U(at + i)])
        if 0x30 <= c <= 0x39:
            digit = c - 0x30
        elif 0x41 <= (c & 0xDF) <= 0x46:
            digit = (c & 0xDF) - 0x37
        else:
            return -1
        value = value << 4 | digit
    return value


@uncounted
def unescape(data, at, end, out, write):
    """Write the character of an escape; return the places after both, or -1 if unsure."""
    if at >= end:
        return -1, write
    c = data[U(at)]
    plain = 0
    if c == 0x6E:
        plain = 0x0A
    elif c == 0x74:
        plain = 0x09
    elif c == 0x72:
        plain = 0x0D
    elif c == 0x62:
        plain = 0x08
    elif c == 0x66:
        plain = 0x0C
    elif c == QUOTE or c == BACKSLASH or c == 0x2F:
        plain = np.int64(c)
    if plain:
        out[U(write)] = plain
        return at + 1, write + 1
    if c != 0x75:
        return -1, write
    code = hex4(data, at + 1, end)
    at += 5
    if (
        0xD800 <= code < 0xDC00
        and at + 6 <= end
        and data[U(at)] == BACKSLASH
        and data[U(at + 1)] == 0x75
    ):
        low = hex4(data, at + 2, end)
        if not 0xDC00 <= low < 0xE000:
            return -1, write
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
        at += 6
    if code < 0 or 0xD800 <= code < 0xE000:
        return -1, write
    return at, encode(out, write, code)


@uncounted
def read_string(data, at, end, out, write):
    """Copy a string from the byte after its quote; return the places after it, or -1 if unsure.

    `out` is as long as the data: an escape is never shorter than its meaning.
    """
    while True:
        if at + BLOCK <= end:
            copy_block(out, write, data, at)
            quote, backslash = bytes_within(data, at, 34, 34), bytes_within(data, at, 92, 92)
            step = trailing_zeros(quote | backslash | bytes_within(data, at, 0, 31))
            at += step
            write += step
            if step == BLOCK:
                continue
        if at >= end:
            return -1, write
        c = data[U(at)]
        at += 1
        if c == QUOTE:
            return at, write
        if c == BACKSLASH:
            at, write = unescape(data, at, end, out, write)
            if at < 0:
                return -1, write
        elif c < 0x20:
            return -1, write
        else:
            out[U(write)] = c
            write += 1


@uncounted
def digits(data, at, end):
    while at < end and 0x30 <= data[U(at)] <= 0x39:
        at += 1
    return at


@uncounted
def read_number(data, at, end):
    """Return the place after a number and whether it is a short integer; -1 if unsure."""
    begin = at
    if data[U(at)] == 0x2D:
        at += 1
    first = at
    at = digits(data, at, end)
    if at == first or (data[U(first)] == 0x30 and at - first > 1) or at - first > 300:
        return -1, False
    whole = at - first <= MOST_DIGITS and not (first > begin and data[U(first)] == 0x30)
    if at < end and data[U(at)] == 0x2E:
        fraction = at + 1
        at = digits(data, fraction, end)
        if at == fraction or at - fraction > 300:
            return -1, False
        whole = False
    if at < end and (data[U(at)] | 0x20) == 0x65:
        return -1, False
    return at, whole


@uncounted
def read_literal(data, at, end):
    """Return the place after true, false or null; -1 if it is none of them."""
    word = U(0)
    for i in range(min(5, end - at)):
        word |= U(data[U(at + i)]) << U(8 * i)
    if word & U(0xFFFFFFFF) == U(0x65757274) or word & U(0xFFFFFFFF) == U(0x6C6C756E):
        return at + 4
    return at + 5 if word == U(0x65736C6166) else -1


@uncounted
def same(data, begin, end, key):
    if end - begin != key.size:
        return False
    for i in range(key.size):
        if data[U(begin + i)] != key[i]:
            return False
    return True


@uncounted
def valid_utf8(data, begin, end):
    at = begin
    while at < end:
        size = ascii_ahead(data, at, end)
        if size:
            at += size
            continue
        first = np.int64(data[U(at)])
        if first < 0x80:
            at += 1
            continue
        if 0xC2 <= first < 0xE0:
            more, low, high = 1, 0x80, 0xBF
        elif 0xE0 <= first < 0xF0:
            more = 2
            low, high = (0xA0 if first == 0xE0 else 0x80), (0x9F if first == 0xED else 0xBF)
        elif 0xF0 <= first < 0xF5:
            more = 3
            low, high = (0x90 if first == 0xF0 else 0x80), (0x8F if first == 0xF4 else 0xBF)
        else:
            return False
        if at + more >= end:
            return False
        if not low <= np.int64(data[U(at + 1)]) <= high:
            return False
        for i in range(2, more + 1):
            if data[U(at + i)] & 0xC0 != 0x80:
                return False
        at += more + 1
    return True


@uncounted
def read_record(data, at, end, text_key, id_key, texts, text_end, ids, id_end):
    """One object from after its brace: the place after it, the ends of what was written, and
    whether there is an id. The place is -1 if unsure."""
    depth, objects, state, field = 1, U(2), KEY_OR_END, PLAIN
    seen_text, seen_id, has_id = False, False, False
    unsure = (-1, text_end, id_end, False)
    while True:
        at = skip_blanks(data, at, end)
        if at >= end:
            return unsure
        c = data[U(at)]
        inside_object = objects >> U(depth) & U(1)
        if state <= KEY and c == QUOTE:
            begin = at + 1
            # Keys and values that nobody asked for are read into the free end of `ids`.
            at, written = read_string(data, begin, end, ids, id_end)
            escaped = written - id_end != at - 1 - begin
            if at < 0 or (depth == 1 and escaped):
                return unsure
            field = PLAIN
            if depth == 1:
                if same(data, begin, at - 1, text_key):
                    field = TEXT
                elif same(data, begin, at - 1, id_key):
                    field = ID
            at = skip_blanks(data, at, end)
            if at >= end or data[U(at)] != COLON:
                return unsure
            at += 1
            state = VALUE
            continue
        if state == VALUE or state == VALUE_OR_END:
            if c == CLOSE_LIST and state == VALUE_OR_END:
                pass
            elif c == QUOTE:
                if depth > 1 or field == PLAIN:
                    at, _ = read_string(data, at + 1, end, ids, id_end)
                elif field == TEXT:
                    at, text_end = read_string(data, at + 1, end, texts, text_end)
                    if seen_text:
                        return unsure
                    seen_text = True
                else:
                    at, id_end = read_string(data, at + 1, end, ids, id_end)
                    if seen_id:
                        return unsure
                    seen_id = has_id = True
                if at < 0:
                    return unsure
                state = AFTER
                continue
            elif c == OPEN or c == OPEN_LIST:
                if depth == MOST_DEPTH or (depth == 1 and field != PLAIN):
                    return unsure
                depth += 1
                bit = U(1) << U(depth)
                objects = objects | bit if c == OPEN else objects & ~bit
                state = KEY_OR_END if c == OPEN else VALUE_OR_END
                at += 1
                continue
            elif c == 0x2D or 0x30 <= c <= 0x39:
                begin = at
                at, short_integer = read_number(data, at, end)
                if at < 0 or (depth == 1 and field == TEXT):
                    return unsure
                if depth == 1 and field == ID:
                    if seen_id or not short_integer:
                        return unsure
                    seen_id = has_id = True
                    for i in range(begin, at):
                        ids[U(id_end)] = data[U(i)]
                        id_end += 1
                state = AFTER
                continue
            else:
                null = c == 0x6E
                at = read_literal(data, at, end)
                if at < 0 or (depth == 1 and (field == TEXT or (field == ID and not null))):
                    return unsure
                if depth == 1 and field == ID:
                    if seen_id:
                        return unsure
                    seen_id = True
                state = AFTER
                continue
        elif state == AFTER and c == COMMA:
            state = KEY if inside_object else VALUE
            at += 1
            continue
        elif not (
            (c == CLOSE and inside_object and state != KEY)
            or (c == CLOSE_LIST and not inside_object and state == AFTER)
        ):
            return unsure
        at += 1
        depth -= 1
        if depth == 0:
            return (at, text_end, id_end, has_id) if seen_text else unsure
        state = AFTER


@kernel(U8, U8, U8)
def read_records(data, text_key, id_key):
    """Return texts and ids of all lines: (sure, texts, their ends, ids, their ends, has an id).

    Blank lines are skipped. If `sure` is false, the other results are not valid.
    """
    size = data.size
    most = size // 8 + 1  # a record with a text has at least {"":""} and a newline
    texts, ids = np.empty(size + 16, np.uint8), np.empty(size + 16, np.uint8)
    text_ends, id_ends = np.empty(most + 1, np.int64), np.empty(most + 1, np.int64)
    has_id = np.empty(most, np.bool_)
    text_ends[0] = id_ends[0] = 0
    at, row, text_end, id_end, sure = 0, 0, np.int64(0), np.int64(0), True
    while at < size:
        begin = at
        at = skip_blanks(data, at, size)
        if at < size and data[U(at)] != NEWLINE:
            sure = False
            if data[U(at)] != OPEN:
                break
            at, text_end, id_end, present = read_record(
                data, at + 1, size, text_key, id_key, texts, text_end, ids, id_end
            )
            if at < 0 or not valid_utf8(data, begin, at):
                break
            at = skip_blanks(data, at, size)
            if at < size and data[U(at)] != NEWLINE:
                break
            sure = True
            has_id[row] = present
            row += 1
            text_ends[row], id_ends[row] = text_end, id_end
        at += 1
    # Ids are kept for the whole run: as copies, not as views of arrays that are far too large.
    return (
        sure,
        texts[:text_end],
        text_ends[: row + 1],
        ids[:id_end].copy(),
        id_ends[: row + 1].copy(),
        has_id[:row].copy(),
    )


@kernel(U8)
def line_ends(data):
    """Return where each line ends, after its newline; the last line need not have one."""
    count, blocks = 0, data.size // BLOCK * BLOCK
    for at in range(0, blocks, BLOCK):
        count += bits_set(bytes_within(data, at, 10, 10))
    for at in range(blocks, data.size):
        count += data[U(at)] == NEWLINE
    open_line = data.size > 0 and data[data.size - 1] != NEWLINE
    ends = np.empty(count + open_line, np.int64)
    row = 0
    for at in range(0, blocks, BLOCK):
        breaks = bytes_within(data, at, 10, 10)
        while breaks:
            ends[row] = at + trailing_zeros(breaks) + 1
            breaks &= breaks - U(1)
            row += 1
    for at in range(blocks, data.size):
        if data[U(at)] == NEWLINE:
            ends[row] = at + 1
            row += 1
    if open_line:
        ends[row] = data.size
    return ends
