"""Where compiled kernels go, and that a home that can't be written is no obstacle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from neardup import kernels, runtime

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
