"""The command line: one file for each command or group of commands, and `main`, which runs them.

It starts fast: NumPy, Numba and PyArrow are imported inside the commands.
"""

from __future__ import annotations

import functools
import gc
import io
import os
import signal
import sys
import traceback
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, NoReturn

import typer

import neardup
from neardup.cli.console import drop_unwritable_errors, open_closed_streams
from neardup.cli.help import Command, Group
from neardup.errors import NeardupError, OutputClosed
from neardup.formatting import make_printable

INTERRUPTED = 130
TERMINATED = 143
ANYWHERE: Final = frozenset({"--debug", "--no-config"})
"""Options of the program that are accepted after the command too."""
ALIKE: Final = 0.7
"""How alike an unknown option and one that is suggested for it are at least, by difflib."""

REMOVE, RUNS = "Remove duplicates", "Runs"
CHOOSE, ONLINE = "Choose and check an operating point", "One document at a time"


class CommandRow(NamedTuple):
    """A command, or a group of commands.

    name      what is typed
    place     its module in `neardup.cli`, and its function or group there; empty for index
    panel     its panel in `neardup --help`
    example   for its help; empty for a group, which has its own
    """

    name: str
    place: str
    panel: str
    example: str = ""


COMMANDS: Final = [
    CommandRow("dedup", "dedup:dedup", REMOVE, "dedup pages.jsonl -o clean --threshold 0.85"),
    CommandRow("exact", "exact:exact", REMOVE, "exact pages/ -o clean --unit paragraph"),
    CommandRow("demo", "runs:demo", REMOVE, "demo --threshold 0.7"),
    CommandRow("report", "runs:report", RUNS, "report clean --open"),
    CommandRow("review", "review:review", RUNS, "review clean"),
    CommandRow("why", "why:why", RUNS, "why clean page-17 page-4"),
    CommandRow("status", "runs:status", RUNS, "status clean"),
    CommandRow("merge", "runs:merge", RUNS, "merge clean-january clean-february -o until-february"),
    CommandRow(
        "plan",
        "plan:plan",
        CHOOSE,
        "plan --documents 300M --sample pages.jsonl --memory 100GB -o plan.toml",
    ),
    CommandRow("tune", "tune:tune", CHOOSE, "tune pages.jsonl --threshold 0.9 -o tuned"),
    CommandRow(
        "evaluate",
        "evaluate:evaluate",
        CHOOSE,
        "evaluate labels.tsv --corpus pages.jsonl --threshold 0.85",
    ),
    CommandRow(
        "compare-sketches",
        "comparisons:compare_sketches",
        CHOOSE,
        "compare-sketches pages.jsonl --plot sketches.html",
    ),
    CommandRow("hashes", "comparisons:hashes", CHOOSE, "hashes --plot hashes.html"),
    CommandRow("warm-up", "cache:warm_up", CHOOSE, "warm-up"),
    CommandRow("query", "index_query:query", ONLINE, "query posts 'the text of a new post'"),
    CommandRow("serve", "serve:serve", ONLINE, "serve --data posts --port 8080"),
    CommandRow("index", "", ONLINE),
    CommandRow("keys", "serve:keys", ONLINE),
    CommandRow("spec", "spec:spec", CHOOSE),
    CommandRow("config", "config:config", CHOOSE),
    CommandRow("cache", "cache:cache", CHOOSE),
]
"""The commands and groups, in the order of `neardup --help`."""
INDEX_COMMANDS: Final = [
    CommandRow("build", "index_build:build", "Documents", "index build posts posts.jsonl"),
    CommandRow("add", "index_build:add", "Documents", "index add posts new.jsonl"),
    CommandRow(
        "query", "index_query:query", "Documents", "index query posts 'the text of a new post'"
    ),
    CommandRow("get", "index_query:get", "Documents", "index get posts 4711"),
    CommandRow("clusters", "index_query:clusters", "Documents", "index clusters posts --most 50"),
    CommandRow("remove", "index_query:remove", "Documents", "index remove posts 4711 4712"),
    CommandRow("forget", "index_query:forget", "Documents", "index forget posts --older-than 30d"),
    CommandRow("stats", "index:stats", "The whole index", "index stats posts"),
    CommandRow(
        "retune", "index_reindex:retune", "The whole index", "index retune posts --threshold 0.9"
    ),
    CommandRow(
        "reindex",
        "index_reindex:reindex",
        "The whole index",
        "index reindex posts --shingle char:24",
    ),
    CommandRow(
        "convert", "index_reindex:convert", "The whole index", "index convert posts --bits 8"
    ),
    CommandRow("compact", "index:compact", "The whole index", "index compact posts"),
    CommandRow("verify", "index:verify", "The whole index", "index verify posts"),
    CommandRow(
        "rebalance",
        "index:rebalance",
        "The whole index",
        "index rebalance 'redis://10.0.0.1,10.0.0.2,10.0.0.3?ring'",
    ),
    CommandRow("export", "index:export", "The whole index", "index export posts posts.export"),
    CommandRow("import", "index:import_", "The whole index", "index import copy posts.export"),
]


def register(group: typer.Typer, rows: Iterable[CommandRow], words: Sequence[str]) -> typer.Typer:
    """Import commands and groups and add them to a group: the one that is typed, or all.

    Args:
        group: The group that they are added to, and that is returned.
        rows: Its commands and groups.
        words: What is typed after the name of the group.
    """
    rows = list(rows)
    for row in [row for row in rows if row.name in words[:1]] or rows:
        module, _, name = row.place.partition(":")
        found = getattr(import_module(f"neardup.cli.{module}"), name) if module else None
        if found is None:
            index = typer.Typer(
                help="Make, query and maintain an index: check new documents against stored ones.",
                epilog="Example: neardup index build posts posts.jsonl",
                cls=Group,
                no_args_is_help=True,
            )
            found = register(index, INDEX_COMMANDS, words[1:])
        if isinstance(found, typer.Typer):
            group.add_typer(found, name=row.name, rich_help_panel=row.panel)
        else:
            epilog = f"Example: neardup {row.example}"
            group.command(row.name, cls=Command, rich_help_panel=row.panel, epilog=epilog)(found)
    return group


def show_version(wanted: bool) -> None:
    """Print the version and end, if --version is given."""
    if wanted:
        print(f"neardup {neardup.__version__}")
        raise typer.Exit


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
def build_command(*words: str) -> Any:
    """Build the commands from their functions; once in a process, since it takes a while.

    Args:
        words: The command that is typed, if only that is needed: a start without the others takes
            0.1 s less.
    """
    app = typer.Typer(
        name="neardup",
        help="Find near-duplicate documents, keep the best copy of each, explain every decision.",
        epilog="Example: neardup dedup pages.jsonl -o clean --threshold 0.85",
        cls=Group,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(options)
    return typer.main.get_command(register(app, COMMANDS, words))


def main() -> None:
    """Run the command line; print an error as one line with the cure, unless --debug is given."""
    open_closed_streams()
    drop_unwritable_errors()
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
        depth = 2 if arguments[:1] == ["index"] else 1
        code = build_command(*arguments[:depth])(
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
    gc.freeze()  # Python would look for garbage among all objects once more, and then end anyway
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


NO_THREAD = "can't start new thread"
"""What Python says if there is no memory for the stack of a thread, or too many threads."""


def explain_error(error: Any) -> tuple[str, int]:
    """Return the message for an error, and the exit code."""
    if isinstance(error, NeardupError):
        return str(error), error.exit_code
    if hasattr(error, "format_message"):  # Typer's usage errors; where their class is has changed
        message, ctx = error.format_message(), getattr(error, "ctx", None)
        if near := getattr(error, "possibilities", None):  # the nearest first
            message = error.message
            if looks_like(getattr(error, "option_name", near[0]), near[0]):
                message += f": did you mean {near[0]}?"
        if ctx and (reason := why_no_option(getattr(error, "option_name", ""), ctx.command_path)):
            message = f"{error.message}: {reason}"
        more = f" (see {ctx.command_path} --help)" if ctx and message else ""
        names = [name for param in ctx.command.params for name in param.opts] if ctx else []
        if message.startswith("Got unexpected extra argument") and "--corpus" in names:
            message += ": give documents with --corpus"
        for name in names:
            if message.startswith(f"No such command {name.lstrip('-')!r}"):
                message += f" Did you mean neardup {name}?"
        if ctx and message.startswith("Missing"):
            more = f" {ctx.command.epilog}{more}"
        return message + more, error.exit_code
    if isinstance(error, MemoryError):
        return "out of memory: use fewer --workers, a larger machine or a higher ulimit -v", 1
    if isinstance(error, RuntimeError) and str(error) == NO_THREAD:
        return f"{NO_THREAD}: use fewer --workers, or a higher ulimit -v or -u", 1
    if isinstance(error, OSError):
        return f"{error} (--debug shows where)", 1
    # The message of an unexpected error could quote a document: it is not shown.
    home = str(Path(neardup.__file__).parent)
    frames = traceback.extract_tb(error.__traceback__)
    place = [frame for frame in frames if frame.filename.startswith(home)][-1]
    where = f"{type(error).__name__}, {Path(place.filename).name}:{place.lineno}"
    return f"internal error ({where}): please report it with the output of --debug", 1


def why_no_option(option: str, command: str) -> str:
    """Return why a command does not have an option of others; empty if it is none of theirs.

    >>> why_no_option("--threshold", "neardup exact")
    'nothing is sketched, copies are equal'
    """
    from neardup.option_table import why_not

    return why_not(option.removeprefix("--").replace("-", "_"), command)


def looks_like(written: str, name: str) -> bool:
    """Return whether an option may be misspelt for another; the dashes of both don't count.

    >>> looks_like("--treshold", "--threshold"), looks_like("--size", "--shingle")
    (True, False)
    """
    from difflib import SequenceMatcher

    written, name = written.lstrip("-"), name.lstrip("-")
    alike = SequenceMatcher(None, written, name).ratio() >= ALIKE
    return alike or (len(written) > 2 and name.startswith(written))


def fail(message: str, code: int, *, as_event: bool = False) -> NoReturn:
    """Exit with a one-line message; without one if it is empty, as after help was shown."""
    if one_line := " ".join(message.split()):
        line = f"neardup: {make_printable(one_line)}"
        if as_event:
            from neardup.cli.serve import format_event

            line = format_event("failed", one_line)
        print(line, file=sys.stderr)
    sys.exit(code)
