"""The hand-written types of the JavaScript client, as TypeScript reads them."""

from __future__ import annotations

import shutil
import sys
import warnings
from pathlib import Path

import pytest
from support.javascript import CLIENT, run_node

TSC = Path(sys.prefix) / "typescript/package/lib/tsc.js"
"""Where `make setup` puts it."""
USAGE = Path(__file__).with_name("typed_usage.ts")


def test_types_are_those_of_the_usage(tmp_path: Path) -> None:
    if not TSC.exists():
        missing = "no TypeScript (make setup, with npm): types of clients/js are not checked"
        warnings.warn(missing, stacklevel=2)
        pytest.skip(missing)
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules/neardup").symlink_to(CLIENT)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copy(USAGE, tmp_path)
    options = "--noEmit --strict --target es2022 --lib es2022,dom --module nodenext"
    run = run_node(TSC, *options.split(), tmp_path / USAGE.name)
    assert run.returncode == 0, run.stdout
