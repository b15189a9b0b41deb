"""gaoya: its own tokeniser in Rust (white space, lower case), query before insert.

Asked for 128 hashes, it chooses 21 bands of 6, which is 126 slots.
"""

from __future__ import annotations

from pathlib import Path

from gaoya.minhash import MinHashStringIndex
from gaoya.simhash import SimHashStringIndex
from harness import SLOTS, THRESHOLD, Contender, Decisions, documents, main


def index_of(**bands: int | None) -> MinHashStringIndex:
    return MinHashStringIndex(
        hash_size=32,
        jaccard_threshold=THRESHOLD,
        analyzer="word",
        lowercase=True,
        ngram_range=(5, 5),
        id_container="smallvec",
        **bands,
    )


def signatures(texts: list[str]) -> None:
    index = index_of(num_bands=16, band_size=SLOTS // 16)
    for start in range(0, len(texts), 1000):
        index.minhash_index.bulk_hash_docs(texts[start : start + 1000])


def fingerprints(texts: list[str]) -> None:
    index = SimHashStringIndex(analyzer="word", lowercase=True, ngram_range=(5, 5))
    for text in texts:
        index.index.doc2signature(text)


def run(path: Path) -> Decisions:
    index = index_of(num_bands=None, band_size=None, num_hashes=SLOTS)
    keys: list[str] = []
    for key, text in documents(path):
        if found := index.query(text):
            yield key, keys[found[0]]
        else:
            index.insert_document(len(keys), text)
            keys.append(key)


if __name__ == "__main__":
    notes = "white-space words; a text under 5 words has no shingle"
    main(Contender("gaoya", notes, signatures, None, run, fingerprints=fingerprints))
