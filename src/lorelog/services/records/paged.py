"""Records as the other verbs meet them: pages among the documents of an index.

Light, because every search comes by: nothing that reads records is loaded where none were ever written.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lorelog.core.document import StoredChunk
from lorelog.core.errors import UsageError
from lorelog.core.options import ChunkOptions, ScanOptions, SearchOptions
from lorelog.core.paths import is_below
from lorelog.core.ports import Store
from lorelog.core.query import Fate, SearchReply
from lorelog.core.record import Trust
from lorelog.services.place import PAGES, Place

if TYPE_CHECKING:
    from lorelog.core.memory import ExpandReply
    from lorelog.services.records.book import Book
    from lorelog.services.records.projection import Projection

_SEARCH_WAITS_S = 1.0
"""A search makes pages of new records for so long at most, some thousand; of an import the rest waits for the daemon, an index
run, or the next search, and a note says so."""

_PATIENCE_S = 10.0
"""Whoever runs an index run waits for others anyway."""


@dataclass(frozen=True, slots=True)
class Paged:
    """The pages of a tenant's records, in the index that holds its memories too."""

    store: Store
    open_book: Callable[[], Book]
    place: Place
    chunking: ChunkOptions

    @property
    def folder(self) -> Path:
        """Where they lie, as the index knows paths."""
        return Path(os.path.realpath(self.place.tenant_folder / PAGES))

    def holds(self, path: str) -> bool:
        """Say whether a path is a page, or a root of pages."""
        return is_below(path, str(self.folder))

    def pages(self) -> Projection | None:
        """Return what keeps them; None where nothing was ever recorded: then nothing is loaded."""
        folder = self.place.tenant_folder
        if not (folder / "ledger.jsonl").exists() and not (folder / PAGES).exists():
            return None
        from lorelog.services.records.projection import Projection

        return Projection(self.open_book(), self.store, self.folder, self.chunking)

    def catch_up(self) -> str:
        """Make pages of what is new, whatever it takes; return what is to be told of it."""
        pages = self.pages()
        return pages.catch_up(patience_s=_PATIENCE_S).note if pages else ""

    def search(self, search: Callable[[SearchOptions], SearchReply], options: SearchOptions) -> SearchReply:
        """Search once the pages are up to date; each hit says what it is worth, and those that are not worth enough go."""
        from lorelog.services.records.grounding import Grounder
        from lorelog.services.sifting import sift

        pages = self.pages()
        grounder = Grounder(self.folder, self.open_book() if pages else None)

        def worth(wanted: SearchOptions) -> SearchReply:
            return sift(lambda asked: grounder.ground(search(asked)), wanted, grounder.keeps(wanted))

        return self.find(worth, options)

    def find(self, search: Callable[[SearchOptions], SearchReply], options: SearchOptions) -> SearchReply:
        """Search once the pages are up to date, and no more."""
        pages = self.pages()
        told = pages.catch_up(_SEARCH_WAITS_S).note if pages else ""
        reply = search(options)
        return replace(reply, notes=(*reply.notes, told)) if told else reply

    def standing(self, stored: StoredChunk) -> tuple[Trust, str]:
        """Return what a chunk is worth; and of a record, which one has taken its place."""
        from lorelog.services.records.grounding import Grounder

        return Grounder(self.folder, self.open_book() if self.pages() else None).standing(stored.chunk)

    def told(self, reply: ExpandReply, *, around: bool) -> ExpandReply:
        """Return a section with what it is worth, and what took its place. `around`: lines beside it are shown, too."""
        trust, newer = self.standing(reply.chunk)
        notes = reply.notes
        if newer:
            notes = (*notes, f"superseded by {newer}")
            reply = replace(reply, fate=Fate(superseded_by=newer))
        if around and self.holds(reply.chunk.chunk.source):
            notes = (*notes, "its worth is told; the lines around it are other records'")
        return replace(reply, trust=trust, notes=notes)

    def left_alone(self, scan: ScanOptions) -> ScanOptions:
        """Return how to scan so that no root that lies around the pages takes them for its own."""
        return replace(scan, exclude_paths=(*scan.exclude_paths, str(self.folder)))

    def check_no_record(self, identity: str) -> None:
        """Raise UsageError for the id of a record: the ledger is only added to, and trust rests on all of it."""
        found = self.store.find(identity.strip()) if identity.strip() else []
        if found and all(self.holds(one.chunk.source) for one in found):
            raise UsageError(
                f"{identity.strip()} is a record, and records are not deleted",
                hint="a revision that replies to it takes its place, and is found in its stead",
            )
