"""The application: which path leads where. Everything that is served passes the guard first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from lorelog.core.errors import LorelogError
from lorelog.core.options import HttpOptions
from lorelog.core.version import VERSION
from lorelog.operations.dispatch import Caller
from lorelog.surfaces.http.calls import Answer, Calls
from lorelog.surfaces.http.faults import Refusal, broken, failed, json_answer, refused, unrouted
from lorelog.surfaces.http.guard import Guard
from lorelog.surfaces.http.loop import LoopEndpoints
from lorelog.surfaces.http.openapi import describe_api
from lorelog.surfaces.http.prometheus import CONTENT_TYPE, exposition


@dataclass(frozen=True, slots=True)
class Extra:
    """Another application that is served beside ours, behind the same guard."""

    path: str
    """Exactly this path, with every method."""
    app: ASGIApp
    running: Callable[[], AbstractAsyncContextManager[Any]] | None = None
    """What it needs around its life, entered before the first request."""


class _AsItIs:
    """Keeps a function from being taken for one that answers requests."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


class App:
    """What a server runs. `stop` tells the operations under way to come to an end."""

    def __init__(self, guarded: ASGIApp, calls: Calls) -> None:
        self._guarded = guarded
        self._calls = calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        await self._guarded(scope, receive, send)

    def stop(self) -> None:
        """Have long operations end soon; what they did is kept. May be called from any thread."""
        self._calls.stopping.set()


def build_app(answer: Answer, options: HttpOptions, caller: Caller, mounts: Sequence[Extra] = ()) -> App:
    """Return the application over whoever answers; `caller` says where requests stand that name no directory."""
    calls = Calls(answer, caller)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as running:
            for extra in mounts:
                if extra.running is not None:
                    await running.enter_async_context(extra.running())
            yield

    starlette = Starlette(
        routes=[*_routes(calls, options), *(Route(extra.path, _AsItIs(extra.app)) for extra in mounts)],
        lifespan=lifespan,
        exception_handlers=dict.fromkeys((HTTPException, Refusal, LorelogError, Exception), _gone_wrong),
    )
    starlette.router.redirect_slashes = False  # a redirect would repeat what the request said of our name
    return App(Guard(starlette, options), calls)


def _routes(calls: Calls, options: HttpOptions) -> list[BaseRoute]:
    loop = LoopEndpoints(calls, options.max_body_bytes)
    described = cache(lambda: describe_api(secured=bool(options.token)))

    async def metrics(request: Request) -> Response:
        shape = await calls.carry_out(request, lambda ask: ask("memory.metrics", {}))
        return Response(exposition(shape, VERSION), media_type=CONTENT_TYPE)

    async def openapi(request: Request) -> Response:
        return json_answer(await to_thread.run_sync(described))

    return [
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


async def _health(request: Request) -> Response:
    """Say that the server answers; whether the index is well is `memory.health`'s to say."""
    return json_answer({"ok": True, "version": VERSION})


async def _gone_wrong(request: Request, error: Exception) -> Response:
    path = request.url.path
    if isinstance(error, HTTPException):
        return unrouted(path, error.status_code, error.detail, error.headers)
    if isinstance(error, Refusal):
        return refused(path, error)
    return failed(path, error) if isinstance(error, LorelogError) else broken(path, error)
