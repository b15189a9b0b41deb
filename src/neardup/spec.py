"""The specification: everything that decides a document's shingles and sketch, in one frozen value.

Two sketches may be compared only if their specifications have the same fingerprint. What can
be tuned afterwards (bands, rows, thresholds, limits) is not part of it.
"""

from __future__ import annotations

import hashlib
import json
import operator
import re
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from neardup.errors import FormatError, ParameterError, SpecMismatch

VERSION: Final = 1
UNICODE: Final = "14.0.0"
PROFILES: Final = ("conservative", "standard", "aggressive")
STRIPS: Final = ("", "html")
UNITS: Final = ("word", "char", "line", "token")
HASHES: Final = ("xxh64", "murmur3", "fnv1a", "siphash")
KEYED: Final = "siphash"
FAMILIES: Final[dict[str, dict[str, int]]] = {
    "minhash": {"affine32": 32, "affine-m61": 64},
    "oneperm": {"rounds": 32},
    "weighted": {"darts": 32},
    "simhash": {"sign": 1},
    "bottomk": {"mix": 64},
    "hyperloglog": {"hll8": 8},
}
"""Sketch -> how its slots are made, and the bits of a slot that is made so; the usual way first."""
SLOTS: Final = {
    "minhash": 128,
    "oneperm": 128,
    "weighted": 128,
    "simhash": 64,
    "bottomk": 256,
    "hyperloglog": 4_096,
}
"""The usual number of slots."""
WEIGHTED: Final = ("simhash", "weighted")
"""Sketches whose shingles may have weights."""
FINGERPRINTS: Final = (64, 128)
"""How many slots, which are bits, a SimHash may have."""
MINHASHES: Final = ("minhash", "oneperm")
B_BITS: Final = (1, 2, 4, 8, 16)
"""What slots of those can be cut down to, to be stored."""
MAX_SHINGLE: Final = 1_000
MAX_SLOTS: Final = 65_536
# Younger than version 1: named only where they say something, so that all others stay as they are.
LATER_FIELDS: Final = ("strip", "ignored", "key", "weights")


@dataclass(frozen=True, slots=True)
class Spec:
    """What a shingle and a sketch are.

    >>> Spec().shingle
    'word:5'
    >>> Spec(size=3) == Spec.of(shingle="word:3")
    True
    >>> Spec().fingerprint == Spec(seed=1).fingerprint
    False

    `strip` says what is taken out of a text before anything else; `ignored` is the digest of the
    list of lines that are ignored, `key` the id of the key of a keyed hash; `weights` says what
    shingles weigh where that depends on the corpus: `tf-idf:` and the digest of its document
    frequencies. All are empty by default.
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

    def __post_init__(self) -> None:
        check_choice("text profile", self.profile, PROFILES)
        check_choice("shingle unit", self.unit, UNITS)
        check_choice("hash", self.hash, HASHES)
        check_choice("sketch", self.sketch, tuple(FAMILIES))
        check_choice(f"family of {self.sketch}", self.family, tuple(FAMILIES[self.sketch]))
        narrow = B_BITS if self.sketch in MINHASHES else ()
        check_choice(f"slot width of {self.family}", self.bits, (*narrow, self.width))
        check_choice("Unicode version", self.unicode, (UNICODE,))
        check_choice("format version", self.version, (VERSION,))
        check_choice("strip", self.strip, STRIPS)
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
        self._check_weights()
        for what, name, low, high in (
            ("shingle size", "size", 1, MAX_SHINGLE),
            ("number of slots", "slots", 1, MAX_SLOTS),
            ("seed", "seed", 0, 2**64 - 1),
        ):
            # Plain ints, also when a NumPy integer came: the fingerprint is made of them.
            object.__setattr__(self, name, check_whole(what, getattr(self, name), low, high))
        if self.sketch == "simhash":
            check_choice("number of bits (slots) of a SimHash", self.slots, FINGERPRINTS)

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
        """A specification as people write it: the shingle as `word:5` or `char:24`, and of the
        sketch only what is not usual.

        >>> Spec.of("char:24", slots=260).bits
        32
        """
        unit, colon, size = str(shingle).partition(":")
        if not colon or not size.isascii() or not size.isdigit() or len(size) > 9:
            raise ParameterError(
                f"shingle {shingle!r} is not UNIT:SIZE: write word:5, char:24, line:1 or token:5"
            )
        check_choice("sketch", sketch, tuple(FAMILIES))
        ways = FAMILIES[sketch]
        family = next(iter(ways)) if family is None else family
        check_choice(f"family of {sketch}", family, tuple(ways))
        return cls(
            unit=unit,
            size=int(size),
            sketch=sketch,
            family=family,
            slots=SLOTS[sketch] if slots is None else slots,
            bits=ways[family] if bits is None else bits,
            **others,
        )

    @property
    def shingle(self) -> str:
        return f"{self.unit}:{self.size}"

    @property
    def of_bags(self) -> bool:
        """Whether it matters how often a shingle is in a document."""
        return self.sketch == "weighted"

    @property
    def width(self) -> int:
        """The bits of a slot when it is made; `bits` are those that are stored."""
        return FAMILIES[self.sketch][self.family]

    @property
    def narrow(self) -> bool:
        """Whether slots are cut down before they are stored."""
        return self.bits < self.width

    @property
    def canonical(self) -> str:
        """The JSON whose BLAKE2b is the fingerprint: sorted keys, no spaces, ASCII."""
        return json.dumps(self.stated, sort_keys=True, separators=(",", ":"))

    @property
    def stated(self) -> dict[str, Any]:
        """Name -> value, without the later fields that are empty."""
        named = asdict(self).items()
        return {name: value for name, value in named if value or name not in LATER_FIELDS}

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that are equal if and only if the specifications are."""
        return hashlib.blake2b(self.canonical.encode(), digest_size=16).hexdigest()

    @classmethod
    def from_json(cls, text: str | bytes) -> Spec:
        """The specification that `canonical` wrote."""
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

    def require_same(self, other: Spec, mine: str, theirs: str) -> None:
        """Refuse to go on unless both sides were made by the same specification."""
        a, b = asdict(self), asdict(other)
        differing = [name for name in a if a[name] != b[name]]
        if differing:
            shown = [f"{name} {_shown(a[name])} against {_shown(b[name])}" for name in differing]
            same = " and ".join(dict.fromkeys(MADE_WITH.get(name, "Spec") for name in differing))
            raise SpecMismatch(
                f"{mine} ({self.fingerprint[:8]}) and {theirs} ({other.fingerprint[:8]}) differ in "
                f"{', '.join(shown)}: make both with the same {same}"
            )


MADE_WITH: Final = {
    "unit": "--shingle (Spec.of)",
    "size": "--shingle (Spec.of)",
    "slots": "--slots",
    "profile": "--text-profile",
    "seed": "--seed",
    "strip": "--strip",
    "sketch": "--sketch",
    "family": "--family",
    "bits": "--bits",
    "hash": "--hash",
    "key": "--key-file",
    "ignored": "list of ignored lines",
    "weights": "--weights and document frequencies",
}
"""The options that lead to the fields."""


def _shown(value: object) -> str:
    return "nothing" if value == "" else repr(value)


def check_choice(what: str, value: object, allowed: tuple[object, ...]) -> None:
    """Refuse a value that is not, in type too, one of those allowed."""
    if not any(type(value) is type(choice) and value == choice for choice in allowed):
        raise ParameterError(
            f"{what} {value!r} is not known: choose one of {', '.join(map(str, allowed))}"
        )


def check_whole(what: str, value: object, low: int, high: int) -> int:
    """The value as an int, if it is a whole number in this range."""
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
    """The value as a float, if it is a number."""
    if isinstance(value, (str, bytes, bool)):
        raise ParameterError(f"{what} must be a number, not {value!r}")
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{what} must be a number, not {value!r}") from None
