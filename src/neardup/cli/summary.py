"""The last lines of a command: what became of the documents of a run, or of an index."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neardup.index.from_run import LoadedRun
    from neardup.index.index import Index
    from neardup.index.load import LoadCounts
    from neardup.options import Options


SHOWN_REASONS = 3


def rejected_line(record: dict[str, Any]) -> Iterator[str]:
    """Why documents were rejected, if any were."""
    if record["reasons"]:
        shown = dict(islice(record["reasons"].items(), SHOWN_REASONS))
        reasons = [f"{count:,} {reason}" for reason, count in shown.items()]
        if more := record["counts"]["rejected"] - sum(shown.values()):
            reasons.append(f"{more:,} for other reasons")
        yield "rejected            " + "   ".join(reasons)


def last_lines(record: dict[str, Any], out: Path | str) -> Iterator[str]:
    """Bad files, if there were any; what it took, and where to look."""
    if record["skipped_files"]:
        skipped = len(record["skipped_files"])
        files = "file" if skipped == 1 else "files"
        yield f"skipped             {skipped:,} bad {files}; run.json lists them"
    seconds, memory = record["seconds"]["total"], record["peak_memory_bytes"] / 10**6
    yield f"{seconds:.1f} s, {memory:,.0f} MB at most; {out}/report.html shows it"


def print_run(record: dict[str, Any], summary: str, quiet: bool, as_json: bool) -> None:
    """Print the record, the summary, or nothing."""
    if as_json:
        # ASCII: what reads this may not know the encoding of a pipe.
        print(json.dumps(record, indent=2))
    elif not quiet:
        sys.stdout.write(summary)


def print_filled(filled: LoadCounts, index: Index, quiet: bool, as_json: bool) -> None:
    """What became of the documents of files."""

    from neardup.pipeline.budget import peak_memory

    counts = {
        "documents": filled.documents,
        "new": filled.new,
        "copies": filled.copies,
        "again": filled.again,
        "rejected": filled.rejected,
    }
    reasons = dict(filled.reasons.most_common())
    record = {"counts": counts, "reasons": reasons}
    if as_json:
        more = {
            "seconds": filled.seconds,
            "peak_memory_bytes": peak_memory(),
            "index_documents": len(index),
            "fingerprint": index.spec.fingerprint,
        }
        print(json.dumps(record | more, indent=2))
    elif not quiet:
        there = f"   {filled.again:,} were there" if filled.again else ""
        rate, memory = filled.documents / max(filled.seconds, 1e-9), peak_memory() / 10**6
        _print(
            (
                f"{filled.documents:,} documents   {filled.new:,} new   {filled.copies:,} copies"
                f"{there}   {filled.rejected:,} rejected",
                _method(index.options),
                *rejected_line(record),
                f"{filled.seconds:.1f} s, {rate:,.0f} documents/s, {memory:,.0f} MB at most; "
                f"{len(index):,} documents in {index.path}",
            )
        )


def print_loaded(loaded: LoadedRun, quiet: bool, as_json: bool) -> None:
    """What became of the documents of a run."""
    if as_json:
        counts = {
            "documents": loaded.documents,
            "kept": loaded.kept,
            "copies": loaded.copies,
            "left_out": loaded.left_out,
            "renamed": loaded.renamed,
        }
        fingerprint = loaded.settings.options.spec.fingerprint
        print(json.dumps({"counts": counts, "fingerprint": fingerprint}, indent=2))
    elif not quiet:
        lines = [
            f"{loaded.documents:,} documents   {loaded.kept:,} kept   {loaded.copies:,} copies   "
            f"{loaded.left_out:,} left out (rejected, or copies of what is not here)",
            _method(loaded.settings.options),
        ]
        if loaded.renamed:
            lines.append(
                f"{loaded.renamed:,} have an id that was taken: they are called by file and row"
            )
        if loaded.settings.options.verify == "exact":
            lines.append("they came without texts: similarity to them is estimated by signatures")
        _print(lines)


def _method(options: Options) -> str:
    from neardup.result import format_method

    return format_method(options, options.meeting.probability(options.threshold))


def _print(lines: Iterable[str]) -> None:
    print("\n".join(lines))
