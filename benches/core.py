"""Measure neardup and its peers side by side, and write the table.

    python benches/core.py --data DIR --peers-python .venv-bench/bin/python
    python benches/core.py --data DIR --peers-python ... --small --only run,short

Everyone runs on one core, in turns, in the same run; the best of three counts. Results go to
`benches/results/core.json` and `core.md`.
"""

from __future__ import annotations

import os
from pathlib import Path

from corpora import unpack
from figures import FIGURES, Bench
from suite import Suite, work_folder

SUITE = Suite("core", "The core, measured", FIGURES)


def main() -> None:
    parser = SUITE.parser(__doc__.splitlines()[0], repeat=3)
    parser.add_argument("--small", action="store_true", help="11,000 RFCs, 100,000 tweets")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    args = SUITE.parse(parser)
    heads = {"pinned to core": args.core, "data": "small" if args.small else "full"}
    with work_folder(args.work) as work:
        corpora = unpack(Path(args.data), work, args.small)
        bench = Bench(args.peers_python, (args.core,), args.repeat, work, args.small, corpora)
        print(SUITE.measure(args, bench, heads))


if __name__ == "__main__":
    main()
