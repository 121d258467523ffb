"""The lexical lane: a tantivy index of analysed words.

Words are analysed by us and joined by spaces, so tantivy only counts and scores. A lane that is missing, damaged, or was made
by another analyser is rebuilt next to the old one and swapped in by its state file.

A commit of tantivy syncs fourteen files and starts threads, whatever it writes. So a few new rows stay where they are, in the catalog:
readers follow its change log and score the words of those rows themselves, by the same formula and with the statistics of both
parts, until there are enough of them for a commit.
"""

from __future__ import annotations

import math
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lorelog.core.errors import StoreDamaged, StoreError
from lorelog.core.ports import MIN_BM25_WORDS, Analyser
from lorelog.core.query import Candidate, Filters, Term, make_candidates
from lorelog.core.sqlite_file import batches, placeholders
from lorelog.stores.embedded import change_log
from lorelog.stores.embedded.connection import from_tantivy, translate_errors
from lorelog.stores.embedded.rows import day_number, path_terms, read_text, read_texts, sql_conditions, tantivy_filters

if TYPE_CHECKING:
    import tempfile

    import tantivy

    from lorelog.stores.embedded.catalog_reader import CatalogReader

_FORMAT = 3
_HEAP_BYTES = 50_000_000
_ROWS_PER_COMMIT = 20_000
_MAX_FRESH_ROWS = 64
"""Rows that wait for a commit. A process that starts analyses them before its first search."""
_MAX_FRESH_CHANGES = 1_000
_K1, _B = 1.2, 0.75
"""Parameters of BM25 in tantivy."""
_MIN_SHARE = 20
"""If the files have so many times the fresh rows, their statistics are those of both."""

_FILLER = "¤"
"""Pads a short text to the minimum length of BM25; no analyser produces it as a word."""

_ROW_COLUMNS = (
    "c.row, c.context, c.content, c.text, c.cut_start, c.cut_end, c.date, c.type, c.tags, d.source, c.project"
)


class LexicalState(Struct, frozen=True):
    """The current folder, and how far it has followed the log."""

    format: int
    analyser: str
    folder: str
    applied: int
    rows: int = 0
    words: int = 0
    """Numbers of rows and of words written to the folder, removed ones included."""


class FreshRows(Struct, frozen=True):
    """What the change log has beyond the files of a state."""

    state: LexicalState
    revision: str
    """The catalog's."""
    words: Mapping[int, tuple[Mapping[str, int], int]]
    """The words of each new row with their counts, and the number of all."""
    removed: frozenset[int]

    def score(self, terms: Sequence[Term], admitted: Iterable[int], rarity: Mapping[str, float]) -> dict[int, float]:
        """Return BM25 of the rows that contain any of the terms, as tantivy would if they were in its files."""
        rows, words = self.state.rows, self.state.words
        if not rows:
            rows, words = len(self.words), sum(length for _, length in self.words.values())
        scores: dict[int, float] = {}
        for row in admitted:
            counts, length = self.words[row]
            found = [(term.weight * rarity[term.text], counts[term.text]) for term in terms if term.text in counts]
            if found:
                norm = _K1 * (1 - _B + _B * _stored_length(length) * rows / words)
                scores[row] = (1 + _K1) * sum(weight * count / (count + norm) for weight, count in found)
        return scores


def _stored_length(words: int) -> int:
    """Return a length as tantivy stores it in one byte, for texts of at least 24 words: rounded down to four bits."""
    shift = max(0, (words - 24).bit_length() - 4)
    return 24 + ((words - 24) >> shift << shift)


class LexicalLane:
    """The lexical lane of an index folder. Readers see what writers of other processes commit."""

    def __init__(self, home: Path, analyser: Analyser) -> None:
        self._home = home
        self._analyser = analyser
        self._state_path = home / "current.json"
        self._open: tuple[LexicalState, tantivy.Index] | None = None
        self._fresh: FreshRows | None = None
        self._links: tempfile.TemporaryDirectory[str] | None = None
        self._writing: tuple[Path, tantivy.Index, tantivy.IndexWriter] | None = None
        """The open writer of a folder, until `finish`. The store's writer lock is held as long as there is one."""

    def close(self) -> None:
        self._open = self._fresh = None
        if self._links is not None:
            self._links.cleanup()
            self._links = None

    def forget_others(self) -> None:
        """Do nothing: words do not depend on a model."""

    def revision(self) -> str:
        return change_log.state_token(self._state_path)

    def applied(self, database: sqlite3.Connection) -> int | None:
        state = change_log.read_state(self._state_path, LexicalState)
        if state is None or state.format != _FORMAT or state.analyser != self._analyser.version:
            return None
        if not change_log.can_follow(database, state.applied) or not (self._home / state.folder / "meta.json").exists():
            return None
        return state.applied

    def search(self, catalog: CatalogReader, terms: Sequence[Term], filters: Filters, limit: int) -> list[Candidate]:
        """Return rows that contain any of the terms, best BM25 first."""
        opened = self._reader(catalog)
        if opened is None or not terms or limit < 1:
            return []
        import tantivy

        index, fresh = opened
        query, schema = tantivy.Query, index.schema
        with self._translate_errors():
            searcher = index.searcher()
            is_small = searcher.num_docs < _MIN_SHARE * len(fresh.words)
            named = [
                term.text for term in terms if is_small or any(term.text in has for has, _ in fresh.words.values())
            ]
            own, both = _rarities(searcher, fresh, named)
        # One flat union of terms of one field, which tantivy can prune block by block (block-max WAND).
        should = []
        for term in terms:
            found = query.term_query(schema, "body", term.text)
            weight = term.weight * (both[term.text] / own[term.text] if is_small else 1.0)
            boosted = found if weight == 1.0 else query.boost_query(found, weight)
            should.append((tantivy.Occur.Should, boosted))
        whole = query.boolean_query(should)
        clauses = tantivy_filters(filters, schema)
        if clauses:
            must = [(tantivy.Occur.Must, query.const_score_query(clause, 0.0)) for clause in clauses]
            whole = query.boolean_query([(tantivy.Occur.Must, whole), *must])
        scores: dict[int, float] = {}
        with self._translate_errors():
            if searcher.num_docs:
                most = min(limit + len(fresh.removed), searcher.num_docs)
                hits = searcher.search(whole, most, count=False).hits
                rows = searcher.fast_field_values("row", [address for _, address in hits])
                scores = {int(row): score for (score, _), row in zip(hits, rows, strict=True) if row}
        if fresh.words or fresh.removed:
            for row in fresh.removed & scores.keys():
                del scores[row]
            scores |= fresh.score(terms, _admitted_rows(catalog.database, fresh, filters), both)
            scores = dict(sorted(scores.items(), key=lambda item: -item[1])[:limit])
        return make_candidates(scores, scores.values())

    def rarity(self, catalog: CatalogReader, words: Sequence[str]) -> dict[str, float]:
        """Return BM25's weight of each word, by tantivy's formula."""
        opened = self._reader(catalog)
        if opened is None or not words:
            return dict.fromkeys(words, 0.0)
        with self._translate_errors():
            return _rarities(opened[0].searcher(), opened[1], words)[1]

    def catch_up(self, database: sqlite3.Connection) -> int:
        applied = self.applied(database)
        if applied is None:
            return self._rebuild(database)
        changes = change_log.changes_after(database, applied)
        count = len(changes.added) + len(changes.removed)
        if count <= _MAX_FRESH_ROWS and changes.head - applied <= _MAX_FRESH_CHANGES:
            return applied  # readers follow the log
        state = change_log.read_state(self._state_path, LexicalState)
        assert state is not None
        written = (0, 0)
        if count:  # vectors do not concern this lane
            try:
                with self._translate_errors():
                    written = self._write(
                        self._home / state.folder,
                        self._fields(database, changes.added),
                        changes.added + changes.removed,
                    )
            except StoreDamaged:
                return self._rebuild(database)
        return self._save(state.folder, changes.head, state.rows + written[0], state.words + written[1])

    def forget(self) -> None:
        self.close()
        self._state_path.unlink(missing_ok=True)

    def purge(self, database: sqlite3.Connection) -> None:
        """Rebuild the lane: tantivy marks a document as deleted, and its words stay in the segment until that is merged."""
        self.close()
        self._rebuild(database)

    def _rebuild(self, database: sqlite3.Connection) -> int:
        import shutil

        last = change_log.last_sequence(database)
        folder = self._home / f"words-{os.urandom(4).hex()}"
        with translate_errors(folder):
            self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.mkdir(mode=0o700)
        try:
            rows = [row for (row,) in database.execute("SELECT row FROM chunks ORDER BY row")]
            with self._translate_errors():
                written = self._write(folder, self._fields(database, rows), ())
            self._save(folder.name, last, *written)
        except BaseException:
            with suppress(StoreError):
                self.finish()
            shutil.rmtree(folder, ignore_errors=True)
            raise
        for old in self._home.glob("words-*"):
            if old.name != folder.name:
                shutil.rmtree(old, ignore_errors=True)
        return last

    def _save(self, folder: str, applied: int, rows: int, words: int) -> int:
        state = LexicalState(_FORMAT, self._analyser.version, folder, applied, rows, words)
        with translate_errors(self._state_path):
            change_log.write_state(self._state_path, state)
        return applied

    def finish(self) -> None:
        """Wait for background merges and free tantivy's directory lock. The caller still holds the writer lock."""
        if self._writing is not None:
            folder, _, writer = self._writing
            self._writing = None
            with self._translate_errors():
                writer.wait_merging_threads()
            with suppress(FileNotFoundError):  # deleted in the meantime; the next search or write rebuilds it
                _make_private(folder)

    def _write(self, folder: Path, documents: Iterable[dict[str, Any]], deleted_rows: Sequence[int]) -> tuple[int, int]:
        """Commit documents, given by their fields; return the number of them and of their words.

        The writer stays open for the next ones: its merges go on while the catalog is written.
        """
        import tantivy

        if self._writing is None or self._writing[0] != folder:
            self.finish()
            opened = tantivy.Index(_schema(), str(folder), reuse=True)
            self._writing = (folder, opened, opened.writer(_HEAP_BYTES, 1))
        _, index, writer = self._writing
        count = words = 0
        try:
            # Rows to be added are deleted first: after a crash the same changes may be applied a second time.
            # By query: delete_documents_by_term takes the number for a signed one and silently deletes nothing.
            if deleted_rows:
                writer.delete_documents_by_query(tantivy.Query.term_set_query(index.schema, "row", list(deleted_rows)))
            for count, fields in enumerate(documents, 1):
                words += fields["body"].count(" ") + 1
                writer.add_document(tantivy.Document.from_dict(fields, index.schema))
                if count % _ROWS_PER_COMMIT == 0:
                    writer.commit()
            writer.commit()
        except BaseException:
            self.finish()  # without what was not committed
            raise
        _make_private(folder)
        return count, words

    def _fields(self, database: sqlite3.Connection, rows: Sequence[int]) -> Iterator[dict[str, Any]]:
        """Yield the fields of rows that are still in the catalog."""
        for part in batches(rows):
            for number, context, *texts, date, kind, tags, source, project in database.execute(
                f"SELECT {_ROW_COLUMNS} FROM chunks c JOIN documents d ON d.id = c.document "
                f"WHERE c.row IN ({placeholders(part)}) ORDER BY c.row",
                part,
            ).fetchall():
                text = read_text(*texts)
                words = self._analyser.words(f"{context}\n{text}" if context else text)
                yield {
                    "row": number,
                    "body": " ".join(words + [_FILLER] * (MIN_BM25_WORDS - len(words))),
                    "project": f"p{project}",  # never empty, so that the global project is a term like the others
                    "path": list(path_terms(source)),
                    "type": [kind] if kind else [],
                    "tag": list(read_texts(tags)),
                    "day": day_number(date),
                }

    def _reader(self, catalog: CatalogReader) -> tuple[tantivy.Index, FreshRows] | None:
        state = change_log.read_state(self._state_path, LexicalState)
        if state is None:
            return None
        opened = self._open  # another thread may close the lane or open it anew
        if opened is None or opened[0].folder != state.folder:
            try:
                with self._translate_errors():
                    index = self._open_index(self._home / state.folder)
                    index.config_reader("manual")
                    index.reload()
            except StoreDamaged:
                if change_log.read_state(self._state_path, LexicalState) == state:
                    raise
                return self._reader(catalog)  # the lane was rebuilt and swapped in the meantime
            opened = self._open = (state, index)
        elif opened[0] != state:
            with self._translate_errors():
                opened[1].reload()
            opened = self._open = (state, opened[1])
        fresh, revision, database = self._fresh, catalog.fact("revision") or "", catalog.database
        if fresh is None or fresh.state != state or fresh.revision != revision:
            changes = change_log.changes_after(database, state.applied)
            if change_log.read_state(self._state_path, LexicalState) != state:
                return self._reader(catalog)  # a commit may have trimmed the log
            words = {} if fresh is None else {row: fresh.words[row] for row in changes.added if row in fresh.words}
            for fields in self._fields(database, [row for row in changes.added if row not in words]):
                found = fields["body"].split(" ")
                words[fields["row"]] = (dict(Counter(found)), len(found))
            fresh = self._fresh = FreshRows(state, revision, words, frozenset(changes.removed))
        return opened[1], fresh

    def _open_index(self, folder: Path) -> tantivy.Index:
        """Open an index for reading. Tantivy locks even to read, so in a read-only folder it opens symbolic links instead."""
        import tantivy

        if not os.access(folder, os.W_OK):
            import tempfile

            self._links = tempfile.TemporaryDirectory(prefix="lorelog-")
            for file in folder.iterdir():
                if not file.name.endswith(".lock"):
                    (Path(self._links.name) / file.name).symlink_to(file)
            folder = Path(self._links.name)
        return tantivy.Index.open(str(folder))

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, OSError) as error:
            raise from_tantivy(error, self._home) from error


def _rarities(
    searcher: tantivy.Searcher, fresh: FreshRows, words: Sequence[str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return BM25's weight of each word in tantivy's files, and in those together with the fresh rows."""
    total, more = searcher.num_docs, len(fresh.words)
    own, both = {}, {}
    for word in dict.fromkeys(words):
        count = searcher.doc_freq("body", word)
        own[word] = math.log1p((total - min(count, total) + 0.5) / (count + 0.5))
        if count and total >= _MIN_SHARE * more:
            both[word] = own[word]
            continue
        count += sum(word in found for found, _ in fresh.words.values())
        both[word] = math.log1p((total + more - min(count, total + more) + 0.5) / (count + 0.5))
    return own, both


def _admitted_rows(database: sqlite3.Connection, fresh: FreshRows, filters: Filters) -> Iterable[int]:
    """Return the fresh rows that a filter admits."""
    if filters == Filters():
        return fresh.words
    where, values = sql_conditions(filters)
    joined = "JOIN documents d ON d.id = c.document" if filters.source_prefix else ""
    marks = placeholders(fresh.words)
    found = database.execute(
        f"SELECT c.row FROM chunks c {joined} WHERE {where} AND c.row IN ({marks})", (*values, *fresh.words)
    )
    return [row for (row,) in found]


def _make_private(folder: Path) -> None:
    """Take the files of a folder from other users: tantivy creates them with the process's umask.

    Nobody could open them meanwhile, because the folder is private. The umask itself is not changed: it belongs to the whole
    process, which may be writing journals in a project at the same moment.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mode & 0o077:
                    Path(entry.path).chmod(0o600)


def _schema() -> tantivy.Schema:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("row", indexed=True, fast=True)
    builder.add_unsigned_field("day", indexed=True, fast=True)
    builder.add_text_field("body", tokenizer_name="whitespace", index_option="freq")
    for exact in ("project", "path", "type", "tag"):
        builder.add_text_field(exact, tokenizer_name="raw", index_option="basic")
    return builder.build()
