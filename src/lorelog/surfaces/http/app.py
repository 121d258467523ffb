"""The HTTP application: its routes, the metrics page, and applications mounted beside it.

Every request passes the guard first. An application that takes a second to import (MCP) is loaded by its first request,
so that it does not delay the start of the server. Metrics are in Prometheus' text format, version 0.0.4.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import cache, partial
from typing import Any

from anyio import Event, create_task_group, to_thread
from msgspec import Struct
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from lorelog.core import VERSION
from lorelog.core.errors import LorelogError
from lorelog.core.options import HttpOptions
from lorelog.operations.dispatch import CallOperation, ClientIdentity
from lorelog.surfaces.http.calls import OperationEndpoints
from lorelog.surfaces.http.errors import (
    HttpRefusalError,
    internal_error_response,
    json_response,
    operation_error_response,
    refusal_response,
    routing_error_response,
)
from lorelog.surfaces.http.guard import RequestGuard
from lorelog.surfaces.http.loop import LoopEndpoints
from lorelog.surfaces.http.openapi import describe_api, list_addresses
from lorelog.surfaces.http.tickets import redeem_ticket

METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_GAUGES = {"answers", "hot_chunks", "hot_bytes"}
"""Cache counters that hold a current value; the others only grow."""
_QUANTILES = (("0.5", "p50_ms"), ("0.9", "p90_ms"), ("0.99", "p99_ms"))


def render_metrics(reply: Mapping[str, Any], version: str) -> str:
    """Return the reply of `memory.metrics` in Prometheus' text format."""
    return "\n".join(_metric_lines(reply, version)) + "\n"


def _metric_lines(reply: Mapping[str, Any], version: str) -> Iterator[str]:
    operations, cache = reply["operations"], reply["cache"]
    yield from _render_metric("build_info", "gauge", "Version of the server.", [({"version": version}, 1)])
    yield from _render_metric(
        "uptime_seconds", "gauge", "Seconds since the process started.", [({}, reply["uptime_s"])]
    )
    yield from _render_metric("resident_memory_bytes", "gauge", "Memory of the process.", [({}, reply["rss_bytes"])])
    counts = [({"op": operation["op"]}, operation["count"]) for operation in operations]
    yield from _render_metric("operations_total", "counter", "Calls of operations.", counts)
    errors = [({"op": operation["op"]}, operation["errors"]) for operation in operations]
    yield from _render_metric("operation_errors_total", "counter", "Failed calls of operations.", errors)
    yield from _render_metric(
        "operation_latency_seconds",
        "gauge",
        "Latency of the last thousand calls of each operation, by quantile.",
        [
            ({"op": operation["op"], "quantile": quantile}, operation[field] / 1000)
            for operation in operations
            for quantile, field in _QUANTILES
        ],
    )
    events = [({"event": name}, value) for name, value in cache.items() if name not in _GAUGES]
    yield from _render_metric("cache_events_total", "counter", "Cache events.", events)
    held = [({"what": name}, value) for name, value in cache.items() if name in _GAUGES]
    yield from _render_metric("cache_held", "gauge", "Entries and bytes in the caches.", held)


def _render_metric(name: str, kind: str, help_text: str, samples: list[tuple[dict[str, str], float]]) -> Iterator[str]:
    yield f"# HELP lorelog_{name} {help_text}"
    yield f"# TYPE lorelog_{name} {kind}"
    for labels, value in samples:
        inner = ",".join(f'{label}="{_escape_label(text)}"' for label, text in labels.items())
        yield f"lorelog_{name}{{{inner}}} {value!r}" if inner else f"lorelog_{name} {value!r}"


def _escape_label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class MountedApp(Struct, frozen=True):
    """Another application that is served beside this one, behind the same guard."""

    path: str
    """The exact path; all methods are passed on."""
    app: ASGIApp
    lifespan: Callable[[], AbstractAsyncContextManager[Any]] | None = None
    """Context of the application, entered before the first request."""


class RawHandler:
    """Wraps an ASGI function, which Starlette would take for a request handler."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


class HttpApp:
    """The application that a server runs."""

    def __init__(self, guarded: ASGIApp, calls: OperationEndpoints) -> None:
        self._guarded = guarded
        self._calls = calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        await self._guarded(scope, receive, send)

    def stop(self) -> None:
        """Cancel long operations; their finished work is kept. May be called from any thread."""
        self._calls.stopping.set()


PageRoutes = Callable[[threading.Event], Sequence[BaseRoute]]
"""Returns the routes of the page, which replace ours; the event is set when the server stops."""


def build_app(
    call: CallOperation,
    options: HttpOptions,
    caller: ClientIdentity,
    mounts: Sequence[MountedApp] = (),
    page: PageRoutes | None = None,
) -> HttpApp:
    """Return the application. Requests that name no project use the directory of `caller`."""
    calls = OperationEndpoints(call, caller)
    pages = () if page is None else page(calls.stopping)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as contexts:
            for mounted in mounts:
                if mounted.lifespan is not None:
                    await contexts.enter_async_context(mounted.lifespan())
            yield

    starlette = Starlette(
        routes=[
            *pages,
            *_routes(calls, options),
            *(Route(mounted.path, RawHandler(mounted.app)) for mounted in mounts),
        ],
        lifespan=lifespan,
        exception_handlers=dict.fromkeys((HTTPException, HttpRefusalError, LorelogError, Exception), _handle_error),
    )
    starlette.router.redirect_slashes = False  # a redirect would echo the request's Host header
    redeem = partial(redeem_ticket, caller.home) if page is not None and caller.home else None
    return HttpApp(RequestGuard(starlette, options, redeem), calls)


def _routes(calls: OperationEndpoints, options: HttpOptions) -> list[BaseRoute]:
    loop = LoopEndpoints(calls, options)
    document = cache(lambda: describe_api(secured=bool(options.token)))

    async def metrics(request: Request) -> Response:
        reply = await calls.run_job(request, lambda call: call("memory.metrics", {}))
        return Response(render_metrics(reply, VERSION), media_type=METRICS_CONTENT_TYPE)

    async def openapi(request: Request) -> Response:
        return json_response(await to_thread.run_sync(document))

    return [
        Route("/", _list_addresses, methods=["GET"]),
        Route("/health", _health, methods=["GET"]),
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


async def _list_addresses(request: Request) -> Response:
    """List the addresses, for a person who opens the server's address."""
    return json_response({"lorelog": VERSION, "addresses": list_addresses()})


async def _health(request: Request) -> Response:
    """Report that the server runs; `memory.health` checks the index."""
    return json_response({"ok": True, "version": VERSION})


async def _handle_error(request: Request, error: Exception) -> Response:
    path = request.url.path
    if isinstance(error, HTTPException):
        return routing_error_response(path, error.status_code, error.detail, error.headers)
    if isinstance(error, HttpRefusalError):
        return refusal_response(path, error)
    return (
        operation_error_response(path, error)
        if isinstance(error, LorelogError)
        else internal_error_response(path, error)
    )


AppLoader = Callable[[], tuple[ASGIApp, Callable[[], AbstractAsyncContextManager[Any]]]]
"""Imports and builds an application; returns it with its lifespan."""


def lazy_app(path: str, load: AppLoader) -> MountedApp:
    """Return an application that is loaded by its first request."""
    lazy = LazyApp(load)
    return MountedApp(path, lazy, lazy.lifespan)


class LazyApp:
    """An application that is loaded by its first request."""

    def __init__(self, load: AppLoader) -> None:
        self._load = load
        self._app: ASGIApp | None = None
        self._failure = ""
        self._requested: Event | None = None
        self._loaded: Event | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None and self._requested is not None and self._loaded is not None:
            self._requested.set()
            await self._loaded.wait()
        if self._app is None:
            raise LorelogError(f"{scope['path']} could not be loaded{self._failure}")
        await self._app(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Run the task that loads the application on request and closes it."""
        self._requested, self._loaded = Event(), Event()
        stopping = Event()
        async with create_task_group() as group:
            group.start_soon(self._run, self._requested, self._loaded, stopping)
            yield
            stopping.set()
            self._requested.set()

    async def _run(self, requested: Event, loaded: Event, stopping: Event) -> None:
        await requested.wait()
        if stopping.is_set():
            return
        try:
            app, lifespan = await to_thread.run_sync(self._load)
            async with lifespan():
                self._app = app
                loaded.set()
                await stopping.wait()
        except Exception as error:
            self._failure = f": {type(error).__name__}"
        finally:
            self._app = None
            loaded.set()
