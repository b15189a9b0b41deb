"""The in-memory composition: documents in, an explained keep list out.

    text -> shingles -> sketch -> bands -> candidates -> verified pairs -> clusters -> keep list

`Corpus` collects what is left of the documents when they are sketched and their texts are dropped;
`Corpus.decide` does the rest. `similarity` compares two texts by the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from neardup import cluster, kernels
from neardup.cluster import KEPT, REJECTED, Decisions, FullBucket, Pairs
from neardup.corpus.documents import Columns, Documents, concat_keep
from neardup.corpus.frames import read_data, require_rereadable
from neardup.errors import ParameterError
from neardup.formats.spool import Spool
from neardup.keys import Key, to_key
from neardup.lsh.buckets import Buckets, group_by_key
from neardup.measure_table import CHOICES, MEASURES
from neardup.option_table import MatchingOptions, takes_options
from neardup.options import Options, parse_strip
from neardup.result import Result
from neardup.sketch import bulk
from neardup.sketcher import Integers, SketchedDocuments, Sketcher
from neardup.spec import Spec, check_choice
from neardup.text.frequencies import Frequencies, FrequencyCounts
from neardup.text.html import strip_markup
from neardup.text.lines import IgnoredLines, LineCounts
from neardup.text.shingle import shingle_documents
from neardup.verify import Comparison, Exact

MAX_PAIRS = 10_000_000


class Corpus:
    """All documents' sketches, in input order; texts are gone, shingles set aside on disk."""

    def __init__(
        self,
        options: Options,
        spool_folder: str | None = None,
        frequencies: Frequencies | None = None,
    ) -> None:
        self.options = options
        self._frequencies = frequencies or Frequencies()
        self.rejected: dict[int, str] = {}
        self.size = 0
        self._columns: dict[str, list[NDArray[Any]]] = {}
        self._spool = Spool(spool_folder)
        self._keep: list[pa.Array] = []
        self._found: tuple[Integers, Integers, Buckets, Any] | None = None

    def add(self, documents: Documents, sketch: SketchedDocuments) -> None:
        """Take in the next batch."""
        self.rejected.update({self.size + row: why for row, why in documents.rejected.items()})
        for row in sketch.empty.tolist():
            self.rejected.setdefault(self.size + row, "empty")
        columns: dict[str, NDArray[Any]] = {
            "content": sketch.content,
            "keys": sketch.keys(self.options.hash_tables),
            "lengths": sketch.lengths,
        }
        if self.options.verify == "exact":
            self._spool.append(sketch.shingles.data, sketch.shingles.offsets)
        else:
            columns["signatures"] = bulk.pack_signatures(sketch.signatures, self.options.spec)
        for name, values in columns.items():
            self._columns.setdefault(name, []).append(values)
        if documents.keep is not None:
            self._keep.append(documents.keep)
        self.size += len(documents)

    def decide(self) -> Decisions:
        """The keep list of everything that was added."""
        order, leader, buckets, verifier = self._candidates()
        kept = (
            cluster.keep_stars(buckets, verifier, self.options.limit)
            if self.options.cluster == "stars"
            else cluster.keep_components(buckets, verifier)
        )
        witness = np.full(self.size, REJECTED, np.int64)
        similarity = np.ones(self.size)
        exact = np.ones(self.size, bool)
        witness[order] = KEPT
        unique = order[leader[order] == order]
        shared = unique[buckets.documents]
        gone = np.flatnonzero(kept.witness >= 0)
        witness[shared[gone]] = shared[kept.witness[gone]]
        similarity[shared[gone]] = kept.similarity[gone]
        exact[shared[gone]] = verifier.exact
        copies = order[leader[order] != order]
        stands = leader[copies]
        witness[copies] = np.where(witness[stands] >= 0, witness[stands], stands)
        similarity[copies] = similarity[stands]
        exact[copies] = exact[stands]
        return Decisions(
            witness,
            similarity,
            exact,
            len(copies),
            kept.compared,
            self._full_buckets(buckets, kept.turned_away, shared),
        )

    def pairs(self, most: int = MAX_PAIRS) -> Pairs:
        """All verified pairs that share a bucket, identical documents among them."""
        order, leader, buckets, verifier = self._candidates()
        unique = order[leader[order] == order]
        shared = unique[buckets.documents]
        by_leader = order[np.argsort(leader[order], kind="stable")]
        ends = np.searchsorted(leader[by_leader], np.arange(self.size + 1))
        parts: list[tuple[Integers, Integers, NDArray[np.float64]]] = []
        total = given = 0
        for u, v, similar in self._leader_pairs(buckets, verifier, unique, shared, ends):
            *part, many = kernels.spread_pairs(u, v, similar, by_leader, ends, most - given)
            parts.append((part[0], part[1], part[2]))
            total, given = total + many, given + len(part[0])
        a, b, found = (np.concatenate(column) for column in zip(*parts, strict=True))
        placed = np.lexsort((b, a))
        capped = int(np.count_nonzero(buckets.sizes > cluster.BUCKET_CAP))
        return Pairs(a[placed], b[placed], found[placed], total - given, capped)

    def _leader_pairs(
        self, buckets: Buckets, verifier: Any, unique: Integers, shared: Integers, ends: Integers
    ) -> Iterator[tuple[Integers, Integers, NDArray[np.float64]]]:
        copied = unique[ends[unique + 1] - ends[unique] > 1]
        yield copied, copied, np.ones(len(copied))
        for left, right in cluster.pair_candidates(buckets):
            similar = verifier.pairs(left, right)
            good = similar >= 0.0
            yield shared[left[good]], shared[right[good]], similar[good]

    def _candidates(self) -> tuple[Integers, Integers, Buckets, Any]:
        """Rank order, each document's best identical copy, the buckets, and the verifier."""
        if self._found is None:
            order = self._ranked()
            leader = cluster.find_identical(self._column("content", 2, np.uint64), order)
            unique = order[leader[order] == order]
            buckets = group_by_key(
                self._column("keys", self.options.hash_tables.count, np.uint64), unique
            )
            verifier = self._verifier(unique[buckets.documents])
            self._found = order, leader, buckets, verifier
            # Nothing asks for these again.
            self._columns.clear()
            self._spool.close()
        return self._found

    def _ranked(self) -> Integers:
        """The documents that are not rejected, best rank first; ties by input order."""
        policy, _ = self.options.keep_policy
        takes_part = np.ones(self.size, bool)
        takes_part[list(self.rejected)] = False
        if policy == "first":
            return np.flatnonzero(takes_part)
        if policy == "longest":
            order = np.argsort(-self._column("lengths", None, np.int64), kind="stable")
        else:
            order = by_value(
                concat_keep(self._keep), "descending" if policy == "max" else "ascending"
            )
        return order[takes_part[order]]

    def _verifier(self, shared: Integers) -> Comparison:
        spec = self.options.spec
        if self.options.verify == "exact":
            rows, offsets = self._spool.sorted_sets(shared)
            if not spec.of_bags:
                offsets = kernels.unique_sorted(rows, offsets)
            return self.options.exact(rows[: offsets[-1]], offsets, self._frequencies.weights)
        rows = self._column("signatures", *bulk.packed_shape(spec))[shared]
        return self.options.estimated(rows)

    def _full_buckets(
        self, buckets: Buckets, turned_away: Integers, shared: Integers
    ) -> list[FullBucket]:
        full = np.flatnonzero(turned_away[: len(buckets.sizes)])
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


def by_value(values: pa.Array, direction: str) -> Integers:
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    order = pc.array_sort_indices(values, order=direction, null_placement="at_end")
    return order.to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def find_ignored_lines(
    read: Callable[[], Iterable[Documents]], options: Options, key: Key | None = None
) -> IgnoredLines:
    """The lines to ignore, if that is asked for: two passes over the documents."""
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
    """In how many documents shingles are, if that is asked for: one pass over the documents."""
    if options.weights != "tf-idf":
        return Frequencies()
    counts, sketcher = FrequencyCounts(), Sketcher(options.spec, ignored, key)
    for documents in read():
        counts.add(sketcher.cut(documents).shingles)
    return counts.freeze()


@takes_options("neardup.dedup")
def dedup(
    data: object,
    *,
    text: str = "text",
    id: str | None = None,
    within: str | None = None,
    key: bytes | Key | None = None,
    **options: Unpack[MatchingOptions],
) -> Result:
    """Find the near-duplicates in a list of texts or in a table, and say which copies to keep.

    Args:
        data: A list of strings, or a table with the Arrow stream interface (pandas, Polars,
            PyArrow, Hugging Face).
        text: The column of the table that holds the documents.
        id: The column that names them; by default their positions do.
        within: Compare only documents with the same value in this column.
        key: The secret key of hash siphash: 16 bytes, or 32 hexadecimal digits.
        **options: What counts as similar and which copy stays: the matching options, see
            docs/command-line.md.

    Returns:
        The kept, removed and rejected documents, each with its reason.

    >>> result = dedup(["the cat sat on the mat today", "The cat sat on the mat, today!", "hi"])
    >>> result.kept
    [0, 2]
    >>> result.removed
    [Removed(id=1, witness=0, similarity=1.0, exact=True, cluster=0)]
    """
    secret = to_key(key)
    chosen = Options.of(key=secret, **options)
    columns = Columns(
        text=text,
        id=id,
        keep=chosen.keep_policy[1],
        within=within,
        tokens=chosen.spec.unit == "token",
    )
    if chosen.strip.lines is not None or chosen.weights == "tf-idf":
        require_rereadable(data)
    ignored = find_ignored_lines(lambda: read_data(data, columns), chosen, secret)
    chosen = chosen.ignoring(ignored.digest)
    frequencies = find_frequencies(lambda: read_data(data, columns), chosen, ignored, secret)
    chosen = chosen.weighing(frequencies.stated)
    sketcher = Sketcher(chosen.spec, ignored, secret, frequencies)
    corpus = Corpus(chosen, frequencies=frequencies)
    ids: list[pa.Array | list[Any]] = []
    for documents in read_data(data, columns):
        corpus.add(documents, sketcher(documents))
        ids.append(documents.ids)
    return Result(chosen, corpus.decide(), corpus.rejected, ids, corpus.pairs, ignored)


def similarity(
    a: str,
    b: str,
    *,
    shingle: str = "word:5",
    text_profile: str = "standard",
    strip: str | None = None,
    measure: str = "jaccard",
) -> float:
    """The exact Jaccard similarity of two texts' shingles; or the share of a that is inside b.

    Args:
        a, b: The texts.
        shingle: What is compared, and how long: `word:5`, `char:8`, `line:1`.
        text_profile: How texts are normalised: `conservative`, `standard` or `aggressive`.
        strip: What is left out before, `html`; None for nothing.
        measure: `jaccard`, or `containment`: the share of a that is inside b.

    >>> similarity("the cat sat", "the cat lay", shingle="word:2")
    0.3333333333333333
    >>> similarity("the cat sat", "and the cat sat down", shingle="word:2", measure="containment")
    1.0
    """
    check_choice("measure", measure, CHOICES)
    if not isinstance(a, str) or not isinstance(b, str):
        raise ParameterError("similarity compares two strings")
    asked = parse_strip(strip)
    spec = Spec.of(shingle, profile=text_profile, strip=asked.markup)
    if spec.unit == "token":
        raise ParameterError("similarity compares texts: choose word, char or line shingles")
    if asked.lines is not None:
        raise ParameterError("frequent lines are those of a corpus: strip html, or nothing")
    texts = strip_markup(pa.array([a, b], pa.large_string()), spec)
    cut = shingle_documents(texts, spec).shingles
    end_of_a = cut.offsets[1]
    mine, theirs = np.unique(cut.data[:end_of_a]), np.unique(cut.data[end_of_a:])
    if not (mine.size and theirs.size):
        return float(mine.size == theirs.size)
    offsets = np.array([0, mine.size, mine.size + theirs.size], np.int64)
    sets = Exact(np.append(mine, theirs), offsets, 0.0, MEASURES[measure])
    # A measure with a direction tells how much of the right one is in the left one.
    return float(sets.pairs(np.array([1]), np.array([0]))[0])
