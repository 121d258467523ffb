"""`AsyncLorelog`: the methods of `Lorelog` as coroutines.

    async with AsyncLorelog(".") as memory:
        reply = await memory.search("why redis?")

Nothing below the surfaces is asynchronous, so each call runs in a thread.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from lorelog.core.errors import UsageError
from lorelog.surfaces.python.client import Lorelog, MemoryMethods
from lorelog.surfaces.python.methods import Awaited, DaemonMode, PathArgument, PathArguments

if TYPE_CHECKING:
    from lorelog.services.watch.watcher import WatchPass
    from lorelog.surfaces.python.calls import FileWatch

P = ParamSpec("P")
ValueT = TypeVar("ValueT")
_MAX_THREADS = 8
"""Calls that run at the same time; further ones wait."""


def awaitable(
    method: Callable[Concatenate[Lorelog, P], ValueT],
) -> Callable[Concatenate[AsyncLorelog, P], Coroutine[Any, Any, ValueT]]:
    """Return a method of `Lorelog` as a coroutine function of `AsyncLorelog`, with the same parameters and help."""

    @wraps(method)
    async def run(self: AsyncLorelog, /, *args: P.args, **kwargs: P.kwargs) -> ValueT:
        return await self._in_thread(partial(method, self._memory), *args, **kwargs)

    return run


class AsyncLorelog(MemoryMethods[Awaited]):
    """The memory of a project, for asynchronous programs. Parameters and replies are those of `Lorelog`.

    Cancelling a call stops waiting for it; the work itself ends in its thread, so a write is done whole or not at all.
    `close()` waits for such work.
    """

    returns_coroutines = True

    def __init__(
        self,
        project: PathArgument | None = None,
        *,
        home: PathArgument | None = None,
        settings: Mapping[str, object] | None = None,
        daemon: DaemonMode | None = None,
    ) -> None:
        self._memory = Lorelog(project, home=home, settings=settings, daemon=daemon)
        super().__init__(lambda name, fields: self._in_thread(self._memory.run_operation, name, fields))
        self._threads = ThreadPoolExecutor(_MAX_THREADS, "lorelog-async")
        self._closing: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        self._memory.__enter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Async{self._memory!r}"

    async def close(self) -> None:
        """Wait for running calls, then close files and models. May be called twice, and goes on if it is cancelled."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(asyncio.to_thread(self._close))
        await asyncio.shield(self._closing)

    def _close(self) -> None:
        self._threads.shutdown(wait=True)
        self._memory.close()

    async def _in_thread(self, function: Callable[P, ValueT], *args: P.args, **kwargs: P.kwargs) -> ValueT:
        if self._closing is not None:
            raise UsageError("this AsyncLorelog is closed", hint="open another one, or keep it open with 'async with'")
        call = partial(contextvars.copy_context().run, partial(function, *args, **kwargs))
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def watch(
        self, paths: PathArguments = (), *, on_event: Callable[[WatchPass], object] | None = None
    ) -> FileWatch:
        """Index files as they change, until the watch is stopped or this object is closed; see `Lorelog.watch`.

        `on_event` is called in the event loop.
        """
        loop = asyncio.get_running_loop()

        def report(watch_pass: WatchPass) -> None:
            if on_event is not None and not loop.is_closed():
                loop.call_soon_threadsafe(partial(on_event, watch_pass))

        return await self._in_thread(self._memory.watch, paths, on_event=report)

    forget_roots = awaitable(Lorelog.forget_roots)
    call = awaitable(Lorelog.call)
