"""Files judged statements: rules and decisions become memories of the user, everything else leaves the open statements.

Every verdict is a line of `review.jsonl`, the only record of who judged what. A rule is written to a journal in the judge's
wording, with the words it was made from. It waits for a person instead, with the reason, if

- it would replace a rule that a person added or approved,
- most of the past calls that it is about were never opposed, or
- it was made of repeated instructions, and the judge is not sure.

A rule that repeats a standing one, by the judge's word or word for word, only counts for it. What was said again is one entry with all its sources; a further
repetition is added to them, whether it waits or was refused, so that nobody is asked twice. Nothing is written for what the judge
could not decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.errors import plural
from lorelog.core.serializable import Serializable, utc_now
from lorelog.light.delivery_files import AT_REJECTION, FILED_BY, text_key
from lorelog.services.memory_state.append_log import AppendLog

if TYPE_CHECKING:
    from lorelog.core.memory import NewMemory
    from lorelog.services.memories.lifecycle import AddMemories
    from lorelog.services.review.judge import Verdict
    from lorelog.services.review.statements import Statement
    from lorelog.services.standing.rules import StandingRule

# Reading the log imports neither the judge nor what compares rules with past calls: every `status` reads it.

FILED, SAME, WAITING, CLOSED, REFUSED, UNDECIDED = "filed", "same", "waiting", "closed", "refused", "undecided"
"""What became of a statement: a memory, a repetition of one, a proposal, nothing to keep, refused by a person, or left to one."""
_NOTHING = frozenset({CLOSED, UNDECIDED})
PERSON = "person"
PURPOSE_REVIEW = "review"
BATCH = 20
"""Statements that a judge is sent at once."""
Label = Literal["rule", "decision", "remark", "instruction", "question", "pasted", "other"]
TYPES = {"rule": "preference", "decision": "decision"}
"""Types of the memories that are written, by label."""
_MIN_HITS = 3
"""Past calls that a rule must match before their reactions count against it."""
_MAX_SOURCES, _MAX_SOURCE_CHARS = 3, 120
_PLACES = {"prompt": "in a prompt", "rejection": AT_REJECTION, "answer": "as an answer"}


class SourceStatement(Serializable, Struct, frozen=True):
    """A statement that a repetition was made of."""

    statement: str
    session: str
    said: str
    words: str


class ReviewEntry(Serializable, Struct, frozen=True, kw_only=True):
    """A verdict about a statement, and what became of it."""

    at: str
    statement: str
    label: str
    judge: str
    """`person`, or the model."""
    outcome: str
    memory: str = ""
    """The memory that was written, or that it repeats."""
    said: str = ""
    """Day and way in which it was said."""
    words: str = ""
    """The beginning of what was said; of rules and decisions only."""
    wording: str = ""
    cues: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    everywhere: bool = False
    forbids: bool = False
    """True if it forbids what its cues name."""
    reason: str = ""
    """Why it waits, or is closed although it is a rule."""
    sources: tuple[SourceStatement, ...] = ()
    """Of what was said again, oldest first; `statement` is then an id of its own."""
    arguments: dict[str, Any] = {}
    """Of an agent's change of a memory of the user's: `label` is the operation, and a person's approval calls it with these."""

    @property
    def quotes(self) -> list[str]:
        return [source.words for source in self.sources] or [self.words]

    def new_memory(self, wording: str = "") -> NewMemory:
        """Return the memory of a rule or decision, with the words it was made from."""
        from lorelog.core.memory import NewMemory
        from lorelog.core.session import turn_memory_id

        return NewMemory(
            f"- {wording or self.wording}\n- About: {self.explain()}: “{self.words}”",
            TYPES[self.label],
            id=turn_memory_id("review", "", self.statement),  # a second attempt after a crash writes the same memory
            source=(("said", self.statement),),
            supersedes=self.replaces,
            cues=self.cues,
        )

    def with_sources(self, sources: Iterable[SourceStatement]) -> ReviewEntry:
        """Return the entry with further sources, and a text that has their number, days and words."""
        known = {source.statement: source for source in (*self.sources, *sources)}
        every = sorted(known.values(), key=lambda source: source.said)
        count = plural(len({source.session for source in every}), "session")
        words = " · ".join(f"{source.said}: {source.words[:_MAX_SOURCE_CHARS]}" for source in every[-_MAX_SOURCES:])
        return replace(self, sources=tuple(every), said=f"{every[-1].said} and earlier, in {count}", words=words)

    def explain(self) -> str:
        """Return who said and who filed it, in a few words."""
        return f"said {self.said}, {'approved by you' if self.judge == PERSON else f'{FILED_BY}{self.judge}'}"


_PARSE = partial(msgspec.convert, type=ReviewEntry, strict=False)


class ReviewLog:
    """The verdicts of one tenant. The last one about a statement counts."""

    def __init__(self, folder: Path) -> None:
        self._log = AppendLog(folder / "review.jsonl", _PARSE, is_long=True, is_optional=True)

    def entries(self) -> dict[str, ReviewEntry]:
        """Return the last verdict of each statement, oldest first."""
        found: dict[str, ReviewEntry] = {}
        for entry in self._log.lines():
            found.pop(entry.statement, None)
            found[entry.statement] = entry
        return found

    def by_memory(self) -> dict[str, ReviewEntry]:
        """Return the verdicts that wrote a memory, by its id."""
        return {entry.memory: entry for entry in self.entries().values() if entry.outcome == FILED}

    def words_by_memory(self) -> dict[str, list[str]]:
        """Return the words that each memory was filed from, and those that repeat it."""
        found: dict[str, list[str]] = {}
        for entry in self.entries().values():
            if entry.outcome in (FILED, SAME):
                found.setdefault(entry.memory, []).extend(entry.quotes)
        return found

    def waiting(self) -> list[ReviewEntry]:
        """Return the proposals that wait for a person, newest first."""
        return [entry for entry in reversed(self.entries().values()) if entry.outcome == WAITING]

    def add(self, entries: Iterable[ReviewEntry]) -> None:
        """Append verdicts; they are on disk when this returns."""
        self._log.append(msgspec.to_builtins(entry) for entry in entries)


def _said(statement: Statement) -> str:
    return f"on {statement.date[:10]} {_PLACES[statement.channel]}"


class PastCalls(Struct, frozen=True):
    """How often past calls match a rule, and how many of them the user opposed."""

    matched: int
    opposed: int
    sessions: frozenset[str] = frozenset()
    """Those with a call that matches."""

    @property
    def speaks_against(self) -> str:
        """The reason not to let the rule stand by itself; empty if there is none."""
        if self.matched < _MIN_HITS or 2 * self.opposed >= self.matched:
            return ""
        return f"{self.matched:,} past calls match it, and you opposed {self.opposed:,}"

    def speaks_against_repetition(self, sources: Sequence[SourceStatement]) -> str:
        """The reason not to let stand what was asked for again: in most sessions with such a call nobody asked for it."""
        # Words at a rejection are about what the agent does wrong by itself, so other sessions say nothing.
        said = {source.session for source in sources} & self.sessions
        if not sources or 2 * len(said) >= len(self.sessions) or any(AT_REJECTION in each.said for each in sources):
            return ""
        return f"{len(self.sessions):,} sessions have calls that it is about, and you said it in {len(said):,}"


class Filing(Struct, frozen=True, kw_only=True):
    """Writes verdicts. `judge` is the model's name, or `person`."""

    judge: str
    log: ReviewLog
    add: AddMemories
    replay: Callable[[ReviewEntry], PastCalls]
    """Compares a rule with the past calls."""
    is_persons: Callable[[str], bool]
    """Tells whether a person added or approved a memory."""
    list_at_start: Callable[[str], None]
    """Has a memory that forbids, or was said again, listed at the start of every session."""

    def file(
        self, statements: Sequence[Statement], verdicts: Mapping[str, Verdict], rules: Sequence[StandingRule]
    ) -> list[ReviewEntry]:
        """File statements, the lasting ones oldest first, and return what became of them.

        Those without a verdict are left to a person; no judge is asked about them again by itself.
        """
        from lorelog.services.guards.replay import quote_words

        lasting = {identity for identity, verdict in verdicts.items() if verdict.label in TYPES}
        entries = [self._close(said, verdicts.get(said.id)) for said in statements if said.id not in lasting]
        known = self.log.entries()
        self.log.add(entry for entry in entries if entry.outcome != UNDECIDED or entry.statement not in known)
        standing = {text_key(rule.text): rule.id for rule in rules}
        for said in sorted((said for said in statements if said.id in lasting), key=lambda said: said.date):
            verdict = verdicts[said.id]
            entry = replace(self._close(said, verdict), words=quote_words(said.text))
            same = rules[verdict.same[0] - 1].id if verdict.same else standing.get(text_key(verdict.wording))
            if same:
                entry = replace(entry, outcome=SAME, memory=same)
                self.list_at_start(same)
            else:
                entry = self._propose(entry, verdict, said.date, rules)
                standing |= {text_key(entry.wording): entry.memory} if entry.outcome == FILED else {}
            entries.append(entry)
            self.log.add([entry])
        return entries

    def file_again(
        self, verdict: Verdict, members: Sequence[Statement], rules: Sequence[StandingRule]
    ) -> list[ReviewEntry]:
        """File what the user said again in these statements, oldest first, and return what became of it."""
        from lorelog.core.session import turn_memory_id
        from lorelog.services.guards.replay import quote_words

        known = {entry.statement: entry for entry in self.log.entries().values() if entry.outcome not in _NOTHING}
        owners = known | {source.statement: entry for entry in known.values() for source in entry.sources}
        owner = next((owners[said.id] for said in members if said.id in owners), None)
        standing = (owner.memory if owner is not None else "") or next((rules[n - 1].id for n in verdict.same), "")
        last = self._close(members[-1], verdict)
        sources = [SourceStatement(said.id, said.session, _said(said), quote_words(said.text)) for said in members]
        if standing:
            self.list_at_start(standing)
            entries = [
                replace(self._close(said, verdict), outcome=SAME, memory=standing, words=quote_words(said.text))
                for said in members
                if said.id not in known
            ]
        elif owner is not None:
            entries = [replace(owner, at=last.at).with_sources(sources)]
        else:
            entry = replace(last, statement=turn_memory_id("again", "", members[0].id)).with_sources(sources)
            doubt = "" if verdict.sure else "it may have been meant for the work at hand each time"
            entries = [self._propose(entry, verdict, members[-1].date, rules, doubt=doubt)]
        self.log.add(entries)
        return entries

    def _close(self, statement: Statement, verdict: Verdict | None) -> ReviewEntry:
        return ReviewEntry(
            at=utc_now(),
            statement=statement.id,
            label=verdict.label if verdict else "",
            judge=self.judge,
            outcome=CLOSED if verdict else UNDECIDED,
            said=_said(statement),
        )

    def _propose(
        self, entry: ReviewEntry, verdict: Verdict, date: str, rules: Sequence[StandingRule], *, doubt: str = ""
    ) -> ReviewEntry:
        """Write the memory of a rule or decision of that date, unless it waits for a person or is outdated."""
        replaced = [rules[number - 1] for number in verdict.replaces]
        newer = next((rule.id for rule in replaced if rule.since[:10] > date[:10]), "")
        if newer:
            return replace(entry, memory=newer, reason="you said otherwise since")
        entry = replace(
            entry,
            wording=verdict.wording,
            cues=verdict.cues,
            replaces=tuple(rule.id for rule in replaced),
            everywhere=verdict.everywhere,
            forbids=verdict.forbids,
        )
        reason = self._doubt(entry, forbids=verdict.forbids) or doubt
        if reason:
            return replace(entry, outcome=WAITING, reason=reason)
        memory = self.add([entry.new_memory()], to_global=entry.everywhere)[0].memory
        if entry.forbids or entry.sources:  # some hosts show what belongs to a call after it
            self.list_at_start(memory)
        return replace(entry, outcome=FILED, memory=memory)

    def _doubt(self, entry: ReviewEntry, *, forbids: bool) -> str:
        """Return why a rule waits for a person; empty if it may stand."""
        persons = sum(map(self.is_persons, entry.replaces))
        if persons and self.judge != PERSON:
            return f"it would replace {plural(persons, 'rule')} of your own"
        past = self.replay(entry) if forbids or entry.sources else PastCalls(0, 0)
        return (past.speaks_against if forbids else "") or past.speaks_against_repetition(entry.sources)
