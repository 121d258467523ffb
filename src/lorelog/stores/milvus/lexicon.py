"""What BM25 must know of the words here: how many chunks hold each, and how often each chunk holds which.

Milvus reckons rarity by segment, shard or collection, and tells it to nobody. So it proposes, and scores are worked out
here, from the same numbers whatever Milvus it is: the ranking is that of every other store.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import TypeVar

from lorelog.core.locking import choose_wal
from lorelog.core.ports import SHORT, Analyser
from lorelog.core.query import Candidate, Term
from lorelog.stores.embedded import log
from lorelog.stores.embedded.connection import transaction
from lorelog.stores.embedded.faults import translating
from lorelog.stores.milvus.bm25 import Statistics, gain

_FORMAT = "1"
_A_TIME = 500

_Value = TypeVar("_Value", int, str)

_BUSY_S = 10.0
_SCHEMA = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE words (word TEXT PRIMARY KEY, holds INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE bags (row INTEGER PRIMARY KEY, project TEXT NOT NULL, length INTEGER NOT NULL, bag BLOB NOT NULL)",
)


class Lexicon:
    """The words of one index, in a file of its own beside the catalog. It is made anew where it cannot follow."""

    def __init__(self, path: Path, analyser: Analyser) -> None:
        self._path = path
        self._analyser = analyser
        self._turn = RLock()
        self._reader: tuple[int, sqlite3.Connection] | None = None

    def close(self) -> None:
        """Let go of the file. May be called twice."""
        with self._turn:
            if self._reader is not None:
                self._reader[1].close()
                self._reader = None

    def forget(self) -> None:
        """Delete it."""
        self.close()
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)

    # -- reading -----------------------------------------------------------------------------------------------------

    def applied(self, database: sqlite3.Connection) -> int | None:
        """Return how far it has followed, or None when it must be made anew."""
        with self._reading() as words:
            facts = dict(words.execute("SELECT name, value FROM facts")) if words else {}
        if facts.get("format") != _FORMAT or facts.get("analyser") != self._analyser.version:
            return None
        applied = int(facts.get("applied", -1))
        return applied if applied >= 0 and log.follows(database, applied) else None

    def statistics(self, words: Sequence[str]) -> Statistics:
        """Return what BM25 must know to weigh these words."""
        with self._reading() as database:
            if database is None:
                return Statistics()
            count, total = self._sizes(database)
            held = self._holding(database, words)
        return Statistics(count, total, {word: held.get(_sound(word), 0) for word in words})

    def vocabulary(self, least: int) -> Iterator[tuple[str, int]]:
        """Yield each word that at least so many chunks hold, and how many do."""
        with self._reading() as database:
            if database is not None:
                yield from database.execute("SELECT word, holds FROM words WHERE holds >= ?", (least,)).fetchall()

    def scored(self, terms: Sequence[Term], rows: Sequence[int], known: Statistics) -> list[Candidate]:
        """Return those of these rows that hold any of the terms, best BM25 first."""
        with self._reading() as database:
            bags = list(self._bags(database, rows)) if database is not None else []
        names = [f"\n{term.text} ".encode("utf-8", "surrogatepass") for term in terms]
        weights = list(zip(names, known.weights(terms), strict=True))
        scored = [
            Candidate(row, score)
            for row, length, bag in bags
            if (score := _score(bag, max(length, SHORT) / known.average, weights)) > 0.0
        ]
        return sorted(scored, key=lambda one: (-one.score, int(one.key)))

    def bags(self, rows: Sequence[int]) -> dict[int, tuple[list[tuple[str, int]], int]]:
        """Return how often each row holds which word, and how many words it has."""
        with self._reading() as database:
            found = list(self._bags(database, rows)) if database else []
        return {row: (_read(bag), length) for row, length, bag in found}

    def projects(self, rows: Sequence[int]) -> dict[int, str]:
        """Return the project of each of these rows, as far as they are known."""
        found: dict[int, str] = {}
        with self._reading() as database:
            for part in _parts(rows) if database else ():
                asked = f"SELECT row, project FROM bags WHERE row IN ({_marks(part)})"
                found.update(database.execute(asked, part) if database else ())
        return found

    # -- following ---------------------------------------------------------------------------------------------------

    def add(self, database: sqlite3.Connection, rows: Sequence[int]) -> None:
        """Take up the words of those of these rows that it does not have."""
        with self._writing() as words:
            for part in _parts(rows):
                known = {row for (row,) in words.execute(f"SELECT row FROM bags WHERE row IN ({_marks(part)})", part)}
                fresh = [row for row in part if row not in known]
                if not fresh:
                    continue
                texts = database.execute(
                    f"SELECT row, project, context, coalesce(text, content) FROM chunks WHERE row IN ({_marks(fresh)})",
                    fresh,
                ).fetchall()
                with transaction(words):
                    self._enter(words, texts)

    def remove(self, rows: Sequence[int]) -> None:
        """Drop the words of these rows."""
        with self._writing() as words:
            for part in _parts(rows):
                with transaction(words):
                    gone = list(self._bags(words, part))
                    held = Counter(_sound(word) for _, _, bag in gone for word, _ in _read(bag))
                    less = [(many, word) for word, many in held.items()]
                    words.executemany("UPDATE words SET holds = holds - ? WHERE word = ?", less)
                    words.executemany("DELETE FROM words WHERE word = ? AND holds <= 0", [(word,) for word in held])
                    words.execute(f"DELETE FROM bags WHERE row IN ({_marks(part)})", part)
                    self._grow(words, -len(gone), -sum(max(length, SHORT) for _, length, _ in gone))

    def followed(self, applied: int) -> None:
        """Note how far it has followed."""
        with self._writing() as words, transaction(words):
            self._state(words, "applied", str(applied))

    def begin(self) -> None:
        """Begin anew, with nothing in it."""
        with self._writing() as words, transaction(words):
            for table in ("facts", "words", "bags"):
                words.execute(f"DELETE FROM {table}")
            self._state(words, "format", _FORMAT)
            self._state(words, "analyser", self._analyser.version)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _enter(self, words: sqlite3.Connection, texts: Iterable[tuple[int, str, str, str]]) -> None:
        held: Counter[str] = Counter()
        entries, total = [], 0
        for row, project, context, text in texts:
            found = self._analyser.words(f"{context}\n{text}" if context else text)
            bag = Counter(found)
            held.update({_sound(word) for word in bag})
            total += max(len(found), SHORT)
            entries.append((row, project, len(found), _written(bag)))
        words.executemany("INSERT INTO bags (row, project, length, bag) VALUES (?, ?, ?, ?)", entries)
        words.executemany(
            "INSERT INTO words VALUES (?, ?) ON CONFLICT DO UPDATE SET holds = holds + excluded.holds",
            list(held.items()),
        )
        self._grow(words, len(entries), total)

    def _grow(self, words: sqlite3.Connection, count: int, total: int) -> None:
        known = self._sizes(words)
        self._state(words, "count", str(known[0] + count))
        self._state(words, "total", str(known[1] + total))

    def _sizes(self, words: sqlite3.Connection) -> tuple[int, int]:
        facts = dict(words.execute("SELECT name, value FROM facts WHERE name IN ('count', 'total')"))
        return int(facts.get("count", 0)), int(facts.get("total", 0))

    def _state(self, words: sqlite3.Connection, name: str, value: str) -> None:
        words.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def _holding(self, database: sqlite3.Connection, words: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for part in _parts([_sound(word) for word in words]):
            found.update(database.execute(f"SELECT word, holds FROM words WHERE word IN ({_marks(part)})", part))
        return found

    def _bags(self, database: sqlite3.Connection, rows: Sequence[int]) -> Iterator[tuple[int, int, bytes]]:
        for part in _parts(rows):
            asked = f"SELECT row, length, bag FROM bags WHERE row IN ({_marks(part)})"
            yield from database.execute(asked, part).fetchall()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """Give the file, opened anew where another process has put another in its place; None when there is none."""
        with self._turn, translating(self._path):
            try:
                inode = self._path.stat().st_ino
            except FileNotFoundError:
                self.close()
                yield None
                return
            if self._reader is None or self._reader[0] != inode:
                self.close()
                self._reader = (inode, _connect(self._path))
            yield self._reader[1] if _is_founded(self._reader[1]) else None

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._turn, translating(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._reading() as known:
                if known is not None:
                    yield known
                    return
            database = _connect(self._path)
            self._path.chmod(0o600)
            self.close()
            self._reader = (self._path.stat().st_ino, database)
            choose_wal(database, _BUSY_S)
            with transaction(database):
                for statement in _SCHEMA:
                    database.execute(statement)
            yield database


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=_BUSY_S)
    database.execute("PRAGMA synchronous = NORMAL")
    return database


def _is_founded(database: sqlite3.Connection) -> bool:
    return bool(database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'bags'").fetchone()[0])


def _score(bag: bytes, length: float, weights: Sequence[tuple[bytes, float]]) -> float:
    score = 0.0
    for name, weight in weights:
        place = bag.find(name)
        if place >= 0:
            start = place + len(name)
            count = int(bag[start : bag.index(b"\n", start)])
            score += weight * gain(count, length)
    return score


def _written(bag: Counter[str]) -> bytes:
    """Return words and counts as lines, each after a line feed: a word is found by looking for it, without reading the rest."""
    lines = "".join(f"\n{word} {count}" for word, count in bag.items())
    return f"{lines}\n".encode("utf-8", "surrogatepass")


def _read(bag: bytes) -> list[tuple[str, int]]:
    lines = bag.decode("utf-8", "surrogatepass").strip("\n").split("\n")
    parted = [line.rpartition(" ") for line in lines if line]
    return [(word, int(count)) for word, _, count in parted]


def _sound(word: str) -> str:
    """Return a word as SQLite takes it: no half of a character."""
    return word.encode("utf-8", "replace").decode()


def _parts(values: Sequence[_Value]) -> Iterator[list[_Value]]:
    for start in range(0, len(values), _A_TIME):
        yield list(values[start : start + _A_TIME])


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
