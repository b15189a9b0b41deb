"""The base classes of all sketches of one set or bag: hashing, specification, bytes, threads.

A subclass implements `_payload` (its content as bytes) and `_restore` (the inverse); copies,
pickles, equality and `to_bytes` follow from the two. Any thread may update or merge a sketch.

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
    """Return a sketch as bytes, in the layout at the head of this file."""
    text = spec.canonical.encode()
    return seal(MAGIC + len(text).to_bytes(4, "little") + text + payload)


def unpack_sketch(
    data: bytes,
    require: Callable[[Spec], None],
    payload_size: Callable[[Spec], int] | None = None,
) -> tuple[Spec, bytes]:
    """Return the specification and the payload of a sketch's bytes, or raise `FormatError`.

    Args:
        data: What `pack_sketch` returned.
        require: Raises `ParameterError` for a specification that the sketch can't have.
        payload_size: Returns the size of the payload in bytes; None if the caller checks it.
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
    if payload_size is not None:
        require_size(payload, payload_size(spec))
    return spec, payload


def require_size(payload: bytes, size: int) -> None:
    """Raise `FormatError` if a payload does not have the size that its specification requires."""
    if len(payload) != size:
        raise FormatError(
            f"the sketch has {len(payload)} bytes, its specification requires {size}: make it "
            "again, or fetch it again"
        )


Hashes = NDArray[np.uint64]


def hash_element(element: str | bytes, spec: Spec, key: Key | None = None) -> Hashes:
    """Return the hash of one element, as an array of one value."""
    if spec.hash != "xxh64":
        return hash_elements([element], spec, key)
    # The library's function is the fastest way to a single hash.
    return np.array([xxhash.xxh64_intdigest(as_bytes(element), spec.seed)], np.uint64)


def hash_elements(elements: Iterable[str | bytes], spec: Spec, key: Key | None = None) -> Hashes:
    """Return the hashes of elements, in their order."""
    if isinstance(elements, (str, bytes)):
        raise ParameterError("update_batch takes many elements: use update for a single one")
    data = [as_bytes(element) for element in elements]
    ends = np.cumsum([0, *map(len, data)], dtype=np.int64)
    joined = np.frombuffer(b"".join(data), np.uint8)
    hashes: Hashes = kernels.element_hashes(joined, ends, make_hasher(spec, key))
    return hashes


def as_bytes(element: str | bytes) -> bytes:
    """Return an element as bytes: a string as UTF-8, lone surrogates included."""
    if isinstance(element, str):
        return element.encode("utf-8", "surrogatepass")
    if isinstance(element, (bytes, bytearray, memoryview)):
        return bytes(element)
    raise ParameterError(f"elements are strings or bytes, not {type(element).__name__}")


class Sketch(ABC):
    """A sketch and its specification. Any thread may call any method."""

    KIND: ClassVar[str]
    """The value of `Spec.sketch` that such a sketch requires."""

    def __init__(
        self, spec: Spec | None, key: bytes | Key | None = None, **fields: int | str
    ) -> None:
        """Check the specification, or make one of `fields` and defaults if `spec` is None."""
        self._key = to_key(key)
        if spec is None:
            key_id = self._key.id if self._key else ""
            spec = Spec.of(sketch=self.KIND, key=key_id, **fields)  # type: ignore[arg-type]
        if self._key is not None:
            require_key(spec, self._key)
        self._require(spec)
        self.spec = spec
        self._lock = threading.RLock()

    @classmethod
    def _require(cls, spec: Spec) -> None:
        """Raise `ParameterError` for a specification that this class of sketch can't have."""
        if spec.sketch != cls.KIND:
            raise ParameterError(
                f"{cls.__name__} is made with sketch {cls.KIND!r}, not {spec.sketch!r}: "
                f"use Spec.of(sketch={cls.KIND!r})"
            )

    @abstractmethod
    def _payload(self) -> bytes:
        """Return the sketch's content. Equal sketches have equal bytes."""

    @abstractmethod
    def _restore(self, payload: bytes) -> None:
        """Set the content from bytes of `_payload`; raise `FormatError` for any others."""

    @abstractmethod
    def _absorb(self, other: Self) -> None:
        """Merge the content of another sketch into this one; the lock is held."""

    def merge(self, other: Self) -> None:
        """Merge another sketch into this one, which then is the sketch of both sets or bags.

        The order of merges does not change the result.

        Args:
            other: A sketch of the same class and specification; it is not changed.
        """
        theirs = self._snapshot(other)
        with self._lock:
            self._absorb(theirs)

    def copy(self) -> Self:
        """Return an independent copy."""
        return self.from_bytes(self.to_bytes(), self._key)

    def to_bytes(self) -> bytes:
        """Return the sketch, its specification and a checksum as bytes for `from_bytes`."""
        with self._lock:
            return pack_sketch(self.spec, self._payload())

    @classmethod
    def from_bytes(cls, data: bytes, key: bytes | Key | None = None) -> Self:
        """Return the sketch of bytes that `to_bytes` made.

        Args:
            data: The bytes; truncated, altered or other bytes raise `FormatError`.
            key: The secret key of a keyed sketch. Without it the sketch can be compared and
                merged, but not updated.
        """
        spec, payload = unpack_sketch(data, cls._require)
        sketch = cls.__new__(cls)
        Sketch.__init__(sketch, spec, key)
        sketch._restore(payload)
        return sketch

    @property
    def _seed(self) -> int:
        """The seed of the sketch's constants; it is secret if there is a key."""
        return seeded(self.spec, self._key).seed

    def _hash(self, element: str | bytes) -> Hashes:
        """Return the hash of one element, as an array of one value."""
        return hash_element(element, self.spec, self._key)

    def _hashes(self, elements: Iterable[str | bytes]) -> Hashes:
        """Return the hashes of elements, in their order."""
        return hash_elements(elements, self.spec, self._key)

    def _snapshot(self, other: object) -> Self:
        """Return a copy of the other sketch, or raise if the two can't be compared."""
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
    """A sketch of a set: adding an element again changes nothing."""

    @abstractmethod
    def _add(self, hashes: Hashes) -> None:
        """Add elements by their hashes; the lock is held."""

    def update(self, element: str | bytes) -> None:
        """Add one element to the set.

        Args:
            element: A string, which is hashed as UTF-8, or bytes.
        """
        self.update_hashes(self._hash(element))

    def update_batch(self, elements: Iterable[str | bytes]) -> None:
        """Add many elements; the same as `update` for each, and much faster.

        Args:
            elements: Strings or bytes, in any order.
        """
        self.update_hashes(self._hashes(elements))

    def update_hashes(self, hashes: Hashes) -> None:
        """Add elements by their 64-bit hashes, such as shingles.

        Args:
            hashes: A one-dimensional array of uint64.
        """
        require_key(self.spec, self._key)
        values = np.asarray(hashes)
        if values.dtype != np.uint64 or values.ndim != 1:
            raise ParameterError(f"hashes must be an array of uint64, not of {values.dtype}")
        with self._lock:
            self._add(np.ascontiguousarray(values))


def mix_hashes(values: Hashes) -> Hashes:
    """Return the MurmurHash3 finaliser of each 64-bit value, which is a bijection."""
    h: Hashes = values ^ (values >> np.uint64(33))
    h = h * np.uint64(0xFF51AFD7ED558CCD)
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> np.uint64(33))
