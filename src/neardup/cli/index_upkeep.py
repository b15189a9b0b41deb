"""neardup index stats, verify, compact, retune: an index as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from neardup.cli.index_shared import Dir, IndexKey, PlainJson, earlier_lines, reading, writing
from neardup.cli.matching import match
from neardup.cli.shared import Quiet

if TYPE_CHECKING:
    from neardup.index.index import Index
    from neardup.index.stats import Stats


def stats(folder: Dir, key_file: IndexKey = None, as_json: PlainJson = False) -> None:
    """Show what is in an index, what it takes, and how large its buckets are."""
    import json

    with reading(folder, key_file) as index:
        found, about = index.stats(), _about(index)
    if as_json:
        print(json.dumps(about | found.as_dict, indent=2))
        return
    for name, value in _lines(found, about):
        print(f"{name:14}{value}")
    for line in earlier_lines(folder):
        print(line)


def _about(index: Index) -> dict[str, object]:
    from neardup.result import method_line

    options = index.options
    return {
        "fingerprint": index.spec.fingerprint,
        "parent": index.settings.parent or None,
        "point": method_line(options, options.meeting.probability(options.threshold)),
        "keep_texts": index.settings.keep_texts,
    }


def _lines(found: Stats, about: dict[str, object]) -> list[tuple[str, str]]:
    from neardup.formatting import format_bytes

    documents = max(found.documents, 1)
    buckets, disk = found.buckets, sum(found.disk_bytes.values())
    removed = f"   {found.buried:,} removed, still in tables" if found.buried else ""
    files = ", ".join(f"{name} {format_bytes(size)}" for name, size in found.disk_bytes.items())
    return [
        (
            "documents",
            f"{found.documents:,}   {found.kept:,} kept   {found.copies:,} copies" + removed,
        ),
        ("compared by", str(about["point"])),
        (
            "specification",
            str(about["fingerprint"])
            + (f", narrowed from {about['parent']}" if about["parent"] else ""),
        ),
        ("texts", "kept" if about["keep_texts"] else "not kept"),
        (
            "memory",
            f"{format_bytes(found.index_memory_bytes)}, {found.bytes_per_document:,.0f} "
            "bytes a document",
        ),
        ("disk", f"{format_bytes(disk)}, {disk / documents:,.0f} bytes a document ({files})"),
        (
            "buckets",
            f"{buckets.buckets:,}, kept documents in one: median {buckets.p50:,}, 99 % "
            f"have at most {buckets.p99:,}, the largest {buckets.largest:,}; {buckets.full:,} full",
        ),
        (
            "changes",
            f"{found.sequence:,}, {found.sequence - found.snapshot_sequence:,} of them "
            "since the snapshot",
        ),
    ]


def verify(folder: Dir, key_file: IndexKey = None, quiet: Quiet = False) -> None:
    """Read everything once and say what is wrong; exit code 1 if anything is."""
    with reading(folder, key_file) as index:
        problems, documents = index.verify(), len(index)
    for problem in problems:
        print(problem)
    if problems:
        raise typer.Exit(1)
    if not quiet:
        print(f"{documents:,} documents, nothing is wrong")


def compact(folder: Dir, key_file: IndexKey = None, quiet: Quiet = False) -> None:
    """Build the tables without removed documents, forget old changes, and give back space."""
    from neardup.cli.progress import progress_for
    from neardup.formatting import format_bytes
    from neardup.index.stats import tree_bytes

    before = tree_bytes(folder)
    with progress_for(quiet=quiet) as progress, writing(folder, key_file, progress) as index:
        index.compact()
    if not quiet:
        print(f"{format_bytes(before)} before, {format_bytes(tree_bytes(folder))} now")
        for line in earlier_lines(folder):
            print(line)


def retune(
    folder: Dir,
    threshold: Annotated[float | None, match("threshold")] = None,
    recall: Annotated[float | None, match("recall")] = None,
    bands: Annotated[int | None, match("bands")] = None,
    rows: Annotated[int | None, match("rows")] = None,
    tables: Annotated[str | None, match("tables")] = None,
    limit: Annotated[int | None, match("limit")] = None,
    verify: Annotated[str | None, match("verify")] = None,
    measure: Annotated[str | None, match("measure")] = None,
    hamming: Annotated[int | None, match("hamming")] = None,
    blocks: Annotated[int | None, match("blocks")] = None,
    key_file: IndexKey = None,
    quiet: Quiet = False,
) -> None:
    """Go over to another operating point, without the texts. What is not given stays as it is.

    All documents are judged again in the order in which they came, by what is stored of them.
    """
    from neardup.cli.progress import progress_for
    from neardup.errors import UsageError

    asked = {
        "threshold": threshold,
        "recall": recall,
        "bands": bands,
        "rows": rows,
        "tables": tables,
        "limit": limit,
        "verify": verify,
        "measure": measure,
        "hamming": hamming,
        "blocks": blocks,
    }
    given = {name: value for name, value in asked.items() if value is not None}
    if not given:
        raise UsageError("nothing is to change: give --threshold, --recall or --bands and --rows")
    with progress_for(quiet=quiet) as progress, writing(folder, key_file, progress) as index:
        moved, documents, about = index.retune(**given), len(index), _about(index)
    if not quiet:
        print(f"{moved:,} of {documents:,} documents have another answer now")
        print(about["point"])
