"""The tables of code.db.

Names are kept once and meant by number. A symbol's number is its file's number with its place in the file behind it, so that
the symbols of a file lie together, and deleting a file's is deleting a range; imports likewise. Uses of one name in one file are
one row, packed (`packing`): a row for each would be several times as large as the source. They lie by name, since that is how they
are asked for, and the file's own row knows which names to take out when it changes.
"""

from __future__ import annotations

VERSION = 1
APPLICATION_ID = 0x6C6F7263  # "lorc"
PLACES = 1 << 20
"""How many symbols, and how many imports, a file may have."""
BETWEEN = "\x1f"
"""Stands between the bases of a class."""
SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE roots (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, project TEXT NOT NULL, parts TEXT NOT NULL,
    indexed_at TEXT NOT NULL, head TEXT NOT NULL
);
CREATE TABLE files (
    id INTEGER PRIMARY KEY, root INTEGER NOT NULL, path TEXT NOT NULL, language TEXT NOT NULL,
    size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL, digest TEXT NOT NULL, recipe TEXT NOT NULL,
    lines INTEGER NOT NULL, broken INTEGER NOT NULL, symbols INTEGER NOT NULL, problem TEXT NOT NULL, used BLOB NOT NULL
);
CREATE UNIQUE INDEX files_by_path ON files (root, path);
CREATE INDEX files_by_digest ON files (digest) WHERE digest <> '';
CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, defined INTEGER NOT NULL DEFAULT 0);
CREATE INDEX names_defined ON names (defined, name) WHERE defined = 1;
CREATE TABLE symbols (
    id INTEGER PRIMARY KEY, name INTEGER NOT NULL, root INTEGER NOT NULL, kind TEXT NOT NULL,
    start_line INTEGER NOT NULL, start_column INTEGER NOT NULL, end_line INTEGER NOT NULL, end_column INTEGER NOT NULL,
    name_line INTEGER NOT NULL, name_column INTEGER NOT NULL, signature TEXT NOT NULL, docstring TEXT NOT NULL,
    visibility TEXT NOT NULL, container TEXT NOT NULL, bases TEXT NOT NULL, digest TEXT NOT NULL
);
CREATE INDEX symbols_by_name ON symbols (name, root);
CREATE INDEX symbols_by_digest ON symbols (digest, root) WHERE digest <> '';
CREATE TABLE bases (
    symbol INTEGER NOT NULL, name INTEGER NOT NULL, root INTEGER NOT NULL, PRIMARY KEY (symbol, name)
) WITHOUT ROWID;
CREATE INDEX bases_by_name ON bases (name, root);
CREATE TABLE uses (
    name INTEGER NOT NULL, root INTEGER NOT NULL, file INTEGER NOT NULL, packed BLOB NOT NULL,
    PRIMARY KEY (name, root, file)
) WITHOUT ROWID;
CREATE TABLE imports (
    id INTEGER PRIMARY KEY, module INTEGER NOT NULL, name INTEGER NOT NULL, root INTEGER NOT NULL, tail INTEGER NOT NULL,
    alias TEXT NOT NULL, line INTEGER NOT NULL, column INTEGER NOT NULL
);
CREATE INDEX imports_by_module ON imports (module, root);
CREATE INDEX imports_by_tail ON imports (tail, root);
CREATE INDEX imports_by_name ON imports (name, root);
"""
