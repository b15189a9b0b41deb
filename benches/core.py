"""Measure neardup and its peers side by side, and write the table.

    python benches/core.py --data DIR --peers-python .venv-bench/bin/python
    python benches/core.py --data DIR --peers-python ... --small --only run,short

Everyone runs on one core, in turns, in the same run; the best of three counts. Results go to
`benches/results/core.json` and `core.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from contenders import HERE, Bench, versions
from corpora import unpack
from figures import FIGURES
from table import Figure, machine, markdown

RESULTS = HERE / "results"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("NEARDUP_BENCH_DATA"))
    parser.add_argument("--peers-python", default=str(HERE.parent / ".venv-bench/bin/python"))
    parser.add_argument("--only", default=",".join(FIGURES), help="figures, by comma")
    parser.add_argument("--small", action="store_true", help="11,000 RFCs, 100,000 tweets")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--work", type=Path, help="keep unpacked corpora here")
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    args.only = args.only.split(",")
    if args.data is None:
        parser.error("say where the corpora are: --data DIR or NEARDUP_BENCH_DATA=DIR")
    if unknown := set(args.only) - set(FIGURES):
        parser.error(f"no figure {', '.join(unknown)}; there are {', '.join(FIGURES)}")
    return args


@contextmanager
def work_folder(chosen: Path | None) -> Iterator[Path]:
    if chosen:
        chosen.mkdir(parents=True, exist_ok=True)
        yield chosen
        return
    with tempfile.TemporaryDirectory(prefix="neardup-bench-") as folder:
        yield Path(folder)


def measure_all(args: argparse.Namespace, work: Path) -> list[Figure]:
    corpora = unpack(Path(args.data), work, args.small)
    bench = Bench(args.peers_python, args.core, args.repeat, args.small, work, corpora)
    return [figure(name, bench) for name in args.only]


def figure(name: str, bench: Bench) -> Figure:
    """One figure; if it fails, the others are still worth having."""
    print(name, file=sys.stderr, flush=True)
    try:
        return replace(FIGURES[name](bench), measured=now())
    except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
        return Figure(name, f"failed: {error}", [], {"measured": False}, now())


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def with_earlier(figures: list[Figure], results: Path) -> list[Figure]:
    """Figures that were not measured this time stay as they were."""
    fresh = {each.title: each for each in figures}
    try:
        earlier = json.loads((results / "core.json").read_text())["figures"]
    except (OSError, ValueError):
        return figures
    kept = {each["title"]: Figure(**each) for each in earlier}
    return list((kept | fresh).values())


def write(args: argparse.Namespace, figures: list[Figure]) -> str:
    heads = {
        "date": now(),
        **machine(),
        "pinned to core": args.core,
        "best of": args.repeat,
        "data": "small" if args.small else "full",
        **versions(args.peers_python),
    }
    figures = with_earlier(figures, args.results)
    text = markdown(heads, figures)
    args.results.mkdir(parents=True, exist_ok=True)
    report = {"run": heads, "figures": [asdict(each) for each in figures]}
    (args.results / "core.json").write_text(json.dumps(report, indent=1) + "\n")
    (args.results / "core.md").write_text(text)
    return text


def main() -> None:
    args = arguments()
    with work_folder(args.work) as work:
        print(write(args, measure_all(args, work)))


if __name__ == "__main__":
    main()
