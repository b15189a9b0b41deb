"""What the commands of an index share: their common options, and how they open it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neardup.cli.arguments import OUTPUT, read_key

if TYPE_CHECKING:
    from neardup.index.index import Index
    from neardup.runtime import Progress


Dir = Annotated[
    Path, typer.Argument(metavar="DIR", help="The folder of the index.", show_default=False)
]
IndexKey = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        help="The key of an index with --hash siphash.",
        show_default=False,
    ),
]
TableMemory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="The most memory for what is looked up, such as 2GB; what does not fit goes to disk.",
        show_default="as much as it takes",
        rich_help_panel=OUTPUT,
    ),
]
PlainJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@contextmanager
def open_to_read(folder: Path, key_file: Path | None) -> Iterator[Index]:
    """The index, to read: that works beside a process that writes."""
    from neardup.index.index import Index

    with Index.open(folder, read_only=True, key=read_key(key_file)) as found:
        yield found


def earlier_lines(folder: Path) -> list[str]:
    """What the generation before takes, and how to be rid of it; nothing if there is none."""
    from neardup.formatting import format_bytes
    from neardup.index.stats import previous_bytes

    return [
        f"earlier generation {name}: {format_bytes(size)}; neardup index reindex {folder} "
        f"--undo goes back to it, --forget deletes it"
        for name, size in previous_bytes(folder).items()
    ]


@contextmanager
def open_to_write(
    folder: Path,
    key_file: Path | None,
    progress: Progress | None = None,
    memory: str | None = None,
) -> Iterator[Index]:
    """The index, to write; it must be there."""
    from neardup.errors import UsageError
    from neardup.index.folder import read_generations
    from neardup.index.index import Index
    from neardup.runtime import SILENT

    if read_generations(folder) is None:
        raise UsageError(f"{folder} holds no index: make one with neardup index build")
    say = (progress or SILENT).say
    with Index.open(folder, key=read_key(key_file), say=say, memory=memory) as found:
        yield found


def describe_index(index: Index) -> dict[str, object]:
    from neardup.result import format_method

    options = index.options
    return {
        "fingerprint": index.spec.fingerprint,
        "parent": index.settings.parent or None,
        "point": format_method(options, options.meeting.probability(options.threshold)),
        "keep_texts": index.settings.keep_texts,
    }
