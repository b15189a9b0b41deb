"""Which arguments are URLs of stores, and how they are named without secrets."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from neardup.errors import UsageError

URL: Final = re.compile("[A-Za-z][A-Za-z0-9+.-]*://")
SCHEMES: Final = ("s3", "gs", "gcs", "abfs", "abfss", "hf", "http", "https")
"""The schemes that the local engine reads; it writes all but hf, http and https."""
READ_ONLY: Final = ("hf", "http", "https")
AZURE: Final = ("abfs", "abfss", "wasb", "wasbs")
SIGNED: Final = ("http", "https", *AZURE)
"""The schemes whose URLs may have a signature as their query; for others, ? is part of a name."""
SIGNATURES: Final = frozenset({"x-amz-signature", "x-goog-signature", "signature", "sig"})
EXPIRIES: Final = frozenset({"x-amz-expires", "x-goog-expires", "expires", "se"})
SIGNING: Final = re.compile(
    "x-amz-.*|x-goog-.*|signature|expires|key-pair-id|policy|awsaccesskeyid|googleaccessid"
    "|s(ig|e|t|p|v|r|pr|ip|koid|ktid|kt|ke|ks|kv)"
)
"""The parameters that S3, CloudFront, Google Cloud Storage and Azure add when they sign a URL."""


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


def require_host(url: str) -> None:
    """Refuse an HTTP URL without a host, or with a port that no server can have.

    >>> require_host("http://host:8000/a.jsonl")
    """
    parts = urlsplit(url)
    try:
        valid = parts.port != 0
    except ValueError:  # not shown: what stands there may be a password
        valid = False
    if not parts.hostname:
        raise UsageError(f"{parts.scheme}://...: this URL has no host: check it")
    if not valid:
        raise UsageError(
            f"{parts.scheme}://{parts.hostname}:...: the port of this URL is no number from 1 to "
            "65535: check it"
        )


def without_signature(url: str) -> str:
    """Return a URL without what its signing added: the same whenever it is signed.

    >>> without_signature("https://host/a?id=7&X-Amz-Expires=60&X-Amz-Signature=x")
    'https://host/a?id=7'
    >>> without_signature("https://host/a?sig=x")  # does not expire: not a signed URL
    'https://host/a?sig=x'
    """
    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    names = {name.lower() for name, _ in query}
    if parts.scheme not in ("http", "https") or not (names & SIGNATURES and names & EXPIRIES):
        return url
    left = [(name, value) for name, value in query if not SIGNING.fullmatch(name.lower())]
    return parts._replace(query=urlencode(left)).geturl()


def is_signed(url: str) -> bool:
    """Return whether a URL is signed, and so can be read until it expires."""
    return without_signature(url) != url
