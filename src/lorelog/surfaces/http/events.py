"""Server-sent events: how far a long operation has come, and at last its reply or what went wrong.

    event: progress   data: {"stage", "done", "total"}
    event: result     data: the reply
    event: error      data: {"error": {"code", "message", "hint"}}

Progress that comes faster than it is read is passed over, so that a slow reader costs no memory; a comment every few
seconds keeps the connection alive while there is none. When the reader goes, the operation is told to stop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from anyio import CapacityLimiter, Event, create_task_group, move_on_after, to_thread
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from lorelog.core.errors import Cancelled
from lorelog.core.ports import Progress
from lorelog.surfaces.http.faults import fault_shape, json_bytes

BEAT_S = 5.0
"""Seconds without progress after which a comment is sent."""
_PACE_S = 0.1
"""Seconds between two events of progress, at least."""
_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8")]

Job = Callable[[Progress], dict[str, Any]]


class EventStream(Response):
    """Carries out a job in a thread and tells of it as it goes."""

    def __init__(self, job: Job, limiter: CapacityLimiter) -> None:
        super().__init__()
        self._job = job
        self._limiter = limiter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        run = _Run(self._job)
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        async with create_task_group() as group:

            async def leave_with_reader() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                run.gone.set()

            group.start_soon(leave_with_reader)
            group.start_soon(run.carry_out, self._limiter)
            try:
                await run.tell(send)
            finally:
                run.gone.set()
                group.cancel_scope.cancel()


class _Run:
    """A job under way: a thread that reports, and the loop that passes on the latest."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._loop = asyncio.get_running_loop()
        self._latest: dict[str, Any] | None = None
        self._news = Event()
        self._done = Event()
        self._last = b""
        self.gone = threading.Event()

    async def carry_out(self, limiter: CapacityLimiter) -> None:
        try:
            reply = await to_thread.run_sync(self._job, self._progress, limiter=limiter, abandon_on_cancel=True)
            self._last = _event("result", reply)
        except Exception as error:  # noqa: BLE001  (whatever it is, the reader is told)
            self._last = _event("error", {"error": fault_shape(error)})
        self._done.set()
        self._news.set()

    async def tell(self, send: Send) -> None:
        while not self._done.is_set():
            with move_on_after(BEAT_S):
                await self._news.wait()
            self._news = Event()
            if self._done.is_set():
                break
            latest, self._latest = self._latest, None
            body = _event("progress", latest) if latest else b": working\n\n"
            await send({"type": "http.response.body", "body": body, "more_body": True})
            with move_on_after(_PACE_S):
                await self._done.wait()
        await send({"type": "http.response.body", "body": self._last, "more_body": False})

    def _progress(self, stage: str, done: int, total: int) -> None:
        """Take the job's report, in its thread."""
        if self.gone.is_set():
            raise Cancelled("whoever asked has gone")
        self._loop.call_soon_threadsafe(self._note, {"stage": stage, "done": done, "total": total})

    def _note(self, latest: dict[str, Any]) -> None:
        self._latest = latest
        self._news.set()


def _event(name: str, data: object) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + json_bytes(data) + b"\n\n"
