"""The options of neardup review for labels: draw pairs, write and read files, print figures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from neardup.errors import UsageError

if TYPE_CHECKING:
    from neardup.review.label_desk import LabelDesk
    from neardup.review.subject import ReviewSubject

KINDS = ("golden", "label-studio", "splink")


class LabelRequest(NamedTuple):
    """The options of neardup review that are about labels."""

    wanted: int | None
    seen: bool
    export: Path | None
    kind: str | None
    source: Path | None
    agreement: bool

    @property
    def ends(self) -> bool:
        """Whether the command ends without serving pages."""
        return self.export is not None or self.source is not None or self.agreement

    def check(self) -> None:
        """Refuse options that mean nothing together."""
        if self.kind is not None and self.export is None:
            raise UsageError("--labels-as says what --export-labels writes: give both")
        if self.kind is not None and self.kind not in KINDS:
            raise UsageError(f"--labels-as {self.kind[:40]!r}: choose {', '.join(KINDS)}")


def open_label_desk(subject: ReviewSubject, asked: LabelRequest) -> LabelDesk | None:
    """Draw the pairs that are asked for; return the desk for labels, None if there are no pairs.

    Args:
        subject: What is reviewed.
        asked: The options.
    """
    from neardup.cli.console import progress_for
    from neardup.review.label_desk import LabelDesk
    from neardup.review.run_subject import RunSubject

    asked.check()
    if not isinstance(subject, RunSubject):
        if asked.wanted is not None or asked.ends:
            raise UsageError("pairs are drawn of a finished run, not of an index: give its folder")
        return None
    desk = LabelDesk(subject, blind=not asked.seen)
    if asked.wanted is not None:
        from neardup.review.label_draw import draw_pairs

        with progress_for(quiet=False) as progress:
            draw_pairs(subject, desk.journal, asked.wanted, 1, progress)
        drawn = len(desk.draw.pairs)
        if drawn < asked.wanted:
            print(f"there are no more than {drawn:,} pairs", file=sys.stderr)
    if desk.journal.draw is None and not asked.ends:
        return None
    _ = desk.found  # the tables of a large run are read before the first page, not for it
    return desk


def answer_request(desk: LabelDesk, asked: LabelRequest, who: str | None) -> bool:
    """Read, write and print what is asked for; return whether that was all.

    Args:
        desk: The pairs and their answers.
        asked: The options.
        who: The person whose answers are written, or who has given those that are read.
    """
    from neardup.review.label_files import import_labels, write_labels

    if asked.source is not None:
        from neardup.review.server import check_name

        count, others = import_labels(desk, asked.source, check_name(who))
        left = f"; {others:,} about other pairs are left out" if others else ""
        print(f"{count:,} answers stored{left}", file=sys.stderr)
    if asked.export is not None:
        write_labels(desk, asked.export, asked.kind, who)
        waiting = desk.figures(who).waiting
        told = f"{asked.export}: {len(desk.labels(who)):,} labels"
        if waiting:
            told += f"; {waiting} parts of all pairs have none, and figures by these leave them out"
        print(told, file=sys.stderr)
    if asked.agreement:
        print(desk.figures(who))
        for two in desk.people():
            print(f"{two.mine} and {two.theirs}: {two.agreement}")
            for pair in two.differing:
                print(f"  pair {pair.number + 1:,}: {pair.a} ~ {pair.b}")
    return asked.ends
