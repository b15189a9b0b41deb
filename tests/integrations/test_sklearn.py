"""The estimators for scikit-learn."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import neardup
from neardup.errors import InputError, ParameterError
from neardup.integrations.sklearn import MinHashVectorizer, NearDuplicateClusters

PAGE = " ".join(f"word{i}" for i in range(60))
TEXTS = [PAGE, "something else entirely", PAGE + " again", None, PAGE.upper(), ""]


# Most checks are of numbers: scikit-learn leaves them out for texts, and says so by a warning.
@parametrize_with_checks([NearDuplicateClusters(), MinHashVectorizer()])
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_clusters_are_those_of_dedup():
    model = NearDuplicateClusters(threshold=0.8)
    assert model.fit_predict(TEXTS).tolist() == [0, 1, 0, -1, 0, -1]
    assert model.kept_.tolist() == [0, 1] and isinstance(model.result_, neardup.Result)
    for texts in (np.array(TEXTS, object), pd.Series(TEXTS)):
        assert clone(model).fit(texts).labels_.tolist() == [0, 1, 0, -1, 0, -1]
    assert NearDuplicateClusters(keep="longest").fit(TEXTS).kept_.tolist() == [1, 2]
    assert model.set_params(threshold=0.99).fit_predict(TEXTS).tolist() == [0, 1, 2, -1, 0, -1]
    with pytest.raises(ParameterError, match="threshold"):
        NearDuplicateClusters(threshold=2.0).fit(TEXTS)


def test_signatures_estimate_the_similarity():
    texts = [PAGE, PAGE + " and some more words at its end", "something else entirely"]
    model = MinHashVectorizer(slots=256)
    signatures = model.fit_transform(texts)
    assert signatures.shape == (3, 256) and signatures.dtype == np.uint32
    estimate = np.mean(signatures[0] == signatures[1])
    assert abs(estimate - neardup.similarity(*texts[:2])) < 0.1
    assert model.get_feature_names_out()[:2].tolist() == ["minhash0", "minhash1"]
    assert np.mean(signatures[0] == signatures[2]) == 0
    assert np.array_equal(pickle.loads(pickle.dumps(model)).transform(texts), signatures)


def test_signatures_in_a_pipeline_find_neighbours():
    pages = [" ".join(f"p{n}w{i}" for i in range(40)) for n in range(30)]
    model = make_pipeline(MinHashVectorizer(slots=64), NearestNeighbors(metric="hamming"))
    model.fit(pages)
    asked = model[0].transform([pages[7] + " again"])
    distance, place = model[1].kneighbors(asked, n_neighbors=1)
    assert place.tolist() == [[7]] and distance[0, 0] < 0.2


def test_vectorizer_refuses_what_has_no_signature():
    with pytest.raises(NotFittedError):
        MinHashVectorizer().transform(["a"])
    with pytest.raises(InputError, match="text 1 has no signature: text is null"):
        MinHashVectorizer().fit_transform(["a", None])
    with pytest.raises(ParameterError, match="slots"):
        MinHashVectorizer(slots=0).fit(["a"])
    assert MinHashVectorizer(slots=32).fit([]).transform([]).shape == (0, 32)
