"""Specifications: what is in the canonical form, what is refused, what a mismatch tells."""

from __future__ import annotations

import json

import pytest

import neardup
from neardup import Spec
from neardup.errors import FormatError, ParameterError, SpecMismatch

DIGEST = "0123456789abcdef" * 2


def test_canonical_form_omits_empty_later_fields():
    assert Spec().fingerprint == "37b127fd1f8600cb62b51e38922ffc38"
    assert Spec(strip="", ignored="") == Spec()
    assert "strip" not in Spec().canonical and "ignored" not in Spec().canonical
    assert json.loads(Spec(strip="html").canonical)["strip"] == "html"
    assert "ignored" not in Spec(strip="html").canonical
    assert json.loads(Spec(ignored=DIGEST).canonical)["ignored"] == DIGEST
    made = [
        Spec(strip=strip, ignored=ignored) for strip in ("", "html") for ignored in ("", DIGEST)
    ]
    assert len({spec.fingerprint for spec in made}) == 4
    assert [Spec.from_json(spec.canonical) for spec in made] == made
    with pytest.raises(FormatError, match="not a specification of this version"):
        Spec.from_json(json.dumps({**Spec().stated, "stripped": "html"}))


@pytest.mark.parametrize(
    "wrong", [{"strip": "xml"}, {"strip": None}, {"ignored": "abc"}, {"ignored": DIGEST.upper()}]
)
def test_unknown_strip_or_digest_is_refused(wrong):
    with pytest.raises(ParameterError, match="not known"):
        Spec(**wrong)


def test_mismatch_names_the_fields_and_the_options_that_set_them():
    for other, message in (
        (Spec(strip="html"), r"strip nothing against 'html': make both with the same --strip"),
        (
            Spec(ignored=DIGEST),
            rf"ignored nothing against '{DIGEST}': .* same list of ignored lines",
        ),
        (
            Spec(ignored=DIGEST, seed=1),
            r"seed 0 against 1, ignored nothing .* the same --seed and list",
        ),
    ):
        with pytest.raises(SpecMismatch, match=message):
            Spec().require_same(other, "a", "b")


def test_weights_change_the_fingerprint():
    texts = [" ".join(f"w{n}" for n in range(start, start + 30)) for start in (0, 3, 40)]
    plain, weighted = (
        neardup.dedup(texts, sketch="simhash", weights=weights).options.spec
        for weights in ("tf", "tf-idf")
    )
    assert plain.weights == ""
    assert weighted.weights.startswith("tf-idf:")
    assert plain.fingerprint != weighted.fingerprint
    assert Spec.from_json(weighted.canonical) == weighted


def test_vectors_are_stated_with_their_planes_and_centre():
    alone = Spec.of("vector:1", sketch="hyperplane", slots=640, vectors=f"384x640:{DIGEST[:16]}")
    assert (alone.dimension, alone.planes, alone.of_vectors) == (384, 640, True)
    assert (Spec().dimension, Spec().planes, Spec().of_vectors) == (0, 0, False)
    assert Spec(vectors="8x0:none").planes == 0
    assert Spec.from_json(alone.canonical) == alone
    for wrong in ({"vectors": "384x640"}, {"vectors": "0x1:none"}, {"sketch": "hyperplane"}):
        with pytest.raises(ParameterError, match="vectors"):
            Spec.of(**wrong)
    with pytest.raises(ParameterError, match="hyperplane is of vectors alone"):
        Spec.of("vector:1")
