"""What a run over Spark DataFrames or URLs has counted and saved is what one over files has.

The lines and the shingles that occur in too many or in few documents are counted in tasks, and an
index that is made of the saved sketches answers as one that is made of a run over files.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import batch_engine
from support.command_line import neardup as run_neardup
from support.sizes import full

import neardup
import neardup.spark
from neardup.errors import MissingInput, OutputTaken
from neardup.index.from_run import LoadedRun, load_sketches

Row = batch_engine.Row
NAMES = ("id", "witness", "similarity", "exact")
OPTIONS: dict[str, Row] = {
    "lines": {"strip": "lines:20%", "within": "lang"},
    "weights": {"sketch": "weighted", "weights": "tf-idf"},
    "estimates": {"verify": "estimate", "keep": "longest"},
}


def rows(count: int = 120) -> list[Row]:
    """Texts with a line that many share, in the order of ids."""
    chance = random.Random(6)
    return [
        {
            "id": f"d{number:04}",
            "text": f"{text}\nall rights reserved" if chance.random() < 0.5 else text,
            "lang": chance.choice("ab"),
        }
        for number, text in enumerate(batch_engine.texts(5, count))
    ]


def frame(spark: Any, some: list[Row]) -> Any:
    shuffled = random.Random(1).sample([tuple(row.values()) for row in some], len(some))
    return spark.createDataFrame(shuffled, "id string, text string, lang string").repartition(3)


def answers(index: Path, some: list[Row], groups: bool) -> list[tuple[Any, ...]]:
    """What an index says of texts and of parts of them."""
    texts = [text for row in some for text in (row["text"], row["text"][:40], row["text"] + " end")]
    asked = {"within": [row["lang"] for row in some for _ in range(3)]} if groups else {}
    with neardup.Index.open(index) as opened:
        assert opened.verify() == []
        found = opened.query_batch(texts, **asked)
    return [(one.status, one.duplicate_of, one.similarity, one.exact) for one in found]


def facts(loaded: LoadedRun) -> tuple[Any, ...]:
    counts = loaded.documents, loaded.kept, loaded.left_out, loaded.renamed
    return *counts, loaded.settings.options, loaded.settings.within


def local_run(folder: Path, some: list[Row], options: Row) -> Path:
    pq.write_table(pa.Table.from_pylist(some), folder / "in.parquet")
    neardup.dedup_files(folder / "in.parquet", out=folder / "local", save_sketches=True, **options)
    return folder / "local"


@pytest.mark.parametrize("case", ["lines", *map(full, ("weights", "estimates"))])
def test_a_saved_run_over_a_frame_makes_the_index_of_one_over_files(
    spark: Any, tmp_path: Path, case: str
) -> None:
    some, options = rows(), batch_engine.SMALL | OPTIONS[case]
    if case == "weights":
        options = {"shingle": "word:2", "threshold": 0.5, **OPTIONS[case]}
    form: Any = "parquet" if case == "estimates" else True
    local, saved = local_run(tmp_path, some, options), tmp_path / "saved"
    with neardup.spark.dedup(frame(spark, some), id="id", save_sketches=form, **options) as result:
        found = sorted(tuple(row[name] for name in NAMES) for row in result.removed.collect())
        if case == "lines":
            assert "1 line ignored" in result.summary()
            assert result.pairs.count() > 10  # found by the same files once more
        result.save(saved)
        with pytest.raises(OutputTaken):
            result.save(saved)
    table = pq.read_table(local / "removed.parquet").to_pylist()
    assert found == sorted(tuple(row[name] for name in NAMES) for row in table)
    assert len(found) > 20
    loaded = [load_sketches(run, tmp_path / f"index of {run.name}", {}) for run in (local, saved)]
    assert facts(loaded[0]) == facts(loaded[1])
    assert loaded[0].copies > 20
    groups = "within" in options
    assert answers(tmp_path / "index of saved", some, groups) == answers(
        tmp_path / "index of local", some, groups
    )
    if form == "parquet":
        read = spark.read.parquet(str(saved / "sketches" / "*.parquet"))
        assert read.where("kept").count() == loaded[1].kept
    page = (saved / "report.html").read_text()
    assert "saved: neardup report" in page
    record = json.loads((saved / "run.json").read_bytes())
    assert record["counts"]["removed"] == len(found)


def test_a_frame_without_saved_sketches_is_no_index(spark: Any, tmp_path: Path) -> None:
    df = spark.createDataFrame([(1, "a text"), (2, "a text")], "id int, text string")
    with neardup.spark.dedup(df, id="id") as result:
        result.save(tmp_path / "saved")
    assert len(pq.read_table(tmp_path / "saved" / "removed.parquet")) == 1
    with pytest.raises(MissingInput, match="save-sketches"):
        load_sketches(tmp_path / "saved", tmp_path / "index", {})


def test_copies_of_an_earlier_frame_are_left_out_of_an_index(spark: Any, tmp_path: Path) -> None:
    """They have no witness among the documents that are loaded."""
    texts = {"a": "one two three four", "b": "one two three four", "c": "five six seven eight"}
    rows = [(name, text, "g") for name, text in texts.items()]
    earlier = spark.createDataFrame([("e", texts["a"], "g")], "id string, text string, lang string")
    df = spark.createDataFrame([*rows, ("d", texts["c"], "g")], earlier.schema)
    given = {"id": "id", "against": earlier, "save_sketches": True}
    with neardup.spark.dedup(df, **given) as result:
        removed = {row["id"]: row["witness"] for row in result.removed.collect()}
        assert removed == {"a": "e", "b": "e", "d": "c"}
        result.save(tmp_path / "saved")
    loaded = load_sketches(tmp_path / "saved", tmp_path / "index", {})
    assert (loaded.documents, loaded.kept, loaded.left_out) == (1, 1, 3)


@pytest.mark.parametrize("case", ["lines", full("weights")])
def test_saved_sketches_behind_urls_make_the_index_of_a_run_over_files(
    spark: Any, tmp_path: Path, case: str
) -> None:
    some, asked = rows(), OPTIONS[case]
    local = local_run(tmp_path, some, {"shingle": "word:2", "threshold": 0.5, **asked})
    source, out = tmp_path / "in.jsonl", tmp_path / "out"
    shuffled = random.Random(1).sample(some, len(some))
    source.write_text("".join(json.dumps(row) + "\n" for row in shuffled))
    flags = [f"--{name}={value}" for name, value in asked.items()]
    ran = run_neardup(
        *("dedup", source.as_uri(), "-o", out.as_uri(), "--engine", "spark"),
        "--save-sketches=parquet" if case == "lines" else "--save-sketches",
        *("--shingle", "word:2", "--threshold", "0.5", "-q", *flags),
    )
    assert ran.code == 0, ran.err
    found, wanted = (pq.read_table(place / "removed.parquet").to_pylist() for place in (out, local))
    assert sorted(tuple(row[name] for name in NAMES) for row in found) == sorted(
        tuple(row[name] for name in NAMES) for row in wanted
    )
    loaded = load_sketches(local, tmp_path / "first", {})
    ran = run_neardup("index", "build", tmp_path / "second", "--from", out, "-q")
    assert ran.code == 0, ran.err
    groups = "within" in asked
    assert answers(tmp_path / "second", some, groups) == answers(tmp_path / "first", some, groups)
    other = load_sketches(out, tmp_path / "third", {})
    assert facts(other) == facts(loaded)
    assert other.copies > 20
