"""The cost of a run over files on one machine, stage by stage. The model of docs/scale.md.

N documents with sketches of s bytes, b bands; of the documents c share a bucket with others,
p pairs a document are compared, d are removed. Memory is limited to the budget: what does not
fit is sorted in slices, each of which reads everything again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from neardup.corpus.read import CHUNK
from neardup.options import Options
from neardup.pipeline.budget import LEAST, Budget
from neardup.pipeline.sketch_files import BLOCK_ROWS, SignatureStorage
from neardup.pipeline.stages.band import BYTES_PER_HELD_KEY, BYTES_PER_KEY
from neardup.pipeline.stages.rank import BYTES_PER_HASH, count_slice_bits
from neardup.planner.costs import MB, Costs
from neardup.planner.requirements import Sla
from neardup.planner.workload import Workload
from neardup.runtime import AHEAD

# Bytes on disk.
BESIDES: Final = 36
"""Of a document's sketch, what is neither slots nor its id: content hash, length, state."""
A_SET, A_PAIR, A_MEMBER, A_BUCKET, A_ROW = 24, 16, 4, 16, 30
"""Besides its shingles; a compared pair; a place in a bucket; a bucket; a row of a table."""

# Bytes in memory: measured, see benches/results/predicted.md.
COPIES: Final = 3
"""A block of sketches is held, joined and written."""
A_THREAD, A_REPORT = 8 * MB, 15 * MB
A_DOCUMENT, A_TABLED = 2, 20
"""Of every document, from ranking on; and when the tables are written."""
A_COMPARED, A_MEETING = 100, 24
"""A pair while it is decided; a document and the first of its bucket, sorted."""


@dataclass(frozen=True)
class StageCost:
    """Seconds, seconds of all cores, bytes read and written, bytes of memory at its peak."""

    name: str
    seconds: float
    work: float
    read: float
    written: float
    memory: float


@dataclass(frozen=True)
class LocalRun:
    """A run at one operating point; `slots` are the bytes of a document's slots as compared."""

    sla: Sla
    costs: Costs
    profile: Workload
    options: Options
    slots: int

    def stages(self) -> tuple[StageCost, ...]:
        """All stages, in order."""
        stages = self._in_memory()
        if self._text + self._kept + self._sketches <= self._room:
            return stages  # files stay in the system's cache
        speed = self.costs.disk
        return tuple(
            replace(one, seconds=max(one.seconds, (one.read + one.written) / speed))
            for one in stages
        )

    def _in_memory(self) -> tuple[StageCost, ...]:
        sla, costs, seen, spec = self.sla, self.costs, self.profile, self.options.spec
        count, cores, bands = sla.documents, costs.cores(sla.cores), self.options.hash_tables.count
        hashes, keys, workers = self._slices
        buckets = count * (A_MEMBER * seen.members + A_BUCKET * seen.buckets)
        band_slots = spec.width // 8 * self.options.curve.slots
        deciding = costs.set * self._sets / MB + count * (
            costs.pair * seen.compared + costs.member * seen.members
        )
        sketching = costs.sketch(spec.sketch, spec.slots, sla.shingles, sla.size)
        return (
            StageCost("start", costs.start, costs.start_work, 0, 0, costs.base),
            self._stage("sketch", count * sketching, cores, self._text, self._sketches),
            self._stage("rank", costs.rank * count * hashes, 1, 20 * count * hashes, 0),
            self._stage(
                "band",
                costs.band * count * bands * keys,
                costs.cores(workers),
                band_slots * count * keys,
                buckets,
            ),
            self._stage(
                "match",
                (costs.reread * self._text + costs.match * self._sets) / MB,
                cores,
                self._text + 16 * count,
                self._sets,
            ),
            self._stage(
                "decide",
                deciding,
                1,
                buckets + self._sets,
                count * A_PAIR * (seen.compared + seen.removed),
            ),
            self._stage(
                "tables", costs.table * count * seen.removed, 1, 0, A_ROW * count * seen.removed
            ),
            self._stage("filter", costs.keep * self._kept / MB, 1, self._text, self._kept),
        )

    def _stage(
        self, name: str, work: float, cores: float, read: float, written: float
    ) -> StageCost:
        return StageCost(name, work / cores, work, read, written, self._memory(name))

    # -- bytes ----------------------------------------------------------------------------------

    @property
    def _text(self) -> float:
        return self.sla.documents * self.profile.stored

    @property
    def _kept(self) -> float:
        return self.sla.documents * self.profile.kept

    @property
    def _sketches(self) -> float:
        each = (
            SignatureStorage(self.options.spec, self.options.hash_tables).size()
            + BESIDES
            + self.profile.id
        )
        return self.sla.documents * each

    @property
    def _sets(self) -> float:
        """What is compared of the candidates: their shingles, or their signatures."""
        seen = self.profile
        each = seen.sets if self.options.verify == "exact" else seen.candidates * self.slots
        return self.sla.documents * (each + A_SET * seen.candidates)

    # -- memory ---------------------------------------------------------------------------------

    @cached_property
    def _room(self) -> int:
        """What is given, or what a run takes here if nothing is said."""
        return Budget(self.sla.memory).total

    @cached_property
    def _slices(self) -> tuple[int, int, int]:
        """In how many slices hashes and keys are sorted, and by how many threads the latter."""
        sla, tables = self.sla, self.options.hash_tables.count
        free = max(int(self._room - self.costs.base - A_DOCUMENT * sla.documents), LEAST // 16)
        fits = free // (sla.documents * BYTES_PER_KEY * 2)
        workers = max(min(sla.cores, tables, fits), 1)
        hashes = count_slice_bits(sla.documents, BYTES_PER_HASH, free // 2)
        keys = count_slice_bits(sla.documents, BYTES_PER_KEY, free // workers // 2)
        return 1 << hashes, 1 << keys, workers

    def _memory(self, stage: str) -> float:
        """At the peak; no more than is given, but for what has to be there."""
        count = self.sla.documents
        more = {
            "sketch": 0,
            "rank": BYTES_PER_HASH * count,
            "band": count * (A_DOCUMENT + BYTES_PER_HELD_KEY * self._slices[2]),
            "match": A_DOCUMENT * count,
        }.get(stage, self._deciding)
        if stage in ("tables", "filter"):
            more += A_REPORT + A_TABLED * count
        needed = self._sketching + more
        least = self._sketching + min(more, A_DOCUMENT * count)
        return max(min(needed, self._room), least)

    @property
    def _sketching(self) -> float:
        """A block of sketches in some copies, chunks that are worked on, and those that wait."""
        count, workers, stored = self.sla.documents, self.sla.cores, self.profile.stored
        each = self.options.spec.slots * self.options.spec.width // 8 + BESIDES + self.profile.id
        waiting = (AHEAD + 1) * workers + 1 if workers > 1 else 1
        held = COPIES * min(count, BLOCK_ROWS) + min(waiting * CHUNK / stored, count)
        return self.costs.base + each * held + A_THREAD * min(workers, count * stored / CHUNK)

    @property
    def _deciding(self) -> float:
        seen = self.profile
        pairs = A_COMPARED * seen.compared + A_MEETING * (seen.members - seen.buckets)
        return self._sets + self.sla.documents * (A_DOCUMENT + A_SET * seen.candidates + pairs)
