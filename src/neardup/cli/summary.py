"""What commands over files print at the end: lines that they have in common."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

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


def show(record: dict[str, Any], summary: str, quiet: bool, as_json: bool) -> None:
    """Print the record, the summary, or nothing."""
    if as_json:
        # ASCII: what reads this may not know the encoding of a pipe.
        print(json.dumps(record, indent=2))
    elif not quiet:
        sys.stdout.write(summary)
