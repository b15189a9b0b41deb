"""Why a document of an index is a copy, or is kept; with the words in which both texts differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neardup.index.index import Index
    from neardup.report.differences import Piece


def show_document(index: Index, id: str, as_json: bool) -> None:
    """The explanation; after it the differences, if the index keeps texts."""
    from neardup.errors import UsageError

    found = index.explain_document(id)
    if found is None:
        raise UsageError(f"{index.path} has no document {id!r}: check the id")
    if as_json:
        print(json.dumps(found.as_dict, indent=2))
        return
    print(found)
    if found.witness is not None:
        kept, copy = index.text(found.witness.id), index.text(id)
        if isinstance(kept, str) and isinstance(copy, str):
            print("\n".join(_differences(kept, copy)))


def _differences(kept: str, copy: str) -> Iterator[str]:
    """Both texts where they differ, with what is not equal in [brackets]."""
    from neardup.report.differences import compare

    found = compare(kept, copy)
    if not found.hunks:
        yield "texts         the same words"
    for hunk in found.hunks:
        if hunk.same_before:
            yield f"texts         {hunk.same_before:,} equal words"
        yield f"its witness   {_marked(hunk.kept)}"
        yield f"itself        {_marked(hunk.copy)}"
    if not found.complete:
        yield "texts         there is more that is not shown"
    elif found.hunks and found.same_after:
        yield f"texts         {found.same_after:,} equal words"


def _marked(pieces: Sequence[Piece]) -> str:
    shown = (f"[{piece.text.strip()}]" if piece.changed else piece.text.strip() for piece in pieces)
    return " ".join(" ".join(shown).split())
