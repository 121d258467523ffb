"""The source of the files that hooks read: one tenant's memories, and a stamp of everything that the files depend on.

The stamp makes an unnecessary refresh cheap: `memories` is not imported then. It is made of the memories' own marks, so that an index run that changed other documents only leaves the files alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from msgspec import Struct

from lorelog.core.document import ChunkKey
from lorelog.core.ids import blake2b
from lorelog.core.ports import Store
from lorelog.services.memory_state.authored import AuthoredMemories
from lorelog.services.memory_state.lifecycle_index import LifecycleIndex
from lorelog.services.places.workspace import RECORD_PAGES, Workspace

FORMAT = "10"
"""Increase this when the same memories give other files."""
MAX_MEMORIES = 20_000
Verdicts = Mapping[str, str]
"""Freshness by memory id."""
MemoryMarks = Sequence[tuple[ChunkKey, str]]
"""Chunks that begin a memory, and what changes with each; see `Store.authored_marks`."""


class DeliverySource(Struct, frozen=True, kw_only=True):
    """Where standing memories come from: one tenant's index and the files beside it."""

    store: Store
    workspace: Workspace
    lifecycle: LifecycleIndex
    authored: AuthoredMemories
    today: date

    @property
    def folder(self) -> Path:
        """Folder of the derived files."""
        return self.workspace.cache_folder / "delivery"

    @property
    def stamp_file(self) -> Path:
        """File with the stamp under which the files were written."""
        return self.folder / "stamp"

    @property
    def record_pages(self) -> str:
        """Folder of the pages of records, which are not memories."""
        return os.path.realpath(self.workspace.cache_folder / RECORD_PAGES)

    def read_marks(self) -> MemoryMarks:
        """Return the marks of the memories that may be delivered, newest first."""
        return self.store.authored_marks(MAX_MEMORIES, outside=self.record_pages)

    def stamp_of(self, marks: MemoryMarks) -> str:
        """Return what changes with everything that the files depend on, except the code and the log of deliveries."""
        memories = repr((marks, self.store.supersessions())).encode("utf-8", "surrogatepass")
        digest = blake2b(memories, digest_size=8).hexdigest()
        return f"{FORMAT} {digest} {self.lifecycle.token} {self.authored.token} {self.today.isoformat()}"

    def is_current(self, marks: MemoryMarks) -> bool:
        """Return True if the files were written for these marks."""
        try:
            return self.stamp_file.read_text("utf-8") == self.stamp_of(marks)
        except (OSError, ValueError):
            return False
