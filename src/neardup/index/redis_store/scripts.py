"""The Lua scripts that Redis runs; each is a file in `scripts/`, which says what it does.

When the memory is full (maxmemory), no document is begun any more; what was begun is finished, and
documents can be removed: those scripts have the flag allow-oom.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import NamedTuple


class Script(NamedTuple):
    """A script, and the digest that Redis knows it by."""

    name: str
    source: bytes
    digest: bytes

    @classmethod
    def of_source(cls, name: str, source: bytes) -> Script:
        return cls(name, source, sha1(source, usedforsecurity=False).hexdigest().encode())

    @property
    def writes(self) -> bool:
        """Whether it may change something."""
        return b"no-writes" not in self.source.partition(b"\n")[0]

    @property
    def allowing_oom(self) -> Script:
        """The script, to be run also when the memory is full."""
        return self.of_source(self.name, b"#!lua flags=allow-oom\n" + self.source)


@cache
def load_script(name: str) -> Script:
    """Return the script of a file in `scripts/`."""
    source = files(__package__).joinpath("scripts", f"{name}.lua").read_bytes()
    return Script.of_source(name, source)
