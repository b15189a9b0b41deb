"""neardup keys: who may use a service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

keys = typer.Typer(
    help="API keys of a service: add, list, revoke. A running service notices at once.",
    no_args_is_help=True,
)

Data = Annotated[
    Path, typer.Option(metavar="DIR", help="The data folder of the service.", show_default=False)
]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Of the key: whoever it is for.", show_default=False)
]


@keys.command("add")
def add(
    name: Name,
    data: Data,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCOPE",
            help="read (check, look at documents, statistics and metrics), write (add "
            "and remove documents) or admin (shadows). Can be given several times.  "
            "[default: read, write]",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Make a key and show it, this once: only a hash of it is kept."""
    from datetime import UTC, datetime

    from neardup.service.api_keys import READ, WRITE, ApiKeys

    created = datetime.now(UTC).isoformat(timespec="seconds")
    print(ApiKeys(data).add(name, tuple(scope or (READ, WRITE)), created))


@keys.command("list")
def show(data: Data) -> None:
    """The keys: name, scopes, when they were made."""
    from neardup.service.api_keys import ApiKeys

    found = ApiKeys(data).all()
    if not found:
        print("no keys: neardup keys add NAME makes one")
    for key in found:
        print(f"{key.name}\t{','.join(key.scopes)}\t{key.created}")


@keys.command("revoke")
def revoke(name: Name, data: Data) -> None:
    """Take a key away."""
    from neardup.service.api_keys import ApiKeys

    ApiKeys(data).revoke(name)
    print(f"revoked {name}")
