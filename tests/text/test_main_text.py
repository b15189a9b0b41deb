"""The main text of pages: what `strip html:main` compares."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.text.html import html_to_text, render_main_page, render_page

PAGE = """<html><head><title>Title</title></head><body class=x>
<header><h1>Site</h1><a href="/">Home</a></header>
<nav><ul><li><a>Products</a><li>About</ul></nav>
<main><p>Fish &amp; <b>chip</b>s.<p>Twice a day.<span style="color: red; DISPLAY :none">no</span>
<svg aria-hidden="TRUE"><path d="M0"/><text>no</text></svg> Daily.</main>
<div hidden>no<div>no</div></div><form action=x>Name <input hidden><label>no</label></form>
<aside>Related</aside><p aria-hidden=false>Open<footer>2026</footer><script>no</script>"""


def lines_of(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.split("\n") if line.strip()]


def main_lines(page: str) -> list[str]:
    texts = pa.array([page, None], pa.large_string())
    return lines_of(html_to_text(texts, "html:main")[0].as_py())


def test_a_page_has_only_its_main_text() -> None:
    assert main_lines(PAGE) == ["Fish & chips.", "Twice a day.", "Daily.", "Open"]


# An element, its attributes, and whether what is in it is hidden.
KINDS = [
    *((tag, "", False) for tag in ("div", "section", "article", "b", "span", "x-y", "pre")),
    *((tag, "", True) for tag in ("nav", "header", "footer", "aside", "form")),
    *(("div", how, True) for how in (" hidden", ' aria-hidden=" True "', " style='display:none'")),
    *(("span", how, True) for how in (" HIDDEN=until-found", ' style="a:b;display: none !x"')),
    *(("span", how, False) for how in (" data-hidden", " aria-hidden=no", " style=display:block")),
]
trees = st.recursive(
    st.integers(0, 9).map(lambda n: (f"w{n} ", [f"w{n}"])),
    lambda inner: st.tuples(st.sampled_from(KINDS), st.lists(inner, max_size=4)).map(
        lambda drawn: (
            f"<{drawn[0][0]}{drawn[0][1]}>{''.join(part for part, _ in drawn[1])}</{drawn[0][0]}>",
            [] if drawn[0][2] else [word for _, words in drawn[1] for word in words],
        )
    ),
    max_leaves=20,
)


@given(trees)
def test_what_is_hidden_in_a_well_formed_page_is_left_out(tree: tuple[str, list[str]]) -> None:
    page, words = tree
    rendered = render_main_page(page)
    assert rendered.split() == words or (not words and rendered == render_page(page))


SOUP = st.lists(
    st.sampled_from(
        [
            *("<p>", "</p>", "<div>", "</div>", "<b>", "</b>", "<li>", "<td>", "</td>", "<tr>"),
            *("<table>", "</table>", "<pre>", "</pre>", "<svg>", "<path/>", "<br/>", "<div/>"),
            *("<template>", "</template>", "<script>", "</script>", "a\nb", "c ", "<", "&amp;"),
        ]
    ),
    max_size=40,
).map("".join)


@given(SOUP)
def test_without_anything_to_hide_it_is_all_that_a_page_shows(page: str) -> None:
    assert render_main_page(page).split() == render_page(page).split()


@given(st.lists(st.sampled_from(["<nav>", "</nav>", "<p hidden>", "</div>", "<div>", "x"])))
def test_no_page_becomes_empty(parts: list[str]) -> None:
    page = "".join(parts)
    assert bool(render_main_page(page).strip()) == bool(page)


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        ("<div><nav>Home<p>About</div>Text", ["Text"]),
        ("<p hidden>no<p>yes", ["yes"]),
        ("<p hidden>no<b>no<div>yes", ["yes"]),
        ("<ul><li hidden>no<li>yes</ul>", ["yes"]),
        ("<ul><li hidden>no<ul><li>no</ul>no<li>yes</ul>", ["yes"]),
        ("<table><tr hidden><td>no<tr><td>yes", ["yes"]),
        ("<span hidden>no<span>no</span>no</span>yes<p>", ["yes"]),
        ("<input hidden>yes<br hidden>yes<p>", ["yes", "yes"]),
        ("<svg aria-hidden=true />yes<p>", ["yes"]),
        ("<div hidden/>no</div>yes", ["yes"]),
        ("</nav></span>yes<nav>no", ["yes"]),
        ("<form>all of the page", ["all of the page"]),
        ("<body style='display:none'><nav>all</nav> of it", ["all", "of it"]),
        ("no page, only <navigator hidden>", ["no page, only <navigator hidden>"]),
    ],
)
def test_pages_that_leave_out_tags(page: str, lines: list[str]) -> None:
    assert main_lines(page) == lines


@pytest.mark.parametrize(
    "page",
    [
        "<div>" * 100_000 + "x",
        "<div hidden>" * 100_000 + "x",
        "<div>" * 50_000 + "</p>" * 50_000 + "x",
        "<div>" * 50_000 + "<b>" * 50_000 + "</div>" * 50_000 + "x",
        "<nav><p>" * 50_000 + "x",
        "<p>" + "<span hidden>" * 100_000 + "</p>x",
        "<br hidden>" * 100_000 + "x",
        "<p style='" + "display " * 100_000 + "'>x",
        "<p style='" + "display" + " " * 1_000_000 + "'>x",
        "<p " + " ".join(f"a{n}" for n in range(100_000)) + ">x",
        "<table><tr><td>" * 30_000 + "x",
    ],
    ids=range(11),
)
def test_no_page_takes_more_than_linear_time(page: str) -> None:
    began = time.process_time()
    assert main_lines(page) == ["x"]
    assert time.process_time() - began < 2.0
