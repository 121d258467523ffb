"""What a store with a catalog asks of its lanes, whoever keeps them: files beside the catalog, or a server far away."""

from __future__ import annotations

import sqlite3
from typing import Protocol


class FollowingLane(Protocol):
    """A lane that follows the catalog's change log by sequence number. Applying the same changes twice gives the same lane."""

    def applied(self, database: sqlite3.Connection) -> int | None:
        """Return how far the lane has followed, or None when it must be built anew."""
        ...

    def catch_up(self, database: sqlite3.Connection) -> int | None:
        """Apply what the log says, or build the lane anew; return how far it has followed, None if there is no lane."""
        ...

    def forget(self) -> None:
        """Have the lane built anew when it next follows."""
        ...

    def forget_others(self) -> None:
        """Drop what is kept for vectors that the index does not serve."""
        ...

    def revision(self) -> str:
        """Return what tells this state of the lane from every other."""
        ...

    def close(self) -> None:
        """Let go of what is open. May be called twice."""
        ...
