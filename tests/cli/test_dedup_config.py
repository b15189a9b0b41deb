"""An operating point in a file: what it says holds, unless something else is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.command_line import DOCUMENTS, dedup, neardup, refused, write_jsonl

import neardup as library
from neardup.formats.config import NAMES, load_config, write_config
from neardup.options import Options

POINT = {
    "threshold": 0.9,
    "slots": 64,
    "bands": 5,
    "rows": 12,
    "shingle": "word:3",
    "strip": ["html"],
}


def parameters(folder: Path, *given: object) -> dict[str, Any]:
    out = folder / "out"
    record = dedup(
        write_jsonl(folder / "a.jsonl", DOCUMENTS),
        "-o",
        out,
        "--force",
        "--config",
        folder / "p.toml",
        *given,
    )
    return record["parameters"] | record["spec"]


def test_run_uses_the_options_of_the_file(tmp_path: Path) -> None:
    write_config(tmp_path / "p.toml", POINT, ["because of this,\nand of that"])
    ran = parameters(tmp_path)
    wanted = {"threshold": 0.9, "slots": 64, "tables": "5x12", "size": 3, "strip": "html"}
    assert {name: ran[name] for name in wanted} == wanted
    assert "# because of this,\n# and of that\n" in (tmp_path / "p.toml").read_text()


def test_the_library_takes_the_same_file(tmp_path: Path) -> None:
    write_config(tmp_path / "p.toml", POINT)
    assert library.load_config(str(tmp_path / "p.toml")) == POINT
    texts = [row["text"] for row in DOCUMENTS]
    assert library.dedup(texts, **load_config(tmp_path / "p.toml")).options == Options.of(**POINT)


def test_command_line_overrides_the_file(tmp_path: Path) -> None:
    write_config(tmp_path / "p.toml", POINT)
    ran = parameters(tmp_path, "--shingle", "char:9")
    assert (ran["size"], ran["unit"], ran["tables"]) == (9, "char", "5x12")


def test_bands_of_the_file_are_dropped_for_another_threshold(tmp_path: Path) -> None:
    write_config(tmp_path / "p.toml", POINT)
    assert parameters(tmp_path, "--threshold", 0.6)["tables"] == str_of(0.6)
    assert parameters(tmp_path, "--threshold", 0.6, "--tables", "9x3")["tables"] == "9x3"
    assert parameters(tmp_path, "--bands", 4, "--rows", 3)["tables"] == "4x3"


def test_dropped_bands_are_reported(tmp_path: Path) -> None:
    write_config(tmp_path / "p.toml", POINT | {"slots": 16, "bands": 1})
    command = (
        "dedup",
        write_jsonl(tmp_path / "a.jsonl", DOCUMENTS),
        "-o",
        tmp_path / "out",
        "--force",
        "--config",
        tmp_path / "p.toml",
    )
    said = "p.toml were chosen for other options: now "
    flat = "few slots make flat bands: give --slots, or plan again"
    few = neardup(*command, "--threshold", 0.5)
    assert f"{said}16 bands of 1; {flat}" in few.err
    many = neardup(*command, "--slots", 128)
    assert said in many.err and flat not in many.err
    simhash = neardup(*command, "--sketch", "simhash", "--slots", 64, "--verify", "exact")
    assert "a simhash has none" in simhash.err
    for others in ((), ("--threshold", 0.5, "--tables", "4x4"), ("--threshold", 0.5, "--quiet")):
        assert said not in neardup(*command, *others).err


def str_of(threshold: float) -> str:
    curve = Options.of(threshold=threshold, slots=64).curve.parts[0]
    return f"{curve.bands}x{curve.rows}"


@pytest.mark.parametrize(
    ("text", "code", "part"),
    [
        ("version = 1\n[dedup]\nthreshhold = 0.9", 2, "threshhold is not known"),
        ("version = 2\n[dedup]", 2, "version 2"),
        ("version = 1", 2, "[dedup] table"),
        ("version = 1\n[dedup]\n[serve]", 2, "[dedup] table"),
        ("version = 1\n[dedup]\nslots = [1]", 2, "slots must be"),
        ("version = 1\n[dedup]\nthreshold = true", 2, "threshold must be"),
        ("version = 1\n[dedup]\nslots = 'many'", 2, "--slots"),
        ("version = 1\n[dedup]\nthreshold = 7.0", 2, "threshold must be"),
        ("\x00", 2, "not a config file"),
        ("#" * (2 << 20), 2, "larger than any"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, text: str, code: int, part: str) -> None:
    (tmp_path / "p.toml").write_text(text)
    corpus = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    arguments = (corpus, "-o", tmp_path / "out", "--config", tmp_path / "p.toml")
    refused(neardup("dedup", *arguments), code, part)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    arguments = (tmp_path, "-o", tmp_path / "out", "--config", tmp_path / "none.toml")
    refused(neardup("dedup", *arguments), 2, "none.toml", "can't be read")


def test_the_folder_of_tune_is_answered_with_the_file_in_it(tmp_path: Path) -> None:
    (tmp_path / "tuned").mkdir()
    arguments = (tmp_path, "-o", tmp_path / "out", "--config", tmp_path / "tuned")
    refused(neardup("dedup", *arguments), 2, "pass a config file")
    write_config(tmp_path / "tuned/tuned.toml", POINT)
    refused(neardup("dedup", *arguments), 2, f"pass {tmp_path / 'tuned/tuned.toml'}")


VALUES = (
    st.none()
    | st.text()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)


@given(st.dictionaries(st.sampled_from(NAMES), VALUES), st.lists(st.text()))
def test_written_config_reads_back(
    tmp_path_factory: pytest.TempPathFactory, options: dict[str, Any], why: list[str]
) -> None:
    path = tmp_path_factory.mktemp("config") / "p.toml"
    write_config(path, options, why)
    assert load_config(path) == {k: v for k, v in options.items() if v is not None}
