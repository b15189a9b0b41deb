"""neardup serve: run an index behind HTTP; neardup keys: manage its API keys."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from neardup.cli.arguments import KEY_HELP, PlainJson, argument, flag, option
from neardup.cli.console import print_json
from neardup.cli.help import Command, Group
from neardup.cli.index import shown
from neardup.cli.key_files import read_api_key, read_key
from neardup.cli.option_values import chosen_options, use_config
from neardup.cli.settings import SUPPLIED_KEY, current_value
from neardup.cli.signatures import with_options
from neardup.formatting import format_time
from neardup.option_table import given_options

LISTEN, INDEX, GOLDEN, LIMITS, LOG = "Network", "Index", "Golden set", "Limits", "Log"


@with_options("neardup serve", panel=INDEX)
def serve(
    context: typer.Context,
    data: Annotated[
        str,
        option(
            "DIR",
            "The folder of the index, or its servers: redis://HOST:PORT?name=NAME. A new index is "
            "made if there is none.",
            default=False,
            panel=INDEX,
        ),
    ],
    config: Annotated[  # noqa: ARG001 -- its callback reads it
        Path | None,
        option(
            "FILE",
            "The operating point of a new index, as neardup plan or neardup tune wrote it.",
            default="none",
            panel=INDEX,
            callback=use_config,
            is_eager=True,
        ),
    ] = None,
    key_file: Annotated[Path | None, option("FILE", KEY_HELP, default="none", panel=INDEX)] = None,
    next_key_file: Annotated[
        Path | None,
        option(
            "FILE",
            "The key with which neardup index reindex builds the next generation, to switch to it.",
            default="none",
            panel=INDEX,
        ),
    ] = None,
    keep_texts: Annotated[
        bool,
        flag(
            "Of a new index: store the texts too, so that neardup index reindex can change the "
            "specification.",
            "--keep-texts",
            panel=INDEX,
        ),
    ] = False,
    within: Annotated[
        str | None,
        option(
            "NAME",
            "Of a new index: compare only documents of the same group, which requests state as "
            "within; the column that neardup index add takes it from.",
            default="compare all",
            panel=INDEX,
        ),
    ] = None,
    dimension: Annotated[
        int | None,
        option(
            "N",
            "Of a new index with vectors: how many numbers a vector has.",
            default="that of the index",
            panel=INDEX,
            least=1,
        ),
    ] = None,
    memory: Annotated[
        str | None,
        option(
            "SIZE",
            "The most memory for the lookup tables, such as 2GB; the rest of them stays on disk.",
            default="no limit",
            panel=INDEX,
        ),
    ] = None,
    forget_older_than: Annotated[
        str | None,
        option(
            "DURATION",
            "Remove documents that are older, such as 30d or 12h, while the service runs.",
            default="keep all",
            panel=INDEX,
        ),
    ] = None,
    forget_by: Annotated[
        str | None,
        option(
            "FIELD",
            "The field of the metadata that has the date of a document, as seconds since 1970 or "
            "text; documents without it stay.",
            default="the time when it was added",
            panel=INDEX,
        ),
    ] = None,
    replicas: Annotated[
        int,
        option(
            "N",
            "Of an index on Redis: a document is acknowledged when N replicas of its server have "
            "it.",
            panel=INDEX,
            least=0,
        ),
    ] = 0,
    host: Annotated[
        str,
        option(
            "ADDRESS",
            "The address to listen on; one that other machines can reach needs an API key.",
            panel=LISTEN,
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        option(
            "N",
            "The port; 0 takes a free one, which the log states.",
            default="8080",
            panel=LISTEN,
            least=0,
            most=65_535,
        ),
    ] = 8080,
    api_key_file: Annotated[
        Path | None,
        option(
            "FILE",
            "A file with an API key that has all rights, besides those of neardup keys; the "
            f"environment variable {SUPPLIED_KEY} may hold it instead.",
            default="none",
            panel=LISTEN,
        ),
    ] = None,
    proxy: Annotated[
        str | None,
        option(
            "ADDRESS",
            "The address of a proxy in front, whose X-Forwarded-For is trusted.",
            default="none",
            panel=LISTEN,
        ),
    ] = None,
    golden: Annotated[
        Path | None,
        option(
            "FILE",
            "Labelled pairs or clusters, as for neardup evaluate; checked regularly, with the "
            "results in /metrics.",
            default="none",
            panel=GOLDEN,
        ),
    ] = None,
    golden_texts: Annotated[
        Path | None,
        option(
            "PATH",
            "The texts of the documents of the golden set.",
            default="the column text of --golden, if it exists",
            panel=GOLDEN,
        ),
    ] = None,
    golden_every: Annotated[
        float, option("SECONDS", "The time between two checks.", panel=GOLDEN)
    ] = 600.0,
    limit: Annotated[
        list[str] | None,
        option(
            "NAME=VALUE",
            "Change a limit, such as batch=100; docs/service.md lists them. Can be given several "
            "times. Of neardup.toml, limits are read again after SIGHUP.",
            default="the limits in docs/service.md",
            panel=LIMITS,
        ),
    ] = None,
    log_file: Annotated[
        Path | None,
        option(
            "FILE",
            "Append the log to a file; SIGHUP makes it again after it was moved.",
            default="standard error",
            panel=LOG,
        ),
    ] = None,
    audit: Annotated[
        bool,
        flag("Log which key added or removed which ids; without it, no ids are logged.", panel=LOG),
    ] = False,
    **given: Any,
) -> None:
    """Run an index as an HTTP service: check, add and remove documents.

    Logs are JSON lines. After SIGTERM or Ctrl-C running requests are finished.
    """
    require_server()
    from neardup import runtime
    from neardup.errors import SpecMismatch, UsageError
    from neardup.formatting import parse_duration
    from neardup.index.expiry import Retention
    from neardup.index.index import Index
    from neardup.index.place import check_settings
    from neardup.index.settings import parse_budget
    from neardup.keys import to_key
    from neardup.service.background import GoldenSet
    from neardup.service.index_service import IndexService, Say
    from neardup.service.limits import ServiceLimits
    from neardup.service.logs import Log
    from neardup.service.server import create_app, listen, run, tune_process

    tune_process()
    limits = ServiceLimits().with_limits(limit or ())

    def reread() -> tuple[ServiceLimits, str | None]:
        now = current_value(context, "limit") or ()
        return ServiceLimits().with_limits(now), supplied_key(api_key_file)

    log = Log(file=log_file, most=limits.log_bytes)
    context.call_on_close(log.drain)  # before an error that ends the command is shown

    def warn(message: str) -> None:
        log.event("message", message=message)

    runtime.say = warn
    key, next_key = (read_key(file, say=warn) for file in (key_file, next_key_file))
    matching = chosen_options(context, given)
    budget, texts = parse_budget(memory), keep_texts or None
    if forget_by is not None and forget_older_than is None:
        raise UsageError("--forget-by goes with --forget-older-than: give both, or leave it out")
    retention = None
    if forget_older_than is not None:
        retention = Retention(parse_duration(forget_older_than, "--forget-older-than"), forget_by)
    # What can be refused is refused before the service listens, and before anything is written.
    try:
        check_settings(data, to_key(key), matching, texts, within, dimension)
    except SpecMismatch as error:  # the options don't fit the index: of a command, that is usage
        raise UsageError(str(error)) from None
    options = matching | given_options(
        {
            "memory": budget,
            "keep_texts": texts,
            "within": within,
            "dimension": dimension,
            "key": key,
        }
    )
    supplied = supplied_key(api_key_file)
    guarded = check_access(data, host, proxy, log, supplied)

    def load(say: Say) -> Index:
        return Index.open(data, say=say, replicas=replicas, **options)

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
            supplied_key=supplied,
            audited=audit,
            retention=retention,
        )
        run(create_app(service), bound, proxy, reread)


def format_event(event: str, message: str) -> str:
    """Return a JSON line of the log, for what happens before the service runs or ends it."""
    import json
    from datetime import UTC, datetime

    time = datetime.now(UTC).isoformat()
    line = {"time": time, "event": event, "message": message}
    return json.dumps(line, separators=(",", ":"))  # as `service.logs` writes it


def require_server() -> None:
    """Refuse to run without the packages that a service needs."""
    from importlib.util import find_spec

    from neardup.errors import UsageError

    if not all(find_spec(name) for name in ("fastapi", "uvicorn", "prometheus_client")):
        raise UsageError("neardup serve needs more packages: pip install 'neardup[serve]'")


def supplied_key(file: Path | None) -> str | None:
    """Return the API key of the file or of the environment; refuse one that could be guessed."""
    from neardup.errors import UsageError
    from neardup.service.api_keys import LEAST_SUPPLIED

    variable = os.environ.get(SUPPLIED_KEY)
    if file is not None and variable is not None:
        raise UsageError(f"an API key is in {file} and in {SUPPLIED_KEY}: leave out one of them")
    key = read_api_key(file) if variable is None else variable.strip()
    if key is not None and len(key) < LEAST_SUPPLIED:
        raise UsageError(
            f"the API key has {len(key)} characters and could be guessed: use {LEAST_SUPPLIED} or "
            "more, such as those of openssl rand -hex 32"
        )
    return key


def check_access(data: str, host: str, proxy: str | None, log: Any, supplied: str | None) -> bool:
    """Return whether API keys are required; refuse to serve other machines without any."""
    from neardup.errors import UsageError
    from neardup.service.access import is_loopback
    from neardup.service.api_keys import ApiKeys

    with closing(ApiKeys(data, supplied)) as keys:
        stored, guarded = keys.all(), keys.guarded
    if not stored and (proxy is not None or not is_loopback(host)):
        what = "a proxy (--proxy)" if is_loopback(host) else host
        other = "leave out --proxy" if is_loopback(host) else "listen on 127.0.0.1"
        raise UsageError(
            f"{what} can be reached from other machines, and there is no API key: add one with "
            f"neardup keys add NAME --data {shown(data)}, supply one with --api-key-file, or "
            f"{other}"
        )
    if not guarded:
        log.event("open", message="there are no API keys: every program on this machine has access")
    return guarded


keys = typer.Typer(
    help="Add, list or revoke API keys of a service; a running service applies changes at once.",
    cls=Group,
    epilog="Example: neardup keys add crawler --data posts",
    no_args_is_help=True,
)

Data = Annotated[
    str,
    option(
        "DIR",
        "The data folder of the service, or the servers of its index: redis://HOST:PORT?name=NAME.",
        default=False,
    ),
]
KeyName = Annotated[str, argument("NAME", "The name of the key: what or whom it is for.")]


@keys.command(
    "add", cls=Command, epilog="Example: neardup keys add crawler --data posts --scope read"
)
def add_key(
    name: KeyName,
    data: Data,
    scope: Annotated[
        list[str] | None,
        option(
            "SCOPE",
            "read (check and get documents, statistics and metrics), write (add and remove "
            "documents), admin (shadows) or texts (read the texts that the index stores). Can be "
            "given several times.",
            default="read and write",
        ),
    ] = None,
    rate: Annotated[
        int | None,
        option(
            "N",
            "Documents per second; 0 is no limit.",
            default="the limit key_rate of the service",
            least=0,
        ),
    ] = None,
    expires: Annotated[
        str | None,
        option("AGE", "Refuse it after this time, such as 90d (days), 12h or 4w.", default="never"),
    ] = None,
) -> None:
    """Make a key and print it once: only a hash of it is stored."""
    import sys
    import time

    from neardup.cli.cache import parse_age
    from neardup.index.place import is_stored
    from neardup.service.api_keys import READ, WRITE, ApiKeys

    now = time.time()
    age = None if expires is None else parse_age(expires, "--expires")
    end = None if age is None else format_time(now + age.total_seconds())
    is_stored(data)  # a folder with other files is refused
    chosen = tuple(scope or (READ, WRITE))
    with closing(ApiKeys(data)) as api_keys:
        first = not api_keys.guarded
        print(api_keys.add(name, chosen, format_time(now), rate=rate, expires=end))
    effect = "; requests without a key are refused from now on" if first else ""
    until = "" if end is None else f", until {end}"
    rights = ", ".join(chosen) + until
    note = f"key {name} ({rights}), shown this once: Authorization: Bearer KEY{effect}"
    print(note, file=sys.stderr)


@keys.command("list", cls=Command, epilog="Example: neardup keys list --data posts")
def list_keys(data: Data, as_json: PlainJson = False) -> None:
    """List the keys: name, scopes, time of creation; a rate of its own and when it expires."""
    from neardup.service.api_keys import ApiKeys

    _require_place(data)
    with closing(ApiKeys(data)) as listed:
        api_keys = listed.all()
    if as_json:
        listed_fields = ("name", "scopes", "created", "rate", "expires")
        print_json([{name: getattr(key, name) for name in listed_fields} for key in api_keys])
        return
    if not api_keys:
        where = shown(data)
        print(f"no keys in {where}: neardup keys add NAME --data {where} makes one")
    for key in api_keys:
        rate = "" if key.rate is None else f"\trate {key.rate}"
        until = "" if key.expires is None else f"\tuntil {key.expires}"
        print(f"{key.name}\t{','.join(key.scopes)}\t{key.created}{rate}{until}")


@keys.command("revoke", cls=Command, epilog="Example: neardup keys revoke crawler --data posts")
def revoke_key(name: KeyName, data: Data) -> None:
    """Revoke a key: requests with it are refused from now on."""
    from neardup.service.api_keys import ApiKeys

    _require_place(data)
    with closing(ApiKeys(data)) as api_keys:
        api_keys.revoke(name)
    print(f"revoked {name}")


def _require_place(data: str) -> None:
    """Refuse a folder that does not exist, or is not that of a service."""
    from neardup.errors import UsageError
    from neardup.index.place import is_stored
    from neardup.index.redis_store.address import is_redis, refuse_url

    if not is_redis(data):
        refuse_url(data)
        if not Path(data).exists():
            raise UsageError(f"{data} does not exist: give the data folder of a service")
    is_stored(data)
