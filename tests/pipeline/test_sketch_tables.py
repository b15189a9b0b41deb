"""Saved sketches as Parquet files: other engines read them, and neardup as its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.command_line import dedup, edited, neardup, refused, table, write_jsonl

from neardup import Spec, dedup_files
from neardup.errors import FormatError, ParameterError
from neardup.formats.blocks import BlockReader
from neardup.pipeline.sketch_files import SKETCHES_KIND, unpack_column
from neardup.pipeline.sketch_tables import COLUMNS, SketchTable, restore_sketches

DOCUMENTS = [
    {
        "id": f"d{n}",
        "text": edited(n % 7, 79 - n // 7) if n % 11 else " ",
        "shop": f"s{n % 2}",
        "stars": n % 5,
        "vector": [float(n % 7), 1.0, float(n % 3)],
    }
    for n in range(60)
]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("in")
    write_jsonl(folder / "a.jsonl", DOCUMENTS[:40])
    write_jsonl(folder / "b.jsonl", DOCUMENTS[40:])
    (folder / "empty.jsonl").write_bytes(b"")
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def saved(inputs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("saved") / "out"
    dedup(*inputs, "-o", out, "--save-sketches", "parquet")
    return out


def tables_of(run: Path) -> list[Path]:
    return sorted((run / "sketches").glob("*.parquet"))


KINDS = {
    "default": (),
    "narrow": ("--bits", 1),
    "narrow with full slots": ("--bits", 2, "--keep-full"),
    "wide": ("--family", "affine-m61"),
    "oneperm": ("--sketch", "oneperm", "--slots", 256),
    "weighted": ("--sketch", "weighted"),
    "simhash": ("--sketch", "simhash"),
    "groups, numbers, policy and sources": (
        *("--within", "shop", "--distinguish", "numbers", "--keep", "max:stars"),
        *("--source", "shop"),
    ),
    "merged rows": ("--merge-rows", "id"),
    "two signals": ("--also", "vector:0.9"),
    "a veto": ("--unless", "vector:0.5"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_tables_have_all_that_sketch_files_have(
    kind: str, inputs: list[Path], tmp_path: Path
) -> None:
    for form in ((), ("parquet",)):
        out = tmp_path / "-".join(["out", *form])
        dedup(*inputs, "-o", out, *KINDS[kind], "--save-sketches", *form)
    plain = tmp_path / "out" / "sketches"
    tables = tables_of(tmp_path / "out-parquet")
    assert (
        {table.stem for table in tables}
        == {file.name for file in plain.iterdir()} & {table.stem for table in tables}
        != set()
    )
    for path in tables:
        same_sketches(path, plain / path.stem)


@pytest.mark.parametrize("ids", [None, pa.int32(), pa.decimal128(12, 2), pa.large_string()])
def test_tables_have_ids_of_any_type(ids: pa.DataType | None, tmp_path: Path) -> None:
    columns = {"text": [row["text"] for row in DOCUMENTS]}
    if ids is not None:
        columns["id"] = pa.array(range(len(DOCUMENTS)), pa.int32()).cast(ids)
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    for form in ((), ("parquet",)):
        out = tmp_path / "-".join(["out", *form])
        dedup(tmp_path / "in.parquet", "-o", out, "--save-sketches", *form)
    for path in tables_of(tmp_path / "out-parquet"):
        same_sketches(path, tmp_path / "out" / "sketches" / path.stem)


def same_sketches(path: Path, plain: Path) -> None:
    """A table must become the sketch file again, but for how Arrow lays out a dictionary."""
    made, original = path.parent / "restored", BlockReader(plain, SKETCHES_KIND)
    restore_sketches(path, made)
    restored = BlockReader(made, SKETCHES_KIND)
    assert (restored.header, restored.note) == (original.header, original.note)
    for block in range(len(original)):
        assert restored.note_of(block) == original.note_of(block)
        for name in COLUMNS:
            assert restored.has(block, name) == original.has(block, name)
            if original.has(block, name):
                one, other = (file.read(block, name) for file in (restored, original))
                if name == "sources":
                    assert unpack_column(one).to_pylist() == unpack_column(other).to_pylist()
                else:
                    assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes()), name


def test_other_engines_read_them(saved: Path) -> None:
    names = str(saved / "sketches" / "*.parquet")
    read = duckdb.sql(
        f"select id, file, row, kept, rejected, length, slots, content from '{names}' order by id"
    ).fetchall()
    assert len(read) == len(DOCUMENTS)
    removed = {row["id"] for row in table(saved, "removed")}
    by_id = {row["id"]: row for row in DOCUMENTS}
    for name, file, row, kept, rejected, length, slots, content in read:
        text = by_id[name]["text"]
        assert Path(file).name == ("a.jsonl" if DOCUMENTS.index(by_id[name]) < 40 else "b.jsonl")
        assert DOCUMENTS[row + 40 * file.endswith("b.jsonl")]["id"] == name
        assert (rejected == "empty") == (not text.strip())
        assert kept == (name not in removed and rejected is None)
        assert (length, len(slots), len(content)) == (len(text), 128, 2)
    # The estimate of the similarity, as another engine computes it.
    (most,) = duckdb.sql(
        f"""with s as (select * from '{names}' where rejected is null)
        select max(len(list_filter(list_zip(a.slots, b.slots), lambda p: p[1] = p[2])) / 128)
        from s a, s b where a.id < b.id and a.kept and b.kept"""
    ).fetchall()[0]
    assert most < 0.95


def test_the_specification_is_in_the_metadata(saved: Path) -> None:
    metadata = pq.read_metadata(tables_of(saved)[0]).metadata
    assert metadata[b"neardup.spec"].decode() == Spec().canonical
    assert metadata[b"neardup.fingerprint"].decode() == Spec().fingerprint
    assert metadata[b"neardup.sketches"] == b"1"


def test_they_serve_as_an_earlier_corpus(saved: Path, inputs: list[Path], tmp_path: Path) -> None:
    dedup(*inputs, "-o", tmp_path / "plain", "--save-sketches")
    write_jsonl(tmp_path / "new.jsonl", [{"id": f"n{n}", "text": edited(n % 9)} for n in range(20)])
    answers = []
    for place, earlier in enumerate((tmp_path / "plain", saved, saved / "sketches")):
        out = tmp_path / f"against-{place}"
        record = dedup(tmp_path / "new.jsonl", "-o", out, "--against", earlier, "--workers", 2)
        assert record["counts"]["removed_by_earlier"] > 0
        answers.append(table(out, "removed"))
    assert answers[0] == answers[1] == answers[2]
    merged = tmp_path / "merged"
    assert neardup("merge", saved, tmp_path / "plain", "-o", merged).code == 0
    out = tmp_path / "against-merged"
    dedup(tmp_path / "new.jsonl", "-o", out, "--against", merged)
    assert [row["id"] for row in table(out, "removed")] == [row["id"] for row in answers[0]]
    ran = neardup("index", "build", tmp_path / "idx", "--from", saved)
    assert ran.code == 0 and ran.out.startswith("54 documents")
    ran = neardup("spec", "diff", saved, tmp_path / "plain")
    assert ran.code == 0, ran.out


def test_a_run_goes_on_from_its_own_tables(inputs: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ("dedup", *inputs, "-o", out, "--save-sketches", "parquet", "--force")
    assert neardup(*command).code == 0
    before = [path.read_bytes() for path in tables_of(out)]
    ran = neardup(*command, "--threshold", 0.7, "--bands", 21, "--rows", 6)
    assert ran.code == 0 and "are already read" in ran.err
    assert len(tables_of(out)) == len(before)
    tables_of(out)[0].write_bytes(b"PAR1")
    ran = neardup(*command)
    assert ran.code == 0, ran.err
    assert all(len(SketchTable(path, "")) >= 0 for path in tables_of(out))


def test_every_form_of_the_option(inputs: list[Path], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    forms = {
        ("--save-sketches", inputs[0]): False,
        (inputs[0], "--save-sketches"): False,
        ("--save-sketches", "parquet", inputs[0]): True,
        ("--save-sketches=parquet", inputs[0]): True,
        ("--save-sketches", "--", inputs[0]): False,
    }
    for place, (form, is_table) in enumerate(forms.items()):
        ran = neardup("dedup", "--quiet", "-o", f"out{place}", *form)
        assert ran.code == 0, ran.err
        assert bool(tables_of(Path(f"out{place}"))) == is_table
        listed = json.loads(Path(f"out{place}", "run.json").read_bytes())["parameters"]
        assert listed["save_sketches"] == ("parquet" if is_table else True)
    refused(neardup("dedup", inputs[0], "-o", "x", "--save-sketches=csv"), 2, "parquet")
    for value, expected in (("true", True), ("false", False), ('"parquet"', "parquet")):
        Path("neardup.toml").write_text(f"[dedup]\nsave-sketches = {value}\n")
        assert neardup("dedup", inputs[0], "-o", f"file-{expected}", "--quiet").code == 0
        run = json.loads(Path(f"file-{expected}", "run.json").read_bytes())
        assert run["parameters"]["save_sketches"] == expected


def test_from_python(inputs: list[Path], tmp_path: Path) -> None:
    dedup_files(inputs, tmp_path / "out", save_sketches="parquet")
    assert tables_of(tmp_path / "out")
    with pytest.raises(ParameterError, match="form of saved sketches 'csv' is not known"):
        dedup_files(inputs, tmp_path / "other", save_sketches="csv")  # type: ignore[arg-type]


def test_damage_is_noticed(saved: Path, inputs: list[Path], tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(saved / "sketches", copy)
    path = sorted(copy.glob("*.parquet"))[0]
    content = path.read_bytes()
    whole = restored(path, tmp_path)
    for place in range(0, len(content), 97):
        path.write_bytes(content[:place] + bytes([content[place] ^ 65]) + content[place + 1 :])
        try:
            assert restored(path, tmp_path) == whole, place
        except FormatError as error:
            assert f"{path.name} is damaged" in str(error) or "version" in str(error), place
    for damaged in (b"", b"PAR1", content[:-1], content[: len(content) // 2], b"x" * 100):
        path.write_bytes(damaged)
        ran = neardup("dedup", *inputs, "-o", tmp_path / "out", "--against", copy, "--quiet")
        refused(ran, 1, str(path), "restore it, or make the set again")


def restored(path: Path, folder: Path) -> bytes:
    restore_sketches(path, folder / "restored")
    return (folder / "restored").read_bytes()


def test_tables_that_somebody_changed_are_refused(saved: Path, tmp_path: Path) -> None:
    original = tables_of(saved)[0]
    path = tmp_path / original.name
    rows = pq.read_table(original)
    metadata = rows.schema.metadata

    def rewrite(changed: pa.Table, **values: str | None) -> str:
        named = {
            **metadata,
            **{f"neardup.{k}".encode(): (v or "").encode() for k, v in values.items()},
        }
        kept = {k: v for k, v in named.items() if v}
        pq.write_table(changed.replace_schema_metadata(kept), path)
        with pytest.raises(FormatError) as error:
            restored(path, tmp_path)
        return str(error.value)

    assert "version 2 of the layout" in rewrite(rows, sketches="2")
    assert "checksum of its description" in rewrite(rows, spec=Spec(seed=1).canonical)
    assert "is damaged" in rewrite(rows, notes=None)
    assert "lengths has other values" in rewrite(
        rows.set_column(rows.schema.get_field_index("length"), "length", rows["row"].cast("int32"))
    )
    assert "lacks length" in rewrite(rows.drop_columns(["length"]))
