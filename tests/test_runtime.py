"""Where compiled kernels go, and that a home that can't be written is no obstacle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.command_line import neardup

from neardup import kernels, runtime
from neardup.pipeline.progress_display import PlainProgress

ASK = "from neardup import runtime; print(runtime.kernel_folder('bands'))"


def asked(**environment: str) -> Path:
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(done.stdout.strip())


def test_cache_folder_is_accessible_to_the_user_only(tmp_path):
    found = asked(XDG_CACHE_HOME=str(tmp_path))
    assert found.parent == tmp_path / "neardup"
    assert found.is_dir()
    assert found.stat().st_mode & 0o077 == 0


def test_kernels_with_bounds_checks_have_a_separate_cache(tmp_path):
    plain = asked(XDG_CACHE_HOME=str(tmp_path), NUMBA_BOUNDSCHECK="")
    checked = asked(XDG_CACHE_HOME=str(tmp_path), NUMBA_BOUNDSCHECK="1")
    assert plain != checked


def test_unusable_cache_folder_falls_back_to_a_private_one(tmp_path):
    file = tmp_path / "file"
    file.touch()
    private = asked(XDG_CACHE_HOME=str(file))
    assert private.parent.name.startswith("neardup-kernels-")
    assert not private.parent.exists(), "it goes with the process"


def test_every_exported_kernel_exists_in_its_module():
    for module, names in kernels.KERNELS.items():
        assert module not in {name for some in kernels.KERNELS.values() for name in some}
        for name in names:
            assert getattr(kernels, name).__module__ == f"neardup.kernels.{module}"


LOAD = """
import numpy as np
from neardup import kernels
print(len(kernels.block_fills(np.zeros(8, np.uint64))))
"""
TWO = "from neardup import kernels; kernels.cuckoo_contains; kernels.block_fills"


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_damaged_cache_is_compiled_again(tmp_path):
    home = {"XDG_CACHE_HOME": str(tmp_path)}
    assert run(LOAD, **home).stdout == "513\n"
    for suffix in ("nbi", "nbc"):
        for file in tmp_path.rglob(f"*.{suffix}"):
            file.write_bytes(b"")
        done = run(LOAD, **home)
        assert (done.stdout, done.returncode) == ("513\n", 0), done.stderr
    again = run(LOAD, **home)
    assert (again.stdout, again.returncode) == ("513\n", 0)


def test_kernel_is_compiled_alone_into_the_folder_of_its_module(tmp_path):
    run(TWO, XDG_CACHE_HOME=str(tmp_path))
    folders = {path.name.split("-")[0]: path for path in (tmp_path / "neardup").iterdir()}
    assert set(folders) == {"bloom", "cuckoo"}
    compiled = {path.name.split("-")[0] for path in tmp_path.rglob("*.nbc")}
    assert compiled == {"bloom.block_fills", "cuckoo.cuckoo_contains"}
    assert run(LOAD, XDG_CACHE_HOME=str(tmp_path)).stderr == "", "nothing is compiled again"


FORK = """
import os, threading, time
from neardup import kernels
loading = threading.Thread(target=lambda: kernels.counting_insert)
loading.start()
time.sleep(0.05)
child = os.fork()
if child == 0:
    kernels.block_fills
    os._exit(7)
loading.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_child_forked_while_kernels_are_loaded_does_not_hang(tmp_path):
    assert run(FORK, XDG_CACHE_HOME=str(tmp_path)).stdout == "7\n"


def test_cache_of_a_kernel_module_covers_the_modules_that_it_imports():
    assert set(runtime._sources("json_edit")) >= {"compile", "hashing", "jsonl", "lines"}
    assert "jsonl" not in runtime._sources("bands")


def test_kernels_that_no_run_uses_are_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = tmp_path / "neardup"
    for name in ("bands-0123456789abcdef", "bands-fedcba9876543210", "trials"):
        (home / name / "inside").mkdir(parents=True)
    long_ago = time.time() - 31 * runtime.DAY
    for name in ("bands-0123456789abcdef", "trials"):
        os.utime(home / name, (long_ago, long_ago))
    assert runtime.remove_unused_kernels() == 1
    assert sorted(path.name for path in home.iterdir()) == ["bands-fedcba9876543210", "trials"]


def test_clearing_and_listing_kernels(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "neardup" / "bands-0123456789abcdef"
    folder.mkdir(parents=True)
    (folder / "code").write_bytes(bytes(5_000))
    assert "1 folder of compiled kernels, 5.0 KB" in neardup("cache", "list").out
    listed = json.loads(neardup("cache", "list", "--json").out)["kernels"]
    assert listed == [{"folder": folder.name, "bytes": 5_000}]
    clear = ("cache", "clear", "--kernels", "--yes")
    assert neardup(*clear, "--older-than", "1d").out == "0 removed\n"
    assert neardup(*clear).out == "1 removed\n"
    assert not folder.exists()


@pytest.mark.parametrize("kept", [True, False])
def test_message_says_whether_compiled_kernels_are_kept(tmp_path, monkeypatch, kept):
    said = []
    monkeypatch.setattr(runtime, "quiet", False)
    monkeypatch.setattr(runtime, "say", said.append)
    monkeypatch.setattr(runtime, "is_kept", lambda module: kept)
    monkeypatch.setattr(runtime, "is_compiled", lambda module, kernel: False)
    runtime.announce("bands", "band_keys")
    runtime.announce("bands", "transposed")
    assert len(said) == 1, "it is said once"
    assert ("XDG_CACHE_HOME" in said[0]) is not kept
    assert ("first use" in said[0]) is kept


def test_rate_does_not_count_compiling(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("neardup.pipeline.progress_display.time.monotonic", lambda: now[0])
    progress = PlainProgress()
    progress.stage("reading", 100, "bytes")
    now[0] += 30.0
    monkeypatch.setattr(runtime, "compiling_seconds", runtime.compiling_seconds + 28.0)
    progress.advance(10)
    assert progress.rate == 5.0
