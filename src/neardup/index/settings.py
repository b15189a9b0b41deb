"""What an index was made for: specification and operating point, as they are stored with it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from neardup.errors import FormatError, NeardupError, ParameterError
from neardup.keys import Key
from neardup.lsh.curve import format_layout
from neardup.option_table import PointOptions, SpecOptions, given_options, options_at
from neardup.option_table import options_of as rows_of
from neardup.options import Options, Strip
from neardup.spec import KEYED, STRIPS, Spec
from neardup.text.frequencies import Frequencies
from neardup.text.lines import IgnoredLines

SPEC_NAMES: Final = tuple(rows_of(SpecOptions))
POINT_NAMES: Final = tuple(rows_of(PointOptions))
"""What people may ask for: of documents, once; and of how they are compared, at any time."""


@dataclass(frozen=True)
class IndexSettings:
    """All that is needed to make sketches and to judge them, but for a key."""

    options: Options
    keep_texts: bool = False
    ignored: IgnoredLines = field(default_factory=IgnoredLines)
    frequencies: Frequencies = field(default_factory=Frequencies)
    parent: str = ""
    """The fingerprint of the specification that slots were narrowed from."""

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

    @property
    def stored(self) -> dict[str, Any]:
        """Name -> value, for the store."""
        return {
            "spec": self.options.spec.canonical,
            "fingerprint": self.options.spec.fingerprint,
            "point": json.dumps(stated(self.options)),
            "keep_texts": int(self.keep_texts),
            "parent": self.parent,
            "ignored": self.ignored.to_bytes() if len(self.ignored) else b"",
            "frequencies": self.frequencies.to_bytes() if self.frequencies else b"",
        }

    @classmethod
    def of_stored(cls, stored: dict[str, Any], where: str) -> IndexSettings:
        """What `stored` said."""
        try:
            options = options_of(Spec.from_json(stored["spec"]), json.loads(stored["point"]))
            ignored, frequencies = stored["ignored"], stored["frequencies"]
            return cls(
                options,
                bool(stored["keep_texts"]),
                IgnoredLines.from_bytes(ignored) if ignored else IgnoredLines(),
                Frequencies.from_bytes(frequencies) if frequencies else Frequencies(),
                str(stored["parent"]),
            )
        except NeardupError as error:
            raise FormatError(f"{where} is damaged or of another version: {error}") from None
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(
                f"{where} is damaged (its settings, {type(error).__name__}): restore a copy of it"
            ) from None


def stated(options: Options) -> dict[str, Any]:
    """An operating point in full, by the names that people use."""
    point: dict[str, Any] = {
        "threshold": options.threshold,
        "recall": options.recall,
        "limit": options.limit,
        "verify": options.verify,
        "measure": options.measure,
    }
    if options.by_bits:
        return point | {"hamming": options.hamming, "blocks": options.blocks}
    return point | {"tables": format_layout(options.curve)}


def options_of(spec: Spec, point: dict[str, Any]) -> Options:
    """An operating point of a specification, by those names."""
    for name in point:
        if name not in POINT_NAMES:
            raise ParameterError(f"{name} is not known: use {', '.join(POINT_NAMES)}")
    return Options(spec=spec, strip=Strip(html=spec.strip == "html"), **given_options(point))


def changed(options: Options, given: dict[str, Any]) -> Options:
    """The same specification at another operating point; what is not given stays.

    Bands that were chosen for a threshold, a recall and a measure are chosen anew if one is given.
    """
    given = {name: value for name, value in given.items() if value is not None}
    base = stated(options)
    if given.keys() & {"bands", "rows", "tables", "threshold", "recall", "measure"}:
        base.pop("tables", None)
    if "hamming" in given:
        base.pop("blocks", None)
    if options.by_bits and options.verify != "exact":
        base.pop("threshold")
    return options_of(options.spec, base | given)


def asked(
    there: Options | None, spec: Spec | None, key: Key | None, given: dict[str, Any]
) -> Options | None:
    """What somebody who opens an index wants: None if that is whatever is there."""
    given = {name: value for name, value in given.items() if value is not None}
    point = {name: value for name, value in given.items() if name in POINT_NAMES}
    if there is None:
        if spec is None:
            return Options.of(key=key, **given)
        if len(point) < len(given):
            raise ParameterError("a Spec says it all: leave out what it decides")
        return options_of(spec, point)
    named = {name: value for name, value in given.items() if name in SPEC_NAMES}
    if len(named) + len(point) < len(given):
        unknown = next(name for name in given if name not in (*SPEC_NAMES, *POINT_NAMES))
        raise ParameterError(
            f"{unknown} is not known: use {', '.join((*SPEC_NAMES, *POINT_NAMES))}"
        )
    if named:
        spec = Options.of(key=key, **named).spec
    if spec is not None:
        there.spec.require_same(spec, "this index", "what is asked for")
    wanted = changed(there, point) if point else there
    if stated(wanted) != stated(there):
        differs = [name for name, value in stated(there).items() if stated(wanted)[name] != value]
        raise ParameterError(
            f"this index has another {', '.join(differs)}: leave it out, or change it with retune "
            "(neardup index retune)"
        )
    return there


NAMES: Final = tuple(
    name for name in options_at("neardup index reindex") if name not in POINT_NAMES
)
OF_A_KIND: Final = ("sketch", "slots")
"""Specifications that agree in these can have the same bands."""


def respecify_settings(
    there: IndexSettings,
    spec: Spec | None,
    key: Key | None,
    keep_texts: bool | None,
    given: dict[str, Any],
) -> IndexSettings:
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
    return IndexSettings(
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
    base |= {rows_of(SpecOptions)[name].spec_field or name: value for name, value in named.items()}
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
