"""Vectors of texts by a function of the user: `--embed MODULE:FUNCTION`.

The function gets a list of texts and returns a vector for each: a matrix, or a list of lists. Each
text is given to it once; the vectors of a stopped run are found again in a cache.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.documents import Documents
from neardup.corpus.vectors import MOST_NUMBERS, add_vectors, convert_matrix, to_float32
from neardup.errors import UsageError

EmbedFunction = Callable[[list[str]], Any]
"""Returns a vector for each of these texts."""

BATCH: Final = 256
"""How many texts a function gets at once."""
DIGEST: Final = 16


class VectorStore(Protocol):
    """Vectors by the digest of their text: `formats.vector_cache.VectorCache`."""

    def find(self, digests: Sequence[bytes]) -> dict[int, NDArray[np.float32]]:
        """Return the vectors that are known, by the place of their digest."""

    def store(self, digests: Sequence[bytes], vectors: NDArray[np.float32]) -> None:
        """Store vectors, a row for each digest."""


class VectorMemory:
    """A `VectorStore` in memory."""

    def __init__(self) -> None:
        self._vectors: dict[bytes, NDArray[np.float32]] = {}

    def find(self, digests: Sequence[bytes]) -> dict[int, NDArray[np.float32]]:
        """Return the vectors that are known, by the place of their digest.

        Args:
            digests: The digests of texts.
        """
        known = self._vectors
        return {row: known[digest] for row, digest in enumerate(digests) if digest in known}

    def store(self, digests: Sequence[bytes], vectors: NDArray[np.float32]) -> None:
        """Store vectors.

        Args:
            digests: The digests of their texts.
            vectors: A row for each.
        """
        self._vectors |= zip(digests, vectors, strict=True)


def import_function(name: str) -> EmbedFunction:
    """Return the function that is meant by MODULE:FUNCTION; `UsageError` if there is none.

    Args:
        name: Its name; the module is also looked for in the current folder.

    >>> import_function("math:sqrt")(4)
    2.0
    """
    module, colon, function = name.partition(":")
    if not (colon and module and function):
        raise UsageError(f"{name!r} names no function: write MODULE:FUNCTION, as my_model:embed")
    if module.endswith(".py"):
        raise UsageError(
            f"{module} is a file: name its module, {Path(module).stem}:{function}, in its folder"
        )
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        imported = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module + ".").startswith(error.name + "."):
            raise UsageError(
                f"no module {error.name!r}: install it, begin in the folder that has "
                f"{module.partition('.')[0]}.py, or add that to PYTHONPATH"
            ) from None
        raise UsageError(f"{module} needs the module {error.name!r}: install it") from error
    except (Exception, SystemExit) as error:
        raise UsageError(f"{module} can't be imported: {describe_error(error)}") from error
    try:
        found = attrgetter(function)(imported)
    except AttributeError:
        raise UsageError(f"{module} has no {function!r}: name a function that it has") from None
    if not callable(found):
        raise UsageError(f"{name} is no function but of type {type(found).__name__}: name one")
    called: EmbedFunction = found
    return called


def name_maker(name: str, function: EmbedFunction) -> str:
    """Return what makes the vectors of a cache: the function's name and a digest of its modules.

    These are the one that is named, and that in which the function is defined. Vectors that another
    text of them made are not used. A model that changes under the same
    name is not noticed.

    Args:
        name: The name of the function, MODULE:FUNCTION.
        function: The function.
    """
    named = name.partition(":")[0]
    made = hashlib.blake2b(digest_size=8)
    # A method is of the module of its class, which is not the one that made its object.
    for module in dict.fromkeys([named, getattr(function, "__module__", None) or named]):
        path = getattr(sys.modules.get(module), "__file__", None)
        if path is not None:
            with suppress(OSError), open(path, "rb") as file:  # it may be in an archive
                made.update(file.read())
    return f"{name} {made.hexdigest()}"


def describe_error(error: BaseException) -> str:
    """Return the type and the message of an error in one line."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def embed_all(name: str, batches: Iterable[Documents]) -> NDArray[np.float32]:
    """Return the vectors that a function makes, a row for each document; zeros for rejected ones.

    Args:
        name: The function, MODULE:FUNCTION.
        batches: All documents.
    """
    embedding = Embedding(name, import_function(name), VectorMemory())
    found = [embedding.rows(documents) for documents in batches]
    dimension = embedding.dimension or 1
    return np.concatenate(
        [np.zeros((0, dimension), np.float32)]
        + [
            rows if rows.shape[1] else np.zeros((len(rows), dimension), np.float32)
            for rows in found
        ]
    )


class Embedding:
    """Gives documents the vectors of their texts. Not for several threads at once.

    Args:
        name: The name of the function, for messages.
        function: The function.
        store: Where vectors are found, and stored as soon as they are made.
        batch: How many texts the function gets at once.
    """

    def __init__(
        self, name: str, function: EmbedFunction, store: VectorStore, batch: int = BATCH
    ) -> None:
        self._name, self._function, self._store, self._batch = name, function, store, batch
        self.dimension: int | None = None

    def __call__(self, documents: Documents) -> Documents:
        """Return documents with their vectors; those without a usable one are rejected.

        Args:
            documents: The documents.
        """
        matrix = self.rows(documents)
        return add_vectors(documents, convert_matrix(matrix, matrix.shape[1]))

    def rows(self, documents: Documents) -> NDArray[np.float32]:
        """Return what the function makes of documents, zeros for rejected ones.

        Args:
            documents: The documents; the texts of rejected ones are not used.
        """
        texts = documents.texts.to_pylist()
        rows = [row for row, text in enumerate(texts) if text is not None]
        matrix = self.embed([texts[row] for row in rows])
        whole = np.zeros((len(texts), matrix.shape[1]), np.float32)
        whole[rows] = matrix
        return whole

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, a row for each; they may have NaN.

        Args:
            texts: The texts.
        """
        digests = [hashlib.blake2b(text.encode(), digest_size=DIGEST).digest() for text in texts]
        place_of = {digest: place for place, digest in enumerate(digests)}
        unique = list(place_of)
        found = {unique[place]: row for place, row in self._store.find(unique).items()}
        for row in found.values():
            self._check_dimension(len(row))
        missing = [digest for digest in unique if digest not in found]
        for start in range(0, len(missing), self._batch):
            some = missing[start : start + self._batch]
            made = self._call([texts[place_of[digest]] for digest in some])
            self._store.store(some, made)
            found |= zip(some, made, strict=True)
        if not found:
            return np.zeros((0, self.dimension or 0), np.float32)
        return np.stack([found[digest] for digest in digests])

    def _call(self, texts: list[str]) -> NDArray[np.float32]:
        """Return what the function makes of texts; `UsageError` unless it is a row for each."""
        try:
            made = self._function(texts)
        except (Exception, SystemExit) as error:
            raise UsageError(
                f"{self._name} failed for {len(texts)} texts: {describe_error(error)}"
            ) from error
        try:
            matrix = np.asarray(made)
        except (TypeError, ValueError, RuntimeError) as error:
            raise self._wrong(describe_error(error)) from error
        if matrix.ndim != 2 or matrix.dtype.kind not in "fiu":
            raise self._wrong(f"{matrix.dtype} of shape {matrix.shape}")
        if len(matrix) != len(texts):
            raise self._wrong(f"{len(matrix)} vectors for {len(texts)} texts")
        self._check_dimension(matrix.shape[1])
        return to_float32(np.ascontiguousarray(matrix))

    def _check_dimension(self, dimension: int) -> None:
        self.dimension = self.dimension or dimension
        if dimension != self.dimension:
            raise self._wrong(
                f"vectors of {dimension} numbers, and before, or in the run that this one goes on "
                f"from, of {self.dimension}"
            )
        if not 0 < dimension <= MOST_NUMBERS:
            raise self._wrong(f"vectors of {dimension} numbers, not of 1 to {MOST_NUMBERS:,}")

    def _wrong(self, what: str) -> UsageError:
        return UsageError(
            f"{self._name} returned {what}: it must return a matrix, or a list of lists of "
            "numbers, with a row for each text of its list"
        )
