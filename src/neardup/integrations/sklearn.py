"""scikit-learn: near-duplicate texts as clusters, and signatures as features.

>>> from neardup.integrations.sklearn import NearDuplicateClusters
>>> texts = ["one and the same text", "One and the same text!", "another"]
>>> NearDuplicateClusters(threshold=0.8).fit_predict(texts)
array([0, 0, 1])
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.documents import Columns
from neardup.corpus.frames import read_data, require_library
from neardup.errors import InputError
from neardup.in_memory import dedup
from neardup.option_table import ClusterName, SketchName, VerifyName
from neardup.options import Options
from neardup.sketcher import Sketcher
from neardup.spec import ProfileName

require_library("sklearn", "scikit-learn")

from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin  # noqa: E402
from sklearn.utils.validation import check_is_fitted  # noqa: E402


class NearDuplicateClusters(ClusterMixin, BaseEstimator):
    """Cluster texts by near-duplicates: each cluster is a kept text with its copies.

    The parameters are those of `neardup.dedup`. After `fit`, `labels_` has the number of each
    text's cluster (-1 if the text can't be compared, because it is missing or empty), `kept_`
    the positions of the kept texts, in the order of the clusters, and `result_` the `Result`.

    Args:
        threshold: Texts at least this similar are duplicates.
        recall: The share of the pairs exactly at the threshold that must be found.
        shingle: The pieces of a text that are compared, such as `word:5` or `char:5`.
        text_profile: How texts are normalised before they are compared.
        sketch: How signatures are made.
        verify: How candidates are verified; None for the default of the sketch.
        keep: Which copy stays: `first`, `last`, `longest` or `none`.
        cluster: What is removed: `stars` or `components`.
    """

    def __init__(
        self,
        threshold: float | None = None,
        recall: float | None = None,
        shingle: str = "word:5",
        text_profile: ProfileName = "standard",
        sketch: SketchName = "minhash",
        verify: VerifyName | None = None,
        keep: str = "first",
        cluster: ClusterName = "stars",
    ) -> None:
        self.threshold = threshold
        self.recall = recall
        self.shingle = shingle
        self.text_profile = text_profile
        self.sketch = sketch
        self.verify = verify
        self.keep = keep
        self.cluster = cluster

    def fit(self, X: Iterable[str | None], y: object = None) -> Self:  # noqa: ARG002, N803
        """Cluster texts.

        Args:
            X: The texts: a list, an array, a pandas or Polars Series.
            y: Not used.
        """
        self.result_ = dedup(_texts(X), **self.get_params(deep=False))
        cluster = self.result_.decisions.cluster
        self.kept_: NDArray[np.int64] = self.result_.kept_rows
        self.labels_: NDArray[np.int64] = np.full(len(cluster), -1, np.int64)
        compared = cluster >= 0
        self.labels_[compared] = np.unique(cluster[compared], return_inverse=True)[1]
        return self

    def __sklearn_tags__(self) -> Any:
        return _for_texts(super().__sklearn_tags__())


class MinHashVectorizer(TransformerMixin, BaseEstimator):
    """Turn texts into their MinHash signatures: the share of equal features estimates Jaccard.

    So `1 - jaccard` of two texts is about the Hamming distance of their rows, the metric `hamming`
    of scikit-learn's neighbours and clusterings. Nothing is learned from the texts.

    Args:
        slots: Features of a text; the standard error of an estimate is at most 0.5 / sqrt(slots).
        shingle: The pieces of a text that are compared, such as `word:5` or `char:5`.
        text_profile: How texts are normalised before they are compared.
        seed: The seed of the hash functions.
    """

    def __init__(
        self,
        slots: int = 128,
        shingle: str = "word:5",
        text_profile: ProfileName = "standard",
        seed: int = 0,
    ) -> None:
        self.slots = slots
        self.shingle = shingle
        self.text_profile = text_profile
        self.seed = seed

    def fit(self, X: object, y: object = None) -> Self:  # noqa: ARG002, N803
        """Check the parameters; the texts are not read.

        Args:
            X: Not used.
            y: Not used.
        """
        self.spec_ = Options.of(**self.get_params(deep=False)).spec
        return self

    def transform(self, X: Iterable[str]) -> NDArray[np.uint32]:  # noqa: N803
        """Return the signatures, one row for each text.

        Args:
            X: The texts, none of them missing: a text without words has the signature of the empty
                set.
        """
        check_is_fitted(self)
        sketcher = Sketcher(self.spec_)
        parts: list[NDArray[np.uint32]] = []
        for documents in read_data(_texts(X), Columns()):
            if documents.rejected:
                row, reason = next(iter(documents.rejected.items()))
                before = sum(len(part) for part in parts)
                raise InputError(f"text {before + row} has no signature: {reason}")
            parts.append(np.asarray(sketcher(documents).signatures, np.uint32))
        return np.concatenate(parts) if parts else np.empty((0, self.slots), np.uint32)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:  # noqa: ARG002
        """Return the names of the features: minhash0, minhash1, ...

        Args:
            input_features: Not used.
        """
        check_is_fitted(self)
        return np.array([f"minhash{n}" for n in range(self.slots)], object)

    def __sklearn_tags__(self) -> Any:
        tags = _for_texts(super().__sklearn_tags__())
        tags.transformer_tags.preserves_dtype = []
        return tags


def _texts(X: Any) -> Any:  # noqa: N803
    """Return texts as `neardup.dedup` takes them; a NumPy array as a list."""
    return X.tolist() if isinstance(X, np.ndarray) else X


def _for_texts(tags: Any) -> Any:
    tags.input_tags.string = True
    tags.input_tags.one_d_array = True
    tags.input_tags.two_d_array = False
    return tags
