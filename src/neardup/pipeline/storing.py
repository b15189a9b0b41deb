"""What of a signature is written: all of its slots, or a few bits of each and the band keys?

Slots are columns, so that any bands can be read without the others. Narrow ones can't be banded
again: their documents' keys are written instead, for the bands of the run that made them, and
the full slots as well only if they are to be kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import UsageError
from neardup.formats.blocks import BlockReader
from neardup.lsh.bands import Tables
from neardup.sketch.bulk import Signatures, compared
from neardup.spec import Spec

SLOTS, KEYS, PACKED = "slots", "keys", "packed"
TABLES, OPEN, EMPTY = "tables", "open", "empty_slots"


@dataclass(frozen=True)
class Storing:
    """How signatures are written. Open ones have empty slots: they are still to be merged."""

    spec: Spec
    tables: Tables
    keep_full: bool = False
    open: bool = False

    @property
    def stated(self) -> dict[str, Any]:
        """What is said in the file, besides the specification."""
        tables = {TABLES: self.tables.stated} if self.spec.narrow else {}
        return tables | ({OPEN: True} if self.open and self.spec.sketch == "oneperm" else {})

    def columns(self, signatures: Signatures) -> dict[str, NDArray[Any]]:
        """The columns of a file."""
        full = {SLOTS: kernels.transposed(signatures)}
        if not self.spec.narrow:
            return full
        narrow = {
            KEYS: np.ascontiguousarray(self.tables.keys(signatures).T),
            PACKED: np.ascontiguousarray(compared(signatures, self.spec).T),
        }
        return narrow | (full if self.keep_full else {})

    def size(self) -> int:
        """Bytes of a document's signature."""
        full = self.spec.slots * self.spec.width // 8
        if not self.spec.narrow:
            return full
        narrow = 8 * self.tables.count + self.spec.slots * self.spec.bits // 8
        return narrow + (full if self.keep_full else 0)

    def check(self, file: BlockReader, name: str) -> None:
        """Refuse sketches of an earlier corpus that can't be used by this run."""
        for block in range(len(file)):
            note = file.note_of(block)
            if note.get(OPEN, False) != self.stated.get(OPEN, False):
                how = "with" if note.get(OPEN) else "without"
                raise UsageError(
                    f"--against: the sketches of {name} were made {how} --merge-rows: "
                    f"run {how} it, or give the files themselves"
                )
            there: list[list[int]] = note.get(TABLES, [])
            if not file.has(block, SLOTS) and there != self.tables.stated:
                made = " and ".join(f"{bands} bands of {rows} rows" for bands, rows in there)
                raise UsageError(
                    f"--against: the sketches of {name} were made for {made}, and their slots are "
                    f"cut: give {_asked(there)}, or sketch again with --keep-full"
                )


def _asked(curves: list[list[int]]) -> str:
    """The options that lead to these bands."""
    if len(curves) == 1:
        return "--bands {} --rows {}".format(*curves[0])
    return "--tables " + ",".join(f"{bands}x{rows}" for bands, rows in curves)


def keys_of(file: BlockReader, block: int, tables: Tables, table: int) -> NDArray[np.uint64]:
    """The keys of a block's documents in one table: as written, or from their slots."""
    if file.note_of(block).get(TABLES) == tables.stated:
        keys: NDArray[np.uint64] = file.read(block, KEYS, slice(table, table + 1))[0]
        return keys
    return tables.column_keys(file.read(block, SLOTS, tables.columns(table)), table)


def compared_of(file: BlockReader, block: int) -> NDArray[Any]:
    """What is compared of a block's signatures, as columns."""
    return file.read(block, PACKED if file.has(block, PACKED) else SLOTS)


def made_alike(files: list[BlockReader]) -> bool:
    """Whether the signatures of all files were written in one way."""
    notes = [file.note_of(block) for file in files for block in range(len(file))]
    return all(
        (note.get(TABLES), note.get(OPEN)) == (notes[0].get(TABLES), notes[0].get(OPEN))
        for note in notes
    )
