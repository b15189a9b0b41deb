"""Which arguments are URLs of stores, and how they are named without secrets."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

URL: Final = re.compile("[A-Za-z][A-Za-z0-9+.-]*://")
SCHEMES: Final = ("s3", "gs", "gcs", "abfs", "abfss", "hf", "http", "https")
"""The schemes that the local engine reads; it writes all but hf, http and https."""
READ_ONLY: Final = ("hf", "http", "https")


def is_url(argument: object) -> bool:
    """Return whether an argument is a URL rather than a path.

    >>> is_url("s3://bucket/pages"), is_url("pages/1.jsonl")
    (True, False)
    """
    return URL.match(str(argument)) is not None


def hide_secrets(url: str) -> str:
    """Return a URL without user and password, and for HTTP without a query, which may be signed.

    >>> hide_secrets("https://me:secret@host/a.jsonl?signature=x"), hide_secrets("s3://k:s@b/c")
    ('https://host/a.jsonl', 's3://b/c')
    """
    parts = urlsplit(url, allow_fragments=False)
    user, at, host = parts.netloc.rpartition("@")
    if parts.scheme in ("abfs", "abfss") and ":" not in user:
        host = user + at + host  # container@account is a place, not a person
    path = parts.path
    if parts.query and parts.scheme not in ("http", "https"):
        path += f"?{parts.query}"
    return f"{parts.scheme}://{host}{path}"
