"""neardup index export, neardup index import: an index as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neardup.cli.index_shared import Dir, IndexKey, reading
from neardup.cli.shared import Quiet


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
    with progress_for(quiet=quiet) as progress, reading(folder, key_file) as index:
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
    from neardup.index.filling.exchange import import_index

    with progress_for(quiet=quiet) as progress:
        documents = import_index(file, folder, progress)
    if not quiet:
        print(f"{documents:,} documents in {folder}")
