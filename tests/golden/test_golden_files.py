"""Files of earlier versions are read, and give the answers that they gave then.

Each folder beside this file was made by `make.py` with the version of its name.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import neardup

HERE = Path(__file__).parent
VERSIONS = sorted(path for path in HERE.iterdir() if (path / "corpus.jsonl").exists())

_found = importlib.util.spec_from_file_location("make_golden_files", HERE / "make.py")
assert _found and _found.loader
make = importlib.util.module_from_spec(_found)
_found.loader.exec_module(make)


@pytest.fixture(params=VERSIONS, ids=[path.name for path in VERSIONS])
def golden(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture
def rows(golden: Path) -> list[make.Row]:
    return [json.loads(line) for line in (golden / "corpus.jsonl").read_text("utf-8").splitlines()]


def stored(golden: Path, name: str) -> Any:
    return json.loads((golden / name).read_text("utf-8"))


def as_stored(value: Any) -> Any:
    return json.loads(json.dumps(value))


# -- sketches, specifications, filters ----------------------------------------------------------


@pytest.mark.parametrize("name", make.SKETCHES)
def test_sketch_has_the_same_bytes_and_figures(golden: Path, name: str) -> None:
    known = stored(golden, "sketches.json")[name]
    one, other = make.SKETCHES[name](make.ELEMENTS), make.SKETCHES[name](make.OTHERS)
    assert one.to_bytes().hex() == known["bytes"]
    assert other.to_bytes().hex() == known["other"]
    read = type(one).from_bytes(bytes.fromhex(known["bytes"]))
    assert read.to_bytes().hex() == known["bytes"]
    assert as_stored(make.figures(read, other)) == known["figures"]


def test_specifications_have_the_same_fingerprints(golden: Path) -> None:
    known = stored(golden, "specs.json")
    assert make.specifications() == known
    for one in known:
        assert neardup.Spec.from_json(one["json"]).fingerprint == one["fingerprint"]


@pytest.mark.parametrize("name", make.FILTERS)
def test_filter_has_the_same_bytes_and_keys(golden: Path, tmp_path: Path, name: str) -> None:
    file = golden / "filters" / name
    read = neardup.load_filter(file)
    assert read.contains_many(make.ELEMENTS).all()
    assert len(read) == len(make.ELEMENTS)
    made = make.FILTERS[name]()
    made.insert_many(make.ELEMENTS)
    neardup.save_filter(made, tmp_path / "made")
    neardup.save_filter(read, tmp_path / "read")
    assert (tmp_path / "made").read_bytes() == file.read_bytes()
    assert (tmp_path / "read").read_bytes() == file.read_bytes()
    read.insert_many(["one more"])
    assert "one more" in read


# -- answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", make.QUESTIONS)
def test_library_decides_the_same(golden: Path, rows: list[make.Row], name: str) -> None:
    known = stored(golden, "answers.json")[name]
    assert as_stored(make.decisions(rows, make.QUESTIONS[name])) == known


# -- runs ---------------------------------------------------------------------------------------


def table(out: Path, name: str) -> pa.Table:
    return pq.read_table(out / f"{name}.parquet")


TABLES = ("removed", "clusters", "rejected", "samples", "pairs")
VARYING = ("seconds", "stages", "peak_memory_bytes", "memory_budget_bytes", "version", "inputs")
"""Of run.json: what differs from one run to the next."""


def record(out: Path) -> dict[str, Any]:
    found = json.loads((out / "run.json").read_text())
    found["parameters"].pop("workers", None)
    return {name: value for name, value in found.items() if name not in VARYING}


@pytest.mark.parametrize("name", make.RUNS)
def test_run_writes_the_same_folder(golden: Path, tmp_path: Path, name: str) -> None:
    before, now = make.unpack(golden / f"run-{name}.zip", tmp_path / "before"), tmp_path / "now"
    make.run_into(now, name, golden / "corpus.jsonl")
    ours = {path.relative_to(now) for path in now.rglob("*") if path.is_file()}
    theirs = {path.relative_to(before) for path in before.rglob("*") if path.is_file()}
    of_sketches = {path for path in ours | theirs if path.parent.name == "sketches"}
    assert ours - of_sketches - {Path("report.html")} == theirs - of_sketches
    for one in TABLES:
        if (before / f"{one}.parquet").exists():
            assert table(now, one).equals(table(before, one)), one
            assert table(now, one).schema.equals(table(before, one).schema), one
    for one in ("ignored-lines", "document-frequencies", "kept/corpus.jsonl"):
        if (before / one).exists():
            assert (now / one).read_bytes() == (before / one).read_bytes(), one
    # Newer versions say more, about options that did not exist then.
    known, said = record(before), record(now)
    parameters = {name: said["parameters"].get(name) for name in known["parameters"]}
    said |= {"parameters": parameters}
    if known.get("pairs"):  # more of them may be listed
        assert said["pairs"].pop("limit") >= known["pairs"].pop("limit")
    assert {name: said.get(name) for name in known} == known


@pytest.mark.parametrize("name", ["dedup", "narrow", "lines"])
def test_saved_sketches_are_compared_with(golden: Path, tmp_path: Path, name: str) -> None:
    """The same decisions as with sketches that today's code has saved."""
    before, now = make.unpack(golden / f"run-{name}.zip", tmp_path / "before"), tmp_path / "now"
    source = golden / "corpus.jsonl"
    make.run_into(now, name, source)
    _, *options = make.RUNS[name]
    # Only the sketches are there: the texts were somewhere else, and may be gone.
    options = [one for one in options if one not in ("--save-sketches", "--pairs")]
    if "--strip" in options:
        del options[options.index("--strip") :][:2]
    results = []
    for against in (before, now):
        make.command("merge", against, "-o", tmp_path / f"merged-{against.name}")
        for earlier in (against, tmp_path / f"merged-{against.name}"):
            out = tmp_path / f"against-{against.name}-{earlier.name}"
            make.command(
                *("dedup", source, "-o", out, "--id", "id", "--quiet", *options),
                *("--verify", "estimate", "--against", earlier),
            )
            results.append(table(out, "removed").to_pylist())
    assert len(results[0]) > 50
    assert all(result == results[0] for result in results)


def test_report_and_status_are_made_of_an_old_run(golden: Path, tmp_path: Path) -> None:
    before = make.unpack(golden / "run-dedup.zip", tmp_path / "before")
    make.command("report", before)
    assert (before / "report.html").stat().st_size > 10_000
    assert make.command("status", before)


@pytest.mark.parametrize("name", ["dedup", "narrow", "lines"])
def test_index_is_built_of_saved_sketches(golden: Path, tmp_path: Path, name: str) -> None:
    before = make.unpack(golden / f"run-{name}.zip", tmp_path / "before")
    make.command("index", "build", tmp_path / "index", "--from", before, "--quiet")
    with neardup.Index.open(tmp_path / "index") as index:
        kept = json.loads((before / "run.json").read_text())["counts"]["kept"]
        assert len(index) >= kept
        assert index.verify() == []


# -- indexes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", make.INDEXES)
def test_index_answers_the_same(
    golden: Path, tmp_path: Path, rows: list[make.Row], name: str
) -> None:
    known, key = stored(golden, "index-answers.json")[name], make.index_key(name)
    before = make.unpack(golden / f"index-{name}.zip", tmp_path / "before")
    assert as_stored(make.index_answers(before, rows, read_only=True, **key)) == known
    assert as_stored(make.index_answers(before, rows, **key)) == known
    # What is made today gives the same answers, and both go on alike.
    make.make_index(tmp_path / "now", name, rows)
    assert as_stored(make.index_answers(tmp_path / "now", rows, **key)) == known
    said = []
    for folder in (before, tmp_path / "now"):
        with neardup.Index.open(folder, **key) as index:
            more = [row["text"] + " and more" for row in rows]
            answers = index.add_batch([f"more-{number}" for number in range(len(more))], more)
            index.compact()
            assert index.verify() == []
            said.append([make.fields(answer, make.ANSWER) for answer in answers])
    assert said[0] == said[1]


@pytest.mark.parametrize(("name", "version"), [("groups", 2), ("numbers", 3)])
def test_index_with_groups_answers_the_same(
    golden: Path, tmp_path: Path, rows: list[make.Row], name: str, version: int
) -> None:
    known = stored(golden, f"index-{name}.json")
    before = make.unpack(golden / f"index-{name}.zip", tmp_path / "before")
    store = sqlite3.connect(f"file:{before / 'g1' / 'index.sqlite'}?mode=ro", uri=True)
    assert store.execute("PRAGMA user_version").fetchone() == (version,)
    store.close()
    assert as_stored(make.group_answers(before, rows, read_only=True)) == known
    assert as_stored(make.group_answers(before, rows)) == known
    make.make_groups(tmp_path / "now", rows, make.APART[name])
    assert as_stored(make.group_answers(tmp_path / "now", rows)) == known
    found = {group: [answer[1] for answer in said] for group, said in known["answers"].items()}
    assert len({tuple(said) for said in found.values()}) == 4, "the groups are apart"
    assert any(found["en"]) and any(found["el"]) and any(found["None"])
    with neardup.Index.open(before) as index:
        assert not index.add("more", rows[1]["text"], within="en").is_copy
        assert index.add("again", rows[1]["text"], within="en").duplicate_of == "more"


def test_convert_of_an_old_index_is_undone(
    golden: Path, tmp_path: Path, rows: list[make.Row]
) -> None:
    before = make.unpack(golden / "index-narrow.zip", tmp_path / "before")
    make.command("index", "reindex", before, "--undo", "--quiet")
    make.make_index(tmp_path / "now", "plain", rows)
    assert make.index_answers(before, rows) == make.index_answers(tmp_path / "now", rows)


def test_export_is_imported_and_written_again(
    golden: Path, tmp_path: Path, rows: list[make.Row]
) -> None:
    make.command("index", "import", tmp_path / "index", golden / "index.export")
    known = stored(golden, "index-answers.json")["texts"]
    assert as_stored(make.index_answers(tmp_path / "index", rows)) == known
    make.command("index", "export", tmp_path / "index", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (golden / "index.export").read_bytes()


def test_index_with_texts_is_made_anew(golden: Path, tmp_path: Path, rows: list[make.Row]) -> None:
    before = make.unpack(golden / "index-texts.zip", tmp_path / "before")
    make.command("index", "reindex", before, "--seed", "7", "--quiet")
    with neardup.Index.open(before) as index:
        assert index.spec.seed == 7
        assert index.verify() == []


# -- the service --------------------------------------------------------------------------------


def test_service_answers_the_same(golden: Path, tmp_path: Path, rows: list[make.Row]) -> None:
    known = stored(golden, "service.json")
    for ours, theirs in zip(
        as_stored(make.service_answers(tmp_path / "data", rows)), known, strict=True
    ):
        if "/openapi.json" in ours["request"]:  # there may be newer routes
            ours["json"] = {path: ours["json"].get(path) for path in theirs["json"]}
        if "/v1/stats" in ours["request"]:  # and newer counters
            counted = ours["json"]["since_open"]
            ours["json"]["since_open"] = {
                name: counted.get(name, "missing") for name in theirs["json"]["since_open"]
            }
        assert ours == theirs


def test_service_lets_old_keys_in(golden: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    shutil.copy(golden / "api-keys.json", tmp_path / "data" / "api-keys.json")
    (tmp_path / "data" / "api-keys.json").chmod(0o600)
    key = (golden / "key").read_text().strip()
    with make.service(tmp_path / "data") as url:
        assert make.ask(url, "GET", "/v1/stats", None)["status"] == 401
        known = {"Authorization": f"Bearer {key}"}
        assert make.ask(url, "GET", "/v1/stats", None, **known)["status"] == 200
        assert make.ask(url, "POST", "/v1/documents", {"text": "a"}, **known)["status"] == 403


# -- operating points and evaluations -----------------------------------------------------------


def test_config_file_is_read(golden: Path, tmp_path: Path) -> None:
    point = neardup.load_config(golden / "config.toml")
    assert (point["threshold"], point["bands"], point["rows"], point["slots"]) == (0.8, 21, 6, 128)
    make.command(
        *("dedup", golden / "corpus.jsonl", "-o", tmp_path / "out", "--quiet"),
        *("--config", golden / "config.toml"),
    )
    parameters = json.loads((tmp_path / "out" / "run.json").read_text())["parameters"]
    assert (parameters["bands"], parameters["rows"], parameters["recall"]) == (21, 6, 0.99)


def test_evaluation_is_a_baseline(golden: Path, tmp_path: Path) -> None:
    make.command(
        *("evaluate", golden / "labels.tsv", "--corpus", golden / "corpus.jsonl"),
        *(*make.EVALUATED, "--out", tmp_path, "--baseline", golden / "evaluation.json"),
    )
    known, now = (
        stored(golden, "evaluation.json"),
        json.loads((tmp_path / "evaluation.json").read_text()),
    )
    assert {name: now.get(name) for name in ("labels", "spec")} == {
        name: known.get(name) for name in ("labels", "spec")
    }
