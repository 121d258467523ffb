"""Calling operations for people who may hang up: in threads, so many at once, and told to stop when nobody waits.

The event loop only ever waits. What works (a store, a model, a file) does so in a thread, and learns through its progress
callback that whoever asked is gone or that the server is stopping: a long index run ends there, what it did is kept. A short
write is not interrupted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec
from anyio import CapacityLimiter, create_task_group, fail_after, to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive

from lorelog.core.errors import Cancelled, UsageError
from lorelog.core.ports import Progress
from lorelog.operations.catalogue import find_operation
from lorelog.operations.dispatch import Caller, read_request
from lorelog.operations.operation import Operation
from lorelog.operations.schema import catalogue
from lorelog.surfaces.http.events import EventStream
from lorelog.surfaces.http.faults import Refusal, json_answer

Reply = TypeVar("Reply")
Ask = Callable[[str, Mapping[str, Any]], dict[str, Any]]
"""Carry out an operation for whoever sent the request."""

BODY_S = 60.0
"""Seconds that a whole body may take to come."""
_AT_ONCE = 16
_LONG_AT_ONCE = 4
"""Index runs wait for each other, so a few of them may not take every thread that searches need."""
_LONG = frozenset({"memory.index"})


class Answer(Protocol):
    """Who answers: a dispatcher's `call`, here or in the daemon."""

    def __call__(
        self, name: str, arguments: object, caller: Caller, progress: Progress | None = None, /
    ) -> dict[str, Any]:
        """Carry out an operation."""


class Calls:
    """The operations, as requests reach them."""

    def __init__(self, answer: Answer, caller: Caller) -> None:
        self._answer = answer
        self._caller = caller
        self._at_once = CapacityLimiter(_AT_ONCE)
        self._long_at_once = CapacityLimiter(_LONG_AT_ONCE)
        self.stopping = threading.Event()
        """Set when the server is to end."""

    async def call(self, request: Request) -> Response:
        """Answer POST /api/call/{op}: the body is the arguments, the answer the reply, or a stream of events."""
        operation = offered(request.path_params["op"])
        arguments = read_json(await read_body(request))
        read_request(operation, arguments)  # refused with a status, also where the answer would be a stream
        if "text/event-stream" in request.headers.get("accept", ""):
            return EventStream(lambda tell: self._job(operation.name, arguments, tell), self._limiter(operation.name))
        shape = await self.carry_out(request, lambda ask: ask(operation.name, arguments), long=operation.name in _LONG)
        return json_answer(shape)

    async def list_operations(self, request: Request) -> Response:
        """Answer GET /api/ops: every operation with its schemas, and where it can be asked for."""
        return json_answer({"operations": await to_thread.run_sync(catalogue)})

    async def carry_out(self, request: Request, job: Callable[[Ask], Reply], *, long: bool = False) -> Reply:
        """Run a job in a thread, with a way to ask that is told to stop when the request's sender hangs up."""
        gone = threading.Event()
        outcome: list[Reply] = []
        raised: list[Exception] = []

        def work() -> Reply:
            return job(lambda op, arguments: self._answer(op, arguments, self._caller, self._until(gone)))

        async with create_task_group() as group:
            group.start_soon(_await_departure, request.receive, gone)
            try:
                limiter = self._long_at_once if long else self._at_once
                outcome.append(await to_thread.run_sync(work, limiter=limiter, abandon_on_cancel=True))
            except Exception as error:  # noqa: BLE001  (a task group would wrap it)
                raised.append(error)
            finally:
                gone.set()
                group.cancel_scope.cancel()
        if raised:
            raise raised[0]
        return outcome[0]

    def _job(self, op: str, arguments: Mapping[str, Any], tell: Progress) -> dict[str, Any]:
        def progress(stage: str, done: int, total: int) -> None:
            self._check_stopping()
            tell(stage, done, total)

        return self._answer(op, arguments, self._caller, progress)

    def _until(self, gone: threading.Event) -> Progress:
        def progress(stage: str, done: int, total: int) -> None:
            self._check_stopping()
            if gone.is_set():
                raise Cancelled("whoever asked has gone")

        return progress

    def _check_stopping(self) -> None:
        if self.stopping.is_set():
            raise Cancelled("the server is stopping; what was done is kept", hint="ask again when it is back")

    def _limiter(self, op: str) -> CapacityLimiter:
        return self._long_at_once if op in _LONG else self._at_once


def offered(name: str) -> Operation[Any, Any]:
    """Return an operation that may be asked for over HTTP. Raise Refusal with the nearest names, or with the reason."""
    try:
        operation = find_operation(name)
    except UsageError as error:
        raise Refusal(404, "not_found", error.message, hint=error.hint.replace("'lorelog ops'", "/api/ops")) from None
    if "http" in operation.absent:
        raise Refusal(403, "forbidden", f"{operation.name} is not offered over HTTP: {operation.absent['http']}")
    return operation


async def read_body(request: Request) -> bytes:
    """Return a whole body; one that comes too slowly is refused, one that breaks off is never acted on."""
    taken = bytearray()
    try:
        with fail_after(BODY_S):
            async for part in request.stream():
                taken += part
    except TimeoutError:
        raise Refusal(
            408, "timeout", f"the body did not come within {BODY_S:.0f} seconds", headers={"Connection": "close"}
        ) from None
    return bytes(taken)


def read_json(body: bytes) -> dict[str, Any]:
    """Return the object that a body holds; no body is an empty one. Raise UsageError for anything else."""
    if not body.strip():
        return {}
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the body is not JSON: {str(error)[:200]}", hint="send an object in UTF-8") from None
    if not isinstance(value, dict):
        raise UsageError("the body must be a JSON object", hint="it holds the arguments by name")
    return value


async def _await_departure(receive: Receive, gone: threading.Event) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    gone.set()
