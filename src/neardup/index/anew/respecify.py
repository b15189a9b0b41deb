"""What will an index be that is indexed anew? What is not given stays as it is."""

from __future__ import annotations

from typing import Any, Final

from neardup.errors import ParameterError
from neardup.index.settings import POINT_NAMES, Settings, changed, options_of, stated
from neardup.keys import Key
from neardup.options import Options
from neardup.spec import KEYED, STRIPS, Spec
from neardup.text.frequencies import Frequencies
from neardup.text.ignored import IgnoredLines

NAMES: Final = (
    "shingle",
    "sketch",
    "family",
    "slots",
    "bits",
    "text_profile",
    "seed",
    "hash",
    "strip",
)
OF_A_KIND: Final = ("sketch", "slots")
"""Specifications that agree in these can have the same bands."""


def respecified(
    there: Settings,
    spec: Spec | None,
    key: Key | None,
    keep_texts: bool | None,
    given: dict[str, Any],
) -> Settings:
    """The settings of the next generation."""
    given = {name: value for name, value in given.items() if value is not None}
    for name in given:
        if name not in (*NAMES, *POINT_NAMES):
            raise ParameterError(f"{name} is not known: use {', '.join((*NAMES, *POINT_NAMES))}")
    named = {name: value for name, value in given.items() if name in NAMES}
    if spec is not None and named:
        raise ParameterError("a Spec says it all: leave out what it decides")
    options = there.options
    made = _spec(options.spec, key, named) if spec is None else spec
    _require_lists(options.spec, made)
    point = {name: value for name, value in given.items() if name in POINT_NAMES}
    return Settings(
        _operating_point(options, made, point),
        there.keep_texts if keep_texts is None else keep_texts,
        there.ignored if made.ignored else IgnoredLines(),
        there.frequencies if made.weights else Frequencies(),
    )


def _spec(there: Spec, key: Key | None, named: dict[str, Any]) -> Spec:
    base: dict[str, Any] = {
        "shingle": there.shingle,
        "sketch": there.sketch,
        "family": there.family,
        "slots": there.slots,
        "bits": there.bits,
        "profile": there.profile,
        "seed": there.seed,
        "hash": there.hash,
        "strip": there.strip,
        "ignored": there.ignored,
        "weights": there.weights,
    }
    if named.get("sketch", there.sketch) != there.sketch:
        base |= {"family": None, "slots": None, "bits": None, "weights": ""}
    if named.get("family", there.family) != there.family:
        base["bits"] = None
    base |= {
        ("profile" if name == "text_profile" else name): value for name, value in named.items()
    }
    if base["strip"] not in STRIPS:
        raise ParameterError(
            f"strip {base['strip']!r} is not possible here: html takes out markup, '' nothing; "
            "frequent lines are counted over all documents, and an index never has all"
        )
    if key is not None and base["hash"] != KEYED:
        raise ParameterError(
            f"a key goes with hash {KEYED}, and this is {base['hash']}: give --hash {KEYED} too, "
            "or leave out the key (--key-file)"
        )
    secret = key.id if key is not None else there.key
    return Spec.of(**base, key=secret if base["hash"] == KEYED else "")


def _require_lists(there: Spec, made: Spec) -> None:
    """Lists that a specification names by their digest are taken over, and no others."""
    for name in ("ignored", "weights"):
        if getattr(made, name) not in ("", getattr(there, name)):
            raise ParameterError(
                f"the new specification has other {name}, of which the index has no list: leave "
                "them as they are, or build a new index"
            )


def _operating_point(there: Options, spec: Spec, given: dict[str, Any]) -> Options:
    base = stated(there)
    if any(getattr(spec, name) != getattr(there.spec, name) for name in OF_A_KIND):
        for name in ("tables", "hamming", "blocks"):
            base.pop(name, None)
    if (spec.sketch == "simhash") != there.by_bits:
        verify = "estimate" if spec.sketch == "simhash" else "exact"
        base = {"limit": there.limit, "verify": verify}
    options = options_of(spec, base)
    return changed(options, given) if given else options
