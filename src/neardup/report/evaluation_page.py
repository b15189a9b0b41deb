"""evaluation.html: scores, threshold curves, the worst cases side by side, the corpus profile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from neardup.evaluation.golden import SEVERAL
from neardup.evaluation.profile import CorpusProfile, Spread
from neardup.evaluation.results import Case, Evaluation, QualityGate, format_as_good
from neardup.evaluation.scores import Scores, ThresholdSweep
from neardup.evaluation.shares import Share
from neardup.formatting import format_similarity
from neardup.report.differences import side_by_side
from neardup.report.html import Html, join, make_page, name, note, pairs, shorten, table, tag
from neardup.report.plots import bar, drawing, rule, text

WIDTH: Final = 640
HEIGHT: Final = 340
LEFT: Final = 52
RIGHT: Final = 600
TOP: Final = 40
BOTTOM: Final = 284


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
    return drawing(title, [*grid, *marks], WIDTH, HEIGHT)


def _line(points: Iterable[tuple[float | None, float | None]], kind: str) -> Html:
    known = (f"{_x(x):g},{_y(y):g}" for x, y in points if x is not None and y is not None)
    return tag("polyline", points=" ".join(known), class_=kind)


def by_threshold(sweep: ThresholdSweep, threshold: float | None, precise: bool) -> Html:
    """Plot recall by threshold; with `precise`, precision and F1 too."""
    thresholds = sweep.thresholds
    shown = "Recall, precision and F1" if precise else "Recall"
    marks = [
        _line(zip(thresholds, sweep.recall, strict=True), "curve"),
        text(LEFT, TOP - 20, "recall", "curve-label start"),
    ]
    if precise:
        marks += [
            _line(zip(thresholds, sweep.precision, strict=True), "curve second"),
            _line(zip(thresholds, sweep.f1, strict=True), "curve third"),
            text(LEFT + 60, TOP - 20, "precision", "second-label start"),
            text(LEFT + 136, TOP - 20, "F1", "third-label start"),
        ]
    if sweep.best is not None:
        marks.append(rule(_x(sweep.best), TOP, _x(sweep.best), BOTTOM, "threshold"))
        marks.append(text(_x(sweep.best) + 6, BOTTOM - 28, f"best {sweep.best:g}", "start strong"))
    if threshold is not None:
        marks.append(rule(_x(threshold), TOP, _x(threshold), BOTTOM, "threshold"))
        marks.append(text(_x(threshold) - 6, BOTTOM - 8, f"current {threshold:g}", "end strong"))
    return _frame(f"{shown} by threshold", "threshold", *marks)


def precision_recall(sweep: ThresholdSweep) -> Html:
    """Plot precision against recall at all thresholds; the best one is marked."""
    points = list(zip(sweep.recall, sweep.precision, strict=True))
    marks = [text(0, TOP - 20, "precision", "curve-label start"), _line(points, "curve")]
    if sweep.best is not None:
        recall, precision, _ = sweep.at_best
        if recall is not None and precision is not None:
            marks.append(tag("circle", cx=_x(recall), cy=_y(precision), r=5, class_="point"))
            marks.append(text(_x(recall) - 8, _y(precision) + 18, f"{sweep.best:g}", "end strong"))
    return _frame("Precision against recall", "recall", *marks)


TITLE: Final = "neardup: evaluation"
SCORES: Final = ("against", "recall", "precision", "F1", "found", "wrong", "missed", "right")
FLAWS: Final = {
    "contradictory": "both labels for one pair, or two clusters for one document",
    "repeated": "the same pair as an earlier row",
    "self-pairs": "a document with itself",
    "unknown ids": "not in the corpus",
    "empty documents": "documents without a shingle",
    SEVERAL: "the first one counts",
}


def evaluation_page(
    found: Evaluation, golden: str, run: str | None, gates: Sequence[QualityGate]
) -> Html:
    """Return the complete page.

    Args:
        found: the evaluation.
        golden: the name of the golden set.
        run: the name of the run that was judged; None for an operating point.
        gates: the required figures, and whether they are met.
    """
    subject = _subject(found, shorten(golden), run and shorten(run))
    return make_page(
        f"{TITLE}, {subject}",
        tag("p", "neardup evaluate", class_="brand"),
        tag("h1", subject),
        tag("p", found.judged),
        _tiles(found, gates),
        *map(note, found.notes),
        *_gates(gates),
        *_drift(found.drift),
        _section("Scores", _scores(found), *_losses(found), *_rand(found)),
        *_curves(found),
        _section("Worst false positives", *_cases(found.false_positives, POSITIVES)),
        _section("Worst false negatives", *_cases(found.false_negatives, NEGATIVES)),
        _section("The golden set", *_golden(found)),
        *_profile(found.profile),
    )


POSITIVES: Final = "judged to be duplicates, labelled as different; the most similar first"
NEGATIVES: Final = (
    "labelled as duplicates, and missed; those that are similar and should have been found first"
)


def _section(title: str, *content: Html) -> Html:
    return tag("section", tag("h2", title), *content)


def _subject(found: Evaluation, golden: str, run: str | None) -> str:
    """Return what was judged against which golden set, in one line."""
    if run is not None:
        return f"{golden}: the run {run}"
    spec, parameters = found.operating_point["spec"], found.operating_point["parameters"]
    tables, bits = parameters["tables"], parameters["hamming"]
    how = f"{bits} bits" if tables is None else f"{tables}, threshold {parameters['threshold']:g}"
    if "vectors" in parameters:
        by = f"cosine {parameters['cosine']:g} of {shorten(parameters['vectors'])}"
        if found.of_vectors:
            return f"{golden}: {by}, {parameters['planes']}"
        how += f", {parameters['role']} {by}"
    return f"{golden}: {spec['sketch']} of {spec['unit']}:{spec['size']}, {how}"


def _tiles(found: Evaluation, gates: Sequence[QualityGate]) -> Html:
    """Return the main figures; those with a required value are green if they meet it."""
    missed = {(gate.name, gate.by): not gate.met for gate in gates}
    tone = {True: "near", False: "kept", None: ""}

    def tile(figure: str, by: str, share: Share) -> Html:
        between = "" if share.value is None else f"{share.low:.4f} to {share.high:.4f}"
        value = tag("dd", _number(share.value), tag("small", between))
        kind = tone[missed.get((figure.lower(), by))]
        return tag("div", tag("dt", f"{figure} by {by}"), value, class_=f"tile {kind}")

    scores = found.labels
    tiles = [
        tile("recall", "labels", scores.recall),
        tile("precision", "labels", scores.precision),
        tile("F1", "labels", scores.f1),
    ]
    if found.similarity is not None:
        tiles.append(tile("recall", "similarity", found.similarity.recall))
    return tag("dl", *tiles, class_="tiles")


def _gates(gates: Sequence[QualityGate]) -> Iterator[Html]:
    if gates:
        items = (tag("li", str(gate), class_="" if gate.met else "missed") for gate in gates)
        yield _section("Required figures", tag("ul", *items))


def _drift(changes: Sequence[str] | None) -> Iterator[Html]:
    if changes is not None:
        yield _section("Since the baseline", tag("ul", *(tag("li", one) for one in changes)))


def _scores(found: Evaluation) -> Html:
    rows = [_row("labels", found.labels)]
    if found.similarity is not None:
        rows.append(_row("exact similarity", found.similarity))
    if found.candidates is not None:
        rows.append(_row("labels, all candidates", found.candidates))
    meaning = note(
        "In brackets, 95 % intervals (Wilson's; pairs are taken as independent). Found and wrong "
        "are pairs that were judged to be duplicates, missed and right those that were not. Labels "
        "come from the golden set, the exact similarity from the texts."
    )
    return join([table("Scores", SCORES, rows, SCORES[1:]), meaning])


def _row(against: str, scores: Scores) -> list[str]:
    shares = [str(share) for share in (scores.recall, scores.precision, scores.f1)]
    counts = [f"{count:,}" for count in (scores.tp, scores.fp, scores.fn, scores.tn)]
    return [against, *shares, *counts]


def _losses(found: Evaluation) -> Iterator[Html]:
    losses = found.losses
    if losses is None or not found.labels.fn:
        return
    rows = (
        ("less similar than the threshold: use a lower one, or another shingle", losses.dissimilar),
        ("similar, but never compared: use more bands, or fewer rows", losses.never_met),
        (
            "similar and compared, but the estimate was wrong: verify exactly, or use more slots",
            losses.misjudged,
        ),
        (
            "similar, but in different clusters: each is a copy of another kept document, or is "
            "kept itself",
            losses.apart,
        ),
    )
    cells = ((why, f"{count:,}", bar(count / found.labels.fn)) for why, count in rows)
    yield tag("h3", "Why labelled duplicates were missed")
    yield table("Losses", ("why", "pairs", ""), cells, ("pairs",))


def _rand(found: Evaluation) -> Iterator[Html]:
    if found.rand is not None:
        yield tag("h3", f"Adjusted Rand index: {_number(found.rand.value)}")
        yield note(f"Golden clusters: {found.rand.clusters}.")


def _curves(found: Evaluation) -> Iterator[Html]:
    if found.sweep is None:
        return
    parameters = found.operating_point["parameters"]
    title = "Least cosines" if found.of_vectors else "Thresholds"
    yield _swept(found, title, found.sweep, parameters.get("threshold"))
    if found.cosines is not None:
        yield _swept(found, "Least cosines", found.cosines, parameters["cosine"])


def _swept(found: Evaluation, title: str, sweep: ThresholdSweep, threshold: float | None) -> Html:
    """Return the section with the scores at all thresholds."""
    best = sweep.best
    about = "There is no best threshold without labels of both kinds."
    if best is not None:
        recall, precision, f1 = map(_number, sweep.at_best)
        about = (
            f"Best by F1: {best:g}, with recall {recall}, precision {precision} and F1 {f1}; "
            f"{'; '.join(format_as_good(sweep))}."
        )
    precise = not found.golden.label.all()
    plots = [_figure(by_threshold(sweep, threshold, precise))]
    if precise:
        plots += [tag("h3", "Precision against recall"), _figure(precision_recall(sweep))]
    return _section(
        title,
        *plots,
        note(
            f"{about} Computed from the exact similarity of the labelled pairs, as if all of them "
            "were compared; bands are chosen for a threshold."
        ),
    )


def _figure(plot: Html) -> Html:
    return tag("figure", plot, class_="narrow")


def _cases(cases: Sequence[Case], about: str) -> Iterator[Html]:
    if not cases:
        yield note("There are none.")
        return
    yield note(f"{about[0].upper()}{about[1:]}.")
    for place, case in enumerate(cases):
        yield tag("article", tag("details", _title(case), *_texts(case), open=place == 0))


def _title(case: Case) -> Html:
    similarity = "" if case.similarity is None else f"{format_similarity(case.similarity)} "
    if case.cosine is not None:
        similarity += f"cosine {format_similarity(case.cosine)} "
    met = {None: "", True: "compared", False: "never compared"}[case.met]
    remark = (tag("span", met, class_="badge"),) if met else ()
    return tag(
        "summary",
        tag("span", similarity, class_="number"),
        name(case.id1),
        " ~ ",
        name(case.id2),
        *remark,
    )


def _texts(case: Case) -> Iterator[Html]:
    if case.texts is None:
        yield note("Texts are not shown: pass --corpus, unless vectors alone are compared.")
    else:
        yield from side_by_side(*case.texts, (shorten(case.id1), shorten(case.id2)))


def _golden(found: Evaluation) -> Iterator[Html]:
    golden = found.golden
    positives = int(golden.label.sum())
    yield pairs(
        [
            ("pairs", f"{len(golden):,}"),
            ("duplicates", f"{positives:,}"),
            ("others", f"{len(golden) - positives:,}"),
        ]
    )
    rows = [
        (
            flaw_name,
            f"{flaw.count:,}",
            FLAWS[flaw_name],
            ", ".join(shorten(" ~ ".join(one)) for one in flaw.listed),
        )
        for flaw_name, flaw in golden.flaws.items()
        if flaw.count
    ]
    if rows:
        yield tag("h3", "Rows that could not be used")
        yield table("Flaws", ("kind", "count", "meaning", "examples"), rows, ("count",))


def _profile(profile: CorpusProfile | None) -> Iterator[Html]:
    if profile is None:
        return
    shown = [
        ("documents", f"{profile.documents:,}"),
        ("sampled", f"{profile.sampled:,}"),
        ("identical to another", f"{profile.identical:.1%}"),
        ("bytes: mean, median, 99 %", _spread(profile.bytes)),
        ("shingles: mean, median, 99 %", _spread(profile.shingles)),
        (
            "documents in a bucket: median, 99 %, largest",
            f"{profile.buckets.p50:,.0f}, {profile.buckets.p99:,.0f}, {profile.buckets.largest:,}",
        ),
        ("candidates per document", f"{profile.candidates:,.2f}"),
    ]
    if profile.empty_bins is not None:
        shown.append(("empty bins", f"{profile.empty_bins:.1%}"))
    most = max(profile.similarity, default=1.0)
    tenths = (
        (f"{tenth / 10:g} to {(tenth + 1) / 10:g}", f"{share:.1%}", bar(share / most))
        for tenth, share in enumerate(profile.similarity)
    )
    yield _section(
        "Profile of the corpus",
        pairs(shown),
        tag("h3", "Similarity of the pairs that share a bucket"),
        table("Similarity", ("similarity", "pairs", ""), tenths, ("similarity", "pairs")),
    )


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def _spread(spread: Spread) -> str:
    return f"{spread.mean:,.0f}, {spread.p50:,.0f}, {spread.p99:,.0f}"
