"""The methods of the protocol, and one agent's session over a connected socket: newline-delimited JSON-RPC, without the SDK.

A method takes parameters and returns the result as plain JSON values, whatever the transport. It runs in the calling thread and
may take long: it reports progress to a `ProgressTracker`, which also ends it when its request was cancelled. A project's
journals are resources: one per day, newest first. They are read through operations, not from disk, so that deleted and
out-of-scope memories stay hidden and the index may be in another process.

The SDK takes a second to import, 45 MB of memory, and 20 distributions on disk; a session over pipes needs ten methods of it.
Tests run the SDK's client against this session and compare its replies with those of the SDK's server.

A request of the protocol since 2026-07-28 carries its version in `_meta` and needs no handshake; older clients send `initialize`
first. Both are answered in one session, by what each request says.

Threads: the calling one reads; one writes, so that an agent that does not read blocks no work; each request has its own. To end a
session from outside, shut the socket down (`shutdown`, not `close`): it then ends as if the agent had disconnected.
"""

from __future__ import annotations

import json
import logging
import queue
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from lorelog.core.errors import Cancelled, LorelogError, NotFound, nearest_name
from lorelog.operations.dispatch import BoundCall, CallOperation, ClientIdentity
from lorelog.services.places.workspace import JOURNALS
from lorelog.surfaces.mcp.calls import call_tool, render_error
from lorelog.surfaces.mcp.protocol import (
    BUSY,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_A_REQUEST,
    LineBuffer,
    ProtocolError,
    add_modern_fields,
    discover_result,
    initialize_result,
    is_modern,
    message_key,
    parse_message,
    tools_list_result,
)
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
_log = logging.getLogger(__name__)
_CHUNK = 65_536
_MAX_REQUESTS = 32
"""Maximum number of requests of one session that run at the same time."""
_MAX_WAITING_PROGRESS = 100
_PROGRESS_INTERVAL_S = 0.1
_FLUSH_S = 1.0


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


def _sections(entries: list[dict[str, Any]], call: BoundCall) -> Iterator[str]:
    """Yield each entry up to the start of the next one: a section also contains its subsections."""
    for entry, following in zip(entries, [*entries[1:], None], strict=True):
        section = call("memory.expand", {"id": entry["id"]})
        end = None if following is None else max(0, following["start_line"] - section["start_line"])
        yield "\n".join(section["content"].splitlines()[:end]).strip()


def _journal_folder(caller: ClientIdentity) -> Path:
    location = resolve_location(home=caller.home, directory=caller.directory, environment=caller.environment)
    return Path(location.project.id) / JOURNALS


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
            "tools/list": lambda params, call: tools_list_result(),
            "tools/call": _call_tool,
            "resources/list": self._list_resources,
            "resources/templates/list": lambda params, call: {"resourceTemplates": [_TEMPLATE]},
            "resources/read": self._read_resource,
            "prompts/list": lambda params, call: {"prompts": [_PROMPT]},
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
        resources = [
            {
                "uri": f"{JOURNAL_URI_PREFIX}{journal['day']}",
                "name": journal["day"],
                "description": f"Journal of {journal['day']}",
                "mimeType": _MARKDOWN,
                "size": journal["bytes"],
            }
            for journal in list_journals(self.caller, call)
        ]
        return {"resources": resources}

    def _read_resource(self, params: Params, call: BoundCall) -> Result:
        uri = _text_parameter(params, "uri")
        text = read_journal(uri, self.caller, call)
        return {"contents": [{"uri": uri, "mimeType": _MARKDOWN, "text": text}]}


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


def serve_stream(sock: socket.socket, call: CallOperation, caller: ClientIdentity) -> None:
    """Serve a session until the agent disconnects, then close the socket."""
    try:
        sock.setblocking(True)
        McpSession(sock, McpMethods(call, caller)).run()
    finally:
        sock.close()


class McpSession:
    """Reads requests, runs them, and writes replies, until the agent disconnects."""

    def __init__(self, sock: socket.socket, methods: McpMethods) -> None:
        self._sock = sock
        self._methods = methods
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running: dict[_StreamProgress, str] = {}
        """Requests that run, each with the key of its id."""

    def run(self) -> None:
        """Serve until the agent disconnects; calls that still run end at their next progress report."""
        writer = threading.Thread(target=self._write, name="lorelog-mcp-writer", daemon=True)
        writer.start()
        try:
            self._read()
        finally:  # also after a fault of ours: no thread may be left behind
            self._end(writer)

    def _read(self) -> None:
        lines = LineBuffer()
        with suppress(OSError):
            while data := self._sock.recv(_CHUNK):
                for line in lines.feed(data):
                    if line is None or line.strip():
                        self._receive(line)

    def _end(self, writer: threading.Thread) -> None:
        """Stop the calls that run, and send what is queued if the agent still reads."""
        with self._lock:
            for progress in self._running:
                progress.stop()
        self._outgoing.put(None)
        writer.join(_FLUSH_S)
        with suppress(OSError):  # ends a writer that waits for an agent
            self._sock.shutdown(socket.SHUT_RDWR)
        writer.join()

    def send(self, message: dict[str, Any]) -> None:
        """Queue a message. A character that is not Unicode, as in a path that is not UTF-8, becomes a question mark."""
        text = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False)
        self._outgoing.put(text.encode(errors="replace") + b"\n")

    def send_progress(self, token: int | str, report: tuple[int, int | None, str]) -> None:
        """Queue a report, unless the agent is far behind with reading."""
        if self._outgoing.qsize() > _MAX_WAITING_PROGRESS:
            return
        done, total, stage = report
        params = {"progressToken": token, "progress": done, "total": total, "message": stage}
        if total is None:
            del params["total"]
        self.send({"method": "notifications/progress", "params": params})

    def _write(self) -> None:
        with suppress(OSError):
            while (data := self._outgoing.get()) is not None:
                self._sock.sendall(data)

    def _receive(self, line: bytes | None) -> None:
        """Handle one message. An invalid one gets an error: its sender would wait."""
        identity: int | str | None = None
        try:
            message = parse_message(line)
            if message_key(message) is not None:
                identity = message["id"]
            method, params = _check_message(message)
            if method is None:
                return  # a reply: this server sends no requests
            if "id" in message:
                self._answer(message["id"], method, params)
            elif method == "notifications/cancelled":
                cancelled = message_key({"id": params.get("requestId")})
                with self._lock:
                    for progress in (progress for progress, key in self._running.items() if key == cancelled):
                        progress.stop()
        except ProtocolError as error:
            self._refuse(identity, error)

    def _answer(self, identity: int | str, method: str, params: dict[str, Any]) -> None:
        """Answer at once what needs no work; run the rest in a thread."""
        modern = is_modern(method, params)
        if method == "initialize":
            result = initialize_result(params)
            if result is None:
                raise ProtocolError(INVALID_PARAMS, "initialize needs protocolVersion, capabilities and clientInfo")
            self.send({"id": identity, "result": result})
        elif method == "ping":
            self._reply(identity, method, {}, modern=modern)
        elif method == "server/discover" and modern:
            self._reply(identity, method, discover_result(), modern=True)
        elif method in self._methods:
            self._start(identity, method, params, modern=modern)
        else:
            raise ProtocolError(METHOD_NOT_FOUND, "Method not found", method)

    def _start(self, identity: int | str, method: str, params: dict[str, Any], *, modern: bool) -> None:
        progress = _StreamProgress(self, params)
        with self._lock:
            if len(self._running) >= _MAX_REQUESTS:
                raise ProtocolError(BUSY, f"{_MAX_REQUESTS} requests are running; try again when one has ended")
            self._running[progress] = json.dumps(identity)

        def work() -> None:
            try:
                result = self._methods.respond(method, params, progress)
                progress.flush()
                if not progress.stopped:  # nobody waits for the reply to a cancelled request
                    self._reply(identity, method, result, modern=modern)
            except ProtocolError as error:
                if not progress.stopped:
                    self._refuse(identity, error)
            finally:
                with self._lock:
                    del self._running[progress]

        try:
            threading.Thread(target=work, name=f"lorelog-mcp-{method}", daemon=True).start()
        except RuntimeError as error:  # the system has no more threads: the session must survive
            with self._lock:
                del self._running[progress]
            raise ProtocolError(BUSY, f"the request could not be started: {error}; try again") from error

    def _reply(self, identity: int | str, method: str, result: dict[str, Any], *, modern: bool) -> None:
        self.send({"id": identity, "result": add_modern_fields(method, result) if modern else result})

    def _refuse(self, identity: int | str | None, error: ProtocolError) -> None:
        self.send({"id": identity, "error": error.to_dict()})


class _StreamProgress(ProgressTracker):
    """Progress to an agent that gave a token, at most ten reports per second."""

    def __init__(self, session: McpSession, params: dict[str, Any]) -> None:
        super().__init__()
        self._session = session
        meta = params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        self._token = token if isinstance(token, int | str) and not isinstance(token, bool) else None
        self._next_s = 0.0

    def notify(self) -> None:
        """Send the report, unless the last one was sent just now."""
        if self._token is not None and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _PROGRESS_INTERVAL_S
            self.flush()

    def flush(self) -> None:
        """Send the latest report if it is new."""
        if self._token is not None and not self.stopped and (report := self.take()) is not None:
            self._session.send_progress(self._token, report)


def _check_message(message: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """Return the method, None for a reply, and its parameters. Raise ProtocolError if it is not JSON-RPC."""
    method, params = message.get("method"), message.get("params")
    valid_id = "id" not in message or message_key(message) is not None
    is_valid = message.get("jsonrpc") == "2.0"
    if is_valid and method is None and "id" in message and ("result" in message or "error" in message):
        return None, {}
    if not (is_valid and valid_id and isinstance(method, str) and isinstance(params, dict | None)):
        raise ProtocolError(INVALID_REQUEST, NOT_A_REQUEST)
    return method, params or {}
