"""The specification: everything that decides a document's shingles and sketch, in one frozen value.

Two sketches may be compared only if their specifications have the same fingerprint. What can
be tuned afterwards (bands, rows, thresholds, limits) is not part of it.
"""

from __future__ import annotations

import hashlib
import json
import operator
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeAlias, get_args

from neardup.errors import FormatError, ParameterError, SpecMismatch

VERSION: Final = 1
UNICODE: Final = "14.0.0"
ProfileName: TypeAlias = Literal["conservative", "standard", "plain", "aggressive", "look-alikes"]
PROFILES: Final[tuple[str, ...]] = get_args(ProfileName)
UNIFYING: Final = ("aggressive", "look-alikes")
"""Profiles that unify compatibility forms, and fold accents and digits."""
STRIPS: Final = ("", "html", "html:main")
MASKS: Final = ("dates", "emails", "numbers", "urls")
"""What can be replaced by placeholders before texts are compared."""
VECTOR: Final = "vector"
"""The unit of documents that are compared by a vector alone, of which there is one a document."""
UNITS: Final = ("word", "char", "line", "token", VECTOR)
HashName: TypeAlias = Literal["xxh64", "murmur3", "fnv1a", "siphash"]
HASHES: Final[tuple[str, ...]] = get_args(HashName)
KEYED: Final = "siphash"
FAMILIES: Final[dict[str, dict[str, int]]] = {
    "minhash": {"affine32": 32, "affine-m61": 64},
    "oneperm": {"rounds": 32},
    "weighted": {"darts": 32},
    "simhash": {"sign": 1},
    "bottomk": {"mix": 64},
    "hyperloglog": {"hll8": 8},
    "hyperplane": {"planes": 1},
}
"""Sketch -> the families of hash functions that fill its slots, the default first -> bits."""
SLOTS: Final = {
    "minhash": 128,
    "oneperm": 128,
    "weighted": 128,
    "simhash": 64,
    "bottomk": 256,
    "hyperloglog": 4_096,
    "hyperplane": 256,
}
"""Sketch -> the default number of slots."""
WEIGHTED: Final = ("simhash", "weighted")
"""Sketches whose shingles may have weights."""
FINGERPRINTS: Final = (64, 128)
"""The numbers of slots, which are bits, that a SimHash may have."""
MINHASHES: Final = ("minhash", "oneperm")
SlotBits: TypeAlias = Literal[1, 2, 4, 8, 16]
B_BITS: Final[tuple[int, ...]] = get_args(SlotBits)
"""The bits that a slot of a MinHash can be cut down to, to be stored."""
MAX_SHINGLE: Final = 1_000
MAX_SLOTS: Final = 65_536
# Added after version 1: in the canonical form only if they are not empty, so that the fingerprints
# of earlier specifications stay as they are.
LATER_FIELDS: Final = ("strip", "ignored", "key", "weights", "vectors", "mask", "stem", "segment")
READING: Final = ("profile", "strip", "mask", "stem", "segment")
"""Fields that decide which words a text has, by whatever they are cut, hashed and sketched."""


def join_masks(given: str | Iterable[str]) -> str:
    """Return the names of masks as a specification states them.

    Args:
        given: Names with commas, or a list of these; in any order.

    >>> join_masks(["urls,numbers", "dates"])
    'dates,numbers,urls'
    """
    if not isinstance(given, str | Iterable):
        raise ParameterError(f"mask {given!r} is not known: use {', '.join(MASKS)}")
    parts = [given] if isinstance(given, str) else list(given)
    names = {name.strip() for name in ",".join(map(str, parts)).split(",") if parts} - {""}
    for name in names:
        check_choice("mask", name, MASKS)
    return ",".join(sorted(names))


@dataclass(frozen=True, slots=True)
class Spec:
    """The specification of shingles and sketches; two sketches are comparable if theirs are equal.

    Args:
        profile: How texts are normalised: `conservative`, `standard`, `plain`, `aggressive` or
            `look-alikes`.
        unit: The unit of a shingle: `word`, `char`, `line` or `token`; or `vector`, of which a
            document has one.
        size: The number of units in a shingle.
        hash: The hash function of units: `xxh64`, `murmur3`, `fnv1a`, or `siphash` with a key.
        seed: The seed of all hashes, from 0 to 2^64 - 1.
        sketch: `minhash`, `oneperm`, `weighted`, `simhash`, `bottomk`, `hyperloglog`, or
            `hyperplane` of vectors.
        family: The family of hash functions that fill the slots, one that the sketch has.
        slots: The number of slots of a sketch; of a SimHash its bits.
        bits: The bits of a slot that are stored; fewer than the family makes for b-bit MinHash.
        unicode: The version of the Unicode tables; there is one.
        version: The version of the specification; there is one.
        strip: `html` if markup is removed from texts first, `html:main` if also what is
            beside the main text of a page; empty by default.
        ignored: The digest of the list of ignored lines, 32 hexadecimal digits; empty by default.
        key: The id of the secret key of hash `siphash`, 16 hexadecimal digits; empty by default.
        weights: `tf-idf:` and the digest of the document frequencies by which shingles are
            weighted; empty by default.
        vectors: Of documents with vectors the numbers of a vector, the planes that they are
            sketched by, and the digest of their centre, `384x640:0123456789abcdef`; empty by
            default.
        mask: What is replaced by placeholders first: `dates`, `emails`, `numbers`, `urls`, in this
            order, with commas; empty by default.
        stem: The stemmer whose stems are compared instead of words, and the version of PyStemmer,
            `english:3.1.0`; empty by default.
        segment: What cuts words in scripts without spaces, and its version, `icu:78.3`; empty by
            default, which takes each character for a word.

    >>> Spec().shingle
    'word:5'
    >>> Spec(size=3) == Spec.of(shingle="word:3")
    True
    >>> Spec().fingerprint == Spec(seed=1).fingerprint
    False
    """

    profile: str = "standard"
    unit: str = "word"
    size: int = 5
    hash: str = "xxh64"
    seed: int = 0
    sketch: str = "minhash"
    family: str = "affine32"
    slots: int = 128
    bits: int = 32
    unicode: str = UNICODE
    version: int = VERSION
    strip: str = ""
    ignored: str = ""
    key: str = ""
    weights: str = ""
    vectors: str = ""
    mask: str = ""
    stem: str = ""
    segment: str = ""

    def __post_init__(self) -> None:
        check_choice("text profile", self.profile, PROFILES)
        check_choice("shingle unit", self.unit, UNITS)
        check_choice("hash", self.hash, HASHES)
        check_choice("sketch", self.sketch, tuple(FAMILIES))
        check_choice(f"family of {self.sketch}", self.family, tuple(FAMILIES[self.sketch]))
        narrow = B_BITS if self.sketch in MINHASHES else ()
        check_choice("bits", self.bits, (*narrow, self.width))
        check_choice("Unicode version", self.unicode, (UNICODE,))
        check_choice("format version", self.version, (VERSION,))
        check_choice("strip", self.strip, STRIPS)
        if self.mask != join_masks(self.mask):
            raise ParameterError(
                f"mask {self.mask!r} is not in order: write {join_masks(self.mask)}"
            )
        if not isinstance(self.ignored, str) or not re.fullmatch("([0-9a-f]{32})?", self.ignored):
            raise ParameterError(
                f"ignored lines {self.ignored!r} are not known: give their list's digest, 32 digits"
            )
        if not isinstance(self.key, str) or not re.fullmatch("([0-9a-f]{16})?", self.key):
            raise ParameterError("a key's id has 16 digits, and only that is in a specification")
        if self.hash == KEYED and not self.key:
            raise ParameterError(f"hash {KEYED} needs a key: give one (--key-file, key=)")
        if self.hash != KEYED and self.key:
            raise ParameterError(f"a key goes with hash {KEYED}, not with {self.hash}")
        if self.unit == "token" and (self.strip or self.ignored):
            raise ParameterError("tokens have neither markup nor lines: strip texts, or nothing")
        if self.unit in ("token", VECTOR) and self.mask:
            raise ParameterError(f"a {self.unit} has no text: leave out --mask, or compare texts")
        self._check_words()
        self._check_weights()
        self._check_vectors()
        for what, name, low, high in (
            ("shingle size", "size", 1, MAX_SHINGLE),
            ("number of slots", "slots", 1, MAX_SLOTS),
            ("seed", "seed", 0, 2**64 - 1),
        ):
            # A plain int also for a NumPy integer: the fingerprint is made of it.
            object.__setattr__(self, name, check_whole(what, getattr(self, name), low, high))
        if self.sketch == "simhash":
            check_choice("number of bits (slots) of a SimHash", self.slots, FINGERPRINTS)

    def _check_words(self) -> None:
        if not isinstance(self.stem, str) or not re.fullmatch(
            "([a-z_]+:[0-9]+([.][0-9]+)*)?", self.stem
        ):
            raise ParameterError(
                f"stem {self.stem!r} is not known: give the language and the version of PyStemmer, "
                "as in english:3.1.0"
            )
        if not isinstance(self.segment, str) or not re.fullmatch(
            "(icu:[0-9]+([.][0-9]+)*)?", self.segment
        ):
            raise ParameterError(
                f"segment {self.segment!r} is not known: give the version of ICU, as in icu:78.3"
            )
        if self.segment and self.unit != "word":
            raise ParameterError(
                f"segments are words, not {self.unit} shingles: use --shingle word:N, or leave out "
                "--segment"
            )
        if self.stem and self.unit != "word":
            raise ParameterError(
                f"stems are those of words, not of {self.unit} shingles: use --shingle word:N, or "
                "leave out --stem"
            )

    def _check_weights(self) -> None:
        if not isinstance(self.weights, str) or not re.fullmatch(
            "(tf-idf:[0-9a-f]{32})?", self.weights
        ):
            raise ParameterError(
                f"weights {self.weights!r} are not known: give tf-idf: and the digest of the "
                "document frequencies, 32 digits"
            )
        if self.weights and self.sketch not in WEIGHTED:
            raise ParameterError(
                f"a {self.sketch} has no weights: use one of {', '.join(WEIGHTED)}, or none"
            )

    def _check_vectors(self) -> None:
        if not isinstance(self.vectors, str) or not re.fullmatch(
            "([1-9][0-9]*x[0-9]+:([0-9a-f]{16}|none))?", self.vectors
        ):
            raise ParameterError(
                f"vectors {self.vectors!r} are not known: give their numbers, the planes and the "
                "digest of the centre, as in 384x640:0123456789abcdef, or none as the digest"
            )
        by_vector = self.unit == VECTOR, self.sketch == "hyperplane"
        if any(by_vector) and not all(by_vector):
            raise ParameterError(
                f"sketch hyperplane is of vectors alone, with shingle {VECTOR}:1: choose both or "
                "neither"
            )

    @classmethod
    def of(
        cls,
        shingle: str = "word:5",
        *,
        sketch: str = "minhash",
        family: str | None = None,
        slots: int | None = None,
        bits: int | None = None,
        **others: Any,
    ) -> Spec:
        """Return a specification in which only what differs from the defaults is named.

        Args:
            shingle: The unit and size of a shingle: `word:5`, `char:24`, `line:1`, `token:5`.
            sketch: The sketch.
            family: The family of hash functions; by default the first one of the sketch.
            slots: The number of slots; by default that of the sketch, 128 for a MinHash.
            bits: The bits of a slot that are stored; by default all that the family makes.
            **others: Other fields of the specification, by name.

        >>> Spec.of("char:24", slots=260).bits
        32
        """
        unit, colon, size = str(shingle).partition(":")
        if not colon or not size.isascii() or not size.isdigit() or len(size) > 9:
            raise ParameterError(
                f"shingle {shingle!r} is not UNIT:SIZE: write word:5, char:24, line:1 or token:5"
            )
        check_choice("sketch", sketch, tuple(FAMILIES))
        families = FAMILIES[sketch]
        family = next(iter(families)) if family is None else family
        check_choice(f"family of {sketch}", family, tuple(families))
        return cls(
            unit=unit,
            size=int(size),
            sketch=sketch,
            family=family,
            slots=SLOTS[sketch] if slots is None else slots,
            bits=families[family] if bits is None else bits,
            **others,
        )

    @property
    def reading(self) -> dict[str, Any]:
        """The fields that decide which words a text has: name -> value."""
        return {name: getattr(self, name) for name in READING}

    @property
    def shingle(self) -> str:
        """The unit and size of a shingle, as `--shingle` takes them."""
        return f"{self.unit}:{self.size}"

    @property
    def of_bags(self) -> bool:
        """Whether a sketch depends on how often a shingle occurs in a document."""
        return self.sketch == "weighted"

    @property
    def of_vectors(self) -> bool:
        """Whether documents are compared by vectors alone."""
        return self.unit == VECTOR

    @property
    def planes(self) -> int:
        """The number of planes that vectors are sketched by; 0 without vectors."""
        return int(self.vectors.partition(":")[0].partition("x")[2] or 0)

    @property
    def dimension(self) -> int:
        """The number of numbers of a vector; 0 without vectors."""
        return int(self.vectors.partition("x")[0] or 0)

    @property
    def width(self) -> int:
        """The bits of a slot as the family makes it; `bits` are those that are stored."""
        return FAMILIES[self.sketch][self.family]

    @property
    def narrow(self) -> bool:
        """Whether only some bits of a slot are stored."""
        return self.bits < self.width

    @property
    def canonical(self) -> str:
        """The JSON whose BLAKE2b is the fingerprint: sorted keys, no spaces, ASCII."""
        return json.dumps(self.stated, sort_keys=True, separators=(",", ":"))

    @property
    def stated(self) -> dict[str, Any]:
        """The fields of the canonical form: name -> value, without later fields that are empty."""
        named = asdict(self).items()
        return {name: value for name, value in named if value or name not in LATER_FIELDS}

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits, equal if and only if the specifications are equal."""
        return hashlib.blake2b(self.canonical.encode(), digest_size=16).hexdigest()

    @classmethod
    def from_json(cls, text: str | bytes) -> Spec:
        """Return the specification of a canonical form.

        Args:
            text: The JSON of `canonical`.

        >>> Spec.from_json(Spec(size=3).canonical).shingle
        'word:3'
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"not a specification: {error}") from None
        known = {field.name for field in fields(cls)}
        if not isinstance(values, dict) or set(values) | set(LATER_FIELDS) != known:
            got = sorted(values) if isinstance(values, dict) else type(values).__name__
            raise FormatError(
                f"not a specification of this version: expected {sorted(known)}, got {got}"
            )
        return cls(**values)

    def require_same(self, other: Spec, mine: str, theirs: str, cure: str | None = None) -> None:
        """Raise `SpecMismatch` unless both specifications are equal; the error names the fields.

        Args:
            other: The specification to compare with.
            mine: What this specification belongs to, for the message.
            theirs: What the other one belongs to.
            cure: What to do about it; by default, to make both with the same options.

        >>> Spec().require_same(Spec(), "the index", "the query")
        """
        a, b = asdict(self), asdict(other)
        differing = [name for name in a if a[name] != b[name]]
        if self.of_vectors != other.of_vectors:
            raise SpecMismatch(
                f"{mine} and {theirs} can't be compared, one has texts and the other only vectors: "
                f"{cure or 'make both with --vectors, or none'}"
            )
        if differing:
            shown = [f"{name} {_shown(a[name])} against {_shown(b[name])}" for name in differing]
            same = " and ".join(dict.fromkeys(SET_BY.get(name, "Spec") for name in differing))
            raise SpecMismatch(
                f"{mine} ({self.fingerprint[:8]}) and {theirs} ({other.fingerprint[:8]}) differ in "
                f"{', '.join(shown)}: {cure or f'make both with the same {same}'}"
            )


SET_BY: Final = {
    "unit": "--shingle (Spec.of)",
    "size": "--shingle (Spec.of)",
    "slots": "--slots",
    "profile": "--text-profile",
    "seed": "--seed",
    "strip": "--strip",
    "mask": "--mask",
    "segment": "--segment and version of ICU",
    "stem": "--stem and version of PyStemmer",
    "sketch": "--sketch",
    "family": "--family",
    "bits": "--bits",
    "hash": "--hash",
    "key": "--key-file",
    "ignored": "list of ignored lines",
    "weights": "--weights and document frequencies",
    "vectors": "vectors, --planes and --centre",
}
"""Field -> the option that sets it."""


def _shown(value: object) -> str:
    return "nothing" if value == "" else repr(value)


def check_choice(what: str, value: object, allowed: tuple[object, ...]) -> None:
    """Raise `ParameterError` unless the value is one of those allowed, in type too."""
    if not any(type(value) is type(choice) and value == choice for choice in allowed):
        choices = [str(choice) for choice in allowed]
        near = get_close_matches(value.lower(), choices, 1) if isinstance(value, str) else []
        meant = f"did you mean {near[0]}? Choose" if near else "choose"
        raise ParameterError(f"{what} {value!r} is not known: {meant} one of {', '.join(choices)}")


def check_whole(what: str, value: object, low: int, high: int) -> int:
    """Return the value as an int; raise `ParameterError` unless it is one from low to high."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
        if not low <= number <= high:
            raise TypeError
    except TypeError:
        raise ParameterError(
            f"{what} must be a whole number from {low} to {high}, not {value!r}"
        ) from None
    return number


def check_number(what: str, value: object) -> float:
    """Return the value as a float; raise `ParameterError` unless it is a number."""
    if isinstance(value, (str, bytes, bool)):
        raise ParameterError(f"{what} must be a number, not {value!r}{suggest_share(value)}")
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{what} must be a number, not {value!r}") from None


LEAST_PERCENTAGE = 2.0
"""Numbers from here on are taken for percentages; smaller ones are shares with an error."""
LEAST_CERTAIN = 10.0
"""Smaller percentages may also be tenths."""


def suggest_share(value: object) -> str:
    """Return the end of a message about a share that is written as a percentage, or with a comma.

    >>> suggest_share("80%"), suggest_share(80), suggest_share("0,8"), suggest_share("high")
    (': write 0.8', ': write 0.8', ': write 0.8', '')
    >>> suggest_share(1.0), suggest_share(1.9)  # hardly one percent, or two
    ('', '')
    >>> suggest_share(8)  # rather 80 percent than 8
    ': write 0.8, or 0.08 for 8 %'
    """
    text = str(value).strip()
    with suppress(ValueError):
        number = float(text.removesuffix("%").replace(",", "."))
        is_percentage = number >= LEAST_PERCENTAGE or text.endswith("%")
        share = number / 100 if is_percentage else number
        if LEAST_PERCENTAGE <= number < LEAST_CERTAIN and not text.endswith("%"):
            return f": write {number / 10:.6g}, or {share:.6g} for {number:.6g} %"
        if 0.0 < share <= 1.0 and share != value:
            return f": write {share:.6g}"
    return ""
