"""Predict what a billion documents take: the model of docs/scale.md, with measured figures; and
what 300 million pages take in an index on Redis, by `neardup plan`.

    python benches/scale.py [--documents 1000000000] [--bytes 3000] [--memory 64GB] [--cores 32]
        [--disk 3GB] [--only batch,redis]

Reads `benches/results/batch.json` and `redis.json`, and writes the parts of docs/scale.md between
its marks.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from batch_figures import IN_ALL, MB
from contenders import HERE
from table import Row, Value, grid

from neardup import HashRing, plan
from neardup.formatting import format_bytes, parse_bytes
from neardup.options import Options
from neardup.pipeline.stages.band import BYTES_PER_KEY
from neardup.pipeline.stages.rank import BYTES_PER_HASH, count_slice_bits
from neardup.pipeline.stages.tables import BYTES_PER_FILE
from neardup.planner.planner import Plan

PAGE = HERE.parent / "docs" / "scale.md"
BEGIN, END = "<!-- filled in by benches/scale.py -->", "<!-- until here -->"
ONLINE = "<!-- the index on Redis, filled in by benches/scale.py -->"
PAGES: Final = 300_000_000
ARRIVING: Final = 5_000
GB = 1e9
MEASURED_MEMORY = 4 * GB
BYTES_OF_A_WORD = 6
PARQUET_ROW = 60
STORED_KEY, BESIDES_KEYS, HASHED = 8, 60, 40
"""Bytes of a document in sketch files: a band's key, all but the keys; those that ranking reads."""


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
    keys = STORED_KEY * curve.bands * n
    buckets, pairs = seen.bucket_bytes * n, seen.pair_bytes * n
    small = 0.5 * GB
    rows = [
        ("sketch", seen.sketch * text / MB / fast, text, keys + BESIDES_KEYS * n, small),
        ("rank", seen.rank * n * hash_slices, HASHED * n * hash_slices, 0, machine.memory / 2),
        (
            "band",
            seen.band * n * band_slices / (workers * seen.efficiency),
            keys * band_slices,
            buckets,
            machine.memory / 2 + n,
        ),
        ("match", seen.match * text / MB / fast, text + 16 * n, sets, small + n),
        ("decide", seen.decide * n, 2 * buckets + 2 * sets, 2 * pairs, machine.memory / 2 + 2 * n),
        ("tables", seen.tables * n, 0, PARQUET_ROW * seen.removed * n, small + n),
        (
            "filter",
            seen.filter * text / MB / min(fast, free / BYTES_PER_FILE),
            text,
            text * (1 - seen.removed),
            small + n,
        ),
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


def online(figures: Mapping[str, Sequence[Mapping[str, Value]]]) -> str:
    """300 million pages of 300 shingles that arrive in an index, on machines of 100 GB."""
    asked = {
        "documents": PAGES,
        "threshold": 0.85,
        "recall": 0.95,
        "shingles": 300,
        "rate": ARRIVING,
        "memory": "100GB",
        "cores": 4,
        "calibrate": False,
    }
    folder, made = plan(**asked), plan(**asked, engine="redis")
    size = made.redis
    assert size is not None
    masters = [f"m{at}" for at in range(size.masters + 1)]
    moved = HashRing.moved(HashRing(masters[:-1]), HashRing(masters))
    tweets = next(
        row for row in _rows(figures, "Tweets into") if "batches of 256, one" in str(row["tool"])
    )
    usable = 0.75 * 100 * GB
    busy = size.server_seconds * ARRIVING
    rows = [
        ("operating point", _point(made), "neardup plan"),
        (
            "bytes of a page",
            f"{size.document:,.0f}",
            f"2,400 of them shingles; tweets have {tweets['bytes a document']:,.0f}, measured",
        ),
        ("all pages", format_bytes(size.data), f"{PAGES:,} x {size.document:,.0f}"),
        (
            "masters of 100 GB",
            f"{size.masters}",
            f"{size.data / GB:,.0f} GB / {usable / GB:.0f} GB",
        ),
        ("machines", f"{2 * size.masters}", "as many replicas"),
        (
            "seconds of a master",
            f"{1e6 * size.server_seconds:.0f} microseconds a page",
            f"for {ARRIVING:,} pages a second {busy:.2f} of a core, of {size.masters}",
        ),
        (
            "all masters",
            f"{size.rate:,.0f} pages a second",
            f"{size.masters} x 0.7 / {1e6 * size.server_seconds:.0f} microseconds",
        ),
        (
            "processes that add",
            f"{size.processes}",
            f"{1e6 * size.process_seconds:.0f} microseconds a page, each busy for 0.7 of the time",
        ),
        (
            "a master that joins takes",
            f"{moved:.2%}",
            f"of the keys; 1 / {size.masters + 1} is fair",
        ),
        (
            "a folder on one machine",
            f"{format_bytes(folder.predicted.memory)} of memory",
            f"{_point(folder)}: {folder.predicted.rate:,.0f} pages a second on 4 cores, "
            f"{format_bytes(folder.predicted.disk)} of disk",
        ),
    ]
    names = ("what", "value", "from")
    return "\n".join(["", *grid([dict(zip(names, row, strict=True)) for row in rows]), ""])


def _point(made: Plan) -> str:
    slots, bands, rows = (made.options[name] for name in ("slots", "bands", "rows"))
    return f"{slots} slots, {bands} x {rows}"


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
    parser.add_argument("--only", default="batch,redis", help="parts of the page, by comma")
    args = parser.parse_args()
    page = PAGE.read_text()
    if "redis" in args.only:
        page = put(page, ONLINE, online(_figures(args.results / "redis.json")))
    if "batch" in args.only:
        page = put(page, BEGIN, offline(args))
    PAGE.write_text(page)


def offline(args: argparse.Namespace) -> str:
    """A billion documents in a run over files."""
    seen = measured(_figures(args.results / "batch.json"))
    machine = Machine(args.cores, 0.75 * parse_bytes(args.memory), parse_bytes(args.disk))
    return filled(Corpus(args.documents, args.bytes), machine, seen)


def _figures(results: Path) -> dict[str, Sequence[Mapping[str, Value]]]:
    figures = json.loads(results.read_text())["figures"]
    return {figure["title"]: figure["rows"] for figure in figures}


if __name__ == "__main__":
    main()
