"""A home, trees of notes and a watcher over them: real files, real events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

from lorelog.core.options import WatchOptions
from lorelog.engine import Engine
from lorelog.services.places.root_selection import IndexTargets
from lorelog.services.watch.watcher import WatchDiscovery, Watcher, WatchPass
from lorelog.wiring import open_engine, resolve_location

PATIENCE_S = 60.0
"""Far longer than anything here takes: a test that waits so long has failed."""
QUICK = WatchOptions(debounce_ms=150, reconcile_s=0)
"""No reconcile after the first one: what is found is found by events."""


def engine_in(directory: str | Path, tenant: str = "default") -> Engine:
    """Open an engine as a person in a directory would."""
    return open_engine(resolve_location(directory=str(directory)), {"scope.tenant": tenant})


def eventually(holds: Callable[[], bool], what: str = "") -> None:
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until, f"not so after {PATIENCE_S:.0f} s: {what or holds}"
        time.sleep(0.02)


class Watch:
    """A watcher over a home; use it as a context manager."""

    def __init__(
        self,
        project: Path,
        options: WatchOptions = QUICK,
        engine_at: Callable[[str, str], AbstractContextManager[Engine]] | None = None,
    ) -> None:
        self.project = project
        self.passes: list[WatchPass] = []
        place = resolve_location(directory=str(project))
        self.survey = WatchDiscovery(place.home, engine_at or (lambda tenant, directory: engine_in(directory, tenant)))
        self.watcher = Watcher(self.survey, options, on_pass=self.passes.append)

    def __enter__(self) -> Self:
        self.watcher.start()
        self.at_rest()
        return self

    def __exit__(self, *_: object) -> None:
        assert self.watcher.stop(PATIENCE_S), "it does not end"

    def at_rest(self) -> None:
        """Wait until the roots are listened to and the first comparison is over."""
        eventually(lambda: self.watcher.state()["reconciled_at"] != "" and not self.watcher.state()["busy"])

    def indexed(self) -> dict[str, str]:
        """Return the indexed files and what is indexed of each."""
        with engine_in(self.project) as engine:
            found = engine.memories().list(documents=True, limit=100_000, all_projects=True)
            texts = engine.memories().list(limit=100_000, all_projects=True).memories
        said: dict[str, list[str]] = {document.source: [] for document in found.documents}
        for text in texts:
            said.setdefault(text.chunk.source, []).append(text.chunk.content)  # written between the two questions
        return {source: "\n".join(sorted(parts)) for source, parts in said.items()}

    def sees(self, *files: tuple[Path, str]) -> None:
        """Wait until exactly these files are indexed, each with its text."""
        wanted = {str(path.resolve()): text for path, text in files}
        eventually(lambda: self.indexed() == wanted, f"{wanted} != {self.indexed()}")


def index(project: Path, *paths: object) -> None:
    with engine_in(project) as engine:
        engine.maintenance().index(IndexTargets(tuple(map(str, paths))) if paths else None)


def tree(top: Path) -> Iterable[Path]:
    return sorted(path for path in top.rglob("*.md") if path.is_file())
