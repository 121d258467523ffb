"""Search files for residues of forgotten text, without keeping the text.

Canaries are keyed digests of short fragments of the text, in every form in which a file may hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Canaries:
    """Digests of fragments of forgotten texts. `to_json` contains neither the texts nor the key."""

    key: bytes = field(repr=False)
    """Secret: without it nothing can be guessed from the digests."""

    def to_json(self) -> dict[str, Any]:
        """Return the digests as JSON, without the key and without short texts."""
        raise NotImplementedError

    @classmethod
    def from_json(cls, values: dict[str, Any], key: bytes) -> Canaries:
        """Return the canaries of a receipt."""
        raise NotImplementedError


def make_canaries(texts: Sequence[str], vector_keys: Sequence[str] = (), *, kept: Iterable[str] = ()) -> Canaries:
    """Return the canaries of texts and of the content keys of their vectors.

    `kept` are texts that stay: a fragment that is also in one of them proves nothing and is left out.
    """
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Residue:
    """Forgotten text that a file still holds."""

    path: str
    form: str
    """How the file holds it: `bytes`, `sqlite row`, `gzip`, `tantivy term`, `vector key`, …"""
    count: int


@dataclass(frozen=True, slots=True)
class ResidueReport:
    """Result of a search for residues."""

    files: int
    bytes: int
    residues: tuple[Residue, ...] = ()
    unreadable: tuple[str, ...] = ()
    """Files that could not be read, each with the reason."""

    @property
    def ok(self) -> bool:
        """True if everything was read and nothing was found."""
        return not self.residues and not self.unreadable


def _search_every_file(path: Path) -> bool:
    return True


def find_residues(
    canaries: Canaries, places: Sequence[Path], *, keep: Callable[[Path], bool] = _search_every_file
) -> ResidueReport:
    """Search every file below the places. `keep(path)` is True for the files to search."""
    raise NotImplementedError
