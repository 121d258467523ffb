"""Build turns within limits, so that neither a long conversation nor a long answer exhausts memory."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.core.session import ToolAction, ToolCall, TranscriptTurn, TurnDigest, UserStatement
from lorelog.ingest.transcripts import turn_note, user_replies
from lorelog.ingest.transcripts.actions import extract_errors, parse_action, parse_arguments, parse_failure
from lorelog.ingest.transcripts.statements import certain_rules, last_question
from lorelog.light.spool import is_off_record

MAX_TEXT_CHARS = 20_000
"""Length of the request, and of the answer, of one turn."""
MAX_RESULT_CHARS = 500
MAX_INPUT_CHARS = 300
MAX_TOOL_CALLS = 100
"""Tool calls of one turn that are kept, from the first; the others are counted."""
_MAX_LAST_TEXTS = 4
"""Last texts by the assistant that are kept in a turn's digest."""
_MAX_ACTIONS = 400
_MAX_EDITED_LINES = 20_000
"""Lines written in one turn that are kept."""
_MAX_ERRORS = 50
"""First errors of a turn that are kept in its digest."""
_MAX_STATEMENTS = 200
"""Statements of one turn that are kept."""
_MAX_FINDINGS = 20
_MAX_ID_CHARS = 200
_MAX_NAME_CHARS = 100
_MAX_NOTES = 20
_DESCRIPTIVE_ARGUMENTS = (
    *("command", "cmd", "file_path", "filePath", "pattern", "query", "path", "url", "description", "prompt", "skill"),
)
"""Arguments that describe a call, best first."""
_MIN_MILLISECONDS = 100_000_000_000
"""Larger numbers are milliseconds since 1970, smaller ones seconds; as seconds this is the year 5138."""
_PLAN_APPROVAL = "implement the plan"
"""The request that Codex sends when the user approves a plan."""
LEFT_OUT = "left out: "
COMPACTED_NOTE = "the conversation was compacted; the original messages are shown"

JsonObject = dict[str, Any]


class TranscriptStats(Struct):
    """Counts and notes collected while a transcript is read."""

    skipped: int = 0
    broken: int = 0
    session: str = ""
    notes: dict[str, int] = field(default_factory=dict)
    """Remarks for the reader of the transcript, with their number of occurrences."""

    def note(self, text: str) -> None:
        """Count a remark."""
        if text in self.notes or len(self.notes) < _MAX_NOTES:
            self.notes[text] = self.notes.get(text, 0) + 1

    def leave_out(self, what: str) -> None:
        """Count a record that a reader does not understand, and say what it was."""
        self.skipped += 1
        self.note(f"{LEFT_OUT}{what[:_MAX_NAME_CHARS]}")


class ParsedTurn(Struct, frozen=True, kw_only=True):
    """A turn, all ids by which the host refers to it, and the digest from which its note is made."""

    turn: TranscriptTurn
    aliases: frozenset[str]
    digest: TurnDigest = field(default_factory=TurnDigest)
    start_time: float | None = None
    """Seconds since 1970; None if unknown."""
    text_count: int = 0
    """Number of texts by the assistant."""
    call_count: int = 0
    """Number of tool calls, including those that are not kept."""
    finding_positions: tuple[int, ...] = ()
    """For each of the digest's findings, the number of the text that it is from, from 1."""
    is_open: bool = False
    """The turn may continue: nothing marks its end, and a request or a tool call came last."""
    is_off_record: bool = False
    """The user's words take the conversation off the record from here on."""


class TurnEnding(Struct, frozen=True, kw_only=True):
    """How a turn ended: what the next request may answer."""

    asked: str = ""
    """End of the assistant's last text."""
    proposed_plan: str = ""


class _BoundedText:
    """Text up to a limit; beyond it only the length is counted."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self.omitted_chars = 0

    def add(self, text: str) -> None:
        text = text.strip()
        if not text:
            return
        room = max(0, MAX_TEXT_CHARS - self._length)
        self.omitted_chars += len(text) - min(room, len(text))
        if room:
            self._pieces.append(text[:room])
            self._length += min(room, len(text))

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def __str__(self) -> str:
        text = "\n\n".join(self._pieces)
        return f"{text}… [{self.omitted_chars:,} more characters]" if self.omitted_chars else text


class _Call(Struct):
    """A tool call: as it is shown, what it did, and, until it has a result, what is needed to understand that."""

    id: str
    shown: ToolCall
    action: ToolAction
    pending: user_replies.PendingCall | None


class TurnBuilder:
    """A turn that is being read."""

    def __init__(self, identity: object = "", time: object = "", *, sidechain: bool = False) -> None:
        self.identity = to_text(identity)
        self.set_start_time(time)
        self.sidechain = sidechain
        self.interrupted = False
        self.failed = False
        """The host gave up on the turn."""
        self.ended = False
        """The host marked the turn as ended."""
        self.pending = False
        """The host marked the turn as unfinished."""
        self._is_off_record = False
        self.aliases: set[str] = {self.identity} - {""}
        self.request = _BoundedText()
        self.answer = _BoundedText()
        """Texts by the assistant."""
        self.calls: dict[str, _Call] = {}
        """By id; those beyond the limits without their content."""
        self.helpers: list[TurnBuilder] = []
        """Turns of the subagents that it started."""
        self._assistant_spoke_last = False
        self._last_texts: deque[str] = deque(maxlen=_MAX_LAST_TEXTS)
        self._text_count = 0
        self._error_count = self._line_count = 0
        self._written_plan = ""
        self._spoken: list[UserStatement | str] = []
        """Statements from tool results and requests, in order."""
        self._plan_count = 0
        self._findings: list[tuple[int, str]] = []

    @property
    def has_answer(self) -> bool:
        """True if the assistant wrote something or called a tool."""
        return bool(self.answer or self.calls)

    def add_alias(self, *names: object) -> None:
        """Add ids by which this turn may be requested."""
        self.aliases.update(name for name in names if isinstance(name, str) and name)

    def set_start_time(self, time: object) -> None:
        self.time, self.start_time = iso_time(time), timestamp(time)

    def add_request(self, text: object) -> None:
        request = user_replies.strip_shown_memory(to_text(text))
        self._is_off_record |= is_off_record(request)
        self.request.add(request)
        self._assistant_spoke_last = False
        if request.strip() and len(self._spoken) < _MAX_STATEMENTS:
            self._spoken.append(request[:MAX_TEXT_CHARS])

    def add_statement(self, statement: UserStatement) -> None:
        """Add words of the user that are not part of the request."""
        self._is_off_record |= statement.kind != "plan" and is_off_record(statement.text)
        if len(self._spoken) < _MAX_STATEMENTS:
            self._spoken.append(statement)

    def add_plan(self, text: object) -> None:
        """Add a plan that the assistant proposes outside a tool call; repetitions count once."""
        plan = to_text(text).strip()
        if plan and not any(isinstance(item, UserStatement) and item.text == plan for item in self._spoken):
            self._plan_count += 1
            self.add_statement(UserStatement("plan", plan, "plan shown to the user", f"plan {self._plan_count}"))

    def add_text(self, text: object) -> None:
        words = to_text(text)
        self.answer.add(words)
        if not words.strip():
            return
        if len(self._last_texts) == _MAX_LAST_TEXTS:  # keep the findings of the text that is dropped
            position = self._text_count - _MAX_LAST_TEXTS + 1
            self._findings += [(position, finding) for finding in turn_note.pick_findings(self._last_texts[0])]
            del self._findings[_MAX_FINDINGS:]
        self._last_texts.append(words)
        self._text_count += 1
        self._assistant_spoke_last = True
        for plan in user_replies.proposed_plans(words):
            self.add_plan(plan)

    def add_call(self, call: object, name: object, arguments: object, time: object = None) -> None:
        """Add a tool call; the first of equal ids counts."""
        identity = to_text(call)
        if identity and identity in self.calls:
            return
        self._assistant_spoke_last = False
        tool = to_text(name).strip()[:_MAX_NAME_CHARS] or "tool"
        arguments = parse_arguments(arguments)
        action = parse_action(tool, arguments)
        short, cut = truncate_text(describe_arguments(arguments), MAX_INPUT_CHARS)
        pending = user_replies.pending_call(tool, arguments, next(iter(action.files), "") or action.command or short)
        shown = ToolCall(tool, short, truncated=cut)
        if len(self.calls) >= _MAX_ACTIONS:
            shown, action = ToolCall(""), ToolAction("")
        self._line_count += sum(len(edit.lines) for edit in action.edits)
        kept = action.edits if self._line_count <= _MAX_EDITED_LINES else ()
        action = replace(action, edits=kept, time=timestamp(time))
        self.calls[identity or f"unnamed {len(self.calls)}"] = _Call(identity, shown, action, pending)
        self._written_plan = pending.plan or self._written_plan

    def add_result(
        self, call: object, result: object, *, failed: bool = False, details: object = None
    ) -> list[UserStatement]:
        """Add a tool's result, and return the user's words in it. `details` is the result's structured form.

        A result without a known call is dropped, and so are memories that lorelog added to it.
        """
        known = self.calls.get(to_text(call))
        if known is None:
            return []
        whole = result_text(result)
        text = to_text(user_replies.strip_shown_memory(whole))
        is_stopped = user_replies.is_stopped_call(whole, failed=failed)
        outcome, words = user_replies.call_outcome(text, stopped=is_stopped)
        if known.action.tool and outcome:
            known.action = replace(known.action, outcome=outcome, words=words, failed=known.action.failed or is_stopped)
        if known.action.tool and not known.action.failed:
            has_failed, reason = parse_failure(text, failed=failed)
            action = replace(known.action, failed=has_failed, error=to_text(reason), result_chars=len(text))
            traces = extract_errors(text, action) if self._error_count < _MAX_ERRORS else ()
            self._error_count += len(traces)
            known.action = replace(action, traces=traces)
        if known.action.tool and not known.shown.result:
            short, cut = truncate_text(text, MAX_RESULT_CHARS)
            truncated = known.shown.truncated or cut
            known.shown = replace(known.shown, result=short, failed=failed or is_stopped, truncated=truncated)
        pending, known.pending = known.pending, None
        return self.add_reply(call, pending, result, details, failed=failed)

    def add_reply(
        self, call: object, pending: user_replies.PendingCall | None, result: object, details: object, *, failed: bool
    ) -> list[UserStatement]:
        """Add the user's words in the result of a call, also of one that an earlier turn made."""
        whole = to_text(result_text(result))
        if pending is None or user_replies.is_stopped_call(whole, failed=failed):
            return []
        reply = user_replies.CallResult(user_replies.strip_shown_memory(whole), details, failed)
        statements = list(user_replies.read_reply(pending, reply, to_text(call), self._plan_text()))
        for statement in statements:
            self.add_statement(statement)
        return statements

    def open_calls(self) -> dict[str, user_replies.PendingCall]:
        return {call.id: call.pending for call in self.calls.values() if call.pending is not None}

    def _plan_text(self) -> str:
        """Return the plan of a call that has none itself: the plan file it wrote, else its last words."""
        return self._written_plan or (self._last_texts[-1] if self._last_texts else "")

    def ending(self) -> TurnEnding:
        """Return how the turn ended, for the next request."""
        plans = [item.text for item in self._spoken if isinstance(item, UserStatement) and item.kind == "plan"]
        return TurnEnding(
            asked=last_question(self._last_texts[-1]) if self._last_texts and not self.failed else "",
            proposed_plan=plans[-1] if plans and self._plan_count else "",
        )

    def _statements(self, previous: TurnEnding) -> Iterator[UserStatement]:
        """Yield the user's words in order. The first request is about the previous turn."""
        requests = 0
        for spoken in self._spoken:
            if isinstance(spoken, UserStatement):
                yield spoken
                continue
            requests += 1
            plan = previous.proposed_plan if requests == 1 else ""
            if plan and spoken.lstrip().lower().startswith(_PLAN_APPROVAL):
                about = f"approved plan: {plan.splitlines()[0].strip('# ')}"
                yield UserStatement("decision", spoken.strip(), about, f"request {requests}")
            elif rules := certain_rules(turn_note.strip_injected_context(spoken)):
                yield UserStatement("preference", " ".join(rules), previous.asked, f"request {requests}")
        for call, pending in self.open_calls().items():
            if shown := user_replies.unanswered_plan(pending, call, self._plan_text()):
                yield shown

    def build(self, number: int, identity: str, previous: TurnEnding | None = None) -> ParsedTurn:
        """Return the turn in its current state, with its aliases and its digest. `previous` is the end of the turn before it."""
        previous = previous or TurnEnding()
        calls = list(self.calls.values())[:_MAX_ACTIONS]
        tools = tuple(call.shown for call in calls[:MAX_TOOL_CALLS])
        is_cut = self.request.omitted_chars or self.answer.omitted_chars or any(tool.truncated for tool in tools)
        over = self.ended or self.interrupted or self.failed
        return ParsedTurn(
            turn=TranscriptTurn(
                id=identity,
                number=number,
                time=self.time,
                user=str(self.request),
                assistant=str(self.answer),
                tools=tools,
                sidechain=self.sidechain,
                interrupted=self.interrupted,
                truncated=bool(is_cut or len(self.calls) > MAX_TOOL_CALLS),
                tools_left_out=max(0, len(self.calls) - MAX_TOOL_CALLS),
            ),
            aliases=frozenset(self.aliases),
            digest=TurnDigest(
                request=str(self.request),
                assistant_texts=tuple(self._last_texts),
                actions=tuple(call.action for call in calls),
                delegated=tuple(call.action for side in self.helpers for call in side.calls.values()),
                interrupted=self.interrupted,
                failed=self.failed,
                statements=tuple(self._statements(previous)),
                asked=previous.asked,
                findings=tuple(finding for _, finding in self._findings),
            ),
            finding_positions=tuple(position for position, _ in self._findings),
            start_time=self.start_time,
            text_count=self._text_count,
            call_count=len(self.calls),
            is_open=not over and (self.pending or not self._assistant_spoke_last),
            is_off_record=self._is_off_record,
        )


class TurnNumbering:
    """Numbers the turns of a conversation in order and gives them unique ids."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._number = 0
        self._previous: TurnEnding | None = None

    def add(self, builder: TurnBuilder) -> ParsedTurn | None:
        """Return the next turn; None if it is empty, which does not count."""
        if not builder.request and not builder.has_answer:
            return None
        self._number += 1
        base = "".join(builder.identity.split())[:_MAX_ID_CHARS] or f"turn-{self._number}"
        identity, copy = base, 1
        while identity in self._used:
            copy += 1
            identity = f"{base}#{copy}"
        self._used.add(identity)
        parsed = builder.build(self._number, identity, None if builder.sidechain else self._previous)
        if not builder.sidechain:
            self._previous = builder.ending()
        return parsed

    def preview(self, builders: Iterable[TurnBuilder]) -> list[ParsedTurn]:
        """Return the next turns without counting them: they are not finished."""
        number, previous, added = self._number, self._previous, set[str]()
        turns: list[ParsedTurn] = []
        for builder in builders:
            turn = self.add(builder)
            if turn is not None:
                turns.append(turn)
                added.add(turn.turn.id)
        self._number, self._previous = number, previous
        self._used -= added
        return turns


class TurnReader(Protocol):
    """Makes turns of the records of one conversation."""

    def take(self, record: JsonObject) -> Iterator[TurnBuilder]:
        """Take the next record, and yield the turns that it ends."""

    def open_turns(self) -> list[TurnBuilder]:
        """Return the turns that are not ended, as `flush` would yield them now. The reader stays as it is."""

    def flush(self) -> Iterator[TurnBuilder]:
        """Yield the turns that are not ended: there are no more records."""


class OneTurnReader:
    """Base of readers of conversations in which at most one turn is open."""

    def __init__(self, stats: TranscriptStats) -> None:
        self._stats = stats
        self._turn: TurnBuilder | None = None

    def _begin(self, identity: object, time: object, request: str = "") -> Iterator[TurnBuilder]:
        """Begin the next turn, and yield the one before it."""
        yield from self.flush()
        self._turn = TurnBuilder(identity, time)
        self._turn.add_request(request)

    def open_turns(self) -> list[TurnBuilder]:
        return [self._turn] if self._turn else []

    def flush(self) -> Iterator[TurnBuilder]:
        yield from self.open_turns()
        self._turn = None


def read_turns(reader: TurnReader, records: Iterable[JsonObject]) -> Iterator[TurnBuilder]:
    for record in records:
        yield from reader.take(record)
    yield from reader.flush()


def number_turns(builders: Iterable[TurnBuilder]) -> Iterator[ParsedTurn]:
    """Build the turns in order with unique ids, skipping empty ones."""
    numbering = TurnNumbering()
    for builder in builders:
        turn = numbering.add(builder)
        if turn is not None:
            yield turn


def to_text(value: object) -> str:
    """Return a value as encodable text: JSON may contain half of a surrogate pair."""
    if not isinstance(value, str):
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""
    return value if value.isascii() else value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def message_text(content: object, kinds: Iterable[str] = ("text",)) -> str:
    """Return the text of a message whose content is a text or a list of blocks; `kinds` are the text block types."""
    if isinstance(content, str):
        return to_text(content)
    text_types = frozenset(kinds)
    texts = (to_text(block.get("text")) for block in content_blocks(content) if object_type(block) in text_types)
    return "\n\n".join(text for text in texts if text.strip())


def content_blocks(content: object) -> list[JsonObject]:
    """Return the blocks of a message's content; a plain text is one block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def object_type(record: JsonObject) -> str:
    """Return an object's type, or an empty text if it is not a string."""
    kind = record.get("type")
    return kind if isinstance(kind, str) else ""


def as_object(value: object) -> JsonObject:
    """Return a JSON object; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def truncate_text(text: str, limit: int) -> tuple[str, bool]:
    """Return at most `limit` characters with the number of omitted ones, and whether any were omitted."""
    text = to_text(text.strip("\r\n").rstrip())
    return (f"{text[:limit]}… [{len(text) - limit:,} more characters]", True) if len(text) > limit else (text, False)


def describe_arguments(arguments: object) -> str:
    """Return the most descriptive argument of a call, else all arguments as JSON."""
    if isinstance(arguments, dict):
        value = next((arguments[key] for key in _DESCRIPTIVE_ARGUMENTS if arguments.get(key)), None)
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return " ".join(value)
        if isinstance(value, str):
            return value
    return _to_json(arguments) if arguments else ""


def result_text(result: object) -> str:
    """Return a tool's result as text: hosts wrap it in blocks, objects, or JSON within a string."""
    if isinstance(result, str):
        output = as_object(parse_arguments(result)).get("output") if result.startswith('{"output"') else None
        return output if isinstance(output, str) else result
    if isinstance(result, list):
        texts = (
            to_text(block.get("text"))
            if isinstance(block.get("text"), str)
            else f"[{to_text(block.get('type')) or 'data'}]"
            for block in content_blocks(result)
        )
        return "\n".join(texts)
    if isinstance(result, dict):
        for key in ("output", "content", "text", "result", "error", "message"):
            if result.get(key):
                return result_text(result[key])
    return "" if result is None else _to_json(result)


def timestamp(value: object) -> float | None:
    """Return a time as seconds since 1970; None if it is not a time."""
    when = parse_time(value)
    return None if when is None else when.timestamp()


def iso_time(value: object) -> str:
    """Return a time as ISO text in UTC, to the second; empty if it is not a time."""
    when = parse_time(value)
    return "" if when is None else when.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(value: object) -> datetime | None:
    """Parse ISO text, or seconds or milliseconds since 1970, to a time in UTC; None if it is neither."""
    try:
        if isinstance(value, str):
            when = datetime.fromisoformat(value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
            when = datetime.fromtimestamp(value / 1000 if value > _MIN_MILLISECONDS else value, UTC)
        else:
            return None
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        return when.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _to_json(value: object) -> str:
    try:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        return ""
