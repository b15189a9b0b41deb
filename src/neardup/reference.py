"""The whole method in plain, slow Python: the oracle that every kernel is tested against.

    text -> shingles -> sketch -> bands -> candidates -> verified pairs -> keep list

Standard library only. Nothing here is fast, and nothing here is clever. Sections follow the
sentence above; `docs/format.md` states the same rules in words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from struct import iter_unpack, pack

from neardup.spec import Spec

MASK = 2**64 - 1
EMPTY_SLOT = 2**32 - 1

# -- characters ---------------------------------------------------------------------------------


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
    path = Path(__file__).parent / "text" / "unicode-14.0.0.txt"
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


# -- units: words, characters, lines ------------------------------------------------------------


def words(codes: list[int]) -> Iterator[str]:
    """Maximal runs of letters, digits, underscores and marks; some scripts a character a word."""
    word, alone = "", False
    for code in codes:
        match kind(code):
            case "D":
                continue
            case "W" | "N" if not (word and alone):
                word, alone = word + chr(code), False
            case "M" | "A" if word:
                word += chr(code)
            case found:
                if word:
                    yield word
                starts = found in "WNS"
                word, alone = (chr(code) if starts else ""), found == "S"
    if word:
        yield word


def units(text: str, spec: Spec) -> list[bytes]:
    """The sequence that shingles are cut from. Empty only for a text with nothing visible."""
    codes = normalise(text, spec.profile)
    if spec.unit == "word":
        found = list(words(codes)) or [whole(codes)]
    elif spec.unit == "char":
        found = list(whole(codes))
    else:
        lines = "".join(map(chr, codes)).replace("\r", "\n").split("\n")
        found = [whole([ord(c) for c in line]) for line in lines]
    return [unit.encode() for unit in found if unit]


def whole(codes: list[int]) -> str:
    """The text with runs of white space made one space, none at the ends, dropped ones gone."""
    kept = (c for c in codes if kind(c) != "D")
    return " ".join("".join(" " if kind(c) == "_" else chr(c) for c in kept).split())


def token_units(tokens: Sequence[int]) -> list[bytes]:
    """Ready-made token ids: each is eight bytes, little-endian, two's complement."""
    return [pack("<q", token) for token in tokens]


# -- hashes -------------------------------------------------------------------------------------

P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def rotl(x: int, r: int) -> int:
    return (x << r | x >> (64 - r)) & MASK


def xxh64(data: bytes, seed: int = 0) -> int:
    """xxHash64, after its published specification."""

    def round_(acc: int, lane: int) -> int:
        return rotl((acc + lane * P2) & MASK, 31) * P1 & MASK

    at = 0
    if len(data) >= 32:
        acc = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed, (seed - P1) & MASK]
        for at in range(0, len(data) - 31, 32):
            lanes = iter_unpack("<Q", data[at : at + 32])
            acc = [round_(a, lane) for a, (lane,) in zip(acc, lanes, strict=True)]
        at += 32
        h = sum(rotl(a, r) for a, r in zip(acc, (1, 7, 12, 18), strict=True)) & MASK
        for a in acc:
            h = ((h ^ round_(0, a)) * P1 + P4) & MASK
    else:
        h = (seed + P5) & MASK
    h = (h + len(data)) & MASK
    while at + 8 <= len(data):
        lane = int.from_bytes(data[at : at + 8], "little")
        h = (rotl(h ^ round_(0, lane), 27) * P1 + P4) & MASK
        at += 8
    if at + 4 <= len(data):
        h ^= int.from_bytes(data[at : at + 4], "little") * P1 & MASK
        h = (rotl(h, 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        h = rotl(h ^ byte * P5 & MASK, 11) * P1 & MASK
    h = (h ^ h >> 33) * P2 & MASK
    h = (h ^ h >> 29) * P3 & MASK
    return h ^ h >> 32


def unit_hashes(found: Sequence[bytes], seed: int) -> list[int]:
    return [xxh64(unit, seed) for unit in found]


def content_hash(hashes: Sequence[int]) -> tuple[int, int]:
    """128 bits over the sequence of units: equal for identical documents."""
    data = pack(f"<{len(hashes)}Q", *hashes)
    return xxh64(data, 1), xxh64(data, 2)


# -- ignored lines ------------------------------------------------------------------------------


def line_hash(line: str, spec: Spec) -> int | None:
    """What a line is known by; None for a line with nothing visible in it."""
    squeezed = whole(normalise(line, spec.profile))
    return xxh64(squeezed.encode(), spec.seed) if squeezed else None


def frequent_lines(texts: Sequence[str], share: Fraction, spec: Spec) -> dict[int, int]:
    """The lines of strictly more than this share of the texts, and of at least two.

    With the number of texts that each is in. Texts without any line don't count.
    """
    found = [{line_hash(line, spec) for line in re.split("[\r\n]", text)} for text in texts]
    counts = Counter(line for lines in found for line in lines if line is not None)
    documents = sum(lines != {None} for lines in found)
    return {
        line: count for line, count in counts.items() if count >= 2 and count > share * documents
    }


def ignore_lines(text: str, ignored: Container[int], spec: Spec) -> str:
    """The text with the ignored lines made empty; whole, if no line would be left."""
    pieces = re.split("([\r\n])", text)  # lines at even places, their line breaks at odd
    hashes = [line_hash(line, spec) for line in pieces[::2]]
    if all(line is None or line in ignored for line in hashes):
        return text
    pieces[::2] = [
        "" if line is not None and line in ignored else piece
        for line, piece in zip(hashes, pieces[::2], strict=True)
    ]
    return "".join(pieces)


# -- shingles -----------------------------------------------------------------------------------

SHINGLE_BASE = 0x9E3779B97F4A7C15
SHINGLE_LENGTH = 0xD6E8FEB86659FD93


def mix(h: int) -> int:
    """MurmurHash3's 64-bit finaliser."""
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & MASK
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & MASK
    return h ^ h >> 33


def shingle_hash(hashes: Sequence[int]) -> int:
    """One shingle from its units' hashes: a polynomial mod 2^64, the length, a finaliser."""
    h = 0
    for unit in hashes:
        h = (h * SHINGLE_BASE + unit) & MASK
    return mix((h + len(hashes) * SHINGLE_LENGTH) & MASK)


def shingles(hashes: Sequence[int], size: int) -> set[int]:
    """Every run of `size` units; fewer units than that are one whole shingle."""
    if not hashes:
        return set()
    last = max(len(hashes) - size, 0)
    return {shingle_hash(hashes[at : at + size]) for at in range(last + 1)}


# -- sketch -------------------------------------------------------------------------------------


def permutation(slot: int, seed: int) -> tuple[int, int]:
    """The constants of one slot, from the seed alone."""
    a = xxh64(f"a:{slot}".encode(), seed) % 2**32 | 1
    b = xxh64(f"b:{slot}".encode(), seed) % 2**32
    return a, b


def signature(elements: set[int], spec: Spec) -> list[int]:
    """k-hash MinHash: slot i is the least (a_i x + b_i) mod 2^32 over the elements' low halves."""
    rows = (permutation(slot, spec.seed) for slot in range(spec.slots))
    return [min(((a * x + b) % 2**32 for x in elements), default=EMPTY_SLOT) for a, b in rows]


def band_keys(sig: Sequence[int], bands: int, rows: int) -> list[int]:
    """The key of band j is the xxHash64, with seed j, of its slots as little-endian bytes."""
    return [
        xxh64(pack(f"<{rows}I", *sig[band * rows : (band + 1) * rows]), band)
        for band in range(bands)
    ]


# -- verification -------------------------------------------------------------------------------


def jaccard(a: set[int], b: set[int]) -> float:
    return len(a & b) / len(a | b) if a or b else 1.0


def estimate(a: Sequence[int], b: Sequence[int]) -> float:
    return sum(x == y for x, y in zip(a, b, strict=True)) / len(a)


# -- the keep list ------------------------------------------------------------------------------


def keep_list(
    buckets: Sequence[Sequence[int]],
    similarity: dict[tuple[int, int], float],
    threshold: float,
    limit: int,
) -> list[tuple[int, float] | None]:
    """The answer, by its definition. Documents are 0, 1, 2, ... in rank order.

    In rank order a document is removed if and only if it is similar to one of the first
    `limit` kept documents of one of its buckets; its witness is the best-ranked of them.
    `buckets[v]` names v's buckets; `similarity[u, v]` with u < v. None means kept.
    """
    answer: list[tuple[int, float] | None] = []
    for v, mine in enumerate(buckets):
        leaders: set[int] = set()
        for bucket in mine:
            kept = [u for u in range(v) if answer[u] is None and bucket in buckets[u]]
            leaders.update(kept[:limit])
        found = [(u, similarity.get((u, v), 0.0)) for u in sorted(leaders)]
        answer.append(next((pair for pair in found if pair[1] >= threshold), None))
    return answer


def dedup(
    texts: Sequence[str],
    spec: Spec,
    bands: int,
    rows: int,
    threshold: float,
    limit: int = 256,
) -> list[tuple[int, float] | None]:
    """Texts in rank order to their keep list: None is kept, else (witness, exact similarity).

    A text with nothing in it is its own witness, with similarity 0: it is rejected.
    """
    hashes = [unit_hashes(units(text, spec), spec.seed) for text in texts]
    first: dict[tuple[int, int], int] = {}
    for v, found in enumerate(hashes):
        if found:
            first.setdefault(content_hash(found), v)
    unique = sorted(first.values())
    sets = {v: shingles(hashes[v], spec.size) for v in unique}
    keys = [list(enumerate(band_keys(signature(sets[v], spec), bands, rows))) for v in unique]
    numbers = {key: n for n, key in enumerate(sorted({key for mine in keys for key in mine}))}
    similar = {
        (i, j): jaccard(sets[u], sets[v])
        for j, v in enumerate(unique)
        for i, u in enumerate(unique[:j])
    }
    decided = keep_list([[numbers[k] for k in mine] for mine in keys], similar, threshold, limit)
    standing = dict(zip(unique, decided, strict=True))
    answer: list[tuple[int, float] | None] = []
    for v, found in enumerate(hashes):
        if not found:
            answer.append((v, 0.0))
            continue
        best = first[content_hash(found)]
        verdict = standing[best]
        if verdict is not None:
            answer.append((unique[verdict[0]], verdict[1]))
        else:
            answer.append(None if v == best else (best, 1.0))
    return answer


# -- exact duplicates ---------------------------------------------------------------------------


def visible(text: str) -> int:
    """How many characters are neither white space nor dropped."""
    return sum(kind(ord(c)) not in "_D" for c in text)


def parts(text: str, unit: str) -> list[tuple[str, str | None]]:
    """The text in pieces, each with its line breaks and what it is without the last; None for
    blank lines. A piece is a line; of paragraphs, consecutive lines that are not blank."""
    pieces: list[tuple[str, str | None]] = []
    for line in re.findall("[^\n]*\n|[^\n]+", text):
        content = re.sub("\r?\n\\Z", "", line) if visible(line) else None
        if unit == "paragraph" and content is not None and pieces and pieces[-1][1] is not None:
            before, _ = pieces.pop()
            pieces.append((before + line, before + content))
        else:
            pieces.append((line, content))
    return pieces


def cut_repeats(
    texts: Sequence[str], unit: str, min_length: int, spec: Spec | None
) -> list[tuple[str, int, int | None]]:
    """Texts in rank order without the parts that were there before, by bytes or, with a
    specification, by words. Each text, how many parts it lost, and if nothing visible is left the
    text in which its first part stays."""
    seen: dict[object, int] = {}
    answer: list[tuple[str, int, int | None]] = []
    for number, text in enumerate(texts):
        left, repeats = "", []
        for piece, content in parts(text, unit):
            if content is None or visible(content) < min_length:
                left += piece
                continue
            same = content if spec is None else tuple(units(content, spec))
            if same in seen:
                repeats.append(seen[same])
            else:
                seen[same] = number
                left += piece
        gone = repeats and not visible(left)
        answer.append((left, len(repeats), repeats[0] if gone else None))
    return answer
