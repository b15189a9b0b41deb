"""What of a text is compared: a page as the text that it shows, without the ignored lines."""

from __future__ import annotations

import pyarrow as pa

from neardup.errors import SpecMismatch
from neardup.keys import Key
from neardup.spec import Spec
from neardup.text.html import without_markup
from neardup.text.ignored import IgnoredLines
from neardup.text.lines import ignore_lines


def stripped(
    texts: pa.Array, spec: Spec, ignored: IgnoredLines, key: Key | None = None
) -> pa.Array:
    """The texts as they are cut into shingles. A step that would leave nothing is left out."""
    return ignore_lines(without_markup(texts, spec), ignored.hashes, spec, key)


def require_list(spec: Spec, ignored: IgnoredLines) -> None:
    """Refuse a list of ignored lines that is not the one which the specification names."""
    if spec.ignored != ignored.digest:
        raise SpecMismatch(
            f"the specification ignores the lines {spec.ignored or 'of no list'}, the list at hand "
            f"is {ignored.digest or 'empty'}: pass the list that the specification was made with"
        )
