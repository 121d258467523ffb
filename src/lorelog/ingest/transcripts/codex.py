"""Read Codex rollouts: lines of {type, payload}.

    current  response_item messages and calls; event_msg item_completed in addition
    earlier  response_item messages and calls; event_msg user_message and agent_message in addition

A message is usually stored twice, as an item and as an event, and which of them exists depends on the version. So both
are read, and the n-th occurrence of a text in one channel is the same message as the n-th in the other. Many messages
of the role `user` are the program's own (instructions, environment) and are skipped.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator

from lorelog.ingest.transcripts.turns import (
    COMPACTED_NOTE,
    JsonObject,
    TranscriptStats,
    TurnBuilder,
    as_object,
    content_blocks,
    message_text,
    object_type,
    to_text,
)

_LINE_TYPES = frozenset({"session_meta", "event_msg", "response_item", "turn_context", "compacted"})
_TEXT_TYPES = ("input_text", "output_text", "text", "Text")
_INJECTED_PREFIXES = (
    *("<environment_context>", "<user_instructions>", "<INSTRUCTIONS>", "# AGENTS.md instructions", "<turn_aborted>"),
    *(
        "<permissions instructions>",
        "<skill>",
        "<subagent_notification>",
        "<collaboration_mode>",
        "<apps_instructions>",
    ),
)
_USER_TEXT_KIND = "user.text"
_CALL_TYPES = frozenset(
    {"function_call", "custom_tool_call", "local_shell_call", "web_search_call", "tool_search_call"}
)
_RESULT_TYPES = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})


def is_codex(record: JsonObject) -> bool:
    """Return True if a line has the format of Codex."""
    return object_type(record) in _LINE_TYPES and isinstance(record.get("payload"), dict)


class _ChannelDeduplicator:
    """Counts how often each channel contained a text."""

    def __init__(self) -> None:
        self._times: Counter[tuple[int, str]] = Counter()

    def is_new(self, text: str, channel: str) -> bool:
        key = hash(" ".join(text.split()))
        most = max(self._times[key, other] for other in ("item", "event", "completed"))
        self._times[key, channel] += 1
        return self._times[key, channel] > most


class CodexReader:
    """Makes turns of lines."""

    def __init__(self, stats: TranscriptStats) -> None:
        self._stats = stats
        self._is_side = False
        self._requests = _ChannelDeduplicator()
        self._start("", "")

    def _start(self, identity: object, time: object) -> None:
        self._turn = TurnBuilder(identity, time, sidechain=self._is_side)
        self._replies = _ChannelDeduplicator()
        self._last_message = ""
        self._event_calls: list[tuple[str, str, object, object, bool]] = []
        """Calls reported by events, for turns without calls among their items."""

    def take(self, record: JsonObject) -> Iterator[TurnBuilder]:
        payload = as_object(record.get("payload"))
        kind = object_type(record) if payload else ""
        if kind == "event_msg":
            yield from self._take_event(record, payload)
        elif kind == "response_item":
            yield from self._take_item(record, payload)
        else:
            if kind == "session_meta":
                self._stats.session = self._stats.session or to_text(payload.get("id"))
                self._is_side = self._turn.sidechain = "subagent" in as_object(payload.get("source"))
            elif kind == "turn_context":
                yield from self._switch_turn(payload.get("turn_id"), record.get("timestamp"))
            elif kind == "compacted":
                self._stats.note(COMPACTED_NOTE)
                if not self._turn.request:  # compaction ran as a turn of its own: its text is the summary
                    self._start(self._turn.identity, self._turn.time)
            self._stats.skipped += 1

    def open_turns(self) -> list[TurnBuilder]:
        is_whole = (self._turn.calls or not self._event_calls) and (self._turn.answer or not self._last_message)
        return [self._turn if is_whole else self._complete(copy.deepcopy(self._turn))]

    def flush(self) -> Iterator[TurnBuilder]:
        yield self._complete(self._turn)
        self._start("", "")

    def _complete(self, turn: TurnBuilder) -> TurnBuilder:
        """Add what only events reported of a turn."""
        if not turn.calls:
            for call, name, arguments, result, failed in self._event_calls:
                turn.add_call(call, name, arguments)
                turn.add_result(call, result, failed=failed)
        if not turn.answer:
            turn.add_text(self._last_message)
        return turn

    def _switch_turn(self, identity: object, time: object) -> Iterator[TurnBuilder]:
        """Switch to the turn with this id: the current one, the current one without an id yet, or the next one."""
        if not isinstance(identity, str) or not identity or identity == self._turn.identity:
            return
        if self._turn.identity or self._turn.has_answer:
            yield from self.flush()
            self._start(identity, time)
        else:
            self._turn.identity = to_text(identity)
            self._turn.add_alias(identity)

    def _take_item(self, record: JsonObject, item: JsonObject) -> Iterator[TurnBuilder]:
        kind = object_type(item)
        meta = as_object(item.get("internal_chat_message_metadata_passthrough"))
        yield from self._switch_turn(meta.get("turn_id"), record.get("timestamp"))
        if kind == "message" and item.get("role") == "user":
            text = _user_text(item, item.get("content_item_kinds") or meta.get("content_item_kinds"))
            yield from self._add_request(text, "item", record, item)
        elif kind == "message" and item.get("role") == "assistant":
            self._add_text(message_text(item.get("content"), _TEXT_TYPES), "item", item)
        elif kind in _CALL_TYPES:
            arguments = item.get("arguments", item.get("input", item.get("action")))
            call = item.get("call_id") or item.get("id")
            self._turn.add_call(
                call, item.get("name") or kind.removesuffix("_call"), arguments, record.get("timestamp")
            )
            self._turn.add_alias(item.get("id"))
        elif kind in _RESULT_TYPES:
            output = item.get("output")
            failed = as_object(output).get("success") is False
            self._turn.add_result(item.get("call_id"), output, failed=failed)
        else:
            self._stats.skipped += 1

    def _take_event(self, record: JsonObject, event: JsonObject) -> Iterator[TurnBuilder]:
        kind = object_type(event)
        if kind in {"task_started", "turn_started"}:
            if self._turn.request or self._turn.has_answer:
                yield from self.flush()
                self._start(event.get("turn_id"), record.get("timestamp"))
            else:
                yield from self._switch_turn(event.get("turn_id"), record.get("timestamp"))
        elif kind == "user_message":
            yield from self._add_request(_drop_injected(to_text(event.get("message"))), "event", record, event)
        elif kind == "agent_message":
            self._add_text(to_text(event.get("message")), "event", event)
        elif kind == "item_completed":
            yield from self._switch_turn(event.get("turn_id"), record.get("timestamp"))
            yield from self._take_completed(record, as_object(event.get("item")))
        elif kind in {"task_complete", "turn_complete"}:
            self._last_message = to_text(event.get("last_agent_message"))
            self._turn.failed = bool(event.get("error"))
            self._turn.ended = True
        elif kind == "turn_aborted":
            self._turn.interrupted = True
        elif kind in {"exec_command_end", "mcp_tool_call_end"}:
            self._record_event_call(event.get("call_id"), event)
        else:
            if kind == "context_compacted":
                self._stats.note(COMPACTED_NOTE)
            self._stats.skipped += 1

    def _take_completed(self, record: JsonObject, item: JsonObject) -> Iterator[TurnBuilder]:
        kind = object_type(item)
        if kind == "UserMessage":
            text = _drop_injected(message_text(item.get("content"), _TEXT_TYPES))
            yield from self._add_request(text, "completed", record, item)
        elif kind == "AgentMessage":
            text = message_text(item.get("content"), _TEXT_TYPES) or to_text(item.get("text"))
            self._add_text(text, "completed", item)
        elif kind == "Plan":
            self._turn.add_plan(item.get("text"))
        elif kind in {"CommandExecution", "McpToolCall"}:
            self._record_event_call(item.get("id"), item)
        else:
            self._stats.skipped += 1

    def _record_event_call(self, call: object, event: JsonObject) -> None:
        invocation = as_object(event.get("invocation"))
        name = to_text(event.get("tool") or invocation.get("tool")) or "exec"
        arguments = event.get("command") or event.get("arguments") or invocation.get("arguments")
        result = event.get("aggregated_output") or event.get("stdout") or event.get("output") or event.get("result")
        if isinstance(arguments, list):
            arguments = {"command": arguments}
        failed = isinstance(event.get("exit_code"), int) and event["exit_code"] != 0
        self._event_calls.append((to_text(call) or f"seen {len(self._event_calls)}", name, arguments, result, failed))
        del self._event_calls[1000:]

    def _add_request(self, text: str, channel: str, record: JsonObject, item: JsonObject) -> Iterator[TurnBuilder]:
        if not text.strip():
            self._stats.skipped += 1
            return
        if not self._requests.is_new(text, channel):
            self._turn.add_alias(item.get("id"))
            return
        if self._turn.request:  # typed while the agent works: a turn of its own, under the same name
            identity, replies = self._turn.identity, self._replies
            yield from self.flush()
            self._start(identity, record.get("timestamp"))
            self._replies = replies
        if not self._turn.request and not self._turn.time:
            self._turn.set_start_time(record.get("timestamp"))
        self._turn.add_request(text)
        self._turn.add_alias(item.get("id"))

    def _add_text(self, text: str, channel: str, item: JsonObject) -> None:
        if text.strip() and self._replies.is_new(text, channel):
            self._turn.add_text(text)
        self._turn.add_alias(item.get("id"))


def _user_text(item: JsonObject, kinds: object) -> str:
    """Return the part of a user message that the user wrote: newer versions mark it, for older ones it is guessed."""
    blocks = content_blocks(item.get("content"))
    if isinstance(kinds, list) and kinds:
        if _USER_TEXT_KIND not in kinds:
            return ""
        if len(kinds) == len(blocks):
            blocks = [block for block, kind in zip(blocks, kinds, strict=True) if kind == _USER_TEXT_KIND]
        return message_text(blocks, _TEXT_TYPES)
    texts = (_drop_injected(message_text([block], _TEXT_TYPES)) for block in blocks)
    images = "\n[image]" * sum(object_type(block) == "input_image" for block in blocks)
    return "\n\n".join(text for text in texts if text) + images


def _drop_injected(text: str) -> str:
    return "" if text.lstrip().startswith(_INJECTED_PREFIXES) else text
