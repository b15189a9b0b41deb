"""The cost of each kind of work: stored figures, corrected by two small runs on this machine.

One run is almost empty, one is larger. Both run `neardup dedup` in a process of its own, so that
start-up, memory and all cores are measured as in a real run.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

import orjson

from neardup.corpus.documents import Columns
from neardup.corpus.inputs import InputFile
from neardup.corpus.read import chunks_of, parse_chunk
from neardup.errors import NeardupError
from neardup.formats.config import write_config
from neardup.options import Options

MB: Final = 1e6
MEASURED_ON: Final = "2 cores of an AMD EPYC in a virtual machine, Linux, Python 3.11"


@dataclass(frozen=True)
class Costs:
    """Seconds of one core for each unit of work, unless stated otherwise.

    start, start_work   an empty run: elapsed time, and processor time
    base                bytes of memory of an empty run
    text                parsing, shingling and hashing a MB of text
    document            sketching, per document, in addition to its text
    update              updating one slot of a k-hash signature with one shingle
    shingle             adding one shingle to a one-permutation signature
    fill                filling one slot of a one-permutation signature
    rank                ranking a document
    band                banding a document, per band
    reread              finding candidates again in a MB of input
    match               parsing, shingling and sorting a MB of candidates' sets
    set                 reading a MB of sets to compare them
    compare             comparing the sets of a pair
    pair                sorting, merging and deciding a pair, in all rounds
    member              a place in a shared bucket, in all rounds
    table               a removed document in the tables of OUT
    keep                writing a MB of kept files
    lookup              looking up and adding a document in one table of an index (MinHashLSH)
    verify              comparing a pair in an index
    number              reading a number of a vector
    counting            reading and counting it in the pass before
    sign                a number of a vector for the sign by one plane
    plane_key           banding a vector, per band of planes
    met                 a pair that planes found: sorting, merging and deciding it, in all rounds
    cosine              a number of the two vectors of a compared pair
    efficiency          speed per core of several cores, relative to one core
    disk                bytes per second, read or written, where files don't fit into memory
    source              where the figures come from, for people
    """

    start: float = 0.65
    start_work: float = 0.6
    base: float = 110 * MB
    text: float = 3.4e-3
    document: float = 1.5e-6
    update: float = 4.1e-11
    shingle: float = 2.4e-9
    fill: float = 2.4e-9
    rank: float = 2e-7
    band: float = 1.1e-7
    reread: float = 9e-4
    match: float = 5.5e-3
    set: float = 1e-3
    compare: float = 4.5e-7
    pair: float = 9e-7
    member: float = 2.5e-7
    table: float = 1.7e-6
    keep: float = 7e-4
    lookup: float = 2e-6
    verify: float = 1e-6
    number: float = 3.5e-8
    counting: float = 1e-7
    sign: float = 1e-11
    plane_key: float = 3e-8
    met: float = 6e-7
    cosine: float = 6e-10
    efficiency: float = 0.8
    disk: float = 1e9
    source: str = f"stored figures, of {MEASURED_ON}"

    def signature(self, sketch: str, slots: int, shingles: float) -> float:
        """Return the seconds that a document's signature takes, from its shingles."""
        if sketch == "oneperm":
            return shingles * self.shingle + slots * self.fill
        return shingles * slots * self.update

    def sketch(self, sketch: str, slots: int, shingles: float, size: float) -> float:
        """Return the seconds from a document's text to its signature."""
        return self.text * size / MB + self.document + self.signature(sketch, slots, shingles)

    def cores(self, wanted: int) -> float:
        """Return the speed of `wanted` cores relative to one core, at least 1."""
        return max(wanted * self.efficiency, 1.0)


ENOUGH: Final = 32_000_000
"""Bytes of text of the larger run."""
FEW: Final = 8
"""Documents of the almost empty run."""
VOCABULARY: Final = 20_000
DOUBT: Final = 0.1
"""Seconds that are added to both sides of a ratio, so that short times count for less."""
LAUNCH: Final = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
SERIAL: Final = ("rank", "tables", "filter")


@dataclass(frozen=True)
class MeasuredRun:
    """The measurements of a run.

    size      bytes of the texts
    seconds   elapsed time
    work      processor time
    memory    bytes at the peak
    record    the content of run.json
    """

    documents: int
    size: int
    seconds: float
    work: float
    memory: int
    record: Mapping[str, Any]

    def stage(self, *names: str) -> float:
        """Return the seconds of these stages together."""
        return sum(float(self.record["seconds"][name]) for name in names)


def measure_costs(
    texts: Iterable[str],
    options: Options,
    point: Mapping[str, Any],
    shingles: float,
    workers: int,
    enough: int = ENOUGH,
    folder: Path | None = None,
) -> Costs:
    """Run `neardup dedup` on texts and return the stored figures, corrected by the measurements.

    Args:
        texts: Texts like those of the corpus.
        options: The operating point.
        point: The same as the content of a config file.
        shingles: Mean number of distinct shingles of a text.
        workers: Cores that the runs use.
        enough: Bytes of text of the larger run.
        folder: Where the temporary folder is made; by default the system's.
    """
    with tempfile.TemporaryDirectory(prefix="neardup-plan-", dir=folder) as work:
        place = Path(work)
        write_config(place / "point.toml", point)
        texts = iter(texts)
        few = list(islice(texts, FEW))
        # With copies, so that no stage is skipped.
        empty = _best_run(place, [*few, *(f"{text} again" for text in few)], workers)
        large = _best_run(place, [*few, *_until(texts, enough)], workers)
    return correct_costs(Costs(), empty, large, options, shingles, workers)


def correct_costs(
    costs: Costs,
    empty: MeasuredRun,
    large: MeasuredRun,
    options: Options,
    shingles: float,
    workers: int,
) -> Costs:
    """Correct costs: the empty run is the fixed part, the larger one adds the cost of documents."""
    count, cores = large.documents, costs.cores(workers)
    sketching = max(large.stage("sketch") - empty.stage("sketch"), 0.0) * cores
    slots = costs.signature(options.spec.sketch, options.spec.slots, shingles)
    # Split between bytes and documents in the ratio of the stored figures.
    expected = costs.text * large.size / MB + costs.document * count
    ratio = max(sketching - slots * count, 0.1 * expected) / expected
    rest = max(large.stage("band", *SERIAL) - empty.stage("band", *SERIAL), 0.0)
    banding = costs.band * count * options.hash_tables.count
    usual = (
        banding / costs.cores(min(workers, options.hash_tables.count))
        + costs.rank * count
        + costs.table * large.record["counts"]["removed"]
        + costs.keep * large.size / MB
    )
    factor = (rest + DOUBT) / (usual + DOUBT)
    return replace(
        costs,
        start=empty.seconds,
        start_work=empty.work,
        base=float(empty.memory),
        text=costs.text * ratio,
        document=costs.document * ratio,
        **{
            name: factor * getattr(costs, name)
            for name in (
                "rank",
                "band",
                "reread",
                "match",
                "set",
                "compare",
                "pair",
                "member",
                "table",
                "keep",
                "lookup",
                "verify",
                "number",
                "counting",
                "sign",
                "plane_key",
                "met",
                "cosine",
            )
        },
        source=f"measured here with {count:,} documents on {workers} cores",
    )


def _best_run(folder: Path, texts: Sequence[str], workers: int) -> MeasuredRun:
    """Return the faster of two runs: the first may compile kernels, or be disturbed."""
    return min((_run_dedup(folder, texts, workers) for _ in range(2)), key=lambda one: one.seconds)


def _run_dedup(folder: Path, texts: Sequence[str], workers: int) -> MeasuredRun:
    """Run `neardup dedup` over texts in a process of its own, and measure it."""
    source, out = folder / "documents.jsonl", folder / "out"
    with source.open("wb") as file:
        for number, text in enumerate(texts):
            file.write(orjson.dumps({"id": f"document-{number}", "text": text}) + b"\n")
    # On Linux the peak memory of a child includes that of the process that forked it: a small
    # process starts the run.
    command = [
        sys.executable,
        "-S",
        "-E",
        "-c",
        LAUNCH,
        sys.executable,
        "-m",
        "neardup",
        "dedup",
        str(source),
        "-o",
        str(out),
        "--force",
        "--quiet",
        "--config",
        str(folder / "point.toml"),
        "--workers",
        str(workers),
    ]
    begun, before = time.perf_counter(), os.times()
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    seconds, after = time.perf_counter() - begun, os.times()
    if done.returncode:
        raise NeardupError(
            f"the measuring run failed: {done.stderr.strip()[-300:]}; --no-calibrate does without"
        )
    record = json.loads((out / "run.json").read_text("utf-8"))
    work = (after.children_user - before.children_user) + (
        after.children_system - before.children_system
    )
    size = sum(len(text.encode("utf-8")) for text in texts)
    return MeasuredRun(len(texts), size, seconds, work, record["peak_memory_bytes"], record)


def _until(texts: Iterator[str], enough: int) -> Iterator[str]:
    """Yield texts until they have `enough` characters together."""
    size = 0
    while size < enough and (text := next(texts, None)) is not None:
        size += len(text)
        yield text


def read_texts(files: Sequence[InputFile], columns: Columns) -> Iterator[str]:
    """Yield the usable texts of the files, in order."""
    for chunk in chunks_of(files, columns):
        documents = parse_chunk(chunk, columns)
        for row, text in enumerate(documents.texts.to_pylist()):
            if row not in documents.rejected and text.strip():
                yield text.encode("utf-8", "replace").decode("utf-8")


def random_texts(shingles: float, size: float, seed: int = 0) -> Iterator[str]:
    """Yield texts of random words without end; after one in ten comes a near-copy of it.

    Args:
        shingles: Distinct five-word shingles of a text.
        size: Bytes of a text.
        seed: The seed of the random words.
    """
    chance = random.Random(seed)  # noqa: S311  # not for security
    words = max(round(shingles) + 4, 5)
    length = size / words - 1
    letters = "etaoinshrdlucmfwypvbgk"
    vocabulary = [
        "".join(chance.choices(letters, k=max(round(length + chance.uniform(-2, 2)), 1)))
        for _ in range(VOCABULARY)
    ]
    while True:
        text = chance.choices(vocabulary, k=words)
        yield " ".join(text)
        if chance.random() < 0.1:
            yield " ".join([*text, "again"])
