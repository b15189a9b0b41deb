"""The sections of report.html, except the clusters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.folders import describe_reasons
from neardup.formatting import format_bytes, format_count, format_similarity
from neardup.lsh.curve import Curve, Meeting
from neardup.measure_table import CHOICES, exact_measure
from neardup.report import plots
from neardup.report.html import Html, document, join, name, note, pairs, shorten, table, tag
from neardup.report.plots import CurveExplorer
from neardup.report.run_folder import (
    CutCounts,
    InputRecord,
    ReportedBucket,
    ReportedCounts,
    ReportedSources,
    Row,
    RunRecord,
    ScriptCounts,
)
from neardup.source_counts import SourceCounts, name_source

TITLES: Final = {
    "similarity": "Similarity",
    "sources": "By source",
    "cut": "Cut passages",
    "vetoed": "Vetoed",
    "decisions": "Decisions",
    "clusters": "Clusters",
    "buckets": "Hot buckets",
    "rejected": "Rejected",
    "resources": "Time and memory",
    "settings": "Specification and inputs",
}


def section(anchor: str, *content: str) -> Html:
    """Return a section of the page, with its title."""
    return tag("section", tag("h2", TITLES[anchor]), *content, id=anchor)


def contents(anchors: Iterable[str]) -> Html:
    """Return links to the sections of the page."""
    links = (tag("a", TITLES[anchor], href=f"#{anchor}") for anchor in anchors)
    return tag("nav", *links, aria_label="Contents")


MOST_ROWS: Final = 100
OPEN_ROWS: Final = 10
SAMPLED_IDS: Final = 3

METRICS: Final = {
    "buckets": ("buckets", ",.0f"),
    "bucket_size_p99": ("bucket size, 99th percentile", ",.0f"),
    "candidates": ("candidate pairs", ",.0f"),
    "candidate_pairs_per_doc": ("candidate pairs per document", ",.2f"),
    "verify_drop_rate": ("of these, not similar enough", ".1%"),
}


@dataclass(frozen=True)
class Removals:
    """The removed documents of a run.

    Attributes:
        similarities: the number of documents in each bin of `SIMILARITIES`, by the similarity to
            the witness.
        closest: the documents that are least similar to their witness; with two signals those that
            are nearest to the thresholds of both.
        by: with two signals, how many were removed by each.
        cosines: with two signals, the same as `similarities` by the cosine to the witness.
    """

    similarities: NDArray[np.int64]
    closest: list[Row]
    by: Mapping[str, int] = field(default_factory=dict)
    cosines: NDArray[np.int64] | None = None


def overview(record: RunRecord, anchors: Iterable[str]) -> Html:
    """Return the head of the page: the counts, the rule of removal, links to the sections."""
    parts = counted_parts(record)
    return tag(
        "header",
        tag("p", "neardup report", class_="brand"),
        tag("h1", headline(record)),
        plots.shares([(kind, count) for kind, _, count in parts]),
        tiles(counted_parts(record)),
        *rule(record),
        *_by_earlier(record.counts),
        *(note(f"Advice: {advice}") for advice in record.advice[:MOST_ROWS]),
        contents(anchors),
    )


def counted_parts(record: RunRecord) -> list[tuple[str, str, int]]:
    """Return what became of the documents of a run: CSS class, name and count of each part.

    Args:
        record: The run.
    """
    counts = record.counts
    removed = [
        ("near", "removed, near-duplicates", counts.removed - counts.identical),
        ("identical", "removed, identical", counts.identical),
    ]
    if record.is_exact:
        removed = [("identical", "removed", counts.removed)]
    return [("kept", "kept", counts.kept), *removed, ("rejected", "rejected", counts.rejected)]


def tiles(parts: Sequence[tuple[str, str, int]]) -> Html:
    """Return counts, each with its share of all.

    Args:
        parts: CSS class, name and count of each part, as `counted_parts` has them.
    """
    total = sum(count for _, _, count in parts)
    shown = (
        _tile(label, f"{count:,}", kind, f"{count / total:.1%}" if total else "")
        for kind, label, count in parts
    )
    return tag("dl", *shown, class_="tiles")


def _by_earlier(counts: ReportedCounts) -> Iterator[Html]:
    """Yield how many were removed because of the earlier corpus, if there was one."""
    if counts.removed_by_earlier is not None:
        within = counts.removed - counts.removed_by_earlier
        yield tag(
            "p",
            f"Of the removed, {counts.removed_by_earlier:,} because of the earlier corpus, "
            f"{within:,} within the new documents.",
        )


def _tile(label: str, value: str, kind: str = "", detail: str = "") -> Html:
    shown = [value, " ", tag("small", detail)] if detail else [value]
    return tag("div", tag("dt", label), tag("dd", *shown), class_=f"tile {kind}")


def headline(record: RunRecord) -> str:
    """Return what a run has found, in one sentence.

    Args:
        record: The run.
    """
    counts, cut = record.counts, record.cut
    if cut is not None:
        return f"{cut.cut:,} of {cut.found:,} {record.spec.get('unit', 'part')}s were cut"
    if not counts.removed:
        return f"No duplicate among {format_count(counts.documents, 'document')}"
    verb = "was removed as a duplicate" if counts.removed == 1 else "were removed as duplicates"
    return f"{counts.removed:,} of {format_count(counts.documents, 'document')} {verb}"


def rule(record: RunRecord) -> Iterator[Html]:
    """Yield the rule by which documents were removed, if run.json contains it.

    Args:
        record: The run.
    """
    given, spec = record.parameters, record.spec
    if record.is_exact:
        rule_of_filter = _filter_rule(given.get("filter"))
        yield tag("p", _exact_rule(spec) + rule_of_filter + _leaders_rule(record))
        return
    if record.threshold is None or "unit" not in spec or "size" not in spec:
        return
    judged = "estimated" if given.get("verify") == "estimate" else "exact"
    similar = f"is at least {record.threshold:g} similar to"
    shingle = shorten(f"{spec['unit']}:{spec['size']}")
    # Earlier runs did not record the measure.
    name_of_measure = given["measure"] if given.get("measure") in CHOICES else CHOICES[0]
    measure = exact_measure(name_of_measure, spec.get("sketch", ""))
    how = f"{judged} {measure.label} of {shingle} shingles"
    if "vectors" in given:
        how = _rule_of_vectors(given, how)
    if "hamming" in given and given.get("verify") == "estimate":
        how = (
            f"{shorten(given['hamming'])} or fewer of {shorten(spec['slots'])} bits differ, "
            f"SimHash of {shingle} shingles"
        )
    if given.get("verify") == "none":
        similar, how = "shares a bucket with", "not verified"
    if given.get("cluster") == "components":
        decided = (
            f"A document was merged with each one that it {similar} ({how}), chains included; "
            "the best of each component was kept."
        )
    else:
        decided = (
            f"A document was removed if it {similar} a better one that was kept ({how}). "
            "No document was removed as the copy of one that was itself removed."
        )
    yield tag("p", decided + _leaders_rule(record))


def _rule_of_vectors(given: Mapping[str, str], of_texts: str) -> str:
    """Return how documents were compared by vectors, alone or besides their texts."""
    column, least = shorten(repr(given["vectors"])), shorten(given["cosine"])
    if given["role"] == "alone":
        return f"exact cosine of the vectors in {column}"
    if given["role"] == "also":
        return f"{of_texts}; or a cosine of the vectors in {column} of at least {least}"
    return f"{of_texts}; unless the cosine of the vectors in {column} is below {least}"


def keeps_none(record: RunRecord) -> bool:
    """Return whether of similar documents none was kept.

    Args:
        record: The run.
    """
    return record.parameters.get("keep") == "none"


def _leaders_rule(record: RunRecord) -> str:
    """Return what became of the documents that would have been kept for others."""
    if not keeps_none(record):
        return ""
    return (
        " Then those that others were removed for were removed as well: of each cluster nothing is "
        "kept."
    )


def _exact_rule(spec: dict[str, str]) -> str:
    same = "byte for byte the same as" if spec["by"] == "text" else "word for word the same as"
    if spec.get("unit") == "document":
        return f"A document was removed if it is {same} a better one, which was kept."
    return (
        f"A {spec.get('unit', 'part')} was cut if it is {same} one before it, in rank order. "
        "A document without any visible character left was removed."
    )


def _filter_rule(kind: str | None) -> str:
    if kind not in ("bloom", "cuckoo"):
        return ""
    return (
        f" Copies were looked up in a {kind} filter: a few of the removed documents are no copies, "
        "and no witness is known."
    )


def cut(counts: CutCounts, unit: str, most: Sequence[Row]) -> Html:
    """Return the section about cut paragraphs or lines.

    Args:
        counts: what was cut, in all documents.
        unit: paragraph or line.
        most: the documents that lost the most bytes.
    """
    shown = [
        (f"{unit}s", f"{counts.found:,}"),
        ("too short to be cut", f"{counts.short:,}"),
        ("cut", f"{counts.cut:,}"),
        ("bytes cut", _size(counts.bytes)),
        ("documents kept, but shorter", f"{counts.shorter:,}"),
    ]
    rows = (
        (_size(row["bytes"]), f"{row['units']:,}", document(row["id"], row["file"], row["row"]))
        for row in most
    )
    lost = table("Documents", ("lost", f"{unit}s", "document"), rows, {"lost", f"{unit}s"})
    title = tag("h3", "The documents that lost most")
    return section("cut", pairs(shown), *((title, lost) if most else ()))


def candidates(record: RunRecord, removals: Removals) -> Html:
    """Return the section with the S-curve, the counts of candidates and the closest decisions."""
    shown = [
        (label, format(record.metrics[key], style))
        for key, (label, style) in METRICS.items()
        if key in record.metrics
    ]
    shown.append(("comparisons", f"{record.counts.comparisons:,}"))
    shown += _by_signals(record, removals.by)
    if record.curve is None or record.threshold is None:
        return section(
            "similarity",
            note("run.json does not contain the bands of this run."),
            pairs(shown),
            *_closest(removals),
            *by_script(record.scripts),
        )
    curve, recall = record.curve, record.curve.probability(record.threshold)
    shown = [
        ("bands", str(curve)),
        (f"predicted recall at the threshold{curve.condition}", f"{recall:.4f}"),
        *shown,
    ]
    plot = _curve(record, curve, record.threshold, removals.similarities)
    return section(
        "similarity",
        tag("div", plot, pairs(shown), class_="wide-narrow"),
        *_cosine_curve(record, removals.cosines),
        *_closest(removals),
        *by_script(record.scripts),
    )


SIGNALS: Final = {
    "text": "removed because of the texts alone",
    "vector": "removed because of the vectors alone",
    "both": "removed because of both",
    "copy": "removed as identical",
}
"""The column `by` in words."""


def _by_signals(record: RunRecord, by: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yield what vectors found beside texts; nothing without them."""
    signal = record.vectors
    if signal is None or not record.has_two_signals:
        return
    if signal.finds:
        recall = signal.meeting.probability(signal.threshold)
        yield "bands of vectors", str(signal.meeting)
        yield f"predicted recall at cosine {signal.threshold:g}", f"{recall:.4f}"
    yield from ((words, f"{by[name]:,}") for name, words in SIGNALS.items() if by.get(name))


def _cosine_curve(record: RunRecord, cosines: NDArray[np.int64] | None) -> Iterator[Html]:
    """Yield the curve by which vectors find candidates beside the texts, if they do."""
    signal = record.vectors
    if signal is None or not record.has_two_signals or not signal.finds or cosines is None:
        return
    caption = (
        "Beside the texts, the line is the probability that two vectors of a cosine share a band "
        "of planes. The bars count the removed documents by the cosine to the kept one, where it "
        "was computed: not of identical documents."
    )
    image = plots.s_curve(signal.meeting, signal.threshold, cosines, "removed documents", "cosine")
    half = pairs([("cosine at which half are found", f"{signal.meeting.half:.3f}")])
    figure = tag("figure", image, tag("figcaption", caption))
    yield tag("h3", "By the vectors")
    yield tag("div", figure, half, class_="wide-narrow")


def _curve(record: RunRecord, curve: Meeting, at: float, similarities: NDArray[np.int64]) -> Html:
    """Return the S-curve, with sliders if it has bands of rows."""
    caption = (
        "The line is the probability that two documents of a similarity share a bucket; only then "
        "are they compared. The bars count the removed documents by their similarity to the kept "
        "one; those with a similarity of exactly 1 are shown to the right of the plot."
    )
    things = "removed documents"
    if has_explorer(record) and isinstance(curve, Curve):
        slots = record.spec.get("slots", "")
        known = int(slots) if slots.isdecimal() else None
        return CurveExplorer(curve, at, similarities, things, known).shown(caption)
    half = pairs([("similarity at which half are found", f"{curve.half:.3f}")])
    image = plots.s_curve(curve, at, similarities, things)
    return tag("div", tag("figure", image, tag("figcaption", caption)), half)


def has_explorer(record: RunRecord) -> bool:
    """Return whether the S-curve has sliders: only b bands of r rows have."""
    at = record.threshold
    return isinstance(record.curve, Curve) and at is not None and 0.0 < at <= 1.0


def _closest(removals: Removals) -> Iterator[Html]:
    """Yield the removed documents that are least similar to their witness."""
    if not removals.closest:
        return
    yield tag("h3", "The closest decisions")
    nearest = "least similar to the document kept in their place"
    if removals.by:
        nearest = "nearest to the thresholds of both signals"
    yield note(f"The removed documents that are {nearest}.")
    cosines = ("cosine",) if removals.by else ()
    rows = (
        (
            format_similarity(row["similarity"]),
            *("" if row[name] is None else format_similarity(row[name]) for name in cosines),
            document(row["id"], row["file"], row["row"]),
            document(row["witness"], row["witness_file"], row["witness_row"]),
        )
        for row in removals.closest
    )
    heads = ("similarity", *cosines, "removed", "kept")
    yield table("The closest decisions", heads, rows, {"similarity", *cosines})


def by_script(scripts: Sequence[ScriptCounts]) -> Iterator[Html]:
    """Yield what became of sampled documents, by the script that they are written in.

    Args:
        scripts: The scripts; none if all documents have the same.
    """
    if not scripts:
        return
    yield tag("h3", "By script")
    yield note(
        f"{sum(one.documents for one in scripts):,} documents from all over the inputs, by the "
        "script of most of their letters. A threshold means something else in each: "
        "a changed letter changes a word, in Chinese and Japanese only a character."
    )
    rows = (
        (
            name(one.script),
            f"{one.documents:,}",
            f"{one.kept:,}",
            f"{one.removed:,}",
            "—" if one.similarity is None else format_similarity(one.similarity),
        )
        for one in scripts
    )
    heads = ("script", "documents", "kept", "removed", "median similarity of these")
    yield table("By script", heads, rows, set(heads[1:]))


def by_source(sources: ReportedSources) -> Html:
    """Return the section about how much of each source was removed."""
    what = "input file, or folder of texts"
    if sources.column is not None:
        what = f"value of {shorten(sources.column)}"
    rows = [_source_row(name(name_source(one.source)), one) for one in sources.listed]
    if sources.others is not None:
        count = sources.count - len(sources.listed)
        rows.append(_source_row(tag("em", f"{count:,} others together"), sources.others))
    heads = ("source", "documents", "kept", "removed", "share", "how much is gone")
    return section(
        "sources",
        note(f"The documents of each {what}, those first that lost most."),
        table(TITLES["sources"], heads, rows, set(heads[1:5])),
    )


def _source_row(shown: str, counts: SourceCounts) -> tuple[str, ...]:
    return (
        shown,
        f"{counts.documents:,}",
        f"{counts.kept:,}",
        f"{counts.removed:,}",
        f"{counts.share:.1%}",
        plots.bar(counts.share),
    )


def hot_buckets(buckets: Sequence[ReportedBucket]) -> Html:
    """Return the section about the largest buckets."""
    if not buckets:
        none = note("No bucket exceeded the limit: all of its documents were compared.")
        return section("buckets", none)
    rows = (
        (
            f"{bucket.size:,}",
            f"{bucket.not_compared:,}",
            join(tag("div", name(id)) for id in bucket.sample[:SAMPLED_IDS]),
            str(bucket.band),
            tag("code", name(bucket.key)),
        )
        for bucket in buckets[:OPEN_ROWS]
    )
    return section(
        "buckets",
        note(
            "The largest buckets, often of a template or of pages without content. Only the first "
            "kept documents of a bucket are compared with the others."
        ),
        table(
            "Hot buckets",
            ("documents", "not compared", "examples", "band", "key"),
            rows,
            {"documents", "not compared", "band"},
        ),
        *_more(len(buckets) - OPEN_ROWS),
    )


def rejected(record: RunRecord, examples: Sequence[Row]) -> Html:
    """Return the section about rejected documents, bad files, and files that were left out."""
    parts: list[Html] = []
    if record.counts.rejected:
        reasons = list(record.reasons.items())[:MOST_ROWS]
        if (others := record.counts.rejected - sum(count for _, count in reasons)) > 0:
            reasons.append(("other reasons", others))
        parts.append(
            table(
                "Reasons",
                ("documents", "reason"),
                ((f"{count:,}", name(reason)) for reason, count in reasons),
                {"documents"},
            )
        )
        listed = ((document(r["id"], r["file"], r["row"]), name(r["reason"])) for r in examples)
        parts.append(tag("h3", "The first rejected documents"))
        parts.append(table("Rejected documents", ("document", "reason"), listed))
    else:
        parts.append(note("Every document could be compared."))
    if record.not_documents:
        counted = [(f"{count:,}", name(what)) for what, count in record.not_documents.items()]
        parts.append(tag("h3", "Parts of files that are no documents"))
        parts.append(
            table("Parts of files that are no documents", ("parts", "kind"), counted, {"parts"})
        )
    if record.skipped:
        files = ((name(file), name(reason)) for file, reason in record.skipped)
        parts.append(tag("h3", "Bad files that were skipped"))
        parts.append(_folded("Bad files that were skipped", ("file", "reason"), list(files)))
    if unread := record.unread.count:
        first = ((name(file), name(reason)) for file, reason in record.unread.listed)
        parts.append(tag("h3", "Files that were left out"))
        why = describe_reasons(record.unread.reasons, record.unread.listed)
        parts.append(note(f"{unread:,} not read: {why}."))
        parts.append(_folded("Files that were left out", ("file", "reason"), list(first)))
        if (more := unread - len(record.unread.listed)) > 0:
            parts.append(note(f"{more:,} more are counted, and not listed."))
    return section("rejected", *parts)


def resources(record: RunRecord) -> Html:
    """Return the section about time and memory, by stage."""
    total = record.seconds or sum(stage.seconds for stage in record.stages)
    rows = (
        (
            name(stage.name),
            f"{stage.seconds:,.2f} s",
            plots.bar(stage.seconds / (total or 1)),
            _size(stage.peak_memory),
        )
        for stage in record.stages[:MOST_ROWS]
    )
    totals = [("total", f"{total:,.2f} s"), ("peak memory", _size(record.peak_memory))]
    if record.memory_budget is not None:
        totals.append(("memory budget", _size(record.memory_budget)))
    if total and record.counts.documents:
        totals.append(("documents per second", f"{record.counts.documents / total:,.0f}"))
    return section(
        "resources",
        tag("dl", *(_tile(label, value) for label, value in totals), class_="tiles"),
        table(
            "Stages",
            ("stage", "time", "share of the total", "peak memory"),
            rows,
            {"time", "peak memory"},
        ),
    )


def _size(count: int | None) -> str:
    return "—" if count is None else format_bytes(count)


def settings(record: RunRecord) -> Html:
    """Return the section with everything that the answer depends on."""
    named = [
        ("fingerprint", tag("code", name(record.fingerprint))),
        ("version of neardup", name(record.version)),
    ]
    return section(
        "settings",
        pairs(named),
        tag(
            "div",
            tag("div", tag("h3", "Specification"), pairs(_named(record.spec))),
            tag("div", tag("h3", "Parameters"), pairs(_named(record.parameters))),
            class_="halves",
        ),
        tag("h3", "Inputs"),
        _inputs(record.inputs),
    )


def _named(values: dict[str, str]) -> Iterable[tuple[str, str]]:
    shown = islice(values.items(), MOST_ROWS)
    return ((name(key.replace("_", " ")), name(value)) for key, value in shown)


def _inputs(inputs: Sequence[InputRecord]) -> Html:
    rows = [
        (name(file.file), f"{file.documents:,}", _size(file.size), tag("code", name(file.digest)))
        for file in inputs
    ]
    return _folded("Inputs", ("file", "documents", "size", "XXH3"), rows, {"documents", "size"})


def _folded(
    label: str, columns: Sequence[str], rows: Sequence[Sequence[str]], numeric: Iterable[str] = ()
) -> Html:
    """Return a table of at most MOST_ROWS rows, folded if it has more than OPEN_ROWS."""
    shown = join(
        [table(label, columns, rows[:MOST_ROWS], set(numeric)), *_more(len(rows) - MOST_ROWS)]
    )
    if len(rows) <= OPEN_ROWS:
        return shown
    return tag("details", tag("summary", f"{label}: {len(rows):,}"), shown)


def _more(count: int) -> Iterator[Html]:
    if count > 0:
        yield note(f"{count:,} more are in run.json.")
