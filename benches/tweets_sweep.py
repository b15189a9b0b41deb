"""A sweep over few hashes and few bands, on five million tweets, as a table that has true recall.

    python benches/tweets_sweep.py --data DIR --work DIR
    python benches/tweets_sweep.py --data DIR --work DIR --documents 100000 --time-limit 60

The rows are those that people who had five minutes and two gigabytes chose between: 8 to 20 hashes
in 1 to 5 bands, band keys modulo 100,000 to 500,000 buckets, shingles modulo a vocabulary of 1,000
to 3,000. Candidates are judged by their signatures. Two columns are new: the recall and the
precision of the pairs that are found, against the exact similarity of all real shingles, copies
among them. A trial that takes longer than the limit is ended, and has no figures. The average is
that of buckets that are not empty, over documents that are not copies.

The corpus is the 5 million tweets of `batch.py` (`--prepare` makes it) in the work folder. Trials
run one after the other on one core. Results go to `benches/results/tweets_sweep.json` and
`tweets_sweep.md`; those of fewer documents to the work folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import grown
import numpy as np
import pyarrow as pa
from corpora import plain
from harness import documents
from suite import Suite, work_folder
from table import Figure, Row

from neardup.evaluation.lab import as_documents, unnamed_documents
from neardup.evaluation.truth import similar_sets
from neardup.options import Options
from neardup.pipeline.set_files import sort_sets
from neardup.planner.trial_worker import TrialWorker, write_task
from neardup.planner.tuning import TrialOutcome, TrialPoint
from neardup.sketcher import Sketcher
from neardup.text.arrays import Ragged

DOCUMENTS = 5_000_000
THRESHOLD = 0.9
LIMIT = 15 * 60
AT_ONCE = 100_000
MOST_PAIRS = 200_000_000
TRIED = (
    (8, 1, 300_000, 2_000),
    (8, 1, 500_000, 3_000),
    (8, 1, 100_000, 2_000),
    (12, 1, 300_000, 2_000),
    (12, 1, 300_000, 1_000),
    (8, 2, 500_000, 3_000),
    (12, 2, 500_000, 3_000),
    (8, 2, 100_000, 3_000),
    (12, 2, 100_000, 2_000),
    (16, 1, 500_000, 3_000),
    (8, 2, 300_000, 1_000),
    (16, 2, 500_000, 2_000),
    (20, 1, 300_000, 1_000),
    (20, 1, 500_000, 3_000),
    (20, 2, 100_000, 1_000),
    (20, 2, 300_000, 3_000),
    (20, 4, 100_000, 3_000),
    (20, 4, 300_000, 1_000),
    (16, 4, 100_000, 1_000),
    (8, 2, 300_000, 2_000),
    (8, 2, 100_000, 2_000),
    (20, 5, 300_000, 3_000),
    (12, 3, 300_000, 2_000),
    (8, 4, 100_000, 1_000),
    (8, 4, 100_000, 2_000),
    (8, 4, 100_000, 3_000),
)
"""Hashes, bands, buckets, vocabulary."""
REFERENCE = TrialPoint.of(Options.of(threshold=THRESHOLD))


@dataclass(frozen=True)
class Bench:
    corpus: Path
    work: Path
    documents: int
    limit: float
    workers: int


def points() -> list[TrialPoint]:
    """The rows, and below them what neardup does without being told."""
    rows = [
        TrialPoint(
            slots=hashes,
            bands=bands,
            rows=hashes // bands,
            threshold=THRESHOLD,
            verify="estimate",
            buckets=buckets,
            vocabulary=vocabulary,
        )
        for hashes, bands, buckets, vocabulary in TRIED
    ]
    return [*rows, REFERENCE]


def sweep(bench: Bench) -> Figure:
    texts = pa.concat_arrays(list(_texts(bench)))
    true_pairs = _true_pairs(texts, bench.workers)
    write_task(bench.work, unnamed_documents(texts), REFERENCE, true_pairs, THRESHOLD, {})
    with TrialWorker(bench.work, bench.limit) as worker:
        rows = []
        for number, point in enumerate(points(), 1):
            rows.append(_row(number, worker.run(point)))
            print(rows[-1], flush=True)
    about = f"{bench.corpus.name}, {len(texts):,} documents, {true_pairs:,} true pairs at 0.9"
    return Figure("Few hashes, few bands, modulo buckets and vocabulary", about, rows)


def _texts(bench: Bench) -> Iterator[pa.Array]:
    rows = (text for _, text in islice(documents(bench.corpus), bench.documents))
    while some := list(islice(rows, AT_ONCE)):
        yield as_documents(some).texts


def _true_pairs(texts: pa.Array, workers: int) -> int:
    """By an exact join of different sets, each with the number of its copies."""
    sketcher, parts, ends = Sketcher(REFERENCE.options().spec), [], [np.zeros(1, np.int64)]
    for start in range(0, len(texts), AT_ONCE):
        sets = sort_sets(sketcher.cut(unnamed_documents(texts[start : start + AT_ONCE])).shingles)
        parts.append(sets.data)
        ends.append(sets.offsets[1:] + ends[-1][-1])
    sets = Ragged(np.concatenate(parts), np.concatenate(ends))
    return similar_sets(sets, THRESHOLD, workers, most=MOST_PAIRS).similar(THRESHOLD)


def _row(number: int, row: TrialOutcome) -> Row:
    point = row.point
    named = {
        "#": number,
        "hashes": point.slots,
        "bands": point.bands,
        "buckets": point.buckets or "all",
        "shingles": point.vocabulary or "all",
    }
    if not row.done:
        return named | {"t_tot": row.status, "why": row.error}
    return named | {
        "t_sig": row.t_sig,
        "t_rest": row.t_rest,
        "t_tot": row.seconds,
        "average bucket": row.average_bucket,
        "candidates": row.candidates,
        "pairs": row.pairs,
        "recall": row.recall,
        "precision": row.precision,
    }


SUITE = Suite("tweets_sweep", "A sweep over five million tweets", {"sweep": sweep})


def main() -> None:
    parser = SUITE.parser(__doc__.splitlines()[0], repeat=1)
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--time-limit", type=float, default=LIMIT, help="seconds of a trial")
    parser.add_argument("--workers", type=int, default=2, help="threads of the exact join")
    parser.set_defaults(peers_python="")
    args = SUITE.parse(parser)
    with work_folder(args.work) as work:
        if args.documents != DOCUMENTS:
            args.results = work
        source = plain(Path(args.data) / "tweets_1m.jsonl.zst", work / "tweets_1m.jsonl")
        corpus = grown.tweets(source, work / f"tweets_grown_{DOCUMENTS}.jsonl", DOCUMENTS)
        task = work / "sweep"
        task.mkdir(exist_ok=True)
        bench = Bench(corpus, task, args.documents, args.time_limit, args.workers)
        print(SUITE.measure(args, bench, {"time limit": args.time_limit}))


if __name__ == "__main__":
    main()
