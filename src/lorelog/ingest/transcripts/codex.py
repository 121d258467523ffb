"""Codex: rollouts, in the forms that its versions have written.

    {type, payload} lines, now     response_item messages and calls; event_msg item_completed beside them
    {type, payload} lines, before  response_item messages and calls; event_msg user_message and agent_message beside them
    bare lines, 2025               the items themselves: {type: message, role, …}, {type: function_call, …}
    one JSON document, 2025        {session, items: […]}

What is said usually stands in the file twice, as an item and as an event, and which of them is there depends on the
version. So both are read, and the n-th time that one channel says a text is the n-th time that the other said it. Of the
messages of the role `user` many are the program's own (instructions, environment): those are left aside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lorelog.ingest.transcripts.building import (
    Record,
    Tally,
    TurnBuilder,
    blocks_of,
    kind_of,
    record_of,
    text_of,
    texts_of,
)

_LINES = frozenset({"session_meta", "event_msg", "response_item", "turn_context", "compacted"})
_ITEMS = frozenset({"message", "function_call", "function_call_output", "reasoning", "local_shell_call"})
_TEXTS = ("input_text", "output_text", "text", "Text")
_PUT_IN = (
    "<environment_context>",
    "<user_instructions>",
    "<INSTRUCTIONS>",
    "# AGENTS.md instructions",
    "<permissions instructions>",
    "<turn_aborted>",
    "<skill>",
    "<subagent_notification>",
    "<collaboration_mode>",
    "<apps_instructions>",
)
_WRITTEN = "user.text"
_CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "web_search_call", "tool_search_call"})
_RESULTS = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
_COMPACTED = "the conversation was compacted here and there: what is shown is what was really said"


def is_codex(record: Record) -> bool:
    """Say whether a line is Codex's."""
    kind = kind_of(record)
    if kind in _LINES:
        return isinstance(record.get("payload"), dict)
    if kind in _ITEMS:
        return isinstance(record.get("role"), str) or "call_id" in record or kind == "reasoning"
    return "record_type" in record or ({"id", "timestamp", "instructions"} <= record.keys() and not kind)


def read_codex(records: Iterator[Record], tally: Tally) -> Iterator[TurnBuilder]:
    """Yield the turns of a conversation."""
    reader = _Reader(tally)
    for record in records:
        yield from reader.take(record)
    yield from reader.rest()


class _Heard:
    """How often each channel has said a text."""

    def __init__(self) -> None:
        self._times: dict[tuple[int, str], int] = {}
        self._counted: dict[int, int] = {}

    def is_new(self, text: str, channel: str) -> bool:
        key = hash(" ".join(text.split()))
        times = self._times[key, channel] = self._times.get((key, channel), 0) + 1
        if times <= self._counted.get(key, 0):
            return False
        self._counted[key] = times
        return True


class _Reader:
    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._is_side = False
        self._asked = _Heard()
        self._takers: dict[str, Callable[[Record, Record], Iterator[TurnBuilder]]] = {
            "event_msg": self._take_event,
            "response_item": self._take_item,
            "turn_context": self._take_context,
        }
        self._start("", "")

    def _start(self, identity: object, time: object) -> None:
        self._turn = TurnBuilder(identity, time, sidechain=self._is_side)
        self._said = _Heard()
        self._last_words = ""
        self._seen: list[tuple[str, str, object, object, bool]] = []
        """Calls as events tell them, for turns whose items tell of none."""

    def take(self, record: Record) -> Iterator[TurnBuilder]:
        kind = kind_of(record)
        payload = record.get("payload")
        if kind == "session_meta" and isinstance(payload, dict):
            self._tally.session = self._tally.session or text_of(payload.get("id"))
            self._is_side = "subagent" in record_of(payload.get("source"))
            self._turn.sidechain = self._is_side
            self._tally.skipped += 1
        elif isinstance(payload, dict) and kind in self._takers:
            yield from self._takers[kind](record, payload)
        elif kind in _CALLS or kind in _RESULTS or (kind == "message" and "role" in record):
            yield from self._take_item(record, record)
        else:
            if not kind and "instructions" in record:
                self._tally.session = self._tally.session or text_of(record.get("id"))
            elif kind == "compacted":
                self._tally.note(_COMPACTED)
                if not self._turn.has_request:  # a task of its own: what was said in it is the summary
                    self._start(self._turn.identity, self._turn.time)
            self._tally.skipped += 1

    def rest(self) -> Iterator[TurnBuilder]:
        turn = self._turn
        if not turn.has_tools:
            for call, name, given, result, failed in self._seen:
                turn.call(call, name, given)
                turn.answer(call, result, failed=failed)
        if not turn.has_words:
            turn.say(self._last_words)
        yield turn
        self._start("", "")

    def _take_context(self, record: Record, payload: Record) -> Iterator[TurnBuilder]:
        yield from self._enter(payload.get("turn_id"), record.get("timestamp"))
        self._tally.skipped += 1

    def _enter(self, identity: object, time: object) -> Iterator[TurnBuilder]:
        """Go to the turn of an id: it may be the one that goes on, or name it, or be the next."""
        if not isinstance(identity, str) or not identity or identity == self._turn.identity:
            return
        if self._turn.identity or self._turn.has_answer:
            yield from self.rest()
            self._start(identity, time)
        else:
            self._turn.identity = text_of(identity)
            self._turn.name(identity)

    def _take_item(self, record: Record, item: Record) -> Iterator[TurnBuilder]:
        kind = kind_of(item)
        meta = record_of(item.get("internal_chat_message_metadata_passthrough"))
        yield from self._enter(meta.get("turn_id"), record.get("timestamp"))
        if kind == "message" and item.get("role") == "user":
            wrote = _written(item, item.get("content_item_kinds") or meta.get("content_item_kinds"))
            yield from self._ask(wrote, "item", record, item)
        elif kind == "message" and item.get("role") == "assistant":
            self._say(texts_of(item.get("content"), _TEXTS), "item", item)
        elif kind in _CALLS:
            given = item.get("arguments", item.get("input", item.get("action")))
            call = item.get("call_id") or item.get("id")
            self._turn.call(call, item.get("name") or kind.removesuffix("_call"), given)
            self._turn.name(item.get("id"))
        elif kind in _RESULTS:
            output = item.get("output")
            failed = record_of(output).get("success") is False
            self._turn.answer(item.get("call_id"), output, failed=failed)
        else:
            self._tally.skipped += 1

    def _take_event(self, record: Record, event: Record) -> Iterator[TurnBuilder]:
        kind = kind_of(event)
        if kind in {"task_started", "turn_started"}:
            if self._turn.has_request or self._turn.has_answer:
                yield from self.rest()
                self._start(event.get("turn_id"), record.get("timestamp"))
            else:
                yield from self._enter(event.get("turn_id"), record.get("timestamp"))
        elif kind == "user_message":
            yield from self._ask(_unless_put_in(text_of(event.get("message"))), "event", record, event)
        elif kind == "agent_message":
            self._say(text_of(event.get("message")), "event", event)
        elif kind == "item_completed":
            yield from self._enter(event.get("turn_id"), record.get("timestamp"))
            yield from self._take_completed(record, record_of(event.get("item")))
        elif kind in {"task_complete", "turn_complete"}:
            self._last_words = text_of(event.get("last_agent_message"))
            self._turn.failed = bool(event.get("error"))
            self._turn.ended = True
        elif kind == "turn_aborted":
            self._turn.interrupted = True
        elif kind in {"exec_command_end", "mcp_tool_call_end"}:
            self._saw(event.get("call_id"), event)
        else:
            if kind == "context_compacted":
                self._tally.note(_COMPACTED)
            self._tally.skipped += 1

    def _take_completed(self, record: Record, item: Record) -> Iterator[TurnBuilder]:
        kind = kind_of(item)
        if kind == "UserMessage":
            yield from self._ask(_unless_put_in(texts_of(item.get("content"), _TEXTS)), "completed", record, item)
        elif kind == "AgentMessage":
            said = texts_of(item.get("content"), _TEXTS) or text_of(item.get("text"))
            self._say(said, "completed", item)
        elif kind in {"CommandExecution", "McpToolCall"}:
            self._saw(item.get("id"), item)
        else:
            self._tally.skipped += 1

    def _saw(self, call: object, told: Record) -> None:
        invocation = record_of(told.get("invocation"))
        name = text_of(told.get("tool") or invocation.get("tool")) or "exec"
        given = told.get("command") or told.get("arguments") or invocation.get("arguments")
        result = told.get("aggregated_output") or told.get("stdout") or told.get("output") or told.get("result")
        if isinstance(given, list):
            given = {"command": given}
        failed = isinstance(told.get("exit_code"), int) and told["exit_code"] != 0
        self._seen.append((text_of(call) or f"seen {len(self._seen)}", name, given, result, failed))
        del self._seen[1000:]

    def _ask(self, text: str, channel: str, record: Record, item: Record) -> Iterator[TurnBuilder]:
        if not text.strip():
            self._tally.skipped += 1
            return
        if not self._asked.is_new(text, channel):
            self._turn.name(item.get("id"))
            return
        # With an id of the turn, what is asked meanwhile belongs to it; without, it is the next turn.
        if self._turn.has_request and not (self._turn.identity and self._turn_of(item) == self._turn.identity):
            yield from self.rest()
        if not self._turn.has_request and not self._turn.time:
            self._turn.begin(record.get("timestamp"))
        self._turn.ask(text)
        self._turn.name(item.get("id"))

    def _turn_of(self, item: Record) -> object:
        meta = record_of(item.get("internal_chat_message_metadata_passthrough"))
        return meta.get("turn_id") or self._turn.identity

    def _say(self, text: str, channel: str, item: Record) -> None:
        if text.strip() and self._said.is_new(text, channel):
            self._turn.say(text)
        self._turn.name(item.get("id"))


def _written(item: Record, kinds: object) -> str:
    """Return what of a user message a person wrote: newer versions say so, older ones must be guessed."""
    blocks = blocks_of(item.get("content"))
    if isinstance(kinds, list) and kinds:
        if _WRITTEN not in kinds:
            return ""
        if len(kinds) == len(blocks):
            blocks = [block for block, kind in zip(blocks, kinds, strict=True) if kind == _WRITTEN]
        return texts_of(blocks, _TEXTS)
    said = (_unless_put_in(texts_of([block], _TEXTS)) for block in blocks)
    images = "\n[image]" * sum(kind_of(block) == "input_image" for block in blocks)
    return "\n\n".join(one for one in said if one) + images


def _unless_put_in(text: str) -> str:
    return "" if text.lstrip().startswith(_PUT_IN) else text
