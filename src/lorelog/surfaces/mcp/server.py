"""The official SDK's server over the operations: its handlers, and how work in a thread is told of and stopped.

It is the SDK's `Server`, which its `MCPServer` wraps. The wrapper makes schemas from function signatures, which would cost
every session three times the tokens, serves its own standard streams only, and sets up logging for the whole process.

Importing the SDK takes over a second: only the daemon, `lorelog serve` and a proxy without a daemon import this module.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, TypeVar

import anyio
import mcp_types as types
from anyio import to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError

from lorelog.core.errors import Cancelled, LorelogError, NotFound
from lorelog.core.ports import Progress
from lorelog.core.version import VERSION
from lorelog.operations.dispatch import Caller
from lorelog.surfaces.mcp import journals
from lorelog.surfaces.mcp.calls import Ask, call_tool
from lorelog.surfaces.mcp.texts import Answer, failure
from lorelog.surfaces.mcp.tools import INSTRUCTIONS, NAMES, TITLE, TOOLS

AnswerTo = Callable[[str, object, Caller, Progress | None], dict[str, Any]]
"""Carries out an operation; the signature of `Dispatcher.call`."""

Context = ServerRequestContext[Any, Any]
Made = TypeVar("Made")

_REPORTS_S = 0.1
_MARKDOWN = "text/markdown"
_log = logging.getLogger(__name__)


def build_server(answer: AnswerTo, caller: Caller) -> Server[Any]:
    """Return a server that answers in the name of one caller."""
    handlers = _Handlers(answer, caller)
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


class _Handlers:
    """What the server does for each method."""

    def __init__(self, answer: AnswerTo, caller: Caller) -> None:
        self._answer = answer
        self._caller = caller
        self._tools = [types.Tool.model_validate(tool) for tool in TOOLS]

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Offer the tools."""
        return types.ListToolsResult(tools=self._tools)

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Call a tool; what goes wrong in it is a result that the model reads."""
        name = params.name
        if name not in NAMES:
            near = get_close_matches(name, NAMES, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(NAMES)}"
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {name[:100]}; {hint}")

        def work(ask: Ask) -> Answer:
            try:
                return call_tool(name, params.arguments or {}, ask)
            except Exception as error:  # noqa: BLE001  (the model is told, the log has the trace)
                _log.exception("%s failed", name)
                return failure(f"a fault of lorelog itself: {type(error).__name__}: {error}", "", "error")

        said = await self._in_thread(work, ctx.session)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=said.text)],
            structured_content=said.structured,
            is_error=said.failed,
        )

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Name the project's newest journals."""
        found = await self._or_error(lambda ask: journals.list_journals(self._caller, ask), ctx)
        return types.ListResourcesResult(
            resources=[
                types.Resource(
                    uri=f"{journals.PREFIX}{one['day']}",
                    name=one["day"],
                    description=f"Journal of {one['day']}",
                    mime_type=_MARKDOWN,
                    size=one["bytes"],
                )
                for one in found
            ]
        )

    async def list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """Say how a journal is named."""
        template = types.ResourceTemplate(
            uri_template=journals.TEMPLATE,
            name="journal",
            description="What was remembered on a day (YYYY-MM-DD)",
            mime_type=_MARKDOWN,
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """Read one journal."""
        uri = str(params.uri)
        text = await self._or_error(lambda ask: journals.read_journal(uri, self._caller, ask), ctx)
        contents = types.TextResourceContents(uri=uri, mime_type=_MARKDOWN, text=text)
        return types.ReadResourceResult(contents=[contents])

    async def list_prompts(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        """Offer the prompt."""
        topic = types.PromptArgument(name="topic", description="What to recall", required=True)
        prompt = types.Prompt(name="recall", description="Recall what memory holds about a topic", arguments=[topic])
        return types.ListPromptsResult(prompts=[prompt])

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """Put a topic and what was found about it into a prompt, so that no further round is needed."""
        if params.name != "recall":
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name[:100]}; there is recall")
        topic = (params.arguments or {}).get("topic", "").strip()
        if not topic:
            raise MCPError(types.INVALID_PARAMS, "topic is required")
        found = await self._or_error(lambda ask: call_tool("search_memory", {"query": topic, "top_k": 8}, ask), ctx)
        if found.failed:
            raise MCPError(types.INTERNAL_ERROR, found.text)
        text = (
            f"Recall what our memory holds about: {topic}\n\nA search found this.\n\n{found.text}\n\n"
            "Tell me what of it bears on the topic, with sources and dates, and where it disagrees. "
            "Read on with get_memory where a quote is not enough. If nothing fits, say so."
        )
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description="What memory holds about a topic", messages=[message])

    async def _or_error(self, work: Callable[[Ask], Made], ctx: Context) -> Made:
        """Do work in a thread, and turn what a person can do something about into the protocol's error."""

        def caught(ask: Ask) -> Made | LorelogError:
            try:
                return work(ask)
            except LorelogError as error:
                return error
            except Exception as error:  # noqa: BLE001  (the client is told, the log has the trace)
                _log.exception("%s failed", ctx.method)
                return LorelogError(f"a fault of lorelog itself: {type(error).__name__}: {error}")

        made = await self._in_thread(caught, ctx.session)
        if isinstance(made, LorelogError):
            code = types.INVALID_PARAMS if isinstance(made, NotFound) else types.INTERNAL_ERROR
            raise MCPError(code, f"{made.message} ({made.hint})" if made.hint else made.message)
        return made

    async def _in_thread(self, work: Callable[[Ask], Made], session: ServerSession) -> Made:
        """Do work in a thread. When the request is cancelled, the thread is told at its next report and left to itself."""
        reporter = Reporter(session)

        def ask(op: str, arguments: dict[str, Any]) -> dict[str, Any]:
            return self._answer(op, arguments, self._caller, reporter)

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(reporter.relay)
                made = await to_thread.run_sync(work, ask, abandon_on_cancel=True)
                group.cancel_scope.cancel()
            await reporter.tell()
        finally:
            reporter.stop()
        return made


class Reporter:
    """A progress callback for a thread. Reports go out from the event loop: a client that does not read holds up no work."""

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._stopped = threading.Event()
        self._stage = ""
        self._before = 0
        self._done = 0
        self._latest: tuple[int, int | None, str] | None = None
        self._told = -1

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Take a report from the thread. Raise Cancelled when nobody waits for the work any more."""
        if self._stopped.is_set():
            raise Cancelled("whoever asked has cancelled it", hint="what was done is kept")
        if stage != self._stage:  # to the client all stages are one count that only grows
            self._stage, self._before = stage, self._before + self._done
        self._done = done
        self._latest = (self._before + done, self._before + total if total else None, stage)
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._news.set)

    def stop(self) -> None:
        """Have the thread give up at its next report."""
        self._stopped.set()

    async def relay(self) -> None:
        """Report now and then, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            await self.tell()
            await anyio.sleep(_REPORTS_S)

    async def tell(self) -> None:
        """Report what has not been reported yet; nothing goes out unless the client asked for it."""
        if self._latest is not None and self._latest[0] > self._told:
            done, total, stage = self._latest
            self._told = done
            await self._session.report_progress(done, total, stage)
