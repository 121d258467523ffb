"""BM25 word statistics of an index, in a local SQLite file, and the scores computed from them.

Milvus computes the rarity of words per segment, shard or collection and does not return it. So Milvus only proposes
candidates; their scores are computed here, from statistics that do not depend on how Milvus stores rows, and the
ranking equals that of the other stores.
"""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import TypeVar

from lorelog.core.dataclasses import dataclass, field
from lorelog.core.ports import MIN_BM25_WORDS, Analyser
from lorelog.core.processes import enable_wal
from lorelog.core.query import Candidate, Term
from lorelog.core.sqlite_file import connect, transaction
from lorelog.stores.embedded import change_log
from lorelog.stores.embedded.connection import rewrite_database, translate_errors

_K1, _B = 1.2, 0.75


@dataclass(frozen=True, slots=True)
class Bm25Statistics:
    """BM25 statistics of a set of chunks; statistics of several machines can be added."""

    count: int = 0
    """Number of chunks."""
    total: int = 0
    """Number of words in all chunks; a shorter chunk counts as `MIN_BM25_WORDS` words."""
    document_counts: Mapping[str, int] = field(default_factory=dict)
    """For each queried word, the number of chunks that contain it."""

    def __add__(self, other: Bm25Statistics) -> Bm25Statistics:
        words = dict.fromkeys([*self.document_counts, *other.document_counts])
        counts = {word: self.document_counts.get(word, 0) + other.document_counts.get(word, 0) for word in words}
        return Bm25Statistics(self.count + other.count, self.total + other.total, counts)

    def at_least(self, observed: Bm25Statistics) -> Bm25Statistics:
        """Return the statistics with no word's count below the observed one, and no fewer chunks than any count."""
        counts = {
            word: max(count, observed.document_counts.get(word, 0)) for word, count in self.document_counts.items()
        }
        chunks = max([self.count, *counts.values()], default=0)
        return Bm25Statistics(chunks, self.total or chunks, counts)

    @property
    def average(self) -> float:
        """Average words per chunk."""
        return self.total / self.count if self.count else 1.0

    def rarity(self, word: str) -> float:
        """Return the weight of a word, higher the fewer chunks contain it."""
        matching = self.document_counts.get(word, 0)
        return math.log1p((self.count - min(matching, self.count) + 0.5) / (matching + 0.5)) if self.count else 0.0

    def weights(self, terms: Sequence[Term]) -> list[float]:
        """Return the weight of each query term."""
        return [term.weight * self.rarity(term.text) for term in terms]


def term_score(count: int, length: float) -> float:
    """Return a word's BM25 factor from its count in a chunk and the chunk's length relative to the average."""
    return (_K1 + 1) * count / (count + _K1 * (1 - _B + _B * length))


_FORMAT = "1"
_ROWS_PER_QUERY = 500

_ValueT = TypeVar("_ValueT", int, str)

_BUSY_TIMEOUT_S = 10.0
_SCHEMA = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE words (word TEXT PRIMARY KEY, holds INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE bags (row INTEGER PRIMARY KEY, project TEXT NOT NULL, length INTEGER NOT NULL, bag BLOB NOT NULL)",
)


class Lexicon:
    """The words of one index, in a file next to the catalog. It is recreated if it cannot follow the log."""

    def __init__(self, path: Path, analyser: Analyser) -> None:
        self._path = path
        self._analyser = analyser
        self._turn = RLock()
        self._reader: tuple[int, sqlite3.Connection] | None = None

    def close(self) -> None:
        with self._turn:
            if self._reader is not None:
                self._reader[1].close()
                self._reader = None

    def forget(self) -> None:
        self.close()
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)

    # -- reading -----------------------------------------------------------------------------------------------------

    def applied(self, database: sqlite3.Connection) -> int | None:
        """Return how far it has followed the log, or None if it must be recreated."""
        with self._open_reader() as words:
            facts = dict(words.execute("SELECT name, value FROM facts")) if words else {}
        if facts.get("format") != _FORMAT or facts.get("analyser") != self._analyser.version:
            return None
        applied = int(facts.get("applied", -1))
        return applied if applied >= 0 and change_log.can_follow(database, applied) else None

    def statistics(self, words: Sequence[str]) -> Bm25Statistics:
        with self._open_reader() as database:
            if database is None:
                return Bm25Statistics()
            count, total = self._sizes(database)
            counts = self._document_counts(database, words)
        return Bm25Statistics(count, total, {word: counts.get(_sanitize_word(word), 0) for word in words})

    def vocabulary(self, min_count: int) -> Iterator[tuple[str, int]]:
        """Yield each word that at least `min_count` chunks contain, with the number of chunks."""
        with self._open_reader() as database:
            if database is not None:
                yield from database.execute("SELECT word, holds FROM words WHERE holds >= ?", (min_count,)).fetchall()

    def rank(self, terms: Sequence[Term], rows: Sequence[int], statistics: Bm25Statistics) -> list[Candidate]:
        """Return those of these rows that contain any of the terms, best BM25 first."""
        with self._open_reader() as database:
            bags = list(self._bags(database, rows)) if database is not None else []
        names = [f"\n{term.text} ".encode("utf-8", "surrogatepass") for term in terms]
        weights = list(zip(names, statistics.weights(terms), strict=True))
        scored = [
            Candidate(row, score)
            for row, length, bag in bags
            if (score := _score(bag, max(length, MIN_BM25_WORDS) / statistics.average, weights)) > 0.0
        ]
        return sorted(scored, key=lambda candidate: (-candidate.score, int(candidate.key)))

    def word_counts(self, rows: Sequence[int]) -> dict[int, tuple[list[tuple[str, int]], int]]:
        """Return each row's words with their counts, and its number of words."""
        with self._open_reader() as database:
            bags = list(self._bags(database, rows)) if database else []
        return {row: (_decode_bag(bag), length) for row, length, bag in bags}

    def projects(self, rows: Sequence[int]) -> dict[int, str]:
        """Return the projects of those of these rows that are known."""
        projects: dict[int, str] = {}
        with self._open_reader() as database:
            for part in _batches(rows) if database else ():
                statement = f"SELECT row, project FROM bags WHERE row IN ({_placeholders(part)})"
                projects.update(database.execute(statement, part) if database else ())
        return projects

    # -- following ---------------------------------------------------------------------------------------------------

    def add(self, database: sqlite3.Connection, rows: Sequence[int]) -> None:
        """Add the words of those of these rows that are missing."""
        with self._open_writer() as words:
            for part in _batches(rows):
                existing = {
                    row for (row,) in words.execute(f"SELECT row FROM bags WHERE row IN ({_placeholders(part)})", part)
                }
                fresh = [row for row in part if row not in existing]
                if not fresh:
                    continue
                texts = database.execute(
                    f"SELECT row, project, context, coalesce(text, content) FROM chunks WHERE row IN ({_placeholders(fresh)})",
                    fresh,
                ).fetchall()
                with transaction(words):
                    self._insert_rows(words, texts)

    def remove(self, rows: Sequence[int]) -> None:
        with self._open_writer() as words:
            for part in _batches(rows):
                with transaction(words):
                    removed = list(self._bags(words, part))
                    counts = Counter(_sanitize_word(word) for _, _, bag in removed for word, _ in _decode_bag(bag))
                    decrements = [(count, word) for word, count in counts.items()]
                    words.executemany("UPDATE words SET holds = holds - ? WHERE word = ?", decrements)
                    words.executemany("DELETE FROM words WHERE word = ? AND holds <= 0", [(word,) for word in counts])
                    words.execute(f"DELETE FROM bags WHERE row IN ({_placeholders(part)})", part)
                    length = sum(max(length, MIN_BM25_WORDS) for _, length, _ in removed)
                    self._update_counts(words, -len(removed), -length)

    def set_applied(self, applied: int) -> None:
        with self._open_writer() as words, transaction(words):
            self._set_fact(words, "applied", str(applied))

    def purge(self) -> None:
        """Rewrite the file, so that no words of removed rows are left in it."""
        with self._open_writer() as words, translate_errors(self._path):
            rewrite_database(words)

    def recreate(self) -> None:
        """Delete all content and start over."""
        with self._open_writer() as words, transaction(words):
            for table in ("facts", "words", "bags"):
                words.execute(f"DELETE FROM {table}")
            self._set_fact(words, "format", _FORMAT)
            self._set_fact(words, "analyser", self._analyser.version)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _insert_rows(self, words: sqlite3.Connection, texts: Iterable[tuple[int, str, str, str]]) -> None:
        counts: Counter[str] = Counter()
        entries, total = [], 0
        for row, project, context, text in texts:
            analysed = self._analyser.words(f"{context}\n{text}" if context else text)
            bag = Counter(analysed)
            counts.update({_sanitize_word(word) for word in bag})
            total += max(len(analysed), MIN_BM25_WORDS)
            entries.append((row, project, len(analysed), _encode_bag(bag)))
        words.executemany("INSERT INTO bags (row, project, length, bag) VALUES (?, ?, ?, ?)", entries)
        words.executemany(
            "INSERT INTO words VALUES (?, ?) ON CONFLICT DO UPDATE SET holds = holds + excluded.holds",
            list(counts.items()),
        )
        self._update_counts(words, len(entries), total)

    def _update_counts(self, words: sqlite3.Connection, count: int, total: int) -> None:
        old_count, old_total = self._sizes(words)
        self._set_fact(words, "count", str(old_count + count))
        self._set_fact(words, "total", str(old_total + total))

    def _sizes(self, words: sqlite3.Connection) -> tuple[int, int]:
        facts = dict(words.execute("SELECT name, value FROM facts WHERE name IN ('count', 'total')"))
        return int(facts.get("count", 0)), int(facts.get("total", 0))

    def _set_fact(self, words: sqlite3.Connection, name: str, value: str) -> None:
        words.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def _document_counts(self, database: sqlite3.Connection, words: Sequence[str]) -> dict[str, int]:
        counts: dict[str, int] = {}
        for part in _batches([_sanitize_word(word) for word in words]):
            counts.update(
                database.execute(f"SELECT word, holds FROM words WHERE word IN ({_placeholders(part)})", part)
            )
        return counts

    def _bags(self, database: sqlite3.Connection, rows: Sequence[int]) -> Iterator[tuple[int, int, bytes]]:
        for part in _batches(rows):
            statement = f"SELECT row, length, bag FROM bags WHERE row IN ({_placeholders(part)})"
            yield from database.execute(statement, part).fetchall()

    @contextmanager
    def _open_reader(self) -> Iterator[sqlite3.Connection | None]:
        """Yield the database, reopened if another process has replaced the file, or None if there is none."""
        with self._turn, translate_errors(self._path):
            try:
                inode = self._path.stat().st_ino
            except FileNotFoundError:
                self.close()
                yield None
                return
            if self._reader is None or self._reader[0] != inode:
                self.close()
                self._reader = (inode, _connect(self._path))
            yield self._reader[1] if _has_schema(self._reader[1]) else None

    @contextmanager
    def _open_writer(self) -> Iterator[sqlite3.Connection]:
        with self._turn, translate_errors(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._open_reader() as existing:
                if existing is not None:
                    yield existing
                    return
            database = _connect(self._path)
            self._path.chmod(0o600)
            self.close()
            self._reader = (self._path.stat().st_ino, database)
            enable_wal(database, _BUSY_TIMEOUT_S)
            with transaction(database):
                for statement in _SCHEMA:
                    database.execute(statement)
            yield database


def _connect(path: Path) -> sqlite3.Connection:
    database = connect(path, busy_s=_BUSY_TIMEOUT_S)
    database.execute("PRAGMA synchronous = NORMAL")
    return database


def _has_schema(database: sqlite3.Connection) -> bool:
    return bool(database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'bags'").fetchone()[0])


def _score(bag: bytes, length: float, weights: Sequence[tuple[bytes, float]]) -> float:
    score = 0.0
    for name, weight in weights:
        position = bag.find(name)
        if position >= 0:
            start = position + len(name)
            count = int(bag[start : bag.index(b"\n", start)])
            score += weight * term_score(count, length)
    return score


def _encode_bag(bag: Counter[str]) -> bytes:
    """Return words and counts as lines, each after a line feed, so that a word is found without parsing the rest."""
    lines = "".join(f"\n{word} {count}" for word, count in bag.items())
    return f"{lines}\n".encode("utf-8", "surrogatepass")


def _decode_bag(bag: bytes) -> list[tuple[str, int]]:
    lines = bag.decode("utf-8", "surrogatepass").strip("\n").split("\n")
    pairs = [line.rpartition(" ") for line in lines if line]
    return [(word, int(count)) for word, _, count in pairs]


def _sanitize_word(word: str) -> str:
    """Return a word without lone surrogates, which SQLite rejects."""
    return word.encode("utf-8", "replace").decode()


def _batches(values: Sequence[_ValueT]) -> Iterator[list[_ValueT]]:
    for start in range(0, len(values), _ROWS_PER_QUERY):
        yield list(values[start : start + _ROWS_PER_QUERY])


def _placeholders(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
