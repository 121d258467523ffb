"""One agent's session over a connected socket: newline-delimited JSON-RPC, both generations of the protocol, without the SDK.

The SDK takes a second to import, 45 MB of memory, and 20 distributions on disk; a session over pipes needs ten methods of it.
Tests run the SDK's client against this session and compare its replies with those of the SDK's server.

A request of the protocol since 2026-07-28 carries its version in `_meta` and needs no handshake; older clients send `initialize`
first. Both are answered in one session, by what each request says.

Threads: the calling one reads; one writes, so that an agent that does not read blocks no work; each request has its own. To end a
session from outside, shut the socket down (`shutdown`, not `close`): it then ends as if the agent had disconnected.
"""

from __future__ import annotations

import json
import queue
import socket
import threading
import time
from contextlib import suppress
from typing import Any

from lorelog.operations.dispatch import CallOperation, ClientIdentity
from lorelog.surfaces.mcp.methods import McpMethods, ProgressTracker
from lorelog.surfaces.mcp.protocol import (
    BUSY,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MAX_MESSAGE_BYTES,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    LineBuffer,
    ProtocolError,
    add_modern_fields,
    discover_result,
    initialize_result,
    is_modern,
    message_key,
)

_CHUNK = 65_536
_MAX_REQUESTS = 32
"""Maximum number of requests of one session that run at the same time."""
_MAX_WAITING_PROGRESS = 100
_PROGRESS_INTERVAL_S = 0.1
_FLUSH_S = 1.0


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
            message = _parse_message(line)
            if message_key(message) is not None:
                identity = message["id"]
            method, params = _check_message(message)
            if method is None:
                return  # a reply: this server sends no requests
            if "id" not in message:
                self._take_notification(method, params)
                return
            self._answer(message["id"], method, params)
        except ProtocolError as error:
            self._refuse(identity, error)

    def _take_notification(self, method: str, params: dict[str, Any]) -> None:
        if method == "notifications/cancelled":
            cancelled = message_key({"id": params.get("requestId")})
            with self._lock:
                for progress, key in self._running.items():
                    if key == cancelled:
                        progress.stop()

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


def _parse_message(line: bytes | None) -> dict[str, Any]:
    """Return the message of a line. Raise ProtocolError if it is not a JSON object."""
    if line is None:
        raise ProtocolError(INVALID_REQUEST, f"a message of more than {MAX_MESSAGE_BYTES:,} bytes was ignored")
    try:
        message = json.loads(line.decode())
    except (ValueError, RecursionError):
        raise ProtocolError(PARSE_ERROR, "a message was not JSON") from None
    if not isinstance(message, dict):
        raise ProtocolError(INVALID_REQUEST, "a message was JSON, but not a JSON-RPC 2.0 request")
    return message


def _check_message(message: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """Return the method, None for a reply, and its parameters. Raise ProtocolError if it is not JSON-RPC."""
    method, params = message.get("method"), message.get("params")
    valid_id = "id" not in message or message_key(message) is not None
    if (
        message.get("jsonrpc") == "2.0"
        and method is None
        and "id" in message
        and ("result" in message or "error" in message)
    ):
        return None, {}
    if message.get("jsonrpc") != "2.0" or not isinstance(method, str) or not valid_id:
        raise ProtocolError(INVALID_REQUEST, "a message was JSON, but not a JSON-RPC 2.0 request")
    if params is not None and not isinstance(params, dict):
        raise ProtocolError(INVALID_REQUEST, "a message was JSON, but not a JSON-RPC 2.0 request")
    return method, params or {}
