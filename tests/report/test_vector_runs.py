"""The report and the review of runs with vectors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from html import unescape
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.command_line import dedup, neardup
from support.embeddings import plant_copies
from support.golden_set import planted
from support.reviewer import PORT, Reviewer

from neardup.decided_run import apply_decisions
from neardup.decisions import Decision
from neardup.review.desk import ReviewDesk
from neardup.review.run_subject import RunSubject

ASKED = {
    "alone": ["--vectors", "v", "--cosine", 0.9],
    "also": ["--also", "v:0.9"],
    "unless": ["--unless", "v:0.9", "--threshold", 0.5],
}
MakeRun = Callable[[str], Path]


@pytest.fixture(scope="module")
def make_run(tmp_path_factory: pytest.TempPathFactory) -> MakeRun:
    """Run `neardup dedup` on texts with edited copies, whose vectors are more or less near."""
    folder = tmp_path_factory.mktemp("runs")
    rows = planted().rows
    chance = np.random.default_rng(8)
    vectors = chance.standard_normal((len(rows), 16)).astype(np.float32)
    half = len(rows) // 2
    vectors[half:] = plant_copies(vectors[:half], chance.uniform(0.8, 1.0, half))
    columns = {name: [row[name] for row in rows] for name in ("id", "text")}
    pq.write_table(pa.table({**columns, "v": vectors.tolist()}), folder / "in.parquet")

    def make(role: str) -> Path:
        if not (folder / role).exists():
            dedup(folder / "in.parquet", "-o", folder / role, "-q", *ASKED[role])
        return folder / role

    return make


def text_of(page: str) -> str:
    """The words of a page, without its scripts."""
    page = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub("<[^>]+>", " ", page)).split())


def test_report_counts_what_each_signal_has_removed(make_run: MakeRun) -> None:
    run = make_run("also")
    removed = pq.read_table(run / "removed.parquet").to_pylist()
    by = Counter(row["by"] for row in removed)
    assert by["text"] and by["vector"] and by["both"]
    page = text_of((run / "report.html").read_text())
    assert f"removed because of the texts alone {by['text']}" in page
    assert f"removed because of the vectors alone {by['vector']}" in page
    assert f"removed because of both {by['both']}" in page
    assert re.search(r"predicted recall at cosine 0.9 0\.99\d\d", page)
    assert "With 21 bands of 6 rows, two documents" in page


@pytest.mark.parametrize(("role", "of_both"), [("also", max), ("unless", min)])
def test_closest_decisions_are_nearest_to_both_thresholds(
    make_run: MakeRun, role: str, of_both: Callable[..., float]
) -> None:
    run, threshold = make_run(role), {"also": 0.8, "unless": 0.5}[role]
    removed = [row for row in pq.read_table(run / "removed.parquet").to_pylist() if row["cosine"]]
    nearest = min(
        removed, key=lambda row: of_both(row["similarity"] - threshold, row["cosine"] - 0.9)
    )
    page = text_of((run / "report.html").read_text())
    first = page.partition("nearest to the thresholds of both signals.")[2]
    figures = f"{nearest['similarity']:.4f} {nearest['cosine']:.4f} {nearest['id']} "
    assert f"similarity cosine removed kept {figures}" in first[:300]


def test_report_of_vectors_alone_shows_no_texts(make_run: MakeRun) -> None:
    page = text_of((make_run("alone") / "report.html").read_text())
    assert "vectors alone were compared, and no text was read" in page
    assert "Word for word the same" not in page
    assert re.search(r"With \d+ bands of \d+ planes, two documents of similarity 0.9", page)


def open_review(run: Path) -> Reviewer:
    desk = ReviewDesk(RunSubject(run), "ann", PORT)
    desk.index.wait()
    return Reviewer(desk)


@pytest.mark.parametrize("role", ASKED)
def test_review_shows_both_figures_of_a_pair(make_run: MakeRun, role: str) -> None:
    run = make_run(role)
    removed = pq.read_table(run / "removed.parquet").to_pylist()
    reviewer = open_review(run)
    try:
        for position, row in enumerate(removed[:5]):
            page = text_of(reviewer.get(f"/pair/{position}"))
            assert f"{row['similarity']:.4f}" in page
            if role != "alone" and row["cosine"] is not None:
                assert f"similar, cosine {row['cosine']:.4f}" in page
        reviewer.decide("different", 0)
        ((action, *pair),) = reviewer.decisions()
        assert action == "different" and set(pair) == {removed[0]["id"], removed[0]["witness"]}
        explained = reviewer.get(f"/document?id={removed[0]['id']}&explain=1")
        assert "cosine" in explained
    finally:
        reviewer.desk.close()


def test_least_certain_decisions_come_first(make_run: MakeRun) -> None:
    """A pair that only its vectors make similar is as certain as its cosine is high."""
    run = make_run("also")
    reviewer = open_review(run)
    try:
        doubtful = reviewer.desk.index.doubtful(None, 100)
        margins = [max(one.similarity - 0.8, (one.cosine or 0) - 0.9) for one in doubtful]
        assert (
            margins == sorted(margins)
            and len(doubtful) == pq.read_table(run / "removed.parquet").num_rows
        )
        second = reviewer.desk.index.doubtful(doubtful[0], 1)
        assert second == doubtful[1:2]
    finally:
        reviewer.desk.close()


def test_decisions_about_a_run_with_vectors_are_applied(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run("also")
    first = pq.read_table(run / "removed.parquet").to_pylist()[0]
    when = "2026-03-01T12:00:00Z"
    said = [Decision("different", first["id"], first["witness"], who="ann", when=when)]
    apply_decisions(run, said, tmp_path / "out")
    removed = {row["id"] for row in pq.read_table(tmp_path / "out/removed.parquet").to_pylist()}
    assert first["id"] not in removed


def test_labels_of_a_run_with_vectors_are_not_drawn(make_run: MakeRun) -> None:
    done = neardup("review", make_run("unless"), "--label", 20)
    assert done.code == 2 and "pairs are drawn by the similarity of texts" in done.err
