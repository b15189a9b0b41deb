"""The Java library, compiled once for all tests of a worker."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.java import compile_client


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_client(tmp_path_factory.mktemp("java"))
