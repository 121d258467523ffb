"""Private key files: PEM, and with a passphrase encrypted with a key derived by scrypt.

PKCS#8 as OpenSSL writes it derives the key with only 2,048 rounds, of which a machine tries millions per second.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_ENCRYPTED_HEADER = re.compile(rb"lorelog scrypt v1 ([0-9a-f]{32})\n")
_SCRYPT_COST, _SCRYPT_BLOCK_SIZE, _SCRYPT_PARALLELISM = 2**15, 8, 1


def generate_key(passphrase: str) -> tuple[bytes, bytes]:
    """Return the content of a new private key file, and the raw public key."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    header = b""
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase:
        salt = os.urandom(16)
        header = b"lorelog scrypt v1 " + salt.hex().encode() + b"\n"
        encryption = serialization.BestAvailableEncryption(_derive_passphrase(passphrase, salt))
    text = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    return header + text, private.public_key().public_bytes_raw()


def is_encrypted(text: bytes) -> bool:
    """Return True if a key file needs a passphrase."""
    return _ENCRYPTED_HEADER.match(text) is not None


def load_private_key(text: bytes, passphrase: str) -> Ed25519PrivateKey:
    """Return the private key of a file. Raise ValueError if it is not one, or for a wrong passphrase."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    header = _ENCRYPTED_HEADER.match(text)
    secret = _derive_passphrase(passphrase, bytes.fromhex(header[1].decode())) if header else None
    try:
        private = load_pem_private_key(text[header.end() if header else 0 :], secret)
    except (TypeError, UnsupportedAlgorithm):
        raise ValueError("not a private key") from None
    if not isinstance(private, Ed25519PrivateKey):
        raise ValueError("not an Ed25519 key")  # noqa: TRY004  (callers handle one kind of error)
    return private


def _derive_passphrase(passphrase: str, salt: bytes) -> bytes:
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    key = Scrypt(salt, 32, _SCRYPT_COST, _SCRYPT_BLOCK_SIZE, _SCRYPT_PARALLELISM).derive(
        passphrase.encode("utf-8", "surrogateescape")
    )
    return key.hex().encode()
