"""The files of a home's identities: private keys of its own, and which public keys are known under which names.

`known.json` decides whose signatures count. It is a person's to change, by `lorelog identity`; forgetting a name there makes
every signature under it count no longer, and touches no record and no key.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from lorelog.core.errors import ConfigError, NotFound, StoreUnwritable, UsageError
from lorelog.records.trust import identity

SCHEME = "ed25519"
VERSION = 1
_BYTES = 32
_MOST_NAME = 100
_MOST_FILE = 1_000_000
_UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_PRIME = 2**255 - 19
_WEAK = frozenset(
    {
        0,
        1,
        _PRIME - 1,
        0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7,
        0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
    }
)
"""Points under which anyone can make signatures that hold: they are nobody's keys."""


@dataclass(frozen=True, slots=True)
class Known:
    """A public key that counts under a name."""

    name: str
    key: str
    """The public key as it is written: base64url without padding."""
    since: str = ""

    @property
    def fingerprint(self) -> str:
        """What people compare, and what tells two writers apart."""
        return fingerprint(self.key)


@dataclass(frozen=True, slots=True)
class Identity:
    """A name with its keys, as a person sees it."""

    name: str
    keys: tuple[Known, ...]
    """Those that count; none when it was forgotten."""
    path: str = ""
    """Where its private key lies; empty for somebody else's."""
    public: str = ""
    """The public key of that private key."""


def read_key(text: str) -> str:
    """Return a public key as it is written, from `ed25519:…` or a whole public line. Raise UsageError for anything else."""
    word = (text.split() or [""])[0]
    scheme, _, key = word.rpartition(":")
    raw = decoded(key)
    if scheme not in {"", SCHEME} or raw is None or len(raw) != _BYTES:
        raise UsageError(
            "that is no public key", hint="'lorelog identity export NAME' prints one: ed25519:… with 43 characters"
        )
    height = int.from_bytes(raw, "little") & ~(1 << 255)
    if height >= _PRIME or height in _WEAK:
        raise UsageError("that is nobody's public key: anyone could sign under it", hint="ask for another one")
    return key


def encoded(raw: bytes) -> str:
    """Return bytes as text: base64url without padding."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decoded(text: str) -> bytes | None:
    """Return the bytes of a text, None when it is not exactly how they are written."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if encoded(raw) == text else None


def fingerprint(key: str) -> str:
    """Return a public key's fingerprint."""
    return hashlib.sha256(decoded(key) or b"").hexdigest()[:32]


def public_line(name: str, key: str) -> str:
    """Return what one gives to others."""
    return f"{SCHEME}:{key} {name}"


class KeyFolder:
    """The folder that a home keeps identities in. Reading makes nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / "known.json"
        self._stamp: tuple[int, int, int] | None = None
        self._known: tuple[Known, ...] = ()

    def known(self) -> tuple[Known, ...]:
        """Return the keys that count. A file that cannot be understood is an error: to pass over it would forget everyone."""
        try:
            status = self._file.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise _unreadable(self._file, error) from error
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        if stamp != self._stamp:
            self._known = _parse_known(self._file)
            self._stamp = stamp
        return self._known

    def identities(self) -> list[Identity]:
        """Return all identities, sorted by name."""
        found: dict[str, Identity] = {}
        for one in self.known():
            folded = identity(one.name)
            before = found.get(folded, Identity(one.name, ()))
            found[folded] = Identity(before.name, (*before.keys, one))
        for path in sorted(self.folder.glob("*.key")):
            public = self._public(path.with_suffix(".pub"))
            name = public.partition(" ")[2] or path.stem
            before = found.get(identity(name), Identity(name, ()))
            key = public.partition(" ")[0].rpartition(":")[2]
            found[identity(name)] = Identity(before.name, before.keys, str(path), key)
        return sorted(found.values(), key=lambda one: identity(one.name))

    def get(self, name: str) -> Identity:
        """Return an identity by its name. Raise NotFound where there is none."""
        for one in self.identities():
            if identity(one.name) == identity(name):
                return one
        raise NotFound(f"there is no identity {name!r}", hint="lorelog identity list")

    def private_path(self, name: str) -> Path:
        """Return where the private key of a name lies."""
        return self.folder / f"{quote(identity(name), safe='')}.key"

    def create(self, name: str, passphrase: str = "") -> Identity:
        """Make a key for a name, and have it count. It is encrypted where a passphrase is given."""
        from lorelog.services.records.keys_sealing import new_key

        _check_name(name)
        text, public = new_key(passphrase)
        key = encoded(public)
        path = self.private_path(name)
        with self._changing():
            if path.exists() or any(identity(one.name) == identity(name) for one in self.known()):
                raise UsageError(
                    f"there is an identity {name!r} already",
                    hint="lorelog identity show NAME; another name is another writer",
                )
            _write(path, text, fresh=True)
            _write(path.with_suffix(".pub"), public_line(name, key).encode() + b"\n")
            self._store([*self.known(), Known(name, key, _now())])
        return self.get(name)

    def private_text(self, name: str) -> bytes:
        """Return a private key as its file has it. Raise ConfigError where there is none, or where others could read it."""
        path = self.private_path(name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            raise ConfigError(
                f"there is no key of the identity {name!r}",
                hint="lorelog identity create makes one; records.identity names it",
            ) from None
        except OSError as error:
            raise _unreadable(path, error) from error
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077 or status.st_uid != os.geteuid():
                raise ConfigError(f"{path} could be read by others", hint=f"chmod 600 {path}, if nobody has copied it")
            return file.read(_MOST_FILE)

    def trust(self, name: str, text: str, *, also: bool = False) -> Known:
        """Have a public key count under a name. `also` beside those that the name has: a second machine, or a new key."""
        _check_name(name)
        key = read_key(text)
        with self._changing():
            before = self.known()
            for one in before:
                if one.key == key and identity(one.name) == identity(name):
                    return one
                if one.key == key:
                    raise UsageError(
                        f"that is the key of {one.name!r}",
                        hint="one key is one writer; ask for the key of the other one",
                    )
            if not also and any(identity(one.name) == identity(name) for one in before):
                raise UsageError(
                    f"another key is known as {name!r}",
                    hint="if that is right, --also keeps both, and 'lorelog identity forget' ends the old one",
                )
            added = Known(name, key, _now())
            self._store([*before, added])
        return added

    def forget(self, name: str) -> tuple[Known, ...]:
        """Have no key count under a name any more, and return those that did."""
        with self._changing():
            before = self.known()
            gone = tuple(one for one in before if identity(one.name) == identity(name))
            if not gone:
                raise NotFound(f"no key is known as {name!r}", hint="lorelog identity list")
            self._store([one for one in before if one not in gone])
        return gone

    def _public(self, path: Path) -> str:
        try:
            return path.read_text("utf-8")[:1000].strip()
        except (OSError, UnicodeDecodeError):
            return ""

    def _store(self, known: Sequence[Known]) -> None:
        values = {"version": VERSION, "keys": [asdict(one) for one in known]}
        _write(self._file, json.dumps(values, ensure_ascii=False, indent=1).encode() + b"\n")
        self._stamp = None

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Make the folder, and keep other commands from changing it at the same time."""
        try:
            self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self.folder.chmod(0o700)
            descriptor = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                yield
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StoreUnwritable(
                f"{error.filename or self.folder} cannot be written: {error.strerror}", hint="nothing was changed"
            ) from error


def _check_name(name: str) -> None:
    if not identity(name) or len(name) > _MOST_NAME or _UNSHOWN.search(name) or name != name.strip():
        raise UsageError(
            f"{name[:_MOST_NAME]!r} cannot be the name of an identity",
            hint=f"it is an agent's id: one line of at most {_MOST_NAME} characters",
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _write(path: Path, text: bytes, *, fresh: bool = False) -> None:
    """Write a file whole or not at all, for its owner alone; a fresh one takes the place of none."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        if fresh:
            os.link(beside, path)
        else:
            beside.replace(path)
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()


def _parse_known(path: Path) -> tuple[Known, ...]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            values = json.loads(file.read(_MOST_FILE))
        if values["version"] != VERSION:
            raise ConfigError(f"{path} was written by a newer lorelog", hint="upgrade lorelog")
        return tuple(
            Known(str(one["name"]), read_key(str(one["key"])), str(one.get("since", ""))) for one in values["keys"]
        )
    except OSError as error:
        raise _unreadable(path, error) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, UsageError) as error:
        raise ConfigError(
            f"{path} is damaged, so that nobody's signature can be told",
            hint="put a copy back, or move it away and trust the keys again (lorelog identity trust)",
        ) from error


def _unreadable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(f"{path} cannot be read: {error.strerror or error}", hint="make it a readable file of yours")
