"""Operations on existing memories: supersede, set dates, judge, find near duplicates. Journals are never rewritten.

Near duplicates are found by words and, if there are vectors, by meaning. Every memory is compared with every newer one, which for ten
thousand is one matrix product and takes a few seconds. Cosines alone are not enough: with the built-in model texts of one kind are close
whatever they say. So two memories that are close in meaning must also share many words. By words, only texts are compared that share a
run of three words which few others have. A group is a memory and all older ones close to it, without those close only to the latter:
chains of small steps lead far.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import asdict, replace

from lorelog.core.document import GLOBAL_PROJECT, ChunkKey, StoredChunk
from lorelog.core.errors import UsageError
from lorelog.core.memory import (
    AddReply,
    Duplicate,
    DuplicatesReply,
    ExpiryReply,
    FeedbackReply,
    NewMemory,
    SupersedeReply,
)
from lorelog.core.options import ListOptions
from lorelog.core.ports import Store, Vector
from lorelog.core.query import Filters
from lorelog.core.record import ORIGINS
from lorelog.retrieval.dedupe import normalized_text, split_words, word_shingles
from lorelog.services.memories.edit import find_memory
from lorelog.services.memory_state.lifecycle_index import LifecycleIndex, MemoryDates, tenant_state
from lorelog.services.places.workspace import Workspace


def least_trusted_origin(sources: Sequence[StoredChunk]) -> str:
    """Return the least trusted origin of some memories; one without an origin is a user's own file."""
    origins = [source.chunk.anchor.origin if source.chunk.anchor else "" for source in sources]
    ranks = [ORIGINS.index(origin) if origin in ORIGINS else len(ORIGINS) - 1 for origin in origins if origin]
    return ORIGINS[max(ranks, default=0)]


class AddMemories(Protocol):
    """Writes memories to the journal of the project, or to the global one."""

    def __call__(
        self, memories: Sequence[NewMemory], *, to_global: bool, keep_secrets: bool = False
    ) -> Sequence[AddReply]:
        """Return where each was written."""


class MemoryLifecycle(Struct, frozen=True, kw_only=True):
    """Operations on existing memories of one tenant, as seen from one project."""

    store: Store
    workspace: Workspace
    lifecycle_index: LifecycleIndex
    add: AddMemories
    refresh: Callable[[], None] = lambda: None
    """Called when dates of a memory have changed."""

    def supersede(self, identity: str, memory: NewMemory, *, keep_secrets: bool = False) -> SupersedeReply:
        """Write a memory that replaces another, which is hidden from now on; its text stays in its file.

        Fields that the new one does not set are taken from the old one. Deleting the new one undoes it.
        """
        stored = find_memory(identity, self.store)
        old = self._own_id(stored, "superseded")
        successor = self.lifecycle_index.state_of(stored).superseded_by
        if successor:
            raise UsageError(f"{old} is superseded already, by {successor}", hint=f"supersede {successor}")
        if stored.project not in (self.workspace.project.id, GLOBAL_PROJECT):
            raise UsageError(
                f"{old} belongs to another project, {stored.project}",
                hint=f"run the command in that project: --project {stored.project}",
            )
        chunk = stored.chunk
        cues = memory.cues or (chunk.anchor.cues if chunk.anchor else ())
        memory = replace(
            memory, type=memory.type or chunk.type, tags=memory.tags or chunk.tags, cues=cues, supersedes=(old,)
        )
        to_global = stored.project == GLOBAL_PROJECT
        (added,) = self.add([memory], to_global=to_global, keep_secrets=keep_secrets)
        return SupersedeReply(**asdict(added), supersedes=old)

    def set_expiry(self, identity: str, expires: str | None, review_after: str | None) -> ExpiryReply:
        """Set until when a memory is shown and when it is due for review: None keeps a date, empty removes it."""
        if expires is None and review_after is None:
            raise UsageError("neither expires nor review_after is set", hint="give a date, or null to clear it")
        stored = find_memory(identity, self.store)
        memory = self._own_id(stored, "given dates")
        before = self.lifecycle_index.state_of(stored)
        dates = MemoryDates(memory, expires, review_after)
        merged = dates.merged_over(MemoryDates(memory, before.expires, before.review_after))
        changed = (merged.expires, merged.review_after) != (before.expires, before.review_after)
        if changed:
            tenant_state(self.workspace.tenant_folder).expiry.record(dates)
            self.refresh()
        return ExpiryReply(memory, merged.expires or "", merged.review_after or "", changed=changed)

    def mark_reviewed(self, identity: str, *, cue_only: bool = False) -> None:
        """Note that a person left a memory as it is, or `cue_only`, so that nobody is asked about it again."""
        memory = self._own_id(find_memory(identity, self.store), "reviewed")
        dates = MemoryDates(memory, reviewed=True, at_start=False if cue_only else None)
        tenant_state(self.workspace.tenant_folder).expiry.record(dates)
        if cue_only:
            self.refresh()

    def list_at_start(self, memory: str) -> None:
        """List a memory that the user had to say again at the start of every session."""
        tenant_state(self.workspace.tenant_folder).expiry.record(MemoryDates(memory, at_start=True))
        self.refresh()

    def judge(self, query: str, identity: str, relevance: str, *, by: str = "") -> FeedbackReply:
        """Record whether a memory answers a question; `by` is the agent that says so."""
        if not query.strip():
            raise UsageError("the query is empty", hint="give the query that was searched for")
        stored = find_memory(identity, self.store)
        judgement, changed = tenant_state(self.workspace.tenant_folder).feedback.record(query, stored, relevance, by)
        return FeedbackReply(stored.id, judgement.memory, judgement.query, relevance, changed=changed)

    def _own_id(self, stored: StoredChunk, what: str) -> str:
        anchor = stored.chunk.anchor
        if self.lifecycle_index.is_record(stored):
            raise UsageError(
                f"{stored.id} is a record, not a memory",
                hint="'lorelog decide … --supersedes ID' or artifact.revision replaces a record",
            )
        if anchor is None or not anchor.memory:
            raise UsageError(
                f"{stored.chunk.source}:{stored.chunk.start_line} has no id of its own, so it cannot be {what}",
                hint="edit the file, or give the section an id: a line <!-- memory:NAME --> under its heading",
            )
        return anchor.memory


def existing_reply(stored: StoredChunk) -> AddReply:
    """Return the location of a memory that is indexed already."""
    chunk = stored.chunk
    reply = AddReply(stored.chunk.memory, stored.id, chunk.source, chunk.start_line, chunk.end_line, searchable=True)
    return replace(reply, origin=chunk.anchor.origin if chunk.anchor else "")


MIN_COSINE, MIN_WORD_SHARE = 0.94, 0.8
"""Default thresholds: cosine, or share of common words."""
MIN_COSINES = {"builtin/lorelog-2": 0.84}
"""Of models whose cosines are known to lie elsewhere.

Of eight pairs of notes that say the same in other words, lorelog-2 finds seven this way; the eighth shares no words. Of 33,525 pairs of
dialogue turns, man pages and functions it names one: two functions that do the same.
"""
MAX_COMPARED = 10_000
"""Maximum memories to compare; older ones are left out, with a note."""
_MIN_SHARED_WORDS = 0.5
"""Share of the shorter text's words that the other must contain if their vectors are close."""
_BLOCK_ROWS = 512
_MAX_HOLDERS = 50
"""A run of words that more texts share is not significant."""

NearPairs = Mapping[int, Sequence[tuple[int, float]]]
"""By position of a memory, newest first: the positions of older ones close to it, and their similarity."""

_MAX_DUPLICATE_TEXT = 300


def find_near_duplicates(
    store: Store, lifecycle: LifecycleIndex, filters: Filters, *, threshold: float | None, limit: int
) -> DuplicatesReply:
    """Return groups of memories with nearly the same content, the largest and closest first."""
    if threshold is not None and not 0.0 < threshold <= 1.0:
        raise UsageError(f"the threshold must be between 0 and 1 (got {threshold})")
    visible = ListOptions()
    recent = [stored for stored in store.recent(filters, MAX_COMPARED + 1) if not lifecycle.hides(stored, visible)]
    notes = (f"only the newest {MAX_COMPARED:,} memories were compared",) if len(recent) > MAX_COMPARED else ()
    memories = [
        stored for stored in recent[:MAX_COMPARED] if normalized_text(stored) and not lifecycle.is_record(stored)
    ]
    vectors = store.vectors([memory.key for memory in memories])
    words = [split_words(normalized_text(memory)) for memory in memories]
    min_cosine = MIN_COSINES.get(store.reembed_state().served, MIN_COSINE)
    pairs = _find_pairs(memories, vectors, words, (threshold or min_cosine, threshold or MIN_WORD_SHARE))
    groups = sorted(_group_pairs(memories, pairs), key=lambda group: (-len(group), -group[1].similarity))
    return DuplicatesReply(
        groups=tuple(groups[:limit]),
        compared=len(memories),
        by_vectors=len(vectors),
        more=len(groups) > limit,
        notes=notes,
    )


def _find_pairs(
    memories: Sequence[StoredChunk],
    vectors: Mapping[ChunkKey, Vector],
    words: Sequence[list[str]],
    thresholds: tuple[float, float],
) -> NearPairs:
    min_cosine, min_share = thresholds
    near: dict[int, list[tuple[int, float]]] = defaultdict(list)
    sets = [frozenset(word) for word in words]
    positions = [position for position, memory in enumerate(memories) if memory.key in vectors]
    found = [vectors[memories[position].key] for position in positions]
    for newer, older, cosine in _pairs_by_meaning(found, min_cosine) if len(found) > 1 else ():
        first, second = positions[newer], positions[older]
        if len(sets[first] & sets[second]) >= _MIN_SHARED_WORDS * min(len(sets[first]), len(sets[second])):
            near[first].append((second, cosine))
    for first, second, share in _pairs_by_words(words, sets, min_share):
        near[first].append((second, share))
    return near


def _pairs_by_meaning(vectors: Sequence[Vector], min_cosine: float) -> Iterator[tuple[int, int, float]]:
    """Yield positions of vectors that are close, the newer one first, and their cosine."""
    import numpy as np

    matrix = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), -1)
    for start in range(0, len(vectors), _BLOCK_ROWS):
        block = matrix[start : start + _BLOCK_ROWS] @ matrix[start:].T
        for newer, older in zip(*np.nonzero(block >= min_cosine), strict=True):
            if older > newer:
                yield start + int(newer), start + int(older), min(float(block[newer, older]), 1.0)


def _pairs_by_words(
    words: Sequence[list[str]], sets: Sequence[frozenset[str]], min_share: float
) -> Iterator[tuple[int, int, float]]:
    """Yield positions of texts that share most of their words, the newer one first, and the share."""
    holders: dict[tuple[str, ...], list[int]] = defaultdict(list)
    runs: list[set[tuple[str, ...]]] = [{*word_shingles(word)} or {tuple(word)} for word in words]
    for position, own in enumerate(runs):
        for run in own:
            if len(holders[run]) <= _MAX_HOLDERS:
                holders[run].append(position)
    for position, own in enumerate(runs):
        others = {
            other for run in own if len(holders[run]) <= _MAX_HOLDERS for other in holders[run] if other > position
        }
        mine = sets[position]
        for other in others:
            shared = len(mine & sets[other])
            share = shared / (len(mine) + len(sets[other]) - shared) if shared else 0.0
            if share >= min_share:
                yield position, other, share


def _duplicate(stored: StoredChunk, similarity: float, *, keep: bool = False) -> Duplicate:
    chunk, text = stored.chunk, normalized_text(stored)
    same = ("memory", "source", "start_line", "end_line", "date", "date_source", "type")
    return Duplicate(
        **{name: getattr(chunk, name) for name in same},
        id=stored.id,
        project=stored.project,
        similarity=round(similarity, 4),
        keep=keep,
        text=text if len(text) <= _MAX_DUPLICATE_TEXT else text[: _MAX_DUPLICATE_TEXT - 1] + "…",
    )


def _group_pairs(memories: Sequence[StoredChunk], pairs: NearPairs) -> Iterator[tuple[Duplicate, ...]]:
    taken: set[int] = set()
    for position in sorted(pairs):
        if position in taken:
            continue
        older: dict[int, float] = {}
        for other, share in pairs[position]:
            if other not in taken:
                older[other] = max(share, older.get(other, 0.0))
        if older:
            taken |= {position, *older}
            rest = sorted(older.items(), key=lambda item: (-item[1], item[0]))
            yield (
                _duplicate(memories[position], 1.0, keep=True),
                *(_duplicate(memories[other], share) for other, share in rest),
            )
