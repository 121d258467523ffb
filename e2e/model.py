"""The scripted model: a server on loopback that answers as a test wrote it, and remembers every request.

A script belongs to a mark, any text that stands in what the user (or a skill) said last: the first step answers that
message, the next one the result of the tool that the first called, and so on. Scripts hang on marks and not in one
queue because two sessions may ask at once, and because hosts make requests of their own (titles, summaries) that must
not eat a step: a request that offers no tools gets the plain answer, unless the script is for such requests.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import json
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from e2e.protocols import Chat, Protocol, Say, Spoken, protocol_of

PLAIN_ANSWER = "Noted, said the scripted model."

_LONGEST_HOLD_S = 120.0


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing about a host that was killed while it waited for an answer."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True)
class Step:
    """One reply: a text, a tool call or an HTTP error; delayed, or held open until `Model.release`."""

    text: str = ""
    tool: str = ""
    arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    namespace: str = ""
    status: int = 0
    wait_s: float = 0.0
    hold: bool = False


@dataclasses.dataclass(frozen=True)
class Request:
    """A request and its reply."""

    number: int
    at: float
    path: str
    body: dict[str, Any]
    tools: tuple[str, ...]
    spoken: tuple[Spoken, ...]
    step: Step

    @property
    def text(self) -> str:
        """The whole body as text: hosts put injected context in different places."""
        return json.dumps(self.body, ensure_ascii=False)

    @property
    def last_user(self) -> str:
        return next((part.text for part in reversed(self.spoken) if part.who == "user"), "")

    @property
    def results(self) -> list[str]:
        return [part.text for part in self.spoken if part.who == "result"]


class Model:
    """The server with its scripts and requests, under one lock: its threads write, the test reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._scripts: list[tuple[str, tuple[Step, ...], bool]] = []
        self._requests: list[Request] = []
        self._released = threading.Event()
        handler = type("_BoundHandler", (_Handler,), {"model": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()

    def script(self, mark: str, *steps: Step, toolless: bool = False) -> None:
        """Set the reply for requests whose last text contains the mark. A later script replaces it."""
        with self._lock:
            self._scripts.insert(0, (mark, steps, toolless))

    def release(self) -> None:
        """Finish every held reply."""
        self._released.set()

    def requests(self, since: int = 0) -> list[Request]:
        """Return the requests in order, from number `since` on."""
        with self._lock:
            return [request for request in self._requests if request.number > since]

    @property
    def count(self) -> int:
        with self._lock:
            return len(self._requests)

    def wait_for(self, text: str, since: int = 0, limit_s: float = 90.0) -> Request | None:
        """Wait for the first request whose last user text contains the text."""
        end = time.monotonic() + limit_s
        with self._changed:
            while True:
                for request in self._requests:
                    if request.number > since and text in request.last_user and request.tools:
                        return request
                if time.monotonic() >= end:
                    return None
                self._changed.wait(min(1.0, max(0.01, end - time.monotonic())))

    def take(self, path: str, body: dict[str, Any], protocol: Protocol) -> Request:
        """Save a request and return its reply."""
        tools, spoken = tuple(protocol.tools(body)), tuple(protocol.spoken(body))
        with self._changed:
            step = self._decide(tools, spoken)
            request = Request(len(self._requests) + 1, time.time(), path, body, tools, spoken, step)
            self._requests.append(request)
            self._changed.notify_all()
        return request

    def hold(self, seconds: float) -> None:
        self._released.wait(seconds)

    def _decide(self, tools: Sequence[str], spoken: Sequence[Spoken]) -> Step:
        asked = max((at for at, part in enumerate(spoken) if part.who == "user"), default=-1)
        if asked < 0:
            return Step(PLAIN_ANSWER)
        done = sum(part.who == "result" for part in spoken[asked + 1 :])
        text = spoken[asked].text
        fitting = (steps for mark, steps, toolless in self._scripts if mark in text and (tools or toolless))
        steps = next(fitting, ())
        return steps[min(done, len(steps) - 1)] if steps else Step(PLAIN_ANSWER)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Model

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
        """Log nothing: requests are stored, and shown on a failure."""

    def do_HEAD(self) -> None:
        self._send(200, {})

    def do_GET(self) -> None:
        if self.path.split("?", 1)[0].rstrip("/").endswith("/models"):
            named = [{"id": name, "object": "model", "owned_by": "e2e"} for name in ("scripted", "scripted-small")]
            self._send(200, {"object": "list", "data": named})
        else:
            self._send(404, {"error": {"message": "no such page", "type": "not_found_error"}})

    def do_POST(self) -> None:
        body = self._read()
        path = self.path.split("?", 1)[0]
        if path.endswith(("/count_tokens", ":countTokens")):
            self._send(200, {"input_tokens": 20, "totalTokens": 20})
            return
        protocol = protocol_of(self.path)
        if protocol is None:
            self._send(404, {"error": {"message": "no such page", "type": "not_found_error"}})
            return
        request = self.model.take(self.path, body, protocol)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # an interrupted host hangs up
            self._answer(request, protocol)

    def _answer(self, request: Request, protocol: Protocol) -> None:
        step = request.step
        if step.wait_s:
            time.sleep(step.wait_s)
        if step.status:
            fault = {"type": "api_error", "code": step.status, "message": f"scripted failure {step.status}"}
            self._send(step.status, {"type": "error", "error": fault})
            return
        say = Say(
            request.number,
            str(request.body.get("model", "scripted")),
            step.text,
            step.tool,
            step.arguments,
            step.namespace,
        )
        if request.body.get("stream") or ":stream" in request.path:
            self._stream(protocol.events(say), hold=step.hold, ended=protocol is Chat)
        else:
            if step.hold:
                self.model.hold(_LONGEST_HOLD_S)
            self._send(200, protocol.whole(say))

    def _stream(self, events: Iterator[tuple[str, dict[str, Any]]], *, hold: bool, ended: bool) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        held = False
        for kind, data in events:
            self._chunk((f"event: {kind}\n" if kind else "") + f"data: {json.dumps(data)}\n\n")
            if hold and not held and self._says_something(data):
                held = True
                self.model.hold(_LONGEST_HOLD_S)
        if ended:
            self._chunk("data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    @staticmethod
    def _says_something(data: dict[str, Any]) -> bool:
        if "candidates" in data:
            return True
        delta = data.get("delta") or next((choice.get("delta") for choice in data.get("choices") or []), None)
        if isinstance(delta, dict):
            return bool(delta.get("text") or delta.get("content"))
        return bool(delta)

    def _chunk(self, text: str) -> None:
        raw = text.encode()
        self.wfile.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")
        self.wfile.flush()

    def _send(self, status: int, value: dict[str, Any]) -> None:
        raw = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    def _read(self) -> dict[str, Any]:
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            raw = b"".join(self._chunks())
        else:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        packed = self.headers.get("content-encoding", "")
        if packed == "gzip":
            raw = gzip.decompress(raw)
        elif packed == "deflate":
            raw = zlib.decompress(raw)
        try:
            value = json.loads(raw or b"{}")
        except ValueError:
            value = {}
        return value if isinstance(value, dict) else {}

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
