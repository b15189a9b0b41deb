"""Read the documents of a text file with one document a line.

Every line that is not blank is a document, without its line end; it has no id and no columns.
"""

from __future__ import annotations

from neardup.corpus.columns import blank_invalid_utf8
from neardup.corpus.documents import LONGEST, TOO_LONG, Documents, make_strings
from neardup.corpus.encodings import INVALID
from neardup.corpus.format_table import BOM


def parse_plain_lines(data: bytes, first: bool) -> Documents:
    """Return the documents of whole lines; `first` if the file begins with them."""
    if first:
        data = data.removeprefix(BOM)
    lines: list[bytes | None] = [
        line.removesuffix(b"\r") for line in data.split(b"\n") if line and not line.isspace()
    ]
    rejected: dict[int, str] = {}
    if len(data) > LONGEST:
        rejected = {row: TOO_LONG for row, line in enumerate(lines) if len(line or b"") > LONGEST}
        lines = [None if row in rejected else line for row, line in enumerate(lines)]
    texts, invalid = blank_invalid_utf8(make_strings(lines))
    rejected |= dict.fromkeys(invalid, INVALID)
    ids = make_strings([None] * len(lines))
    return Documents(texts, ids, None, None, dict(sorted(rejected.items())))
