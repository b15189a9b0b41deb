"""Where compiled kernels go, and that a home that can't be written is no obstacle."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.command_line import neardup

from neardup import kernels, runtime
from neardup.kernels import cache, object_cache, shared_objects
from neardup.pipeline.progress_display import PlainProgress

ASK = "from neardup.kernels import cache; print(cache.kernel_folder('bands'))"


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
    home = {"XDG_CACHE_HOME": str(tmp_path)}
    plain = asked(**home, NEARDUP_KERNELS="jit", NUMBA_BOUNDSCHECK="")
    checked = asked(**home, NEARDUP_KERNELS="jit", NUMBA_BOUNDSCHECK="1")
    objects = asked(**home, NEARDUP_KERNELS="", NUMBA_BOUNDSCHECK="")
    assert len({plain, checked, objects}) == 3


def test_unusable_cache_folder_falls_back_to_a_private_one(tmp_path):
    file = tmp_path / "file"
    file.touch()
    private = asked(XDG_CACHE_HOME=str(file))
    assert private.parent.name.startswith("neardup-kernels-")
    assert not private.parent.exists(), "it goes with the process"


def test_every_exported_kernel_exists_in_its_module():
    for module, names in kernels.KERNELS.items():
        assert module not in {name for some in kernels.KERNELS.values() for name in some}
        declared = import_module(f"neardup.kernels.{module}")
        for name in names:
            assert getattr(declared, name).function.__module__ == declared.__name__
            assert callable(getattr(kernels, name))


LOAD = """
import numpy as np
from neardup import kernels
texts = np.zeros(0, np.uint8), np.zeros(1, np.int64)
table = np.zeros(1, np.uint16), np.zeros(1, np.uint32), np.zeros(1, np.int64)
print(kernels.number_rows(*texts, *table)[1].size)
"""
"""Uses the kernel that compiles fastest, the only one of its module."""
LOADED = "1\n"
TWO = LOAD + "kernels.block_fills"
JIT = {"NEARDUP_KERNELS": "jit"}
OBJECTS = {"NEARDUP_KERNELS": "", "NUMBA_BOUNDSCHECK": ""}
needs_objects = pytest.mark.skipif(not cache.uses_objects(), reason="kernels are not objects here")


def run(
    code: str, home: Path, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run code with a cache in `home`, in a working folder that it does not import from."""
    return subprocess.run(
        [sys.executable, "-P", "-c", code],
        env=os.environ | {"XDG_CACHE_HOME": str(home)} | environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )


class Compiled(NamedTuple):
    """A cache after the first use of a kernel; tests damage copies of it."""

    home: Path
    said: str

    def copy(self, to: Path) -> Path:
        return Path(shutil.copytree(self.home, to))


def compile_into(home: Path, code: str, **given: Any) -> Compiled:
    done = run(code, home, **given)
    assert (done.stdout, done.returncode) == (LOADED, 0), done.stderr
    return Compiled(home, done.stderr)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """An object, built where a module of the working folder has the name of the compiler."""
    folder = tmp_path_factory.mktemp("working-folder")
    (folder / "numba.py").write_text("raise RuntimeError('foreign code')")
    return compile_into(tmp_path_factory.mktemp("objects"), LOAD, folder=folder, **OBJECTS)


@pytest.fixture(scope="module")
def jitted(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """Kernels of two modules."""
    return compile_into(tmp_path_factory.mktemp("jit"), TWO, **JIT)


@pytest.fixture(scope="module")
def without_compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """A kernel where there is no C compiler."""
    home = tmp_path_factory.mktemp("no-compiler")
    return compile_into(home, LOAD, CC=str(home / "none"), **OBJECTS)


def damage(path: Path, content: bytes) -> None:
    path.unlink()  # the processes that have loaded it keep it
    path.write_bytes(content)


def test_objects_are_built_once_and_loaded_without_numba(built):
    assert built.said.count("compiling kernels for the first use") == 1
    again = run(LOAD + "import sys; print('numba' in sys.modules)", built.home, **OBJECTS)
    assert (again.stdout, again.stderr) == (f"{LOADED}False\n", "")


def test_no_module_of_the_working_folder_is_imported_by_a_build(built):
    assert "foreign" not in built.said
    assert list(built.home.rglob("*.so"))


def other_types(kernels: dict[str, list[list[str]]]) -> dict[str, list[list[str]]]:
    return {
        name: [[kind.replace("uint", "int") for kind in one] for one in types]
        for name, types in kernels.items()
    }


DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "empty so": lambda _: b"",
    "a quarter of the so": lambda whole: whole[: len(whole) // 4],
    "most of the so": lambda whole: whole[: int(0.9 * len(whole))],
    "empty json": lambda _: b"",
    "no kernels in the json": lambda whole: json.dumps(
        json.loads(whole) | {"kernels": {}}
    ).encode(),
    "other types in the json": lambda whole: json.dumps(
        json.loads(whole) | {"kernels": other_types(json.loads(whole)["kernels"])}
    ).encode(),
}
COPIED = """
import shutil
from neardup.kernels import object_cache
def build_for_cache(module):
    print("built", module)
    shutil.copytree({built!r}, {home!r}, dirs_exist_ok=True)
object_cache.build_for_cache = build_for_cache
"""
"""Instead of compiling, which takes long and is the same whatever was damaged."""


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("damaged", DAMAGED)
def test_damaged_object_is_built_again(tmp_path, built, damaged, compiled):
    home = built.copy(tmp_path / "cache")
    (file,) = home.rglob(f"*.{damaged.split()[-1]}")
    whole = file.read_bytes()
    damage(file, DAMAGED[damaged](whole))
    assert file.read_bytes() != whole
    building = "" if compiled else COPIED.format(built=str(built.home), home=str(home))
    done = run(building + LOAD, home, **OBJECTS)
    assert done.stdout == ("" if compiled else "built numbers\n") + LOADED, done.stderr
    assert len(file.read_bytes()) == len(whole)
    again = run(LOAD, home, **OBJECTS)
    assert (again.stdout, again.returncode, again.stderr) == (LOADED, 0, "")


def test_damaged_cache_of_the_jit_is_compiled_again(tmp_path, jitted):
    home = jitted.copy(tmp_path / "cache")
    for suffix in ("nbi", "nbc"):
        for file in list(home.rglob(f"numbers.*.{suffix}")):
            damage(file, b"")
        done = run(LOAD, home, **JIT)
        assert (done.stdout, done.returncode) == (LOADED, 0), done.stderr
    again = run(LOAD, home, **JIT)
    assert (again.stdout, again.returncode, again.stderr) == (LOADED, 0, "")


def test_jit_compiles_a_kernel_alone_into_the_folder_of_its_module(jitted):
    folders = {path.name.split("-")[0]: path for path in (jitted.home / "neardup").iterdir()}
    assert set(folders) == {"bloom", "numbers"}
    for module, kernel in (("bloom", "block_fills"), ("numbers", "number_rows")):
        compiled = {path.name.split("-")[0] for path in folders[module].rglob("*.nbc")}
        assert compiled == {f"{module}.{kernel}"}
    assert run(TWO, jitted.home, **JIT).stderr == "", "nothing is compiled again"


def test_folder_that_others_can_write_is_not_used(tmp_path):
    found = asked(XDG_CACHE_HOME=str(tmp_path))
    found.chmod(0o777)
    assert asked(XDG_CACHE_HOME=str(tmp_path)) != found
    found.chmod(0o700)
    assert asked(XDG_CACHE_HOME=str(tmp_path)) == found


def test_without_a_compiler_numba_compiles_into_the_process(without_compiler):
    assert list(without_compiler.home.rglob("*.nbc"))
    assert not list(without_compiler.home.rglob("*.so"))


def test_object_that_cannot_be_built_is_compiled_into_the_process(tmp_path, without_compiler):
    home = without_compiler.copy(tmp_path / "cache")
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho broken compiler >&2; exit 1\n")
    broken.chmod(0o755)
    done = run(LOAD, home, CC=str(broken), **OBJECTS)
    assert done.stdout == LOADED
    assert done.stderr.count("kernels are compiled by Numba, as objects") == 1
    again = run(LOAD, home, CC=str(broken), **OBJECTS)
    assert again.stdout == LOADED
    assert "neardup:" not in again.stderr, "it is not tried again"


WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
from neardup import errors, kernels
try: kernels.block_fills
except errors.NeardupError as error: print(error)
"""


def test_without_objects_and_without_numba_the_cure_is_named(tmp_path):
    assert "pip install 'neardup[jit]'" in run(WITHOUT_NUMBA, tmp_path, **JIT).stdout


def test_level_of_the_processor_is_one_that_llvm_knows(monkeypatch):
    flags = "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3 avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"
    for machine, known, level in (
        ("x86_64", flags, "x86-64-v3"),
        ("x86_64", flags + " avx512f avx512bw avx512cd avx512dq avx512vl", "x86-64-v4"),
        ("x86_64", flags.replace("bmi2", ""), "x86-64-v2"),
        ("x86_64", "avx512f avx512bw avx512cd avx512dq avx512vl", "generic"),
        ("aarch64", "", "generic"),
    ):
        monkeypatch.delenv("NEARDUP_CPU_LEVEL", raising=False)
        monkeypatch.setattr(shared_objects.platform, "machine", lambda here=machine: here)
        monkeypatch.setattr(shared_objects, "_processor_flags", lambda: set(known.split()))  # noqa: B023
        assert shared_objects.processor_level.__wrapped__() == level


@needs_objects
def test_modules_of_a_run_are_those_that_are_built_together(tmp_path):
    texts = tmp_path / "texts.jsonl"
    words = " ".join(f"word{i}" for i in range(60))
    texts.write_text("".join(f'{{"text": "{words} {i}"}}\n' for i in range(50)))
    code = (
        "import sys\nfrom neardup.kernels import object_cache\nfrom neardup.cli import main\n"
        "seen, find = set(), object_cache.find_object\n"
        "object_cache.find_object = lambda module: seen.add(module) or find(module)\n"
        f"sys.argv = ['neardup', 'dedup', {str(texts)!r}, '-o', {str(tmp_path / 'out')!r}]\n"
        "try: main()\n"
        "finally: print(*sorted(seen), file=sys.stderr)"
    )
    done = run(code, runtime.cache_home().parent)
    assert done.stderr.splitlines()[-1].split() == sorted(object_cache.RUN_MODULES)


FORK = """
import os, threading, time
from neardup import kernels
from neardup.kernels import object_cache
find = object_cache.find_object
loading = threading.Event()
def find_object(module):
    loading.set()
    time.sleep(0.3)
    return find(module)
object_cache.find_object = find_object
thread = threading.Thread(target=lambda: kernels.number_rows)
thread.start()
loading.wait()
child = os.fork()
if child == 0:
    kernels.number_rows
    os._exit(7)
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_child_forked_while_kernels_are_loaded_does_not_hang(built):
    assert run(FORK, built.home, **OBJECTS).stdout == "7\n"


def test_cache_of_a_kernel_module_covers_the_modules_that_it_imports():
    assert set(cache._sources("json_edit")) >= {
        "kernels.compile",
        "kernels.hashing",
        "kernels.jsonl",
        "kernels.lines",
    }
    assert "reference.json_records" in cache._sources("json_records")
    assert "kernels.jsonl" not in cache._sources("bands")


@needs_objects
def test_cache_of_objects_covers_how_they_are_built_and_called():
    assert {"kernels.object_build", "object_calls.c"} <= set(cache._sources("bands"))


def test_kernels_that_no_run_uses_are_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = tmp_path / "neardup"
    for name in ("bands-0123456789abcdef", "bands-fedcba9876543210", "trials"):
        (home / name / "inside").mkdir(parents=True)
    long_ago = time.time() - 31 * cache.DAY
    for name in ("bands-0123456789abcdef", "trials"):
        os.utime(home / name, (long_ago, long_ago))
    assert cache.remove_unused_kernels() == 1
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
    monkeypatch.setattr(cache, "is_kept", lambda module: kept)
    cache.announce("bands")
    cache.announce("bands")
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
