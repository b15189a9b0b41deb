"""Draw the pictures of README.md and of the guides into docs/pictures.

    python scripts/make_pictures.py            all
    python scripts/make_pictures.py benchmark  the chart alone, from benches/results/batch.json
    python scripts/make_pictures.py review     the pages of docs/review.md alone
    python scripts/make_pictures.py labels     the page of docs/labels.md alone

Screenshots need Chromium; they are those of a run over Python's own standard library.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from html import escape
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # the browser is that of the tests
from support.browser import Page, browser  # noqa: E402
from support.review_server import ReviewServer  # noqa: E402

from neardup.review.label_desk import LabelDesk  # noqa: E402
from neardup.review.label_draw import draw_pairs  # noqa: E402
from neardup.review.run_subject import RunSubject  # noqa: E402
from neardup.runtime import SILENT  # noqa: E402

PICTURES = ROOT / "docs/pictures"
RESULTS = ROOT / "benches/results/core.json"
FIGURE = "Whole run, JSONL in, decisions out, threshold 0.8"
TOOLS = {"text_dedup": "text-dedup"}  # as the peers write their own names

WIDTH, ROW, TOP, LEFT, RIGHT = 760, 34, 92, 112, 530
PAGE_SIZE = (1000, 1330)
REVIEW_WIDTH = 1100
# The page is longer than a picture: of two sections, the plot and a pair of texts are shown.
SHORTENED = """<style>
  #similarity figure > :not(svg), #similarity .wide-narrow > :first-child > :not(svg, figure),
  #similarity h3, #similarity h3 ~ *, #clusters > .scroll, #clusters > .scroll ~ h3,
  #clusters > .note, nav { display: none }
  #clusters { margin-top: 2rem }
</style>"""

STYLE = """
  text { font: 14px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328 }
  .card { fill: #ffffff; stroke: #d1d9e0 }
  .title { font-size: 17px; font-weight: 600 }
  .small { font-size: 12px; fill: #59636e }
  .ours { fill: #1a7f64 } .peer { fill: #a8b3bd } .strong { font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .card { fill: #0d1117; stroke: #30363d }
    .small { fill: #9198a1 }
    .ours { fill: #3fb68b } .peer { fill: #545d68 }
  }
"""


@dataclass(frozen=True)
class Bar:
    """One tool of the benchmark: how long it took, and how right it was."""

    tool: str
    seconds: float
    recall: float
    precision: float

    @property
    def is_ours(self) -> bool:
        return self.tool == "neardup"


def read_bars() -> tuple[list[Bar], str]:
    """The rows of the figure, fastest first, and where and when they were measured."""
    results = json.loads(RESULTS.read_text("utf-8"))
    figure = next(figure for figure in results["figures"] if figure["title"] == FIGURE)
    run = results["run"]
    bars = [
        Bar(TOOLS.get(row["tool"], row["tool"]), row["seconds"], row["recall"], row["precision"])
        for row in figure["rows"]
        if "," not in row["tool"]  # "neardup, kept files written" does more than its peers
    ]
    measured = f"{run['cpu']}, one core, {figure['measured'][:10]}"
    return sorted(bars, key=lambda bar: bar.seconds), measured


def draw_benchmark() -> str:
    """The chart as SVG; it follows the reader's light or dark scheme."""
    bars, measured = read_bars()
    longest = max(bar.seconds for bar in bars)
    height = TOP + ROW * len(bars) + 44
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-labelledby="title">',
        f"<title id='title'>Seconds, recall and precision of {len(bars)} tools</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        '<text class="title" x="20" y="34">110,000 documents of 3 KB: seconds on one core</text>',
        '<text class="small" x="20" y="56">shorter is better; right: how many of the true '
        "duplicate pairs were found, and how many of the pairs found are true</text>",
        f'<text class="small" x="{WIDTH - 96}" y="{TOP - 10}" text-anchor="end">recall</text>',
        f'<text class="small" x="{WIDTH - 20}" y="{TOP - 10}" text-anchor="end">precision</text>',
    ]
    for number, bar in enumerate(bars):
        top = TOP + ROW * number
        line = top + 20
        width = max(2.0, (RIGHT - LEFT) * bar.seconds / longest)
        kind, strong = ("ours", ' class="strong"') if bar.is_ours else ("peer", "")
        parts += [
            f'<text{strong} x="{LEFT - 12}" y="{line}" text-anchor="end">{escape(bar.tool)}</text>',
            f'<rect class="{kind}" x="{LEFT}" y="{top + 4}" width="{width:.1f}" height="22" '
            'rx="3"/>',
            f'<text{strong} x="{LEFT + width + 8:.1f}" y="{line}">{bar.seconds:.1f}</text>',
            f'<text{strong} x="{WIDTH - 96}" y="{line}" text-anchor="end">{bar.recall:.3f}</text>',
            f'<text{strong} x="{WIDTH - 20}" y="{line}" text-anchor="end">'
            f"{bar.precision:.3f}</text>",
        ]
    parts += [
        f'<text class="small" x="20" y="{height - 16}">{escape(measured)}; threshold 0.8, '
        "JSON lines in, decisions out. All figures: benches/results/core.md</text>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def make_run(folder: Path) -> Path:
    """Deduplicate the standard library's source files."""
    library = Path(sysconfig.get_paths()["stdlib"])
    ignored = shutil.ignore_patterns("site-packages", "__pycache__", "*.so", "*.exe")
    texts = folder / "stdlib"
    shutil.copytree(library, texts, ignore=ignored)
    for path in texts.rglob("*"):
        if path.is_file() and path.suffix != ".py":
            path.unlink()
    command = [sys.executable, "-m", "neardup", "dedup", "stdlib", "-o", "clean"]
    subprocess.run([*command, "--format", "text", "--quiet"], cwd=folder, check=True)
    return folder / "clean"


def picture_report(run: Path, page: Page) -> None:
    """The report, shortened."""
    shown = run / "shortened.html"
    report = (run / "report.html").read_text("utf-8")
    shown.write_text(report.replace("</head>", SHORTENED + "</head>"), "utf-8")
    page.open(shown, *PAGE_SIZE)
    page.picture(PICTURES / "report.png", PAGE_SIZE[1])


def picture_review(run: Path, page: Page) -> None:
    """The pages of a review: the overview, a pair, a cluster, and what was decided."""
    server = ReviewServer(run)

    def picture(name: str, path: str, height: int, dark: bool = False) -> None:
        page.open(f"{server.url}/{path}", REVIEW_WIDTH, height, dark)
        page.picture(PICTURES / f"review-{name}.png", height)

    server.enter(page, width=REVIEW_WIDTH)
    picture("overview", "", 700)
    picture("pair", "next", 640)
    page.press("t")
    page.write("other control codes: another encoding")
    page.press("Escape")
    for key in "dsxu":
        with page.loading():
            page.press(key)
    picture("clusters", "clusters?order=uncertainty", 520)
    picture(
        "dark", page.value("document.querySelector('a.row').getAttribute('href')")[1:], 520, True
    )
    picture("bulk", "bulk?least=0.95&most=1&action=same", 420)
    picture("decisions", "decisions", 520)
    page.open(f"{server.url}/apply")
    with page.loading():
        page.click("form[action='/apply'] button")
    page.wait_for("document.querySelector('h1').innerText === 'Done'")
    picture("applied", "apply", 400)
    server.stop()


def picture_labels(run: Path, page: Page) -> None:
    """A pair to label, after eighty answers: files that share much are called the same."""
    desk = LabelDesk(RunSubject(run))
    draw_pairs(desk.subject, desk.journal, 200, 1, SILENT)
    same = (
        (pair.number, "same" if pair.similarity > 0.6 else "different") for pair in desk.draw.pairs
    )
    desk.journal.answer(islice(same, 80), "ann")
    desk.close()
    server = ReviewServer(run)
    server.enter(page, "label", width=REVIEW_WIDTH)
    page.open(f"{server.url}/label", REVIEW_WIDTH, 640)
    page.picture(PICTURES / "labels-pair.png", 640)
    server.stop()


def main(wanted: list[str]) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    if not wanted or "benchmark" in wanted:
        (PICTURES / "benchmark.svg").write_text(draw_benchmark(), "utf-8")
    pages = {"report": picture_report, "review": picture_review, "labels": picture_labels}
    pages = {name: draw for name, draw in pages.items() if not wanted or name in wanted}
    if not pages:
        return
    with tempfile.TemporaryDirectory() as name, browser(Path(name) / "profile") as page:
        run = make_run(Path(name))
        for draw in pages.values():
            draw(run, page.stranger())


if __name__ == "__main__":
    main(sys.argv[1:])
