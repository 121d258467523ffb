"""The inbox: memories that wait for a person's word.

What an agent, a tool, an import or a repository says does not count as the user's word. A person decides about it: approved, such a
text is written again as the person's own memory, which supersedes the first one, so both stay in their files and who said what
remains visible. Summaries, and imported text that is not a rule, are only marked as reviewed. Guards have a log of their own, and
so have statements of the user (`services.review`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta

from msgspec import Struct

from lorelog.core.document import Chunk, StoredChunk
from lorelog.core.ports import Store
from lorelog.core.query import Filters
from lorelog.core.record import FOREIGN_ORIGINS, UNTRUSTED_ORIGINS
from lorelog.core.serializable import Serializable
from lorelog.light.delivery_files import STANDING_TYPES
from lorelog.services.memory_state.lifecycle_index import LifecycleIndex
from lorelog.services.places.workspace import TEAM_RULES
from lorelog.services.standing.memories import may_stand, plain_text, read_words
from lorelog.services.standing.ownership import Ownership

RULE, SUMMARY, IMPORT = "rule", "summary", "import"
MAX_SCANNED = 5_000
"""Memories that are looked at, newest first."""
MAX_AGE_DAYS = 30
"""Nobody is asked about older memories."""
_DECIDED_TYPES = (*STANDING_TYPES, SUMMARY)


class InboxItem(Serializable, Struct, frozen=True, kw_only=True):
    """Something that waits for a person's word: a memory, or a guard with its conditions."""

    id: str
    kind: str
    """`statement` of the user; `proposal` of a judge, or of an agent that wants to change a memory; `rule` of an agent; `summary`; `import`: from elsewhere; `guard`;
    `rest`: a rule that nobody broke for long."""
    type: str
    text: str
    """As it would be approved."""
    about: str = ""
    """What a statement in a conversation was about; of a guard and of a rule that rests, what agents did."""
    origin: str = "user"
    date: str
    project: str = ""
    session: str = ""
    source: str = ""
    sessions: int = 1
    """Sessions in which it was said: by a judge's word, or in the very same words."""
    becomes_rule: bool = False
    """True if approving writes it as the person's own rule; False if it is only marked as reviewed."""
    deletes: bool = False
    """True if refusing hides the memory; False if it stays as it is."""
    conditions: str = ""
    """Of a guard, in words."""
    example: str = ""
    """A call that a proposed guard would have hit."""
    action: str = ""
    """Of a guard: `warn` or `block`."""
    before: str = ""
    """Of a rule that was changed outside lorelog: the last wording, which stands until it is approved, or again if it is refused."""


class Inbox(Struct, frozen=True, kw_only=True):
    """The memories of a tenant that wait, seen from one project."""

    store: Store
    ownership: Ownership
    lifecycle: LifecycleIndex
    edited: Mapping[str, str]
    """Last wordings of the rules that were changed outside lorelog, by id."""

    def items(self, projects: tuple[str, ...] | None, today: date) -> list[InboxItem]:
        """Return what waits, newest first; None stands for all projects."""
        since = (today - timedelta(days=MAX_AGE_DAYS)).isoformat()
        memories = self.store.authored_chunks(Filters(projects=projects, since=since), MAX_SCANNED)
        changed = [stored for memory in self.edited for stored in self.store.find(memory)]
        team = [
            stored
            for stored in self.ownership.team_rules(self.store)  # however old: everybody is asked once
            if self._may_wait(stored) and (projects is None or stored.project in projects)
        ]
        found = {stored.key: stored for stored in (*filter(self._may_wait, memories), *changed, *team)}
        for stored in team:  # by words, because everybody who exports a rule has an id of their own for it
            if self.ownership.repeats_own(plain_text(read_words(stored.chunk)[0])):
                del found[stored.key]
        return [item for item in map(self.item_of, found.values()) if item is not None]

    def _may_wait(self, stored: StoredChunk) -> bool:
        """Return False for most memories, without looking them up."""
        chunk, anchor = stored.chunk, stored.chunk.anchor
        if anchor is None or not (chunk.type in _DECIDED_TYPES or anchor.origin in UNTRUSTED_ORIGINS):
            return False
        return self.lifecycle.is_shown(stored) and not self.lifecycle.is_reviewed(anchor.memory)

    def item_of(self, stored: StoredChunk) -> InboxItem | None:
        """Return the item of a memory; None if it needs no decision."""
        shown, chunk = self.ownership.with_shown_anchor(stored, self.store), stored.chunk
        before = self.edited.get(chunk.memory, "")
        words, about = read_words(chunk)
        words = words.strip().removeprefix("- " if about or "\n" not in words.strip() else "")
        about = "it stands in the team's rules" if chunk.source.endswith(f"/{TEAM_RULES}") else about
        kind = RULE if before else _kind_of(shown.chunk)
        if not chunk.memory or stored.machine or chunk.piece or not kind or not words:
            return None
        asked = f"it was changed in your editor or by a repository: is it still yours? Until then this stands: {before}"
        return InboxItem(
            id=chunk.memory,
            kind=kind,
            type=chunk.type,
            text=words,
            about=asked if before else about,
            origin=shown.chunk.anchor.origin if shown.chunk.anchor else "",
            date=chunk.date,
            project=stored.project,
            session=chunk.anchor.session if chunk.anchor else "",
            source=f"{chunk.source}:{chunk.start_line}",
            becomes_rule=kind == RULE or (kind == IMPORT and chunk.type in STANDING_TYPES),
            deletes=not before,
            before=before,
        )


def _kind_of(chunk: Chunk) -> str:
    origin = chunk.anchor.origin if chunk.anchor else ""
    if chunk.type == SUMMARY:
        return SUMMARY
    if origin in UNTRUSTED_ORIGINS or (origin in FOREIGN_ORIGINS and may_stand(chunk)):
        return IMPORT
    return RULE if origin == "agent" and chunk.type in STANDING_TYPES else ""
