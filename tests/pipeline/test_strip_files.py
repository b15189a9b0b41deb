"""Stripping over files gives the answer of the library; the list of lines is reused on resume."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import dedup, edited, neardup, refused, table, write_jsonl

import neardup as package
from neardup.text.lines import IgnoredLines

BANNER = " ".join(f"cookie{n}" for n in range(200)) + "\n"


def pages(strip: str) -> list[str]:
    banner = BANNER if "lines" in strip else ""
    texts = [banner + edited(n % 30, count=8) for n in range(60)]
    if strip == "html:main":
        wrap = "<p hidden>{} {}<nav><p>{}</nav><p>{}"
        return [wrap.format(n, BANNER, f"menu{n} " * 9, edited(n % 30, count=8)) for n in range(60)]
    wrap = f"<html><body><script>{BANNER}</script><p>{{}}</p></body></html>"
    return [wrap.format(text.replace("\n", "<br>")) if "html" in strip else text for text in texts]


@pytest.mark.parametrize("strip", ["lines:50%", "html", "html,lines:50%", "html:main"])
def test_answer_equals_that_of_the_library(tmp_path: Path, strip: str) -> None:
    texts = pages(strip)
    source = write_jsonl(tmp_path / "a.jsonl", [{"text": text} for text in texts])
    options = [part for what in strip.split(",") for part in ("--strip", what)]
    record = dedup(source, "-o", tmp_path / "out", *options)
    found = package.dedup(texts, strip=strip)
    assert [row["row"] for row in table(tmp_path / "out", "removed")] == [
        gone.id for gone in found.removed
    ]
    assert record["fingerprint"] == found.options.spec.fingerprint
    assert record["spec"]["unit"] == "word" and record["parameters"]["strip"] == strip
    if "lines" in strip:
        stored = (tmp_path / "out" / "ignored-lines").read_bytes()
        assert IgnoredLines.from_bytes(stored).digest == found.options.spec.ignored != ""
    plain = dedup(source, "-o", tmp_path / "plain")
    assert plain["counts"]["removed"] != record["counts"]["removed"]
    assert not (tmp_path / "plain" / "ignored-lines").exists()


def test_a_bad_strip_option_is_refused(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", [{"text": "x"}])
    for what in ("lines", "lines:0%", "css", "html:text", "html,html:main"):
        ran = neardup("dedup", source, "-o", tmp_path / "out", "-q", "--strip", what)
        refused(ran, 2, what.rpartition(",")[2])


def test_the_report_lists_ignored_lines(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", [{"text": text} for text in pages("lines")])
    dedup(source, "-o", tmp_path / "out", "--strip", "lines:50%")
    assert json.loads((tmp_path / "out" / "run.json").read_bytes())["ignored_lines"]["count"] == 1


def test_lines_are_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", [{"text": text} for text in pages("lines")])
    command = ["dedup", source, "-o", tmp_path / "out", "--strip", "lines:50%"]
    with monkeypatch.context() as stopping:
        stopping.setattr("neardup.pipeline.run.rank_and_collapse", lambda *_: 1 / 0)
        assert neardup(*command, "-q").code == 1
    going_on = neardup(*command)
    assert going_on.code == 0
    assert "counting lines" not in going_on.err and "resuming: " in going_on.err
