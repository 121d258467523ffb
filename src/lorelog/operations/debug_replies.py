"""What the operations debug.* answer, as JSON."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class ToolCallShape(TypedDict):
    """Something that was called."""

    trace_id: str
    tool_name: str
    timestamp_ms: int
    timestamp_formatted: str
    input: str
    output: str
    error: str
    failed: bool
    duration_ms: float | None
    session_id: str
    turn: str
    host: str
    branch: str
    project: str
    memory: str
    files: list[str]
    context_tags: list[str]


class ToolCallsShape(TypedDict):
    """Calls, newest first."""

    tool_calls: list[ToolCallShape]
    total_count: int


class FrameShape(TypedDict):
    """A call that had not returned; the innermost has the index 0."""

    index: int
    function_name: str
    file_path: str
    line_number: int
    col_number: int


class CauseShape(TypedDict):
    """What an error came from."""

    error_type: str
    error_message: str
    frames: list[FrameShape]


class OccurrenceShape(TypedDict):
    """A time that something went wrong."""

    trace_id: str
    error_signature: str
    error_type: str
    error_message: str
    language: str
    timestamp_ms: int
    timestamp_formatted: str
    times: int
    source: str
    session_id: str
    turn: str
    host: str
    branch: str
    project: str
    memory: str
    command: str
    place: str


class TracedErrorShape(OccurrenceShape):
    """Something that went wrong, with its stack where that was asked for."""

    frames: NotRequired[list[FrameShape]]
    causes: NotRequired[list[CauseShape]]
    text: NotRequired[str]


class ErrorGroupShape(TypedDict):
    """Errors that are the same one."""

    error_signature: str
    error_type: str
    error_message: str
    language: str
    times: int
    first_ms: int
    last_ms: int
    first_formatted: str
    last_formatted: str
    sessions: int


class ErrorsShape(TypedDict):
    """Errors, newest first, and grouped by their signature."""

    errors: list[TracedErrorShape]
    groups: list[ErrorGroupShape]
    total_count: int


class IngestShape(TypedDict):
    """What came of reading a log."""

    name: str
    bytes: int
    lines: int
    found: int
    added: int
    groups: list[ErrorGroupShape]
    notes: list[str]


class SeenShape(ErrorGroupShape):
    """An error that was seen before: `exact`, `same message` or `similar`."""

    match: str


class AroundShape(TypedDict):
    """A memory beside an error."""

    id: str
    memory: str
    text: str
    source: str
    start_line: int
    end_line: int
    date: str
    session_id: str
    host: str
    branch: str
    timestamp_ms: int
    timestamp_formatted: str
    is_after: bool


class FixShape(TypedDict):
    """The same command passed later."""

    command: str
    failed_ms: int
    passed_ms: int
    failed_at: str
    passed_at: str
    error_signature: str
    files: list[str]
    session_id: str
    turn: str
    host: str
    branch: str
    memory: str
    text: str


class MentionShape(TypedDict):
    """A memory or a record that mentions an error."""

    id: str
    type: str
    date: str
    heading: str
    snippet: str
    source: str
    start_line: int
    end_line: int
    relevance: float
    tier: str
    record: str
    task: str


class AskedErrorShape(TypedDict):
    """The error that was asked about."""

    error_signature: str
    error_type: str
    error_message: str
    language: str
    frames: list[FrameShape]


class WhyShape(TypedDict):
    """What is known of an error."""

    asked: AskedErrorShape
    seen_before: bool
    seen: list[SeenShape]
    occurrences: list[OccurrenceShape]
    fixes: list[FixShape]
    turns: list[AroundShape]
    decisions: list[MentionShape]
    tasks: list[MentionShape]
    memories: list[MentionShape]
    notes: list[str]
