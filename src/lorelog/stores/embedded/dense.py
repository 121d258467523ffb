"""The dense lane: one memory-mapped float32 matrix per model, and beside it the row and the project of each line.

Vectors live in the catalog; this copy exists to be scanned. It only ever grows at its end, and how much of it counts is
in the state file, so a crash while appending leaves bytes that nobody reads. A removed chunk's row is set to 0
in place. When more than a quarter is dead the matrix is written anew and swapped.

A small matrix is scanned whole. A large one gets codes (`codes.py`), which are made aside from lines that no longer
change, without any lock, and named in the state file when they are done. Lines that came later are scanned.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorelog.core.document import Key
from lorelog.core.errors import ModelFault, StoreError
from lorelog.core.ports import Vector
from lorelog.core.query import Candidate
from lorelog.stores.embedded import codes, codes_making, log
from lorelog.stores.embedded.faults import translating
from lorelog.stores.embedded.matrix import Admission, Matrix, open_matrix, project_mark

if TYPE_CHECKING:
    import numpy as np

EXACT_UP_TO = 32_768
"""Lines that are scanned whole: about 3 ms. Codes pay beyond that."""

_FORMAT = 2
_DEAD_SHARE = 0.25
_ROWS_A_READ = 500
_SUFFIXES = (".f32", ".rows", ".projects")


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
    codes: str = ""
    """The file of codes; empty while there is none."""
    refused: int = 0
    """How many lines there were when codes were found to be of no use for them."""


class DenseLane:
    """The lane of one index folder under one model."""

    def __init__(self, home: Path, space: str, *, exact_up_to: int = EXACT_UP_TO) -> None:
        self._home = home / hashlib.sha256(space.encode()).hexdigest()[:16]
        self._space = space
        self._exact_up_to = exact_up_to
        self._state_path = self._home / "current.json"
        self._open: tuple[DenseState, Matrix] | None = None

    def close(self) -> None:
        """Let go of the maps. May be called twice."""
        self._open = None

    def forget(self) -> None:
        """Have the lane built anew when it next follows."""
        self.close()
        self._state_path.unlink(missing_ok=True)

    def forget_others(self) -> None:
        """Drop the lanes of other vectors; whoever still reads one goes on with the files that it has open."""
        import shutil

        for other in self._home.parent.iterdir() if self._home.parent.exists() else ():
            if other != self._home:
                shutil.rmtree(other, ignore_errors=True)

    def revision(self) -> str:
        """Return what tells this state of the lane from every other."""
        return log.state_token(self._state_path)

    def applied(self, database: sqlite3.Connection) -> int | None:
        """Return how far the lane has followed, or None when it must be built anew."""
        state = self._state()
        if state is None or not log.follows(database, state.applied):
            return None
        sizes = (state.count * state.dimension * 4, state.count * 8, state.count * 8)
        try:
            files = zip(self._files(state.name), sizes, strict=True)
            whole = all(file.stat().st_size >= size for file, size in files)
        except OSError:
            return None
        return state.applied if whole else None

    # -- reading -----------------------------------------------------------------------------------------------------

    def search(self, vector: Vector, admission: Admission | None, limit: int) -> list[Candidate]:
        """Return rows by cosine, best first; only what is admitted, unless that is None."""
        matrix = self._reader(vector)
        if matrix is None or limit < 1:
            return []
        return matrix.search(_question(vector), admission, limit)

    def similarities(self, vector: Vector, wanted: Sequence[Key]) -> dict[Key, float]:
        """Return the cosine of each wanted row that has a vector."""
        matrix = self._reader(vector)
        if matrix is None or not wanted:
            return {}
        return matrix.similarities(_question(vector), wanted)

    def mapped_bytes(self) -> int:
        """Return how many bytes of files a search maps: they count as memory only while someone reads them."""
        state = self._state()
        if state is None:
            return 0
        known = self._open_codes(state)
        return state.count * (4 * state.dimension + 16) + (0 if known is None else known.mapped_bytes)

    # -- following ---------------------------------------------------------------------------------------------------

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
            dead = state.dead + self._bury(state, changes.removed)
            if dead > _DEAD_SHARE * max(state.count, 1000):
                return self._rebuild(database, *space)
            wanted = changes.added + changes.embedded
            count = self._append(state.name, state.count, self._vectors(database, space[0], wanted))
            self._save(replace(state, count=count, dead=dead, applied=changes.head))
        return changes.head

    def _rebuild(self, database: sqlite3.Connection, space: int, dimension: int) -> int:
        last = log.head(database)
        name = os.urandom(4).hex()
        # Not by their marks, which speak of the vectors that are served: these may be about to be.
        rows = [row for (row,) in database.execute("SELECT row FROM chunks ORDER BY row")]
        with translating(self._home):
            self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                count = self._append(name, 0, self._vectors(database, space, rows))
                self._save(DenseState(_FORMAT, self._space, name, dimension, count, 0, last))
            except BaseException:
                for file in self._files(name):
                    file.unlink(missing_ok=True)
                raise
            for suffix in _SUFFIXES:
                for old in self._home.glob(f"*{suffix}"):
                    if old.stem != name:
                        old.unlink(missing_ok=True)
        return last

    def _save(self, state: DenseState) -> None:
        log.write_state(self._state_path, state)

    def _bury(self, state: DenseState, removed: Sequence[int]) -> int:
        """Set removed rows to 0 and return how many there were. A reader sees each row whole: 8 aligned bytes."""
        matrix = self._open_files() if removed and state.count else None
        if matrix is None:
            return 0
        import numpy as np

        places = matrix.places_of(np.fromiter(removed, dtype=np.int64, count=len(removed)))
        if not len(places):
            return 0
        rows = np.memmap(self._files(state.name)[1], dtype="<i8", mode="r+", shape=(state.count,))
        rows[places] = 0
        rows.flush()
        return len(places)

    def _append(self, name: str, count: int, found: Iterator[tuple[int, str, Vector]]) -> int:
        paths = self._files(name)
        vectors, rows, projects = (os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") for path in paths)
        with vectors, rows, projects:
            for labels in (rows, projects):
                labels.seek(count * 8)
                labels.truncate()
            first = True
            for row, project, vector in found:
                if first:
                    vectors.seek(count * len(vector))
                    vectors.truncate()
                    first = False
                vectors.write(vector)
                rows.write(row.to_bytes(8, "little"))
                projects.write(project_mark(project))
                count += 1
            for file in (vectors, rows, projects):
                file.flush()
                os.fsync(file.fileno())
        return count

    def _vectors(
        self, database: sqlite3.Connection, space: int, rows: Sequence[int]
    ) -> Iterator[tuple[int, str, Vector]]:
        for start in range(0, len(rows), _ROWS_A_READ):
            part = rows[start : start + _ROWS_A_READ]
            marks = ", ".join("?" * len(part))
            # CROSS keeps this order: SQLite would rather walk all vectors of the space for every slice of rows.
            yield from database.execute(
                "SELECT c.row, c.project, v.vector FROM chunks c "
                "CROSS JOIN vectors v ON v.space = ? AND v.key = c.vector_key "
                f"WHERE c.row IN ({marks}) ORDER BY c.row",
                (space, *part),
            ).fetchall()

    # -- codes -------------------------------------------------------------------------------------------------------

    def wants_codes(self, *, thoroughly: bool) -> bool:
        """Say whether enough lines wait to be coded; thoroughly also looks for damage, and waits for fewer lines."""
        state = self._state()
        if state is None or state.count <= max(self._exact_up_to, 2 * state.refused):
            return False
        known = self._open_codes(state)
        if known is None or (thoroughly and not codes.is_whole(self._codes_file(state.codes))):
            return thoroughly or state.count > 2 * self._exact_up_to
        waiting = state.count - known.count
        return waiting > (self._exact_up_to // 4 if thoroughly else 2 * self._exact_up_to)

    def make_codes(self) -> DenseState | None:
        """Write codes beside the lane and return a state that names them, for `take_codes`.

        Needs no writer's lock: it reads lines that no longer change. The caller sees to it that only one makes codes.
        """
        state = self._state()
        matrix = self._open_files()
        if state is None or matrix is None or self._open is None or self._open[0] != state:
            return None
        for left in self._home.glob("*.codes"):
            if left.stem != state.codes:
                left.unlink(missing_ok=True)  # a build that was killed, or codes of an earlier matrix
        name = os.urandom(4).hex()
        path = self._codes_file(name)
        known = self._open_codes(state) if codes.is_whole(self._codes_file(state.codes)) else None
        vectors, rows = matrix.vectors, matrix.rows
        try:
            if known is not None and state.count < 2 * known.trained:
                codes_making.extend_codes(path, known, vectors, rows)
            elif not codes_making.build_codes(path, vectors, rows):
                return replace(state, codes="", refused=state.count)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return replace(state, codes=name, refused=0)

    def take_codes(self, made: DenseState) -> None:
        """Name new codes in the state file. The caller holds the writer's lock; the lane may have gone on meanwhile."""
        state = self._state()
        if state is None or state.name != made.name or state.count < made.count:
            if made.codes:
                self._codes_file(made.codes).unlink(missing_ok=True)
            return
        self._save(replace(state, codes=made.codes, refused=made.refused))
        if state.codes and state.codes != made.codes:
            self._codes_file(state.codes).unlink(missing_ok=True)

    def _open_codes(self, state: DenseState) -> codes.Codes | None:
        if not state.codes:
            return None
        return codes.open_codes(self._codes_file(state.codes), state.dimension, state.count)

    def _codes_file(self, name: str) -> Path:
        return self._home / f"{name or 'none'}.codes"

    # -- files -------------------------------------------------------------------------------------------------------

    def _reader(self, vector: Vector) -> Matrix | None:
        matrix = self._open_files()
        if matrix is not None and len(vector) != matrix.dimension * 4:
            raise ModelFault(
                f"the query's vector has {len(vector) // 4} dimensions, the index has {matrix.dimension} ({self._space})",
                hint="the model changed under its name: 'lorelog index --reembed' makes all vectors anew",
            )
        return matrix

    def _open_files(self) -> Matrix | None:
        state = self._state()
        if state is None or not state.count:
            return None
        opened = self._open
        if opened is None or opened[0] != state:
            known = opened[1].codes if opened and opened[0].codes == state.codes else self._open_codes(state)
            try:
                with translating(self._home):
                    matrix = open_matrix(self._files(state.name), state.count, state.dimension, known)
            except (StoreError, ValueError):
                if self._state() == state:
                    raise
                return self._open_files()  # the lane was built anew and swapped while we looked
            opened = self._open = (state, matrix)
        return opened[1]

    def _state(self) -> DenseState | None:
        state = log.read_state(self._state_path, DenseState)
        return state if state is not None and state.format == _FORMAT and state.space == self._space else None

    def _files(self, name: str) -> tuple[Path, Path, Path]:
        vectors, rows, projects = (self._home / f"{name}{suffix}" for suffix in _SUFFIXES)
        return vectors, rows, projects


def _question(vector: Vector) -> np.ndarray[Any, Any]:
    import numpy as np

    question = np.frombuffer(vector, dtype="<f4")
    if not np.isfinite(question).all():
        raise ModelFault("the query's vector has values that are no numbers", hint="the model is at fault; try another")
    return question
