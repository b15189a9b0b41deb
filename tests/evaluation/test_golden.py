"""Golden sets: every form that they come in, and everything that is wrong with them."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.errors import ColumnError, InputError, UsageError
from neardup.evaluation import golden as room
from neardup.evaluation.golden import LabelledPairs, load_golden, read_golden

PAIRS = [("a", "b", True), ("c", "d", False), ("é 1", "a", True)]


def told(found: LabelledPairs) -> list[tuple[str, str, bool]]:
    columns = (found.a.tolist(), found.b.tolist(), found.label.tolist())
    return [(found.ids[x], found.ids[y], label) for x, y, label in zip(*columns, strict=True)]


def counts(found: LabelledPairs) -> dict[str, int]:
    return {name: flaw.count for name, flaw in found.flaws.items() if flaw.count}


WANTED = [("a", "b", True), ("c", "d", False), ("a", "é 1", True)]


@pytest.mark.parametrize("yes, no", [("1", "0"), ("true", "FALSE"), ("Yes", "no"), ("1.0", "0.0")])
@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("suffix, mark", [("tsv", "\t"), ("csv", ","), ("csv.gz", ",")])
def test_delimited_files_are_read(tmp_path, suffix, mark, header, yes, no):
    rows = [["id1", "id2", "label"]] * header
    rows += [[a, b, yes if label else no] for a, b, label in PAIRS]
    data = "\n".join(mark.join(row) for row in rows).encode()
    path = tmp_path / f"golden.{suffix}"
    path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    assert told(read_golden(path)) == WANTED


@pytest.mark.parametrize(
    "label",
    [
        pa.array([True, False, True]),
        pa.array([1, 0, 1]),
        pa.array(["yes", "no", "1"]),
        pa.array([1.0, 0.0, 1.0]),
    ],
)
def test_parquet_and_arrow_tables_are_read(tmp_path, label):
    table = pa.table(
        {
            "more": [1, 2, 3],
            "label": label,
            "id1": [p[0] for p in PAIRS],
            "id2": [p[1] for p in PAIRS],
        }
    )
    pq.write_table(table, tmp_path / "golden.parquet")
    pyarrow.feather.write_feather(table, tmp_path / "golden.arrow")
    assert told(read_golden(tmp_path / "golden.parquet")) == WANTED
    assert told(read_golden(tmp_path / "golden.arrow")) == WANTED


def test_columns_have_other_names_and_without_a_label_all_are_duplicates(tmp_path):
    path = tmp_path / "golden.tsv"
    path.write_text("rate\tleft\tright\n0.1\ta\tb\n0.2\tc\td\n")
    assert told(read_golden(path, pairs=["left", "right"])) == [("a", "b", True), ("c", "d", True)]
    assert told(read_golden(path, pairs="left, right")) == told(
        read_golden(path, ["left", "right"])
    )
    assert len(read_golden(path, clusters="left,right").ids) == 2
    with pytest.raises(ColumnError, match=r"rate, left, right.*--pairs"):
        read_golden(path)
    with pytest.raises(ColumnError, match="no column 'none'"):
        read_golden(path, pairs=["left", "none"])
    with pytest.raises(UsageError, match="2 or 3 columns, not 1"):
        read_golden(path, pairs=["left"])


def test_two_columns_without_names_are_pairs(tmp_path):
    path = tmp_path / "golden.tsv"
    path.write_text("a\tb\nc\td\n")
    assert told(read_golden(path)) == [("a", "b", True), ("c", "d", True)]


def test_clusters_label_every_pair(tmp_path):
    path = tmp_path / "golden.csv"
    path.write_text("id,cluster\na,1\nb,2\nc,1\nd,3\nb,2\nd,4\n")
    found = read_golden(path)
    assert told(found) == [("a", "b", False), ("a", "c", True), ("b", "c", False)]
    assert found.clusters.tolist() == [0, 1, 0]
    assert counts(found) == {"contradictory": 1, "repeated": 1}
    assert found.flaws["contradictory"].listed == [["d"]]
    assert told(load_golden({"a": 1, "b": 2, "c": 1})) == told(found)


def test_python_pairs_have_ids_of_any_type():
    assert told(load_golden([(1, 2, 1), ("1", 3, False), (4, 5)])) == [
        ("1", "2", True),
        ("1", "3", False),
        ("4", "5", True),
    ]
    for wrong in (["ab"], 7, [3]):
        with pytest.raises(UsageError, match="golden set"):
            load_golden(wrong)


def test_unusable_rows_are_counted_and_listed():
    rows = [
        ("a", "b", 1),
        ("b", "a", 0),
        ("c", "c", 1),
        ("c", "d", 1),
        ("d", "c", 1),
        ("e", "f", 0),
    ]
    found = load_golden(rows)
    assert told(found) == [("c", "d", True), ("e", "f", False)]
    assert counts(found) == {"contradictory": 1, "repeated": 1, "self-pairs": 1}
    assert found.flaws["contradictory"].listed == [["a", "b"]]
    assert found.flaws["self-pairs"].listed == [["c", "c"]]
    many = load_golden([(n, n, 1) for n in range(50)])
    assert (len(many), many.flaws["self-pairs"].count) == (0, 50)
    assert len(many.flaws["self-pairs"].listed) == 20


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.booleans()), max_size=40))
def test_every_row_is_used_or_counted(rows):
    found = load_golden(rows)
    labels: dict[frozenset[str], list[bool]] = {}
    for a, b, label in rows:
        if a != b:
            labels.setdefault(frozenset((str(a), str(b))), []).append(label)
    clear = {pair: given[0] for pair, given in labels.items() if len(set(given)) == 1}
    assert {frozenset((a, b)): label for a, b, label in told(found)} == clear
    assert found.flaws["self-pairs"].count == sum(a == b for a, b, _ in rows)
    assert found.flaws["contradictory"].count == len(labels) - len(clear)
    assert found.flaws["repeated"].count == sum(len(labels[pair]) - 1 for pair in clear)


@pytest.mark.parametrize(
    "rows, line",
    [
        ("id1\tid2\tlabel\n\na\tb\t1\n\n\na\tc\tmaybe\n", 6),
        ("a\tb\t1\na\tc\t\n", 2),
        ('id1\tid2\tlabel\n"a\nb"\tc\t1\nd\te\t2\n', 4),
    ],
)
def test_invalid_label_is_reported_with_its_line(tmp_path, rows, line):
    (tmp_path / "golden.tsv").write_text(rows)
    with pytest.raises(
        InputError, match=rf"golden\.tsv, line {line}: .* is not a label: write 1 or 0"
    ):
        read_golden(tmp_path / "golden.tsv")


@pytest.mark.parametrize(
    "name, content, said",
    [
        ("golden.tsv", "", "is empty"),
        ("golden.jsonl", "{}", "is a TSV, CSV, Parquet or Arrow file"),
        ("golden.tsv", "a\tb\t1\nc\n", "line 2: 1 fields are too few"),
        ("golden.tsv", "a\tb\t1\n\td\t1\n", "line 2: a name is missing"),
        ("golden.parquet", "PAR1", "corrupt parquet"),
        ("none.tsv", None, "no such file"),
    ],
)
def test_files_without_a_golden_set_are_refused(tmp_path, name, content, said):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=said):
        read_golden(tmp_path / name)


def test_folders_and_both_kinds_are_refused(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        read_golden(tmp_path)
    for name in ("a1.tsv", "a2.tsv"):
        (tmp_path / name).write_text("a\tb\t1\n")
    with pytest.raises(InputError, match="no such file: give one file"):
        read_golden(tmp_path / "a*.tsv")
    with pytest.raises(UsageError, match="pairs or clusters"):
        read_golden(tmp_path, pairs=["a", "b"], clusters=["id", "cluster"])


def test_missing_column_is_named(tmp_path):
    (tmp_path / "golden.tsv").write_text("id1\n1\n")
    with pytest.raises(ColumnError, match="no column 'id2'; it has: id1"):
        read_golden(tmp_path / "golden.tsv")


def test_too_many_pairs_are_refused(monkeypatch):
    monkeypatch.setattr(room, "MOST_PAIRS", 3)
    assert len(load_golden([(1, 2), (3, 4), (5, 6)])) == 3
    assert len(load_golden({1: 1, 2: 1, 3: 2})) == 3
    for golden in ([(n, n + 1) for n in range(4)], dict.fromkeys(range(4), 1)):
        with pytest.raises(InputError, match="too large"):
            load_golden(golden)


def test_without_drops_the_pairs_of_documents():
    found = load_golden([("a", "b", 1), ("b", "c", 0), ("c", "d", 1)])
    left = found.without("unknown ids", np.array([1]))
    assert told(left) == [("c", "d", True)]
    assert left.flaws["unknown ids"].listed == [["b"]]


@pytest.mark.parametrize(
    "name, text, labels",
    [
        ("g.csv", "left,right\nd1,d2\nd3,d4\n", "11"),
        ("g.csv", "left,right\npage,other page\n", "1"),
        ("g.csv", "Doc A,Doc B\nd1,d2\n", "1"),
        ("g.csv", "a;b;same\nd1;d2;1\nd3;d4;no\n", "10"),
        ("g.csv", '"a";"b";"same"\n"d1";"d2";"0"\n', "0"),
        ("g.csv", "\ufeffleft_id,right_id,is_duplicate\nd1,d2,true\n", "1"),
        ("g.csv", "score,id_a,id_b,match\n0.5,d1,d2,0\n", "0"),
        ("g.tsv", "ID1\tID2\tLabel\nd1\td2\t0\n", "0"),
        ("g.tsv", "d1,d2,1\nd3,d4,0\n", "10"),
        ("g.csv", "same|x|y\nno|d1|d2\n", "0"),
        ("g.csv", "id1,id2,same\nd1,d2,1\nd3,d4,0\n", "10"),
    ],
)
def test_a_header_of_my_own_is_no_pair_and_its_labels_are_read(tmp_path, name, text, labels):
    path = tmp_path / name
    path.write_text(text)
    assert "".join(str(int(label)) for _, _, label in told(read_golden(path))) == labels


def test_a_header_of_clusters_of_my_own(tmp_path):
    path = tmp_path / "golden.csv"
    path.write_text("doc_id,group\nd1,x\nd2,x\nd3,y\n")
    assert told(read_golden(path)) == [("d1", "d2", True), ("d1", "d3", False), ("d2", "d3", False)]


@pytest.mark.parametrize(
    "text",
    [
        "a,b\nd1,d2\nd3,d4\n",  # names, by the ids below
        "mine,theirs\npages/x,pages/y\n",
        "id,duplicate\none,two\n",  # pairs or clusters?
        "page,name,kind\nd1,d2,1\nd3,d4,0\n",
        "id_a,id_b,rate\nd1,d2,0.1\n",  # is the rate a label?
        "id1,id2,verdicts\nd1,d2,1\nd3,d4,0\n",  # labels under a name that is not known
        "id1,id2,same,match\nd1,d2,1,0\n",
        "doc1,doc2\ndoc3,doc4\ndoc5,doc6\n",  # a header, or ids?
        "file_a,file_b\nfile_c,file_d\n",
    ],
)
def test_a_header_that_is_not_understood_is_refused_with_the_option(tmp_path, text):
    path = tmp_path / "golden.csv"
    path.write_text(text)
    with pytest.raises(ColumnError, match=r"--pairs ID1,ID2,LABEL.*--clusters ID,CLUSTER"):
        read_golden(path)
    names = text.splitlines()[0].split(",")[:3]
    if "rate" not in names and "id" not in names:
        found = read_golden(path, pairs=names)
        assert len(found) == len(text.splitlines()) - 1


@pytest.mark.parametrize("text", ["a,b\nb,c\n", "a,b\nc,d\n", "d1,d2\nd3,d4\n", "left,b\nx,left\n"])
def test_pairs_without_a_header_are_all_read(tmp_path, text):
    path = tmp_path / "golden.csv"
    path.write_text(text)
    assert len(read_golden(path)) == 2
