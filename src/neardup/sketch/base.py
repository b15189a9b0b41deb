"""What the sketches of one set or bag have in common: elements, specification, bytes, threads.

A sketch says in `_payload` what it holds and in `_restore` how that comes back; copies, pickles,
equality and bytes follow from the two. Updates and merges may come from several threads.

A sketch as bytes:

    0   4  magic "nds1"
    4   4  length n of the specification, little-endian
    8   n  the specification's canonical JSON
    8+n m  the sketch's own bytes; for MinHash its slots, little-endian
    ..  8  XXH3-64 of everything before, little-endian
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

import numpy as np
import xxhash
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import FormatError, ParameterError
from neardup.framing import seal, unseal
from neardup.keys import Key, make_hasher, require_key, seeded, to_key
from neardup.spec import Spec

MAGIC = b"nds1"
HEAD = 8


def pack_sketch(spec: Spec, payload: bytes) -> bytes:
    text = spec.canonical.encode()
    return seal(MAGIC + len(text).to_bytes(4, "little") + text + payload)


def unpack_sketch(
    data: bytes,
    require: Callable[[Spec], None],
    payload_size: Callable[[Spec], int] | None = None,
) -> tuple[Spec, bytes]:
    """The specification and the sketch's own bytes, checked in every respect.

    `require` refuses, by a `ParameterError`, the specifications that the sketch can't have.
    Without `payload_size` the sketch checks itself how many bytes of its own there are.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise FormatError(f"a sketch is read from bytes, not from {type(data).__name__}")
    body = unseal(bytes(data), MAGIC, "a neardup sketch", HEAD)
    end = HEAD + int.from_bytes(body[4:HEAD], "little")
    try:
        spec = Spec.from_json(body[HEAD:end])
    except ParameterError as error:
        raise FormatError(f"the sketch needs another version of neardup: {error}") from None
    try:
        require(spec)
    except ParameterError as error:
        raise FormatError(f"these are the bytes of another sketch: {error}") from None
    payload = body[end:]
    if payload_size is not None and len(payload) != payload_size(spec):
        raise FormatError(
            f"the sketch holds {len(payload)} bytes, its specification says {payload_size(spec)}"
        )
    return spec, payload


Hashes = NDArray[np.uint64]


def hash_element(element: str | bytes, spec: Spec, key: Key | None = None) -> Hashes:
    """One element's hash, as an array."""
    if spec.hash != "xxh64":
        return hash_elements([element], spec, key)
    # The library's function is the fastest way to a single hash.
    return np.array([xxhash.xxh64_intdigest(as_bytes(element), spec.seed)], np.uint64)


def hash_elements(elements: Iterable[str | bytes], spec: Spec, key: Key | None = None) -> Hashes:
    """The elements' hashes, in order."""
    if isinstance(elements, (str, bytes)):
        raise ParameterError("update_batch takes many elements: use update for a single one")
    data = [as_bytes(element) for element in elements]
    ends = np.cumsum([0, *map(len, data)], dtype=np.int64)
    joined = np.frombuffer(b"".join(data), np.uint8)
    found: Hashes = kernels.element_hashes(joined, ends, make_hasher(spec, key))
    return found


def as_bytes(element: str | bytes) -> bytes:
    if isinstance(element, str):
        return element.encode("utf-8", "surrogatepass")
    if isinstance(element, (bytes, bytearray, memoryview)):
        return bytes(element)
    raise ParameterError(f"elements are strings or bytes, not {type(element).__name__}")


class Sketch(ABC):
    """A sketch that travels with its specification."""

    KIND: ClassVar[str]
    """The specification's `sketch`."""

    def __init__(
        self, spec: Spec | None, key: bytes | Key | None = None, **made: int | str
    ) -> None:
        """As the specification says; without one, as usual except for what is `made` otherwise."""
        self._key = to_key(key)
        if spec is None:
            key_id = self._key.id if self._key else ""
            spec = Spec.of(sketch=self.KIND, key=key_id, **made)  # type: ignore[arg-type]
        if self._key is not None:
            require_key(spec, self._key)
        self._require(spec)
        self.spec = spec
        self._lock = threading.RLock()

    @classmethod
    def _require(cls, spec: Spec) -> None:
        """Refuse a specification that such a sketch can't have, whether given or read."""
        if spec.sketch != cls.KIND:
            raise ParameterError(
                f"{cls.__name__} is made with sketch {cls.KIND!r}, not {spec.sketch!r}: "
                f"use Spec.of(sketch={cls.KIND!r})"
            )

    @abstractmethod
    def _payload(self) -> bytes:
        """What the sketch holds. Equal sketches hold equal bytes."""

    @abstractmethod
    def _restore(self, payload: bytes) -> None:
        """Take what `_payload` wrote; a `FormatError` if it can't have written that."""

    @abstractmethod
    def _absorb(self, other: Self) -> None:
        """Become the sketch of both."""

    def merge(self, other: Self) -> None:
        """Make this the sketch of both sets together, whatever the order."""
        theirs = self._snapshot(other)
        with self._lock:
            self._absorb(theirs)

    def copy(self) -> Self:
        """A snapshot: it stays as it is, whatever happens to this sketch."""
        return self.from_bytes(self.to_bytes(), self._key)

    def to_bytes(self) -> bytes:
        """The sketch with its specification and a checksum; `from_bytes` reads it."""
        with self._lock:
            return pack_sketch(self.spec, self._payload())

    @classmethod
    def from_bytes(cls, data: bytes, key: bytes | Key | None = None) -> Self:
        """The sketch that `to_bytes` wrote; anything truncated, altered or foreign is an error.

        A keyed sketch can be compared and merged without its key, but not updated.
        """
        spec, payload = unpack_sketch(data, cls._require)
        sketch = cls.__new__(cls)
        Sketch.__init__(sketch, spec, key)
        sketch._restore(payload)
        return sketch

    @property
    def _seed(self) -> int:
        """What the sketch's constants are made from; a secret, if there is a key."""
        return seeded(self.spec, self._key).seed

    def _hash(self, element: str | bytes) -> Hashes:
        """One element's hash, as an array."""
        return hash_element(element, self.spec, self._key)

    def _hashes(self, elements: Iterable[str | bytes]) -> Hashes:
        """The elements' hashes, in order."""
        return hash_elements(elements, self.spec, self._key)

    def _snapshot(self, other: object) -> Self:
        """The other as it is now, if it may be compared with this one."""
        if not isinstance(other, type(self)):
            name = type(self).__name__
            raise ParameterError(f"the other must be a {name}, not {type(other).__name__}")
        self.spec.require_same(other.spec, f"this {type(self).__name__}", "the other")
        return other.copy()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]  # it changes with every update

    def __getstate__(self) -> dict[str, Any]:
        return {"bytes": self.to_bytes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(self.from_bytes(state["bytes"]).__dict__)


class SetSketch(Sketch):
    """A sketch of a set: an element that comes again changes nothing."""

    @abstractmethod
    def _add(self, hashes: Hashes) -> None:
        """Add elements by their hashes; the lock is held."""

    def update(self, element: str | bytes) -> None:
        """Add one element to the set."""
        self.update_hashes(self._hash(element))

    def update_batch(self, elements: Iterable[str | bytes]) -> None:
        """Add many elements; the same as `update` for each, and much faster."""
        self.update_hashes(self._hashes(elements))

    def update_hashes(self, hashes: Hashes) -> None:
        """Add elements that are 64-bit hashes already, such as shingles."""
        require_key(self.spec, self._key)
        values = np.asarray(hashes)
        if values.dtype != np.uint64 or values.ndim != 1:
            raise ParameterError(f"hashes must be an array of uint64, not of {values.dtype}")
        with self._lock:
            self._add(np.ascontiguousarray(values))


def mix_hashes(values: Hashes) -> Hashes:
    """MurmurHash3's 64-bit finaliser of each value: one to one."""
    h: Hashes = values ^ (values >> np.uint64(33))
    h = h * np.uint64(0xFF51AFD7ED558CCD)
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> np.uint64(33))
