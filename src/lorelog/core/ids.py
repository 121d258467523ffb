"""Unique ids, and the hashes that ids are made of: light, because hooks make some.

SHA-256 and BLAKE2b come without `hashlib`: its import loads OpenSSL, which takes 4 ms of a short command. The functions are those that
`hashlib` itself uses where OpenSSL is missing, and `random` imports one in the same way. OpenSSL's SHA-256 is four times as fast for a
chunk and ten times for a file, so a process that hashes much loads it after all.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import hashlib
    from collections.abc import Callable
    from hashlib import blake2b
    from hashlib import sha256 as _light_sha256
else:
    try:
        from _blake2 import blake2b

        from _sha2 import sha256 as _light_sha256  # Python 3.12 and later
    except ImportError:
        try:
            from _blake2 import blake2b
            from _sha256 import sha256 as _light_sha256
        except ImportError:
            from hashlib import blake2b
            from hashlib import sha256 as _light_sha256

__all__ = ["answer_hash", "blake2b", "new_id", "parse_cited_id", "sha256"]

_HEX_DIGITS = frozenset("0123456789abcdef")
_CITATION_HASH_DIGITS = 12


def parse_cited_id(name: str) -> str:
    """Return the id in a citation. A context cites `id:hash`, with the hash of the cited text."""
    identity, _, digits = name.rpartition(":")
    return identity if identity and len(digits) == _CITATION_HASH_DIGITS and _HEX_DIGITS.issuperset(digits) else name


def new_id() -> str:
    """Return a UUIDv7: unique, and sorted by time like the journal it is in."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    digits = f"{value:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


_LIGHT_BYTES = 1 << 19
"""So many bytes are hashed without OpenSSL, in about the time that it takes to load."""

_make: Callable[[bytes | memoryview], hashlib._Hash] = _light_sha256
_hashed = 0


def answer_hash(text: object) -> str:
    """Return a hash that identifies an answer without revealing it; empty without an answer."""
    if not isinstance(text, str) or not text.strip():
        return ""
    return sha256(text.strip().encode("utf-8", "surrogatepass")).hexdigest()[:16]


def sha256(data: bytes | memoryview = b"") -> hashlib._Hash:
    """Return the SHA-256 of some bytes, which may be updated with more."""
    global _hashed, _make  # noqa: PLW0603
    if _hashed < _LIGHT_BYTES:
        _hashed += len(data)
        if _hashed >= _LIGHT_BYTES:
            import hashlib

            _make = hashlib.sha256
    return _make(data)
