"""The end of a run over files: its summary, as lines of text, and whether too much was rejected."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from neardup.corpus.folders import describe_reasons
from neardup.errors import TooManyRejected
from neardup.formatting import format_count
from neardup.pipeline.output import RUN_FILE
from neardup.wording import (
    add_cures,
    format_advice,
    format_by_earlier,
    format_by_signal,
    format_counts,
    format_decisions,
    format_earlier,
    format_example,
    format_indexed_before,
    format_largest_clusters,
    format_method,
    format_rejected,
    format_second_signal,
    format_sources,
    format_undated,
    format_vetoed,
    list_reasons,
)

if TYPE_CHECKING:
    from neardup.pipeline.record import FinishedRun


def format_summary(finished: FinishedRun, page: str | Path | None) -> str:
    """Return the summary that is printed at the end of a run.

    Args:
        finished: The run.
        page: Where its report is, if it has one.
    """
    record, options = finished.record, finished.options
    counts = {
        name: record["counts"][name]
        for name in ("documents", "kept", "removed", "identical", "rejected")
    }
    lines = [
        format_counts(**counts),
        format_method(options, record["predicted"]["recall_at_threshold"]),
        *format_second_signal(options),
    ]
    if (by_earlier := record["counts"].get("removed_by_earlier")) is not None:
        lines.append(format_by_earlier(counts["removed"], by_earlier))
    lines += format_by_signal(record.get("removed_by"))
    if before := record.get("indexed_before"):
        former = record.get("written_before")
        lines.append(format_indexed_before(before, counts["documents"], former))
    lines += format_sources(record.get("sources"))
    if finished.largest:
        lines.append(format_largest_clusters(finished.largest))
    for example in finished.examples:
        lines.append(format_example(options, *example))
    if (vetoed := record["counts"].get("vetoed")) is not None:
        listed = "; vetoed.parquet lists them" if vetoed else ""
        lines.append(format_vetoed(vetoed, options) + listed)
    if decisions := record.get("decisions"):
        lines.append(format_decisions(decisions))
    lines += format_rejected(add_cures(record["reasons"]), counts["rejected"])
    if undated := record["counts"].get("undated"):
        lines.append(format_undated(undated, options))
    if record["parameters"].get("against") and options.keep != "first":
        lines.append(format_earlier(options))
    if ignored := record.get("ignored_lines"):
        lines.append(
            f"ignored             {format_count(ignored['count'], 'line')} in too many documents; "
            "run.json lists them"
        )
    if record["full_buckets"]["count"]:
        listed = "; run.json lists them" if record["full_buckets"]["listed"] else ""
        lines.append(
            f"hot buckets         {record['full_buckets']['count']:,} in which not every document "
            f"was compared{listed}"
        )
    lines += map(format_advice, record.get("advice", ()))
    return "\n".join([*lines, *last_lines(record, page)]) + "\n"


SHOWN_KINDS = 3


def unread_lines(
    kinds: Mapping[str, int],
    reasons: Mapping[str, int],
    files: Iterable[tuple[str, str]] = (),
    listed_in: str = "",
) -> Iterator[str]:
    """Yield lines with what was not read, if there is anything.

    Args:
        kinds: The parts of files that are no documents, by kind.
        reasons: The files that were not read, by reason.
        files: Names of them, each with its reason.
        listed_in: A remark about where these files are listed.
    """
    shown = dict(islice(kinds.items(), SHOWN_KINDS))
    listed = [f"{kind}: {count:,}" for kind, count in shown.items()]
    if more := sum(kinds.values()) - sum(shown.values()):
        listed.append(f"others: {more:,}")
    if listed:
        yield "no documents        " + "   ".join(listed)
    if reasons:
        yield f"not read            {describe_reasons(reasons, files)}{listed_in}"


FILE_ENDING: Final = re.compile(r"\.[A-Za-z]{2,8}")
"""Ends the name of a folder that was hardly meant as one; versions and dates have digits."""


def last_lines(record: dict[str, Any], page: str | Path | None) -> Iterator[str]:
    """Yield the end of a run's summary: skipped files, time and memory, where the report is."""
    if not record["counts"]["documents"]:
        yield "nothing to do       the inputs hold no document: check INPUT and --format"
    unread = record.get("unread_files", {})
    yield from unread_lines(
        record.get("not_documents", {}),
        unread.get("reasons", {}),
        [(one["file"], one["reason"]) for one in unread.get("listed", [])],
        "; run.json lists them",
    )
    if skipped := len(record["skipped_files"]):
        yield f"skipped             {format_count(skipped, 'bad file')}; run.json lists them"
    folder = Path("" if page is None else page).parent
    if FILE_ENDING.fullmatch(folder.suffix) and (folder / RUN_FILE).is_file():
        yield (
            f"a folder            {folder}, since {folder.suffix} is no ending of a data file: use "
            "one such as .jsonl for one file"
        )
    seconds, memory = record["seconds"]["total"], record["peak_memory_bytes"] / 10**6
    shown = "" if page is None else f"; {page} shows it"
    yield f"{seconds:.1f} s, {memory:,.0f} MB at most{shown}"


def check_rejected(record: Mapping[str, Any], where: str) -> None:
    """Raise `TooManyRejected` if more documents were rejected than a run allows.

    Args:
        record: The content of run.json.
        where: What the error says about the rejected documents, and about the others.
    """
    allowed = record["parameters"]["max_rejected"]
    require_few_rejected(record["counts"], record["reasons"], allowed, where)


def require_few_rejected(
    counts: Mapping[str, int], reasons: Mapping[str, int], allowed: float, where: str
) -> None:
    """Raise `TooManyRejected` if more than a share of the documents was rejected.

    Args:
        counts: The numbers of `documents` and of `rejected` ones.
        reasons: Documents by the reason why they were rejected, the most common first.
        allowed: The largest share.
        where: What the error says about the rejected documents, and about the others.
    """
    rejected, documents = counts["rejected"], counts["documents"]
    if rejected > allowed * documents:
        listed = "; ".join(list_reasons(add_cures(reasons), rejected))
        raise TooManyRejected(
            f"{rejected:,} of {format_count(documents, 'document')} rejected ({listed}), more than "
            f"--max-rejected {allowed:g} allows: {where}; correct the input or the options, or "
            "allow more"
        )
