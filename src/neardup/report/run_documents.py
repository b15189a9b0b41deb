"""Find documents of a finished run: what its tables say about them, and their texts in its inputs.

Only documents that were kept and have no copies are in no table; their ids are looked for in the
inputs, which are read again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from neardup.corpus.documents import Documents
from neardup.corpus.inputs import InputFile
from neardup.errors import FormatError, InputError, UsageError
from neardup.explanation import KEPT, REJECTED, REMOVED, DecidedDocument
from neardup.pipeline.job import matches_preferred
from neardup.pipeline.output import RUN_FILE, is_run
from neardup.pipeline.run_inputs import FoundDocument, RunInputs, parse_indexes
from neardup.pipeline.run_progress import no_run_error
from neardup.report.index_documents import read_from_indexes
from neardup.runtime import Progress

MOST_IDS: Final = 1_000_000
"""Ids among which those near to an unknown one are looked for."""

TABLES: Final = ("removed", "rejected", "clusters", "vetoed", "decided")

Row = dict[str, Any]
Place = tuple[str, int]
"""A file, by its name, and a row."""


@dataclass(frozen=True)
class RunDocument:
    """A document of a run as its tables have it; its file is empty if no table has it.

    Attributes:
        id: Its id, or file:row.
        status: `kept`, `removed` or `rejected`.
        file, row: Where it is.
        witness: The id of its witness; of a vetoed document, of the one that it would have.
        witness_file, witness_row: Where that is.
        similarity: How similar the two are.
        exact: Whether that is exact.
        reason: Why it was rejected.
        copies: The number of documents that were removed because of it.
        vetoed: Whether it is kept only because of --distinguish or --unless.
        earlier: Whether it is of the earlier corpus of --against.
        decision: What people decided: of a removed document, what removed it.
        cosine: With two signals the cosine of the two, if it is known.
    """

    id: str
    status: str
    file: str = ""
    row: int = 0
    witness: str | None = None
    witness_file: str = ""
    witness_row: int = 0
    similarity: float | None = None
    exact: bool = True
    reason: str = ""
    copies: int = 0
    vetoed: bool = False
    earlier: bool = False
    decision: str | None = None
    cosine: float | None = None

    @property
    def place(self) -> Place:
        """Where it is."""
        return self.file, self.row

    @property
    def decided(self) -> DecidedDocument:
        """The decision about it."""
        witness = self.witness if self.status == REMOVED else None
        return DecidedDocument(self.id, self.status, witness, self.decision)


def read_run_record(run: Path) -> dict[str, Any]:
    """Return the content of run.json of a finished run."""
    if not is_run(run):
        raise no_run_error(run)
    record: dict[str, Any] = json.loads((run / RUN_FILE).read_bytes())
    return record


class RunDocuments:
    """The documents of a finished run.

    Args:
        run: The folder of the run.
        record: The content of its run.json.
        workers: Threads that read.
        progress: Told how far reading is.
    """

    def __init__(self, run: Path, record: dict[str, Any], workers: int, progress: Progress) -> None:
        self.run, self.workers, self.progress = run, workers, progress
        parameters = record["parameters"]
        self._merged = bool(parameters.get("merge_rows"))
        self._prefer = parameters.get("prefer")
        self._described = RunInputs.of(record)
        self._earlier = RunInputs.earlier_of(record)
        self.indexes = parse_indexes(record)
        unread = record.get("unread_files", {}).get("listed", [])
        self._unread = {one["file"]: f"not read: {one['reason']}" for one in unread}
        skipped = record.get("skipped_files", [])
        self._unread |= {one["file"]: f"skipped: {one['reason']}" for one in skipped}
        self._problem = ""

    @property
    def inputs(self) -> RunInputs | None:
        """The inputs; None if documents can't be read from them again."""
        return None if self._merged else self._described

    @property
    def corpora(self) -> list[RunInputs]:
        """The inputs, and then the files of the earlier corpus; none if they can't be read."""
        return [] if self.inputs is None else [self.inputs, *self._earlier]

    def position(self, found: FoundDocument) -> tuple[int, int, int]:
        """Return where a document is in the input: by class of rank, then by file, then by row."""
        kind, place = self._file_positions[found.earlier, found.file]
        return kind, place, found.row

    @cached_property
    def _file_positions(self) -> dict[tuple[bool, str], tuple[int, int]]:
        """The class of rank and the number of each file: earlier, preferred, others."""
        files = [(inputs.earlier, file) for inputs in self.corpora for file in inputs.files]
        positions = {
            (earlier, file.name): (
                0 if earlier else 2 - matches_preferred(file, self._prefer),
                place,
            )
            for place, (earlier, file) in enumerate(files)
        }
        return positions | {(True, name): (0, at) for at, name in enumerate(self.indexes)}

    @property
    def problem(self) -> str:
        """Why texts are not compared, after they could not be read."""
        why = self._problem or "they could not be found in the inputs"
        if self._described is None:
            why = "the run does not say how its inputs are read"
        elif self._merged:
            why = "a document is made of several rows (--merge-rows)"
        return f"texts are not compared: {why}"

    # -- what the tables have ---------------------------------------------------------------------

    def look_up(self, id: str) -> RunDocument | None:
        """Return the document that has this id, or is at this file:row; None if no table has it."""
        found = self._rows_of(id)
        if not found:
            return None
        places = sorted({(row["file"], row["row"]) for _, row in found})
        if len(places) > 1:
            # A document of an earlier day may have the id too: this run's own is meant.
            places = self._own(places) or places
            found = [(name, row) for name, row in found if (row["file"], row["row"]) in places]
        if len(places) > 1:
            raise _repeated(id, places)
        tables = dict(found)
        if "rejected" in tables:
            row = tables["rejected"]
            return RunDocument(row["id"], REJECTED, *places[0], reason=row["reason"])
        copies = tables["clusters"]["size"] - 1 if "clusters" in tables else 0
        kind = next((name for name in ("removed", "vetoed") if name in tables), None)
        said = tables["decided"]["decisions"] if "decided" in tables else None
        if kind is None:
            row = next(iter(tables.values()))
            is_earlier = row.get("outcome") == "earlier"
            return RunDocument(
                row["id"], KEPT, *places[0], copies=copies, earlier=is_earlier, decision=said
            )
        row = tables[kind]
        return RunDocument(
            row["id"],
            REMOVED if kind == "removed" else KEPT,
            *places[0],
            row["witness"],
            row["witness_file"] or "",
            row["witness_row"] or 0,
            row["similarity"],
            row["exact"],
            copies=copies,
            vetoed=kind == "vetoed",
            decision=row.get("decision") if kind == "removed" else said,
            cosine=row.get("cosine"),
        )

    def _own(self, places: Sequence[Place]) -> list[Place]:
        """Return those of the places that are in the inputs."""
        files = {file.name for file in self._described.files} if self._described else set()
        return [place for place in places if place[0] in files]

    def _rows_of(self, id: str) -> list[tuple[str, Row]]:
        """Return the rows of all tables about a document, each with the name of its table."""
        found = list(self._filter(pc.field("id") == id))
        file, _, row = id.rpartition(":")
        if found or not (file and row.isascii() and row.isdigit() and len(row) < 19):
            return found
        return list(self._filter((pc.field("file") == file) & (pc.field("row") == int(row))))

    def _filter(
        self, wanted: pc.Expression, names: Sequence[str] = TABLES
    ) -> Iterator[tuple[str, Row]]:
        for name in names:
            path = self.run / f"{name}.parquet"
            if not path.exists():
                continue
            try:
                with pa.OSFile(os.fsencode(path), "rb") as file:
                    table = pq.read_table(file, filters=wanted, use_threads=False)
            except (OSError, pa.ArrowException) as error:
                raise FormatError(
                    f"{path} is damaged ({type(error).__name__}): run neardup dedup again"
                ) from None
            yield from ((name, row) for row in table.to_pylist())

    def component(self, root: Place) -> list[tuple[str, Place]]:
        """Return the ids and places of a kept document and of those that were removed for it."""
        file, row = root
        cluster = (pc.field("file") == file) & (pc.field("row") == row)
        kept = [(one["id"], root) for name, one in self._filter(cluster) if name == "clusters"]
        of_root = (pc.field("witness_file") == file) & (pc.field("witness_row") == row)
        removed = self._filter(of_root, ("removed",))
        members = [*kept, *((one["id"], (one["file"], one["row"])) for _, one in removed)]
        return members

    # -- what the inputs have ---------------------------------------------------------------------

    def find(self, ids: Sequence[str]) -> list[tuple[RunDocument, FoundDocument | None]]:
        """Return the documents with these ids, each as it was read again, None if it can't be."""
        known = {id: self.look_up(id) for id in ids}
        places = [document.place for document in known.values() if document]
        unknown = [id for id, document in known.items() if document is None]
        if unknown:
            read = self._search(unknown, places)
        else:
            read = {(one.file, one.row): one for one in self.read(places)}
        found: list[tuple[RunDocument, FoundDocument | None]] = []
        for id in ids:
            document = known[id]
            if document is None:
                one = read[id]
                found.append((RunDocument(one.name, KEPT, earlier=one.earlier), one))
            else:
                there = read.get(document.place)
                # An index that was made anew may have another document there.
                found.append((document, there if there and there.name == document.id else None))
        return found

    def read(self, places: Sequence[Place]) -> list[FoundDocument]:
        """Return the documents at these places, as far as their files can be read."""
        found = self._read_stored(places)
        for inputs in self.corpora:
            wanted = set(places) - found.keys()
            files = inputs.named({file for file, _ in wanted})
            if not self._check(inputs, files):
                return []
            for batch, _ in inputs.read(files, _nothing, self.workers, self.progress):
                found |= {place: batch.document(at, name) for place, at, name in batch.at(wanted)}
                if len(found) == len(set(places)):
                    break
        return [found[place] for place in places if place in found]

    def _read_stored(self, places: Sequence[Place]) -> dict[Place, FoundDocument]:
        """Return those of the places that are documents of an index; `problem` says why not."""
        try:
            stored = read_from_indexes(self.indexes, places)
        except InputError as error:
            self._problem = str(error)
            return {}
        return {(one.file, one.row): one for one in stored}

    def _check(self, inputs: RunInputs, files: Sequence[InputFile]) -> bool:
        """Return whether files can be read again; `problem` says why not."""
        try:
            inputs.check(files)
        except InputError as error:
            self._problem = str(error)
            return False
        return True

    def check_all(self, inputs: RunInputs | None) -> bool:
        """Return whether all these inputs can be read again; `problem` says why not."""
        return inputs is not None and self._check(inputs, inputs.files)

    def _search(self, ids: Sequence[str], places: Sequence[Place]) -> dict[Any, FoundDocument]:
        """Return documents by their ids and places; raise UsageError if an id does not exist.

        The earlier corpus is read for what the inputs don't have.
        """
        if not self.check_all(self.inputs):
            raise self._explain_unread(ids[0]) or UsageError(
                f"no table of {self.run} has {ids[0]!r}: it was kept and has no copies, or does "
                f"not exist; {self.problem}"
            )
        found: dict[Any, FoundDocument] = {**self._read_stored(places)}
        names: list[str] = []
        for inputs in self.corpora:
            missing = {*ids, *places} - found.keys()
            if missing and self.check_all(inputs):
                found |= self._search_in(inputs, missing, names)
        for id in ids:
            if id not in found:
                raise self._explain_unread(id) or self._unknown(id, names)
        return found

    def _search_in(
        self, inputs: RunInputs, wanted: set[Any], names: list[str]
    ) -> dict[Any, FoundDocument]:
        """Return the wanted documents, by ids and places; the first ids are added to `names`."""
        found: dict[Any, FoundDocument] = {}
        for batch, _ in inputs.read(inputs.files, _nothing, self.workers, self.progress):
            own = batch.names()
            for at, name in enumerate(own):
                place = batch.place(at)
                for key in wanted & {name, "{}:{}".format(*place), place}:
                    if key in found:
                        first = found[key]
                        raise _repeated(key, [(first.file, first.row), place])
                    found[key] = batch.document(at, name)
            names += own[: MOST_IDS - len(names)]
        return found

    def _explain_unread(self, id: str) -> UsageError | None:
        """Return the error about a file that the run found and did not read; None for others."""
        for name, reason in self._unread.items():
            if id in (name, name.rstrip("/")) or name.rstrip("/").endswith(f"/{id}"):
                return UsageError(f"{name} is no document of {self.run}: it was {reason}")
        return None

    def _unknown(self, id: str, names: Sequence[str]) -> UsageError:
        """Return the error about an id that no document has; `names` are those that there are."""
        file, _, row = id.rpartition(":")
        files = [one.name for inputs in self.corpora for one in inputs.files]
        whole = [name for name in files if file and name.endswith(f"/{file}")]
        near = [f"{name}:{row}" for name in whole] if row.isdigit() else []
        near = near[:3] or get_close_matches(id, names, 3, 0.6)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "check the id"
        return UsageError(f"{self.run} has no document {id!r}: {hint}")


def _nothing(_: Documents) -> None:
    pass


def _repeated(id: str, places: Sequence[Place]) -> UsageError:
    shown = ", ".join(f"{file}:{row}" for file, row in places[:5])
    return UsageError(f"several documents have the id {id!r}: name one by file and row: {shown}")
