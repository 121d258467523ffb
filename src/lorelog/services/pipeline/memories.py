"""The memories of a project: added to its journals, and shown with their trust, lifecycle and origin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.document import GLOBAL_PROJECT, TURN_TYPE, StoredChunk
from lorelog.core.errors import StoreError, StoreUnwritable
from lorelog.core.memory import AddReply, NewMemory
from lorelog.core.options import ListOptions
from lorelog.core.query import UNCHECKED_VERDICT, Filters, FreshnessVerdict, LifecycleState
from lorelog.services.pipeline.scope import ProjectScope
from lorelog.services.places.roots import Root
from lorelog.services.places.workspace import CODE_DATABASE

if TYPE_CHECKING:
    from lorelog.core.memory import DeleteReply, ExpandReply, GetReply, ListReply
    from lorelog.services.code import CodeScope
    from lorelog.services.memories.edit import EditReply


class ProjectMemories(Struct, frozen=True):
    """Memories as seen from one project. Every change ends with a refresh of the files that hooks read."""

    scope: ProjectScope
    code: Callable[[], CodeScope]

    def expand(self, identity: str, *, lines: int | None = None) -> ExpandReply:
        """Return the whole section around a chunk, or `lines` lines around it."""
        from lorelog.services.memories.listing import expand
        from lorelog.services.memory_state.lifecycle_index import attach_sources

        lifecycle = self.scope.lifecycle_index()
        reply = lifecycle.annotate(expand(identity, self.scope.store, lines=lines))
        reply = attach_sources(reply, self.scope.store, lifecycle.summary_links)
        reply = replace(reply, chunk=self.scope.ownership().with_shown_anchor(reply.chunk, self.scope.store))
        return self.scope.record_pages.annotate_section(reply, around=bool(lines))

    def check_freshness(self, chunk: StoredChunk) -> FreshnessVerdict:
        """Return how the code that a memory of this project names has changed since."""
        return self.check_all([chunk]).get(chunk.id, UNCHECKED_VERDICT)

    def check_all(self, chunks: Sequence[StoredChunk]) -> Mapping[str, FreshnessVerdict]:
        """Return the freshness of those chunks that are of this project, by id; see `check_freshness`."""
        own = [chunk for chunk in chunks if chunk.project == self.scope.place.project.id]
        if not own or not self.scope.defaults.search.freshness:
            return {}
        from lorelog.services.freshness.checker import FreshnessChecker, claim_of

        tables = self.code().tables if (self.scope.place.cache_folder / CODE_DATABASE).exists() else None
        checker = FreshnessChecker(self.scope.place, tables)
        return checker.verdicts({chunk.id: claim_of(chunk.chunk, chunk.project) for chunk in own})

    def list(
        self,
        filters: Filters | None = None,
        *,
        documents: bool = False,
        limit: int = 20,
        all_projects: bool = False,
        options: ListOptions | None = None,
    ) -> ListReply:
        """List memories or documents, newest first; superseded or expired memories only if `options` include them."""
        from lorelog.services.memories.listing import explain_filters, list_documents, list_memories
        from lorelog.services.standing.memories import is_unfiled

        scoped = self.scope.scoped(filters or Filters(), all_projects=all_projects)
        if documents:
            return list_documents(self.scope.store, scoped, limit, self.scope.lifecycle_index())
        lifecycle, is_open = self.scope.lifecycle_index(), is_unfiled if scoped.types else lambda _: False
        reply = list_memories(self.scope.store, scoped, limit, lifecycle, options or ListOptions(), is_open=is_open)
        if not reply.memories:
            return replace(reply, notes=(*reply.notes, *explain_filters(self.scope.store, scoped)))
        ownership = self.scope.ownership()
        return replace(
            reply, memories=tuple(ownership.with_shown_anchor(memory, self.scope.store) for memory in reply.memories)
        )

    def get(self, identity: str) -> GetReply:
        """Return a memory by its id, or whether the id is deleted or unknown."""
        from lorelog.services.memories.listing import get_memory

        reply = get_memory(identity, self.scope.store, self.scope.tombstones())
        if reply.memory is None:
            return reply
        trust, newer = self.scope.record_pages.chunk_trust(reply.memory)
        state = LifecycleState(superseded_by=newer) if newer else self.scope.lifecycle_index().shown_state(reply.memory)
        memory = self.scope.ownership().with_shown_anchor(reply.memory, self.scope.store)
        return replace(reply, memory=memory, lifecycle=state, trust=trust)

    def add(
        self, memories: Sequence[NewMemory], *, to_global: bool = False, keep_secrets: bool = False
    ) -> Sequence[AddReply]:
        """Append memories to today's journal, all or none, and index them. Secrets are redacted unless they are kept."""
        from lorelog.services.memories.add import redact_memories

        redacted: Sequence[dict[str, int]] = [{} for _ in memories]
        if not keep_secrets:
            memories, redacted = redact_memories(memories, self.scope.defaults.capture.patterns)
        with suppress(StoreUnwritable):  # a project's memory is kept in the project even if the home is read-only
            self.scope.place.create()
        root = self.scope.place.journal_root(to_global=to_global)
        memories = [self._with_statements(memory) if memory.supersedes else memory for memory in memories]
        found = [self._find_same(memory, root) for memory in memories]
        new = [memory for memory in found if isinstance(memory, NewMemory) and memory.at is None]
        added = iter(self._add_new(new, root) if new else ())
        replies = [  # an attempt of another day may be in the journal of that day
            each if isinstance(each, AddReply) else next(added) if each.at is None else self._add_new([each], root)[0]
            for each in found
        ]
        return [replace(reply, redacted=kinds) for reply, kinds in zip(replies, redacted, strict=True)]

    def _find_same(self, memory: NewMemory, root: Root) -> AddReply | NewMemory:
        """Return where a memory is that was written here with the same text, type, tags, cues and expiry, and is shown.

        Otherwise return the memory to write: with the id and the time of an attempt that was interrupted, if there was one.
        """
        from lorelog.services.memories.add import SAME_NOTE, admit
        from lorelog.services.memories.journal import has_entry, journal_path
        from lorelog.services.memories.lifecycle import existing_reply
        from lorelog.services.memory_state.authored import place_digest
        from lorelog.services.memory_state.tombstones import memory_key

        admitted, place = replace(memory, expires=admit(memory, date.today()).expires), place_digest(root.path, memory)
        deleted = self.scope.tombstones().keys()
        for identity, known in {} if memory.id or memory.covers else self.scope.authored().find_same(admitted).items():
            found: Sequence[StoredChunk] = ()
            with suppress(StoreError):  # the journal is written in any case
                found, lifecycle = self.scope.store.find(identity), self.scope.lifecycle_index()
            chunks = [
                stored
                for stored in found
                if stored.chunk.memory == identity and root.holds(stored.chunk.source)
                if set(stored.chunk.tags) == set(memory.tags) and not lifecycle.hides(stored, ListOptions())
            ]
            if chunks and has_entry(Path(chunks[0].chunk.source), identity):
                end = max(stored.chunk.end_line for stored in chunks)
                return replace(existing_reply(chunks[0]), end_line=end, notes=(SAME_NOTE,), existed=True)
            at = datetime.fromisoformat(known.at).astimezone()
            is_here = not found and known.address == place and memory_key(identity) not in deleted
            if is_here and (at.date() == date.today() or has_entry(journal_path(Path(root.path), at), identity)):
                return replace(memory, id=identity, at=at)
        return memory

    def _with_statements(self, memory: NewMemory) -> NewMemory:
        """Let a memory replace the captured words, too, that the rules it replaces were made of; the note of a turn says more."""
        from lorelog.services.review.filing import ReviewLog

        filed = ReviewLog(self.scope.place.tenant_folder).by_memory()
        entries = [filed[old] for old in memory.supersedes if old in filed]
        said = [
            *(entry.statement for entry in entries),
            *(source.statement for entry in entries for source in entry.sources),
        ]
        found = (stored.chunk for statement in said for stored in self.scope.store.find(statement))
        words = [chunk.memory for chunk in found if chunk.type != TURN_TYPE]
        return replace(memory, supersedes=tuple(dict.fromkeys((*memory.supersedes, *words))))

    def _add_new(self, memories: Sequence[NewMemory], root: Root) -> Sequence[AddReply]:
        from lorelog.services.memories.add import add, describe_new_project, with_git_head

        to_global = root.project == GLOBAL_PROJECT
        memories = memories if to_global else with_git_head(memories, self.scope.place.project.root)
        notes = () if to_global else describe_new_project(self.scope.place)
        job = self.scope.job((root,))
        replies = add(memories, job, self.scope.store, self.scope.embedder, own_entries=self.own_entries)
        with suppress(StoreError):  # the memory is safe, and journals are found without being registered
            notes = (*notes, *filter(None, [self.scope.roots.remember([root])]))
        replies[0] = replace(replies[0], notes=(*replies[0].notes, *notes))
        self.scope.refresh_delivery()
        return replies

    @contextmanager
    def own_entries(
        self, memories: Sequence[NewMemory], folder: str = "", *, project: str = "", before: str | None = None
    ) -> Iterator[None]:
        """Register memories as written on this machine before their journal is, and list its entries for hooks after that.

        An entry that the registry does not know is taken for a stranger's. Memories are safe in their files even if the
        home is read-only. `folder` is that which they are added to, `before` the text that an edit replaces.
        """
        authored, project = self.scope.authored(), project or self.scope.place.project.id
        with suppress(StoreUnwritable):
            authored.record(memories, project, folder=folder, before=before)
        yield
        with suppress(StoreUnwritable):
            authored.record(memories if before is not None else (), project)
        self.scope.list_own_entries()

    def delete(self, identity: str) -> DeleteReply:
        """Hide a memory from every search and list. Its file is not touched, and `restore` shows it again."""
        from lorelog.services.memories.edit import delete_memory

        self.scope.place.create()
        self.scope.record_pages.reject_record_id(identity)
        reply = delete_memory(identity, self.scope.store, self.scope.tombstones())
        self.scope.refresh_delivery()
        return reply

    def restore(self, identity: str) -> DeleteReply:
        """Show a deleted memory again."""
        from lorelog.services.memories.edit import restore_memory

        self.scope.place.create()
        reply = restore_memory(identity, self.scope.store, self.scope.tombstones(), self.scope.job(()))
        self.scope.refresh_delivery()
        return reply

    def edit(self, identity: str, before: str, after: str, *, keep_secrets: bool = False) -> EditReply:
        """Replace the section of a memory in its file. Raise SourceChanged if the file says something else by now."""
        from lorelog.services.memories.edit import MemoryEditor

        self.scope.record_pages.reject_record_id(identity)
        editor = MemoryEditor(
            self.scope.store,
            self.scope.embedder,
            self.scope.job(()),
            self.scope.authored(),
            self.own_entries,
            self.scope.refresh_delivery,
        )
        return editor.edit(identity, before, after, None if keep_secrets else self.scope.defaults.capture.patterns)
