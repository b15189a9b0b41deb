"""neardup index stats, verify, compact, rebalance, export, import; and what all of them share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neardup.cli.arguments import OUTPUT, PlainJson, Quiet, argument, flag, option
from neardup.cli.console import print_json, progress_for
from neardup.cli.key_files import read_key
from neardup.formatting import format_count

if TYPE_CHECKING:
    from neardup.index.index import Index
    from neardup.index.stats import Stats
    from neardup.runtime import Progress


Dir = Annotated[
    str, argument("DIR", "The folder of the index, or its servers: redis://HOST:PORT?name=NAME.")
]
Replicas = Annotated[
    int,
    option(
        "N",
        "Of an index on Redis: a document is acknowledged when N replicas of its server have it.",
        "--replicas",
        panel=OUTPUT,
        least=0,
    ),
]
IndexKey = Annotated[
    Path | None,
    option("FILE", "The key of an index with --hash siphash.", "--key-file", default="none"),
]
TableMemory = Annotated[
    str | None,
    option(
        "SIZE",
        "The most memory for the lookup tables, such as 2GB; the rest of them stays on disk.",
        "--memory",
        default="no limit",
        panel=OUTPUT,
    ),
]


def shown(place: str) -> str:
    """Return a folder or an address as messages show it: without a password."""
    from neardup.index.redis_store.address import RedisAddress, is_redis

    return str(RedisAddress.parse(place)) if is_redis(place) else place


@contextmanager
def open_to_read(place: str, key_file: Path | None) -> Iterator[Index]:
    """Open an index for reading, which is possible while another process writes to it."""
    from neardup.index.index import Index

    with Index.open(place, read_only=True, key=read_key(key_file)) as index:
        yield index


def previous_lines(place: str) -> list[str]:
    """Describe the size of the previous generation, if one is kept, and how to delete it."""
    from neardup.formatting import format_bytes
    from neardup.index.redis_store.address import is_redis
    from neardup.index.stats import previous_bytes

    if is_redis(place):
        return []

    return [
        f"earlier generation {name}: {format_bytes(size)}; neardup index reindex {place} "
        f"--undo goes back to it, --forget deletes it"
        for name, size in previous_bytes(Path(place)).items()
    ]


@contextmanager
def open_to_write(
    place: str,
    key_file: Path | None,
    progress: Progress | None = None,
    replicas: int = 0,
) -> Iterator[Index]:
    """Open an existing index for writing."""
    from neardup.index.index import Index
    from neardup.index.place import require_stored
    from neardup.runtime import SILENT

    require_stored(place)
    say = (progress or SILENT).say
    with Index.open(place, key=read_key(key_file), replicas=replicas, say=say) as index:
        yield index


def describe_index(index: Index) -> dict[str, object]:
    """Return an index's fingerprint, operating point, and whether it keeps texts."""
    from neardup.wording import format_method, format_second_signal

    options = index.options
    vectors = [line.removeprefix("vectors").strip() for line in format_second_signal(options)]
    return {
        "fingerprint": index.spec.fingerprint,
        "parent": index.settings.parent or None,
        "point": format_method(options, options.meeting.probability(options.threshold)),
        "keep_texts": index.settings.keep_texts,
        "within": index.settings.within or None,
        "distinguish": str(options.distinguish) or None,
        **({"vectors": vectors[0]} if vectors else {}),
    }


def stats(folder: Dir, key_file: IndexKey = None, as_json: PlainJson = False) -> None:
    """Show the documents of an index, its memory and disk space, and the size of its buckets."""
    with open_to_read(folder, key_file) as index:
        figures, about = index.stats(), describe_index(index)
    if as_json:
        print_json(about | figures.as_dict)
        return
    for name, value in _stats_lines(figures, about):
        print(f"{name:14}{value}")
    for line in previous_lines(folder):
        print(line)


def _stats_lines(figures: Stats, about: dict[str, object]) -> list[tuple[str, str]]:
    removed = f"   {figures.buried:,} removed, still in tables" if figures.buried else ""
    return [
        (
            "documents",
            f"{figures.documents:,}   {figures.kept:,} kept   "
            f"{format_count(figures.copies, 'copy', 'copies')}{removed}",
        ),
        ("compared by", str(about["point"])),
        *([("vectors", str(about["vectors"]))] if "vectors" in about else []),
        (
            "specification",
            str(about["fingerprint"])
            + (f", narrowed from {about['parent']}" if about["parent"] else ""),
        ),
        ("texts", "kept" if about["keep_texts"] else "not kept"),
        *([("within", f"documents of the same {about['within']}")] if about["within"] else []),
        *([("distinguish", str(about["distinguish"]))] if about["distinguish"] else []),
        *(_folder_lines(figures) if figures.disk_bytes else _server_lines(figures)),
    ]


def _folder_lines(figures: Stats) -> list[tuple[str, str]]:
    from neardup.formatting import format_bytes

    documents = max(figures.documents, 1)
    buckets, disk = figures.buckets, sum(figures.disk_bytes.values())
    files = ", ".join(f"{name} {format_bytes(size)}" for name, size in figures.disk_bytes.items())
    return [
        (
            "memory",
            f"{format_bytes(figures.index_memory_bytes)}, {figures.bytes_per_document:,.0f} "
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
            f"{figures.sequence:,}, {figures.sequence - figures.snapshot_sequence:,} of them "
            "since the snapshot",
        ),
    ]


def _server_lines(figures: Stats) -> list[tuple[str, str]]:
    from neardup.formatting import format_bytes

    used = ", ".join(f"{name} {format_bytes(size)}" for name, size in figures.memory_bytes.items())
    return [
        ("servers", f"{used} in use, for all that they have"),
        ("buckets", f"{figures.buckets.buckets:,}; {figures.buckets.full:,} full"),
        ("numbers", f"up to {figures.sequence:,}"),
    ]


def verify(
    folder: Dir,
    repair: Annotated[
        bool,
        flag(
            "Of an index on Redis: mend what a failover of its servers has left, before.",
            "--repair",
        ),
    ] = False,
    key_file: IndexKey = None,
    quiet: Quiet = False,
) -> None:
    """Read the whole index and list what is wrong; exit code 1 if anything is."""
    if repair:
        with open_to_write(folder, key_file) as index:
            for line in index.repair():
                print(line)
    with open_to_read(folder, key_file) as index:
        problems, documents = index.verify(), len(index)
    for problem in problems:
        print(problem)
    if problems:
        raise typer.Exit(1)
    if not quiet:
        print(f"{format_count(documents, 'document')}, no problems")


def compact(folder: Dir, key_file: IndexKey = None, quiet: Quiet = False) -> None:
    """Rebuild the tables without removed documents, drop old changes, and free disk space."""
    from neardup.formatting import format_bytes
    from neardup.index.redis_store.address import require_folder
    from neardup.index.stats import tree_bytes

    path = require_folder(folder, "compaction")
    before = tree_bytes(path)
    with progress_for(quiet=quiet) as progress, open_to_write(folder, key_file, progress) as index:
        index.compact()
    if not quiet:
        print(f"{format_bytes(before)} before, {format_bytes(tree_bytes(path))} now")
        for line in previous_lines(folder):
            print(line)


def rebalance(
    address: Annotated[
        str,
        argument(
            "ADDRESS",
            "The index, with the servers that it shall have: redis://HOST,HOST?ring&name=NAME.",
        ),
    ],
    replicas: Replicas = 0,
    quiet: Quiet = False,
) -> None:
    """Move an index on a ring of Redis servers to other servers, while it is used.

    About 1/N of its partitions move when a server comes or goes. Servers that leave have to be up
    until the end. If it is stopped, the index works on, and the same command finishes it.
    """
    from neardup.index.redis_store.address import RedisAddress
    from neardup.index.redis_store.rebalancing import rebalance

    with progress_for(quiet=quiet) as progress:
        done = rebalance(RedisAddress.parse(address), replicas, progress)
    if not quiet:
        print(
            f"{done.moved} of {format_count(done.partitions, 'partition')} moved; the servers are "
            f"{', '.join(done.servers)}"
        )


def export(
    folder: Dir,
    file: Annotated[Path, argument("FILE", "The file to write.")],
    force: Annotated[bool, flag("Replace FILE.", "--force")] = False,
    key_file: IndexKey = None,
    quiet: Quiet = False,
) -> None:
    """Write the whole index to one checksummed file, even while another process adds to it."""
    from neardup.errors import UsageError
    from neardup.index.folder import API_KEYS
    from neardup.index.redis_store.address import is_redis

    if file.exists() and not force:
        raise UsageError(f"{file} exists: choose another name, or replace it with --force")
    with progress_for(quiet=quiet) as progress, open_to_read(folder, key_file) as index:
        documents = index.export(file, progress)
    if not quiet:
        size = file.stat().st_size / 10**6
        print(f"{format_count(documents, 'document')}, {size:,.1f} MB in {file}")
        if is_redis(folder) or (Path(folder) / API_KEYS).exists():
            print(f"the API keys of the service ({API_KEYS}) are not exported")


def import_(
    folder: Dir,
    file: Annotated[Path, argument("FILE", "A file that neardup index export wrote.")],
    quiet: Quiet = False,
) -> None:
    """Make an index from an exported file, in a new or empty folder.

    An export has no API keys of a service: make new ones with neardup keys.
    """
    from neardup.index.exchange import import_index

    with progress_for(quiet=quiet) as progress:
        documents = import_index(file, folder, progress)
    if not quiet:
        print(f"{format_count(documents, 'document')} in {shown(folder)}")
