"""neardup.toml and pyproject.toml that are found, environment variables, and neardup config."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from support.command_line import DOCUMENTS, Ran, neardup, refused, write_jsonl
from support.running import running

from neardup import Index


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder is `project/data`, below a folder for config files."""
    data = tmp_path / "project" / "data"
    data.mkdir(parents=True)
    monkeypatch.chdir(data)
    write_jsonl(data / "a.jsonl", [{**row, "body": row["text"]} for row in DOCUMENTS])
    return tmp_path / "project"


def shown(*command: str) -> dict[str, tuple[object, str]]:
    """The options of a command, each with its value and its origin."""
    ran = neardup("config", "show", *command, "--json")
    assert ran.code == 0, ran.err
    return {row["option"]: (row["value"], row["from"]) for row in json.loads(ran.out)}


def parameters(*options: object) -> dict[str, object]:
    """The parameters of a run from the working folder, which must succeed."""
    ran = neardup(*options, "a.jsonl", "-o", "out", "--force", "--json")
    assert ran.code == 0, ran.err
    record = json.loads(ran.out)
    return record["parameters"] | record["spec"]


def test_options_of_the_nearest_neardup_toml_are_used(project: Path) -> None:
    file = project / "neardup.toml"
    file.write_text('threshold = 0.7\n[dedup]\ntext = "body"\nno-kept = true\n')
    ran = parameters("dedup")
    assert (ran["threshold"], ran["text"], ran["kept_files"]) == (0.7, "body", False)
    (project / "data" / "neardup.toml").write_text("threshold = 0.6\n")
    ran = parameters("dedup")
    assert (ran["threshold"], ran["text"]) == (0.6, "text"), "only the nearest file counts"


def test_tool_table_of_pyproject_toml_is_used(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.neardup]\nthreshold = 0.7\n")
    (project / "data" / "pyproject.toml").write_text("[tool.other]\nx = 1\n")
    assert parameters("dedup")["threshold"] == 0.7


def test_command_line_then_config_option_then_found_file(project: Path) -> None:
    (project / "neardup.toml").write_text('threshold = 0.7\nshingle = "word:2"\nseed = 3\n')
    (project / "plan.toml").write_text(
        "version = 1\n[dedup]\nthreshold = 0.6\nshingle = 'word:3'\n"
    )
    ran = parameters("dedup", "--config", project / "plan.toml", "--shingle", "word:4")
    assert (ran["threshold"], ran["size"], ran["seed"]) == (0.6, 4, 3)


def test_preset_of_the_command_line_replaces_the_values_of_files(project: Path) -> None:
    (project / "neardup.toml").write_text("threshold = 0.9\nseed = 3\n")
    (project / "plan.toml").write_text("version = 1\n[dedup]\nshingle = 'word:3'\n")
    config = ("--config", project / "plan.toml")
    ran = parameters("dedup", *config, "--preset", "short")
    assert (ran["unit"], ran["size"], ran["threshold"], ran["seed"]) == ("char", 5, 0.5, 3)
    ran = parameters("dedup", *config, "--preset", "short", "--threshold", "0.6")
    assert (ran["unit"], ran["threshold"]) == ("char", 0.6)
    (project / "neardup.toml").write_text('preset = "short"\nthreshold = 0.9\n')
    assert parameters("dedup")["threshold"] == 0.9


def test_bands_of_a_found_file_are_not_used_for_another_threshold(project: Path) -> None:
    (project / "neardup.toml").write_text("threshold = 0.9\nbands = 5\nrows = 12\nslots = 64\n")
    assert parameters("dedup")["tables"] == "5x12"
    ran = neardup("dedup", "a.jsonl", "-o", "again", "--threshold", "0.5")
    assert f"the bands of {project / 'neardup.toml'} were chosen for other options" in ran.err


def test_run_says_which_options_come_from_the_file(project: Path) -> None:
    (project / "neardup.toml").write_text('threshold = 0.7\ntext = "body"\n')
    ran = neardup("dedup", "a.jsonl", "-o", "out", "--threshold", "0.9")
    assert f"neardup: options of {project / 'neardup.toml'}: text body\n" in ran.err
    assert neardup("dedup", "a.jsonl", "-o", "quiet", "-q").err == ""


def test_no_config_ignores_the_file(project: Path) -> None:
    (project / "neardup.toml").write_text("threshold = 0.7\n")
    assert parameters("--no-config", "dedup")["threshold"] == 0.8
    assert parameters("dedup", "--no-config")["threshold"] == 0.8


def test_commands_that_change_an_index_ignore_the_file(project: Path) -> None:
    assert neardup("index", "build", "ix", "a.jsonl", "-q").code == 0
    (project / "neardup.toml").write_text('threshold = 0.7\nshingle = "char:9"\n')
    before = neardup("index", "stats", "ix", "--json").out
    refused(neardup("index", "retune", "ix"), 2, "no change requested")
    assert neardup("index", "stats", "ix", "--json").out == before


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("treshold = 0.7", ("neardup.toml: unknown option treshold", "did you mean threshold")),
        ("[deddup]\n", ("unknown table deddup", "did you mean dedup")),
        ("[dedup]\nport = 1", ("unknown option port in [dedup]",)),
        ("[index.biuld]\n", ("unknown table biuld in [index]", "did you mean build")),
        ('threshold = "high"', ("--threshold", "neardup.toml", "number")),
        ("threshold = [0.7]", ("threshold takes one value",)),
        ("threshold = true", ("threshold must be a number or a text",)),
        ("no-kept = 1", ("no-kept must be true or false",)),
        ("threshold = 1979-05-27", ("threshold must be a number",)),
        ("force = true", ("force can't be set by a file that is only found",)),
        ('[dedup]\nembed = "a:b"', ("embed can't be set by a file that is only found",)),
        ('[serve]\nhost = "0.0.0.0"', ("host can't be set",)),
        ("version = 2", ("unknown option version",)),
        ("threshold = ", ("not a config file",)),
    ],
)
def test_mistakes_in_the_file_are_named(
    project: Path, content: str, parts: tuple[str, ...]
) -> None:
    (project / "neardup.toml").write_text(content + "\n")
    ran = neardup("dedup", "a.jsonl", "-o", "out")
    refused(ran, ran.code or -1, *parts)
    assert ran.code == 2
    assert not (project / "data" / "out").exists()


def test_file_that_other_users_can_change_is_ignored(project: Path) -> None:
    file = project / "neardup.toml"
    file.write_text("threshold = 0.7\n")
    file.chmod(0o666)
    ran = neardup("dedup", "a.jsonl", "-o", "out", "--json")
    assert f"{file} is ignored" in ran.err
    assert json.loads(ran.out)["parameters"]["threshold"] == 0.8


def test_pyproject_without_the_table_need_not_be_valid(project: Path) -> None:
    (project / "pyproject.toml").write_text("[project]\nname = {{ cookiecutter.name }}\n")
    assert parameters("dedup")["threshold"] == 0.8


def test_removed_working_folder_is_no_error(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert neardup("dedup", "--help").code == 0


def test_config_show_names_the_origin_of_each_value(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "neardup.toml").write_text("threshold = 0.7\n[index.build]\nkeep-texts = true\n")
    file = str(project / "neardup.toml")
    dedup = shown()
    assert dedup["threshold"] == (0.7, file)
    assert dedup["recall"] == ("0.99", "default")
    assert shown("index", "build")["keep-texts"] == (True, f"{file} [index.build]")
    monkeypatch.setenv("NEARDUP_SERVE_THRESHOLD", "0.5")
    assert shown("serve")["threshold"] == ("0.5", "environment variable NEARDUP_SERVE_THRESHOLD")
    assert shown("serve")["port"] == ("8080", "default")
    monkeypatch.delenv("COLUMNS", raising=False)
    assert file in neardup("config", "show").out


def test_config_show_of_a_command_that_does_not_exist(project: Path) -> None:
    refused(neardup("config", "show", "deddup"), 2, "no command deddup", "did you mean dedup")
    refused(neardup("config", "show", "index"), 2, "group of commands", "build")


def index_threshold(folder: Path) -> float:
    with Index.open(folder) as index:
        return index.options.threshold


def test_service_takes_its_options_from_the_environment(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARDUP_SERVE_THRESHOLD", "0.55")
    monkeypatch.setenv("NEARDUP_SERVE_LIMIT", "batch=7 requests=9")
    monkeypatch.setenv("NEARDUP_SERVE_API_KEY", "k" * 32)
    with running(project / "ix") as service:
        service.event("ready")
        request = urllib.request.Request(f"{service.url}/v1/stats")
        with pytest.raises(urllib.error.HTTPError) as refused_without_key:
            urllib.request.urlopen(request)
        assert refused_without_key.value.code == 401
        request.add_header("Authorization", f"Bearer {'k' * 32}")
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200
    assert index_threshold(project / "ix") == 0.55
    assert "k" * 32 not in service.log.read_text()


def failed(ran: Ran) -> str:
    """The message of a service that did not start."""
    assert ran.code != 0
    return json.loads(ran.err.splitlines()[-1])["message"]


def test_service_refuses_unknown_variables_and_weak_keys(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARDUP_SERVE_PROT", "1")
    assert "did you mean NEARDUP_SERVE_PORT" in failed(neardup("serve", "--data", "ix"))
    monkeypatch.delenv("NEARDUP_SERVE_PROT")
    monkeypatch.setenv("NEARDUP_SERVE_API_KEY", "short")
    message = failed(neardup("serve", "--data", "ix"))
    assert "5 characters" in message and "short" not in message
    (project / "key").write_text("x" * 40)
    both = failed(neardup("serve", "--data", "ix", "--api-key-file", project / "key"))
    assert "leave out one" in both
