"""An evaluation as a person reads it on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from neardup.evaluate.golden import SEVERAL

if TYPE_CHECKING:
    from neardup.evaluate.outcome import Case, Evaluation
    from neardup.evaluate.scores import Scores

SHOWN: Final = 3
LONGEST: Final = 80


def summary(found: Evaluation) -> str:
    """Some lines, the figures first."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Evaluation) -> Iterator[str]:
    golden = found.golden
    positives = int(golden.label.sum())
    yield (
        f"{len(golden):,} labelled pairs   {positives:,} duplicates   "
        f"{len(golden) - positives:,} others"
    )
    for name, flaw in golden.flaws.items():
        if flaw.count:
            some = "   ".join(" ~ ".join(map(_shown, one)) for one in flaw.listed[:SHOWN])
            title = "not unique" if name == SEVERAL else "left out"
            yield _line(title, f"{flaw.count:,} {name}: {some}")
    yield found.judged
    yield from _scores("by labels", found.labels)
    if found.similarity is not None:
        yield from _scores("by similarity", found.similarity)
    if found.candidates is not None:
        yield _line("that meet", f"recall {found.candidates.recall}")
    if (losses := found.losses) is not None and found.labels.fn:
        yield _line(
            "missed",
            f"{losses.dissimilar:,} are less similar than the threshold   {losses.never_met:,} are "
            f"similar and never met   {losses.misjudged:,} were misjudged",
        )
    if found.rand is not None:
        value = "undefined" if found.rand.value is None else f"{found.rand.value:.4f}"
        yield _line("adjusted Rand", f"{value}; golden clusters: {found.rand.clusters}")
    if found.sweep is not None and found.sweep.best is not None:
        recall, precision, f1 = (_number(value) for value in found.sweep.at_best)
        yield _line(
            "best threshold",
            f"{found.sweep.best:g}: recall {recall}, precision {precision}, F1 {f1}, if all pairs "
            "met",
        )
    yield from _cases("false positives", found.false_positives)
    yield from _cases("false negatives", found.false_negatives)
    for note in found.notes:
        yield _line("note", note)
    for said in found.drift or ():
        yield _line("since the baseline", said)


def _line(name: str, words: str) -> str:
    return f"{name:20}{words}"


def _scores(name: str, scores: Scores) -> Iterator[str]:
    yield _line(
        name, f"recall {scores.recall}   precision {scores.precision}   F1 {scores.f1}"
    )  # fmt: skip


def _cases(name: str, cases: list[Case]) -> Iterator[str]:
    if cases:
        shown = (
            f"{_shown(case.id1)} ~ {_shown(case.id2)}"
            + ("" if case.similarity is None else f" ({case.similarity:.2f})")
            for case in cases[:SHOWN]
        )
        yield _line(name, "   ".join(shown))


def _shown(id: str) -> str:
    """A name that does nothing to a terminal."""
    short = id if len(id) <= LONGEST else f"{id[: LONGEST // 2]}…{id[-LONGEST // 2 :]}"
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in short)


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"
