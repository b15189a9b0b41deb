"""The online index: is this new document a copy of something that came before?

    with neardup.Index.open("posts", threshold=0.8) as index:
        index.add("1", "the first text of all that there are in here")
        index.query("The first text of all that there are in here!").duplicate_of

Durable: what was acknowledged is there after a crash. The answer is that of a batch run over the
same documents in the order in which they were added.
"""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

import numpy as np

from neardup.batch.budget import parse_size
from neardup.dedup import Sketch, Sketcher
from neardup.errors import Conflict, FormatError, OutputError, ParameterError, UsageError
from neardup.formats.blocks import sync_folder
from neardup.index import folder, planning, snapshot
from neardup.index.answer import NEW, REJECTED, Answer, Cluster, Document, Match
from neardup.index.asking import copies_of
from neardup.index.deciding import Decider
from neardup.index.exchange import export_store
from neardup.index.explain import Explanation, explained
from neardup.index.guard import Guard
from neardup.index.known import Signing
from neardup.index.probing import Probing
from neardup.index.settings import Settings, asked
from neardup.index.shadow import Shadow
from neardup.index.sketching import Sketched, Sketching
from neardup.index.stats import BucketSizes, Stats
from neardup.index.store import Row, Store
from neardup.index.work import Adding, Calling, Counters, Point, Removing
from neardup.index.writing import MOST_WAITING, Writer
from neardup.keys import Key, key_of, require_key
from neardup.options import Options
from neardup.progress import SILENT, Progress
from neardup.spec import Spec, whole
from neardup.text.arrays import Ragged

if TYPE_CHECKING:
    from neardup.index.reindex import Reindexed

LONGEST_ID = 1_024
"""Bytes of UTF-8."""
RETRIES = 5
FEW_CHANGES = 10_000
"""So many are entered in a fraction of a second when the index is opened: no need of a snapshot."""
P = ParamSpec("P")
T = TypeVar("T")


def steady(
    method: Callable[Concatenate[Index, P], T],
) -> Callable[Concatenate[Index, P], T]:
    """A call that sees one generation from its beginning to its end. One can't call another."""

    @wraps(method)
    def called(self: Index, /, *args: P.args, **others: P.kwargs) -> T:
        self._follow_generations()
        with self._using.reading():
            return method(self, *args, **others)

    return called


class Index:
    """An open index. Any number of threads may use it; one process writes, others may read.

    Readers don't wait for readers. `add` returns when its documents are stored for good.
    """

    def __init__(self, path: Path, store: Store, settings: Settings, key: Key | None, *,
                 lock: folder.Lock | None, clock: Callable[[], float] = time.time,
                 most_waiting: int = MOST_WAITING,
                 say: Callable[[str], None] = lambda _: None,
                 memory: int | None = None) -> None:  # fmt: skip
        self.path, self.settings = path, settings
        self._cold = snapshot.Cold(store.path.parent, memory, read_only=lock is None)
        self._store, self._key, self._lock, self._say = store, key, lock, say
        self._how: dict[str, Any] = {"clock": clock, "most_waiting": most_waiting, "say": say,
                                     "memory": memory}  # fmt: skip
        self._refreshing, self._exchanging = threading.Lock(), threading.Lock()
        self._writing_snapshot = threading.Lock()
        self._using = Guard()
        self._former: list[Store] = []
        self._listed_at = (0, 0)
        self._closed = False
        self._snapshot_sequence = 0
        point = self._loaded()
        self._writer = (
            None if lock is None else Writer(store, point, clock, most_waiting, self.snapshot)
        )
        self._reading_point = point
        self._counters = Counters() if self._writer is None else self._writer.counters
        self._sketching = Sketching.of(settings, key, self._counters)
        self._shadow = self._shadow_beside()

    @classmethod
    def open(
        cls, path: str | Path, spec: Spec | None = None, threshold: float | None = None, *,
        read_only: bool = False, memory: int | str | None = None, keep_texts: bool | None = None,
        key: bytes | Key | None = None, clock: Callable[[], float] = time.time,
        most_waiting: int = MOST_WAITING, say: Callable[[str], None] = lambda _: None,
        **options: Any,
    ) -> Index:  # fmt: skip
        """Open the index in a folder, or make one there.

        `spec` and `options` (see `neardup.dedup`) say what a new index is for; one that is there
        keeps what it has, and refuses to be opened for something else. With `keep_texts` it can be
        indexed anew by another specification. Past `memory` (bytes, or "4 GB") tables go to disk,
        where they still answer. `say` hears what takes long.
        """
        path, secret = Path(path), key_of(key)
        given = {"threshold": threshold, **options}
        budget = parse_size(memory) if isinstance(memory, str) else memory
        if budget is not None:
            whole("memory", budget, 1, 2**62)
        listed = folder.generations(path)
        if listed is None:
            if read_only:
                raise UsageError(f"{path} holds no index: give the folder of one")
            listed = _made(path, asked(None, spec, secret, given), bool(keep_texts))
        lock = None if read_only else folder.Lock(path)
        try:
            listed = folder.generations(path) or listed
            store, settings = _stored(path / listed.current, read_only)
            asked(settings.options, spec, secret, given)
            require_key(settings.options.spec, secret)
            if keep_texts is not None and keep_texts != settings.keep_texts:
                raise ParameterError(
                    f"{path} was made {'with' if settings.keep_texts else 'without'} its texts: "
                    "leave out keep_texts, or build the index anew"
                )
            return cls(path, store, settings, secret, lock=lock, clock=clock,
                       most_waiting=most_waiting, say=say, memory=budget)  # fmt: skip
        except BaseException:
            if lock is not None:
                lock.release()
            raise

    @classmethod
    def of_generation(cls, path: Path, name: str, keys: Iterable[Key | None], *,
                      read_only: bool = False, **how: Any) -> Index:  # fmt: skip
        """One generation of an index, whether it is the current one or not.

        Of the keys it takes the one that it needs, if any.
        """
        lock = None if read_only else folder.Lock(path / name)
        try:
            store, settings = _stored(path / name, read_only)
            wanted = settings.options.spec.key
            key = next((key for key in keys if key is not None and key.id == wanted), None)
            require_key(settings.options.spec, key)
            return cls(path, store, settings, key, lock=lock, **how)
        except BaseException:
            if lock is not None:
                lock.release()
            raise

    @property
    def spec(self) -> Spec:
        return self.settings.options.spec

    @property
    def options(self) -> Options:
        return self.settings.options

    @property
    def sketcher(self) -> Sketcher:
        """Makes sketches as this index does."""
        return self._sketching.sketcher

    @property
    def store(self) -> Store:
        """What is stored; to be read."""
        return self._store

    @property
    def generation(self) -> str:
        """The folder in the index's own that answers come from."""
        return self._store.path.parent.name

    @property
    def read_only(self) -> bool:
        return self._writer is None

    @property
    def sequence(self) -> int:
        """The number of the last change that answers are based on."""
        return self._point.derived.sequence

    def __len__(self) -> int:
        return self._store.counts()[0] if self._writer is None else self._writer.documents

    # Adding and removing

    def add(self, id: str, text: str, *, metadata: dict[str, Any] | None = None,
            replace: bool = False) -> Answer:  # fmt: skip
        """Say whether a document is a copy, and store it: in one step that nobody comes between.

        An id that is there with the same content is answered again, and nothing is added. With
        another content it is a Conflict, unless the document is to be replaced.
        """
        answer = self.add_batch([id], [text], metadata=[metadata], replace=replace)[0]
        if answer.reason == planning.CONFLICT:
            raise Conflict(f"document {id!r}: {planning.CONFLICT}")
        return answer

    check_and_add = add

    def add_batch(self, ids: Sequence[str], texts: Sequence[str], *,
                  metadata: Sequence[dict[str, Any] | None] | None = None,
                  replace: bool = False) -> list[Answer]:  # fmt: skip
        """The same for many documents, in order and in one commit."""
        return self.submit(ids, texts, metadata=metadata, replace=replace).result()

    @steady
    def submit(self, ids: Sequence[str], texts: Sequence[str], *,
               metadata: Sequence[dict[str, Any] | None] | None = None,
               replace: bool = False) -> Future[list[Answer]]:  # fmt: skip
        """The same without waiting: the future has the answers when all are stored."""
        writer = self._require_writer()
        if len(ids) != len(texts):
            raise ParameterError(f"{len(ids)} ids for {len(texts)} texts: give one for each")
        point = self._point
        sketched = self._sketching.texts(texts, point)
        _ = sketched.arrivals.sets  # sorted here, not by the thread that writes
        kept = list(texts) if self.settings.keep_texts else None
        return self._put(writer, ids, sketched, metadata, kept, replace, point,
                         lambda: self.submit(ids, texts, metadata=metadata, replace=replace)
                         )  # fmt: skip

    def add_sketches(self, ids: Sequence[str], sketch: Sketch, *,
                     metadata: Sequence[dict[str, Any] | None] | None = None,
                     replace: bool = False) -> list[Answer]:  # fmt: skip
        """Add documents by ready-made sketches of the same specification, without their texts."""
        return self._submit_sketches(ids, sketch, metadata, replace).result()

    @steady
    def _submit_sketches(self, ids: Sequence[str], sketch: Sketch,
                         metadata: Sequence[dict[str, Any] | None] | None,
                         replace: bool) -> Future[list[Answer]]:  # fmt: skip
        writer, point = self._require_writer(), self._point
        if len(ids) != len(sketch.content):
            raise ParameterError(f"{len(ids)} ids for {len(sketch.content)} sketches")
        shingles = Ragged(sketch.shingles.data.copy(), sketch.shingles.offsets)
        sketched = self._sketching.sketches(
            dataclasses.replace(sketch, shingles=shingles), point, {}
        )
        return self._put(writer, ids, sketched, metadata, None, replace, point)

    def _put(self, writer: Writer, ids: Sequence[str], sketched: Sketched,
             metadata: Sequence[dict[str, Any] | None] | None, texts: Sequence[str] | None,
             replace: bool, point: Point,
             anew: Callable[[], Future[list[Answer]]] | None = None
             ) -> Future[list[Answer]]:  # fmt: skip
        for id in ids:
            _check_id(id)
        stated = [None] * len(ids) if metadata is None else [_json(one) for one in metadata]
        if len(stated) != len(ids):
            raise ParameterError(f"{len(stated)} metadata for {len(ids)} ids: give one for each")
        work = Adding(list(ids), sketched.arrivals, sketched.places, sketched.rejected, stated,
                      texts, replace, point, anew=anew)  # fmt: skip
        writer.put(work)
        return work.done

    def carry(self, rows: Sequence[Row], texts: Sequence[str]) -> Future[list[Answer]]:
        """Add documents of another generation: they keep numbers, times and metadata."""
        writer, point = self._require_writer(), self._point
        sketched = self._sketching.texts(texts, point)
        work = Adding([row.id for row in rows], sketched.arrivals, sketched.places,
                      sketched.rejected, [row.metadata for row in rows],
                      texts if self.settings.keep_texts else None, False, point,
                      [(row.number, row.added) for row in rows])  # fmt: skip
        writer.put(work)
        return work.done

    def remove(self, id: str) -> bool:
        """Remove a document for good; whether it was there. Its copies find another witness."""
        work = Removing(id)
        self._require_writer().put(work)
        return work.done.result()

    # Asking

    def query(self, text: str, *, probes: int = 0) -> Answer:
        """Say whether a text is a copy of a kept document. Nothing is stored.

        With `probes` so many more buckets are looked into, the likeliest first.
        """
        return self.query_batch([text], probes=probes)[0]

    @steady
    def query_batch(self, texts: Sequence[str], *, probes: int = 0) -> list[Answer]:
        """The same for many texts, each by itself."""
        point = self._refreshed()
        more = Probing(point.signing, self._key, probes) if probes else None
        return self._answers(self._sketching.texts(texts, point), len(texts), point, more)

    @steady
    def query_sketches(self, sketch: Sketch) -> list[Answer]:
        """The same for ready-made sketches of the same specification, without their texts."""
        point = self._refreshed()
        sketched = self._sketching.sketches(sketch, point, {})
        return self._answers(sketched, len(sketch.content), point)

    def _answers(
        self, sketched: Sketched, count: int, point: Point, more: Probing | None = None
    ) -> list[Answer]:
        self._counters.queries += count
        sequence, begun = point.derived.sequence, time.perf_counter()
        for _ in range(RETRIES):
            found = copies_of(self._store, point, sketched.arrivals, self._counters, more)
            if found is not None:
                break
        else:
            raise FormatError(
                f"{self._store.path} lacks documents that its tables have: run neardup index verify"
            )
        if self._shadow is not None and more is None:
            took = time.perf_counter() - begun
            self._shadow.ask(sketched.arrivals, found, took, sequence)
        answers = [Answer(None, NEW)] * count
        for place, why in sketched.rejected.items():
            answers[place] = Answer(None, REJECTED, reason=why)
        for at, answer in found.items():
            answers[sketched.places[at]] = answer
        return answers

    @steady
    def similar(self, text: str, most: int = 10) -> list[Match]:
        """The kept documents that are similar to a text, the most similar first."""
        point = self._refreshed()
        sketched = self._sketching.texts([text], point)
        if sketched.rejected:
            return []
        _, pairs = point.decider.meetings(
            sketched.arrivals, np.zeros(1, np.int64), point.known(self._store)
        )
        good = np.flatnonzero(pairs.similarity >= 0.0)
        best = good[np.argsort(-pairs.similarity[good], kind="stable")][:most]
        rows = self._store.rows(pairs.numbers[best].tolist())
        return [
            Match(rows[number].id, number, float(pairs.similarity[at]), bool(pairs.exact[at]))
            for at in best.tolist()
            if (number := int(pairs.numbers[at])) in rows
        ]

    def explain(self, text: str) -> Explanation:
        """Every step of `query`, with what it found and how long it took."""
        for _ in range(2):  # the first time, what is needed may have to be loaded
            begun = time.perf_counter()
            answer = self.query(text)
            seconds = time.perf_counter() - begun
            found = self._explained(text, answer, seconds)
        return found

    @steady
    def _explained(self, text: str, answer: Answer, seconds: float) -> Explanation:
        point = self._refreshed()
        return explained(text, answer, seconds, self._store, point, self._sketching)

    @steady
    def get(self, id: str) -> Document | None:
        """What is known of a document; None if there is none with this id."""
        row = planning.rows_with(self._store, self._refreshed(), [id]).get(id)
        return None if row is None else self._documents([row])[0]

    @steady
    def cluster(self, number: int) -> Cluster | None:
        """A kept document and its copies; None if there is no such cluster."""
        point = self._refreshed()
        row = self._store.rows([number]).get(number)
        if row is None or row.witness is not None:
            return None
        members = self._store.rows(point.derived.with_witness(number)).values()
        copies = sorted(member for member in members if member.witness == number)
        first, *others = self._documents([row, *copies])
        return Cluster(number, first, tuple(others))

    def _documents(self, rows: Sequence[Row]) -> list[Document]:
        names = planning.names_of(self._store, rows, {row.number: row.id for row in rows})
        found = []
        for row in rows:
            said = planning.answer_of(row, names)
            about = None if row.metadata is None else json.loads(row.metadata)
            found.append(Document(row.id, row.number, said.status, said.duplicate_of,
                                  said.similarity, said.exact, said.cluster or row.number,
                                  row.added, about))  # fmt: skip
        return found

    # Changing the operating point

    @property
    def shadow(self) -> Shadow:
        """Another operating point beside the current one; see `Shadow`."""
        self._require_writer()
        assert self._shadow is not None  # noqa: S101  # who writes has one
        return self._shadow

    def retune(self, **point: Any) -> int:
        """Go over to another operating point; of how many documents the answer changed.

        `point` is what differs, as in `shadow.start`. All documents are judged again in order, by
        what is stored of them, beside what goes on.
        """
        self.shadow.start(**point)
        try:
            return self.shadow.promote(wait=True)
        except BaseException:
            self.shadow.close()
            raise

    # Keeping house

    @steady
    def stats(self) -> Stats:
        """The state of the index in numbers."""
        point, writer = self._refreshed(), self._writer
        derived = point.derived
        documents, kept = self._store.counts() if writer is None else (writer.documents,
                                                                       writer.kept)  # fmt: skip
        memory = {
            "bands": derived.bands.nbytes, "ids": derived.ids.nbytes,
            "contents": derived.contents.nbytes, "members": derived.members.nbytes,
            "removed": derived.dead.nbytes,
            "cold": derived.cold.nbytes if derived.cold else 0,
            "shadow": 0 if self._shadow is None else self._shadow.nbytes,
        }  # fmt: skip
        files = {
            file.name: file.stat().st_size
            for file in sorted(self._store.path.parent.iterdir())
            if file.is_file()
        }
        if derived.cold:
            files["cold"] = derived.cold.disk_bytes
        return Stats(
            documents, kept, documents - kept, derived.buried, derived.sequence,
            self._snapshot_sequence, 0 if writer is None else writer.waiting,
            0 if writer is None else writer.most_waiting,
            len(derived.bands.tables), memory, derived.budget, files, self._store.wal_bytes,
            BucketSizes.of(derived, self.options.limit), self._counters,
        )  # fmt: skip

    def snapshot(self) -> int:
        """Write the tables to a file, to start from; the change up to which they are complete."""
        self._require_writer()
        with self._using.reading():
            store, point = self._store, self._point
        path = store.path.with_name(folder.SNAPSHOT)
        with self._writing_snapshot:
            sequence = snapshot.write(path, point.derived, point.signing.options)
        if store is self._store:
            self._snapshot_sequence = sequence
        return sequence

    def compact(self) -> None:
        """Build the tables without removed documents, forget old changes, and give back space."""
        self.between_commits(self._compact)

    def _compact(self) -> None:
        self._point.derived.compact()
        self.snapshot()
        with self._store.transaction():
            self._store.forget_changes(self._snapshot_sequence)
        self._store.give_back()

    def export(self, file: str | Path, progress: Progress = SILENT) -> int:
        """Write all documents to one file, for `import_index`; how many there are."""
        return export_store(self._everything()[0], Path(file), progress)

    def verify(self) -> list[str]:
        """What is wrong with the stored documents or the tables; nothing, usually."""
        from neardup.index.checking import problems

        return problems(*self._everything())

    @steady
    def _everything(self) -> tuple[Store, Point]:
        return self._store, self._refreshed()

    # Generations

    def reindex(self, spec: Spec | None = None, *, key: bytes | Key | None = None,
                corpus: Iterable[tuple[str, str]] | None = None, keep_texts: bool | None = None,
                drop_missing: bool = False, progress: Progress = SILENT, **options: Any
                ) -> Reindexed:  # fmt: skip
        """Index all documents by another specification, while this one goes on; then go over to it.

        Texts are the stored ones, or those of `corpus`: (id, text) in any order. `options` are as
        in `open`; what is not given stays. Documents that have no text, or are rejected, are an
        error unless they may be left out.
        """
        from neardup.index import reindex

        return reindex.reindex(self, spec, key=key, corpus=corpus, keep_texts=keep_texts,
                               drop_missing=drop_missing, progress=progress,
                               **options)  # fmt: skip

    def undo_reindex(self, *, key: bytes | Key | None = None, drop_missing: bool = False,
                     progress: Progress = SILENT) -> Reindexed:  # fmt: skip
        """Go back to the generation before, with what has happened since."""
        from neardup.index import reindex

        return reindex.undo(self, key=key, drop_missing=drop_missing, progress=progress)

    def take_over(self, *, key: bytes | Key | None = None) -> bool:
        """Go over to a generation that another process has made; False if none waits.

        Takes no time if none does: to be called now and then. `key` is the new one, if it changes.
        """
        from neardup.index import going_over

        return going_over.take_over(self, key)

    def beside(self, generation: str, key: Key | None) -> Index:
        """Another generation of the same folder, to write there."""
        return Index.of_generation(self.path, generation, [key, self._key], **self._how)

    def between_commits(self, call: Callable[[], None]) -> None:
        """Have the thread that writes do something."""
        writer, work = self._require_writer(), Calling(call)
        writer.put(work)
        work.done.result()
        if writer is not self._writer:
            writer.close()

    def follow(self, other: Store) -> None:
        """Give larger numbers than another store has, to documents and to changes."""
        writer = self._require_writer()
        self.between_commits(lambda: writer.follow(other))

    def go_over(self, other: Index) -> None:
        """Be another generation from now on, in the thread that writes; `other` is used up.

        Who is being answered is answered from the old one. What waits to be written waits there.
        """
        if self._shadow is not None:
            self._shadow.close()
        with self._using.writing():
            self._former.append(self._store)
            former, self._writer = self._writer, other._writer
            self.settings, self._store, self._key = other.settings, other._store, other._key
            self._reading_point, self._cold = other._reading_point, other._cold
            self._snapshot_sequence = other._snapshot_sequence
            self._writing_snapshot = other._writing_snapshot
            self._sketching = Sketching.of(self.settings, self._key, self._counters)
            self._shadow = self._shadow_beside()
            other._closed = True
        if other._lock is not None:
            other._lock.release()
        if former is not None and self._writer is not None:
            self._writer.work_for(self._counters, self.snapshot)
            former.hand_over(self._writer)

    def _follow_generations(self) -> None:
        """Of a reader: has another process gone over to another generation?"""
        if self._writer is not None or folder.listed_at(self.path) == self._listed_at:
            return
        with self._exchanging:
            at, listed = folder.listed_at(self.path), folder.generations(self.path)
            if listed is None or self._closed:
                return
            if listed.current != self.generation:
                self.go_over(Index.of_generation(self.path, listed.current, [self._key],
                                                 read_only=True, **self._how))  # fmt: skip
            self._listed_at = at

    def close(self) -> None:
        """Finish what waits, write a snapshot if that is worth it, and let others write."""
        if self._closed:
            return
        self._closed = True
        if self._shadow is not None:
            self._shadow.close()
        if self._writer is not None and self._lock is not None:
            writer = self._writer
            writer.close()
            self._writer.close()  # Another one, if a generation came in between.
            try:
                if self.sequence - self._snapshot_sequence > max(FEW_CHANGES, len(self) // 20):
                    self.snapshot()
            except OutputError as error:  # all is stored; the next start takes longer
                self._say(str(error))
            finally:
                self._close_stores()
                self._lock.release()
        else:
            self._close_stores()

    def _close_stores(self) -> None:
        for store in (*self._former, self._store):
            store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Tables

    @property
    def _point(self) -> Point:
        return self._reading_point if self._writer is None else self._writer.point

    def _shadow_beside(self) -> Shadow | None:
        if self._writer is None:
            return None
        return Shadow(self, self._store, self._writer, self._cold)

    def _require_writer(self) -> Writer:
        if self._writer is None:
            raise UsageError(f"{self.path} was opened read-only: open it to write")
        return self._writer

    def _loaded(self) -> Point:
        """The tables of the operating point that is stored; another one may be while they load."""
        while True:
            self.settings = Settings.of_stored(self._store.meta(), str(self._store.path))
            point = self._tables()
            if self._store.meta()["point"] == self.settings.stored["point"]:
                return point

    def _tables(self) -> Point:
        """The tables from the snapshot and what came later; or made anew, if there is none."""
        options = self.settings.options
        signing = Signing(options)
        path = self._store.path.with_name(folder.SNAPSHOT)
        derived = None
        if path.exists():
            try:
                derived = snapshot.read(path, options, self._cold)
                self._snapshot_sequence = derived.sequence
            except FormatError as error:
                self._say(f"{error}; the tables are made anew")
        if derived is None or not snapshot.catch_up(derived, self._store, signing):
            self._snapshot_sequence = 0
            if self._lock is not None:  # what counts on tables on disk goes before them
                path.unlink(missing_ok=True)
                sync_folder(path.parent)
            derived = snapshot.rebuilt(self._store, signing, self._cold)
        return Point(Decider(options, self.settings.frequencies.weights), signing, derived)

    def _refreshed(self) -> Point:
        """The tables; of a reader, with what another process has written since."""
        if self._closed:
            raise UsageError(f"{self.path} is closed: open it again")
        if self._writer is not None:
            return self._writer.point
        with self._refreshing:
            point = self._reading_point
            if not snapshot.catch_up(point.derived, self._store, point.signing):
                self._reading_point = self._loaded()
            return self._reading_point


def _made(path: Path, options: Options | None, keep_texts: bool) -> folder.Generations:
    """A new index in an empty folder."""
    settings = Settings(options or Options(), keep_texts)
    path.mkdir(parents=True, exist_ok=True)
    lock = folder.Lock(path)
    try:
        listed = folder.generations(path)
        if listed is None:
            make_generation(path / "g1", settings)
            listed = folder.Generations("g1")
            folder.list_generations(path, listed)
        return listed
    finally:
        lock.release()


def make_generation(path: Path, settings: Settings) -> None:
    """The folder of a generation without documents."""
    path.mkdir(exist_ok=True, mode=0o700)
    Store.create(path / folder.STORE, settings.stored)
    sync_folder(path)


def _stored(generation: Path, read_only: bool) -> tuple[Store, Settings]:
    store = Store(generation / folder.STORE, read_only=read_only)
    return store, Settings.of_stored(store.meta(), str(store.path))


def _check_id(id: str) -> None:
    if not isinstance(id, str):
        raise ParameterError(f"an id is a text, not {type(id).__name__}")
    try:
        size = len(id.encode())
    except UnicodeEncodeError:
        raise ParameterError("an id must be valid Unicode: it has a lone surrogate") from None
    if not 0 < size <= LONGEST_ID or "\0" in id:
        raise ParameterError(
            f"an id has 1 to {LONGEST_ID:,} bytes of UTF-8 and no NUL, this one has {size:,}"
        )


def _json(metadata: dict[str, Any] | None) -> str | None:
    if metadata is None:
        return None
    try:
        return json.dumps(metadata, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        raise ParameterError("metadata must be what JSON can say: texts, numbers, lists, objects"
                             ) from None  # fmt: skip
