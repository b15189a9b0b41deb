"""Numbers and times as people say them."""

from __future__ import annotations

_TIMES = (("years", 365.25 * 86400), ("days", 86400.0), ("h", 3600.0), ("min", 60.0))
LEAST = 1e-4


def number(value: float) -> str:
    """Three digits that count, never a power of ten.

    >>> number(2420.4), number(33.83), number(0.7), number(5), number(1e-9)
    ('2,420', '33.8', '0.7', '5', 'less than 0.0001')
    """
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if 0 < value < LEAST:
        return f"less than {LEAST:g}"
    return f"{value:.3g}"


def large(value: float) -> str:
    """The same with a word for many zeros.

    >>> large(6.3e9), large(1_230_000), large(500)
    ('6.3 billion', '1.23 million', '500')
    """
    for unit, size in (("billion", 1e9), ("million", 1e6)):
        if value >= size:
            return f"{number(value / size)} {unit}"
    return number(value)


def counted(count: int, what: str) -> str:
    """So many of something.

    >>> counted(1, "core"), counted(1_200, "executor")
    ('1 core', '1,200 executors')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"


def duration(seconds: float) -> str:
    """A time, by two digits; hundredths of a second are the least.

    >>> duration(544_000), duration(1020), duration(5.04), duration(0.312), duration(2e-6)
    ('6.3 days', '17 min', '5 s', '0.31 s', '0 s')
    """
    for unit, size in _TIMES:
        if seconds >= 2 * size:
            return f"{_two_digits(seconds / size)} {unit}"
    return f"{_two_digits(seconds)} s"


def _two_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{round(value, 2):.2g}"
