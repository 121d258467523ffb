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
from functools import cached_property, partial, wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from lorelog.core.errors import UsageError
from lorelog.surfaces.python.client import Lorelog
from lorelog.surfaces.python.values import DaemonMode, PathArgument, PathArguments

if TYPE_CHECKING:
    from lorelog.services.watch.watcher import WatchPass
    from lorelog.surfaces.python import namespaces
    from lorelog.surfaces.python.namespaces import Awaited
    from lorelog.surfaces.python.watch import FileWatch

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
        return await self._in_thread(method, *args, **kwargs)

    return run


def _run_named(memory: Lorelog, name: str, arguments: Mapping[str, Any]) -> Any:
    return memory._caller.run_named(name, arguments)  # noqa: SLF001  (one surface in two forms)


class AsyncLorelog:
    """The memory of a project, for asynchronous programs. Parameters and replies are those of `Lorelog`.

    Cancelling a call stops waiting for it; the work itself ends in its thread, so a write is done whole or not at all.
    `close()` waits for such work.
    """

    def __init__(
        self,
        project: PathArgument | None = None,
        *,
        home: PathArgument | None = None,
        settings: Mapping[str, object] | None = None,
        daemon: DaemonMode | None = None,
    ) -> None:
        self._memory = Lorelog(project, home=home, settings=settings, daemon=daemon)
        self._threads = ThreadPoolExecutor(_MAX_THREADS, "lorelog-async")
        self._closing: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        self._memory.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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

    async def _in_thread(
        self, method: Callable[Concatenate[Lorelog, P], ValueT], *args: P.args, **kwargs: P.kwargs
    ) -> ValueT:
        """Call a method of the `Lorelog` below in a thread, and return its value."""
        if self._closing is not None:
            raise UsageError("this AsyncLorelog is closed", hint="open another one, or keep it open with 'async with'")
        call = partial(contextvars.copy_context().run, partial(method, self._memory, *args, **kwargs))
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

        return await self._in_thread(Lorelog.watch, paths, on_event=report)

    @cached_property
    def task(self) -> namespaces.TaskNamespace[Awaited]:
        """Operations on tasks."""
        from lorelog.surfaces.python.namespaces import TaskNamespace

        return TaskNamespace(self._run_named)

    @cached_property
    def artifact(self) -> namespaces.ArtifactNamespace[Awaited]:
        """Operations on artifacts, which are records."""
        from lorelog.surfaces.python.namespaces import ArtifactNamespace

        return ArtifactNamespace(self._run_named)

    @cached_property
    def context(self) -> namespaces.ContextNamespace[Awaited]:
        """Operations that collect context for an agent."""
        from lorelog.surfaces.python.namespaces import ContextNamespace

        return ContextNamespace(self._run_named)

    @cached_property
    def sync(self) -> namespaces.SyncNamespace[Awaited]:
        """Operations on exchanges with other machines."""
        from lorelog.surfaces.python.namespaces import SyncNamespace

        return SyncNamespace(self._run_named)

    @cached_property
    def backup(self) -> namespaces.BackupNamespace[Awaited]:
        """Operations on backups of the home."""
        from lorelog.surfaces.python.namespaces import BackupNamespace

        return BackupNamespace(self._run_named)

    @cached_property
    def ledger(self) -> namespaces.LedgerNamespace[Awaited]:
        """Operations on the ledger."""
        from lorelog.surfaces.python.namespaces import LedgerNamespace

        return LedgerNamespace(self._run_named)

    @cached_property
    def code(self) -> namespaces.CodeNamespace[Awaited]:
        """Operations on indexed code."""
        from lorelog.surfaces.python.namespaces import CodeNamespace

        return CodeNamespace(self._run_named)

    @cached_property
    def debug(self) -> namespaces.DebugNamespace[Awaited]:
        """Operations on traced calls and errors."""
        from lorelog.surfaces.python.namespaces import DebugNamespace

        return DebugNamespace(self._run_named)

    @cached_property
    def guard(self) -> namespaces.GuardNamespace[Awaited]:
        """Operations on guards, which check agents' tool calls."""
        from lorelog.surfaces.python.namespaces import GuardNamespace

        return GuardNamespace(self._run_named)

    @cached_property
    def delivery(self) -> namespaces.DeliveryNamespace[Awaited]:
        """Operations on the memories that agents were shown."""
        from lorelog.surfaces.python.namespaces import DeliveryNamespace

        return DeliveryNamespace(self._run_named)

    @cached_property
    def settings(self) -> namespaces.SettingsNamespace[Awaited]:
        """Operations on settings files."""
        from lorelog.surfaces.python.namespaces import SettingsNamespace

        return SettingsNamespace(self._run_named)

    async def _run_named(self, name: str, arguments: Mapping[str, Any], /) -> Any:
        return await self._in_thread(_run_named, name, arguments)

    index = awaitable(Lorelog.index)
    roll_back = awaitable(Lorelog.roll_back)
    forget_old_vectors = awaitable(Lorelog.forget_old_vectors)
    forget_roots = awaitable(Lorelog.forget_roots)
    roots = awaitable(Lorelog.roots)
    search = awaitable(Lorelog.search)
    expand = awaitable(Lorelog.expand)
    transcript = awaitable(Lorelog.transcript)
    get = awaitable(Lorelog.get)
    list = awaitable(Lorelog.list)
    add = awaitable(Lorelog.add)
    add_batch = awaitable(Lorelog.add_batch)
    delete = awaitable(Lorelog.delete)
    forget = awaitable(Lorelog.forget)
    forget_verify = awaitable(Lorelog.forget_verify)
    forget_receipts = awaitable(Lorelog.forget_receipts)
    restore = awaitable(Lorelog.restore)
    supersede = awaitable(Lorelog.supersede)
    edit = awaitable(Lorelog.edit)
    set_expiry = awaitable(Lorelog.set_expiry)
    feedback = awaitable(Lorelog.feedback)
    find_near_duplicates = awaitable(Lorelog.find_near_duplicates)
    consolidate_episode = awaitable(Lorelog.consolidate_episode)
    compact = awaitable(Lorelog.compact)
    health = awaitable(Lorelog.health)
    check_store = awaitable(Lorelog.check_store)
    evaluate = awaitable(Lorelog.evaluate)
    recall = awaitable(Lorelog.recall)
    error_hints = awaitable(Lorelog.error_hints)
    capture = awaitable(Lorelog.capture)
    session_status = awaitable(Lorelog.session_status)
    timeline = awaitable(Lorelog.timeline)
    hosts = awaitable(Lorelog.hosts)
    handoff = awaitable(Lorelog.handoff)
    stats = awaitable(Lorelog.stats)
    cost = awaitable(Lorelog.cost)
    growth = awaitable(Lorelog.growth)
    export = awaitable(Lorelog.export)
    reset = awaitable(Lorelog.reset)
    call = awaitable(Lorelog.call)
