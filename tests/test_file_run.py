"""`neardup.dedup_files`: what the command line does, from Python, in scripts and notebooks."""

from __future__ import annotations

import gc
import inspect
import json
import warnings
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import neardup
from neardup.cli import build_command
from neardup.corpus import frames
from neardup.errors import ColumnError, OutputError, ParameterError, UsageError

PAGE = " ".join(f"word{i}" for i in range(60))
ROWS = [
    {"id": "a", "body": PAGE, "score": 1, "lang": "en"},
    {"id": "b", "body": PAGE + " again", "score": 5, "lang": "en"},
    {"id": "c", "body": PAGE.upper(), "score": 3, "lang": "de"},
    {"id": "d", "body": None, "score": 2, "lang": "de"},
    {"id": "e", "body": "something else entirely", "score": 2, "lang": "de"},
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    return path


def test_every_option_of_the_command_is_a_keyword_argument_of_the_function() -> None:
    command = build_command().commands["dedup"]  # type: ignore[attr-defined]
    named = {param.name for param in command.params}
    # --config is load_config; --key-file is key; --quiet, --json and --dry-run are for terminals;
    # --work is for URLs, and the function needs a local OUT.
    only_there = {"config", "key_file", "work", "quiet", "as_json", "dry_run"}
    here = set(inspect.signature(neardup.dedup_files).parameters)
    assert not named - only_there - {"help_all", "help"} - here


def test_files_are_those_that_the_command_line_writes(corpus: Path, tmp_path: Path) -> None:
    given = ["--text", "body", "--keep", "max:score", "--within", "lang", "--pairs", "-q"]
    command = ["dedup", str(corpus), "-o", str(tmp_path / "by-command"), *given]
    build_command()(args=command, prog_name="neardup", standalone_mode=False)
    result = neardup.dedup_files(
        corpus, tmp_path / "by-python", text="body", keep="max:score", within="lang", pairs=True
    )
    for name in ("removed", "clusters", "rejected", "pairs", "samples"):
        ours = pq.read_table(tmp_path / "by-python" / f"{name}.parquet")
        assert ours.equals(pq.read_table(tmp_path / "by-command" / f"{name}.parquet")), name
    (kept,) = result.kept
    assert kept.read_bytes() == (tmp_path / "by-command/kept/corpus.jsonl").read_bytes()
    theirs = json.loads((tmp_path / "by-command/run.json").read_bytes())
    assert result.counts == theirs["counts"]
    assert result.record["parameters"] == theirs["parameters"]
    assert result.report.read_text("utf-8").startswith("<!doctype html>")


def test_result_tells_counts_tables_and_summary(corpus: Path, tmp_path: Path) -> None:
    result = neardup.dedup_files([str(corpus)], str(tmp_path / "out"), text="body")
    assert repr(result) == "RunResult(5 documents: 2 kept, 2 removed (1 identical), 1 rejected)"
    assert result.summary().splitlines()[0].startswith("5 documents   2 kept   2 removed")
    assert "rejected            1 text is null" in result.summary()
    assert (len(result.removed), len(result.clusters), len(result.rejected)) == (2, 1, 1)
    assert repr(result.clusters) == (
        "TableFile(clusters.parquet, 1 rows: cluster, id, file, row, size)"
    )
    ids = ["b", "c"]
    assert result.removed.to_arrow()["id"].to_pylist() == ids
    assert result.removed.to_pandas()["id"].tolist() == ids
    assert result.removed.to_polars()["id"].to_list() == ids
    assert pl.DataFrame(result.removed)["id"].to_list() == ids
    assert pa.table(result.removed)["id"].to_pylist() == ids
    removed = result.removed
    assert duckdb.sql("select count(*) from removed").fetchall() == [(2,)], removed
    with pytest.raises(UsageError, match="pairs=True"):
        _ = result.pairs
    with pytest.raises(UsageError, match="distinguish="):
        _ = result.vetoed


def test_one_pattern_or_several_choose_the_files(corpus: Path) -> None:
    (corpus.parent / "notes.md").write_text("read me")
    for include, listed in (("*.jsonl", ["*.jsonl"]), (("*.jsonl", "c*"), ["*.jsonl", "c*"])):
        with neardup.dedup_files(corpus.parent, text="body", include=include) as result:
            assert [path.name for path in result.kept] == ["corpus.jsonl"]
            assert result.record["parameters"]["include"] == listed


def test_vetoed_documents_are_a_table(corpus: Path) -> None:
    result = neardup.dedup_files(corpus, text="body", distinguish="lang")
    assert result.vetoed.to_arrow()["id"].to_pylist() == ["c"]


def test_one_file_has_the_kept_rows_and_what_was_asked_for_besides(
    corpus: Path, tmp_path: Path
) -> None:
    out, table, page = (tmp_path / name for name in ("k.parquet", "removed.parquet", "page.html"))
    result = neardup.dedup_files(corpus, out, text="body", removed=table, report=page)
    assert result.path == out and result.kept == [out]
    assert pq.read_table(out)["id"].to_pylist() == ["a", "e"]
    assert result.removed.to_arrow()["id"].to_pylist() == ["b", "c"]
    assert result.report == page and "page.html shows it" in result.summary()
    assert "k.parquet" in result._repr_html_()
    with pytest.raises(UsageError, match="pass a folder as out"):
        _ = result.clusters
    bare = neardup.dedup_files(corpus, tmp_path / "k.jsonl", text="body")
    assert "2 kept" in bare.summary()
    with pytest.raises(UsageError, match="pass report="):
        _ = bare.report
    with pytest.raises(UsageError, match="removed="):
        _ = bare.removed
    with pytest.raises(UsageError, match="for one file as the output"):
        neardup.dedup_files(corpus, tmp_path / "folder", report=page)
    rows = tmp_path / "removed.csv"
    listed = neardup.dedup_files(corpus, tmp_path / "folder", text="body", removed=rows)
    assert [line.partition(",")[0] for line in rows.read_text().split()] == ['"id"', '"b"', '"c"']
    assert listed.removed.to_arrow()["id"].to_pylist() == ["b", "c"]
    for wrong in (("-", None), (corpus, "-")):
        with pytest.raises(UsageError, match="are for the command line"):
            neardup.dedup_files(*wrong)


def test_temporary_folder_belongs_to_the_result(corpus: Path) -> None:
    result = neardup.dedup_files(corpus, text="body")
    folder = result.path
    assert result.kept[0].exists()
    with result:
        assert folder.exists()
    assert not folder.parent.exists()
    with pytest.raises(UsageError, match=r"closed.*pass out="):
        _ = result.removed
    assert "2 kept" in repr(result) and "2 kept" in result.summary()
    forgotten = neardup.dedup_files(corpus, text="body")
    table, folder = forgotten.removed, forgotten.path
    del forgotten
    gc.collect()
    assert len(table) == 2, "a table in use keeps the folder"
    del table
    gc.collect()
    assert not folder.parent.exists()


def test_failed_run_leaves_no_temporary_folder(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    with pytest.raises(ColumnError, match="body"):
        neardup.dedup_files(corpus, text="bdoy")
    gc.collect()
    assert not list((tmp_path / "tmp").iterdir())


def test_html_view_is_escaped_and_names_the_report(tmp_path: Path) -> None:
    rows = [{"id": "<script>alert(1)</script>", "text": PAGE}, {"id": "b" * 500, "text": PAGE}]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = neardup.dedup_files(tmp_path / "x.jsonl", tmp_path / "out")
    view = result._repr_html_()
    assert "<script>" not in view and "&lt;script&gt;" in view
    assert "report.html" in view and len(view) < 5_000


@pytest.mark.parametrize("option", ["id", "text", "within", "merge_rows"])
def test_number_instead_of_the_name_of_a_column_is_refused(corpus: Path, option: str) -> None:
    wanted = rf"^{option} is 3: pass the name of a column, such as {option}='"
    with pytest.raises(ParameterError, match=wanted):
        neardup.dedup_files(corpus, **{"text": "body", option: 3})


def test_finished_run_is_replaced_only_by_force(corpus: Path, tmp_path: Path) -> None:
    neardup.dedup_files(corpus, tmp_path / "out", text="body")
    with pytest.raises(OutputError, match=r"choose another output, or use force=True$"):
        neardup.dedup_files(corpus, tmp_path / "out", text="body")
    again = neardup.dedup_files(corpus, tmp_path / "out", text="body", no_kept=True, force=True)
    assert again.kept == [] and not (tmp_path / "out/kept").exists()


def test_new_documents_against_an_earlier_run(corpus: Path, tmp_path: Path) -> None:
    neardup.dedup_files(corpus, tmp_path / "first", text="body", save_sketches=True)
    (tmp_path / "new.jsonl").write_text(
        json.dumps({"id": "x", "body": PAGE + " more"})
        + "\n"
        + json.dumps({"id": "y", "body": "z"})
    )
    result = neardup.dedup_files(tmp_path / "new.jsonl", text="body", against=tmp_path / "first")
    assert result.removed.to_arrow()["witness"].to_pylist() == ["a"]
    assert result.counts["earlier"] == 5


def test_progress_is_silent_in_scripts_and_shown_if_asked(
    corpus: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neardup.runtime.quiet", True)
    neardup.dedup_files(corpus, text="body")
    assert capfd.readouterr() == ("", "")
    neardup.dedup_files(corpus, text="body", progress=True)
    assert "neardup: reading" in capfd.readouterr().err
    steps: list[tuple[str, int, int | None, str]] = []
    neardup.dedup_files(corpus, text="body", progress=lambda *step: steps.append(step))
    assert capfd.readouterr() == ("", "")
    stages = list(dict.fromkeys(stage for stage, *_ in steps))
    assert stages[0] == "reading" and "writing" in stages
    size = corpus.stat().st_size
    assert ("reading", size, size, "bytes") in steps


def test_error_in_the_function_that_shows_progress_stops_the_run(corpus: Path) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        neardup.dedup_files(corpus, text="body", progress=fail)


def test_texts_and_files_are_not_mistaken_for_one_another(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"neardup\.dedup_files"):
        neardup.dedup(str(corpus))
    with pytest.raises(UsageError, match=r"neardup\.dedup_files"):
        neardup.dedup(corpus)
    with pytest.raises(UsageError, match=r"neardup\.dedup_files"):
        neardup.dedup([corpus])
    with pytest.warns(UserWarning, match=r"names of files.*neardup\.dedup_files"):
        neardup.dedup([str(corpus), str(corpus)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        neardup.dedup([str(corpus), "a text"])
    with pytest.raises(UsageError, match=r"a dict is not a path.*neardup\.dedup takes"):
        neardup.dedup_files([{"text": "a"}])  # type: ignore[list-item]


def test_missing_library_is_named_with_the_cure(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = neardup.dedup_files(corpus, text="body")
    monkeypatch.setattr(frames, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match="pandas is not installed: pip install pandas"):
        result.removed.to_pandas()


def test_wrong_memory_and_workers_are_refused(corpus: Path) -> None:
    with pytest.raises(neardup.NeardupError, match="workers= must be at least 1"):
        neardup.dedup_files(corpus, workers=0)
    with pytest.raises(neardup.NeardupError, match="memory"):
        neardup.dedup_files(corpus, memory="1MB")
    with pytest.raises(TypeError, match="did you mean 'threshold'"):
        neardup.dedup_files(corpus, treshold=0.5)  # type: ignore[call-arg]


@pytest.mark.process
def test_messages_name_arguments_as_python_has_them(corpus: Path) -> None:
    """They named options of the command line, such as --text."""
    for wrong, cure in (
        ({"text": "nope"}, "Choose one with text=$"),
        ({"delimiter": ";"}, "^delimiter=, quote= and no_header=True are .* with format='csv'$"),
        ({"pairs": True, "out": "x.jsonl"}, "^pairs=True needs a folder .* for out=$"),
        ({"include": "*.nope"}, r"^include='\*.nope' matches no file"),
    ):
        with pytest.raises(UsageError, match=cure):
            neardup.dedup_files(corpus, **wrong)


def test_notebook_shows_a_line_that_updates_and_the_result(corpus: Path, tmp_path: Path) -> None:
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")
    outputs: list[dict] = []
    try:
        code = (
            f"import neardup; neardup.runtime.quiet = True\n"
            f"neardup.dedup_files({str(corpus)!r}, {str(tmp_path / 'out')!r}, text='body')"
        )
        code = "import neardup.runtime\n" + code
        client.execute_interactive(code, timeout=120, output_hook=outputs.append)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    kinds = [one["header"]["msg_type"] for one in outputs]
    texts = [one["content"].get("data", {}).get("text/plain", "") for one in outputs]
    assert "error" not in kinds, outputs
    assert kinds.count("display_data") == 1, "one line, which is updated"
    assert any("reading" in text for text in texts)
    updates = [one for one in outputs if one["header"]["msg_type"] == "update_display_data"]
    assert updates[-1]["content"]["data"]["text/plain"] == "", "the line is removed at the end"
    (answer,) = [one for one in outputs if one["header"]["msg_type"] == "execute_result"]
    assert "2 kept" in answer["content"]["data"]["text/html"]
