"""Between an agent's pipes and the daemon: one small process for each agent, and no model in any of them.

Standard library only, so that it starts at once. What it adds to copying lines is that the agent never sees a daemon come
and go. When one has gone (idle, replaced, killed), the next request starts another: the agent's handshake is repeated there
and its second answer kept back. Requests that the lost one still had are answered with an error, not repeated: nobody knows
whether they were carried out, and a memory written twice is worse than a call made twice. Nothing reconnects until there is
something to ask, because a daemon that was let go for being idle should stay gone.

A host waits for a handshake and a list of tools before it shows its first prompt, and a daemon that has yet to start needs
seconds, most of them for loading the SDK. So the proxy answers those two itself and has the daemon start meanwhile.

One thread reads the agent and sends; one for each connection reads the daemon. Only whole lines go out.
"""

from __future__ import annotations

import json
import os
import threading
from _socket import SHUT_RDWR
from contextlib import suppress

from lorelog.core.errors import LorelogError
from lorelog.surfaces.mcp.greeting import greeting, tool_list
from lorelog.surfaces.mcp.lines import LONGEST, LineBuffer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket
    from typing import Any

PARSE_ERROR, INVALID_REQUEST, LOST = -32700, -32600, -32000
"""What JSON-RPC calls these; the last is the SDK's own for a connection that closed."""

_CHUNK = 65_536
_GRACE_S = 1.5
"""Seconds for answers that are still due when the agent has said its last: scripts close their end at once. It is less than
the two seconds after which the official client ends a server by force."""
_TRIES = 3
_AGAIN = "lorelog:handshake"

_GONE = (
    "the lorelog daemon ended before it answered, and nobody knows whether the call was carried out; "
    "try again, after looking with search_memory if it was to write"
)


class Proxy:
    """Passes messages on until the agent leaves. `connect` opens a stream to a server, anew each time it is called.

    `greets`: answer for a server that is not there yet. Who insists on a daemon should see at once that there is none.
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
        """Requests that wait for an answer, by id, each with the stream it went to."""
        self._sending: str | None = None
        """The one of them that is on its way: whoever sends it knows best what became of it."""
        self._gone: list[socket] = []
        """Streams that were given up, to be closed by the thread that sends: no other may close what it is using."""
        self._hello: dict[str, Any] | None = None
        self._ready: bytes | None = None
        self._readied: socket | None = None
        """The stream that has been told the agent is ready."""

    def run(self) -> None:
        """Pass messages on until the agent closes its end, or nobody reads ours."""
        lines = LineBuffer()
        try:
            while data := os.read(self._source, _CHUNK):
                for line in lines.feed(data):
                    self._take(line)
        except BrokenPipeError:
            return
        with self._state:
            self._state.wait_for(lambda: not self._due, _GRACE_S)
            if self._stream is not None:
                self._gone.append(self._stream)
        self._close_gone()

    def _take(self, line: bytes | None) -> None:
        """Take one line from the agent."""
        if line is None:
            self._refuse(None, INVALID_REQUEST, f"a message of more than {LONGEST:,} bytes was passed over")
            return
        if not line.strip():
            return
        try:
            message = json.loads(line.decode())
        except (ValueError, RecursionError):
            self._refuse(None, PARSE_ERROR, "a message was not JSON")
            return
        if not _is_message(message):
            identity = message.get("id") if isinstance(message, dict) and _key(message) else None
            self._refuse(identity, INVALID_REQUEST, "a message was JSON, but no JSON-RPC 2.0 request")
            return
        self._note(line, message)
        if not self._answer_here(message):
            self._pass_on(line, message)

    def _answer_here(self, message: dict[str, Any]) -> bool:
        """Answer what a host waits for at its start, unless a server is there to do so; say whether it was done."""
        method, key = message.get("method"), _key(message)
        if key is None or self._stream is not None or not self._greets:
            return False
        result = None
        if method == "initialize" and self._hello is None:
            result = greeting(message.get("params"))
        elif method == "tools/list" and self._hello is not None:
            result = tool_list(self._hello.get("params"), message.get("params"))
        if result is None:
            return False
        if method == "initialize":
            self._hello = message
            threading.Thread(target=self._open_early, daemon=True).start()
        self._write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() + b"\n")
        return True

    def _open_early(self) -> None:
        with suppress(LorelogError):  # whoever asks next is told
            self._open(repeats=True)

    def _note(self, line: bytes, message: dict[str, Any]) -> None:
        """Keep what a notification means for later."""
        method = message.get("method")
        if method == "notifications/initialized":
            self._ready = line
        elif method == "notifications/cancelled" and isinstance(message.get("params"), dict):
            with self._state:  # no answer is due any more
                self._due.pop(_key({"id": message["params"].get("requestId")}) or "", None)

    def _pass_on(self, line: bytes, message: dict[str, Any]) -> None:
        key = _key(message) if "method" in message else None
        if key is None and self._stream is None:
            return  # a notification is about something that went with the stream; the handshake's is repeated
        opens = message.get("method") == "initialize"
        if line is self._ready:
            with self._opening:  # not before the handshake that it ends
                self._send_ready(self._stream)
            return
        for _ in range(_TRIES):
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
        self._refuse(message.get("id"), LOST, _GONE)

    def _deliver(self, stream: socket, line: bytes, key: str | None) -> bool:
        """Send a line. False: its end did not go out, so nobody understood it, and it can be sent again."""
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
        """Return the stream, a new one if there is none: with the handshake repeated on it."""
        with self._opening:
            if (stream := self._stream) is not None:
                return stream
            self._close_gone()
            stream = self._connect()
            self._stream = stream
            threading.Thread(target=self._listen, args=(stream,), daemon=True).start()
            if repeats and self._hello is not None:
                self._send(stream, json.dumps({**self._hello, "id": _AGAIN}).encode())
                self._send_ready(stream)
            return stream

    def _send_ready(self, stream: socket | None) -> None:
        """End the handshake, once on each stream."""
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
        """Pass on what a server says, until it has gone."""
        lines = LineBuffer(longest=1 << 40)
        try:
            while data := stream.recv(_CHUNK):
                for line in lines.feed(data):
                    if line:
                        self._pass_back(line)
        except BrokenPipeError:
            os._exit(0)  # nobody reads our answers any more
        except OSError:
            pass
        try:
            self._drop(stream)
        except BrokenPipeError:
            os._exit(0)

    def _pass_back(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return
        if "method" not in message and message.get("id") == _AGAIN:
            return
        self._write(line + b"\n")
        if "method" not in message:
            with self._state:
                self._due.pop(_key(message) or "", None)
                self._state.notify_all()

    def _drop(self, stream: socket) -> None:
        """Give a stream up, and tell whoever waits for an answer on it."""
        with self._state:
            if self._stream is stream:
                self._stream = None
                self._gone.append(stream)
            lost = [key for key, where in self._due.items() if where is stream and key != self._sending]
            for key in lost:
                del self._due[key]
            self._state.notify_all()
        for key in lost:
            self._refuse(json.loads(key), LOST, _GONE)

    def _close_gone(self) -> None:
        with self._state:
            streams, self._gone = self._gone, []
        for stream in streams:
            with suppress(OSError):  # wakes who listens to it
                stream.shutdown(SHUT_RDWR)
            stream.close()

    def _refuse(self, identity: object, code: int, message: str) -> None:
        answer = {"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": message}}
        self._write(json.dumps(answer).encode() + b"\n")

    def _write(self, data: bytes) -> None:
        with self._writing:
            left = memoryview(data)
            while left:
                left = left[os.write(self._sink, left) :]


def _is_message(message: object) -> bool:
    """Say whether it could be a request, a notification or an answer; the server looks closer."""
    if not isinstance(message, dict):
        return False
    if "method" in message:
        return isinstance(message["method"], str) and ("id" not in message or _key(message) is not None)
    return "id" in message and ("result" in message or "error" in message)


def _key(message: dict[str, Any]) -> str | None:
    """Return a request's or an answer's id as a key that tells 1 from "1"; None where it has none."""
    identity = message.get("id")
    if isinstance(identity, bool) or not isinstance(identity, int | str):
        return None
    return json.dumps(identity)


def own_output() -> int:
    """Return a descriptor for the agent's pipe that nobody else writes to: what is printed goes to stderr from now on."""
    sink = os.dup(1)
    os.dup2(2, 1)
    return sink


def connector(mode: str, directory: str, environment: dict[str, str]) -> Callable[[], socket]:
    """Return how streams are opened: to the daemon where `mode` lets it and one can be had, else to a server in here."""

    def connect() -> socket:
        if mode != "off":
            from lorelog.surfaces.daemon.client import open_stream

            try:
                return open_stream("daemon.mcp", directory=directory, environment=environment, starts=True)
            except LorelogError:
                if mode == "required":
                    raise
        return serve_here(directory, environment)

    return connect


def serve_here(directory: str, environment: dict[str, str]) -> socket:
    """Return a stream to a server in a thread of this process."""
    from socket import socketpair

    from lorelog.operations.dispatch import Caller, Dispatcher
    from lorelog.surfaces.mcp.session import serve_stream
    from lorelog.wiring import Holdings

    ours, theirs = socketpair()
    caller = Caller(directory, environment)
    answer = Dispatcher(Holdings().engine).call
    threading.Thread(target=serve_stream, args=(theirs, answer, caller), daemon=True).start()
    return ours
