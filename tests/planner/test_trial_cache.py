"""Results are found again, those that can't be trusted are not, and nothing foreign is touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.command_line import neardup, refused, unprivileged

import neardup as package
from neardup.errors import OutputError, ParameterError, UsageError
from neardup.planner import trial_cache as module
from neardup.planner.trial_cache import TrialCache, canonical, key_of, this_machine

CONFIG = {"slots": 128, "threshold": 0.8, "corpus": "c0ffee", "spec": "abc", "counting": 1}
RESULTS = {"recall": 0.9975, "pairs": 1234, "sizes": {"1": 7, "2": 3}, "none": None}

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    scalars, lambda some: st.lists(some) | st.dictionaries(st.text(), some), max_leaves=6
)
configs = st.dictionaries(st.text(), values)


def other_order(value: Any) -> Any:
    """The same value with keys in another order, tuples for lists, and floats for whole numbers."""
    if isinstance(value, dict):
        return {name: other_order(value[name]) for name in reversed(value)}
    if isinstance(value, list):
        return tuple(other_order(each) for each in value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= 2**53:
        return float(value)
    return value


@given(configs)
def test_key_ignores_order_and_number_type(config: dict[str, Any]) -> None:
    assert canonical(other_order(config)) == canonical(config)
    assert json.loads(canonical(config)) == config


@given(configs, configs)
def test_different_configurations_have_different_canonical_texts(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert (canonical(one) == canonical(other)) == (typed(one) == typed(other))


def typed(value: Any) -> Any:
    """Equal as configurations: 1 is 1.0, but not True."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, dict):
        return {name: typed(each) for name, each in value.items()}
    return [typed(each) for each in value] if isinstance(value, list) else value


def test_key_equals_the_example_of_the_format_page() -> None:
    config = {"threshold": 0.80, "slots": 128.0, "bands": None, "sizes": [1.5, 2.0]}
    assert canonical(config) == '{"bands":null,"sizes":[1.5,2],"slots":128,"threshold":0.8}'
    assert key_of(config) == "6cc732b10d94a9948a664b3ca3036f25"
    page = (Path(__file__).parents[2] / "docs/format.md").read_text("utf-8")
    assert f"`{canonical(config)}` has the key `{key_of(config)}`" in page


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 2}, {"a"}, b"bytes"])
def test_values_without_canonical_form_are_refused(value: Any) -> None:
    with pytest.raises(ParameterError, match="a configuration can't hold"):
        canonical({"x": [value]})


def test_key_has_128_bits_and_depends_on_every_value() -> None:
    changed = [CONFIG | {name: "else"} for name in CONFIG]
    keys = {key_of(config) for config in [CONFIG, *changed]}
    assert len(keys) == len(CONFIG) + 1
    assert {len(key) for key in keys} == {32}


@given(configs, st.dictionaries(st.text(), values), st.floats(0, 1e9))
def test_stored_results_are_returned(
    tmp_path_factory: pytest.TempPathFactory, config: Any, results: Any, seconds: float
) -> None:
    kept = TrialCache(tmp_path_factory.mktemp("cache"))
    assert kept.get(config) is None
    kept.put(config, results, seconds)
    assert TrialCache(*kept.folders).get(other_order(config)) == results
    (entry,) = kept.entries()
    assert (entry.seconds, entry.version) == (seconds, package.__version__)
    assert entry.same_machine and kept.damaged == 0


def only_file(kept: TrialCache) -> Path:
    (path,) = kept.folders[0].glob("*/*")
    return path


def test_entries_are_in_subfolders_without_the_host_name(tmp_path: Path) -> None:
    kept = TrialCache(tmp_path)
    kept.put(CONFIG, RESULTS, 1.0)
    path, key = only_file(kept), key_of(CONFIG)
    assert path.parent.name == key[:2] and path.name.startswith(key)
    assert set(this_machine()) == {"processor", "cores", "architecture", "system"}
    assert os.uname().nodename not in json.loads(path.read_text())["machine"].values()


@given(st.data())
def test_flipped_bytes_never_give_another_result(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    kept = TrialCache(tmp_path_factory.mktemp("cache"))
    kept.put(CONFIG, RESULTS, 1.0)
    path = only_file(kept)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    found = kept.get(CONFIG)
    assert found in (None, RESULTS)
    assert kept.damaged == (found is None)
    kept.put(CONFIG, RESULTS, 1.0)
    assert TrialCache(*kept.folders).get(CONFIG) == RESULTS


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_foreign_content_is_ignored_and_replaced(tmp_path: Path, content: bytes) -> None:
    kept = TrialCache(tmp_path)
    kept.put(CONFIG, RESULTS, 1.0)
    only_file(kept).write_bytes(content)
    assert kept.get(CONFIG) is None and kept.damaged == 1
    assert list(kept.entries()) == []
    kept.put(CONFIG, RESULTS, 1.0)
    assert kept.get(CONFIG) == RESULTS


def test_truncated_files_are_ignored(tmp_path: Path) -> None:
    kept = TrialCache(tmp_path)
    kept.put(CONFIG, RESULTS, 1.0)
    content = only_file(kept).read_bytes()
    for length in range(len(content)):
        only_file(kept).write_bytes(content[:length])
        assert kept.get(CONFIG) is None


def test_entry_under_the_key_of_another_configuration_is_ignored(tmp_path: Path) -> None:
    kept, other = TrialCache(tmp_path / "a"), CONFIG | {"slots": 64}
    kept.put(CONFIG, RESULTS, 1.0)
    kept.put(other, {"recall": 0.1}, 1.0)
    mine, theirs = kept._path(key_of(CONFIG)), kept._path(key_of(other))
    mine.write_bytes(theirs.read_bytes())
    assert kept.get(CONFIG) is None and kept.damaged == 1


@pytest.mark.parametrize("bad", [{"at": "2020-01-01T00:00:00"}, {"seconds": "long"}])
def test_entries_with_invalid_times_are_ignored(tmp_path: Path, bad: dict[str, str]) -> None:
    """Also with a checksum that fits: a list could not sort them, `clear` not compare them."""
    kept = TrialCache(tmp_path)
    kept.put(CONFIG, RESULTS, 1.0)
    record = json.loads(only_file(kept).read_text()) | bad
    del record["checksum"]
    whole = record | {"checksum": module._checksum(record)}
    only_file(kept).write_text(json.dumps(whole))
    assert list(kept.entries()) == [] and kept.damaged == 1
    assert kept.clear(datetime.now(UTC) + timedelta(days=1)) == 1


def test_key_collision_returns_no_result(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "key_of", lambda config: "0" * 32)
    kept = TrialCache(tmp_path)
    kept.put(CONFIG, RESULTS, 1.0)
    assert kept.get(CONFIG | {"slots": 64}) is None
    assert kept.get(CONFIG) == RESULTS


def as_another_machine(path: Path) -> Path:
    """The same entry as if another machine had written it."""
    record = json.loads(path.read_text())
    del record["checksum"]
    record["machine"]["cores"] += 1
    record["checksum"] = module._checksum(record)
    key, _ = path.stem.split("-")
    other = path.with_name(f"{key}-00000000.json")
    other.write_text(json.dumps(record))
    return other


def test_timed_results_of_another_machine_are_not_used(tmp_path: Path) -> None:
    kept = TrialCache(tmp_path)
    kept.put(CONFIG, {"recall": 0.5}, 1.0)
    mine = only_file(kept)
    as_another_machine(mine).replace(mine)  # even under the name of this machine
    assert kept.get(CONFIG) is None
    assert kept.get(CONFIG, timed=False) == {"recall": 0.5}
    kept.put(CONFIG, RESULTS, 1.0)
    as_another_machine(mine)
    assert sorted(entry.same_machine for entry in kept.entries()) == [False, True]
    assert kept.get(CONFIG) == RESULTS
    assert kept.find(key_of(CONFIG)[:5]).same_machine


WRITE = """
import os, sys
from pathlib import Path
from neardup.planner.trial_cache import TrialCache
kept = TrialCache(Path(sys.argv[1]))
config = {"slots": 128}
if sys.argv[2] == "die":
    Path.replace = lambda *_: os._exit(9)  # killed between writing and renaming
for n in range(int(sys.argv[3])):
    kept.put(config, {"numbers": [n] * 2_000}, 1.0)
    found = kept.get(config)["numbers"]
    assert len(found) == 2_000 and len(set(found)) == 1, "a mixture"
assert kept.damaged == 0
"""


def writer(folder: Path, how: str, times: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WRITE, str(folder), how, str(times)])


def test_two_processes_can_write_the_same_key(tmp_path: Path) -> None:
    both = [writer(tmp_path, "live", 200) for _ in range(2)]
    assert [process.wait(60) for process in both] == [0, 0]
    kept = TrialCache(tmp_path)
    assert set(kept.get({"slots": 128}) or {}) == {"numbers"}
    assert only_file(kept).suffix == ".json"


def test_killed_writer_leaves_no_entry(tmp_path: Path) -> None:
    assert writer(tmp_path, "die", 1).wait(60) == 9
    kept = TrialCache(tmp_path)
    assert only_file(kept).suffix == ".tmp"
    assert kept.get({"slots": 128}) is None and list(kept.entries()) == []
    assert kept.clear() == 1
    assert list(tmp_path.glob("*/*")) == []


def test_numpy_numbers_are_accepted(tmp_path: Path) -> None:
    kept = TrialCache(tmp_path)
    kept.put({"slots": np.int64(128), "threshold": np.float64(0.8)}, RESULTS, 1.0)
    assert kept.get({"slots": 128, "threshold": 0.8}) == RESULTS


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, b"bytes"])
def test_results_that_json_cannot_hold_are_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ParameterError, match="JSON can't hold"):
        TrialCache(tmp_path).put(CONFIG, {"recall": value}, 1.0)
    assert list(tmp_path.iterdir()) == []


def test_unwritable_folder_is_warned_of_once(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "file").touch()
    kept = TrialCache(tmp_path / "file" / "cache")
    for _ in range(2):
        kept.put(CONFIG, RESULTS, 1.0)
        assert kept.get(CONFIG) is None
    assert capsys.readouterr().err.count("goes on without; --cache names another") == 1
    with pytest.raises(OutputError, match="name another with --cache"):
        kept.must_be_writable()


def test_unwritable_named_folder_is_refused_before_the_work(tmp_path: Path) -> None:
    TrialCache(tmp_path / "new").must_be_writable()
    assert list((tmp_path / "new").iterdir()) == []


def test_default_folder_is_in_the_user_cache(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert TrialCache().folders == (tmp_path / "neardup" / "trials",)


def test_entry_is_found_by_the_first_digits_of_its_key(tmp_path: Path) -> None:
    kept = TrialCache(tmp_path)
    for slots in range(40):
        kept.put({"slots": slots}, {"slots": slots}, 1.0)
    key = key_of({"slots": 7})
    assert kept.find(key.upper()).results == {"slots": 7}
    with pytest.raises(UsageError, match="give more digits"):
        kept.find("")
    with pytest.raises(UsageError, match="no entry 'xyz'"):
        kept.find("xyz")


def test_clear_removes_only_cache_files(tmp_path: Path) -> None:
    kept, outside = TrialCache(tmp_path / "cache"), TrialCache(tmp_path / "outside")
    for place in (kept, outside):
        place.put(CONFIG, RESULTS, 1.0)
    theirs, fan = only_file(outside), only_file(kept).parent
    foreign = [fan / "notes.txt", fan / f"{key_of(CONFIG)}.json", kept.folders[0] / "precious.json"]
    for path in foreign:
        path.touch()
    (kept.folders[0] / "00").symlink_to(theirs.parent)
    (fan / f"{key_of({})}-00000000.json").symlink_to(theirs)
    assert kept.clear() == 1
    assert theirs.exists() and all(path.exists() for path in foreign)
    assert (kept.folders[0] / "00").is_symlink()


def test_clear_removes_only_entries_before_a_date(tmp_path: Path) -> None:
    kept, now = TrialCache(tmp_path), datetime.now(UTC)
    for days in (0, 10, 100):
        kept.put({"days": days}, {}, 1.0, at=now - timedelta(days=days))
    assert neardup("cache", "clear", "--cache", tmp_path, "--older-than", "4w", "--yes").out == (
        "1 removed\n"
    )
    assert {entry.config["days"] for entry in kept.entries()} == {0, 10}
    refused(neardup("cache", "clear", "--cache", tmp_path, "--older-than", "1y"), 2, "such as 30d")


def test_listed_entry_is_one_line_on_a_narrow_terminal(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    kept = TrialCache(tmp_path)
    for slots in (64, 128):
        config = {
            "shingle": "word:5",
            "bands": 21,
            "bits": 32,
            "rows": 6,
            "sketch": "minhash",
            "slots": slots,
            "corpus": "0123456789abcdef" * 2,
        }
        kept.put(config, RESULTS, 1.25)
    lines = neardup("cache", "list", "--cache", tmp_path).out.splitlines()
    assert len(lines) == 1 + 2 + 1
    assert {line.split()[4] for line in lines[1:3]} == {"64,", "128,"}
    for line in lines[1:3]:
        assert len(line) <= 80
        assert " minhash, slots " in line and ", 21x6, word:5" in line
        assert line.split()[-2:] == ["1.25", "this"]


def test_the_command_line_lists_shows_and_clears(tmp_path: Path) -> None:
    kept = TrialCache(tmp_path)
    kept.put(CONFIG, RESULTS, 1.25)
    as_another_machine(only_file(kept))
    (tmp_path / "00").mkdir()
    (tmp_path / "00" / f"{'0' * 32}-00000000.json").write_text("{}")
    ran = neardup("cache", "list", "--cache", tmp_path)
    key = key_of(CONFIG)
    for part in (
        key[:10],
        "slots 128, threshold 0.8",
        "1.25",
        "this",
        "other",
        f"2 results in {tmp_path}, 1 that can't be used",
    ):
        assert part in ran.out, part
    listed = json.loads(neardup("cache", "list", "--json", "--cache", tmp_path).out)
    assert (len(listed["entries"]), listed["damaged"]) == (2, 1)
    shown = json.loads(neardup("cache", "show", key[:6], "--cache", tmp_path).out)
    assert (shown["config"], shown["results"]) == (CONFIG, RESULTS)
    refused(neardup("cache", "show", "ff" * 16, "--cache", tmp_path), 2, "no entry")
    refused(neardup("cache", "list", "--cache", tmp_path / "none"), 2, "no such folder")
    assert neardup("cache", "clear", "--yes", "--cache", tmp_path).out == "3 removed\n"
    assert "0 results" in neardup("cache", "list", "--cache", tmp_path).out


@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_cache_clear_asks_for_confirmation(tmp_path: Path, answer: str, left: int) -> None:
    kept = TrialCache(tmp_path)
    kept.put(CONFIG, RESULTS, 1.0)
    command = [sys.executable, "-m", "neardup", "cache", "clear", "--cache", str(tmp_path)]
    ran = subprocess.run(command, input=answer, capture_output=True, text=True, timeout=60)
    assert len(list(kept.entries())) == left
    assert ran.returncode == (0 if answer else 2)
    assert answer or "--yes removes without asking" in ran.stderr


def test_unreadable_folder_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0)
    refused(unprivileged("cache", "list", "--cache", folder), 2, "is not readable")


def test_each_of_several_folders_has_its_share(tmp_path: Path) -> None:
    """Another folder takes its share of the keys alone, and whoever names all of them agrees."""
    folders = [tmp_path / name for name in ("a", "b", "c")]
    kept = TrialCache(*folders)
    configs = [CONFIG | {"slots": slots} for slots in range(120)]
    for config in configs:
        kept.put(config, RESULTS, 1.0)
    counts = [len(list(TrialCache(folder).entries())) for folder in folders]
    assert sum(counts) == len(configs) and min(counts) > 20
    assert all(TrialCache(*folders[::-1]).get(config) == RESULTS for config in configs)
    assert len(list(kept.entries())) == len(configs)
    more = TrialCache(*folders, tmp_path / "d")
    missed = [config for config in configs if more.get(config) is None]
    assert 10 < len(missed) < 60, "those that the new folder takes"
    assert all(more._folder(key_of(config)) == tmp_path / "d" for config in missed)
    assert kept.find(key_of(configs[7])[:20]).config["slots"] == 7
    assert kept.clear() == len(configs) and not list(kept.entries())
    with pytest.raises(ParameterError, match="twice"):
        TrialCache(tmp_path, tmp_path)
