"""How does an evaluation look? One page: figures, curves, the worst cases side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from neardup.evaluate.golden import SEVERAL
from neardup.evaluate.outcome import Case, Evaluation
from neardup.evaluate.profile import Profile, Spread
from neardup.evaluate.scores import Scores, Share, Sweep
from neardup.report.clusters import differences
from neardup.report.frame import whole
from neardup.report.html import Html, joined, name, note, pairs, shortened, table, tag
from neardup.report.plots import bar, rule, text

TITLE: Final = "neardup: evaluation"
WIDTH: Final = 640
HEIGHT: Final = 340
LEFT: Final = 52
RIGHT: Final = 600
TOP: Final = 40
BOTTOM: Final = 284
SCORES: Final = ("against", "recall", "precision", "F1", "found", "wrong", "missed", "right")
FLAWS: Final = {
    "contradictory": "both labels for one pair, or two clusters for one document",
    "repeated": "there before",
    "self-pairs": "a document with itself",
    "unknown ids": "not in the corpus",
    "empty documents": "nothing to compare in them",
    SEVERAL: "the first one counts",
}


def page(found: Evaluation) -> Html:
    """The whole page."""
    return whole(
        TITLE, tag("p", "neardup", class_="brand"), tag("h1", "Evaluation"),
        tag("p", found.judged), _tiles(found), *map(note, found.notes), *_drift(found.drift),
        _section("Scores", _scores(found), *_losses(found), *_rand(found)),
        *_curves(found),
        _section("Worst false positives", *_cases(found.false_positives, POSITIVES)),
        _section("Worst false negatives", *_cases(found.false_negatives, NEGATIVES)),
        _section("The golden set", *_golden(found)), *_profile(found.profile),
    )  # fmt: skip


POSITIVES: Final = "judged to be duplicates, labelled as different; the most similar first"
NEGATIVES: Final = (
    "labelled as duplicates, and missed; those that are similar and should have been found first"
)


def _section(title: str, *content: Html) -> Html:
    return tag("section", tag("h2", title), *content)


def _tiles(found: Evaluation) -> Html:
    def tile(title: str, share: Share) -> Html:
        shown = "undefined" if share.value is None else f"{share.value:.4f}"
        between = "" if share.value is None else f"{share.low:.4f} to {share.high:.4f}"
        value = tag("dd", shown, tag("small", between))
        return tag("div", tag("dt", title), value, class_="tile kept")

    scores = found.labels
    return tag("dl", tile("recall by labels", scores.recall),
               tile("precision by labels", scores.precision), tile("F1 by labels", scores.f1),
               class_="tiles")  # fmt: skip


def _drift(said: Sequence[str] | None) -> Iterator[Html]:
    if said is not None:
        yield _section("Since the baseline", tag("ul", *(tag("li", one) for one in said)))


def _scores(found: Evaluation) -> Html:
    rows = [_row("labels", found.labels)]
    if found.similarity is not None:
        rows.append(_row("exact similarity", found.similarity))
    if found.candidates is not None:
        rows.append(_row("labels, all that meet", found.candidates))
    meaning = note(
        "In brackets, 95 % intervals (Wilson's; pairs are taken as independent). Found and wrong "
        "are pairs that were judged to be duplicates, missed and right those that were not. Labels "
        "are what people say, the exact similarity is what texts say."
    )
    return joined([table("Scores", SCORES, rows, SCORES[1:]), meaning])


def _row(against: str, scores: Scores) -> list[str]:
    shares = [str(share) for share in (scores.recall, scores.precision, scores.f1)]
    counts = [f"{count:,}" for count in (scores.tp, scores.fp, scores.fn, scores.tn)]
    return [against, *shares, *counts]


def _losses(found: Evaluation) -> Iterator[Html]:
    losses = found.losses
    if losses is None or not found.labels.fn:
        return
    rows = (
        ("less similar than the threshold: a lower one, or another shingle", losses.dissimilar),
        ("similar, but never met: more bands, or fewer rows", losses.never_met),
        ("similar and met, judged otherwise", losses.misjudged),
    )
    cells = ((why, f"{count:,}", bar(count / found.labels.fn)) for why, count in rows)
    yield tag("h3", "Why labelled duplicates were missed")
    yield table("Losses", ("why", "pairs", ""), cells, ("pairs",))


def _rand(found: Evaluation) -> Iterator[Html]:
    if found.rand is not None:
        value = "undefined" if found.rand.value is None else f"{found.rand.value:.4f}"
        yield tag("h3", f"Adjusted Rand index: {value}")
        yield note(f"Golden clusters: {found.rand.clusters}.")


def _curves(found: Evaluation) -> Iterator[Html]:
    if found.sweep is None:
        return
    threshold = found.operating_point["parameters"].get("threshold")
    best = found.sweep.best
    about = "There is no best threshold without labels of both kinds."
    if best is not None:
        recall, precision, f1 = (0.0 if value is None else value for value in found.sweep.at_best)
        about = (
            f"Best by F1: {best:g}, with recall {recall:.4f}, precision {precision:.4f} and F1 "
            f"{f1:.4f}."
        )
    yield _section(
        "Thresholds", _by_threshold(found.sweep, threshold), tag("h3", "Precision against recall"),
        _precision_recall(found.sweep),
        note(f"{about} By the exact similarity of labelled pairs alone, as if all of them met; "
             "bands are chosen for a threshold."),
    )  # fmt: skip


def _x(share: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * share, 2)


def _y(share: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * share, 2)


def _frame(title: str, below: str, *marks: Html) -> Html:
    grid = [text((LEFT + RIGHT) / 2, HEIGHT - 14, below, "middle")]
    for fifth in range(6):
        share = fifth / 5
        grid += [
            rule(LEFT, _y(share), RIGHT, _y(share)),
            text(LEFT - 8, _y(share) + 4, f"{share:g}", "end"),
            text(_x(share), BOTTOM + 20, f"{share:g}", "middle"),
        ]
    return tag("svg", tag("title", title), *grid, *marks, viewBox=f"0 0 {WIDTH} {HEIGHT}",
               role="img", class_="plot")  # fmt: skip


def _line(points: Iterable[tuple[float | None, float | None]], kind: str) -> Html:
    known = (f"{_x(x):g},{_y(y):g}" for x, y in points if x is not None and y is not None)
    return tag("polyline", points=" ".join(known), class_=kind)


def _by_threshold(sweep: Sweep, threshold: float | None) -> Html:
    thresholds = sweep.thresholds
    marks = [
        _line(zip(thresholds, sweep.recall, strict=True), "curve"),
        _line(zip(thresholds, sweep.precision, strict=True), "curve second"),
        _line(zip(thresholds, sweep.f1, strict=True), "curve third"),
        text(LEFT, TOP - 20, "recall", "curve-label start"),
        text(LEFT + 60, TOP - 20, "precision", "second-label start"),
        text(LEFT + 136, TOP - 20, "F1", "third-label start"),
    ]
    if sweep.best is not None:
        marks.append(rule(_x(sweep.best), TOP, _x(sweep.best), BOTTOM, "threshold"))
        marks.append(text(_x(sweep.best) + 6, BOTTOM - 28, f"best {sweep.best:g}", "start strong"))
    if threshold is not None:
        marks.append(rule(_x(threshold), TOP, _x(threshold), BOTTOM, "threshold"))
        marks.append(text(_x(threshold) - 6, BOTTOM - 8, f"now {threshold:g}", "end strong"))
    return _frame("Recall, precision and F1 by threshold", "threshold", *marks)


def _precision_recall(sweep: Sweep) -> Html:
    points = list(zip(sweep.recall, sweep.precision, strict=True))
    marks = [text(0, TOP - 20, "precision", "curve-label start"), _line(points, "curve")]
    if sweep.best is not None:
        recall, precision, _ = sweep.at_best
        if recall is not None and precision is not None:
            marks.append(tag("circle", cx=_x(recall), cy=_y(precision), r=5, class_="point"))
            marks.append(text(_x(recall) - 8, _y(precision) + 18, f"{sweep.best:g}", "end strong"))
    return _frame("Precision against recall", "recall", *marks)


def _cases(cases: Sequence[Case], about: str) -> Iterator[Html]:
    if not cases:
        yield note("There are none.")
        return
    yield note(f"{about[0].upper()}{about[1:]}.")
    for place, case in enumerate(cases):
        yield tag("article", tag("details", _title(case), *_texts(case), open=place == 0))


def _title(case: Case) -> Html:
    similarity = "" if case.similarity is None else f"{case.similarity:.4f} "
    met = {None: "", True: "met", False: "never met"}[case.met]
    remark = (tag("span", met, class_="badge"),) if met else ()
    return tag("summary", tag("span", similarity, class_="number"), name(case.id1), " ~ ",
               name(case.id2), *remark)  # fmt: skip


def _texts(case: Case) -> Iterator[Html]:
    if case.texts is None:
        yield note("The texts are not there: give --corpus.")
    else:
        yield from differences(*case.texts, (shortened(case.id1), shortened(case.id2)))


def _golden(found: Evaluation) -> Iterator[Html]:
    golden = found.golden
    positives = int(golden.label.sum())
    yield pairs([("pairs", f"{len(golden):,}"), ("duplicates", f"{positives:,}"),
                 ("others", f"{len(golden) - positives:,}")])  # fmt: skip
    rows = [
        (flaw_name, f"{flaw.count:,}", FLAWS[flaw_name],
         ", ".join(shortened(" ~ ".join(one)) for one in flaw.listed))
        for flaw_name, flaw in golden.flaws.items() if flaw.count
    ]  # fmt: skip
    if rows:
        yield tag("h3", "What could not be used")
        yield table("Flaws", ("what", "how many", "meaning", "the first"), rows, ("how many",))


def _profile(profile: Profile | None) -> Iterator[Html]:
    if profile is None:
        return
    shown = [
        ("documents", f"{profile.documents:,}"),
        ("sampled", f"{profile.sampled:,}"),
        ("identical to another", f"{profile.identical:.1%}"),
        ("bytes: mean, median, 99 %", _spread(profile.bytes)),
        ("shingles: mean, median, 99 %", _spread(profile.shingles)),
        ("documents of a bucket: median, 99 %, most",
         f"{profile.buckets.p50:,.0f}, {profile.buckets.p99:,.0f}, {profile.buckets.largest:,}"),
        ("candidates a document", f"{profile.candidates:,.2f}"),
    ]  # fmt: skip
    if profile.empty_bins is not None:
        shown.append(("empty bins", f"{profile.empty_bins:.1%}"))
    most = max(profile.similarity, default=1.0)
    tenths = (
        (f"{tenth / 10:g} to {(tenth + 1) / 10:g}", f"{share:.1%}", bar(share / most))
        for tenth, share in enumerate(profile.similarity)
    )
    yield _section(
        "What the corpus looks like", pairs(shown),
        tag("h3", "How similar the pairs are that meet"),
        table("Similarity", ("similarity", "pairs", ""), tenths, ("similarity", "pairs")),
    )  # fmt: skip


def _spread(spread: Spread) -> str:
    return f"{spread.mean:,.0f}, {spread.p50:,.0f}, {spread.p99:,.0f}"
