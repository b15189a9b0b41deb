"""tuning.html: the recommended operating point with its reasons, the plots, and every trial."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from neardup.formatting import format_duration, format_number, format_similarity
from neardup.planner.label_choice import LabelChoice
from neardup.planner.shingle_comparison import (
    PairExample,
    ShingleComparison,
    ShingleDifference,
)
from neardup.planner.tuning import FAILED, TIMEOUT, TrialOutcome, TrialPoint, Tuning
from neardup.report import plots, sweep_plots
from neardup.report.differences import side_by_side
from neardup.report.html import Html, join, make_page, name, note, pairs, table, tag
from neardup.report.plots import CurveExplorer
from neardup.report.sweep_plots import Tints, curve_of

THINGS: Final = "pairs of the sample"
POINT: Final[Mapping[str, Callable[[TrialPoint], str]]] = {
    "sketch": lambda point: point.sketch,
    "shingle": lambda point: point.shingle,
    "hashes": lambda point: f"{point.slots:,}",
    "bits": lambda point: str(point.bits),
    "bands": lambda point: _optional(point.bands),
    "rows": lambda point: _optional(point.rows),
    "threshold": lambda point: f"{point.threshold:g}",
    "verify": lambda point: point.verify,
    "seed": lambda point: str(point.seed),
    "buckets": lambda point: _optional(point.buckets),
    "shingles": lambda point: _optional(point.vocabulary),
}
ALWAYS: Final = {"hashes", "bands", "rows"}
"""Columns that are shown even if all trials have the same value."""
FIGURES: Final[Mapping[str, Callable[[TrialOutcome], str]]] = {
    "t_sig s": lambda row: f"{row.t_sig:.4f}",
    "t_rest s": lambda row: f"{row.t_rest:.4f}",
    "all s": lambda row: format_number(row.t_all),
    "bucket": lambda row: f"{row.average_bucket:.2f}",
    "candidates": lambda row: f"{row.candidates:,}",
    "pairs": lambda row: f"{row.pairs:,}",
    "recall": lambda row: _share(row.recall),
    "precision": lambda row: _share(row.precision),
    "MB": lambda row: f"{row.memory / 1e6:.2f}",
}
MEANING: Final = (
    "t_sig: seconds of one core from text to signatures; t_rest: for all later steps, both for "
    "the sample; all: an estimate for all documents. bucket: mean number of documents in a bucket. "
    "Candidates are the pairs of the sample that were compared, pairs those found similar; "
    "recall and precision are measured against all pairs of the sample, compared exactly. A trial "
    "without figures reached its time limit, or failed."
)


def tuning_page(tuning: Tuning) -> Html:
    """Return the complete page."""
    parts = dict(_parts(tuning))
    links = (tag("a", title, href=f"#part-{n}") for n, title in enumerate(parts))
    sections = (
        tag("section", tag("h2", title), content, id=f"part-{n}")
        for n, (title, content) in enumerate(parts.items())
    )
    return make_page(
        "neardup: tuning",
        _head(tuning),
        tag("nav", *links, aria_label="Contents"),
        *sections,
        script=plots.explorer_script() if _explored(tuning) else None,
    )


def _head(tuning: Tuning) -> Html:
    """Return the recommendation, its reasons and its figures."""
    best, everything = tuning.best, f"all {tuning.documents:,} documents"
    warning = "It does not reach the required recall and precision."
    missed = [tag("p", warning, class_="missed")] if tuning.met is False else []
    tiles = [
        ("recall", _share(best.recall) if best.done else "", "kept"),
        ("precision", _share(best.precision) if best.done else "", "kept"),
        (f"of one core, {everything}", format_duration(best.t_all) if best.done else "", "near"),
        (
            f"pairs compared, {everything}",
            format_number(best.all_candidates) if best.done else "",
            "near",
        ),
    ]
    return tag(
        "header",
        tag("p", "neardup tune", class_="brand"),
        tag("h1", tuning.advice),
        *missed,
        *(tag("p", reason) for reason in tuning.reasons),
        tag(
            "dl",
            *(
                tag("div", tag("dt", term), tag("dd", value or "—"), class_=f"tile {kind}")
                for term, value, kind in tiles
            ),
            class_="tiles",
        ),
        note(_about(tuning)),
    )


def _about(tuning: Tuning) -> str:
    """Return what was tried, and on which sample."""
    reference, count = tuning.reference, tuning.true_pairs
    trials = "1 trial" if len(tuning.rows) == 1 else f"{len(tuning.rows):,} trials"
    similar = {0: "no pair is", 1: "1 pair is"}.get(count, f"{count:,} pairs are")
    copies = f"; {tuning.copies:,} identical ones are left out" if tuning.copies else ""
    return (
        f"{tuning.about}{copies}. Of the other {tuning.sampled:,}, {similar} at least "
        f"{reference.threshold:g} similar ({reference.shingle} shingles, every pair compared). "
        f"{trials}; required: a recall of {tuning.recall:g} and a precision of "
        f"{tuning.precision:g}. The default is the operating point for that recall."
    )


def _parts(tuning: Tuning) -> Iterator[tuple[str, Html]]:
    points = [row.point for row in tuning.rows]
    tints, at, counts = Tints(points), tuning.reference.threshold, tuning.truth.histogram()
    if tuning.labels is not None:
        yield "By labels", _labels(tuning.labels)
    yield (
        "Recall against cost",
        _figure(
            sweep_plots.recall_by_cost(tuning.rows, tuning.best, tints),
            "No trial has a recall: there is nothing to plot.",
            "Each ring is a trial. No trial is both cheaper and has a higher recall than those on "
            "the line; the recommended one is marked.",
            tints,
        ),
    )
    if tuning.comparison is not None:
        yield "Shingles compared", _comparison(tuning.comparison)
    if explorer := _explored(tuning):
        caption = (
            "The line is the probability that two documents of a similarity share a bucket. The "
            f"bars are the pairs of the sample that are at least {tuning.truth.floor:g} similar."
        )
        yield "Other bands", explorer.shown(caption)
    yield (
        "S-curves",
        _figure(
            sweep_plots.s_curves(points, tuning.best.point, at, counts, tints),
            "",
            "The bands that were tried, the recommended ones in bold.",
            tints,
        ),
    )
    yield (
        "False positives and false negatives",
        _figure(
            sweep_plots.rates(points, at, tints),
            "No trial has bands: there are no rates to plot.",
            f"Dashed: the mean chance to share a bucket below {at:g}. Dotted: the mean chance to "
            "be missed from there on. Rings are trials.",
            tints,
        ),
    )
    yield (
        "Sizes of buckets",
        _figure(
            sweep_plots.bucket_sizes(_series(tuning)),
            "No trial finished: there are no buckets to count.",
            "Buckets of all bands together.",
        ),
    )
    yield "Every trial", join([_trials(tuning), note(MEANING), *_settings(tuning)])


def _labels(labels: LabelChoice) -> Html:
    """Return what labels chose, and the held-out figures of each shingle."""
    heads = ("shingle", "threshold", "as good", "recall", "precision", "F1")
    rows = (
        (
            one.shingle,
            f"{one.threshold:g}",
            f"{one.as_good[0]:g} to {one.as_good[1]:g}",
            str(one.held_out.recall),
            str(one.held_out.precision),
            str(one.held_out.f1),
        )
        for one in labels.tried
    )
    figures = [table("Shingles by held-out labels", heads, rows)] if labels.tried else []
    return join([*(tag("p", line) for line in labels.sentences()), *figures])


def _comparison(comparison: ShingleComparison) -> Html:
    """Return how many pairs each shingle finds, and examples that others miss, side by side."""
    rows = ((str(point), f"{pairs:,}") for point, pairs in comparison.found.items())
    parts = [
        note(
            f"All pairs of {comparison.documents:,} documents, found by each shingle at its own "
            "threshold, without bands. The other figures of this page take the pairs of the first "
            "one as the truth, and can't tell whether it is the right one: these examples can."
        ),
        table("Shingles compared", ("shingle", "pairs"), rows, {"pairs"}),
    ]
    for one in comparison.differences:
        parts.append(tag("h3", f"{one.pairs:,} found by {one.finds}, and not by {one.misses}"))
        parts += (_example(one, pair, at == 0) for at, pair in enumerate(one.examples))
    return join(parts)


def _example(one: ShingleDifference, pair: PairExample, unfolded: bool) -> Html:
    judged = (
        f"{format_similarity(pair.similarity)} by {one.finds.shingle}, "
        f"{format_similarity(pair.other_similarity)} by "
        f"{one.misses.shingle}: "
    )
    summary = tag("summary", judged, name(pair.a), " and ", name(pair.b))
    return tag("details", summary, *side_by_side(*pair.texts, ("one", "other")), open=unfolded)


def _figure(plot: Html | None, instead: str, caption: str, tints: Tints | None = None) -> Html:
    """Return a plot with its legend and caption, or the note `instead` if there is no plot."""
    if plot is None:
        return note(instead)
    legend = [tints.legend()] if tints else []
    return tag("figure", plot, *legend, tag("figcaption", caption), class_="narrow")


def _explored(tuning: Tuning) -> CurveExplorer | None:
    """Return sliders that begin at the recommended bands, or else at the reference."""
    for point in (tuning.best.point, tuning.reference):
        if curve := curve_of(point):
            counts = tuning.truth.histogram()
            return CurveExplorer(curve, tuning.reference.threshold, counts, THINGS, point.slots)
    return None


def _series(tuning: Tuning) -> list[tuple[str, Mapping[int, int]]]:
    best, default = tuning.best, tuning.default
    series = [(f"recommended: {best.point}", best.bucket_sizes)]
    if default.point != best.point:
        series.append((f"default: {default.point}", default.bucket_sizes))
    return series


def _trials(tuning: Tuning) -> Html:
    """Return a table with a row for each trial, the cheapest first."""
    points = [row.point for row in tuning.rows]
    varied = {
        name: cell
        for name, cell in POINT.items()
        if name in ALWAYS or len({cell(point) for point in points}) > 1
    }
    columns = ("", *varied, *FIGURES)
    rows = (
        (
            _remark(row, tuning),
            *(cell(row.point) for cell in varied.values()),
            *(cell(row) if row.done else "—" for cell in FIGURES.values()),
        )
        for row in tuning.ordered
    )
    return table(
        "Every trial",
        columns,
        rows,
        {"hashes", "bits", "bands", "rows", "threshold", "seed", "buckets", "shingles", *FIGURES},
    )


def _remark(row: TrialOutcome, tuning: Tuning) -> Html:
    """Return the remarks on a trial: failed, default, recommended."""
    words = {TIMEOUT: "timed out", FAILED: f"failed: {row.error}"}
    remarks = [words[row.status]] if row.status in words else []
    if row is tuning.default:
        remarks.append("default")
    if row.done and row.point == tuning.best.point:
        remarks.append("recommended")
    return join(tag("span", remark, class_="badge") for remark in remarks)


def _settings(tuning: Tuning) -> Iterator[Html]:
    """Yield the options of the recommended operating point, and the combinations left out."""
    yield tag("h3", "The operating point")
    yield pairs((name, str(value)) for name, value in tuning.options.items())
    if tuning.pruned:
        yield tag("h3", "Combinations that were not tried")
        yield pairs((why, f"{many:,}") for why, many in tuning.pruned.items())


def _optional(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _share(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"
