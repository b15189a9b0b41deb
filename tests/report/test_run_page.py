"""The page shows what is in the run, whatever is in the documents."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.command_line import DOCUMENTS, dedup, neardup, words, write_jsonl

from neardup.report import plots, run_page
from neardup.report.cluster_list import list_script
from neardup.report.run_page import write_report

MakeRun = Any

HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "</style></title></svg></bdi><script>alert(1)</script>",
    "' onmouseover=alert(1) x='",
    "<!-- ]]> <![CDATA[ &lt;script&gt; &#60;",
    "javascript:alert(1)",
]
UNSHOWABLE = ["\x00", "\x07", "\x1b[31m", "\x85", "\u202e", "\u2066", "\x0b", "\uffff"]


class Seen(HTMLParser):
    """What a browser would make of a page: its elements, and the text a person sees."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text = self.script = ""
        self._open: list[str] = []
        self.feed(source)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in ("meta", "input"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["script"]:
            self.script += data
        elif self._open[-1:] != ["style"]:
            self.text += data


def seen(run: Path) -> Seen:
    return Seen(write_report(run).read_text("utf-8"))


def test_report_of_a_real_run(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "documents.jsonl", DOCUMENTS)
    record = dedup(source, "-o", tmp_path / "out")
    ran = neardup("report", tmp_path / "out")
    assert (ran.code, ran.out, ran.err) == (0, f"{tmp_path}/out/report.html\n", "")
    found = Seen((tmp_path / "out" / "report.html").read_text("utf-8"))
    counts = record["counts"]
    assert f"{counts['removed']} of {counts['documents']} documents were removed" in found.text
    for shown in (
        f"kept{counts['kept']} ",
        f"identical{counts['identical']} ",
        f"near-duplicates{counts['removed'] - counts['identical']} ",
        f"rejected{counts['rejected']} ",
        f"comparisons{counts['comparisons']}",
        record["fingerprint"],
        "21 bands of 6",
        "0.9983",
        "doc-0",
        str(source),
        "1empty",
    ):
        assert shown in found.text, shown
    assert "no samples.parquet" not in found.text
    assert all(word not in ran.out + ran.err for word in words(1))


def test_report_of_an_empty_run(tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").touch()
    dedup(tmp_path / "none.jsonl", "-o", tmp_path / "out")
    assert "No duplicate among 0 documents" in seen(tmp_path / "out").text


def test_everything_in_run_json_is_shown(make_run: MakeRun) -> None:
    text = seen(make_run(id="some id", file="some file")).text
    for shown in (
        "1,234",
        "5,678",
        "1.25",
        "25.0%",
        "8,123",
        "45",
        "1.50 s",
        "3.0 MB",
        "5.0 MB",
        "1.0 GB",
        "2.0 KB",
        "some id",
        "some file",
        "2.00 s",
    ):
        assert shown in text, shown


def test_texts_are_compared_word_by_word(make_run: MakeRun) -> None:
    source = write_report(make_run(texts=("the red cat sat", "the blue cat sat"))).read_text()
    assert "the <del>red</del> cat sat" in source
    assert "the <ins>blue</ins> cat sat" in source


def test_texts_without_a_difference_are_shown_once(make_run: MakeRun) -> None:
    text = seen(make_run(texts=("some words here", "some  words here"))).text
    assert "Word for word the same." in text
    assert text.count("some words here") == 1


def test_texts_are_called_equal_only_as_far_as_they_are_compared(make_run: MakeRun) -> None:
    text = seen(make_run(texts=("word " * 5_000 + "one", "word " * 5_000 + "two"))).text
    assert "Word for word the same in the first 20,000 characters." in text


@pytest.mark.parametrize("texts", [(None, "a copy"), ("a text", None)])
def test_unreadable_text_is_noted(make_run: MakeRun, texts: tuple[Any, ...]) -> None:
    assert "could not be read again" in seen(make_run(texts=texts)).text


def test_every_removed_document_is_in_the_plot(make_run: MakeRun) -> None:
    similarities = (0.8, 0.801, 0.81, 0.99, 0.999, 1.0, 1.0)
    source = write_report(make_run(similarities=similarities)).read_text()
    bars = re.findall(r"<rect [^>]*><title>(\d+) at ([\d.]+)", source)
    assert bars == [("2", "0.80"), ("1", "0.81"), ("2", "0.99"), ("2", "1")]


@pytest.mark.parametrize("data", HOSTILE)
def test_data_is_escaped_and_can_not_act(make_run: MakeRun, data: str) -> None:
    harmless = seen(make_run(id="harmless", file="file", texts=("a b", "a c")))
    found = seen(make_run(id=data, file=f"{data}/file", texts=(f"{data} b", f"{data} c")))
    assert found.elements == harmless.elements
    assert [name for _, name, _ in found.attributes] == [n for _, n, _ in harmless.attributes]
    assert found.text.count(data) >= 12


def test_page_loads_nothing_and_runs_its_own_script_alone(make_run: MakeRun) -> None:
    found = seen(make_run())
    assert not {"link", "img", "iframe", "object", "form"} & set(found.elements)
    for tag, name, value in found.attributes:
        assert not name.startswith("on")
        assert name not in ("src", "href") or value.startswith("#"), (tag, value)
    style = Path(run_page.__file__).with_name("page.css").read_text("utf-8")
    assert "url(" not in style and "@import" not in style
    assert found.elements.count("script") == 1
    assert found.script == f"{plots.explorer_script()}\n{list_script()}"
    digest = base64.b64encode(hashlib.sha256(found.script.encode()).digest()).decode()
    wanted = (
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
        f"script-src 'sha256-{digest}'"
    )
    assert ("meta", "content", wanted) in found.attributes


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"threshold": 0.8, "tables": "20x5,4x7"},
        {"threshold": 5.0, "bands": 2, "rows": 2},
        {"threshold": 0.0, "bands": 2, "rows": 2},
    ],
)
def test_page_without_bands_has_no_sliders(make_run: MakeRun, parameters: Any) -> None:
    found = seen(make_run(parameters=parameters))
    assert found.script == list_script()
    assert found.elements.count("fieldset") == found.elements.count("input") == 1


@pytest.mark.parametrize("data", UNSHOWABLE)
def test_unshowable_characters_are_escaped(make_run: MakeRun, data: str) -> None:
    run = make_run(id=f"a{data}b", file=f"f{data}", texts=(f"one {data} two", "one two"))
    source = write_report(run).read_text("utf-8")
    assert data[0] not in source
    assert ascii(data[0])[1:-1] in source


def test_lone_surrogates_in_file_names_are_escaped(make_run: MakeRun) -> None:
    inputs = [{"file": "caf\udce9.jsonl", "size": 1, "documents": 1}]
    assert r"caf\udce9.jsonl" in seen(make_run(inputs=inputs)).text


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({}, "is at least 0.8 similar to a better one that was kept (exact Jaccard of word:5"),
        (
            {"verify": "estimate"},
            "is at least 0.8 similar to a better one that was kept (estimated",
        ),
        ({"verify": "none"}, "shares a bucket with a better one that was kept (not verified)"),
        ({"cluster": "components"}, "chains included"),
    ],
)
def test_rule_of_removal_matches_the_parameters(
    make_run: MakeRun, changed: dict[str, str], wanted: str
) -> None:
    parameters = {"threshold": 0.8, "bands": 21, "rows": 6, "verify": "exact", "cluster": "stars"}
    assert wanted in seen(make_run(parameters=parameters | changed)).text


def test_page_size_is_bounded(make_run: MakeRun) -> None:
    long = "<&>" * 20_000
    inputs = [{"file": f"{n}{long}", "size": n, "documents": n} for n in range(300)]
    run = make_run(
        id=long,
        file=long,
        texts=(long, *(f"{n} {long[n:]}" for n in range(50))),
        inputs=inputs,
        hot_buckets=[{"band": 0, "key": long, "size": 9, "sample": [long] * 9}] * 200,
        reasons={f"{n}{long}": 1 for n in range(300)},
    )
    assert write_report(run).stat().st_size < 1_000_000
    assert "200 more are in run.json" in seen(run).text


def test_at_most_ten_clusters_with_three_copies_are_shown(make_run: MakeRun) -> None:
    run = make_run(texts=tuple(f"a text {n}" for n in range(9)))
    source = write_report(run).read_text()
    assert source.count("<article>") == 1
    assert source.count('<div class="differences">') == 3


@pytest.mark.parametrize(
    "missing",
    [
        "spec",
        "parameters",
        "reasons",
        "predicted",
        "full_buckets",
        "hot_buckets",
        "metrics",
        "inputs",
        "skipped_files",
        "seconds",
        "stages",
        "peak_memory_bytes",
        "memory_budget_bytes",
    ],
)
def test_optional_keys_of_run_json_may_be_missing(make_run: MakeRun, missing: str) -> None:
    run = make_run()
    record = json.loads((run / "run.json").read_bytes())
    del record[missing]
    (run / "run.json").write_text(json.dumps(record))
    assert "2 of 6 documents were removed" in seen(run).text


def test_required_keys_of_run_json_are_enough(make_run: MakeRun) -> None:
    run = make_run()
    record = json.loads((run / "run.json").read_bytes())
    needed = {name: record[name] for name in ("version", "fingerprint", "counts")}
    (run / "run.json").write_text(json.dumps(needed))
    assert "2 of 6 documents were removed" in seen(run).text


def test_full_buckets_of_older_runs_are_shown_as_hot(make_run: MakeRun) -> None:
    run = make_run()
    record = json.loads((run / "run.json").read_bytes())
    del record["hot_buckets"]
    (run / "run.json").write_text(json.dumps(record))
    assert "30044an id1ab" in seen(run).text


def test_report_opens_in_a_browser_with_open(make_run: MakeRun) -> None:
    run = make_run()
    with mock.patch("webbrowser.open") as opened:
        assert neardup("report", run).code == 0
        opened.assert_not_called()
        assert neardup("report", run, "--open").code == 0
    opened.assert_called_once_with((run / "report.html").resolve().as_uri())


def test_report_imports_no_heavy_package(make_run: MakeRun) -> None:
    code = (
        "import sys; from pathlib import Path; from neardup.report.run_page import write_report; "
        f"write_report(Path({str(make_run())!r})); "
        "print([name for name in ('numba', 'pandas') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_report_is_deterministic(make_run: MakeRun) -> None:
    run = make_run()
    first = write_report(run).read_bytes()
    assert write_report(run).read_bytes() == first
    assert not list(run.glob(".*"))


def luminance(colour: str) -> float:
    parts = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_colour_contrast_is_sufficient_in_light_and_dark() -> None:
    style = Path(run_page.__file__).with_name("page.css").read_text("utf-8")
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#\w{6})[; ]", block))
        for block in style.split("@media (prefers-color-scheme: dark)", 1)
    )
    for colours in (light, dark):
        for name in ("ink", "soft", "kept", "near", "curve", "count"):
            for ground in ("paper", "card"):
                assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
        for ground in ("del", "ins"):
            assert contrast(colours["ink"], colours[ground]) >= 4.5
        for name in ("identical", "rejected", "violet"):  # of bars, which need less
            assert contrast(colours[name], colours["paper"]) >= 3
