"""The HTTP application and its server: routes, metrics, start, and shutdown within seconds.

Every request passes the guard first. Metrics are in Prometheus' text format, version 0.0.4.

The address is resolved and checked here, and the socket that was checked is the one that is served. Without a token
only loopback addresses are served.

A half-sent request would be held for ever. It is closed with 408 instead. A client that opens too many connections loses the oldest
one that still waits for a request; the others are not affected.
"""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

import h11
from anyio import to_thread
from msgspec import Struct
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from lorelog.core import VERSION
from lorelog.core.errors import ConfigError, LorelogError, UsageError
from lorelog.core.options import HttpOptions
from lorelog.operations.dispatch import CallOperation, ClientIdentity
from lorelog.surfaces.http.calls import HttpRefusalError, OperationEndpoints, error_response, json_response
from lorelog.surfaces.http.guard import RequestGuard
from lorelog.surfaces.http.loop import LoopEndpoints
from lorelog.surfaces.http.openapi import describe_api, list_addresses
from lorelog.surfaces.http.tickets import redeem_ticket

if TYPE_CHECKING:
    import uvicorn

METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_GAUGES = {"answers"}
"""Cache counters that hold a current value; the others only grow."""
_QUANTILES = (("0.5", "p50_ms"), ("0.9", "p90_ms"), ("0.99", "p99_ms"))


def render_metrics(reply: Mapping[str, Any], version: str) -> str:
    """Return the reply of `memory.metrics` in Prometheus' text format."""
    operations, cache = reply["operations"], reply["cache"]
    metrics: list[tuple[str, str, str, list[tuple[dict[str, str], float]]]] = [
        ("build_info", "gauge", "Version of the server.", [({"version": version}, 1)]),
        ("uptime_seconds", "gauge", "Seconds since the process started.", [({}, reply["uptime_s"])]),
        ("resident_memory_bytes", "gauge", "Memory of the process.", [({}, reply["rss_bytes"])]),
        ("operations_total", "counter", "Calls of operations.", [({"op": op["op"]}, op["count"]) for op in operations]),
        (
            "operation_errors_total",
            "counter",
            "Failed calls of operations.",
            [({"op": op["op"]}, op["errors"]) for op in operations],
        ),
        (
            "operation_latency_seconds",
            "gauge",
            "Latency of the last thousand calls of each operation, by quantile.",
            [
                ({"op": op["op"], "quantile": quantile}, op[field] / 1000)
                for op in operations
                for quantile, field in _QUANTILES
            ],
        ),
        (
            "cache_events_total",
            "counter",
            "Cache events.",
            [({"event": name}, value) for name, value in cache.items() if name not in _GAUGES],
        ),
        (
            "cache_held",
            "gauge",
            "Entries and bytes in the caches.",
            [({"what": name}, value) for name, value in cache.items() if name in _GAUGES],
        ),
    ]
    lines = []
    for name, kind, help_text, samples in metrics:
        lines += [f"# HELP lorelog_{name} {help_text}", f"# TYPE lorelog_{name} {kind}"]
        for labels, value in samples:
            escaped = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
            inner = ",".join(f'{label}="{text.translate(escaped)}"' for label, text in labels.items())
            lines.append(f"lorelog_{name}{{{inner}}} {value!r}" if inner else f"lorelog_{name} {value!r}")
    return "\n".join(lines) + "\n"


MakeRoutes = Callable[[threading.Event], Sequence[BaseRoute]]
"""Returns the routes of the page, which replace ours, or those of MCP; the event is set when the server stops."""


def build_app(
    call: CallOperation,
    options: HttpOptions,
    caller: ClientIdentity,
    mcp: MakeRoutes | None = None,
    page: MakeRoutes | None = None,
) -> RequestGuard:
    """Return the application. Requests that name no project use the directory of `caller`."""
    calls = OperationEndpoints(call, caller)
    added = [route for make_routes in (page, mcp) if make_routes for route in make_routes(calls.stopping)]

    async def handle_error(request: Request, error: Exception) -> Response:
        return error_response(request.url.path, error)

    starlette = Starlette(
        routes=[*added, *_routes(calls, options)],
        exception_handlers=dict.fromkeys((HTTPException, HttpRefusalError, LorelogError, Exception), handle_error),
    )
    starlette.router.redirect_slashes = False  # a redirect would echo the request's Host header
    redeem = partial(redeem_ticket, caller.home) if page is not None and caller.home else None
    return RequestGuard(starlette, options, calls.stopping, redeem)


async def show_addresses(request: Request) -> Response:
    return json_response({"lorelog": VERSION, "addresses": list_addresses()})


def _routes(calls: OperationEndpoints, options: HttpOptions) -> list[BaseRoute]:
    loop = LoopEndpoints(calls, options)
    document = cache(lambda: describe_api(secured=bool(options.token)))

    async def metrics(request: Request) -> Response:
        reply = await calls.run_job(request, lambda call: call("memory.metrics", {}))
        return Response(render_metrics(reply, VERSION), media_type=METRICS_CONTENT_TYPE)

    async def openapi(request: Request) -> Response:
        return json_response(await to_thread.run_sync(document))

    async def health(request: Request) -> Response:
        return json_response({"ok": True, "version": VERSION})

    return [
        Route("/", show_addresses, methods=["GET"]),
        Route("/health", health, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
        Route("/openapi.json", openapi, methods=["GET"]),
        Route("/api/ops", calls.list_operations, methods=["GET"]),
        Route("/api/call/{op}", calls.call, methods=["POST"]),
        Route("/api/memory/search", loop.search, methods=["POST"]),
        Route("/api/memory/index", loop.index, methods=["POST"]),
        Route("/api/memory/files", loop.files, methods=["GET"]),
        Route("/api/memory/files/search", loop.search_files, methods=["GET"]),
        Route("/api/memory/file", loop.read, methods=["GET"]),
        Route("/api/memory/file", loop.write, methods=["PUT"]),
    ]


SHUTDOWN_S = 5.0
"""Maximum seconds of a shutdown."""
_GRACE_S = 3
"""Seconds of the shutdown in which running requests may finish."""
_MAX_CONNECTIONS = 512
_MAX_HEADER_BYTES = 32_768


def open_listener(options: HttpOptions) -> socket.socket:
    """Return a bound socket. Raise ConfigError if a token is missing, UsageError if the address is not available."""
    if any(not "!" <= letter <= "~" for letter in options.token):
        raise ConfigError(
            "the token has characters that a header cannot contain", hint="use visible ASCII without spaces"
        )
    try:
        addresses = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UsageError(
            f"{options.host} is not an address of this machine", hint="set http.host to an address such as 127.0.0.1"
        ) from None
    family, _, _, _, address = min(addresses, key=lambda info: info[0] != socket.AF_INET)
    if not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback and not options.token:
        raise ConfigError(
            f"{options.host} is reachable from other machines, and no token is set",
            hint="leave out --no-token (http.require_token), set http.token to env:NAME, or serve on 127.0.0.1",
        )
    # With the protocol named, asyncio sets TCP_NODELAY. Without it each small response waited 44 ms for an acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"{options.host} port {options.port} is not available: {error.strerror}",
            hint="--port 0 chooses a free port",
        ) from None
    return listener


def _url(options: HttpOptions, listener: socket.socket) -> str:
    host = f"[{options.host}]" if ":" in options.host else options.host
    return f"http://{host}:{listener.getsockname()[1]}"


def _make_server(app: RequestGuard, started: Callable[[], None]) -> uvicorn.Server:
    import uvicorn

    class _UvicornServer(uvicorn.Server):
        """Reports when it has started, and leaves signals to its caller."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            started()

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    return _UvicornServer(
        uvicorn.Config(
            app,
            http=HttpConnection,
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_graceful_shutdown=_GRACE_S,
            h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
        )
    )


HEADER_S = 10.0
"""Seconds in which the headers of a request must arrive."""
BODY_PAUSE_S = 10.0
"""A body must not pause for longer."""
BODY_S = 60.0
"""Seconds in which a body must arrive."""
MAX_PEER_CONNECTIONS = 128
"""Connections from one address."""
_TIMEOUT_BODY = b'{"error":{"code":"timeout","message":"the request arrived too slowly","hint":"send it at once"}}'
_TIMEOUT_RESPONSE = b"HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\nConnection: close\r\n"
_BUSY_RESPONSE = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class HttpConnection(H11Protocol):
    """One connection, with deadlines for incomplete requests."""

    _timer: asyncio.TimerHandle | None = None
    awaits_headers = False
    """Whether no complete headers have arrived since the connection was made or the last request ended."""
    opened_at = 0.0
    _body_due_at = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.opened_at = self.loop.time()
        self._set_timer()
        address = self.client and self.client[0]
        ours = [other for other in self.connections if isinstance(other, HttpConnection)]
        peers = [other for other in ours if address and other.client and other.client[0] == address]
        if len(peers) <= MAX_PEER_CONNECTIONS:
            return
        waiting = [other for other in peers if other is not self and other.awaits_headers]
        if waiting:
            min(waiting, key=lambda other: other.opened_at).expire()
        else:
            transport.write(_BUSY_RESPONSE)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Handle what arrived, and wait for the rest of an incomplete request."""
        super().data_received(data)
        self._set_timer()

    def _set_timer(self) -> None:
        state = self.conn.their_state
        if self.transport.is_closing():
            self._cancel_timer()
        elif state is h11.IDLE:
            if not self.awaits_headers:  # more headers do not extend the time
                self._start_timer(HEADER_S)
                self.awaits_headers = True
        elif state is h11.SEND_BODY:
            now = self.loop.time()
            self._body_due_at = self._body_due_at or now + BODY_S
            self._start_timer(min(BODY_PAUSE_S, self._body_due_at - now))
        else:
            self._cancel_timer()

    def _start_timer(self, seconds: float) -> None:
        due_at = self._body_due_at
        self._cancel_timer()
        self._body_due_at = due_at
        self._timer = self.loop.call_later(max(0.0, seconds), self.expire)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self.awaits_headers, self._body_due_at = None, False, 0.0

    def expire(self) -> None:
        """Close a connection whose request did not arrive in time."""
        if self.flow.read_paused:  # the application has not read what was sent
            self._start_timer(BODY_PAUSE_S)
            return
        self._cancel_timer()
        cycle = cast("Any", self.cycle)
        started = cycle is not None and cycle.response_started and not cycle.response_complete
        if not started and not self.transport.is_closing():
            length = b"Content-Length: %d\r\n\r\n" % len(_TIMEOUT_BODY)
            self.transport.write(_TIMEOUT_RESPONSE + length + _TIMEOUT_BODY)
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()


class RunningServer(Struct, frozen=True):
    """A server that runs in its own thread."""

    url: str
    port: int
    _server: uvicorn.Server
    _app: RequestGuard
    _thread: threading.Thread

    def stop(self) -> None:
        """Stop the server and wait until it has stopped, at most a few seconds."""
        self._app.stopping.set()
        self._server.should_exit = True
        self._thread.join(SHUTDOWN_S)


def serve_in_thread(
    call: CallOperation,
    options: HttpOptions,
    caller: ClientIdentity,
    mcp: MakeRoutes | None = None,
    page: MakeRoutes | None = None,
) -> RunningServer:
    """Serve in a thread. Raise LorelogError if the address is not allowed or not available."""
    app, listener, ready = build_app(call, options, caller, mcp, page), open_listener(options), threading.Event()
    server = _make_server(app, ready.set)

    def run() -> None:
        with suppress(SystemExit):  # uvicorn raises it when it cannot start
            server.run(sockets=[listener])
        ready.set()

    thread = threading.Thread(target=run, name="lorelog-http", daemon=True)
    thread.start()
    ready.wait()
    if not server.started:
        listener.close()
        raise LorelogError("the HTTP server did not start")
    return RunningServer(_url(options, listener), listener.getsockname()[1], server, app, thread)


def serve_app(app: RequestGuard, options: HttpOptions, *, started: Callable[[str], None]) -> None:
    """Serve an application until a signal ends it."""
    listener = open_listener(options)
    url = _url(options, listener)
    server = _make_server(app, lambda: started(url))

    def stop(number: int, frame: FrameType | None) -> None:
        app.stopping.set()
        server.handle_exit(number, frame)  # a second signal does not wait

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.run(sockets=[listener])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
