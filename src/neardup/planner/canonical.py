"""When are two configurations the same? A text that says so, and a hash of it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, Final

from neardup.errors import ParameterError

BYTES: Final = 16


def canonical(config: Mapping[str, Any]) -> str:
    """A configuration as text: the same for the same values, in whatever order and kind of number.

    >>> canonical({"rows": 5.0, "threshold": 0.80}) == canonical({"threshold": 0.8, "rows": 5})
    True
    """
    return json.dumps(plain(config), sort_keys=True, separators=(",", ":"))


def plain(value: Any) -> Any:
    """The same value in the kinds that JSON knows; whole numbers are integers."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and math.isfinite(value):
        number = float(value)
        return int(number) if number.is_integer() else number
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: plain(each) for name, each in value.items()}
    kind = "a number that is not finite" if isinstance(value, Real) else type(value).__name__
    raise ParameterError(
        f"a configuration can't hold {kind}: give names with texts, finite numbers, lists or null"
    )


def key_of(config: Mapping[str, Any]) -> str:
    """The name of a configuration."""
    return digest(canonical(config))


def digest(text: str, size: int = BYTES) -> str:
    """BLAKE2b of ASCII, 128 bits unless told otherwise."""
    return hashlib.blake2b(text.encode("ascii"), digest_size=size).hexdigest()
