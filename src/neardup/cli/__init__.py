"""The command line: one file for each command or group of commands, and `main`, which runs them.

It starts fast: NumPy, Numba and PyArrow are imported inside the commands.
"""

from __future__ import annotations

import functools
import io
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

import neardup
from neardup.cli.cache import cache, warm_up
from neardup.cli.comparisons import compare_sketches, hashes
from neardup.cli.config import config
from neardup.cli.console import open_closed_streams
from neardup.cli.dedup import dedup
from neardup.cli.evaluate import evaluate
from neardup.cli.exact import exact
from neardup.cli.help import Command, Group
from neardup.cli.index import compact, export, import_, stats, verify
from neardup.cli.index_build import add, build
from neardup.cli.index_query import clusters, get, query, remove
from neardup.cli.index_reindex import convert, reindex, retune
from neardup.cli.plan import plan
from neardup.cli.runs import demo, merge, report, status
from neardup.cli.serve import format_event, keys, serve
from neardup.cli.spec import spec
from neardup.cli.tune import tune
from neardup.cli.why import why
from neardup.errors import NeardupError, OutputClosed
from neardup.formatting import make_printable

INTERRUPTED = 130
TERMINATED = 143
ANYWHERE: Final = frozenset({"--debug", "--no-config"})
"""Options of the program that are accepted after the command too."""

app = typer.Typer(
    name="neardup",
    help="Find near-duplicate documents, keep the best copy of each, explain every decision.",
    epilog="Example: neardup dedup pages.jsonl -o clean --threshold 0.85",
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
index = typer.Typer(
    help="Make, query and maintain an index: check new documents against stored ones.",
    epilog="Example: neardup index build posts posts.jsonl",
    cls=Group,
    no_args_is_help=True,
)

REMOVE, RUNS = "Remove duplicates", "Runs"
CHOOSE, ONLINE = "Choose and check an operating point", "One document at a time"
COMMANDS: Final[list[tuple[Callable[..., None], str, str]]] = [
    (dedup, REMOVE, "dedup pages.jsonl -o clean --threshold 0.85"),
    (exact, REMOVE, "exact pages/ -o clean --unit paragraph"),
    (demo, REMOVE, "demo --threshold 0.7"),
    (report, RUNS, "report clean --open"),
    (why, RUNS, "why clean page-17 page-4"),
    (status, RUNS, "status clean"),
    (merge, RUNS, "merge clean-january clean-february -o until-february"),
    (plan, CHOOSE, "plan --documents 300M --sample pages.jsonl --memory 100GB -o plan.toml"),
    (tune, CHOOSE, "tune pages.jsonl --threshold 0.9 -o tuned"),
    (evaluate, CHOOSE, "evaluate labels.tsv --corpus pages.jsonl --threshold 0.85"),
    (compare_sketches, CHOOSE, "compare-sketches pages.jsonl --plot sketches.html"),
    (hashes, CHOOSE, "hashes --plot hashes.html"),
    (warm_up, CHOOSE, "warm-up"),
    (query, ONLINE, "query posts 'the text of a new post'"),
    (serve, ONLINE, "serve --data posts --port 8080"),
]
"""The commands, each with its panel in `neardup --help` and an example."""
INDEX_COMMANDS: Final[list[tuple[Callable[..., None], str, str]]] = [
    (build, "Documents", "index build posts posts.jsonl --threshold 0.85"),
    (add, "Documents", "index add posts new.jsonl"),
    (query, "Documents", "index query posts 'the text of a new post'"),
    (get, "Documents", "index get posts 4711"),
    (clusters, "Documents", "index clusters posts --most 50"),
    (remove, "Documents", "index remove posts 4711 4712"),
    (stats, "The whole index", "index stats posts"),
    (retune, "The whole index", "index retune posts --threshold 0.9"),
    (reindex, "The whole index", "index reindex posts --shingle char:24"),
    (convert, "The whole index", "index convert posts --bits 8"),
    (compact, "The whole index", "index compact posts"),
    (verify, "The whole index", "index verify posts"),
    (export, "The whole index", "index export posts posts.export"),
    (import_, "The whole index", "index import copy posts.export"),
]


def register(group: typer.Typer, commands: list[tuple[Callable[..., None], str, str]]) -> None:
    """Add commands to a group, each with its panel and its example."""
    for command, panel, example in commands:
        name = command.__name__.strip("_").replace("_", "-")
        group.command(
            name, cls=Command, rich_help_panel=panel, epilog=f"Example: neardup {example}"
        )(command)


register(app, COMMANDS)
register(index, INDEX_COMMANDS)
app.add_typer(index, name="index", rich_help_panel=ONLINE)
app.add_typer(keys, name="keys", rich_help_panel=ONLINE)
app.add_typer(spec, name="spec", rich_help_panel=CHOOSE)
app.add_typer(config, name="config", rich_help_panel=CHOOSE)
app.add_typer(cache, name="cache", rich_help_panel=CHOOSE)


def show_version(wanted: bool) -> None:
    """Print the version and end, if --version is given."""
    if wanted:
        print(f"neardup {neardup.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            "-V",
            help="Show the version and exit.",
            callback=show_version,
            is_eager=True,
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", help="Show a traceback if a command fails; accepted anywhere on the line."
        ),
    ] = False,
    no_config: Annotated[
        bool,
        typer.Option(
            "--no-config",
            help="Don't look for neardup.toml or pyproject.toml; accepted anywhere on the line.",
        ),
    ] = False,
) -> None:
    pass


@functools.cache
def build_command() -> Any:
    """Build all commands from their functions; once in a process, since it takes a while."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the command line; print an error as one line with the cure, unless --debug is given."""
    open_closed_streams()
    arguments = [argument for argument in sys.argv[1:] if argument not in ANYWHERE]
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    # Jobs are ended like this by schedulers and containers: clean up as after Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names and ids may have characters that the terminal's encoding lacks: escape them.
        sys.stdout.reconfigure(errors="backslashreplace")
    as_event = arguments[:1] == ["serve"]
    try:
        chosen = ["--no-config"] if "--no-config" in sys.argv else []
        code = build_command()(
            args=[*chosen, *arguments], prog_name="neardup", standalone_mode=False
        )
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except (BrokenPipeError, OutputClosed):
        end_closed()
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # Typer would exit with 1
            end_closed()
        raise
    except Exception as error:  # the last handler: unexpected ones are named as internal
        if "--debug" in sys.argv:
            raise
        fail(*explain_error(error), as_event=as_event)
    if code == INTERRUPTED:
        fail(f"interrupted; {how_to_resume(arguments)}", INTERRUPTED, as_event=as_event)
    sys.exit(code or 0)


def end_closed() -> NoReturn:
    """Exit as other commands do if the reader of standard output is gone."""
    # Python flushes again at its end, and would complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(OutputClosed.exit_code)


def how_to_resume(arguments: list[str]) -> str:
    """Describe what an interrupted command has kept, and how to resume it."""
    if "--no-cache" in arguments:
        return "nothing is kept"
    if "-" in arguments:
        return "nothing is kept: a run that reads or writes a pipe can't be resumed"
    if arguments[:2] in (["index", "build"], ["index", "add"]):
        return "added documents are kept, neardup index add with the same input goes on from here"
    return "the same command goes on from here"


def explain_error(error: Any) -> tuple[str, int]:
    """Return the message for an error, and the exit code."""
    if isinstance(error, NeardupError):
        return str(error), error.exit_code
    if hasattr(error, "format_message"):  # Typer's usage errors; where their class is has changed
        message, ctx = error.format_message(), getattr(error, "ctx", None)
        if near := getattr(error, "possibilities", None):  # the nearest first
            message = f"{error.message}: did you mean {near[0]}?"
        more = f" (see {ctx.command_path} --help)" if ctx and message else ""
        names = [name for param in ctx.command.params for name in param.opts] if ctx else []
        for name in names:
            if message.startswith(f"No such command {name.lstrip('-')!r}"):
                message += f" Did you mean neardup {name}?"
        if ctx and message.startswith("Missing"):
            more = f" {ctx.command.epilog}{more}"
        return message + more, error.exit_code
    if isinstance(error, MemoryError):
        return "out of memory: use fewer --workers, or a larger machine", 1
    if isinstance(error, OSError):
        return f"{error} (--debug shows where)", 1
    # The message of an unexpected error could quote a document: it is not shown.
    home = str(Path(neardup.__file__).parent)
    frames = traceback.extract_tb(error.__traceback__)
    place = [frame for frame in frames if frame.filename.startswith(home)][-1]
    where = f"{type(error).__name__}, {Path(place.filename).name}:{place.lineno}"
    return f"internal error ({where}): please report it with the output of --debug", 1


def fail(message: str, code: int, *, as_event: bool = False) -> NoReturn:
    """Exit with a one-line message; without one if it is empty, as after help was shown."""
    if one_line := " ".join(message.split()):
        line = f"neardup: {make_printable(one_line)}"
        print(format_event("failed", one_line) if as_event else line, file=sys.stderr)
    sys.exit(code)
