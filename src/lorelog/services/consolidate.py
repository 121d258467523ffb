"""An episode's memories become one: a summary taken out of them, without a model, that cites each of its sources.

An episode is what bears the tag `episode:<id>` or was noted in the session of that id. The summary has one sentence of each memory,
the one that says most of what the episode is about, in the order of time; what another has said already is left out. Its id is
made of its sources, so the same episode is summed up once however often it is asked for; and an earlier summary of it is superseded.
A summary is worth no more than its sources: it bears the least trusted of their origins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from lorelog.core.document import GLOBAL, StoredChunk, short_hash
from lorelog.core.errors import NotFound, UsageError
from lorelog.core.memory import NewMemory
from lorelog.core.options import ListOptions
from lorelog.core.ports import Store
from lorelog.core.query import Filters
from lorelog.core.record import ORIGINS
from lorelog.services.fates import Fates
from lorelog.services.feedback import key_of
from lorelog.services.telling import telling

OURS = "episode-"
"""How the id of a summary begins."""
_EPISODE = re.compile(r"[\w.:-]{1,150}")


@dataclass(frozen=True, slots=True)
class Episode:
    """What is to be summed up, oldest first, and what it was summed up as before."""

    id: str
    sources: tuple[StoredChunk, ...]
    earlier: tuple[StoredChunk, ...]
    left_out: int = 0
    """Older memories, beyond as many as were wanted."""


def find_episode(episode: str, store: Store, filters: Filters, fates: Fates, most: int) -> Episode:
    """Return an episode's memories. Raise NotFound when there are none."""
    if not _EPISODE.fullmatch(episode):
        raise UsageError(f"{episode!r} cannot be an episode's id", hint="letters, digits, '_', '-', '.' and ':'")
    tag = f"episode:{episode}"
    tagged = Filters(**{name: getattr(filters, name) for name in ("projects", "since", "until")}, tags=(tag,))
    found = {one.key: one for one in store.recent(tagged, 10 * most)}
    found |= {one.key: one for one in store.of_session(episode, filters, 10 * most)}
    ordered = sorted(found.values(), key=lambda one: (one.chunk.date, one.chunk.source, one.chunk.start_line))
    earlier = [one for one in ordered if _is_ours(_memory(one))]
    sources = [one for one in ordered if not _is_ours(_memory(one)) and _counts(one, fates)]
    if not sources:
        raise NotFound(
            f"no memory belongs to the episode {episode!r}", hint=f"tag them {tag!r}, or name an agent's session"
        )
    return Episode(episode, tuple(sources[-most:]), tuple(earlier), max(0, len(sources) - most))


def sum_up(episode: Episode, *, retain: bool, project: str) -> NewMemory:
    """Return the memory that sums an episode up, to be written in the journal of `project`."""
    keys = [key_of(one) for one in episode.sources]
    identity = OURS + short_hash(json.dumps([episode.id, retain, keys]))
    replaced = [_memory(one) for one in episode.earlier if one.project == project]
    if not retain:
        replaced += [_memory(one) for one in episode.sources if one.project == project and _memory(one)]
    first, last = (one.chunk.date[:10] for one in (episode.sources[0], episode.sources[-1]))
    days = first if first == last else f"{first} to {last}"
    count = len(episode.sources)
    return NewMemory(
        text="\n".join(
            [
                f"Episode {episode.id}: {count} {'memory' if count == 1 else 'memories'}, {days}.",
                "",
                *(f"- {one.text}" for one in telling([source.chunk.text for source in episode.sources])),
                "",
                f"Sources: {', '.join(_memory(one) or one.id for one in episode.sources)}",
            ]
        ),
        type="summary",
        tags=(f"episode:{episode.id}",),
        origin=worst_origin(episode.sources),
        id=identity,
        supersedes=tuple(one for one in dict.fromkeys(replaced) if one != identity),
    )


def worst_origin(sources: Sequence[StoredChunk]) -> str:
    """Return the least trusted of the origins that memories name; what names none is a person's own file."""
    named = [one.chunk.anchor.origin if one.chunk.anchor else "" for one in sources]
    ranks = [ORIGINS.index(one) if one in ORIGINS else len(ORIGINS) - 1 for one in named if one]
    return ORIGINS[max(ranks, default=0)]


def belongs_to(episode: Episode, own: str) -> str:
    """Return the project whose journal the summary goes to: the global one only where all of it is global."""
    return GLOBAL if all(one.project == GLOBAL for one in episode.sources) else own


def _counts(source: StoredChunk, fates: Fates) -> bool:
    """Say whether a memory is to be summed up: one that only a summary of ours stands for still is."""
    if not fates.hides(source, ListOptions(include_superseded=True)):
        successor = fates.of(source).superseded_by
        return not successor or _is_ours(successor)
    return False


def _is_ours(memory: str) -> bool:
    return memory.startswith(OURS)


def _memory(stored: StoredChunk) -> str:
    return stored.chunk.anchor.memory if stored.chunk.anchor else ""
