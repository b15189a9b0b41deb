"""Predicts the cost of a run over files on one machine, stage by stage.

docs/scale.md states the model: N documents with sketches of s bytes in b bands; a share c of them
are candidates, p pairs per document are compared, a share d is removed. Memory is limited to the
budget: data beyond it are sorted in slices, each of which reads the input of the stage again.
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
from neardup.pipeline.stages.compare import READ_AT_ONCE
from neardup.pipeline.stages.rank import BYTES_PER_HASH, count_slice_bits
from neardup.pipeline.stages.screen import MOST_NUMBERS, SHARE_LEFT
from neardup.planner.costs import MB, Costs
from neardup.planner.requirements import Sla
from neardup.planner.workload import Workload
from neardup.runtime import AHEAD

# Bytes on disk.
BESIDES: Final = 36
"""Bytes of a document's sketch besides slots and id: content hash, length, state."""
A_SET, A_PAIR, A_MEMBER, A_BUCKET, A_ROW = 24, 16, 4, 16, 30
"""A set besides its shingles; a compared pair; a place in a bucket; a bucket; a table row."""

# Bytes in memory: measured, see benches/results/predicted.md.
COPIES: Final = 3
"""A block of sketches is held, joined and written."""
A_THREAD, A_REPORT = 8 * MB, 15 * MB
A_DOCUMENT, A_TABLED = 2, 20
"""For each document from ranking on, and while the tables are written."""
A_COMPARED, A_MEETING = 100, 24
"""A pair while it is decided; a sorted pair of a document and the first of its bucket."""


@dataclass(frozen=True)
class StageCost:
    """The cost of one stage of a run over files.

    Attributes:
        name: The stage, as in run.json; "start" for starting the process.
        seconds: Elapsed time.
        work: Seconds of all cores together.
        read: Bytes read.
        written: Bytes written.
        memory: Bytes of memory at the peak.
    """

    name: str
    seconds: float
    work: float
    read: float
    written: float
    memory: float


@dataclass(frozen=True)
class LocalRun:
    """A run over files at one operating point.

    sla        the requirements: documents, cores, memory
    costs      seconds of each kind of work
    workload   amounts per document
    options    the operating point
    slots      bytes of a document's stored slots
    """

    sla: Sla
    costs: Costs
    workload: Workload
    options: Options
    slots: int

    def stages(self) -> tuple[StageCost, ...]:
        """Return the cost of each stage, in order."""
        stages = self._in_memory()
        if self._text + self._kept + self._sketches <= self._room:
            return stages  # all files stay in the page cache
        speed = self.costs.disk
        return tuple(
            replace(one, seconds=max(one.seconds, (one.read + one.written) / speed))
            for one in stages
        )

    def _in_memory(self) -> tuple[StageCost, ...]:
        sla, costs, spec = self.sla, self.costs, self.options.spec
        load = self.workload
        count, cores, bands = sla.documents, costs.cores(sla.cores), self.options.hash_tables.count
        hashes, keys, workers = self._slices
        buckets = count * (A_MEMBER * load.members + A_BUCKET * load.buckets)
        slots = spec.planes / 8
        slots += 0 if spec.of_vectors else spec.width // 8 * self.options.curve.slots
        banded = 8 * bands if self._storage.keys_only else slots
        deciding = costs.set * self.set_bytes / MB + count * (
            costs.pair * (load.compared - load.met_by_planes)
            + costs.met * load.met_by_planes
            + costs.member * (load.members - load.members_of_planes)
        )
        planes = self.options.vectors.tables.count if spec.planes and self.options.vectors else 0
        banding = costs.band * (bands - planes) + costs.plane_key * planes
        sketched = self._vector_work
        if not spec.of_vectors:
            sketched += costs.sketch(spec.sketch, spec.slots, sla.shingles, sla.size)
        read = self._text * (2 if spec.planes else 1)
        return (
            StageCost("start", costs.start, costs.start_work, 0, 0, costs.base),
            self._stage("sketch", count * sketched, cores, read, self._sketches),
            self._stage("rank", costs.rank * count * hashes, 1, 20 * count * hashes, 0),
            self._stage(
                "band",
                banding * count * keys,
                costs.cores(workers),
                banded * count * keys,
                buckets,
            ),
            self._stage(
                "match",
                (costs.reread * self._text + costs.match * self.set_bytes) / MB,
                cores,
                self._text + 16 * count,
                self.set_bytes,
            ),
            StageCost(
                "decide",
                # Pairs are compared by all cores; one pairs, sorts and decides.
                deciding + self.compare_work / cores,
                deciding + self.compare_work,
                buckets + self.set_bytes,
                count * A_PAIR * (self._sorted_pairs + load.removed),
                self._memory("decide"),
            ),
            self._stage(
                "tables", costs.table * count * load.removed, 1, 0, A_ROW * count * load.removed
            ),
            self._stage("filter", costs.keep * self._kept / MB, 1, self._text, self._kept),
        )

    def _stage(
        self, name: str, work: float, cores: float, read: float, written: float
    ) -> StageCost:
        return StageCost(name, work / cores, work, read, written, self._memory(name))

    @property
    def compare_work(self) -> float:
        """Seconds of one core for comparing the pairs, which cores share."""
        costs, load, spec = self.costs, self.workload, self.options.spec
        each = costs.cosine * spec.dimension + (0.0 if spec.of_vectors else costs.compare)
        return self.sla.documents * load.compared * each

    @property
    def _has_codes(self) -> bool:
        """Whether codes of vectors rule out pairs before they are compared."""
        return self.options.spec.of_vectors and self.options.verify == "exact"

    @property
    def _sorted_pairs(self) -> float:
        """The pairs of a document that are sorted and compared: codes rule out most of vectors."""
        load = self.workload
        ruled_out = 1.0 - SHARE_LEFT if self._has_codes else 0.0
        return load.compared - ruled_out * load.met_by_planes

    @property
    def _vector_work(self) -> float:
        """Seconds of one core until a document's vector is counted, read and sketched."""
        spec, costs = self.options.spec, self.costs
        each = costs.number + costs.sign * spec.planes + (costs.counting if spec.planes else 0.0)
        return spec.dimension * each

    # -- bytes ----------------------------------------------------------------------------------

    @property
    def _text(self) -> float:
        return self.sla.documents * self.workload.stored

    @property
    def _kept(self) -> float:
        return self.sla.documents * self.workload.kept

    @property
    def _storage(self) -> SignatureStorage:
        """How a run that saves no sketches stores signatures."""
        exact = self.options.verify == "exact"
        return SignatureStorage(self.options.spec, self.options.hash_tables, temporary=exact)

    @property
    def _sketches(self) -> float:
        each = self._storage.size() + BESIDES + self.workload.id
        return self.sla.documents * each

    @property
    def set_bytes(self) -> float:
        """Bytes of the candidates' sets: their shingles, or their signatures."""
        load = self.workload
        each = load.sets if self.options.verify == "exact" else load.candidates * self.slots
        return self.sla.documents * (each + A_SET * load.candidates)

    # -- memory ---------------------------------------------------------------------------------

    @cached_property
    def _room(self) -> int:
        """The memory limit; the default of a run on this machine if there is none."""
        return Budget(self.sla.memory).total

    @cached_property
    def _slices(self) -> tuple[int, int, int]:
        """Slices in which hashes are sorted, slices of keys, and threads that sort keys."""
        sla, tables = self.sla, self.options.hash_tables.count
        free = max(int(self._room - self.costs.base - A_DOCUMENT * sla.documents), LEAST // 16)
        fits = free // (sla.documents * BYTES_PER_KEY * 2)
        workers = max(min(sla.cores, tables, fits), 1)
        hashes = count_slice_bits(sla.documents, BYTES_PER_HASH, free // 2)
        keys = count_slice_bits(sla.documents, BYTES_PER_KEY, free // workers // 2)
        return 1 << hashes, 1 << keys, workers

    def _memory(self, stage: str) -> float:
        """Return the peak of a stage: within the limit, unless the least it needs is more."""
        count = self.sla.documents
        more = {
            "sketch": 0,
            "rank": BYTES_PER_HASH * count,
            "band": count * (A_DOCUMENT + BYTES_PER_HELD_KEY * self._slices[2]),
            "match": A_DOCUMENT * count,
        }.get(stage, self._deciding)
        if stage in ("tables", "filter"):
            more += A_REPORT + A_TABLED * count
        needed = self.sketch_memory + more
        least = self.sketch_memory + min(more, A_DOCUMENT * count)
        return max(min(needed, self._room), least)

    @property
    def sketch_memory(self) -> float:
        """Bytes while sketching: copies of a block of sketches, chunks in work and in the queue."""
        count, workers, stored = self.sla.documents, self.sla.cores, self.workload.stored
        each = self._storage.full_size + BESIDES + self.workload.id
        waiting = (AHEAD + 1) * workers + 1 if workers > 1 else 1
        held = COPIES * min(count, BLOCK_ROWS) + min(waiting * CHUNK / stored, count)
        return self.costs.base + each * held + A_THREAD * min(workers, count * stored / CHUNK)

    @property
    def _deciding(self) -> float:
        load, sets = self.workload, self.set_bytes
        meeting = load.members - load.buckets
        if self._has_codes:  # codes of vectors are in memory, and vectors of some pairs
            codes = MOST_NUMBERS * self.sla.documents * load.candidates
            sets, meeting = min(sets, codes + READ_AT_ONCE), SHARE_LEFT * meeting
        pairs = A_COMPARED * self._sorted_pairs + A_MEETING * meeting
        return sets + self.sla.documents * (A_DOCUMENT + A_SET * load.candidates + pairs)
