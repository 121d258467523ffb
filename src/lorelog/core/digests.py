"""SHA-256 and BLAKE2b without `hashlib`: its import loads OpenSSL, which takes 4 ms of a short command.

The functions are those that `hashlib` itself uses where OpenSSL is missing, and `random` imports one in the same way. OpenSSL's SHA-256 is
four times as fast for a chunk and ten times for a file, so a process that hashes much loads it after all.
"""

from __future__ import annotations

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

__all__ = ["blake2b", "sha256"]

_LIGHT_BYTES = 1 << 19
"""So many bytes are hashed without OpenSSL, in about the time that it takes to load."""

_make: Callable[[bytes | memoryview], hashlib._Hash] = _light_sha256
_hashed = 0


def sha256(data: bytes | memoryview = b"") -> hashlib._Hash:
    """Return the SHA-256 of some bytes, which may be updated with more."""
    global _hashed, _make  # noqa: PLW0603
    if _hashed < _LIGHT_BYTES:
        _hashed += len(data)
        if _hashed >= _LIGHT_BYTES:
            import hashlib

            _make = hashlib.sha256
    return _make(data)
