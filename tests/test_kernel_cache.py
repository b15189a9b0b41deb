"""Where compiled kernels go, and that a home that can't be written is no obstacle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from neardup import kernel_cache, kernels

ASK = "from neardup import kernel_cache; print(kernel_cache.folder('bands'))"


def asked(**environment: str) -> Path:
    done = subprocess.run(
        [sys.executable, "-c", ASK], env=os.environ | environment, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return Path(done.stdout.strip())


def test_the_folder_is_the_users_own(tmp_path):
    found = asked(XDG_CACHE_HOME=str(tmp_path))
    assert found.parent == tmp_path / "neardup"
    assert found.is_dir()
    assert found.stat().st_mode & 0o077 == 0


def test_bounds_checks_have_a_cache_of_their_own(tmp_path):
    plain = asked(XDG_CACHE_HOME=str(tmp_path), NUMBA_BOUNDSCHECK="")
    checked = asked(XDG_CACHE_HOME=str(tmp_path), NUMBA_BOUNDSCHECK="1")
    assert plain != checked


def test_a_place_that_is_no_folder_means_a_private_one(tmp_path):
    file = tmp_path / "file"
    file.touch()
    private = asked(XDG_CACHE_HOME=str(file))
    assert private.parent.name.startswith("neardup-kernels-")
    assert not private.parent.exists(), "it goes with the process"


def test_every_kernel_is_where_it_is_said_to_be():
    for module, names in kernels.KERNELS.items():
        assert module not in {name for some in kernels.KERNELS.values() for name in some}
        for name in names:
            assert getattr(kernels, name).__module__ == f"neardup.kernels.{module}"


def test_a_module_has_a_new_cache_when_one_changes_that_it_imports():
    assert set(kernel_cache._sources("json_edit")) >= {"compile", "hashing", "jsonl", "lines"}
    assert "jsonl" not in kernel_cache._sources("bands")
