"""neardup index stats, verify, compact, export, import: an index as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neardup.cli.arguments import Quiet
from neardup.cli.index import (
    Dir,
    IndexKey,
    PlainJson,
    describe_index,
    earlier_lines,
    open_to_read,
    open_to_write,
)

if TYPE_CHECKING:
    from neardup.index.stats import Stats


def stats(folder: Dir, key_file: IndexKey = None, as_json: PlainJson = False) -> None:
    """Show what is in an index, what it takes, and how large its buckets are."""
    import json

    with open_to_read(folder, key_file) as index:
        found, about = index.stats(), describe_index(index)
    if as_json:
        print(json.dumps(about | found.as_dict, indent=2))
        return
    for name, value in _stats_lines(found, about):
        print(f"{name:14}{value}")
    for line in earlier_lines(folder):
        print(line)


def _stats_lines(found: Stats, about: dict[str, object]) -> list[tuple[str, str]]:
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
    with open_to_read(folder, key_file) as index:
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
    with progress_for(quiet=quiet) as progress, open_to_write(folder, key_file, progress) as index:
        index.compact()
    if not quiet:
        print(f"{format_bytes(before)} before, {format_bytes(tree_bytes(folder))} now")
        for line in earlier_lines(folder):
            print(line)


def export(
    folder: Dir,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file to write.", show_default=False)
    ],
    force: Annotated[bool, typer.Option("--force", help="Replace FILE.")] = False,
    key_file: IndexKey = None,
    quiet: Quiet = False,
) -> None:
    """Write the whole index to one checksummed file, also while another process adds to it."""
    from neardup.cli.progress import progress_for
    from neardup.errors import UsageError
    from neardup.index.folder import API_KEYS

    if file.exists() and not force:
        raise UsageError(f"{file} is there: choose another name, or use --force")
    with progress_for(quiet=quiet) as progress, open_to_read(folder, key_file) as index:
        documents = index.export(file, progress)
    if not quiet:
        print(f"{documents:,} documents, {file.stat().st_size / 10**6:,.1f} MB in {file}")
        if (folder / API_KEYS).exists():
            print(f"the API keys of the service are not in it: {API_KEYS} stays where it is")


def import_(
    folder: Dir,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="What neardup index export wrote.", show_default=False),
    ],
    quiet: Quiet = False,
) -> None:
    """Make an index of an exported file, in a folder that is empty or not there.

    API keys of a service are no part of an export: make new ones with neardup keys.
    """
    from neardup.cli.progress import progress_for
    from neardup.index.exchange import import_index

    with progress_for(quiet=quiet) as progress:
        documents = import_index(file, folder, progress)
    if not quiet:
        print(f"{documents:,} documents in {folder}")
