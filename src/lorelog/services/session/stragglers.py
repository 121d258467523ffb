"""Sessions that end without a word: their last turn is captured when the next session of the project begins.

A host that is killed tells nothing, and some tell nothing when a person stops an answer and leaves. So the last event of each
session is remembered until its end is told, and one that has been silent for long enough is taken as ended. Long enough is
hours: a turn may wait that long for a tool, and must not be taken for over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime, timedelta

from lorelog.core.session import CaptureReply, HookEvent
from lorelog.services.session.captures import Captures

SILENT = timedelta(hours=2)


def remember(event: HookEvent, project: str, captures: Captures) -> None:
    """Remember that a session goes on, or that it has ended."""
    told = {name: value for name, value in asdict(event).items() if name not in {"at", "environment", "answer", "turn"}}
    text = "" if event.moment == "session-end" else json.dumps(told)
    captures.leave_open(event.host, event.session, project, event.at.timestamp(), text)


def capture_stragglers(
    event: HookEvent, project: str, captures: Captures, now: datetime, capture: Callable[[HookEvent], CaptureReply]
) -> CaptureReply:
    """Capture what is left of the sessions before this one that ended without a word."""
    replies: list[CaptureReply] = []
    for text in captures.left_open(event.host, project, (now - SILENT).timestamp()):
        # An end in the past: what it speaks of is as complete as it will be.
        end = replace(HookEvent.read(json.loads(text), now), moment="session-end", at=now - SILENT / 2)
        if end.session == event.session or not _is_silent(end.transcript, now):
            continue
        reply = capture(end)
        if not reply.waiting:
            remember(end, project, captures)
            replies.append(reply)
    return CaptureReply(
        tuple(one for reply in replies for one in reply.captured),
        notes=tuple(one for reply in replies for one in reply.notes),
    )


def _is_silent(transcript: str, now: datetime) -> bool:
    """Say whether nothing was written to a conversation lately. A database holds many, and tells nothing of one of them."""
    if not transcript.endswith(".jsonl"):
        return True
    try:
        return os.stat(transcript).st_mtime < (now - SILENT).timestamp()  # noqa: PTH116
    except OSError:
        return True
