"""The systems that can be evaluated besides an operating point: a finished run, a service.

Documents are the golden ids by their number.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote, urlsplit

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.corpus import columnar
from neardup.corpus.columns import blank_invalid_utf8
from neardup.corpus.inputs import InputFile, find_inputs
from neardup.corpus.streams import name_read_errors
from neardup.errors import Busy, FormatError, InputError, UsageError
from neardup.evaluation.golden import SHOWN, Flaw, LabelledPairs, printable_id
from neardup.formats.tables import ROW, TEXT
from neardup.options import parse_distinguish
from neardup.pipeline.output import RUN_FILE, is_run
from neardup.pipeline.run_progress import no_run_error
from neardup.runtime import SILENT, Progress
from neardup.spec import VECTOR
from neardup.vector_signal import VectorSignal

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

PARAMETERS: Final = (
    "threshold",
    "tables",
    "hamming",
    "blocks",
    "verify",
    "measure",
    "strip",
    "weights",
    "distinguish",
)
"""The parameters that matter besides the specification and vectors."""


def same_cluster(cluster: Integers, a: Integers, b: Integers) -> Flags:
    """Return which pairs are in one cluster; -1 marks documents without a cluster."""
    same: Flags = (cluster[a] == cluster[b]) & (cluster[a] >= 0)
    return same


def with_singletons(cluster: Integers) -> Integers:
    """Return the clusters, in which each document without one gets a cluster of its own."""
    alone = cluster.max(initial=0) + 1 + np.arange(len(cluster))
    return np.where(cluster >= 0, cluster, alone)


class EvaluatedSystem(Protocol):
    """A system under evaluation, which judges golden documents by their numbers."""

    @property
    def described(self) -> str:
        """The method in words."""

    @property
    def stated(self) -> dict[str, Any]:
        """The operating point, as evaluation.json has it: spec, fingerprint, parameters."""

    def duplicates(self, a: Integers, b: Integers) -> Flags:
        """Return which pairs are duplicates."""

    def clusters(self) -> Integers:
        """Return the cluster of each golden document, as a number."""


BATCH: Final = 1 << 20
SHOWN_FILES: Final = 2


@dataclass(frozen=True)
class RunSystem:
    """A finished run: documents of one cluster are duplicates, and those in pairs.parquet.

    path      the folder of the run
    record    the content of its run.json
    cluster   the cluster of each golden id; -1 if no table has it: kept alone, or unknown
    pairs     codes a * ids + b of the golden pairs in pairs.parquet, ascending
    repeated  ids that several documents of the run have, as far as the tables have them
    of_pairs  whether all pairs are known: the run wrote them, or looked for exact copies only
    named     the first id in a cluster of the run; None if it has none
    """

    path: Path
    record: dict[str, Any]
    cluster: Integers
    pairs: Integers
    repeated: Flaw
    of_pairs: bool
    named: str | None = None

    @classmethod
    def of(cls, run: Path, ids: Sequence[str]) -> RunSystem:
        """Read the golden documents of a finished run."""
        if not is_run(run):
            raise no_run_error(run)
        record = json.loads((run / RUN_FILE).read_bytes())
        if not isinstance(record.get("parameters"), dict):
            raise FormatError(f"{run / RUN_FILE} names no parameters: run neardup dedup again")
        number = {id: place for place, id in enumerate(ids)}
        cluster = np.full(len(ids), -1, np.int64)
        repeated: dict[str, None] = {}
        keeps_none = record["parameters"].get("keep") == "none"  # such a run lists some twice
        named: str | None = None
        for name in ("removed", "clusters"):
            for id, id_cluster in _rows(run / f"{name}.parquet", ("id", "cluster")):
                named = named or id
                if id is None or id_cluster is None or id not in number:
                    continue
                if cluster[number[id]] == id_cluster and keeps_none and name == "clusters":
                    continue
                if cluster[number[id]] >= 0:
                    repeated[id] = None
                else:
                    cluster[number[id]] = id_cluster
        codes = []
        has_pairs = (run / "pairs.parquet").exists()
        if has_pairs:
            for x, y in _rows(run / "pairs.parquet", ("a", "b")):
                if x in number and y in number:
                    low, high = sorted((number[x], number[y]))
                    codes.append(low * len(ids) + high)
        flaw = Flaw.of([[id] for id in repeated])
        return cls(
            run,
            record,
            cluster,
            np.unique(np.array(codes, np.int64)),
            flaw,
            has_pairs or _is_of_copies(record),
            named,
        )

    def require_of(self, files: Sequence[InputFile] | None) -> None:
        """Raise an error unless some file has the size of an input of the run.

        Files are compared by size, because hashing large ones takes time. None is a list or table,
        which is not checked.
        """
        if self.merged:
            raise UsageError(
                "the run has merged rows, and texts are looked at row by row: leave out the corpus"
            )
        inputs = self.record.get("inputs")
        if files is None or not inputs:
            return
        if not {file.path.stat().st_size for file in files} & {one["size"] for one in inputs}:
            raise UsageError(
                f"the corpus ({_first(file.name for file in files)}) is not what {self.path} is a "
                f"run of ({_first(str(one['file']) for one in inputs)}): no file has the size of "
                "an input of the run: give its inputs as --corpus, or another --run"
            )

    def require_own_vectors(self) -> None:
        """Raise an error if a function made the vectors: a finished run must not have it called."""
        if self.vectors is not None and self.vectors.embed is not None:
            raise UsageError(
                f"the vectors of this run were made by {self.vectors.embed}, which a folder must "
                "not have called: leave out the corpus, or give its options instead of the run"
            )

    @property
    def described(self) -> str:
        """The method in words."""
        by_pairs = "" if (self.of_copies or not self.of_pairs) else ", or in pairs.parquet,"
        return f"a finished run: documents of one cluster{by_pairs} are duplicates"

    @property
    def stated(self) -> dict[str, Any]:
        """The operating point as evaluation.json has it."""
        parameters = self.record["parameters"]
        return {
            "spec": self.record["spec"],
            "fingerprint": self.record["fingerprint"],
            "parameters": {name: parameters.get(name) for name in PARAMETERS}
            | ({} if self.vectors is None else self.vectors.stated),
        }

    @property
    def vectors(self) -> VectorSignal | None:
        """How the run compared vectors; None if it did not."""
        return VectorSignal.of_stated(self.record["parameters"])

    @property
    def of_copies(self) -> bool:
        """Whether the run looked for exact copies only, without threshold and buckets."""
        return _is_of_copies(self.record)

    @property
    def merged(self) -> bool:
        """Whether rows were merged, so that a document is not a row."""
        return bool(self.record["parameters"].get("merge_rows"))

    @property
    def operating_point(self) -> dict[str, Any]:
        """The keyword arguments of `neardup.dedup`; empty for a run that looked for exact copies.

        A keyed hash is left out: similarities don't depend on it. So are columns that distinguish
        documents, which are not read.
        """
        spec, parameters = self.record["spec"], self.record["parameters"]
        distinguish = parse_distinguish(parameters.get("distinguish") or None)
        if self.of_copies:
            return {}
        if not {"unit", "size", "profile", "sketch"} <= set(spec):
            raise FormatError(f"{RUN_FILE} names no specification: run neardup dedup again")
        vectors = {} if self.vectors is None else self.vectors.given
        if spec["unit"] == VECTOR:
            return {"seed": spec["seed"], **vectors}
        named = {name: spec.get(name) for name in ("sketch", "family", "slots", "bits", "seed")}
        named |= {name: parameters.get(name) for name in ("tables", "measure", "hamming", "blocks")}
        named |= {
            "shingle": f"{spec['unit']}:{spec['size']}",
            "text_profile": spec["profile"],
            "verify": parameters.get("verify"),
            "strip": parameters.get("strip") or None,
            "mask": spec.get("mask"),
            "segment": spec.get("segment", "").partition(":")[0] or None,
            "stem": spec.get("stem", "").partition(":")[0] or None,
            "weights": parameters.get("weights"),
            "distinguish": "numbers" if distinguish.numbers else None,
        }
        if spec["sketch"] != "simhash":
            named["threshold"] = parameters.get("threshold")
        return {name: value for name, value in named.items() if value is not None} | vectors

    @property
    def unnamed(self) -> Integers:
        """The golden documents without a cluster."""
        return np.flatnonzero(self.cluster < 0)

    def duplicates(self, a: Integers, b: Integers) -> Flags:
        code = np.minimum(a, b) * len(self.cluster) + np.maximum(a, b)
        return same_cluster(self.cluster, a, b) | np.isin(code, self.pairs)

    def clusters(self) -> Integers:
        return with_singletons(self.cluster)


def _is_of_copies(record: dict[str, Any]) -> bool:
    return "by" in record["spec"]


def _first(names: Iterable[str]) -> str:
    """Return the first names, with an ellipsis if there are more."""
    listed = list(names)
    return ", ".join(listed[:SHOWN_FILES]) + (", ..." if len(listed) > SHOWN_FILES else "")


def _rows(path: Path, columns: tuple[str, str]) -> Iterator[tuple[Any, Any]]:
    """Yield two columns of a table of a run; ids are strings."""
    if not path.exists():
        raise FormatError(f"{path} is missing: run neardup dedup again")
    (file,) = find_inputs([path])

    def choose(schema: pa.Schema) -> list[str]:
        if not set(columns) <= set(schema.names):
            raise FormatError(f"{path} is not of a run: run neardup dedup again")
        return list(columns)

    with name_read_errors(file, "run neardup dedup again"):
        for batch in columnar.read_batches(file, BATCH, choose):
            left, right = (_values(batch.column(name), path) for name in columns)
            yield from zip(left, right, strict=True)


def _values(column: pa.Array, path: Path) -> list[Any]:
    """Return a column of strings or row numbers; raise an error for any other type."""
    if column.type not in (TEXT, ROW):
        raise FormatError(f"{path} is not of a run: run neardup dedup again")
    values: list[Any] = (
        blank_invalid_utf8(column)[0] if column.type == TEXT else column
    ).to_pylist()
    return values


NOT_ALL_PAIRS: Final = (
    "an index stores the kept document of each copy, not all similar pairs: similar documents "
    "of different clusters count as missed"
)


@dataclass(frozen=True)
class IndexedDocuments:
    """Golden documents in an index.

    where     the index, in words
    stated    its operating point, as evaluation.json has it
    cluster   the cluster of each golden id; -1 if the index does not have it
    """

    where: str
    stated: dict[str, Any]
    cluster: Integers

    @classmethod
    def of(
        cls, where: str, stated: dict[str, Any], clusters: Sequence[int | None]
    ) -> IndexedDocuments:
        """Make it of the clusters of the golden ids; None for a missing document."""
        return cls(where, stated, np.array([-1 if c is None else c for c in clusters], np.int64))

    @property
    def described(self) -> str:
        """The method in words."""
        return f"{self.where}: documents of one cluster are duplicates"

    def select(self, labelled: LabelledPairs) -> LabelledPairs:
        """Return the pairs whose documents are both in the index."""
        used = labelled.without("unknown ids", np.flatnonzero(self.cluster < 0))
        if not len(used):
            ids = " and ".join(map(printable_id, labelled.ids[:SHOWN]))
            raise InputError(
                f"no labelled pair is left: {self.where} does not hold both documents of any, and "
                f"the golden set has ids as {ids}: add them, or give ids of documents that it holds"
            )
        return used

    def duplicates(self, a: Integers, b: Integers) -> Flags:
        return same_cluster(self.cluster, a, b)

    def clusters(self) -> Integers:
        return with_singletons(self.cluster)


TIMEOUT: Final = 30.0
LARGEST: Final = 1 << 20
OK, NOT_FOUND, LATER, NOT_ALLOWED = 200, 404, (429, 503), (401, 403)
POINT: Final = (("spec", dict), ("fingerprint", str), ("parameters", dict))
TRIES: Final = 20
LONGEST_WAIT: Final = 30.0


class ServiceClient:
    """Reads the clusters of documents from a running service. Nothing is added to its index.

    One connection stays open, for one thread; a request that is answered 429 or 503 is sent again
    later. An API key needs the scope `read`.
    """

    def __init__(
        self, url: str, api_key: str | None = None, wait: Callable[[float], None] = time.sleep
    ) -> None:
        self._url, self._wait = url, wait
        self._connection, self._base = _connection(url)
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def look_up(self, ids: Sequence[str], progress: Progress = SILENT) -> IndexedDocuments:
        """Return the clusters of the documents with these ids, and the operating point."""
        stats = self._get("/v1/stats")
        if stats is None or not all(isinstance(stats.get(name), kind) for name, kind in POINT):
            raise self._foreign("says nothing of its operating point")
        progress.stage("asking", len(ids), "documents")
        clusters = []
        for id in ids:
            clusters.append(self._cluster(id))
            progress.advance(1)
        self._connection.close()
        stated = {
            "spec": stats["spec"],
            "fingerprint": stats["fingerprint"],
            "parameters": {name: stats["parameters"].get(name) for name in PARAMETERS},
        }
        return IndexedDocuments.of("a running service", stated, clusters)

    def _cluster(self, id: str) -> int | None:
        """Return the cluster of a document; None if the index does not have it."""
        document = self._get(f"/v1/documents/{quote(id, safe='')}")
        if document is None:
            return None
        if not isinstance(document.get("cluster"), int):
            raise self._foreign("names no cluster of a document")
        return int(document["cluster"])

    def _get(self, path: str) -> dict[str, Any] | None:
        """Return the object at a path; None if the service answers 404."""
        for _ in range(TRIES):
            status, later, body = self._request(self._base + path)
            if status not in LATER:
                break
            self._wait(min(later, LONGEST_WAIT))
        if status == NOT_FOUND:
            return None
        if status in LATER:
            raise Busy(f"{self._url} has had no room {TRIES} times: try again later")
        if status in NOT_ALLOWED:
            raise UsageError(
                f"{self._url} asks for an API key: give one that may read with --api-key-file"
            )
        if status != OK:
            raise self._foreign(f"answers {status}")
        return self._parsed(body)

    def _request(self, path: str) -> tuple[int, float, bytes]:
        """Return status, seconds of Retry-After, and body. Reopen a closed connection."""
        try:
            try:
                answer = self._send(path)
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                self._connection.close()
                answer = self._send(path)
            body = answer.read(LARGEST + 1)
            return answer.status, _seconds(answer.headers.get("Retry-After")), body
        except (OSError, UnicodeError, http.client.HTTPException) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise InputError(
                f"{self._url} can't be reached ({why}): is neardup serve running there?"
            ) from None

    def _send(self, path: str) -> http.client.HTTPResponse:
        self._connection.request("GET", path, headers=self._headers)
        return self._connection.getresponse()

    def _parsed(self, body: bytes) -> dict[str, Any]:
        try:
            parsed = json.loads(body) if len(body) <= LARGEST else None
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise self._foreign("answers something else than an object")
        return parsed

    def _foreign(self, what: str) -> FormatError:
        """Return the error for an address that is not a neardup service."""
        return FormatError(f"{self._url} {what}: give the address of a neardup service")


def _connection(url: str) -> tuple[http.client.HTTPConnection, str]:
    """Return a connection, not open yet, and the path that precedes all paths."""
    kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
    try:
        parts = urlsplit(url)
        if parts.hostname and parts.scheme in kinds:
            open_later = kinds[parts.scheme](parts.hostname, parts.port, timeout=TIMEOUT)
            return open_later, parts.path.rstrip("/")
    except (ValueError, http.client.InvalidURL):
        pass
    raise UsageError(f"{url!r} is not the address of a service: write it as http://127.0.0.1:8080")


def _seconds(header: str | None) -> float:
    """Return the seconds of a Retry-After header; 1 for a date or none."""
    return float(header) if header and header.isascii() and header.isdigit() else 1.0
