"""What tells one task from its siblings: the words of the whole task, and which of them it is about.

Tasks that look alike share their goal but for a name: of a service, a dataset, a tool. The record that answers a question often
does not repeat that name; the task's start does. So a question is read against the whole task, and a word counts the more
the fewer of the candidates have it: one that all have tells nothing, and which words tell is not known before.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import log
from threading import Lock
from typing import TYPE_CHECKING

from lorelog.core.record import Record
from lorelog.records.tables import RecordTables, Task
from lorelog.records.text import search_text
from lorelog.services.records.wanted import names_in

if TYPE_CHECKING:
    from lorelog.retrieval.analyse import WordAnalyser

_ABOUT = 1.0
_MENTIONED = 0.6
"""A sibling is often mentioned ("unlike the other service"): what a task is about counts more than what it mentions."""
_MOST_KEPT = 4096
_STATUSES = {
    "in_progress": "open unfinished ongoing progress",
    "completed": "completed finished done",
    "failed": "failed failure",
    "blocked": "blocked stuck",
    "cancelled": "cancelled abandoned",
}
"""How people call what a task is, beside its own word for it."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A task, all that was said of it, and its words."""

    task: Task
    records: tuple[Record, ...]
    about: frozenset[str]
    """Words of its goal, its data, the things it is about, and its tools."""
    words: frozenset[str]

    def weight(self, word: str) -> float:
        """Return how much it counts that the task has a word."""
        if word in self.about:
            return _ABOUT
        return _MENTIONED if word in self.words else 0.0


class Profiles:
    """Profiles of tasks. A task's is good until something is said of it again, so it is kept between questions."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], Profile] = OrderedDict()
        self._turn = Lock()

    def of(self, tables: RecordTables, place: str, ids: Iterable[str]) -> dict[str, Profile]:
        """Return the profiles of tasks that there are. `place` tells one tenant's tasks from another's."""
        found: dict[str, Profile] = {}
        for name, task in tables.tasks_of(ids).items():
            with self._turn:
                known = self._kept.get((place, name))
            if known is None or known.task != task:
                known = _profile(task, tables.of_task(name))
                self._keep((place, name), known)
            found[name] = known
        return found

    def _keep(self, key: tuple[str, str], profile: Profile) -> None:
        with self._turn:
            self._kept[key] = profile
            self._kept.move_to_end(key)
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)


@cache
def profiles() -> Profiles:
    """Return the profiles that this process keeps."""
    return Profiles()


@cache
def analyser() -> WordAnalyser:
    """Return what cuts texts into words, the same as the index does it."""
    from lorelog.retrieval.analyse import WordAnalyser

    return WordAnalyser()


def tell_apart(query: str, candidates: Sequence[Profile]) -> dict[str, float]:
    """Return of each task how much of what tells the candidates apart in a question it has, 0 to 1.

    Words that no candidate has are the question's too: the more of them, the less the others tell. So a question in words of
    its own is left to its meaning.
    """
    asked = [term.text for term in analyser().query_terms(query)]
    held = Counter(word for one in candidates for word in asked if word in one.words)
    rarity = {word: log(1.0 + (len(candidates) - held[word] + 0.5) / (held[word] + 0.5)) for word in asked}
    whole = sum(rarity.values()) or 1.0
    return {one.task.id: sum(rarity[word] * one.weight(word) for word in rarity) / whole for one in candidates}


def find_spoken(query: str, candidates: Sequence[Profile]) -> float:
    """Return which share of a question's words the task has that has most of them, 0 to 1."""
    asked = [term.text for term in analyser().query_terms(query)]
    return max((sum(word in one.words for word in asked) / len(asked) for one in candidates if asked), default=0.0)


def standing(query: str, candidates: Sequence[Profile]) -> set[str]:
    """Return the tasks that stand as a question says, if it says so and they do not all stand alike."""
    asked = {term.text for term in analyser().query_terms(query)}
    called = {one.task.status: asked.intersection(_called(one.task.status)) for one in candidates}
    return {one.task.id for one in candidates if called[one.task.status]} if len(called) > 1 else set()


@cache
def _called(status: str) -> frozenset[str]:
    return frozenset(analyser().words(f"{status.replace('_', ' ')} {_STATUSES.get(status, '')}")) - {"in"}


def _profile(task: Task, records: list[Record]) -> Profile:
    words = analyser().words
    about = set(words(task.goal))
    said: set[str] = set()
    for one in records:
        about.update(words(" ".join(_named(one))))
        said.update(words(search_text(one)))
    return Profile(task, tuple(records), frozenset(about), frozenset(about | said))


def _named(record: Record) -> tuple[str, ...]:
    return (
        *names_in(record, "dataset_refs"),
        *names_in(record, "entity_refs"),
        record.text("tool_name"),
        record.text("challenge_id"),
        record.text("goal"),
    )
