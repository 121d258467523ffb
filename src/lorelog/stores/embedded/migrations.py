"""The catalog's schema as named steps, applied in order, each in one transaction with its version number.

A released step is never edited; a change is a new step.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

APPLICATION_ID = 0x6C6F7265  # "lore"

Migration = Callable[[sqlite3.Connection], None]


def first_schema(database: sqlite3.Connection) -> None:
    """Create all tables.

    A search must not scan a million chunks. Triggers maintain the number of chunks of each project and the tags of each
    chunk. The columns that filters use are in one index, because the chunk rows themselves are long: scanning a million of
    them took seconds. Few anchors have a session, supersede a memory or cover others, and every search asks for them. It also asks for
    the surroundings of its candidates: a row of `chunks` is a kilobyte, one of `places` is twenty bytes. Counting 5,000
    documents and 100,000 vectors for `stats` took 0.1 s each time.
    """
    place = "new.row, new.document, new.ordinal, coalesce(length(new.text), length(new.content) - new.cut_end + new.cut_start), new.starts_entry"
    tags = "SELECT value, new.row, new.project, new.piece FROM json_each(new.tags)"
    for statement in (
        "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        """CREATE TABLE documents (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            source TEXT NOT NULL UNIQUE,
            live INTEGER NOT NULL,      -- 0 until the first version's chunks have reached the lanes
            root TEXT NOT NULL,
            project TEXT NOT NULL,
            size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL,
            file_hash TEXT NOT NULL,
            title TEXT NOT NULL,
            date TEXT NOT NULL,
            indexed_at TEXT NOT NULL,
            recipe TEXT NOT NULL,       -- version of the chunker
            chunk_count INTEGER NOT NULL,
            date_source TEXT NOT NULL)""",
        "CREATE INDEX documents_project ON documents (project, chunk_count) WHERE live",
        """CREATE TABLE chunks (
            row INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: the lanes know chunks by it
            document INTEGER NOT NULL REFERENCES documents (id),
            live INTEGER NOT NULL,      -- 0 while staged: in the lanes already, not yet visible
            embedded INTEGER NOT NULL,  -- the current model has a vector for it
            project TEXT NOT NULL,      -- of this version; while staged the document may still have another
            ordinal INTEGER NOT NULL,
            id TEXT NOT NULL,
            memory TEXT NOT NULL,       -- the anchor's memory id, '' if none
            piece INTEGER NOT NULL,     -- 0 begins its section
            heading TEXT NOT NULL, heading_level INTEGER NOT NULL, heading_path TEXT NOT NULL,
            start_line INTEGER NOT NULL, end_line INTEGER NOT NULL,
            content TEXT NOT NULL, content_hash TEXT NOT NULL,
            text TEXT,                  -- NULL when it is the content without the characters from cut_start to cut_end
            cut_start INTEGER NOT NULL, cut_end INTEGER NOT NULL,
            context TEXT NOT NULL,
            date TEXT NOT NULL, type TEXT NOT NULL, tags TEXT NOT NULL, anchor TEXT,
            vector_key TEXT NOT NULL,
            lane_key TEXT NOT NULL,     -- equal keys mean equal entries in the lanes
            date_source TEXT NOT NULL,
            starts_entry INTEGER NOT NULL)""",
        "CREATE UNIQUE INDEX chunks_id ON chunks (id) WHERE live",
        "CREATE INDEX chunks_document ON chunks (document, ordinal)",
        "CREATE INDEX chunks_vector_key ON chunks (vector_key)",
        "CREATE INDEX chunks_project ON chunks (project, row) WHERE live",
        "CREATE INDEX chunks_date ON chunks (date DESC) WHERE live AND piece = 0",
        "CREATE INDEX chunks_memory ON chunks (memory) WHERE memory <> ''",
        "CREATE INDEX chunks_unembedded ON chunks (vector_key, row) WHERE live AND NOT embedded",
        "CREATE INDEX chunks_staged ON chunks (row) WHERE NOT live",
        "CREATE INDEX chunks_filters ON chunks (date, type, project, tags, live) WHERE live",
        """CREATE INDEX chunks_session ON chunks (json_extract(anchor, '$.session'))
            WHERE live AND piece = 0 AND anchor IS NOT NULL""",
        """CREATE INDEX chunks_superseding ON chunks (date)
            WHERE live AND piece = 0 AND json_extract(anchor, '$.supersedes') IS NOT NULL""",
        """CREATE INDEX chunks_covering ON chunks (date)
            WHERE live AND piece = 0 AND json_extract(anchor, '$.covers') IS NOT NULL""",
        "CREATE INDEX chunks_content ON chunks (content_hash) WHERE live",
        """CREATE TABLE spaces (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,  -- provider/model: vectors of two models never meet
            dimension INTEGER NOT NULL,
            file TEXT NOT NULL DEFAULT '', slots INTEGER NOT NULL DEFAULT 0, file_time INTEGER NOT NULL DEFAULT 0,
            vectors INTEGER NOT NULL DEFAULT 0)""",
        """CREATE TABLE vectors (
            space INTEGER NOT NULL REFERENCES spaces (id),
            key TEXT NOT NULL,
            slot INTEGER NOT NULL,      -- its record in the file of the space
            released_at INTEGER,        -- since when no chunk uses it
            PRIMARY KEY (space, key)) WITHOUT ROWID""",
        "CREATE TABLE changes (seq INTEGER PRIMARY KEY AUTOINCREMENT, row INTEGER NOT NULL, kind TEXT NOT NULL)",
        """CREATE TABLE tallies (
            project TEXT PRIMARY KEY,
            chunks INTEGER NOT NULL,    -- live ones
            waiting INTEGER NOT NULL    -- of those, without a vector of the current model
            ) WITHOUT ROWID""",
        """CREATE TRIGGER chunk_comes AFTER INSERT ON chunks WHEN new.live BEGIN
            INSERT INTO tallies VALUES (new.project, 1, NOT new.embedded)
            ON CONFLICT DO UPDATE SET chunks = chunks + 1, waiting = waiting + excluded.waiting; END""",
        """CREATE TRIGGER chunk_goes AFTER DELETE ON chunks WHEN old.live BEGIN
            UPDATE tallies SET chunks = chunks - 1, waiting = waiting - NOT old.embedded
            WHERE project = old.project; END""",
        """CREATE TRIGGER chunk_changes AFTER UPDATE ON chunks
            WHEN new.live <> old.live OR new.embedded <> old.embedded OR new.project <> old.project BEGIN
            UPDATE tallies SET chunks = chunks - old.live, waiting = waiting - (old.live AND NOT old.embedded)
            WHERE project = old.project;
            INSERT INTO tallies SELECT new.project, new.live, new.live AND NOT new.embedded WHERE true
            ON CONFLICT DO UPDATE SET chunks = chunks + excluded.chunks, waiting = waiting + excluded.waiting; END""",
        """CREATE TABLE tagged (
            tag TEXT NOT NULL, row INTEGER NOT NULL, project TEXT NOT NULL, piece INTEGER NOT NULL,
            PRIMARY KEY (tag, row)) WITHOUT ROWID""",
        "CREATE INDEX tagged_row ON tagged (row)",
        f"""CREATE TRIGGER tags_come AFTER INSERT ON chunks WHEN new.live AND new.tags <> '[]' BEGIN
            INSERT OR IGNORE INTO tagged {tags}; END""",
        """CREATE TRIGGER tags_go AFTER DELETE ON chunks WHEN old.live AND old.tags <> '[]' BEGIN
            DELETE FROM tagged WHERE row = old.row; END""",
        f"""CREATE TRIGGER tags_change AFTER UPDATE OF live, tags, project, piece ON chunks
            WHEN (new.live <> old.live OR new.tags <> old.tags OR new.project <> old.project OR new.piece <> old.piece)
            AND (new.tags <> '[]' OR old.tags <> '[]') BEGIN
            DELETE FROM tagged WHERE row = old.row;
            INSERT OR IGNORE INTO tagged {tags} WHERE new.live; END""",
        """CREATE TABLE places (
            row INTEGER PRIMARY KEY,
            document INTEGER NOT NULL, ordinal INTEGER NOT NULL,
            length INTEGER NOT NULL,    -- characters of its text
            starts INTEGER NOT NULL)    -- 1 begins an entry""",
        "CREATE INDEX places_order ON places (document, ordinal, starts)",
        f"""CREATE TRIGGER place_comes AFTER INSERT ON chunks WHEN new.live BEGIN
            INSERT OR REPLACE INTO places VALUES ({place}); END""",
        "CREATE TRIGGER place_goes AFTER DELETE ON chunks WHEN old.live BEGIN DELETE FROM places WHERE row = old.row; END",
        f"""CREATE TRIGGER place_is_set AFTER UPDATE OF live ON chunks WHEN new.live AND NOT old.live BEGIN
            INSERT OR REPLACE INTO places VALUES ({place}); END""",
        """CREATE TRIGGER place_changes AFTER UPDATE OF ordinal, document, starts_entry ON chunks
            WHEN new.live AND old.live AND (new.ordinal <> old.ordinal OR new.document <> old.document
                OR new.starts_entry <> old.starts_entry) BEGIN
            UPDATE places SET document = new.document, ordinal = new.ordinal, starts = new.starts_entry
            WHERE row = new.row; END""",
        "CREATE TABLE document_counts (project TEXT PRIMARY KEY, documents INTEGER NOT NULL) WITHOUT ROWID",
        """CREATE TRIGGER document_comes AFTER INSERT ON documents WHEN new.live BEGIN
            INSERT INTO document_counts VALUES (new.project, 1) ON CONFLICT DO UPDATE SET documents = documents + 1; END""",
        """CREATE TRIGGER document_goes AFTER DELETE ON documents WHEN old.live BEGIN
            UPDATE document_counts SET documents = documents - 1 WHERE project = old.project; END""",
        """CREATE TRIGGER document_changes AFTER UPDATE OF live, project ON documents
            WHEN new.live <> old.live OR new.project <> old.project BEGIN
            UPDATE document_counts SET documents = documents - old.live WHERE project = old.project;
            INSERT INTO document_counts VALUES (new.project, new.live)
            ON CONFLICT DO UPDATE SET documents = documents + excluded.documents; END""",
    ):
        database.execute(statement)


MIGRATIONS: tuple[Migration, ...] = (first_schema,)
FIRST_VERSION = 5
"""Version of the first schema; those before were never released, and such a catalog is rebuilt from its files."""
SCHEMA_VERSION = FIRST_VERSION + len(MIGRATIONS) - 1
