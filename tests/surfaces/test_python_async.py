"""`AsyncLorelog`: the methods of `Lorelog` as coroutines."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from tests.surfaces.conftest import write

from lorelog import AsyncLorelog, LorelogError, UsageError

FAKE = {"embedding.provider": "fake"}


def test_methods_are_awaited(tmp_path: Path) -> None:
    """Methods and namespaces return what `Lorelog` returns, several at once; a closed one refuses."""

    async def use() -> None:
        write(tmp_path / "notes" / "a.md", "alpha\n")
        async with AsyncLorelog(tmp_path, settings=FAKE) as memory:
            assert (await memory.index(tmp_path / "notes")).files == 1
            replies = await asyncio.gather(*(memory.search("alpha", k=1) for _ in range(10)))
            assert [[hit.content for hit in reply] for reply in replies] == [["alpha"]] * 10
            task = await memory.task.start("count the otters")
            assert (await memory.task.get(task.task_id)).task.goal == "count the otters"
            assert repr(memory).startswith("AsyncLorelog(project=")
            with pytest.raises(LorelogError, match="nothing"):
                await memory.expand("nothing-like-it")
        for used in (memory.list, memory.task.search, memory.watch):
            with pytest.raises(UsageError, match="closed"):
                await used()

    asyncio.run(use())


def test_close_waits_for_work_whose_caller_is_gone(tmp_path: Path) -> None:
    """A cancelled call ends in its thread, and a cancelled close still closes after it: nothing is half done."""
    began, go_on = threading.Event(), threading.Event()

    def hold(stage: str, done: int, total: int) -> None:
        began.set()
        go_on.wait(60)

    async def use() -> None:
        write(tmp_path / "notes" / "a.md", "alpha\n")
        memory = AsyncLorelog(tmp_path, settings=FAKE)
        run = asyncio.create_task(memory.index(tmp_path / "notes", progress=hold))
        await asyncio.to_thread(began.wait, 60)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        closing = asyncio.create_task(memory.close())
        await asyncio.sleep(0.05)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        go_on.set()
        await memory.close()
        async with AsyncLorelog(tmp_path, settings=FAKE) as other:
            assert [hit.content for hit in await other.search("alpha")] == ["alpha"]

    asyncio.run(use())


def test_a_watch_reports_in_the_event_loop(tmp_path: Path) -> None:
    """`on_event` is called in the loop, where it may use asyncio's own objects."""

    async def use() -> None:
        passes: asyncio.Queue[object] = asyncio.Queue()
        write(tmp_path / "notes" / "a.md", "alpha\n")
        async with AsyncLorelog(tmp_path, settings={**FAKE, "watch.debounce_ms": 50}) as memory:
            watch = await memory.watch(tmp_path / "notes", on_event=passes.put_nowait)
            write(tmp_path / "notes" / "b.md", "beta\n")
            await asyncio.wait_for(passes.get(), 60)
            assert [hit.content for hit in await memory.search("beta", k=1)] == ["beta"]
        assert not watch.running

    asyncio.run(use())
