"""Replay of a guard over past tool calls: what it would have hit, and how many of those calls the user corrected.

A hit counts as corrected if the user rejected or interrupted the call, or if the user's next words are those of the
rule: they were filed as it, or repeat it. What other words mean is not guessed: everything else counts as a false alarm,
so the figure is pessimistic. `past_calls` reads the calls.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from msgspec import Struct

from lorelog.core.errors import UsageError
from lorelog.language.analyser import split_sentences
from lorelog.light.guard_check import CallView
from lorelog.services.guards.guard_log import Guard, GuardConditions, check_literals

MAX_SHARE = 0.5
"""Share of the calls of its kind above which a guard is refused."""
_MIN_CALLS_FOR_SHARE = 20
_MAX_SHOWN_CHARS, _MAX_QUOTE_CHARS = 200, 400
_END = " .!…"


class PastCall(Struct, frozen=True, kw_only=True):
    """A tool call of the past, in the form that hooks use, and how the user reacted."""

    tool: str
    kind: str
    paths: tuple[str, ...] = ()
    command: str = ""
    content: str = ""
    at: str = ""
    """ISO time; empty if unknown."""
    host: str = ""
    session: str = ""
    turn: str = ""
    directory: str = ""
    """Working directory of the session."""
    rejected: bool = False
    """True if the user refused the call."""
    interrupted: bool = False
    """True if the user stopped it while it ran."""
    statement: str = ""
    """The user's next words."""
    complete: bool = True
    """False if the text that the call wrote is not known."""
    traced: bool = False
    """True if it is known from traces only."""
    stopped: bool = False
    """True if a guard or a rule stopped it."""

    def as_fields(self) -> dict[str, Any]:
        """Return the call as `guard_check` matches it."""
        fields = {name: getattr(self, name) for name in ("tool", "kind", "command", "content")}
        return fields | {"paths": list(self.paths)}


class ReplayHit(Struct, frozen=True, kw_only=True):
    """A past call that the guard matches."""

    call: PastCall
    corrected: bool
    why: str
    """How the user reacted: rejected, interrupted, or corrected; empty if there was no reaction."""
    verdict: str = ""
    """What it shows of a rule."""


class ReplayReport(Struct, frozen=True, kw_only=True):
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


def replay(guard: Guard, calls: Sequence[PastCall], said: Collection[str], notes: Sequence[str] = ()) -> ReplayReport:
    """Replay a guard over calls, oldest first. `said` are the words of the rule that it comes from."""
    fields = guard.as_fields()
    hits: list[ReplayHit] = []
    applicable = 0
    for call in calls:
        applicable += _is_applicable(guard, call)
        if CallView(call.as_fields(), call.directory or "/").matches(fields):
            why = reaction_to(call, said)
            hits.append(ReplayHit(call=call, corrected=bool(why), why=why))
    incomplete = sum(not call.complete for call in calls)
    all_notes = list(notes)
    if guard.content and incomplete:
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
    """Raise UsageError for a guard that matches nearly every call of its kind, with the count if there are calls."""
    check_literals(guard)
    hits = len(report.hits)
    if report.applicable >= _MIN_CALLS_FOR_SHARE and hits > MAX_SHARE * report.applicable:
        calls = "commands" if guard.command else "edits" if guard.paths or guard.content else "calls"
        raise UsageError(
            f"guard {guard.id} matches {hits:,} of {report.applicable:,} {calls}: that is nearly everything",
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


def _is_applicable(conditions: GuardConditions, call: PastCall) -> bool:
    if conditions.command:
        return bool(call.command)
    if conditions.paths or conditions.content:
        return call.kind == "edit"
    return True


def reaction_to(call: PastCall, said: Collection[str]) -> str:
    """Return how the user reacted to a call: rejected, interrupted, corrected, or empty. `said` are the words of the rule."""
    if call.rejected or call.interrupted:
        return "rejected" if call.rejected else "interrupted"
    words = {quote_words(words).rstrip(_END) for words in (call.statement, *split_sentences(call.statement))} - {""}
    return "" if words.isdisjoint(quote_words(text).rstrip(_END) for text in said) else "corrected"


def quote_words(text: str) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_QUOTE_CHARS else f"{line[: _MAX_QUOTE_CHARS - 1]}…"


def format_hit(hit: ReplayHit) -> str:
    """Return the call of a hit in one line without secrets."""
    return _shorten(hit.call.command or " ".join(hit.call.paths) or hit.call.tool)


def format_statement(hit: ReplayHit) -> str:
    """Return the user's words that corrected a hit, in one line without secrets; empty if there are none."""
    return _shorten(hit.call.statement) if hit.corrected else ""


def _shorten(text: str) -> str:
    from lorelog.ingest.redaction.redact import redact

    return redact(" ".join(text.split())[:_MAX_SHOWN_CHARS]).text
