"""The contenders: how each is started, and the best of several alternating runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import startup
from measure import Measured, measured

HERE = Path(__file__).parent
US = "neardup"
PEERS = ("daft", "gaoya", "rensa", "datasketch", "datatrove", "text_dedup")
NOT_REPEATED_SECONDS = 60


@dataclass(frozen=True)
class Bench:
    """Where and how to measure. What runs on one core runs on the last of `cores`."""

    peers_python: str
    cores: tuple[int, ...]
    repeat: int
    work: Path


@dataclass(frozen=True)
class Result:
    """The best run of a contender, or why there is none."""

    seconds: float = 0.0
    peak_mb: float = 0.0
    report: Mapping[str, Any] | None = None
    error: str = ""

    @property
    def works(self) -> bool:
        return not self.error


def script(bench: Bench, name: str, *arguments: str | Path) -> Result:
    """Run a contender's script."""
    python, module_name = (
        (sys.executable, "ours") if name == US else (bench.peers_python, f"peers.{name}")
    )
    return module(bench, python, module_name, *arguments)


def module(
    bench: Bench,
    python: str,
    name: str,
    *arguments: str | Path,
    cores: int = 1,
    shown: bool = False,
) -> Result:
    """Run a module of this folder; its own clock counts, since it prepares its input untimed."""
    command = [python, "-m", name, *map(str, arguments)]
    done = start(bench, command, cores, shown)
    report = json.loads(done.stdout.strip().splitlines()[-1])
    return Result(report["seconds"], done.peak_mb, report)


def peer_run(bench: Bench, name: str, corpus: Path) -> Result:
    """A whole run; the wall clock of the process counts, as it does for our command."""
    command = [bench.peers_python, "-m", f"peers.{name}", "run", corpus, decisions(bench, name)]
    done = start(bench, list(map(str, command)))
    return Result(done.seconds, done.peak_mb)


def our_run(bench: Bench, name: str, corpus: Path, *options: str) -> Result:
    result = dedup(bench, corpus, 1, "--quiet", *options)
    write_decisions(bench, name)
    return result


def write_decisions(bench: Bench, name: str) -> None:
    """What our command's last run has decided, for the judge."""
    table = pq.read_table(output(bench) / "removed.parquet", columns=["id", "witness"])
    with decisions(bench, name).open("w") as lines:
        lines.writelines(f"{row['id']}\t{row['witness']}\n" for row in table.to_pylist())


def dedup(bench: Bench, corpus: Path, cores: int, *options: str) -> Result:
    """Our command on that many cores; its record of the run is the report."""
    out = output(bench)
    shutil.rmtree(out, ignore_errors=True)
    fixed = [str(corpus), "-o", str(out), "--workers", str(cores)]
    done = start(bench, [startup.command(), "dedup", *fixed, *options], cores, shown=True)
    return Result(done.seconds, done.peak_mb, json.loads((out / "run.json").read_text()))


def output(bench: Bench) -> Path:
    """Where our command's last run is."""
    return bench.work / "out"


def decisions(bench: Bench, name: str) -> Path:
    return bench.work / f"{name.replace(' ', '_')}.decisions.tsv"


def start(bench: Bench, command: list[str], cores: int = 1, shown: bool = False) -> Measured:
    paths = filter(None, [str(HERE), os.environ.get("PYTHONPATH")])
    env = {"PYTHONPATH": os.pathsep.join(paths)}
    return measured(command, bench.cores[-cores:], env, shown)


def race(bench: Bench, entrants: Mapping[str, Callable[[], Result]]) -> dict[str, Result]:
    """Let everyone run in turn, `repeat` times, and keep each one's best.

    Turns, so that a machine that slows down slows all. One that needs more than a minute runs
    once: a few per cent don't matter to it.
    """
    best: dict[str, Result] = {}
    for _ in range(bench.repeat):
        for name, run in entrants.items():
            known = best.get(name)
            if known and (known.error or known.seconds > NOT_REPEATED_SECONDS):
                continue
            result = attempt(name, run)
            if known is None or (result.works and result.seconds < known.seconds):
                best[name] = result
    return best


def attempt(name: str, run: Callable[[], Result]) -> Result:
    """A contender that fails is a row with its error, not the end of the benchmark."""
    print(f"  {name} ...", file=sys.stderr, flush=True)
    try:
        result = run()
    except (RuntimeError, OSError) as error:
        result = Result(error=(str(error).strip().splitlines() or ["failed"])[-1])
    print(f"  {name}: {result.error or f'{result.seconds:.2f} s'}", file=sys.stderr, flush=True)
    return result


def versions(peers_python: str) -> dict[str, str]:
    """Installed versions of neardup and PyArrow (in this Python) and of the peers (in theirs).

    Without a Python of theirs, only ours.
    """
    code = (
        "import json, sys\nfrom importlib.metadata import distributions\n"
        "have = {d.name.lower(): d.version for d in distributions()}\n"
        "print(json.dumps({n: have.get(n, 'not installed') for n in sys.argv[1:]}))"
    )
    found: dict[str, str] = {}
    names = [name.replace("_", "-") for name in PEERS]
    theirs = [(peers_python, names)] if peers_python else []
    for python, wanted in ((sys.executable, [US, "pyarrow"]), *theirs):
        done = subprocess.run(
            [python, "-c", code, *wanted], check=True, capture_output=True, text=True
        )
        found |= json.loads(done.stdout)
    return found
