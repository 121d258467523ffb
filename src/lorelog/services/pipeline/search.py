"""The search pipeline: hits of the index, trusted and in force, then everything that changes without a write to the index."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.document import TURN_TYPE, without_anchors
from lorelog.core.options import SearchOptions
from lorelog.core.paths import path_exists
from lorelog.core.query import Hit, TrustFilter
from lorelog.retrieval.snippet import SNIPPET_WIDTH
from lorelog.services.pipeline.scope import ProjectScope
from lorelog.services.places.workspace import CODE_DATABASE
from lorelog.services.records.pages import restrict_to_records
from lorelog.services.search import postprocess
from lorelog.services.search.searcher import NOTHING_INDEXED, SEARCH_TURN, Searcher

if TYPE_CHECKING:
    from lorelog.core.query import SearchReply
    from lorelog.services.code import CodeScope

_INTERRUPTED_FORGET = "a forget was interrupted: its text may still be found; 'lorelog forget --complete' erases it"
_INDEX_IS_NEW = "nothing is indexed: the index is new or was deleted; 'lorelog index' reads the registered paths again"

_MAX_LATER, _MIN_LATER_RELEVANCE, _SURE_RELEVANCE, _MAX_NEAR = 3, 0.07, 0.2, 10
"""What was settled may have been amended later. The amendment is among the first found when the settlement itself is asked for: four of five
of sde-bench with a relevance of .28 to .41, one with .11 and two turns. Sessions about other matters of the same code have less: of 96 issues .07
let one in at 45, .2 at 5. It is also among the first for the question: sessions that end in the same way, with a commit, are not.
"""

_LATE_TURNS, _MIN_ENDING_CHARS = 3, 250
"""How many of a conversation's last turns may be how it ended. Many sessions end with a short one: "commit this", "thanks"."""


class SearchPipeline(Struct, frozen=True):
    """Dependencies shared by all searches."""

    searcher: Searcher
    scope: ProjectScope
    code: Callable[[], CodeScope]
    """Opens the code index, for hits about code."""

    def search(self, query: str, options: SearchOptions) -> SearchReply:
        """Answer a query whose scope is set."""
        with SEARCH_TURN.taken():
            if options.trust is not TrustFilter.ANY:
                options = restrict_to_records(options, self.scope.record_pages.folder)
            record_notes = self.scope.record_pages.catch_up_briefly()
            reply = self._find(query, options)
            hits = self._add_freshness(reply.hits) if options.freshness else reply.hits
            hits = postprocess.add_token_costs(self._add_origins(postprocess.add_confidence(hits)), self.scope.store)
            reply = replace(
                reply, hits=hits, notes=(*reply.notes, *record_notes), nothing_relevant=postprocess.judge_hits(hits)
            )
            if options.token_budget:
                reply = self.pack(query, reply, options, lists_files=True)
            return replace(reply, notes=self._explain(reply, options))

    def _find(self, query: str, options: SearchOptions) -> SearchReply:
        """Return hits in force and of the required trust; search for more as long as too few are."""
        trust = self.scope.record_pages.trust_annotator()
        for limit in postprocess.growing_limits(options.k):
            reply = self.searcher.search(query, replace(options, k=limit + trust.spare_hits))
            hits = trust.annotate(reply.hits)[:limit]
            kept = tuple(hit for hit in hits if trust.is_kept(hit, options))
            if options.one_per_memory:
                kept = postprocess.best_of_each_memory(kept)
            if len(kept) >= options.k or len(hits) < limit:
                break
        return replace(reply, hits=kept[: options.k])

    def _add_freshness(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """Return hits with the state of the code that those of this project name; stale ones rank lower."""
        workspace = self.scope.place
        ours = [hit for hit in hits if hit.project == workspace.project.id]
        # Without the time when a hit was written, nothing can have changed since.
        if not any(hit.date or (hit.anchor and hit.anchor.commit) for hit in ours):
            return hits
        from lorelog.services.freshness.checker import FreshnessChecker

        tables = self.code().tables if path_exists(f"{workspace.cache_folder}/{CODE_DATABASE}") else None
        return FreshnessChecker(workspace, tables).check(hits)

    def _add_origins(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """Return hits with the origin `repository` on those that came with the repository."""
        ownership, store = self.scope.ownership(), self.scope.store
        find = cache(lambda: self.searcher.shown or store.chunks_by_id([hit.id for hit in hits]))  # once, if at all
        anchors = [ownership.shown_anchor(hit, hit.id, store, find) for hit in hits]
        return tuple(
            hit if anchor is hit.anchor else replace(hit, anchor=anchor)
            for hit, anchor in zip(hits, anchors, strict=True)
        )

    def pack(self, query: str, reply: SearchReply, options: SearchOptions, *, lists_files: bool = False) -> SearchReply:
        """Return the reply within the token budget of its options."""
        from lorelog.retrieval.snippet import Snippet, cut_snippet
        from lorelog.services.search.token_budget import pack_hits, with_last_turns

        store, analyser = self.scope.store, self.searcher.analyser
        ownership, lifecycle, terms = self.scope.ownership(), self.scope.lifecycle_index(), analyser.query_terms(query)
        trust = self.scope.record_pages.trust_annotator()

        def cut(text: str, width: int) -> Snippet:
            return cut_snippet(text, terms, analyser, width)

        def find_last(hit: Hit) -> Hit | None:
            turns = replace(options.filters, projects=(hit.project,), types=(TURN_TYPE,))
            for found in store.recent(turns, _LATE_TURNS, session=hit.anchor.session if hit.anchor else ""):
                stored, snippet = ownership.with_shown_anchor(found, store), cut(found.chunk.text, SNIPPET_WIDTH)
                same = {name: getattr(hit, name) for name in ("score", "explanation", "relevance", "confidence")}
                last = postprocess.hit_of(stored, snippet, **same)
                (last,) = trust.annotate((last,))
                # What is hidden or of another origin must not come with what is not.
                is_shown = trust.is_kept(last, options) and not lifecycle.hides(found, options)
                says_more = snippet.matches and len(found.chunk.text) >= _MIN_ENDING_CHARS
                if says_more and is_shown and last.origin == hit.origin:
                    return last
            return None

        hits = with_last_turns(reply.hits, find_last)
        if hits and reply.coverage.with_vectors and (later := self._find_later(query, hits[0], options)):
            later = find_last(later) or later  # first: of two rules, it is the one that holds
            hits = (later, *(hit for hit in hits if hit.id != later.id))
        reply = replace(reply, hits=postprocess.add_token_costs(hits, store))
        return pack_hits(reply, options.token_budget, store, cut, lists_files=lists_files)

    def _find_later(self, query: str, hit: Hit, options: SearchOptions) -> Hit | None:
        """Return what a later conversation says of the matter that this one settled: it may say otherwise."""
        session = hit.anchor.session if hit.anchor is not None and hit.type == TURN_TYPE else ""
        if not session or not hit.date:
            return None
        since = max(hit.date[:10], options.filters.since)
        turns = replace(options.filters, projects=(hit.project,), types=(TURN_TYPE,), since=since)
        options = replace(options, min_relevance=0.0)  # it is shown because of the settlement, which has been found
        settled = self._find(without_anchors(hit.content), replace(options, k=_MAX_LATER, filters=turns))
        turns_of: dict[str, list[Hit]] = {}
        for other in self._add_origins(settled.hits):
            if other.relevance >= _MIN_LATER_RELEVANCE and other.date > hit.date and other.origin == hit.origin:
                turns_of.setdefault(other.anchor.session if other.anchor is not None else session, []).append(other)
        turns_of.pop(session, None)
        sure = (found for found in turns_of.items() if found[1][0].relevance >= _SURE_RELEVANCE or len(found[1]) > 1)
        later = {name: found[-1] for name, found in sure}
        near = self._find(query, replace(options, k=_MAX_NEAR)).hits if later else ()
        of_both = (other for other in near if other.anchor is not None and other.anchor.session in later)
        newest = max(of_both, key=lambda other: other.date, default=None)
        return later[newest.anchor.session] if newest is not None and newest.anchor is not None else None

    def _explain(self, reply: SearchReply, options: SearchOptions) -> tuple[str, ...]:
        """Return the notes of a reply: why nothing was found, or why text is found that should be gone."""
        notes = list(reply.notes)
        if self.scope.has_interrupted_forget():
            notes.append(_INTERRUPTED_FORGET)
        if not reply.hits or len(options.filters.types) + len(options.filters.tags) > 1:
            from lorelog.services.memories.listing import explain_filters

            notes += explain_filters(self.scope.store, options.filters)
        if not reply.hits:
            known = {root.path for root in self.scope.known_roots() if root.exists()}
            if known and known.isdisjoint(document.root for document in self.scope.store.documents()):
                notes = [_INDEX_IS_NEW, *(note for note in notes if note != NOTHING_INDEXED)]
        return tuple(notes)
