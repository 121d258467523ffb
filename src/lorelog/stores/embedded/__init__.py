"""The embedded store: a SQLite catalog, with a tantivy index and a vector file for search.

SQLite is authoritative. Both search lanes follow its change log by sequence number and can be rebuilt from it at any time, so
a crash between the three is repaired on the next open. `docs/store.md` describes the files.
"""

from lorelog.stores.embedded.store import EmbeddedStore

__all__ = ["EmbeddedStore"]
