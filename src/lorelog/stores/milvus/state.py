"""How far the rows in Milvus have followed the catalog, and whose they are: small files beside the catalog."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from lorelog.stores.embedded import log


@dataclass(frozen=True, slots=True)
class MilvusState:
    """Where the rows of one model stand, and how far they have followed the log."""

    format: int
    place: str
    """The address, as a hash: it may be nobody's business."""
    space: str
    analyser: str
    dimension: int
    """Of the vectors; 0 while there are none."""
    mark: str
    """What a row in each of the collections bears: one that bears another is not the one that was written."""
    applied: int
    per_project: bool = True
    through: int = -1
    """While rows are pushed anew, the last one that is there; -1 when all are. Such a state stands in a file of its own, and
    searches go by the one before it."""
    written_at: float = 0.0
    collections: Mapping[str, str] = field(default_factory=dict)
    """By project."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What all machines call each of the projects, as its rows say; empty where only this one knows it."""
    registry: str = ""
    """Where it is said what is shared; empty while nothing is."""
    told: Mapping[str, int] = field(default_factory=dict)
    """How much was said there: pages, pages of words, chunks at the time."""


@dataclass(frozen=True, slots=True)
class Home:
    """What is known of an index beyond its catalog: it outlives a reset, so that what it left behind is still its own."""

    id: str
    left: list[str] = field(default_factory=list)
    """Collections in which rows of this index were left, when they could not be deleted."""


class Places:
    """The files: one for the index, one for each address and model."""

    def __init__(self, folder: Path, uri: str) -> None:
        self._folder = folder
        self._uri = uri

    def home(self) -> Home | None:
        """Return what is known of the index."""
        return log.read_state(self._folder / "home.json", Home)

    def found_home(self) -> Home:
        """Return what is known of the index, which gets its name with its first write."""
        known = self.home()
        if known is None:
            known = Home(os.urandom(8).hex())
            self.keep_home(known)
        return known

    def keep_home(self, home: Home) -> None:
        """Write what is known of the index."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        log.write_state(self._folder / "home.json", home)

    def file(self, space: str) -> Path:
        """Return the file of a model's rows."""
        name = hashlib.sha256(f"{self._uri}\n{space}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return self._folder / name / "current.json"

    def unfinished(self, space: str) -> Path:
        """Return the file of a model's rows that are being pushed anew."""
        return self.file(space).with_name("pushing.json")

    def place(self) -> str:
        """Return the address as it is written down."""
        return hashlib.sha256(self._uri.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def others(self, space: str) -> Iterator[tuple[Path, MilvusState]]:
        """Yield what other models have left at this address."""
        for path in sorted(self._folder.glob("*/current.json")):
            state = log.read_state(path, MilvusState)
            if state is not None and state.place == self.place() and path != self.file(space):
                yield path, state

    def drop(self, path: Path) -> None:
        """Delete the file of a model's rows."""
        with suppress(OSError):
            path.with_name("pushing.json").unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            path.parent.rmdir()
