"""Who should do a task: agents that memories name for it, and agents that have finished such tasks.

The shares are memd's. The best of an agent's memories counts, not their sum: otherwise whoever is written about most would
be suggested for everything. What was finished is in the records, and counts beside it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from lorelog.core.document import StoredChunk
from lorelog.records.digests import words_of
from lorelog.records.tables import Asked
from lorelog.services.context.sight import AGENT, FILE, HOT, SUBSYSTEM, TRIGGER, Sight, values_of

BASE, KEYWORD, IS_HOT, OF_SUBSYSTEM, TRIGGERED, NAMES_FILE = 0.1, 0.03, 0.05, 0.15, 0.6, 0.2
FINISHED, MOST_FINISHED = 0.15, 0.45
"""For each similar task that an agent has finished, and for all of them."""
_SIMILAR = 2
"""Words that two tasks must share."""
_MOST_AGENTS, _MOST_MEMORIES, _MOST_TASKS, _MOST_TOLD = 100, 100, 300, 3
_DONE = ("completed", "success")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """An agent, how well it fits, and why."""

    agent: str
    score: float
    reasons: tuple[str, ...]
    triggers: tuple[str, ...] = ()
    """The patterns that a changed file fits."""


@dataclass(slots=True)
class _Case:
    """What speaks for an agent."""

    score: float = 0.0
    reasons: list[str] = field(default_factory=list)
    triggers: list[str] = field(default_factory=list)
    finished: float = 0.0
    tasks: list[str] = field(default_factory=list)


def suggest_agents(
    sight: Sight, task: str, changed_files: Sequence[str] = (), k: int = 3
) -> tuple[list[Suggestion], int]:
    """Return the agents that fit a task best, and how many were considered."""
    words = words_of(task)
    cases: dict[str, _Case] = {}
    for tag in list(sight.store.tags(AGENT, sight.filters))[:_MOST_AGENTS]:
        name = tag[len(AGENT) :]
        for memory in sight.newest(_MOST_MEMORIES, tag) if name else ():
            case = _judge(memory, words, changed_files)
            if case.score > cases.get(name, _Case()).score:
                cases[name] = case
    _add_finished(sight, words, cases)
    made = [
        Suggestion(
            name, round(case.score + case.finished, 4), (*case.reasons, *case.tasks[:_MOST_TOLD]), tuple(case.triggers)
        )
        for name, case in cases.items()
    ]
    return sorted(made, key=lambda one: (-one.score, one.agent))[:k], len(made)


@lru_cache(maxsize=512)
def glob(pattern: str) -> re.Pattern[str]:
    """Return what a path must match: `*` and `?` stay within a directory, `**` does not; a bare name fits anywhere."""
    parts = re.split(r"(\*\*/|/\*\*$|\*\*|\*|\?)", pattern.removeprefix("./"))
    said = {"**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    anywhere = "" if "/" in pattern else "(?:.*/)?"
    return re.compile(anywhere + "".join(said.get(part) or re.escape(part) for part in parts))


def _judge(memory: StoredChunk, words: frozenset[str], files: Sequence[str]) -> _Case:
    chunk = memory.chunk
    case = _Case(BASE, [f"memory {memory.id} names it"])
    shared = sorted(words & words_of(chunk.text))
    if shared:
        case.score += KEYWORD * len(shared)
        case.reasons.append(f"shares words with the task: {', '.join(shared[:8])}")
    if HOT in chunk.tags:
        case.score += IS_HOT
        case.reasons.append("marked as hot")
    subsystems = [key for key in values_of(chunk.tags, SUBSYSTEM) if _is_named(key, words, files)]
    if subsystems:
        case.score += OF_SUBSYSTEM
        case.reasons.append(f"belongs to the subsystem {', '.join(subsystems)}")
    paths = [path.removeprefix("./") for path in files]
    case.triggers = [one for one in values_of(chunk.tags, TRIGGER) if any(map(glob(one).fullmatch, paths))]
    if case.triggers:
        case.score += TRIGGERED
        case.reasons.append(f"a changed file fits {', '.join(case.triggers)}")
    named = [one for one in values_of(chunk.tags, FILE) if one.removeprefix("./") in paths]
    if named:
        case.score += NAMES_FILE
        case.reasons.append(f"names the changed file {', '.join(named)}")
    return case


def _is_named(key: str, words: frozenset[str], files: Sequence[str]) -> bool:
    """Say whether a task speaks of a subsystem, or a changed file lies in a directory of its name."""
    said = words_of(key)
    directories = {part.casefold() for path in files for part in path.split("/")[:-1]}
    return bool(said and said <= words) or key.casefold() in directories


def _add_finished(sight: Sight, words: frozenset[str], cases: dict[str, _Case]) -> None:
    """Add what agents have finished: a task counts for who finished it, if it shares enough words with this one."""
    if not words or not sight.archive.book.exists():
        return
    tables = sight.archive.book.tables()
    least = min(_SIMILAR, len(words))
    for record in tables.find(Asked(kinds=("task_finish",), projects=sight.projects, most=_MOST_TASKS)):
        task = tables.task(record.task)
        goal = record.text("goal") or (task.goal if task is not None else "")
        shared = words & words_of(f"{goal} {record.text('summary')}")
        if record.status not in _DONE or not record.agent.strip() or len(shared) < least:
            continue
        case = cases.setdefault(record.agent.strip(), _Case())
        case.finished = min(case.finished + FINISHED, MOST_FINISHED)
        case.tasks.append(f"finished the similar task {record.task} (shares: {', '.join(sorted(shared)[:8])})")
