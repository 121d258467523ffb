"""Retrievers for LangChain and LlamaIndex, run with those libraries where they are installed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.surfaces.conftest import write

from lorelog import AsyncLorelog, Lorelog

FAKE = {"embedding.provider": "fake"}


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
