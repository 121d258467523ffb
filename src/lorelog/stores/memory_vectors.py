"""The vectors of the reference store: those it serves, those made beside them, and those it served before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lorelog.core.errors import NotFound, UsageError
from lorelog.core.ports import Vector


@dataclass(slots=True)
class Shelves:
    """Vectors by `Chunk.vector_key`."""

    served: dict[str, Vector] = field(default_factory=dict)
    beside: dict[str, Vector] | None = None
    """None while none are being made."""
    before: dict[str, Vector] | None = None
    """None while there was no swap to go back from."""
    declined: bool = False

    def begin(self, dimension: int) -> None:
        """Begin to make vectors beside, or go on with what was begun with this dimension (0 is any)."""
        begun = self.beside or {}
        fits = not dimension or all(len(one) == 4 * dimension for one in begun.values())
        self.beside = begun if fits else {}
        self.declined = False

    def begun(self) -> dict[str, Vector]:
        """Return the vectors beside."""
        if self.beside is None:
            raise UsageError("no vectors are being made beside those of the index", hint="lorelog index --reembed")
        return self.beside

    def put_beside(self, vectors: Mapping[str, Vector]) -> None:
        """Store vectors beside; those that are there stay."""
        self.beside = {**vectors, **self.begun()}

    def swap(self) -> None:
        """Serve the vectors beside."""
        self.before, self.served = self.served, self.begun()
        self.beside, self.declined = None, False

    def decline(self) -> None:
        """Note that the vectors beside are not to be served."""
        self.begun()
        self.declined = True

    def roll_back(self) -> None:
        """Serve what was served before the last swap."""
        if self.before is None:
            raise NotFound("there are no vectors to go back to", hint="none were put aside, or they were forgotten")
        self.before, self.served = self.served, self.before
        self.declined = True

    def others(self) -> int:
        """Return how many vectors are kept that are not served."""
        return len(self.beside or ()) + len(self.before or ())

    def forget_others(self) -> int:
        """Drop all vectors but those served; return how many."""
        dropped = self.others()
        self.beside, self.before, self.declined = None, None, False
        return dropped
