"""Run the batch engine on small corpora, in small pieces, and see what came of it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from neardup.corpus.documents import Columns
from neardup.corpus.inputs import find_inputs
from neardup.options import Options
from neardup.pipeline.budget import Budget
from neardup.pipeline.job import Job
from neardup.pipeline.run import run_job
from neardup.vector_layout import columns_of_vectors

Row = dict[str, Any]

BANDS, ROWS, SLOTS = 6, 2, 12
SMALL = {"shingle": "word:2", "slots": SLOTS, "bands": BANDS, "rows": ROWS, "threshold": 0.5}
"""Options by which documents of few words meet often."""


class Silent:
    """Progress that nobody sees; it remembers the names of the stages and what was said."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.said: list[str] = []

    def stage(self, name: str, total: int | None, unit: str) -> None:
        self.stages.append(name)

    def advance(self, amount: int) -> None:
        pass

    def say(self, message: str) -> None:
        self.said.append(message)


class Little(Budget):
    """A budget of which every part gets the same few bytes, whatever is in use."""

    def __init__(self, each: int) -> None:
        super().__init__(1 << 30)
        self.each = each

    def share(self, parts: int = 1) -> int:
        return self.each

    def __repr__(self) -> str:
        return f"Little({self.each})"


def job(
    inputs: Sequence[Path],
    out: Path,
    *,
    workers: int = 1,
    shard: int = 2_000,
    chunk: int = 700,
    text: str = "text",
    within: str | None = None,
    budget: Budget | None = None,
    others: Row | None = None,
    **options: Any,
) -> Job:
    """A job in small pieces; `options` are those of `Options.of`."""
    asked = Options.of(**SMALL | options)
    columns = Columns(
        text,
        keep=asked.keep_policy.column,
        dates=asked.keep_policy.dates,
        within=within,
        tokens=asked.spec.unit == "token",
        distinguish=asked.distinguish.columns,
        numbers=asked.distinguish.numbers,
    )
    return Job(
        inputs=find_inputs([str(path) for path in inputs]),
        out=out,
        options=asked,
        columns=columns_of_vectors(asked, columns),
        workers=workers,
        budget=budget or Budget(1 << 30),
        shard=shard,
        chunk=chunk,
        **others or {},
    )


def go(inputs: Sequence[Path], out: Path, **given: Any) -> Outcome:
    """Run a job; everything that it says about the documents."""
    run_job(job(inputs, out, **given), Silent())
    return outcome(out)


@dataclass
class Outcome:
    """The tables, and the bytes of the kept files."""

    removed: list[Row]
    clusters: list[Row]
    rejected: list[Row]
    kept: dict[bytes, bytes] = field(repr=False)
    counts: Row
    vetoed: list[Row]


def outcome(out: Path) -> Outcome:
    kept = {
        os.fsencode(path.relative_to(out / "kept")): path.read_bytes()
        for path in sorted((out / "kept").rglob("*"))
        if path.is_file()
    }
    return Outcome(
        *(table(out, name) for name in ("removed", "clusters", "rejected")),
        kept,
        counts(out),
        table(out, "vetoed") if (out / "vetoed.parquet").exists() else [],
    )


def counts(out: Path) -> Row:
    """What came out; but for the comparisons, which the engines order differently."""
    found = json.loads((out / "run.json").read_bytes())["counts"]
    return {name: count for name, count in found.items() if name != "comparisons"}


def table(out: Path, name: str) -> list[Row]:
    data = (out / f"{name}.parquet").read_bytes()
    return pq.read_table(pa.BufferReader(data)).to_pylist()


def unfinished(out: Path) -> Path:
    return out / ".unfinished"


# -- corpora ------------------------------------------------------------------------------------


def texts(seed: int, count: int, words: int = 12) -> list[str]:
    """Few words and many edits of the same text, so that chains, stars and copies are common."""
    chance = random.Random(seed)
    vocabulary = [f"w{number}" for number in range(words)]
    found: list[str] = []
    for _ in range(count):
        if found and chance.randrange(4):
            text = chance.choice(found[-40:]).split()
            for _ in range(chance.randrange(3)):
                if text:
                    text[chance.randrange(len(text))] = chance.choice(vocabulary)
        else:
            text = chance.choices(vocabulary, k=chance.randrange(14))
        found.append(" ".join(text) or chance.choice(["", " ", "!", "?!", "!!"]))
    return found


SEEN = (
    *(None, "", "yesterday", "2024-01-15", "2024-01-15T00:30:00+01:00", "20240115T003000Z"),
    *("Mon, 15 Jan 2024 00:30:00 +0100", "1705276800", "1705276800000", "1999", "2024-02"),
)
"""Dates as people write them, some equal, and some that are none."""


def rows(seed: int, count: int, words: int = 12) -> list[Row]:
    """Documents with a column to rank them by, and one to keep them apart."""
    chance = random.Random(seed)
    return [
        {
            "id": f"d{number}",
            "text": text,
            "score": chance.choice([None, 0.5, 1, 2, 3]),
            "lang": chance.choice(["de", "en", None]),
            "seen": SEEN[(seed + 5 * number) % len(SEEN)],
        }
        for number, text in enumerate(texts(seed, count, words))
    ]


def write(folder: Path, documents: Sequence[Row], files: int = 3) -> list[Path]:
    """The documents as JSONL files, in order, of unequal sizes."""
    folder.mkdir(exist_ok=True)
    paths = []
    for number in range(files):
        begin, end = (len(documents) * n * n // (files * files) for n in (number, number + 1))
        lines = [json.dumps(row).encode() + b"\n" for row in documents[begin:end]]
        paths.append(folder / f"{number}.jsonl")
        paths[-1].write_bytes(b"".join(lines))
    return paths


# -- processes ----------------------------------------------------------------------------------


def command(script: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", script, *map(str, arguments)]


def environment(**others: str) -> dict[str, str]:
    """That of a process which finds these helpers too."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    return os.environ | {"PYTHONPATH": path} | others


def process(script: str, *arguments: object, **others: Any) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own."""
    given = {"env": environment(), "timeout": 120} | others
    return subprocess.run(command(script, *arguments), capture_output=True, text=True, **given)


def on_spark(spark: Any, job: Job) -> Job:
    """The job with its work done in tasks of a session."""
    from neardup.pipeline.backends.spark import SparkBackend

    return replace(job, backend=SparkBackend(lambda: spark))
