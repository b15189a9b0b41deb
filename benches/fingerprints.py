"""Measure SimHash and the Hamming index beside their references, and write the table.

    python benches/fingerprints.py --data DIR --peers-python .venv-bench/bin/python
    python benches/fingerprints.py --data DIR --peers-python ... --small

Everyone runs on one core, in turns, in the same run; the best of three counts. Results go to
`benches/results/fingerprints.json` and `fingerprints.md`.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from contenders import US, module, race, script
from corpora import describe, unpack
from figures import Bench, rate_rows
from races import ratio_reached
from suite import Suite, work_folder
from table import Figure


def fingerprints(bench: Bench) -> Figure:
    names = (US, "gaoya", "daft")
    corpus = bench.corpora.rfc
    results = race(
        bench, {name: partial(script, bench, name, "fingerprints", corpus) for name in names}
    )
    return Figure(
        "Raw text to 64-bit SimHash fingerprints, 3 KB documents",
        f"{describe(corpus)}; Daft has five characters for shingles, the others five words",
        rate_rows(results),
        {
            "at least 4 x gaoya": ratio_reached(results, "gaoya", 4),
            "at least 4 x Daft": ratio_reached(results, "daft", 4),
        },
    )


def neighbours(bench: Bench) -> Figure:
    count, queries = (1_000_000, 100_000) if bench.small else (10_000_000, 1_000_000)
    sizes = ("--count", str(count), "--queries", str(queries))
    results = race(
        bench,
        {
            name: partial(module, bench, sys.executable, "neighbours", name, *sizes)
            for name in ("index", "scan")
        },
    )
    rows = [
        {
            "how": name,
            "queries seconds": result.seconds,
            "building seconds": result.report.get("building_seconds"),
            "µs a query": result.report["microseconds_each"],
            "index MB": result.report["bytes"] / 1e6,
            "tables": result.report.get("tables"),
            "planted missed": result.report.get("missed"),
            "differ from the scan": result.report.get("differ_from_scan"),
        }
        for name, result in results.items()
    ]
    ours = results["index"].report
    return Figure(
        f"Hamming index, {count:,} fingerprints of 64 bits, distance 3, {queries:,} queries",
        "random; half of the queries have a planted neighbour at a distance of 0 to 3; the scan is "
        "timed on 500 queries",
        rows,
        {
            "1 million queries in 20 s": None if bench.small else results["index"].seconds <= 20,
            "all matches found": ours["missed"] == ours["differ_from_scan"] == 0,
        },
    )


SUITE = Suite(
    "fingerprints",
    "SimHash and the Hamming index, measured",
    {"fingerprints": fingerprints, "neighbours": neighbours},
)


def main() -> None:
    parser = SUITE.parser(__doc__.splitlines()[0], repeat=3)
    parser.add_argument("--small", action="store_true", help="a tenth of everything")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    args = SUITE.parse(parser)
    heads = {"pinned to core": args.core, "data": "small" if args.small else "full"}
    with work_folder(args.work) as work:
        corpora = unpack(Path(args.data), work, args.small)
        bench = Bench(args.peers_python, (args.core,), args.repeat, work, args.small, corpora)
        print(SUITE.measure(args, bench, heads))


if __name__ == "__main__":
    main()
