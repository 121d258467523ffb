"""Read transcripts of GitHub Copilot CLI: logs of events, one per line.

An event is `{type, data, id, timestamp, parentId}`. A turn begins at a `user.message` of a person; those with a `source` were written by the program (a skill, another agent).
Events of subagents have an `agentId` or name the call that started them, and are skipped.

Lines are written late, and a killed program leaves its last ones out. So a turn also has the name of the hook that reported
its end, which tells whether it is all there; and a prompt that only its hook's line holds is a turn of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lorelog.ingest.transcripts.turns import (
    COMPACTED_NOTE,
    JsonObject,
    OneTurnReader,
    TranscriptStats,
    TurnBuilder,
    as_object,
    object_type,
    to_text,
)

_PREFIXES = ("session.", "user.", "assistant.", "tool.", "hook.", "system.", "skill.", "subagent.")
_PROMPT_FIELDS = {"sessionStart": "initialPrompt", "userPromptSubmitted": "prompt"}
"""Where the hooks that get a prompt have it; the first one has the prompt of the command line."""
_HOOK_NOTE = re.compile(r'\s*Tool "[^"\n]{1,100}" \w+\. Additional guidance from \w+ hooks:.*', re.DOTALL)


def is_copilot(record: JsonObject) -> bool:
    """Return True if a line has the format of Copilot CLI."""
    return object_type(record).startswith(_PREFIXES) and isinstance(record.get("data"), dict) and "parentId" in record


class CopilotReader(OneTurnReader):
    """Makes turns of events."""

    def __init__(self, stats: TranscriptStats) -> None:
        super().__init__(stats)
        self._submitted: JsonObject = {}
        """Line of the hook that got a prompt, until the prompt itself follows."""

    def take(self, record: JsonObject) -> Iterator[TurnBuilder]:
        kind, data = object_type(record), as_object(record.get("data"))
        if kind == "session.start":
            self._stats.session = to_text(data.get("sessionId")) or self._stats.session
        if record.get("agentId") or data.get("parentToolCallId"):
            self._stats.skipped += 1
        elif kind == "hook.start":
            self._take_hook(record, data)
        elif kind == "session.resume" and self._submitted:
            yield from self._take_lost_prompt()
        elif kind == "user.message" and to_text(data.get("source")) in {"", "user"}:
            self._submitted = {}
            yield from self._begin(record.get("id"), record.get("timestamp"), to_text(data.get("content")) or "[image]")
            if self._turn is not None:
                self._turn.add_alias(data.get("messageId"), data.get("interactionId"))
        elif self._turn is None or not _add_copilot_event(self._turn, kind, data):
            if kind == "session.compaction_complete":
                self._stats.note(COMPACTED_NOTE)
            self._stats.skipped += 1

    def _take_hook(self, record: JsonObject, data: JsonObject) -> None:
        self._stats.skipped += 1
        event, given = to_text(data.get("hookType")), as_object(data.get("input"))
        if event in _PROMPT_FIELDS:
            self._submitted = record if to_text(given.get(_PROMPT_FIELDS[event])) else {}
        elif self._turn is not None and event in {"agentStop", "sessionEnd"}:
            self._turn.add_alias(f"{event}@{given.get('timestamp')}")

    def _take_lost_prompt(self) -> Iterator[TurnBuilder]:
        """Begin a turn with a prompt after which the program was killed. What follows is of another run."""
        submitted, self._submitted = self._submitted, {}
        data = as_object(submitted.get("data"))
        prompt = as_object(data.get("input")).get(_PROMPT_FIELDS[to_text(data.get("hookType"))])
        yield from self._begin(submitted.get("id"), submitted.get("timestamp"), to_text(prompt))
        if self._turn is not None:
            self._turn.interrupted = True


def _add_copilot_event(turn: TurnBuilder, kind: str, data: JsonObject) -> bool:
    if kind == "assistant.message":
        turn.add_alias(data.get("messageId"))
        turn.add_text(data.get("content"))
        calls = data.get("toolRequests")
        for call in map(as_object, calls if isinstance(calls, list) else ()):
            turn.add_call(call.get("toolCallId"), call.get("name"), call.get("arguments"))
    elif kind == "tool.execution_complete":
        result, error = as_object(data.get("result")), as_object(data.get("error"))
        exit_code = as_object(data.get("shellExecution")).get("exitCode")
        failed = data.get("success") is False or (isinstance(exit_code, int) and exit_code != 0)
        text = to_text(result.get("content")) or to_text(error.get("message"))
        turn.add_result(data.get("toolCallId"), _HOOK_NOTE.sub("", text), failed=failed)
    elif kind == "abort":
        turn.interrupted = True
    elif kind == "session.error":
        turn.failed = True
    else:
        return False
    return True
