"""The settings of the next generation of an index: another specification, point or layout."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from neardup.errors import ParameterError
from neardup.index.settings import (
    DISTINGUISH,
    OF_VECTORS,
    POINT_NAMES,
    SPEC_AND_OPTIONS,
    VECTORS,
    IndexSettings,
    change_spec,
    changed,
    named,
    options_of,
    require_known,
    stated,
    without_none,
)
from neardup.index.vector_settings import find_centre, retune_vectors
from neardup.keys import Key
from neardup.lsh.plane_curve import PlaneCurve
from neardup.option_table import options_at
from neardup.options import Options, parse_distinguish
from neardup.sketch.centre import VectorCentre
from neardup.spec import Spec
from neardup.text.frequencies import Frequencies
from neardup.text.lines import IgnoredLines
from neardup.vector_layout import VectorLayout
from neardup.vector_signal import refuse_text_options

LAID_OUT: Final = (*OF_VECTORS, "centre")
"""Options of the layout of vectors."""
NAMES: Final = tuple(
    name for name in options_at("neardup index reindex") if name not in (*POINT_NAMES, *LAID_OUT)
)
"""Options of a specification that `reindex` can change."""
OF_A_KIND: Final = ("sketch", "slots")
"""Specifications that agree in these fields can have the same bands."""


def respecify_settings(
    current: IndexSettings,
    spec: Spec | None,
    key: Key | None,
    keep_texts: bool | None,
    changes: dict[str, Any],
) -> IndexSettings:
    """Return the settings of the next generation.

    Args:
        current: The settings of the current generation.
        spec: The new specification, instead of options that change it.
        key: The key of the new specification.
        keep_texts: Whether texts are stored; None as in the current generation.
        changes: Options of the specification, the operating point and the layout of vectors that
            change.
    """
    changes = without_none(changes)
    require_known(changes, (*NAMES, *POINT_NAMES, *LAID_OUT))
    of_spec, point = named(changes, NAMES), named(changes, POINT_NAMES)
    options, layout = current.options, named(changes, LAID_OUT)
    if options.spec.of_vectors:
        refuse_text_options(of_spec)
    if DISTINGUISH in of_spec:
        apart = of_spec.pop(DISTINGUISH)
        ends = isinstance(apart, Iterable) and not any(apart)  # "", or a list with nothing in it
        point[DISTINGUISH] = "" if ends else str(parse_distinguish(apart))
    if spec is not None and of_spec:
        raise ParameterError(SPEC_AND_OPTIONS)
    new_spec = change_spec(options.spec, key, of_spec) if spec is None else spec
    new_spec = _with_vectors(options.spec, new_spec)
    _require_lists(options.spec, new_spec)
    laid_out, centre = _operating_point(options, new_spec, point), current.centre
    if layout:
        laid_out, centre = _lay_out(laid_out, layout, centre)
    return IndexSettings(
        laid_out,
        current.keep_texts if keep_texts is None else keep_texts,
        current.ignored if new_spec.ignored else IgnoredLines(),
        current.frequencies if new_spec.weights else Frequencies(),
        within=current.within,
        centre=centre,
    )


def _with_vectors(current: Spec, new: Spec) -> Spec:
    """Return a specification with the vectors of the current one, which other options change."""
    if new.of_vectors != current.of_vectors or new.vectors not in ("", current.vectors):
        raise ParameterError(
            "the new specification has other vectors: give one of texts, or cosine, planes or "
            "centre, or build another index"
        )
    return replace(new, vectors=current.vectors)


def _lay_out(
    options: Options, layout: dict[str, Any], centre: VectorCentre
) -> tuple[Options, VectorCentre]:
    """Return the options with another layout of vectors, and their centre."""
    signal, before = retune_vectors(options, layout), options.vectors
    assert before is not None  # noqa: S101  # the index has vectors
    threshold = signal.threshold if options.spec.of_vectors else options.threshold
    same = replace(signal, planes=before.planes, centre=None)
    options = replace(options, threshold=threshold, vectors=same)
    if signal.planes is None:
        return options, centre
    dimension = options.spec.dimension
    if signal.centre is not None:
        centre = VectorCentre(find_centre(signal.centre, dimension))
    return VectorLayout(PlaneCurve(signal.planes), centre).apply(options, dimension), centre


def _require_lists(current: Spec, new: Spec) -> None:
    """Refuse a specification with ignored lines or weights that the index does not have."""
    for name in ("ignored", "weights"):
        if getattr(new, name) not in ("", getattr(current, name)):
            raise ParameterError(
                f"the new specification has other {name}, of which the index has no list: leave "
                "them as they are, or build a new index"
            )


def _operating_point(current: Options, spec: Spec, point: dict[str, Any]) -> Options:
    """Return the current operating point for another specification, with `point` changed."""
    base = stated(current)
    if any(getattr(spec, name) != getattr(current.spec, name) for name in OF_A_KIND):
        for name in ("tables", "hamming", "blocks"):
            base.pop(name, None)
    if (spec.sketch == "simhash") != current.by_bits:
        verify = "estimate" if spec.sketch == "simhash" else "exact"
        base = {"limit": current.limit, "verify": verify} | named(base, [DISTINGUISH, VECTORS])
    options = options_of(spec, base)
    return changed(options, point) if point else options
