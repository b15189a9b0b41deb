"""API keys: shown once, kept as a hash, revoked at once, and never open by mistake."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.command_line import neardup, refused

from neardup.errors import FormatError, ParameterError
from neardup.index.folder import API_KEYS as FILE
from neardup.service.api_keys import ApiKeys

WHEN = "2026-01-01T00:00:00+00:00"


def test_a_key_is_found_by_its_token_and_kept_as_a_hash(tmp_path: Path) -> None:
    keys = ApiKeys(tmp_path)
    token = keys.add("crawler", ("write", "read"), WHEN)
    found = ApiKeys(tmp_path).find(token)
    assert found is not None
    assert (found.name, found.scopes, found.created) == ("crawler", ("read", "write"), WHEN)
    assert token not in (tmp_path / FILE).read_text()
    assert stat.S_IMODE(os.stat(tmp_path / FILE).st_mode) == 0o600
    assert len(token) >= 43


@pytest.mark.parametrize("shown", ["", "x", "neardup_", "\udcff", "é" * 1000])
def test_other_tokens_are_not_found(tmp_path: Path, shown: str) -> None:
    keys = ApiKeys(tmp_path)
    token = keys.add("a", ("read",), WHEN)
    assert keys.find(shown) is None
    assert keys.find(token[:-1]) is None
    assert keys.find(token + "A") is None


def test_tokens_are_all_different(tmp_path: Path) -> None:
    keys = ApiKeys(tmp_path)
    assert len({keys.add(f"k{n}", ("read",), WHEN) for n in range(20)}) == 20
    assert [key.name for key in keys.all()] == [f"k{n}" for n in range(20)]


def test_running_service_notices_a_changed_key_file(tmp_path: Path) -> None:
    running, other = ApiKeys(tmp_path), ApiKeys(tmp_path)
    assert not running.guarded
    token = other.add("a", ("read",), WHEN)
    assert running.guarded
    assert running.find(token) is not None
    other.revoke("a")
    assert running.find(token) is None
    assert running.guarded, "without any key left nobody has access"


def test_deleted_key_file_does_not_open_the_service(tmp_path: Path) -> None:
    keys = ApiKeys(tmp_path)
    token = keys.add("a", ("read",), WHEN)
    assert keys.find(token) is not None
    away = (tmp_path / FILE).rename(tmp_path / "away")
    assert keys.find(token) is None
    assert keys.guarded
    away.rename(tmp_path / FILE)
    assert keys.find(token) is not None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b'{"version": 2, "keys": []}',
        b'{"version": 1}',
        b'{"version": 1, "keys": [{"name": "a", "sha256": "00", "scopes": [], "created": ""}]}',
        b"[" * 100_000,
    ],
)
def test_a_broken_file_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(FormatError, match=FILE):
        ApiKeys(tmp_path).find("x")


def test_unreadable_key_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FormatError, match=FILE):
        ApiKeys(tmp_path / "file").find("x")


def test_concurrently_added_keys_are_all_stored(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        added = [pool.submit(ApiKeys(tmp_path).add, f"k{n}", ("read",), WHEN) for n in range(40)]
        tokens = [each.result() for each in added]
    keys = ApiKeys(tmp_path)
    assert [keys.find(token).name for token in tokens] == [f"k{n}" for n in range(40)]


def test_keys_commands_add_list_and_revoke(tmp_path: Path) -> None:
    made = neardup("keys", "add", "crawler", "--data", tmp_path, "--scope", "write")
    assert made.code == 0
    token = made.out.strip()
    assert ApiKeys(tmp_path).find(token).scopes == ("write",)
    listed = neardup("keys", "list", "--data", tmp_path)
    assert listed.out.startswith("crawler\twrite\t20")
    assert token not in listed.out + listed.err
    assert neardup("keys", "revoke", "crawler", "--data", tmp_path).out == "revoked crawler\n"
    assert neardup("keys", "list", "--data", tmp_path).out.startswith("no keys")
    assert json.loads((tmp_path / FILE).read_text())["keys"] == []


def test_key_with_a_rate_and_an_end_is_listed_with_both(tmp_path: Path) -> None:
    options = ("--rate", "500", "--expires", "90d")
    made = neardup("keys", "add", "visitor", "--data", tmp_path, *options)
    assert made.code == 0 and ", until 20" in made.err
    found = ApiKeys(tmp_path).find(made.out.strip())
    assert found is not None and found.expires is not None
    assert found.rate == 500 and not found.expired
    left = datetime.fromisoformat(found.expires) - datetime.now(UTC)
    assert timedelta(days=89, hours=23) < left <= timedelta(days=90)
    listed = neardup("keys", "list", "--data", tmp_path).out
    assert listed.endswith(f"\trate 500\tuntil {found.expires}\n")
    (row,) = json.loads(neardup("keys", "list", "--data", tmp_path, "--json").out)
    assert (row["rate"], row["expires"]) == (500, found.expires)


def test_keys_of_a_file_without_rates_and_ends_are_read(tmp_path: Path) -> None:
    token = ApiKeys(tmp_path).add("a", ("read",), WHEN)
    content = json.loads((tmp_path / FILE).read_text())
    for name in ("rate", "expires"):
        del content["keys"][0][name]
    (tmp_path / FILE).write_text(json.dumps(content))
    found = ApiKeys(tmp_path).find(token)
    assert found is not None
    assert (found.rate, found.expires, found.expired) == (None, None, False)


def test_help_says_which_scopes_a_key_has_without_any() -> None:
    assert "read and write" in neardup("keys", "add", "--help").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "a", "--expires", "soon"], "such as 30d"),
        (["add", "a", "--rate", "-1"], "--rate"),
        (["add", "a b"], "letters"),
        (["add", "a", "--scope", "root"], "read, write, admin"),
        (["add", "taken"], "taken exists already"),
        (["revoke", "nobody"], "use one of taken"),
    ],
)
def test_wrong_use_is_refused_with_the_cure(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    ApiKeys(tmp_path).add("taken", ("read",), WHEN)
    refused(neardup("keys", *arguments, "--data", tmp_path), 2, said)


def test_help_and_keys_commands_import_no_server_packages(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['neardup', *sys.argv[1:]]\n"
        "from neardup.cli import main\n"
        "try: main()\n"
        "finally: print(sorted({'numba', 'fastapi', 'uvicorn'} & set(sys.modules)))"
    )
    for arguments in (["serve", "--help"], ["keys", "list", "--data", str(tmp_path)]):
        ran = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
        )
        assert ran.stdout.splitlines()[-1] == "[]"


def test_listening_on_a_public_address_needs_a_key(tmp_path: Path) -> None:
    def not_started(*options: str) -> None:
        ran = neardup("serve", "--data", tmp_path, *options)
        assert ran.code == 2
        message = json.loads(ran.err)["message"]
        assert "neardup keys add" in message and "other machines" in message

    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        not_started("--host", host)
    not_started("--proxy", "127.0.0.1")
    ApiKeys(tmp_path).add("a", ("read",), WHEN)
    ApiKeys(tmp_path).revoke("a")
    not_started("--host", "0.0.0.0")


def test_a_supplied_key_is_never_stored(tmp_path: Path) -> None:
    keys = ApiKeys(tmp_path, supplied="a key of sixteen or more")
    keys.add("other", ("read",), WHEN)
    assert [key.name for key in ApiKeys(tmp_path).all()] == ["other"]
    with pytest.raises(ParameterError, match="another name"):
        keys.add("supplied", ("read",), WHEN)
    with pytest.raises(ParameterError, match="has no key 'supplied'"):
        keys.revoke("supplied")


def test_without_its_packages_serve_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "uvicorn" else "x")
    ran = neardup("serve", "--data", tmp_path / "data")
    assert ran.code == 2 and not (tmp_path / "data").exists()
    assert "pip install 'neardup[serve]'" in json.loads(ran.err)["message"]


def test_a_port_in_use_is_named_with_the_cure(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = neardup("serve", "--data", tmp_path / "data", "--port", port)
    message = json.loads(ran.err.splitlines()[-1])["message"]
    assert ran.code == 2 and not (tmp_path / "data").exists()
    assert message == (
        f"can't listen on 127.0.0.1 port {port} (Address already in use): "
        "choose another --port or --host"
    )
