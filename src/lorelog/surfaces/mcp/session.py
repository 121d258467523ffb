"""The methods of the protocol, and one agent's session over its pipes: newline-delimited JSON-RPC, without an SDK.

A method takes parameters and returns the result as plain JSON values, whatever the transport. It runs in the calling thread and
may take long: it reports progress to a `ProgressTracker`, which also ends it when its request was cancelled. A project's
journals are resources: one per day, newest first. They are read through operations, not from disk, so that deleted and
out-of-scope memories stay hidden and the index may be in another process.

The SDK takes a second to import, 45 MB of memory, and 20 distributions on disk; a session needs ten methods of it.
Tests run the SDK's client against this session and compare its replies with those of the SDK's server.

Each agent has a process of its own, so nothing that holds memory is imported here: the daemon is asked for every call, and a host
that starts the process gets the handshake and the list of tools at once, whether a daemon runs or not. If the daemon ends, the next
call starts another; one that was at work on a call that must not be repeated is an error that says so.

A request of the protocol since 2026-07-28 carries its version in `_meta` and needs no handshake; older clients send `initialize`
first. Both are answered in one session, by what each request says.

Threads: the calling one reads; one writes, so that an agent that does not read blocks no work; each request has its own.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from contextlib import suppress
from operator import itemgetter

from lorelog.core.errors import Cancelled, LorelogError, NotFound, nearest_name
from lorelog.light.delivery_files import is_iso_date
from lorelog.surfaces.mcp import protocol
from lorelog.surfaces.mcp.calls import call_tool, render_error
from lorelog.surfaces.mcp.tools import TOOL_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from lorelog.core.ports import Progress
    from lorelog.operations.dispatch import BoundCall

    Params = Mapping[str, Any]
    Result = dict[str, Any]
    CallTracked = Callable[[str, dict[str, Any], Progress], dict[str, Any]]
    """Calls an operation for an agent, with its progress."""

CALLER: dict[str, Any] = {"agent": "an MCP client", "names_files": False}
"""Who calls operations: an agent, which may not name files to read."""
JOURNAL_URI_PREFIX = "lorelog://journal/"
JOURNAL_URI_TEMPLATE = JOURNAL_URI_PREFIX + "{day}"
_MAX_JOURNALS = 100
_MAX_ENTRIES = 200
_MARKDOWN = "text/markdown"
_TEMPLATE = {
    "uriTemplate": JOURNAL_URI_TEMPLATE,
    "name": "journal",
    "description": "Memories of a day (YYYY-MM-DD)",
    "mimeType": _MARKDOWN,
}
_PROMPT = {
    "name": "recall",
    "description": "Recall what memory holds about a topic",
    "arguments": [{"name": "topic", "description": "What to recall", "required": True}],
}
_CHUNK = 65_536
_MAX_REQUESTS = 32
"""Maximum number of requests of one session that run at the same time."""
_MAX_WAITING_PROGRESS = 100
_PROGRESS_INTERVAL_S = 0.1
_FLUSH_S = 1.0
_GRACE_S = 1.5
"""Seconds to wait for running requests after the agent closed its end: scripts close it at once. Less than the two
seconds after which the official client kills a server."""
_JOURNALS = "/.lorelog/memory"


def list_journals(call: BoundCall) -> list[Mapping[str, Any]]:
    """Return the documents that are journals, each with its `day`, newest first."""
    request = {"documents": True, "source": _journal_folder(call), "limit": _MAX_JOURNALS}
    documents = call("memory.list", request)["documents"]
    days = [{**document, "day": document["source"].rpartition("/")[2].removesuffix(".md")} for document in documents]
    return sorted((day for day in days if is_iso_date(day["day"])), key=itemgetter("day"), reverse=True)


def read_journal(uri: str, call: BoundCall) -> str:
    """Return a day's journal as Markdown. Raise NotFound if there is none."""
    day = uri.removeprefix(JOURNAL_URI_PREFIX)
    if not uri.startswith(JOURNAL_URI_PREFIX) or not is_iso_date(day):
        raise NotFound(
            f"there is no resource {uri[:200]}",
            hint=f"the URI of a journal is {JOURNAL_URI_TEMPLATE}, such as {JOURNAL_URI_PREFIX}2026-03-05",
        )
    source = f"{_journal_folder(call)}/{day}.md"
    entries = call("memory.list", {"source": source, "limit": _MAX_ENTRIES})["memories"]
    entries = sorted((entry for entry in entries if entry["source"] == source), key=itemgetter("start_line"))
    if not entries:
        raise NotFound(f"there is no journal of {day}", hint="resources/list returns all journals")
    return f"# {day}\n\n" + "\n\n".join(_sections(entries, call)) + "\n"


def _sections(entries: list[dict[str, Any]], call: BoundCall) -> Iterator[str]:
    """Yield each entry up to the start of the next one: a section also contains its subsections."""
    for entry, following in zip(entries, [*entries[1:], None], strict=True):
        section = call("memory.expand", {"id": entry["id"]})
        end = None if following is None else max(0, following["start_line"] - section["start_line"])
        yield "\n".join(section["content"].splitlines()[:end]).strip()


def _journal_folder(call: BoundCall) -> str:
    return str(call("memory.stats", {})["project"]["id"]) + _JOURNALS


class ProgressTracker:
    """A progress callback for a method's thread: one growing count over all stages, and the end of a cancelled call.

    A transport overrides `notify`, which is called in that thread after each report.
    """

    def __init__(self) -> None:
        self.stopped = False
        self._stage = ""
        self._offset = 0
        self._done = 0
        self._sent = -1
        self._latest: tuple[int, int | None, str] | None = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Receive a report. Raise Cancelled if the request was cancelled."""
        if self.stopped:
            raise Cancelled("the client cancelled the call", hint="finished work is kept")
        if stage != self._stage:
            self._stage, self._offset = stage, self._offset + self._done
        self._done = done
        self._latest = (self._offset + done, self._offset + total if total else None, stage)
        self.notify()

    def stop(self) -> None:
        """End the call at its next report."""
        self.stopped = True

    def notify(self, *, is_last: bool = False) -> None:
        """Tell the transport that there is a new report; the last one is for sure the newest."""

    def take(self) -> tuple[int, int | None, str] | None:
        """Return the latest report if its count is higher than that of the one returned before."""
        latest = self._latest
        if latest is None or latest[0] <= self._sent:
            return None
        self._sent = latest[0]
        return latest


class McpMethods:
    """The methods for one client."""

    def __init__(self, call: CallTracked) -> None:
        self._call = call
        self._instant: dict[str, Result] = {
            "ping": {},
            "tools/list": protocol.tools_list_result(),
            "resources/templates/list": {"resourceTemplates": [_TEMPLATE]},
            "prompts/list": {"prompts": [_PROMPT]},
        }
        self._methods: dict[str, Callable[[Params, BoundCall], Result]] = {
            "tools/call": _call_tool,
            "resources/list": _list_resources,
            "resources/read": _read_resource,
            "prompts/get": _get_prompt,
        }

    def takes_time(self, method: str) -> bool:
        """Return whether a method does work: all others are answered at once."""
        return method in self._methods

    def respond(self, method: str, params: dict[str, Any], progress: ProgressTracker) -> Result:
        """Return the result of a method. Raise ProtocolError for the reply to be an error."""
        modern = protocol.is_modern(method, params)
        if method == "initialize":
            result = protocol.initialize_result(params)
            if result is None:
                raise protocol.ProtocolError(
                    protocol.INVALID_PARAMS, "initialize needs protocolVersion, capabilities and clientInfo"
                )
            return result
        if method == "server/discover" and modern:
            result = protocol.discover_result()
        elif method in self._instant:
            result = self._instant[method]
        elif method in self._methods:
            result = self._work(method, params, progress)
        else:
            raise protocol.ProtocolError(protocol.METHOD_NOT_FOUND, "Method not found", method)
        return protocol.add_modern_fields(method, result) if modern else result

    def _work(self, method: str, params: dict[str, Any], progress: ProgressTracker) -> Result:
        try:
            return self._methods[method](params, lambda op, arguments: self._call(op, arguments, progress))
        except protocol.ProtocolError:
            raise
        except LorelogError as error:
            code = protocol.INVALID_PARAMS if isinstance(error, NotFound) else protocol.INTERNAL_ERROR
            raise protocol.ProtocolError(
                code, f"{error.message} ({error.hint})" if error.hint else error.message
            ) from error
        except Exception as error:
            raise protocol.ProtocolError(protocol.INTERNAL_ERROR, _print_bug(error)) from error


def _print_bug(error: Exception) -> str:
    """Print the traceback of a bug for whoever reads the log of the host, and return what the agent is told."""
    sys.excepthook(type(error), error, error.__traceback__)
    return f"internal error: {type(error).__name__}: {error}"


def _list_resources(params: Params, call: BoundCall) -> Result:
    resources = [
        {
            "uri": f"{JOURNAL_URI_PREFIX}{journal['day']}",
            "name": journal["day"],
            "description": f"Journal of {journal['day']}",
            "mimeType": _MARKDOWN,
            "size": journal["bytes"],
        }
        for journal in list_journals(call)
    ]
    return {"resources": resources}


def _read_resource(params: Params, call: BoundCall) -> Result:
    uri = _text_parameter(params, "uri")
    return {"contents": [{"uri": uri, "mimeType": _MARKDOWN, "text": read_journal(uri, call)}]}


def _call_tool(params: Params, call: BoundCall) -> Result:
    """Call a tool; an error in it is a result that the model reads."""
    name, arguments = _text_parameter(params, "name"), _object_parameter(params, "arguments")
    if name not in TOOL_NAMES:
        near = nearest_name(name, TOOL_NAMES)
        hint = f"did you mean {near}?" if near else f"the tools are {', '.join(TOOL_NAMES)}"
        raise protocol.ProtocolError(protocol.INVALID_PARAMS, f"Unknown tool: {name[:100]}; {hint}")
    try:
        result = call_tool(name, arguments, call)
    except Exception as error:
        result = render_error(_print_bug(error), "", "error")
    reply: Result = {"content": [{"type": "text", "text": result.text}], "isError": result.failed}
    return {**reply, "structuredContent": result.structured} if result.structured else reply


def _get_prompt(params: Params, call: BoundCall) -> Result:
    """Return a prompt with a topic and its search results, which saves the agent a tool call."""
    name = _text_parameter(params, "name")
    if name != "recall":
        raise protocol.ProtocolError(
            protocol.INVALID_PARAMS, f"Unknown prompt: {name[:100]}; the only prompt is recall"
        )
    topic = _object_parameter(params, "arguments").get("topic", "")
    if not isinstance(topic, str) or not topic.strip():
        raise protocol.ProtocolError(protocol.INVALID_PARAMS, "topic is required")
    topic = topic.strip()
    result = call_tool("search_memory", {"query": topic, "top_k": 8}, call)
    if result.failed:
        raise protocol.ProtocolError(protocol.INTERNAL_ERROR, result.text)
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
        raise protocol.ProtocolError(protocol.INVALID_PARAMS, f"{name} must be a string")
    return value


def _object_parameter(params: Params, name: str) -> Params:
    value = params.get(name)
    if value is not None and not isinstance(value, dict):
        raise protocol.ProtocolError(protocol.INVALID_PARAMS, f"{name} must be an object")
    return value or {}


def claim_stdout() -> int:
    """Return a private descriptor of stdout, the agent's pipe, and redirect all other output to stderr."""
    sink = os.dup(1)
    os.dup2(2, 1)
    return sink


class McpSession:
    """Reads requests from a descriptor, runs them, and writes replies to another, until the agent closes its end."""

    def __init__(self, source: int, sink: int, methods: McpMethods) -> None:
        self._source, self._sink = source, sink
        self._methods = methods
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._running: dict[_PipeProgress, str] = {}
        """Requests that run, each with the key of its id."""

    def run(self) -> None:
        """Serve until the agent disconnects; calls that still run then end at their next progress report."""
        writer = threading.Thread(target=self._write, name="lorelog-mcp-writer", daemon=True)
        writer.start()
        lines = protocol.LineBuffer()
        with suppress(OSError):
            while data := os.read(self._source, _CHUNK):
                for line in lines.feed(data):
                    if line is None or line.strip():
                        self._receive(line)
        with self._changed:
            self._changed.wait_for(lambda: not self._running, _GRACE_S)
            for progress in self._running:
                progress.stop()
        self._outgoing.put(None)
        writer.join(_FLUSH_S)

    def send(self, message: dict[str, Any]) -> None:
        """Queue a message. A character that is not Unicode, as in a path that is not UTF-8, becomes a question mark."""
        text = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False)
        self._outgoing.put(text.encode(errors="replace") + b"\n")

    def send_progress(self, message: dict[str, Any]) -> None:
        """Queue a report, unless the agent is far behind with reading."""
        if self._outgoing.qsize() <= _MAX_WAITING_PROGRESS:
            self.send(message)

    def _write(self) -> None:
        with suppress(OSError):  # the agent does not read replies any more
            while data := self._outgoing.get():
                while data:
                    data = data[os.write(self._sink, data) :]

    def _receive(self, line: bytes | None) -> None:
        """Handle one message. An invalid one gets an error: its sender would wait."""
        identity: int | str | None = None
        try:
            message = protocol.parse_message(line)
            if protocol.message_key(message) is not None:
                identity = message["id"]
            method, params = protocol.check_message(message)
            if method is None:
                return  # a reply: this server sends no requests
            if "id" in message and self._methods.takes_time(method):
                self._start(message["id"], method, params)
            elif "id" in message:
                self._reply(identity, method, params, ProgressTracker())
            elif method == "notifications/cancelled":
                cancelled = protocol.message_key({"id": params.get("requestId")})
                with self._changed:
                    for progress in (progress for progress, key in self._running.items() if key == cancelled):
                        progress.stop()
        except protocol.ProtocolError as error:
            self.send({"id": identity, "error": error.to_dict()})

    def _start(self, identity: int | str, method: str, params: dict[str, Any]) -> None:
        progress = _PipeProgress(self, params)
        with self._changed:
            if len(self._running) >= _MAX_REQUESTS:
                raise protocol.ProtocolError(
                    protocol.BUSY, f"{_MAX_REQUESTS} requests are running; try again when one has ended"
                )
            self._running[progress] = json.dumps(identity)

        def work() -> None:
            try:
                self._reply(identity, method, params, progress)
            except protocol.ProtocolError as error:
                if not progress.stopped:
                    self.send({"id": identity, "error": error.to_dict()})
            finally:
                self._forget(progress)

        try:
            threading.Thread(target=work, name=f"lorelog-mcp-{method}", daemon=True).start()
        except RuntimeError as error:  # the system has no more threads: the session must survive
            self._forget(progress)
            raise protocol.ProtocolError(
                protocol.BUSY, f"the request could not be started: {error}; try again"
            ) from error

    def _reply(
        self, identity: int | str | None, method: str, params: dict[str, Any], progress: ProgressTracker
    ) -> None:
        result = self._methods.respond(method, params, progress)
        progress.notify(is_last=True)
        if not progress.stopped:  # nobody waits for the reply to a cancelled request
            self.send({"id": identity, "result": result})

    def _forget(self, progress: _PipeProgress) -> None:
        with self._changed:
            del self._running[progress]
            self._changed.notify_all()


class _PipeProgress(ProgressTracker):
    """Progress to an agent that gave a token, at most ten reports per second."""

    def __init__(self, session: McpSession, params: dict[str, Any]) -> None:
        super().__init__()
        self._session, self._token = session, protocol.progress_token(params)
        self._next_s = 0.0

    def notify(self, *, is_last: bool = False) -> None:
        """Send the report if it is new, unless another one was sent just now."""
        if self._token is None or self.stopped or (time.monotonic() < self._next_s and not is_last):
            return
        if report := self.take():
            self._next_s = time.monotonic() + _PROGRESS_INTERVAL_S
            self._session.send_progress(protocol.progress_message(self._token, *report))
