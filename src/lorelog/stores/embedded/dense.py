"""The dense lane: one memory-mapped float32 matrix per model, with the row and the project of each line.

The catalog holds the vectors; this copy exists to be scanned. It only grows at its end, and the state file says how many lines
count, so a crash while appending leaves bytes that are never read. The row of a removed chunk is set to 0 in place. When more
than a quarter of the lines are dead, the matrix is rewritten and swapped.

A small matrix is scanned completely. A large one gets codes (`vector_codes`), which are built separately from lines that no
longer change, without any lock, and named in the state file when they are complete. Later lines are scanned.

A `VectorMatrix` is opened for one state of the lane, so its caches (lines of a filter, line of a row) never go stale.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorelog.core.document import ChunkKey
from lorelog.core.errors import ModelFault, StoreError
from lorelog.core.ports import Vector
from lorelog.core.query import Candidate
from lorelog.stores.embedded import change_log, vector_codes
from lorelog.stores.embedded.connection import translate_errors
from lorelog.stores.embedded.vector_codes import dot

if TYPE_CHECKING:
    import numpy as np

    from lorelog.stores.embedded.vector_codes import VectorCodes

    Array = np.ndarray[Any, Any]


_MAX_EXACT_LINES = 10_000
"""Up to this many admitted lines are all scored exactly."""
_CACHED_FILTERS = 4
"""Each may use 8 bytes per line."""
_MIN_LINES_PER_LIMIT = 20


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Restricts a search to the lines of some projects, or of some rows."""

    key: Hashable
    """Equal keys admit the same lines."""
    projects: tuple[str, ...] = ()
    rows: Callable[[], Sequence[int]] | None = None


def project_hash(project: str) -> bytes:
    """Return the 8 bytes that are stored for each line of this project."""
    return hashlib.blake2b(project.encode("utf-8", "surrogatepass"), digest_size=8).digest()


class VectorMatrix:
    """The lines of one state. A line with row 0 is dead."""

    def __init__(self, vectors: Array, rows: Array, projects: Array, codes: VectorCodes | None) -> None:
        self.vectors = vectors
        self.rows = rows
        self.codes = codes
        self.dimension = int(vectors.shape[1])
        self._projects = projects
        self._coded = 0 if codes is None else codes.count
        self._admitted: dict[Hashable, tuple[Array, Array | None]] = {}
        self._rest: tuple[Array, Array] | None = None

    def search(self, query: Array, admission: RowFilter | None, limit: int) -> list[Candidate]:
        """Return rows by cosine, best first."""
        import numpy as np

        lines, scores = self._score(query, admission, limit)
        rows = self.rows[lines]
        alive = rows != 0
        if not alive.all():
            lines, scores, rows = lines[alive], scores[alive], rows[alive]
        if limit < len(scores):
            best = np.argpartition(-scores, limit - 1)[:limit]
            lines, scores, rows = lines[best], scores[best], rows[best]
        order = np.lexsort((lines, -scores))
        return list(map(Candidate, rows[order].tolist(), scores[order].tolist()))

    def similarities(self, query: Array, keys: Sequence[ChunkKey]) -> dict[ChunkKey, float]:
        """Return the cosine of each of these rows that has a line."""
        import numpy as np

        lines = self.lines_of(np.fromiter(keys, dtype=np.int64, count=len(keys)))
        scores = dot(self.vectors.take(lines, axis=0), query)
        return dict(zip(self.rows[lines].tolist(), scores.tolist(), strict=True))

    def lines_of(self, rows: Array) -> Array:
        """Return the line numbers of these rows in order, without rows that have no line."""
        import numpy as np

        if self._rest is None:
            rest = self.rows[self._coded :]
            order = np.argsort(rest, kind="stable")
            self._rest = (rest[order], order + self._coded)
        indexes = [self._rest] if self.codes is None else [self._rest, (self.codes.sorted_rows, self.codes.by_row)]
        rows = np.sort(rows[rows > 0])
        if not len(rows):
            return rows
        matches = [np.empty(0, dtype=np.int64)]
        for sorted_rows, lines in indexes:
            if len(sorted_rows):
                near = np.minimum(np.searchsorted(sorted_rows, rows), len(sorted_rows) - 1)
                matches.append(lines[near[sorted_rows[near] == rows]].astype(np.int64))
        lines = np.sort(np.concatenate(matches))
        lines = lines[(lines >= 0) & (lines < len(self.rows))]
        # A line may have died since the index was built, and the index may be damaged: keep lines that have the right row.
        actual = self.rows[lines]
        expected = rows[np.minimum(np.searchsorted(rows, actual), len(rows) - 1)]
        return np.asarray(lines[actual == expected])

    def _score(self, query: Array, admission: RowFilter | None, limit: int) -> tuple[Array, Array]:
        """Return candidate lines with their cosines."""
        import numpy as np

        admitted, positions = (None, None) if admission is None else self._admitted_lines(admission)
        if admitted is not None and len(admitted) <= max(_MAX_EXACT_LINES, _MIN_LINES_PER_LIMIT * limit):
            return admitted, dot(self.vectors.take(admitted, axis=0), query)
        if self.codes is None or self._coded < _MIN_LINES_PER_LIMIT * limit:
            scores = dot(self.vectors, query)
            return (np.arange(len(scores)), scores) if admitted is None else (admitted, scores[admitted])
        lines = self.codes.propose(query, positions, limit)
        scores = dot(self.vectors.take(lines, axis=0), query)
        if self._coded < len(self.rows):
            later = dot(self.vectors[self._coded :], query)
            if admitted is None:
                rest = np.arange(self._coded, len(self.rows))
            else:
                rest = admitted[np.searchsorted(admitted, self._coded) :]
                later = later[rest - self._coded]
            lines, scores = np.concatenate([lines, rest]), np.concatenate([scores, later])
        return lines, scores

    def _admitted_lines(self, admission: RowFilter) -> tuple[Array, Array | None]:
        """Return the admitted lines in order and, if there are codes and many are admitted, their positions in the codes."""
        cached = self._admitted.get(admission.key)
        if cached is not None:
            return cached
        import numpy as np

        if admission.rows is not None:
            rows = admission.rows()
            lines = self.lines_of(np.fromiter(rows, dtype=np.int64, count=len(rows)))
        else:
            marks = np.frombuffer(b"".join(project_hash(project) for project in admission.projects), dtype="<u8")
            lines = np.flatnonzero(np.isin(self._projects, marks))
        lines = lines.astype(np.int32)
        positions = None
        if self.codes is not None and len(lines) > _MAX_EXACT_LINES:
            mask = np.zeros(len(self.rows), dtype=bool)
            mask[lines] = True
            positions = self.codes.positions(mask).astype(np.int32)
        if len(self._admitted) >= _CACHED_FILTERS:
            self._admitted.clear()
        self._admitted[admission.key] = (lines, positions)
        return lines, positions


def open_matrix(files: tuple[Path, Path, Path], count: int, dimension: int, codes: VectorCodes | None) -> VectorMatrix:
    """Map the first `count` lines of a matrix's files."""
    import numpy as np

    vectors, rows, projects = files
    # Plain arrays over the same pages: numpy's memmap subclass makes every operation slower.
    return VectorMatrix(
        np.asarray(np.memmap(vectors, dtype="<f4", mode="r", shape=(count, dimension))),
        np.asarray(np.memmap(rows, dtype="<i8", mode="r", shape=(count,))),
        np.asarray(np.memmap(projects, dtype="<u8", mode="r", shape=(count,))),
        codes,
    )


EXACT_UP_TO = 32_768
"""Lines that are scanned completely, in about 3 ms. Codes pay off beyond that."""

_FORMAT = 2
_MAX_DEAD_SHARE = 0.25
_ROWS_PER_READ = 500
_SUFFIXES = (".f32", ".rows", ".projects")


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseState:
    """The current files, how many of their lines count, and how far they have followed the log."""

    format: int
    space: str
    name: str
    dimension: int
    count: int
    dead: int
    applied: int
    codes: str = ""
    """Name of the codes file, empty if there is none."""
    refused: int = 0
    """Number of lines for which codes were last tried and found useless."""


class DenseLane:
    """The dense lane of an index folder for one vector space."""

    def __init__(self, home: Path, space: str, *, exact_up_to: int = EXACT_UP_TO) -> None:
        self._home = home / hashlib.sha256(space.encode()).hexdigest()[:16]
        self._space = space
        self._exact_up_to = exact_up_to
        self._state_path = self._home / "current.json"
        self._open: tuple[DenseState, VectorMatrix] | None = None

    def close(self) -> None:
        self._open = None

    def forget(self) -> None:
        self.close()
        self._state_path.unlink(missing_ok=True)

    def forget_others(self) -> None:
        """Delete the lanes of other spaces; readers keep the files that they have open."""
        import shutil

        for other in self._home.parent.iterdir() if self._home.parent.exists() else ():
            if other != self._home:
                shutil.rmtree(other, ignore_errors=True)

    def revision(self) -> str:
        return change_log.state_token(self._state_path)

    def applied(self, database: sqlite3.Connection) -> int | None:
        state = self._state()
        if state is None or not change_log.can_follow(database, state.applied):
            return None
        sizes = (state.count * state.dimension * 4, state.count * 8, state.count * 8)
        try:
            files = zip(self._files(state.name), sizes, strict=True)
            whole = all(file.stat().st_size >= size for file, size in files)
        except OSError:
            return None
        return state.applied if whole else None

    # -- reading -----------------------------------------------------------------------------------------------------

    def search(self, vector: Vector, admission: RowFilter | None, limit: int) -> list[Candidate]:
        """Return rows by cosine, best first, restricted by `admission` unless it is None."""
        matrix = self._reader(vector)
        if matrix is None or limit < 1:
            return []
        return matrix.search(_query_array(vector), admission, limit)

    def similarities(self, vector: Vector, keys: Sequence[ChunkKey]) -> dict[ChunkKey, float]:
        """Return the cosine of each of these rows that has a vector."""
        matrix = self._reader(vector)
        if matrix is None or not keys:
            return {}
        return matrix.similarities(_query_array(vector), keys)

    def mapped_bytes(self) -> int:
        """Return how many bytes of files a search maps; they use memory only while they are read."""
        state = self._state()
        if state is None:
            return 0
        codes = self._open_codes(state)
        return state.count * (4 * state.dimension + 16) + (0 if codes is None else codes.mapped_bytes)

    # -- following ---------------------------------------------------------------------------------------------------

    def catch_up(self, database: sqlite3.Connection) -> int | None:
        space = database.execute("SELECT id, dimension FROM spaces WHERE name = ?", (self._space,)).fetchone()
        if space is None:
            return None
        applied = self.applied(database)
        state = self._state()
        if applied is None or state is None or state.dimension != space[1]:
            return self._rebuild(database, *space)
        changes = change_log.changes_after(database, applied)
        if changes.head == applied:
            return applied
        with translate_errors(self._home):
            dead = state.dead + self._mark_removed(state, changes.removed)
            if dead > _MAX_DEAD_SHARE * max(state.count, 1000):
                return self._rebuild(database, *space)
            new_rows = changes.added + changes.embedded
            count = self._append(state.name, state.count, self._vectors(database, space[0], new_rows))
            self._save(replace(state, count=count, dead=dead, applied=changes.head))
        return changes.head

    def purge(self, database: sqlite3.Connection) -> None:
        """Rewrite the matrix without removed lines, and drop the codes, which are built again after the write."""
        space = database.execute("SELECT id, dimension FROM spaces WHERE name = ?", (self._space,)).fetchone()
        self.close()
        if space is not None:
            self._rebuild(database, *space)
        for left in self._home.glob("*.codes"):
            left.unlink(missing_ok=True)

    def _rebuild(self, database: sqlite3.Connection, space: int, dimension: int) -> int:
        last = change_log.last_sequence(database)
        name = os.urandom(4).hex()
        # Not filtered by the `embedded` marks, which refer to the served vectors: this space may be served next.
        rows = [row for (row,) in database.execute("SELECT row FROM chunks ORDER BY row")]
        with translate_errors(self._home):
            self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                count = self._append(name, 0, self._vectors(database, space, rows))
                self._save(
                    DenseState(
                        format=_FORMAT,
                        space=self._space,
                        name=name,
                        dimension=dimension,
                        count=count,
                        dead=0,
                        applied=last,
                    )
                )
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
        change_log.write_state(self._state_path, state)

    def _mark_removed(self, state: DenseState, removed: Sequence[int]) -> int:
        """Set removed rows to 0 and return their number. A reader sees each row either old or new: 8 aligned bytes."""
        matrix = self._open_files() if removed and state.count else None
        if matrix is None:
            return 0
        import numpy as np

        lines = matrix.lines_of(np.fromiter(removed, dtype=np.int64, count=len(removed)))
        if not len(lines):
            return 0
        rows = np.memmap(self._files(state.name)[1], dtype="<i8", mode="r+", shape=(state.count,))
        rows[lines] = 0
        rows.flush()
        return len(lines)

    def _append(self, name: str, count: int, entries: Iterator[tuple[int, str, Vector]]) -> int:
        paths = self._files(name)
        vectors, rows, projects = (os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") for path in paths)
        with vectors, rows, projects:
            for labels in (rows, projects):
                labels.seek(count * 8)
                labels.truncate()
            first = True
            for row, project, vector in entries:
                if first:
                    vectors.seek(count * len(vector))
                    vectors.truncate()
                    first = False
                vectors.write(vector)
                rows.write(row.to_bytes(8, "little"))
                projects.write(project_hash(project))
                count += 1
            for file in (vectors, rows, projects):
                file.flush()
                os.fsync(file.fileno())
        return count

    def _vectors(
        self, database: sqlite3.Connection, space: int, rows: Sequence[int]
    ) -> Iterator[tuple[int, str, Vector]]:
        for start in range(0, len(rows), _ROWS_PER_READ):
            part = rows[start : start + _ROWS_PER_READ]
            marks = ", ".join("?" * len(part))
            # CROSS JOIN keeps this order: SQLite would walk all vectors of the space for every batch of rows.
            yield from database.execute(
                "SELECT c.row, c.project, v.vector FROM chunks c "
                "CROSS JOIN vectors v ON v.space = ? AND v.key = c.vector_key "
                f"WHERE c.row IN ({marks}) ORDER BY c.row",
                (space, *part),
            ).fetchall()

    # -- codes -------------------------------------------------------------------------------------------------------

    def needs_codes(self, *, thoroughly: bool) -> bool:
        """Return True if enough lines are not coded; `thoroughly` also checks for damage and accepts fewer lines."""
        state = self._state()
        if state is None or state.count <= max(self._exact_up_to, 2 * state.refused):
            return False
        codes = self._open_codes(state)
        if codes is None or (thoroughly and not vector_codes.is_intact(self._codes_file(state.codes))):
            return thoroughly or state.count > 2 * self._exact_up_to
        waiting = state.count - codes.count
        return waiting > (self._exact_up_to // 4 if thoroughly else 2 * self._exact_up_to)

    def make_codes(self) -> DenseState | None:
        """Write codes and return a state that names them, for `adopt_codes`.

        Needs no writer lock: it reads lines that no longer change. The caller ensures that only one process builds codes.
        """
        state = self._state()
        matrix = self._open_files()
        if state is None or matrix is None or self._open is None or self._open[0] != state:
            return None
        for left in self._home.glob("*.codes"):
            if left.stem != state.codes:
                left.unlink(missing_ok=True)  # of a build that was killed, or of an earlier matrix
        name = os.urandom(4).hex()
        path = self._codes_file(name)
        codes = self._open_codes(state) if vector_codes.is_intact(self._codes_file(state.codes)) else None
        vectors, rows = matrix.vectors, matrix.rows
        try:
            if codes is not None and state.count < 2 * codes.trained:
                vector_codes.extend_codes(path, codes, vectors, rows)
            elif not vector_codes.build_codes(path, vectors, rows):
                return replace(state, codes="", refused=state.count)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return replace(state, codes=name, refused=0)

    def adopt_codes(self, new_state: DenseState) -> None:
        """Name new codes in the state file. The caller holds the writer lock; the lane may have changed in the meantime."""
        state = self._state()
        if state is None or state.name != new_state.name or state.count < new_state.count:
            if new_state.codes:
                self._codes_file(new_state.codes).unlink(missing_ok=True)
            return
        self._save(replace(state, codes=new_state.codes, refused=new_state.refused))
        if state.codes and state.codes != new_state.codes:
            self._codes_file(state.codes).unlink(missing_ok=True)

    def _open_codes(self, state: DenseState) -> vector_codes.VectorCodes | None:
        if not state.codes:
            return None
        return vector_codes.open_codes(self._codes_file(state.codes), state.dimension, state.count)

    def _codes_file(self, name: str) -> Path:
        return self._home / f"{name or 'none'}.codes"

    # -- files -------------------------------------------------------------------------------------------------------

    def _reader(self, vector: Vector) -> VectorMatrix | None:
        matrix = self._open_files()
        if matrix is not None and len(vector) != matrix.dimension * 4:
            raise ModelFault(
                f"the query's vector has {len(vector) // 4} dimensions, the index has {matrix.dimension} ({self._space})",
                hint="the model behind this name has changed: 'lorelog index --reembed' embeds everything again",
            )
        return matrix

    def _open_files(self) -> VectorMatrix | None:
        state = self._state()
        if state is None or not state.count:
            return None
        opened = self._open
        if opened is None or opened[0] != state:
            codes = opened[1].codes if opened and opened[0].codes == state.codes else self._open_codes(state)
            try:
                with translate_errors(self._home):
                    matrix = open_matrix(self._files(state.name), state.count, state.dimension, codes)
            except (StoreError, ValueError):
                if self._state() == state:
                    raise
                return self._open_files()  # the lane was rebuilt and swapped in the meantime
            opened = self._open = (state, matrix)
        return opened[1]

    def _state(self) -> DenseState | None:
        state = change_log.read_state(self._state_path, DenseState)
        return state if state is not None and state.format == _FORMAT and state.space == self._space else None

    def _files(self, name: str) -> tuple[Path, Path, Path]:
        vectors, rows, projects = (self._home / f"{name}{suffix}" for suffix in _SUFFIXES)
        return vectors, rows, projects


def _query_array(vector: Vector) -> np.ndarray[Any, Any]:
    import numpy as np

    query = np.frombuffer(vector, dtype="<f4")
    if not np.isfinite(query).all():
        raise ModelFault(
            "the query's vector contains NaN or infinity", hint="this is a fault of the model; try another"
        )
    return query
