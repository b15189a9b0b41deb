"""neardup serve: an index behind HTTP; neardup keys: its API keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from neardup.cli.arguments import KeyFile, read_key, with_options
from neardup.cli.help import Command, Group

LISTEN, INDEX, GOLDEN = "Where it listens", "The index", "A golden set that is watched"
LIMITS = "Limits"


@with_options("neardup serve", panel=INDEX)
def serve(
    data: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="The folder of the index; it is made if there is none.",
            show_default=False,
            rich_help_panel=INDEX,
        ),
    ],
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The operating point of a new index, as neardup plan or neardup tune wrote it.",
            show_default=False,
            rich_help_panel=INDEX,
        ),
    ] = None,
    key_file: KeyFile = None,
    next_key_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The key that neardup index reindex makes another index with, to go over to it.",
            show_default=False,
            rich_help_panel=INDEX,
        ),
    ] = None,
    keep_texts: Annotated[
        bool,
        typer.Option(
            "--keep-texts",
            help="Of a new index: keep the texts too, for another specification later.",
            rich_help_panel=INDEX,
        ),
    ] = False,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="The most memory that the index uses, such as 2GB; what does not fit "
            "is looked up on disk.",
            show_default=False,
            rich_help_panel=INDEX,
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Anything but this machine itself needs an API key first.",
            rich_help_panel=LISTEN,
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="0 takes a free one, which the log tells.", rich_help_panel=LISTEN)
    ] = 8080,
    proxy: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="A proxy in front, whose X-Forwarded-For is believed.",
            show_default=False,
            rich_help_panel=LISTEN,
        ),
    ] = None,
    golden: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Labelled pairs or clusters, as of neardup evaluate: checked again "
            "and again, /metrics tells.",
            show_default=False,
            rich_help_panel=GOLDEN,
        ),
    ] = None,
    golden_texts: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Where the texts of its documents are.",
            show_default="a column text of the file, if there is one",
            rich_help_panel=GOLDEN,
        ),
    ] = None,
    golden_every: Annotated[
        float, typer.Option(metavar="SECONDS", help="Between two checks.", rich_help_panel=GOLDEN)
    ] = 600.0,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Change a limit, as in batch=100; docs/service.md lists them. "
            "Can be given several times.",
            show_default=False,
            rich_help_panel=LIMITS,
        ),
    ] = None,
    **given: Any,
) -> None:
    """Answer "is this a copy of something?" over HTTP, and take documents in.

    Logs are JSON lines on standard error. SIGTERM and Ctrl-C finish what is under way.
    """
    require_server()
    from neardup import runtime
    from neardup.index.index import Index
    from neardup.service.background import GoldenSet
    from neardup.service.index_service import IndexService, Say
    from neardup.service.limits import ServiceLimits
    from neardup.service.logs import Log
    from neardup.service.server import create_app, listen, run, tune_process

    tune_process()
    log = Log()

    def warn(message: str) -> None:
        log.event("message", message=message)

    runtime.say = warn
    limits = ServiceLimits().with_limits(limit or ())
    key, next_key = (read_key(file, say=warn) for file in (key_file, next_key_file))
    options = operating_point(
        config,
        **given,
        memory=memory,
        keep_texts=keep_texts or None,
        key=key,
    )
    guarded = check_access(data, host, log)

    def load(say: Say) -> Index:
        return Index.open(data, say=say, **options)

    watched = None if golden is None else GoldenSet.read(golden, golden_texts)
    with listen(host, port) as bound:
        service = IndexService(
            load,
            limits,
            data,
            log=log,
            guarded=guarded,
            golden=watched,
            golden_every=golden_every,
            next_key=next_key,
        )
        run(create_app(service), bound, proxy)


def format_failure(message: str) -> str:
    """Why it ended, in the form of its log, of which all lines are JSON."""
    import json
    from datetime import UTC, datetime

    time = datetime.now(UTC).isoformat()
    return json.dumps({"time": time, "event": "failed", "message": message})


def require_server() -> None:
    from importlib.util import find_spec

    from neardup.errors import UsageError

    if not all(find_spec(name) for name in ("fastapi", "uvicorn", "prometheus_client")):
        raise UsageError("neardup serve needs more packages: pip install '.[serve]' in its folder")


def operating_point(config: Path | None, **given: Any) -> dict[str, Any]:
    """What the config file says, and what is given on the command line, which goes before it."""
    from neardup.formats.config import load_config

    stored = {} if config is None else dict(load_config(config))
    return stored | {name: value for name, value in given.items() if value is not None}


def check_access(data: Path, host: str, log: Any) -> bool:
    """Whether keys are needed. Refuse to be open to others than this machine."""
    from neardup.errors import UsageError
    from neardup.service.access import is_loopback
    from neardup.service.api_keys import ApiKeys

    keys = ApiKeys(data)
    if not is_loopback(host) and not keys.all():
        raise UsageError(
            f"{host} can be reached by others, and there is no API key: add one with neardup keys "
            f"add NAME --data {data}, or listen on 127.0.0.1"
        )
    if not keys.guarded:
        log.event("open", message="there are no API keys: every program on this machine has access")
    return keys.guarded


keys = typer.Typer(
    help="API keys of a service: add, list, revoke. A running service notices at once.",
    cls=Group,
    epilog="Example: neardup keys add crawler --data posts",
    no_args_is_help=True,
)

Data = Annotated[
    Path, typer.Option(metavar="DIR", help="The data folder of the service.", show_default=False)
]
KeyName = Annotated[
    str, typer.Argument(metavar="NAME", help="Of the key: whoever it is for.", show_default=False)
]


@keys.command(
    "add", cls=Command, epilog="Example: neardup keys add crawler --data posts --scope read"
)
def add_key(
    name: KeyName,
    data: Data,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCOPE",
            help="read (check, look at documents, statistics and metrics), write (add "
            "and remove documents) or admin (shadows). Can be given several times.",
            show_default="read, write",
        ),
    ] = None,
) -> None:
    """Make a key and show it, this once: only a hash of it is kept."""
    from datetime import UTC, datetime

    from neardup.service.api_keys import READ, WRITE, ApiKeys

    created = datetime.now(UTC).isoformat(timespec="seconds")
    print(ApiKeys(data).add(name, tuple(scope or (READ, WRITE)), created))


@keys.command("list", cls=Command, epilog="Example: neardup keys list --data posts")
def list_keys(data: Data) -> None:
    """The keys: name, scopes, when they were made."""
    from neardup.service.api_keys import ApiKeys

    found = ApiKeys(data).all()
    if not found:
        print("no keys: neardup keys add NAME makes one")
    for key in found:
        print(f"{key.name}\t{','.join(key.scopes)}\t{key.created}")


@keys.command("revoke", cls=Command, epilog="Example: neardup keys revoke crawler --data posts")
def revoke_key(name: KeyName, data: Data) -> None:
    """Take a key away."""
    from neardup.service.api_keys import ApiKeys

    ApiKeys(data).revoke(name)
    print(f"revoked {name}")
