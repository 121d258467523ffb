"""Which memories are superseded, expired, due for review or covered by a summary.

Journals are never rewritten, so this state is not stored in the memory it is about. A newer memory's anchor names the
memories it supersedes; deleting the newer one undoes that. An expiry date is in the memory's anchor (`expires:`) or in
`lifecycle.jsonl` beside the index, which takes precedence and also holds review dates; the last value of each field
counts. Memories are hidden at query time, by the current date.

Only a memory of the same project, or a global one, can supersede a memory: a cloned repository must not hide memories
of other projects. One that was written on this machine is superseded only by what was written here (`AuthoredMemories`) or stands in the
global journals, expires only on the day that was registered, and one of the user's own is superseded only by the user's own. No memory can supersede a record: the ledger decides about records. If memories supersede each other
in a cycle, the one that the latest supersession names as newer is shown.

A summary's anchor lists the content hashes it covers, so originals are recognized in any file, and an edited one is no longer
covered. Originals stay searchable, and keep their rank: a summary, which has the words of many, ranks below the best of its originals,
unless even that is hardly relevant. Then a question is about all of them, and the summary's own score counts. Links
hold as long as the summary is indexed, within its project or everywhere for a global summary.

Relevance judgements of users are kept in `feedback.jsonl`, readable by its owner only, because questions are private. A
judgement names a memory by its id, or a section without an id by its content hash, so it survives moved lines; an edited
section is a new one. The last judgement of a question and memory counts. `lorelog eval --feedback` measures searches by
them, and results marked irrelevant rank lower when the same question is asked again. Other questions are not affected.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, convert
from msgspec.structs import asdict, replace

from lorelog.core.document import GLOBAL_PROJECT, StoredChunk
from lorelog.core.errors import plural
from lorelog.core.options import ListOptions, SearchOptions
from lorelog.core.paths import cache_folder, is_below
from lorelog.core.policy import may_replace
from lorelog.core.ports import Store, SummaryLink, Supersession
from lorelog.core.query import NO_LIFECYCLE_STATE, LifecycleState, ScorePart
from lorelog.core.serializable import utc_now
from lorelog.retrieval.token_estimate import estimate_tokens
from lorelog.services.memory_state.append_log import AppendLog
from lorelog.services.memory_state.authored import AuthoredMemories
from lorelog.services.places.workspace import RECORD_PAGES

if TYPE_CHECKING:
    from lorelog.core.memory import ExpandReply
    from lorelog.retrieval.dedupe import RankedChunk


LIFECYCLE_FILE = "lifecycle.jsonl"
_MAX_SUCCESSOR_CHARS = 200
MAX_SOURCES_SHOWN = 50
"""Sources of a summary that `expand` lists."""
_COVERS_PREFIX = "<!-- covers:"
_MARGIN = 0.001
MIN_SOURCE_RELEVANCE = 0.1
"""If none of its sources is more relevant, a question is about all of them, and a summary answers it."""


class SummaryLinks:
    """Which contents are covered by which summaries."""

    def __init__(self, links: Iterable[SummaryLink] = ()) -> None:
        self._by_content: dict[str, list[SummaryLink]] = {}
        self._by_summary: dict[str, SummaryLink] = {}
        for link in links:
            self._by_summary[link.summary] = link
            for content in link.covers:
                self._by_content.setdefault(content, []).append(link)

    def __bool__(self) -> bool:
        return bool(self._by_content)

    def summaries_of(self, stored: StoredChunk) -> list[str]:
        links = self._by_content.get(stored.chunk.content_hash, ())
        return [link.summary for link in links if link.project in (stored.project, GLOBAL_PROJECT)]

    def contents_of(self, summary: str) -> tuple[str, ...]:
        link = self._by_summary.get(summary)
        return link.covers if link is not None else ()


class MemoryDates(Struct, frozen=True):
    """Dates that a user set for a memory. None keeps the previous value, an empty string removes it."""

    memory: str
    expires: str | None = None
    review_after: str | None = None
    at: str = ""
    reviewed: bool = False
    """True if a person approved a summary or an import, or left a correction as it is."""
    at_start: bool | None = None
    """False if a person wants to see it only when a call or a prompt is about it, True if the user had to say it again."""

    def __post_init__(self) -> None:
        for day in filter(None, (self.expires, self.review_after)):
            date.fromisoformat(day)

    def merged_over(self, before: MemoryDates) -> MemoryDates:
        """Return the combined dates when these are set after `before`."""
        return MemoryDates(
            self.memory,
            before.expires if self.expires is None else self.expires,
            before.review_after if self.review_after is None else self.review_after,
            self.at,
            self.reviewed or before.reviewed,
            before.at_start if self.at_start is None else self.at_start,
        )


class MemoryDateTable(AppendLog[MemoryDates]):
    """Dates of one tenant's memories, by memory id."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, lambda entry: convert(entry, MemoryDates), is_optional=True)

    def dates(self) -> Mapping[str, MemoryDates]:
        def merge(lines: Iterable[MemoryDates]) -> dict[str, MemoryDates]:
            days: dict[str, MemoryDates] = {}
            for line in lines:
                days[line.memory] = line.merged_over(days.get(line.memory, MemoryDates(line.memory)))
            return days

        return self.folded(merge)

    def record(self, days: MemoryDates) -> None:
        """Record dates; they are on disk when this returns."""
        fields = {"memory": days.memory, "at": utc_now()}
        more: dict[str, str | bool | None] = {"expires": days.expires, "review_after": days.review_after}
        more |= {"reviewed": days.reviewed or None, "at_start": days.at_start}
        self.append([fields | {name: value for name, value in more.items() if value is not None}])

    def due(self, today: str) -> list[str]:
        """Return the ids of memories due for review, the longest due first."""
        due = [entry for entry in self.dates().values() if entry.review_after and entry.review_after <= today]
        return [entry.memory for entry in sorted(due, key=lambda entry: (entry.review_after, entry.memory))]


RELEVANT, IRRELEVANT = "relevant", "irrelevant"
IRRELEVANT_PENALTY = 0.5
"""Subtracted from the score: about the weight of all words of a question. The result ranks lower and stays findable."""


class Judgement(Struct, frozen=True):
    """A user's judgement of one result."""

    query: str
    """As returned by `normalize_query`."""
    key: str
    """The memory's id, or the content hash of a section."""
    id: str
    """The chunk's id when it was judged."""
    memory: str
    relevance: str
    at: str
    by: str = ""
    """The agent that judged; it does not lower a memory of the user's own."""


class Feedback(AppendLog[Judgement]):
    """The judgements of one tenant."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, lambda entry: convert(entry, Judgement), is_optional=True)

    def judgements(self) -> Mapping[str, Mapping[str, Judgement]]:
        """Return the current judgements, by question and memory key."""

        def group(lines: Iterable[Judgement]) -> dict[str, dict[str, Judgement]]:
            judged: dict[str, dict[str, Judgement]] = {}
            for line in lines:
                judged.setdefault(line.query, {})[line.key] = line
            return judged

        return self.folded(group)

    def record(self, query: str, stored: StoredChunk, relevance: str, by: str = "") -> tuple[Judgement, bool]:
        """Record a judgement; return it and whether it is new."""
        at = utc_now()
        judgement = Judgement(
            normalize_query(query), feedback_key(stored), stored.id, stored.chunk.memory, relevance, at, by
        )
        previous = self.judgements().get(judgement.query, {}).get(judgement.key)
        if previous is not None and previous.relevance == relevance and (by or not previous.by):
            return previous, False
        self.append([asdict(judgement)])
        return judgement, True


def normalize_query(query: str) -> str:
    """Return a question for comparison: case, white space and final punctuation are ignored."""
    return " ".join(query.casefold().split()).rstrip(" ?!.？！。")


def feedback_key(stored: StoredChunk) -> str:
    """Return the key under which a memory is judged."""
    return stored.chunk.memory or stored.chunk.content_hash


def explain_penalty() -> tuple[ScorePart, ...]:
    return (ScorePart("feedback", -IRRELEVANT_PENALTY, "judged irrelevant to this question"),)


class _TenantState:
    """Files beside the index and the indexes built from them, cached for the life of the process."""

    def __init__(self, folder: Path) -> None:
        self.expiry = MemoryDateTable(folder / LIFECYCLE_FILE)
        self.feedback = Feedback(folder / "feedback.jsonl")
        self.authored = AuthoredMemories.of_tenant(folder)
        self._global_journals = os.path.realpath(folder / "memory")
        self._supersessions: tuple[Sequence[Supersession], str, SupersessionIndex] = ((), "", SupersessionIndex(()))
        self._links: tuple[Sequence[SummaryLink], SummaryLinks] = ((), SummaryLinks())

    def supersessions(self, store: Store) -> SupersessionIndex:
        rows = store.supersessions()
        token = self.authored.token if rows else ""
        if rows is not self._supersessions[0] or token != self._supersessions[1]:
            valid = [
                row
                for row in rows
                if is_below(row.source, self._global_journals) or self.authored.lets_replace(row.old, row.new)
            ]
            self._supersessions = rows, token, SupersessionIndex(valid)
        return self._supersessions[2]

    def summary_links(self, store: Store) -> SummaryLinks:
        if (rows := store.summary_links()) is not self._links[0]:
            self._links = rows, SummaryLinks(rows)
        return self._links[1]


tenant_state = lru_cache(maxsize=64)(_TenantState)


class SupersessionIndex:
    def __init__(self, rows: Iterable[Supersession]) -> None:
        self._by_old: dict[str, list[tuple[int, Supersession]]] = {}
        for number, row in enumerate(rows):
            if row.old != row.new:
                self._by_old.setdefault(row.old, []).append((number, row))

    def __bool__(self) -> bool:
        return bool(self._by_old)

    def successor_of(self, memory: str, project: str, *, elsewhere: bool = False, is_users: bool = False) -> str:
        """Return the id of the memory that supersedes this one, or an empty string.

        Supersessions from other machines count only for memories of other machines (`elsewhere`): a remote machine must not hide
        local memories. What an agent, a tool or an import wrote counts only for memories that are not the user's own (`is_users`).
        """
        latest = self._last(memory, project, elsewhere=elsewhere, is_users=is_users)
        if latest is None:
            return ""
        successor = latest[1].new
        cycle = [(latest[0], successor)]
        seen = {memory, successor}
        link = self._last(successor, project, elsewhere=elsewhere)
        while link is not None:
            cycle.append((link[0], link[1].new))
            if link[1].new == memory:  # the latest supersession of a cycle wins
                return "" if max(cycle)[1] == memory else successor
            if link[1].new in seen:  # a cycle that this memory is not part of
                break
            seen.add(link[1].new)
            link = self._last(link[1].new, project, elsewhere=elsewhere)
        return successor

    def _last(
        self, memory: str, project: str, *, elsewhere: bool, is_users: bool = False
    ) -> tuple[int, Supersession] | None:
        for number, row in reversed(self._by_old.get(memory, ())):
            is_by_person = not is_users or may_replace(row.origin)
            if row.project in (project, GLOBAL_PROJECT) and (elsewhere or not row.remote) and is_by_person:
                return number, row
        return None


class LifecycleIndex:
    """State of one store's memories as of one day. Cheap to create, one per search."""

    def __init__(self, store: Store, folder: Path, today: date, *, uses_feedback: bool = True) -> None:
        state = tenant_state(folder)
        self._store = store
        self._supersessions = state.supersessions(store)
        self.summary_links = state.summary_links(store)
        self._expiry = state.expiry
        self._feedback = state.feedback if uses_feedback else None
        self._authored = state.authored
        self._today = today.isoformat()
        self._folder = folder

    _pages = cached_property[str](lambda self: os.path.realpath(Path(cache_folder(self._folder)) / RECORD_PAGES))

    @property
    def token(self) -> str:
        """Changes with every file that is kept beside the index."""
        return f"{self._expiry.token} {self._feedback.token if self._feedback else '-'}"

    @cached_property
    def _days(self) -> Mapping[str, MemoryDates]:
        return self._expiry.dates()

    def state_of(self, stored: StoredChunk) -> LifecycleState:
        """Return a memory's state. Records have none: the ledger decides about them."""
        anchor = stored.chunk.anchor
        if anchor is None:
            return NO_LIFECYCLE_STATE
        dates = self._days.get(anchor.memory) if anchor.memory else None
        expires = dates.expires if dates is not None else None
        if expires is None:
            is_valid = anchor.expires and (not stored.project or self._authored.has_anchor(anchor))
            expires = parse_day(anchor.expires) if is_valid else ""
        review = (dates.review_after or "") if dates else ""
        successor = ""
        if anchor.memory and self._supersessions:
            successor = self._supersessions.successor_of(
                anchor.memory, stored.project, elsewhere=bool(stored.machine), is_users=self._is_users(stored)
            )
        if not (expires or review or successor) or self.is_record(stored):
            return NO_LIFECYCLE_STATE
        return LifecycleState(
            superseded_by=successor,
            expires=expires,
            review_after=review,
            expired="" < expires < self._today,
            due="" < review <= self._today,
        )

    def _is_users(self, stored: StoredChunk) -> bool:
        anchor = stored.chunk.anchor
        return (
            anchor is not None
            and may_replace(anchor.origin)
            and (not stored.project or self._authored.knows(anchor.memory))
        )

    def shown_state(self, stored: StoredChunk) -> LifecycleState:
        """Return a memory's state with the first words of what replaces it: a superseded memory is not shown without them."""
        state = self.state_of(stored)
        newer = self.find_successor(stored) if state.superseded_by else None
        if newer is None:
            return state
        from lorelog.retrieval.dedupe import normalized_text

        return replace(state, successor=normalized_text(newer)[:_MAX_SUCCESSOR_CHARS])

    def find_successor(self, stored: StoredChunk) -> StoredChunk | None:
        """Return the memory in force that replaces a superseded one; None if there is none."""
        newest, seen = stored, set[str]()
        while (memory := self.state_of(newest).superseded_by) and memory not in seen:
            seen.add(memory)
            for newer in self._store.find(memory):
                anchor = newer.chunk.anchor
                if anchor is not None and anchor.memory == memory and newest.chunk.memory in anchor.superseded_ids:
                    newest = newer
                    break
        return None if newest is stored else newest

    def is_record(self, stored: StoredChunk) -> bool:
        return self.is_page(stored.chunk.source)

    def is_page(self, source: str) -> bool:
        """Return whether a file is one of the record pages."""
        return is_below(source, self._pages)

    def hides(self, stored: StoredChunk, options: SearchOptions | ListOptions) -> bool:
        """Return whether a memory is hidden under these options."""
        if stored.chunk.anchor is None:
            return False
        state = self.state_of(stored)
        return (state.expired and not options.include_expired) or (
            state.superseded_by != "" and not options.include_superseded
        )

    def is_shown(self, stored: StoredChunk) -> bool:
        """Return whether a chunk is a memory that is neither superseded nor expired, and no page of a record."""
        return not self.is_record(stored) and not self.hides(stored, ListOptions())

    def covered_by(self, stored: StoredChunk) -> str:
        """Return the id of a visible summary that covers a chunk, or an empty string."""
        for summary in self.summary_links.summaries_of(stored):
            dates = self._days.get(summary)
            expires = (dates.expires or "") if dates else ""
            if not self._supersessions.successor_of(summary, stored.project) and not "" < expires < self._today:
                return summary
        return ""

    @cached_property
    def _judgements(self) -> Mapping[str, Mapping[str, Judgement]]:
        return self._feedback.judgements() if self._feedback is not None else {}

    def is_irrelevant(self, query: str, stored: StoredChunk) -> bool:
        """Return whether this memory was judged irrelevant to exactly this question, by a person if it is the user's own."""
        judged = self._judgements.get(normalize_query(query), {}) if self._judgements else {}
        found = judged.get(feedback_key(stored))
        return found is not None and found.relevance == IRRELEVANT and not (found.by and self._is_users(stored))

    def due(self) -> list[str]:
        """Return the ids of memories due for review, the longest due first."""
        return self._expiry.due(self._today)

    def is_at_start(self, memory: str) -> bool | None:
        """Return whether a memory is listed at the start of a session; None if nothing speaks for or against it."""
        dates = self._days.get(memory)
        return None if dates is None else dates.at_start

    def is_reviewed(self, memory: str) -> bool:
        """Return whether a person left a memory of the inbox as it is."""
        dates = self._days.get(memory)
        return dates is not None and dates.reviewed

    def annotate(self, reply: ExpandReply) -> ExpandReply:
        """Return a section with its state and a note that warns if it is superseded or expired."""
        state = self.shown_state(reply.chunk)
        superseded = f"superseded by {state.superseded_by}" if state.superseded_by else ""
        expired = f"expired: it was shown until {state.expires}" if state.expired else ""
        return replace(reply, lifecycle=state, notes=(*reply.notes, *filter(None, (superseded, expired))))


def parse_day(text: str) -> str:
    """Return the ISO date that a text begins with, or an empty string: an invalid date hides nothing."""
    try:
        day = date.fromisoformat(text[:10]).isoformat()
    except ValueError:
        return ""
    return day if text.startswith(day) else ""


def rank_below_sources(
    ranked: Sequence[RankedChunk], links: SummaryLinks, relevance: Callable[[RankedChunk], float]
) -> list[RankedChunk]:
    """Return the ranking with summaries below the best of their sources, unless even that is hardly relevant."""
    best: dict[str, RankedChunk] = {}
    for item in ranked:
        for summary in links.summaries_of(item.stored):
            best.setdefault(summary, item)
    likely = {summary: item for summary, item in best.items() if relevance(item) >= MIN_SOURCE_RELEVANCE}
    lowered = [_lower(item, likely.get(item.stored.chunk.memory)) for item in ranked]
    return sorted(lowered, key=lambda item: -item.fused.score)


def _lower(summary: RankedChunk, source: RankedChunk | None) -> RankedChunk:
    if source is None or (value := source.fused.score - _MARGIN - summary.fused.score) > 0.0:
        return summary
    part = ScorePart("covers", value, f"below its source {source.stored.id}")
    return replace(summary, fused=summary.fused.plus(value, lambda: (part,)))


def attach_sources(reply: ExpandReply, store: Store, links: SummaryLinks) -> ExpandReply:
    """Return a section with the sources it covers, or with a note of the summaries that cover it."""
    covers = links.contents_of(reply.chunk.chunk.memory)
    if not covers:
        summaries = links.summaries_of(reply.chunk)
        notes = [f"summarized in {summary}: 'lorelog show {summary}' shows it" for summary in summaries]
        return replace(reply, notes=(*reply.notes, *notes)) if notes else reply
    # The list of hashes is useless to a reader and may be longer than the summary.
    content = "\n".join(line for line in reply.content.split("\n") if not line.startswith(_COVERS_PREFIX))
    reply = replace(reply, content=content, tokens=estimate_tokens(content))
    from lorelog.core.memory import CoveredChunk

    sources: list[CoveredChunk] = []
    for content in covers[:MAX_SOURCES_SHOWN]:
        matches = [stored for stored in store.find(content) if stored.chunk.content_hash == content]
        if matches:
            chunk = matches[0].chunk
            sources.append(
                CoveredChunk(content, matches[0].id, chunk.source, chunk.start_line, chunk.end_line, chunk.date)
            )
    notes = [f"it summarizes {plural(len(covers), 'chunk')}; 'lorelog show ID' shows one, by the id that a line cites"]
    gone = min(len(covers), MAX_SOURCES_SHOWN) - len(sources)
    if gone:
        notes.append(f"{gone:,} of them were changed or removed since")
    return replace(reply, covers=tuple(sources), covered=len(covers), notes=(*reply.notes, *notes))
