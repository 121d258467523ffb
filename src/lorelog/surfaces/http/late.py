"""An extra that is loaded when it is first asked for: what takes a second to import should not delay a server that starts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from anyio import Event, create_task_group, to_thread
from starlette.types import ASGIApp, Receive, Scope, Send

from lorelog.core.errors import LorelogError
from lorelog.surfaces.http.app import Extra

Load = Callable[[], tuple[ASGIApp, Callable[[], AbstractAsyncContextManager[Any]]]]
"""Import and build an application, and what must run around it."""


def late(path: str, load: Load) -> Extra:
    """Return an extra that is loaded by its first request."""
    lazy = _Late(load)
    return Extra(path, lazy, lazy.running)


class _Late:
    def __init__(self, load: Load) -> None:
        self._load = load
        self._app: ASGIApp | None = None
        self._why = ""
        self._wanted: Event | None = None
        self._there: Event | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None and self._wanted is not None and self._there is not None:
            self._wanted.set()
            await self._there.wait()
        if self._app is None:
            raise LorelogError(f"{scope['path']} could not be loaded{self._why}")
        await self._app(scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Stand ready to load it, in a task that also ends it."""
        self._wanted, self._there = Event(), Event()
        over = Event()
        async with create_task_group() as group:
            group.start_soon(self._live, self._wanted, self._there, over)
            yield
            over.set()
            self._wanted.set()

    async def _live(self, wanted: Event, there: Event, over: Event) -> None:
        await wanted.wait()
        if over.is_set():
            return
        try:
            app, running = await to_thread.run_sync(self._load)
            async with running():
                self._app = app
                there.set()
                await over.wait()
        except Exception as error:  # noqa: BLE001  (whoever asks is told; the others are served on)
            self._why = f": {type(error).__name__}"
        finally:
            self._app = None
            there.set()
