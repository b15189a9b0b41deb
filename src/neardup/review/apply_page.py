"""Make the run again with the decisions, in a folder beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from starlette.responses import Response

from neardup.decisions import Decisions
from neardup.formatting import format_count
from neardup.report.html import Html, name, note, tag
from neardup.review.apply_work import ApplyWork
from neardup.review.frame import field, share_bar
from neardup.review.run_subject import RunSubject
from neardup.review.visits import ReviewRefusal, Visit, action_route, page_route

LONGEST_FOLDER: Final = 200


def show_apply(visit: Visit) -> Response:
    """Show the form, or how far the work is."""
    work = visit.desk.apply_work
    if work.is_under_way:
        return visit.render("One moment", *_under_way(work), at="decisions")
    outcome = list(_outcome(visit, work))
    heading = tag("h2" if outcome else "h1", "Apply the decisions")
    return visit.render("Apply", *outcome, heading, *_form(visit), at="decisions")


def _under_way(work: ApplyWork) -> Iterator[Html]:
    yield tag("h1", "The run is being made again")
    yield tag("p", f"Now: {work.stage}. The page goes on by itself.")
    yield share_bar(work.done, f"{work.done:.0%} of this stage done")
    yield tag("p", tag("a", "Go on", href="", data_wait=True))


def _outcome(visit: Visit, work: ApplyWork) -> Iterator[Html]:
    if work.failure is not None:
        yield tag("h1", "That failed")
        yield tag("p", str(work.failure), ".", role="alert", class_="refused")
    if work.counts is None or work.out is None:
        return
    kept, removed = work.counts["kept"], work.counts["removed"]
    before = visit.desk.record.counts
    yield tag("h1", "Done")
    yield tag(
        "p",
        f"{format_count(kept, 'document')} kept ({kept - before.kept:+,}), {removed:,} removed "
        f"({removed - before.removed:+,}). They are in ",
        name(str(work.out)),
        "; this run stays as it is.",
    )


def _form(visit: Visit) -> Iterator[Html]:
    total = sum(visit.desk.journal.counts().values())
    subject = visit.desk.subject
    if isinstance(subject, RunSubject) and subject.unheeded:
        yield note(f"Decisions about this run can't be applied to it: {subject.unheeded}.")
        return
    if not total:
        yield note("Nothing is decided yet.")
        return
    yield note(
        "The run is made again with all decisions, in a new folder beside it. Only what they "
        "change is decided again; its inputs must be where they were, unchanged."
    )
    yield visit.action(
        "apply",
        field("Folder", "text", "folder", _free_name(visit.desk.run), maxlength=LONGEST_FOLDER),
        tag("button", f"Apply {format_count(total, 'decision')}", class_="primary"),
        class_="controls",
    )


def _free_name(run: Path) -> str:
    """Return the name of a folder that does not exist."""
    run = run.resolve()
    names = (f"{run.name}-decided{f'-{n}' if n > 1 else ''}" for n in range(1, 1000))
    return next((one for one in names if not (run.parent / one).exists()), "")


def begin_apply(visit: Visit) -> Response:
    """Begin to make the run again."""
    folder = visit.form.get("folder", "").strip()
    beside = visit.desk.run.resolve().parent
    is_name = folder.isprintable() and folder not in ("", ".", "..") and not set(folder) & {*"/\\"}
    if not is_name or len(folder.encode("utf-8", "replace")) > LONGEST_FOLDER:
        raise ReviewRefusal(400, f"give the name of a folder, which is made in {beside}")
    if (beside / folder).exists() and not (beside / folder / ".unfinished").is_dir():
        raise ReviewRefusal(409, f"{folder} exists: give another name")
    journal = visit.desk.journal
    Decisions.of(journal.contested()).check("the decisions")
    visit.desk.apply_work.begin(lambda: Decisions.of(journal.export()), beside / folder)
    return visit.go_to(visit.url("apply"))


ROUTES = [page_route("/apply", show_apply), action_route("/apply", begin_apply)]
