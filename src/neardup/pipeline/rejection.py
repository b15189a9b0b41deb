"""Whether too many documents were rejected: then a run fails, after it has written everything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neardup.errors import TooManyRejected
from neardup.formatting import format_count
from neardup.wording import list_reasons


def check_rejected(record: Mapping[str, Any], where: str) -> None:
    """Raise `TooManyRejected` if more documents were rejected than a run allows.

    Args:
        record: The content of run.json.
        where: What the error says about the rejected documents, and about the others.
    """
    allowed = record["parameters"]["max_rejected"]
    require_few_rejected(record["counts"], record["reasons"], allowed, where)


def require_few_rejected(
    counts: Mapping[str, int], reasons: Mapping[str, int], allowed: float, where: str
) -> None:
    """Raise `TooManyRejected` if more than a share of the documents was rejected.

    Args:
        counts: The numbers of `documents` and of `rejected` ones.
        reasons: Documents by the reason why they were rejected, the most common first.
        allowed: The largest share.
        where: What the error says about the rejected documents, and about the others.
    """
    rejected, documents = counts["rejected"], counts["documents"]
    if rejected > allowed * documents:
        raise TooManyRejected(
            f"{rejected:,} of {format_count(documents, 'document')} rejected "
            f"({'; '.join(list_reasons(reasons, rejected))}), more than --max-rejected {allowed:g} "
            f"allows: {where}; correct the input or the options, or allow more"
        )
