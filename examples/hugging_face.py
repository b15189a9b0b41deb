"""Clean a Hugging Face data set: near-duplicates, and test rows that the train split contains.

    python examples/hugging_face.py

With data of your own: `datasets.load_dataset(...)` instead of `make_splits`.
"""

from __future__ import annotations

from datasets import Dataset, DatasetDict, concatenate_datasets

import neardup

QUESTION = "How many apples are left if Ann has {} apples, gives {} of them away and eats one?"


def make_splits() -> DatasetDict:
    train = [QUESTION.format(n, n // 2) for n in (8, 12, 20)]
    train += [train[0].upper(), "Name the largest lake of the country, and the rivers it feeds."]
    test = [train[1] + " Explain.", "Which month has the most rainy days in the north?"]
    return DatasetDict(
        train=Dataset.from_dict({"id": [f"train-{n}" for n in range(5)], "text": train}),
        test=Dataset.from_dict({"id": ["test-0", "test-1"], "text": test}),
    )


def main() -> None:
    splits = make_splits()

    # `distinguish="numbers"` keeps exercises apart that differ in their numbers alone.
    options = {"shingle": "word:2", "threshold": 0.7, "distinguish": "numbers"}
    result = neardup.dedup(splits["train"], **options)
    train = result.filter(splits["train"])
    print(result.summary())
    assert train["id"] == ["train-0", "train-1", "train-2", "train-4"]

    # The train split comes first, so that its copy of a document stays.
    both = concatenate_datasets([train, splits["test"]])
    leaks = [row.id for row in neardup.dedup(both, **options).removed]
    test = splits["test"].filter(lambda row: row["id"] not in leaks)
    assert leaks == ["test-0"] and len(test) == 1


if __name__ == "__main__":
    main()
