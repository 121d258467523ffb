"""What the operations debug.* may be told."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from lorelog.operations.requests import Path, Request, Text

_NAME = Annotated[str, Meta(max_length=400)]
_TIME = Annotated[str, Meta(max_length=40)]
_FROM = "From then on: a day (2026-03-05, today, 7d, 2w) or a time (2026-03-05T14:30:00Z)."
_TO = "Up to then: a day, all of it, or a time."


class Traced(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When and where something was traced."""

    time_from: Annotated[_TIME, Meta(description=_FROM)] = ""
    time_to: Annotated[_TIME, Meta(description=_TO)] = ""
    session_id: Annotated[_NAME, Meta(description="Only of this session.")] = ""
    source: Annotated[
        Literal["", "operation", "turn", "log"],
        Meta(description="Only calls of lorelog's own operations, only what agents' turns hold, or only logs."),
    ] = ""
    all_projects: Annotated[bool, Meta(description="Of all projects of the tenant.")] = False
    limit: Annotated[int, Meta(ge=1, le=1000, description="How many at most, newest first.")] = 50


class CallsRequest(Traced, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which calls."""

    tool_name: Annotated[
        _NAME, Meta(description="Only of this tool or operation; `memory` stands for every operation `memory.…`.")
    ] = ""
    errors_only: Annotated[bool, Meta(description="Only those that failed.")] = False


class ErrorsRequest(Traced, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which errors."""

    error_signature: Annotated[
        _NAME, Meta(description="Only errors with this signature, or one that begins so, or of this type.")
    ] = ""
    function_name: Annotated[
        _NAME, Meta(description="Only errors that went through a function with this in its name.")
    ] = ""
    file_path: Annotated[_NAME, Meta(description="Only errors that went through a file with this in its path.")] = ""
    text: Annotated[_NAME, Meta(description="Only errors with this in their message.")] = ""
    include_frames: Annotated[bool, Meta(description="With their frames.")] = True


class IngestRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to read."""

    path: Annotated[
        Annotated[Path, Meta()] | None,
        Meta(description="A log on this machine, compressed by gzip or not. Only for callers of this machine."),
    ] = None
    text: Annotated[Text | None, Meta(description="A text in the place of a file.")] = None


class WhyRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which error."""

    text: Annotated[
        Text, Meta(min_length=1, description="The error as it was printed: a line of it, or a whole stack trace.")
    ]
    all_projects: Annotated[bool, Meta(description="Look beyond this project.")] = False
