"""The list of all clusters: complete or said to be not, searched and paged by the page's script."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import dukpy
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.browser import Page, browser
from support.command_line import dedup, write_jsonl

from neardup.formats import tables
from neardup.report import cluster_list
from neardup.report.cluster_list import list_script
from neardup.report.run_page import write_report

MakeRun = Any

ENGINE = dukpy.JSInterpreter()
ENGINE.evaljs(f"{list_script()}; globalThis.listing = listing; 0")


def with_clusters(run: Path, sizes: list[int], name: str = "page") -> Path:
    """Give a run clusters of these sizes, in input order."""
    kept = [sum(sizes[:place]) for place in range(len(sizes))]
    clusters = [
        {"cluster": at, "id": f"{name}-{at}", "file": "a", "row": at, "size": size}
        for at, size in zip(kept, sizes, strict=True)
    ]
    removed = [
        {
            **{"id": f"{name}-{at + copy}", "file": "a", "row": at + copy, "cluster": at},
            **{"witness": f"{name}-{at}", "witness_file": "a", "witness_row": at},
            **{"similarity": 0.9, "exact": True},
        }
        for at, size in zip(kept, sizes, strict=True)
        for copy in range(1, size)
    ]
    pq.write_table(pa.Table.from_pylist(clusters, tables.CLUSTERS), run / "clusters.parquet")
    pq.write_table(pa.Table.from_pylist(removed, tables.REMOVED), run / "removed.parquet")
    record = json.loads((run / "run.json").read_bytes())
    counts = record["counts"] | {"removed": len(removed), "identical": 0}
    counts["documents"] = counts["kept"] + len(removed) + counts["rejected"]
    (run / "run.json").write_text(json.dumps(record | {"counts": counts}), "utf-8")
    return run


def test_every_cluster_is_listed_the_largest_first(make_run: MakeRun) -> None:
    page = write_report(with_clusters(make_run(), [2, 9, 3])).read_text("utf-8")
    listed = page[page.index("All clusters: 3") :]
    assert "All clusters are listed" in listed
    assert listed.index(">page-2<") < listed.index(">page-11<") < listed.index(">page-0<")
    assert ">page-1<" in listed and " and 3 more" in listed


@pytest.mark.parametrize("name", ["page", "<&>" * 90])
def test_a_list_that_is_too_long_is_cut_and_says_so(make_run: MakeRun, name: str) -> None:
    sizes = [random.Random(1).randrange(2, 9) for _ in range(5_000)]
    path = write_report(with_clusters(make_run(), sizes, name))
    page = path.read_text("utf-8")
    assert path.stat().st_size < 1_000_000
    assert "All clusters: 5,000" in page and "largest are listed" in page
    assert page.count("<tr>") <= cluster_list.MOST_CLUSTERS + 500
    assert "neardup why RUN ID" in page


def test_a_run_without_copies_has_no_list(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", [{"id": "a", "text": "one"}])
    dedup(source, "-o", tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "All clusters" not in page and "const listing" not in page


@pytest.mark.parametrize(
    ("query", "found"),
    [("", [0, 1, 2]), ("B", [1]), ("page", [0, 1]), ("page x", [0]), (" c  ", [2]), ("zz", [])],
)
def test_script_finds_rows_by_words(query: str, found: list[int]) -> None:
    rows = ["2 Page-A x", "3 page-B y", "4 C z"]
    by_script = ENGINE.evaljs("listing.matching(dukpy.rows, dukpy.query)", rows=rows, query=query)
    assert by_script == found


def test_script_cuts_pages() -> None:
    def page(count: int, number: int) -> Any:
        return ENGINE.evaljs(
            "((f, p) => [p, listing.status(f, p, 'ask')])"
            "(dukpy.found, listing.page(dukpy.found, dukpy.n))",
            found=list(range(count)),
            n=number,
        )

    first, written = page(60, 0)
    assert (first["shown"], first["last"]) == (list(range(25)), 2)
    assert written == "1 to 25 of 60"
    last, written = page(60, 9)
    assert (last["shown"], written) == (list(range(50, 60)), "51 to 60 of 60")
    assert page(0, 0)[1] == "no cluster in this list; ask"


def test_script_does_not_break_the_markup() -> None:
    assert not any(ends in list_script().lower() for ends in ("</script", "<!--", "<script", "\r"))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


def visible(page: Page) -> int:
    return int(page.value("document.querySelectorAll('.list tbody tr:not([hidden])').length"))


def test_search_and_pages_work_in_a_browser(make_run: MakeRun, page: Page) -> None:
    page.open(write_report(with_clusters(make_run(), [2] * 60)))
    assert page.complaints == []
    assert visible(page) == 25
    page.value("document.querySelectorAll('.list button')[1].click()")
    assert page.value("document.querySelector('.list output').value") == "26 to 50 of 60"
    page.value(
        "(() => { const i = document.querySelector('.list input'); i.value = 'page-119'; "
        "i.dispatchEvent(new Event('input')); })()"
    )
    assert visible(page) == 1
