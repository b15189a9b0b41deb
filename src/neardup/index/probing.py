"""More buckets for a query: those that it would be in, had it not one of its shingles.

See `lsh/probes.py`. Only who asks looks there. Documents are added by the buckets that they are in,
or the answer would not be that of a batch run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neardup.errors import ParameterError
from neardup.index.deciding import Arrivals, Probes
from neardup.index.known import Signing
from neardup.index.tables.postings import Integers
from neardup.keys import Key
from neardup.lsh.probes import probe_keys
from neardup.lsh.tables import Bands
from neardup.sketch.removable import RemovableMinHash
from neardup.spec import whole


@dataclass(frozen=True)
class Probing:
    """Up to `most` more buckets for each text."""

    signing: Signing
    key: Key | None
    most: int

    def __post_init__(self) -> None:
        spec = self.signing.options.spec
        whole("probes", self.most, 1, spec.slots)
        if (spec.sketch, spec.family, spec.narrow) != ("minhash", "affine32", False):
            raise ParameterError(
                "probes are for whole slots of a minhash of the family affine32: leave them out"
            )

    def of(self, arrivals: Arrivals, chosen: Integers) -> Probes:
        """The buckets of the chosen texts."""
        listed = [
            (place, keys)
            for place, row in enumerate(chosen.tolist())
            for keys in self._keys(arrivals, row)
        ]
        keys = np.array([keys for _, keys in listed], np.uint64)
        return Probes(
            np.array([place for place, _ in listed], np.int64),
            keys.reshape(-1, arrivals.keys.shape[1]),
        )

    def _keys(self, arrivals: Arrivals, row: int) -> list[Integers]:
        """A look-up takes one key for each table: the n-th has every table's n-th probe."""
        shingles, bands = arrivals.shingles, self.signing.tables
        assert shingles is not None and isinstance(bands, Bands)  # noqa: S101  # a minhash of texts
        sketch = RemovableMinHash(spare=1, spec=self.signing.options.spec, key=self.key)
        sketch.update_hashes(shingles.data[shingles.offsets[row] : shingles.offsets[row + 1]])
        found: list[Integers] = []
        turns = [0] * bands.count
        for table, key in probe_keys(arrivals.compared[row], sketch.seconds, bands, self.most):
            if turns[table] == len(found):
                found.append(arrivals.keys[row].copy())
            found[turns[table]][table] = key
            turns[table] += 1
        return found
