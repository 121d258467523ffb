"""Decides whether the files that hooks read are up to date, and lets `standing` write them if they are not.

`Engine.refresh_delivery` is the one place that calls this module: after every operation that changes memories, and in the
daemon's background work, which also checks the memories against the code. A stamp of everything the files depend on
makes an unnecessary call cheap: `standing` and the modules that read memories for it are not imported then. It is made of the
memories' own marks, so that an index run that changed other documents only leaves the files alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path

from msgspec import Struct

from lorelog.core.digests import blake2b
from lorelog.core.document import ChunkKey, StoredChunk
from lorelog.core.ports import Store
from lorelog.services.delivery.files import project_key
from lorelog.services.memory_state.authored import AuthoredMemories
from lorelog.services.memory_state.lifecycle_index import LifecycleIndex
from lorelog.services.places.workspace import RECORD_PAGES, Workspace

FORMAT = "5"
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
        """Folder of the pages of records, which are no memories."""
        return os.path.realpath(self.workspace.cache_folder / RECORD_PAGES)

    def read_marks(self) -> MemoryMarks:
        """Return the marks of the memories that may be delivered, newest first."""
        return self.store.authored_marks(MAX_MEMORIES, outside=self.record_pages)

    def stamp_of(self, marks: MemoryMarks) -> str:
        """Return what changes with everything that the files depend on, except the code and the log of deliveries."""
        memories = repr((marks, self.store.supersessions())).encode("utf-8", "surrogatepass")
        digest = blake2b(memories, digest_size=8).hexdigest()
        return f"{FORMAT} {digest} {self.lifecycle.token} {self.authored.token} {self.today.isoformat()}"

    def write_own_entries(self, project: str, folders: Sequence[str]) -> bool:
        """Write the list of own journal entries of a project; return True if it changed."""
        from lorelog.services.delivery.own_entries import write_own_entries

        file = self.folder / f"{project_key(project)}.own"
        return bool(project) and write_own_entries(file, project, folders, self.authored)


def write_delivery_files(
    source: DeliverySource, check: Callable[[Sequence[StoredChunk]], Verdicts] | None = None
) -> bool:
    """Bring the files of all projects of a tenant up to date; return True if any changed.

    `check` returns the freshness of the current project's memories; without it the last known one is kept.
    """
    changed = False
    marks = source.read_marks()
    if check is not None or _read_stamp(source.stamp_file) != source.stamp_of(marks):
        from lorelog.services.delivery.standing import write_memories

        changed = write_memories(source, marks, check)
    return source.write_own_entries(source.workspace.project.id, [str(source.workspace.journals)]) or changed


def _read_stamp(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError):
        return ""
