"""Replay of a guard over past tool calls: what it would have hit, and how many of those calls the user corrected.

A hit counts as corrected if the user rejected the call, or if the user's next words are the guard's correction or a
correction that names what the guard matches. Everything else counts as a false alarm, so the figure is pessimistic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from lorelog.core.errors import LorelogError, UsageError
from lorelog.core.query import Filters
from lorelog.services.delivery.guard_check import CallView
from lorelog.services.guards.guard_log import Guard, GuardConditions
from lorelog.services.guards.past_calls import (
    PastCall,
    TranscriptCallCache,
    call_from_arguments,
    calls_from_traces,
    summarize_call,
)

if TYPE_CHECKING:
    from lorelog.core.ports import Store
    from lorelog.services.memories.transcript_access import TranscriptAccess
    from lorelog.services.traces.recorder import TraceStore

MAX_SHARE = 0.5
"""Share of the calls of its kind above which a guard is refused."""
_MIN_CALLS_FOR_SHARE = 20
_MAX_TRACED_CALLS = 50_000
_MAX_TRANSCRIPTS = 500
_MAX_ENTRIES = 20_000
_MAX_TRANSCRIPT_BYTES = 400_000_000
_MIN_COMMON_WORDS = 0.6
_MAX_STATEMENT_SHOWN = 200
_WORD = re.compile(r"[\w./-]+")
_CORRECTION = re.compile(
    r"\b(?:no|not|don't|dont|do not|never|stop|instead|wrong|undo|revert|rather|always|must|should(?:n't)?|why did you)\b",
    re.IGNORECASE,
)
_CACHE = TranscriptCallCache()


class ReplayHit(Struct, frozen=True, kw_only=True):
    """A past call that the guard matches."""

    call: PastCall
    corrected: bool
    why: str
    """How the user reacted: rejected, or corrected; empty if there was no reaction."""


class ReplayReport(Struct, frozen=True, kw_only=True):
    """Result of a replay."""

    total: int
    """Calls that were replayed."""
    applicable: int
    """Calls of the kind that the guard is about: commands, edits, or all."""
    hits: tuple[ReplayHit, ...]
    from_transcripts: int
    from_traces: int
    notes: tuple[str, ...] = ()

    @property
    def corrected(self) -> int:
        """Number of hits that the user corrected."""
        return sum(hit.corrected for hit in self.hits)


class ReplaySources(Struct, frozen=True, kw_only=True):
    """The past calls of a project: its transcripts and its traces."""

    store: Store
    traces: TraceStore
    project: str
    project_root: str
    access: TranscriptAccess
    all_projects: bool = False
    """True for a guard that applies to all projects."""

    def calls(self) -> tuple[list[PastCall], tuple[str, ...]]:
        """Return the calls, and notes about sources that could not be read."""
        projects = None if self.all_projects else (self.project, "")
        notes: list[str] = []
        calls: list[PastCall] = []
        for path, session in self._transcripts(projects, notes):
            calls += _CACHE.calls(path, session)
        sessions = frozenset(call.session for call in calls if call.session)
        calls += self._traced(projects, sessions, notes)
        return calls, tuple(notes)

    def _transcripts(self, projects: tuple[str, ...] | None, notes: list[str]) -> list[tuple[str, str]]:
        """Return transcripts that anchors name, newest first. Files of the repository itself are not transcripts."""
        from pathlib import Path

        from lorelog.core.paths import is_below

        found: dict[tuple[str, str], None] = {}
        size = 0
        for stored in self.store.recent(Filters(projects=projects), _MAX_ENTRIES):
            anchor = stored.chunk.anchor
            if anchor is None or not anchor.transcript or "://" in anchor.transcript:
                continue
            path = Path(stored.chunk.source).parent / anchor.transcript
            try:
                path = Path(anchor.transcript).expanduser() if anchor.transcript.startswith("~") else path
                key = (str(path), anchor.session)
                if key in found or is_below(str(path), self.project_root):
                    continue
                real = self.access.resolve(stored, str(path), anchor.session)
                if not real or not Path(real).is_file():
                    continue
                size += path.stat().st_size
            except (OSError, ValueError, RuntimeError):
                continue
            if len(found) >= _MAX_TRANSCRIPTS or size > _MAX_TRANSCRIPT_BYTES:
                notes.append(f"only the newest {len(found):,} transcripts were read")
                break
            found[key] = None
        return list(found)

    def _traced(
        self, projects: tuple[str, ...] | None, known_sessions: frozenset[str], notes: list[str]
    ) -> list[PastCall]:
        from lorelog.services.traces.tables import TraceFilter

        if not self.traces.options.enabled:
            return []
        try:
            filter_ = TraceFilter(projects=projects, source="turn", limit=_MAX_TRACED_CALLS)
            traced, total = self.traces.tables().calls(filter_)
        except LorelogError as error:
            notes.append(f"traces could not be read: {error.message}")
            return []
        if total > len(traced):
            notes.append(f"only the newest {len(traced):,} of {total:,} traced calls were replayed")
        return calls_from_traces(traced, known_sessions)


def replay(guard: Guard, calls: Sequence[PastCall], correction: str, notes: Sequence[str] = ()) -> ReplayReport:
    """Replay a guard over calls, oldest first. `correction` is the text of the memory that it comes from."""
    fields = guard.as_fields()
    hits: list[ReplayHit] = []
    applicable = 0
    for call in calls:
        applicable += _is_applicable(guard.conditions, call)
        if CallView(call.as_fields(), call.directory or "/").matches(fields):
            why = _reaction(guard, call, correction)
            hits.append(ReplayHit(call=call, corrected=bool(why), why=why))
    incomplete = sum(not call.complete for call in calls)
    all_notes = list(notes)
    if guard.conditions.content and incomplete:
        all_notes.append(f"the written text of {incomplete:,} calls is not known; they count as no match")
    traced = sum(call.traced for call in calls)
    return ReplayReport(
        total=len(calls),
        applicable=applicable,
        hits=tuple(sorted(hits, key=lambda hit: hit.call.at)),
        from_transcripts=len(calls) - traced,
        from_traces=traced,
        notes=tuple(all_notes),
    )


def check_share(guard: Guard, report: ReplayReport) -> None:
    """Raise UsageError, with the count, for a guard that matches nearly every call of its kind."""
    if not guard.conditions.patterns():
        count = f" ({report.total:,} of {report.total:,})" if report.total else ""
        raise UsageError(
            f"a guard without a condition matches every call{count}", hint="give --command, --path or --content"
        )
    hits = len(report.hits)
    if report.applicable >= _MIN_CALLS_FOR_SHARE and hits > MAX_SHARE * report.applicable:
        raise UsageError(
            f"guard {guard.id} matches {hits:,} of {report.applicable:,} {_kind_words(guard.conditions)}:"
            " that is nearly everything",
            hint="use a narrower pattern",
        )
    sample = [call for call in EVERYDAY_CALLS if _is_applicable(guard.conditions, call)]
    fields = guard.as_fields()
    matched = sum(CallView(call.as_fields(), "/project").matches(fields) for call in sample)
    if sample and matched > MAX_SHARE * len(sample):
        raise UsageError(
            f"guard {guard.id} matches {matched} of {len(sample)} everyday {_kind_words(guard.conditions)}",
            hint="use a narrower pattern",
        )


def format_verdict(report: ReplayReport) -> str:
    """Return the result in one sentence: `3 of 11,402: 2 were what you corrected, 1 was not`."""
    count = len(report.hits)
    if not report.total:
        return "no captured tool calls to replay"
    if not count:
        return f"0 of {report.total:,}: it would not have matched any call"
    wrong = count - report.corrected
    verb = {True: "was", False: "were"}
    return (
        f"{count:,} of {report.total:,}: {report.corrected:,} {verb[report.corrected == 1]} what you corrected,"
        f" {wrong:,} {verb[wrong == 1]} not"
    )


def _kind_words(conditions: GuardConditions) -> str:
    return "commands" if conditions.command else "edits" if conditions.paths or conditions.content else "calls"


def _is_applicable(conditions: GuardConditions, call: PastCall) -> bool:
    if conditions.command:
        return bool(call.command)
    if conditions.paths or conditions.content:
        return call.kind == "edit"
    return True


def _reaction(guard: Guard, call: PastCall, correction: str) -> str:
    if call.rejected:
        return "rejected"
    if not call.statement:
        return ""
    wanted, words = _words(correction), _words(call.statement)
    if wanted and len(wanted & words) >= _MIN_COMMON_WORDS * len(wanted):
        return "corrected"
    names = _literal_words(guard.conditions)
    return "corrected" if _CORRECTION.search(call.statement) and any(name in words for name in names) else ""


def _words(text: str) -> set[str]:
    return {word.strip("./-").lower() for word in _WORD.findall(text)} - {""}


def _literal_words(conditions: GuardConditions) -> set[str]:
    """Return the words that a user would name to mean what the guard matches."""
    texts: Iterable[str] = (conditions.content, *conditions.paths) if not conditions.command else (conditions.command,)
    words = {word for text in texts for word in _words(text.replace("*", " ").replace("?", " "))}
    if conditions.command:  # of `git push *--force *` the last word, not `git`
        ordered = [word.strip("./-").lower() for word in _WORD.findall(conditions.command.replace("*", " "))]
        words = set(ordered[-1:])
    return {word for word in words if len(word) > 1}


def _samples(tool: str, key: str, texts: str) -> list[PastCall]:
    return [call_from_arguments(tool, {key: text, "content": "value = 1"}) for text in texts.split("\n")]


EVERYDAY_CALLS: tuple[PastCall, ...] = (
    *_samples(
        "Bash",
        "command",
        "ls -la\ngit status\ngit diff\ngit log --oneline -5\ngit add -A\ngit commit -m 'fix: typo'\ncat README.md\n"
        "grep -rn main src\nfind . -name '*.py'\nnpm test\nnpm run build\npytest -q\npython -m pytest tests\nmake test\n"
        "cargo build\ngo test ./...\ndocker ps\ncurl -s localhost:8080\nmkdir -p build\nrm -rf build\nsed -n 1,20p a.txt\n"
        "which node\necho done\nuv sync\npnpm install\ncd app && ls\nps aux\nwc -l src/main.py",
    ),
    *_samples(
        "Write",
        "file_path",
        "src/main.py\nsrc/app.ts\nREADME.md\ntests/test_main.py\npackage.json\npyproject.toml\nlib/util.go\nsrc/lib.rs\n"
        "docs/guide.md\napp/models/user.rb\nsrc/index.html\nstyles/site.css\nMakefile\nconfig/settings.yaml\n"
        "src/components/Button.tsx\ncmd/server/main.go",
    ),
)
"""Ordinary calls, so that a guard that matches everything is refused before anything was captured."""


def format_hit(hit: ReplayHit) -> str:
    """Return the call of a hit in one line without secrets."""
    from lorelog.ingest.redaction.redact import redact

    return redact(summarize_call(hit.call)).text


def format_statement(hit: ReplayHit) -> str:
    """Return the user's words that corrected a hit, in one line without secrets; empty if there are none."""
    from lorelog.ingest.redaction.redact import redact

    return redact(" ".join(hit.call.statement.split())[:_MAX_STATEMENT_SHOWN]).text if hit.corrected else ""
