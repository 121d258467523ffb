"""What is seen from a project: memories and their tags, records, and what a text costs to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from lorelog.core.document import StoredChunk
from lorelog.core.memory import ListReply
from lorelog.core.paths import is_below
from lorelog.core.ports import Store
from lorelog.core.query import Filters
from lorelog.services.records.archive import Archive
from lorelog.services.records.projection import records_folder

HOT = "ctx:tier:hot"
SUBSYSTEM, FILE, TRIGGER, AGENT = "ctx:subsystem:", "ctx:file:", "ctx:trigger:", "ctx:agent:"
MARK = "ctx:"
"""What all tags begin with that say how a memory is to be used; the words are memd's."""
_SPARE = 50
"""So many more than wanted are looked at, because records are passed over."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What the verbs on context need."""

    store: Store
    listing: Callable[..., ListReply]
    """The engine's own: memories, newest first, without those that are superseded or have expired."""
    archive: Archive
    count_tokens: Callable[[str], int]
    """Counts with the built-in tokenizer; may raise ModelUnavailable."""
    projects: tuple[str, ...] | None
    """Projects that are looked at; None for all."""

    @property
    def filters(self) -> Filters:
        """What is of these projects."""
        return Filters(projects=self.projects)

    def newest(self, limit: int, *tags: str) -> list[StoredChunk]:
        """Return memories that bear all of these tags, newest first; what is made of records is none."""
        found = self._listed(replace(self.filters, tags=tags), limit + _SPARE)
        records = str(records_folder(self.archive.place.tenant_folder))
        return [one for one in found if not is_below(one.chunk.source, records)][:limit]

    def remembered(self, limit: int) -> list[StoredChunk]:
        """Return what stands in the journals of this project and of none, newest first. Records are newer, mostly."""
        place = self.archive.place
        found = [
            one
            for journals in (place.journals, place.global_journals)
            for one in self._listed(replace(self.filters, source_prefix=str(journals)), limit)
        ]
        return sorted(found, key=lambda one: (one.chunk.date, one.chunk.start_line), reverse=True)[:limit]

    def _listed(self, filters: Filters, limit: int) -> Sequence[StoredChunk]:
        return self.listing(filters, limit=limit, all_projects=True).memories


def values_of(tags: Iterable[str], prefix: str) -> list[str]:
    """Return what the tags say that begin so, in order, each once."""
    return list(dict.fromkeys(tag[len(prefix) :] for tag in tags if tag.startswith(prefix) and len(tag) > len(prefix)))
