"""What does each kind of work cost? Stored figures, which a short measurement corrects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MB: Final = 1e6
MEASURED_ON: Final = "2 cores of an AMD EPYC in a virtual machine, Linux, Python 3.11"


@dataclass(frozen=True)
class Costs:
    """Seconds of one core, where nothing else is said.

    start, start_work   an empty run: until it ends, and of the processor
    base                bytes of memory that an empty run takes
    text                a MB of text: parsed, cut into shingles, hashed
    document            besides, for each document
    update              a slot of a k-hash signature, for one shingle
    shingle             of a one-permutation signature
    fill                a slot of a one-permutation signature
    rank                a document
    band                a document in one band
    reread              a MB of input, in which candidates are found again
    match               a MB of candidates' sets: parsed, shingled, sorted
    set                 a MB of sets, read to be compared
    pair                a pair that is compared
    member              a place in a shared bucket, in all rounds
    table               a removed document
    keep                a MB of kept files
    lookup              a document in one table of an index, looked up and added (MinHashLSH)
    efficiency          of several cores, beside one
    disk                bytes a second, read or written, where files don't fit into memory
    """

    start: float = 1.25
    start_work: float = 1.35
    base: float = 218 * MB
    text: float = 3.4e-3
    document: float = 1.5e-6
    update: float = 4.1e-11
    shingle: float = 2.4e-9
    fill: float = 2.4e-9
    rank: float = 2e-7
    band: float = 1.1e-7
    reread: float = 9e-4
    match: float = 5.5e-3
    set: float = 1e-3
    pair: float = 1e-6
    member: float = 2.5e-7
    table: float = 1.7e-6
    keep: float = 7e-4
    lookup: float = 2e-6
    efficiency: float = 0.8
    disk: float = 1e9
    source: str = f"stored figures, of {MEASURED_ON}"

    def signature(self, sketch: str, slots: int, shingles: float) -> float:
        """Seconds to make a document's signature of its shingles."""
        if sketch == "oneperm":
            return shingles * self.shingle + slots * self.fill
        return shingles * slots * self.update

    def sketch(self, sketch: str, slots: int, shingles: float, size: float) -> float:
        """Seconds from a document's text to its signature."""
        return self.text * size / MB + self.document + self.signature(sketch, slots, shingles)

    def cores(self, wanted: int) -> float:
        """What several cores do, beside one."""
        return max(wanted * self.efficiency, 1.0)
