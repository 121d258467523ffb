"""Running the HTTP server: checks of the address, start, and shutdown within seconds.

The address is resolved and checked here, and the socket that was checked is the one that is served. Without a token
only loopback addresses are served.
"""

from __future__ import annotations

import ipaddress
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from starlette.types import Receive, Scope, Send

from lorelog.core.errors import ConfigError, LorelogError, UsageError
from lorelog.core.options import HttpOptions
from lorelog.operations.dispatch import CallOperation, ClientIdentity
from lorelog.surfaces.http.app import MountedApp, PageRoutes, build_app

if TYPE_CHECKING:
    import uvicorn

SHUTDOWN_S = 5.0
"""Maximum seconds of a shutdown."""
_GRACE_S = 3
"""Seconds of the shutdown in which running requests may finish."""
_MAX_CONNECTIONS = 512
_MAX_HEADER_BYTES = 32_768


class ServableApp(Protocol):
    """An application that can be served: guarded, and able to stop."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""

    def stop(self) -> None:
        """Cancel long operations."""


class RunningServer(Struct, frozen=True):
    """A server that runs in its own thread."""

    url: str
    port: int
    _server: uvicorn.Server
    _app: ServableApp
    _thread: threading.Thread

    def stop(self) -> None:
        """Stop the server and wait until it has stopped, at most a few seconds."""
        self._app.stop()
        self._server.should_exit = True
        self._thread.join(SHUTDOWN_S)


def serve_in_thread(
    call: CallOperation,
    options: HttpOptions,
    caller: ClientIdentity,
    mounts: Sequence[MountedApp] = (),
    page: PageRoutes | None = None,
) -> RunningServer:
    """Serve in a thread. Raise LorelogError if the address is not allowed or not available."""
    return serve_app_in_thread(build_app(call, options, caller, mounts, page), options)


def serve_app_in_thread(app: ServableApp, options: HttpOptions) -> RunningServer:
    """Serve an application in a thread, as `serve_in_thread` does."""
    listener = open_listener(options)
    ready = threading.Event()
    server = _make_server(app, ready.set)
    thread = threading.Thread(target=_run, args=(server, listener, ready), name="lorelog-http", daemon=True)
    thread.start()
    ready.wait()
    if not server.started:
        listener.close()
        raise LorelogError("the HTTP server did not start")
    return RunningServer(_url(options, listener), listener.getsockname()[1], server, app, thread)


def serve_app(app: ServableApp, options: HttpOptions, *, started: Callable[[str], None]) -> None:
    """Serve an application as `serve` does."""
    listener = open_listener(options)
    url = _url(options, listener)
    server = _make_server(app, lambda: started(url))

    def stop(number: int, frame: FrameType | None) -> None:
        app.stop()
        server.handle_exit(number, frame)  # a second signal does not wait

    with _signal_handlers(stop):
        server.run(sockets=[listener])


def open_listener(options: HttpOptions) -> socket.socket:
    """Return a bound socket. Raise ConfigError if a token is missing, UsageError if the address is not available."""
    if any(not "!" <= letter <= "~" for letter in options.token):
        raise ConfigError(
            "the token has characters that a header cannot contain", hint="use visible ASCII without spaces"
        )
    family, address = _resolve_address(options)
    if not ipaddress.ip_address(address[0].partition("%")[0]).is_loopback and not options.token:
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


def _resolve_address(options: HttpOptions) -> tuple[int, tuple[str, int]]:
    try:
        addresses = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UsageError(
            f"{options.host} is not an address of this machine", hint="set http.host to an address such as 127.0.0.1"
        ) from None
    family, _, _, _, address = min(addresses, key=lambda info: info[0] != socket.AF_INET)
    return family, address  # type: ignore[return-value]


def _url(options: HttpOptions, listener: socket.socket) -> str:
    host = f"[{options.host}]" if ":" in options.host else options.host
    return f"http://{host}:{listener.getsockname()[1]}"


def _make_server(app: ServableApp, started: Callable[[], None]) -> uvicorn.Server:
    import uvicorn

    from lorelog.surfaces.http.connections import HttpConnection

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


def _run(server: uvicorn.Server, listener: socket.socket, ready: threading.Event) -> None:
    try:
        server.run(sockets=[listener])
    except SystemExit:  # uvicorn raises it when it cannot start
        pass
    finally:
        ready.set()


@contextmanager
def _signal_handlers(stop: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
