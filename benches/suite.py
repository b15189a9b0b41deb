"""Shared by the benchmarks: their arguments, one figure after the other, results on disk."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from contenders import HERE, versions
from table import Figure, Value, machine, markdown


@dataclass(frozen=True)
class Suite:
    """Some figures, and the results that they go to: NAME.json and NAME.md."""

    name: str
    title: str
    figures: Mapping[str, Callable[[Any], Figure]]

    def parser(self, description: str, repeat: int) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--data", type=Path, default=os.environ.get("NEARDUP_BENCH_DATA"))
        parser.add_argument("--peers-python", default=str(HERE.parent / ".venv-bench/bin/python"))
        parser.add_argument("--only", default=",".join(self.figures), help="figures, by comma")
        parser.add_argument("--repeat", type=int, default=repeat, help="the best of so many counts")
        parser.add_argument("--work", type=Path, help="keep corpora here")
        parser.add_argument("--results", type=Path, default=HERE / "results")
        return parser

    def parse(self, parser: argparse.ArgumentParser) -> argparse.Namespace:
        args = parser.parse_args()
        args.only = args.only.split(",")
        if not args.data:
            parser.error("say where the corpora are: --data DIR or NEARDUP_BENCH_DATA=DIR")
        if unknown := set(args.only) - set(self.figures):
            parser.error(f"no figure {', '.join(unknown)}; there are {', '.join(self.figures)}")
        return args

    def measure(self, args: argparse.Namespace, bench: object, heads: Mapping[str, Value]) -> str:
        """Measure the wanted figures; what is measured is on disk after each."""
        there = versions(args.peers_python).items()
        there = {name: version for name, version in there if version != "not installed"}
        heads = {**machine(), **heads, "best of": args.repeat, **there}
        text = ""
        for name in args.only:
            print(name, file=sys.stderr, flush=True)
            text = self._write(heads, name, self._figure(name, bench), args.results)
        return text

    def _figure(self, name: str, bench: object) -> Figure:
        """One figure; if it fails, the others are still worth having."""
        try:
            return replace(self.figures[name](bench), measured=now())
        except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
            return Figure(name, f"failed: {error}", [], {"measured": False}, now())

    def _write(self, heads: Mapping[str, Value], name: str, figure: Figure, results: Path) -> str:
        heads = {"date": now(), **heads}
        figures = self._with_earlier(name, figure, results)
        text = markdown(self.title, heads, figures)
        results.mkdir(parents=True, exist_ok=True)
        report = {"run": heads, "figures": [asdict(each) for each in figures]}
        (results / f"{self.name}.json").write_text(json.dumps(report, indent=1) + "\n")
        (results / f"{self.name}.md").write_text(text)
        return text

    def _with_earlier(self, name: str, figure: Figure, results: Path) -> list[Figure]:
        """Figures that were not measured now stay as they were; one that failed has its name."""
        try:
            earlier = json.loads((results / f"{self.name}.json").read_text())["figures"]
        except (OSError, ValueError):
            return [figure]
        kept = {each["title"]: Figure(**each) for each in earlier if each["title"] != name}
        return list((kept | {figure.title: figure}).values())


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


@contextmanager
def work_folder(chosen: Path | None) -> Iterator[Path]:
    if chosen:
        chosen.mkdir(parents=True, exist_ok=True)
        yield chosen
        return
    with tempfile.TemporaryDirectory(prefix="neardup-bench-") as folder:
        yield Path(folder)
