"""From what you need to an operating point: plan it, tune it on your documents, prove it.

    python examples/plan_and_tune.py

`plan` needs numbers alone; `tune` compares all pairs of a sample and tries operating points on it;
`evaluate` measures the result against pairs with a label.
"""

from __future__ import annotations

import random

import neardup

THRESHOLD = 0.8


def make_pages() -> tuple[list[dict[str, str]], list[tuple[str, str, int]]]:
    """500 pages; every fifth has an edited copy. And labels that say so."""
    chance = random.Random(7)
    words = [f"w{number}" for number in range(5_000)]
    pages, labels = [], []
    for number in range(500):
        page = chance.choices(words, k=chance.randint(60, 200))
        pages.append({"id": f"page-{number}", "text": " ".join(page)})
        if number % 5 == 0:
            edited = [chance.choice(words) if chance.random() < 0.01 else word for word in page]
            pages.append({"id": f"copy-{number}", "text": " ".join(edited)})
            labels.append((f"page-{number}", f"copy-{number}", 1))
        else:
            labels.append((f"page-{number}", f"page-{number - 1}", 0))
    return pages, labels


def main() -> None:
    pages, labels = make_pages()

    planned = neardup.plan(
        "300M", shingles=130, threshold=THRESHOLD, recall=0.95, memory="64GB", calibrate=False
    )
    point = planned.options
    print(f"planned for 300 million pages: {point['bands']} bands of {point['rows']}")
    assert planned.met

    tuning = neardup.tune(
        pages, threshold=THRESHOLD, recall=0.95, slots=[32, 64], verify="exact", workers=1
    )
    print(*tuning.reasons, sep="\n")

    for name, options in (("planned", planned.options), ("tuned", tuning.options)):
        measured = neardup.evaluate(labels, corpus=pages, **options).labels
        recall, precision = measured.recall.value, measured.precision.value
        print(f"{name}: recall {recall:.3f}, precision {precision:.3f}")

    result = neardup.dedup(pages, **tuning.options)
    print(result.summary())


if __name__ == "__main__":
    main()
