"""neardup index: an online index in a folder, from the command line."""

from __future__ import annotations

import typer

from neardup.cli.index_build import add, build
from neardup.cli.index_convert import convert
from neardup.cli.index_documents import get, remove
from neardup.cli.index_exchange import export, import_
from neardup.cli.index_reindex import reindex
from neardup.cli.index_upkeep import compact, retune, stats, verify
from neardup.cli.query import query

index = typer.Typer(
    help="An index of documents in a folder: is a new one a copy of something?",
    no_args_is_help=True,
)
index.command()(build)
index.command()(add)
index.command()(query)
index.command()(get)
index.command()(remove)
index.command()(stats)
index.command()(retune)
index.command()(reindex)
index.command()(convert)
index.command()(compact)
index.command()(verify)
index.command()(export)
index.command("import")(import_)
