"""A LlamaIndex retriever over a `Lorelog`. Needs the package llama-index-core.

retriever = LorelogNodeRetriever(memory, k=5, types=["decision"])
nodes = retriever.retrieve("why redis?")
"""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from lorelog.core.query import SearchReply
from lorelog.surfaces.python.async_client import AsyncLorelog
from lorelog.surfaces.python.client import Lorelog
from lorelog.surfaces.text import without_comments


class LorelogNodeRetriever(BaseRetriever):  # type: ignore[misc]
    """Returns the hits of `memory.search` as LlamaIndex nodes, best first. A node's score is the hit's relevance."""

    def __init__(self, memory: Lorelog | AsyncLorelog, *, k: int = 5, **options: Any) -> None:
        """Take the memory to search, the number of hits, and further keywords of `search`."""
        self._memory, self._k, self._options = memory, k, options
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if isinstance(self._memory, AsyncLorelog):
            raise TypeError("this retriever has an AsyncLorelog: use aretrieve, or give it a Lorelog")
        return _nodes(self._memory.search(query_bundle.query_str, k=self._k, **self._options))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        query = query_bundle.query_str
        if isinstance(self._memory, AsyncLorelog):
            return _nodes(await self._memory.search(query, k=self._k, **self._options))
        return _nodes(await asyncio.to_thread(self._memory.search, query, k=self._k, **self._options))


def _nodes(reply: SearchReply) -> list[NodeWithScore]:
    nodes = []
    for hit in reply:
        fields = hit.to_dict()
        metadata = {name: value for name, value in fields.items() if isinstance(value, str | int | float)}
        text = without_comments(hit.content if hit.packed is None else hit.packed.text)
        for name in ("id", "content", "snippet"):
            metadata.pop(name, None)
        # A model reads the text; embeddings are ours. The place is enough for both.
        hidden = [name for name in metadata if name not in {"source", "heading", "date"}]
        node = TextNode(
            id_=hit.id,
            text=text,
            metadata=metadata,
            excluded_llm_metadata_keys=hidden,
            excluded_embed_metadata_keys=list(metadata),
        )
        nodes.append(NodeWithScore(node=node, score=hit.relevance))
    return nodes
