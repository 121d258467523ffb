"""The proxy between an agent's pipes and the daemon: one small process per agent, none of which loads a model.

Standard library only, for a fast start. It copies lines and hides restarts of the daemon from the agent. When a daemon
has ended (idle, replaced, killed), the next request starts another one: the agent's handshake is repeated there and its
second reply suppressed. Requests that were pending in the lost daemon get an error and are not repeated: they may have
been executed, and a memory written twice is worse than a repeated call. The proxy reconnects only for a new request, so
that a daemon that ended because it was idle stays ended.

A host waits for the handshake and the list of tools before it shows its first prompt, and a daemon takes up to a
second to start. Therefore the proxy answers those two requests itself while the daemon starts.

Threads: one reads from the agent and sends to the daemon; one per connection reads from the daemon. `_state` guards the
current stream and pending requests, `_opening` serialises connecting, `_writing` serialises whole lines to the agent.
"""

from __future__ import annotations

import json
import os
import threading
from _socket import SHUT_RDWR
from contextlib import suppress
from typing import TYPE_CHECKING

from lorelog.core.errors import LorelogError
from lorelog.surfaces.mcp.protocol import (
    INVALID_REQUEST,
    LOST,
    NOT_A_REQUEST,
    LineBuffer,
    ProtocolError,
    initialize_result,
    message_key,
    parse_message,
    tools_list_result,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket
    from typing import Any


_CHUNK = 65_536
_GRACE_S = 1.5
"""Seconds to wait for pending replies after the agent closed its end: scripts close it at once. Less than the two
seconds after which the official client kills a server."""
_CONNECT_TRIES = 3
_REPLAY_ID = "lorelog:handshake"

_DAEMON_GONE = (
    "the daemon ended before it replied; the call may or may not have been executed; "
    "try again, and check with search_memory first if it was a write"
)


class McpProxy:
    """Forwards messages until the agent disconnects. Each call of `connect` opens a new stream to a server.

    With `greets` the proxy answers for a server that is still starting. It is off if a daemon is required, so that its
    absence is visible at once.
    """

    def __init__(self, connect: Callable[[], socket], source: int, sink: int, *, greets: bool = True) -> None:
        self._connect = connect
        self._source = source
        self._sink = sink
        self._greets = greets
        self._writing = threading.Lock()
        self._opening = threading.Lock()
        self._state = threading.Condition()
        self._stream: socket | None = None
        self._due: dict[str, socket] = {}
        """Pending requests by id, each with the stream it was sent to."""
        self._sending: str | None = None
        """The pending request that is being sent; its sender handles a failure."""
        self._gone: list[socket] = []
        """Dropped streams, to be closed by the sending thread: another thread must not close a stream in use."""
        self._hello: dict[str, Any] | None = None
        self._ready: bytes | None = None
        self._readied: socket | None = None
        """The stream that received `notifications/initialized`."""

    def run(self) -> None:
        """Forward messages until the agent closes either pipe."""
        lines = LineBuffer()
        try:
            while data := os.read(self._source, _CHUNK):
                for line in lines.feed(data):
                    self._handle_line(line)
        except BrokenPipeError:
            return
        with self._state:
            self._state.wait_for(lambda: not self._due, _GRACE_S)
            if self._stream is not None:
                self._gone.append(self._stream)
        self._close_gone()

    def _handle_line(self, line: bytes | None) -> None:
        if line is not None and not line.strip():
            return
        try:
            message = parse_message(line)
        except ProtocolError as error:
            self._refuse(None, error.code, error.message)
            return
        if line is None or not _is_message(message):
            identity = message.get("id") if message_key(message) else None
            self._refuse(identity, INVALID_REQUEST, NOT_A_REQUEST)
            return
        self._remember(line, message)
        if not self._answer_here(message):
            self._forward(line, message)

    def _answer_here(self, message: dict[str, Any]) -> bool:
        """Answer a request of a host's start if no server is connected; return True if answered."""
        method, key = message.get("method"), message_key(message)
        if key is None or self._stream is not None or not self._greets:
            return False
        result = None
        if method == "initialize" and self._hello is None:
            result = initialize_result(message.get("params"))
        elif method == "tools/list" and self._hello is not None and not message.get("params"):
            result = tools_list_result()
        if result is None:
            return False
        if method == "initialize":
            self._hello = message

            def open_early() -> None:
                with suppress(LorelogError):  # the next request gets the error
                    self._open(repeats=True)

            threading.Thread(target=open_early, daemon=True).start()
        self._write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() + b"\n")
        return True

    def _remember(self, line: bytes, message: dict[str, Any]) -> None:
        """Remember the end of the handshake, and forget cancelled requests."""
        method = message.get("method")
        if method == "notifications/initialized":
            self._ready = line
        elif method == "notifications/cancelled" and isinstance(message.get("params"), dict):
            with self._state:  # no reply is expected any more
                self._due.pop(message_key({"id": message["params"].get("requestId")}) or "", None)

    def _forward(self, line: bytes, message: dict[str, Any]) -> None:
        key = message_key(message) if "method" in message else None
        if key is None and self._stream is None:
            return  # a notification about a lost stream is moot; the one of the handshake is repeated
        opens = message.get("method") == "initialize"
        if line is self._ready:
            with self._opening:  # not before the handshake itself
                self._send_ready(self._stream)
            return
        for _ in range(_CONNECT_TRIES):
            try:
                stream = self._open(repeats=not opens)
            except LorelogError as error:
                hint = f" ({error.hint})" if error.hint else ""
                self._refuse(message.get("id"), LOST, error.message + hint)
                return
            if self._deliver(stream, line, key):
                self._hello = message if opens else self._hello
                return
            if key is None:
                return
        self._refuse(message.get("id"), LOST, _DAEMON_GONE)

    def _deliver(self, stream: socket, line: bytes, key: str | None) -> bool:
        """Send a line; return False if it was not sent completely: it was not understood and can be sent again."""
        with self._state:
            self._sending = key
            if key is not None:
                self._due[key] = stream
        sent = self._send(stream, line)
        with self._state:
            self._sending = None
            lost = not sent or (self._stream is not stream and key is not None and self._due.get(key) is stream)
            if not sent and key is not None:
                self._due.pop(key, None)
        if lost:
            self._drop(stream)
        return sent

    def _open(self, *, repeats: bool) -> socket:
        """Return the stream, or open a new one and repeat the handshake on it."""
        with self._opening:
            if (stream := self._stream) is not None:
                return stream
            self._close_gone()
            stream = self._connect()
            self._stream = stream
            threading.Thread(target=self._listen, args=(stream,), daemon=True).start()
            if repeats and self._hello is not None:
                self._send(stream, json.dumps({**self._hello, "id": _REPLAY_ID}).encode())
                self._send_ready(stream)
            return stream

    def _send_ready(self, stream: socket | None) -> None:
        """Complete the handshake, once per stream."""
        with self._state:
            if stream is None or self._ready is None or self._readied is stream:
                return
            self._readied = stream
        self._send(stream, self._ready)

    def _send(self, stream: socket, line: bytes) -> bool:
        try:
            stream.sendall(line + b"\n")
        except OSError:
            return False
        return True

    def _listen(self, stream: socket) -> None:
        """Forward replies of a server until it disconnects."""
        lines = LineBuffer(max_bytes=1 << 40)
        try:
            while data := stream.recv(_CHUNK):
                for line in lines.feed(data):
                    if line:
                        self._forward_reply(line)
        except BrokenPipeError:
            os._exit(0)  # the agent does not read replies any more
        except OSError:
            pass
        try:
            self._drop(stream)
        except BrokenPipeError:
            os._exit(0)

    def _forward_reply(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return
        if "method" not in message and message.get("id") == _REPLAY_ID:
            return
        self._write(line + b"\n")
        if "method" not in message:
            with self._state:
                self._due.pop(message_key(message) or "", None)
                self._state.notify_all()

    def _drop(self, stream: socket) -> None:
        """Drop a stream, and reply with an error to its pending requests."""
        with self._state:
            if self._stream is stream:
                self._stream = None
                self._gone.append(stream)
            lost = [key for key, target in self._due.items() if target is stream and key != self._sending]
            for key in lost:
                del self._due[key]
            self._state.notify_all()
        for key in lost:
            self._refuse(json.loads(key), LOST, _DAEMON_GONE)

    def _close_gone(self) -> None:
        with self._state:
            streams, self._gone = self._gone, []
        for stream in streams:
            with suppress(OSError):  # wakes its reader
                stream.shutdown(SHUT_RDWR)
            stream.close()

    def _refuse(self, identity: object, code: int, message: str) -> None:
        reply = {"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": message}}
        self._write(json.dumps(reply).encode() + b"\n")

    def _write(self, data: bytes) -> None:
        with self._writing:
            remaining = memoryview(data)
            while remaining:
                remaining = remaining[os.write(self._sink, remaining) :]


def _is_message(message: dict[str, Any]) -> bool:
    """Return True if the message may be a request, a notification or a reply; the server validates it."""
    if "method" in message:
        return isinstance(message["method"], str) and ("id" not in message or message_key(message) is not None)
    return "id" in message and ("result" in message or "error" in message)


def claim_stdout() -> int:
    """Return a private descriptor of stdout, the agent's pipe, and redirect all other output to stderr."""
    sink = os.dup(1)
    os.dup2(2, 1)
    return sink


def make_connector(mode: str, directory: str, environment: dict[str, str]) -> Callable[[], socket]:
    """Return a function that connects to the daemon if `mode` allows it, else to a server in this process."""

    def connect() -> socket:
        if mode != "off":
            from lorelog.light.daemon_client import open_stream
            from lorelog.light.daemon_control import start

            try:
                return open_stream("daemon.mcp", directory=directory, environment=environment, start=start)
            except LorelogError:
                if mode == "required":
                    raise
        return serve_in_process(directory, environment)

    return connect


def serve_in_process(directory: str, environment: dict[str, str]) -> socket:
    """Start a server in a thread and return a stream to it."""
    from socket import socketpair

    from lorelog.operations.dispatch import ClientIdentity, Dispatcher
    from lorelog.surfaces.mcp.session import serve_stream
    from lorelog.wiring import ResourcePool

    ours, theirs = socketpair()
    caller = ClientIdentity(directory, environment)
    call = Dispatcher(ResourcePool().engine).call
    threading.Thread(target=serve_stream, args=(theirs, call, caller), daemon=True).start()
    return ours
