"""Every place takes the options that the table says, by the same names, and explains them."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

import pytest

import neardup
from neardup import measure_table, spark
from neardup.cli import build_command
from neardup.corpus.documents import Columns
from neardup.errors import ParameterError
from neardup.formats import config
from neardup.index import settings
from neardup.integrations.duckdb import register
from neardup.option_table import (
    PLACES,
    PRESETS,
    IndexOptions,
    MatchingOptions,
    SpecOptions,
    VectorOptions,
    markdown_table,
    options_at,
    options_of,
)
from neardup.options import Options
from neardup.pipeline.job import Job
from neardup.pipeline.record import RunCounts, describe_run
from neardup.pipeline.stages.decide import RoundTally
from neardup.service.models import ShadowRequest
from neardup.sketch import bulk
from neardup.spec import Spec

ALL = options_of(MatchingOptions)
OTHER_MEANING = {
    "neardup plan": {"seed"},  # of the sample
    "neardup.plan": {"seed"},
    "neardup tune": {"slots", "bands", "verify", "bits"},  # axes of the sweep
    "neardup.tune": {"slots", "bands", "verify", "bits"},
    "neardup serve": {"limit"},  # limits of the service
    "neardup spec": {"vectors"},  # test vectors
}
"""Parameters that have the name of an option, and are not it."""
FUNCTIONS = {
    "neardup.dedup": neardup.dedup,
    "neardup.dedup_files": neardup.dedup_files,
    "neardup.spark.dedup": spark.dedup,
    "neardup.evaluate": neardup.evaluate,
    "neardup.integrations.duckdb.register": register,
    "neardup.Index.open": neardup.Index.open,
    "neardup.add_files": neardup.add_files,
    "neardup.plan": neardup.plan,
    "neardup.tune": neardup.tune,
}


def commands(command: Any, name: str) -> dict[str, Any]:
    """All commands by the words that people type."""
    found = {name: command}
    for word, one in getattr(command, "commands", {}).items():
        found |= commands(one, f"{name} {word}")
    return found


COMMANDS = commands(build_command(), "neardup")
# convert changes nothing but the bits, which it needs; a place of its own would say no more.
WITHOUT_TABLE = {"neardup index convert"}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_command_takes_the_options_of_the_table(name: str) -> None:
    if name in WITHOUT_TABLE:
        return
    there = {param.name for param in COMMANDS[name].params} & ALL.keys()
    wanted = set(options_at(name)) if name in PLACES else set()
    assert there - OTHER_MEANING.get(name, set()) == wanted


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_function_takes_and_explains_the_options_of_the_table(name: str) -> None:
    parameters = inspect.signature(FUNCTIONS[name]).parameters
    there = parameters.keys() & ALL.keys() - OTHER_MEANING.get(name, set())
    assert there == set(options_at(name))
    explained = inspect.getdoc(FUNCTIONS[name]) or ""
    for parameter in parameters:
        assert re.search(rf"^    {parameter}\b.*:", explained, re.M), (
            f"{parameter} is not explained"
        )
    for row in options_at(name).values():
        assert parameters[row.name].default == row.default


def test_files_settings_and_service_take_the_options_of_the_table() -> None:
    assert set(config.NAMES) == set(options_at("config file")) == ALL.keys()
    names = {*settings.SPEC_NAMES, *settings.POINT_NAMES}
    assert names == set(options_at("settings of an index")) == set(options_of(IndexOptions))
    shadow = ShadowRequest.model_fields.keys() - {"golden"}
    tuned = {*settings.POINT_NAMES, *settings.OF_VECTORS}
    assert shadow == set(options_at("shadow of a service")) == tuned


def test_defaults_of_the_table_are_those_of_the_checked_values() -> None:
    options, spec = Options(), Spec()
    own = {field.name for field in fields(Options)}
    for name, row in ALL.items():
        if row.default is not None:
            value = options if name in own else spec
            assert getattr(value, row.spec_field or name) == row.default, name


CHANGES: dict[str, dict[str, Any]] = {
    "threshold": {"threshold": 0.7},
    "recall": {"recall": 0.9},
    "bands": {"bands": 10, "rows": 4},
    "rows": {"bands": 21, "rows": 5},
    "verify": {"verify": "estimate"},
    "tables": {"tables": 2},
    "limit": {"limit": 7},
    "measure": {"measure": "containment"},
    "hamming": {"sketch": "simhash", "hamming": 5},
    "blocks": {"sketch": "simhash", "blocks": 9},
    "shingle": {"shingle": "char:9"},
    "text_profile": {"text_profile": "aggressive"},
    "seed": {"seed": 1},
    "sketch": {"sketch": "oneperm"},
    "slots": {"slots": 64},
    "bits": {"bits": 8},
    "family": {"family": "affine-m61"},
    "strip": {"strip": "lines:1%"},
    "mask": {"mask": "dates,numbers"},
    "stem": {"stem": "english"},
    "segment": {"segment": "icu"},
    "preset": {"preset": "nemo"},
    "hash": {"hash": "fnv1a"},
    "weights": {"sketch": "weighted", "weights": "tf-idf"},
    "keep": {"keep": "longest"},
    "cluster": {"cluster": "components"},
    "distinguish": {"distinguish": "numbers"},
    "vectors": {"vectors": "embedding", "cosine": 0.9},
    "cosine": {"vectors": "embedding", "cosine": 0.8},
    "also": {"also": "embedding:0.9"},
    "unless": {"unless": "embedding:0.9"},
    "embed": {"embed": "model:embed", "cosine": 0.9},
    "planes": {"also": "embedding:0.9", "planes": "12x9"},
    "centre": {"also": "embedding:0.9", "centre": "none"},
}
"""For each option, options in which it has another value than its default."""


@pytest.mark.parametrize("name", sorted(ALL))
def test_changed_option_is_in_run_json(name: str, tmp_path: Path) -> None:
    def described(given: dict[str, Any]) -> tuple[Any, Any]:
        job = Job([], tmp_path, Options.of(**given), Columns(), workers=1)
        record = describe_run(job, RunCounts(0, 0, 0, RoundTally()))
        return record["spec"], record["parameters"]

    left_out = {name, "bands", "rows"} | ({"cosine"} if name in ("vectors", "embed") else set())
    without = {key: value for key, value in CHANGES[name].items() if key not in left_out}
    if name == "cosine":
        without["cosine"] = 0.9
    assert described(CHANGES[name]) != described(without)


@pytest.mark.parametrize("name", sorted(set(options_of(IndexOptions)) - {"strip"}))
def test_changed_option_is_in_the_settings_of_an_index(name: str) -> None:
    def stored(given: dict[str, Any]) -> dict[str, Any]:
        return settings.IndexSettings(Options.of(**given)).stored

    without = {
        key: value for key, value in CHANGES[name].items() if key not in (name, "bands", "rows")
    }
    changed = stored(CHANGES[name])
    assert changed != stored(without)
    assert settings.IndexSettings.of_stored(changed, "test").stored == changed


def test_typed_choices_are_those_of_the_tables() -> None:
    assert ALL["measure"].choices == measure_table.CHOICES
    assert ALL["preset"].choices == tuple(PRESETS)
    assert set(ALL["sketch"].choices) == {*bulk.MAKE, *bulk.MAKE_WEIGHTED}
    assert inspect.signature(neardup.dedup).parameters["bits"].annotation == Literal[1, 2, 4, 8, 16]


def test_fields_of_the_checked_values_are_the_options_of_the_table() -> None:
    checked = {field.name for field in fields(Options)} - {"spec"}
    made_of_spec = set(options_of(SpecOptions)) - {"preset"}
    of_vectors = set(options_of(VectorOptions)) - {"vectors"}  # which has all of them
    assert checked == ALL.keys() - made_of_spec - {"preset"} - of_vectors | {"strip"}
    spec_names = {ALL[name].spec_field or name for name in made_of_spec}
    parsed = {"unit", "size"}  # of shingle
    counted = {
        "ignored",
        "weights",
        "vectors",
        "key",
        "unicode",
        "version",
    }  # not chosen by an option
    assert {field.name for field in fields(Spec)} == spec_names - {"shingle"} | parsed | counted


def test_option_that_a_place_does_not_take_has_a_reason() -> None:
    for name, place in PLACES.items():
        missing = ALL.keys() - options_at(name).keys() - place.excluded.keys()
        assert not missing or place.why_not, f"{name} says nothing about {missing}"


def test_unknown_and_unsupported_keyword_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="did you mean 'threshold'"):
        neardup.dedup(["a"], **{"treshold": 0.8})
    with pytest.raises(ParameterError, match=r"measure is not supported by neardup\.plan"):
        neardup.plan("1M", **{"measure": "containment"}, calibrate=False)


@pytest.mark.parametrize(
    ("page", "table"),
    [
        ("command-line.md", markdown_table(ALL)),
        ("library.md", markdown_table(options_at("neardup.dedup"), in_python=True)),
    ],
)
def test_table_in_the_documentation_is_generated(page: str, table: str) -> None:
    text = (Path(__file__).parents[1] / "docs" / page).read_text("utf-8")
    written = text.partition("<!-- matching options -->\n")[2].partition("<!-- end -->")[0]
    assert written == table, "write what markdown_table returns there"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_states_the_default_of_every_option_once(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # every option in one line
    params = COMMANDS[name].params
    every = "--help-all" if any("--help-all" in param.opts for param in params) else "--help"
    build_command()(args=[*name.split()[1:], every], prog_name="neardup", standalone_mode=False)
    lines = capsys.readouterr().out.splitlines()
    for param in params:
        if param.param_type_name == "option" and not param.is_flag:
            first = re.compile(rf"│[ *]+{max(param.opts, key=len)} ")
            (shown,) = [line for line in lines if first.match(line)]
            assert shown.count("Default: ") + shown.count("[required]") == 1, shown
            assert param.metavar in shown and "<" not in shown, shown


@pytest.mark.parametrize("name", sorted(COMMANDS))
@pytest.mark.parametrize("columns", ["80", "120"])
def test_help_has_an_example_and_no_types_of_flags(
    name: str, columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    words = name.split()[1:]
    build_command()(args=[*words, "--help"], prog_name="neardup", standalone_mode=False)
    shown = capsys.readouterr().out
    assert "<bool>" not in shown and "{" not in shown and "[[" not in shown
    assert "Example: neardup" in shown
    assert max(map(len, shown.splitlines())) <= int(columns)


def test_help_of_dedup_is_short_and_help_all_has_everything(
    capsys: pytest.CaptureFixture[str],
) -> None:
    build_command()(args=["dedup", "--help"], prog_name="neardup", standalone_mode=False)
    short = set(re.findall(r"(?<![\w-])--[a-z-]+", capsys.readouterr().out))
    build_command()(args=["dedup", "--help-all"], prog_name="neardup", standalone_mode=False)
    everything = capsys.readouterr().out
    assert "--threshold" in short and "--blocks" not in short
    assert all(row.flag in everything for row in ALL.values())


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("neardup dedup --hamm", "--hamming"), ("neardup dedup --verify est", "estimate")],
)
def test_shell_completion_offers_options_and_choices(typed: str, offered: str) -> None:
    variables = {
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
        "_NEARDUP_COMPLETE": "complete_bash",
    }
    command = [sys.executable, "-m", "neardup"]
    ran = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True)
    assert ran.stdout.split() == [offered]
