"""Which arguments are URLs of stores, and how they are named without secrets."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from neardup.errors import UsageError

URL: Final = re.compile("[A-Za-z][A-Za-z0-9+.-]*://")
SCHEMES: Final = ("s3", "gs", "gcs", "abfs", "abfss", "hf", "http", "https")
"""The schemes that the local engine reads; it writes all but hf, http and https."""
READ_ONLY: Final = ("hf", "http", "https")
AZURE: Final = ("abfs", "abfss", "wasb", "wasbs")
SIGNED: Final = ("http", "https", *AZURE)
"""The schemes whose URLs may have a signature as their query; for others, ? is part of a name."""


def is_url(argument: object) -> bool:
    """Return whether an argument is a URL rather than a path.

    >>> is_url("s3://bucket/pages"), is_url("pages/1.jsonl")
    (True, False)
    """
    return URL.match(str(argument)) is not None


def hide_secrets(url: str) -> str:
    """Return a URL without user and password, and without a query that may be a signature.

    A path is returned as it is.

    >>> hide_secrets("https://me:secret@host/a.jsonl?signature=x"), hide_secrets("s3://k:s@b/c")
    ('https://host/a.jsonl', 's3://b/c')
    >>> hide_secrets("abfss://pages@account.dfs.core.windows.net/a?sig=x")
    'abfss://pages@account.dfs.core.windows.net/a'
    """
    if not is_url(url):
        return url
    try:
        parts = urlsplit(url, allow_fragments=False)
    except ValueError:  # its message may quote a password
        raise UsageError(
            f"{url.partition(':')[0]}://...: the host of this URL is malformed: check its brackets "
            "and letters"
        ) from None
    user, at, host = parts.netloc.rpartition("@")
    if parts.scheme in AZURE and ":" not in user:
        host = user + at + host  # container@account is a place, not a person
    path = parts.path
    if "?" in url and parts.scheme not in SIGNED:
        path += f"?{parts.query}"
    return f"{parts.scheme}://{host}{path}"
