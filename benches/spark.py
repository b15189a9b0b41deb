"""Measure the batch engine on Spark beside text-dedup's script and our own local engine.

    python benches/spark.py --data DIR --work DIR --peers-python .venv-bench/bin/python
    python benches/spark.py --data DIR --work DIR --peers-python ... --scale 0.1 --only documents

Everyone has all cores. The clock runs from the start of the process to written output. Results go
to `benches/results/spark.json` and `spark.md`; those of another scale to the work folder.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import partial
from importlib.metadata import version
from pathlib import Path

import contenders
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.json as pj
import pyarrow.parquet as pq
import startup
from batch_figures import Bench, warm
from contenders import Result, decisions, dedup, output, race, start, write_decisions
from corpora import count_of, describe, plain
from harness import SLOTS, THRESHOLD, documents
from judge import judge, load_truth, read_decisions
from online import CORPORA
from races import times
from spark_runs import differences, spark_run, with_python
from standalone import loopback
from suite import Suite
from table import Figure, Row

PARTITIONS = (1, 2, 4, 16)
FASTER = 5
LAYOUTS = {"our bands": (21, 6), "its bands": (9, 13)}
"""Bands and rows with which text-dedup runs: ours, and what it chooses for 0.8 and 128 slots."""
ON_SPARK, LOCALLY = "neardup on Spark", "neardup, local engine"
PEER_PARTITIONS = 8
SAME = "identical"
NUMBERS_OF_PARTITIONS = ("spark.sql.shuffle.partitions", "spark.default.parallelism")
NOT_COALESCED = {"spark.sql.adaptive.coalescePartitions.enabled": "false"}
"""Spark would make one of small partitions."""


def in_parquet(corpus: Path) -> Path:
    """The corpus as the peer reads it: a folder of Parquet files, one a core and more."""
    folder = corpus.with_suffix(".parquet")
    if not folder.exists():
        part = Path(tempfile.mkdtemp(dir=corpus.parent))
        table = pj.read_json(corpus, pj.ReadOptions(block_size=1 << 24))
        size = -(-len(table) // PEER_PARTITIONS)
        for number in range(PEER_PARTITIONS):
            pq.write_table(table.slice(number * size, size), part / f"{number}.parquet")
        part.rename(folder)
    return folder


def text_dedup(bench: Bench, name: str, corpus: Path, layout: tuple[int, int]) -> Result:
    """The script by the clock on the wall; afterwards, what it removed."""
    work = Path(tempfile.mkdtemp(dir=bench.work))
    settings = {"spark.master": _master(bench), "spark.driver.memory": "4g"}
    bands, rows = layout
    options = {
        "partitions": PEER_PARTITIONS,
        "input": in_parquet(corpus),
        "output": work / "out",
        "checkpoint_dir": work / "checkpoints",
        "column": "text",
        "threshold": THRESHOLD,
        "ngram_size": 5,
        "min_length": 0,
        "num_perm": SLOTS,
        "b": bands,
        "r": rows,
    }
    flags = [part for key, value in options.items() for part in (f"--{key}", str(value))]
    variables = with_python(bench.peers_python, loopback(work / "local", settings))
    command = [*variables, bench.peers_python, "-m", "peers.text_dedup_spark", *flags]
    done = start(bench, command, len(bench.cores))
    kept = ds.dataset(list(map(str, (work / "out").glob("*/*.parquet")))).to_table(columns=["id"])
    there = set(kept["id"].cast(pa.string()).to_pylist())
    with decisions(bench, name).open("w") as lines:
        lines.writelines(f"{key}\t\n" for key, _ in documents(corpus) if key not in there)
    shutil.rmtree(work)
    return Result(done.seconds, done.peak_mb)


def on_spark(bench: Bench, corpus: Path) -> Result:
    result = spark_run(bench, corpus, output(bench), _master(bench))
    write_decisions(bench, ON_SPARK)
    return result


def locally(bench: Bench, corpus: Path) -> Result:
    result = dedup(bench, corpus, len(bench.cores), "--quiet")
    write_decisions(bench, LOCALLY)
    return result


def documents_of_3_kb(bench: Bench) -> Figure:
    corpus, pairs = bench.documents()
    peers = {f"text-dedup on Spark, {name}": layout for name, layout in LAYOUTS.items()}
    entrants = {
        ON_SPARK: partial(on_spark, bench, warm(corpus)),
        LOCALLY: partial(locally, bench, corpus),
        **{
            name: partial(text_dedup, bench, name, corpus, layout) for name, layout in peers.items()
        },
    }
    results = race(bench, entrants)
    truth, count = load_truth(corpus, pairs), count_of(corpus)

    def row(name: str) -> Row:
        result = results[name]
        quality = judge(truth, read_decisions(decisions(bench, name))) if result.works else None
        return {
            "tool": name,
            "seconds": result.seconds or None,
            "peak MB": result.peak_mb or None,
            "x neardup on Spark": times(result, results[ON_SPARK]) if result.works else None,
            "kept": quality and count - quality.removed,
            "recall": quality and quality.recall,
            "precision": quality and quality.precision,
            "witnessed": quality and quality.witnessed,
            "nothing above 0.7": quality and quality.lost,
            "notes": result.error or None,
        }

    rows = [row(name) for name in results]
    slowest_allowed = FASTER * results[ON_SPARK].seconds
    return Figure(
        f"110,000 documents of 3 KB, {_master(bench)}",
        f"{describe(corpus)}, threshold {THRESHOLD}, {SLOTS} slots, kept files written; text-dedup "
        "runs its own script, with components from a union-find in the driver in place of "
        f"GraphFrames, and {PEER_PARTITIONS} partitions in place of thousands, which both favour "
        f"it; its bands: {_layouts()}",
        rows,
        {
            f"at least {FASTER} x faster than {name}": (
                results[name].seconds >= slowest_allowed
                if bench.is_full and results[name].works and results[ON_SPARK].works
                else None
            )
            for name in peers
        }
        | {
            "the same decisions as the local engine": (
                decisions(bench, ON_SPARK).read_bytes() == decisions(bench, LOCALLY).read_bytes()
                if results[ON_SPARK].works
                else None
            )
        },
    )


def equality(bench: Bench) -> Figure:
    rows = [_compared(bench, *corpus) for corpus in CORPORA.items()]
    cells = [row[_column(partitions)] for row in rows for partitions in PARTITIONS]
    return Figure(
        "The same answer as the local engine",
        "the tables of removed, clustered and rejected documents row by row, every kept file byte "
        "by byte",
        rows,
        {"identical, however many partitions": set(cells) == {SAME}},
    )


def _compared(bench: Bench, name: str, source: tuple[str, int]) -> Row:
    file, count = source[0], max(1, bench.scaled(source[1]))
    corpus = plain(bench.data / file, bench.work / f"{name}-{count}.jsonl", count)
    counts = dedup(bench, corpus, len(bench.cores), "--quiet").report["counts"]
    row = {"corpus": name, "documents": counts["documents"], "removed": counts["removed"]}
    for partitions in PARTITIONS:
        out = bench.work / "out-spark"
        settings = dict.fromkeys(NUMBERS_OF_PARTITIONS, partitions) | NOT_COALESCED
        spark_run(bench, corpus, out, _master(bench), settings)
        differing = differences(output(bench), out)
        row[_column(partitions)] = ", ".join(differing) or SAME
    return row


def _column(partitions: int) -> str:
    return f"{partitions} partition{'s' * (partitions > 1)}"


def _layouts() -> str:
    return ", ".join(f"{name} {bands} of {rows}" for name, (bands, rows) in LAYOUTS.items())


def _master(bench: Bench) -> str:
    return f"local[{len(bench.cores)}]"


SUITE = Suite(
    "spark",
    "The batch engine on Spark, measured",
    {"documents": documents_of_3_kb, "equality": equality},
)


def main() -> None:
    parser = SUITE.parser(__doc__.splitlines()[0], repeat=2)
    parser.add_argument("--scale", type=float, default=1.0, help="measure a part of every size")
    parser.set_defaults(work=Path(tempfile.gettempdir(), "neardup-bench"))
    args = SUITE.parse(parser)
    args.work.mkdir(parents=True, exist_ok=True)
    if args.scale != 1:
        args.results = args.work
    cores = tuple(sorted(os.sched_getaffinity(0)))
    bench = Bench(args.peers_python, cores, args.repeat, args.work, Path(args.data), args.scale)
    with tempfile.TemporaryDirectory() as folder:
        startup.wall([startup.command(), "demo"], cwd=folder)  # compiles the kernels
    print(SUITE.measure(args, bench, {"scale": args.scale, "pyspark": version("pyspark")}))
    for out in (contenders.output(bench), bench.work / "out-spark"):
        shutil.rmtree(out, ignore_errors=True)


if __name__ == "__main__":
    main()
