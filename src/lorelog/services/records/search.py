"""Finds tasks and records by text.

Hits on the record pages are joined with the ledger's tables and filtered exactly. A query is compared with the words of
whole tasks: if none has enough of them, lexical matches may be accidental, and count less.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.ports import group_by
from lorelog.core.query import Filters, Hit, Lane, SupportingRecord, TrustFilter
from lorelog.core.record import CANDIDATE_TRUST, Record, Trust
from lorelog.language.analyser import word_analyser
from lorelog.records.digests import one_line
from lorelog.records.kinds import search_text
from lorelog.records.tables import Task
from lorelog.services.records import record_scope
from lorelog.services.records.pages import meets_trust
from lorelog.services.records.projection import decode_anchor_id, records_folder
from lorelog.services.search.postprocess import growing_limits

_MAX_CACHED = 4096
_STATUS_SYNONYMS = {
    "in_progress": "open unfinished ongoing progress",
    "completed": "completed finished done",
    "failed": "failed failure",
    "blocked": "blocked stuck",
    "cancelled": "cancelled abandoned",
}
"""Common words for each status."""
_STATUS_BONUS = 0.12
"""Bonus of the status that the query names ("which one failed?"): decides between siblings, and no more."""
OPEN_STATUS = "open"
"""Status filter for tasks that are not finished."""
_FETCH_FACTOR = 2
_MIN_FETCHED = 12
_MAX_FETCHED = 10_000
_WIDEN_FACTOR = 4
_OWN_WORDS_SHARE = 0.55
"""Share of query words that one task must contain for lexical matches not to be accidental."""
_MAX_MATCHES = 3
_PAGE_SIZE = 200
_MAX_SNIPPET_CHARS = 240

ResultT = TypeVar("ResultT")
_profiles: dict[tuple[str, Task], TaskProfile] = {}
"""Profiles by the tenant's folder and the state of the task."""


class RecordHit(Struct, frozen=True):
    """A matching record with the part that matches the query, its task's goal and its supporting records."""

    rated: record_scope.RatedRecord
    snippet: str = ""
    score: float = 0.0
    relevance: float = 0.0
    goal: str = ""
    grounding: tuple[SupportingRecord, ...] = ()


class TaskHit(Struct, frozen=True):
    """A matching task with its matching records, best first."""

    task: Task
    matches: tuple[RecordHit, ...]
    score: float = 0.0
    relevance: float = 0.0

    @property
    def trust(self) -> Trust:
        return self.matches[0].rated.trust if self.matches else CANDIDATE_TRUST


class TaskProfile(Struct, frozen=True):
    task: Task
    records: tuple[Record, ...]
    words: frozenset[str]
    """Words of its goal and its records, with the names of datasets, entities and tools."""


def chance_of(query: str, candidates: Sequence[TaskProfile]) -> float:
    """Return how far lexical matches may be accidental, 0 to 1: more, the fewer query words the best task contains.

    So a query in different words than the records is left to semantic search.
    """
    terms = [term.text for term in word_analyser().query_terms(query)]
    contained = max((sum(word in candidate.words for word in terms) for candidate in candidates), default=0)
    return max(0.0, 1.0 - contained / max(1, len(terms)) / _OWN_WORDS_SHARE) if candidates else 0.0


def named_statuses(query: str, statuses: Collection[str]) -> set[str]:
    """Return the statuses that a query names; none if there is only one."""
    words = word_analyser().words
    terms = {term.text for term in word_analyser().query_terms(query)} - {"in"}
    texts = {status: f"{status.replace('_', ' ')} {_STATUS_SYNONYMS.get(status, '')}" for status in statuses}
    return {status for status, text in texts.items() if len(texts) > 1 and not terms.isdisjoint(words(text))}


def find_tasks(
    scope: record_scope.RecordScope, filter_: record_scope.RecordFilter
) -> tuple[list[TaskHit], tuple[str, ...]]:
    """Return the best matching tasks and notes for the reader; without a query, those that changed last."""
    searcher = _RecordSearcher(scope, filter_)
    notes: tuple[str, ...] = ()
    if not filter_.query.strip() or not scope.records.exists():
        tasks = list(islice(searcher.newest_tasks(), filter_.k))
    else:
        # A query in the records' own words needs no embedding, which would take longer than everything else.
        tasks, notes = searcher.search_until_enough(searcher.rank_tasks, scope.search_words)
        if not tasks or searcher.is_by_chance:
            tasks, notes = searcher.search_until_enough(searcher.rank_tasks, scope.search_raw)
    tasks = tasks[: filter_.k]
    rated = iter(_rate_matches(scope, [match for hit in tasks for match in hit.matches]))
    return [replace(hit, matches=tuple(islice(rated, len(hit.matches)))) for hit in tasks], notes


def find_records(
    scope: record_scope.RecordScope, filter_: record_scope.RecordFilter
) -> tuple[list[RecordHit], tuple[str, ...]]:
    """Return the best matching records and notes for the reader; without a query, the newest."""
    searcher = _RecordSearcher(scope, filter_)
    notes: tuple[str, ...] = ()
    if not filter_.query.strip() or not scope.records.exists():
        matches = list(islice(searcher.newest_records(), filter_.k))
    else:
        matches, notes = searcher.search_until_enough(searcher.rank_records, scope.search_raw)
    return to_record_hits(scope, matches[: filter_.k]), notes


def to_record_hits(scope: record_scope.RecordScope, matches: Iterable[RecordHit]) -> list[RecordHit]:
    """Return matches with trust, goal and supporting records."""
    tables = scope.records.tables()
    rated = _rate_matches(scope, matches)
    tasks = tables.tasks_by_ids(match.rated.record.task for match in rated if match.rated.record.task)
    verifier_ids = {id_ for match in rated for id_ in match.rated.trust.verified_by}
    verifiers = {
        verifier.record.id: verifier.grounding
        for verifier in record_scope.rate_records(scope.records, tables.by_ids(verifier_ids))
    }
    hits = list[RecordHit]()
    for match in rated:
        task = tasks.get(match.rated.record.task)
        verified_by = [verifiers[id_] for id_ in match.rated.trust.verified_by if id_ in verifiers]
        hits.append(replace(match, goal=task.goal if task else "", grounding=(match.rated.grounding, *verified_by)))
    return hits


def _rate_matches(scope: record_scope.RecordScope, matches: Iterable[RecordHit]) -> list[RecordHit]:
    """Return matches with their records' trust, loaded for all of them at once."""
    matches = list(matches)
    rated = record_scope.rate_records(scope.records, [match.rated.record for match in matches])
    return [replace(match, rated=record) for match, record in zip(matches, rated, strict=True)]


class _RecordSearcher:
    """One search. Its results are not rated yet."""

    def __init__(self, scope: record_scope.RecordScope, filter_: record_scope.RecordFilter) -> None:
        self._scope = scope
        self._filter = filter_
        self._tables = scope.records.tables()
        self._has_left_out = False
        """Whether a filter removed a match."""
        self.is_by_chance = False
        """Whether lexical matches may be accidental: no task contains enough of the query's words."""

    def search_until_enough(
        self, rank: Callable[[Mapping[str, Hit]], list[ResultT]], search: record_scope.RecordSearch
    ) -> tuple[list[ResultT], tuple[str, ...]]:
        """Return the ranked results, searching with larger limits while filters leave too few."""
        filter_ = self._filter
        options = replace(
            self._scope.options,
            filters=Filters(
                projects=filter_.projects,
                source_prefix=str(records_folder(self._scope.workspace.tenant_folder)),
                since=filter_.since,
                until=filter_.until,
            ),
            token_budget=0,
            min_relevance=0.0,
            # Trust and lifecycle are checked here, against the ledger.
            trust=TrustFilter.ANY,
            include_superseded=True,
            include_expired=True,
        )
        for limit in growing_limits(max(_MIN_FETCHED, _FETCH_FACTOR * filter_.k), _MAX_FETCHED):
            reply = search(filter_.query, replace(options, k=limit))
            best: dict[str, Hit] = {}
            for hit in reply.hits:
                if hit.anchor is not None and hit.anchor.memory:
                    best.setdefault(decode_anchor_id(hit.anchor.memory), hit)
            results = rank(best)
            # If no filter removed anything, further hits would only be worse.
            if len(results) >= filter_.k or len(reply.hits) < limit or not self._has_left_out:
                break
        return results, reply.notes

    def rank_tasks(self, hits: Mapping[str, Hit]) -> list[TaskHit]:
        """Return the tasks that pass the filter, best first. Hits are by record."""
        admitted = (record for record in self._admitted(hits, of_task=True) if record.task)
        by_task = group_by(admitted, lambda record: record.task)
        profiles = [profile for profile in self._load_profiles(by_task) if self._matches_filter(profile)]
        self._has_left_out |= len(profiles) < len(by_task)
        chance = chance_of(self._filter.query, profiles)
        self.is_by_chance = chance > 0.0
        named = named_statuses(self._filter.query, {profile.task.status for profile in profiles})
        ranked = list[TaskHit]()
        for task in (profile.task for profile in profiles):
            matches = _rank_matches([_make_match(record, hits, chance) for record in by_task[task.id]])
            score = matches[0].score + (_STATUS_BONUS if task.status in named else 0.0)
            ranked.append(TaskHit(task, tuple(matches[:_MAX_MATCHES]), score, matches[0].relevance))
        return sorted(ranked, key=lambda hit: -hit.score)

    def rank_records(self, hits: Mapping[str, Hit]) -> list[RecordHit]:
        """Return the records that pass the filter, best first. Hits are by record."""
        admitted = self._admitted(hits)
        profiles = {profile.task.id: profile for profile in self._load_profiles(record.task for record in admitted)}
        chance = chance_of(self._filter.query, list(profiles.values()))
        if self._filter.parent_task:
            parents = {id_: profile.task.parent for id_, profile in profiles.items()}
            of_parent = [record for record in admitted if parents.get(record.task) == self._filter.parent_task]
            self._has_left_out |= len(of_parent) < len(admitted)
            admitted = of_parent
        return _rank_matches([_make_match(record, hits, chance) for record in admitted])

    def newest_tasks(self) -> Iterator[TaskHit]:
        """Yield the tasks that pass the filter, last changed first."""
        limit, seen = _PAGE_SIZE, set[str]()
        while True:
            page = self._tables.tasks(self._filter.projects, limit)
            for profile in self._load_profiles(task.id for task in page if task.id not in seen):
                records = self._filter_records(profile.records, of_task=True) if self._matches_filter(profile) else ()
                if records:
                    yield TaskHit(profile.task, (_newest_match(records[-1]),))
            if len(page) < limit:
                return
            seen.update(task.id for task in page)
            limit *= _WIDEN_FACTOR

    def newest_records(self) -> Iterator[RecordHit]:
        """Yield the records that pass the filter, newest first."""
        query = replace(self._filter.table_query(), limit=_PAGE_SIZE)
        while page := self._tables.find(query):
            yield from map(_newest_match, self._filter_records(page))
            query = replace(query, before=page[-1].seq)

    def _admitted(self, hits: Mapping[str, Hit], *, of_task: bool = False) -> list[Record]:
        """Return the records of hits that pass the filter, in the order of the hits."""
        records = {record.id: record for record in reversed(self._tables.by_ids(hits))}
        found = [records[id_] for id_ in hits if id_ in records]
        admitted = self._filter_records(found, of_task=of_task)
        self._has_left_out |= len(admitted) < len(found)
        return admitted

    def _filter_records(self, records: Sequence[Record], *, of_task: bool = False) -> list[Record]:
        admitted = [record for record in records if self._filter.admits(record, of_task=of_task)]
        if not self._filter.include_superseded and admitted:
            superseded = self._tables.superseded_by([record.id for record in admitted])
            admitted = [record for record in admitted if record.id not in superseded]
        if self._filter.trust is not TrustFilter.ANY and admitted:
            trust = self._scope.records.trust(record.id for record in admitted)
            admitted = [
                record
                for record in admitted
                if record.id in trust and meets_trust(trust[record.id], self._filter.trust)
            ]
        return admitted

    def _load_profiles(self, task_ids: Iterable[str]) -> list[TaskProfile]:
        tenant, ids = str(self._scope.workspace.tenant_folder), list(dict.fromkeys(task_ids))
        tasks = self._tables.tasks_by_ids(ids)
        profiles = list[TaskProfile]()
        for task in (tasks[id_] for id_ in ids if id_ in tasks):
            if (tenant, task) not in _profiles:
                if len(_profiles) >= _MAX_CACHED:
                    _profiles.clear()
                records = tuple(self._tables.where("task", task.id))
                texts = [task.goal, *map(search_text, records)]
                for record in records:
                    texts += record_scope.ref_names(record, "dataset_refs")
                    texts += record_scope.ref_names(record, "entity_refs")
                    texts += map(record.text, ("tool_name", "challenge_id", "goal"))
                words = frozenset(word for text in texts for word in word_analyser().words(text))
                _profiles[tenant, task] = TaskProfile(task, records, words)
            profiles.append(_profiles[tenant, task])
        return profiles

    def _matches_filter(self, profile: TaskProfile) -> bool:
        task = profile.task
        if self._filter.parent_task and task.parent != self._filter.parent_task:
            return False
        is_open = self._filter.status == OPEN_STATUS and not task.finished_at
        return self._filter.admits_task(profile.records, OPEN_STATUS if is_open else task.status)


def _make_match(record: Record, hits: Mapping[str, Hit], chance: float) -> RecordHit:
    """Return a match whose lexical score is reduced by `chance`: lexical scores are relative to the best match."""
    hit = hits[record.id]
    lexical = sum(part.value for part in hit.explanation.parts if part.name == Lane.LEXICAL)
    return RecordHit(
        record_scope.RatedRecord(record, hit.trust), hit.snippet, hit.score - chance * lexical, hit.relevance
    )


def _newest_match(record: Record) -> RecordHit:
    text = next(filter(None, map(record.text, ("summary", "goal", "next_step", "command"))), "")
    return RecordHit(record_scope.RatedRecord(record, CANDIDATE_TRUST), one_line(text, _MAX_SNIPPET_CHARS))


def _rank_matches(matches: Sequence[RecordHit]) -> list[RecordHit]:
    """Return matches, best first, with each verification after the record that it verifies."""
    scores = {match.rated.record.id: match.score for match in matches}
    ranked = []
    for match in matches:
        record = match.rated.record
        verified = scores.get(record.reply_to, match.score) if record.kind == "verification" else match.score
        ranked.append(replace(match, score=min(verified, match.score)))
    return sorted(ranked, key=lambda match: (-match.score, match.rated.record.kind == "verification"))
