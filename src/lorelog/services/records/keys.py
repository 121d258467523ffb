"""Who signs, and whose signatures are known: Ed25519 keys, kept by a person for their agents.

A signature covers all that a writer says (`signed_bytes`) and stands in the record as `ed25519:<public key>:<signature>`. It
counts only when it is right and its key is known here under the record's own writer's name: a record that brings its key along
proves nothing. Nothing is loaded for a record without a signature.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from lorelog.core.errors import ConfigError, UsageError
from lorelog.core.identity import new_id
from lorelog.core.record import Draft, Record, signed_bytes
from lorelog.records.trust import identity
from lorelog.services.records.keys_folder import SCHEME, KeyFolder, decoded, encoded, fingerprint

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PASSPHRASE = "LORELOG_IDENTITY_PASSPHRASE"  # noqa: S105  (the name of a variable)
_KEY_BYTES, _SIGNATURE_BYTES = 32, 64
_MOST_REMEMBERED = 100_000


class State(StrEnum):
    """What a record's signature is worth."""

    NONE = "none"
    VALID = "valid"
    UNKNOWN_KEY = "unknown key"
    WRONG_NAME = "wrong name"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Signed:
    """How it stands with a record's signature."""

    state: State
    key: str = ""
    """Fingerprint of the key that it names; empty when it names none."""

    @property
    def says(self) -> str:
        """What it means, in a sentence."""
        return _SAYS[self.state]


_SAYS = {
    State.NONE: "it is not signed",
    State.VALID: "its writer is proven by a key that is known here",
    State.UNKNOWN_KEY: "it is signed with a key that is not known here",
    State.WRONG_NAME: "it is signed with a key that is known here under another name",
    State.BROKEN: "its signature does not fit what it says",
}
_UNSIGNED = Signed(State.NONE)


class Keyring:
    """The keys of one home. `name` is who signs; empty where nobody does. Threads may share it."""

    def __init__(self, folder: Path, name: str = "", passphrase: str = "") -> None:
        self.folder = folder
        self.name = name
        self.files = KeyFolder(folder)
        self._passphrase = passphrase
        self._private: Ed25519PrivateKey | None = None
        self._right: dict[bytes, bool] = {}
        """Whether signatures fit, by the hash of signature and what is signed: checking one takes longer than hashing it."""

    def sign(self, draft: Draft) -> Draft:
        """Return a draft signed by `name`; as it is where nobody signs. A signed one has its id and its time."""
        if not self.name:
            return draft
        if identity(draft.agent) != identity(self.name):
            raise UsageError(
                f"{draft.agent!r} cannot sign as the identity {self.name!r}",
                hint="write as that one, or choose another (records.identity; empty signs nothing)",
            )
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        draft = replace(draft, id=draft.id or new_id(), at=draft.at or now, signature="")
        try:
            said = signed_bytes(draft)
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(
                f"a {draft.kind} cannot be signed: {error}", hint="texts are UTF-8, numbers finite, the rest plain JSON"
            ) from error
        private = self._opened()
        public = encoded(private.public_key().public_bytes_raw())
        if not any(one.key == public and identity(one.name) == identity(self.name) for one in self.files.known()):
            raise ConfigError(
                f"the key of {self.name!r} was forgotten here",
                hint=f"lorelog identity trust {self.name} {SCHEME}:{public}, or choose another identity",
            )
        return replace(draft, signature=f"{SCHEME}:{public}:{encoded(private.sign(said))}")

    def key_of(self, record: Draft | Record) -> str:
        """Return the id of the known key that truly signed a record under its writer's name; empty where there is none."""
        if not record.signature:
            return ""
        try:
            found = self.standing(record)
        except ConfigError:  # nobody can tell whose keys are known; a search must not fail for that, and proves nothing
            return ""
        return found.key if found.state is State.VALID else ""

    def standing(self, record: Draft | Record) -> Signed:
        """Say how it stands with a record's signature, and with which key it was made."""
        if not record.signature:
            return _UNSIGNED
        scheme, _, rest = record.signature.partition(":")
        key, _, signature = rest.partition(":")
        raw, proof = decoded(key), decoded(signature)
        if scheme != SCHEME or not raw or not proof or (len(raw), len(proof)) != (_KEY_BYTES, _SIGNATURE_BYTES):
            return Signed(State.BROKEN)
        names = [one.name for one in self.files.known() if one.key == key]
        if not self._fits(record, raw, proof):
            return Signed(State.BROKEN, fingerprint(key))
        if not names:
            return Signed(State.UNKNOWN_KEY, fingerprint(key))
        if identity(record.agent) not in {identity(name) for name in names}:
            return Signed(State.WRONG_NAME, fingerprint(key))
        return Signed(State.VALID, fingerprint(key))

    def _fits(self, record: Draft | Record, key: bytes, proof: bytes) -> bool:
        try:
            said = signed_bytes(record)
        except (TypeError, ValueError, RecursionError):
            return False
        name = hashlib.sha256(key + proof + said).digest()
        found = self._right.get(name)
        if found is None:
            if len(self._right) >= _MOST_REMEMBERED:
                self._right.clear()
            found = self._right[name] = _verify(key, proof, said)
        return found

    def _opened(self) -> Ed25519PrivateKey:
        """Return the private key. What goes wrong is told without a word of the key or the passphrase."""
        if self._private is not None:
            return self._private
        from lorelog.services.records.keys_sealing import is_locked, open_key

        text = self.files.private_text(self.name)
        if is_locked(text) and not self._passphrase:
            raise ConfigError(
                f"the key of {self.name!r} needs its passphrase", hint=f"give it in the variable {PASSPHRASE}"
            )
        try:
            private = open_key(text, self._passphrase)
        except ValueError:
            why = f"the passphrase in {PASSPHRASE} does not open it" if is_locked(text) else "its file is no key"
            raise ConfigError(
                f"the key of {self.name!r} cannot be used: {why}", hint="lorelog identity show tells where it lies"
            ) from None
        self._private = private
        return private


def _verify(key: bytes, proof: bytes, said: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(proof, said)
    except (InvalidSignature, ValueError):
        return False
    return True
