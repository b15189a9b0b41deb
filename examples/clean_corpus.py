"""Clean a JSONL corpus: cut repeated notices, remove near-duplicates, say why each page went.

    python examples/clean_corpus.py [FOLDER]

Two commands over files, which work the same for a hundred million pages: `neardup exact` cuts lines
that stand in other pages too, `neardup dedup` keeps the best-rated copy of each page.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

NOTICE = "All rights reserved. No page of this site may be copied without permission."


def write_corpus(path: Path) -> None:
    """400 pages with the same notice; every fourth one has a copy with one word changed."""
    chance = random.Random(1)
    words = [f"word{number}" for number in range(3_000)]
    rows = []
    for number in range(400):
        page = chance.choices(words, k=120)
        rows.append((f"page-{number}", page))
        if number % 4 == 0:
            rows.append((f"copy-{number}", [*page[:-1], "changed"]))
    with path.open("w", encoding="utf-8") as file:
        for id, page in rows:
            row = {"id": id, "text": f"{' '.join(page)}\n{NOTICE}\n", "score": chance.random()}
            file.write(json.dumps(row) + "\n")


def neardup(*arguments: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "neardup", *arguments], check=True)


def main(folder: Path) -> None:
    corpus = folder / "pages.jsonl"
    write_corpus(corpus)

    neardup("exact", corpus, "-o", folder / "shorter", "--unit", "line", "--quiet")
    shorter = folder / "shorter/kept/pages.jsonl"
    neardup("dedup", shorter, "-o", folder / "clean", "--keep", "max:score", "--quiet")

    counts = json.loads((folder / "clean/run.json").read_text("utf-8"))["counts"]
    print(f"{counts['documents']} pages, {counts['kept']} kept, {counts['removed']} removed")
    for row in pq.read_table(folder / "clean/removed.parquet").slice(0, 3).to_pylist():
        print(f"  {row['id']} is {row['similarity']:.2f} similar to {row['witness']}")

    with (folder / "clean/kept/pages.jsonl").open(encoding="utf-8") as file:
        kept = [json.loads(line) for line in file]
    assert sum(NOTICE in row["text"] for row in kept) <= 1
    assert len(kept) == 400


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as name:
            main(Path(name))
