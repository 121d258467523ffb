"""Finds earlier occurrences of an error, and how it was fixed.

Errors are matched by signature, then by message regardless of origin, then by similarity. For the matches, the turns in
which they occurred are returned, and their fixes: where the same command passed later, the files written in between are
the likely fix. Memories, decisions and finished tasks are searched as well, and returned only if they mention the
error: the nearest unrelated text would be worse than none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import PurePath

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.document import StoredChunk
from lorelog.core.query import Hit, SearchReply
from lorelog.core.session import LocatedTrace, StackTrace
from lorelog.ingest.tracebacks import finder
from lorelog.ingest.tracebacks.blocks import message_trace
from lorelog.language import lexicon
from lorelog.services.traces.tables import ErrorGroup, TracedCall, TracedError, TraceFilter, TraceTables, redact_trace

MATCH_EXACT, MATCH_SAME_MESSAGE, MATCH_SIMILAR = "exact", "same message", "similar"
"""Kinds of match between an earlier error and this one."""
_MAX_GROUPS = 10
_MAX_COMPARED = 3_000
_MIN_SIMILARITY = 0.6
_MAX_OCCURRENCES = 5
_MAX_TURNS = 5
_MAX_MENTIONS = 5
_MAX_SEARCHED = 20
_MAX_FILES = 20
_MAX_HINTS = 2
_MIN_MENTION_SHARE = 0.6
"""Share of an error's distinctive words that a text must contain to be about it."""
_ERROR_WORDS = frozenset(
    "error errors failed failure exception panic test file path line none null true false command exit code status found directory".split()
)
_GENERIC_TYPES = {"error", "exception", "panic", "fatal", "fatal error", "test failure", "err", "bash", "sh", ""}


class ErrorHistorySources(Struct, frozen=True):
    """Traces and searches that the history is built from."""

    tables: TraceTables
    search: Callable[[str, int], SearchReply]
    """Searches memories and records."""
    get: Callable[[str], StoredChunk | None]
    """Returns a memory by its id."""
    clean: Callable[[str], str]
    """Removes secrets."""
    projects: tuple[str, ...] | None = None


KnownError = tuple[ErrorGroup, str]
"""An earlier error, and how it matches."""


class RelatedTurn(Struct, frozen=True, kw_only=True):
    """The memory of a turn in which the error occurred, or of the next turn."""

    memory: StoredChunk
    session: str
    host: str
    branch: str
    at: int
    is_after: bool = False


class ErrorFix(Struct, frozen=True):
    """A later run of the same command that passed, and the files written in between."""

    failed: TracedError
    passed: TracedCall
    files: tuple[str, ...]
    memory: StoredChunk | None = None
    """Memory of the turn in which it passed."""


class ErrorHistory(Struct, frozen=True, kw_only=True):
    """Earlier occurrences of an error, its fixes, and related memories."""

    trace: StackTrace
    signature: str
    seen: tuple[KnownError, ...]
    occurrences: tuple[TracedError, ...]
    fixes: tuple[ErrorFix, ...]
    turns: tuple[RelatedTurn, ...]
    decisions: tuple[Hit, ...]
    tasks: tuple[Hit, ...]
    memories: tuple[Hit, ...]
    notes: tuple[str, ...] = ()


class ErrorHint(Struct, frozen=True, kw_only=True):
    """The shortest useful answer about an error: how often and when it occurred, what was changed then, and the memory of that turn."""

    signature: str
    at: int
    """Of its last occurrence."""
    sessions: int
    """Other sessions in which it occurred."""
    files: tuple[str, ...]
    """Changed before the same command passed, and named in the error."""
    memory: StoredChunk | None


def find_error_hints(text: str, sources: ErrorHistorySources, session: str) -> list[ErrorHint]:
    """Return hints about the same error in other sessions, best first; without any search, for a caller in a hurry.

    A similar error is not enough, nor one without a stack: "No such file" occurs everywhere, and the summary of a linter says nothing of the rule.
    Files that were changed before the command passed count only if the error names them, and if that was so in most of the sessions;
    without one there is no hint.
    """
    trace = redact_trace(LocatedTrace(parse_error(text), "", 1, 1), sources.clean).trace
    if not trace.frames:
        return []
    seen = [known for known in _find_known_errors(trace, sources) if known[1] != MATCH_SIMILAR]
    occurrences = [error for error in _find_occurrences(seen, sources) if not session or error.session != session]
    named = f"{text}\n{' '.join(frame.file for frame in trace.frames)}"
    at, sessions = max((error.at for error in occurrences), default=0), len({error.session for error in occurrences})
    fixes = _find_fixes(occurrences, sources)
    changed = Counter(file for file, _ in {(file, fix.failed.session) for fix in fixes for file in fix.files})
    return [
        ErrorHint(signature=fix.failed.signature, at=at, sessions=sessions, files=files, memory=fix.memory)
        for fix in fixes
        if (files := tuple(file for file in fix.files if PurePath(file).name in named and 2 * changed[file] > sessions))
    ][:_MAX_HINTS]


def explain_error(text: str, sources: ErrorHistorySources) -> ErrorHistory:
    """Return the history of the error in a text: of the last one with a stack, else of the first."""
    # Redact as when errors are recorded, or the same error would have another signature because of its secrets.
    trace = redact_trace(LocatedTrace(parse_error(text), "", 1, 1), sources.clean).trace
    seen = _find_known_errors(trace, sources)
    occurrences = _find_occurrences(seen, sources)
    turns = _find_related_turns(occurrences, sources)
    fixes = _find_fixes(occurrences, sources)
    turn_ids = {turn.memory.id for turn in turns} | {fix.memory.id for fix in fixes if fix.memory is not None}
    kind = "" if trace.type.lower() in _GENERIC_TYPES else finder.bare_type(trace.type)
    query = f"{kind} {finder.message_headline(trace.message)}".strip()[:500] or trace.type or "error"
    reply = sources.search(query, _MAX_SEARCHED)
    hits = [hit for hit in reply.hits if hit.id not in turn_ids and _mentions(hit, trace)]
    return ErrorHistory(
        trace=trace,
        signature=finder.trace_signature(trace),
        seen=tuple(seen),
        occurrences=tuple(occurrences),
        fixes=tuple(fixes),
        turns=tuple(turns),
        decisions=tuple(hit for hit in hits if _hit_kind(hit) == "decision")[:_MAX_MENTIONS],
        tasks=tuple(hit for hit in hits if _hit_kind(hit) == "task")[:_MAX_MENTIONS],
        memories=tuple(hit for hit in hits if not _hit_kind(hit))[:_MAX_MENTIONS],
        notes=reply.notes if hits else (),  # notes about a search whose hits are not shown would only puzzle
    )


def parse_error(text: str) -> StackTrace:
    """Return the error in a text; the whole text as a message if none is recognized."""
    traces = [located.trace for located in finder.find_traces(text)]
    stacks = [trace for trace in traces if trace.frames and trace.language != "generic"]
    if stacks:
        return stacks[-1]
    return traces[0] if traces else message_trace(finder.message_headline(text) or text)


def _find_known_errors(trace: StackTrace, sources: ErrorHistorySources) -> list[KnownError]:
    """Return matching earlier errors, best match first."""
    signature, family = finder.trace_signature(trace), finder.trace_family(trace)
    causes = {finder.trace_family(cause) for cause in trace.causes}
    words = _words(trace)
    rated: list[tuple[float, KnownError]] = []
    for group in sources.tables.groups(TraceFilter(projects=sources.projects, limit=_MAX_COMPARED)):
        rating, match = 0.0, MATCH_SIMILAR
        types = {finder.bare_type(trace.type).lower(), finder.bare_type(group.type).lower()}
        if group.signature == signature:
            rating, match = 3.0, MATCH_EXACT
        elif group.family == family or group.family in causes:
            rating, match = 2.0, MATCH_SAME_MESSAGE
        elif len(types) == 1 or not types.isdisjoint(_GENERIC_TYPES):  # not two different specific types
            theirs = _words(StackTrace(group.language, group.type, group.message))
            rating = len(words & theirs) / len(words | theirs) if len(words & theirs) > 1 else 0.0
        if rating >= _MIN_SIMILARITY:
            rated.append((rating, (group, match)))
    rated.sort(key=lambda pair: (-pair[0], -pair[1][0].last_at))
    return [error for _, error in rated[:_MAX_GROUPS]]


def _words(trace: StackTrace) -> frozenset[str]:
    kind = finder.bare_type(trace.type)
    text = f"{'' if kind.lower() in _GENERIC_TYPES else kind} {finder.normalize_message(trace.message)}"
    return frozenset(
        word
        for word in re.findall(r"[a-z_][a-z0-9_]{2,}", text.lower(), re.ASCII)
        if word not in _ERROR_WORDS and word not in lexicon("function_words")
    )


def _find_occurrences(seen: Iterable[KnownError], sources: ErrorHistorySources) -> list[TracedError]:
    """Return the last occurrences: several of the same error, one of each similar error."""
    occurrences: list[TracedError] = []
    for group, match in seen:
        limit = 1 if match == MATCH_SIMILAR else _MAX_OCCURRENCES
        filter_ = TraceFilter(projects=sources.projects, signature=group.signature, limit=limit)
        occurrences += sources.tables.errors(filter_)[0]
    return occurrences[: 2 * _MAX_OCCURRENCES]


def _find_related_turns(occurrences: Iterable[TracedError], sources: ErrorHistorySources) -> list[RelatedTurn]:
    """Return the turns in which the errors occurred, each followed by the next of its session."""
    turns: dict[str, RelatedTurn] = {}
    for error in occurrences:
        for id_, is_after in ((error.memory, False), (sources.tables.turn_after(error), True)):
            memory = sources.get(id_) if id_ and id_ not in turns else None
            if memory is not None:
                origin = {"session": error.session, "host": error.host, "branch": error.branch}
                turns[id_] = RelatedTurn(memory=memory, at=error.at, is_after=is_after, **origin)
    return list(turns.values())[:_MAX_TURNS]


def _find_fixes(occurrences: Iterable[TracedError], sources: ErrorHistorySources) -> list[ErrorFix]:
    fixes: dict[str, ErrorFix] = {}
    for error in occurrences:
        passed, between = sources.tables.next_passing(error)
        if passed is None or passed.id in fixes:
            continue
        files = tuple(dict.fromkeys(file for call in between if not call.failed for file in call.files))[:_MAX_FILES]
        memory = sources.get(passed.memory) if passed.memory else None
        fixes[passed.id] = ErrorFix(error, passed, files, memory)
    return list(fixes.values())


def _mentions(hit: Hit, trace: StackTrace) -> bool:
    """Return True if a text contains most of the error's distinctive words."""
    words = _words(replace(trace, message=finder.message_headline(trace.message)))
    text = hit.content.lower()
    return bool(words) and sum(word in text for word in words) / len(words) >= _MIN_MENTION_SHARE


def _hit_kind(hit: Hit) -> str:
    kinds = {record.kind for record in hit.grounding[:1]}
    if hit.type == "decision" or "decision" in kinds:
        return "decision"
    return "task" if kinds else ""
