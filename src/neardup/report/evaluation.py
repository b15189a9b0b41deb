"""How does an evaluation look? One page: figures, curves, the worst cases side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from neardup.evaluation.gates import Gate
from neardup.evaluation.golden import SEVERAL
from neardup.evaluation.outcome import Case, Evaluation
from neardup.evaluation.profile import Profile, Spread
from neardup.evaluation.scores import Scores, Share
from neardup.report.clusters import differences
from neardup.report.frame import whole
from neardup.report.html import Html, joined, name, note, pairs, shortened, table, tag
from neardup.report.plots import bar
from neardup.report.threshold_plots import by_threshold, precision_recall

TITLE: Final = "neardup: evaluation"
SCORES: Final = ("against", "recall", "precision", "F1", "found", "wrong", "missed", "right")
FLAWS: Final = {
    "contradictory": "both labels for one pair, or two clusters for one document",
    "repeated": "there before",
    "self-pairs": "a document with itself",
    "unknown ids": "not in the corpus",
    "empty documents": "nothing to compare in them",
    SEVERAL: "the first one counts",
}


def page(found: Evaluation, golden: str, run: str | None, gates: Sequence[Gate]) -> Html:
    """The whole page. `golden` and `run` are the names of what was judged, and by what."""
    subject = _subject(found, shortened(golden), run and shortened(run))
    return whole(
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
    """What was judged, and by what, in one line."""
    if run is not None:
        return f"{golden}: the run {run}"
    spec, parameters = found.operating_point["spec"], found.operating_point["parameters"]
    tables, bits = parameters["tables"], parameters["hamming"]
    how = f"{bits} bits" if tables is None else f"{tables}, threshold {parameters['threshold']:g}"
    return f"{golden}: {spec['sketch']} of {spec['unit']}:{spec['size']}, {how}"


def _tiles(found: Evaluation, gates: Sequence[Gate]) -> Html:
    """Figures; those of which something is asked are green if it is so."""
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


def _gates(gates: Sequence[Gate]) -> Iterator[Html]:
    if gates:
        said = (tag("li", str(gate), class_="" if gate.met else "missed") for gate in gates)
        yield _section("What was asked for", tag("ul", *said))


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
        (
            "similar and met, but the estimate was wrong: verify exactly, or more slots",
            losses.misjudged,
        ),
        (
            "similar, in different clusters: each went with another kept document, or was kept for "
            "itself",
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
    threshold = found.operating_point["parameters"].get("threshold")
    best = found.sweep.best
    about = "There is no best threshold without labels of both kinds."
    if best is not None:
        recall, precision, f1 = map(_number, found.sweep.at_best)
        about = f"Best by F1: {best:g}, with recall {recall}, precision {precision} and F1 {f1}."
    precise = not found.golden.label.all()
    plots = [_figure(by_threshold(found.sweep, threshold, precise))]
    if precise:
        plots += [tag("h3", "Precision against recall"), _figure(precision_recall(found.sweep))]
    yield _section(
        "Thresholds",
        *plots,
        note(
            f"{about} By the exact similarity of labelled pairs alone, as if all of them met; "
            "bands are chosen for a threshold."
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
    similarity = "" if case.similarity is None else f"{case.similarity:.4f} "
    met = {None: "", True: "met", False: "never met"}[case.met]
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
        yield note("The texts are not there: give --corpus.")
    else:
        yield from differences(*case.texts, (shortened(case.id1), shortened(case.id2)))


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
            ", ".join(shortened(" ~ ".join(one)) for one in flaw.listed),
        )
        for flaw_name, flaw in golden.flaws.items()
        if flaw.count
    ]
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
        (
            "documents of a bucket: median, 99 %, most",
            f"{profile.buckets.p50:,.0f}, {profile.buckets.p99:,.0f}, {profile.buckets.largest:,}",
        ),
        ("candidates a document", f"{profile.candidates:,.2f}"),
    ]
    if profile.empty_bins is not None:
        shown.append(("empty bins", f"{profile.empty_bins:.1%}"))
    most = max(profile.similarity, default=1.0)
    tenths = (
        (f"{tenth / 10:g} to {(tenth + 1) / 10:g}", f"{share:.1%}", bar(share / most))
        for tenth, share in enumerate(profile.similarity)
    )
    yield _section(
        "What the corpus looks like",
        pairs(shown),
        tag("h3", "How similar the pairs are that meet"),
        table("Similarity", ("similarity", "pairs", ""), tenths, ("similarity", "pairs")),
    )


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def _spread(spread: Spread) -> str:
    return f"{spread.mean:,.0f}, {spread.p50:,.0f}, {spread.p99:,.0f}"
