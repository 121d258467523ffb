"""Captures an agent's session: writes every finished turn to a journal, exactly once.

An event says where to look and up to which turn; the text is read from the host's transcript, redacted, and shortened
to a note. Words of the user that correct, answer or decide become entries of their own type in the same journal, with the
same anchor. Each turn and each statement has a stable id (`turn_memory_id`). It is skipped if the captures database, the tombstones or the
journal itself know that id. The database is updated before and after a turn is written, so an interrupted capture can
be completed.

An event may be processed late, during the next turn, or repeatedly. So it certifies only the turns it refers to: an
ended turn and all before it, or those before a prompt. A prompt may be typed during a turn, which is then left to its
own end. A turn's time is its start, by the host's clock.

A killed host reports no end, and some hosts report none when a person stops an answer and leaves. So the last event of
each session is saved until its end, and a session that is silent for hours is treated as ended when the next session of
the project starts. Hours, because a turn may wait that long for a tool.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import UTC, datetime, timedelta, timezone
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, json
from msgspec.structs import replace

from lorelog.core.atomic_file import write_atomic
from lorelog.core.errors import LorelogError, NotFound, SourceError, StoreError, StoreUnwritable
from lorelog.core.memory import NewMemory
from lorelog.core.options import CaptureOptions
from lorelog.core.ports import Embedder, Progress, Store
from lorelog.core.session import CapturedTurn, CaptureReply, HookEvent, ToolAction, TurnSummarizer, turn_memory_id
from lorelog.ingest.redaction.redact import RedactText, known_value_redactor, redact
from lorelog.ingest.transcripts.conversation import (
    TAILS,
    Conversation,
    ConversationHead,
    TranscriptTail,
    open_conversation,
    read_conversation_head,
)
from lorelog.ingest.transcripts.statements import format_statement
from lorelog.ingest.transcripts.turn_note import make_note, turn_redactor
from lorelog.ingest.transcripts.turns import LEFT_OUT, ParsedTurn, TranscriptStats
from lorelog.light.delivery_files import DeliveryFiles
from lorelog.light.delivery_log import prompted_memories
from lorelog.light.spool import CLOCK_SLACK_S, HOOKS_OFF, ON, PauseNotes
from lorelog.services.indexing import IndexJob
from lorelog.services.indexing.run import index_written
from lorelog.services.memories.journal import (
    AnchorFields,
    OwnEntries,
    anchor_fields,
    append_entries,
    has_entry,
    journal_path,
    parse_entry,
    to_anchor_word,
)
from lorelog.services.memory_state.tombstones import memory_key
from lorelog.services.places.roots import Root, Roots
from lorelog.services.places.workspace import Workspace
from lorelog.services.sessions import capture_db
from lorelog.services.sessions.agents import all_agents
from lorelog.services.sessions.due_turns import (
    END_MOMENTS,
    capture_stragglers,
    note_open_session,
    select_finished,
    split_off_record,
)
from lorelog.services.traces.tables import TURN, TracedTurn, TraceFilter, record_turns
from lorelog.services.usage.signs import note_usage

if TYPE_CHECKING:
    from lorelog.services.traces.recorder import TraceStore

ANSWER_WAIT_S = 20.0
"""How long to wait for a transcript to contain the answer that an event refers to."""
MISSING_WAIT_S = 60.0
"""How long to wait for a transcript to exist. Some sessions keep none."""
_BATCH_SIZE = 20
"""Entries appended to a journal in one write."""
_CONTINUATION_SOURCES = frozenset({"compact"})
"""Sources of a session-start that is not a beginning. Earlier turns of a resumed session that was never seen are not
captured: they belong to another tenant, to a time without hooks, or to the session that a fork repeats."""
_SEEN_MOMENTS = frozenset({"session-start", "prompt"})
"""Moments from which a session is known: the host reports them before there is anything to capture."""
_RETRY_MOMENTS = frozenset({"turn-end", "turn-failed", "session-end"})
"""Moments at which a transcript must exist, or soon will."""
_FORKING_HOSTS = frozenset({"codex", "opencode"})
"""Hosts whose forks repeat turns with new ids but the original times."""
_MAX_SUMMARY_INPUT_CHARS = 24_000
_MAX_BRANCH_CALLS = 300
"""Calls of a branch among which its last test run is looked for."""

YieldWriteLock = Callable[[], AbstractContextManager[object]]


class CaptureContext(Struct, frozen=True, kw_only=True):
    workspace: Workspace
    store: Store
    embedder: Embedder | None
    job: Callable[[tuple[Root, ...]], IndexJob]
    roots: Roots
    options: CaptureOptions
    summarizer: Callable[[], TurnSummarizer | None] = lambda: None
    """Returns the model that words notes; None for extractive notes."""
    yield_write_lock: YieldWriteLock = nullcontext
    """Lets other writers proceed during a slow step."""
    traces: Callable[[], TraceStore | None] = lambda: None
    """Returns the store for tool calls and errors of turns."""
    refresh: Callable[[], None] = lambda: None
    """Called after journals were written and indexed."""
    own_entries: OwnEntries = lambda *_: nullcontext()
    """The context in which memories are written to a folder."""
    is_vouched: bool = True
    """False if only a file says who spoke: an agent named it. Then nothing in it counts as the user's word."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


class Backfill(Struct, frozen=True):
    """Request of a person for all turns of a session, however old."""

    since: str = ""
    """First ISO day; empty for all."""
    dry_run: bool = False
    """Report the turns without writing them."""


class _TurnDraft(Struct, frozen=True, kw_only=True):
    """A turn, or its new part, to be written."""

    turn: ParsedTurn
    memory: str
    known_row: capture_db.CaptureRow | None
    """Saved state of `memory` when the draft was made."""
    when: datetime
    text: str
    type: str = "turn"
    """Memory type: `turn` for a note, else the kind of a statement of the user."""

    @property
    def is_note(self) -> bool:
        """True for the note of a turn, false for a statement of the user."""
        return self.type == "turn"


def capture_session(
    event: HookEvent, context: CaptureContext, backfill: Backfill | None = None, *, progress: Progress | None = None
) -> CaptureReply:
    """Write the finished turns of a session that are not in a journal yet."""
    folder = context.workspace.tenant_folder
    if not context.options.enabled:
        pauses = _pauses(event, context)
        # Turns before the host's first event are not captured anyway.
        if backfill is None and pauses.state == ON and (folder / "captures.db").exists():
            pauses.add(HOOKS_OFF, pauses.last_change)
            pauses.add(ON, event.at.timestamp() + CLOCK_SLACK_S)
        return CaptureReply(notes=("sessions of this project are not captured (capture.enabled, capture.skip)",))
    if not event.session or not event.host:
        return CaptureReply(notes=("the event names no session",))
    if backfill is not None and backfill.dry_run:
        with capture_db.read_captures(folder) as captures:
            return _SessionCapture(event, context, captures, 0, backfill).run(progress)
    context.workspace.create()
    with capture_db.open_captures(folder) as captures:
        begins = event.moment == "session-start" and event.source not in _CONTINUATION_SOURCES
        at = event.at.timestamp()
        start = captures.note_event(
            *(event.host, event.session, at),
            begins=begins,
            is_seen=event.moment in _SEEN_MOMENTS,
            backfill=backfill is not None,
        )
        project = context.workspace.project.id
        if event.moment == "session-start" and backfill is None:  # it has begun; capture the rest of earlier ones
            note_open_session(event, project, captures)

            def capture_rest(end: HookEvent) -> CaptureReply:
                begun = captures.capture_start(end.host, end.session)
                return _SessionCapture(end, context, captures, begun, None).run(None)

            return capture_stragglers(event, project, captures, context.now(), capture_rest)
        reply = _SessionCapture(event, context, captures, start, backfill).run(progress)
        if backfill is None and not reply.waiting:
            note_open_session(event, project, captures)
            with suppress(LorelogError, OSError):
                _note_state(event, context)
        return reply


def _pauses(event: HookEvent, context: CaptureContext) -> PauseNotes:
    return PauseNotes(str(context.workspace.home), event.session)


def _note_state(event: HookEvent, context: CaptureContext) -> None:
    """Write what hooks tell about this session: what fails on its branch, and, before a compaction, its state."""
    from lorelog.ingest.redaction.redact import redact
    from lorelog.services.sessions.handoff import render_card, write_open_ends
    from lorelog.services.standing.rules import read_standing_rules

    project = context.workspace.project.id
    files = DeliveryFiles(str(context.workspace.tenant_folder), project)
    Path(files.open_ends).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if event.moment == "session-end":
        Path(files.state_card(event.session)).unlink(missing_ok=True)
    if event.moment == "compact" and event.transcript:
        turns = open_conversation(event.transcript, event.session).turns(TranscriptStats())
        main, _ = split_off_record([turn for turn in turns if not turn.turn.sidechain], _pauses(event, context))
        invoked = prompted_memories(files.log, event.host, event.session)
        rules = [rule for rule in read_standing_rules(context.workspace).rules if rule.is_users and not rule.is_stale]
        rules.sort(key=lambda rule: rule.id not in invoked)
        card = render_card(main, rules, lambda text: redact(text, context.options.patterns).text, event.directory)
        write_atomic(Path(files.state_card(event.session)), card.encode(), durable=False)
    if (traces := context.traces()) is not None and traces.options.enabled:
        of_branch = TraceFilter(projects=(project,), source=TURN, branch=event.branch, limit=_MAX_BRANCH_CALLS)
        write_open_ends(Path(files.open_ends), event, traces.tables().calls(of_branch)[0])


class _SessionCapture:
    def __init__(
        self,
        event: HookEvent,
        context: CaptureContext,
        captures: capture_db.CaptureDatabase,
        start: float,
        backfill: Backfill | None,
    ) -> None:
        self._event, self._context, self._captures, self._start = event, context, captures, start
        self._backfill = backfill
        self._is_dry = backfill is not None and backfill.dry_run
        # A file in the project may have come with the repository.
        agent = all_agents().get(event.host) if backfill is not None else None
        is_own = backfill is not None and not (agent and agent.is_in_project)
        vouched = context.is_vouched and (is_own or captures.knows(event.host, event.session))
        self._origins = ("agent", "user") if vouched else ("import", "import")
        """Of the notes of turns, and of the user's statements."""
        self._age = (context.now() - event.at).total_seconds()
        self._zone = None if backfill is not None else timezone(timedelta(minutes=event.offset))
        self._notes: list[str] = []
        self._is_late = False
        self._stats = TranscriptStats()
        self._tail: TranscriptTail | None = None
        self._clean: RedactText = self._redact
        self._done: Sequence[ParsedTurn] = ()
        """The finished turns of the tail."""
        self._written: list[_TurnDraft] = []
        self._touched: set[Path] = set()
        self._root = context.workspace.journal_root(to_global=False)
        tombstones = context.job(()).tombstones
        self._deleted = frozenset[str]() if tombstones is None else tombstones.keys()

    def run(self, progress: Progress | None) -> CaptureReply:
        recovered: list[CapturedTurn] = []
        if not self._is_dry and self._captures.unfinished():
            with self._captures.exclusive():
                recovered = list(self._recover())
        with self._context.yield_write_lock():
            read = self._read()
            if isinstance(read, CaptureReply):
                return read
            conversation, head, turns, total = read
            drafts = [draft for turn in turns for draft in self._drafts(turn)]
        fields = anchor_fields(self._event, conversation, head)
        if self._is_dry:
            self._written = [draft for draft in drafts if draft.text]
            journals = (journal_path(Path(self._root.path), draft.when) for draft in drafts)
            captured = [
                _to_captured_turn(draft, journal, 0)
                for draft, journal in zip(drafts, journals, strict=True)
                if draft.text and draft.is_note
            ]
            return replace(self._reply(captured), skipped=total - len(captured))
        with self._captures.exclusive():
            captured = [*recovered, *self._write(drafts, fields, progress)]
        if self._backfill is not None:
            self._trace(self._known_turns(turns, drafts), only_lasting=True)
        note_usage(self._context.workspace.tenant_folder / "deliveries", self._event.host, self._event.session, turns)
        if self._touched:
            self._notes += index_journals(sorted(self._touched), self._root, self._context)
        if self._tail is not None and not self._is_late:
            self._tail.release(self._done)
        notes = tuple(dict.fromkeys(self._notes))
        skipped = max(0, total - len(captured))
        return replace(self._reply(captured), skipped=skipped, waiting=self._is_late, notes=notes)

    def _reply(self, captured: Sequence[CapturedTurn]) -> CaptureReply:
        statements = sum(not draft.is_note for draft in self._written)
        left_out = [note for note in self._stats.notes if note.startswith(LEFT_OUT)]
        left_out += [f"{LEFT_OUT}malformed records"] if self._stats.broken else []
        return CaptureReply(tuple(captured), statements=statements, left_out=tuple(left_out))

    # -- reading -----------------------------------------------------------------------------------------------------

    def _read(self) -> CaptureReply | tuple[Conversation, ConversationHead, Sequence[ParsedTurn], int]:
        """Return the conversation and the turns to capture now, or a reply that says why there are none."""
        if not self._event.transcript:
            return CaptureReply(notes=("the event names no transcript",))
        try:
            conversation, head, turns, earlier = self._open()
            self._clean = self._session_redactor(turns)
        except (NotFound, SourceError) as error:
            if self._age < MISSING_WAIT_S and self._backfill is None and self._event.moment in _RETRY_MOMENTS:
                return CaptureReply(waiting=True)
            return CaptureReply(notes=(f"nothing to capture: {error.message}",))
        turns = _with_subagents(turns, self._event.transcript)
        is_end = self._backfill is None and self._event.moment in END_MOMENTS
        until = self._event.at.timestamp() if is_end else inf  # turns that ended are from before a later pause
        turns, off = split_off_record(turns, _pauses(self._event, self._context), until, durable=not self._is_dry)
        self._exclude(off)
        if self._backfill is not None:
            # The backfill may have been started by a turn that is open now, here or in the session that a fork repeats.
            recent = self._context.now().timestamp() - capture_db.OPEN_TURN_S
            is_old = [turn.start_time is None or turn.start_time < recent for turn in turns]
            chosen = [turn for turn, old in zip(turns, is_old, strict=True) if old or not turn.is_open]
            ends = None
        else:
            done = select_finished(turns, self._event)
            if not done.complete and self._age < ANSWER_WAIT_S:
                return CaptureReply(waiting=True)
            chosen, ends = list(done.turns), done.ends
            self._done = chosen
        return (
            conversation,
            head,
            [turn for turn in chosen if self._is_due(turn, head, ends)],
            earlier + len(turns) + len(off),
        )

    def _exclude(self, turns: Sequence[ParsedTurn]) -> None:
        """Save that turns off the record are never captured: a fork repeats them in another session."""
        drafts = [self._draft(turn, self._memory(turn), "") for turn in turns if not self._is_dry]
        new = [draft for draft in drafts if self._captures.find(draft.memory) is None]
        self._captures.save_rows(*(self._capture_row(draft, Path(), capture_db.FORGOTTEN) for draft in new))

    def _open(self) -> tuple[Conversation, ConversationHead, Sequence[ParsedTurn], int]:
        """Return the conversation, its metadata, the last turns of the main one, and the number of those before them."""
        path, session = self._event.transcript, self._event.session
        if self._backfill is None:
            key = (str(self._context.workspace.tenant_folder), path, session)
            self._tail = TAILS.open(key, self._event.turn)
        if self._tail is None:
            conversation = open_conversation(path, session)
            head = read_conversation_head(conversation)
            whole = [] if head.is_sidechain else conversation.turns(self._stats)
            return conversation, head, [turn for turn in whole if not turn.turn.sidechain], 0
        head = self._tail.head()
        turns, earlier = ([], 0) if head.is_sidechain else self._tail.turns()
        return self._tail.conversation, head, turns, earlier

    def _is_due(self, turn: ParsedTurn, head: ConversationHead, ends: ParsedTurn | None) -> bool:
        """Return True if a turn is the session's own, and not from before capturing began."""
        if turn is ends:
            return True
        began = turn.start_time
        if began is None:
            return self._backfill is not None
        if head.created is not None and began < head.created and self._event.host in _FORKING_HOSTS:
            return False
        if self._backfill is not None:
            since = self._backfill.since
            return not since or began >= datetime.fromisoformat(since).timestamp()
        return began >= self._start - CLOCK_SLACK_S

    # -- drafting ----------------------------------------------------------------------------------------------------

    def _drafts(self, turn: ParsedTurn) -> Iterator[_TurnDraft]:
        """Yield what is missing of a turn: its note or the new part of it, and the user's statements."""
        notes = list(self._note_drafts(turn))
        yield from notes
        keyed = ((self._memory(turn, f"statement {item.key}"), item) for item in turn.digest.statements)
        missing = {memory: statement for memory, statement in keyed if self._captures.find(memory) is None}
        row = self._captures.find(self._memory(turn)) if missing and not notes else None
        is_gone = row is not None and row.state == capture_db.DONE and not has_entry(Path(row.journal), row.memory)
        if not missing or is_gone or (row is not None and row.state == capture_db.FORGOTTEN):
            return  # somebody removed the note of the turn from its journal, or it is off the record
        clean = turn_redactor(turn.digest, self._clean)
        for memory, statement in missing.items():
            yield self._draft(turn, memory, format_statement(statement, clean), type_=statement.kind)

    def _note_drafts(self, turn: ParsedTurn) -> Iterator[_TurnDraft]:
        """Yield the part of a turn's note to write: all of it, its new part, or nothing."""
        base = self._memory(turn)
        row = self._captures.find(base)
        if row is None or (row.state == capture_db.EMPTY and _has_grown(turn, row)):
            yield self._draft(turn, base, self._note(turn, goes_on=False), row)
            return
        while row.state not in {capture_db.WRITING, capture_db.FORGOTTEN} and _has_grown(turn, row):
            part = self._memory(turn, f"{row.texts} {row.calls}")
            later = self._captures.find(part)
            if later is None:
                rest = _new_part(turn, row)
                yield self._draft(rest, part, self._note(rest, goes_on=True))
                return
            row = later

    def _memory(self, turn: ParsedTurn, part: str = "") -> str:
        return turn_memory_id(self._event.host, self._event.session, turn.turn.id, part)

    def _draft(
        self, turn: ParsedTurn, memory: str, text: str, row: capture_db.CaptureRow | None = None, *, type_: str = "turn"
    ) -> _TurnDraft:
        began = self._event.at.timestamp() if turn.start_time is None else turn.start_time
        when = datetime.fromtimestamp(began, UTC).astimezone(self._zone)
        return _TurnDraft(turn=turn, memory=memory, known_row=row, when=when, text=text, type=type_)

    def _note(self, turn: ParsedTurn, *, goes_on: bool) -> str:
        digest = turn.digest
        if not turn.text_count and not digest.failed and all(action.failed for action in digest.actions):
            digest = replace(digest, interrupted=True)  # the agent did not get to say or do anything
        return make_note(digest, self._clean, self._summary(turn), self._event.directory, goes_on=goes_on)

    def _session_redactor(self, turns: Sequence[ParsedTurn]) -> RedactText:
        """Return a function that removes every secret recognised in the conversation so far, in this turn or before."""
        secrets, searched = ({}, {}) if self._tail is None else (self._tail.secrets, self._tail.searched)
        for turn in turns:
            size = (turn.text_count, turn.call_count, len(turn.digest.statements))
            if searched.get(turn.turn.id) != size:
                turn_redactor(turn.digest, self._redact, secrets)
                if not turn.is_open:  # a result may still come
                    searched[turn.turn.id] = size
        return known_value_redactor((), self._redact, secrets)

    def _redact(self, text: str) -> str:
        return redact(text, self._context.options.patterns).text

    def _summary(self, turn: ParsedTurn) -> str:
        if self._backfill is not None or turn.digest.failed or not turn.digest.assistant_texts:
            return ""  # a backfill or a dry run must not send history to a model
        summarizer = self._context.summarizer()
        if summarizer is None:
            return ""
        clean = turn_redactor(turn.digest, self._clean)
        note = make_note(turn.digest, clean, "", self._event.directory)
        answer = "\n\n".join(clean(text) for text in turn.digest.assistant_texts)[:_MAX_SUMMARY_INPUT_CHARS]
        text = f"{note}\n\nThe assistant's words:\n{answer}"
        return summarizer.summarize(text, self._event.host, self._event.session) or ""

    # -- writing -----------------------------------------------------------------------------------------------------

    def _write(
        self, drafts: Sequence[_TurnDraft], fields: AnchorFields, progress: Progress | None
    ) -> list[CapturedTurn]:
        due: dict[Path, list[_TurnDraft]] = {}
        for draft in drafts:
            journal = self._target_journal(draft)
            if journal is not None:
                due.setdefault(journal, []).append(draft)
        captured: list[CapturedTurn] = []
        total, written = sum(map(len, due.values())), 0
        for journal, group in due.items():
            for start in range(0, len(group), _BATCH_SIZE):
                batch = group[start : start + _BATCH_SIZE]
                captured += self._append(journal, batch, fields)
                written += len(batch)
                if progress is not None:
                    progress("capture", written, total)
        return captured

    def _target_journal(self, draft: _TurnDraft) -> Path | None:
        """Return the journal to write a draft to; None if it was written already or must not be."""
        journal = journal_path(Path(self._root.path), draft.when)
        if self._captures.find(draft.memory) != draft.known_row:
            self._is_late = True  # another process has just written it, or its first part
            return None
        keys = {memory_key(draft.memory), memory_key(self._memory(draft.turn))}
        if not draft.text or keys & self._deleted:
            self._captures.save_rows(self._capture_row(draft, journal, capture_db.EMPTY))
            return None
        day = timedelta(days=1)
        for when in (draft.when, draft.when - day, draft.when + day):
            path = journal_path(Path(self._root.path), when)
            if has_entry(path, draft.memory):  # written before the database was lost
                self._captures.save_rows(self._capture_row(draft, path, capture_db.DONE))
                return None
        return journal

    def _append(self, journal: Path, drafts: Sequence[_TurnDraft], fields: AnchorFields) -> list[CapturedTurn]:
        memories = [
            NewMemory(
                draft.text,
                draft.type,
                origin=self._origins[not draft.is_note],
                id=draft.memory,
                source=(fields[0], ("turn", to_anchor_word(draft.turn.turn.id)), *fields[1:]),
                at=draft.when,
            )
            for draft in drafts
        ]
        pairs = list(zip(drafts, memories, strict=True))
        self._captures.save_rows(
            *(
                self._capture_row(draft, journal, capture_db.WRITING, json.encode(memory).decode())
                for draft, memory in pairs
            )
        )
        self._touched.add(journal)
        session = self._event.session if self._context.options.session_headings else ""
        with self._context.own_entries(memories, ""):
            entries = append_entries(Path(self._root.path), memories, drafts[0].when, session=session)
        self._captures.save_rows(*(self._capture_row(draft, journal, capture_db.DONE) for draft in drafts))
        traced = [
            TracedTurn(draft.memory, draft.turn.turn.id, draft.when, draft.turn.digest)
            for draft in drafts
            if draft.is_note
        ]
        self._trace(traced)
        self._written += drafts
        return [
            _to_captured_turn(draft, entry.path, entry.start_line)
            for draft, entry in zip(drafts, entries, strict=True)
            if draft.is_note
        ]

    def _known_turns(self, turns: Sequence[ParsedTurn], drafts: Sequence[_TurnDraft]) -> list[TracedTurn]:
        """Return the turns that were captured before: the digests of what they wrote may have been lost, or never made."""
        new = {draft.turn.turn.id for draft in drafts if draft.is_note}
        rows = {turn.turn.id: self._captures.find(self._memory(turn)) for turn in turns if turn.turn.id not in new}
        return [
            TracedTurn(row.memory, turn.turn.id, datetime.fromisoformat(row.time), turn.digest)
            for turn in turns
            if (row := rows.get(turn.turn.id))
            and row.state == capture_db.DONE
            and memory_key(row.memory) not in self._deleted
        ]

    def _trace(self, turns: Sequence[TracedTurn], *, only_lasting: bool = False) -> None:
        project = self._context.workspace.project.id
        if (traces := self._context.traces()) is not None and traces.options.enabled:
            record_turns(traces.tables, self._event, project, turns, self._clean, only_lasting=only_lasting)

    def _recover(self) -> Iterator[CapturedTurn]:
        """Complete the entries whose writing was interrupted, exactly as planned."""
        pending: dict[Path, dict[capture_db.CaptureRow, NewMemory]] = {}
        for row in self._captures.unfinished():
            memory, journal = parse_entry(row.entry), Path(row.journal)
            if str(journal.parent) != self._root.path and not journal.parent.is_dir():
                continue  # of another project, which may have been removed
            if memory is None or (memory_key(row.memory) in self._deleted and not has_entry(journal, row.memory)):
                self._captures.save_rows(replace(row, state=capture_db.EMPTY))
            else:
                pending.setdefault(journal, {})[row] = memory
        for journal, memories in pending.items():
            yield from self._append_recovered(journal, memories)

    def _append_recovered(
        self, journal: Path, memories: Mapping[capture_db.CaptureRow, NewMemory]
    ) -> Iterator[CapturedTurn]:
        """Write all pending entries of a journal at once: any of them may be the partial one at its end."""
        own = str(journal.parent) == self._root.path
        try:
            if own:
                self._touched.add(journal)
            when = next(iter(memories.values())).at or self._event.at
            with self._context.own_entries(list(memories.values()), ""):
                entries = append_entries(journal.parent, list(memories.values()), when)
        except StoreError:
            if own:
                raise
            return
        self._captures.save_rows(*(replace(row, state=capture_db.DONE) for row in memories))
        for (row, memory), entry in zip(memories.items(), entries, strict=True):
            if not entry.existed and memory.type == "turn":
                yield CapturedTurn(row.turn, row.memory, row.journal, entry.start_line, row.time)

    def _capture_row(self, draft: _TurnDraft, journal: Path, state: str, entry: str = "") -> capture_db.CaptureRow:
        turn, event = draft.turn, self._event
        when = draft.when.isoformat("T", "seconds")
        counts = (turn.text_count, turn.call_count) if draft.is_note else (capture_db.STATEMENT_TEXTS, 0)
        return capture_db.CaptureRow(
            draft.memory, event.host, event.session, turn.turn.id, when, str(journal), *counts, state, entry
        )


def _with_subagents(turns: Sequence[ParsedTurn], transcript: str) -> Sequence[ParsedTurn]:
    """Return the turns with what subagents wrote during them, from the files that Claude Code keeps beside a transcript."""
    files = sorted(Path(transcript).with_suffix("").glob("subagents/**/agent-*.jsonl")) if turns else []
    begun, found = [turn.start_time or 0.0 for turn in turns], dict[int, list[ToolAction]]()
    for file in files:
        with suppress(LorelogError, OSError):
            sides = open_conversation(str(file)).turns(TranscriptStats()) if file.stat().st_mtime >= begun[0] else ()
            for action in (action for side in sides for action in side.digest.actions if action.edits):
                found.setdefault(bisect_right(begun, action.time or 0.0) - 1, []).append(action)
    digests = (
        replace(turn.digest, delegated=turn.digest.delegated or tuple(found.get(number, ())))
        for number, turn in enumerate(turns)
    )
    return [replace(turn, digest=digest) for turn, digest in zip(turns, digests, strict=True)] if found else turns


def _to_captured_turn(draft: _TurnDraft, journal: Path, line: int) -> CapturedTurn:
    when = draft.when.isoformat("T", "seconds")
    return CapturedTurn(draft.turn.turn.id, draft.memory, str(journal), line, when)


def _has_grown(turn: ParsedTurn, row: capture_db.CaptureRow) -> bool:
    return turn.text_count > row.texts or turn.call_count > row.calls


def _new_part(turn: ParsedTurn, row: capture_db.CaptureRow) -> ParsedTurn:
    """Return the new part of a turn, with the counts of the whole turn."""
    texts, calls = turn.text_count - row.texts, turn.call_count - row.calls
    digest = replace(
        turn.digest,
        assistant_texts=turn.digest.assistant_texts[-texts:] if texts > 0 else (),
        actions=turn.digest.actions[row.calls :] if calls > 0 else (),
        findings=tuple(
            finding
            for finding, position in zip(turn.digest.findings, turn.finding_positions, strict=True)
            if position > row.texts
        ),
    )
    return replace(turn, digest=digest)


def index_journals(journals: Sequence[Path], root: Root, context: CaptureContext) -> list[str]:
    """Index journals. Errors become notes, because the entries are on disk."""
    notes = list(index_written(journals, context.job((root,)), context.store, context.embedder))
    with suppress(StoreUnwritable):  # journals are indexed even if they are not a remembered root
        context.roots.remember([root])
    context.refresh()
    return notes
