"""The settings of an index: specification and operating point, as they are stored with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from neardup.errors import FormatError, NeardupError, ParameterError
from neardup.formatting import parse_memory
from neardup.index.store import WITH_VECTORS
from neardup.index.vector_settings import lay_out_index, retune_vectors
from neardup.keys import Key
from neardup.lsh.curve import format_layout
from neardup.option_table import (
    LAYOUT,
    PointOptions,
    RetunedOptions,
    SpecOptions,
    given_options,
)
from neardup.option_table import options_of as rows_of
from neardup.options import Distinguish, Options, Strip, parse_distinguish, with_preset
from neardup.sketch.centre import VectorCentre, require_centre
from neardup.spec import KEYED, STRIPS, Spec, check_whole, join_masks
from neardup.text.frequencies import Frequencies
from neardup.text.lines import IgnoredLines
from neardup.text.segments import state_segmenter
from neardup.text.stems import state_stem
from neardup.vector_signal import VectorSignal, refuse_text_options

DISTINGUISH: Final = "distinguish"
VECTORS: Final = "vectors"
SPEC_NAMES: Final = (*rows_of(SpecOptions), DISTINGUISH)
POINT_NAMES: Final = tuple(rows_of(PointOptions))
OF_VECTORS: Final = tuple(name for name in rows_of(RetunedOptions) if name not in POINT_NAMES)
"""Names of options: of the specification and what distinguishes documents, fixed when documents are
sketched; and of the operating point, which can change at any time, of texts and of vectors."""


SPEC_AND_OPTIONS: Final = (
    "a Spec contains all options of the specification: leave out those that it decides"
)


@dataclass(frozen=True)
class IndexSettings:
    """All that is needed to sketch and to judge documents, except the key of a keyed hash."""

    options: Options
    keep_texts: bool = False
    ignored: IgnoredLines = field(default_factory=IgnoredLines)
    frequencies: Frequencies = field(default_factory=Frequencies)
    parent: str = ""
    """The fingerprint of the specification whose slots were narrowed by `convert`."""
    within: str = ""
    """The column that the groups of documents come from; "" if documents have no groups."""
    centre: VectorCentre = field(default_factory=VectorCentre)
    """The centre of vectors, if these find documents."""

    def __post_init__(self) -> None:
        if self.options.strip.lines is not None and not self.options.spec.ignored:
            raise ParameterError(
                "lines to ignore are counted in a whole corpus: strip html alone, or build the "
                "index from a run (neardup index build --from)"
            )
        if self.options.weights == "tf-idf" and not self.options.spec.weights:
            raise ParameterError(
                "document frequencies are those of a whole corpus: use weights tf, or build the "
                "index from a run (neardup index build --from)"
            )
        if (self.options.keep, self.options.cluster) != ("first", "stars"):
            raise ParameterError(
                "an index keeps the first of several copies, and clusters are stars: leave out "
                "keep and cluster"
            )
        _require_no_columns(self.options.distinguish)
        require_centre(self.options.spec, self.centre)

    @property
    def version(self) -> int:
        """The version of the formats that store such documents, one of `store.VERSIONS`."""
        if self.options.vectors is not None:
            return WITH_VECTORS
        return 3 if self.options.distinguish else 2 if self.within else 1

    def require_version(self, version: object, where: str) -> None:
        """Refuse documents that are stored by another version than these settings need."""
        if type(version) is not int or version != self.version:
            raise FormatError(
                f"{where} is damaged (format version {version!r}, its settings need "
                f"{self.version}): restore a copy of it"
            )

    @property
    def stored(self) -> dict[str, Any]:
        """The settings by name, as the store keeps them."""
        return {
            "spec": self.options.spec.canonical,
            "fingerprint": self.options.spec.fingerprint,
            "point": json.dumps(stated(self.options)),
            "keep_texts": int(self.keep_texts),
            "parent": self.parent,
            "ignored": self.ignored.to_bytes() if len(self.ignored) else b"",
            "frequencies": self.frequencies.to_bytes() if self.frequencies else b"",
            **({"within": self.within} if self.within else {}),
            **({"centre": self.centre.to_bytes()} if self.centre else {}),
        }

    @classmethod
    def of_stored(cls, stored: dict[str, Any], where: str) -> IndexSettings:
        """Make settings of stored ones; `where` names the file in errors."""
        try:
            options = options_of(Spec.from_json(stored["spec"]), json.loads(stored["point"]))
            ignored, frequencies = stored["ignored"], stored["frequencies"]
            centre = stored.get("centre")
            return cls(
                options,
                bool(stored["keep_texts"]),
                IgnoredLines.from_bytes(ignored) if ignored else IgnoredLines(),
                Frequencies.from_bytes(frequencies) if frequencies else Frequencies(),
                str(stored["parent"]),
                str(stored.get("within", "")),
                VectorCentre.from_bytes(centre) if centre else VectorCentre(),
            )
        except NeardupError as error:
            raise FormatError(f"{where} is damaged or of another version: {error}") from None
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(
                f"{where} is damaged (its settings, {type(error).__name__}): restore a copy of it"
            ) from None


def _require_no_columns(distinguish: Distinguish) -> None:
    if distinguish.columns:
        name = distinguish.columns[0]
        raise ParameterError(
            f"an index distinguishes numbers, not columns such as {name!r}: use within (--within "
            f"{name}), which keeps documents apart by one column"
        )


def stated(options: Options) -> dict[str, Any]:
    """Return an operating point in full, by the names of its options.

    Also what distinguishes documents, if anything does, and what vectors decide, if there are any.
    """
    point: dict[str, Any] = {
        "threshold": options.threshold,
        "recall": options.recall,
        "limit": options.limit,
        "verify": options.verify,
        "measure": options.measure,
    }
    if options.distinguish:
        point[DISTINGUISH] = str(options.distinguish)
    if options.vectors is not None:
        point[VECTORS] = options.vectors.stated
    if options.spec.of_vectors:
        return point
    if options.by_bits:
        return point | {"hamming": options.hamming, "blocks": options.blocks}
    return point | {"tables": format_layout(options.curve)}


def options_of(spec: Spec, point: dict[str, Any]) -> Options:
    """Return the options of a specification and an operating point, as `stated` gives it."""
    require_known(point, (*POINT_NAMES, DISTINGUISH, VECTORS))
    given = given_options(point)
    if VECTORS in given:
        given[VECTORS] = VectorSignal.of_stated(given[VECTORS])
    distinguish = parse_distinguish(given.pop(DISTINGUISH, None) or None)
    strip = Strip(spec.strip)
    return Options(spec=spec, strip=strip, distinguish=distinguish, **given)


def changed(options: Options, point: dict[str, Any]) -> Options:
    """Return the same specification at another operating point; options that are None stay.

    Bands are chosen again if the threshold, the recall or the measure changes.
    """
    point = without_none(point)
    of_vectors = {name: point.pop(name) for name in OF_VECTORS if name in point}
    if options.spec.of_vectors:
        refuse_text_options(point)
    base = stated(options)
    if of_vectors:
        signal = retune_vectors(options, of_vectors)
        _require_planes(options.spec, signal)
        base[VECTORS] = signal.stated
        base |= {"threshold": signal.threshold} if options.spec.of_vectors else {}
    if point.keys() & (LAYOUT | {"threshold", "recall", "measure"}):
        base.pop("tables", None)
    if "hamming" in point:
        base.pop("blocks", None)
    if options.by_bits and options.verify != "exact":
        base.pop("threshold")
    return options_of(options.spec, base | point)


def _require_planes(spec: Spec, signal: VectorSignal) -> None:
    """Refuse more planes than vectors were sketched by."""
    if signal.planes is not None and signal.planes.bits > spec.planes:
        raise ParameterError(
            f"{signal.planes} are more planes than the {spec.planes:,} that vectors were sketched "
            "by: give fewer, or index them anew (neardup index reindex)"
        )


def without_none(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that are given.

    Args:
        options: Options by name; None stands for "not given".
    """
    return {name: value for name, value in options.items() if value is not None}


def named(options: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return those of the options that have these names.

    Args:
        options: Options by name.
        names: The names.
    """
    return {name: value for name, value in options.items() if name in names}


def new_settings(
    spec: Spec | None,
    key: Key | None,
    options: dict[str, Any],
    *,
    keep_texts: bool | None,
    within: str | None,
    dimension: int | None = None,
) -> IndexSettings:
    """Return the settings of a new index.

    Args:
        spec: Its specification, or None for that of the options.
        key: The key of a keyed hash.
        options: The options.
        keep_texts: Whether texts are stored; None for no.
        within: The column of the groups; None or "" for none.
        dimension: The numbers of a vector; None without vectors.
    """
    laid_out, centre = lay_out_index(new_options(spec, key, options), dimension)
    return IndexSettings(laid_out, bool(keep_texts), within=within or "", centre=centre)


def new_options(spec: Spec | None, key: Key | None, options: dict[str, Any]) -> Options:
    """Return the options of a new index, from a specification or the options that decide it."""
    options = without_none(options)
    if spec is None:
        return Options.of(key=key, **options)
    if spec.vectors or spec.of_vectors:
        raise ParameterError("a Spec with vectors makes no index: give the options instead of it")
    point = named(options, (*POINT_NAMES, DISTINGUISH))
    if len(point) < len(options):
        raise ParameterError(SPEC_AND_OPTIONS)
    return options_of(spec, point)


def require_options(
    existing: Options, spec: Spec | None, key: Key | None, options: dict[str, Any]
) -> None:
    """Raise an error unless an existing index has the specification and options of a caller.

    Options that the caller does not give are those of the index.
    """
    options = without_none(options)
    require_known(options, (*SPEC_NAMES, *POINT_NAMES))
    options = with_preset(options)
    point, of_spec = named(options, POINT_NAMES), named(options, SPEC_NAMES)
    apart = parse_distinguish(of_spec.pop(DISTINGUISH, None))
    _require_no_columns(apart)
    if apart and apart != existing.distinguish:
        raise ParameterError(
            f"this index was made without distinguish {apart}: leave it out, or change the index "
            "with reindex (neardup index reindex)"
        )
    if of_spec:
        spec = change_spec(existing.spec, key, of_spec)
    if spec is not None:
        existing.spec.require_same(
            spec,
            "this index",
            "what is asked for",
            "leave it out, or change the index with reindex (neardup index reindex)",
        )
    has, wanted = stated(existing), stated(changed(existing, point) if point else existing)
    # Other bands follow from another threshold: only what was given is named.
    differs = [name for name, value in has.items() if wanted[name] != value]
    differs = [name for name in differs if name in point] or differs
    if differs:
        shown = ", ".join(f"{name} {has[name]}, not {wanted[name]}" for name in differs)
        raise ParameterError(
            f"this index has {shown}: leave it out, or change it with retune (neardup index retune)"
        )


def parse_budget(memory: int | str | None) -> int | None:
    """Return the most bytes of the lookup tables; None for no limit."""
    budget = parse_memory(memory) if isinstance(memory, str) else memory
    if budget is not None:
        check_whole("memory", budget, 1, 2**62)
    return budget


def require_known(options: dict[str, Any], names: Sequence[str]) -> None:
    """Refuse options that have other names than these.

    Args:
        options: Options by name.
        names: The names that are possible.
    """
    for name in options:
        if name not in names:
            raise ParameterError(f"{name} is not known: use {', '.join(names)}")


def change_spec(current: Spec, key: Key | None, named: dict[str, Any]) -> Spec:
    """Return a specification with the named options changed.

    Args:
        current: The specification.
        key: The key of the new one; None for the same.
        named: Options of a specification, by name.
    """
    base: dict[str, Any] = {
        "shingle": current.shingle,
        "sketch": current.sketch,
        "family": current.family,
        "slots": current.slots,
        "bits": current.bits,
        "profile": current.profile,
        "seed": current.seed,
        "hash": current.hash,
        "strip": current.strip,
        "ignored": current.ignored,
        "weights": current.weights,
        "vectors": current.vectors,
        "mask": current.mask,
        "stem": current.stem,
        "segment": current.segment,
    }
    if named.get("sketch", current.sketch) != current.sketch:
        base |= {"family": None, "slots": None, "bits": None, "weights": ""}
    if named.get("family", current.family) != current.family:
        base["bits"] = None
    base |= {rows_of(SpecOptions)[name].spec_field or name: value for name, value in named.items()}
    base["mask"] = join_masks(base["mask"])
    if "segment" in named:
        base["segment"] = state_segmenter(named["segment"])
    if "stem" in named:
        base["stem"] = state_stem(named["stem"])
    if not isinstance(base["strip"], str):
        base["strip"] = ",".join(base["strip"])
    if base["strip"] not in STRIPS:
        raise ParameterError(
            f"strip {base['strip']!r} is not possible here: html or html:main takes out "
            "markup, '' nothing; "
            "frequent lines are counted over all documents, and an index never has all"
        )
    if key is not None and base["hash"] != KEYED:
        raise ParameterError(
            f"a key goes with hash {KEYED}, and this is {base['hash']}: give --hash {KEYED} too, "
            "or leave out the key (--key-file)"
        )
    key_id = key.id if key is not None else current.key
    return Spec.of(**base, key=key_id if base["hash"] == KEYED else "")
