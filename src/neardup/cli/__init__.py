"""The command line: one file a command. Fast to start: heavy imports happen inside commands."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import neardup
from neardup.cli.dedup import dedup
from neardup.cli.demo import demo
from neardup.cli.spec import spec
from neardup.errors import NeardupError

app = typer.Typer(
    name="neardup",
    help="Find near-duplicate documents, keep the best copy of each, explain every decision.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(dedup)
app.command()(demo)
app.command()(spec)


def show_version(wanted: bool) -> None:
    if wanted:
        print(f"neardup {neardup.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=show_version, is_eager=True),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; an error is one line with the cure, unless --debug is given."""
    arguments = sys.argv[1:]
    debug = "--debug" in arguments
    try:
        app(args=[a for a in arguments if a != "--debug"], prog_name="neardup")
    except NeardupError as error:
        if debug:
            raise
        fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        fail("interrupted; nothing was written to the output", 130)
    except BrokenPipeError:
        sys.exit(1)
    except (MemoryError, OSError) as error:
        if debug:
            raise
        fail(f"{error} (--debug shows where)", 1)


def fail(message: str, code: int) -> None:
    one_line = " ".join(message.split())
    print(f"neardup: {one_line}", file=sys.stderr)
    sys.exit(code)
