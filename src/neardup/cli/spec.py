"""neardup spec: the specification and fingerprint that given options lead to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neardup.cli.key_file import read_key
from neardup.cli.spec_diff import diff

spec = typer.Typer(invoke_without_command=True)
spec.command()(diff)


@spec.callback()
def show(
    context: typer.Context,
    shingle: Annotated[str, typer.Option(metavar="UNIT:SIZE", help="As in dedup.")] = "word:5",
    text_profile: Annotated[str, typer.Option(help="As in dedup.")] = "standard",
    sketch: Annotated[str, typer.Option(help="As in dedup.")] = "minhash",
    family: Annotated[str | None, typer.Option(help="As in dedup.", show_default=False)] = None,
    slots: Annotated[
        int | None,
        typer.Option(help="As in dedup.  [default: the usual number]", show_default=False),
    ] = None,
    bits: Annotated[int | None, typer.Option(help="As in dedup.", show_default=False)] = None,
    seed: Annotated[int, typer.Option(help="As in dedup.")] = 0,
    hash: Annotated[str, typer.Option(help="As in dedup.")] = "xxh64",
    key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="As in dedup.", show_default=False)
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the canonical JSON; the fingerprint is its BLAKE2b."),
    ] = False,
) -> None:
    """Show the specification and its fingerprint: what must agree for sketches to be compared.

    neardup spec diff A B says what differs.
    """
    from neardup.spec import Spec

    if context.invoked_subcommand is not None:
        return
    key = read_key(key_file)
    made = Spec.of(
        shingle,
        profile=text_profile,
        sketch=sketch,
        family=family,
        slots=slots,
        bits=bits,
        seed=seed,
        hash=hash,
        key=key.id if key else "",
    )
    if as_json:
        print(made.canonical)
        return
    for name, value in made.stated.items():
        print(f"{name:12} {value}")
    print(f"{'fingerprint':12} {made.fingerprint}")
