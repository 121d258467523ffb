"""Serving: an address that may be served on, a server on it, and an end within seconds.

The address is resolved and judged here, and the very socket that was judged is the one that is served: off loopback there
must be a token, or nothing is opened at all.
"""

from __future__ import annotations

import ipaddress
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from starlette.types import Receive, Scope, Send

from lorelog.core.errors import ConfigError, LorelogError, UsageError
from lorelog.core.options import HttpOptions
from lorelog.operations.dispatch import Caller
from lorelog.surfaces.http.app import Extra, build_app
from lorelog.surfaces.http.calls import Answer

if TYPE_CHECKING:
    import uvicorn

END_S = 5.0
"""Seconds after which a server that was told to end has ended."""
_GRACE_S = 3
"""Of these, the seconds that requests under way have to come to an end."""
_CONNECTIONS = 512
_HEADER_BYTES = 32_768


class Served(Protocol):
    """An application that can be served: guarded, and able to end."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""

    def stop(self) -> None:
        """Have what takes long end soon."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that runs in a thread of its own."""

    url: str
    port: int
    _server: uvicorn.Server
    _app: Served
    _thread: threading.Thread

    def stop(self) -> None:
        """End it, and wait until it has ended, at most a few seconds."""
        self._app.stop()
        self._server.should_exit = True
        self._thread.join(END_S)


def serve_in_thread(answer: Answer, options: HttpOptions, caller: Caller, mounts: Sequence[Extra] = ()) -> Serving:
    """Serve beside other work. Raise LorelogError when the address may not or cannot be served on."""
    return serve_app_in_thread(build_app(answer, options, caller, mounts), options)


def serve_app_in_thread(app: Served, options: HttpOptions) -> Serving:
    """Serve an application beside other work, as `serve_in_thread` does."""
    listener = open_listener(options)
    ready = threading.Event()
    server = _server(app, ready.set)
    thread = threading.Thread(target=_run, args=(server, listener, ready), name="lorelog-http", daemon=True)
    thread.start()
    ready.wait()
    if not server.started:
        listener.close()
        raise LorelogError("the HTTP server did not start")
    return Serving(_url(options, listener), listener.getsockname()[1], server, app, thread)


def serve(
    answer: Answer,
    options: HttpOptions,
    caller: Caller,
    mounts: Sequence[Extra] = (),
    *,
    started: Callable[[str], None],
) -> None:
    """Serve until SIGINT or SIGTERM; `started` is told the address. Call it in the main thread."""
    serve_app(build_app(answer, options, caller, mounts), options, started=started)


def serve_app(app: Served, options: HttpOptions, *, started: Callable[[str], None]) -> None:
    """Serve an application as `serve` does."""
    listener = open_listener(options)
    url = _url(options, listener)
    server = _server(app, lambda: started(url))

    def end(number: int, frame: FrameType | None) -> None:
        app.stop()
        server.handle_exit(number, frame)  # a second one does not wait any more

    with _handling(end):
        server.run(sockets=[listener])


def open_listener(options: HttpOptions) -> socket.socket:
    """Return a bound socket. Raise ConfigError where a token is missing, UsageError where the address cannot be had."""
    if any(not "!" <= letter <= "~" for letter in options.token):
        raise ConfigError("the token has characters that no header can carry", hint="use visible ASCII without blanks")
    family, address = _resolved(options)
    if not ipaddress.ip_address(address[0].partition("%")[0]).is_loopback and not options.token:
        raise ConfigError(
            f"{options.host} can be reached from other machines, and no token is set",
            hint="export LORELOG_TOKEN=… and set http.token to env:LORELOG_TOKEN, or serve on 127.0.0.1",
        )
    # The protocol by name: asyncio then sends small answers at once. Without it each took 44 ms, waiting to be acknowledged.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"{options.host} port {options.port} cannot be served on: {error.strerror}",
            hint="--port 0 takes a free one",
        ) from None
    return listener


def _resolved(options: HttpOptions) -> tuple[int, tuple[str, int]]:
    try:
        found = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UsageError(
            f"{options.host} is no address of this machine", hint="http.host: 127.0.0.1, for one"
        ) from None
    family, _, _, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    return family, address  # type: ignore[return-value]


def _url(options: HttpOptions, listener: socket.socket) -> str:
    host = f"[{options.host}]" if ":" in options.host else options.host
    return f"http://{host}:{listener.getsockname()[1]}"


def _server(app: Served, started: Callable[[], None]) -> uvicorn.Server:
    import uvicorn

    class Server(uvicorn.Server):
        """Tells when it is there, and leaves signals to whoever runs it."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            started()

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    return Server(
        uvicorn.Config(
            app,
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=_CONNECTIONS,
            timeout_graceful_shutdown=_GRACE_S,
            h11_max_incomplete_event_size=_HEADER_BYTES,
        )
    )


def _run(server: uvicorn.Server, listener: socket.socket, ready: threading.Event) -> None:
    try:
        server.run(sockets=[listener])
    except SystemExit:  # uvicorn's way to say that it could not start
        pass
    finally:
        ready.set()


@contextmanager
def _handling(end: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
