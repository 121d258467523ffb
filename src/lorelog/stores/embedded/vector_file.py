"""The catalog's vectors: one file of records per vector space, and the catalog's table of which record is whose.

A record is a checksum (8 bytes), a scale (float32) and one 16-bit integer per dimension; an integer times the scale is the
number. That is half of float32, with an error of at most 1/65,534 of the vector's largest number: less than that of 16-bit floating
point, and four times as fast to read. The only copy of a vector is here; search lanes name records by their number (slot).

A file only grows at its end. Records are written before the transaction that names them, and bytes after the last named one are never
read, so a crash leaves nothing to repair. A few records are not synced: after a power failure, those that are missing are damaged ones. A removed
vector's record is overwritten with zeros in place. When more than a quarter of the records are removed, the others are copied to a
new file, which one transaction names with their new slots.

A checksum is a product of a record's words with fixed odd weights, modulo 2**64: any damage within one word changes it, and any other
damage does with a chance of a miss of about 2**-32. NumPy computes it for many records at once, in a third of the time that CRC-32
takes one by one. It is 0 only in a removed record. A damaged vector is removed from the table, and the next index run makes it again.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from array import array
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lorelog.core.errors import ModelFault
from lorelog.core.ids import blake2b
from lorelog.core.ports import Vector
from lorelog.core.sqlite_file import batches, placeholders
from lorelog.core.vectors import needs_numpy

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_FACTOR, _OTHER_FACTOR = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
_WORD_MASK = (1 << 64) - 1
_RECORDS_PER_BLOCK = 4096
_RECORDS_PER_SCAN = 512
"""Few enough to stay in the processor's cache between conversion and product."""
_RECORDS_PER_TAKE = 128
"""As above, for records that are not in a row: 2,000 of 384 dimensions take 0.7 ms instead of 1.5."""
_LARGEST = 32_767
_SUFFIX = ".i16"
_MAX_DEAD_SHARE = 0.25
_MIN_DEAD_RECORDS = 1_000
_MIN_SYNCED_RECORDS = 16
"""A model took a second and more for so many."""
REMOVED_SUM = 1
"""Checksum of a removed line of the dense lane. A line of zeros was never written."""
_HEADER_WORDS = 2
"""Words of 4 bytes before those that the checksum covers."""

_SPACE_COLUMNS = "id, name, dimension, file, slots, file_time"


class VectorSpace(Struct, frozen=True):
    """A vector space as the catalog names it."""

    id: int
    name: str
    dimension: int
    file: str
    """Empty until it has a vector."""
    slots: int
    """Number of records, removed ones included."""
    file_time: int
    """Time of the file after the last write. Another means that another program has written it."""


def find_space(database: sqlite3.Connection, name: str) -> VectorSpace | None:
    row = database.execute(f"SELECT {_SPACE_COLUMNS} FROM spaces WHERE name = ?", (name,)).fetchone()
    return None if row is None else VectorSpace(*row)


def folder_of(database: sqlite3.Connection) -> Path:
    """Return the folder of the vector files: beside the catalog."""
    return Path(database.execute("PRAGMA database_list").fetchone()[2]).parent / "vectors"


class VectorFile:
    """The mapped records of a vector space. Slots that are given must exist."""

    def __init__(self, path: Path, dimension: int, count: int) -> None:
        import numpy as np

        self.path = path
        self.dimension = dimension
        self.count = count
        self._kind = _record_type(dimension)
        # A plain array over the same pages: numpy's memmap subclass makes every operation slower.
        self._records = np.asarray(np.memmap(path, dtype=self._kind, mode="r", shape=(count,)))
        self._whole = self._records.view(f"V{self._kind.itemsize}")

    def scores(self, query: Array) -> Array:
        """Return the product of every record with a query, using only this thread (see `vector_codes.dot`)."""
        import numpy as np

        products = np.empty(self.count, dtype=np.float32)
        numbers = self._records["numbers"][:, : self.dimension]
        for first in range(0, self.count, _RECORDS_PER_SCAN):
            part = slice(first, first + _RECORDS_PER_SCAN)
            np.vecdot(numbers[part].astype(np.float32), query, out=products[part])
        products *= self._records["scale"]
        return products

    def products(self, slots: Array, query: Array) -> Array:
        """Return the product of each of these records with a query. Slots that do not exist give any number."""
        import numpy as np

        products = np.empty(len(slots), dtype=np.float32)
        # The same arrays for each part: new ones would take pages from the system each time.
        count = min(len(slots), _RECORDS_PER_TAKE)
        taken, numbers = np.empty(count, dtype=self._whole.dtype), np.empty((count, self.dimension), dtype=np.float32)
        for first in range(0, len(slots), _RECORDS_PER_TAKE):
            part = slots[first : first + _RECORDS_PER_TAKE]
            count = len(part)
            records = self._whole.take(part, mode="clip", out=taken[:count]).view(self._kind)
            np.copyto(numbers[:count], records["numbers"][:, : self.dimension])
            found = np.vecdot(numbers[:count], query, out=products[first : first + count])
            found *= records["scale"]
        return products

    def take(self, slots: Array) -> Array:
        records: Array = self._whole.take(slots, mode="clip").view(self._kind)
        return records

    def read(self, slots: Array) -> Array:
        """Return vectors as float32, one per line."""
        return floats(self.take(slots), self.dimension)

    def stored_bytes(self, slots: Sequence[int]) -> list[bytes]:
        import numpy as np

        return [line.tobytes() for line in self.take(np.array(slots, dtype=np.int64))["numbers"]]

    def find_damaged(self, slots: Array) -> Array:
        """Return those of the slots whose record is not as written, or was removed."""
        import numpy as np

        found = [slots[part][damaged_records(self.take(slots[part]))] for part in blocks(len(slots))]
        return np.concatenate([np.empty(0, dtype=np.int64), *found])


def record_products(records: Array, query: Array, dimension: int) -> Array:
    """Return the product of each of some records with a query, using only this thread (see `vector_codes.dot`)."""
    import numpy as np

    products = np.vecdot(records["numbers"][:, :dimension].astype(np.float32), query)
    products *= records["scale"]
    return np.asarray(products)


def floats(records: Array, dimension: int) -> Array:
    import numpy as np

    numbers = records["numbers"][:, :dimension].astype(np.float32)
    numbers *= records["scale"][:, None]
    return np.asarray(numbers)


def damaged_records(records: Array, *, removed_too: bool = True) -> Array:
    """Return which records do not match their checksums, as a mask; a removed one has none."""
    import numpy as np

    bad = _sum_words(records) != records["sum"]
    return np.asarray(bad if removed_too else bad & (records["sum"] != 0))


def blocks(count: int) -> list[slice]:
    """Return slices that cover `count` lines, each small enough for one computation."""
    return [slice(first, min(first + _RECORDS_PER_BLOCK, count)) for first in range(0, count, _RECORDS_PER_BLOCK)]


def record_bytes(dimension: int) -> int:
    """Return the size of a record: checksum, scale, and an even number of integers, so that it consists of whole words."""
    return 12 + 2 * (dimension + dimension % 2)


def _record_type(dimension: int) -> np.dtype[Any]:
    import numpy as np

    return np.dtype([("sum", "<u8"), ("scale", "<f4"), ("numbers", "<i2", (dimension + dimension % 2,))])


def encode(vectors: Array) -> Array:
    """Return the records of float32 vectors, one per line."""
    import numpy as np

    dimension = vectors.shape[1]
    records = np.zeros(len(vectors), dtype=_record_type(dimension))
    scale = np.abs(vectors).max(axis=1) / np.float32(_LARGEST)
    records["scale"] = scale
    numbers = vectors / np.where(scale == 0, np.float32(1), scale)[:, None]
    records["numbers"][:, :dimension] = np.rint(numbers, out=numbers)
    records["sum"] = _sum_words(records)
    return records


def encode_records(vectors: Sequence[Vector]) -> bytes:
    """Return the records of little-endian float32 vectors as the file has them."""
    if not needs_numpy(len(vectors)):
        return b"".join(map(_encode_record, vectors))
    import numpy as np

    return encode(np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), -1)).tobytes()


def _encode_record(vector: Vector) -> bytes:
    """Return the record of one vector, the same bytes as `encode`, without numpy."""
    dimension = len(vector) // 4
    numbers = struct.unpack(f"<{dimension}f", vector)
    (scale,) = struct.unpack("<f", struct.pack("<f", max(map(abs, numbers)) / _LARGEST))
    # Through an array of float32: its rounding decides the integer of a quotient near one half.
    integers = map(round, array("f", [number / (scale or 1.0) for number in numbers]))
    body = struct.pack(f"<f{dimension}h{dimension % 2 * 2}x", scale, *integers)
    words = struct.unpack(f"<{len(body) // 4}I", body)
    total = (sum(map(mul, words, _weight_numbers(len(words)))) + _FACTOR) & _WORD_MASK
    return struct.pack("<Q", total or 1) + body


def _sum_words(records: Array) -> Array:
    import numpy as np

    words = (
        np.ascontiguousarray(records).view("<u4").reshape(len(records), records.dtype.itemsize // 4)[:, _HEADER_WORDS:]
    )
    # Words of 4 bytes: with 8, flips of the highest bit in an even number of words would cancel out.
    sums = np.einsum("ij,j->i", words, _weights(words.shape[1])) + np.uint64(_FACTOR)
    return np.where(sums == 0, np.uint64(1), sums)


@lru_cache(maxsize=8)
def _weights(count: int) -> Array:
    import numpy as np

    return np.array(_weight_numbers(count), dtype=np.uint64)


def _weight_numbers(count: int) -> list[int]:
    numbers = [place * _FACTOR & _WORD_MASK for place in range(1, count + 1)]
    return [(number ^ (number >> 29)) * _OTHER_FACTOR & _WORD_MASK | 1 for number in numbers]


def sum_labels(*labels: Array) -> Array:
    """Return one checksum per line of integers in several arrays; never 0, nor that of a removed line."""
    import numpy as np

    total = np.zeros(len(labels[0]), dtype=np.uint64)
    for place, values in enumerate(labels):
        words = np.asarray(values).astype("<u8", copy=False)
        factor = np.uint64((_FACTOR, _OTHER_FACTOR)[place % 2] + 2 * place)
        total += (words ^ (words >> np.uint64(32))) * factor
    return np.where(total <= REMOVED_SUM, total + np.uint64(2), total)


def query_array(vector: Vector) -> Array:
    """Return a query's numbers. Raise ModelFault unless they are finite."""
    import numpy as np

    query = np.frombuffer(vector, dtype="<f4")
    if not np.isfinite(query).all():
        raise ModelFault(
            "the query's vector contains NaN or infinity", hint="this is a fault of the model; try another"
        )
    return query


LineEntry = tuple[int, str, int]
"""Row, project and slot of a line of the dense lane."""


def project_hash(project: str) -> bytes:
    """Return the 8 bytes that are stored for each line of this project."""
    return blake2b(project.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def line_bytes(entries: Sequence[LineEntry]) -> tuple[bytes, bytes, bytes, bytes]:
    """Return rows, projects, slots and checksums of lines as the lane's files have them."""
    if needs_numpy(len(entries)):
        rows, projects, slots, sums = encode_lines(entries)
        return rows.tobytes(), projects.tobytes(), slots.tobytes(), sums.tobytes()
    lines = [
        (row.to_bytes(8, "little"), project_hash(project), slot.to_bytes(4, "little"), _sum_label(row, project, slot))
        for row, project, slot in entries
    ]
    first, second, third, fourth = map(b"".join, zip(*lines, strict=True))
    return first, second, third, fourth


def _sum_label(row: int, project: str, slot: int) -> bytes:
    """Return the checksum of one line, as `sum_labels` does."""
    total = 0
    for place, word in enumerate((row, int.from_bytes(project_hash(project), "little"), slot)):
        total += (word ^ (word >> 32)) * ((_FACTOR, _OTHER_FACTOR)[place % 2] + 2 * place)
    total &= _WORD_MASK
    return (total if total > REMOVED_SUM else total + 2).to_bytes(8, "little")


def find_lines(path: Path, count: int, rows: Iterable[int]) -> list[int]:
    """Return the lines of some rows among the first `count` lines of a lane's file of rows, without numpy."""
    with path.open("rb") as file:
        content = file.read(count * 8)
    found: list[int] = []
    for row in rows:
        number = row.to_bytes(8, "little")
        place = content.find(number)
        while place >= 0 and place % 8:  # a match across two numbers
            place = content.find(number, place + 1)
        if place >= 0:
            found.append(place // 8)
    return sorted(found)


def encode_lines(entries: Sequence[LineEntry]) -> tuple[Array, Array, Array, Array]:
    """Return rows, projects, slots and checksums of lines."""
    import numpy as np

    marks = {project: project_hash(project) for project in {project for _, project, _ in entries}}
    rows = np.array([row for row, _, _ in entries], dtype="<i8")
    projects = np.frombuffer(b"".join([marks[project] for _, project, _ in entries]), dtype="<u8")
    slots = np.array([slot for _, _, slot in entries], dtype="<u4")
    return rows, projects, slots, sum_labels(rows, projects, slots).astype("<u8")


# -- the table -------------------------------------------------------------------------------------------------------


def open_file(database: sqlite3.Connection, space: VectorSpace | None) -> VectorFile | None:
    """Map a space's records; None if it has none, or if its file is missing or cut (the writer notices)."""
    if space is None or not space.slots:
        return None
    with suppress(OSError, ValueError):
        return VectorFile(folder_of(database) / space.file, space.dimension, space.slots)
    return None


def read_vectors(database: sqlite3.Connection, space: VectorSpace | None, slots: Sequence[int]) -> list[Vector | None]:
    """Return vectors as float32; None for one that is damaged."""
    file = open_file(database, space)
    if file is None or not slots:
        return [None] * len(slots)
    import numpy as np

    records = file.take(np.array(slots, dtype=np.int64))
    bad, lines = damaged_records(records), floats(records, file.dimension)
    return [None if damaged else line.tobytes() for damaged, line in zip(bad.tolist(), lines, strict=True)]


def add_vectors(database: sqlite3.Connection, space: VectorSpace, vectors: Mapping[str, Vector]) -> None:
    """Store vectors that the space does not have. The caller has started a transaction."""
    known = {
        key
        for part in batches(vectors)
        for (key,) in database.execute(
            f"SELECT key FROM vectors WHERE space = ? AND key IN ({placeholders(part)})", (space.id, *part)
        )
    }
    new = [key for key in vectors if key not in known]
    if not new:
        return
    name = space.file or os.urandom(4).hex() + _SUFFIX
    records = encode_records([vectors[key] for key in new])
    offset, is_synced = space.slots * record_bytes(space.dimension), len(new) >= _MIN_SYNCED_RECORDS
    time = _append(folder_of(database) / name, offset, [records], durable=is_synced)
    database.executemany(
        "INSERT INTO vectors (space, key, slot) VALUES (?, ?, ?)",
        sorted((space.id, key, slot) for slot, key in enumerate(new, space.slots)),
    )
    database.execute(
        "UPDATE spaces SET file = ?, slots = ?, file_time = ?, vectors = vectors + ? WHERE id = ?",
        (name, space.slots + len(new), time, len(new), space.id),
    )


def _append(path: Path, offset: int, parts: Iterable[bytes], *, durable: bool = True) -> int:
    """Write records from an offset on; return the time of the file."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b") as file:
        file.seek(offset)
        file.truncate()
        for records in parts:
            file.write(records)
        file.flush()
        if durable:
            os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_mtime_ns


def remove_vectors(database: sqlite3.Connection, condition: str, values: Sequence[object]) -> int:
    """Overwrite and delete the vectors that match an SQL condition; return their number. The caller has started a transaction.

    The bytes go first: after a crash in between, the table names empty records of vectors that no chunk uses.
    """
    removed = database.execute(f"SELECT space, key, slot FROM vectors WHERE {condition}", values).fetchall()
    for space in [VectorSpace(*row) for row in database.execute(f"SELECT {_SPACE_COLUMNS} FROM spaces")]:
        slots = [slot for owner, _, slot in removed if owner == space.id]
        database.execute("UPDATE spaces SET vectors = vectors - ? WHERE id = ?", (len(slots), space.id))
        path = folder_of(database) / space.file
        if not slots or not path.is_file():
            continue
        size = record_bytes(space.dimension)
        with path.open("r+b", buffering=0) as file:
            for slot in slots:
                os.pwrite(file.fileno(), bytes(size), slot * size)
            os.fsync(file.fileno())
            time = os.fstat(file.fileno()).st_mtime_ns
        database.execute("UPDATE spaces SET file_time = ? WHERE id = ?", (time, space.id))
    database.executemany("DELETE FROM vectors WHERE space = ? AND key = ?", [row[:2] for row in removed])
    return len(removed)


def is_as_written(database: sqlite3.Connection, space: VectorSpace) -> bool:
    """Return whether a space's file has the length and the time of the last write."""
    if not space.slots:
        return True
    try:
        status = (folder_of(database) / space.file).stat()
    except OSError:
        return False
    size = space.slots * record_bytes(space.dimension)
    return status.st_size >= size and status.st_mtime_ns == space.file_time


def find_damage(database: sqlite3.Connection, space: VectorSpace | None) -> list[str]:
    """Check every record; return the keys of vectors that are not as written."""
    if space is None or not space.slots:
        return []
    import numpy as np

    entries = database.execute("SELECT slot, key FROM vectors WHERE space = ? ORDER BY slot", (space.id,)).fetchall()
    path, size = folder_of(database) / space.file, record_bytes(space.dimension)
    present = min(space.slots, path.stat().st_size // size if path.is_file() else 0)
    bad = {slot for slot, _ in entries if slot >= present}
    if present:
        slots = np.array([slot for slot, _ in entries if slot < present], dtype=np.int64)
        bad.update(VectorFile(path, space.dimension, present).find_damaged(slots).tolist())
    return [key for slot, key in entries if slot in bad]


def drop_damaged(database: sqlite3.Connection, space: VectorSpace) -> int:
    """Take damaged vectors out of the table, so that the next index run makes them again; return their number.

    The caller has started a transaction. The file counts as checked.
    """
    keys = find_damage(database, space)
    for part in batches(keys):
        marks = placeholders(part)
        remove_vectors(database, f"space = ? AND key IN ({marks})", (space.id, *part))
        if database.execute("SELECT value FROM facts WHERE name = 'space'").fetchone() == (space.name,):
            database.execute(f"UPDATE chunks SET embedded = 0 WHERE vector_key IN ({marks})", part)
    path = folder_of(database) / space.file
    if not path.is_file():
        database.execute("UPDATE spaces SET file = '', slots = 0, file_time = 0 WHERE id = ?", (space.id,))
    else:
        size = space.slots * record_bytes(space.dimension)
        if path.stat().st_size < size:
            os.truncate(path, size)  # zeros are removed records
        database.execute("UPDATE spaces SET file_time = ? WHERE id = ?", (path.stat().st_mtime_ns, space.id))
    return len(keys)


def compact(database: sqlite3.Connection, space: VectorSpace | None) -> bool:
    """Copy a space's vectors to a new file if many of its records are removed; return whether that was so.

    The caller has started a transaction, and afterwards lets the lanes follow and calls `delete_unused_files`.
    """
    file = open_file(database, space)
    if space is None or file is None:
        return False
    entries = database.execute("SELECT key, slot FROM vectors WHERE space = ? ORDER BY slot", (space.id,)).fetchall()
    dead = space.slots - len(entries)
    if dead <= max(_MIN_DEAD_RECORDS, _MAX_DEAD_SHARE * space.slots):
        return False
    import numpy as np

    slots = np.array([slot for _, slot in entries], dtype=np.int64)
    name = os.urandom(4).hex() + _SUFFIX
    time = _append(folder_of(database) / name, 0, (file.take(slots[part]).tobytes() for part in blocks(len(slots))))
    database.executemany(
        "UPDATE vectors SET slot = ? WHERE space = ? AND key = ?",
        [(slot, space.id, key) for slot, (key, _) in enumerate(entries)],
    )
    database.execute(
        "UPDATE spaces SET file = ?, slots = ?, file_time = ? WHERE id = ?",
        (name if entries else "", len(entries), time if entries else 0, space.id),
    )
    return True


def delete_unused_files(database: sqlite3.Connection) -> None:
    """Delete vector files that no space names; readers keep those that they have mapped."""
    used = {name for (name,) in database.execute("SELECT file FROM spaces")}
    for path in folder_of(database).glob(f"*{_SUFFIX}"):
        if path.name not in used:
            path.unlink(missing_ok=True)
