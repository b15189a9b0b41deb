"""Second values and probe keys equal their slow twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup import RemovableMinHash, reference
from neardup.errors import ParameterError
from neardup.lsh.bands import Bands, probe_keys
from neardup.lsh.curve import Curve
from neardup.reference import sketches as slow
from neardup.spec import Spec


@given(st.sets(st.integers(0, 2**64 - 1), max_size=9), st.integers(1, 3))
def test_second_values_equal_their_twin(elements, spare):
    sketch = RemovableMinHash(17, spare=spare)
    sketch.update_hashes(np.array(sorted(elements), np.uint64))
    assert sketch.seconds.tolist() == slow.seconds(elements, Spec(slots=17))


def test_second_values_are_spare_values():
    with pytest.raises(ParameterError, match="spare=1"):
        RemovableMinHash(spare=0).seconds  # noqa: B018


@given(
    st.sets(st.integers(0, 2**64 - 1), min_size=1, max_size=6),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 20),
)
def test_probe_keys_equal_their_twin(elements, bands, rows, most):
    spec = Spec(slots=17)
    sig, second = reference.signature(elements, spec), slow.seconds(elements, spec)
    got = probe_keys(
        np.array(sig, np.uint32), np.array(second, np.uint32), Bands((Curve(bands, rows),)), most
    )
    assert got == slow.probe_keys(sig, second, bands, rows)[:most]
