"""The dense lane: which chunk, of which project, has which record of the catalog's vector file (`vector_file`).

One line per chunk that has a vector. The files only grow at their ends, and the state file says how many lines
count, so a crash while appending leaves bytes that are never read. The row of a removed chunk is set to 0 in place. When more
than a quarter of the lines are dead, the files are rewritten and swapped.

A small lane is scanned completely. A large one gets codes (`vector_codes`), which are built separately from lines that no
longer change, without any lock, and named in the state file when they are complete. Later lines are scanned.

A `VectorMatrix` is opened for one state of the lane, so its caches (lines of a filter, line of a row) never go stale.

Every line and every record has a checksum, since damage would change answers without any other sign. Reading all of a large lane
takes longer than a search, so a search checks the lines that it returns, and everything only if the lane is small or if the
times of its files are not those of the last write. Index runs and the daemon's background work check everything. A damaged lane
raises StoreDamaged; the store rebuilds it from the catalog, without vectors that are damaged themselves.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.document import ChunkKey
from lorelog.core.errors import ModelFault, StoreDamaged, StoreError
from lorelog.core.ports import Vector
from lorelog.core.query import Candidate, make_candidates
from lorelog.core.sqlite_file import batches, placeholders
from lorelog.core.vectors import needs_numpy
from lorelog.stores.embedded import change_log, vector_codes, vector_file
from lorelog.stores.embedded.connection import translate_errors
from lorelog.stores.embedded.vector_file import LineEntry, VectorFile, VectorSpace

if TYPE_CHECKING:
    import numpy as np

    from lorelog.stores.embedded.vector_codes import VectorCodes

    Array = np.ndarray[Any, Any]
    LaneArrays = tuple[Array, Array, Array, Array]
    """Rows, projects, slots and checksums of the lines."""


_MAX_EXACT_LINES = 10_000
"""Up to this many admitted lines are all scored exactly."""
_CACHED_FILTERS = 4
"""Each may use 8 bytes per line."""
_MIN_LINES_PER_LIMIT = 20
_CHECKED_WHEN_OPENED = 1_024
"""A lane of up to this many lines is checked completely when it is opened: 0.7 ms."""
_CHECK_INTERVAL_S = 24 * 3600
_REPAIR_HINT = "'lorelog index' repairs them"


class RowFilter(Struct, frozen=True):
    """Restricts a search to the lines of some projects, or of some rows."""

    key: Hashable
    """Equal keys admit the same lines."""
    projects: tuple[str, ...] = ()
    rows: Callable[[], Sequence[int]] | None = None


LaneFiles = tuple[Path, Path, Path, Path]
"""Rows, projects, slots and checksums of the lines."""


class VectorMatrix:
    """The lines of one state. A line with row 0 is dead."""

    def __init__(self, vectors: VectorFile, lines: LaneArrays, codes: VectorCodes | None) -> None:
        self.vectors = vectors
        self.rows, self._projects, self._slots, self._sums = lines
        self.codes = codes
        self.dimension = vectors.dimension
        self._coded = 0 if codes is None else codes.count
        self._admitted: dict[Hashable, tuple[Array, Array | None]] = {}
        self._rest: tuple[Array, Array] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The number of lines, dead ones included, and the dimension."""
        return len(self.rows), self.dimension

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, lines: slice | Array) -> Array:
        return self.vectors.read(self._slots[lines])

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
        self._check_lines(lines)
        order = np.lexsort((lines, -scores))
        return make_candidates(rows[order].tolist(), scores[order].tolist())

    def similarities(self, query: Array, keys: Sequence[ChunkKey]) -> dict[ChunkKey, float]:
        """Return the cosine of each of these rows that has a line."""
        import numpy as np

        lines = self.lines_of(np.fromiter(keys, dtype=np.int64, count=len(keys)))
        records = self._check_lines(lines)
        cosines = vector_file.record_products(records, query, self.dimension)
        return dict(zip(self.rows[lines].tolist(), cosines.tolist(), strict=True))

    def damage(self, *, is_locked: bool = False) -> dict[str, int]:
        """Check every line; return how many are damaged, by the endings of the files that may be.

        With the writer lock, a line with the sum of a removed one and a row is damaged; without it, a writer may be removing it.
        """
        vectors = labels = cleared = 0
        for part in vector_file.blocks(len(self.rows)):
            bad_labels = self._bad_labels(part)
            labels += int(bad_labels.sum())
            cleared += (
                int(((self._sums[part] == vector_file.REMOVED_SUM) & (self.rows[part] != 0)).sum()) if is_locked else 0
            )
            slots = self._slots[part][(self.rows[part] != 0) & ~bad_labels]
            vectors += len(self.vectors.find_damaged(slots))
        found = {self.vectors.path.name: vectors, "rows, .projects or .slots": labels, "sums": cleared}
        return {ending: count for ending, count in found.items() if count}

    def compare(self, rows: Array, slots: Array, projects: Array) -> tuple[Array, int]:
        """Return the lines of these rows, and how many of those have another vector or project than these."""
        import numpy as np

        order = np.argsort(rows, kind="stable")
        lines = self.lines_of(rows)
        at = order[np.searchsorted(rows[order], self.rows[lines])]
        unlike = (self._slots[lines] != slots[at]) | (self._projects[lines] != projects[at])
        return lines, int(unlike.sum())

    def _bad_labels(self, part: slice | Array) -> Array:
        """Return which lines have another row, project or slot than was written, as a mask."""
        sums = self._sums[part]
        found = vector_file.sum_labels(self.rows[part], self._projects[part], self._slots[part]) != sums
        beyond = self._slots[part] >= self.vectors.count
        # A row that was set to 0 meanwhile has another sum, too: look again before calling it damage.
        removed = vector_file.REMOVED_SUM
        bad: Array = (found & (sums != removed) & (self._sums[part] != removed)) | (beyond & (sums != removed))
        return bad

    def _check_lines(self, lines: Array) -> Array:
        """Return the records of these lines; raise StoreDamaged unless both are as they were written."""
        bad = self._bad_labels(lines)
        records = self.vectors.take(self._slots[lines])
        if not bad.any():
            bad = vector_file.damaged_records(records, removed_too=False)
        if bad.any():
            raise StoreDamaged(f"{int(bad.sum()):,} lines of the vector files are damaged", hint=_REPAIR_HINT)
        return records

    def _products(self, lines: Array, query: Array) -> Array:
        """Return the product of each line's vector with a query; of damaged lines, any."""
        return self.vectors.products(self._slots.take(lines), query)

    def lines_of(self, rows: Array) -> Array:
        """Return the line numbers of these rows in order, without rows that have no line."""
        import numpy as np

        if self._rest is None:
            rest = self.rows[self._coded :]
            order = np.argsort(rest, kind="stable")
            self._rest = (rest[order], order + self._coded)
        indexes = (
            [self._rest]
            if self.codes is None
            else [self._rest, (self.codes.arrays["sorted_rows"], self.codes.arrays["by_row"])]
        )
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
            return admitted, self._products(admitted, query)
        if self.codes is None or self._coded < _MIN_LINES_PER_LIMIT * limit:
            lines = np.arange(len(self.rows)) if admitted is None else admitted
            return lines, self.vectors.scores(query).take(self._slots[lines], mode="clip")
        lines = self.codes.propose(query, positions, limit)
        scores = self._products(lines, query)
        if self._coded < len(self.rows):
            if admitted is None:
                rest = np.arange(self._coded, len(self.rows))
            else:
                rest = admitted[np.searchsorted(admitted, self._coded) :]
            lines, scores = np.concatenate([lines, rest]), np.concatenate([scores, self._products(rest, query)])
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
            marks = np.frombuffer(
                b"".join(vector_file.project_hash(project) for project in admission.projects), dtype="<u8"
            )
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


def open_matrix(files: LaneFiles, count: int, vectors: VectorFile, codes: VectorCodes | None) -> VectorMatrix:
    """Map the first `count` lines of a lane's files."""
    import numpy as np

    # Plain arrays over the same pages: numpy's memmap subclass makes every operation slower.
    rows, projects, slots, sums = (
        np.asarray(np.memmap(path, dtype=kind, mode="r", shape=(count,)))
        for path, kind in zip(files, _TYPES, strict=True)
    )
    return VectorMatrix(vectors, (rows, projects, slots, sums), codes)


EXACT_UP_TO = 32_768
"""Lines that are scanned completely, in about 3 ms. Codes pay off beyond that."""

_FORMAT = 5
_MAX_DEAD_SHARE = 0.25
_SUFFIXES = (".rows", ".projects", ".slots", ".sums")
_TYPES = ("<i8", "<u8", "<u4", "<u8")
_WIDTHS = (8, 8, 4, 8)


class DenseState(Struct, frozen=True, kw_only=True):
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
    times: str = ""
    """Times of the matrix's files after the last write. Others mean that another program has written them."""
    codes_time: str = ""
    vectors: str = ""
    """Name of the vector file."""
    slots: int = 0
    """How many of its records count."""
    vectors_time: int = 0
    """Its time, as the catalog has it."""
    checked: int = 0
    """When all lines were last found to be as written, in seconds since 1970."""


class DenseLane:
    """The dense lane of an index folder for one vector space."""

    def __init__(self, home: Path, space: str, *, exact_up_to: int = EXACT_UP_TO) -> None:
        self._home = change_log.space_folder(home, space)
        self._vectors_home = home.parent / "vectors"
        self._space = space
        self._exact_up_to = exact_up_to
        self._state_path = self._home / "current.json"
        self._open: tuple[DenseState, VectorMatrix] | None = None
        self.mended = ""
        """What was damaged when the lane was last rebuilt for that reason; the store reports it."""

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
        space = vector_file.find_space(database, self._space)
        if space is None or state.vectors != space.file or state.slots > space.slots:
            return None  # the vectors were copied to a new file
        try:
            files = zip(self._files(state.name), _WIDTHS, strict=True)
            whole = all(file.stat().st_size >= state.count * width for file, width in files)
        except OSError:
            return None
        return state.applied if whole else None

    # -- reading -----------------------------------------------------------------------------------------------------

    def search(self, vector: Vector, admission: RowFilter | None, limit: int) -> list[Candidate]:
        """Return rows by cosine, best first, restricted by `admission` unless it is None."""
        matrix = self._reader(vector)
        if matrix is None or limit < 1:
            return []
        return matrix.search(vector_file.query_array(vector), admission, limit)

    def similarities(self, vector: Vector, keys: Sequence[ChunkKey]) -> dict[ChunkKey, float]:
        """Return the cosine of each of these rows that has a vector."""
        matrix = self._reader(vector)
        if matrix is None or not keys:
            return {}
        return matrix.similarities(vector_file.query_array(vector), keys)

    def damage(self) -> str:
        """Check every line and the codes; return what is damaged in which files, or an empty string."""
        state = self._state()
        if state is None or not state.count:
            return ""
        return ", ".join([*self._matrix_damage(state), *self._codes_damage(state)])

    def compare(self, database: sqlite3.Connection) -> tuple[int, int, int]:
        """Compare every line with the catalog; return the numbers of missing, surplus and unlike ones.

        Changes that the lane has yet to follow are no differences.
        """
        import numpy as np

        space = vector_file.find_space(database, self._space)
        rows = [row for (row,) in database.execute("SELECT row FROM chunks ORDER BY row")]
        state = self._state()
        followed = None if space is None else self.applied(database)
        if space is None:
            return 0, 0, 0
        try:
            matrix = None if state is None or followed is None or not state.count else self._open_matrix(state, None)
        except (StoreError, ValueError):
            matrix = None
        if matrix is None or followed is None:
            return sum(1 for _ in self._entries(database, space, rows)), 0, 0
        changes = change_log.changes_after(database, followed)
        waiting = {*changes.added, *changes.embedded, *changes.removed}
        expected = matched = unlike = 0
        for batch in batches(self._entries(database, space, [row for row in rows if row not in waiting])):
            row_numbers, projects, slots, _ = vector_file.encode_lines(batch)
            lines, other = matrix.compare(row_numbers, slots, projects)
            expected, matched, unlike = expected + len(batch), matched + len(lines), unlike + other
        present = matrix.rows[matrix.rows != 0]
        extra = len(present) - int(np.isin(present, list(waiting)).sum()) - matched
        return expected - matched, max(0, extra), unlike

    def _matrix_damage(self, state: DenseState, *, is_locked: bool = False) -> list[str]:
        try:
            matrix = self._open_matrix(state, None)
        except (StoreError, ValueError):
            return [f"{state.name}.* or {state.vectors}, of which a file is missing or cut"]
        return _format_damage(state.name, matrix.damage(is_locked=is_locked))

    def _codes_damage(self, state: DenseState) -> list[str]:
        codes = self._codes_file(state.codes)
        return [codes.name] if state.codes and not vector_codes.is_intact(codes) else []

    def mapped_bytes(self) -> int:
        """Return how many bytes of files a search maps; they use memory only while they are read."""
        state = self._state()
        if state is None:
            return 0
        codes = self._open_codes(state)
        lines = state.count * sum(_WIDTHS) + state.slots * vector_file.record_bytes(state.dimension)
        return lines + (0 if codes is None else codes.header.bytes())

    # -- following ---------------------------------------------------------------------------------------------------

    def catch_up(self, database: sqlite3.Connection) -> int | None:
        space = vector_file.find_space(database, self._space)
        if space is None:
            return None
        applied = self.applied(database)
        state = self._state()
        if applied is None or state is None or state.dimension != space.dimension:
            return self._rebuild(database, space)
        is_checked = state.checked > change_log.boot_time()
        if state.count and not (is_checked and state.times == self._times(state.name)):
            damage = self._matrix_damage(state, is_locked=True)
            if damage:
                self.mended = ", ".join(damage)
                return self._rebuild(database, space)
            state = replace(state, checked=int(time.time()))
            self._save(state, space)
        changes = change_log.changes_after(database, applied)
        if changes.head == applied:
            if state.vectors_time != space.file_time and state.count:
                self._save(state, space)
            return applied
        with translate_errors(self._home):
            dead = state.dead + self._mark_removed(state, changes.removed)
            if dead > _MAX_DEAD_SHARE * max(state.count, 1000):
                return self._rebuild(database, space)
            new_rows = changes.added + changes.embedded
            count = self._append(state.name, state.count, self._entries(database, space, new_rows))
            self._save(replace(state, count=count, dead=dead, applied=changes.head), space)
        return changes.head

    def purge(self, database: sqlite3.Connection) -> None:
        """Rewrite the lane without removed lines, and drop the codes, which are built again after the write."""
        space = vector_file.find_space(database, self._space)
        self.close()
        if space is not None:
            self._rebuild(database, space)
        for left in self._home.glob("*.codes"):
            left.unlink(missing_ok=True)

    def _rebuild(self, database: sqlite3.Connection, space: VectorSpace) -> int:
        last = change_log.last_sequence(database)
        name = os.urandom(4).hex()
        # Not filtered by the `embedded` marks, which refer to the served vectors: this space may be served next.
        rows = [row for (row,) in database.execute("SELECT row FROM chunks ORDER BY row")]
        with translate_errors(self._home):
            for folder in (self._home.parent, self._home):  # mkdir gives its mode to the last folder only
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                count = self._append(name, 0, self._entries(database, space, rows))
                state = DenseState(
                    format=_FORMAT,
                    space=self._space,
                    name=name,
                    dimension=space.dimension,
                    count=count,
                    dead=0,
                    applied=last,
                    checked=int(time.time()),
                )
                self._save(state, space)
            except BaseException:
                for file in self._files(name):
                    file.unlink(missing_ok=True)
                raise
            for suffix in _SUFFIXES:
                for old in self._home.glob(f"*{suffix}"):
                    if old.stem != name:
                        old.unlink(missing_ok=True)
        return last

    def is_check_due(self) -> bool:
        """Return whether all lines should be checked: not for a day, or another program has written the files."""
        state = self._state()
        if state is None or not state.count:
            return False
        return time.time() - state.checked > _CHECK_INTERVAL_S or not self._is_as_written(state)

    def mend(self, database: sqlite3.Connection) -> str:
        """Check everything and rebuild what is damaged; return what was. The caller holds the writer lock."""
        space = vector_file.find_space(database, self._space)
        state = self._state()
        if space is None or state is None or not state.count:
            return ""
        found = self._matrix_damage(state, is_locked=True)
        bad_codes = self._codes_damage(state)
        self.close()
        if found:
            self._rebuild(database, space)
        elif bad_codes:  # searches scan the vectors until the next index run builds new codes
            self._save(replace(state, codes="", codes_time="", checked=int(time.time())), space)
            self._codes_file(state.codes).unlink(missing_ok=True)
        else:
            self._save(replace(state, checked=int(time.time())), space)
        damage = ", ".join([*found, *bad_codes])
        self.mended = damage or self.mended
        return damage

    def _save(self, state: DenseState, space: VectorSpace) -> None:
        """Replace the state by one with the present times of the lane's files, which the caller has written or checked."""
        now = replace(state, times=self._times(state.name), vectors=space.file, slots=space.slots)
        change_log.write_state(self._state_path, replace(now, vectors_time=space.file_time))

    def _is_as_written(self, state: DenseState) -> bool:
        try:
            vectors_time = (self._vectors_home / state.vectors).stat().st_mtime_ns
        except OSError:
            return False
        is_checked = state.checked > change_log.boot_time()
        return is_checked and state.times == self._times(state.name) and state.vectors_time == vectors_time

    def _times(self, name: str) -> str:
        try:
            return " ".join(str(file.stat().st_mtime_ns) for file in self._files(name))
        except OSError:
            return ""

    def _mark_removed(self, state: DenseState, removed: Sequence[int]) -> int:
        """Set removed rows to 0 and return their number. A reader sees each row either old or new: 8 aligned bytes."""
        lines = self._find_lines(state, removed) if removed and state.count else []
        if not lines:
            return 0
        rows, _, _, sums = self._files(state.name)
        for file, number in (
            (sums, vector_file.REMOVED_SUM),
            (rows, 0),
        ):  # in this order: a reader that sees a row of 0 beside a sum looks again
            with file.open("r+b", buffering=0) as stream:
                for line in lines:
                    os.pwrite(stream.fileno(), number.to_bytes(8, "little"), line * 8)
        return len(lines)

    def _find_lines(self, state: DenseState, rows: Sequence[int]) -> list[int]:
        """Return the lines of some rows: a few are looked for in the file, which needs neither numpy nor an index of its rows."""
        if needs_numpy(len(rows)):
            matrix = self._open_files()
            if matrix is None:
                return []
            import numpy as np

            found: list[int] = matrix.lines_of(np.fromiter(rows, dtype=np.int64, count=len(rows))).tolist()
            return found
        return vector_file.find_lines(self._files(state.name)[0], state.count, rows)

    def _append(self, name: str, count: int, entries: Iterator[LineEntry]) -> int:
        parts = batches(entries)
        first = next(parts, [])
        if not first and count:
            return count
        files = [os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") for path in self._files(name)]
        with files[0], files[1], files[2], files[3]:
            for file, width in zip(files, _WIDTHS, strict=True):
                file.seek(count * width)
                file.truncate()
            for batch in chain([first] if first else [], parts):
                for file, part in zip(files, vector_file.line_bytes(batch), strict=True):
                    file.write(part)
                count += len(batch)
        return count

    def _entries(self, database: sqlite3.Connection, space: VectorSpace, rows: Sequence[int]) -> Iterator[LineEntry]:
        for part in batches(rows):
            # CROSS JOIN keeps this order: SQLite would walk all vectors of the space for every batch of rows.
            yield from database.execute(
                "SELECT c.row, c.project, v.slot FROM chunks c "
                "CROSS JOIN vectors v ON v.space = ? AND v.key = c.vector_key "
                f"WHERE c.row IN ({placeholders(part)}) ORDER BY c.row",
                (space.id, *part),
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
        try:
            if codes is not None and state.count < 2 * codes.header.trained:
                vector_codes.extend_codes(path, codes, matrix, matrix.rows)
            elif not vector_codes.build_codes(path, matrix, matrix.rows):
                return replace(state, codes="", refused=state.count, codes_time="")
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return replace(state, codes=name, refused=0, codes_time=str(path.stat().st_mtime_ns))

    def adopt_codes(self, new_state: DenseState) -> None:
        """Name new codes in the state file. The caller holds the writer lock; the lane may have changed in the meantime."""
        state = self._state()
        if state is None or state.name != new_state.name or state.count < new_state.count:
            if new_state.codes:
                self._codes_file(new_state.codes).unlink(missing_ok=True)
            return
        changed = replace(state, codes=new_state.codes, refused=new_state.refused, codes_time=new_state.codes_time)
        change_log.write_state(self._state_path, changed)  # with the known times of the matrix, which was not checked
        if state.codes and state.codes != new_state.codes:
            self._codes_file(state.codes).unlink(missing_ok=True)

    def _open_codes(self, state: DenseState) -> vector_codes.VectorCodes | None:
        if not state.codes:
            return None
        file = self._codes_file(state.codes)
        try:
            is_written = str(file.stat().st_mtime_ns) == state.codes_time
        except OSError:
            return None
        if not is_written and not vector_codes.is_intact(file):
            return None
        return vector_codes.open_codes(file, state.dimension, state.count)

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
                matrix = self._open_matrix(state, codes)
                is_checked = state.count <= _CHECKED_WHEN_OPENED or not self._is_as_written(state)
                if is_checked and (damage := _format_damage(state.name, matrix.damage())):
                    raise StoreDamaged(f"vectors are damaged: {', '.join(damage)}", hint=_REPAIR_HINT)
            except (StoreError, ValueError):
                if self._state() == state:
                    raise
                return self._open_files()  # the lane was rebuilt and swapped in the meantime
            opened = self._open = (state, matrix)
        return opened[1]

    def _open_matrix(self, state: DenseState, codes: VectorCodes | None) -> VectorMatrix:
        try:
            vectors = VectorFile(self._vectors_home / state.vectors, state.dimension, state.slots)
        except (FileNotFoundError, IsADirectoryError, ValueError):  # no file (name), or shorter than its records
            raise StoreDamaged(
                f"vectors are damaged: {state.vectors} is missing or cut", hint="'lorelog index' repairs it"
            ) from None
        with translate_errors(self._home):
            return open_matrix(self._files(state.name), state.count, vectors, codes)

    def _state(self) -> DenseState | None:
        state = change_log.read_state(self._state_path, DenseState)
        return state if state is not None and state.format == _FORMAT and state.space == self._space else None

    def _files(self, name: str) -> LaneFiles:
        rows, projects, slots, sums = (self._home / f"{name}{suffix}" for suffix in _SUFFIXES)
        return rows, projects, slots, sums


def _format_damage(name: str, damage: Mapping[str, int]) -> list[str]:
    return [
        f"{count:,} lines of {file if file.endswith('.i16') else f'{name}.{file}'}" for file, count in damage.items()
    ]
