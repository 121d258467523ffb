"""What can be done with a memory once it is written: put another in its place, give it days, judge it, find those that say
the same, fold an episode together. Nothing here rewrites a journal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from lorelog.core.document import GLOBAL, StoredChunk
from lorelog.core.errors import UsageError
from lorelog.core.memory import (
    AddReply,
    EpisodeReply,
    ExpiryReply,
    FeedbackReply,
    NewMemory,
    SupersedeReply,
    TwinsReply,
)
from lorelog.core.ports import Store
from lorelog.core.query import Filters
from lorelog.services.consolidate import Episode, belongs_to, find_episode, sum_up
from lorelog.services.delete import find_memory, get
from lorelog.services.evaluate import Judged, judged_by_feedback
from lorelog.services.fates import Days, Fates, records_of
from lorelog.services.near import NearOptions, find_near
from lorelog.services.place import Place
from lorelog.services.tombstones import Tombstones


class Add(Protocol):
    """Writes memories to the journal of the project, or to the global one."""

    def __call__(self, memories: Sequence[NewMemory], *, to_global: bool) -> Sequence[AddReply]:
        """Return where each stands."""
        ...


class Scoped(Protocol):
    """Narrows filters to the projects that are seen from here."""

    def __call__(self, filters: Filters, *, all_projects: bool) -> Filters:
        """Return the filters with these projects."""
        ...


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """The verbs on memories that are there already, for one tenant and as seen from one project."""

    store: Store
    place: Place
    fates: Fates
    tombstones: Tombstones
    add: Add
    scoped: Scoped

    def supersede(self, identity: str, memory: NewMemory) -> SupersedeReply:
        """Write a memory that stands in the place of another, which is hidden from now on; its text stays in its file.

        What is not said of the new one is taken from the old one. Deleting the new one takes it back.
        """
        stored = find_memory(identity, self.store)
        old = self._own_id(stored, "superseded")
        successor = self.fates.of(stored).superseded_by
        if successor:
            raise UsageError(f"{old} is superseded already, by {successor}", hint=f"supersede {successor}")
        if stored.project not in (self.place.project.id, GLOBAL):
            raise UsageError(
                f"{old} belongs to {stored.project}, and what is noted there supersedes it",
                hint=f"stand in that project: --project {stored.project}",
            )
        chunk = stored.chunk
        memory = replace(memory, type=memory.type or chunk.type, tags=memory.tags or chunk.tags, supersedes=(old,))
        return SupersedeReply(old, self.add([memory], to_global=stored.project == GLOBAL)[0])

    def set_expiry(self, identity: str, expires: str | None, review_after: str | None) -> ExpiryReply:
        """Say until when a memory is shown and from when on it should be looked at: None leaves it, empty takes it back."""
        if expires is None and review_after is None:
            raise UsageError("neither expires nor review_after is given", hint="give a day, or null to clear it")
        stored = find_memory(identity, self.store)
        memory = self._own_id(stored, "given days")
        before = self.fates.of(stored)
        said = Days(memory, expires, review_after)
        wanted = said.over(Days(memory, before.expires, before.review_after))
        changed = (wanted.expires, wanted.review_after) != (before.expires, before.review_after)
        if changed:
            records_of(self.place.tenant_folder).calendar.say(said)
        return ExpiryReply(memory, wanted.expires or "", wanted.review_after or "", changed=changed)

    def judge(self, query: str, identity: str, relevance: str) -> FeedbackReply:
        """Write down whether a memory answers a question."""
        if not query.strip():
            raise UsageError("which question? It is empty", hint="give the words that were searched for")
        stored = find_memory(identity, self.store)
        said, changed = records_of(self.place.tenant_folder).feedback.say(query, stored, relevance)
        return FeedbackReply(stored.id, said.memory, said.query, relevance, changed=changed)

    def judged(self) -> Judged:
        """Return what people have said about answers, to be measured by."""
        return judged_by_feedback(records_of(self.place.tenant_folder).feedback)

    def near(self, options: NearOptions, *, all_projects: bool = False) -> TwinsReply:
        """Find memories that say nearly the same."""
        filters = self.scoped(options.filters, all_projects=all_projects)
        return find_near(self.store, self.fates, replace(options, filters=filters))

    def consolidate(self, episode_id: str, *, most: int = 50, retain: bool = True) -> EpisodeReply:
        """Write one memory that sums an episode up, unless the same was summed up before."""
        seen = self.scoped(Filters(), all_projects=False)
        episode = find_episode(episode_id, self.store, seen, self.fates, most)
        project = belongs_to(episode, self.place.project.id)
        memory = sum_up(episode, retain=retain, project=project)
        known = get(memory.id, self.store, self.tombstones)
        if known.deleted_at:
            raise UsageError(
                f"the summary of this episode was deleted on {known.deleted_at[:10]}",
                hint=f"'lorelog restore {memory.id}' brings it back",
            )
        summary = _stands(known.memory) if known.memory else self.add([memory], to_global=project == GLOBAL)[0]
        return EpisodeReply(
            summary=summary,
            sources=tuple(_name(one) for one in episode.sources),
            retained=retain,
            changed=known.memory is None,
            notes=tuple(_notes(episode, project, retain=retain)),
        )

    def _own_id(self, stored: StoredChunk, what: str) -> str:
        anchor = stored.chunk.anchor
        if self.fates.is_record(stored):
            raise UsageError(
                f"{stored.id} is a record, which only records can speak about",
                hint="'lorelog decide … --supersedes ID' or artifact.revision says what holds now",
            )
        if anchor is None or not anchor.memory:
            place = f"{stored.chunk.source}:{stored.chunk.start_line}"
            raise UsageError(
                f"{place} has no id of its own, so it cannot be {what}",
                hint="edit the file, or give the section an id: a line <!-- memory:NAME --> under its heading",
            )
        return anchor.memory


def _stands(stored: StoredChunk) -> AddReply:
    chunk = stored.chunk
    memory = chunk.anchor.memory if chunk.anchor else ""
    return AddReply(memory, stored.id, chunk.source, chunk.start_line, chunk.end_line, searchable=True)


def _name(stored: StoredChunk) -> str:
    return (stored.chunk.anchor.memory if stored.chunk.anchor else "") or stored.id


def _notes(episode: Episode, project: str, *, retain: bool) -> list[str]:
    notes = []
    if episode.left_out:
        notes.append(f"{episode.left_out:,} older memories of the episode are not in it")
    shown = [
        one for one in episode.sources if one.project != project or not (one.chunk.anchor and one.chunk.anchor.memory)
    ]
    if shown and not retain:
        notes.append(f"{len(shown):,} of its sources are still shown: they have no id, or belong to no project")
    return notes
