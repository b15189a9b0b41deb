"""What a Result tells: ids, verdicts, clusters, the summary, the kept rows."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import neardup
from neardup.corpus import frames
from neardup.errors import OutputError, UsageError

BASE = " ".join(f"word{i}" for i in range(50))
TEXTS = [BASE, BASE + " more", "something else entirely different here", BASE.upper(), "", "hi"]


def edited(*places: int) -> str:
    return " ".join(f"x{n}" if n in places else f"w{n}" for n in range(300))


EDITED = [edited(), edited(20), edited(*range(150)), edited().upper()]


def test_result_explains_every_decision():
    result = neardup.dedup(TEXTS)
    assert repr(result) == "Result(6 documents: 3 kept, 2 removed (1 identical), 1 rejected)"
    assert str(result.why(1)) == (
        "1 was removed: 0.9787 similar to 0, which was kept "
        "(exact Jaccard of word:5 shingles, threshold 0.8)"
    )
    assert str(result.why(0)) == "0 was kept; 2 removed because of it"
    assert str(result.why(4)) == "4 was rejected: empty"
    assert [(c.id, c.copies, c.size) for c in result.clusters] == [(0, [1, 3], 3)]
    assert [(p.a, p.b) for p in result.pairs] == [(0, 3), (0, 1), (1, 3)]
    assert result.pairs[0].similarity == 1.0
    assert result.pairs[1].similarity == result.pairs[2].similarity == 46 / 47
    assert "3 kept" in result.summary()
    assert "predicted recall at the threshold 0.9983" in result.summary()
    assert "<table>" in result._repr_html_()
    assert result.filter(TEXTS) == [TEXTS[0], TEXTS[2], TEXTS[5]]


def test_result_of_fingerprints_tells_their_distance():
    result = neardup.dedup(EDITED, sketch="simhash", hamming=8)
    assert result.kept == [0, 2]
    assert result.summary().splitlines()[1] == (
        "Hamming distance <= 8 of 64-bit SimHash of word:5 shingles, 45 tables of 10 blocks: "
        "all pairs within it meet"
    )
    near, same = result.removed
    assert near.similarity == 1 - round((1 - near.similarity) * 64) / 64 < 1
    assert not near.exact
    assert str(result.why(1)).endswith(
        "similar to 0, which was kept (64-bit SimHash of word:5 shingles, at most 8 bits differ)"
    )
    assert (same.similarity, same.exact) == (1.0, True)


def test_result_of_bags_tells_the_weighted_jaccard():
    texts = ["one two " * 10, "one two " * 3, "one two " * 9]
    plain = neardup.dedup(texts, shingle="word:1", threshold=0.7)
    assert plain.kept == [0]
    bags = neardup.dedup(texts, shingle="word:1", threshold=0.7, sketch="weighted")
    assert bags.kept == [0, 1]
    assert bags.removed[0].similarity == 18 / 20
    assert "0.9000 similar to 0, which was kept (exact weighted Jaccard of word:1" in str(
        bags.why(2)
    )
    assert "exact weighted Jaccard >= 0.70 of word:1 shingles" in bags.summary()


def test_ids_in_html_are_escaped():
    result = neardup.dedup([{"id": "<script>", "text": "a"}, {"id": "b", "text": "a"}])
    assert "<script>" not in result._repr_html_()


def test_duplicate_ids_are_told_apart_by_row():
    result = neardup.dedup([{"id": "x", "text": BASE}, {"id": "x", "text": BASE + " y"}])
    with pytest.raises(UsageError, match=r"2 documents have the id 'x', rows \[0, 1\]"):
        result.why("x")
    assert result.why(row=1).verdict == "removed"


def test_ids_keep_their_type_whatever_their_neighbours_are():
    rows = [{"id": i, "text": f"text number {i}"} for i in (1, "a", True, 2.5, None)]
    result = neardup.dedup(rows)
    assert result.kept == [1, "a", True, 2.5, 4]
    assert result.why(1).id == 1
    assert result.why(True).id is True


def test_filter_refuses_data_of_another_length():
    result = neardup.dedup(TEXTS)
    for other in (TEXTS[:2], TEXTS * 2):
        with pytest.raises(UsageError, match="6 documents"):
            result.filter(other)


def test_a_large_result_can_be_pickled():
    words = [f"w{i}" for i in range(3_000)]
    result = neardup.dedup([" ".join(words[i:]) for i in range(1_800)])
    assert pickle.loads(pickle.dumps(result)).kept == result.kept


def test_decisions_as_a_table():
    result = neardup.dedup(TEXTS)
    rows = result.to_arrow().to_pylist()
    kept = {"decision": "kept", "witness": None, "similarity": None, "reason": None}
    assert rows[0] == kept | {"id": 0, "cluster": 0}
    assert rows[1] == {
        "id": 1,
        "decision": "removed",
        "witness": 0,
        "similarity": 46 / 47,
        "cluster": 0,
        "reason": None,
    }
    assert rows[4] == kept | {"id": 4, "decision": "rejected", "cluster": None, "reason": "empty"}
    assert result.to_polars().rows(named=True) == rows
    in_pandas = result.to_pandas()
    assert in_pandas["decision"].tolist() == [row["decision"] for row in rows]
    assert in_pandas.groupby("cluster").size().to_dict() == {0: 3, 2: 1, 5: 1}


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        (["x", "y", "z"], "string"),
        ([10, 20, 30], "int64"),
        ([1, "y", None], "large_string"),
        ([2**80, 1, 2], "large_string"),
    ],
)
def test_ids_of_the_table_have_their_type_if_it_is_one(ids, kind):
    rows = [{"id": id, "text": BASE} for id in ids]
    table = neardup.dedup(rows).to_arrow()
    assert str(table.schema.field("id").type) == kind
    wanted = [2 if id is None else id for id in ids]
    if kind == "large_string":
        wanted = list(map(str, wanted))
    assert table["id"].to_pylist() == wanted
    assert table["witness"].to_pylist() == [None, wanted[0], wanted[0]]


def test_table_of_nothing():
    table = neardup.dedup([]).to_arrow()
    assert len(table) == 0 and "decision" in table.column_names


def test_saved_result_is_a_run(tmp_path: Path):
    texts = pd.DataFrame({"body": [*TEXTS, "<b>bold</b>"]})
    result = neardup.dedup(texts, text="body", threshold=0.7)
    result.save(tmp_path / "run", texts)
    record = json.loads((tmp_path / "run/run.json").read_bytes())
    assert record["counts"]["removed"] == 2 and record["reasons"] == {"empty": 1}
    assert record["parameters"]["text"] == "body" and record["parameters"]["threshold"] == 0.7
    removed = pq.read_table(tmp_path / "run/removed.parquet")
    assert removed["id"].to_pylist() == ["1", "3"]
    assert removed["witness"].to_pylist() == ["0", "0"]
    assert pq.read_table(tmp_path / "run/clusters.parquet")["size"].to_pylist() == [3]
    page = (tmp_path / "run/report.html").read_text("utf-8")
    assert "word49" in page, "the texts of the clusters are shown"
    with pytest.raises(OutputError, match="finished run"):
        result.save(tmp_path / "run")
    result.save(tmp_path / "run", force=True)
    page = (tmp_path / "run/report.html").read_text("utf-8")
    assert "word49" not in page and "Texts are not shown" in page


def test_saved_result_can_be_evaluated(tmp_path: Path):
    result = neardup.dedup(
        [{"id": name, "text": text} for name, text in zip("abcdef", TEXTS, strict=True)]
    )
    result.save(tmp_path / "run")
    golden = [("a", "b", True), ("a", "c", False), ("a", "d", True)]
    judged = neardup.evaluate(golden, run=tmp_path / "run")
    assert (judged.labels.recall.value, judged.labels.precision.value) == (1.0, 1.0)


def test_saved_result_lists_what_was_vetoed(tmp_path: Path):
    texts = [f"{BASE} {number}" for number in (7, 42)]
    neardup.dedup(texts, distinguish="numbers").save(tmp_path / "run", texts)
    vetoed = pq.read_table(tmp_path / "run/vetoed.parquet").to_pylist()
    assert [(row["id"], row["witness"]) for row in vetoed] == [("1", "0")]
    assert json.loads((tmp_path / "run/run.json").read_bytes())["counts"]["vetoed"] == 1
    assert "1 document is kept" in (tmp_path / "run/report.html").read_text("utf-8")


def test_saved_result_of_full_buckets_and_ignored_lines(tmp_path: Path):
    texts = [f"the menu\n{BASE} {' '.join(f'end{n}x{i}' for i in range(9))}" for n in range(40)]
    result = neardup.dedup(texts, limit=2, threshold=0.95, bands=64, rows=2, strip="lines:50%")
    result.save(tmp_path / "run", texts)
    record = json.loads((tmp_path / "run/run.json").read_bytes())
    assert record["full_buckets"]["count"] > 0 and record["ignored_lines"]["count"] == 1
    assert "the menu" not in record["spec"].values()


def test_report_of_a_result(tmp_path: Path):
    neardup.dedup(TEXTS).report(tmp_path / "page.html", TEXTS)
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "page: neardup report" in page and "word49" in page
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    with pytest.raises(OutputError, match="can't be written"):
        neardup.dedup(TEXTS).report(tmp_path / "no-folder" / "page.html")


def test_data_of_another_length_is_refused_before_anything_is_written(tmp_path: Path):
    with pytest.raises(UsageError, match="6 documents"):
        neardup.dedup(TEXTS).save(tmp_path / "run", TEXTS[:3])
    assert not (tmp_path / "run").exists()


def test_html_view_shows_clusters_and_is_bounded():
    rows = [{"id": f"{n:04}" * 100, "text": f"{BASE} {n // 50}"} for n in range(2000)]
    result = neardup.dedup(rows, shingle="word:1", threshold=0.999)
    view = result._repr_html_()
    assert view.count("<tr>") == 11 and "and 44 more" in view
    assert len(view) < 10_000
    assert "<table>" not in neardup.dedup(["a", "b"])._repr_html_()


def test_summary_has_the_reasons_for_rejection():
    result = neardup.dedup(["a text", None, "", "", None, None])
    assert result.summary().splitlines()[-1] == "rejected            3 text is null   2 empty"


def test_missing_library_is_named_with_the_cure(monkeypatch):
    monkeypatch.setattr(frames, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match="polars is not installed: pip install polars"):
        neardup.dedup(["a"]).to_polars()
    with pytest.raises(UsageError, match="pandas is not installed: pip install pandas"):
        neardup.dedup(["a"]).to_pandas()


def test_decisions_as_arrays():
    decisions = neardup.dedup(TEXTS).decisions
    assert np.flatnonzero(decisions.witness == 0).tolist() == [1, 3]


def test_why_compares_two_documents() -> None:
    """The facts are those of the run: buckets, similarity, what keeps them apart."""
    words = [f"w{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(60)]
    changed = [*words[:30], "other", *words[31:]]
    rows = [
        {"id": "a", "text": " ".join(words), "lang": "en"},
        {"id": "b", "text": " ".join(changed), "lang": "en"},
        {"id": "c", "text": " ".join(words) + " 17", "lang": "en"},
        {"id": "d", "text": " ".join(words), "lang": "de"},
        {"id": "e", "text": "nothing of it", "lang": "en"},
        {"id": "f", "text": "", "lang": "en"},
    ]
    result = neardup.dedup(rows, within="lang", distinguish="numbers")
    found = {(a, b): result.why(a, b) for a in "abcdef" for b in "abcdef"}
    assert found["a", "b"].verdict == found["b", "a"].verdict == "copy"
    assert found["a", "b"].similarity == result.why("b").similarity
    assert found["a", "c"].verdict == "vetoed" and "--distinguish numbers" in str(found["a", "c"])
    assert found["a", "d"].verdict == "other group"
    assert found["a", "e"].verdict == "never met" and found["a", "e"].similarity is None
    assert found["a", "f"].verdict == "rejected"
    assert result.why(row=0, other_row=1) == found["a", "b"]
    assert "without --distinguish numbers it would be removed" in str(result.why("c"))
    with pytest.raises(UsageError, match="no row 9"):
        result.why("a", other_row=9)


def test_an_unknown_id_names_near_ones() -> None:
    result = neardup.dedup([{"id": "page-17", "text": "x"}])
    with pytest.raises(UsageError, match="did you mean 'page-17'"):
        result.why("page-7")


def test_why_in_a_notebook_shows_the_words_that_differ() -> None:
    words = [f"word{n}" for n in range(60)]
    changed = [*words[:30], "another", *words[31:]]
    data = [{"id": "a", "text": " ".join(words)}, {"id": "b", "text": " ".join(changed)}]
    result = neardup.dedup(data)
    verdict = result.why("b", data=data)
    (difference,) = verdict.differences
    assert "word29 [word30] word31" in difference.witness
    assert "word29 [another] word31" in difference.document
    assert str(verdict).splitlines() == [
        str(result.why("b")),
        f"'a': {difference.witness}",
        f"'b': {difference.document}",
    ]
    assert result.why("a", data=data).differences == ()
    assert result.why("b").differences == ()
    with pytest.raises(UsageError):
        result.why("b", data=data[:1])


def test_why_of_two_documents_shows_the_words_that_differ() -> None:
    texts = ["the cat sat on the mat", "a dog sat on the mat", None]
    data = [{"id": id, "text": text} for id, text in zip("abc", texts, strict=True)]
    result = neardup.dedup(data)
    pair = result.why("a", "b", data=data)
    assert pair.verdict == result.why("a", "b").verdict == "never met"
    assert str(pair).splitlines() == [
        str(result.why("a", "b")),
        "'a': [the cat] sat on the mat",
        "'b': [a dog] sat on the mat",
    ]
    assert str(result.why(row=1, other_row=0, data=data)).splitlines()[1].startswith("'b': [a dog]")
    assert str(result.why("a", "c", data=data)) == str(result.why("a", "c"))
    with pytest.raises(UsageError, match="pass the data that was given to dedup"):
        result.why("a", "b", data=data[:1])


def test_pairs_are_sorted_by_similarity() -> None:
    words = [f"word{n}" for n in range(60)]
    texts = [" ".join(words[:end]) for end in (60, 52, 59, 60)]
    pairs = neardup.dedup(texts).pairs
    assert [pair.similarity for pair in pairs] == sorted(
        (pair.similarity for pair in pairs), reverse=True
    )
    assert (pairs[0].a, pairs[0].b, pairs[0].similarity) == (0, 3, 1.0)


def test_annotate_returns_data_with_clusters() -> None:
    import polars as pl

    texts = ["the same", "The same!", "another", " ", "the same"]
    rows = [{"id": f"d{n}", "text": text} for n, text in enumerate(texts)]
    notes = [(0, 3, None, None), (0, 3, "d0", 1.0), (2, 1, None, None), (0, 3, "d0", 1.0)]
    names = ("cluster", "cluster_size", "witness", "similarity")
    want = [
        row | dict(zip(names, note, strict=True))
        for row, note in zip([*rows[:3], rows[4]], notes, strict=True)
    ]
    result = neardup.dedup(rows)
    assert result.annotate(rows) == want
    assert result.annotate(tuple(rows), "kept") == (want[0], want[2])
    assert result.annotate(pa.Table.from_pylist(rows)).to_pylist() == want
    assert result.annotate(pl.DataFrame(rows)).to_dicts() == want
    assert result.annotate(pl.LazyFrame(rows)).collect().to_dicts() == want
    frame = result.annotate(pd.DataFrame(rows, index=list("vwxyz")))
    assert frame.index.tolist() == ["v", "w", "x", "z"]
    assert pa.Table.from_pandas(frame, preserve_index=False).to_pylist() == want
    with pytest.raises(UsageError, match="a column 'witness' already"):
        result.annotate([row | {"witness": 1} for row in rows])
    with pytest.raises(UsageError, match="no columns"):
        result.annotate(texts)
