"""neardup index convert: slots of a few bits, without the texts."""

from __future__ import annotations

from typing import Annotated

import typer

from neardup.cli.index_shared import Dir, PlainJson, earlier_lines
from neardup.cli.shared import Quiet


def convert(
    folder: Dir,
    bits: Annotated[
        int, typer.Option(help="Bits of a slot from now on: 1, 2, 4, 8 or 16.", show_default=False)
    ],
    quiet: Quiet = False,
    as_json: PlainJson = False,
) -> None:
    """Cut the stored slots of an index down to a few bits. No texts are needed.

    Answers that were given stay. The bands can't be changed any more afterwards; threshold, limit
    and verify can. What was before is kept beside it: neardup index reindex --undo goes back.
    """
    import json
    from dataclasses import asdict

    from neardup.cli.progress import progress_for
    from neardup.formatting import format_bytes
    from neardup.index.anew.convert import convert as convert_index

    with progress_for(quiet=quiet) as progress:
        done = convert_index(folder, bits, progress=progress)
    if as_json:
        print(json.dumps(asdict(done), indent=2))
    elif not quiet:
        print(
            f"{done.documents:,} documents: {format_bytes(done.bytes_before)} before, "
            f"{format_bytes(done.bytes_after)} now; what was before is still there\n"
            f"specification {done.fingerprint}, narrowed from {done.parent}"
        )
        for line in earlier_lines(folder):
            print(line)
