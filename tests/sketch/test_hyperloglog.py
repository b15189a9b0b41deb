"""HyperLogLog: the order does not matter, and the library is asked for by name."""

from __future__ import annotations

import random

import pytest

from neardup import HyperLogLog
from neardup.errors import FormatError, ParameterError, UsageError
from neardup.sketch import base, hyperloglog


def of(found, **options):
    sketch = HyperLogLog(**options)
    sketch.update_batch(found)
    return sketch


def test_counts_do_not_depend_on_the_order():
    names = [str(i) for i in range(20_000)]
    sketch = of(names)
    random.Random(5).shuffle(names)
    parts = of(names[:9_000])
    parts.merge(of(names[5_000:]))
    assert sketch == of(names) == parts
    assert sketch.count() == of(names).count() == parts.count()


def test_bounds_enclose_the_count():
    sketch = of([str(i) for i in range(1_000)])
    for wide in (1, 2, 3):
        low, high = sketch.bounds(wide)
        assert low < sketch.count() < high
    assert sketch.bounds(1)[0] > sketch.bounds(3)[0]
    with pytest.raises(ParameterError, match="deviations"):
        sketch.bounds(4)


@pytest.mark.parametrize("registers", [0, 64, 1_000, 2**17, 4096.0])
def test_other_numbers_of_registers_are_refused(registers):
    with pytest.raises(ParameterError):
        HyperLogLog(registers)


def test_a_missing_library_is_named_with_its_install_command(monkeypatch):
    monkeypatch.setattr(hyperloglog, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'neardup\[sketches\]'"):
        HyperLogLog()


def test_invalid_contents_are_refused():
    sketch, small = of([*"abc"]), of([*"abc"], registers=128)
    payload = sketch._payload()
    for wrong in (
        payload[:-1],
        small._payload(),
        bytes(len(payload)),
        bytes(8) + payload[8:],
        payload[:40] + bytes(len(payload) - 40),
        *(payload[:at] + b"\x4f" + payload[at + 1 :] for at in range(45)),
    ):
        with pytest.raises(FormatError):
            HyperLogLog.from_bytes(base.pack_sketch(sketch.spec, wrong))
