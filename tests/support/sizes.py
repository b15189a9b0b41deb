"""What `make test` runs of the parameters of a test; `make soak` runs all of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest


def full(*values: Any, **given: Any) -> Any:
    """Parameters that take long: those of the full size of a test."""
    return pytest.param(*values, marks=pytest.mark.slow, **given)


def each_once(*lists: Sequence[Any]) -> list[Any]:
    """All combinations; but for some in which every value occurs, they are of the full size."""
    longest = max(map(len, lists))
    few = {tuple(number % len(values) for values in lists) for number in range(longest)}
    return [
        (pytest.param if places in few else full)(
            *(values[place] for values, place in zip(lists, places, strict=True))
        )
        for places in product(*(range(len(values)) for values in lists))
    ]
