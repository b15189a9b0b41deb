"""rbloom: with Python's own hash, which is its fastest way and can't be saved."""

from __future__ import annotations

from filtering import RATE, FilterContender, Made, main
from rbloom import Bloom


def make(n: int) -> Made:
    found = Bloom(n, RATE)
    return Made(
        found.update,
        lambda keys: sum(key in found for key in keys),
        lambda: found.size_in_bits,
    )


if __name__ == "__main__":
    main(FilterContender("rbloom", "a list of strings; its hash can't be saved", make))
