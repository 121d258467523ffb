"""A moment of an agent's session becomes entries of a journal: every finished turn once, whatever happens in between.

What an event says is where to look and how far; what was said is read from the host's own transcript, redacted, and cut to a
note. Each turn has an id that is always the same (`turn_memory`). It is not written when the database of captures, the
tombstones or the journal itself know that id. The database hears of a turn before and after it is written, so that whoever
is stopped at any point leaves something that the next one can go on from.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

from lorelog.core.errors import NotFound, SourceError, StoreError
from lorelog.core.memory import NewMemory
from lorelog.core.ports import Progress
from lorelog.core.session import CapturedTurn, CaptureReply, HookEvent, is_unique, turn_memory
from lorelog.ingest.transcripts.building import Found, Tally
from lorelog.ingest.transcripts.detect import Conversation, open_conversation
from lorelog.ingest.transcripts.heads import Head, read_head
from lorelog.services.hiding import memory_key
from lorelog.services.journal import append_entries, journal_of, stands_in
from lorelog.services.session.anchor import Words, anchor_words, one_word, packed, unpacked
from lorelog.services.session.captures import (
    DONE,
    EMPTY,
    WRITING,
    Captures,
    Row,
    Seen,
    known_captures,
    mute,
    open_captures,
)
from lorelog.services.session.choose import SLACK_S, finished, is_answered
from lorelog.services.session.means import Means
from lorelog.services.session.note import make_note
from lorelog.services.session.placing import found_journals, index_journals
from lorelog.services.session.stragglers import capture_stragglers, remember
from lorelog.services.traces.turns import TracedTurn, note_turns

ANSWER_S = 20.0
"""So long a transcript may take to hold the answer that an event speaks of."""
MISSING_S = 60.0
"""So long one may take to be there at all. Sessions that keep none have none."""
_AT_ONCE = 20
"""Entries that are appended to a journal with one write."""
_GOES_ON = frozenset({"compact"})
"""Not the beginning of a session. One that is taken up again and was never seen before is somebody else's so far: held with
another tenant, or without hooks, or repeated by a fork."""
_AWAITS = frozenset({"turn-end", "turn-failed", "session-end"})
"""Moments before which something was said: a transcript must come to be."""
_COPY = frozenset({"codex", "opencode"})
"""Hosts whose forks repeat turns under ids of their own, with the times of the first."""
_GOING_ON_S = 24 * 3600.0
"""A turn without an end that began longer ago than this was left."""
_SUMMARY_CHARS = 24_000
_LONG_BYTES = 1_000_000
"""A transcript up to this size is read in ten milliseconds."""


@dataclass(frozen=True, slots=True)
class Backfill:
    """All turns of a session are wanted, whenever they were: asked for by a person, not by a hook."""

    since: str = ""
    """ISO day before which none is."""
    dry_run: bool = False
    """Only tell what would be captured."""

    @property
    def first(self) -> float:
        """When that day began here, seconds since 1970."""
        return datetime.fromisoformat(self.since).timestamp() if self.since else 0.0


@dataclass(frozen=True, slots=True)
class _Draft:
    """A turn, or what is new of one, on its way."""

    found: Found
    memory: str
    base: str
    """Id of the memory that the turn's beginning is."""
    seen: Row | None
    """What was known of `memory` when it was drafted."""
    when: datetime
    text: str


def capture(
    event: HookEvent, means: Means, backfill: Backfill | None = None, *, progress: Progress | None = None
) -> CaptureReply:
    """Write the finished turns of a session that are not in a journal yet."""
    if not means.options.enabled:
        if backfill is None:
            mute(means.place.tenant_folder, event.host, event.session, event.at.timestamp() + SLACK_S)
        return CaptureReply(notes=("nothing of this project's sessions is kept (capture.enabled, capture.skip)",))
    if not event.session or not event.host:
        return CaptureReply(notes=("the event names no session",))
    if backfill is not None and backfill.dry_run:
        with known_captures(means.place.tenant_folder) as known:
            return _Capture(event, means, known, Seen(0, 0), backfill).run(progress)
    means.place.found()
    with open_captures(means.place.tenant_folder) as captures:
        begins = event.moment == "session-start" and event.source not in _GOES_ON
        at = event.at.timestamp()
        seen = captures.see(event.host, event.session, at, begins=begins, backfill=backfill is not None)
        if event.moment == "session-start" and backfill is None:
            return _begin(event, means, captures)
        reply = _Capture(event, means, captures, seen, backfill).run(progress)
        if backfill is None and not reply.waiting:
            remember(event, means.place.project.id, captures)
        return reply


def _begin(event: HookEvent, means: Means, captures: Captures) -> CaptureReply:
    """See to the beginning of a session: what those before it have left is captured now."""

    def capture_rest(end: HookEvent) -> CaptureReply:
        return _Capture(end, means, captures, captures.seen(end.host, end.session), None).run(None)

    project = means.place.project.id
    remember(event, project, captures)
    return capture_stragglers(event, project, captures, means.now(), capture_rest)


class _Capture:
    def __init__(
        self, event: HookEvent, means: Means, captures: Captures, seen: Seen, backfill: Backfill | None
    ) -> None:
        self._event, self._means, self._captures, self._seen = event, means, captures, seen
        self._backfill = backfill
        self._age = (means.now() - event.at).total_seconds()
        self._zone = None if backfill is not None else timezone(timedelta(minutes=event.offset))
        self._notes: list[str] = []
        self._is_late = False
        self._touched: set[Path] = set()
        self._root = means.place.journal_root(to_global=False)
        self._deleted = means.job(()).tombstones

    def run(self, progress: Progress | None) -> CaptureReply:
        is_dry = self._backfill is not None and self._backfill.dry_run
        recovered: list[CapturedTurn] = []
        if not is_dry and self._captures.unfinished():
            with self._captures.alone():
                recovered = list(self._recover())
        with self._means.aside():
            read = self._read()
            if isinstance(read, CaptureReply):
                return read
            conversation, head, turns, total = read
            drafts = [draft for found in turns for draft in self._drafts(found)]
        words = anchor_words(self._event, conversation, head)
        if is_dry:
            would = [self._captured(draft, self._journal(draft), 0) for draft in drafts if draft.text]
            return CaptureReply(tuple(would), total - len(would))
        with self._captures.alone():
            captured = [*recovered, *self._write(drafts, words, progress)]
        if self._touched:
            self._notes += index_journals(sorted(self._touched), self._root, self._means)
        skipped = max(0, total - len(captured))
        return CaptureReply(tuple(captured), skipped, self._is_late, tuple(dict.fromkeys(self._notes)))

    # -- what there is -----------------------------------------------------------------------------------------------

    def _read(self) -> CaptureReply | tuple[Conversation, Head, Sequence[Found], int]:
        """Return the conversation and the turns that may be captured now, or why there are none."""
        if not self._event.transcript:
            return CaptureReply(notes=("the event names no transcript",))
        try:
            conversation = open_conversation(self._event.transcript, self._event.session)
            head = read_head(conversation)
            turns = [] if head.side else self._turns(conversation)
        except (NotFound, SourceError) as error:
            if self._age < MISSING_S and self._backfill is None and self._event.moment in _AWAITS:
                return CaptureReply(waiting=True)
            return CaptureReply(notes=(f"nothing to capture: {error.message}",))
        if self._backfill is not None:
            chosen, ends = self._past(turns), None
        else:
            done = finished(turns, self._event)
            if not done.whole and self._age < ANSWER_S:
                return CaptureReply(waiting=True)
            chosen, ends = list(done.turns), done.ends
        return conversation, head, [one for one in chosen if self._is_due(one, head, ends)], len(turns)

    def _past(self, turns: Sequence[Found]) -> Sequence[Found]:
        """Return turns without those that may be going on just now, here or where a fork has them from.

        Backfilling may be what one is about. What had no end after all is taken on another day.
        """
        recent = self._means.now().timestamp() - _GOING_ON_S
        return [one for one in turns if not one.open or one.began is None or one.began < recent]

    def _turns(self, conversation: Conversation) -> list[Found]:
        """Return the turns of the main conversation; of a long one those from the last that was captured on."""
        known = "" if self._backfill is not None else self._captures.last_turn(self._event.host, self._event.session)
        if is_unique(known) and os.stat(conversation.path).st_size > _LONG_BYTES:  # noqa: PTH116
            later = [found for found in conversation.turns_since(known, Tally()) if not found.turn.sidechain]
            named = self._event.turn
            if not named or any(named == one.turn.id or named in one.names for one in later):
                return later
        return [found for found in conversation.turns(Tally()) if not found.turn.sidechain]

    def _is_due(self, found: Found, head: Head, ends: Found | None) -> bool:
        """Say whether a turn is this session's own, and not of a time before anything was to be captured."""
        if found is ends:
            return True
        began = found.began
        if began is None:
            return self._backfill is not None
        if head.created is not None and began < head.created and self._event.host in _COPY:
            return False
        if self._backfill is not None:
            return began >= self._backfill.first
        return began >= max(self._seen.epoch, self._seen.created) - SLACK_S

    # -- what becomes of it ------------------------------------------------------------------------------------------

    def _drafts(self, found: Found) -> Iterator[_Draft]:
        """Yield what of a turn is to be written: the turn, what came to it later, or nothing."""
        base = self._memory(found)
        row = self._captures.find(base)
        if row is None or (row.state == EMPTY and _grew(found, row)):
            yield self._draft(found, base, base, row)
            return
        while row.state != WRITING and _grew(found, row):
            part = self._memory(found, f"{row.texts} {row.calls}")
            later = self._captures.find(part)
            if later is None:
                yield self._draft(_since(found, row), part, base, None)
                return
            row = later

    def _memory(self, found: Found, part: str = "") -> str:
        return turn_memory(self._event.host, self._event.session, found.turn.id, part)

    def _draft(self, found: Found, memory: str, base: str, seen: Row | None) -> _Draft:
        told = found.told
        if not is_answered(found) and not told.failed:
            told = replace(told, interrupted=True)
        text = make_note(told, self._clean, self._summary(found), self._event.directory, goes_on=memory != base)
        began = self._event.at.timestamp() if found.began is None else found.began
        return _Draft(found, memory, base, seen, datetime.fromtimestamp(began, UTC).astimezone(self._zone), text)

    def _clean(self, text: str) -> str:
        from lorelog.ingest.redact import redact

        return redact(text, self._means.options.patterns).text

    def _summary(self, found: Found) -> str:
        if self._backfill is not None or found.told.failed or not found.told.said:
            return ""  # years of history are not sent to a model unasked, nor is anything for a dry run
        summarizer = self._means.summarizer()
        if summarizer is None:
            return ""
        told = make_note(found.told, self._clean, "", self._event.directory)
        said = "\n\n".join(self._clean(text) for text in found.told.said)[:_SUMMARY_CHARS]
        text = f"{told}\n\nThe assistant's words:\n{said}"
        return summarizer.summarize(text, self._event.host, self._event.session) or ""

    # -- writing -----------------------------------------------------------------------------------------------------

    def _write(self, drafts: Sequence[_Draft], words: Words, progress: Progress | None) -> list[CapturedTurn]:
        due: dict[Path, list[_Draft]] = {}
        for draft in drafts:
            journal = self._due(draft)
            if journal is not None:
                due.setdefault(journal, []).append(draft)
        captured: list[CapturedTurn] = []
        total = sum(map(len, due.values()))
        for journal, group in due.items():
            for start in range(0, len(group), _AT_ONCE):
                captured += self._append(journal, group[start : start + _AT_ONCE], words)
                if progress is not None:
                    progress("capture", len(captured), total)
        return captured

    def _due(self, draft: _Draft) -> Path | None:
        """Return the journal that a draft is to be written to; None where it was, or must not be."""
        journal = self._journal(draft)
        if self._captures.find(draft.memory) != draft.seen:
            self._is_late = True  # somebody else has just done it, or the beginning of it
            return None
        deleted = frozenset[str]() if self._deleted is None else self._deleted.keys()
        if not draft.text or memory_key(draft.memory) in deleted or memory_key(draft.base) in deleted:
            self._captures.note(self._row(draft, journal, EMPTY))
            return None
        day = timedelta(days=1)
        for when in (draft.when, draft.when - day, draft.when + day):
            path = journal_of(Path(self._root.path), when)
            if stands_in(path, draft.memory):  # a database that was lost knew of it
                self._captures.note(self._row(draft, path, DONE))
                return None
        return journal

    def _append(self, journal: Path, drafts: Sequence[_Draft], words: Words) -> list[CapturedTurn]:
        found_journals(self._means.place)
        memories = [
            NewMemory(
                draft.text,
                "turn",
                origin="agent",
                id=draft.memory,
                source=(words[0], ("turn", one_word(draft.found.turn.id)), *words[1:]),
                at=draft.when,
            )
            for draft in drafts
        ]
        pairs = list(zip(drafts, memories, strict=True))
        self._captures.note(*(self._row(draft, journal, WRITING, packed(memory)) for draft, memory in pairs))
        self._touched.add(journal)
        entries = append_entries(Path(self._root.path), memories, drafts[0].when)
        self._captures.note(*(self._row(draft, journal, DONE) for draft in drafts))
        traced = [TracedTurn(draft.memory, draft.found.turn.id, draft.when, draft.found.told.deeds) for draft in drafts]
        note_turns(self._means.traces(), self._event, self._means.place.project.id, traced, self._clean)
        return [
            self._captured(draft, entry.path, entry.start_line) for draft, entry in zip(drafts, entries, strict=True)
        ]

    def _recover(self) -> Iterator[CapturedTurn]:
        """Write what somebody was stopped in the middle of writing, exactly as they would have."""
        deleted = frozenset[str]() if self._deleted is None else self._deleted.keys()
        left: dict[Path, dict[Row, NewMemory]] = {}
        for row in self._captures.unfinished():
            memory, journal = unpacked(row.entry), Path(row.journal)
            if str(journal.parent) != self._root.path and not journal.parent.is_dir():
                continue  # another project's, which may be gone
            if memory is None or (memory_key(row.memory) in deleted and not stands_in(journal, row.memory)):
                self._captures.note(replace(row, state=EMPTY))
            else:
                left.setdefault(journal, {})[row] = memory
        for journal, memories in left.items():
            yield from self._append_again(journal, memories)

    def _append_again(self, journal: Path, memories: Mapping[Row, NewMemory]) -> Iterator[CapturedTurn]:
        """Write all that is left of a journal at once: which of them the end of the file is half of is not known."""
        own = str(journal.parent) == self._root.path
        try:
            if own:
                found_journals(self._means.place)
                self._touched.add(journal)
            when = next(iter(memories.values())).at or self._event.at
            entries = append_entries(journal.parent, list(memories.values()), when)
        except StoreError:
            if own:
                raise
            return
        self._captures.note(*(replace(row, state=DONE) for row in memories))
        for row, entry in zip(memories, entries, strict=True):
            if not entry.stood:
                yield CapturedTurn(row.turn, row.memory, row.journal, entry.start_line, row.time)

    def _journal(self, draft: _Draft) -> Path:
        return journal_of(Path(self._root.path), draft.when)

    def _captured(self, draft: _Draft, journal: Path, line: int) -> CapturedTurn:
        when = draft.when.isoformat("T", "seconds")
        return CapturedTurn(draft.found.turn.id, draft.memory, str(journal), line, when)

    def _row(self, draft: _Draft, journal: Path, state: str, entry: str = "") -> Row:
        found, event = draft.found, self._event
        when = draft.when.isoformat("T", "seconds")
        extent = (found.texts, found.calls, state, entry)
        return Row(draft.memory, event.host, event.session, found.turn.id, when, str(journal), *extent)


def _grew(found: Found, row: Row) -> bool:
    return found.texts > row.texts or found.calls > row.calls


def _since(found: Found, row: Row) -> Found:
    """Return what of a turn is new; its counts stay those of all of it."""
    texts, calls = found.texts - row.texts, found.calls - row.calls
    said = found.told.said[-texts:] if texts > 0 else ()
    return replace(found, told=replace(found.told, said=said, deeds=found.told.deeds[row.calls :] if calls > 0 else ()))
