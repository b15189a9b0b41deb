"""neardup index get, neardup index remove: single documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from neardup.cli.index_shared import Dir, IndexKey, PlainJson, reading, writing

if TYPE_CHECKING:
    from neardup.index.answer import Document


def get(
    folder: Dir,
    id: Annotated[str, typer.Argument(metavar="ID", show_default=False)],
    text: Annotated[
        bool, typer.Option("--text", help="Show its text too, if the index keeps texts.")
    ] = False,
    key_file: IndexKey = None,
    as_json: PlainJson = False,
) -> None:
    """Show what is known of a document, and the cluster that it is in."""
    import json
    from dataclasses import asdict

    from neardup.errors import UsageError

    with reading(folder, key_file) as index:
        document = index.get(id)
        cluster = None if document is None else index.cluster(document.cluster)
        stored = index.text(id) if text else None
    if document is None or cluster is None:
        raise UsageError(f"{folder} has no document {id!r}: check the id")
    if text and stored is None:
        raise UsageError(
            f"{folder} has no text of {id!r}: texts are kept by an index that is built with "
            "--keep-texts, of documents that came with one"
        )
    if as_json:
        members = [member.id for member in cluster.members]
        more = {"members": members, **({"text": stored} if text else {})}
        print(json.dumps(asdict(document) | more, indent=2))
        return
    for name, value in _lines(document):
        print(f"{name:14}{value}")
    others = [one.id for one in (cluster.representative, *cluster.members) if one.id != id]
    copies = "nothing else" if not others else f"{len(others):,} more: {', '.join(others[:5])}"
    print(f"{'cluster':14}{cluster.number}, {copies}{', ...' if len(others) > 5 else ''}")
    if text:
        print(f"\n{stored}")


def _lines(document: Document) -> list[tuple[str, object]]:
    from datetime import datetime

    lines: list[tuple[str, object]] = [("id", document.id), ("status", document.status)]
    if document.duplicate_of is not None:
        how = "" if document.exact else ", estimated"
        lines.append(("duplicate of", f"{document.duplicate_of} ({document.similarity:.4f}{how})"))
    added = datetime.fromtimestamp(document.added).astimezone()
    lines.append(("added", f"{added:%Y-%m-%d %H:%M:%S}"))
    if document.metadata is not None:
        lines.append(("metadata", document.metadata))
    return lines


def remove(
    folder: Dir,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", show_default=False)],
    missing_ok: Annotated[
        bool, typer.Option("--missing-ok", help="It is no error if some are not there.")
    ] = False,
    key_file: IndexKey = None,
) -> None:
    """Remove documents for good. Copies of a removed one find another witness, or are new."""
    from neardup.errors import UsageError
    from neardup.index.anew.reindex import held_before

    with writing(folder, key_file) as index:
        found = {id: index.get(id) for id in ids}
        missing = [id for id in ids if not index.remove(id)]
    print(f"{len(ids) - len(missing):,} removed")
    held = held_before(folder, [one.number for one in found.values() if one is not None])
    for name, documents in held.items():
        print(
            f"the earlier generation {name} still has {documents:,} of them: neardup index "
            f"reindex {folder} --forget deletes it"
        )
    if missing and not missing_ok:
        shown = ", ".join(map(repr, missing[:5]))
        raise UsageError(f"{folder} has no document {shown}: check the ids, or use --missing-ok")
