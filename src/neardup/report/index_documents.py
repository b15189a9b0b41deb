"""Documents of an index that the documents of a run were compared with, read from the index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from neardup.corpus.documents import Documents, make_strings
from neardup.errors import InputError, NeardupError
from neardup.index.stored_corpus import open_indexes
from neardup.pipeline.run_inputs import FoundDocument


def read_from_indexes(
    indexes: Mapping[str, Path | str], places: Sequence[tuple[str, int]]
) -> list[FoundDocument]:
    """Return the documents at these places, with their texts.

    Args:
        indexes: The folders or addresses of the indexes, by their names in the tables of the run.
        places: The name of an index, and the number of a document there; other places are ignored.

    Raises:
        InputError: an index can't be read, or has no such document or not its text.
    """
    found = []
    for name, folder in indexes.items():
        if numbers := [number for file, number in places if file == name]:
            found += _read(name, folder, numbers)
    return found


def _read(name: str, folder: Path | str, numbers: Sequence[int]) -> list[FoundDocument]:
    try:
        with open_indexes([folder]) as opened:
            if not opened:
                raise InputError(f"the index {name} is not there any more", name)
            (corpus,) = opened
            rows, texts = corpus.store.rows(numbers), corpus.read_texts(numbers)
            tokens = corpus.spec.unit == "token"
    except InputError:
        raise
    except (NeardupError, OSError) as error:
        raise InputError(f"the index {name} can't be read: {error}", name) from None
    missing = next((number for number in numbers if number not in rows), None)
    if missing is not None:
        raise InputError(f"the index {name} has no document number {missing} any more", name)
    if any(number not in texts for number in numbers):
        raise InputError(f"the index {name} keeps no texts (--keep-texts)", name)
    kind = pa.large_list(pa.int64()) if tokens else pa.large_string()
    return [
        FoundDocument(
            rows[number].id,
            name,
            number,
            Documents(
                pa.array([texts[number]], kind), make_strings([rows[number].id]), None, None, {}
            ),
            earlier=True,
        )
        for number in numbers
    ]
