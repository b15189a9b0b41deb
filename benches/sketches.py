"""Measure the family of sketches, and write the table.

    python benches/sketches.py --data DIR [--only slots,error,bits]

On one core, the best of five counts. Results go to `benches/results/sketches.json` and
`sketches.md`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import minhash_figures
from corpora import plain
from suite import Suite, work_folder


@dataclass(frozen=True)
class Bench:
    """`rfc` has documents of 3 KB."""

    rfc: Path
    repeat: int


SUITE = Suite("sketches", "The sketches, measured", minhash_figures.FIGURES)


def main() -> None:
    parser = SUITE.parser(__doc__.splitlines()[0], repeat=5)
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    args = SUITE.parse(parser)
    os.sched_setaffinity(0, {args.core})
    with work_folder(args.work) as work:
        rfc = plain(Path(args.data) / "rfc_10k.jsonl.zst", work / "rfc_10k.jsonl")
        heads = {"pinned to core": args.core}
        print(SUITE.measure(args, Bench(rfc, args.repeat), heads))


if __name__ == "__main__":
    main()
