"""How fast JSON arrays become documents, and in how much memory, on one core.

The same records, of about 2 KB, as JSON lines, an array on one line, a pretty-printed array,
objects that are pretty-printed one after another, and JSON lines in UTF-16; beside orjson, which
reads an array as a whole. The rate is stored bytes by processor time, the memory that of a process
of its own; the best of three counts. Every file is read a second time with half of its records:
the memory of a reader that streams is the same.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
from table import Figure, Row
from ways import InputBench

from neardup.corpus.documents import Columns
from neardup.corpus.inputs import find_inputs
from neardup.corpus.read import parse_chunk, read_chunks

WORDS = (
    "the",
    "of",
    "page",
    "archive",
    "naïve",
    "Straße",
    "about",
    '"results"',
    "line\n",
    "日本語",
)


def records(size: int) -> Iterator[dict[str, object]]:
    rng, made, number = random.Random(1), 0, 0
    while made < size:
        text = " ".join(rng.choices(WORDS, k=rng.randrange(100, 500)))
        made, number = made + len(text.encode()), number + 1
        yield {"id": number, "text": text, "meta": {"tags": ["a", "b"], "score": 0.5}}


def plain(one: object) -> str:
    return json.dumps(one, ensure_ascii=False)


def pretty(one: object) -> str:
    return json.dumps(one, ensure_ascii=False, indent=2)


# Layout -> encoding, how a record is written, and what is before, between and after the records.
LAYOUTS: dict[str, tuple[str, Callable[[object], str], str, str, str]] = {
    "lines.jsonl": ("utf-8", plain, "", "\n", "\n"),
    "array.json": ("utf-8", plain, "[", ", ", "]"),
    "pretty.json": ("utf-8", pretty, "[\n", ",\n", "\n]\n"),
    "objects.json": ("utf-8", pretty, "", "\n", "\n"),
    "wide.jsonl": ("utf-16-le", plain, "", "\n", "\n"),
}


def make(path: Path, size: int) -> None:
    encoding, write, before, between, after = LAYOUTS[path.name]
    with path.open("w", encoding=encoding, newline="") as file:
        for number, one in enumerate(records(size)):
            file.write(between if number else before)
            file.write(write(one))
        file.write(after)


def by_neardup(path: Path) -> int:
    (file,) = find_inputs([path], encoding=LAYOUTS[path.name][0])
    columns = Columns()
    return sum(len(parse_chunk(chunk, columns)) for chunk in read_chunks(file, columns))


def by_orjson(path: Path) -> int:
    return len([record["text"] for record in orjson.loads(path.read_bytes())])


READERS = {"neardup": by_neardup, "orjson": by_orjson}


def measure(reader: str, path: Path) -> tuple[float, float, int]:
    """MB/s, MB of memory at most, and documents, of a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, reader, str(path)], capture_output=True, check=True
    )
    seconds, memory, documents = json.loads(done.stdout)
    return path.stat().st_size / seconds / 1e6, memory / 1e6, documents


def run(reader: str, path: Path) -> None:
    best, documents = float("inf"), 0
    for _ in range(3):
        begun = time.process_time()
        documents = READERS[reader](path)
        best = min(best, time.process_time() - begun)
    # Not ru_maxrss, which begins with the memory of the process that started this one.
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    print(json.dumps([best, peak, documents]))


def json_files(bench: InputBench) -> Figure:
    """Each layout with half of the records, for the memory, and with all."""
    rows: list[Row] = []
    for name in LAYOUTS:
        path = bench.work / name
        readers = ("neardup", "orjson") if name in ("array.json", "pretty.json") else ("neardup",)
        make(path, bench.size * 500_000)
        half = {reader: measure(reader, path)[1] for reader in readers}
        make(path, bench.size * 1_000_000)
        for reader in readers:
            rate, memory, documents = measure(reader, path)
            rows.append(
                {
                    "file": name,
                    "reader": reader,
                    "documents": documents,
                    "MB/s": rate,
                    "memory MB": memory,
                    "with half of the records": half[reader],
                }
            )
        path.unlink()
    ours = [row for row in rows if row["reader"] == "neardup"]
    return Figure(
        "JSON files",
        f"records of about 2 KB, {bench.size} MB of text; from bytes to documents, one core; MB/s "
        "of processor time, the best of three",
        rows,
        {
            "100 MB/s a core, every layout": all(float(row["MB/s"] or 0) >= 100 for row in ours),
            "memory does not grow with the file, within 10 %": all(
                float(row["memory MB"] or 0) <= 1.1 * float(row["with half of the records"] or 0)
                for row in ours
            ),
        },
    )


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]))  # one measurement, in a process of its own
