"""Cut the stored slots of an index down to a few bits, without its texts.

Decisions, shingles and texts stay. Band keys are made of whole slots, so they are stored from now
on: other bands can't be made any more, while threshold, limit and verification can change. It is
a new generation beside the current one, which the index switches to at once or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from neardup.errors import ParameterError
from neardup.index import folder
from neardup.index.arrivals import SignatureCodec
from neardup.index.generation import Generation
from neardup.index.settings import IndexSettings, options_of, stated
from neardup.index.store import CHECKPOINT_BYTES, Row, Store
from neardup.runtime import SILENT, Progress
from neardup.sketch import bulk

AT_ONCE: Final = 2_048
NOTICE: Final = (
    "the bands of a converted index can't be changed any more; threshold, limit and verify can"
)


@dataclass(frozen=True)
class Converted:
    """What it brought, in bytes of the stores. What was before is still there."""

    generation: str
    fingerprint: str
    parent: str
    documents: int
    bytes_before: int
    bytes_after: int


def convert(path: str | Path, bits: int, *, progress: Progress = SILENT) -> Converted:
    """Narrow the slots of the index in a folder, which no process may have open to write."""
    path = Path(path)
    folder.require_index(path)
    with folder.locked(path), folder.locked(path, folder.MAKING):
        listed = folder.require_index(path)
        folder.withdraw_offer(path)
        folder.remove_unlisted(path)
        source = Store(path / listed.current / folder.STORE)
        try:
            there = IndexSettings.of_stored(source.meta(), str(source.path))
            settings = narrow_settings(there, bits)
            progress.say(NOTICE)
            source.checkpoint("TRUNCATE")
            name = folder.unused_name(path)
            Generation.create(path / name, settings)
            documents = _copy(source, path / name / folder.STORE, there, settings, progress)
        finally:
            source.close()
        folder.write_generations(path, folder.Generations(name, listed.current))
        folder.remove_unlisted(path)
    return Converted(
        name,
        settings.options.spec.fingerprint,
        settings.parent,
        documents,
        _size(source.path),
        _size(path / name / folder.STORE),
    )


def narrow_settings(there: IndexSettings, bits: int) -> IndexSettings:
    """The same with so many bits a slot."""
    spec = there.options.spec
    made = replace(spec, bits=bits)
    if spec.narrow:
        raise ParameterError(
            f"the slots have {spec.bits} bits already, and can't be cut again: go back with "
            f"neardup index reindex --undo first, or reindex from the texts with --bits {bits}"
        )
    if not made.narrow:
        raise ParameterError(f"the slots have {bits} bits as they are: choose fewer")
    return replace(there, options=options_of(made, stated(there.options)), parent=spec.fingerprint)


def _copy(
    source: Store, path: Path, there: IndexSettings, settings: IndexSettings, progress: Progress
) -> int:
    target = Store(path)
    try:
        documents, _ = source.counts()
        progress.stage("converting", documents, "documents")
        last = 0
        while rows := source.rows_after(last, AT_ONCE):
            last = rows[-1].number
            with target.transaction():
                _copy_rows(
                    source,
                    target,
                    rows,
                    SignatureCodec(there.options),
                    SignatureCodec(settings.options),
                )
            if target.wal_bytes > CHECKPOINT_BYTES:
                target.checkpoint()
            progress.advance(len(rows))
        with target.transaction():
            target.number_after(source)
        target.checkpoint("TRUNCATE")
        return documents
    finally:
        target.close()


def _copy_rows(
    source: Store, target: Store, rows: list[Row], wide: SignatureCodec, narrow: SignatureCodec
) -> None:
    numbers = [row.number for row in rows]
    target.add(rows)
    for table in ("shingles", "texts"):
        target.add_blobs(table, source.blobs(table, numbers).items())
    blobs = source.blobs("signatures", numbers)
    keys, slots = wide.unpack([blobs[number] for number in numbers])
    cut = narrow.pack(keys, bulk.pack_signatures(slots, narrow.options.spec))
    target.add_blobs("signatures", zip(numbers, cut, strict=True))


def _size(store: Path) -> int:
    """Of a generation: its documents, not the tables that are derived from them."""
    return store.stat().st_size
