"""The methods of the protocol, independent of transport and SDK: parameters in, the result as plain JSON values out.

A method runs in the calling thread and may take long: it reports progress to a `ProgressTracker`, which also ends it when
its request was cancelled. A project's journals are resources: one per day, newest first. They are read through operations,
not from disk, so that deleted and out-of-scope memories stay hidden and the index may be in another process.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from lorelog.core.errors import Cancelled, LorelogError, NotFound, nearest_name
from lorelog.operations.dispatch import BoundCall, CallOperation, ClientIdentity
from lorelog.services.places.workspace import JOURNALS
from lorelog.surfaces.mcp.calls import call_tool
from lorelog.surfaces.mcp.protocol import INTERNAL_ERROR, INVALID_PARAMS, ProtocolError, tools_list_result
from lorelog.surfaces.mcp.render import render_error
from lorelog.surfaces.mcp.tools import TOOL_NAMES
from lorelog.wiring import resolve_location

Params = Mapping[str, Any]
Result = dict[str, Any]

JOURNAL_URI_PREFIX = "lorelog://journal/"
JOURNAL_URI_TEMPLATE = JOURNAL_URI_PREFIX + "{day}"
_MAX_JOURNALS = 100
_MAX_ENTRIES = 200
_DAY_PATTERN = re.compile(r"\d{4}-\d{2}-\d{2}")
_MARKDOWN = "text/markdown"
_log = logging.getLogger(__name__)


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


class ProgressTracker:
    """A progress callback for a method's thread: one growing count over all stages, and the end of a cancelled call.

    A transport overrides `notify`, which is called in that thread after each report.
    """

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._stage = ""
        self._offset = 0
        self._done = 0
        self._sent = -1
        self._latest: tuple[int, int | None, str] | None = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Receive a report. Raise Cancelled if the request was cancelled."""
        if self._stopped.is_set():
            raise Cancelled("the client cancelled the call", hint="finished work is kept")
        if stage != self._stage:
            self._stage, self._offset = stage, self._offset + self._done
        self._done = done
        self._latest = (self._offset + done, self._offset + total if total else None, stage)
        self.notify()

    @property
    def stopped(self) -> bool:
        """Return True after `stop`."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """End the call at its next report."""
        self._stopped.set()

    def notify(self) -> None:
        """Tell the transport that there is a new report."""

    def take(self) -> tuple[int, int | None, str] | None:
        """Return the latest report if its count is higher than that of the one returned before."""
        latest = self._latest
        if latest is None or latest[0] <= self._sent:
            return None
        self._sent = latest[0]
        return latest


class McpMethods:
    """The methods for one client, which counts as an agent and may not name files to read."""

    def __init__(self, call: CallOperation, caller: ClientIdentity) -> None:
        self._call = call
        self.caller = replace(caller, agent=caller.agent or "an MCP client", names_files=False)
        self._methods: dict[str, Callable[[Params, BoundCall], Result]] = {
            "tools/list": _list_tools,
            "tools/call": _call_tool,
            "resources/list": self._list_resources,
            "resources/templates/list": _list_templates,
            "resources/read": self._read_resource,
            "prompts/list": _list_prompts,
            "prompts/get": _get_prompt,
        }

    def __contains__(self, method: str) -> bool:
        return method in self._methods

    def respond(self, method: str, params: Params, progress: ProgressTracker) -> Result:
        """Return the result of a method. Raise ProtocolError for the reply to be an error."""

        def call(op: str, arguments: dict[str, Any]) -> dict[str, Any]:
            return self._call(op, arguments, self.caller, progress)

        try:
            return self._methods[method](params, call)
        except ProtocolError:
            raise
        except LorelogError as error:
            code = INVALID_PARAMS if isinstance(error, NotFound) else INTERNAL_ERROR
            raise ProtocolError(code, f"{error.message} ({error.hint})" if error.hint else error.message) from error
        except Exception as error:
            _log.exception("%s failed", method)
            raise ProtocolError(INTERNAL_ERROR, f"internal error: {type(error).__name__}: {error}") from error

    def _list_resources(self, params: Params, call: BoundCall) -> Result:
        """List the project's newest journals."""
        return {
            "resources": [
                {
                    "uri": f"{JOURNAL_URI_PREFIX}{journal['day']}",
                    "name": journal["day"],
                    "description": f"Journal of {journal['day']}",
                    "mimeType": _MARKDOWN,
                    "size": journal["bytes"],
                }
                for journal in list_journals(self.caller, call)
            ]
        }

    def _read_resource(self, params: Params, call: BoundCall) -> Result:
        """Read one journal."""
        uri = _text_parameter(params, "uri")
        text = read_journal(uri, self.caller, call)
        return {"contents": [{"uri": uri, "mimeType": _MARKDOWN, "text": text}]}


def _list_tools(params: Params, call: BoundCall) -> Result:
    return tools_list_result()


def _call_tool(params: Params, call: BoundCall) -> Result:
    """Call a tool; an error in it is a result that the model reads."""
    name, arguments = _text_parameter(params, "name"), _object_parameter(params, "arguments")
    if name not in TOOL_NAMES:
        near = nearest_name(name, TOOL_NAMES)
        hint = f"did you mean {near}?" if near else f"the tools are {', '.join(TOOL_NAMES)}"
        raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {name[:100]}; {hint}")
    try:
        result = call_tool(name, arguments, call)
    except Exception as error:
        _log.exception("%s failed", name)
        result = render_error(f"internal error: {type(error).__name__}: {error}", "", "error")
    reply: Result = {"content": [{"type": "text", "text": result.text}], "isError": result.failed}
    return {**reply, "structuredContent": result.structured} if result.structured else reply


def _list_templates(params: Params, call: BoundCall) -> Result:
    """Describe the URI of a journal."""
    template = {
        "uriTemplate": JOURNAL_URI_TEMPLATE,
        "name": "journal",
        "description": "Memories of a day (YYYY-MM-DD)",
        "mimeType": _MARKDOWN,
    }
    return {"resourceTemplates": [template]}


def _list_prompts(params: Params, call: BoundCall) -> Result:
    topic = {"name": "topic", "description": "What to recall", "required": True}
    prompt = {"name": "recall", "description": "Recall what memory holds about a topic", "arguments": [topic]}
    return {"prompts": [prompt]}


def _get_prompt(params: Params, call: BoundCall) -> Result:
    """Return a prompt with a topic and its search results, which saves the agent a tool call."""
    name = _text_parameter(params, "name")
    if name != "recall":
        raise ProtocolError(INVALID_PARAMS, f"Unknown prompt: {name[:100]}; the only prompt is recall")
    topic = _object_parameter(params, "arguments").get("topic", "")
    if not isinstance(topic, str) or not topic.strip():
        raise ProtocolError(INVALID_PARAMS, "topic is required")
    topic = topic.strip()
    result = call_tool("search_memory", {"query": topic, "top_k": 8}, call)
    if result.failed:
        raise ProtocolError(INTERNAL_ERROR, result.text)
    text = (
        f"Recall what our memory holds about: {topic}\n\nA search found this.\n\n{result.text}\n\n"
        "Summarize what is relevant to the topic, with sources and dates, and where sources disagree. "
        "Use get_memory where a quote is not enough. If nothing is relevant, say so."
    )
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return {"description": "What memory holds about a topic", "messages": [message]}


def _text_parameter(params: Params, name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise ProtocolError(INVALID_PARAMS, f"{name} must be a string")
    return value


def _object_parameter(params: Params, name: str) -> Params:
    value = params.get(name)
    if value is not None and not isinstance(value, dict):
        raise ProtocolError(INVALID_PARAMS, f"{name} must be an object")
    return value or {}
