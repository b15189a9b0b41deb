"""Embeddings made of texts, without a trained model: shared by tests and benches.

Two kinds. `hashed_vectors` knows only which words two texts share: tf-idf, projected. `WordVectors`
learns from a corpus which words occur near one another, as word2vec does (it factorises the same
matrix), so that texts without a common word can be near. Neither is a sentence encoder: word order
and negation are invisible to both. `crowd` plants what trained encoders are known for, a direction
that all vectors share; `plant_copies` makes vectors at known cosines. On one machine equal
arguments give equal bits; between machines the last bits of a matrix product may differ.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pydoc_data.topics import topics

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

WORD = re.compile(r"\w+")
BUCKETS = 1 << 15
"""Words of hashed vectors share this many places."""
UNKNOWN = -1
SMOOTHING = 0.75
"""Frequencies of contexts are raised to this power, as in word2vec."""
OVERSAMPLED = 32
POWER_ITERATIONS = 2

Matrix = NDArray[np.float32]


def passages(words: int = 40, step: int = 20) -> list[str]:
    """Return passages of Python's own manual, as `help()` has it: some 60,000 words.

    Args:
        words: How long a passage is.
        step: A passage begins this many words after the one before: overlapping ones are alike.
    """
    manual = [word for name in sorted(topics) for word in topics[name].split()]
    return [" ".join(manual[at : at + words]) for at in range(0, len(manual) - words, step)]


def hashed_vectors(texts: Sequence[str], dimension: int = 384, seed: int = 1) -> Matrix:
    """Return unit vectors of hashed tf-idf, projected at random and rotated to principal axes.

    Args:
        texts: The texts; one without any word gets zeros.
        dimension: The length of a vector.
        seed: Of the projection.
    """
    weights = _tf_idf(_tokenise(texts, _HashedPlaces()), BUCKETS)
    chance = np.random.Generator(np.random.PCG64(seed))
    projected = weights @ chance.standard_normal((BUCKETS, dimension), np.float32)
    axes = np.linalg.eigh(projected.T @ projected)[1][:, ::-1]
    return unit(projected @ axes)


class _HashedPlaces(dict[str, int]):
    """Places of words by their CRC-32, computed once a word."""

    def __missing__(self, word: str) -> int:
        self[word] = place = zlib.crc32(word.encode()) % BUCKETS
        return place


class _Vocabulary(dict[str, int]):
    """Places of known words."""

    def __missing__(self, word: str) -> int:
        return UNKNOWN


@dataclass(frozen=True)
class WordVectors:
    """Word vectors of a corpus: truncated SVD of its positive pointwise mutual information.

    Attributes:
        places: The row of each word of the vocabulary.
        vectors: Words x dimension.
        idf: The inverse document frequency of each word, in the corpus of `fit`.
    """

    places: Mapping[str, int]
    vectors: Matrix
    idf: Matrix

    @classmethod
    def fit(
        cls,
        texts: Sequence[str],
        dimension: int = 384,
        seed: int = 1,
        words: int = 20_000,
        window: int = 5,
        most_words: int = 4_000_000,
    ) -> WordVectors:
        """Learn word vectors.

        Args:
            texts: The corpus.
            dimension: The length of a vector, less than the number of different words.
            seed: Of the randomised SVD.
            words: The size of the vocabulary: the most frequent words.
            window: Words within this distance of one another count as neighbours.
            most_words: Of a corpus with more words than about this, every k-th text is used.
        """
        size = sum(len(text) for text in texts) // 6
        sample = texts[:: max(1, -(-size // most_words))]
        counts = Counter(word for text in sample for word in WORD.findall(text.lower()))
        ranked = sorted(counts, key=lambda word: (-counts[word], word))[:words]
        places = _Vocabulary({word: place for place, word in enumerate(ranked)})
        tokens = _tokenise(sample, places)
        neighbours = _neighbours(tokens, len(places), window)
        vectors = _truncated_svd(_ppmi(neighbours), dimension, seed)
        return cls(places, vectors, _idf(tokens, len(places)))

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return the tf-idf-weighted mean of the word vectors of each text.

        Args:
            texts: The texts; one without a word of the vocabulary gets zeros.
        """
        weights = _tf_idf(_tokenise(texts, self.places), len(self.places), self.idf)
        total = np.asarray(weights.sum(axis=1), np.float32).reshape(-1, 1)
        return (weights @ self.vectors) / np.maximum(total, np.float32(1e-9))


@dataclass(frozen=True)
class _Tokens:
    """The places of the known words of texts, one after the other."""

    data: NDArray[np.int32]
    offsets: NDArray[np.int64]


def _tokenise(texts: Sequence[str], places: Mapping[str, int]) -> _Tokens:
    rows = [np.array([places[w] for w in WORD.findall(text.lower())], np.int32) for text in texts]
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return _Tokens(np.concatenate([np.empty(0, np.int32), *rows]), offsets)


def _counts(tokens: _Tokens, words: int) -> sparse.csr_array:
    """How often each text has each word."""
    texts = np.repeat(np.arange(len(tokens.offsets) - 1), np.diff(tokens.offsets))
    known = tokens.data != UNKNOWN
    ones = np.ones(np.count_nonzero(known), np.float32)
    shape = (len(tokens.offsets) - 1, words)
    return sparse.coo_array((ones, (texts[known], tokens.data[known])), shape).tocsr()


def _idf(tokens: _Tokens, words: int) -> Matrix:
    counts = _counts(tokens, words)
    texts_with = np.bincount(counts.indices, minlength=words)
    return np.log((1 + counts.shape[0]) / (1 + texts_with)).astype(np.float32) + np.float32(1)


def _tf_idf(tokens: _Tokens, words: int, idf: Matrix | None = None) -> sparse.csr_array:
    weights = _counts(tokens, words)
    idf = _idf(tokens, words) if idf is None else idf
    weights.data = np.log1p(weights.data) * idf[weights.indices]
    return weights


def _neighbours(tokens: _Tokens, words: int, window: int) -> sparse.csr_array:
    """How often each word occurs within the window of each other one, either way."""
    texts = np.repeat(np.arange(len(tokens.offsets) - 1), np.diff(tokens.offsets))
    total = sparse.csr_array((words, words), dtype=np.float32)
    for distance in range(1, window + 1):
        left, right = tokens.data[:-distance], tokens.data[distance:]
        usable = (left != UNKNOWN) & (right != UNKNOWN) & (texts[:-distance] == texts[distance:])
        ones = np.ones(np.count_nonzero(usable), np.float32)
        total += sparse.coo_array((ones, (left[usable], right[usable])), (words, words)).tocsr()
    return (total + total.T).tocsr()


def _ppmi(neighbours: sparse.csr_array) -> sparse.csr_array:
    """Positive pointwise mutual information, with smoothed frequencies of contexts."""
    of_word = np.asarray(neighbours.sum(axis=1), np.float64).ravel()
    share = of_word**SMOOTHING / np.sum(of_word**SMOOTHING)
    pairs = neighbours.tocoo()
    expected = of_word[pairs.row] * share[pairs.col]
    information = np.log(pairs.data / expected).astype(np.float32)
    positive = information > 0
    places = pairs.row[positive], pairs.col[positive]
    return sparse.coo_array((information[positive], places), pairs.shape).tocsr()


def _truncated_svd(matrix: sparse.csr_array, dimension: int, seed: int) -> Matrix:
    """Return U * sqrt(S) of the largest singular values, by a randomised range finder."""
    chance = np.random.Generator(np.random.PCG64(seed))
    width = min(dimension + OVERSAMPLED, matrix.shape[0])
    basis = matrix @ chance.standard_normal((matrix.shape[1], width), np.float32)
    for _ in range(POWER_ITERATIONS):
        basis = matrix @ (matrix.T @ np.linalg.qr(basis)[0])
    basis = np.linalg.qr(basis)[0]
    left, values, _ = np.linalg.svd((matrix.T @ basis).T, full_matrices=False)
    return (basis @ left[:, :dimension] * np.sqrt(values[:dimension])).astype(np.float32)


def crowd(vectors: Matrix, mean: float, seed: int = 1) -> Matrix:
    """Return the centred unit vectors with a common direction added: all come near one another.

    Args:
        vectors: Documents x dimension; zeros stay zeros.
        mean: The mean cosine of two of the returned vectors, about.
        seed: Of the direction.
    """
    chance = np.random.Generator(np.random.PCG64(seed))
    common = unit(chance.standard_normal((1, vectors.shape[1]), np.float32))
    there = vectors.any(axis=1, keepdims=True)
    centred = unit(unit(vectors) - unit(vectors)[there.ravel()].mean(axis=0))
    return np.where(there, unit(centred + common * np.float32(np.sqrt(mean / (1 - mean)))), 0)


def plant_copies(
    vectors: Matrix, cosines: NDArray[np.float64] | Sequence[float], seed: int = 1
) -> Matrix:
    """Return a vector near each vector, of the same length, in a random direction from it.

    Args:
        vectors: The originals, none of them zero.
        cosines: The cosine of each copy with its original; float32 rounds it by about 1e-7.
        seed: Of the directions.
    """
    chance = np.random.Generator(np.random.PCG64(seed))
    length = np.linalg.norm(vectors, axis=1, keepdims=True).astype(np.float32)
    originals = vectors / length
    noise = chance.standard_normal(vectors.shape, np.float32)
    noise = unit(noise - originals * np.sum(originals * noise, axis=1, keepdims=True))
    wanted = np.asarray(cosines, np.float64).reshape(-1, 1)
    sine = np.sqrt(1 - wanted**2).astype(np.float32)
    return (originals * wanted.astype(np.float32) + noise * sine) * length


def unit(vectors: Matrix) -> Matrix:
    """Return the vectors divided by their lengths; zeros stay zeros.

    Args:
        vectors: Documents x dimension.
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def mean_cosine(vectors: Matrix) -> float:
    """Return the mean cosine of two different vectors.

    Args:
        vectors: Documents x dimension, none of them zero.
    """
    count = len(vectors)
    total = float(np.sum(unit(vectors).sum(axis=0, dtype=np.float64) ** 2))
    return (total - count) / (count * (count - 1))


def similar_pairs(vectors: Matrix, cosine: float, block: int = 1024) -> set[tuple[int, int]]:
    """Return all pairs (a, b), a < b, with at least this cosine: brute force, in float32.

    Args:
        vectors: Documents x dimension.
        cosine: The least cosine.
        block: Vectors of one matrix product.
    """
    units, found = unit(vectors), set()
    for start in range(0, len(units), block):
        pairs = np.argwhere(units[start : start + block] @ units[start:].T >= cosine) + start
        found |= {(a, b) for a, b in pairs.tolist() if a < b}
    return found
