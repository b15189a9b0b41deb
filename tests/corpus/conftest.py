"""Helpers: read a whole path through chunks and parse, as a run does."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from neardup.corpus.documents import Columns, concat_keep
from neardup.corpus.inputs import find_inputs
from neardup.corpus.read import parse_chunk, read_chunks
from neardup.corpus.rows import Edit
from neardup.corpus.write import write_kept


def _read(
    path: Path, columns: Columns | None = None, size: int = 1 << 20, **how: Any
) -> SimpleNamespace:
    columns = columns or Columns()
    (file,) = find_inputs([path], **how)
    found = SimpleNamespace(texts=[], ids=[], within=[], rejected={}, keep=None, batches=0)
    keeps = []
    for chunk in read_chunks(file, columns, size):
        documents = parse_chunk(pickle.loads(pickle.dumps(chunk)), columns)
        start = len(found.texts)
        found.rejected |= {start + row: why for row, why in documents.rejected.items()}
        found.texts += documents.texts.to_pylist()
        found.ids += documents.ids.to_pylist()
        if documents.within is not None:
            found.within += documents.within.to_pylist()
        if documents.keep is not None:
            keeps.append(documents.keep)
        found.batches += 1
        documents.texts.validate(full=True)
        nulls = {row for row, text in enumerate(documents.texts.to_pylist()) if text is None}
        assert nulls == set(documents.rejected), "null exactly where rejected"
        assert list(documents.rejected) == sorted(documents.rejected)
        assert len(documents.ids) == len(documents)
    if keeps:
        found.keep = concat_keep(keeps)
    return found


def _rewrite(path: Path, keep: list[bool], to: Path, edit: Edit | None = None, **how: Any) -> Path:
    (file,) = find_inputs([path], **how)
    write_kept(file, np.array(keep, bool), to, edit=edit)
    return to


@pytest.fixture(scope="session")
def read() -> Callable[..., Any]:
    return _read


@pytest.fixture(scope="session")
def rewrite() -> Callable[..., Path]:
    return _rewrite
