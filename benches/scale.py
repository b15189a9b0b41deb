"""Predict what a billion documents take: the model of docs/scale.md, with measured figures.

    python benches/scale.py [--documents 1000000000] [--bytes 3000] [--memory 64GB] [--cores 32]
        [--disk 3GB]

Reads `benches/results/batch.json`, and writes the part of docs/scale.md between its marks.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from batch_figures import IN_ALL, MB, SKETCH_FILES
from contenders import HERE
from table import Row, Value, grid

from neardup.formatting import parse_bytes
from neardup.options import Options
from neardup.pipeline.stages.band import BYTES_PER_KEY
from neardup.pipeline.stages.rank import BYTES_PER_HASH, count_slice_bits

PAGE = HERE.parent / "docs" / "scale.md"
BEGIN, END = "<!-- filled in by benches/scale.py -->", "<!-- until here -->"
GB = 1e9
MEASURED_MEMORY = 4 * GB
BYTES_OF_A_WORD = 6
PARQUET_ROW = 60


@dataclass(frozen=True)
class Machine:
    cores: int
    memory: float
    disk: float
    """Bytes a second, read or written."""


@dataclass(frozen=True)
class Corpus:
    documents: float
    size: float
    """Bytes of a document."""


@dataclass(frozen=True)
class Measured:
    """What the formulas need; seconds are those of one core, unless only one can work."""

    sketch: float
    match: float
    filter: float
    tables: float
    rank: float
    band: float
    decide: float
    efficiency: float
    sketch_bytes: float
    bucket_bytes: float
    candidates: float
    pair_bytes: float
    removed: float


def measured(figures: Mapping[str, Sequence[Mapping[str, Value]]]) -> Measured:
    """From the figures "Both cores against one" and "20 million synthetic signatures"."""
    one, both, _ = _rows(figures, "Both cores")
    stages = {row["stage"]: row for row in _rows(figures, "20 million")}
    seconds = {name: row.get("seconds") for name, row in stages.items()}
    size = {name: row.get("bytes a document") for name, row in stages.items()}
    count, cores = stages[IN_ALL]["documents"], stages[IN_ALL]["cores"]
    slices = 1 << count_slice_bits(count, BYTES_PER_KEY, int(MEASURED_MEMORY / (2 * cores)))
    set_bytes = 4 * Options().spec.slots + 24
    return Measured(
        sketch=one["sketch"] / one["MB read"],
        match=one["match"] / one["MB read"],
        filter=one["filter"] / one["MB read"],
        tables=one["tables"] / one["documents"],
        rank=seconds["rank"] / count,
        band=cores * seconds["band"] / count / slices,
        decide=max(seconds["decide"] / count, both["decide"] / both["documents"]),
        efficiency=one["seconds"] / both["seconds"] / cores,
        sketch_bytes=size[SKETCH_FILES],
        bucket_bytes=size["band"] - size["rank"],
        candidates=(size["match"] - size["band"]) / set_bytes,
        pair_bytes=size["decide"] - size["match"],
        removed=one["removed"] / one["documents"],
    )


def _rows(
    figures: Mapping[str, Sequence[Mapping[str, Value]]], begins: str
) -> Sequence[Mapping[str, Value]]:
    found = [rows for title, rows in figures.items() if title.startswith(begins)]
    if not found:
        sys.exit(f"the figure {begins!r} has not been measured: see benches/README.md")
    return found[0]


def stages(corpus: Corpus, machine: Machine, seen: Measured) -> list[Row]:
    """Each stage's time, bytes and memory; the slower of processor and disk counts."""
    n, text = corpus.documents, corpus.documents * corpus.size
    curve = Options().curve
    free = machine.memory - n
    # As in `band_documents`: fewer threads rather than slices.
    workers = max(min(machine.cores, curve.bands, int(free // (n * BYTES_PER_KEY * 2))), 1)
    hash_slices = 1 << count_slice_bits(int(n), BYTES_PER_HASH, int(free / 2))
    band_slices = 1 << count_slice_bits(int(n), BYTES_PER_KEY, int(free / (2 * workers)))
    fast = machine.cores * seen.efficiency
    candidates = seen.candidates * n
    sets = candidates * (8 * corpus.size / BYTES_OF_A_WORD + 24)
    sketches, buckets, pairs = seen.sketch_bytes * n, seen.bucket_bytes * n, seen.pair_bytes * n
    small = 0.5 * GB
    rows = [
        ("sketch", seen.sketch * text / MB / fast, text, sketches, small),
        ("rank", seen.rank * n * hash_slices, 20 * n * hash_slices, 0, machine.memory / 2),
        (
            "band",
            seen.band * n * band_slices / (workers * seen.efficiency),
            4 * curve.slots * n * band_slices,
            buckets,
            machine.memory / 2 + n,
        ),
        ("match", seen.match * text / MB / fast, text + 16 * n, sets, small + n),
        ("decide", seen.decide * n, 2 * buckets + 2 * sets, 2 * pairs, machine.memory / 2 + 2 * n),
        ("tables", seen.tables * n, 0, PARQUET_ROW * seen.removed * n, small + n),
        ("filter", seen.filter * text / MB, text, text * (1 - seen.removed), small + n),
    ]
    return [_row(*row, machine) for row in rows]


def _row(
    name: str, seconds: float, read: float, written: float, memory: float, machine: Machine
) -> Row:
    disk = (read + written) / machine.disk
    return {
        "stage": name,
        "hours": max(seconds, disk) / 3600,
        "of the processor": seconds / 3600,
        "of the disk": disk / 3600,
        "GB read": read / GB,
        "GB written": written / GB,
        "GB in memory, at most": memory / GB,
    }


def filled(corpus: Corpus, machine: Machine, seen: Measured) -> str:
    rows = stages(corpus, machine, seen)
    total = {name: sum(row[name] for row in rows) for name in ("hours", "GB read", "GB written")}
    inputs = [{"measured": name, "value": value} for name, value in asdict(seen).items()]
    head = (
        f"{corpus.documents:,.0f} documents of {corpus.size:,.0f} bytes, {machine.cores} cores, "
        f"{machine.memory / GB:,.0f} GB for the run, {machine.disk / GB:g} GB/s:"
    )
    return "\n".join(
        ["", *grid(inputs), "", head, "", *grid([*rows, {"stage": "all", **total}]), ""]
    )


def put(page: str, begin: str, text: str) -> str:
    """The page with another text between two marks."""
    before, rest = page.split(begin)
    return f"{before}{begin}\n{text}\n{END}{rest.split(END, 1)[1]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=float, default=1e9)
    parser.add_argument("--bytes", type=float, default=3000)
    parser.add_argument("--cores", type=int, default=32)
    parser.add_argument("--memory", default="64GB", help="of the machine; a quarter stays free")
    parser.add_argument("--disk", default="3GB", help="a second")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    args = parser.parse_args()
    figures = json.loads((args.results / "batch.json").read_text())["figures"]
    seen = measured({figure["title"]: figure["rows"] for figure in figures})
    machine = Machine(args.cores, 0.75 * parse_bytes(args.memory), parse_bytes(args.disk))
    text = filled(Corpus(args.documents, args.bytes), machine, seen)
    PAGE.write_text(put(PAGE.read_text(), BEGIN, text))
    print(text)


if __name__ == "__main__":
    main()
