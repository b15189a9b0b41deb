"""Which further buckets does a query look into? The slow truth of multi-probing."""

from __future__ import annotations

from collections.abc import Sequence

from neardup.reference.sketches import EMPTY_SLOT, band_keys, permutation
from neardup.spec import Spec


def seconds(elements: set[int], spec: Spec) -> list[int]:
    """Each slot's value of k-hash MinHash without the element of its least one."""
    found = []
    for slot in range(spec.slots):
        a, b = permutation(slot, spec.seed)
        values = sorted((a * x + b) % 2**32 for x in elements)
        found.append(values[1] if len(values) > 1 else EMPTY_SLOT)
    return found


def probe_keys(
    sig: Sequence[int], second: Sequence[int], bands: int, rows: int
) -> list[tuple[int, int]]:
    """Every probe, a band and a key: one slot's value replaced by the second. In the order of the
    sum of the band's values; ties by slot."""
    found = []
    for slot in range(bands * rows):
        if second[slot] != EMPTY_SLOT:
            band = slot // rows
            probe = [*sig[:slot], second[slot], *sig[slot + 1 :]]
            total = sum(probe[band * rows : (band + 1) * rows])
            found.append((total, slot, band, band_keys(probe, bands, rows)[band]))
    return [(band, key) for _, _, band, key in sorted(found)]
