"""The benchmark's corpora as plain JSONL and NumPy files in a work folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
from exact import write_pairs
from harness import WORD, documents

KERNEL_DOCUMENTS = 50_000


@dataclass(frozen=True)
class Corpora:
    """`rfc` is the corpus of the whole run, `rfc_start` that a tenth of its size."""

    rfc: Path
    rfc_pairs: Path
    rfc_start: Path
    guide: Path
    tweets: Path
    tweets_judged: Path
    tweets_pairs: Path
    few: Path


def unpack(data: Path, work: Path, small: bool) -> Corpora:
    """Decompress what the figures need; `small` takes a tenth of it."""
    start = plain(data / "rfc_10k.jsonl.zst", work / "rfc_10k.jsonl")
    rfc = start if small else plain(data / "rfc_100k.jsonl.zst", work / "rfc_100k.jsonl")
    tweets = data / "tweets_1m.jsonl.zst"
    judged = plain(tweets, work / "tweets_110k.jsonl", 110_000)
    return Corpora(
        rfc=rfc,
        rfc_pairs=data / ("rfc_10k.exact.tsv" if small else "rfc_100k.exact.tsv.zst"),
        rfc_start=start,
        guide=plain(data / "debian_install_guide.documents.jsonl.zst", work / "guide.jsonl"),
        tweets=plain(tweets, work / "tweets_100k.jsonl", 100_000)
        if small
        else plain(tweets, work / "tweets_1m.jsonl"),
        tweets_judged=judged,
        tweets_pairs=work / "tweets_110k.exact.tsv",
        few=plain(data / "rfc_10k.jsonl.zst", work / "few.jsonl", 10),
    )


def judged_tweets(corpora: Corpora) -> Path:
    """The exact pairs of the judged tweets, joined on first use (about 20 seconds)."""
    if not corpora.tweets_pairs.exists():
        write_pairs(corpora.tweets_judged, corpora.tweets_pairs)
    return corpora.tweets_pairs


def hashed_shingles(corpus: Path, seed: int = 1) -> tuple[Path, Path]:
    """Random 64-bit shingles, as many a document as the corpus has: speed needs no more."""
    values, rows = corpus.with_suffix(".shingles.npy"), corpus.with_suffix(".offsets.npy")
    if not rows.exists():
        offsets = np.cumsum([0, *islice(_shingle_counts(corpus), KERNEL_DOCUMENTS)], dtype=np.int64)
        rng = np.random.default_rng(seed)
        np.save(values, rng.integers(0, 2**64, offsets[-1], dtype=np.uint64))
        np.save(rows, offsets)
    return values, rows


def _shingle_counts(corpus: Path) -> Iterator[int]:
    return (max(1, len(WORD.findall(text)) - 4) for _, text in documents(corpus))


def plain(source: Path, target: Path, count: int | None = None) -> Path:
    """A decompressed copy, or its first `count` documents."""
    if not target.exists():
        part = target.with_suffix(".part")
        with pa.input_stream(str(source), compression="detect") as stream, part.open("wb") as out:
            out.writelines(islice(_lines(stream), count))
        part.rename(target)
    return target


def _lines(stream: pa.NativeFile) -> Iterator[bytes]:
    rest = b""
    while block := stream.read(1 << 24):
        *whole, rest = (rest + block).split(b"\n")
        yield from (line + b"\n" for line in whole)
    if rest:
        yield rest


def count_of(corpus: Path) -> int:
    with corpus.open("rb") as lines:
        return sum(1 for _ in lines)


def describe(corpus: Path) -> str:
    return f"{corpus.name}, {count_of(corpus):,} documents, {corpus.stat().st_size / 1e6:,.0f} MB"
