"""Real sessions as the events that a host's hooks would have seen, in order of time.

A directory holds the sessions of one team, as transcripts of Claude Code, Codex and Copilot CLI in any subdirectories. The events are read
from the transcripts without lorelog's own readers, so that what these overlook is not overlooked here. Each event has
the number of transcript lines that existed when it happened: a replay lets the transcript grow with the session.

Sessions are people's own words: never commit them.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_HOST_TEXT = (
    *("[Request interrupted", "<local-command", "Caveat:", "<bash-", "This session is being continued", "<task-notification"),
    *("<command-", "<user_instructions", "<environment_context", "# AGENTS.md", "<INSTRUCTIONS", "<turn_aborted", "<permissions"),
    *("<skill", "Base directory for this skill"),
)  # fmt: skip
"""Beginnings of texts that the host writes in the user's place."""
_INJECTED = re.compile(r"<system-reminder>.*?</system-reminder>|<ide_\w+>.*?</ide_\w+>", re.DOTALL)
_EXIT_CODE = re.compile(r"(?:Process exited with code|Exit code:?|exit_code\"?:|exited with exit code) ?([1-9]\d*)")
_REJECTED = ("The user doesn't want", "Permission for this tool use was denied")
_SAID = re.compile(r"the user said:\s*\n?(.*)", re.DOTALL)
_MAX_OUTPUT_CHARS = 20_000
_CODEX_COMMANDS = frozenset({"shell", "exec_command", "local_shell", "container.exec"})


@dataclass(frozen=True)
class Event:
    """A moment of a session at which a host runs a hook."""

    at: str
    moment: str
    lines: int
    """Transcript lines that exist at this moment."""
    text: str = ""
    """Of a prompt."""
    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    call: str = ""
    output: str = ""
    """Of a failed call."""
    branch: str = ""
    """Checked out at this moment, where the transcript names it."""


@dataclass
class Session:
    """A transcript and its events."""

    path: Path
    host: str
    name: str
    directory: str = ""
    lines: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    said: list[tuple[str, str]] = field(default_factory=list)
    """What the user said, as channel (prompt, rejection, answer) and text."""

    @property
    def started(self) -> str:
        """Time of the first event."""
        return self.events[0].at if self.events else ""


def read_team(folder: Path, drawn: int = 0) -> list[Session]:
    """Return the sessions of a team that have a prompt, by their beginning; of a larger team only so many, drawn whole with seed 7."""
    paths = sorted(folder.rglob("*.jsonl"))
    paths = random.Random(7).sample(paths, drawn) if 0 < drawn < len(paths) else paths
    sessions = [read_session(path) for path in paths]
    with_prompt = [session for session in sessions if any(event.moment == "prompt" for event in session.events)]
    return sorted(with_prompt, key=lambda session: session.started)


def read_session(path: Path) -> Session:
    """Return a transcript with its events; none for a format that is not known."""
    lines = path.read_text("utf-8", "replace").splitlines(keepends=True)
    records = [(number, record) for number, record in enumerate(map(_parse, lines)) if record]
    first: dict[str, Any] = next((record for _, record in records), {})
    if first.get("type") == "session_meta":
        session = Session(path, "codex", path.stem, lines=lines)
        found = _codex_events(session, records)
    elif first.get("type") == "session.start":
        session = Session(path, "copilot", path.stem, lines=lines)
        found = _copilot_events(session, records)
    else:
        session = Session(path, "claude", path.stem, lines=lines)
        found = _claude_events(session, records)
    session.events = list(_with_turns(found, len(lines)))
    session.said += (("prompt", event.text) for event in session.events if event.moment == "prompt")
    return session


def _with_turns(events: Iterator[Event], total: int) -> Iterator[Event]:
    """Yield the events with the session's start and end, and the end of each turn before the next prompt."""
    is_started = in_turn = False
    last = ""
    for event in events:
        if not event.at:
            continue
        if not is_started and event.moment != "session-start":
            yield Event(event.at, "session-start", 0, branch=event.branch)
        is_started = True
        if event.moment == "prompt":
            if in_turn:
                yield Event(last, "turn-end", event.lines)
            in_turn = True
        last = max(last, event.at)
        yield event
    if in_turn:
        yield Event(last, "turn-end", total)
    if is_started:
        yield Event(last, "session-end", total)


def _claude_events(session: Session, records: list[tuple[int, dict[str, Any]]]) -> Iterator[Event]:
    tools: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()
    for number, record in records:
        name = str(record.get("uuid") or number)
        if name in seen or record.get("isSidechain"):
            continue
        seen.add(name)
        session.directory = session.directory or str(record.get("cwd") or "")
        session.name = str(record.get("sessionId") or session.name)
        at, content = str(record.get("timestamp") or ""), (record.get("message") or {}).get("content")
        parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
        if record.get("isCompactSummary"):
            yield Event(at, "compact", number)
            yield Event(at, "session-start", number + 1, text="compact")
        elif record.get("type") == "assistant":
            for part in parts:
                if part.get("type") == "tool_use":
                    tools[str(part.get("id"))] = part
                    yield Event(at, "tool-before", number + 1, tool=str(part.get("name")), arguments=_object(part.get("input")), call=str(part.get("id")))  # fmt: skip
        elif record.get("type") == "user" and any(part.get("type") == "tool_result" for part in parts):
            yield from _claude_results(session, number, record, parts, tools)
        elif record.get("type") == "user" and not record.get("isMeta"):
            text = _typed(_flat(content))
            if text:
                yield Event(at, "prompt", number, text=text, branch=str(record.get("gitBranch") or ""))


def _claude_results(
    session: Session, number: int, record: dict[str, Any], parts: list[dict[str, Any]], tools: dict[str, dict[str, Any]]
) -> Iterator[Event]:
    answers = _object(_object(record.get("toolUseResult")).get("answers"))
    session.said += (("answer", f"{question} -> {answer}") for question, answer in answers.items())
    for part in parts:
        call, output = str(part.get("tool_use_id") or ""), _flat(part.get("content"))
        said = _SAID.search(output) if part.get("is_error") else None
        if said and "The user wants to clarify" not in said[1]:
            session.said.append(("rejection", said[1].strip()))
        if call in tools and not output.startswith(_REJECTED):
            failed = bool(part.get("is_error")) and "interrupted" not in output[:40]
            at, name, arguments = str(record.get("timestamp") or ""), tools[call].get("name"), tools[call].get("input")
            yield _result(at, number, name, arguments, call, output if failed else "")


def _codex_events(session: Session, records: list[tuple[int, dict[str, Any]]]) -> Iterator[Event]:
    calls: dict[str, tuple[str, dict[str, Any]]] = {}
    branch = ""
    for number, record in records:
        at, payload = str(record.get("timestamp") or ""), _object(record.get("payload"))
        kind = payload.get("type")
        session.directory = session.directory or str(payload.get("cwd") or "")
        if record.get("type") == "session_meta":
            session.name = str(payload.get("id") or session.name)
            branch = str(_object(payload.get("git")).get("branch") or "")
        elif record.get("type") == "compacted":
            yield Event(at, "compact", number)
            yield Event(at, "session-start", number + 1, text="compact")
        elif record.get("type") == "event_msg" and kind == "user_message":
            text = _typed(str(payload.get("message") or ""))
            if text:
                yield Event(at, "prompt", number, text=text, branch=branch)
        elif kind in {"function_call", "custom_tool_call"}:
            tool, arguments = str(payload.get("name")), _object(_parse(str(payload.get("arguments") or payload.get("input") or "")))  # fmt: skip
            if tool in _CODEX_COMMANDS:
                command = arguments.get("cmd") or arguments.get("command") or ""
                tool, arguments = "Bash", {"command": " ".join(command) if isinstance(command, list) else str(command)}
            elif kind == "custom_tool_call":
                arguments = {"command": str(payload.get("input") or "")}
            calls[str(payload.get("call_id"))] = (tool, arguments)
            yield Event(at, "tool-before", number + 1, tool=tool, arguments=arguments, call=str(payload.get("call_id")))
        elif kind in {"function_call_output", "custom_tool_call_output"}:
            call, output = str(payload.get("call_id")), _flat(payload.get("output"))
            if call in calls:
                yield _result(at, number, *calls[call], call, output if _EXIT_CODE.search(output[:2000]) else "")


def _copilot_events(session: Session, records: list[tuple[int, dict[str, Any]]]) -> Iterator[Event]:
    calls: dict[str, tuple[str, dict[str, Any]]] = {}
    for number, record in records:
        at, data, kind = str(record.get("timestamp") or ""), _object(record.get("data")), record.get("type")
        if kind == "session.start":
            session.name = str(data.get("sessionId") or session.name)
            session.directory = str(_object(data.get("context")).get("cwd") or "")
        elif kind == "user.message":
            text = _typed(str(data.get("content") or ""))
            if text:
                yield Event(at, "prompt", number, text=text)
        elif kind == "tool.execution_start":
            calls[str(data.get("toolCallId"))] = (str(data.get("toolName")), _object(data.get("arguments")))
            tool, arguments = calls[str(data.get("toolCallId"))]
            yield Event(at, "tool-before", number + 1, tool=tool, arguments=arguments, call=str(data.get("toolCallId")))
        elif kind == "tool.execution_complete" and str(data.get("toolCallId")) in calls:
            result = _object(data.get("result"))
            output = str(_object(data.get("error")).get("message") or result.get("content") or "")
            failed = data.get("success") is False or bool(_EXIT_CODE.search(output[-400:]))
            call = str(data.get("toolCallId"))
            yield _result(at, number, *calls[call], call, output if failed else "")


def _result(at: str, number: int, tool: object, arguments: object, call: str, output: str) -> Event:
    moment = "tool-failed" if output else "tool-after"
    return Event(at, moment, number + 1, "", str(tool), _object(arguments), call, output[:_MAX_OUTPUT_CHARS])


def _typed(text: str) -> str:
    """Return what the user typed; empty if the host wrote the text."""
    text = _INJECTED.sub("", text).strip()
    return "" if not text or text.startswith(_HOST_TEXT) else text


def _flat(content: object) -> str:
    if isinstance(content, dict):
        content = content.get("content") or content.get("output") or ""
    if isinstance(content, list):
        return "\n".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _parse(line: str) -> dict[str, Any]:
    try:
        return _object(json.loads(line))
    except ValueError:  # an empty or torn line
        return {}
