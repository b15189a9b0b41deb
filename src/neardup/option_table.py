"""The table of matching options, from which every list of them is derived.

A row is an item of a TypedDict below: name, type, and an `Option` with everything else. From the
rows come the command line's options, the keyword arguments of `neardup.dedup`, `dedup_files`,
`plan`, `tune`, `evaluate`, `Index.open` and `neardup.spark.dedup` with their documentation, the
names in config files, the settings of an index, the service's model of a shadow and the table in
docs/command-line.md.

The classes say what an option belongs to, `PLACES` where it may be given and why not elsewhere. To
add an option, add a row here and the field of the same name in `options.Options`, which checks it.

Importing this module imports neither NumPy nor PyArrow: `neardup --help` needs it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeAlias,
    TypedDict,
    get_args,
    get_origin,
    get_type_hints,
)

from neardup.measure_table import CHOICES, MeasureName, describe_choices
from neardup.spec import HashName, ProfileName, SlotBits

SIMILAR: Final = "What counts as similar"
KEPT: Final = "What is kept"

SketchName: TypeAlias = Literal["minhash", "oneperm", "weighted", "simhash"]
VerifyName: TypeAlias = Literal["exact", "estimate", "none"]
ClusterName: TypeAlias = Literal["stars", "components"]
WeightsName: TypeAlias = Literal["tf", "tf-idf"]
SegmenterName: TypeAlias = Literal["icu"]
PresetName: TypeAlias = Literal["fineweb", "nemo", "short"]
VERIFY: Final[tuple[str, ...]] = get_args(VerifyName)
CLUSTER: Final[tuple[str, ...]] = get_args(ClusterName)
WEIGHTS: Final[tuple[str, ...]] = get_args(WeightsName)
# Operating points: fineweb and nemo are published, so that their results can be reproduced; short
# is measured (docs/choosing.md), for texts in which one changed word changes most word shingles.
PRESETS: Final[dict[str, dict[str, Any]]] = {
    "fineweb": {"shingle": "word:5", "slots": 112, "bands": 14, "rows": 8},
    "nemo": {"shingle": "char:24", "slots": 260, "bands": 20, "rows": 13},
    "short": {"shingle": "char:5", "threshold": 0.5},
}


@dataclass(frozen=True)
class Option:
    """A row: everything about an option but its name and type, which the TypedDict has.

    Args:
        help: What it does, in one or two sentences. Quotes no default and no choices.
        default: The value if it is not given; None if that depends on other options.
        otherwise: What happens if it is not given and there is no default, in a few words.
        metavar: What stands for its value on the command line.
        panel: Under which heading help shows it.
        common: Whether help shows it at first, and not only --help-all.
        spec_field: The field of `Spec` that it becomes, if that has another name.
        name: Its name, in the library and config files; filled in from the TypedDict.
        type: Its type without None; filled in from the TypedDict.
        choices: The only values that are possible, those of a `Literal` in the TypedDict; empty if
            there are others.
    """

    help: str
    default: Any = None
    otherwise: str = ""
    metavar: str = ""
    panel: str = SIMILAR
    common: bool = False
    spec_field: str = ""
    name: str = ""
    type: Any = None
    choices: tuple[Any, ...] = ()

    @property
    def flag(self) -> str:
        """Its name on the command line: --text-profile."""
        return "--" + self.name.replace("_", "-")

    @property
    def without(self) -> str:
        """What happens if it is not given, in words: the default, or what chooses one."""
        both = ("" if self.default is None else str(self.default), self.otherwise)
        return "; ".join(filter(None, both))

    @property
    def annotation(self) -> Any:
        """Its type with its choices, for editors."""
        return Literal[self.choices] if self.choices else self.type

    @property
    def type_name(self) -> str:
        """Its type as documentation writes it: `float`, `int or str`."""
        parts = get_args(self.type) if isinstance(self.type, UnionType) else (self.type,)
        names = ("list of str" if get_origin(part) else part.__name__ for part in parts)
        return " or ".join(names)

    @property
    def repeated(self) -> bool:
        """Whether it may be given several times on the command line, or as a list."""
        return any(get_origin(part) for part in get_args(self.type))

    @property
    def explained(self) -> str:
        """What it does and which choices there are, in sentences."""
        if all(str(choice) in self.help.split(": ", 1)[-1] for choice in self.choices):
            return self.help
        *first, last = map(str, self.choices)
        return f"{self.help} One of {', '.join(first)} or {last}."


class ThresholdOptions(TypedDict, total=False):
    """Which pairs are to be found."""

    threshold: Annotated[
        float | None,
        Option(
            "Documents at least this similar are duplicates: above 0, at most 1.",
            default=0.8,
            otherwise="of a simhash, set by --hamming",
            metavar="X",
            common=True,
        ),
    ]
    recall: Annotated[
        float | None,
        Option(
            "The share of the pairs exactly at the threshold that must be found; bands and rows "
            "are chosen for it.",
            default=0.99,
            metavar="X",
            common=True,
        ),
    ]


class ShingleOptions(TypedDict, total=False):
    """What a document is cut into."""

    shingle: Annotated[
        str | None,
        Option(
            "The pieces of a text that are compared: word:5, char:24, line:1; or token:5 for a "
            "column of token ids.",
            default="word:5",
            metavar="UNIT:SIZE",
            common=True,
        ),
    ]


class TextOptions(TypedDict, total=False):
    """How texts are normalised and hashed."""

    text_profile: Annotated[
        ProfileName | None,
        Option(
            "How texts are normalised before they are compared: conservative keeps upper and lower "
            "case apart; plain is standard without invisible characters and without the vowel "
            "marks of Arabic and Hebrew; aggressive also folds accents, digits and compatibility "
            "forms; look-alikes does both, and folds letters that look like Latin ones.",
            default="standard",
            metavar="PROFILE",
            common=True,
            spec_field="profile",
        ),
    ]
    seed: Annotated[
        int | None,
        Option("The seed of all hashes, from 0 to 2^64 - 1.", default=0, metavar="N"),
    ]


class SignatureOptions(TypedDict, total=False):
    """How a document's signature is made."""

    sketch: Annotated[
        SketchName | None,
        Option(
            "How signatures are made: oneperm is faster with many slots, weighted counts repeated "
            "shingles, simhash makes fingerprints that are compared bit by bit.",
            default="minhash",
            metavar="NAME",
        ),
    ]
    slots: Annotated[
        int | None,
        Option(
            "Slots of a signature; of a simhash its bits, 64 or 128.",
            otherwise="128; of a simhash, 64",
            metavar="N",
        ),
    ]
    bits: Annotated[
        SlotBits | None,
        Option(
            "Bits of each slot that are stored; bands are made of the whole slots first.",
            otherwise="all",
            metavar="N",
        ),
    ]


class BandOptions(TypedDict, total=False):
    """How candidates are found and verified."""

    bands: Annotated[
        int | None,
        Option(
            "Use this many bands, together with --rows.",
            otherwise="chosen for --recall",
            metavar="N",
        ),
    ]
    rows: Annotated[
        int | None,
        Option(
            "Use this many rows in a band, together with --bands.",
            otherwise="chosen for --recall",
            metavar="N",
        ),
    ]
    verify: Annotated[
        VerifyName | None,
        Option(
            "How candidates are verified: exact compares their shingles, estimate their "
            "signatures, none takes every candidate for a duplicate.",
            otherwise="exact; of a simhash, estimate",
            metavar="HOW",
            common=True,
        ),
    ]


class SpecOptions(ShingleOptions, TextOptions, SignatureOptions, total=False):
    """What decides a document's sketch; other sketches can't be compared with it."""

    family: Annotated[
        str | None,
        Option(
            "The hash functions that fill the slots: affine32 or affine-m61 for minhash, rounds "
            "for oneperm, darts for weighted.",
            otherwise="the first of the sketch",
            metavar="NAME",
        ),
    ]
    strip: Annotated[
        str | Iterable[str] | None,
        Option(
            "Ignore this when documents are compared: html markup; html:main, also navigation, "
            "forms and hidden parts of pages; lines in more than a share of the documents "
            "(lines:0.1%).",
            otherwise="nothing",
            metavar="WHAT",
        ),
    ]
    mask: Annotated[
        str | Iterable[str] | None,
        Option(
            "Replace these by a placeholder when documents are compared, so that texts that differ "
            "in nothing else are equal: numbers, dates, urls, emails; several with commas.",
            otherwise="nothing",
            metavar="WHAT",
        ),
    ]
    stem: Annotated[
        str | None,
        Option(
            "Compare words by their stems in this language, by a Snowball stemmer such as english: "
            "cats are cat. Needs word shingles.",
            otherwise="whole words",
            metavar="LANGUAGE",
        ),
    ]
    segment: Annotated[
        SegmenterName | None,
        Option(
            "Cut words in scripts without spaces, such as Chinese, Japanese, Thai and Khmer, by "
            "ICU's dictionaries instead of character by character: icu. Needs word shingles.",
            otherwise="each character is a word",
            metavar="NAME",
        ),
    ]
    preset: Annotated[
        PresetName | None,
        Option(
            "An operating point by name: short (char:5, threshold 0.5) for posts, titles and other "
            "texts of few words; published ones are fineweb (word:5, 14 bands of 8 rows) and nemo "
            "(char:24, 20 bands of 13 rows). Other options override its values.",
            otherwise="none",
            metavar="NAME",
            common=True,
        ),
    ]
    hash: Annotated[
        HashName | None,
        Option(
            "The hash function for words; siphash needs a secret key, without which nobody can "
            "construct a copy that is not found.",
            default="xxh64",
            metavar="NAME",
        ),
    ]


class PointOptions(ThresholdOptions, BandOptions, total=False):
    """How sketches are compared; may change without a new sketch."""

    tables: Annotated[
        int | str | None,
        Option(
            "More hash tables for more recall: the bands this many times (2), or bands of several "
            "sizes (20x5,10x8), each over slots of their own.",
            default=1,
            metavar="TABLES",
        ),
    ]
    limit: Annotated[
        int | None,
        Option(
            "A document is compared with at most this many kept documents of a bucket.",
            default=256,
            metavar="N",
        ),
    ]
    measure: Annotated[
        MeasureName | None,
        Option(
            f"What similarity is: {describe_choices()}.",
            default=CHOICES[0],
            metavar="NAME",
        ),
    ]
    hamming: Annotated[
        int | None,
        Option(
            "With --sketch simhash: fingerprints that differ in at most this many bits are "
            "duplicates.",
            otherwise="3",
            metavar="N",
        ),
    ]
    blocks: Annotated[
        int | None,
        Option(
            "With --sketch simhash: cut fingerprints into this many blocks, more than --hamming; "
            "more blocks make rarer keys and more tables.",
            otherwise="chosen for --hamming",
            metavar="N",
        ),
    ]


class IndexOptions(PointOptions, SpecOptions, total=False):
    """What an index is made for."""

    distinguish: Annotated[
        str | Iterable[str] | None,
        Option(
            "Never take documents for duplicates that differ in this, however similar they are: "
            "numbers, those in their texts, or a column; several with commas. A run lists what is "
            "kept because of it in vetoed.parquet. An index and evaluate take numbers only.",
            otherwise="nothing",
            metavar="WHAT",
            panel=KEPT,
            common=True,
        ),
    ]


class VectorOptions(TypedDict, total=False):
    """Vectors of documents, such as embeddings, as the only signal or as a second one."""

    vectors: Annotated[
        str | None,
        Option(
            "The column of the documents' vectors, such as embeddings, by which alone they are "
            "compared; needs --cosine. Or an .npy file, whose rows belong to the documents of all "
            "inputs in their order.",
            otherwise="none",
            metavar="COLUMN",
            common=True,
        ),
    ]
    cosine: Annotated[
        float | None,
        Option(
            "With --vectors, or to change an index: documents whose vectors have at least this "
            "cosine are duplicates, above 0, at most 1.",
            otherwise="none",
            metavar="X",
            common=True,
        ),
    ]
    also: Annotated[
        str | None,
        Option(
            "Documents are duplicates also if the cosine of their vectors in this column is at "
            "least T, as in embedding:0.95.",
            otherwise="none",
            metavar="COLUMN:T",
            common=True,
        ),
    ]
    unless: Annotated[
        str | None,
        Option(
            "Documents are no duplicates if the cosine of their vectors in this column is below T, "
            "as in embedding:0.6. A run lists what is kept because of it in vetoed.parquet.",
            otherwise="none",
            metavar="COLUMN:T",
            panel=KEPT,
            common=True,
        ),
    ]
    embed: Annotated[
        str | None,
        Option(
            "Make the vectors by this Python function, which gets a list of texts and returns a "
            "row of numbers for each; with --cosine, --also embed:T or --unless embed:T.",
            otherwise="none",
            metavar="MODULE:FUNCTION",
            common=True,
        ),
    ]
    planes: Annotated[
        str | None,
        Option(
            "With --vectors or --also: find candidates by this many bands of this many planes.",
            otherwise="planned for --recall and the vectors",
            metavar="BxR",
        ),
    ]
    centre: Annotated[
        str | None,
        Option(
            "With --vectors or --also: the vector that is subtracted from all, an .npy file; none "
            "subtracts nothing.",
            otherwise="their mean; none without any yet",
            metavar="FILE",
        ),
    ]


class OnlineOptions(IndexOptions, VectorOptions, total=False):
    """What an index is made for, and its vectors."""


class RetunedOptions(PointOptions, total=False):
    """How stored sketches are compared, those of vectors included."""

    cosine: float | None
    planes: str | None


class RebuiltOptions(IndexOptions, total=False):
    """What an index is made for, and the layout of the vectors that it has stored."""

    cosine: float | None
    planes: str | None
    centre: str | None


class MatchingOptions(OnlineOptions, total=False):
    """All matching options: what counts as similar, and which copy stays."""

    weights: Annotated[
        WeightsName | None,
        Option(
            "With --sketch weighted or simhash: tf counts every occurrence of a shingle, tf-idf "
            "gives more weight to shingles that are in few documents.",
            default="tf",
            metavar="HOW",
        ),
    ]
    keep: Annotated[
        str | None,
        Option(
            "Which copy stays: first or last of the input, longest, max:COLUMN or min:COLUMN, or "
            "by dates newest:COLUMN or oldest:COLUMN; none, of each cluster nothing.",
            default="first",
            metavar="POLICY",
            panel=KEPT,
            common=True,
        ),
    ]
    cluster: Annotated[
        ClusterName | None,
        Option(
            "What is removed: stars, documents that are similar to a kept one; components, whole "
            "chains of similar documents.",
            default="stars",
            metavar="HOW",
            panel=KEPT,
        ),
    ]


class PlanOptions(
    ThresholdOptions, ShingleOptions, SignatureOptions, BandOptions, VectorOptions, total=False
):
    """What a plan is asked for, and what of the operating point is decided already."""


class ReferenceOptions(ThresholdOptions, ShingleOptions, TextOptions, total=False):
    """What similar means where operating points or sketches are measured against brute force."""


class TuneOptions(ReferenceOptions, VectorOptions, total=False):
    """What similar means where trials are made, or labels choose the cosine of vectors."""


@dataclass(frozen=True)
class Place:
    """Where options may be given: a command, a function, a file.

    Args:
        takes: The TypedDict of its options.
        why_not: Why the options that are not in it are not possible.
        only: Names, if it takes no others of the TypedDict.
        excluded: Name -> why it is not possible, of options of the TypedDict.
    """

    takes: Any
    why_not: str = ""
    only: tuple[str, ...] = ()
    excluded: Mapping[str, str] = field(default_factory=dict)


_INDEX = (
    "an index keeps the first copy, and never has all documents that frequencies are counted in"
)
_SQL = "SQL functions compare two texts, and keep none"
_SKETCHED = "the documents are sketched already: neardup index reindex sketches them again"
_PLANNED = "the plan leaves it at its default, or chooses it"
_SWEPT = "it is an axis of the sweep, or stays at its default"
_PAIRS = "pairs are judged one by one"

_IN_A_COLUMN = "executors can embed texts: add a column of their vectors to the DataFrame"

_VECTORS = (
    "vectors are compared by neardup dedup and an index, and by neardup.dedup, dedup_files, "
    "add_files, neardup.spark.dedup and neardup.Index.open only"
)
_READY: Final = {"embed": "an index takes ready-made vectors"}
_NO_VECTORS: Final = dict.fromkeys(VectorOptions.__annotations__, _VECTORS)
_UNPLANNED: Final = {
    "embed": "a plan calls no function: give a sample with its vectors, by --also COLUMN:T"
}
PLACES: Final[dict[str, Place]] = {
    "neardup.dedup": Place(MatchingOptions),
    "neardup.dedup_files": Place(MatchingOptions),
    "neardup.spark.dedup": Place(MatchingOptions, excluded={"embed": _IN_A_COLUMN}),
    "neardup.evaluate": Place(MatchingOptions),
    "neardup.integrations.datatrove.NearDuplicateFilter": Place(
        MatchingOptions, excluded=_NO_VECTORS
    ),
    "neardup.integrations.duckdb.register": Place(
        IndexOptions, _SQL, excluded={"distinguish": _SQL}
    ),
    "neardup.Index.open": Place(OnlineOptions, _INDEX, excluded=_READY),
    "neardup.add_files": Place(OnlineOptions, _INDEX, excluded=_READY),
    "neardup.plan": Place(PlanOptions, _PLANNED, excluded=_UNPLANNED),
    "neardup.tune": Place(TuneOptions, _SWEPT),
    "config file": Place(MatchingOptions),
    "settings of an index": Place(IndexOptions, _INDEX),
    "shadow of a service": Place(RetunedOptions, _SKETCHED),
    "neardup dedup": Place(MatchingOptions),
    "neardup exact": Place(
        MatchingOptions, "nothing is sketched, copies are equal", only=("text_profile", "keep")
    ),
    "neardup evaluate": Place(
        MatchingOptions, excluded={"keep": _PAIRS, "cluster": _PAIRS, "limit": _PAIRS}
    ),
    "neardup plan": Place(PlanOptions, _PLANNED, excluded=_UNPLANNED),
    "neardup tune": Place(TuneOptions, _SWEPT),
    "neardup compare-sketches": Place(ReferenceOptions, "every sketch is measured with its own"),
    "neardup demo": Place(
        MatchingOptions, "a demonstration; neardup dedup has them", only=("threshold",)
    ),
    "neardup index build": Place(OnlineOptions, _INDEX, excluded=_READY),
    "neardup index add": Place(OnlineOptions, _INDEX, excluded=_READY),
    "neardup index retune": Place(RetunedOptions, _SKETCHED),
    "neardup index reindex": Place(
        RebuiltOptions,
        _INDEX,
        excluded={"preset": "what is not given stays as it is: give the values of the preset"},
    ),
    "neardup serve": Place(
        OnlineOptions,
        _INDEX,
        excluded={
            **_READY,
            "limit": "--limit changes limits of the service; a config file (--config) has it",
        },
    ),
    "neardup spec": Place(SpecOptions, "it changes no sketch"),
}
"""Where options are given -> which; a test compares it with the commands, functions and files."""


@functools.cache
def all_rows() -> dict[str, Option]:
    """Return all rows of the table by name."""
    hints = get_type_hints(MatchingOptions, include_extras=True)
    rows = {}
    for name, hint in hints.items():
        kind, row = get_args(hint)
        parts = [part for part in get_args(kind) if part is not NoneType]
        choices = get_args(parts[0]) if get_origin(parts[0]) is Literal else ()
        joined = type(choices[0]) if choices else functools.reduce(lambda a, b: a | b, parts)
        rows[name] = replace(row, name=name, type=joined, choices=choices)
    return rows


def options_of(takes: Any) -> dict[str, Option]:
    """Return the rows of one of the TypedDicts by name, in the order of the table.

    >>> list(options_of(ThresholdOptions))
    ['threshold', 'recall']
    """
    return {name: row for name, row in all_rows().items() if name in takes.__annotations__}


def options_at(place: str) -> dict[str, Option]:
    """Return the rows that a place takes, by name.

    >>> list(options_at("neardup exact"))
    ['text_profile', 'keep']
    """
    at = PLACES[place]
    return {
        name: row
        for name, row in options_of(at.takes).items()
        if name not in at.excluded and name in (at.only or (name,))
    }


def why_not(name: str, place: str) -> str:
    """Return why an option is not possible at a place; empty if one of them is not in the tables.

    >>> why_not("keep", "neardup evaluate")
    'pairs are judged one by one'
    """
    if name not in all_rows() or place not in PLACES or name in options_at(place):
        return ""
    at = PLACES[place]
    return at.excluded.get(name) or (at.only and at.why_not) or _NO_VECTORS.get(name, at.why_not)


def default_of(name: str) -> Any:
    """Return the default of an option.

    >>> default_of("threshold")
    0.8
    """
    return all_rows()[name].default


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that have a value: None and an empty list stand for "not given"."""
    return {name: value for name, value in options.items() if value is not None and value != []}


LAYOUT: Final = frozenset({"bands", "rows", "tables"})
"""The options that say how the bands are laid over the slots."""


def markdown_table(rows: Mapping[str, Option], *, in_python: bool = False) -> str:
    """Return the rows as a table in Markdown, for docs/command-line.md and docs/library.md.

    Args:
        rows: Options by name.
        in_python: Name options as keyword arguments with their types, not as on a command line.
    """
    lines = ["| option | default | what it does |", "| --- | --- | --- |"]
    for row in rows.values():
        without = row.without if row.default is None else f"`{row.default}`"
        if row.default is not None and row.otherwise:
            without += f"; {row.otherwise}"
        name = f"{row.name}: {row.type_name}" if in_python else f"{row.flag} {row.metavar}"
        line = f"| `{name}` | {without} | {row.explained} |"
        lines.append(line.replace("--", "") if in_python else line)
    return "\n".join(lines) + "\n"
