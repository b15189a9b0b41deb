"""datasketch: `MinHash.generator` with a fast hash function, query before insert."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from datasketch import MinHash, MinHashLSH
from harness import SLOTS, THRESHOLD, Contender, Decisions, batches, main, shingles
from xxhash import xxh32_intdigest


def sketches(texts: list[str]) -> Iterator[MinHash]:
    return MinHash.generator(map(shingles, texts), num_perm=SLOTS, hashfunc=xxh32_intdigest)


def signatures(texts: list[str]) -> None:
    for _ in sketches(texts):
        pass


def run(path: Path) -> Decisions:
    index = MinHashLSH(threshold=THRESHOLD, num_perm=SLOTS)
    for batch in batches(path):
        for (key, _), sketch in zip(batch, sketches([text for _, text in batch])):
            if found := index.query(sketch):
                yield key, found[0]
            else:
                index.insert(key, sketch)


if __name__ == "__main__":
    main(
        Contender(
            "datasketch", "xxh32 elements; bands chosen by the library", signatures, None, run
        )
    )
