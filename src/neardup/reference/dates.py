"""A value as a point in time, by its definition: what `--keep newest:COLUMN` compares.

A date is a timestamp, a date, a string of ISO 8601 or of RFC 2822, or a number since 1970-01-01.
Without a zone it is in UTC; without a time it is midnight.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from email.utils import parsedate_to_datetime
from fractions import Fraction

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SCALES = ((10**11, 10**6), (10**14, 10**3), (10**17, 1))
"""A number below 10**11 is one of seconds, below 10**14 of milliseconds, below 10**17 of
microseconds: the limit, and the microseconds in one. Larger ones are nanoseconds."""
LARGEST = 10**20
LONGEST = 100
"""Characters of a string that may be a date."""
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)
_ISO = re.compile(
    r"(?P<year>\d{4})(-(?P<month>\d\d)(-(?P<day>\d\d))?|(?P<month_>\d\d)(?P<day_>\d\d))?"
    r"([Tt ](?P<hour>\d\d)(:?(?P<minute>\d\d)(:?(?P<second>\d\d)([.,](?P<part>\d+))?)?)?)?"
    r" ?([Zz]|UTC|GMT|(?P<sign>[+-])(?P<hours>\d\d)(:?(?P<minutes>\d\d))?)?",
    re.ASCII,
)


def parse_date(value: object) -> int | None:
    """Return the microseconds from 1970-01-01 in UTC to a date; None if the value is no date.

    >>> parse_date("2024-01-15T10:00:00+01:00") == parse_date("Mon, 15 Jan 2024 09:00:00 GMT")
    True
    >>> parse_date("2024-01-15") == parse_date(1705276800) == parse_date(1705276800000)
    True
    """
    if isinstance(value, datetime):
        return _since_epoch(value)
    if isinstance(value, date):
        return _since_epoch(datetime(value.year, value.month, value.day))
    if isinstance(value, str):
        return _parse_string(value.strip())
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return _parse_number(value)
    return None


def _since_epoch(moment: datetime) -> int:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)


def _parse_number(value: float | Decimal) -> int | None:
    # Without this check, a NaN or an infinity would have no fraction.
    if not -LARGEST < value < LARGEST:
        return None
    number = Fraction(value)
    for limit, microseconds in SCALES:
        if abs(number) < limit:
            return round(number * microseconds)
    return round(number / 1000)


def _parse_string(text: str) -> int | None:
    if len(text) > LONGEST:
        return None
    if iso := _ISO.fullmatch(text):
        return _parse_iso(iso.groupdict())
    if _NUMBER.fullmatch(text):
        return _parse_number(Decimal(text))
    try:
        return _since_epoch(parsedate_to_datetime(text))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _parse_iso(found: dict[str, str | None]) -> int | None:
    def number(name: str) -> int:
        return int(found[name] or 0)

    hour, minute, second = number("hour"), number("minute"), number("second")
    # 24:00 is the end of a day, and :60 a leap second, which is the second after it.
    if minute > 59 or second > 60 or hour > 24 or (hour == 24 and minute + second):
        return None
    if number("hours") > 23 or number("minutes") > 59:
        return None
    try:
        month, in_month = found["month"] or found["month_"], found["day"] or found["day_"]
        day = date(number("year"), int(month or 1), int(in_month or 1))
    except ValueError:
        return None
    zone = (number("hours") * 60 + number("minutes")) * (-1 if found["sign"] == "-" else 1)
    seconds = (day - EPOCH.date()).days * 86400 + (hour * 60 + minute - zone) * 60 + second
    return seconds * 10**6 + int(((found["part"] or "") + "000000")[:6])
