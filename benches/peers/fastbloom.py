"""fastbloom-rs: the Bloom filter, by its bulk methods."""

from __future__ import annotations

from fastbloom_rs import FilterBuilder
from filtering import RATE, FilterContender, Made, main


def make(n: int) -> Made:
    found = FilterBuilder(n, RATE).build_bloom_filter()
    return Made(
        found.add_str_batch,
        lambda keys: sum(found.contains_str_batch(keys)),
        lambda: len(found.get_bytes()) * 8,
    )


if __name__ == "__main__":
    main(FilterContender("fastbloom-rs", "a list of strings, in bulk", make))
