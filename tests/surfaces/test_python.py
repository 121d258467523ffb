"""The library: one object per project, typed replies, errors as exceptions, coroutines, and adapters for LangChain and LlamaIndex."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any, get_args, get_type_hints

import pytest
from tests.surfaces.conftest import write

import lorelog
from lorelog import AsyncLorelog, Lorelog, LorelogError, UsageError, WatchPass
from lorelog.core import errors
from lorelog.operations.catalogue import all_operations

FAKE = {"embedding.provider": "fake"}


def test_a_closed_memory_is_not_opened_again(tmp_path: Path) -> None:
    """Closing twice does no harm; any method after it raises UsageError, also those of namespaces."""
    memory = Lorelog(tmp_path, settings=FAKE)
    memory.close()
    memory.close()

    for use in (
        memory.stats,
        memory.list,
        memory.task.search,
        memory.watch,
        memory.__enter__,
        lambda: memory.call("list"),
    ):
        with pytest.raises(UsageError, match="is closed"):
            use()


def test_wrong_settings_are_refused_at_once(tmp_path: Path) -> None:
    """A setting that is not there, or a project that is not there, raises before anything is opened."""
    with pytest.raises(LorelogError, match=r"embedding\.providr"):
        Lorelog(project=tmp_path, settings={"embedding.providr": "fake"})
    with pytest.raises(LorelogError, match="nowhere"):
        Lorelog(project=tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("use", "named"),
    [
        (lambda memory: memory.search("x", lane="nope"), "lane"),
        (lambda memory: memory.search("x", since="someday"), "someday"),
        (lambda memory: memory.search("x", typ="decision"), "typ"),
        (lambda memory: memory.search("x", project=".", projects=["."]), "project and projects"),
        (lambda memory: memory.search("x", project=5), "project"),
        (lambda memory: memory.search(b"x"), "query must be text"),
        (lambda memory: memory.index(5), "paths"),
        (lambda memory: memory.index([b"notes"]), "paths must be text"),
        (lambda memory: memory.add("x", tags=5), "tags"),
        (lambda memory: memory.add("x", tags=[5]), "tags"),
        (lambda memory: memory.add(memory.list()), "text"),
        (lambda memory: memory.add_batch(5), "texts"),
        (lambda memory: memory.add_batch([5]), "text"),
        (lambda memory: memory.expand(5), "id must be"),
        (lambda memory: memory.delete(None), "id must be"),
        (lambda memory: memory.transcript([]), "place"),
        (lambda memory: memory.task.progress(memory.stats(), summary="x", next_step="y"), "task_id"),
        (lambda memory: type(memory)(daemon="warm"), "daemon"),
    ],
)
def test_wrong_arguments_are_named(tmp_path: Path, use: Callable[[Any], object], named: str) -> None:
    """A value of the wrong kind raises UsageError with the parameter, and is never taken apart."""
    with Lorelog(tmp_path, settings=FAKE) as memory, pytest.raises(UsageError, match=named):
        use(memory)


def test_one_path_is_indexed_as_one_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A string or a Path is one path: `./notes` indexes that folder and nothing else."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "notes" / "a.md", "alpha\n")
    write(tmp_path / "other" / "b.md", "beta\n")
    with Lorelog(settings=FAKE) as memory:
        assert memory.index("./notes").files == 1
        assert memory.index(tmp_path / "notes").files == 1
        assert [status.path for status in memory.roots()] == [str((tmp_path / "notes").resolve())]
        assert memory.forget_roots("notes") == 1


def test_one_tag_is_one_tag(tmp_path: Path) -> None:
    """A string is one tag or type, in `add`, `add_batch`, `supersede` and in filters."""
    with Lorelog(tmp_path, settings=FAKE) as memory:
        added = memory.add("alpha rests", tags="redis", type="decision")
        memory.add_batch([{"text": "alpha swims", "tags": "redis"}])
        memory.supersede(added, "alpha sleeps", tags="redis")

        for tags in ("redis", ["redis"]):
            assert [memory.chunk.tags for memory in memory.list(tags=tags)] == [("redis",), ("redis",)]


def test_hits_are_accepted_where_an_id_is(tmp_path: Path) -> None:
    """A hit names itself, also as JSON; a reply is the sequence of what it lists."""
    write(tmp_path / "a.md", "# Alpha\n\nalpha\n")
    with Lorelog(tmp_path, settings=FAKE) as memory:
        memory.index(tmp_path / "a.md")
        reply = memory.search("alpha")
        added = memory.supersede(memory.add("beta rests"), "beta sleeps")

        assert [memory.expand(hit).content for hit in reply] == ["# Alpha\n\nalpha"]
        assert (len(reply), reply[0], reply[:1]) == (1, reply.hits[0], reply.hits)
        assert memory.expand(memory.expand(reply[0].to_dict())).id == reply[0].id
        assert memory.feedback("alpha", reply[0], relevant=True).relevance == "relevant"
        assert memory.delete(added).changed
        assert [memory.chunk.text[-5:] for memory in memory.list()] == ["rests", "alpha"]
        assert str(tmp_path / "a.md") in {document.source for document in memory.list(documents=True)}
        assert not memory.search("alpha", types="decision")


def test_days_may_be_dates(tmp_path: Path) -> None:
    """Filters and expiry days accept dates and times."""
    with Lorelog(tmp_path, settings=FAKE) as memory:
        added = memory.add("alpha", expires=date(2999, 1, 1))

        assert len(memory.list(since=datetime(2000, 1, 1, 12, tzinfo=UTC), until=date(2999, 1, 1))) == 1
        assert not memory.list(until=date(2000, 1, 1))
        assert memory.set_expiry(added, expires=date(2998, 1, 1)).expires == "2998-01-01"
        assert memory.set_expiry(added, expires=None).expires == ""


def test_parameters_are_visible_in_help(tmp_path: Path) -> None:
    """Parameters are named and those of an operation described, asynchronous ones alike; repr names project and home."""
    for name, method in inspect.getmembers(Lorelog, inspect.isfunction):
        if not name.startswith("_"):
            signature = inspect.signature(method)
            if not method.__qualname__.startswith("Lorelog."):
                assert [word for word in signature.parameters if f"    {word}: " not in (method.__doc__ or "")] == [
                    "self"
                ], name
            kinds = {parameter.kind for parameter in signature.parameters.values()}
            assert inspect.Parameter.VAR_KEYWORD not in kinds, name
            asynchronous = getattr(AsyncLorelog, name)
            assert inspect.iscoroutinefunction(asynchronous), name
            assert list(inspect.signature(asynchronous).parameters) == list(signature.parameters), name
    with Lorelog(tmp_path, home=tmp_path / "home", settings=FAKE) as memory:
        assert repr(memory) == f"Lorelog(project={str(tmp_path)!r}, home={str(tmp_path / 'home')!r})"


def test_every_value_has_to_dict() -> None:
    """Whatever a method returns, and each part of it, has `to_dict()`."""
    kinds: set[type] = set()
    for operation in all_operations().values():
        _collect(operation.reply, kinds)

    assert len(kinds) > 100
    assert [kind.__name__ for kind in kinds if not hasattr(kind, "to_dict")] == ["FileStamp"]  # size and time of a file


def _collect(kind: Any, kinds: set[type]) -> None:
    for part in get_args(kind):
        _collect(part, kinds)
    fields = getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", ())
    if fields and kind not in kinds:
        kinds.add(kind)
        hints = get_type_hints(kind)
        for name in fields:
            _collect(hints[name], kinds)


def test_errors_are_imported_from_the_package() -> None:
    """Every error class is a name of the package, `dir` lists the public names only, and all of them exist."""
    classes = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}

    assert classes < set(lorelog.__all__)
    assert dir(lorelog) == sorted(lorelog.__all__)
    assert all(getattr(lorelog, name) for name in lorelog.__all__)


def test_a_watch_follows_files_until_it_is_stopped(tmp_path: Path) -> None:
    """A file saved in an empty directory is searchable after a pass; an error of the callback does not end the watch."""
    passes: SimpleQueue[WatchPass] = SimpleQueue()

    def report(watch_pass: WatchPass) -> None:
        passes.put(watch_pass)
        raise ValueError("a bug of the program")

    (tmp_path / "notes").mkdir()
    with Lorelog(tmp_path, settings={**FAKE, "watch.debounce_ms": 50}) as memory:
        with memory.watch(tmp_path / "notes", on_event=report) as watch:
            assert watch.roots == (str(tmp_path / "notes"),)
            for word in ("beta", "gamma"):
                write(tmp_path / "notes" / f"{word}.md", f"{word}\n")
                done = passes.get(timeout=60)
                assert (done.report.changed if done.report else done.error) == 1
                assert done.to_dict()["report"]["changed"] == 1
                assert [hit.content for hit in memory.search(word, k=1)] == [word]
        assert not watch.running
        closed_with = memory.watch()
    assert not closed_with.running


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


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Lorelog]:
    """A memory with a note and a decision."""
    write(tmp_path / "notes" / "a.md", "# Cache\n\nRedis holds prices\n")
    with Lorelog(tmp_path, settings=FAKE) as opened:
        opened.index(tmp_path / "notes")
        opened.add("Redis stays", type="decision")
        yield opened


def test_langchain_retrieves_hits_as_documents(memory: Lorelog, tmp_path: Path) -> None:
    """`invoke` and `ainvoke` return the hits' texts with their places, from either client, and keep to the options."""
    pytest.importorskip("langchain_core", reason="langchain-core is not installed")
    from lorelog.integrations.langchain import LorelogRetriever

    retriever = LorelogRetriever(memory=memory, k=1)
    (document,) = retriever.invoke("redis prices")
    assert document.page_content == "# Cache\n\nRedis holds prices"
    assert (document.metadata["source"], document.metadata["start_line"]) == (str(tmp_path / "notes" / "a.md"), 1)
    assert asyncio.run(retriever.ainvoke("redis prices")) == [document]
    (decision,) = LorelogRetriever(memory=memory, options={"types": ["decision"]}).invoke("redis")
    assert (decision.metadata["type"], "<!--" in decision.page_content) == ("decision", False)

    async def retrieve() -> list[str]:
        async with AsyncLorelog(tmp_path, settings=FAKE) as other:
            found = LorelogRetriever(memory=other, k=1)
            with pytest.raises(TypeError, match="ainvoke"):
                found.invoke("redis")
            return [document.page_content for document in await found.ainvoke("redis prices")]

    assert asyncio.run(retrieve()) == [document.page_content]


def test_llamaindex_retrieves_hits_as_nodes(memory: Lorelog, tmp_path: Path) -> None:
    """`retrieve` and `aretrieve` return the hits' texts with their places and relevance, and keep to the options."""
    pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")
    from lorelog.integrations.llamaindex import LorelogNodeRetriever

    retriever = LorelogNodeRetriever(memory, k=1)
    (found,) = retriever.retrieve("redis prices")
    assert found.node.get_content() == "# Cache\n\nRedis holds prices"
    assert found.node.metadata["source"] == str(tmp_path / "notes" / "a.md")
    assert found.score == memory.search("redis prices", k=1)[0].relevance
    assert [node.node.node_id for node in asyncio.run(retriever.aretrieve("redis prices"))] == [found.node.node_id]
    (decision,) = LorelogNodeRetriever(memory, types="decision").retrieve("redis")
    assert (decision.node.metadata["type"], "<!--" in decision.node.get_content()) == ("decision", False)
