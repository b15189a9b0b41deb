"""Options that say what of a text is compared, as people type them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import dedup, neardup, refused, table, write_jsonl
from support.serving import serving

import neardup as package

WORDS = "Bread rises while the cats sleep and the rain falls on the old town"
PAGES = [f"Page {n} of 60, read {n * n} times. {WORDS}" for n in range(8)] + ["Something else here"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    rows = [{"id": f"p{n}", "text": text} for n, text in enumerate(PAGES)]
    return write_jsonl(tmp_path / "a.jsonl", rows)


def test_masked_run_is_that_of_the_library_and_explains_itself(
    tmp_path: Path, source: Path
) -> None:
    out = tmp_path / "out"
    record = dedup(source, "-o", out, "--mask", "numbers", "--mask", "urls")
    found = package.dedup(PAGES, mask=["urls", "numbers"])
    assert found.kept == [0, 8]
    assert [row["row"] for row in table(out, "removed")] == [gone.id for gone in found.removed]
    assert record["fingerprint"] == found.options.spec.fingerprint
    assert record["spec"]["mask"] == "numbers,urls"
    assert "masked              numbers,urls\n" in found.summary()
    why = neardup("why", out, f"{source}:3")
    assert why.code == 0 and "word:5 shingles [numbers, urls masked]" in why.out, why.out
    assert dedup(source, "-o", tmp_path / "plain")["counts"]["removed"] < 7


def test_masks_are_part_of_the_specification(tmp_path: Path, source: Path) -> None:
    told = neardup("spec", "--mask", "urls,dates").out
    assert "mask         dates,urls\n" in told
    assert "mask" not in neardup("spec", "--json").out
    dedup(source, "-o", tmp_path / "old", "--mask", "numbers", "--save-sketches")
    other = neardup("dedup", source, "-o", tmp_path / "new", "--against", tmp_path / "old", "-q")
    refused(other, 1, "mask nothing against 'numbers'", "--mask")
    same = neardup("spec", "diff", tmp_path / "old", tmp_path / "old")
    assert same.code == 0
    new = tmp_path / "new"
    record = dedup(source, "-o", new, "--against", tmp_path / "old", "--mask", "numbers")
    assert record["counts"]["kept"] == 0


@pytest.mark.parametrize("written", ['"urls,numbers"', '["numbers", "urls"]'])
def test_masks_of_a_config_file(tmp_path: Path, source: Path, written: str) -> None:
    config = tmp_path / "plan.toml"
    config.write_text(f"version = 1\n[dedup]\nmask = {written}\nstem = 'english'\n")
    record = dedup(source, "-o", tmp_path / "out", "--config", config)
    assert record["spec"]["mask"] == "numbers,urls"
    assert record["spec"]["stem"].startswith("english:")


def test_index_and_service_mask(tmp_path: Path, source: Path) -> None:
    folder = tmp_path / "index"
    assert neardup("index", "build", folder, source, "--mask", "numbers", "-q").code == 0
    stats = json.loads(neardup("index", "stats", folder, "--json").out)
    assert stats["documents"] == 9 and stats["kept"] == 2
    with package.Index.open(folder, read_only=True) as index:
        assert index.query(PAGES[0].replace("60", "99")).similarity == 1.0
    told = neardup("index", "reindex", folder, "--mask", "urls", "--corpus", source)
    assert told.code == 0, told.err
    with package.Index.open(folder, read_only=True) as index:
        assert index.options.spec.mask == "urls"
    with serving(tmp_path / "served", mask="numbers") as client:
        for n in (0, 1):
            answer = client.post("/v1/documents", json={"id": f"{n}", "text": PAGES[n]}).json()
        assert (answer["status"], answer["similarity"]) == ("duplicate", 1.0)


def test_stems_are_compared_everywhere(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "text": "The cat sleeps on houses"},
        {"id": "b", "text": "The cats sleep on a house"},
    ]
    source = write_jsonl(tmp_path / "a.jsonl", rows)
    options = ("--shingle", "word:1", "--threshold", "0.8", "--stem", "english")
    out = tmp_path / "out"
    record = dedup(source, "-o", out, *options, "--save-sketches")
    assert record["counts"]["removed"] == 1
    assert record["spec"]["stem"].startswith("english:")
    why = neardup("why", out, f"{source}:1")
    assert why.code == 0 and "0.83" in why.out, why.out
    assert "stem         english:" in neardup("spec", "--stem", "english").out
    folder = tmp_path / "index"
    assert neardup("index", "build", folder, source, *options, "--keep-texts", "-q").code == 0
    told = neardup("index", "reindex", folder, "--stem", "german", "-q")
    assert told.code == 0, told.err
    with package.Index.open(folder, read_only=True) as index:
        assert index.options.spec.stem.startswith("german:")
    assert neardup("index", "reindex", folder, "--stem", "", "--strip", "html:main").code == 0
    with package.Index.open(folder, read_only=True) as index:
        assert (index.options.spec.stem, index.options.spec.strip) == ("", "html:main")
    with serving(tmp_path / "served", stem="english", shingle="word:1") as client:
        for row in rows:
            answer = client.post("/v1/documents", json=row).json()
        assert answer["status"] == "duplicate"


def test_words_are_cut_by_icu_everywhere(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "text": "私は東京の大学で日本語を勉強しています。"},
        {"id": "b", "text": "私は大阪の大学で日本語を勉強しています。"},
    ]
    source = write_jsonl(tmp_path / "a.jsonl", rows)
    options = ("--shingle", "word:1", "--threshold", "0.8", "--segment", "icu")
    record = dedup(source, "-o", tmp_path / "out", *options)
    assert record["counts"]["removed"] == 1
    assert record["spec"]["segment"].startswith("icu:")
    why = neardup("why", tmp_path / "out", f"{source}:1")
    assert why.code == 0 and "0.8" in why.out, why.out
    assert "segment      icu:" in neardup("spec", "--segment", "icu").out
    folder = tmp_path / "index"
    assert neardup("index", "build", folder, source, *options, "--keep-texts", "-q").code == 0
    with package.Index.open(folder, read_only=True) as index:
        assert index.query(rows[1]["text"]).status == "duplicate"
    told = neardup("index", "reindex", folder, "--segment", "", "-q")
    assert told.code == 0, told.err
    with package.Index.open(folder, read_only=True) as index:
        assert index.options.spec.segment == ""
    with serving(tmp_path / "served", segment="icu", shingle="word:1") as client:
        for row in rows:
            answer = client.post("/v1/documents", json=row).json()
        assert answer["status"] == "duplicate"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--segment", "jieba"), "icu"),
        (("--segment", "icu", "--shingle", "line:1"), "not line shingles"),
        (("--stem", "klingon"), "english"),
        (("--stem", "english", "--shingle", "char:5"), "not of char shingles"),
        (("--strip", "html:all"), "html:main"),
        (("--mask", "phones"), "numbers"),
        (("--mask", "numbers", "--distinguish", "numbers"), "can't distinguish"),
        (("--mask", "numbers", "--shingle", "token:5"), "has no text"),
        (("--mask", "numbers", "--vectors", "v", "--cosine", "0.9"), "--mask is about texts"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    tmp_path: Path, source: Path, options: tuple[str, ...], message: str
) -> None:
    refused(neardup("dedup", source, "-o", tmp_path / "out", "-q", *options), 2, message)
