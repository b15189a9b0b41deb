"""neardup status: how far a run is, asked from another terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def status(
    out: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="The folder that a run writes.", show_default=False),
    ],
) -> None:
    """Say how far a run is: its stage, rate, time left, memory; or that it stopped or finished."""
    from neardup.pipeline.status import status_of

    print(status_of(out))
