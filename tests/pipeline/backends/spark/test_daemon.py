"""The daemon of Spark's Python workers loads kernels by name."""

from __future__ import annotations

from neardup import kernels
from neardup.pipeline.backends.spark import daemon


def test_kernels_that_the_daemon_loads_exist() -> None:
    there = {name for names in kernels.KERNELS.values() for name in names}
    assert set(daemon.KERNELS) <= there
