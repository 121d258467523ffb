"""Write a small catalog in the current schema. Run once when a schema is released, and commit the result.

python -m tests.compat.make_database
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from pathlib import Path

from tests.stores.making import update, vector
from tests.stores.test_embedded import open_store

from lorelog.stores.embedded.migrations import SCHEMA_VERSION


def main() -> None:
    released = Path(__file__).with_name(f"catalog_v{SCHEMA_VERSION}.db")
    released.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(Path(folder))
        with store.writer() as writer:
            writer.put([update("/a.md", ["compat alpha"]), update("/b.md", ["compat beta"])])
            writer.put_vectors({pending.vector_key: vector(1, len(pending.text)) for pending in store.pending(10)})
        database = sqlite3.connect(Path(folder) / "index" / "catalog.db")
        database.execute("VACUUM INTO ?", (str(released),))
        database.close()
        vectors = released.with_name(f"vectors_v{SCHEMA_VERSION}")
        shutil.rmtree(vectors, ignore_errors=True)
        shutil.copytree(Path(folder) / "index" / "vectors", vectors)


if __name__ == "__main__":
    main()
