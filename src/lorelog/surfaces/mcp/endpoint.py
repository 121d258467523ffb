"""MCP over streamable HTTP: each POST is one message, answered in JSON, or in a stream of events that begins with progress.

No session is kept: the id that a client gets with the handshake only says whose request a notification cancels, and a client goes
on after a restart of the server. The server has no messages of its own and nothing to resume, so there is no stream to GET.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from lorelog.core.ports import Progress
from lorelog.operations.dispatch import CallOperation, ClientIdentity
from lorelog.surfaces.http.calls import KEEPALIVE, OperationEndpoints, event_bytes, json_response, read_body
from lorelog.surfaces.http.server import MakeRoutes
from lorelog.surfaces.mcp import protocol
from lorelog.surfaces.mcp.session import CALLER, McpMethods, ProgressTracker

_SESSION = "mcp-session-id"
_VERSION = "mcp-protocol-version"


def mcp_routes(call: CallOperation, caller: ClientIdentity) -> MakeRoutes:
    """Return what builds the routes, for clients that may not name files. `caller` is the server's own identity."""

    def routes(stopping: threading.Event) -> Sequence[BaseRoute]:
        calls = OperationEndpoints(call, replace(caller, **CALLER))
        calls.stopping = stopping
        return [Route("/mcp", McpEndpoint(calls).post, methods=["POST"])]

    return routes


class McpEndpoint:
    def __init__(self, calls: OperationEndpoints) -> None:
        self._calls, self._methods = calls, McpMethods(calls.call_with)
        self._running: dict[tuple[str, str | None], ProgressTracker] = {}

    async def post(self, request: Request) -> Response:
        """Handle POST /mcp: a request, or a notification, which has no reply."""
        session, identity = request.headers.get(_SESSION, ""), None
        try:
            message = protocol.parse_message(await read_body(request))
            identity = message["id"] if protocol.message_key(message) else None
            method, params = protocol.check_message(message)
            _check_version(request.headers.get(_VERSION, ""))
        except protocol.ProtocolError as error:
            return json_response(_error(identity, error), 400)
        if method is None or "id" not in message:
            cancelled = self._running.get((session, protocol.message_key({"id": params.get("requestId")})))
            if cancelled and method == "notifications/cancelled":
                cancelled.stop()
            return Response(status_code=202)
        token = protocol.progress_token(params)

        def job(report: Progress) -> dict[str, Any]:
            progress = _ReportedProgress(report)
            key = (session, protocol.message_key(message))
            self._running[key] = progress
            try:
                return {"jsonrpc": "2.0", "id": identity, "result": self._methods.respond(method, params, progress)}
            except protocol.ProtocolError as error:
                return _error(identity, error)
            finally:
                self._running.pop(key, None)

        def encode(name: str, data: dict[str, Any]) -> bytes:
            if name != "progress":
                return event_bytes("message", data)
            if token is None:
                return KEEPALIVE
            return event_bytes("message", protocol.progress_message(token, data["done"], data["total"], data["stage"]))

        if method == "initialize":
            return json_response(job(lambda *_: None), headers={_SESSION: secrets.token_hex(16)})
        return await self._calls.respond(request, job, encode=encode)


def _check_version(version: str) -> None:
    if version and version not in {*protocol.HANDSHAKE_VERSIONS, *protocol.MODERN_VERSIONS}:
        raise protocol.ProtocolError(protocol.INVALID_REQUEST, f"Unsupported protocol version: {version[:100]}")


def _error(identity: int | str | None, error: protocol.ProtocolError) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identity, "error": error.to_dict()}


class _ReportedProgress(ProgressTracker):
    """Progress to the stream of a request."""

    def __init__(self, report: Progress) -> None:
        super().__init__()
        self._report = report

    def notify(self, *, is_last: bool = False) -> None:
        """Pass the report on if it is new."""
        if latest := self.take():
            done, total, stage = latest
            self._report(stage, done, total or 0)
