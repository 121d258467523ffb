"""A question and all that belongs to its answer: hits, what they are worth by now, and what they cost to read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from lorelog.core.options import SearchOptions
from lorelog.core.ports import Store
from lorelog.core.query import SearchReply
from lorelog.services.cabinet import CODE
from lorelog.services.code.sight import CodeSight
from lorelog.services.price import price
from lorelog.services.records.grounding import at_least
from lorelog.services.records.paged import Paged
from lorelog.services.search import Searcher


@dataclass(frozen=True, slots=True)
class Asking:
    """What a question is answered with."""

    searcher: Searcher
    paged: Paged
    store: Store
    code: Callable[[], CodeSight]
    """Opens what is known of the code, for questions and hits that are about it."""

    def ask(self, query: str, options: SearchOptions) -> SearchReply:
        """Answer a question whose scope is decided. What may change without a write to the index is looked at last."""
        options = at_least(options, self.paged.folder)
        reply = self.paged.search(partial(self.searcher.search, query), options)
        if options.freshness:
            reply = self._checked(reply)
        reply = self._with_code(query, reply)
        if not options.token_budget:
            return price(reply)
        from lorelog.services.pack import pack

        return pack(reply, options.token_budget, self.store)

    def _checked(self, reply: SearchReply) -> SearchReply:
        """Return the answer with what became of the code that its hits name, where they are of this project."""
        place = self.paged.place
        if not any(hit.project == place.project.id for hit in reply.hits):
            return reply
        from lorelog.services.freshness.checking import Checker

        tables = self.code().tables if (place.tenant_folder / CODE).exists() else None
        return Checker(place, tables).check(reply)

    def _with_code(self, query: str, reply: SearchReply) -> SearchReply:
        """Return the answer with what the code says, where code was read here and the question is about it."""
        if not (self.paged.place.tenant_folder / CODE).exists():
            return reply
        from lorelog.core.errors import StoreError
        from lorelog.services.code.answering import answer_question

        try:
            return replace(reply, code=answer_question(query, self.code()))
        except StoreError as error:
            return replace(reply, notes=(*reply.notes, f"the code was not asked: {error.message}"))
