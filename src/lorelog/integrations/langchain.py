"""A LangChain retriever over a `Lorelog`. Needs the package langchain-core.

retriever = LorelogRetriever(memory=memory, k=5, options={"types": ["decision"]})
documents = retriever.invoke("why redis?")
"""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field

from lorelog.core.query import Hit, SearchReply
from lorelog.surfaces.python.async_client import AsyncLorelog
from lorelog.surfaces.python.client import Lorelog
from lorelog.surfaces.text import without_comments


class LorelogRetriever(BaseRetriever):  # type: ignore[misc]
    """Returns the hits of `memory.search` as LangChain documents, best first."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    memory: Lorelog | AsyncLorelog
    """The memory to search; an `AsyncLorelog` answers `ainvoke` only."""
    k: int = 5
    options: dict[str, Any] = Field(default_factory=dict)
    """Further keywords of `search`, such as `types` or `min_relevance`."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        if isinstance(self.memory, AsyncLorelog):
            raise TypeError("this retriever has an AsyncLorelog: use ainvoke, or give it a Lorelog")
        return _documents(self.memory.search(query, k=self.k, **self.options))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        if isinstance(self.memory, AsyncLorelog):
            return _documents(await self.memory.search(query, k=self.k, **self.options))
        return _documents(await asyncio.to_thread(self.memory.search, query, k=self.k, **self.options))


def _documents(reply: SearchReply) -> list[Document]:
    return [Document(id=hit.id, page_content=_text(hit), metadata=_metadata(hit)) for hit in reply]


def _text(hit: Hit) -> str:
    """Return the text of a hit without comments: under a token budget the part that fits."""
    return without_comments(hit.content if hit.packed is None else hit.packed.text)


def _metadata(hit: Hit) -> dict[str, Any]:
    fields = hit.to_dict()
    return {name: value for name, value in fields.items() if name not in {"id", "content", "snippet", "matches"}}
