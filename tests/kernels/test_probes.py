"""Second values and probe keys equal their slow twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup import kernels, reference
from neardup.lsh.curve import Curve
from neardup.lsh.probes import probe_keys
from neardup.lsh.tables import Bands
from neardup.reference import probes as slow
from neardup.spec import Spec


@pytest.mark.parametrize("kind", [np.uint32, np.uint64])
@given(st.integers(0, 9), st.integers(1, 9), st.randoms(use_true_random=False))
def test_the_two_least_values_of_each_column(kind, rows, columns, random):
    most = int(np.iinfo(kind).max)
    values = [[random.choice([0, 1, 2, 3, most]) for _ in range(columns)] for _ in range(rows)]
    got = kernels.two_least(np.array(values, kind).reshape(rows, columns))
    for column in range(columns):
        found = sorted({row[column] for row in values} | {most})
        assert got[:, column].tolist() == [found[0], found[min(1, len(found) - 1)]]


@given(
    st.sets(st.integers(0, 2**64 - 1), min_size=1, max_size=6),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 20),
)
def test_probe_keys(elements, bands, rows, most):
    spec = Spec(slots=17)
    sig, second = reference.signature(elements, spec), slow.seconds(elements, spec)
    got = probe_keys(
        np.array(sig, np.uint32), np.array(second, np.uint32), Bands((Curve(bands, rows),)), most
    )
    assert got == slow.probe_keys(sig, second, bands, rows)[:most]
