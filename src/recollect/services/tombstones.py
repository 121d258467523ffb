"""Which memories are deleted, though their text still stands in a file.

Files are a person's, and are not edited behind their back; the index is derived, and must not be the only one to know.
So deleting appends one line to a small file beside the index, flushed to disk, and whoever cuts a file into chunks
leaves out what is named there (`hiding` says how). A reset or a rebuilt index forgets no deletion. A tombstone holds ids
and a hash, never text.

Appended, never rewritten: the last line about a memory holds. A torn last line, which a power cut may leave, is passed
over; any other line that cannot be read is an error, because a deletion that is passed over would show what should be
gone.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from recollect.core.document import short_hash
from recollect.core.errors import StoreDamaged, StoreError, StoreUnwritable


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What is deleted: a memory by its own id, or a section by what it says and where in its project."""

    key: str
    """What it is about, as `hiding` makes it of a chunk: a hash."""
    memory: str
    """The memory's own id; empty for a section without one."""
    source: str
    """The file it was deleted in. It may stand in others too."""
    ids: tuple[str, ...]
    """The ids its chunks had, so that asking for one of them can be answered."""
    at: str
    """ISO time."""
    deleted: bool = True
    """False on a line that takes an earlier one back."""

    @property
    def name(self) -> str:
        """An id to ask for it by."""
        return self.memory or next(iter(self.ids), self.key)


class Tombstones:
    """The deletions of one tenant, from one file that others append to: it is read again whenever it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._holding: dict[str, Tombstone] = {}
        self._generation = ""

    def keys(self) -> frozenset[str]:
        """Return the keys of what is deleted now."""
        return frozenset(self._read())

    def generation(self) -> str:
        """Return a token that every deletion and restoration changes, to one that never was; empty before the first."""
        self._read()
        return self._generation

    def find(self, identity: str) -> list[Tombstone]:
        """Return deletions of which an id, or the memory's id, is this one; where there are none, those that start so."""
        known = self._read().values()
        exact = [one for one in known if identity in (one.memory, *one.ids)] if identity else []
        return exact or [one for one in known if any(name.startswith(identity) for name in (one.memory, *one.ids))]

    def all(self) -> Iterable[Tombstone]:
        """Return what is deleted now."""
        return self._read().values()

    def append(self, stones: Iterable[Tombstone]) -> None:
        """Write deletions down; they hold when this returns."""
        text = "".join(json.dumps(asdict(stone), ensure_ascii=False) + "\n" for stone in stones)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                _append(descriptor, text.encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StoreUnwritable(
                f"{self._path} cannot be written: {error.strerror}", hint="nothing was changed; make it writable"
            ) from error
        self._seen = None

    def _read(self) -> dict[str, Tombstone]:
        seen = self._stamp()
        if seen != self._seen:
            holding: dict[str, Tombstone] = {}
            stones = self._lines()
            for stone in stones:
                holding.pop(stone.key, None)
                if stone.deleted:
                    holding[stone.key] = stone
            # Asked before it was read: what is appended in between is another stamp the next time.
            self._holding, self._seen = holding, seen
            self._generation = short_hash(repr(stones)) if stones else ""
        return self._holding

    def _stamp(self) -> tuple[int, int, int]:
        try:
            status = self._path.stat()
        except OSError:  # none yet, or none that can be read, which reading says
            return (-1, 0, 0)
        return (status.st_size, status.st_mtime_ns, status.st_ino)

    def _lines(self) -> list[Tombstone]:
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"{self._path} cannot be read: {error.strerror}", hint="check its permissions") from error
        try:
            return [_read_stone(line) for line in lines[:-1] if line]  # what is after the last line break is torn
        except (ValueError, KeyError, TypeError) as error:
            raise StoreDamaged(
                f"{self._path} has a line that cannot be read: {error}",
                hint="correct or delete that line; each line is one JSON object",
            ) from error


def _append(descriptor: int, text: bytes) -> None:
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":  # a torn line must not swallow the next one
        while size and os.pread(descriptor, 1, size - 1) != b"\n":
            size -= 1
        os.ftruncate(descriptor, size)
    try:
        written = 0
        while written < len(text):
            written += os.write(descriptor, text[written:])
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def _read_stone(line: bytes) -> Tombstone:
    entry = json.loads(line)
    return Tombstone(
        key=str(entry["key"]),
        memory=str(entry["memory"]),
        source=str(entry["source"]),
        ids=tuple(map(str, entry["ids"])),
        at=str(entry["at"]),
        deleted=bool(entry["deleted"]),
    )
