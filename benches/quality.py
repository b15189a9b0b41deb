"""Measure recall and precision on labelled sets, and write the tables.

    python benches/quality.py --data DIR [--only default,tuned,chosen,languages,signals]

Each set at the default operating point and at a tuned one. Tuned: the pairs are halved by a hash of
their ids. On the first half, the shingle with the best F1 over all thresholds is chosen, and of
its thresholds the highest whose F1 is within 0.01 of that, but none above the default; the second
half is scored. Chosen: what `neardup tune --golden` chooses by the labels, scored on pairs that it
holds out. Results go to `benches/results/quality.json`, the tables into `docs/quality.md`.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import second_signal
import xxhash
from table import Figure, Row, section

from neardup.evaluation.evaluation import Evaluation, evaluate
from neardup.evaluation.scores import Share, ThresholdSweep
from neardup.option_table import default_of
from neardup.planner.tuner import tune

SHINGLES = ("word:5", "word:3", "word:2", "char:9", "char:5")
"""The default one first: it stays where others are not better."""
NEAR_BEST = 0.01
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"

Pairs = list[tuple[str, str, int]]


@dataclass(frozen=True)
class Labelled:
    """A corpus and what people say of its pairs."""

    name: str
    corpus: list[dict[str, str]]
    golden: Any

    def half(self, which: int) -> Any:
        """Pairs, or documents with their clusters, by a hash of their ids."""
        if isinstance(self.golden, dict):
            return {id: c for id, c in self.golden.items() if _half(str(c)) == which}
        return [pair for pair in self.golden if _half("\t".join(pair[:2])) == which]

    def measured(self, golden: Any, **point: Any) -> Evaluation:
        return evaluate(golden, corpus=self.corpus, workers=len(os.sched_getaffinity(0)), **point)


def _half(name: str) -> int:
    return xxhash.xxh64_intdigest(name.encode(), 7) & 1


def labelled_sets(data: Path) -> Iterator[Labelled]:
    yield _pairs_set(data, "linux_doc_6.1_6.12")
    yield _pairs_set(data, "debian_install_guide")
    yield _pairs_set(data, "scancode_license_texts")
    yield _mccormick(data)
    for size in ("10k", "100k"):
        with (data / f"rfc_{size}.golden.tsv").open() as lines:
            rows = list(csv.DictReader(lines, delimiter="\t"))
        golden = [(row["id_a"], row["id_b"], 1) for row in rows]
        yield Labelled(f"rfc_{size}", _corpus(data / f"rfc_{size}.jsonl.zst"), golden)


def _pairs_set(data: Path, name: str) -> Labelled:
    return Labelled(name, _corpus(data / f"{name}.documents.jsonl.zst"), _labels(data, name))


def _mccormick(data: Path) -> Labelled:
    """Every pair that is not listed is a negative: all documents are clusters."""
    name = "mccormick_articles_2500"
    corpus = _corpus(data / f"{name}.documents.jsonl.zst")
    same = {b: a for a, b, _ in _labels(data, name)}
    return Labelled(name, corpus, {row["id"]: same.get(row["id"], row["id"]) for row in corpus})


def _labels(data: Path, name: str) -> Pairs:
    with (data / f"{name}.pairs.tsv").open() as lines:
        return [(row[0], row[1], int(row[2])) for row in csv.reader(lines, delimiter="\t")]


def _corpus(path: Path) -> list[dict[str, str]]:
    with pa.input_stream(str(path), compression="detect") as stream:
        rows = (orjson.loads(line) for line in stream.read().splitlines())
        return [{"id": str(row["id"]), "text": row["text"]} for row in rows]


def default(data: Path) -> Figure:
    rows = [row(each.name, each.measured(each.golden)) for each in labelled_sets(data)]
    return Figure("The default operating point", "all labelled pairs", rows)


def tuned(data: Path) -> Figure:
    """Sets without negatives can't be tuned: every pair would be a duplicate."""
    rows = []
    for each in labelled_sets(data):
        if not each.name.startswith("rfc"):
            rows.append(row(each.name, each.measured(each.half(1))))
            rows.append(row(f"{each.name}, tuned", each.measured(each.half(1), **best(each))))
    return Figure("Tuned on one half, both scored on the other", "halves by a hash", rows)


def best(labelled: Labelled) -> dict[str, Any]:
    """The tuned operating point, by the first half."""
    sweeps = {
        shingle: labelled.measured(labelled.half(0), shingle=shingle).sweep for shingle in SHINGLES
    }
    shingle = max(SHINGLES, key=lambda name: sweeps[name].at_best[2])
    return {"shingle": shingle, "threshold": highest(sweeps[shingle])}


def highest(sweep: ThresholdSweep) -> float:
    """The highest threshold that is nearly as good as the best one, none above the default."""
    enough = sweep.at_best[2] - NEAR_BEST
    good = [t for t, f1 in zip(sweep.thresholds, sweep.f1) if (f1 or 0.0) >= enough]
    return min(max(good), default_of("threshold"))


def chosen(data: Path) -> Figure:
    """What labels choose; one trial is enough, since the trials have no part in that."""
    rows = []
    for each in labelled_sets(data):
        if each.name.startswith("rfc"):
            continue
        one_trial: dict[str, Any] = {"slots": 128, "sketches": "minhash"}
        found = tune(each.corpus, id="id", golden=each.golden, **one_trial).labels
        held_out = found.held_out
        rows.append(
            {
                "set": each.name,
                "duplicates": found.duplicates,
                "clusters": found.clusters,
                "chosen": str(found.chosen) if found.changed else "the default stays",
                "recall, held out": share(held_out.recall),
                "precision, held out": share(held_out.precision),
                "F1, held out": share(held_out.f1),
                "F1 of the default": share(found.default.f1),
                "better": found.better,
                "worse": found.worse,
            }
        )
    return Figure("Chosen by labels (neardup tune)", "five folds by cluster", rows)


def languages(data: Path) -> Figure:
    """The pages of the installation guide, by language; pairs of two languages together."""
    guide = _pairs_set(data, "debian_install_guide")
    point = best(guide)
    by_language: dict[str, Pairs] = {}
    for pair in guide.half(1):
        left, right = (id.partition("/")[0] for id in pair[:2])
        by_language.setdefault(left if left == right else "two languages", []).append(pair)
    rows = []
    for language, pairs in sorted(by_language.items()):
        wanted = {id for pair in pairs for id in pair[:2]}
        some = [each for each in guide.corpus if each["id"] in wanted]
        rows.append(by_both(Labelled(language, some, pairs), point))
    about = f"second half of the pairs; tuned: {point['shingle']}, {point['threshold']:g}"
    return Figure("By language: debian_install_guide", about, rows)


def signals(data: Path) -> Figure:
    """Texts, vectors, either and both."""
    rows = []
    for each in labelled_sets(data):
        if each.name in second_signal.SETS:
            halves = each.half(0), each.half(1)
            rows += second_signal.rows_of(each.name, each.corpus, halves)
    about = "cosines chosen on one half of the pairs, scored on the other one, and the reverse"
    return Figure("Texts, vectors, either and both", about, rows)


def by_both(labelled: Labelled, point: dict[str, Any]) -> Row:
    """The default and the tuned operating point in one row."""
    usual, other = labelled.measured(labelled.golden), labelled.measured(labelled.golden, **point)
    return {
        "language": labelled.name,
        "pairs": len(usual.golden),
        "duplicates": int(usual.golden.label.sum()),
        "recall, labels": share(usual.labels.recall),
        "tuned": share(other.labels.recall),
        "precision, labels": share(usual.labels.precision),
        "tuned ": share(other.labels.precision),
        "recall, similarity": share(usual.similarity.recall),
        "tuned  ": share(other.similarity.recall),
        "precision, similarity": share(usual.similarity.precision),
        "tuned   ": share(other.similarity.precision),
    }


def row(name: str, found: Evaluation) -> Row:
    point, spec = found.operating_point["parameters"], found.operating_point["spec"]
    duplicates = int(found.golden.label.sum())
    both = duplicates < len(found.golden)
    return {
        "set": name,
        "operating point": f"{spec['unit']}:{spec['size']}, {point['threshold']:g}, "
        f"{point['tables']}",
        "pairs": len(found.golden),
        "duplicates": duplicates,
        "recall, labels": share(found.labels.recall),
        "precision, labels": share(found.labels.precision) if both else "no negatives",
        "F1": share(found.labels.f1) if both else "no negatives",
        "recall, similarity": share(found.similarity.recall),
        "precision, similarity": share(found.similarity.precision),
        "missed: less similar": found.losses.dissimilar,
        "missed: never met": found.losses.never_met,
        "candidates a document": round(found.profile.candidates, 2),
    }


def share(found: Share) -> str:
    if found.value is None:
        return "undefined"
    return f"{found.value:.3f} ({found.low:.3f}-{found.high:.3f})"


FIGURES = {
    "default": default,
    "tuned": tuned,
    "chosen": chosen,
    "languages": languages,
    "signals": signals,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("NEARDUP_BENCH_DATA"))
    parser.add_argument("--only", default=",".join(FIGURES))
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    if not args.data:
        parser.error("say where the corpora are: --data DIR or NEARDUP_BENCH_DATA=DIR")
    stored = args.results / "quality.json"
    figures: dict[str, Any] = json.loads(stored.read_text()) if stored.exists() else {}
    for name in args.only.split(","):
        figures[name] = asdict(FIGURES[name](Path(args.data))) | {"measured": now()}
        stored.write_text(json.dumps(figures, indent=1) + "\n")
    print(write(figures, Path(__file__).parents[1] / "docs/quality.md"))


def write(figures: Mapping[str, Any], page: Path) -> str:
    """Replace what the page has between its marks."""
    shown = [Figure(**figures[name]) for name in FIGURES if name in figures]
    tables = "\n".join(section(figure, "###") for figure in shown)
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n{tables}\n{END}{after}")
    return tables


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


if __name__ == "__main__":
    main()
