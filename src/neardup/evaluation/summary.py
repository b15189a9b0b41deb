"""An evaluation as a person reads it on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from neardup.evaluation.golden import SEVERAL, shown

if TYPE_CHECKING:
    from neardup.evaluation.outcome import Case, Evaluation, Losses
    from neardup.evaluation.scores import Scores

SHOWN: Final = 3
WIDTH: Final = 100
"""Columns where nobody says how many there are."""
INDENT: Final = 20
NARROWEST: Final = 20
BETWEEN: Final = "   "

Line = tuple[str, Sequence[str]]
"""What it is about, and what is said: parts that stay whole if they can."""


def summary(found: Evaluation, width: int = WIDTH) -> str:
    """Some lines, the figures first; what is longer than a line goes on below its beginning."""
    golden = found.golden
    positives = int(golden.label.sum())
    counts = (
        f"{len(golden):,} labelled pairs",
        f"{positives:,} duplicates",
        f"{len(golden) - positives:,} others",
    )
    lines = [*_packed(counts, width), *wrap(found.judged, width, subsequent_indent=" " * INDENT)]
    for name, parts in _lines(found):
        first, *others = _packed(parts, max(width - INDENT, NARROWEST))
        lines += [f"{name:{INDENT}}{first}", *(" " * INDENT + other for other in others)]
    return "\n".join(lines) + "\n"


def _packed(parts: Sequence[str], width: int) -> list[str]:
    """As many parts on a line as have room there. Names are not broken, so that they can be
    copied."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(BETWEEN) + len(part) <= width:
            lines[-1] += BETWEEN + part
        else:
            lines += wrap(part, width, break_long_words=False, break_on_hyphens=False)
    return lines


def _lines(found: Evaluation) -> Iterator[Line]:
    for name, flaw in found.golden.flaws.items():
        if flaw.count:
            first, *others = (" ~ ".join(map(shown, one)) for one in flaw.listed[:SHOWN])
            title = "not unique" if name == SEVERAL else "left out"
            yield title, [f"{flaw.count:,} {name}: {first}", *others]
    yield "by labels", _scores(found.labels)
    if found.similarity is not None:
        yield "by similarity", _scores(found.similarity)
    if found.candidates is not None:
        yield "that meet", [f"recall {found.candidates.recall}"]
    if found.losses is not None and found.labels.fn:
        yield "missed", _losses(found.losses)
    if (rand := found.rand) is not None:
        yield "adjusted Rand", [f"{_number(rand.value)}; golden clusters: {rand.clusters}"]
    if (sweep := found.sweep) is not None and sweep.best is not None:
        recall, precision, f1 = map(_number, sweep.at_best)
        said = f"{sweep.best:g}: recall {recall}, precision {precision}, F1 {f1}, if all pairs met"
        yield "best threshold", [said]
    for name, cases in (
        ("false positives", found.false_positives),
        ("false negatives", found.false_negatives),
    ):
        if cases:
            yield name, [_case(case) for case in cases[:SHOWN]]
    for note in found.notes:
        yield "note", [note]
    for change in found.drift or ():
        yield "since the baseline", [change]


def _scores(scores: Scores) -> list[str]:
    return [f"recall {scores.recall}", f"precision {scores.precision}", f"F1 {scores.f1}"]


def _losses(losses: Losses) -> list[str]:
    """Why pairs were missed; the last two only if there are any."""
    said = [
        f"{losses.dissimilar:,} are less similar than the threshold",
        f"{losses.never_met:,} are similar and never met",
    ]
    if losses.misjudged:
        said.append(f"{losses.misjudged:,} were misjudged by their estimates")
    if losses.apart:
        said.append(
            f"{losses.apart:,} are similar and in different clusters: each went with another kept "
            "document, or was kept for itself"
        )
    return said


def _case(case: Case) -> str:
    similarity = "" if case.similarity is None else f" ({case.similarity:.2f})"
    return f"{shown(case.id1)} ~ {shown(case.id2)}{similarity}"


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"
