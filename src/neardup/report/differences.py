"""The differences of two texts, word by word, in bounded time; and two texts side by side.

Myers' algorithm (An O(ND) Difference Algorithm, 1986): its time grows with the number of
differences, and near-duplicates have few. After MOST_EDITS edits the search stops; difflib, whose
worst case is cubic, can't be stopped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from neardup.report.html import Html, note, tag
from neardup.text.passages import ALONE, CommonPassage, CommonPassages, common_passages

COMPARED: Final = 20_000  # characters of each text
SHOWN: Final = 4_000  # characters of each text, after equal passages were folded
CONTEXT: Final = 12  # equal words shown before and after a difference
FOLDED: Final = 30  # the fewest equal words that are folded
MOST_EDITS: Final = 256
EXCERPT: Final = 400  # characters that are shown of two equal texts
PASSAGE: Final = 1_000  # characters that are shown of a common passage
MOSTLY: Final = 0.5  # texts with a larger common share are told by their differences

# An emoji of several characters is one: flags, joined ones, with a colour of skin or a style.
_FLAG: Final = "[\U0001f1e6-\U0001f1ff]{2}"
_SYMBOL: Final = r"[^\w\s](?:[\ufe0f\u20e3\U0001f3fb-\U0001f3ff]|\u200d[^\w\s])*"
_WORD = re.compile(rf"[{ALONE}]|[^\W{ALONE}]+|{_FLAG}|{_SYMBOL}")


@dataclass(frozen=True)
class TextPiece:
    """A passage of one text; `changed` if the other text does not have it."""

    text: str
    changed: bool


@dataclass(frozen=True)
class Hunk:
    """Differences that are close together, with the equal words around them, in both texts.

    `same_before` is the number of equal words that are folded before it.
    """

    same_before: int
    kept: list[TextPiece]
    copy: list[TextPiece]


@dataclass(frozen=True)
class TextComparison:
    """The differences of two texts.

    Attributes:
        hunks: the differences, in order.
        same_after: the number of equal words that are folded after the last hunk.
        complete: whether both texts were compared to their ends and all hunks are shown.
    """

    hunks: list[Hunk]
    same_after: int
    complete: bool


class MatchingBlock(NamedTuple):
    """`size` equal words, starting at word `kept` of one text and word `copy` of the other."""

    kept: int
    copy: int
    size: int


class WordChange(NamedTuple):
    """Words that differ: their start and end in each text."""

    kept: tuple[int, int]
    copy: tuple[int, int]


class TextWords:
    """A text cut into words and punctuation marks; white space belongs to the word before it."""

    def __init__(self, text: str) -> None:
        matches = list(_WORD.finditer(text))
        self.words = [match.group() for match in matches]
        self._text = text
        self._starts = [0, *(match.start() for match in matches[1:]), len(text)]

    def __len__(self) -> int:
        return len(self.words)

    def pieces(self, start: int, stop: int, changed: bool) -> list[TextPiece]:
        """Return words `start` to `stop` as a piece of the text; an empty range has none."""
        text = self._text[self._starts[start] : self._starts[stop]]
        return [TextPiece(text, changed)] if start < stop else []


def compare_texts(kept: str, copy: str) -> TextComparison:
    """Compare two texts, up to the sizes that can be shown."""
    left, right = TextWords(kept[:COMPARED]), TextWords(copy[:COMPARED])
    blocks = matching_blocks(left.words, right.words)
    cut = max(len(kept), len(copy)) > COMPARED
    if not (cut and blocks):  # what comes after the last equal words may be equal to what was cut
        blocks.append(MatchingBlock(len(left), len(right), 0))
    hunks, same_after = _hunks(left, right, blocks)
    shown = list(_shown(hunks))
    return TextComparison(shown, same_after, not cut and shown == hunks)


def matching_blocks(a: Sequence[str], b: Sequence[str]) -> list[MatchingBlock]:
    """Return the runs of equal words of a shortest edit script, in order.

    >>> matching_blocks("a b c d e".split(), "a b x d e".split())
    [MatchingBlock(kept=0, copy=0, size=2), MatchingBlock(kept=3, copy=3, size=2)]
    """
    prefix = _common(a, b)
    suffix = _common(a[prefix:][::-1], b[prefix:][::-1])
    middle = _path(a[prefix : len(a) - suffix], b[prefix : len(b) - suffix])
    blocks = [
        MatchingBlock(0, 0, prefix),
        *(MatchingBlock(x + prefix, y + prefix, size) for x, y, size in middle),
        MatchingBlock(len(a) - suffix, len(b) - suffix, suffix),
    ]
    return [block for block in blocks if block.size]


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """Return the number of leading words that are equal."""
    unequal = (place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    return next(unequal, min(len(a), len(b)))


class _Path(NamedTuple):
    """A path of the edit graph: its last block of equal words, and the path before it."""

    block: MatchingBlock
    before: _Path | None


def _path(a: Sequence[str], b: Sequence[str]) -> list[MatchingBlock]:
    """Return the blocks on the path with the fewest edits; on the longest path after MOST_EDITS."""
    # By diagonal (position in a minus position in b): the furthest position in a, and its path.
    reached: dict[int, tuple[int, _Path | None]] = {1: (0, None)}
    for edits in range(MOST_EDITS + 1):
        for diagonal in range(-edits, edits + 1, 2):
            (inserted, path), (deleted, other) = (
                reached.get(diagonal + step, (-1, None)) for step in (1, -1)
            )
            x = start = max(inserted, deleted + 1)
            if x > inserted:
                path = other
            while x < len(a) and x - diagonal < len(b) and a[x] == b[x - diagonal]:
                x += 1
            if x > start:
                path = _Path(MatchingBlock(start, start - diagonal, x - start), path)
            reached[diagonal] = x, path
            if x >= len(a) and x - diagonal >= len(b):
                return _in_order(path)
    return _in_order(max((path for _, path in reached.values() if path), key=_end, default=None))


def _end(path: _Path) -> int:
    kept, copy, size = path.block
    return kept + copy + 2 * size


def _in_order(path: _Path | None) -> list[MatchingBlock]:
    blocks = []
    while path is not None:
        blocks.append(path.block)
        path = path.before
    return blocks[::-1]


def _hunks(
    left: TextWords, right: TextWords, blocks: Sequence[MatchingBlock]
) -> tuple[list[Hunk], int]:
    """Return the hunks, and the number of equal words after the last one."""
    end = blocks[-1].kept + blocks[-1].size
    groups = _groups(_changes(blocks))
    hunks, done = [], 0
    for place, group in enumerate(groups):
        first, last = group[0].kept[0], group[-1].kept[1]
        following = groups[place + 1][0].kept[0] if place + 1 < len(groups) else end
        before, after = _context(first - done), _context(following - last)
        hunks.append(
            Hunk(
                first - before - done,
                _surrounded(left, [change.kept for change in group], before, after),
                _surrounded(right, [change.copy for change in group], before, after),
            )
        )
        done = last + after
    return hunks, end - done


def _context(equal: int) -> int:
    """Return how many of the `equal` words beside a difference are shown with it."""
    return CONTEXT if equal >= CONTEXT + FOLDED else equal


def _changes(blocks: Sequence[MatchingBlock]) -> Iterator[WordChange]:
    """Yield the words between the blocks."""
    x = y = 0
    for kept, copy, size in blocks:
        if x < kept or y < copy:
            yield WordChange((x, kept), (y, copy))
        x, y = kept + size, copy + size


def _groups(changes: Iterator[WordChange]) -> list[list[WordChange]]:
    """Group changes that have too few equal words between them to be folded."""
    groups: list[list[WordChange]] = []
    for change in changes:
        if groups and change.kept[0] - groups[-1][-1].kept[1] < 2 * CONTEXT + FOLDED:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def _surrounded(
    words: TextWords, spans: Sequence[tuple[int, int]], before: int, after: int
) -> list[TextPiece]:
    """Return the changed words, with the equal words between and around them."""
    pieces, done = [], spans[0][0] - before
    for start, stop in spans:
        pieces += words.pieces(done, start, False) + words.pieces(start, stop, True)
        done = stop
    return pieces + words.pieces(done, done + after, False)


def _shown(hunks: Sequence[Hunk]) -> Iterator[Hunk]:
    """Yield the hunks that fit into SHOWN characters; the last one may be cut."""
    room = SHOWN
    for hunk in hunks:
        if room > 0:
            yield Hunk(hunk.same_before, _cut(hunk.kept, room), _cut(hunk.copy, room))
        room -= max(sum(len(piece.text) for piece in side) for side in (hunk.kept, hunk.copy))


def _cut(pieces: Sequence[TextPiece], room: int) -> list[TextPiece]:
    shown = []
    for piece in pieces:
        if room > 0:
            shown.append(TextPiece(piece.text[:room], piece.changed))
        room -= len(piece.text)
    return shown


def is_quoted(passages: CommonPassages) -> bool:
    """Return whether texts have passages in common, and one of them has more besides."""
    return bool(passages.listed) and min(passages.shares) <= MOSTLY


def passage_lines(passages: CommonPassages | None) -> Iterator[tuple[str, str]]:
    """Yield what two texts have in common, as lines with their names.

    Passages are listed where most of one of the texts is in none; else the differences tell more.
    """
    if passages is None:
        return
    long = f"passages of {passages.least} words or more"
    own, its = (
        f"{covered:,} of {words:,} words ({share:.0%})"
        for covered, words, share in zip(
            passages.covered, passages.words, passages.shares, strict=True
        )
    )
    if not passages.listed:
        yield "common", f"no {long}"
    else:
        more = "" if passages.complete else "; the ends of these long texts are not compared"
        yield "common", f"{own} here and {its} there are in {long}{more}"
    if is_quoted(passages):
        yield from (("passage", _describe_passage(one)) for one in passages.listed)


def _describe_passage(passage: CommonPassage) -> str:
    text = " ".join(passage.text.split())
    shown = text if len(text) <= PASSAGE else f"{text[:PASSAGE]} ..."
    here, there = passage.first.word, passage.second.word
    return f"{passage.words:,} words, from word {here:,} here and word {there:,} there: {shown}"


def side_by_side(kept: str, copy: str, sides: tuple[str, str]) -> Iterator[Html]:
    """Show two texts side by side, with the differences marked.

    Args:
        kept: the text on the left.
        copy: the text on the right.
        sides: the headings of the two columns.
    """
    comparison = compare_texts(kept, copy)
    if not comparison.hunks:
        yield from _equal_texts(comparison, kept)
        return
    passages = common_passages(copy, kept)
    if is_quoted(passages):
        lines = (f"{name}: {what}" for name, what in passage_lines(passages))
        yield tag("ul", *(tag("li", line, dir="auto") for line in lines), class_="passages")
    yield tag("div", *_hunk_rows(comparison, sides), class_="differences")
    yield from _incomplete(comparison)


def in_one_text(kept: str, copy: str) -> Iterator[Html]:
    """Show two texts as one, with what only one of them has marked.

    Args:
        kept: the one text; what only it has is marked as deleted.
        copy: the other one; what only it has is marked as inserted.
    """
    comparison = compare_texts(kept, copy)
    if not comparison.hunks:
        yield from _equal_texts(comparison, kept)
        return
    rows: list[Html] = []
    for hunk in comparison.hunks:
        rows += _fold(hunk.same_before)
        rows.append(tag("div", *_merged(hunk), class_="text", dir="auto"))
    rows += _fold(comparison.same_after)
    yield tag("div", *rows, class_="differences same")
    yield from _incomplete(comparison)


def _merged(hunk: Hunk) -> Iterator[str]:
    """Yield the pieces of both texts: equal words once, then what differs, of both."""
    kept, copy = list(hunk.kept), list(hunk.copy)
    while kept or copy:
        if kept and kept[0].changed:
            yield from _pieces([kept.pop(0)], "del")
        elif copy and copy[0].changed:
            yield from _pieces([copy.pop(0)], "ins")
        else:
            yield from _pieces([(kept or copy)[0]], "")
            del kept[:1], copy[:1]


def _incomplete(comparison: TextComparison) -> Iterator[Html]:
    if not comparison.complete:
        yield note(
            f"There may be more differences: only the first {COMPARED:,} characters of the texts "
            f"are compared, and {SHOWN:,} are shown."
        )


def _equal_texts(comparison: TextComparison, kept: str) -> Iterator[Html]:
    """Show the beginning of two texts without a difference, once; there is none of vectors."""
    if not kept:
        yield note("Only their vectors were compared: no text was read.")
        return
    where = "" if comparison.complete else f" in the first {COMPARED:,} characters"
    yield note(f"Word for word the same{where}.")
    more = "…" if len(kept) > EXCERPT else ""
    text = tag("div", f"{kept[:EXCERPT]}{more}", class_="text", dir="auto")
    yield tag("div", text, class_="differences same")


def _hunk_rows(comparison: TextComparison, sides: tuple[str, str]) -> Iterator[Html]:
    yield tag("div", sides[0], class_="side kept")
    yield tag("div", sides[1], class_="side removed")
    for hunk in comparison.hunks:
        yield from _fold(hunk.same_before)
        yield from _hunk(hunk)
    yield from _fold(comparison.same_after)


def _fold(words: int) -> Iterator[Html]:
    if words:
        yield tag("div", f"{words:,} equal word{'s' * (words > 1)}", class_="fold")


def _hunk(hunk: Hunk) -> Iterator[Html]:
    yield tag("div", *_pieces(hunk.kept, "del"), class_="text", dir="auto")
    yield tag("div", *_pieces(hunk.copy, "ins"), class_="text removed", dir="auto")


def _pieces(pieces: Sequence[TextPiece], mark: str) -> Iterator[str]:
    for piece in pieces:
        if piece.changed:
            words = piece.text.rstrip()
            yield tag(mark, words)
            yield piece.text[len(words) :]
        else:
            yield piece.text
