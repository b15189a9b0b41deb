"""`Result`: the answer of `neardup.dedup`, with the reason of each decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cached_property
from html import escape
from itertools import starmap
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from neardup.cluster import DROPPED, KeepList, Pairs
from neardup.errors import UsageError
from neardup.explanation import (
    REMOVED,
    SIGNAL_NAMES,
    DecidedDocument,
    PairFacts,
    PairVerdict,
    explain_pair,
    name_signals,
)
from neardup.first_look import FirstLook
from neardup.options import Options
from neardup.overrides import Overrides
from neardup.source_counts import SourceSummary
from neardup.spec import check_choice
from neardup.wording import (
    ComparedPair,
    TextDifference,
    Verdict,
    describe_counts,
    explain_kept,
    explain_rejected,
    explain_removed,
    explain_vetoed,
    format_advice,
    format_by_signal,
    format_counts,
    format_decisions,
    format_example,
    format_largest_clusters,
    format_method,
    format_reading,
    format_rejected,
    format_second_signal,
    format_sources,
    format_undated,
    format_vetoed,
    html_table,
    shorten_id,
)

if TYPE_CHECKING:
    import os

    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from neardup.corpus.documents import Columns
    from neardup.text.lines import IgnoredLines

SHOWN_CLUSTERS, SHOWN_COPIES = 10, 5


@dataclass(frozen=True)
class Removed:
    """A removed document and its witness, the kept document that it is similar to.

    With `keep="none"` the witness is removed, too. A document that people dropped has no witness
    and no cluster, and its similarity is NaN.

    Attributes:
        id: The id of the removed document.
        witness: The id of its witness.
        similarity: How similar the two are, by the measure of the run.
        exact: Whether the similarity is exact, not estimated from signatures.
        cluster: The row that names the cluster: of the kept document, which is the witness; with
            `keep="none"` of the first document of the cluster.
        decision: The decisions of people because of which it is removed; None if there are none.
        cosine: With `also` or `unless`, the cosine of the two, if it is known; the similarity is
            that of the texts.
        by: With these, the signal that removed it: `text`, `vector` or `both`; `copy` of a document
            that is identical to its witness.
    """

    id: Any
    witness: Any
    similarity: float
    exact: bool
    cluster: int | None
    decision: str | None = field(default=None, repr=False)
    cosine: float | None = field(default=None, repr=False)
    by: str | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        """Return the fields that say something: those of two signals only with these."""
        return _show_fields(self)

    @property
    def decisive(self) -> float:
        """The similarity that decided: of the vectors, if that of the texts did not."""
        if self.by == "vector" and self.cosine is not None:
            return self.cosine
        return self.similarity


@dataclass(frozen=True)
class Rejected:
    """A document that could not be compared: its id, its row, and the reason."""

    id: Any
    row: int
    reason: str


@dataclass(frozen=True)
class Vetoed:
    """A kept document that would be removed without `distinguish`, or without `unless`.

    Attributes:
        id: The id of the document.
        witness: The id of the document that it would be removed for.
        similarity: How similar the two are, by the measure of the run.
        exact: Whether the similarity is exact, not estimated from signatures.
        cosine: With `unless`, the cosine of the two; None if their texts are identical.
    """

    id: Any
    witness: Any
    similarity: float
    exact: bool
    cosine: float | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        """Return the fields that say something: the cosine only if it is known."""
        return _show_fields(self)


def _show_fields(one: Removed | Vetoed) -> str:
    """Return an object as Python would show it, without unset fields that it does not need."""
    named = [(part, getattr(one, part.name)) for part in fields(one)]
    shown = [f"{part.name}={value!r}" for part, value in named if part.repr or value is not None]
    return f"{type(one).__name__}({', '.join(shown)})"


@dataclass(frozen=True)
class Cluster:
    """A kept document, by its id and row, and the ids of the documents removed because of it."""

    id: Any
    row: int
    copies: list[Any]

    @property
    def size(self) -> int:
        """The number of documents, the kept one included."""
        return len(self.copies) + 1


@dataclass(frozen=True)
class Pair:
    """Two similar documents that share a bucket, by their ids, and their similarity."""

    a: Any
    b: Any
    similarity: float


@dataclass(frozen=True)
class IgnoredLine:
    """A line that was not compared, normalised, and the number of documents that contain it."""

    text: str
    documents: int


class Result:
    """The answer of `neardup.dedup`: which documents are kept, removed and rejected, and why.

    Documents are named by the id column, or by their row numbers. `dedup` makes results.

    Args:
        options: The options of the run, checked; `result.options` tells them.
        decisions: The witness and similarity of each document.
        rejected: Row -> reason, of the documents that could not be compared.
        ids: The ids of the documents, batch after batch; null where a document has none.
        pairs: Finds all verified pairs, when they are first asked for.
        ignored: The lines that were not compared.
        columns: The columns that were read.
        compare: Compares two documents by their rows.
        undistinguished: The decisions if nothing distinguished documents; None if nothing does.
        look: What the first documents are like.
        overrides: What people decided, which was obeyed; None if nobody did.
        sources: What became of the documents of each source; None without `source`.

    >>> import neardup
    >>> result = neardup.dedup(["one and the same text", "One and the same text!", "another"])
    >>> result
    Result(3 documents: 2 kept, 1 removed (1 identical), 0 rejected)
    >>> result.kept, result.removed[0].witness
    ([0, 2], 0)
    """

    def __init__(
        self,
        options: Options,
        decisions: KeepList,
        rejected: dict[int, str],
        ids: list[pa.Array | list[Any]],
        pairs: Callable[[], Pairs],
        ignored: IgnoredLines,
        columns: Columns,
        compare: Callable[[int, int], PairFacts],
        undistinguished: KeepList | None = None,
        look: FirstLook | None = None,
        overrides: Overrides | None = None,
        sources: SourceSummary | None = None,
    ) -> None:
        self.options = options
        self.ignored = ignored
        self.columns = columns
        self._look = look
        self._sources = sources
        self._decisions = decisions
        self._rejected = rejected
        self._id_batches = ids
        self._find_pairs = pairs
        self._compare = compare
        self._undistinguished = undistinguished
        self.overrides = overrides

    def __len__(self) -> int:
        return len(self._decisions.witness)

    @cached_property
    def ids(self) -> list[Any]:
        """The ids of all documents in input order; the row number where a document has none."""
        return list_ids(self._id_batches)

    @property
    def decisions(self) -> KeepList:
        """The witness and the similarity of every document as NumPy arrays, in input order."""
        return self._decisions

    @property
    def undistinguished(self) -> KeepList | None:
        """The decisions if nothing distinguished documents; None without `distinguish`."""
        return self._undistinguished

    @property
    def kept_rows(self) -> NDArray[np.int64]:
        """The positions of the kept documents, ascending."""
        return np.flatnonzero(self._decisions.kept)

    @cached_property
    def kept(self) -> list[Any]:
        """The ids of the kept documents, in input order."""
        return [self.ids[row] for row in self.kept_rows.tolist()]

    @cached_property
    def removed(self) -> list[Removed]:
        """The removed documents with their witnesses, in input order."""
        return [self._removed(row) for row in self._decisions.removed.tolist()]

    @cached_property
    def rejected(self) -> list[Rejected]:
        """The documents that could not be compared, with the reasons, in input order."""
        return [
            Rejected(self.ids[row], row, reason) for row, reason in sorted(self._rejected.items())
        ]

    @cached_property
    def vetoed(self) -> list[Vetoed]:
        """The documents that are kept only because of `distinguish` or `unless`, in input order.

        >>> import neardup
        >>> bills = [f"a bill to amend title {n} of the code and so on" for n in (7, 42)]
        >>> neardup.dedup(bills, shingle="word:1", distinguish="numbers").vetoed
        [Vetoed(id=1, witness=0, similarity=0.8461538461538461, exact=True)]
        """
        if self._undistinguished is None:
            return []
        others = self._undistinguished
        return [
            Vetoed(
                self.ids[row],
                self.ids[int(others.witness[row])],
                float(others.similarity[row]),
                bool(others.exact[row]),
                None if others.cosine is None else _known(others.cosine[row]),
            )
            for row in np.flatnonzero(self._decisions.kept & (others.witness >= 0)).tolist()
        ]

    @cached_property
    def clusters(self) -> list[Cluster]:
        """The kept documents with the ones removed because of them, the largest cluster first."""
        copies: dict[int, list[Any]] = {}
        leaders = self._decisions.cluster
        for row in self._decisions.removed.tolist():
            if (leader := int(leaders[row])) not in (row, DROPPED):
                copies.setdefault(leader, []).append(self.ids[row])
        clusters = [Cluster(self.ids[row], row, removed) for row, removed in copies.items()]
        return sorted(clusters, key=lambda cluster: (-cluster.size, cluster.row))

    @cached_property
    def pairs(self) -> list[Pair]:
        """All verified pairs that share a bucket, found by an exhaustive pass of its own.

        The most similar ones first; equally similar ones in the order of their documents.
        """
        pairs = self._find_pairs()
        order = np.lexsort((pairs.b, pairs.a, -pairs.similarity))
        return [
            Pair(self.ids[a], self.ids[b], similarity)
            for a, b, similarity in zip(
                pairs.a[order].tolist(),
                pairs.b[order].tolist(),
                pairs.similarity[order].tolist(),
                strict=True,
            )
        ]

    @cached_property
    def ignored_lines(self) -> list[IgnoredLine]:
        """The lines that were not compared, most frequent first."""
        return [IgnoredLine(*line) for line in self.ignored.most_frequent()]

    @property
    def sources(self) -> SourceSummary | None:
        """What became of the documents of each source; None if `source` was not given.

        >>> import neardup
        >>> rows = [{"text": "one and the same", "lang": lang} for lang in ("en", "en", "de")]
        >>> [one.removed for one in neardup.dedup(rows, source="lang").sources.listed]
        [1, 1]
        """
        return self._sources

    @property
    def advice(self) -> list[str]:
        """What these options can't find in documents like the first ones, and what would.

        >>> import neardup
        >>> posts = [f"post {n} about the weather in one of {n} towns" for n in range(20)]
        >>> print(neardup.dedup(posts).advice[0])  # doctest: +ELLIPSIS
        100% of the first 20 documents have fewer than 40 words. One of 10 words with one word ...
        """
        return [] if self._look is None else self._look.advice(self.options, in_python=True)

    def filter(self, data: Any) -> Any:
        """Return the kept rows of the data that was deduplicated, as the type that it has.

        Args:
            data: The data that was given to `dedup`; not a stream, which can be read only once.

        >>> import neardup
        >>> texts = ["one and the same text", "One and the same text!", "another"]
        >>> neardup.dedup(texts).filter(texts)
        ['one and the same text', 'another']
        """
        from neardup.corpus.frames import take_rows

        self.require_rows(data)
        return take_rows(data, self.kept_rows)

    def annotate(self, data: Any, rows: Literal["all", "kept"] = "all") -> Any:
        """Return data with the columns cluster, cluster_size, witness and similarity.

        For those who give more weight to what has copies instead of dropping it. The last two
        columns are null of kept rows.

        Args:
            data: The table, or the list of dicts, that was given to `dedup`.
            rows: Which rows are returned: `all` but the rejected ones and those that people
                dropped; or `kept`.

        >>> import neardup
        >>> rows = [{"text": "the same"}, {"text": "The same!"}, {"text": "another"}]
        >>> neardup.dedup(rows).annotate(rows, "kept")[0]["cluster_size"]
        2
        """
        from neardup.corpus.frames import add_columns, take_rows
        from neardup.result_table import annotations_table

        check_choice("rows", rows, ("all", "kept"))
        self.require_rows(data)
        written = self._decisions.cluster >= 0
        positions = self.kept_rows if rows == "kept" else np.flatnonzero(written)
        columns = annotations_table(self.ids, self._decisions, positions)
        return add_columns(take_rows(data, positions), columns)

    def require_rows(self, data: Any) -> None:
        """Raise `UsageError` if data has another number of rows than the result has documents.

        Args:
            data: The data that was given to `dedup`.
        """
        if hasattr(data, "__len__") and len(data) != len(self):
            raise UsageError(
                f"the result is about {len(self)} documents, this data has {len(data)} rows: "
                "pass the data that was given to dedup"
            )

    @overload
    def why(self, id: Any = None, *, row: int | None = None, data: Any = None) -> Verdict: ...
    @overload
    def why(
        self,
        id: Any,
        other: Any,
        *,
        row: int | None = None,
        other_row: int | None = None,
        data: Any = None,
    ) -> PairVerdict: ...
    @overload
    def why(
        self,
        id: Any = None,
        other: Any = None,
        *,
        row: int | None = None,
        other_row: int,
        data: Any = None,
    ) -> PairVerdict: ...
    def why(
        self,
        id: Any = None,
        other: Any = None,
        *,
        row: int | None = None,
        other_row: int | None = None,
        data: Any = None,
    ) -> Verdict | PairVerdict:
        """Explain the decision about a document, or why two are duplicates of one another or not.

        Args:
            id: The id of the document; `UsageError` if several documents have it.
            other: The id of another document, to compare the two.
            row: The row number of the document, instead of its id.
            other_row: The row number of the other one, instead of its id.
            data: The data that was given to `dedup`, for the words in which a removed document
                and its witness differ, or the two documents.

        >>> import neardup
        >>> result = neardup.dedup(["the same", "The same!", "another text"])
        >>> print(result.why(1))  # doctest: +ELLIPSIS
        1 was removed: 1.0000 similar to 0, which was kept (exact Jaccard of word:5 shingles, ...
        >>> result.why(0, 2).verdict
        'never met'
        """
        row = self._row_of(id) if row is None else self._checked_row(row)
        if other is None and other_row is None:
            verdict = self._explain(row)
            if data is None or verdict.witness is None:
                return verdict
            found = self._differences(data, int(self._decisions.witness[row]), row)
            return replace(verdict, differences=tuple(starmap(TextDifference, found)))
        other_row = self._row_of(other) if other_row is None else self._checked_row(other_row)
        pair = self._explain_pair(row, other_row)
        if data is None or {row, other_row} & self._rejected.keys():
            return pair
        return ComparedPair(**pair.as_dict, differences=self._differences(data, row, other_row))

    def _differences(self, data: Any, row: int, other: int) -> tuple[tuple[str, str], ...]:
        from neardup.result_folder import find_differences

        return find_differences(self, data, row, other)

    def _explain(self, row: int) -> Verdict:
        name = self.ids[row]
        if row in self._rejected:
            return explain_rejected(name, self._rejected[row])
        if not self._decisions.kept[row]:
            removed = self._removed(row)
            return explain_removed(
                self.options,
                name,
                removed.witness,
                removed.similarity,
                removed.exact,
                removed.decision,
                removed.cosine,
            )
        copies = int(np.count_nonzero(self._decisions.witness == row))
        others = self._undistinguished
        if others is None or others.witness[row] < 0:
            return explain_kept(name, copies, self._decision_about(row))
        witness, similarity = self.ids[int(others.witness[row])], float(others.similarity[row])
        return explain_vetoed(self.options, name, copies, witness, similarity)

    def _explain_pair(self, a: int, b: int) -> PairVerdict:
        decided = [self._explain(row) for row in (a, b)]
        facts = PairFacts(0, self.options.hash_tables.count, None, True)
        if not {a, b} & self._rejected.keys():
            facts = self._compare(a, b)
        one, other = (
            DecidedDocument(
                verdict.id,
                verdict.verdict,
                verdict.witness if verdict.verdict == REMOVED else None,
                self._decision_about(row),
            )
            for row, verdict in zip((a, b), decided, strict=True)
        )
        return explain_pair(self.options, one, other, facts)

    def _decision_about(self, row: int) -> str | None:
        """Return what people decided about a document; of a removed one, what removed it."""
        if self.overrides is None:
            return None
        if self._decisions.kept[row]:
            return self.overrides.explain_kept(row)
        return self.overrides.explain(row, int(self._decisions.witness[row]))

    def _checked_row(self, row: int) -> int:
        if not isinstance(row, int) or not 0 <= row < len(self):
            raise UsageError(f"no row {row}: rows go from 0 to {len(self) - 1}")
        return row

    def summary(self) -> str:
        """Return the counts, the method, the largest clusters and some examples, as lines.

        >>> import neardup
        >>> print(neardup.dedup(["the same", "The same!"]).summary().splitlines()[0])
        2 documents   1 kept   1 removed (1 identical)   0 rejected
        """
        options = self.options
        lines = [
            format_counts(**self.counts),
            format_method(options, options.meeting.probability(options.threshold)),
            *format_second_signal(options),
        ]
        lines += format_by_signal(self.removed_by)
        if options.veto:
            lines.append(format_vetoed(len(self.vetoed), options))
        if self.overrides is not None:
            lines.append(format_decisions(self.overrides.described))
        lines += format_reading(options, len(self.ignored))
        if self._sources is not None:
            lines += format_sources(self._sources.stated)
        if self._decisions.undated:
            lines.append(format_undated(self._decisions.undated, options))
        if self.clusters:
            lines.append(
                format_largest_clusters([(repr(c.id), c.size - 1) for c in self.clusters[:3]])
            )
        lines += [
            format_example(
                options,
                repr(removed.id),
                repr(removed.witness),
                removed.decisive,
                removed.by == "vector",
            )
            for removed in [one for one in self.removed if one.cluster is not None][:3]
        ]
        reasons = Counter(self._rejected.values())
        lines += format_rejected(dict(reasons.most_common()), len(self._rejected))
        lines += map(format_advice, self.advice)
        return "\n".join(lines)

    def to_arrow(self) -> pa.Table:
        """Return all decisions as an Arrow table, one row for each document, in input order.

        Its columns are `id`, `decision` (`kept`, `removed` or `rejected`), `witness` and
        `similarity` of removed documents, `cluster` (the row of the kept document) and `reason` of
        rejected ones and of those that people removed. Ids have the type of their column; ids of
        several types become strings.

        >>> import neardup
        >>> table = neardup.dedup(["the same", "The same!", ""]).to_arrow()
        >>> table["decision"].to_pylist(), table["witness"].to_pylist()
        (['kept', 'removed', 'rejected'], [None, 0, None])
        """
        from neardup.result_table import decisions_table

        reasons = dict(self._rejected)
        if self.overrides is not None:
            reasons |= self._decided_removals()
        return decisions_table(self.ids, self._decisions, reasons)

    def _decided_removals(self) -> Iterator[tuple[int, str]]:
        """Yield the rows that are removed because of decisions, each with these."""
        assert self.overrides is not None  # noqa: S101
        for row in self.overrides.documents.tolist():
            witness = int(self._decisions.witness[row])
            removed = witness >= 0 or witness == DROPPED
            if removed and (said := self.overrides.explain(row, witness)):
                yield row, said

    def to_pandas(self) -> pd.DataFrame:
        """Return all decisions as a pandas DataFrame, with the columns of `to_arrow`."""
        from neardup.corpus.frames import to_pandas

        return to_pandas(self.to_arrow())

    def to_polars(self) -> pl.DataFrame:
        """Return all decisions as a Polars DataFrame, with the columns of `to_arrow`."""
        from neardup.corpus.frames import to_polars

        return to_polars(self.to_arrow())

    def save(
        self, folder: str | os.PathLike[str], data: Any = None, *, force: bool = False
    ) -> None:
        """Write the tables, run.json and report.html of a run over files, without the kept rows.

        Args:
            folder: The folder to write.
            data: The data that was given to `dedup`, to show texts in the report.
            force: Replace a finished run in the folder; other files there are kept.
        """
        from neardup.result_folder import save_result

        save_result(self, folder, data, force)

    def report(self, path: str | os.PathLike[str], data: Any = None) -> None:
        """Write the report as one HTML page, which needs no network.

        Args:
            path: The file to write.
            data: The data that was given to `dedup`, to show texts side by side.
        """
        from neardup.result_folder import write_result_report

        write_result_report(self, path, data)

    def _row_of(self, id: Any) -> int:
        rows = self._rows.get(_key(id), [])
        if not rows:
            near = get_close_matches(str(id), map(str, self.ids), 3, 0.6)
            hint = f"did you mean {' or '.join(map(repr, near))}? Or " if near else ""
            raise UsageError(f"no document has the id {id!r}: {hint}ask by row, why(row=...)")
        if len(rows) > 1:
            raise UsageError(
                f"{len(rows)} documents have the id {id!r}, rows {rows[:5]}: ask why(row=...)"
            )
        return rows[0]

    @cached_property
    def _rows(self) -> dict[Any, list[int]]:
        rows: dict[Any, list[int]] = {}
        for row, name in enumerate(self.ids):
            rows.setdefault(_key(name), []).append(row)
        return rows

    @property
    def removed_by(self) -> dict[str, int] | None:
        """How many documents each of two signals removed; None without two."""
        cosines, removed = self._decisions.cosine, self._decisions.removed
        if cosines is None:
            return None
        known = removed[self._decisions.witness[removed] >= 0]
        found = Counter(
            name_signals(self.options, self._decisions.similarity[known], cosines[known])
        )
        return {name: found[name] for name in SIGNAL_NAMES}

    def _removed(self, row: int) -> Removed:
        witness = int(self._decisions.witness[row])
        similarity, cosines = float(self._decisions.similarity[row]), self._decisions.cosine
        cosine, by = None, None
        if cosines is not None and witness >= 0:
            cosine = _known(cosines[row])
            by = name_signals(self.options, np.array([similarity]), cosines[[row]])[0]
        return Removed(
            self.ids[row],
            self.ids[witness] if witness >= 0 else None,
            similarity,
            bool(self._decisions.exact[row]),
            int(self._decisions.cluster[row]) if witness >= 0 else None,
            self._decision_about(row),
            cosine,
            by,
        )

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of documents, kept, removed, identical and rejected ones."""
        return {
            "documents": len(self),
            "kept": len(self.kept_rows),
            "removed": len(self._decisions.removed),
            "identical": self._decisions.identical,
            "rejected": len(self._rejected),
        }

    def __repr__(self) -> str:
        return f"Result({describe_counts(self.counts)})"

    def _repr_html_(self) -> str:
        rows = [
            (shorten_id(cluster.id), f"{cluster.size:,}", _list_copies(cluster))
            for cluster in self.clusters[:SHOWN_CLUSTERS]
        ]
        label = "the largest clusters" if len(self.clusters) > SHOWN_CLUSTERS else "clusters"
        return f"<p>{escape(repr(self))}</p>" + html_table(
            label, ("kept document", "documents", "removed"), rows
        )


def _known(number: float) -> float | None:
    """Return a number, None for NaN."""
    return None if np.isnan(number) else float(number)


def list_ids(batches: Iterable[pa.Array | list[Any]]) -> list[Any]:
    """Return the ids of all documents; the row number where a document has none.

    Args:
        batches: The ids, batch after batch; null where a document has none.
    """
    values = (
        value
        for batch in batches
        for value in (batch if isinstance(batch, list) else batch.to_pylist())
    )
    return [row if value is None else value for row, value in enumerate(values)]


def _list_copies(cluster: Cluster) -> str:
    """Return the first removed documents of a cluster, and how many there are besides."""
    shown = [shorten_id(id) for id in cluster.copies[:SHOWN_COPIES]]
    more = len(cluster.copies) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _key(id: Any) -> Any:
    """Return the dictionary key of an id: True is not 1, and a list can be looked up too."""
    return type(id), id if id.__hash__ is not None else repr(id)
