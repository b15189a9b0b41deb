"""`neardup.dedup` and `neardup.similarity`: the whole method, in memory.

    text -> shingles -> sketch -> bands -> candidates -> verified pairs -> clusters -> keep list

`Corpus` collects the sketches of the documents, whose texts are dropped; `Corpus.decide` finds the
candidates among them, verifies them and makes the keep list. `similarity` compares two texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeGuard, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from neardup import cluster, kernels
from neardup.cluster import DROPPED, KEPT, REJECTED, FullBucket, KeepList, Pairs
from neardup.corpus.documents import Columns, Documents, concat_keep, join_names
from neardup.corpus.embedding import embed_all
from neardup.corpus.frames import DocumentData, read_data, require_rereadable
from neardup.errors import ParameterError
from neardup.explanation import PairFacts, has_direction
from neardup.first_look import FirstDocuments
from neardup.formats.decisions import DecisionSource, load_decisions
from neardup.formats.spool import Spool
from neardup.keys import Key, to_key
from neardup.keyword_arguments import takes_options
from neardup.lsh.buckets import Buckets, group_by_key
from neardup.measure_table import CHOICES, MEASURES, Measure, MeasureName
from neardup.option_table import MatchingOptions, SegmenterName
from neardup.options import KeepPolicy, Options, parse_strip
from neardup.overrides import Overrides, number_names, obey_stars
from neardup.result import Result, list_ids
from neardup.sketch import bulk
from neardup.sketcher import (
    Integers,
    SketchedDocuments,
    Sketcher,
    append_vectors,
    pack_vectors,
)
from neardup.source_counts import RemovalLimits, SourceSummary, summarise_values
from neardup.spec import ProfileName, Spec, check_choice, join_masks
from neardup.text.arrays import Ragged
from neardup.text.frequencies import Frequencies, FrequencyCounts
from neardup.text.lines import IgnoredLines, LineCounts
from neardup.text.masks import prepare_texts
from neardup.text.segments import state_segmenter
from neardup.text.shingle import shingle_documents
from neardup.text.stems import state_stem
from neardup.vector_layout import columns_of_vectors, find_layout
from neardup.verify import Comparison, Exact

MATRIX = "matrix"
"""The name of vectors that are passed as a matrix, in other options."""
MAX_PAIRS = 10_000_000

Candidates = tuple[Integers, Integers, Buckets, Any]
"""The rank order, each document's best identical copy, the buckets, the verifier."""


class Corpus:
    """The sketches of all documents, in input order; the shingles are on disk, texts are dropped.

    Args:
        options: The options of the run.
        spool_folder: Where shingles are spooled; by default the folder for temporary files.
        frequencies: The document frequencies that weigh shingles, if `options.weights` is tf-idf.
    """

    def __init__(
        self,
        options: Options,
        spool_folder: str | None = None,
        frequencies: Frequencies | None = None,
    ) -> None:
        self.options = options
        self._frequencies = frequencies or Frequencies()
        self.rejected: dict[int, str] = {}
        self.size = self.undated = 0
        self._columns: dict[str, list[NDArray[Any]]] = {}
        self._spool = Spool(spool_folder)
        self._vectors = Spool(spool_folder)
        self._keep: list[pa.Array] = []
        self._grouped: Candidates | None = None
        self._undistinguished: KeepList | None = None
        self._joined: Candidates | None = None
        self._groups: dict[str, NDArray[np.uint64]] = {}
        self.overrides: Overrides | None = None
        """What people decided, which is obeyed if it is set before anything is decided."""

    def add(self, documents: Documents, sketch: SketchedDocuments) -> None:
        """Add the next batch of documents and their sketches."""
        self.rejected.update({self.size + row: why for row, why in documents.rejected.items()})
        for row in sketch.empty.tolist():
            self.rejected.setdefault(self.size + row, "empty")
        columns: dict[str, NDArray[Any]] = {
            "content": sketch.content,
            "keys": sketch.keys(self.options.hash_tables),
            "lengths": sketch.lengths,
        }
        if sketch.apart is not None:
            columns["apart"] = sketch.apart
        if sketch.distinct is not None:
            columns["distinct"] = sketch.distinct
        if sketch.vetoing is not None:
            columns["vetoing"] = sketch.vetoing
        if sketch.vectors is not None and not self.options.spec.of_vectors:
            packed = pack_vectors(sketch.vectors)
            self._vectors.append(packed.data, packed.offsets)
        if self.options.verify == "exact":
            self._spool.append(sketch.shingles.data, sketch.shingles.offsets)
        else:
            columns["signatures"] = bulk.pack_signatures(sketch.signatures, self.options.spec)
        for name, values in columns.items():
            self._columns.setdefault(name, []).append(values)
        if documents.keep is not None:
            self._keep.append(documents.keep)
        self.size += len(documents)

    def decide(self) -> KeepList:
        """Return the keep list of all documents that were added."""
        return self._decide(self._candidates())

    def undistinguished(self) -> KeepList | None:
        """Return what the keep list would be if nothing distinguished similar documents.

        None if nothing does.
        """
        self._candidates()
        return self._undistinguished

    def _decide(self, candidates: Candidates) -> KeepList:
        order, leader, buckets, verifier = candidates
        limit, overrides = self.options.limit, self.overrides
        kept = (
            cluster.keep_stars(buckets, verifier, limit)
            if self.options.cluster == "stars"
            else cluster.keep_components(buckets, verifier)
        )
        witness = np.full(self.size, REJECTED, np.int64)
        similarity = np.ones(self.size)
        exact = np.ones(self.size, bool)
        witness[order] = KEPT
        unique = order[leader[order] == order]
        shared = unique[buckets.documents]
        if overrides is not None:
            kept = obey_stars(kept, buckets, verifier, limit, overrides, shared)
            dropped = self._taking_part(overrides.dropped)
            witness[dropped], similarity[dropped], exact[dropped] = DROPPED, np.nan, False
        removed = np.flatnonzero(kept.witness >= 0)
        witness[shared[removed]] = shared[kept.witness[removed]]
        similarity[shared[removed]] = kept.similarity[removed]
        exact[shared[removed]] = verifier.exact
        cosine = None
        if self.options.has_two_signals:
            numbers = verifier.numbers(kept.witness[removed], removed)
            cosine = np.full(self.size, np.nan)
            similarity[shared[removed]], cosine[shared[removed]] = numbers.T
        # An identical copy is decided like the best-ranked of them.
        copies = order[leader[order] != order]
        best = leader[copies]
        witness[copies] = np.where(witness[best] >= 0, witness[best], best)
        similarity[copies] = similarity[best]
        exact[copies] = exact[best]
        if cosine is not None:
            cosine[copies] = cosine[best]
        decided = KeepList(
            witness,
            similarity,
            exact,
            len(copies),
            kept.compared,
            self._full_buckets(buckets, kept.turned_away, shared),
            self.undated,
            cosine=cosine,
        )
        keeps_none = self.options.keep_policy.keeps_none
        return cluster.remove_leaders(decided) if keeps_none else decided

    def pairs(self, most: int = MAX_PAIRS) -> Pairs:
        """Return all verified pairs that share a bucket, including pairs of identical documents.

        Args:
            most: The number of pairs after which the others are only counted.
        """
        order, leader, buckets, verifier = self._candidates()
        unique = order[leader[order] == order]
        shared = unique[buckets.documents]
        by_leader = order[np.argsort(leader[order], kind="stable")]
        ends = np.searchsorted(leader[by_leader], np.arange(self.size + 1))
        parts: list[tuple[Integers, Integers, NDArray[np.float64]]] = []
        total = listed = 0
        for u, v, similar in self._leader_pairs(buckets, verifier, unique, shared, ends):
            *part, count = kernels.spread_pairs(u, v, similar, by_leader, ends, 0, most - listed)
            parts.append((part[0], part[1], part[2]))
            total, listed = total + count, listed + len(part[0])
        a, b, similarity = (np.concatenate(column) for column in zip(*parts, strict=True))
        placed = np.lexsort((b, a))
        capped = int(np.count_nonzero(buckets.sizes > cluster.BUCKET_CAP))
        return Pairs(a[placed], b[placed], similarity[placed], total - listed, capped)

    def compare(self, a: int, b: int) -> PairFacts:
        """Return how two documents compare, neither of which is rejected.

        Similarities are known of documents that share a bucket with any other one.

        Args:
            a, b: Their rows.
        """
        candidates = self._candidates()
        order, leader, buckets, verifier = self._joined or candidates
        tables = self.options.hash_tables.count
        apart = tuple(self._kept_apart(a, b))
        if leader[a] == leader[b]:
            return PairFacts(tables, tables, 1.0, True, True, apart)
        unique = order[leader[order] == order]
        shared = unique[buckets.documents]
        # Candidates are in rank order: the better-ranked one is on the left.
        places = np.flatnonzero((shared == leader[a]) | (shared == leader[b]))
        if len(places) < 2:
            return PairFacts(0, tables, None, True, False, apart)
        left, right = buckets.numbers[places]
        similar = verifier.pairs(places[:1], places[1:], least=0.0)
        met = int(np.count_nonzero(((left == right) & (left >= 0))[:tables]))
        part = None
        if has_direction(self.options):
            part = int(leader[b] == shared[places[1]])
        likeness, cosine = max(float(similar[0]), 0.0), None
        if self.options.has_two_signals:
            ((likeness, cosine),) = verifier.numbers(places[:1], places[1:]).tolist()
            signal = self.options.vectors
            if signal is not None and not signal.finds and cosine < signal.threshold:
                apart = (*apart, self.options.veto)
        return PairFacts(met, tables, likeness, verifier.exact, False, apart, part, cosine)

    def _kept_apart(self, a: int, b: int) -> Iterator[str]:
        """Yield the options that keep two documents apart."""
        apart, distinct = self._groups.get("apart"), self._groups.get("distinct")
        if distinct is not None and distinct[a] != distinct[b]:
            yield self.options.veto
        if apart is not None:
            within = apart if distinct is None else apart ^ distinct
            if within[a] != within[b]:
                yield "--within"

    def _leader_pairs(
        self, buckets: Buckets, verifier: Any, unique: Integers, shared: Integers, ends: Integers
    ) -> Iterator[tuple[Integers, Integers, NDArray[np.float64]]]:
        """Yield the similar pairs of documents that are the best of their identical copies.

        The first batch has each document with copies, paired with itself.
        """
        copied = unique[ends[unique + 1] - ends[unique] > 1]
        yield copied, copied, np.ones(len(copied))
        for left, right in cluster.pair_candidates(buckets):
            similar = verifier.pairs(left, right)
            reached = similar >= 0.0
            yield shared[left[reached]], shared[right[reached]], similar[reached]

    def _candidates(self) -> Candidates:
        """Return the rank order, each document's best identical copy, the buckets, the verifier."""
        if self._grouped is None:
            order = self._ranked()
            content = self._column("content", 2, np.uint64)
            keys = self._column("keys", self.options.hash_tables.count, np.uint64)
            if "distinct" in self._columns:
                distinct = self._column("distinct", None, np.uint64)[:, None]
                self._joined = self._group(order, content ^ distinct, keys ^ distinct)
                self._undistinguished = self._decide(self._joined)
            if "vetoing" in self._columns:
                texts = content ^ self._column("vetoing", None, np.uint64)[:, None]
                unvetoed = self._group(order, texts, keys, self.options.unvetoed)
                self._undistinguished = self._decide(unvetoed)
            self._groups = {
                name: self._column(name, None, np.uint64)
                for name in ("apart", "distinct")
                if name in self._columns
            }
            self._grouped = self._group(order, content, keys)
            # Free the sketches: only the buckets and the verifier are needed from now on.
            self._columns.clear()
            self._spool.close()
            self._vectors.close()
        return self._grouped

    def _group(
        self,
        order: Integers,
        content: NDArray[np.uint64],
        keys: NDArray[np.uint64],
        options: Options | None = None,
    ) -> Candidates:
        alone = None
        if (overrides := self.overrides) is not None:
            alone = overrides.documents
            if overrides.classes:
                keys = np.column_stack([keys, overrides.band_keys(self.size)])
        leader = cluster.find_identical(content, order, alone)
        unique = order[leader[order] == order]
        buckets = group_by_key(keys, unique)
        verifier = self._verifier(unique[buckets.documents], options or self.options)
        return order, leader, buckets, verifier

    def _ranked(self) -> Integers:
        """Return the documents that are not rejected, best rank first, ties in input order."""
        policy = self.options.keep_policy
        takes_part = np.ones(self.size, bool)
        takes_part[list(self.rejected)] = False
        values = concat_keep(self._keep) if policy.column else None
        if policy.dates and values is not None:
            self.undated = count_undated(values, takes_part)
        order = order_by_policy(
            policy, self.size, lambda: self._column("lengths", None, np.int64), values
        )
        if self.overrides is None:
            return order[takes_part[order]]
        takes_part[self.overrides.dropped] = False
        order = order[takes_part[order]]
        first = np.isin(order, self.overrides.preferred)
        return np.concatenate([order[first], order[~first]])

    def _taking_part(self, documents: Integers) -> Integers:
        """Return those of some documents that are not rejected."""
        return np.array([row for row in documents.tolist() if row not in self.rejected], np.int64)

    def _verifier(self, shared: Integers, options: Options) -> Comparison:
        """Return the comparison of the documents that share a bucket."""
        spec = options.spec
        if spec.of_vectors:
            return options.comparison(*self._spool.rows(shared), None)
        if options.verify == "exact":
            rows, offsets = self._spool.sorted_sets(shared)
            if not spec.of_bags:
                offsets = kernels.unique_sorted(rows, offsets)
            if options.vectors is not None:
                both = append_vectors(Ragged(rows, offsets), Ragged(*self._vectors.rows(shared)))
                rows, offsets = both.data, both.offsets
            return options.comparison(rows[: offsets[-1]], offsets, self._frequencies.weights)
        rows = self._column("signatures", *bulk.packed_shape(spec))[shared]
        return options.estimated(rows)

    def _full_buckets(
        self, buckets: Buckets, turned_away: Integers, shared: Integers
    ) -> list[FullBucket]:
        full = np.flatnonzero(turned_away[: len(buckets.sizes)])
        full = full[buckets.band_of[full] < self.options.hash_tables.count]
        if not full.size:
            return []
        members, starts = buckets.members()
        return [
            FullBucket(
                int(buckets.band_of[g]),
                int(buckets.key_of[g]),
                int(buckets.sizes[g]),
                int(turned_away[g]),
                int(shared[members[starts[g]]]),
            )
            for g in full.tolist()
        ]

    def _column(self, name: str, width: int | None, dtype: type) -> NDArray[Any]:
        parts = self._columns.get(name)
        return np.concatenate(parts) if parts else np.empty((0, width) if width else 0, dtype)


def order_by_policy(
    policy: KeepPolicy, count: int, lengths: Callable[[], Integers], values: pa.Array | None
) -> Integers:
    """Return the documents in the order of a keep policy, best first, ties in input order.

    Args:
        policy: The policy.
        count: The number of documents.
        lengths: Returns the length of each document; called if the policy asks for it.
        values: The value of each document in the column of the policy, if it has one.
    """
    match policy.name:
        case "first" | "none":
            return np.arange(count)
        case "last":
            return np.arange(count - 1, -1, -1)
        case "longest":
            return np.argsort(-lengths(), kind="stable")
    assert values is not None  # noqa: S101  # all other policies have a column
    return by_value(values, policy.order)


def by_value(values: pa.Array, direction: str) -> Integers:
    """Return the rows sorted by their values, ties in input order; null and NaN come last."""
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    order = pc.array_sort_indices(values, order=direction, null_placement="at_end")
    return order.to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def count_undated(values: pa.Array, takes_part: NDArray[np.bool_]) -> int:
    """Return how many of the documents that take part have no date among these values."""
    missing: NDArray[np.bool_] = values.is_null().to_numpy(zero_copy_only=False)
    return int(np.count_nonzero(missing & takes_part))


def find_ignored_lines(
    read: Callable[[], Iterable[Documents]], options: Options, key: Key | None = None
) -> IgnoredLines:
    """Return the frequent lines to ignore, none unless `options.strip` has a share of lines.

    Args:
        read: Reads all documents from the beginning; called twice.
        options: The options of the run.
        key: The secret key of hash siphash.
    """
    if options.strip.lines is None:
        return IgnoredLines()
    counts = LineCounts(options.spec, key=key)
    for documents in read():
        counts.add(documents.texts)
    frequent = counts.above(options.strip.lines)
    for documents in read():
        frequent.add(documents.texts)
    return frequent.freeze()


def find_frequencies(
    read: Callable[[], Iterable[Documents]],
    options: Options,
    ignored: IgnoredLines,
    key: Key | None = None,
) -> Frequencies:
    """Return the document frequencies of shingles, none unless `options.weights` is tf-idf.

    Args:
        read: Reads all documents from the beginning; called once.
        options: The options of the run.
        ignored: The lines that are not compared.
        key: The secret key of hash siphash.
    """
    if options.weights != "tf-idf":
        return Frequencies()
    counts, sketcher = FrequencyCounts(), Sketcher(options.spec, ignored, key)
    for documents in read():
        counts.add(sketcher.cut(documents).shingles)
    return counts.freeze()


def is_matrix(data: object) -> TypeGuard[NDArray[Any]]:
    """Return whether data is a NumPy array of rows and columns."""
    return isinstance(data, np.ndarray) and data.ndim == 2


def check_matrix(matrix: NDArray[Any], options: Options) -> None:
    """Raise `ParameterError` unless a matrix can be the vectors of documents.

    Args:
        matrix: The matrix.
        options: The options of the run, which must use it.
    """
    if options.vectors is None or options.vectors.column != MATRIX:
        raise ParameterError(
            f"matrix has the vectors of the documents: pass cosine=T, also='{MATRIX}:T' or "
            f"unless='{MATRIX}:T' with it, and no other column of vectors"
        )
    if not is_matrix(matrix) or matrix.dtype.kind not in "fiu":
        raise ParameterError(
            "matrix must be a NumPy array of numbers with a row for each document: convert it with "
            "numpy.asarray"
        )


@takes_options("neardup.dedup")
def dedup(
    data: DocumentData,
    *,
    text: str | Sequence[str] = "text",
    id: str | None = None,
    within: str | None = None,
    source: str | None = None,
    max_removed: float | None = None,
    max_removed_per_source: float | None = None,
    yes: bool = False,
    decisions: DecisionSource | None = None,
    same_ids: bool = False,
    matrix: NDArray[Any] | None = None,
    key: bytes | Key | None = None,
    **options: Unpack[MatchingOptions],
) -> Result:
    """Find the near-duplicates in a list of texts or in a table, and decide which copies to keep.

    Args:
        data: A list of strings, of dicts or of lists of token ids; or a table: pandas, Polars,
            PyArrow, Hugging Face, anything with the Arrow stream interface; or, with `cosine`, a
            NumPy matrix, of which each row is a vector.
        text: The column of the table that contains the documents; a field inside of one
            (`"doc.text"`), or several (`["title", "body"]`), joined by a blank line.
        id: The column that names them; by default `id` if there is one, else their positions.
        within: Compare only documents with the same value in this column; by default all.
        source: The column by whose values the removed documents are counted: `result.sources`.
        max_removed: The largest share of the documents that may be removed; more raise
            `TooManyRemoved`.
        max_removed_per_source: The same, for the documents of each source that has 100 or more.
        yes: Remove more than the two allow.
        decisions: What people decided about documents and pairs, which goes before the comparison:
            a file that `neardup review` has exported, or `neardup.decisions.Decision` objects.
        same_ids: Obey decisions that were made about other documents: each id names the same one.
        matrix: The vectors of the documents if they are not in a column, a row for each: with
            `cosine`, `also="matrix:T"` or `unless="matrix:T"`.
        key: The secret key of hash siphash: 16 bytes, or 32 hexadecimal digits.
        **options: The matching options, which determine what counts as similar and which copy is
            kept; see docs/command-line.md.

    Returns:
        The kept, removed and rejected documents, each with its reason.

    >>> result = dedup(["the cat sat on the mat today", "The cat sat on the mat, today!", "hi"])
    >>> result.kept
    [0, 2]
    >>> result.removed
    [Removed(id=1, witness=0, similarity=1.0, exact=True, cluster=0)]
    """
    secret = to_key(key)
    if options.get("cosine") is not None and options.get("embed") is None:
        if matrix is not None:
            options.setdefault("vectors", MATRIX)
        elif is_matrix(data):
            options.setdefault("vectors", "vectors")  # a matrix has no other columns
    chosen = Options.of(key=secret, **options)
    if matrix is not None:
        check_matrix(matrix, chosen)
    elif chosen.vectors is None and chosen.spec.unit != "token" and is_matrix(data):
        raise ParameterError(
            "data is a matrix, of vectors: pass cosine=0.95, the least cosine of similar ones, or "
            "the texts as data and this as matrix= with also='matrix:0.95'"
        )
    said = load_decisions(decisions, chosen.cluster, chosen.keep)
    if said is not None and not same_ids:
        said.check_documents("decisions", None)
    columns = Columns(
        text=join_names(text),
        id=id,
        keep=chosen.keep_policy.column,
        dates=chosen.keep_policy.dates,
        within=within,
        tokens=chosen.spec.unit == "token",
        distinguish=chosen.distinguish.columns,
        numbers=chosen.distinguish.numbers,
        source=source,
    )
    limits = RemovalLimits(max_removed, max_removed_per_source, yes)
    if max_removed_per_source is not None and source is None:
        raise ParameterError("max_removed_per_source needs the column of the sources: pass source=")
    columns = columns_of_vectors(chosen, columns)
    counts_texts = chosen.strip.lines is not None or chosen.weights == "tf-idf"
    if counts_texts or chosen.vectors is not None:
        require_rereadable(data)
    rows = matrix
    if chosen.vectors is not None and chosen.vectors.embed is not None:
        if columns.tokens:
            raise ParameterError("embed needs texts, not token ids: pass the vectors as matrix=")
        rows = embed_all(chosen.vectors.embed, read_data(data, columns))

    def read(at: Columns) -> Iterator[Documents]:
        return read_data(data, at, rows)

    ignored = find_ignored_lines(lambda: read(columns), chosen, secret)
    chosen = chosen.ignoring(ignored.digest)
    frequencies = find_frequencies(lambda: read(columns), chosen, ignored, secret)
    chosen = chosen.weighing(frequencies.stated)
    chosen, columns, centre = find_layout(read, chosen, columns)
    sketcher = Sketcher(
        chosen.spec,
        ignored,
        secret,
        frequencies,
        numbers=columns.numbers,
        centre=centre,
        vetoes=chosen.vetoes_by_vectors,
    )
    corpus = Corpus(chosen, frequencies=frequencies)
    ids: list[pa.Array | list[Any]] = []
    sources: list[pa.Array] = []
    first = FirstDocuments(chosen.spec)
    for documents in read(columns):
        corpus.add(documents, sketcher(documents))
        ids.append(documents.ids)
        sources.append(documents.sources)
        first.add(documents.texts)
    if said is not None:
        names = map(str, list_ids(ids))
        corpus.overrides = Overrides.of(said, number_names(said.names, names))
    decided = corpus.decide()
    counted = _count_sources(source, sources, decided, limits)
    return Result(
        chosen,
        decided,
        corpus.rejected,
        ids,
        corpus.pairs,
        ignored,
        columns,
        corpus.compare,
        corpus.undistinguished(),
        first.look(),
        corpus.overrides,
        None if source is None else counted,
    )


def _count_sources(
    column: str | None, sources: list[pa.Array], decided: KeepList, limits: RemovalLimits
) -> SourceSummary:
    """Return what became of the documents of each source; all are one without a column.

    Raises `TooManyRemoved` if the limits allow less.
    """
    values = None
    if column is not None:
        values = pa.concat_arrays(sources or [pa.nulls(0, pa.large_string())])
    counted = summarise_values(column, values, decided.kept, decided.removed, limits)
    counted.check(limits)
    return counted


def similarity(
    a: str,
    b: str,
    *,
    shingle: str = "word:5",
    text_profile: ProfileName = "standard",
    strip: str | None = None,
    mask: str | Iterable[str] | None = None,
    stem: str | None = None,
    segment: SegmenterName | None = None,
    measure: MeasureName = "jaccard",
) -> float:
    """Return the exact similarity of two texts, from 0 to 1: 1 if they have the same shingles.

    Args:
        a, b: The texts.
        shingle: What is compared, and how long: `word:5`, `char:8`, `line:1`.
        text_profile: How texts are normalised: `conservative`, `standard`, `plain`, `aggressive` or
            `look-alikes`.
        strip: What is removed before, `html`; None for nothing.
        mask: What is replaced by placeholders: `numbers`, `dates`, `urls`, `emails`; several with
            commas, or a list; None for nothing.
        stem: The language by whose stems words are compared, such as `english`; None for none.
        segment: `icu` if ICU cuts words in scripts without spaces; None if each character is one.
        measure: `jaccard`, the shingles in both texts as a share of those in either; or
            `containment`, the share of the shingles of a that are in b.

    >>> similarity("the cat sat", "the cat lay", shingle="word:2")
    0.3333333333333333
    >>> similarity("the cat sat", "and the cat sat down", shingle="word:2", measure="containment")
    1.0
    """
    check_choice("measure", measure, CHOICES)
    if not isinstance(a, str) or not isinstance(b, str):
        raise ParameterError("similarity compares two strings")
    stripped = parse_strip(strip)
    spec = Spec.of(
        shingle,
        profile=text_profile,
        strip=stripped.markup,
        mask=join_masks(mask or ()),
        stem=state_stem(stem or ""),
        segment=state_segmenter(segment or ""),
    )
    if spec.unit == "token":
        raise ParameterError("similarity compares texts: choose word, char or line shingles")
    if stripped.lines is not None:
        raise ParameterError("two texts have no frequent lines: strip html, or nothing")
    texts = pa.array([a, b], pa.large_string())
    return float(compare_texts(texts, spec, MEASURES[measure])[0])


def compare_texts(
    texts: pa.Array, spec: Spec, measure: Measure, key: Key | None = None
) -> NDArray[np.float64]:
    """Return the exact similarity of each text of the first half and its twin in the second half.

    Args:
        texts: An even number of texts, as a large_string column without nulls.
        spec: The specification of the shingles.
        measure: The measure of sets of shingles.
        key: The secret key of hash siphash.
    """
    cut = shingle_documents(prepare_texts(texts, spec), spec, key).shingles
    rows = cut.data.copy()
    for start, end in pairwise(cut.offsets.tolist()):
        rows[start:end].sort()
    offsets = kernels.unique_sorted(rows, cut.offsets)
    # A directed measure is the share of the right set that is in the left one.
    right = np.arange(len(texts) // 2)
    left = right + len(right)
    empty = np.diff(offsets) == 0
    similar: NDArray[np.float64] = np.equal(empty[left], empty[right]).astype(np.float64)
    both = ~(empty[left] | empty[right])
    if both.any():
        sets = Exact(rows[: offsets[-1]], offsets, 0.0, measure)
        similar[both] = sets.pairs(left[both], right[both])
    return similar
