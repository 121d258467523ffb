"""The dense lane: one memory-mapped float32 matrix per model, and beside it the row of each line.

Vectors live in the catalog; this copy exists to be scanned. It only ever grows at its end, and how much of it counts is
in the state file, so a crash while appending leaves bytes that nobody reads. A removed chunk's row is set to 0
in place. When more than a quarter is dead the matrix is written anew and swapped.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recollect.core.errors import ModelFault, StoreError
from recollect.core.ports import Vector
from recollect.core.query import Candidate
from recollect.stores.embedded import log
from recollect.stores.embedded.faults import translating

if TYPE_CHECKING:
    import numpy as np

_FORMAT = 1
_DEAD_SHARE = 0.25
_ROWS_A_READ = 500


@dataclass(frozen=True, slots=True)
class DenseState:
    """Which files are current, how many lines of them count, and how far they have followed the log."""

    format: int
    space: str
    name: str
    dimension: int
    count: int
    dead: int
    applied: int


class DenseLane:
    """The lane of one index folder under one model."""

    def __init__(self, home: Path, space: str) -> None:
        self._home = home / hashlib.sha256(space.encode()).hexdigest()[:16]
        self._space = space
        self._state_path = self._home / "current.json"
        self._open: tuple[DenseState, np.ndarray[Any, Any], np.ndarray[Any, Any]] | None = None

    def close(self) -> None:
        """Let go of the maps. May be called twice."""
        self._open = None

    def forget(self) -> None:
        """Have the lane built anew when it next follows."""
        self.close()
        self._state_path.unlink(missing_ok=True)

    def applied(self, database: sqlite3.Connection) -> int | None:
        """Return how far the lane has followed, or None when it must be built anew."""
        state = self._state()
        if state is None or not log.follows(database, state.applied):
            return None
        vectors, rows = self._files(state.name)
        try:
            whole = vectors.stat().st_size >= state.count * state.dimension * 4
            whole = whole and rows.stat().st_size >= state.count * 8
        except OSError:
            return None
        return state.applied if whole else None

    def search(self, vector: Vector, allowed: Sequence[int] | None, limit: int) -> list[Candidate]:
        """Return rows by cosine, best first; only `allowed` ones unless it is None."""
        opened = self._reader(vector)
        if opened is None or limit < 1:
            return []
        import numpy as np

        matrix, rows = opened
        keep = rows != 0
        if allowed is not None:
            keep &= np.isin(rows, np.fromiter(allowed, dtype=np.int64, count=len(allowed)))
        places = np.flatnonzero(keep)
        if not len(places):
            return []
        question = np.frombuffer(vector, dtype="<f4")
        # Scoring everything and then selecting is faster than gathering, until little is left to score.
        few = len(places) * 8 < len(rows)
        scores = matrix[places] @ question if few else (matrix @ question)[places]
        count = min(limit, len(places))
        best = np.argpartition(-scores, count - 1)[:count]
        best = best[np.lexsort((places[best], -scores[best]))]
        return [Candidate(int(rows[places[one]]), float(scores[one])) for one in best]

    def similarities(self, vector: Vector, wanted: Sequence[int]) -> dict[int, float]:
        """Return the cosine of each wanted row that has a vector."""
        opened = self._reader(vector)
        if opened is None or not wanted:
            return {}
        import numpy as np

        matrix, rows = opened
        places = np.flatnonzero(np.isin(rows, np.fromiter(wanted, dtype=np.int64, count=len(wanted))))
        scores = matrix[places] @ np.frombuffer(vector, dtype="<f4")
        return {int(rows[place]): float(score) for place, score in zip(places, scores, strict=True)}

    def catch_up(self, database: sqlite3.Connection) -> int | None:
        """Apply what the log says, or build the lane anew; return how far it has followed, None if there is no lane."""
        space = database.execute("SELECT id, dimension FROM spaces WHERE name = ?", (self._space,)).fetchone()
        if space is None:
            return None
        applied = self.applied(database)
        state = self._state()
        if applied is None or state is None or state.dimension != space[1]:
            return self._rebuild(database, *space)
        changes = log.changes_after(database, applied)
        if changes.head == applied:
            return applied
        with translating(self._home):
            dead = self._bury(state, changes.removed)
            if dead > _DEAD_SHARE * max(state.count, 1000):
                return self._rebuild(database, *space)
            wanted = changes.added + changes.embedded
            count = self._append(state.name, state.count, self._vectors(database, space[0], wanted))
            self._save(state.name, state.dimension, count, dead, changes.head)
        return changes.head

    def _rebuild(self, database: sqlite3.Connection, space: int, dimension: int) -> int:
        last = log.head(database)
        name = os.urandom(4).hex()
        rows = [row for (row,) in database.execute("SELECT row FROM chunks WHERE embedded ORDER BY row")]
        with translating(self._home):
            self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                count = self._append(name, 0, self._vectors(database, space, rows))
                self._save(name, dimension, count, 0, last)
            except BaseException:
                for file in self._files(name):
                    file.unlink(missing_ok=True)
                raise
            for old in [*self._home.glob("*.f32"), *self._home.glob("*.rows")]:
                if old.stem != name:
                    old.unlink(missing_ok=True)
        return last

    def _save(self, name: str, dimension: int, count: int, dead: int, applied: int) -> None:
        log.write_state(self._state_path, DenseState(_FORMAT, self._space, name, dimension, count, dead, applied))

    def _bury(self, state: DenseState, removed: Sequence[int]) -> int:
        """Set removed rows to 0 and return how many lines are dead. A reader sees each row whole: 8 aligned bytes."""
        if not removed or not state.count:
            return state.dead
        import numpy as np

        rows = np.memmap(self._files(state.name)[1], dtype="<i8", mode="r+", shape=(state.count,))
        rows[np.isin(rows, np.fromiter(removed, dtype=np.int64, count=len(removed)))] = 0
        rows.flush()
        return int((rows == 0).sum())

    def _append(self, name: str, count: int, found: Iterator[tuple[int, Vector]]) -> int:
        vectors, rows = self._files(name)
        with (
            os.fdopen(os.open(vectors, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as matrix,
            os.fdopen(os.open(rows, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as labels,
        ):
            labels.seek(count * 8)
            labels.truncate()
            first = True
            for row, vector in found:
                if first:
                    matrix.seek(count * len(vector))
                    matrix.truncate()
                    first = False
                matrix.write(vector)
                labels.write(row.to_bytes(8, "little"))
                count += 1
            for file in (matrix, labels):
                file.flush()
                os.fsync(file.fileno())
        return count

    def _vectors(self, database: sqlite3.Connection, space: int, rows: Sequence[int]) -> Iterator[tuple[int, Vector]]:
        for start in range(0, len(rows), _ROWS_A_READ):
            part = rows[start : start + _ROWS_A_READ]
            marks = ", ".join("?" * len(part))
            # CROSS keeps this order: SQLite would rather walk all vectors of the space for every slice of rows.
            yield from database.execute(
                "SELECT c.row, v.vector FROM chunks c CROSS JOIN vectors v ON v.space = ? AND v.key = c.vector_key "
                f"WHERE c.row IN ({marks}) ORDER BY c.row",
                (space, *part),
            ).fetchall()

    def _reader(self, vector: Vector) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
        opened = self._open_files()
        if opened is not None and len(vector) != opened[0].shape[1] * 4:
            raise ModelFault(
                f"the query's vector has {len(vector) // 4} dimensions, the index has {opened[0].shape[1]} ({self._space})",
                hint="the model changed under its name: 'recollect reset --yes' and 'recollect index' embed everything anew",
            )
        return opened

    def _open_files(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
        state = self._state()
        if state is None or not state.count:
            return None
        if self._open is None or self._open[0] != state:
            import numpy as np

            vectors, rows = self._files(state.name)
            try:
                with translating(self._home):
                    matrix = np.memmap(vectors, dtype="<f4", mode="r", shape=(state.count, state.dimension))
                    labels = np.memmap(rows, dtype="<i8", mode="r", shape=(state.count,))
            except (StoreError, ValueError):
                if self._state() == state:
                    raise
                return self._open_files()  # the lane was built anew and swapped while we looked
            # Plain arrays over the same pages: numpy's memmap subclass costs on every operation.
            self._open = (state, np.asarray(matrix), np.asarray(labels))
        return self._open[1], self._open[2]

    def _state(self) -> DenseState | None:
        state = log.read_state(self._state_path, DenseState)
        return state if state is not None and state.format == _FORMAT and state.space == self._space else None

    def _files(self, name: str) -> tuple[Path, Path]:
        return self._home / f"{name}.f32", self._home / f"{name}.rows"
