"""`neardup why`: each decision of a run or an index is explained, or the reason why it can't be."""

from __future__ import annotations

import gzip
import json
from itertools import permutations
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.command_line import WRITERS, Ran, dedup, neardup, refused, write_jsonl

import neardup as library
from neardup import Index
from neardup.explanation import PairVerdict
from neardup.pipeline.output import WORK_FOLDER, hold_lock
from neardup.pipeline.run_progress import RecordedProgress
from neardup.runtime import SILENT

WORDS = [f"word{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(120)]


def text(changes: int = 0, start: int = 0) -> str:
    """A hundred words, with this many of them changed, far from one another."""
    words = WORDS[start : start + 100]
    for place in range(changes):
        words[place * 9 % 100] = f"changed{'abcdefghijklm'[place]}"
    return " ".join(words)


ROWS = [
    {"id": "original", "text": text(), "lang": "en"},
    {"id": "edited", "text": text(1), "lang": "en"},
    {"id": "twin", "text": text().upper(), "lang": "en"},
    {"id": "distant", "text": text(4), "lang": "en"},
    {"id": "foreign", "text": text(), "lang": "de"},
    {"id": "numbered", "text": f"{text()} 17", "lang": "en"},
    {"id": "other", "text": "nothing in common with any of them at all", "lang": "en"},
    {"id": "empty", "text": " ", "lang": "en"},
]


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "pages.jsonl", ROWS)


@pytest.fixture
def run(tmp_path: Path, pages: Path) -> Path:
    dedup(pages, "-o", tmp_path / "run", "--within", "lang", "--distinguish", "numbers")
    return tmp_path / "run"


def asked(run: Path, *arguments: object) -> str:
    ran = neardup("why", run, *arguments, "-q")
    assert ran.code == 0 and ran.err == "", ran
    return ran.out


def pair(run: Path, a: str, b: str) -> PairVerdict:
    found = json.loads(asked(run, a, b, "--json"))
    return PairVerdict(**found["verdict"])


def test_a_removed_document_is_shown_with_its_witness_and_the_words_that_differ(run: Path) -> None:
    shown = asked(run, "edited")
    assert shown.startswith("'edited' was removed: 0.9")
    assert "similar to 'original', which was kept (exact Jaccard of word:5 shingles" in shown
    assert "witness       original" in shown and "of 96 here and 96 there" in shown
    assert "[wordaa]" in shown and "[changeda]" in shown


def test_an_identical_document_has_the_same_words(run: Path) -> None:
    assert "21 of 21 shared" in asked(run, "twin")


def test_a_kept_document_is_shown_with_what_it_met(run: Path) -> None:
    shown = asked(run, "original")
    assert shown.startswith("'original' was kept; 2 removed because of it")
    assert "nearest       1.0000 twin, removed because of original" in shown
    assert "edited, removed because of original" in shown
    assert "foreign" not in shown and "numbered" not in shown
    found = json.loads(asked(run, "original", "--json"))
    assert found["met"] == len(found["nearest"]) >= 2
    assert "met           0 documents share a bucket with it" in asked(run, "other")


def test_a_vetoed_document_says_so(run: Path) -> None:
    shown = asked(run, "numbered")
    assert "without --distinguish numbers it would be removed: 0.9" in shown
    assert "[17]" in shown


def test_a_rejected_document_has_its_reason(run: Path) -> None:
    assert asked(run, "empty").startswith("'empty' was rejected: empty")


def test_two_documents_and_why_they_are_or_are_not_duplicates(run: Path) -> None:
    assert pair(run, "edited", "original").verdict == "copy"
    assert pair(run, "original", "twin").verdict == "copy"
    assert pair(run, "edited", "twin").verdict == "same cluster"
    assert pair(run, "original", "empty").verdict == "rejected"
    apart = pair(run, "original", "foreign")
    assert (apart.verdict, apart.similarity) == ("other group", 1.0)
    assert "kept apart by --within lang" in apart.sentence
    vetoed = pair(run, "numbered", "original")
    assert vetoed.verdict == "vetoed" and vetoed.similarity is not None
    assert 0.9 < vetoed.similarity < 1 and "--distinguish numbers" in vetoed.sentence
    never = pair(run, "original", "other")
    assert never.verdict == "never met" and never.probability == 0.0


def test_documents_below_the_threshold_met_or_did_not(run: Path) -> None:
    found = pair(run, "original", "distant")
    assert found.similarity is not None and found.probability is not None
    assert 0.6 < found.similarity < 0.8 and 0.3 < found.probability < 1
    if found.buckets:
        assert found.verdict == "not similar"
        assert "they met, and are not similar enough" in found.sentence
    else:
        assert found.verdict == "never met"
        assert f"with a probability of {found.probability:.4f}" in found.sentence


def test_differences_of_two_documents_are_marked(run: Path) -> None:
    shown = asked(run, "original", "distant")
    assert "original      [wordaa]" in shown and "distant       [changeda]" in shown


def test_ids_do_not_command_the_terminal(tmp_path: Path) -> None:
    kept, copy = "a\x1b[2J\x9b1m", "b\x1b]0;title\x07"
    pages = write_jsonl(
        tmp_path / "pages.jsonl", [{"id": kept, "text": text()}, {"id": copy, "text": text(1)}]
    )
    ran = neardup("dedup", pages, "-o", tmp_path / "run")
    assert ran.code == 0
    assert neardup("index", "build", tmp_path / "index", pages, "--keep-texts", "-q").code == 0
    shown = [ran.out, ran.err]
    for place in (tmp_path / "run", tmp_path / "index"):
        shown += [asked(place, kept), asked(place, copy), asked(place, kept, copy)]
    assert "witness       a\ufffd[2J\ufffd1m" in shown[3]
    unprintable = [line for one in shown for line in one.split("\n") if not line.isprintable()]
    assert unprintable == []


@pytest.mark.parametrize("command", [["why", "RUN", "original"], ["report", "RUN"]], ids="-".join)
def test_a_stopped_run_says_that_it_is_not_finished_and_how_it_goes_on(
    tmp_path: Path, pages: Path, command: list[str]
) -> None:
    """It said: RUN is not an index, and not empty."""
    run = tmp_path / "run"
    (run / WORK_FOLDER).mkdir(parents=True)
    RecordedProgress(SILENT, run / WORK_FOLDER)
    given = [str(run) if one == "RUN" else one for one in command]
    refused(neardup(*given), 2, "was stopped and is not finished: run the same command again")
    with hold_lock(run, run):
        refused(neardup(*given), 2, "is not finished yet", "neardup status")


def test_a_file_that_was_not_read_says_so_with_the_reason(tmp_path: Path) -> None:
    """It said: has no document 'pic.png': check the id."""
    folder = tmp_path / "posts"
    folder.mkdir()
    for name in ("a.md", "pic.png", ".draft.md"):
        (folder / name).write_text(text())
    run = tmp_path / "run"
    dedup(folder, "-o", run, "--include", "*.md")
    for id in ("pic.png", str(folder / "pic.png")):
        refused(neardup("why", run, id), 2, "pic.png is no document", "not read: not in --include")
    refused(neardup("why", run, "a.md", ".draft.md"), 2, "not read: hidden file")
    (folder / "a.md").write_text("another text")
    refused(neardup("why", run, "pic.png"), 2, "pic.png is no document", "not read: not in")


def test_a_file_that_was_skipped_says_so_with_the_reason(tmp_path: Path, pages: Path) -> None:
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(pages.read_bytes())[:-20])
    run = tmp_path / "run"
    ran = neardup("dedup", pages, tmp_path / "cut.jsonl.gz", "-o", run, "--skip-bad-files")
    assert "skipped: " in ran.err and "get it again" in ran.err
    assert "--skip-bad-files" not in ran.err, "no cure that is given already"
    refused(neardup("why", run, "cut.jsonl.gz"), 2, "cut.jsonl.gz is no document", "skipped: ")


def test_an_unknown_id_names_near_ones(run: Path) -> None:
    refused(neardup("why", run, "orignal", "-q"), 2, "has no document 'orignal'", "'original'")
    refused(neardup("why", run, "original", "zzz", "-q"), 2, "has no document 'zzz'", "check")


PART = [
    {"id": "book", "text": text() + " " + " ".join(f"page{n}" for n in range(60)), "day": 1},
    {"id": "quote", "text": f"my own words before it {text()} and four words after", "day": 2},
    {"id": "twin", "text": f"My own words before it {text()} and four words after", "day": 3},
    {"id": "note", "text": " ".join(WORDS[:60]) + " which is all", "day": 4},
]


@pytest.mark.parametrize("keep", ["first", "last", "longest", "newest:day"])
def test_how_much_of_a_document_is_in_another_is_the_same_whichever_is_named_first(
    tmp_path: Path, keep: str
) -> None:
    """It was 0.3389 or 0.2144, by the order of the ids; the run and its pairs have one of them."""
    source, run = write_jsonl(tmp_path / "texts.jsonl", PART), tmp_path / "run"
    options = {"measure": "containment", "threshold": 0.05, "recall": 0.99, "slots": 256}
    given = [str(one) for name, value in options.items() for one in (f"--{name}", value)]
    dedup(source, "-o", run, *given, "--pairs", "--keep", keep)
    in_memory = library.dedup(PART, keep=keep, **options)
    written = pq.read_table(run / "pairs.parquet").to_pylist()
    assert written
    for a, b in permutations([row["id"] for row in PART], 2):
        found, expected = pair(run, str(a), str(b)), in_memory.why(a, b)
        assert found.sentence == expected.sentence
        assert {one["similarity"] for one in written if {one["a"], one["b"]} == {a, b}} <= {
            found.similarity
        }
        if not {a, b} >= {"quote", "twin"}:
            assert " is in '" in found.sentence


def test_the_witness_of_a_copied_passage_is_read_from_the_files_of_against(tmp_path: Path) -> None:
    """The text of a witness in --against was not among the inputs, and its id was unknown."""
    old = tmp_path / "old"
    old.mkdir()
    (old / "source.txt").write_text(text())
    (old / "far.txt").write_text(f"{' '.join(WORDS[80:])} {'so ' * 9}")
    essay = tmp_path / "essay.txt"
    essay.write_text(f"{'mine ' * 3} {' '.join(WORDS[:40])} and {' '.join(WORDS[85:97])} also mine")
    run, given = tmp_path / "run", ["--measure", "containment", "--threshold", "0.3"]
    dedup(essay, "-o", run, "--against", old, *given, "--slots", "512", "--recall", "0.99")
    shown = asked(run, "essay.txt")
    assert "shared        44 shingles of" in shown
    assert "common        52 of 58 words (90%) here and 52 of 100 words (52%) there" in shown
    assert "\npassage" not in shown, "most of both is common: the differences tell it"
    for ids in (["essay.txt", "far.txt"], ["far.txt", "essay.txt"]):
        assert "of 'essay.txt' is in 'far.txt' (containment >= 0.3)" in asked(run, *ids)
    assert "is of the earlier corpus (--against)" in asked(run, "far.txt")
    (old / "source.txt").write_text(text(1))
    assert "has changed since the run" in asked(run, "essay.txt")


def test_seventy_copied_words_in_an_essay_are_shown_with_their_places(tmp_path: Path) -> None:
    """The passage was not to be seen among the words that differ, which are cut."""
    copied = " ".join(WORDS[10:80])
    own = [f"thought{n}" for n in range(300)]
    essay = f"{' '.join(own[:200])} {copied} {' '.join(own[200:])}"
    rows = [{"id": "source", "text": text()}, {"id": "essay", "text": essay}]
    source, given = write_jsonl(tmp_path / "a.jsonl", rows), ["--measure", "containment"]
    dedup(source, "-o", tmp_path / "run", *given, "--threshold", "0.1", "--slots", "512")
    line = f"passage       70 words, from word 201 here and word 11 there: {copied}\n"
    assert line in asked(tmp_path / "run", "essay")
    assert line in asked(tmp_path / "run", "essay", "source")
    for ids in (["essay"], ["essay", "source"]):
        found = json.loads(asked(tmp_path / "run", *ids, "--json"))["passages"]
        assert found["listed"][0]["text"] == copied and found["covered"] == [70, 70]
    index = tmp_path / "index"
    assert neardup("index", "build", index, source, "--keep-texts", "-q").code == 0
    assert line in neardup("why", index, "essay", "source").out
    told = json.loads(neardup("why", index, "essay", "source", "--json").out)
    assert told["passages"]["listed"][0]["words"] == 70


def test_a_kept_document_is_shown_with_what_it_met_in_against(tmp_path: Path) -> None:
    old = write_jsonl(tmp_path / "old.jsonl", [{"id": "early", "text": text(4)}])
    new = write_jsonl(tmp_path / "new.jsonl", [{"id": "late", "text": text()}])
    dedup(new, "-o", tmp_path / "run", "--against", old, "--bands", "64", "--rows", "2")
    assert "nearest       0.7143 early, of --against" in asked(tmp_path / "run", "late")


@pytest.mark.parametrize("way", ["dedup", "index add"])
def test_a_witness_in_an_index_that_keeps_texts_is_shown_with_the_differences(
    tmp_path: Path, way: str
) -> None:
    """The text of a witness was said not to be among the inputs, though the index has it."""
    old = write_jsonl(tmp_path / "old.jsonl", [{"id": "early", "text": text()}])
    new = write_jsonl(
        tmp_path / "new.jsonl",
        [{"id": "late", "text": text(1)}, {"id": "other", "text": text(start=60)}],
    )
    index, run = tmp_path / "index", tmp_path / "run"
    assert neardup("index", "build", index, old, "--keep-texts", "-q").code == 0
    if way == "dedup":
        dedup(new, "-o", run, "--against", index)
        page = (run / "report.html").read_text()
        assert "changeda" in page, "the report shows both texts"
    else:
        assert neardup("index", "add", index, new, "-o", run, "-q").code == 0
    shown = asked(run, "late")
    assert "[changeda]" in shown and "shared" in shown
    assert "'late' was removed" in asked(run, "late", "early")
    assert "[changeda]" in asked(run, "early", "late")
    assert f"what it met in the index {index} is not counted" in asked(run, "other")
    index.rename(tmp_path / "moved")
    assert f"the index {index} is not there any more" in asked(run, "late")
    # Another document has its number now.
    assert neardup("index", "build", index, new, "--keep-texts", "-q").code == 0
    assert "texts are not compared" in asked(run, "late", "early")
    assert "[changeda]" not in asked(run, "late")


def test_a_witness_in_an_index_without_texts_is_named_with_the_cause(tmp_path: Path) -> None:
    old = write_jsonl(tmp_path / "old.jsonl", [{"id": "early", "text": text()}])
    new = write_jsonl(tmp_path / "new.jsonl", [{"id": "late", "text": text(1)}])
    index, run = tmp_path / "index", tmp_path / "run"
    assert neardup("index", "build", index, old, "-q").code == 0
    dedup(new, "-o", run, "--against", index)
    shown = asked(run, "late")
    assert "'late' was removed" in shown
    assert f"the index {index} keeps no texts (--keep-texts)" in shown


def test_a_document_with_another_witness_is_said_in_a_sentence(tmp_path: Path) -> None:
    """It said: 'c' because of 'a' was removed, the best-ranked kept document that is similar."""
    rows = [{"id": n, "text": text(start=s)} for n, s in (("a", 0), ("b", 9), ("c", 4))]
    dedup(write_jsonl(tmp_path / "a.jsonl", rows), "-o", tmp_path / "run", "--threshold", "0.9")
    sentence = pair(tmp_path / "run", "b", "c").sentence
    said = "'c' was removed because of 'a', the best-ranked kept one that it is similar to; 0.9"
    assert said in sentence


def test_documents_can_be_named_by_file_and_row(run: Path, pages: Path) -> None:
    assert asked(run, f"{pages}:1").startswith("'edited' was removed")
    assert asked(run, f"{pages}:6").startswith("'other' was kept")


def test_a_file_without_its_folder_is_answered_with_the_whole_path(run: Path, pages: Path) -> None:
    refused(neardup("why", run, f"{pages.name}:1", "-q"), 2, f"did you mean '{pages}:1'?")


def test_an_id_of_several_documents_is_refused_with_their_places(tmp_path: Path) -> None:
    rows = [{"id": "same", "text": text(start=n)} for n in (0, 20)]
    dedup(write_jsonl(tmp_path / "a.jsonl", rows), "-o", tmp_path / "run")
    ran = neardup("why", tmp_path / "run", "same", "-q")
    refused(ran, 2, "several documents have the id 'same'", "a.jsonl:0", "a.jsonl:1")


@pytest.mark.parametrize("kind", WRITERS)
def test_inputs_of_every_format_are_read_again(tmp_path: Path, kind: str) -> None:
    source = tmp_path / f"pages.{kind}"
    WRITERS[kind](source, ROWS[:4])
    dedup(source, "-o", tmp_path / "run")
    assert "[wordaa]" in asked(tmp_path / "run", "edited")


def test_text_files_are_read_again(tmp_path: Path) -> None:
    for row in ROWS[:3]:
        (tmp_path / f"{row['id']}.txt").write_text(str(row["text"]))
    dedup(*sorted(tmp_path.glob("*.txt")), "-o", tmp_path / "run")
    assert "[changeda]" in asked(tmp_path / "run", "original.txt")


@pytest.mark.parametrize("gone", [True, False])
def test_inputs_that_are_gone_or_changed_are_said_and_the_tables_still_answer(
    run: Path, pages: Path, gone: bool
) -> None:
    if gone:
        pages.unlink()
    else:
        pages.write_text(pages.read_text("utf-8").replace("wordab", "wordzz"), "utf-8")
    shown = asked(run, "edited")
    assert shown.startswith("'edited' was removed: 0.9")
    how = "is not there any more" if gone else "has changed since the run"
    assert how in shown and "restore it" in shown
    assert how in asked(run, "edited", "original")
    refused(neardup("why", run, "other", "-q"), 2, "no table of", how)


def test_a_run_of_an_older_version_is_explained_by_its_tables(run: Path) -> None:
    record = json.loads((run / "run.json").read_bytes())
    del record["reading"]
    (run / "run.json").write_text(json.dumps(record), "utf-8")
    shown = asked(run, "edited")
    assert "was removed" in shown and "does not say how its inputs are read" in shown


def test_a_run_with_a_secret_key_needs_it(tmp_path: Path, pages: Path) -> None:
    key = tmp_path / "key"
    key.write_text("00112233445566778899aabbccddeeff\n")
    key.chmod(0o600)
    given = ["--hash", "siphash", "--key-file", key]
    dedup(pages, "-o", tmp_path / "run", *given)
    assert "give --key-file" in asked(tmp_path / "run", "edited")
    assert "buckets" in asked(tmp_path / "run", "edited", "--key-file", key)


def test_merged_rows_and_exact_runs_are_explained_by_their_tables(
    tmp_path: Path, pages: Path
) -> None:
    dedup(pages, "-o", tmp_path / "merged", "--merge-rows", "id")
    assert "made of several rows" in asked(tmp_path / "merged", "edited")
    assert neardup("exact", pages, "-o", tmp_path / "exact", "-q").code == 0
    shown = asked(tmp_path / "exact", "foreign")
    assert shown.startswith("'foreign' was removed: a copy of 'original', which was kept")
    refused(neardup("why", tmp_path / "exact", "foreign", "original", "-q"), 2, "compares no pairs")


@pytest.mark.parametrize(
    "options",
    [
        ["--sketch", "simhash", "--hamming", "12"],
        ["--sketch", "weighted"],
        ["--sketch", "oneperm", "--verify", "estimate"],
        ["--verify", "none"],
        ["--bits", "8"],
        ["--measure", "containment"],
        ["--cluster", "components"],
        ["--strip", "lines:60%"],
        ["--sketch", "simhash", "--weights", "tf-idf", "--hamming", "12"],
        ["--keep", "longest"],
    ],
    ids=" ".join,
)
def test_every_kind_of_run_is_explained(tmp_path: Path, pages: Path, options: list[str]) -> None:
    dedup(pages, "-o", tmp_path / "run", *options)
    for row in ROWS:
        assert asked(tmp_path / "run", row["id"]).startswith(f"'{row['id']}' was ")
    found = pair(tmp_path / "run", "original", "edited")
    assert found.similarity is not None and found.similarity > 0.7


def test_an_index_is_explained_by_the_same_command(tmp_path: Path, pages: Path) -> None:
    index = tmp_path / "index"
    assert neardup("index", "build", index, pages, "--keep-texts", "-q").code == 0

    def ask(*ids: str) -> Ran:
        return neardup("why", index, *ids)

    assert "witness       original" in ask("edited").out and "[changeda]" in ask("edited").out
    assert ask("edited", "original").out.startswith("'edited' and 'original': 'edited' was removed")
    assert "they never met" in ask("original", "other").out
    assert "removed as copies of 'original'" in ask("edited", "twin").out
    refused(ask("nobody"), 2, "has no document 'nobody'")
    refused(ask("original", "nobody"), 2, "has no document 'nobody'")


def test_how_much_of_a_document_of_an_index_is_in_another_is_the_same_both_ways(
    tmp_path: Path,
) -> None:
    with Index.open(tmp_path / "index", measure="containment", threshold=0.9) as index:
        for row in PART:
            index.add(str(row["id"]), str(row["text"]))
        for one, other in (("book", "quote"), ("quote", "note")):
            there, back = index.explain_pair(one, other), index.explain_pair(other, one)
            assert there is not None and back is not None
            assert there.similarity == back.similarity
            assert f"of '{other}' is in '{one}'" in there.sentence
            assert f"of '{other}' is in '{one}'" in back.sentence


def test_a_query_without_similar_documents_says_what_the_index_finds(
    tmp_path: Path, pages: Path
) -> None:
    index, file = tmp_path / "index", tmp_path / "essay.txt"
    assert neardup("index", "build", index, pages, "-q").code == 0
    file.write_text(" ".join([*WORDS[:30], *(f"mine{n}" for n in range(90))]))
    ran = neardup("query", index, "--file", file, "--similar", "5")
    assert "this index lists those with Jaccard >= 0.8, and finds every second one of 0." in ran.out
    assert "neardup index build NEW INPUT --threshold 0.4\n" in ran.out
    listed = neardup("query", index, "--file", file, "--similar", "5", "--json")
    assert json.loads(listed.out) == [] and "needs another index" not in listed.out
    assert "--threshold 0.4" in listed.err


def test_query_by_id_prints_an_answer(tmp_path: Path, pages: Path) -> None:
    """It waited for JSON lines, and printed nothing."""
    index = tmp_path / "index"
    assert neardup("index", "build", index, pages, "-q").code == 0
    ran = neardup("query", index, "--id", "edited")
    assert "decision      duplicate of original" in ran.out


def test_a_folder_that_is_neither_is_refused(tmp_path: Path) -> None:
    refused(neardup("why", tmp_path, "a"), 2, "neither a finished run nor an index")
    (tmp_path / "file").write_text("")
    assert neardup("why", tmp_path, "a").code == 2
    assert neardup("why", tmp_path / "missing", "a").code == 2
