"""A private key as its file has it: PEM, and where there is a passphrase encrypted with what scrypt makes of it.

PKCS#8 alone stretches a passphrase by 2,048 rounds, as OpenSSL writes it: a machine tries millions of those a second.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_LOCKED = re.compile(rb"lorelog scrypt v1 ([0-9a-f]{32})\n")
_COST, _BLOCK, _LANES = 2**15, 8, 1


def new_key(passphrase: str) -> tuple[bytes, bytes]:
    """Return a new private key as it is kept, and the bytes of its public half."""
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    head = b""
    lock: forms.KeySerializationEncryption = forms.NoEncryption()
    if passphrase:
        salt = os.urandom(16)
        head = b"lorelog scrypt v1 " + salt.hex().encode() + b"\n"
        lock = forms.BestAvailableEncryption(_stretched(passphrase, salt))
    text = private.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, lock)
    return head + text, private.public_key().public_bytes_raw()


def is_locked(text: bytes) -> bool:
    """Say whether a key as it is kept needs a passphrase."""
    return _LOCKED.match(text) is not None


def open_key(text: bytes, passphrase: str) -> Ed25519PrivateKey:
    """Return the private key that is kept so. Raise ValueError when it is none, or locked with another passphrase."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    head = _LOCKED.match(text)
    secret = _stretched(passphrase, bytes.fromhex(head[1].decode())) if head else None
    try:
        private = load_pem_private_key(text[head.end() if head else 0 :], secret)
    except (TypeError, UnsupportedAlgorithm):
        raise ValueError("no key") from None
    if not isinstance(private, Ed25519PrivateKey):
        raise ValueError("a key of another kind")  # noqa: TRY004  (whoever asks tells one kind of error from none)
    return private


def _stretched(passphrase: str, salt: bytes) -> bytes:
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    made = Scrypt(salt, 32, _COST, _BLOCK, _LANES).derive(passphrase.encode("utf-8", "surrogateescape"))
    return made.hex().encode()
