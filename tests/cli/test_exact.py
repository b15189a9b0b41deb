"""neardup exact: what is exactly the same goes, everything else stays as it was."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.command_line import WRITERS, Row, neardup, read_rows, refused, table, write_jsonl
from support.sizes import full

from neardup import reference
from neardup.corpus.documents import Columns
from neardup.corpus.inputs import find_inputs
from neardup.options import Options
from neardup.pipeline import exact_repeats, sketch_files
from neardup.pipeline.budget import Budget
from neardup.pipeline.exact import ExactDuplicates
from neardup.pipeline.exact_hashes import ExactSpec
from neardup.pipeline.job import Job
from neardup.pipeline.run import run_job
from neardup.runtime import Silent
from neardup.spec import Spec

LINES = [
    "The quick brown fox jumps over the lazy dog.",
    "the quick brown fox jumps over the lazy dog",
    "All rights reserved, and so are all the wrongs.",
    "    All rights reserved, and so are all the wrongs.",
    "Η γρήγορη καφέ αλεπού πηδάει πάνω από τον σκύλο",
    "漢字かな交じり文のテキストは単語の間に空白がありません、と言う人がいます。",
    'He said "well, well", and left; 🎉🎉🎉 and so on',
    "a line with\ra lone return in the middle of it",
    "a line with\u2028a separator that is none here",
    "}",
    "Yes.",
    "",
    " \t",
    "\u00a0",
    "-" * 30,
]
BREAKS = ["\n", "\n", "\r\n", "\n\n", "\n \n", "\r\n\r\n"]
SPECS = {"text": None, "words": Spec()}


def random_text(chance: random.Random) -> str:
    pieces = [chance.choice(LINES) + chance.choice(BREAKS) for _ in range(chance.randrange(5))]
    return "".join(pieces) + (chance.choice(LINES) if chance.random() < 0.5 else "")


def random_rows(seed: int, count: int = 60) -> list[Row]:
    chance = random.Random(seed)
    return [
        {
            "id": f"doc-{n}",
            "text": random_text(chance) + (f"{n}" if n % 3 else ""),
            "score": float(chance.randrange(4)),
            "lang": chance.choice(["en", "el"]),
        }
        for n in range(count)
    ]


def exact(*arguments: object) -> Row:
    """Run `neardup exact`, which must succeed; the record that it prints."""
    ran = neardup("exact", *arguments, "--json")
    assert (ran.code, ran.err) == (0, ""), ran.err
    record = json.loads(ran.out)
    counts = record["counts"]
    assert counts["documents"] == counts["kept"] + counts["removed"] + counts["rejected"]
    return record


def ranked(rows: list[Row], keep: str) -> list[int]:
    by = {
        "first": lambda n: 0,
        "longest": lambda n: -len(rows[n]["text"].encode()),
        "max:score": lambda n: -rows[n]["score"],
        "min:score": lambda n: rows[n]["score"],
    }[keep]
    return sorted(range(len(rows)), key=by)


def is_empty(text: str, by: str) -> bool:
    return by == "words" and not reference.visible(text)


# -- documents ----------------------------------------------------------------------------------


def same_documents(rows: list[Row], by: str, keep: str) -> dict[int, int]:
    """Each removed row and its witness, by brute force."""
    first: dict[Any, int] = {}
    removed = {}
    for row in ranked(rows, keep):
        text = rows[row]["text"]
        if not is_empty(text, by):
            same = text if by == "text" else tuple(reference.units(text, Spec()))
            if first.setdefault(same, row) != row:
                removed[row] = first[same]
    return dict(sorted(removed.items()))


@pytest.mark.parametrize("extension", sorted(WRITERS))
@pytest.mark.parametrize("by", ["text", "words"])
def test_documents_of_every_format(tmp_path: Path, extension: str, by: str) -> None:
    rows = random_rows(1, 200)
    source = tmp_path / f"documents.{extension}"
    WRITERS[extension](source, rows)
    record = exact(source, "-o", tmp_path / "out", "--by", by)
    removed = same_documents(rows, by, "first")
    assert len(removed) > 5
    found = table(tmp_path / "out", "removed")
    assert {r["row"]: r["witness_row"] for r in found} == removed
    assert all(r["similarity"] == 1.0 and r["exact"] for r in found)
    rejected = [r["row"] for r in table(tmp_path / "out", "rejected")]
    assert rejected == [n for n, row in enumerate(rows) if is_empty(row["text"], by)]
    kept = [row for n, row in enumerate(rows) if n not in removed and n not in rejected]
    assert read_rows(tmp_path / "out" / "kept" / source.name) == kept
    assert record["counts"]["identical"] == record["counts"]["removed"] == len(removed)
    assert "cut" not in record and not (tmp_path / "out" / "cut.parquet").exists()


@pytest.mark.parametrize("keep", ["first", "longest", "max:score", "min:score"])
@pytest.mark.parametrize("by", ["text", "words"])
def test_keep_policy_decides_which_copy_stays(tmp_path: Path, keep: str, by: str) -> None:
    rows = random_rows(2, 200)
    source = write_jsonl(tmp_path / "a.jsonl", rows)
    exact(source, "-o", tmp_path / "out", "--keep", keep, "--by", by)
    found = table(tmp_path / "out", "removed")
    assert {r["row"]: r["witness_row"] for r in found} == same_documents(rows, by, keep)


def test_empty_texts_are_documents_when_bytes_count(tmp_path: Path) -> None:
    lines = [{"text": ""}, {"text": " "}, {"text": ""}, {"text": None}]
    record = exact(write_jsonl(tmp_path / "a.jsonl", lines), "-o", tmp_path / "out")
    assert record["counts"] == {
        "documents": 4,
        "kept": 2,
        "removed": 1,
        "rejected": 1,
        "identical": 1,
    }
    assert record["reasons"] == {"text is null": 1}


def test_texts_that_differ_in_anything_are_not_the_same(tmp_path: Path) -> None:
    texts = ["é", "e\u0301", "a b", "a  b", "a b\n", "A b", "a\r\nb", "a\nb"]
    source = write_jsonl(tmp_path / "a.jsonl", [{"text": text} for text in texts])
    assert exact(source, "-o", tmp_path / "out")["counts"]["removed"] == 0
    record = exact(source, "-o", tmp_path / "words", "--by", "words")
    assert record["counts"]["kept"] == 2
    conservative = ("--by", "words", "--text-profile", "conservative")
    assert exact(source, "-o", tmp_path / "cased", *conservative)["counts"]["kept"] == 3


def test_within_compares_equal_values_only(tmp_path: Path) -> None:
    rows = random_rows(3, 200)
    source = write_jsonl(tmp_path / "a.jsonl", rows)
    exact(source, "-o", tmp_path / "out", "--within", "lang")
    removed = {r["row"]: r["witness_row"] for r in table(tmp_path / "out", "removed")}
    first: dict[Any, int] = {}
    firsts = [first.setdefault((row["text"], row["lang"]), n) for n, row in enumerate(rows)]
    assert removed == {n: witness for n, witness in enumerate(firsts) if n != witness}


# -- paragraphs and lines -----------------------------------------------------------------------


def cut_rows(
    rows: list[Row], unit: str, least: int = 20, by: str = "text", keep: str = "first"
) -> dict[int, tuple[str, int, int | None]]:
    """Row -> its new text, how many parts it lost, and its witness if it goes; by brute force."""
    order = [row for row in ranked(rows, keep) if not is_empty(rows[row]["text"], by)]
    texts = [rows[row]["text"] for row in order]
    cut = reference.cut_repeats(texts, unit, least, SPECS[by])
    return {
        row: (text, parts, None if witness is None else order[witness])
        for row, (text, parts, witness) in zip(order, cut, strict=True)
    }


def check(out: Path, name: str, rows: list[Row], wanted: dict[int, Any], record: Row) -> None:
    """OUT says what the brute force says."""
    gone = {row: witness for row, (_, _, witness) in wanted.items() if witness is not None}
    assert {r["row"]: r["witness_row"] for r in table(out, "removed")} == dict(sorted(gone.items()))
    kept = [
        row | {"text": wanted[n][0]} for n, row in enumerate(rows) if n in wanted and n not in gone
    ]
    assert read_rows(out / "kept" / name) == kept
    cut = [
        {
            "id": rows[n]["id"],
            "row": n,
            "units": parts,
            "bytes": len(rows[n]["text"].encode()) - len(text.encode()),
        }
        for n, (text, parts, _) in sorted(wanted.items())
        if parts
    ]
    found = table(out, "cut")
    assert [{key: r[key] for key in ("id", "row", "units", "bytes")} for r in found] == cut
    tally = record["cut"]
    assert tally["cut"] == sum(r["units"] for r in cut)
    assert tally["bytes"] == sum(r["bytes"] for r in cut)
    assert tally["shorter"] == len(cut) - len(gone)


@pytest.mark.parametrize("extension", sorted(WRITERS))
@pytest.mark.parametrize("unit", ["line", "paragraph"])
def test_parts_are_cut_in_every_format(tmp_path: Path, extension: str, unit: str) -> None:
    rows = random_rows(4)
    source = tmp_path / f"documents.{extension}"
    WRITERS[extension](source, rows)
    record = exact(source, "-o", tmp_path / "out", "--unit", unit)
    wanted = cut_rows(rows, unit)
    assert any(witness is not None for _, _, witness in wanted.values())
    check(tmp_path / "out", source.name, rows, wanted, record)


@pytest.mark.parametrize("seed", range(8))
def test_parts_by_every_rule(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    rows = random_rows(100 + seed)
    source = write_jsonl(tmp_path / "a.jsonl", rows)
    for unit in ("line", "paragraph"):
        by, least = chance.choice(["text", "words"]), chance.choice([1, 4, 20, 44])
        keep = chance.choice(["first", "longest", "max:score", "min:score"])
        record = exact(
            source,
            "-o",
            tmp_path / unit,
            "--unit",
            unit,
            "--by",
            by,
            "--keep",
            keep,
            "--min-length",
            least,
        )
        wanted = cut_rows(rows, unit, least, by, keep)
        check(tmp_path / unit, "a.jsonl", rows, wanted, record)


def test_a_second_run_finds_nothing(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", random_rows(5))
    for unit in ("line", "paragraph"):
        assert exact(source, "-o", tmp_path / unit, "--unit", unit)["cut"]["cut"]
        again = tmp_path / unit / "kept" / "a.jsonl"
        record = exact(again, "-o", tmp_path / f"{unit}-2", "--unit", unit)
        assert record["cut"]["cut"] == record["counts"]["removed"] == 0
        assert (tmp_path / f"{unit}-2" / "kept" / "a.jsonl").read_bytes() == again.read_bytes()


def test_parts_within_a_group_only(tmp_path: Path) -> None:
    rows = random_rows(6)
    source = write_jsonl(tmp_path / "a.jsonl", rows)
    exact(source, "-o", tmp_path / "out", "--unit", "line", "--within", "lang")
    texts = {r["id"]: r["text"] for r in read_rows(tmp_path / "out" / "kept" / "a.jsonl")}
    for lang in ("en", "el"):
        some = [row for row in rows if row["lang"] == lang]
        for n, (text, _, witness) in cut_rows(some, "line").items():
            assert texts.get(some[n]["id"]) == (text if witness is None else None)


LONG, OTHER = LINES[0], LINES[2]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"{OTHER}\n{LONG}\nend", f"{OTHER}\nend"),
        (f"{OTHER}\r\n{LONG}\r\nend\r\n", f"{OTHER}\r\nend\r\n"),
        (f"{OTHER}\n{LONG}", f"{OTHER}\n"),
        (f"{LONG}\r\n\r\n{OTHER}", f"\r\n{OTHER}"),
        (f"x\r{LONG}\r{LONG}", f"x\r{LONG}\r{LONG}"),  # a lone return ends no line
        (f"x\u2028{LONG}\u2028", f"x\u2028{LONG}\u2028"),  # nor does a line separator
        (f"x\x0b{LONG}\x85{LONG}\x0c", f"x\x0b{LONG}\x85{LONG}\x0c"),
        (f"}}\n{LONG}\n}}\n}}\n", "}\n}\n}\n"),  # short lines stay
        (f" {LONG}\nx", f" {LONG}\nx"),  # a blank more is another line
        (f"\ufeff\n{LONG}\nx", "\ufeff\nx"),
    ],
)
def test_lines_end_at_newlines_only(tmp_path: Path, text: str, left: str) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", [{"text": LONG}, {"text": text}])
    exact(source, "-o", tmp_path / "out", "--unit", "line")
    assert [r["text"] for r in read_rows(tmp_path / "out" / "kept" / "a.jsonl")] == [LONG, left]


def test_paragraphs_end_at_empty_lines(tmp_path: Path) -> None:
    texts = [
        f"{LONG}\n{OTHER}\n\nsome more",
        f"one\n \t\n{LONG}\n{OTHER}\n\u00a0\ntwo",  # blank lines around it, of whatever kind
        f"one\n{LONG}\n{OTHER}",  # a longer paragraph is another one
        f"{LONG}\r\n{OTHER}",  # other bytes inside
        f"\n\n{LONG}\n{OTHER}\r\n\r\n",
    ]
    source = write_jsonl(tmp_path / "a.jsonl", [{"text": text} for text in texts])
    exact(source, "-o", tmp_path / "out", "--unit", "paragraph")
    kept = [r["text"] for r in read_rows(tmp_path / "out" / "kept" / "a.jsonl")]
    assert kept == [texts[0], "one\n \t\n\u00a0\ntwo", *texts[2:4]]
    (removed,) = table(tmp_path / "out", "removed")
    assert (removed["row"], removed["witness_row"], removed["similarity"]) == (4, 0, 1.0)


def test_document_of_repeated_lines_only_is_removed(tmp_path: Path) -> None:
    texts = [LONG, OTHER, f"{LONG}\n{OTHER}\n{LONG}\n"]
    source = write_jsonl(tmp_path / "a.jsonl", [{"text": text} for text in texts])
    exact(source, "-o", tmp_path / "out", "--unit", "line")
    (removed,) = table(tmp_path / "out", "removed")
    assert (removed["row"], removed["witness_row"], removed["similarity"]) == (2, 0, 2 / 3)


def test_rows_of_which_nothing_was_cut_stay_byte_for_byte(tmp_path: Path) -> None:
    lines = [
        b'\xef\xbb\xbf{"text": "%s" , "n":1e3}\r\n' % LONG.encode(),
        b"  \n",
        b'{"n":[1 ,2],"text":"\\u0041 %s"}\n' % OTHER.encode(),
        b"not json\n",
        b'{ "text":"%s\\nnew \\u00e9","text2":"%s"}\n' % (LONG.encode(), LONG.encode()),
        b'{"text":"the last line"}',
    ]
    source = tmp_path / "a.jsonl"
    source.write_bytes(b"".join(lines))
    exact(source, "-o", tmp_path / "out", "--unit", "line")
    edited = b'{ "text":"new \\u00e9","text2":"%s"}\n' % LONG.encode()
    kept = (tmp_path / "out" / "kept" / "a.jsonl").read_bytes()
    assert kept == b"".join([lines[0], lines[2], edited, lines[5]])


def test_byte_order_mark_before_a_cut_line_is_kept(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    row = json.dumps({"text": f"{LONG}\n{LONG}\n"}).encode()
    source.write_bytes(b"\xef\xbb\xbf" + row + b"\n")
    exact(source, "-o", tmp_path / "out", "--unit", "line")
    kept = (tmp_path / "out" / "kept" / "a.jsonl").read_bytes()
    assert kept.startswith(b"\xef\xbb\xbf")
    assert json.loads(kept.removeprefix(b"\xef\xbb\xbf")) == {"text": f"{LONG}\n"}


def test_lines_of_text_files_are_cut(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_bytes(LONG.encode() + b"\r\nend")
    (folder / "b.txt").write_bytes(b"\xef\xbb\xbf" + f"{OTHER}\r\n{LONG}\r\nstop".encode())
    (folder / "c.txt.gz").write_bytes(gzip.compress(f"{LONG}\nnew\n".encode()))
    (folder / "d.txt").write_bytes(f"\n{LONG}\n{OTHER}\n".encode())
    exact(folder, "-o", tmp_path / "out", "--unit", "line")
    kept = tmp_path / "out" / "kept"
    assert (kept / "a.txt").read_bytes() == (folder / "a.txt").read_bytes()
    assert (kept / "b.txt").read_bytes() == b"\xef\xbb\xbf" + f"{OTHER}\r\nstop".encode()
    assert gzip.decompress((kept / "c.txt.gz").read_bytes()) == b"new\n"
    assert sorted(path.name for path in kept.iterdir()) == ["a.txt", "b.txt", "c.txt.gz"]
    (removed,) = table(tmp_path / "out", "removed")
    assert (removed["id"], removed["witness"]) == ("d.txt", "a.txt")


def test_columns_of_other_string_types(tmp_path: Path) -> None:
    texts = [LONG, None, f"{LONG}\nnew", "x" * 30]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        source = tmp_path / f"{kind}.arrow"
        found = pa.table({"n": [1, 2, 3, 4], "text": pa.array(texts, kind)})
        with pa.OSFile(str(source), "wb") as sink, pa.ipc.new_file(sink, found.schema) as writer:
            writer.write_table(found)
        exact(source, "-o", tmp_path / f"{kind}", "--unit", "line")
        got = pa.ipc.open_file(str(tmp_path / f"{kind}" / "kept" / source.name)).read_all()
        assert got.schema == found.schema
        assert got.to_pylist() == [
            {"n": 1, "text": LONG},
            {"n": 3, "text": "new"},
            {"n": 4, "text": "x" * 30},
        ]
    source = tmp_path / "words.parquet"
    pq.write_table(pa.table({"text": pa.array(texts).dictionary_encode()}), source)
    ran = neardup("exact", source, "-o", tmp_path / "no", "--unit", "line", "-q")
    refused(ran, 2, "'text' is a dictionary", "plain strings")


# -- the same answer, however it is computed ----------------------------------------------------


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = random_rows(7, 3_000)
    rows[1_234] = {"text": None}
    return write_jsonl(tmp_path_factory.mktemp("many") / "many.jsonl", rows)


def outcome(out: Path) -> dict[str, bytes]:
    names = (
        "removed.parquet",
        "clusters.parquet",
        "rejected.parquet",
        "cut.parquet",
        "kept/many.jsonl",
    )
    return {name: (out / name).read_bytes() for name in names if (out / name).exists()}


@pytest.mark.parametrize("unit", ["document", "line"])
def test_shards_and_workers_do_not_change_the_answer(
    tmp_path: Path, many: Path, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, columns = Options.of(keep="max:score"), Columns(keep="score")
    make = ExactDuplicates(ExactSpec.of("words", unit, None, "standard"))
    outcomes = []
    for workers, shard, chunk, block in (
        (1, 1 << 26, 1 << 20, 1 << 15),
        (2, 1 << 18, 1 << 14, 99),
        (3, 1 << 16, 1 << 12, 1),
    ):
        monkeypatch.setattr(sketch_files, "BLOCK_ROWS", block)
        out = tmp_path / str(workers)
        job = Job(find_inputs([many]), out, options, columns, workers, shard=shard, chunk=chunk)
        run_job(job, Silent(), make)
        outcomes.append(outcome(out))
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert len(outcomes[0]) == (4 if unit == "document" else 5)


class Tight(Budget):
    """So little memory that everything is done in slices, and sorted on disk."""

    def share(self, parts: int = 1) -> int:
        return (64 << 10) // parts


@pytest.mark.parametrize("unit", ["line", "paragraph"])
def test_memory_does_not_change_the_answer(tmp_path: Path, many: Path, unit: str) -> None:
    make = ExactDuplicates(ExactSpec.of("text", unit, 1, "standard"))
    for name, budget in (("much", Budget()), ("little", Tight())):
        job = Job(find_inputs([many]), tmp_path / name, Options.of(), Columns(), 1, budget=budget)
        run_job(job, Silent(), make)
    assert outcome(tmp_path / "much") == outcome(tmp_path / "little")


def test_equal_halves_of_hashes_are_not_duplicates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts are told apart by all 128 bits."""
    rows = random_rows(8)
    source = write_jsonl(tmp_path / "a.jsonl", rows)
    hashes = exact_repeats.SketchBlock.column

    def half(self: Any, name: str) -> Any:
        found = hashes(self, name)
        if name == "part_hashes":
            found[0] &= 3
        return found

    monkeypatch.setattr(exact_repeats.SketchBlock, "column", half)
    record = exact(source, "-o", tmp_path / "out", "--unit", "line")
    check(tmp_path / "out", "a.jsonl", rows, cut_rows(rows, "line"), record)


# -- stopped, and going on ----------------------------------------------------------------------


@pytest.mark.parametrize(("unit", "times"), [full("document", 20), full("line", 20), ("line", 5)])
def test_killed_run_is_resumed_with_the_same_answer(
    tmp_path: Path, many: Path, unit: str, times: int
) -> None:
    big = tmp_path / "many.jsonl"
    big.write_bytes(many.read_bytes() * times)
    exact(big, "-o", tmp_path / "whole", "--unit", unit)
    command = [
        sys.executable,
        "-m",
        "neardup",
        "exact",
        str(big),
        "-o",
        str(tmp_path / "out"),
        "--unit",
        unit,
    ]
    for delay in (0.0, 0.05):
        started = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert started.stderr is not None
        reading = any("reading" in line for line in iter(started.stderr.readline, ""))
        time.sleep(delay)
        os.kill(started.pid, signal.SIGKILL)
        started.communicate(timeout=30)
        if not reading:  # it had ended: refused, because OUT is complete
            break
    exact(big, "-o", tmp_path / "out", "--unit", unit, "--force")
    assert outcome(tmp_path / "out") == outcome(tmp_path / "whole")
    assert not (tmp_path / "out" / ".unfinished").exists()


def test_resumed_run_does_not_compare_again(
    tmp_path: Path, many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr("neardup.pipeline.exact._write_cuts", no_room)
        assert neardup("exact", many, "-o", out, "--unit", "line", "-q").code == 1
    monkeypatch.setattr(exact_repeats, "_find_repeated", no_room)  # it must not be called
    exact(many, "-o", out, "--unit", "line")
    monkeypatch.undo()
    exact(many, "-o", tmp_path / "whole", "--unit", "line")
    assert outcome(out) == outcome(tmp_path / "whole")


def test_run_with_other_rules_starts_again(tmp_path: Path, many: Path) -> None:
    out = tmp_path / "out"
    for options in (
        (),
        ("--unit", "line"),
        ("--unit", "line", "--min-length", 5),
        ("--unit", "line", "--by", "words"),
    ):
        exact(many, "-o", tmp_path / "fresh", *options, "--force")
        exact(many, "-o", out, *options, "--force")
        assert outcome(out) == outcome(tmp_path / "fresh")
    exact(many, "-o", out, "--force")
    assert not (out / "cut.parquet").exists()


# -- as a person sees it ------------------------------------------------------------------------


def test_the_summary_of_documents(tmp_path: Path) -> None:
    rows = [{"id": "a", "text": LONG}, {"id": "b", "text": LONG}, {"id": "c", "text": None}]
    ran = neardup("exact", write_jsonl(tmp_path / "a.jsonl", rows), "-o", tmp_path / "out")
    assert ran.code == 0
    assert ran.out.splitlines()[:-1] == [
        "3 documents   1 kept   1 removed   1 rejected",
        "duplicates are byte for byte the same",
        "largest clusters    1 copy of a",
        "an example          b removed, the same as a",
        "rejected            1 text is null",
    ]
    assert ran.out.splitlines()[-1].endswith("report.html shows it")


def test_the_summary_of_lines(tmp_path: Path) -> None:
    rows = [{"id": "a", "text": LONG}, {"id": "b", "text": f"{LONG}\nnew"}, {"text": LONG}]
    source = write_jsonl(tmp_path / "a.jsonl", rows)
    ran = neardup("exact", source, "-o", tmp_path / "out", "--unit", "line", "--by", "words")
    assert ran.out.splitlines()[:-1] == [
        "3 documents   2 kept (1 of them shorter)   1 removed   0 rejected",
        "2 of 4 lines cut, 89 B: the same words in the same order as an earlier one, 20 "
        "characters or more",
        "largest clusters    1 copy of a",
        f"an example          {source}:2 removed, nothing new in it: it begins as in a",
    ]


def test_report_of_an_exact_run_has_no_near_duplicate_sections(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", random_rows(9))
    for unit in ("document", "line"):
        exact(source, "-o", tmp_path / unit, "--unit", unit)
        page = (tmp_path / unit / "report.html").read_text("utf-8")
        for absent in ("Hot buckets", "Similarity</h2>", "near-duplicates", "bands", "comparisons"):
            assert absent not in page, absent
        assert "byte for byte" in page
        assert ("Cut passages" in page) == (unit == "line")


def test_wrong_usage_is_one_line(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", random_rows(9))
    out = ("-o", tmp_path / "out")
    refused(neardup("exact", source, *out, "--by", "bytes"), 2, "'bytes'", "text, words")
    refused(neardup("exact", source, *out, "--unit", "word"), 2, "'word'", "paragraph, line")
    refused(neardup("exact", source, *out, "--min-length", 5), 2, "--unit paragraph")
    short = ("--unit", "line", "--min-length", 0)
    refused(neardup("exact", source, *out, *short), 2, "min length", "from 1")
    refused(neardup("exact", source, *out, "--workers", 0), 2, "--workers")
    refused(neardup("exact", source, *out, "--keep", "latest"), 2, "'latest'", "longest")
    assert not (tmp_path / "out").exists()


def test_no_kept_files_but_every_decision(tmp_path: Path) -> None:
    rows = random_rows(10)
    source = write_jsonl(tmp_path / "a.jsonl", rows)
    record = exact(source, "-o", tmp_path / "out", "--unit", "line", "--no-kept")
    assert not (tmp_path / "out" / "kept").exists()
    assert record["cut"]["cut"] == sum(parts for _, parts, _ in cut_rows(rows, "line").values())


def test_strict_and_bad_files(tmp_path: Path) -> None:
    good = write_jsonl(tmp_path / "a.jsonl", [*random_rows(11), {"text": None}])
    bad = tmp_path / "b.parquet"
    bad.write_bytes(b"PAR1 no more")
    refused(neardup("exact", good, "-o", tmp_path / "out", "--strict", "-q"), 1, "row 60", "null")
    refused(neardup("exact", good, bad, "-o", tmp_path / "out", "-q"), 1, str(bad))
    record = exact(good, bad, "-o", tmp_path / "out", "--skip-bad-files")
    assert [file["file"] for file in record["skipped_files"]] == [str(bad)]


def test_preferred_inputs_go_first(tmp_path: Path) -> None:
    rows = random_rows(12)
    first = write_jsonl(tmp_path / "a.jsonl", rows[:30])
    better = write_jsonl(tmp_path / "b.jsonl", rows[30:])
    exact(first, better, "-o", tmp_path / "out", "--prefer", "b.*", "--unit", "line")
    turned = rows[30:] + rows[:30]
    wanted = cut_rows(turned, "line")
    for name, start in (("b.jsonl", 0), ("a.jsonl", 30)):
        kept = read_rows(tmp_path / "out" / "kept" / name)
        assert kept == [
            turned[n] | {"text": wanted[n][0]}
            for n in range(start, start + 30)
            if wanted[n][2] is None
        ]


def test_against_what_exact_has_kept(tmp_path: Path) -> None:
    old = write_jsonl(tmp_path / "old.jsonl", [{"id": "a", "text": LONG}, {"text": LONG}])
    new = write_jsonl(tmp_path / "new.jsonl", [{"text": LONG + " "}, {"text": OTHER}])
    exact(old, "-o", tmp_path / "earlier")
    ran = neardup("dedup", new, "-o", tmp_path / "out", "--against", tmp_path / "earlier", "-q")
    assert ran.code == 0, ran.err
    (removed,) = table(tmp_path / "out", "removed")
    assert (removed["row"], removed["witness"]) == (0, "a")


@pytest.mark.parametrize("unit", ["document", "line"])
def test_input_without_documents_is_accepted(tmp_path: Path, unit: str) -> None:
    (tmp_path / "none.jsonl").touch()
    record = exact(tmp_path / "none.jsonl", "-o", tmp_path / "out", "--unit", unit)
    assert record["counts"]["documents"] == 0
    assert (tmp_path / "out" / "kept" / "none.jsonl").read_bytes() == b""
