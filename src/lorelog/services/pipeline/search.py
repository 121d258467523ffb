"""The search pipeline: hits, then trust, freshness and code answers, then the token cost or budget."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.options import SearchOptions
from lorelog.core.ports import Store
from lorelog.core.query import TrustFilter
from lorelog.retrieval.cache import CostCache
from lorelog.services.places.workspace import CODE_DATABASE
from lorelog.services.records.pages import RecordPages, restrict_to_records
from lorelog.services.search.postprocess import add_token_costs, search_distinct, with_confidence
from lorelog.services.search.searcher import NOTHING_INDEXED, SEARCH_TURN, Searcher, limit_query

if TYPE_CHECKING:
    from lorelog.core.query import Hit, SearchReply
    from lorelog.services.code.scope import CodeScope


class SearchPipeline(Struct, frozen=True):
    """Dependencies shared by all searches."""

    searcher: Searcher
    records: RecordPages
    store: Store
    code: Callable[[], CodeScope]
    """Opens the code index, for questions and hits about code."""
    costs: CostCache | None = None

    def search(self, query: str, options: SearchOptions) -> SearchReply:
        """Answer a query whose scope is set. Parts that may change without a write to the index come after its cache."""
        with SEARCH_TURN.taken():
            return self._search(query, options)

    def _search(self, query: str, options: SearchOptions) -> SearchReply:
        if options.trust is not TrustFilter.ANY:
            options = restrict_to_records(options, self.records.folder)
        find = partial(self.searcher.search, query)
        if options.one_per_memory:
            reply = search_distinct(partial(self.records.search, find), options)
        else:
            reply = self.records.search(find, options)
        if options.freshness:
            reply = self._with_freshness(reply)
        reply = self._with_code(query, with_confidence(reply))
        if not options.token_budget:
            return add_token_costs(reply, self.store, self.costs)
        from lorelog.services.search.token_budget import pack_hits

        return pack_hits(reply, options.token_budget, self.store)

    def _with_freshness(self, reply: SearchReply) -> SearchReply:
        """Return the reply with the state of the code that hits of this project name."""
        workspace = self.records.workspace
        if not any(hit.project == workspace.project.id and _has_time(hit) for hit in reply.hits):
            return reply
        from lorelog.services.freshness.checker import FreshnessChecker

        tables = self.code().tables if (workspace.cache_folder / CODE_DATABASE).exists() else None
        return FreshnessChecker(workspace, tables).check(reply)

    def _with_code(self, query: str, reply: SearchReply) -> SearchReply:
        """Return the reply with an answer from the code index, if there is one and the query is about code."""
        if not (self.records.workspace.cache_folder / CODE_DATABASE).exists():
            return reply
        from lorelog.core.errors import StoreError
        from lorelog.services.code.questions import answer_question

        try:
            answer = answer_question(limit_query(query), self.code())
        except StoreError as error:
            return replace(reply, notes=(*reply.notes, f"the code index was not searched: {error.message}"))
        if answer is None:
            return reply
        # The code answers, so it does not matter that there are no memories.
        return replace(reply, code=answer, notes=tuple(note for note in reply.notes if note != NOTHING_INDEXED))


def _has_time(hit: Hit) -> bool:
    """Return True if it is known when a hit was written; without that, nothing can have changed since."""
    return bool(hit.date or (hit.anchor and hit.anchor.commit))
