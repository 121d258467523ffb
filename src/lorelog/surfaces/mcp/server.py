"""The SDK's server over the methods, for MCP over HTTP; `session.py` serves pipes without the SDK.

It is the SDK's low-level `Server`, not `MCPServer`. The latter generates schemas from function signatures, which would
cost every session three times the tokens, serves only standard streams, and configures logging for the whole process.

Importing the SDK takes over a second, and it comes with the extra `serve`: only a server of HTTP imports this module.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, TypeVar

import anyio
import mcp_types as types
from anyio import to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from lorelog.core import VERSION
from lorelog.operations.dispatch import CallOperation, ClientIdentity
from lorelog.surfaces.mcp.methods import McpMethods, ProgressTracker
from lorelog.surfaces.mcp.protocol import ProtocolError
from lorelog.surfaces.mcp.tools import INSTRUCTIONS, TITLE

SdkContext = ServerRequestContext[Any, Any]
SdkResult = TypeVar("SdkResult", bound=BaseModel)

_PROGRESS_INTERVAL_S = 0.1


def build_server(call: CallOperation, caller: ClientIdentity) -> Server[Any]:
    """Return a server that calls operations for one client."""
    handlers = _SdkHandlers(McpMethods(call, caller))
    return Server(
        "lorelog",
        version=VERSION,
        title=TITLE,
        instructions=INSTRUCTIONS,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
    )


class _SdkHandlers:
    """Handlers with the SDK's types."""

    def __init__(self, methods: McpMethods) -> None:
        self._methods = methods

    async def list_tools(self, ctx: SdkContext, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """List the tools."""
        return await self._respond("tools/list", params, ctx, types.ListToolsResult)

    async def call_tool(self, ctx: SdkContext, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Call a tool."""
        return await self._respond("tools/call", params, ctx, types.CallToolResult)

    async def list_resources(
        self, ctx: SdkContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """List the project's newest journals."""
        return await self._respond("resources/list", params, ctx, types.ListResourcesResult)

    async def list_templates(
        self, ctx: SdkContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """Describe the URI of a journal."""
        return await self._respond("resources/templates/list", params, ctx, types.ListResourceTemplatesResult)

    async def read_resource(self, ctx: SdkContext, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """Read one journal."""
        return await self._respond("resources/read", params, ctx, types.ReadResourceResult)

    async def list_prompts(
        self, ctx: SdkContext, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """List the prompt."""
        return await self._respond("prompts/list", params, ctx, types.ListPromptsResult)

    async def get_prompt(self, ctx: SdkContext, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """Return the prompt with a topic."""
        return await self._respond("prompts/get", params, ctx, types.GetPromptResult)

    async def _respond(
        self, method: str, params: BaseModel | None, ctx: SdkContext, kind: type[SdkResult]
    ) -> SdkResult:
        """Run a method in a thread. A cancelled request does not wait: its thread ends at its next progress report."""
        values = {} if params is None else params.model_dump(mode="json", by_alias=True, exclude_none=True)
        progress = SdkProgress(ctx.session)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(progress.send_periodically)
                outcome = await to_thread.run_sync(self._outcome, method, values, progress, abandon_on_cancel=True)
                group.cancel_scope.cancel()
            await progress.send_latest()
        finally:
            progress.stop()
        if isinstance(outcome, ProtocolError):
            raise MCPError(outcome.code, outcome.message)
        return kind.model_validate(outcome)

    def _outcome(self, method: str, values: dict[str, Any], progress: SdkProgress) -> dict[str, Any] | ProtocolError:
        """Return an error instead of raising it: a task group would wrap it."""
        try:
            return self._methods.respond(method, values, progress)
        except ProtocolError as error:
            return error


class SdkProgress(ProgressTracker):
    """Progress that the event loop sends, so that a client that does not read blocks no work."""

    def __init__(self, session: ServerSession) -> None:
        super().__init__()
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()

    def notify(self) -> None:
        """Wake the sender."""
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
