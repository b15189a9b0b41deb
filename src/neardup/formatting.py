"""Bytes, counts, times, durations and shares as people read and write them.

Units of bytes are powers of ten: 1 KB is 1,000 bytes.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from neardup.errors import ParameterError
from neardup.spec import check_number

BYTE_UNITS: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
COUNT_UNITS: Final = {"K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9, "T": 10**12}
DURATION_UNITS: Final = {
    **dict.fromkeys(("s", "second", "seconds"), 1),
    **dict.fromkeys(("min", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86400),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 86400),
    **dict.fromkeys(("y", "year", "years"), 365 * 86400),
}
TIME_UNITS: Final = (("years", 365.25 * 86400), ("days", 86400.0), ("h", 3600.0), ("min", 60.0))
DURATION: Final = re.compile(
    rf"([+-]?(?:\d+(?:\.\d*)?|\.\d+)) ?({'|'.join(DURATION_UNITS)}|)", re.ASCII | re.IGNORECASE
)
SMALLEST_NUMBER: Final = 1e-4


def make_printable(text: str) -> str:
    """Return a line without control characters, which could command a terminal.

    >>> make_printable("page\\x1b[2J 1")
    'page\ufffd[2J 1'
    """
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def format_time(moment: datetime | float, *, precision: str = "seconds") -> str:
    """A time, or seconds since 1970, as all outputs show it: ISO 8601, in UTC.

    >>> format_time(1_763_434_800.9), format_time(1_763_434_800.9, precision="minutes")
    ('2025-11-18T03:00:00Z', '2025-11-18T03:00Z')
    """
    if not isinstance(moment, datetime):
        moment = datetime.fromtimestamp(moment, UTC)
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=precision) + "Z"


def format_bytes(size: float) -> str:
    """A size with its unit.

    >>> format_bytes(512), format_bytes(1_500), format_bytes(819_453_952), format_bytes(3.2e12)
    ('512 B', '1.5 KB', '819 MB', '3.2 TB')
    """
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def format_count(count: int, noun: str = "", plural: str = "") -> str:
    """A whole number, alone or with the noun that it counts.

    >>> format_count(1_200), format_count(1, "core"), format_count(1_200, "copy", "copies")
    ('1,200', '1 core', '1,200 copies')
    """
    if not noun:
        return f"{count:,}"
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def format_number(value: float) -> str:
    """Three significant digits, never a power of ten.

    >>> format_number(2420.4), format_number(33.83), format_number(0.7), format_number(1e-9)
    ('2,420', '33.8', '0.7', 'less than 0.0001')
    """
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if 0 < value < SMALLEST_NUMBER:
        return f"less than {SMALLEST_NUMBER:g}"
    return f"{value:.3g}"


def format_large_number(value: float) -> str:
    """Three significant digits, with a word for many zeros.

    >>> format_large_number(6.3e9), format_large_number(1_230_000), format_large_number(500)
    ('6.3 billion', '1.23 million', '500')
    """
    for unit, size in (("billion", 1e9), ("million", 1e6)):
        if value >= size:
            return f"{format_number(value / size)} {unit}"
    return format_number(value)


def format_amount(number: float, unit: str) -> str:
    """A number of a unit; if the unit is bytes, a size.

    >>> format_amount(2_500_000, "bytes"), format_amount(2_500, "documents")
    ('2.5 MB', '2,500 documents')
    >>> format_amount(1, "documents"), format_amount(1, "sketches")
    ('1 document', '1 sketch')
    """
    if unit == "bytes":
        return format_bytes(number)
    one = unit.removesuffix("es") if unit.endswith("ches") else unit.removesuffix("s")
    return format_count(round(number), one, unit)


def format_similarity(similarity: float, digits: int = 4) -> str:
    """A similarity; only what is 1 looks like it.

    Args:
        similarity: From 0 to 1.
        digits: Decimal places.

    >>> format_similarity(1.0, 2), format_similarity(0.9965, 2), format_similarity(0.8549, 2)
    ('1.00', '0.99', '0.85')
    """
    shown = similarity if similarity >= 1.0 else min(similarity, 1.0 - 10.0**-digits)
    return f"{shown:.{digits}f}"


def format_duration(seconds: float) -> str:
    """A time by two significant digits; hundredths of a second are the smallest.

    >>> format_duration(544_000), format_duration(1020), format_duration(5.04)
    ('6.3 days', '17 min', '5 s')
    >>> format_duration(0.312), format_duration(2e-6)
    ('0.31 s', '0 s')
    """
    for unit, size in TIME_UNITS:
        if seconds >= 2 * size:
            return f"{_two_digits(seconds / size)} {unit}"
    return f"{_two_digits(seconds)} s"


def _two_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{round(value, 2):.2g}"


def format_percent(share: float, digits: int = 0) -> str:
    """A share of 1 as a percentage.

    >>> format_percent(0.283), format_percent(0.283, 1)
    ('28%', '28.3%')
    """
    return f"{share:.{digits}%}"


def format_ratio(value: float | None, undefined: str = "undefined") -> str:
    """A similarity, recall or precision by four decimals, if it is defined.

    >>> format_ratio(0.93), format_ratio(None)
    ('0.9300', 'undefined')
    """
    return undefined if value is None else f"{value:.4f}"


def parse_bytes(value: object, name: str = "size") -> int:
    """A size such as 2GB, 1.5G or 800MB, or a number of bytes.

    >>> parse_bytes("1.5GB"), parse_bytes(4096)
    (1500000000, 4096)
    """
    if not isinstance(value, str):
        size = check_number(name, value)
        if not math.isfinite(size):
            raise ParameterError(f"{name} can't be {size}: give a size such as 100GB")
        return int(size)
    number, unit = value.strip().upper().removesuffix("B").removesuffix("I"), ""
    if number and number[-1] in BYTE_UNITS:
        number, unit = number[:-1], number[-1]
    with suppress(ValueError, OverflowError):
        return int(float(number) * BYTE_UNITS[unit])
    raise ParameterError(f"{value!r} is not a size: write it like 2GB or 800MB")


def parse_memory(value: str | float) -> int:
    """A size of memory; a small number without a unit is taken for a mistake.

    >>> parse_memory("4GB")
    4000000000
    >>> parse_memory("4")
    Traceback (most recent call last):
    ...
    neardup.errors.ParameterError: --memory 4 is 4 bytes: did you mean 4GB?
    """
    size = parse_bytes(value, "memory")
    number = str(value).strip()
    if 0 < size < 10**6 and number[-1:].isdigit():
        unit = "GB" if size <= 1024 else "MB"
        raise ParameterError(f"--memory {number} is {number} bytes: did you mean {number}{unit}?")
    return size


def parse_duration(value: object, name: str = "duration") -> float:
    """A time such as 30d, 12h, 90min or 1.5 years, or a number of seconds; more than 0.

    >>> parse_duration("30d"), parse_duration("90 min"), parse_duration(timedelta(hours=1))
    (2592000.0, 5400.0, 3600.0)
    >>> parse_duration("30")
    Traceback (most recent call last):
    ...
    neardup.errors.ParameterError: duration '30' has no unit: did you mean 30d?
    """
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif not isinstance(value, str):
        seconds = check_number(name, value)
    elif found := DURATION.fullmatch(value.strip()):
        number, unit = found.groups()
        if not unit:
            raise ParameterError(f"{name} {value!r} has no unit: did you mean {number}d?")
        seconds = float(number) * DURATION_UNITS[unit.lower()]
    else:
        raise ParameterError(f"{name} {value!r} is not a time: write it like 30d, 12h or 90min")
    if not (0 < seconds < math.inf):
        raise ParameterError(f"{name} must be more than 0, not {value}")
    return seconds


def parse_number(value: object, name: str = "number") -> float:
    """A number such as 300M, 1.5K, 5,000 or 1e9.

    >>> parse_number("300M"), parse_number(0.5)
    (300000000.0, 0.5)
    """
    if not isinstance(value, str):
        return check_number(name, value)
    digits, multiple = value.strip().upper().replace(",", "").replace("_", ""), 1
    if digits and digits[-1] in COUNT_UNITS:
        digits, multiple = digits[:-1], COUNT_UNITS[digits[-1]]
    with suppress(ValueError):
        return float(digits) * multiple
    raise ParameterError(f"{name} {value!r} is not a number: write it like 300M, 5,000 or 1e9")


def parse_count(value: object, name: str = "count") -> int:
    """A whole number such as 300M, 1.5K or 5,000.

    >>> parse_count("1.5K")
    1500
    """
    count = parse_number(value, name)
    if not math.isfinite(count):
        raise ParameterError(f"{name} can't be {count}: say how many, such as 300M")
    return int(count)
