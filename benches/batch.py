"""Measure the batch engine on large corpora, beside its references, and write the table.

    python benches/batch.py --data DIR --peers-python .venv-bench/bin/python --work DIR
    python benches/batch.py --data DIR --peers-python ... --scale 0.02 --only large,limit

Corpora are made in the work folder when they are needed first, and kept there. The best of two
runs counts; one of more than a minute is not repeated. Results go to `benches/results/batch.json`
and `batch.md`; those of another scale to the work folder.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import contenders
import startup
from batch_figures import FIGURES, Bench
from suite import Suite

SUITE = Suite("batch", "The batch engine, measured", FIGURES)


def main() -> None:
    parser = SUITE.parser(__doc__.splitlines()[0], repeat=2)
    parser.add_argument("--scale", type=float, default=1.0, help="measure a part of every size")
    parser.add_argument(
        "--peers", default=",".join(contenders.PEERS), help="some of them, by comma"
    )
    parser.add_argument("--prepare", action="store_true", help="only make the corpora")
    parser.set_defaults(work=Path(tempfile.gettempdir(), "neardup-bench"))
    args = SUITE.parse(parser)
    args.work.mkdir(parents=True, exist_ok=True)
    if args.scale != 1:
        args.results = args.work
    cores = tuple(sorted(os.sched_getaffinity(0)))
    bench = Bench(
        args.peers_python,
        cores,
        args.repeat,
        args.work,
        Path(args.data),
        min(args.scale, 1.0),
        tuple(args.peers.split(",")),
    )
    if args.prepare:
        bench.prepare()
        return
    with tempfile.TemporaryDirectory() as folder:
        startup.wall([startup.command(), "demo"], cwd=folder)  # compiles the kernels
    heads = {"cores used": ", ".join(map(str, cores)), "scale": args.scale}
    print(SUITE.measure(args, bench, heads))
    shutil.rmtree(contenders.output(bench), ignore_errors=True)


if __name__ == "__main__":
    main()
