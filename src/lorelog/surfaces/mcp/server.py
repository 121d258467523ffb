"""The MCP server: the SDK's server over the operations, with progress and cancellation of work in threads.

It is the SDK's low-level `Server`, not `MCPServer`. The latter generates schemas from function signatures, which would
cost every session three times the tokens, serves only standard streams, and configures logging for the whole process.

A project's journals are resources: one per day, newest first. They are read through operations, not from disk, so that
deleted and out-of-scope memories stay hidden and the index may be in another process.

Importing the SDK takes over a second: only the daemon, `lorelog serve` and a proxy without a daemon import this module.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import anyio
import mcp_types as types
from anyio import to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError

from lorelog.core.errors import Cancelled, LorelogError, NotFound
from lorelog.core.version import VERSION
from lorelog.operations.dispatch import BoundCall, CallOperation, ClientIdentity
from lorelog.services.places.workspace import JOURNALS
from lorelog.surfaces.mcp.calls import call_tool
from lorelog.surfaces.mcp.render import ToolResult, render_error
from lorelog.surfaces.mcp.tools import INSTRUCTIONS, TITLE, TOOL_NAMES, TOOLS
from lorelog.wiring import resolve_location

JOURNAL_URI_PREFIX = "lorelog://journal/"
JOURNAL_URI_TEMPLATE = JOURNAL_URI_PREFIX + "{day}"
_MAX_JOURNALS = 100
_MAX_ENTRIES = 200
_DAY_PATTERN = re.compile(r"\d{4}-\d{2}-\d{2}")


def list_journals(caller: ClientIdentity, call: BoundCall) -> list[Mapping[str, Any]]:
    """Return the documents that are journals, each with its `day`, newest first."""
    request = {"documents": True, "source": str(_journal_folder(caller)), "limit": _MAX_JOURNALS}
    documents = call("memory.list", request)["documents"]
    days = [{**document, "day": Path(document["source"]).stem} for document in documents]
    return sorted((day for day in days if _DAY_PATTERN.fullmatch(day["day"])), key=itemgetter("day"), reverse=True)


def read_journal(uri: str, caller: ClientIdentity, call: BoundCall) -> str:
    """Return a day's journal as Markdown. Raise NotFound if there is none."""
    day = uri.removeprefix(JOURNAL_URI_PREFIX)
    if not uri.startswith(JOURNAL_URI_PREFIX) or not _DAY_PATTERN.fullmatch(day):
        raise NotFound(
            f"there is no resource {uri[:200]}",
            hint=f"the URI of a journal is {JOURNAL_URI_TEMPLATE}, such as {JOURNAL_URI_PREFIX}2026-03-05",
        )
    source = str(_journal_folder(caller) / f"{day}.md")
    entries = call("memory.list", {"source": source, "limit": _MAX_ENTRIES})["memories"]
    entries = sorted((entry for entry in entries if entry["source"] == source), key=itemgetter("start_line"))
    if not entries:
        raise NotFound(f"there is no journal of {day}", hint="resources/list returns all journals")
    return f"# {day}\n\n" + "\n\n".join(_sections(entries, call)) + "\n"


def _sections(entries: list[dict[str, Any]], call: BoundCall) -> list[str]:
    """Return each entry up to the start of the next one: a section also contains its subsections."""
    following = [entry["start_line"] for entry in entries[1:]]
    texts = []
    for entry, end in zip(entries, [*following, None], strict=True):
        section = call("memory.expand", {"id": entry["id"]})
        lines = section["content"].splitlines()
        if end is not None:
            lines = lines[: max(0, end - section["start_line"])]
        texts.append("\n".join(lines).strip())
    return texts


def _journal_folder(caller: ClientIdentity) -> Path:
    location = resolve_location(home=caller.home, directory=caller.directory, environment=caller.environment)
    return Path(location.project.id) / JOURNALS


SdkContext = ServerRequestContext[Any, Any]
OutcomeT = TypeVar("OutcomeT")

_PROGRESS_INTERVAL_S = 0.1
_MARKDOWN = "text/markdown"
_log = logging.getLogger(__name__)


def build_server(call: CallOperation, caller: ClientIdentity) -> Server[Any]:
    """Return a server that calls operations for one client, which counts as an agent and may not name files to read."""
    handlers = _McpHandlers(call, replace(caller, agent=caller.agent or "an MCP client", names_files=False))
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


class _McpHandlers:
    """Handlers of the protocol's methods."""

    def __init__(self, call: CallOperation, caller: ClientIdentity) -> None:
        self._call = call
        self._caller = caller
        self._tools = [types.Tool.model_validate(tool) for tool in TOOLS]

    async def list_tools(self, ctx: SdkContext, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """List the tools."""
        return types.ListToolsResult(tools=self._tools)

    async def call_tool(self, ctx: SdkContext, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Call a tool; an error in it is a result that the model reads."""
        name = params.name
        if name not in TOOL_NAMES:
            near = get_close_matches(name, TOOL_NAMES, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the tools are {', '.join(TOOL_NAMES)}"
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {name[:100]}; {hint}")

        def work(call: BoundCall) -> ToolResult:
            try:
                return call_tool(name, params.arguments or {}, call)
            except Exception as error:  # noqa: BLE001  (the model gets the error, the log the traceback)
                _log.exception("%s failed", name)
                return render_error(f"internal error: {type(error).__name__}: {error}", "", "error")

        result = await self._in_thread(work, ctx.session)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=result.text)],
            structured_content=result.structured or None,
            is_error=result.failed,
        )

    async def list_resources(
        self, ctx: SdkContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """List the project's newest journals."""
        journals = await self._or_error(lambda call: list_journals(self._caller, call), ctx)
        return types.ListResourcesResult(
            resources=[
                types.Resource(
                    uri=f"{JOURNAL_URI_PREFIX}{journal['day']}",
                    name=journal["day"],
                    description=f"Journal of {journal['day']}",
                    mime_type=_MARKDOWN,
                    size=journal["bytes"],
                )
                for journal in journals
            ]
        )

    async def list_templates(
        self, ctx: SdkContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """Describe the URI of a journal."""
        template = types.ResourceTemplate(
            uri_template=JOURNAL_URI_TEMPLATE,
            name="journal",
            description="Memories of a day (YYYY-MM-DD)",
            mime_type=_MARKDOWN,
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(self, ctx: SdkContext, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """Read one journal."""
        uri = str(params.uri)
        text = await self._or_error(lambda call: read_journal(uri, self._caller, call), ctx)
        contents = types.TextResourceContents(uri=uri, mime_type=_MARKDOWN, text=text)
        return types.ReadResourceResult(contents=[contents])

    async def list_prompts(
        self, ctx: SdkContext, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """List the prompt."""
        topic = types.PromptArgument(name="topic", description="What to recall", required=True)
        prompt = types.Prompt(name="recall", description="Recall what memory holds about a topic", arguments=[topic])
        return types.ListPromptsResult(prompts=[prompt])

    async def get_prompt(self, ctx: SdkContext, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """Return a prompt with a topic and its search results, which saves the agent a tool call."""
        if params.name != "recall":
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name[:100]}; the only prompt is recall")
        topic = (params.arguments or {}).get("topic", "").strip()
        if not topic:
            raise MCPError(types.INVALID_PARAMS, "topic is required")
        result = await self._or_error(lambda call: call_tool("search_memory", {"query": topic, "top_k": 8}, call), ctx)
        if result.failed:
            raise MCPError(types.INTERNAL_ERROR, result.text)
        text = (
            f"Recall what our memory holds about: {topic}\n\nA search found this.\n\n{result.text}\n\n"
            "Summarize what is relevant to the topic, with sources and dates, and where sources disagree. "
            "Use get_memory where a quote is not enough. If nothing is relevant, say so."
        )
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description="What memory holds about a topic", messages=[message])

    async def _or_error(self, work: Callable[[BoundCall], OutcomeT], ctx: SdkContext) -> OutcomeT:
        """Run work in a thread, and turn errors into the protocol's error."""

        def guarded(call: BoundCall) -> OutcomeT | LorelogError:
            try:
                return work(call)
            except LorelogError as error:
                return error
            except Exception as error:  # noqa: BLE001  (the client gets the error, the log the traceback)
                _log.exception("%s failed", ctx.method)
                return LorelogError(f"internal error: {type(error).__name__}: {error}")

        outcome = await self._in_thread(guarded, ctx.session)
        if isinstance(outcome, LorelogError):
            code = types.INVALID_PARAMS if isinstance(outcome, NotFound) else types.INTERNAL_ERROR
            raise MCPError(code, f"{outcome.message} ({outcome.hint})" if outcome.hint else outcome.message)
        return outcome

    async def _in_thread(self, work: Callable[[BoundCall], OutcomeT], session: ServerSession) -> OutcomeT:
        """Run work in a thread. A cancelled request does not wait: its thread ends at its next progress report."""
        reporter = ProgressReporter(session)

        def call(op: str, arguments: dict[str, Any]) -> dict[str, Any]:
            return self._call(op, arguments, self._caller, reporter)

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(reporter.send_periodically)
                outcome = await to_thread.run_sync(work, call, abandon_on_cancel=True)
                group.cancel_scope.cancel()
            await reporter.send_latest()
        finally:
            reporter.stop()
        return outcome


class ProgressReporter:
    """A progress callback for a thread. The event loop sends reports, so a client that does not read blocks no work."""

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._stopped = threading.Event()
        self._stage = ""
        self._offset = 0
        self._done = 0
        self._latest: tuple[int, int | None, str] | None = None
        self._sent = -1

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Receive a report in the thread. Raise Cancelled if the request was cancelled."""
        if self._stopped.is_set():
            raise Cancelled("the client cancelled the call", hint="finished work is kept")
        if stage != self._stage:  # the client sees all stages as one growing count
            self._stage, self._offset = stage, self._offset + self._done
        self._done = done
        self._latest = (self._offset + done, self._offset + total if total else None, stage)
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._wake.set)

    def stop(self) -> None:
        """Cancel the thread at its next report."""
        self._stopped.set()

    async def send_periodically(self) -> None:
        """Send reports periodically until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self.send_latest()
            await anyio.sleep(_PROGRESS_INTERVAL_S)

    async def send_latest(self) -> None:
        """Send the latest report if it is new; the session drops it unless the client requested progress."""
        if self._latest is not None and self._latest[0] > self._sent:
            done, total, stage = self._latest
            self._sent = done
            await self._session.report_progress(done, total, stage)
