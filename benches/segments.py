"""When does `--segment icu` pay? The table of docs/text.md.

    python benches/segments.py --data DIR

Of the pages of the Debian installation guide in Chinese, Japanese and Korean (it has none in Thai
or Khmer): how fast texts are cut and hashed, how many shingles a page has, how similar a page stays
to a copy in which 1 % of the letters are others, below which similarity 95 % of the pairs of other
pages are (label 0), and the best F1 of any threshold for these and the pairs of the same page for
two architectures (label 1).
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path
from statistics import median
from typing import Any

import languages
import orjson
import pyarrow as pa

import neardup
from neardup.evaluation.lab import as_documents
from neardup.options import specify
from neardup.sketcher import Sketcher

LANGUAGES = ("ja", "zh_CN", "ko")
POINTS: tuple[dict[str, Any], ...] = (
    {"shingle": "word:5"},
    {"shingle": "word:5", "segment": "icu"},
    {"shingle": "word:3", "segment": "icu"},
    {"shingle": "char:5"},
    {"shingle": "word:1"},
    {"shingle": "word:1", "segment": "icu"},
)


def labelled(data: Path, language: str) -> list[tuple[str, str, bool]]:
    """Return the labelled pairs of pages that are both in this language."""
    path = str(data / "debian_install_guide.documents.jsonl.zst")
    with pa.CompressedInputStream(path, "zstd") as lines:
        rows = map(orjson.loads, lines.read().splitlines())
        texts = {row["id"]: row["text"] for row in rows if row["lang"] == language}
    pairs = (line.split("\t") for line in (data / "debian_install_guide.pairs.tsv").open())
    return [
        (texts[a], texts[b], label == "1") for a, b, label, *_ in pairs if a in texts and b in texts
    ]


def best_f1(scored: list[tuple[float, bool]]) -> float:
    """Return the best F1 of any threshold."""
    positive, found, best = sum(label for _, label in scored), 0, 0.0
    ordered = sorted(scored, reverse=True)
    for place, (score, label) in enumerate(ordered, 1):
        found += label
        if place == len(ordered) or ordered[place][0] < score:
            best = max(best, 2 * found / (place + positive))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    data = parser.parse_args().data
    print("| language | shingle | MB/s | shingles a page | 1 % changed | other pages | best F1 |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    draw = random.Random(1)
    by_language = languages.pages(data, draw)
    for language in LANGUAGES:
        texts, pairs = by_language[language], labelled(data, language)
        copies = [languages.edited(text, draw) for text in texts]
        for point in POINTS:
            sketcher = Sketcher(specify(**point))
            many = as_documents([text for pair in pairs for text in pair[:2]])
            sketcher.cut(many)
            began = time.thread_time()
            cut = sketcher.cut(many)
            rate = many.texts.nbytes / 1e6 / (time.thread_time() - began)
            changed = median(
                neardup.similarity(one, other, **point)
                for one, other in zip(texts, copies, strict=True)
            )
            scored = [(neardup.similarity(a, b, **point), same) for a, b, same in pairs]
            others = sorted(score for score, same in scored if not same)
            below = others[len(others) * 95 // 100]
            name = " ".join(f"{value}" for value in point.values())
            print(
                f"| {language} | `{name}` | {rate:.0f} | {median(cut.shingles.sizes):.0f} | "
                f"{changed:.2f} | {below:.2f} | {best_f1(scored):.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
