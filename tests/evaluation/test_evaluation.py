"""Evaluations of operating points and of runs: the numbers are those of the engine itself."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.command_line import neardup, write_jsonl
from support.golden_set import planted

import neardup as library
from neardup.errors import FormatError, InputError, ParameterError, UsageError
from neardup.evaluation.evaluation import evaluate
from neardup.evaluation.results import Losses
from neardup.evaluation.scores import Scores

SET = planted()
IDS = [row["id"] for row in SET.rows]


def engine_pairs(data, **point) -> set[frozenset[str]]:
    """All pairs that meet and are similar, by `neardup.dedup`."""
    found = library.dedup(data, id="id", **point)
    return {frozenset((pair.a, pair.b)) for pair in found.pairs}


@pytest.mark.parametrize(
    "point",
    [
        {},
        {"threshold": 0.5},
        {"shingle": "char:9", "threshold": 0.6},
        {"bands": 4, "rows": 12},
        {"verify": "estimate", "bits": 4},
        {"verify": "none"},
        {"sketch": "oneperm", "slots": 256},
        {"sketch": "weighted", "weights": "tf-idf"},
        {"sketch": "simhash"},
        {"measure": "containment"},
        {"strip": "lines:10%"},
        {"distinguish": "numbers"},
    ],
    ids=str,
)
def test_predictions_equal_dedup(point):
    found = evaluate(SET.golden, corpus=SET.rows, **point)
    pairs = engine_pairs(SET.rows, **point)
    predicted = np.array([frozenset(pair[:2]) in pairs for pair in SET.golden])
    label = np.array([bool(pair[2]) for pair in SET.golden])
    assert found.labels == Scores.of(predicted, label)
    assert found.labels.tp > 0


def test_losses_separate_bands_from_threshold():
    found = evaluate(SET.golden, corpus=SET.rows, bands=2, rows=30)
    texts = {row["id"]: row["text"] for row in SET.rows}
    similarity = np.array([library.similarity(texts[a], texts[b]) for a, b, _ in SET.golden])
    label = np.array([bool(one[2]) for one in SET.golden])
    losses = found.losses
    assert losses.dissimilar == np.count_nonzero(label & (similarity < 0.8))
    assert losses.dissimilar + losses.never_met == found.labels.fn
    assert losses.never_met > 0 and losses.misjudged == losses.apart == 0
    assert found.similarity.tp + found.similarity.fn == np.count_nonzero(similarity >= 0.8)
    assert found.similarity.precision.value == 1.0
    assert found.candidates.tp >= found.labels.tp


def test_pairs_with_other_numbers_are_not_found(tmp_path):
    """By an operating point, and by a run; their similarity is below every threshold."""
    words = " ".join(f"clause{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")
    rows = [{"id": f"hr{n}", "text": f"{words} H.R. {n % 3}"} for n in range(6)]
    golden = [(a["id"], b["id"], 1) for a, b in combinations(rows, 2)]
    found = evaluate(golden, corpus=rows, distinguish="numbers")
    assert (found.labels.tp, found.labels.fn) == (3, 12)
    assert found.losses.dissimilar == 12 and found.similarity.recall.value == 1.0
    assert found.sweep.recall[0] == 0.2, "at the lowest threshold"
    assert found.operating_point["parameters"]["distinguish"] == "numbers"
    corpus = write_jsonl(tmp_path / "bills.jsonl", rows)
    with library.dedup_files(corpus, tmp_path / "out", distinguish="numbers"):
        run = evaluate(golden, corpus=corpus, run=tmp_path / "out")
    assert (run.labels, run.losses) == (found.labels, found.losses)
    with pytest.raises(ParameterError, match="not at columns"):
        evaluate(golden, corpus=rows, distinguish="lang")


def test_worst_cases_have_their_texts():
    wrong = [*SET.golden[1:], ("a0", "b0", 0)]
    found = evaluate(wrong, corpus=SET.rows, threshold=0.3)
    texts = {row["id"]: row["text"] for row in SET.rows}
    (case,) = found.false_positives
    assert (case.id1, case.id2, case.texts) == ("a0", "b0", (texts["a0"], texts["b0"]))
    assert case.similarity == library.similarity(texts["a0"], texts["b0"])
    missed = evaluate(SET.golden, corpus=SET.rows, bands=1, rows=60).false_negatives
    similarities = [one.similarity for one in missed]
    assert len(missed) == 20 and similarities == sorted(similarities, reverse=True)
    assert similarities[0] >= 0.8 and not missed[0].met
    assert "texts" not in json.dumps(found.record)


def test_golden_clusters_label_every_pair_and_give_a_rand_index():
    clusters = {row["id"]: row["id"][1:] for row in SET.rows}
    found = evaluate(clusters, corpus=SET.rows, threshold=0.3)
    assert len(found.golden) == len(IDS) * (len(IDS) - 1) // 2
    assert found.labels.tp + found.labels.fn == len(IDS) // 2
    stars = library.dedup(SET.rows, id="id", threshold=0.3)
    together = {frozenset((one.id, one.witness)) for one in stars.removed}
    want = sum(frozenset((f"a{n}", f"b{n}")) in together for n in range(len(IDS) // 2))
    assert want == len(together) > 40
    # Only right pairs are together: the index is the share of pairs, up to what chance adds.
    assert found.rand.value == pytest.approx(2 * want / (want + len(IDS) // 2), abs=1e-3)
    assert found.rand.clusters == "the clusters of the golden set"
    assert "positive pairs" in evaluate(SET.golden, corpus=SET.rows).rand.clusters


def test_unknown_empty_and_repeated_documents_are_counted_and_listed():
    rows = [
        *SET.rows,
        {"id": "blank", "text": " \n"},
        {"id": "null", "text": None},
        {"id": "a1", "text": "another one"},
    ]
    golden = [*SET.golden, ("a0", "nowhere", 1), ("a0", "blank", 1), ("null", "a1", 0)]
    found = evaluate(golden, corpus=rows)
    plain = evaluate(SET.golden, corpus=SET.rows)
    assert found.labels == plain.labels
    listed = {name: flaw.listed for name, flaw in found.golden.flaws.items() if flaw.count}
    assert listed == {
        "unknown ids": [["nowhere"]],
        "empty documents": [["blank"], ["null"]],
        "ids of several documents": [["a1"]],
    }


@pytest.mark.parametrize("label, undefined", [(0, "recall"), (1, "nothing")])
def test_labels_of_one_kind_leave_scores_undefined(label, undefined):
    golden = [(a, b, label) for a, b, _ in SET.golden[:5]]
    found = evaluate(golden, corpus=SET.rows)
    assert (found.labels.recall.value is None) == (undefined == "recall")
    assert found.sweep.best is None and len(found.notes) == 1
    json.dumps(found.record, allow_nan=False)


def test_few_pairs_of_one_label_are_noted():
    duplicates = [pair for pair in SET.golden if pair[2]]
    others = [pair for pair in SET.golden if not pair[2]]
    (note,) = evaluate(duplicates + others[:5], corpus=SET.rows).notes
    assert note.startswith("only 5 pairs labelled as different")
    note, _ = evaluate(duplicates[:7] + others, corpus=SET.rows).notes
    assert note.startswith("only 7 pairs labelled as duplicates")


def test_labels_that_are_easy_to_tell_apart_are_noted():
    """The others of the set have no words in common: any threshold gets them right."""
    found = evaluate(SET.golden, corpus=SET.rows)
    (note,) = found.notes
    assert note.startswith("only 0 of the ") and "labelled as different are 0.6 similar" in note
    assert "precision near the threshold of 0.8 is hardly tested" in note
    assert "neardup dedup INPUT -o OUT --shingle word:5 --threshold 0.6 --pairs lists" in note


def test_golden_set_without_usable_pairs_is_an_error():
    with pytest.raises(InputError, match=r"ids as x and y, the corpus as a0 and a1: .* --id"):
        evaluate([("x", "y", 1)], corpus=SET.rows)
    with pytest.raises(InputError, match=r"no pair that can be used \(it has no rows\)"):
        evaluate([], corpus=SET.rows)
    blank = [*SET.rows, *({"id": id, "text": " "} for id in "xy")]
    with pytest.raises(InputError, match=r"all have an empty document: .* --text"):
        evaluate([("x", "y", 1)], corpus=blank)


def test_losses_count_misjudged_estimates():
    found = evaluate(
        SET.golden, corpus=SET.rows, verify="estimate", bits=1, slots=32, bands=32, rows=1
    )
    texts = {row["id"]: row["text"] for row in SET.rows}
    similar = sum(library.similarity(texts[a], texts[b]) >= 0.8 for a, b, _ in SET.golden)
    assert found.losses.misjudged == similar - found.similarity.tp > 0
    assert f"{found.losses.misjudged} were misjudged by their estimates" in str(found)
    assert found.losses.apart == 0


def test_corpus_may_be_files_or_a_table(tmp_path):
    write_jsonl(tmp_path / "in.jsonl", SET.rows)
    (tmp_path / "golden.tsv").write_text(SET.tsv)
    table = pa.Table.from_pylist(SET.rows)
    want = evaluate(SET.golden, corpus=SET.rows).record
    golden = tmp_path / "golden.tsv"
    assert evaluate(golden, corpus=tmp_path / "in.jsonl", workers=2).record == want
    assert evaluate(golden, corpus=[tmp_path / "in.jsonl"]).record == want
    assert evaluate(golden, corpus=str(tmp_path / "in.jsonl")).record == want
    assert evaluate(golden, corpus=table).record == want
    renamed = [{"name": row["id"], "body": row["text"]} for row in SET.rows]
    assert evaluate(golden, corpus=renamed, text="body", id="name").record == want


def test_documents_without_ids_are_named_by_row(tmp_path):
    texts = [row["text"] for row in SET.rows]
    golden = [(0, 60, 1), (0, 61, 0)]
    assert evaluate(golden, corpus=texts, threshold=0.3).labels == Scores(1, 0, 0, 1)
    file = tmp_path / "in.jsonl"
    write_jsonl(file, [{"text": text} for text in texts])
    named = [(f"{file}:{a}", f"{file}:{b}", label) for a, b, label in golden]
    assert evaluate(named, corpus=file, threshold=0.3).labels == Scores(1, 0, 0, 1)


def run_of(tmp_path, *options) -> Path:
    write_jsonl(tmp_path / "in.jsonl", SET.rows)
    done = neardup("dedup", tmp_path / "in.jsonl", "-o", tmp_path / "out", "-q", *options)
    assert done.code == 0, done.err
    return tmp_path / "out"


def test_run_is_judged_by_its_clusters(tmp_path):
    out = run_of(tmp_path, "--threshold", 0.7, "--shingle", "word:3")
    found = evaluate(SET.golden, run=out)
    stars = library.dedup(SET.rows, id="id", threshold=0.7, shingle="word:3")
    star = {one.id: one.witness for one in stars.removed}
    pairs = {frozenset((a, b)) for a, b in combinations(IDS, 2) if star.get(a, a) == star.get(b, b)}
    predicted = np.array([frozenset(one[:2]) in pairs for one in SET.golden])
    assert found.labels == Scores.of(predicted, np.array([bool(one[2]) for one in SET.golden]))
    assert found.similarity is None and found.sweep is None and found.profile is None
    assert "kept alone, or are not in it" in found.notes[0]
    both = evaluate(SET.golden, run=out, corpus=tmp_path / "in.jsonl")
    assert both.labels == found.labels and both.operating_point == found.operating_point
    assert both.sweep == evaluate(SET.golden, corpus=SET.rows, shingle="word:3").sweep
    assert both.similarity.tp + both.similarity.fn == sum(
        library.similarity(SET.rows[n]["text"], SET.rows[60 + n]["text"], shingle="word:3") >= 0.7
        for n in range(60)
    )


def test_pairs_parquet_of_a_run_counts(tmp_path):
    """In a chain, the third is like the second, which is gone, but not like the first, which stays:
    a pair, and no cluster."""
    words = [f"word{n}" for n in range(100)]
    chain = [
        {"id": f"{n}", "text": " ".join([*words[n * 8 :], *words[: n * 8]][:90])} for n in range(3)
    ]
    write_jsonl(tmp_path / "in.jsonl", chain)
    assert library.similarity(chain[0]["text"], chain[2]["text"]) < 0.75
    golden = [("0", "1", 1), ("1", "2", 1), ("0", "2", 0)]
    for options, want in (((), Scores(1, 0, 1, 1)), (("--pairs",), Scores(2, 0, 0, 1))):
        done = neardup(
            "dedup",
            tmp_path / "in.jsonl",
            "-o",
            tmp_path / "out",
            "-q",
            "--force",
            "--threshold",
            0.75,
            *options,
        )
        assert done.code == 0, done.err
        found = evaluate(golden, run=tmp_path / "out")
        assert found.labels == want
        assert any("dedup --pairs" in note for note in found.notes) == (not options)
        both = evaluate(golden, run=tmp_path / "out", corpus=tmp_path / "in.jsonl")
        assert both.labels == want
        assert both.losses == Losses(0, 0, 0, want.fn)
        said = " ".join(str(both).split())
        assert ("1 are similar and in different clusters" in said) == (not options)
        assert ("use dedup --pairs" in said) == (not options) and "misjudged" not in said


def test_exact_run_is_judged_by_copies(tmp_path):
    write_jsonl(tmp_path / "in.jsonl", [*SET.rows, {"id": "c", "text": SET.rows[3]["text"]}])
    done = neardup("exact", tmp_path / "in.jsonl", "-o", tmp_path / "out", "-q")
    assert done.code == 0, done.err
    found = evaluate(
        [("a3", "c", 1), ("a3", "b4", 0)], run=tmp_path / "out", corpus=tmp_path / "in.jsonl"
    )
    assert found.labels == Scores(1, 0, 0, 1)
    # It has neither a threshold nor buckets: what others would say of those is not said.
    assert found.candidates is found.similarity is found.losses is None
    assert found.sweep is not None


def test_repeated_ids_of_a_run_are_listed(tmp_path):
    rows = [{"id": f"{n % 3}", "text": SET.rows[n]["text"]} for n in range(6)]
    write_jsonl(tmp_path / "in.jsonl", [*rows, *rows[3:]])
    done = neardup("dedup", tmp_path / "in.jsonl", "-o", tmp_path / "out", "-q")
    assert done.code == 0, done.err
    found = evaluate([("0", "1", 0)], run=tmp_path / "out")
    assert found.golden.flaws["ids of several documents"].listed == [["0"], ["1"]]
    assert "not unique          2 ids of several documents: 0   1" in str(found)


def test_run_with_merged_rows_refuses_a_corpus(tmp_path):
    halves = [
        (row["id"], " ".join(part))
        for row in SET.rows
        for words in [row["text"].split()]
        for part in (words[:20], words[20:])
    ]
    write_jsonl(tmp_path / "in.jsonl", [{"page": id, "text": text} for id, text in halves])
    done = neardup(
        "dedup",
        tmp_path / "in.jsonl",
        "-o",
        tmp_path / "out",
        "-q",
        "--merge-rows",
        "page",
        "--threshold",
        0.5,
    )
    assert done.code == 0, done.err
    assert evaluate(SET.golden, run=tmp_path / "out").labels.recall.value > 0.5
    with pytest.raises(UsageError, match="merged rows"):
        evaluate(SET.golden, run=tmp_path / "out", corpus=tmp_path / "in.jsonl")


def test_damaged_run_is_refused(tmp_path):
    out = run_of(tmp_path)
    removed, record = out / "removed.parquet", out / "run.json"
    table, good = pq.read_table(removed), record.read_text()
    names = table.column("id").cast(pa.string())
    for broken in (table.drop_columns(["cluster"]), table.set_column(8, "cluster", names)):
        pq.write_table(broken, removed)
        with pytest.raises(FormatError, match="is not of a run: run neardup dedup again"):
            evaluate(SET.golden, run=out)
    pq.write_table(table, removed)
    record.write_text(json.dumps(json.loads(good) | {"parameters": []}))
    with pytest.raises(FormatError, match="names no parameters"):
        evaluate(SET.golden, run=out)


def test_invalid_requests_are_refused(tmp_path):
    write_jsonl(tmp_path / "in.jsonl", SET.rows)
    with pytest.raises(UsageError, match=r"--corpus.*--run"):
        evaluate(SET.golden)
    with pytest.raises(UsageError, match="holds no finished run"):
        evaluate(SET.golden, run=tmp_path)
    with pytest.raises(ParameterError, match="looks at texts"):
        evaluate(SET.golden, corpus=SET.rows, shingle="token:5")
    with pytest.raises(InputError, match="fewer than two documents"):
        evaluate(SET.golden, corpus=SET.rows[:1])
    out = run_of(tmp_path)
    with pytest.raises(UsageError, match="has its operating point"):
        evaluate(SET.golden, run=out, threshold=0.5)
    (out / "removed.parquet").unlink()
    with pytest.raises(FormatError, match=r"removed\.parquet is missing"):
        evaluate(SET.golden, run=out)


def test_a_keyed_hash_needs_no_key_to_be_evaluated():
    assert evaluate(SET.golden, corpus=SET.rows, hash="siphash").labels == (
        evaluate(SET.golden, corpus=SET.rows).labels
    )


def test_the_order_of_rows_does_not_matter():
    turned = [(b, a, label) for a, b, label in reversed(SET.golden)]
    one, other = (evaluate(golden, corpus=SET.rows) for golden in (SET.golden, turned))
    assert one.record["golden"] == other.record["golden"]
    assert one.labels == other.labels
    changed = [*SET.golden[1:], (*SET.golden[0][:2], 0)]
    assert (
        evaluate(changed, corpus=SET.rows).record["golden"]["digest"]
        != (one.record["golden"]["digest"])
    )


def test_str_of_an_evaluation_is_a_summary():
    found = evaluate(SET.golden, corpus=SET.rows)
    said = str(found)
    assert f"recall {found.labels.recall}" in said
    assert "best threshold" in said and "adjusted Rand" in said
    assert str(replace(found, drift=["nothing moved"])).endswith("nothing moved\n")


def test_control_characters_in_ids_are_not_printed():
    long, red = "x" * 1_000_000, "\x1b[31m\n"
    said = str(evaluate([*SET.golden, (long, red, 1)], corpus=SET.rows))
    assert len(said) < 5_000 and "\x1b" not in said
    assert "left out            2 unknown ids:\n                    xxx" in said
