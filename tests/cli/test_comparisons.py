"""neardup hashes, as people type it."""

from __future__ import annotations

import json

import pytest
from support.command_line import neardup, refused

NAMES = ["xxh64", "murmur3", "fnv1a", "siphash", "sha256", "blake2b", "Python hash"]


def test_hashes_prints_a_table_with_theory():
    ran = neardup("hashes", "--keys", 1000)
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert [line[:18].strip() for line in lines[1:9]] == [*NAMES, "a random function"]
    assert "Python's hash is never used: each process seeds it" in " ".join(ran.out.split())


def test_hashes_prints_json():
    record = json.loads(neardup("hashes", "--keys", 2000, "--json").out)
    assert record["about"].startswith("2,000 different words")
    assert [one["name"] for one in record["functions"]] == NAMES
    assert all(one["words_mb_s"] > 0 and one["longest_chain"] >= 2 for one in record["functions"])
    assert record["theory"]["collisions"] == pytest.approx(2000**2 / 2**33, rel=0.01)


def test_plot_writes_a_page_with_bars(tmp_path):
    ran = neardup("hashes", "--keys", 1000, "--plot", tmp_path / "hashes.html")
    assert ran.code == 0, ran.err
    page = (tmp_path / "hashes.html").read_text("utf-8")
    assert page.count('class="bar"') == 3 * len(NAMES)
    assert all(name in page for name in NAMES) and "a random function" in page
    refused(neardup("hashes", "--keys", 1000, "--plot", tmp_path / "no" / "x.html"), 1, "x.html")


def test_number_of_keys_outside_the_limits_is_refused():
    for keys in (0, 10**9, "many"):
        refused(neardup("hashes", "--keys", keys), 2, "--keys")
