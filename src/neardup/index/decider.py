"""Judge documents in the order of arrival, with the answer of the batch engine.

Each arrival is first compared with the kept documents that lead its buckets: the first similar one
is its witness. Arrivals without a witness are then compared with one another, by the same pass that
a batch run makes. Shingles of stored documents are loaded in slices, so that many long documents
of one bucket don't fill the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from neardup.cluster import find_identical
from neardup.errors import FormatError
from neardup.index.arrivals import Arrivals
from neardup.index.postings import Integers, Keys, Numbers
from neardup.lsh.buckets import Buckets, group_by_key
from neardup.options import Options
from neardup.verify import Comparison

KEPT = -1
"""The witness of a document that is kept."""
ANY_SIMILARITY = 1e-300
"""A threshold that every pair with a common shingle reaches."""
SLICE_BYTES = 32 << 20
"""Size of the stored shingles that are loaded and compared together; one document may have more."""


class CandidateSource(Protocol):
    """Access to the stored documents that arrivals are compared with; see `View`."""

    def leaders(self, keys: Keys, limit: int) -> tuple[Integers, Integers, Numbers]: ...
    def first_shingles(self, numbers: Sequence[int], most: int) -> tuple[dict[int, bytes], int]: ...
    def signatures(self, numbers: Sequence[int]) -> NDArray[Any]: ...


@dataclass(frozen=True)
class WithKept:
    """A source with more kept documents, which are stored but are not in its tables.

    numbers  the documents
    keys     their band keys, a row each
    """

    source: CandidateSource
    numbers: Integers
    keys: Keys

    def leaders(self, keys: Keys, limit: int) -> tuple[Integers, Integers, Numbers]:
        """Return the leaders of the source, and those of these documents that share a bucket."""
        counts, rows, numbers = self.source.leaders(keys, limit)
        all_rows, all_numbers = [rows], [numbers]
        for table in range(keys.shape[1]):
            order = np.argsort(self.keys[:, table], kind="stable")
            own = self.keys[order, table]
            first, end = (np.searchsorted(own, keys[:, table], side) for side in ("left", "right"))
            sizes = end - first
            counts[table] = np.minimum(counts[table] + sizes, limit)
            found = np.repeat(end - np.cumsum(sizes), sizes) + np.arange(sizes.sum())
            all_rows.append(np.repeat(np.arange(len(keys)), sizes))
            all_numbers.append(self.numbers[order[found]].astype(np.uint32))
        return counts, np.concatenate(all_rows), np.concatenate(all_numbers)

    def first_shingles(self, numbers: Sequence[int], most: int) -> tuple[dict[int, bytes], int]:
        return self.source.first_shingles(numbers, most)

    def signatures(self, numbers: Sequence[int]) -> NDArray[Any]:
        return self.source.signatures(numbers)


@dataclass(frozen=True)
class Judgements:
    """The witness of each document, or KEPT, and the counts of the work that was done."""

    witness: Integers
    similarity: NDArray[np.float64]
    exact: NDArray[np.bool_]
    looked_up: int = 0
    """Band keys that were looked up."""
    candidates: int = 0
    """Pairs that share a bucket."""
    compared: int = 0
    similar: int = 0
    cosine: NDArray[np.float64] | None = None
    """Of the vectors, NaN if it is not known; None if there is no second signal."""

    @property
    def cosines(self) -> list[float | None]:
        """The cosine of each document and its witness, if it is known."""
        if self.cosine is None:
            return [None] * len(self.witness)
        return [None if np.isnan(one) else one for one in self.cosine.tolist()]


@dataclass(frozen=True)
class CandidatePairs:
    """Pairs of an arrival (row) and a kept document (number) in one bucket, sorted by both."""

    numbers: Integers
    rows: Integers
    similarity: NDArray[np.float64]
    """-1.0 for a pair that is not similar or was not compared."""
    exact: NDArray[np.bool_]
    compared: int = 0
    cosine: NDArray[np.float64] | None = None
    """Of the vectors of similar pairs; None if there is no second signal."""


@dataclass(frozen=True)
class Probes:
    """More keys to look up: a row of keys, and the chosen arrival that each row belongs to."""

    rows: Integers
    keys: Keys


class _Found(NamedTuple):
    """What a comparison of arrivals with one another has found about each of them."""

    witness: Integers
    """The place of its witness among them, or -1."""
    similarity: NDArray[np.float64]
    cosine: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Decider:
    """Judges documents at an operating point. Any thread."""

    options: Options
    weights: NDArray[np.uint32] | None = None
    """Weights of the shingle cells, for measures that depend on the corpus (tf-idf)."""
    counts_all: bool = False
    """Whether pairs of any similarity get their numbers, to show these; it decides nothing."""

    def lenient(self) -> Decider:
        """Return a decider that gives the similarity of pairs below the threshold too."""
        options = self.options
        if options.verify == "exact":
            options = replace(options, threshold=ANY_SIMILARITY)
        else:
            options = replace(options, verify="none")
        return replace(self, options=options, counts_all=True)

    def decide(self, arrivals: Arrivals, numbers: Integers, source: CandidateSource) -> Judgements:
        """Judge arrivals in order; `numbers` are the numbers that they have or will have."""
        first_copy = first_identical(arrivals.content)
        unique = np.flatnonzero(first_copy == np.arange(len(first_copy)))
        counts, pairs = self.compare_candidates(arrivals, unique, source)
        witness = np.full(len(arrivals), KEPT, np.int64)
        similarity, exact = np.ones(len(arrivals)), np.ones(len(arrivals), bool)
        cosine = np.full(len(arrivals), np.nan) if self.options.has_two_signals else None
        for row, place in first_similar(pairs):
            witness[row] = pairs.numbers[place]
            similarity[row], exact[row] = pairs.similarity[place], pairs.exact[place]
            if cosine is not None and pairs.cosine is not None:
                cosine[row] = pairs.cosine[place]
        undecided = np.flatnonzero(witness[unique] == KEPT)
        similar, compared = 0, 0
        if len(undecided) > 1:
            rows, found, similar, compared = self._compare_arrivals(
                arrivals, unique[undecided], counts[:, undecided]
            )
            removed = np.flatnonzero(found.witness >= 0)
            witness[rows[removed]] = numbers[rows[found.witness[removed]]]
            similarity[rows[removed]] = found.similarity[removed]
            exact[rows[removed]] = self._by_sets(arrivals)
            if cosine is not None and found.cosine is not None:
                cosine[rows[removed]] = found.cosine[removed]
        copies = np.flatnonzero(first_copy != np.arange(len(first_copy)))
        originals = first_copy[copies]
        witness[copies] = np.where(
            witness[originals] == KEPT, numbers[originals], witness[originals]
        )
        similarity[copies], exact[copies] = similarity[originals], exact[originals]
        if cosine is not None:
            cosine[copies] = cosine[originals]
        return Judgements(
            witness,
            similarity,
            exact,
            counts.size,
            len(pairs.rows) + compared,
            pairs.compared + compared,
            int(np.count_nonzero(pairs.similarity >= 0.0)) + similar,
            cosine,
        )

    def compare_candidates(
        self,
        arrivals: Arrivals,
        chosen: Integers,
        source: CandidateSource,
        probes: Probes | None = None,
        *,
        stop_early: bool = True,
    ) -> tuple[Integers, CandidatePairs]:
        """Compare the chosen arrivals with the leaders of their buckets.

        Returns the number of leaders of each bucket, (tables x chosen arrivals), and the compared
        pairs. `probes` are more keys to look up; for `stop_early` see `compare_pairs`.
        """
        counts, rows, numbers = source.leaders(arrivals.keys[chosen], self.options.limit)
        if probes is not None:
            _, probe_rows, probe_numbers = source.leaders(probes.keys, self.options.limit)
            rows = np.concatenate([rows, probes.rows[probe_rows]])
            numbers = np.concatenate([numbers, probe_numbers])
        if not len(rows):
            empty = np.empty(0, np.int64)
            return counts, CandidatePairs(empty, empty, np.empty(0), np.empty(0, bool))
        codes = np.unique(rows << 32 | numbers.astype(np.int64))
        rows, candidates = chosen[codes >> 32], codes & 0xFFFFFFFF
        return counts, self.compare_pairs(arrivals, rows, candidates, source, stop_early=stop_early)

    def compare_pairs(
        self,
        arrivals: Arrivals,
        rows: Integers,
        numbers: Integers,
        source: CandidateSource,
        *,
        stop_early: bool = False,
    ) -> CandidatePairs:
        """Compare arrivals, by row, with stored documents, by number.

        With `stop_early` an arrival that is similar to a document of one slice is not compared with
        those of later slices: they have larger numbers, so none of them can be its witness.
        """
        distinct, document = np.unique(numbers, return_inverse=True)
        similarity, exact = np.full(len(rows), -1.0), np.zeros(len(rows), bool)
        cosine = np.full(len(rows), np.nan) if self.options.has_two_signals else None
        waiting, compared = np.ones(len(rows), bool), 0
        for start, end, sets in self._slices(distinct, arrivals, source):
            if end - start == len(distinct):
                found = self._compare_slice(arrivals, rows, distinct, document, sets, source)
                similarity, exact, cosine = found
                return CandidatePairs(numbers, rows, similarity, exact, len(rows), cosine)
            pairs = np.flatnonzero(waiting & (document >= start) & (document < end))
            if not len(pairs):
                continue
            compared += len(pairs)
            similarity[pairs], exact[pairs], cosines = self._compare_slice(
                arrivals, rows[pairs], distinct[start:end], document[pairs] - start, sets, source
            )
            if cosine is not None and cosines is not None:
                cosine[pairs] = cosines
            if stop_early:
                waiting &= ~np.isin(rows, rows[pairs[similarity[pairs] >= 0.0]])
                if not waiting.any():
                    break
        return CandidatePairs(numbers, rows, similarity, exact, compared, cosine)

    def _slices(
        self, distinct: Integers, arrivals: Arrivals, source: CandidateSource
    ) -> Iterator[tuple[int, int, dict[int, bytes]]]:
        """Yield slices of the stored documents: start, end, and the shingles by number."""
        if not self._by_sets(arrivals):
            yield 0, len(distinct), {}
            return
        start = 0
        while start < len(distinct):
            sets, count = source.first_shingles(distinct[start:].tolist(), SLICE_BYTES)
            yield start, start + count, sets
            start += count

    def _compare_slice(
        self,
        arrivals: Arrivals,
        rows: Integers,
        distinct: Integers,
        document: Integers,
        sets: dict[int, bytes],
        source: CandidateSource,
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64] | None]:
        """Return the similarity of each pair, whether it is exact, and the cosine if it counts.

        Pair i is of the arrival `rows[i]` and the stored document `distinct[document[i]]`. Stored
        documents without shingles in `sets` are compared by their signatures.
        """
        similarity, cosine = np.full(len(rows), -1.0), None
        exact = np.array([number in sets for number in distinct.tolist()], bool)[document]
        if self.options.vectors is not None and not exact.all():
            source.signatures(distinct.tolist())  # raises if they were removed just now
            raise FormatError(
                "the store lacks vectors of documents: run neardup index verify, which names them"
            )
        if exact.any():
            verifier, set_of = self._verifier(arrivals, sets)
            places = np.array([set_of.get(number, 0) for number in distinct.tolist()], np.int64)
            left, right = places[document[exact]], len(set_of) + rows[exact]
            if self.counts_all and self.options.vectors is not None:
                texts, cosine = verifier.numbers(left, right).T
                one = self.options.spec.of_vectors
                return (cosine, exact, None) if one else (texts, exact, cosine)
            similarity[exact] = verifier.pairs(left, right)
            if self.options.has_two_signals:
                similarity, cosine = self._both_numbers(verifier, left, right, similarity)
        if not exact.all():
            estimated = np.flatnonzero(~exact)
            stored = source.signatures(distinct.tolist())
            verifier = self._estimated(np.concatenate([stored, arrivals.compared]))
            similarity[estimated] = verifier.pairs(
                document[estimated], len(stored) + rows[estimated]
            )
        return similarity, exact, cosine

    @staticmethod
    def _both_numbers(
        verifier: Comparison, left: Integers, right: Integers, similarity: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the similarity of the texts and the cosine of similar pairs; -1.0 and NaN of
        others.

        Args:
            verifier: Compares them.
            left: A document of each pair, all of which have vectors.
            right: The other one.
            similarity: What decides, -1.0 of pairs that are not similar.
        """
        similar = np.flatnonzero(similarity >= 0.0)
        texts, cosine = np.full(len(left), -1.0), np.full(len(left), np.nan)
        if len(similar):
            texts[similar], cosine[similar] = verifier.numbers(left[similar], right[similar]).T
        return texts, cosine

    def _verifier(
        self, arrivals: Arrivals, sets: dict[int, bytes]
    ) -> tuple[Comparison, dict[int, int]]:
        """Return an exact verifier over the sets of the stored documents, then of the arrivals.

        The dictionary maps the number of a stored document to the place of its set.
        """
        assert arrivals.sets is not None  # noqa: S101  # `_by_sets` is true
        stored = [np.frombuffer(data, np.uint64) for data in sets.values()]
        sizes = np.array([len(row) for row in stored], np.int64)
        begins = np.cumsum(sizes)
        offsets = np.concatenate([[0], begins, begins[-1] + arrivals.sets.offsets[1:]])
        data = np.concatenate([*stored, arrivals.sets.data[: arrivals.sets.offsets[-1]]])
        verifier = self.options.comparison(data, offsets.astype(np.int64), self.weights)
        return verifier, {number: place for place, number in enumerate(sets)}

    def _compare_arrivals(
        self, arrivals: Arrivals, undecided: Integers, counts: Integers
    ) -> tuple[Integers, _Found, int, int]:
        """Compare undecided arrivals that share buckets with one another.

        `counts` has the number of stored leaders of their buckets, (tables x undecided). Returns
        the rows that share a bucket, what was found about each, the number of similar pairs, and
        of compared ones.
        """
        buckets = group_by_key(arrivals.keys[undecided])
        sharing = undecided[buckets.documents]
        if not len(sharing):
            return sharing, _Found(sharing, np.empty(0)), 0, 0
        leaders = _new_leaders(buckets, counts, self.options.limit)
        starts = np.concatenate([[0], np.cumsum(leaders)])
        if self._by_sets(arrivals):
            assert arrivals.sets is not None  # noqa: S101  # `_by_sets` is true
            sets = arrivals.sets.take(sharing)
            verifier: Any = self.options.comparison(sets.data, sets.offsets, self.weights)
        else:
            verifier = self._estimated(arrivals.compared[sharing])
        witness, similarity, compared, _ = verifier.keep(buckets.numbers, starts.astype(np.int64))
        removed, cosine = np.flatnonzero(witness >= 0), None
        if self.options.has_two_signals:
            cosine = np.full(len(witness), np.nan)
            numbers = verifier.numbers(witness[removed], removed)
            similarity[removed], cosine[removed] = numbers.T
        return sharing, _Found(witness, similarity, cosine), len(removed), compared

    def _by_sets(self, arrivals: Arrivals) -> bool:
        """Whether shingles are compared: the operating point is exact and arrivals have them."""
        return self.options.verify == "exact" and arrivals.shingles is not None

    def _estimated(self, rows: NDArray[Any]) -> Comparison:
        options = self.options
        if options.verify == "exact":
            options = replace(options, verify="estimate")
        return options.estimated(rows)


def first_identical(content: NDArray[np.uint64]) -> Integers:
    """Return for each document the row of the first one with the same content."""
    if len(content) == 1:
        return np.zeros(1, np.int64)
    return find_identical(content, np.arange(len(content)))


def first_similar(pairs: CandidatePairs) -> list[tuple[int, int]]:
    """Return (row, place of its first similar pair) of each arrival that has a similar pair."""
    similar = np.flatnonzero(pairs.similarity >= 0.0)
    if not len(similar):
        return []
    rows, first = np.unique(pairs.rows[similar], return_index=True)
    return list(zip(rows.tolist(), similar[first].tolist(), strict=True))


def _new_leaders(buckets: Buckets, counts: Integers, limit: int) -> Integers:
    """Return how many arrivals may lead each bucket, beside its `counts` stored leaders."""
    members, starts = buckets.members()
    first = buckets.documents[members[starts[:-1]]]
    return np.minimum(buckets.sizes, limit - counts[buckets.band_of, first])
