"""The operations that capture agents' sessions. What an agent is shown of memory is in `recall`."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from lorelog.core.errors import UsageError
from lorelog.core.session import CaptureReply, HookEvent, SessionStatus, moment_of
from lorelog.engine import Engine
from lorelog.operations import requests
from lorelog.operations.days import day_of
from lorelog.operations.operation import Call

if TYPE_CHECKING:
    from lorelog.operations.session_replies import CaptureShape, SessionStatusShape


def capture(engine: Engine, request: requests.CaptureRequest, call: Call) -> CaptureReply:
    """Write the finished turns of an agent's session to the journals of their days, each once.

    For what hooks have spooled, and for backfilling. The host's own transcript is read from where it lies; what is written
    is a note of each turn, redacted. Asked again it writes nothing again.
    """
    from lorelog.services.session.capture import Backfill
    from lorelog.services.session.capture import capture as capture_turns

    if not call.own:
        raise UsageError("which conversation is read is chosen on this machine", hint="lorelog hosts backfill")
    if request.at and moment_of(request.at) is None:
        raise UsageError(f"{request.at!r} is not a time", hint="write it as 2026-03-05T14:30:00.000Z")
    told = {name: getattr(request, name) for name in request.__struct_fields__}
    told["directory"] = request.directory or call.directory
    if request.transcript:
        told["transcript"] = os.path.join(call.directory, os.path.expanduser(request.transcript))  # noqa: PTH111, PTH118
    event = HookEvent.read(told, datetime.now(UTC))
    means = replace(engine.capturing(), aside=call.aside, traces=engine.traces)
    if not request.everything:
        return capture_turns(event, means, progress=call.progress)
    backfill = Backfill(day_of(request.since) if request.since else "", dry_run=request.dry_run)
    return capture_turns(event, means, backfill, progress=call.progress)


def status(engine: Engine, request: requests.Nothing, call: Call) -> SessionStatus:
    """Tell when something was last captured of each host, how much today, and what still waits."""
    from lorelog.services.session.standing import session_status

    return session_status(engine.place)


def capture_shape(reply: CaptureReply) -> CaptureShape:
    """What came of a moment."""
    return cast("CaptureShape", asdict(reply) | {"captured": [asdict(one) for one in reply.captured]})


def status_shape(reply: SessionStatus) -> SessionStatusShape:
    """What was captured."""
    return cast("SessionStatusShape", asdict(reply))
