"""Flip a rule of the reference: at least one line of the committed files must notice.

What notices here notices the same mistake in another language.
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from functools import _lru_cache_wrapper
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from neardup.protocol.checking import check_examples
from neardup.protocol.files import lines_of
from neardup.reference import (
    filters,
    hash_ring,
    hashes,
    masks,
    serialised,
    sketches,
    text,
    weighted,
)
from neardup.reference import vectors as planes
from neardup.sketch import bbit, minhash

VECTORS = Path(__file__).parents[2] / "spec" / "vectors" / "1"

FLIPS = {
    # Text to code points
    "lower case by words, as libraries do": (
        text,
        "[unicode_tables().lower.get(c, c) for c in codes]",
        "[ord(c) for c in ''.join(map(chr, codes)).lower()]",
        "texts",
    ),
    "a blocked mark composes": (text, "last_ccc < ccc", "last_ccc <= ccc", "texts"),
    "a tail of Hangul too many": (text, "0x11A8 <= second", "0x11A7 <= second", "texts"),
    "marks of equal class change places": (
        text,
        "key=lambda c: ccc.get(c, 0))",
        "key=lambda c: (ccc.get(c, 0), c))",
        "texts",
    ),
    "excluded characters compose": (text, "and code not in never", "", "texts"),
    "hidden characters stay": (text, "if not any(a <= c <= b for a, b in dropped)", "", "texts"),
    "digits stay": (text, 'codes = [0x30 if kind(c) == "N" else c', "codes = [c", "texts"),
    # Code points to units
    "a letter joins the Han character before it": (
        text,
        'case "W" | "N" if not (word and alone):',
        'case "W" | "N":',
        "texts",
    ),
    "marks begin words": (text, 'case "M" | "A" if word:', 'case "M" | "A":', "texts"),
    "joiners stay in characters": (text, 'if kind(c) != "D")', ")", "texts"),
    "U+000D ends no line": (text, '.replace("\\r", "\\n")', "", "texts"),
    "white space is not squeezed": (
        text,
        "for c in kept).split()",
        "for c in kept).split(' ')",
        "texts",
    ),
    "tokens in the other byte order": (text, '"<q"', '">q"', "shingles"),
    # Hashes
    "signed shifts": (
        hashes,
        "h = (h ^ h >> 33) * 0xFF51",
        "h = (h ^ (h - (h >> 63 << 64)) >> 33) * 0xFF51",
        "hashes",
    ),
    "32 bytes are few": (hashes, "len(data) >= 32", "len(data) > 32", "hashes"),
    "bytes are signed": (hashes, "byte * P5", "(byte - (byte >> 7 << 8)) * P5", "hashes"),
    "the seed is added to the basis": (hashes, "FNV_BASIS ^ seed", "FNV_BASIS + seed", "hashes"),
    "SipHash-2-2": (hashes, "rounds(4)", "rounds(2)", "hashes"),
    "a tail of MurmurHash3 without its length": (hashes, "h1 ^ len(data), h2", "h1, h2", "hashes"),
    # Shingles, signatures, keys
    "shingles forget their length": (sketches, "+ len(hashes) * SHINGLE_LENGTH", "", "shingles"),
    "short texts have no shingle": (
        sketches,
        "last = max(len(hashes) - size, 0)",
        "last = len(hashes) - size",
        "shingles",
    ),
    "halves of the content hash change places": (
        sketches,
        "return xxh64(data, 1), xxh64(data, 2)",
        "return xxh64(data, 2), xxh64(data, 1)",
        "shingles",
    ),
    "factors may be even": (sketches, "% 2**32 | 1", "% 2**32", "documents"),
    "minima of signed slots": (
        sketches,
        "for x in elements), default=EMPTY_SLOT)",
        "for x in elements), key=lambda v: v ^ 2**31, default=EMPTY_SLOT)",
        "documents",
    ),
    "keys without the number of the band": (
        sketches,
        "start + rows]), band)",
        "start + rows]), 0)",
        "bands",
    ),
    "keys in the other byte order": (sketches, 'pack(f"<{rows}', 'pack(f">{rows}', "bands"),
    "the lowest bits of a slot": (
        sketches,
        "% 2**spec.width >> (spec.width - spec.bits)",
        "% 2**spec.bits",
        "sketches",
    ),
    "the last shift is like the others": (
        sketches,
        "if number == SHIFTS - 1:",
        "if False:",
        "sketches",
    ),
    "rounds overlap": (sketches, "+ (round_ - 1) * 2**27", "", "sketches"),
    "strips of equal widths": (weighted, "12 + max(strip - 1, 0)", "12", "sketches"),
    "ties are 1": (weighted, "if value > 0)", "if value >= 0)", "sketches"),
    "a dropped range is one short": (text, "(0x0591, 0x05BD)", "(0x0591, 0x05BC)", "texts"),
    "chance is not subtracted": (sketches, "(1 - chance), 0.0)", "1, 0.0)", "documents"),
    # Lines and masks
    "lines of one text are frequent": (text, "if count >= 2 and", "if", "strips"),
    "a share is enough": (
        text,
        "count > share * documents",
        "count >= share * documents",
        "strips",
    ),
    "matches end early": (
        masks,
        "for end in range(len(symbols), at, -1):",
        "for end in range(at + 1, len(symbols) + 1):",
        "strips",
    ),
    "masks begin inside of words": (
        masks,
        "if at and symbols[at - 1] in rule.barred:",
        "if False:",
        "strips",
    ),
    # Bytes, filters, rings, vectors
    "the length in the other byte order": (
        serialised,
        '"nds1" + pack("<I"',
        '"nds1" + pack(">I"',
        "documents",
    ),
    "counters go on": (filters, "MOST_COUNT = 512, 7, 15", "MOST_COUNT = 512, 7, 14", "filters"),
    "the other bucket by XOR": (filters, "(total - bucket) %", "(total ^ bucket) %", "filters"),
    "points are rounded down": (hash_ring, "vnodes * weight + 0.5", "vnodes * weight", "rings"),
    "centres are rounded down": (
        planes,
        "(2 * sum(column) + count)",
        "(2 * sum(column))",
        "planes",
    ),
    "one sum for all products": (planes, "lanes[i % LANES]", "lanes[0]", "planes"),
}
"""What goes wrong -> the module, what stands there, what then stands there, and who notices."""


@contextmanager
def flipped(module: ModuleType, old: str, new: str):
    """Give the functions and constants of a module, wherever they are used, a changed source."""
    source = inspect.getsource(module)
    assert source.count(old) >= 1, f"{old!r} is not in {module.__name__}"
    changed: dict[str, object] = {"__name__": module.__name__, "__file__": module.__file__}
    code = compile(source.replace(old, new), str(module.__file__), "exec", dont_inherit=True)
    exec(code, changed)
    before = dict(vars(module))
    codes = {one: one.__code__ for one in functions_of(module).values()}
    try:
        for name, one in functions_of(module).items():
            one.__code__ = functions_of(changed)[name].__code__
        for name, value in changed.items():
            if isinstance(value, (int, tuple, dict)) and name != "__builtins__":
                setattr(module, name, value)
        yield
    finally:
        for one, code_before in codes.items():
            one.__code__ = code_before
        vars(module).update(before)
        forget(module)


def functions_of(place: ModuleType | dict[str, object]) -> dict[str, FunctionType]:
    """Return the functions and methods that a module defines itself, by their names."""
    names = vars(place) if isinstance(place, ModuleType) else place
    found: dict[str, FunctionType] = {}
    for value in list(names.values()):
        members = vars(value).values() if isinstance(value, type) else [value]
        for member in members:
            plain = getattr(member, "__wrapped__", member)
            if isinstance(plain, FunctionType) and plain.__module__ == names["__name__"]:
                found[plain.__qualname__] = plain
    return found


def forget(module: ModuleType) -> None:
    for value in vars(module).values():
        if isinstance(value, _lru_cache_wrapper):
            value.cache_clear()


@pytest.mark.parametrize("what", FLIPS)
def test_a_flipped_rule_is_noticed(what):
    module, old, new, file = FLIPS[what]
    committed = (VECTORS / f"{file}.jsonl").read_text("ascii").splitlines()
    forget(module)
    with flipped(module, old, new):
        pairs = zip(lines_of(file), committed, strict=True)
        assert any(mine != line for mine, line in pairs), what


def test_without_a_flip_nothing_is_noticed():
    committed = (VECTORS / "documents.jsonl").read_text("ascii").splitlines()
    with flipped(sketches, "EMPTY_SLOT", "EMPTY_SLOT"):
        assert list(lines_of("documents")) == committed


@pytest.mark.parametrize(
    ("module", "name", "value", "file", "field"),
    [
        (bbit, "SPREAD", {4: 3, 8: 5}, "sketches", "packed"),
        (minhash, "PRIME", 2**61 - 3, "sketches", "slots"),
        (minhash, "SHIFTS", 63, "sketches", "filled"),
    ],
)
def test_a_flipped_rule_of_the_library_is_noticed(module, name, value, file, field, monkeypatch):
    caches = (minhash.shifts, minhash.wide_permutations)
    for cached in caches:
        cached.cache_clear()
    if name == "SPREAD":
        value = {size: bbit.SPREAD[size].dtype.type(odd) for size, odd in value.items()}
    monkeypatch.setattr(module, name, value)
    try:
        with pytest.raises(Exception, match=rf"expected\.{field}"):
            check_examples(VECTORS / f"{file}.jsonl")
    finally:
        for cached in caches:
            cached.cache_clear()
