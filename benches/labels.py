"""How many labels recall and precision need: drawn in strata, and drawn uniformly.

    python benches/labels.py --data DIR

The population of a set are its labelled pairs, whose answers are known; what is found is what the
default operating point finds among them. Pairs are drawn as `neardup review --label` draws them
(all pairs of these are searched, so that there are no random ones), or all alike, and answered by
their labels, TIMES times; the same intervals are computed of both. A row has the number of labels
from which on the intervals of recall and precision are, on average, no wider than the aim, and how
often they cover the truth there. Uniformly drawn pairs of *documents*, which need no search before,
would be ten thousand times as many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from suite import Suite
from table import Figure, Row

from neardup.corpus.documents import Columns
from neardup.evaluation.drawn_pairs import RANDOM, intervals
from neardup.evaluation.golden import read_golden
from neardup.evaluation.operating_point import GoldenFinder, OperatingPoint, reader, usable_pairs
from neardup.evaluation.pair_drawing import SearchedPairs, Stratum, draw_strata, queue
from neardup.options import Options
from neardup.runtime import SILENT
from neardup.sketcher import Sketcher

SETS = ("linux_doc_6.1_6.12", "scancode_license_texts")
AIMS = (0.02, 0.05)
TIMES = 400
DRAWS = 400
MOST = 12_000
SEED = 7
KNOWN = np.full(100, np.inf)
"""The sizes of all strata are known."""

Simulate = Callable[[int], tuple[NDArray[np.float64], NDArray[np.float64]]]
"""Returns the ends of the intervals of recall and precision by so many labels, for each draw."""


@dataclass(frozen=True)
class Population:
    """Labelled pairs: what each is, whether it is found, and how similar its texts are."""

    pairs: SearchedPairs
    label: NDArray[np.bool_]

    @classmethod
    def of(cls, data: Path, name: str) -> Population:
        labelled = read_golden(data / f"{name}.pairs.tsv")
        finder = GoldenFinder(labelled.ids)
        corpus = str(data / f"{name}.documents.jsonl.zst")
        for _ in finder.watch(reader(corpus, Columns(), {}, 1, SILENT)()):
            pass
        options = Options.of()
        point = OperatingPoint.of(options, finder.result(), Sketcher(options.spec), 1)
        used = usable_pairs(labelled, point)
        similarity, found = point.similarity(used.a, used.b), point.duplicates(used.a, used.b)
        alone = np.full(len(used.ids), -1)
        pairs = SearchedPairs(
            len(used.ids), used.a, used.b, similarity, 0.0, found, alone, -alone.cumsum()
        )
        return cls(pairs, used.label)

    @property
    def truth(self) -> tuple[float, float]:
        """Recall and precision."""
        both = np.count_nonzero(self.pairs.found & self.label)
        return both / np.count_nonzero(self.label), both / np.count_nonzero(self.pairs.found)

    def uniform(self, chance: np.random.Generator) -> Simulate:
        """Draw pairs all alike."""
        cells = np.bincount(self.pairs.found * 2 + self.label, minlength=4)
        size = np.array([float(cells.sum())])

        def simulate(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            drawn = chance.multivariate_hypergeometric(cells, count, TIMES)
            return intervals(
                drawn.reshape(-1, 1, 2, 2), size, np.zeros(1, bool), KNOWN[:1], chance, DRAWS
            )

        return simulate

    def stratified(self, threshold: float, chance: np.random.Generator) -> Simulate:
        """Draw pairs as the queue of a review does."""
        known = draw_strata(self.pairs, threshold, _once, SEED)
        strata = [one for one in known if one.name != RANDOM]
        sizes = np.array([one.size for one in strata])
        right = np.array([self._duplicates(one) for one in strata])
        rows = np.array([int(one.found) for one in strata])

        def simulate(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            places = [stratum for stratum, _ in queue(strata, count, SEED)]
            drawn = np.bincount(places, minlength=len(strata))
            wrong = sizes.astype(np.int64) - right
            same = chance.hypergeometric(right, wrong, drawn, (TIMES, len(strata)))
            counts = np.zeros((TIMES, len(strata), 2, 2), np.int64)
            each = np.arange(len(strata))
            counts[:, each, rows, 1], counts[:, each, rows, 0] = same, drawn - same
            return intervals(counts, sizes, np.zeros(len(strata), bool), KNOWN[each], chance, DRAWS)

        return simulate

    def _duplicates(self, stratum: Stratum) -> int:
        codes = self.pairs.a * self.pairs.documents + self.pairs.b
        wanted = stratum.a * self.pairs.documents + stratum.b
        return int(np.count_nonzero(self.label[np.isin(codes, wanted)]))


def _once(*pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Each pair stands for itself."""
    return np.ones(len(pairs[0]))


def labels_needed(simulate: Simulate, aim: float, most: int) -> int:
    """Return how many labels make the intervals as narrow as the aim, on average."""
    low, high = 20, most
    while high - low > max(low // 50, 5):
        middle = (low + high) // 2
        ends = simulate(middle)
        width = np.nanmean((ends[1] - ends[0])[:, :2] / 2, axis=0).max()
        low, high = (low, middle) if width <= aim else (middle, high)
    return high


def needed(bench: Path) -> Figure:
    rows: list[Row] = []
    targets = {}
    for name in SETS:
        population = Population.of(bench, name)
        truth = np.array(population.truth)
        for aim in AIMS:
            chance = np.random.default_rng(SEED)
            ways = {
                "in strata": population.stratified(Options.of().threshold, chance),
                "uniformly": population.uniform(chance),
            }
            most = min(len(population.label), MOST)
            counts = {way: labels_needed(simulate, aim, most) for way, simulate in ways.items()}
            covered = {}
            for way, simulate in ways.items():
                low, high = simulate(counts[way])
                covered[way] = np.mean((low[:, :2] <= truth) & (truth <= high[:, :2]))
            share = counts["in strata"] / counts["uniformly"]
            rows.append(
                {
                    "set": name,
                    "pairs": len(population.label),
                    "recall": float(truth[0]),
                    "precision": float(truth[1]),
                    "aim": f"± {aim:g}",
                    **{f"labels, {way}": count for way, count in counts.items()},
                    "share": float(share),
                    **{f"covered, {way}": float(part) for way, part in covered.items()},
                }
            )
            print(rows[-1], flush=True)
            if aim == AIMS[0]:
                targets[f"{name}: fewer than a third of the labels for ± {aim:g}"] = bool(
                    share < 1 / 3
                )
    return Figure("Labels for recall and precision", "all labelled pairs", rows, targets)


SUITE = Suite("labels", "Labels that recall and precision need", {"needed": needed})


def main() -> None:
    parser = SUITE.parser(__doc__.splitlines()[0], repeat=1)
    parser.set_defaults(peers_python="")
    args = SUITE.parse(parser)
    print(SUITE.measure(args, Path(args.data), {"simulated": TIMES}))


if __name__ == "__main__":
    main()
