"""Build the source archive and the wheel in dist/, check them, and try the wheel as a user would.

Nothing is uploaded. The version must have a section in CHANGELOG.md and be the one of CITATION.cff;
twine reads the metadata; the wheel must hold the licence, compiled kernels and nothing but the
package; in a new virtual environment, without Numba, it must be imported, say its version and
deduplicate a small file without compiling anything.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
TEXT = " ".join(f"word{number}" for number in range(100))
ROWS = [
    {"id": "a", "text": TEXT},
    {"id": "b", "text": TEXT + " and more"},
    {"id": "c", "text": "Another text altogether."},
]


def run(*command: str | Path, folder: Path = ROOT) -> str:
    print("+", *command, flush=True)
    # The wheel is what is tried, not the sources of a caller's PYTHONPATH.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def read_version() -> str:
    """The version of the package, which the changelog and the citation must name too."""
    source = (ROOT / "src/neardup/__init__.py").read_text("utf-8")
    found = re.search(r'^__version__ = "(.+)"$', source, re.M)
    assert found, "src/neardup/__init__.py has no __version__"
    version = found[1]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"\n## {version} " in changelog, f"CHANGELOG.md has no section for {version}"
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {version}\n" in citation, f"CITATION.cff does not name {version}"
    return version


def check_contents(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.endswith("/LICENSE") for name in names), "the wheel has no LICENSE"
    assert "neardup/py.typed" in names, "the wheel has no py.typed"
    foreign = {name.split("/")[0] for name in names if ".dist-info/" not in name} - {"neardup"}
    assert any(name.startswith("neardup/kernels/objects/") for name in names), "it has no kernels"
    assert not foreign, f"the wheel holds {', '.join(sorted(foreign))}"


def try_wheel(wheel: Path, version: str) -> None:
    """Install the wheel in a new environment and do the main job with it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(sys.executable, "-m", "venv", folder / "venv")
        python, neardup = folder / "venv/bin/python", folder / "venv/bin/neardup"
        run(python, "-m", "pip", "install", "--quiet", wheel)
        assert run(neardup, "--version").strip() == f"neardup {version}"
        program = "import neardup; print(neardup.dedup(['a text', 'A text!', 'two']).kept)"
        assert run(python, "-c", program, folder=folder).strip() == "[0, 2]"
        rows = folder / "rows.jsonl"
        rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
        run(neardup, "dedup", rows, "-o", folder / "clean", "--quiet", folder=folder)
        kept = (folder / "clean/kept/rows.jsonl").read_text("utf-8").splitlines()
        assert [json.loads(line)["id"] for line in kept] == ["a", "c"]
        assert (folder / "clean/report.html").is_file()
        missing = "import importlib.util as u; print(u.find_spec('numba'))"
        assert run(python, "-c", missing).strip() == "None", "the wheel brings Numba"
        assert "came with the package" in run(neardup, "warm-up")


def main() -> None:
    version = read_version()
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST)
    archives = sorted(DIST.iterdir())
    run(sys.executable, "-m", "twine", "check", "--strict", *archives)
    (wheel,) = DIST.glob(f"neardup-{version}-*.whl")
    check_contents(wheel)
    try_wheel(wheel, version)
    for archive in archives:
        print(f"{archive.relative_to(ROOT)}   {archive.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
