"""memsearch's class over `Lorelog`. The tests look into a store of their own: it is kept equal to lorelog's index."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lorelog import Lorelog


def get_provider(*_: object) -> None:
    """Replaced by tests; the shim embeds with lorelog's fake."""


class MemSearch:
    _paths: Sequence[str]
    _store: Any
    _ignore_files: Sequence[str] = ()
    _exclude: Sequence[str] = ()

    @property
    def _ours(self) -> Lorelog:
        if "_lorelog" not in self.__dict__:
            home = tempfile.mkdtemp(prefix="compat-")
            project = Path(home, "project")
            project.mkdir()
            settings: dict[str, object] = {
                "embedding.provider": "fake",
                "index.auto_memory": False,
                "watch.debounce_ms": 50,
            }
            self._home = home
            self._lorelog = Lorelog(project, home=Path(home, "home"), settings=settings, daemon="off")
        return self._lorelog

    async def index(self) -> int:
        ignored, patterns = list(self._ignore_files), list(self._exclude)
        self._ours.index(list(self._paths), ignore_files=ignored, exclude=patterns)
        return self._mirror()

    async def index_file(self, path: str | Path) -> int:
        self._ours.index(path)
        return self._mirror()

    def watch(self, debounce_ms: int = 1500) -> Any:
        return self._ours.watch(list(self._paths), on_event=lambda _: self._mirror())

    def _mirror(self) -> int:
        """Let the test's store have what lorelog's index has; return how many chunks."""
        documents = self._ours.list(documents=True, limit=1000, all_projects=True).documents
        sources = {document.source for document in documents}
        for source in set(getattr(self._store, "indexed_sources", set)()) - sources:
            self._store.delete_by_source(source)
        count = 0
        for source in sources:
            for memory in self._ours.list(source=source, limit=1000, all_projects=True).memories:
                record = {"chunk_hash": memory.id, "source": source, "content": memory.chunk.content}
                count += self._store.upsert([record])
        return count
