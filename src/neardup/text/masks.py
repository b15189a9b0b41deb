"""Replace numbers, dates, URLs and e-mail addresses by placeholders, before texts are compared.

`reference.mask` is the definition, and has the rules. What is replaced is found in the text as it
is, by the same character table for all text profiles.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from neardup import kernels
from neardup.reference.masks import (
    ALONE,
    ASCII_WORD,
    LETTER,
    MARK,
    MASKS,
    OTHER,
    SPACE,
    UNITS_OF_DATES,
    WORD,
)
from neardup.spec import Spec
from neardup.text.arrays import view_strings
from neardup.text.characters import character_table
from neardup.text.html import strip_markup
from neardup.text.numbers import digit_zeros
from neardup.text.regular_rules import DEAD, RuleTable, compile_rules

# In the order of the numbers that kernels/masks.py gives them.
SYMBOLS = [*(chr(code).lower() for code in range(128)), LETTER, ALONE, MARK, SPACE, OTHER]
SYMBOLS += UNITS_OF_DATES
ENDS_WORD, CONTINUES_WORD = 1, 2


def prepare_texts(texts: pa.Array, spec: Spec) -> pa.Array:
    """Return the texts without markup, and with what the specification masks replaced.

    Args:
        texts: A large_string column.
        spec: The specification.
    """
    return mask_texts(strip_markup(texts, spec), spec.mask)


def mask_texts(texts: pa.Array, mask: str) -> pa.Array:
    """Return the texts with what these masks match replaced by their placeholders.

    Args:
        texts: A large_string column; null stays null.
        mask: The names of the masks, as the specification states them; "" changes nothing.
    """
    if not mask:
        return texts
    rows, table = view_strings(texts), character_table("standard")
    data, offsets = kernels.mask_spans(
        rows.data,
        rows.offsets,
        table.stage1,
        table.stage2,
        digit_zeros(),
        np.array(list(map(ord, UNITS_OF_DATES)), np.int64),
        *_rules(mask),
    )
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    masked = pa.Array.from_buffers(texts.type, len(texts), buffers)
    return pc.if_else(texts.is_valid(), masked, pa.scalar(None, texts.type))


@cache
def _rules(mask: str) -> tuple[NDArray[np.generic], ...]:
    """Return the kernel's arguments for these masks."""
    rules = [rule for rule in MASKS if rule.name in mask.split(",")]
    told_apart = [ASCII_WORD, WORD, *(rule.barred for rule in rules)]
    table = compile_rules([rule.pattern for rule in rules], SYMBOLS, told_apart)
    size = max(len(rule.placeholder) for rule in rules)
    padded = b"".join(rule.placeholder.encode().ljust(size) for rule in rules)
    barred = np.stack([_columns_of(table, rule.barred) for rule in rules])
    begins = table.transitions[table.starts] != DEAD
    # Behind each column, and at the beginning of a text.
    possible = np.vstack([(1 - barred.T) @ begins, begins.sum(axis=0)[None]]) > 0
    flags = _columns_of(table, ASCII_WORD) * ENDS_WORD | _columns_of(table, WORD) * CONTINUES_WORD
    return (
        table.columns,
        table.transitions,
        table.accepting,
        table.starts,
        barred,
        possible.astype(np.uint8),
        np.array([rule.guarded for rule in rules], np.uint8),
        flags.astype(np.uint8),
        np.frombuffer(padded, np.uint8).reshape(len(rules), size),
        np.array([len(rule.placeholder) for rule in rules], np.int64),
    )


def _columns_of(table: RuleTable, symbols: str) -> NDArray[np.uint8]:
    """Return 1 for each column of these symbols, 0 for the others."""
    chosen = np.zeros(table.transitions.shape[1], np.uint8)
    chosen[table.columns[[SYMBOLS.index(symbol) for symbol in symbols]]] = 1
    return chosen
