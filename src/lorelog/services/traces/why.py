"""Have we seen this error before, and what was done about it?

An error is looked for by its signature, then by what it says wherever it came from, then by what is nearly the same. Around
what is found stand the turns in which it happened, and what came after: where the same command passed later, the files that
were written in between are what fixed it, as far as traces can tell. Beside that memories, decisions and finished tasks
are searched, and only those are told that really mention it: the nearest of nothing would be worse than nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from lorelog.core.document import StoredChunk
from lorelog.core.query import Hit, SearchReply
from lorelog.core.trace import FoundTrace, StackTrace
from lorelog.ingest.stacks import find_traces
from lorelog.ingest.stacks_messages import said_alone
from lorelog.ingest.stacks_signature import bare_type, family, normalised, signature, telling
from lorelog.services.traces.tables import TraceTables, Wanted
from lorelog.services.traces.values import ErrorGroup, TracedCall, TracedError, cleaned

EXACT, SAME, SIMILAR = "exact", "same message", "similar"
"""How sure it is that an earlier error is this one."""
_GROUPS = 10
_LOOKED_AT = 3_000
_ALIKE = 0.6
_OCCURRENCES = 5
_TURNS = 5
_MENTIONS = 5
_SEARCHED = 20
_FILES = 20
_MENTIONED = 0.6
"""Share of an error's telling words that a text must have to be about it."""
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,}")
_PLAIN = frozenset(
    [
        "the",
        "and",
        "for",
        "not",
        "was",
        "with",
        "from",
        "that",
        "this",
        "you",
        "are",
        "has",
        "have",
        "but",
        "can",
        "could",
        "been",
        "its",
        "into",
        "error",
        "errors",
        "failed",
        "failure",
        "exception",
        "panic",
        "test",
        "file",
        "path",
        "line",
        "none",
        "null",
        "true",
        "false",
        "command",
        "exit",
        "code",
        "status",
        "found",
        "such",
        "directory",
    ]
)
_PLAIN_TYPES = frozenset(
    {"error", "exception", "panic", "fatal", "fatal error", "test failure", "err", "bash", "sh", ""}
)


@dataclass(frozen=True, slots=True)
class Sources:
    """Who is asked beside the traces."""

    tables: TraceTables
    search: Callable[[str, int], SearchReply]
    """Finds memories and records."""
    get: Callable[[str], StoredChunk | None]
    """Returns a memory by its own id."""
    projects: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """An error that was seen before, and how alike it is."""

    group: ErrorGroup
    match: str


@dataclass(frozen=True, slots=True)
class Around:
    """The memory of a turn in which it happened, or of the one after."""

    memory: StoredChunk
    session: str
    host: str
    branch: str
    at: int
    is_after: bool = False


@dataclass(frozen=True, slots=True)
class Fix:
    """The same command passed later: when, and what was written in between."""

    failed: TracedError
    passed: TracedCall
    files: tuple[str, ...]
    memory: StoredChunk | None = None
    """Of the turn in which it passed."""


@dataclass(frozen=True, slots=True)
class WhyReply:
    """What is known of an error."""

    trace: StackTrace
    signature: str
    seen: tuple[Seen, ...]
    occurrences: tuple[TracedError, ...]
    fixes: tuple[Fix, ...]
    turns: tuple[Around, ...]
    decisions: tuple[Hit, ...]
    tasks: tuple[Hit, ...]
    memories: tuple[Hit, ...]
    notes: tuple[str, ...] = ()


def why(text: str, sources: Sources, clean: Callable[[str], str]) -> WhyReply:
    """Say what is known of the error that a text tells; of several, of the last one that has a stack, else of the first."""
    # Cleaned as what is kept was: the same error has the same signature with and without its secrets.
    trace = cleaned(FoundTrace(asked_about(text), "", 1, 1), clean).trace
    seen = _seen(trace, sources)
    occurrences = _occurrences(seen, sources)
    turns = _around(occurrences, sources)
    fixes = _fixes(occurrences, sources)
    shown = {one.memory.id for one in turns} | {one.memory.id for one in fixes if one.memory is not None}
    reply = sources.search(_question(trace), _SEARCHED)
    hits = [hit for hit in reply.hits if hit.id not in shown and _mentions(hit, trace)]
    return WhyReply(
        trace,
        signature(trace),
        tuple(seen),
        tuple(occurrences),
        tuple(fixes),
        tuple(turns),
        tuple(hit for hit in hits if _kind(hit) == "decision")[:_MENTIONS],
        tuple(hit for hit in hits if _kind(hit) == "task")[:_MENTIONS],
        tuple(hit for hit in hits if not _kind(hit))[:_MENTIONS],
        reply.notes,
    )


def asked_about(text: str) -> StackTrace:
    """Return the error that a text tells, or that it is."""
    found = [one.trace for one in find_traces(text)]
    stacks = [one for one in found if one.frames and one.language != "generic"]
    if stacks:
        return stacks[-1]
    return found[0] if found else said_alone(telling(text) or text)


def _seen(trace: StackTrace, sources: Sources) -> list[Seen]:
    """Return what was seen before, the likeliest first."""
    wanted = Wanted(sources.projects, limit=_LOOKED_AT)
    groups = sources.tables.groups(wanted)
    own, kin = signature(trace), family(trace)
    causes = {family(one) for one in trace.causes}
    words = _words(trace)
    rated: list[tuple[float, Seen]] = []
    for group in groups:
        if group.signature == own:
            rated.append((3.0, Seen(group, EXACT)))
        elif group.family == kin or group.family in causes:
            rated.append((2.0, Seen(group, SAME)))
        else:
            alike = _alike(trace, words, group)
            if alike >= _ALIKE:
                rated.append((alike, Seen(group, SIMILAR)))
    rated.sort(key=lambda one: (-one[0], -one[1].group.last_at))
    return [seen for _, seen in rated[:_GROUPS]]


def _alike(trace: StackTrace, words: frozenset[str], group: ErrorGroup) -> float:
    """Say how much of two messages is the same; errors of two types that both have a name are two errors."""
    one, other = bare_type(trace.type).lower(), bare_type(group.type).lower()
    if one != other and one not in _PLAIN_TYPES and other not in _PLAIN_TYPES:
        return 0.0
    theirs = _words(StackTrace(group.language, group.type, group.message))
    both = words | theirs
    return len(words & theirs) / len(both) if both and len(words & theirs) > 1 else 0.0


def _words(trace: StackTrace) -> frozenset[str]:
    said = (
        f"{'' if bare_type(trace.type).lower() in _PLAIN_TYPES else bare_type(trace.type)} {normalised(trace.message)}"
    )
    return frozenset(word for word in map(str.lower, _WORD.findall(said)) if word not in _PLAIN)


def _occurrences(seen: Iterable[Seen], sources: Sources) -> list[TracedError]:
    """Return the last times it happened: of the same error all, of what is nearly the same one each."""
    found: list[TracedError] = []
    for one in seen:
        limit = 1 if one.match == SIMILAR else _OCCURRENCES
        found += sources.tables.errors(Wanted(sources.projects, signature=one.group.signature, limit=limit))[0]
    return found[: 2 * _OCCURRENCES]


def _around(occurrences: Iterable[TracedError], sources: Sources) -> list[Around]:
    """Return the turns in which it happened, each followed by the next of its session."""
    told: dict[str, Around] = {}
    for error in occurrences:
        for memory, is_after in ((error.origin.memory, False), (sources.tables.turn_after(error), True)):
            held = sources.get(memory) if memory and memory not in told else None
            if held is not None:
                origin = error.origin
                told[memory] = Around(held, origin.session, origin.host, origin.branch, error.at, is_after)
    return list(told.values())[:_TURNS]


def _fixes(occurrences: Iterable[TracedError], sources: Sources) -> list[Fix]:
    found: dict[str, Fix] = {}
    for error in occurrences:
        passed, between = sources.tables.next_passing(error)
        if passed is None or passed.id in found:
            continue
        files = tuple(dict.fromkeys(file for call in between if not call.failed for file in call.files))[:_FILES]
        held = sources.get(passed.origin.memory) if passed.origin.memory else None
        found[passed.id] = Fix(error, passed, files, held)
    return list(found.values())


def _question(trace: StackTrace) -> str:
    kind = "" if trace.type.lower() in _PLAIN_TYPES else bare_type(trace.type)
    return f"{kind} {telling(trace.message)}".strip()[:500] or trace.type or "error"


def _mentions(hit: Hit, trace: StackTrace) -> bool:
    """Say whether a text is about this error: it has most of the words that tell it, names of types and things among them."""
    words = _words(replace(trace, message=telling(trace.message)))
    if not words:
        return False
    said = hit.content.lower()
    return sum(word in said for word in words) / len(words) >= _MENTIONED


def _kind(hit: Hit) -> str:
    kinds = {one.kind for one in hit.grounding[:1]}
    if hit.type == "decision" or "decision" in kinds:
        return "decision"
    return "task" if kinds else ""
