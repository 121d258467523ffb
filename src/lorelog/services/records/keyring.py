"""Identities of a home: private keys, trusted public keys, signing, and the check of a ledger's signatures.

A signature covers everything the writer states (`signed_bytes`) and is stored as `ed25519:<public key>:<signature>`. It
counts only if it is valid and its key is trusted here under the writer's name: a key that comes with a record proves
nothing.

`known.json` lists the trusted keys. Only a person changes it, with `lorelog identity`; removing a name there
invalidates its signatures and changes neither records nor keys. Records without a signature load no cryptography.

A private key file is PEM, and with a passphrase it is encrypted with a key derived by scrypt: PKCS#8 as OpenSSL writes it derives the
key with only 2,048 rounds, of which a machine tries millions per second.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec import Struct, json
from msgspec.structs import replace

from lorelog.core.atomic_file import Writing, write_atomic
from lorelog.core.document import FileStamp
from lorelog.core.errors import ConfigError, MissingExtra, NotFound, StoreError, UsageError
from lorelog.core.extras import require_extra
from lorelog.core.ids import new_id
from lorelog.core.processes import FileLock
from lorelog.core.record import Record, RecordDraft, signed_bytes
from lorelog.records.chain import LedgerVerification, UnprovenSignature, open_existing_file
from lorelog.records.ledger import utc_time
from lorelog.records.trust import writer_identity
from lorelog.services.records.store import RecordStore

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PASSPHRASE_VARIABLE = "LORELOG_IDENTITY_PASSPHRASE"  # noqa: S105  (the name of a variable)
_SIGNATURE_BYTES = 64
_MAX_CACHED_CHECKS = 100_000
SCHEME = "ed25519"
KEYS_VERSION = 1
_PUBLIC_KEY_BYTES = 32
_MAX_NAME_CHARS = 100
_MAX_FILE_BYTES = 1_000_000
_PRIME = 2**255 - 19
_WEAK_KEYS = frozenset(
    {
        0,
        1,
        _PRIME - 1,
        0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7,
        0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
    }
)
"""Low-order points: anyone can make signatures that are valid under them."""


class TrustedKey(Struct, frozen=True):
    """A public key trusted under a name."""

    name: str
    key: str
    """Base64url without padding."""
    since: str = ""

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.key)


class KeyIdentity(Struct, frozen=True):
    name: str
    keys: tuple[TrustedKey, ...]
    """Trusted keys; empty after `forget`."""
    path: str = ""
    """Private key file; empty for other people's identities."""
    public: str = ""
    """Public key of that file."""


class SignatureState(StrEnum):
    """Result of checking a record's signature, as a sentence."""

    NONE = "it is not signed"
    VALID = "it is signed with its writer's trusted key"
    UNKNOWN_KEY = "it is signed with a key that is not trusted here"
    WRONG_NAME = "it is signed with a key that is trusted under another name"
    BROKEN = "its signature does not match its content"


class _KnownKeys(Struct, frozen=True):
    """Content of `known.json`."""

    version: int
    keys: tuple[TrustedKey, ...]


def parse_public_key(text: str) -> str:
    """Return the public key in `ed25519:…` or in a whole public line. Raise UsageError for anything else."""
    word = (text.split() or [""])[0]
    scheme, _, key = word.rpartition(":")
    raw = decode_base64url(key)
    if scheme not in {"", SCHEME} or raw is None or len(raw) != _PUBLIC_KEY_BYTES:
        raise UsageError(
            "this is not a public key", hint="'lorelog identity export NAME' prints one: ed25519:… with 43 characters"
        )
    height = int.from_bytes(raw, "little") & ~(1 << 255)
    if height >= _PRIME or height in _WEAK_KEYS:
        raise UsageError("this public key is weak: anyone could sign with it", hint="ask for another one")
    return key


def encode_base64url(raw: bytes) -> str:
    """Return bytes as base64url without padding."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decode_base64url(text: str) -> bytes | None:
    """Return the decoded bytes; None if the text is not their canonical encoding."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if encode_base64url(raw) == text else None


def fingerprint(key: str) -> str:
    return hashlib.sha256(decode_base64url(key) or b"").hexdigest()[:32]


def short_fingerprint(key: str) -> str:
    """Return the beginning of a fingerprint, which people compare at two screens."""
    return fingerprint(key)[:20]


def format_public_line(name: str, key: str) -> str:
    """Return the line to give to others: public key and name."""
    return f"{SCHEME}:{key} {name}"


class Keyring:
    """The identities of one home; signs as `name`, or not at all if empty. Reading creates no file.

    Safe to share between threads.
    """

    def __init__(self, folder: Path, name: str = "", passphrase: str = "") -> None:
        self.folder = folder
        self.name = name
        self._passphrase = passphrase
        self._private_key: Ed25519PrivateKey | None = None
        self._file = folder / "known.json"
        self._stamp: FileStamp | None = None
        self._known: tuple[TrustedKey, ...] = ()
        self._checked: dict[bytes, bool] = {}
        """Results by hash of signature and content: verifying a signature takes longer than hashing it."""

    def trusted_keys(self) -> tuple[TrustedKey, ...]:
        """Return the trusted keys. A damaged file is an error: ignoring it would distrust every key."""
        try:
            stamp = FileStamp.from_stat(self._file.lstat())
            if stamp != self._stamp and (file := open_existing_file(self._file)) is not None:
                with file:
                    known = json.decode(file.read(_MAX_FILE_BYTES), type=_KnownKeys)
                if known.version != KEYS_VERSION:
                    raise ConfigError(f"{self._file} was written by a newer lorelog", hint="upgrade lorelog")
                self._known = tuple(replace(trusted, key=parse_public_key(trusted.key)) for trusted in known.keys)
                self._stamp = stamp
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise _unreadable_error(self._file, error) from error
        except (ValueError, RecursionError, UsageError) as error:
            raise ConfigError(
                f"{self._file} is damaged, so signatures cannot be checked",
                hint="restore a copy, or move it away and trust the keys again (lorelog identity trust)",
            ) from error
        return self._known

    def identities(self) -> list[KeyIdentity]:
        names = {writer_identity(trusted.name): trusted.name for trusted in reversed(self.trusted_keys())}
        identities = {folded: KeyIdentity(name, self.keys_of(name)) for folded, name in names.items()}
        for path in sorted(self.folder.glob("*.key")):
            public = ""
            with suppress(OSError, UnicodeDecodeError):
                public = path.with_suffix(".pub").read_text("utf-8")[:1000].strip()
            name = public.partition(" ")[2] or path.stem
            before = identities.get(writer_identity(name), KeyIdentity(name, ()))
            key = public.partition(" ")[0].rpartition(":")[2]
            identities[writer_identity(name)] = KeyIdentity(before.name, before.keys, str(path), key)
        return sorted(identities.values(), key=lambda identity: writer_identity(identity.name))

    def get(self, name: str) -> KeyIdentity:
        """Return an identity by its name. Raise NotFound."""
        known = {writer_identity(identity.name): identity for identity in self.identities()}
        if identity := known.get(writer_identity(name)):
            return identity
        raise NotFound(f"there is no identity {name!r}", hint="lorelog identity list")

    def private_path(self, name: str) -> Path:
        """Return the path of a name's private key."""
        return self.folder / f"{quote(writer_identity(name), safe='')}.key"

    def create(self, name: str, passphrase: str = "") -> KeyIdentity:
        """Create a key for a name and trust it. A passphrase encrypts the key file."""
        _check_name(name)
        require_extra("signing", "an identity with a key")
        text, public = generate_key(passphrase)
        key = encode_base64url(public)
        path = self.private_path(name)
        with self._exclusive():
            if path.exists() or self.keys_of(name):
                raise UsageError(
                    f"the identity {name!r} exists already",
                    hint="see 'lorelog identity show NAME'; use another name for another writer",
                )
            write_atomic(path, text, exclusive=True)
            write_atomic(path.with_suffix(".pub"), format_public_line(name, key).encode() + b"\n")
            self._write_known([*self.trusted_keys(), TrustedKey(name, key, utc_time("seconds"))])
        return self.get(name)

    def read_private_key(self, name: str) -> bytes:
        """Return the content of a private key file. Raise ConfigError if it is missing or readable by others."""
        path = self.private_path(name)
        try:
            file = open_existing_file(path)
        except OSError as error:
            raise _unreadable_error(path, error) from error
        if file is None:
            raise ConfigError(
                f"the identity {name!r} has no private key",
                hint="'lorelog identity create' makes one; records.identity selects it",
            )
        with file:
            status = os.fstat(file.fileno())
            if status.st_mode & 0o077 or status.st_uid != os.geteuid():
                raise ConfigError(f"{path} is readable by others", hint=f"chmod 600 {path}, if nobody has copied it")
            return file.read(_MAX_FILE_BYTES)

    def trust(self, name: str, text: str, *, also: bool = False) -> TrustedKey:
        """Trust a public key under a name. `also` keeps the keys the name has: a second machine, or a new key."""
        _check_name(name)
        key = parse_public_key(text)
        with self._exclusive():
            before = self.trusted_keys()
            for trusted in before:
                if trusted.key == key and writer_identity(trusted.name) == writer_identity(name):
                    return trusted
                if trusted.key == key:
                    raise UsageError(
                        f"this is the key of {trusted.name!r}",
                        hint="a key belongs to one writer; ask the other writer for theirs",
                    )
            if not also and self.keys_of(name):
                raise UsageError(
                    f"another key is trusted as {name!r}",
                    hint="if that is right, --also keeps both, and 'lorelog identity forget' removes them",
                )
            added = TrustedKey(name, key, utc_time("seconds"))
            self._write_known([*before, added])
        return added

    def forget(self, name: str) -> tuple[TrustedKey, ...]:
        with self._exclusive():
            removed = self.keys_of(name)
            if not removed:
                raise NotFound(f"no key is trusted as {name!r}", hint="lorelog identity list")
            self._write_known([trusted for trusted in self.trusted_keys() if trusted not in removed])
        return removed

    def keys_of(self, name: str) -> tuple[TrustedKey, ...]:
        return tuple(
            trusted for trusted in self.trusted_keys() if writer_identity(trusted.name) == writer_identity(name)
        )

    def _write_known(self, keys: Sequence[TrustedKey]) -> None:
        content = json.encode(_KnownKeys(KEYS_VERSION, tuple(keys)))
        write_atomic(self._file, json.format(content, indent=1) + b"\n")
        self._stamp = None

    def sign(self, draft: RecordDraft) -> RecordDraft:
        """Return the draft signed as `name`, with id and time set; unchanged if no name is configured."""
        if not self.name:
            return draft
        if writer_identity(draft.agent) != writer_identity(self.name):
            raise UsageError(
                f"{draft.agent!r} cannot sign as the identity {self.name!r}",
                hint="write as that identity, or select another one (records.identity; empty signs nothing)",
            )
        draft = replace(draft, id=draft.id or new_id(), at=draft.at or utc_time(), signature="")
        try:
            payload = signed_bytes(draft)
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(
                f"this {draft.kind} cannot be signed: {error}",
                hint="use UTF-8 text, finite numbers and plain JSON values",
            ) from error
        private = self._load_private_key()
        public = encode_base64url(private.public_key().public_bytes_raw())
        if not any(trusted.key == public for trusted in self.keys_of(self.name)):
            raise ConfigError(
                f"the key of {self.name!r} is not trusted any more",
                hint=f"lorelog identity trust {self.name} {SCHEME}:{public}, or select another identity",
            )
        return replace(draft, signature=f"{SCHEME}:{public}:{encode_base64url(private.sign(payload))}")

    def signing_key(self, record: RecordDraft | Record) -> str:
        """Return the fingerprint of the trusted key that signed a record as its writer; empty if there is none."""
        if not record.signature:
            return ""
        try:
            state, key = self.signature_status(record)
        except (ConfigError, MissingExtra):  # neither a damaged known.json nor a missing package must fail a search
            return ""
        return key if state is SignatureState.VALID else ""

    def signature_status(self, record: RecordDraft | Record) -> tuple[SignatureState, str]:
        """Return the state of a record's signature, and the fingerprint of its key; empty if there is none."""
        if not record.signature:
            return SignatureState.NONE, ""
        scheme, _, rest = record.signature.partition(":")
        key, _, signature = rest.partition(":")
        raw, proof = decode_base64url(key), decode_base64url(signature)
        if scheme != SCHEME or not raw or not proof or (len(raw), len(proof)) != (_PUBLIC_KEY_BYTES, _SIGNATURE_BYTES):
            return SignatureState.BROKEN, ""
        names = [trusted.name for trusted in self.trusted_keys() if trusted.key == key]
        if not self._signature_fits(record, raw, proof):
            state = SignatureState.BROKEN
        elif not names:
            state = SignatureState.UNKNOWN_KEY
        elif writer_identity(record.agent) not in map(writer_identity, names):
            state = SignatureState.WRONG_NAME
        else:
            state = SignatureState.VALID
        return state, fingerprint(key)

    def _signature_fits(self, record: RecordDraft | Record, key: bytes, proof: bytes) -> bool:
        try:
            payload = signed_bytes(record)
        except (TypeError, ValueError, RecursionError):
            return False
        digest = hashlib.sha256(key + proof + payload).digest()
        if digest not in self._checked:
            require_extra("signing", "the check of a signature")
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

            if len(self._checked) >= _MAX_CACHED_CHECKS:
                self._checked.clear()
            try:
                Ed25519PublicKey.from_public_bytes(key).verify(proof, payload)
                self._checked[digest] = True
            except (InvalidSignature, ValueError):
                self._checked[digest] = False
        return self._checked[digest]

    def _load_private_key(self) -> Ed25519PrivateKey:
        """Return the private key. Error messages contain neither the key nor the passphrase."""
        if self._private_key is not None:
            return self._private_key
        require_extra("signing", "a signature")
        text = self.read_private_key(self.name)
        is_encrypted = text.startswith(_ENCRYPTED_PREFIX)
        if is_encrypted and not self._passphrase:
            raise ConfigError(
                f"the key of {self.name!r} needs its passphrase",
                hint=f"set the environment variable {PASSPHRASE_VARIABLE}",
            )
        try:
            private = load_private_key(text, self._passphrase)
        except ValueError:
            wrong = f"the passphrase in {PASSPHRASE_VARIABLE} does not decrypt it"
            why = wrong if is_encrypted else "its file is not a private key"
            raise ConfigError(
                f"the key of {self.name!r} cannot be used: {why}", hint="'lorelog identity show' prints its path"
            ) from None
        self._private_key = private
        return private

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Create the folder, and lock it against changes by other processes."""
        with Writing(self.folder, hint="nothing was changed", names_file=True):
            self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self.folder.chmod(0o700)
            with FileLock(self.folder / ".lock"):
                yield


def _check_name(name: str) -> None:
    if not writer_identity(name) or len(name) > _MAX_NAME_CHARS or not name.isprintable() or name != name.strip():
        raise UsageError(
            f"{name[:_MAX_NAME_CHARS]!r} is not a valid name of an identity",
            hint=f"use an agent's id: one line of at most {_MAX_NAME_CHARS} characters",
        )


def _unreadable_error(path: Path, error: OSError) -> ConfigError:
    return ConfigError(f"{path} cannot be read: {error.strerror or error}", hint="make it a file that you can read")


class LedgerCheck(Struct, frozen=True):
    """Result of checking a ledger: its hash chain and its signatures."""

    chain: LedgerVerification
    states: Counter[SignatureState]
    """Number of signatures by state; unsigned records are not counted."""
    unproven: tuple[UnprovenSignature, ...]
    """The first signatures that prove nothing."""

    @property
    def ok(self) -> bool:
        """Whether every line is unchanged and no signature is false. A signature with an unknown key is not false."""
        return self.chain.ok and not (self.states[SignatureState.BROKEN] or self.states[SignatureState.WRONG_NAME])


def check_ledger(store: RecordStore, keyring: Keyring, limit: int) -> LedgerCheck:
    """Check the hash chain and then the signatures, reading the ledger twice."""
    with suppress(StoreError):  # a redaction that cannot be completed now is a fault
        store.ledger.complete_redactions()
    chain = store.ledger.verify()
    states: Counter[SignatureState] = Counter()
    unproven: list[UnprovenSignature] = []
    for record in store.ledger.read():
        if not record.signature:
            continue
        state, key = keyring.signature_status(record)
        states[state] += 1
        if state is not SignatureState.VALID and len(unproven) < limit:
            name = state.name.lower().replace("_", " ")
            unproven.append(UnprovenSignature(record.id, record.agent, name, state, key))
    return LedgerCheck(chain, states, tuple(unproven))


_ENCRYPTED_PREFIX = b"lorelog scrypt v1 "
"""Followed by the salt in hexadecimal, and on the next line by the key."""
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
        header = _ENCRYPTED_PREFIX + salt.hex().encode() + b"\n"
        encryption = serialization.BestAvailableEncryption(_derive_passphrase(passphrase, salt))
    text = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    return header + text, private.public_key().public_bytes_raw()


def load_private_key(text: bytes, passphrase: str) -> Ed25519PrivateKey:
    """Return the private key of a file. Raise ValueError if it is not one, or for a wrong passphrase."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    secret = None
    if text.startswith(_ENCRYPTED_PREFIX):
        header, _, text = text.partition(b"\n")
        secret = _derive_passphrase(passphrase, bytes.fromhex(header[len(_ENCRYPTED_PREFIX) :].decode()))
    try:
        private = load_pem_private_key(text, secret)
    except (TypeError, UnsupportedAlgorithm):
        raise ValueError("not a private key") from None
    if not isinstance(private, Ed25519PrivateKey):
        raise ValueError("not an Ed25519 key")  # noqa: TRY004  (callers handle one kind of error)
    return private


_ORDER = 2**252 + 27742317777372353535851937790883648493
_CURVE = -121665 * pow(121666, -1, _PRIME) % _PRIME
_CurvePoint = tuple[int, int, int, int]
_BASE_X, _BASE_Y = 15112221349535400772501151409588531511454012693041857206046113283949847762202, 4 * pow(5, -1, _PRIME)
_BASE = (_BASE_X, _BASE_Y % _PRIME, 1, _BASE_X * _BASE_Y % _PRIME)


def sign_bytes(seed: bytes, message: bytes) -> tuple[str, str]:
    """Return the public key of a seed of 32 bytes, and its Ed25519 signature of a message (RFC 8032), in base64url.

    Plain Python, so that machines of one user can sign what they exchange without the extra `signing`. It takes some milliseconds, and its time
    depends on the key: use it where nobody can measure it, as in a sync.
    """
    digest = hashlib.sha512(seed).digest()
    scalar = int.from_bytes(digest[:32], "little") & ((1 << 254) - 8) | 1 << 254
    public = _compress(_multiply(scalar, _BASE))
    nonce = _hash_to_int(digest[32:], message)
    point = _compress(_multiply(nonce, _BASE))
    proof = (nonce + _hash_to_int(point, public, message) * scalar) % _ORDER
    return encode_base64url(public), encode_base64url(point + proof.to_bytes(32, "little"))


def verify_bytes(key: str, message: bytes, signature: str) -> bool:
    """Return True if a signature is that of this public key and message, and the key is not weak."""
    try:
        raw = decode_base64url(parse_public_key(key)) or b""
    except UsageError:
        return False
    public, proof = _decompress(raw), decode_base64url(signature) or b""
    factor = int.from_bytes(proof[32:], "little")
    if public is None or len(proof) != _SIGNATURE_BYTES or factor >= _ORDER:
        return False
    x, y, z, t = public
    back = _multiply(_hash_to_int(proof[:32], raw, message), (-x % _PRIME, y, z, -t % _PRIME))
    return _compress(_add_points(_multiply(factor, _BASE), back)) == proof[:32]


def _hash_to_int(*parts: bytes) -> int:
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % _ORDER


def _add_points(one: _CurvePoint, other: _CurvePoint) -> _CurvePoint:
    a, b = (one[1] - one[0]) * (other[1] - other[0]), (one[1] + one[0]) * (other[1] + other[0])
    c, d = 2 * one[3] * other[3] * _CURVE, 2 * one[2] * other[2]
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _PRIME, g * h % _PRIME, f * g % _PRIME, e * h % _PRIME


def _multiply(scalar: int, point: _CurvePoint) -> _CurvePoint:
    result = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            result = _add_points(result, point)
        point, scalar = _add_points(point, point), scalar >> 1
    return result


def _compress(point: _CurvePoint) -> bytes:
    inverse = pow(point[2], -1, _PRIME)
    x, y = point[0] * inverse % _PRIME, point[1] * inverse % _PRIME
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _decompress(raw: bytes) -> _CurvePoint | None:
    """Return the point with this encoding; None if there is none."""
    sign, y = divmod(int.from_bytes(raw, "little"), 1 << 255)
    square = (y * y - 1) * pow(_CURVE * y * y + 1, -1, _PRIME) % _PRIME
    x = pow(square, (_PRIME + 3) // 8, _PRIME)
    if (x * x - square) % _PRIME:
        x = x * pow(2, (_PRIME - 1) // 4, _PRIME) % _PRIME
    if y >= _PRIME or (x * x - square) % _PRIME or (x == 0 and sign):
        return None
    x = _PRIME - x if x & 1 != sign else x
    return x, y, 1, x * y % _PRIME


def _derive_passphrase(passphrase: str, salt: bytes) -> bytes:
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    key = Scrypt(salt, 32, _SCRYPT_COST, _SCRYPT_BLOCK_SIZE, _SCRYPT_PARALLELISM).derive(
        passphrase.encode("utf-8", "surrogateescape")
    )
    return key.hex().encode()
