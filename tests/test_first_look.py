"""What is said about the first documents: computed by the definition, and only if it matters."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pyarrow as pa
import pytest
from support.command_line import neardup as run
from support.posts import ordinary_posts, spam_posts

import neardup
from neardup import reference
from neardup.first_look import (
    FirstDocuments,
    changed_word_similarity,
    describe_limit,
    fewest_words,
    finds_changed_word,
)
from neardup.options import Options
from neardup.spec import Spec

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def changed_text(words: int) -> tuple[str, str]:
    """A text of different words of five letters, and the same with another word in the middle."""
    draw, pairs = random.Random(words), [a + b for a in LETTERS for b in LETTERS]
    draw.shuffle(pairs)
    # No shingle of five characters occurs twice: each word begins with its own two letters.
    text = [pairs[n] + "".join(draw.choices(LETTERS, k=3)) for n in range(words)]
    other = [*text]
    other[words // 2] = "ABCDE"
    return " ".join(text), " ".join(other)


def shingles_of(text: str, spec: Spec) -> set[int]:
    units = reference.units(text, spec)
    return reference.shingles(reference.unit_hashes(units, spec), spec.size)


@pytest.mark.parametrize("shingle", ["word:5", "word:1", "word:3", "char:5", "char:24", "line:1"])
@pytest.mark.parametrize("measure", ["jaccard", "containment"])
def test_similarity_of_a_changed_word_is_that_of_the_definition(shingle: str, measure: str) -> None:
    options = Options.of(shingle=shingle, measure=measure, text_profile="conservative")
    for words in (1, 2, 4, 5, 6, 9, 17, 23, 60):
        one, other = (shingles_of(text, options.spec) for text in changed_text(words))
        exact = reference.MEASURES[measure](one, other)
        assert changed_word_similarity(words, options) == pytest.approx(exact), words


def test_fewest_words_are_the_first_that_are_found() -> None:
    for given in ({}, {"shingle": "word:3"}, {"preset": "short"}, {"threshold": 0.5}):
        options = Options.of(**given)
        least = fewest_words(options)
        assert least is not None
        assert finds_changed_word(least, options)
        assert not finds_changed_word(least - 1, options)
    assert fewest_words(Options.of(shingle="line:1")) is None


def looked_at(texts: list[str], **options: object) -> list[str]:
    chosen = Options.of(**options)
    first = FirstDocuments(chosen.spec)
    first.add(pa.array(texts, pa.large_string()))
    look = first.look()
    assert look is not None
    return look.advice(chosen)


def test_user_with_short_posts_is_told_what_is_not_found_and_what_would() -> None:
    posts = [" ".join(f"w{n}x{at}" for at in range(17)) for n in range(50)]
    (advice,) = looked_at(posts)
    assert advice == (
        "100% of the first 50 documents have fewer than 40 words. One of 17 words with one word "
        "changed is 0.44 similar by word:5, below 0.8: not found (in texts of 49 words or more it "
        "is); --preset short finds it: 0.83 by char:5, with a threshold of 0.5"
    )
    assert looked_at(posts, preset="short") == []


@pytest.mark.parametrize(
    "options",
    [
        {"shingle": "word:1"},
        {"threshold": 0.4},
        {"verify": "none"},
        {"sketch": "simhash"},
    ],
)
def test_nothing_is_said_where_a_changed_word_is_found_or_shingles_are_not_compared(
    options: dict[str, object],
) -> None:
    assert looked_at(ordinary_posts(50), **options) == []


def test_nothing_is_said_about_pages_and_about_few_documents() -> None:
    pages = [" ".join(ordinary_posts(20, seed)) for seed in range(40)]
    assert looked_at(pages) == []
    assert looked_at([*pages, *ordinary_posts(10)]) == []  # a fifth is not many
    assert looked_at([*pages, *ordinary_posts(20)]) != []
    assert looked_at(ordinary_posts(9)) == []


def test_texts_that_no_preset_helps_get_no_command() -> None:
    (advice,) = looked_at([f"item {n} blue" for n in range(30)])
    assert "--preset" not in advice and "only copies with the same words are found" in advice


def test_words_of_chinese_are_its_characters_and_empty_texts_are_left_out() -> None:
    first = FirstDocuments(Spec())
    first.add(pa.array(["你好世界", "", None, "?", "one two"], pa.large_string()))
    look = first.look()
    assert look is not None
    assert (look.documents, look.short_words) == (3, 2)


def test_ids_of_tokens_and_no_documents_are_not_looked_at() -> None:
    assert FirstDocuments(Spec()).look() is None
    tokens = FirstDocuments(Spec(unit="token"))
    tokens.add(pa.array([[1, 2]], pa.large_list(pa.int64())))
    assert tokens.look() is None
    assert neardup.dedup([[1, 2, 3]] * 20, shingle="token:2").advice == []


def test_limit_of_an_operating_point_in_a_sentence() -> None:
    assert "of 49 words or more" in (describe_limit(Options()) or "")
    found = "one changed word is found in texts of 6 words or more"
    assert describe_limit(Options.of(preset="short")) == found
    assert describe_limit(Options.of(shingle="token:5")) is None
    assert "same words" in (describe_limit(Options.of(shingle="line:1")) or "")


def test_library_dedup_and_index_say_it_too(tmp_path: Path) -> None:
    posts = [*ordinary_posts(60), *spam_posts(6)]
    result = neardup.dedup(posts)
    assert 'preset="short" finds it' in result.advice[0]
    assert result.summary().splitlines()[-1].startswith("advice              100% of the first 66")
    assert neardup.dedup(posts, preset="short").advice == []

    source = tmp_path / "posts.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in posts))
    ran = run("dedup", source, "-o", tmp_path / "out")
    assert "--preset short finds it" in ran.out
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["first_documents"]["documents"] == 66
    assert record["first_documents"]["under_40_words"] == 66
    assert record["scripts"] == {"Latin": {"documents": 32}}  # of each chunk the first ones
    assert len(record["advice"]) == 1 and record["advice"][0] in ran.out
    assert "Advice: 100% of the first 66" in (tmp_path / "out" / "report.html").read_text()
    assert run("dedup", source, "-o", tmp_path / "quiet", "--quiet").out == ""
    with neardup.dedup_files(source) as result:
        assert result.advice == record["advice"]
        assert record["advice"][0] in result.summary()
    built = run("index", "build", tmp_path / "index", source)
    assert record["advice"][0] in built.out
    found = run("index", "build", tmp_path / "other", source, "--preset", "short")
    assert "advice" not in found.out


def test_report_tells_what_became_of_documents_by_script(tmp_path: Path) -> None:
    chinese = [f"{'第一天的天气很好我们去公园' * 2}{chr(0x4E00 + 40 * n)}" * 3 for n in range(5)]
    posts = [*ordinary_posts(20), *chinese, chinese[0]]
    source = tmp_path / "posts.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in posts))
    assert run("dedup", source, "-o", tmp_path / "out", "--threshold", "0.6").code == 0
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    scripts = record["scripts"]
    assert scripts["Latin"] == {
        "documents": 20,
        "kept": 20,
        "removed": 0,
        "median_similarity": None,
    }
    assert scripts["Han"]["documents"] == 6
    assert scripts["Han"]["kept"] + scripts["Han"]["removed"] == 6
    assert scripts["Han"]["kept"] == record["counts"]["kept"] - 20
    assert 0.6 <= scripts["Han"]["median_similarity"] <= 1.0
    assert "By script" in (tmp_path / "out" / "report.html").read_text()


def passages_and_pages(passages: int) -> list[dict[str, str]]:
    """Pages of 500 words, and passages of 60 words, each of which is in one of the pages."""
    draw = random.Random(5)
    pages = [[f"w{draw.randrange(10**6)}" for _ in range(500)] for _ in range(40)]
    rows = [{"id": f"page{n}", "text": " ".join(page)} for n, page in enumerate(pages)]
    rows += [
        {"id": f"part{n}", "text": " ".join(pages[n % 40][n : n + 60])} for n in range(passages)
    ]
    return rows


@pytest.mark.parametrize("passages", [10, 60])
def test_passages_in_long_documents_are_said_not_to_be_found_with_the_bands_that_find_them(
    passages: int,
) -> None:
    """Ten passages, each wholly in a page, were not found, beside "predicted recall 1.0000"."""
    rows = passages_and_pages(passages)
    result = neardup.dedup(rows, measure="containment")
    (advice,) = result.advice
    assert len(result.removed) < passages / 4
    assert advice.startswith("a document of 60 words that is wholly in one of ")
    given = {k: int(v) for k, v in re.findall(r"(bands|rows|slots)=(\d+)", advice)}
    found = neardup.dedup(rows, measure="containment", **given)
    assert len(found.removed) >= 0.85 * passages and found.advice == []
    assert neardup.dedup(rows[:40], measure="containment").advice == []
    assert neardup.dedup(rows).advice == []


def test_passages_are_compared_with_the_lengths_of_against(tmp_path: Path) -> None:
    rows = passages_and_pages(10)
    for name, part in (("pages", rows[:40]), ("parts", rows[40:])):
        lines = "".join(json.dumps(row) + "\n" for row in part)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    inputs = [tmp_path / "parts.jsonl", "--against", tmp_path / "pages.jsonl"]
    ran = run("dedup", *inputs, "-o", tmp_path / "out", "--measure", "containment")
    assert "advice              a document of 60 words that is wholly in one of " in ran.out
    assert re.search(r"--bands \d+ --rows \d finds it with a probability of (0\.9|1\.0)", ran.out)


def common_words(count: int) -> list[str]:
    """Short texts of words that are as unequally frequent as those of a language."""
    chance = random.Random(2)
    words = [f"w{number}" for number in range(5_000)]
    weights = [1 / (number + 1) for number in range(5_000)]
    return [" ".join(chance.choices(words, weights, k=chance.randint(3, 20))) for _ in range(count)]


def test_many_comparisons_of_documents_that_are_not_similar_are_warned_of() -> None:
    texts = pa.array(common_words(1_600), pa.large_string())
    loose = Options.of(shingle="word:1", threshold=0.5)
    for options, documents, warns in (
        (loose, 1_000_000, True),
        (loose, 50_000, False),
        (Options(), 1_000_000, False),
        (Options.of(shingle="word:1", threshold=0.9), 1_000_000, False),
    ):
        first = FirstDocuments(options.spec)
        for start in range(0, len(texts), 100):
            first.add(texts.slice(start, 100))
        warning = first.warn_of_comparisons(options, documents)
        assert (warning is not None) == warns, (options, documents, warning)
        if warning is not None:
            assert "--threshold 0.5 (42 bands of 3)" in warning and "--limit" in warning


def test_warning_comes_before_the_run_reads_and_its_number_is_about_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neardup.first_look.MANY_DOCUMENTS", 1_000)
    monkeypatch.setattr("neardup.first_look.MANY", 5)
    lines = "".join(json.dumps({"text": text}) + "\n" for text in common_words(3_000))
    (tmp_path / "a.jsonl").write_text(lines)
    options = ["--shingle", "word:1", "--threshold", "0.5"]
    planned = run("dedup", tmp_path / "a.jsonl", "-o", tmp_path / "out", *options, "--dry-run")
    assert planned.code == 0, planned.err
    ran = run("dedup", tmp_path / "a.jsonl", "-o", tmp_path / "out", *options)
    assert ran.code == 0, ran.err
    said = re.search(r"about (\d+) comparisons a document are expected", ran.err)
    assert said and said.start() < ran.err.index("reading ")
    assert said[0] in planned.out
    counts = json.loads((tmp_path / "out" / "run.json").read_bytes())["counts"]
    assert 0.5 < int(said[1]) / (counts["comparisons"] / counts["documents"]) < 2
