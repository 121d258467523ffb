"""Digests without `hashlib` are those of `hashlib`, and much to hash loads it."""

from __future__ import annotations

import hashlib
import subprocess
import sys

from lorelog.core import ids as digests


def test_digests_are_those_of_the_standard_library() -> None:
    """SHA-256 and BLAKE2b of any bytes are the usual ones, also when more bytes follow."""
    for data in (b"", b"a", bytes(range(256)) * 5000):
        digest = digests.sha256(memoryview(data)[:100])
        digest.update(data[100:])

        assert digest.hexdigest() == digests.sha256(data).hexdigest() == hashlib.sha256(data).hexdigest()
        assert digests.blake2b(data, digest_size=8).digest() == hashlib.blake2b(data, digest_size=8).digest()


def test_openssl_is_loaded_for_many_bytes_only() -> None:
    """A short command hashes a few texts without OpenSSL; an index run over many files gets the fast one."""
    code = (
        "import sys; from lorelog.core.ids import sha256\n"
        "for size in (1000, 2_000_000): sha256(bytes(size)); print('hashlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["False", "True"]
