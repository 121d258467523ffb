"""The SDK's server over the methods, for MCP over HTTP; `session.py` serves pipes without the SDK.

It is the SDK's low-level `Server`, not `MCPServer`. The latter generates schemas from function signatures, which would
cost every session three times the tokens, serves only standard streams, and configures logging for the whole process.

Importing the SDK takes over a second, and it comes with the extra `mcp`: only a server of HTTP imports this module.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, TypeVar

import anyio
import mcp_types as types
from anyio import to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel
from starlette.types import ASGIApp

from lorelog.core import VERSION
from lorelog.operations.dispatch import CallOperation, ClientIdentity
from lorelog.surfaces.mcp.protocol import MAX_MESSAGE_BYTES, ProtocolError
from lorelog.surfaces.mcp.session import McpMethods, ProgressTracker
from lorelog.surfaces.mcp.tools import INSTRUCTIONS, TITLE

SdkContext = ServerRequestContext[Any, Any]
SdkResult = TypeVar("SdkResult", bound=BaseModel)

AppLifespan = Callable[[], AbstractAsyncContextManager[None]]

_MAX_SESSIONS = 1000
_PROGRESS_INTERVAL_S = 0.1


def streamable_http_app(call: CallOperation, caller: ClientIdentity) -> tuple[ASGIApp, AppLifespan]:
    """Return an ASGI app to mount, and its lifespan, to be entered once before the first request.

    The application it is mounted in checks host, origin, token and body size of every request.
    """
    manager = StreamableHTTPSessionManager(
        build_server(call, caller), max_request_body_size=MAX_MESSAGE_BYTES, max_sessions=_MAX_SESSIONS
    )
    return StreamableHTTPASGIApp(manager), manager.run


def build_server(call: CallOperation, caller: ClientIdentity) -> Server[Any]:
    methods = McpMethods(call, caller)

    def handler(method: str, kind: type[SdkResult]) -> Callable[[SdkContext, Any], Awaitable[SdkResult]]:
        async def respond(ctx: SdkContext, params: BaseModel | None) -> SdkResult:
            return await _respond(methods, method, params, ctx, kind)

        return respond

    return Server(
        "lorelog",
        version=VERSION,
        title=TITLE,
        instructions=INSTRUCTIONS,
        on_list_tools=handler("tools/list", types.ListToolsResult),
        on_call_tool=handler("tools/call", types.CallToolResult),
        on_list_resources=handler("resources/list", types.ListResourcesResult),
        on_list_resource_templates=handler("resources/templates/list", types.ListResourceTemplatesResult),
        on_read_resource=handler("resources/read", types.ReadResourceResult),
        on_list_prompts=handler("prompts/list", types.ListPromptsResult),
        on_get_prompt=handler("prompts/get", types.GetPromptResult),
    )


async def _respond(
    methods: McpMethods, method: str, params: BaseModel | None, ctx: SdkContext, kind: type[SdkResult]
) -> SdkResult:
    """Run a method in a thread. A cancelled request does not wait: its thread ends at its next progress report."""
    values = {} if params is None else params.model_dump(mode="json", by_alias=True, exclude_none=True)
    progress = SdkProgress(ctx.session)

    def outcome_of() -> dict[str, Any] | ProtocolError:
        try:
            return methods.respond(method, values, progress)
        except ProtocolError as error:
            return error  # a task group would wrap it if it were raised

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(progress.send_periodically)
            outcome = await to_thread.run_sync(outcome_of, abandon_on_cancel=True)
            group.cancel_scope.cancel()
        await progress.send_latest()
    finally:
        progress.stop()
    if isinstance(outcome, ProtocolError):
        raise MCPError(outcome.code, outcome.message)
    return kind.model_validate(outcome)


class SdkProgress(ProgressTracker):
    """Progress that the event loop sends, so that a client that does not read blocks no work."""

    def __init__(self, session: ServerSession) -> None:
        super().__init__()
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()

    def notify(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._wake.set)

    async def send_periodically(self) -> None:
        """Send reports periodically until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self.send_latest()
            await anyio.sleep(_PROGRESS_INTERVAL_S)

    async def send_latest(self) -> None:
        """Send the latest report if it is new; the session drops it unless the client requested progress."""
        if (report := self.take()) is not None:
            done, total, stage = report
            await self._session.report_progress(done, total, stage)
