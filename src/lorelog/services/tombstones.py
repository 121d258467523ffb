"""Which memories are deleted, though their text still stands in a file.

Files are a person's, and are not edited behind their back; the index is derived, and must not be the only one to know.
So deleting appends one line to a small file beside the index, flushed to disk, and whoever cuts a file into chunks
leaves out what is named there (`hiding` says how). A reset or a rebuilt index forgets no deletion. A tombstone holds ids
and a hash, never text.

Appended, never rewritten (`appended` says how): the last line about a memory holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lorelog.core.document import short_hash
from lorelog.services.appended import Appended


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
        self._file = Appended(path, _read_stone)
        self._lines: tuple[Tombstone, ...] = ()
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
        self._file.append(asdict(stone) for stone in stones)

    def _read(self) -> dict[str, Tombstone]:
        stones = self._file.lines()
        if stones is not self._lines:
            holding: dict[str, Tombstone] = {}
            for stone in stones:
                holding.pop(stone.key, None)
                if stone.deleted:
                    holding[stone.key] = stone
            self._lines, self._holding = stones, holding
            self._generation = short_hash(repr(list(stones))) if stones else ""
        return self._holding


def _read_stone(entry: Any) -> Tombstone:
    return Tombstone(
        key=str(entry["key"]),
        memory=str(entry["memory"]),
        source=str(entry["source"]),
        ids=tuple(map(str, entry["ids"])),
        at=str(entry["at"]),
        deleted=bool(entry["deleted"]),
    )
