"""Pages as the text that they show."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup import errors
from neardup.text.html import html_to_text, render_page

PAGE = """<!DOCTYPE html>
<html><head><title>Title</title><style>p { color: red }</style><meta charset=utf-8></head>
<body><nav><ul><li><a href="/">Home</a><li>About</ul></nav>
<p>Fish &amp; <b>chip</b>s,
&eacute;t&#xE9;<br>next line</p><script>var hidden = "<p>no</p>"</script>
<template><p>no</p></template><noscript>no</noscript><!-- no -->
<table><tr><td>1<td>2</table><pre>kept
  lines</pre></body></html>"""


def lines_of(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.split("\n") if line.strip()]


def one(text: str) -> str:
    return html_to_text(pa.array([text], pa.large_string()))[0].as_py()


def test_a_page_shows_its_visible_text():
    assert lines_of(one(PAGE)) == [
        "Home",
        "About",
        "Fish & chips, été",
        "next line",
        "1",
        "2",
        "kept",
        "lines",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain  text\n stays &amp; as it is\r\n",
        "1 < 2 and 3 > 2, a<3, i <3 you",
        "x<y and y>z, <stdio.h>, vector<int>",
        "<script>only a script</script>",
        "<p> </p>",
    ],
)
def test_a_text_that_is_no_page_or_shows_nothing_stays(text):
    assert one(text) == text


def test_nulls_and_slices_of_columns_are_rendered():
    texts = pa.array(["x", "<p>a", None, "b"], pa.large_string())[1:]
    assert html_to_text(texts).to_pylist() == ["\na", None, "b"]
    assert html_to_text(texts[:0]).to_pylist() == []


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        ("<div>" * 100_000 + "x", ["x"]),
        ("<table><tr><td>" * 30_000 + "x", ["x"]),
        ("<b>" * 100_000 + "x", ["x"]),
        ("<select>" + "<option>o" * 50_000, ["o"] * 50_000),
        ('<p a="' + "x" * 5_000_000 + '">hi', ["hi"]),
        ("<p " + " ".join(f"a{i}" for i in range(100_000)) + ">hi", ["hi"]),
        ("<p>a\0b</p\0>c", ["a\0b", "c"]),
        ("<p>&#0;&#xD800;&#x110000;&#99999999999;&bogus;", ["\ufffd\ufffd\ufffd\ufffd&bogus;"]),
        ("<p>x" + "<" * 100_000, ["x" + "<" * 100_000]),
        ("</p></b></pre>x<pre>a\nb", ["x", "a", "b"]),
        ("<template><template>no</template>no</template>yes<p>", ["yes"]),
        ("<p>yes<script>no", ["yes"]),
        ("<my-element>one</my-element>two<p>", ["one", "two"]),
    ],
)
def test_malformed_pages_are_rendered(page, lines):
    assert lines_of(one(page)) == lines


@given(
    st.lists(
        st.sampled_from(
            [
                "<",
                ">",
                "/",
                "!",
                "-",
                "p",
                "script",
                "template",
                "pre",
                '"',
                "=",
                " ",
                "&",
                "#x",
                "41",
                ";",
                "\0",
                "\n",
                "é",
                "😀",
                "<!--",
                "-->",
                "<p>",
                "</script",
                "[CDATA[",
                "]]>",
                "?",
                "<title>",
            ]
        ),
        max_size=60,
    ).map("".join)
)
def test_any_text_can_be_rendered(text):
    render_page(text).encode()
    html_to_text(pa.array([text, None], pa.large_string())).validate(full=True)


def test_a_missing_library_is_named_with_its_install_command(monkeypatch):
    monkeypatch.setattr("neardup.text.html.find_spec", lambda name: None)
    with pytest.raises(errors.UsageError, match=r"pip install 'neardup\[html\]'") as caught:
        one("<p>x")
    assert "\n" not in str(caught.value)
