"""SHA-256 and BLAKE2b for short texts, without `hashlib`: its import loads OpenSSL, which takes 4 ms of a short command.

The functions are those that `hashlib` itself uses where OpenSSL is missing, and `random` imports one in the same way.
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from hashlib import blake2b, sha256
else:
    try:
        from _blake2 import blake2b

        from _sha2 import sha256  # Python 3.12 and later
    except ImportError:
        try:
            from _blake2 import blake2b
            from _sha256 import sha256
        except ImportError:
            from hashlib import blake2b, sha256

__all__ = ["blake2b", "sha256"]
