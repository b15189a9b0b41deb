"""Which character is what? Unicode, from the tables that ship with the package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass
class Tables:
    """What the shipped Unicode tables say; see the head of the file for their meaning."""

    kind: dict[int, str]
    ccc: dict[int, int]
    lower: dict[int, int]
    canonical: dict[int, list[int]]
    compatible: dict[int, list[int]]
    composed: dict[tuple[int, int], int]


@cache
def tables() -> Tables:
    t = Tables({}, {}, {}, {}, {}, {})
    never: set[int] = set()
    path = Path(__file__).parents[1] / "text" / "unicode-14.0.0.txt"
    for line in path.read_text(encoding="ascii").splitlines():
        match line.split():
            case [] | ["#", *_]:
                pass
            case ["canonical", whole, *steps]:
                t.canonical[int(whole, 16)] = [int(step, 16) for step in steps]
            case ["compatible", whole, *steps]:
                t.compatible[int(whole, 16)] = [int(step, 16) for step in steps]
            case [first, last, kind, ccc, check, lower]:
                for code in range(int(first, 16), int(last, 16) + 1):
                    t.kind[code] = kind
                    t.ccc[code] = int(ccc)
                    t.lower[code] = code + int(lower)
                    if check == "N":
                        never.add(code)
    for code, parts in t.canonical.items():
        if len(parts) == 2 and code not in never:
            t.composed[parts[0], parts[1]] = code
    return t


def kind(code: int) -> str:
    return tables().kind.get(code, "-")


def decompose(code: int, compatible: bool) -> Iterator[int]:
    if 0xAC00 <= code < 0xAC00 + 11172:  # Hangul syllables, by arithmetic
        lead, rest = divmod(code - 0xAC00, 588)
        yield from (0x1100 + lead, 0x1161 + rest // 28)
        if rest % 28:
            yield 0x11A7 + rest % 28
        return
    parts = tables().canonical.get(code) or (tables().compatible.get(code) if compatible else None)
    if not parts:
        yield code
        return
    for part in parts:
        yield from decompose(part, compatible)


def decomposed(codes: Sequence[int], compatible: bool) -> list[int]:
    """NFD or NFKD: decompose, then sort each run of marks by combining class."""
    out = [part for code in codes for part in decompose(code, compatible)]
    ccc = tables().ccc
    start = 0
    for end in range(len(out) + 1):
        if end == len(out) or ccc.get(out[end], 0) == 0:
            out[start:end] = sorted(out[start:end], key=lambda c: ccc.get(c, 0))
            start = end + 1
    return out


def compose(first: int, second: int) -> int | None:
    if 0x1100 <= first < 0x1113 and 0x1161 <= second < 0x1176:
        return 0xAC00 + ((first - 0x1100) * 21 + second - 0x1161) * 28
    if 0xAC00 <= first < 0xD7A4 and (first - 0xAC00) % 28 == 0 and 0x11A8 <= second < 0x11C3:
        return first + second - 0x11A7
    return tables().composed.get((first, second))


def recomposed(codes: Sequence[int]) -> list[int]:
    """Unicode's canonical composition of decomposed text."""
    out: list[int] = []
    starter, last_ccc = -1, -1
    for code in codes:
        ccc = tables().ccc.get(code, 0)
        both = compose(out[starter], code) if starter >= 0 and last_ccc < ccc else None
        if both is not None:
            out[starter] = both
            continue
        out.append(code)
        if ccc == 0:
            starter, last_ccc = len(out) - 1, -1
        else:
            last_ccc = ccc
    return out


def normalise(text: str, profile: str) -> list[int]:
    """The code points that a profile compares: normal form, then case, then digits."""
    aggressive = profile == "aggressive"
    codes = decomposed([ord(c) for c in text], compatible=aggressive)
    if aggressive:
        codes = [c for c in codes if kind(c) != "A"]
    codes = recomposed(codes)
    if profile == "conservative":
        return codes
    codes = [tables().lower.get(c, c) for c in codes]
    return [0x30 if aggressive and kind(c) == "N" else c for c in codes]
