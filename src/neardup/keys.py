"""The secret key of keyed hashes, and the hash function that a specification names.

A key is never shown: it is in no specification, file or message, and in no pickle but what a run on
Spark sends to its tasks. Only its id is written, from which the key can't be computed.
`docs/format.md` has the rules.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import NoReturn

import numpy as np

from neardup.errors import ParameterError, SpecMismatch, UsageError
from neardup.spec import HASHES, KEYED, Spec

Hasher = tuple[int, np.uint64, np.uint64]
"""The number of the hash function and its two starting values: see `kernels/hashing.py`."""


class Key:
    """A secret key.

    Args:
        secret: Its 16 bytes, or 32 hexadecimal digits, with a newline or without.

    >>> Key(bytes(range(16)))
    Key(id='616a7e8911622fde')
    >>> Key(b"000102030405060708090a0b0c0d0e0f").id
    '616a7e8911622fde'
    """

    __slots__ = ("_secret", "id")

    def __init__(self, secret: bytes) -> None:
        if not isinstance(secret, (bytes, bytearray, memoryview)):
            raise ParameterError(f"a key is bytes, not {type(secret).__name__}")
        secret = bytes(secret)
        if re.fullmatch(rb"[0-9A-Fa-f]{32}(\r?\n)?", secret):
            secret = bytes.fromhex(secret.decode())
        if len(secret) != 16:
            raise ParameterError(
                "a key has 16 bytes, or 32 hexadecimal digits: make one with openssl rand -hex 16"
            )
        self._secret = secret
        self.id = self._derived(b"", b"neardup key id").hex()

    def halves(self) -> tuple[int, int]:
        """Return the halves that SipHash calls k0 and k1."""
        return (
            int.from_bytes(self._secret[:8], "little"),
            int.from_bytes(self._secret[8:], "little"),
        )

    def seed(self, seed: int) -> int:
        """Return a secret seed for a sketch's constants, derived from a public one."""
        return int.from_bytes(self._derived(seed.to_bytes(8, "little"), b"neardup seed"), "little")

    def _derived(self, data: bytes, purpose: bytes) -> bytes:
        return hashlib.blake2b(data, key=self._secret, digest_size=8, person=purpose).digest()

    def __repr__(self) -> str:
        return f"Key(id={self.id!r})"

    def __reduce__(self) -> NoReturn:
        raise UsageError("a key is never pickled: give it to each process by itself")


def require_key(spec: Spec, key: Key | None) -> None:
    """Raise an error unless the key is the one that the specification names."""
    if spec.hash != KEYED:
        if key is not None:
            raise ParameterError(f"a key goes with hash {KEYED}, not with {spec.hash}")
    elif key is None:
        raise ParameterError(
            f"the key {spec.key} is missing: give the key with this id (--key-file, key=)"
        )
    elif key.id != spec.key:
        raise SpecMismatch(
            f"the key {key.id} was given, {spec.key} is needed: give the key with that id "
            "(--key-file, key=)"
        )


def make_hasher(spec: Spec, key: Key | None) -> Hasher:
    """Return the hash function of a specification, for the kernels."""
    require_key(spec, key)
    k0, k1 = key.halves() if key else (spec.seed, 0)
    return HASHES.index(spec.hash), np.uint64(k0), np.uint64(k1)


def to_key(value: bytes | Key | None) -> Key | None:
    """Return a key as a `Key`; None stays None."""
    return value if value is None or isinstance(value, Key) else Key(value)


def seeded(spec: Spec, key: Key | None) -> Spec:
    """Return the specification with the seed from which a sketch's constants are made.

    With a key that seed is secret: use the returned specification for signatures only, and drop it.
    """
    require_key(spec, key)
    return replace(spec, seed=key.seed(spec.seed)) if key else spec
