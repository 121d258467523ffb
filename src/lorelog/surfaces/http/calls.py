"""Endpoints that call operations, with JSON replies or server-sent events, and error responses.

    event: progress   data: {"stage", "done", "total"}
    event: result     data: the reply
    event: error      data: {"error": {"code", "message", "hint"}}

The event loop only waits. Stores, models and files are used in worker threads, a limited number at a time. A thread
learns from its progress callback that the client disconnected or the server is stopping: a long index run ends there
and keeps its work, a short write is not interrupted. Progress that arrives faster than it is read is dropped, so a slow
reader uses no memory; a comment every few seconds keeps an idle stream open.

Loop's endpoints reply to errors with plain text, as Loop does; all others with the error object of every surface. A response
has only a message and a hint, never a location in the code.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from anyio import CapacityLimiter, Event, create_task_group, fail_after, move_on_after, to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from lorelog.core.errors import Cancelled, LorelogError, UsageError
from lorelog.core.ports import Progress
from lorelog.operations.catalogue import describe_all, find_operation
from lorelog.operations.dispatch import BoundCall, CallOperation, ClientIdentity, read_request
from lorelog.operations.operation import Operation

LOOP_PREFIX = "/api/memory/"
"""Paths whose errors are plain text."""
STATUS_BY_CODE = {
    "usage": 400,
    "forbidden": 403,
    "proposed": 403,
    "config": 422,
    "not_found": 404,
    "source": 422,
    "changed": 409,
    "cancelled": 499,
    "missing_extra": 501,
    "daemon": 503,
    "daemon_unresponsive": 503,
    "model": 503,
    "model_unavailable": 503,
    "model_fault": 502,
    "store_busy": 503,
    "store_unwritable": 507,
}
"""HTTP status by error code; 500 for all others."""


class HttpRefusalError(Exception):
    """A request that is rejected before or instead of calling an operation."""

    def __init__(
        self, status: int, code: str, message: str, *, hint: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.headers = status, dict(headers or {})
        self.code, self.message, self.hint = code, message, hint


def error_response(path: str, error: Exception) -> Response:
    """Return the response to a request that failed: the error object, for Loop's endpoints its message as plain text."""
    status, headers, is_loop = 500, dict[str, str](), path.startswith(LOOP_PREFIX)
    if isinstance(error, HTTPException):
        code = {404: "not_found", 405: "method"}.get(error.status_code, "error")
        known = {404: f"there is no path {path[:200]}", 405: "this path does not support the method"}
        message = known.get(error.status_code, error.detail)
        hint = "GET /openapi.json lists all paths" if error.status_code == 404 else ""
        error = HttpRefusalError(error.status_code, code, message, hint=hint, headers=error.headers)
    if isinstance(error, HttpRefusalError):
        status, headers = error.status, error.headers
    elif isinstance(error, LorelogError):
        status = STATUS_BY_CODE.get(error.code, 500)
        if is_loop and status not in {400, 499}:
            status = 500  # Loop only distinguishes invalid requests and indexer failures
        headers = {"Retry-After": "1"} if status == 503 else {}
    told = error_object(error)
    if is_loop:
        return PlainTextResponse(told["message"].encode("utf-8", "backslashreplace").decode() + "\n", status, headers)
    return json_response({"error": told}, status, headers)


def error_object(error: BaseException) -> dict[str, str]:
    if isinstance(error, LorelogError | HttpRefusalError):
        return {"code": error.code, "message": error.message, "hint": error.hint}
    hint = "your files are unchanged; set LORELOG_DEBUG=1 for the server to log a traceback, and please report it"
    return {"code": "error", "message": f"internal error: {type(error).__name__}", "hint": hint}


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json_bytes(value), status, headers, "application/json")


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON in UTF-8, also if it has file names that are not valid UTF-8."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value).encode()


KEEPALIVE_S = 5.0
"""Seconds without progress after which a keep-alive comment is sent."""
_MIN_INTERVAL_S = 0.1
"""Minimum seconds between two progress events."""
_EVENT_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8")]
KEEPALIVE = b": working\n\n"
StreamJob = Callable[[Progress], dict[str, Any]]
EncodeEvent = Callable[[str, dict[str, Any]], bytes]
"""Returns an event of a stream: its name (progress, result, error) and data as bytes."""


class EventStream(Response):
    """Runs a job in a thread, which reports progress; the event loop sends the latest report, and the result."""

    def __init__(self, job: StreamJob, limiter: CapacityLimiter, encode: EncodeEvent) -> None:
        super().__init__()
        self._job, self._limiter, self._encode = job, limiter, encode
        self._loop = asyncio.get_running_loop()
        self._latest: dict[str, Any] | None = None
        self._wake, self._done = Event(), Event()
        self._final = b""
        self._gone = threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _EVENT_HEADERS})
        async with create_task_group() as group:
            group.start_soon(_wait_for_disconnect, receive, self._gone)
            group.start_soon(self._run_job)
            try:
                await self._send_events(send)
            finally:
                self._gone.set()
                group.cancel_scope.cancel()

    async def _run_job(self) -> None:
        try:
            reply = await to_thread.run_sync(self._job, self._progress, limiter=self._limiter, abandon_on_cancel=True)
            self._final = self._encode("result", reply)
        except Exception as error:
            self._final = self._encode("error", {"error": error_object(error)})
        self._done.set()
        self._wake.set()

    async def _send_events(self, send: Send) -> None:
        while not self._done.is_set():
            with move_on_after(KEEPALIVE_S):
                await self._wake.wait()
            self._wake = Event()
            if self._done.is_set():
                break
            latest, self._latest = self._latest, None
            body = self._encode("progress", latest) if latest else KEEPALIVE
            await send({"type": "http.response.body", "body": body, "more_body": True})
            with move_on_after(_MIN_INTERVAL_S):
                await self._done.wait()
        await send({"type": "http.response.body", "body": self._final, "more_body": False})

    def _progress(self, stage: str, done: int, total: int) -> None:
        if self._gone.is_set():
            raise Cancelled("the client disconnected")
        self._loop.call_soon_threadsafe(self._set_latest, {"stage": stage, "done": done, "total": total})

    def _set_latest(self, latest: dict[str, Any]) -> None:
        self._latest = latest
        self._wake.set()


def event_bytes(name: str, data: object) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + json_bytes(data) + b"\n\n"


JobReply = TypeVar("JobReply")
BODY_TIMEOUT_S = 60.0
"""Maximum seconds for a whole request body to arrive."""
_MAX_CONCURRENT = 16
_MAX_CONCURRENT_LONG = 4
"""Index runs wait for each other, so they get few threads and cannot block searches."""
_LONG_OPERATIONS = frozenset({"memory.index"})


class OperationEndpoints:
    def __init__(self, call: CallOperation, caller: ClientIdentity) -> None:
        self._call = call
        self.caller = caller
        self._limiter_short = CapacityLimiter(_MAX_CONCURRENT)
        self._limiter_long = CapacityLimiter(_MAX_CONCURRENT_LONG)
        self.stopping = threading.Event()
        """Set when the server is stopping."""

    async def call(self, request: Request) -> Response:
        """Handle POST /api/call/{op}: the body has the arguments; reply with JSON or, if accepted, an event stream."""
        return await self.reply(request, *await self.read_call(request))

    async def reply(self, request: Request, operation: Operation[Any, Any], arguments: dict[str, Any]) -> Response:
        """Call an operation, and reply as the request wants it."""
        is_long = operation.name in _LONG_OPERATIONS
        return await self.respond(
            request, lambda progress: self.call_with(operation.name, arguments, progress), long=is_long
        )

    def call_with(self, op: str, arguments: dict[str, Any], progress: Progress) -> dict[str, Any]:
        """Call an operation for the client, unless the server is stopping."""

        def report(stage: str, done: int, total: int) -> None:
            if self.stopping.is_set():
                hint = "repeat the request when it is back"
                raise Cancelled("the server is stopping; finished work is kept", hint=hint)
            progress(stage, done, total)

        return self._call(op, arguments, self.caller, report)

    async def respond(
        self, request: Request, job: StreamJob, *, long: bool = False, encode: EncodeEvent | None = None
    ) -> Response:
        """Run a job in a thread, and reply with JSON or, if accepted, an event stream."""
        if "text/event-stream" in request.headers.get("accept", ""):
            return EventStream(job, self._limiter_long if long else self._limiter_short, encode or event_bytes)
        return json_response(await self._run(request, job, long=long))

    async def read_call(self, request: Request) -> tuple[Operation[Any, Any], dict[str, Any]]:
        """Return the operation and the arguments. An invalid request gets an error status even if it wants a stream."""
        try:
            operation = find_operation(request.path_params["op"])
        except UsageError as error:
            hint = error.hint.replace("'lorelog ops'", "/api/ops")
            raise HttpRefusalError(404, "not_found", error.message, hint=hint) from None
        self.caller.check(operation)
        arguments = read_json(await read_body(request))
        read_request(operation, arguments)
        return operation, arguments

    async def list_operations(self, request: Request) -> Response:
        """Handle GET /api/ops: list every operation with its schemas and surfaces."""
        return json_response({"operations": await to_thread.run_sync(describe_all)})

    async def run_job(self, request: Request, job: Callable[[BoundCall], JobReply], *, long: bool = False) -> JobReply:
        """Run a job in a thread; its calls of operations are cancelled when the client disconnects."""
        return await self._run(
            request, lambda progress: job(lambda op, arguments: self.call_with(op, arguments, progress)), long=long
        )

    async def _run(self, request: Request, job: Callable[[Progress], JobReply], *, long: bool) -> JobReply:
        disconnected = threading.Event()
        outcome: list[JobReply] = []
        raised: list[Exception] = []

        def progress(stage: str, done: int, total: int) -> None:
            if disconnected.is_set():
                raise Cancelled("the client disconnected")

        async with create_task_group() as group:
            group.start_soon(_wait_for_disconnect, request.receive, disconnected)
            try:
                limiter = self._limiter_long if long else self._limiter_short
                outcome.append(await to_thread.run_sync(job, progress, limiter=limiter, abandon_on_cancel=True))
            except Exception as error:
                raised.append(error)
            finally:
                disconnected.set()
                group.cancel_scope.cancel()
        if raised:
            raise raised[0]
        return outcome[0]


async def read_body(request: Request) -> bytes:
    """Return the whole body. Raise HttpRefusalError if it arrives too slowly; an incomplete body is never processed."""
    body = bytearray()
    try:
        with fail_after(BODY_TIMEOUT_S):
            async for part in request.stream():
                body += part
    except TimeoutError:
        raise HttpRefusalError(
            408,
            "timeout",
            f"the body did not arrive within {BODY_TIMEOUT_S:.0f} seconds",
            headers={"Connection": "close"},
        ) from None
    return bytes(body)


def read_json(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body; an empty body is an empty object. Raise UsageError for anything else."""
    if not body.strip():
        return {}
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the body is not JSON: {str(error)[:200]}", hint="send a JSON object in UTF-8") from None
    if not isinstance(value, dict):
        raise UsageError("the body must be a JSON object", hint="it holds the arguments by name")
    return value


async def _wait_for_disconnect(receive: Receive, gone: threading.Event) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    gone.set()
