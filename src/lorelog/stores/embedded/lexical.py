"""The lexical lane: a tantivy index of analysed words.

Words are analysed by us and joined by spaces, so tantivy only counts and scores. A lane that is missing, damaged, or was made
by another analyser is rebuilt next to the old one and swapped in by its state file.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lorelog.core.errors import StoreDamaged, StoreError
from lorelog.core.ports import MIN_BM25_WORDS, Analyser
from lorelog.core.query import Candidate, Filters, Term, make_candidates
from lorelog.stores.embedded import change_log
from lorelog.stores.embedded.connection import from_tantivy, translate_errors
from lorelog.stores.embedded.rows import batches, day_number, path_terms, placeholders, tantivy_filters

if TYPE_CHECKING:
    import tempfile

    import tantivy

_FORMAT = 2
_HEAP_BYTES = 50_000_000
_ROWS_PER_COMMIT = 20_000

_FILLER = "¤"
"""Pads a short text to the minimum length of BM25; no analyser produces it as a word."""

_ROW_COLUMNS = "c.row, c.content, c.text, c.context, c.date, c.type, c.tags, d.source, c.project"


class LexicalState(Struct, frozen=True):
    """The current folder, and how far it has followed the log."""

    format: int
    analyser: str
    folder: str
    applied: int


class LexicalLane:
    """The lexical lane of an index folder. Readers see what writers of other processes commit."""

    def __init__(self, home: Path, analyser: Analyser) -> None:
        self._home = home
        self._analyser = analyser
        self._state_path = home / "current.json"
        self._open: tuple[LexicalState, tantivy.Index] | None = None
        self._links: tempfile.TemporaryDirectory[str] | None = None
        self._writing: tuple[Path, tantivy.Index, tantivy.IndexWriter] | None = None
        """The open writer of a folder, until `finish`. The store's writer lock is held as long as there is one."""

    def close(self) -> None:
        self._open = None
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

    def search(self, terms: Sequence[Term], filters: Filters, limit: int) -> list[Candidate]:
        """Return rows that contain any of the terms, best BM25 first."""
        index = self._reader()
        if index is None or not terms or limit < 1:
            return []
        import tantivy

        query, schema = tantivy.Query, index.schema
        # One flat union of terms of one field, which tantivy can prune block by block (block-max WAND).
        should = []
        for term in terms:
            found = query.term_query(schema, "body", term.text)
            should.append(
                (tantivy.Occur.Should, found if term.weight == 1.0 else query.boost_query(found, term.weight))
            )
        whole = query.boolean_query(should)
        clauses = tantivy_filters(filters, schema)
        if clauses:
            must = [(tantivy.Occur.Must, query.const_score_query(clause, 0.0)) for clause in clauses]
            whole = query.boolean_query([(tantivy.Occur.Must, whole), *must])
        with self._translate_errors():
            searcher = index.searcher()
            if not searcher.num_docs:
                return []
            hits = searcher.search(whole, min(limit, searcher.num_docs), count=False).hits
            rows = searcher.fast_field_values("row", [address for _, address in hits])
        scores = [score for (score, _), row in zip(hits, rows, strict=True) if row]
        return make_candidates([int(row) for row in rows if row], scores)

    def rarity(self, words: Sequence[str]) -> dict[str, float]:
        """Return BM25's weight of each word, by tantivy's formula."""
        index = self._reader()
        if index is None or not words:
            return dict.fromkeys(words, 0.0)
        with self._translate_errors():
            searcher = index.searcher()
            total = searcher.num_docs
            counts = {word: searcher.doc_freq("body", word) for word in dict.fromkeys(words)}
        return {word: math.log1p((total - min(count, total) + 0.5) / (count + 0.5)) for word, count in counts.items()}

    def catch_up(self, database: sqlite3.Connection) -> int:
        applied = self.applied(database)
        if applied is None:
            return self._rebuild(database)
        changes = change_log.changes_after(database, applied)
        if changes.head == applied:
            return applied
        state = change_log.read_state(self._state_path, LexicalState)
        assert state is not None
        if changes.added or changes.removed:  # vectors do not concern this lane
            folder = self._home / state.folder
            try:
                with self._translate_errors():
                    self._write(folder, self._documents(database, changes.added), changes.added + changes.removed)
            except StoreDamaged:
                return self._rebuild(database)
        return self._save(state.folder, changes.head)

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
                self._write(folder, self._documents(database, rows), ())
            self._save(folder.name, last)
        except BaseException:
            with suppress(StoreError):
                self.finish()
            shutil.rmtree(folder, ignore_errors=True)
            raise
        for old in self._home.glob("words-*"):
            if old.name != folder.name:
                shutil.rmtree(old, ignore_errors=True)
        return last

    def _save(self, folder: str, applied: int) -> int:
        with translate_errors(self._state_path):
            change_log.write_state(self._state_path, LexicalState(_FORMAT, self._analyser.version, folder, applied))
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

    def _write(self, folder: Path, documents: Iterable[tantivy.Document], deleted_rows: Sequence[int]) -> None:
        """Commit documents. The writer stays open for the next ones: its merges go on while the catalog is written."""
        import tantivy

        if self._writing is None or self._writing[0] != folder:
            self.finish()
            opened = tantivy.Index(_schema(), str(folder), reuse=True)
            self._writing = (folder, opened, opened.writer(_HEAP_BYTES, 1))
        _, index, writer = self._writing
        try:
            # Rows to be added are deleted first: after a crash the same changes may be applied a second time.
            # By query: delete_documents_by_term takes the number for a signed one and silently deletes nothing.
            if deleted_rows:
                writer.delete_documents_by_query(tantivy.Query.term_set_query(index.schema, "row", list(deleted_rows)))
            for count, document in enumerate(documents, 1):
                writer.add_document(document)
                if count % _ROWS_PER_COMMIT == 0:
                    writer.commit()
            writer.commit()
        except BaseException:
            self.finish()  # without what was not committed
            raise
        _make_private(folder)

    def _documents(self, database: sqlite3.Connection, rows: Sequence[int]) -> Iterator[tantivy.Document]:
        import tantivy

        schema = _schema()
        for part in batches(rows):
            for row in database.execute(
                f"SELECT {_ROW_COLUMNS} FROM chunks c JOIN documents d ON d.id = c.document "
                f"WHERE c.row IN ({placeholders(part)}) ORDER BY c.row",
                part,
            ).fetchall():
                yield tantivy.Document.from_dict(self._fields(row), schema)

    def _fields(self, row: tuple[Any, ...]) -> dict[str, Any]:
        number, content, text, context, date, kind, tags, source, project = row
        text = content if text is None else text
        words = self._analyser.words(f"{context}\n{text}" if context else text)
        return {
            "row": number,
            "body": " ".join(words + [_FILLER] * (MIN_BM25_WORDS - len(words))),
            "project": f"p{project}",  # never empty, so that the global project is a term like the others
            "path": list(path_terms(source)),
            "type": [kind] if kind else [],
            "tag": json.loads(tags),
            "day": day_number(date),
        }

    def _reader(self) -> tantivy.Index | None:
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
                return self._reader()  # the lane was rebuilt and swapped in the meantime
            opened = self._open = (state, index)
        elif opened[0] != state:
            with self._translate_errors():
                opened[1].reload()
            opened = self._open = (state, opened[1])
        return opened[1]

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
