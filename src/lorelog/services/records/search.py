"""Finds tasks and records by text.

Hits on the record pages are joined with the ledger's tables, filtered exactly, and scored against whole tasks. If
filters leave too few results, the search is repeated with a larger limit.

Similar tasks have the same goal but for one name: that of a service, a dataset or a tool. The record that answers a query
often does not repeat the name, but the task's start does. So a query is compared with the words of the whole task, and
a word weighs more the fewer candidates contain it.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from math import log
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.query import Filters, Hit, Lane, SupportingRecord, TrustFilter
from lorelog.core.record import CANDIDATE_TRUST, Record, Trust
from lorelog.records.digests import one_line
from lorelog.records.kinds import search_text
from lorelog.records.tables import RecordTables, Task
from lorelog.services.records.filters import RecordFilter, ref_names
from lorelog.services.records.projection import decode_anchor_id, records_folder
from lorelog.services.records.record_scope import RatedRecord, RecordScope, RecordSearch, rate_records

if TYPE_CHECKING:
    from lorelog.language.analyser import WordAnalyser


_TOPIC_WEIGHT = 1.0
_MENTION_WEIGHT = 0.6
"""A task often mentions a sibling ("unlike the other service"), so topic words weigh more than mentioned words."""
_MAX_CACHED = 4096
_STATUS_SYNONYMS = {
    "in_progress": "open unfinished ongoing progress",
    "completed": "completed finished done",
    "failed": "failed failure",
    "blocked": "blocked stuck",
    "cancelled": "cancelled abandoned",
}
"""Common words for each status."""


class TaskProfile(Struct, frozen=True):
    """A task with its records and their words."""

    task: Task
    records: tuple[Record, ...]
    topic_words: frozenset[str]
    """Words of the goal, datasets, entities and tools."""
    words: frozenset[str]

    def weight(self, word: str) -> float:
        """Return the weight of a word in this task."""
        if word in self.topic_words:
            return _TOPIC_WEIGHT
        return _MENTION_WEIGHT if word in self.words else 0.0


class TaskProfileCache:
    """Task profiles, kept until the task changes."""

    def __init__(self) -> None:
        self._cache: OrderedDict[tuple[str, str], TaskProfile] = OrderedDict()
        self._lock = Lock()

    def load(self, tables: RecordTables, tenant: str, ids: Iterable[str]) -> dict[str, TaskProfile]:
        """Return the profiles of existing tasks. `tenant` separates the tasks of different tenants."""
        profiles: dict[str, TaskProfile] = {}
        for id_, task in tables.tasks_by_ids(ids).items():
            with self._lock:
                profile = self._cache.get((tenant, id_))
            if profile is None or profile.task != task:
                profile = _build_profile(task, tables.by_task(id_))
                self._cache_profile((tenant, id_), profile)
            profiles[id_] = profile
        return profiles

    def _cache_profile(self, key: tuple[str, str], profile: TaskProfile) -> None:
        with self._lock:
            self._cache[key] = profile
            self._cache.move_to_end(key)
            while len(self._cache) > _MAX_CACHED:
                self._cache.popitem(last=False)


@cache
def task_profiles() -> TaskProfileCache:
    """Return the profile cache of this process."""
    return TaskProfileCache()


@cache
def word_analyser() -> WordAnalyser:
    """Return the analyser that the index uses."""
    from lorelog.language.analyser import WordAnalyser

    return WordAnalyser()


def score_distinction(query: str, candidates: Sequence[TaskProfile]) -> dict[str, float]:
    """Return for each task its share, 0 to 1, of the query words that distinguish the candidates.

    Words that no candidate contains count in the total. So a query in different words than the records is left to
    semantic search.
    """
    terms = [term.text for term in word_analyser().query_terms(query)]
    frequency = Counter(word for candidate in candidates for word in terms if word in candidate.words)
    rarity = {word: log(1.0 + (len(candidates) - frequency[word] + 0.5) / (frequency[word] + 0.5)) for word in terms}
    total = sum(rarity.values()) or 1.0
    return {
        candidate.task.id: sum(rarity[word] * candidate.weight(word) for word in rarity) / total
        for candidate in candidates
    }


def max_word_share(query: str, candidates: Sequence[TaskProfile]) -> float:
    """Return the largest share of the query's words that one task contains, 0 to 1."""
    terms = [term.text for term in word_analyser().query_terms(query)]
    return max(
        (sum(word in candidate.words for word in terms) / len(terms) for candidate in candidates if terms), default=0.0
    )


def match_status_words(query: str, candidates: Sequence[TaskProfile]) -> set[str]:
    """Return the tasks whose status the query names; empty if all candidates have the same status."""
    terms = {term.text for term in word_analyser().query_terms(query)}
    matches = {
        candidate.task.status: terms.intersection(_status_words(candidate.task.status)) for candidate in candidates
    }
    return (
        {candidate.task.id for candidate in candidates if matches[candidate.task.status]} if len(matches) > 1 else set()
    )


@cache
def _status_words(status: str) -> frozenset[str]:
    return frozenset(word_analyser().words(f"{status.replace('_', ' ')} {_STATUS_SYNONYMS.get(status, '')}")) - {"in"}


def _build_profile(task: Task, records: list[Record]) -> TaskProfile:
    words = word_analyser().words
    topic = set(words(task.goal))
    mentioned: set[str] = set()
    for record in records:
        topic.update(words(" ".join(_topic_texts(record))))
        mentioned.update(words(search_text(record)))
    return TaskProfile(task, tuple(records), frozenset(topic), frozenset(topic | mentioned))


def _topic_texts(record: Record) -> tuple[str, ...]:
    return (
        *ref_names(record, "dataset_refs"),
        *ref_names(record, "entity_refs"),
        record.text("tool_name"),
        record.text("challenge_id"),
        record.text("goal"),
    )


OPEN_STATUS = "open"
"""Status filter for tasks that are not finished."""
_FETCH_FACTOR = 2
_MIN_FETCHED = 12
_MAX_FETCHED = 10_000
_WIDEN_FACTOR = 4
_DISTINCTION_WEIGHT = 0.2
"""Weight of the distinction score, relative to the best record's score."""
_OWN_WORDS_SHARE = 0.55
"""Share of query words that one task must contain for lexical matches not to be accidental."""
_STATUS_BONUS = 0.12
"""Bonus of the status that the query names ("which one failed?"): decides between siblings, and no more."""
_EXTRA_RECORD_WEIGHT = 0.05
"""Weight of each further matching record of a task; up to three count."""
_MAX_MATCHES = 3
_PAGE_SIZE = 200
_MAX_SNIPPET_CHARS = 240

ResultT = TypeVar("ResultT")


class RecordMatch(Struct, frozen=True):
    """A matching record, and the part that matches the query."""

    rated: RatedRecord
    snippet: str = ""
    score: float = 0.0
    relevance: float = 0.0


class TaskHit(Struct, frozen=True):
    """A matching task with its matching records, best first."""

    task: Task
    matches: tuple[RecordMatch, ...]
    score: float = 0.0
    relevance: float = 0.0

    @property
    def trust(self) -> Trust:
        """Trust of the best record."""
        return self.matches[0].rated.trust if self.matches else CANDIDATE_TRUST


class RecordHit(Struct, frozen=True):
    """A matching record with its task's goal and its supporting records."""

    match: RecordMatch
    goal: str = ""
    grounding: tuple[SupportingRecord, ...] = ()


class RecordSearchResult(Struct, frozen=True):
    """Matches, best first, and notes for the reader."""

    tasks: tuple[TaskHit, ...] = ()
    records: tuple[RecordHit, ...] = ()
    notes: tuple[str, ...] = ()


class _RecordCandidate(Struct, frozen=True):
    record: Record
    hit: Hit


def find_tasks(scope: RecordScope, filter_: RecordFilter) -> RecordSearchResult:
    """Return the best matching tasks; without a query, those that changed last."""
    if not scope.records.exists():
        return RecordSearchResult()
    searcher = _RecordSearcher(scope, filter_)
    if not filter_.query.strip():
        return RecordSearchResult(tasks=tuple(searcher.newest_tasks()))
    # A query in the records' own words needs no embedding, which would take longer than everything else.
    tasks, notes = (
        searcher.search_until_enough(searcher.rank_tasks, scope.search_words) if scope.search_words else ([], ())
    )
    if not tasks or searcher.is_by_chance:
        tasks, notes = searcher.search_until_enough(searcher.rank_tasks, scope.search_raw or scope.search)
    return RecordSearchResult(tasks=searcher.rate_tasks(tasks[: filter_.k]), notes=notes)


def find_records(scope: RecordScope, filter_: RecordFilter) -> RecordSearchResult:
    """Return the best matching records; without a query, the newest."""
    if not scope.records.exists():
        return RecordSearchResult()
    searcher = _RecordSearcher(scope, filter_)
    if not filter_.query.strip():
        return RecordSearchResult(records=tuple(searcher.to_hits(searcher.newest_records())))
    matches, notes = searcher.search_until_enough(searcher.rank_records, scope.search_raw or scope.search)
    return RecordSearchResult(records=tuple(searcher.to_hits(matches[: filter_.k])), notes=notes)


def to_record_hits(scope: RecordScope, matches: Iterable[RecordMatch]) -> list[RecordHit]:
    """Return matches with trust, goal and supporting records."""
    return list(_RecordSearcher(scope, RecordFilter()).to_hits(matches))


class _RecordSearcher:
    """One search."""

    def __init__(self, scope: RecordScope, filter_: RecordFilter) -> None:
        self._scope = scope
        self._filter = filter_
        self._records = scope.records
        self._tables: RecordTables = scope.records.tables()
        self._has_left_out = False
        """Whether a filter removed a match."""
        self.is_by_chance = False
        """Whether lexical matches may be accidental: no task contains enough of the query's words."""

    def search_until_enough(
        self, rank: Callable[[Sequence[_RecordCandidate]], list[ResultT]], search: RecordSearch
    ) -> tuple[list[ResultT], tuple[str, ...]]:
        """Return the ranked results, searching with larger limits while filters leave too few."""
        filter_ = self._filter
        limit = max(_MIN_FETCHED, _FETCH_FACTOR * filter_.k)
        options = replace(
            self._scope.options,
            k=limit,
            filters=Filters(
                projects=filter_.projects,
                source_prefix=str(records_folder(self._scope.workspace.tenant_folder)),
                since=filter_.since,
                until=filter_.until,
            ),
            token_budget=0,
            min_relevance=0.0,
            now_was=False,
            # Trust and lifecycle are checked here, against the ledger.
            trust=TrustFilter.ANY,
            include_superseded=True,
            include_expired=True,
        )
        while True:
            reply = search(filter_.query, options)
            results = rank(self._join_records(reply.hits))
            # If no filter removed anything, further hits would only be worse.
            is_all = len(reply.hits) < options.k or options.k >= _MAX_FETCHED
            if len(results) >= filter_.k or is_all or not self._has_left_out:
                return results, reply.notes
            options = replace(options, k=min(options.k * _WIDEN_FACTOR, _MAX_FETCHED))

    def rank_tasks(self, candidates: Sequence[_RecordCandidate]) -> list[TaskHit]:
        """Return the tasks of the candidates that pass the filter, best first, still unrated."""
        by_task: dict[str, list[_RecordCandidate]] = {}
        for candidate in self._filter_candidates(candidates, of_task=True):
            if candidate.record.task:
                by_task.setdefault(candidate.record.task, []).append(candidate)
        profiles = [profile for profile in self._load_profiles(by_task) if self._matches_filter(profile)]
        self._has_left_out |= len(profiles) < len(by_task)
        distinction = score_distinction(self._filter.query, profiles)
        named_status = match_status_words(self._filter.query, profiles)
        bonus = {
            id_: _DISTINCTION_WEIGHT * share + (_STATUS_BONUS if id_ in named_status else 0.0)
            for id_, share in distinction.items()
        }
        chance = _chance_share(max_word_share(self._filter.query, profiles))
        self.is_by_chance = chance > 0.0
        hits = [
            _make_task_hit(profile.task, by_task[profile.task.id], bonus[profile.task.id], chance)
            for profile in profiles
        ]
        return sorted(hits, key=lambda hit: -hit.score)

    def rank_records(self, candidates: Sequence[_RecordCandidate]) -> list[RecordMatch]:
        """Return the records that pass the filter, best first, still unrated."""
        admitted = self._filter_candidates(candidates)
        profiles = self._load_profiles(candidate.record.task for candidate in admitted if candidate.record.task)
        distinction = score_distinction(self._filter.query, profiles)
        chance = _chance_share(max_word_share(self._filter.query, profiles)) if profiles else 0.0
        matches = [
            _make_match(
                candidate,
                _adjusted_score(candidate.hit, chance)
                + _DISTINCTION_WEIGHT * distinction.get(candidate.record.task, 0.0),
            )
            for candidate in admitted
        ]
        if self._filter.parent_task:
            parents = {profile.task.id: profile.task.parent for profile in profiles}
            matches = [match for match in matches if parents.get(match.rated.record.task) == self._filter.parent_task]
            self._has_left_out |= len(matches) < len(admitted)
        return _rank_below_verified(matches)

    def to_hits(self, matches: Iterable[RecordMatch]) -> Iterator[RecordHit]:
        """Yield matches with trust, goal and supporting records."""
        rated = self._rate_matches(matches)
        tasks = self._tables.tasks_by_ids(match.rated.record.task for match in rated if match.rated.record.task)
        verifier_ids = {id_ for match in rated for id_ in match.rated.trust.verified_by}
        verifiers = {
            verifier.record.id: verifier.grounding
            for verifier in rate_records(self._records, self._tables.by_ids(verifier_ids))
        }
        for match in rated:
            task = tasks.get(match.rated.record.task)
            verified_by = [verifiers[id_] for id_ in match.rated.trust.verified_by if id_ in verifiers]
            yield RecordHit(match, task.goal if task else "", (match.rated.grounding, *verified_by))

    def rate_tasks(self, hits: Sequence[TaskHit]) -> tuple[TaskHit, ...]:
        """Return the tasks with rated records, loading the trust of all of them at once."""
        rated = iter(self._rate_matches(match for hit in hits for match in hit.matches))
        return tuple(replace(hit, matches=tuple(islice(rated, len(hit.matches)))) for hit in hits)

    def newest_tasks(self) -> Iterator[TaskHit]:
        """Yield the tasks that pass the filter, last changed first."""
        count, limit = 0, _PAGE_SIZE
        seen: set[str] = set()
        while True:
            page = self._tables.tasks(projects=self._filter.projects, limit=limit)
            new = [task.id for task in page if task.id not in seen]
            seen.update(new)
            for profile in self._load_profiles(new):
                last = self._newest_record(profile) if self._matches_filter(profile) else None
                if last is not None:
                    yield TaskHit(
                        profile.task,
                        self._rate_matches([RecordMatch(RatedRecord(last, CANDIDATE_TRUST), _first_text(last))]),
                    )
                    count += 1
                    if count == self._filter.k:
                        return
            if len(page) < limit:
                return
            limit *= _WIDEN_FACTOR

    def newest_records(self) -> Iterator[RecordMatch]:
        """Yield the records that pass the filter, newest first."""
        query = replace(self._filter.table_query(), limit=_PAGE_SIZE)
        count = 0
        while page := self._tables.find(query):
            for record in self._filter_records(page):
                yield RecordMatch(RatedRecord(record, CANDIDATE_TRUST), _first_text(record))
                count += 1
                if count == self._filter.k:
                    return
            query = replace(query, before=page[-1].seq)

    def _join_records(self, hits: Sequence[Hit]) -> list[_RecordCandidate]:
        """Return the records of hits, each once, with its best hit."""
        best: dict[str, Hit] = {}
        for hit in hits:
            if hit.anchor is not None and hit.anchor.memory:
                best.setdefault(decode_anchor_id(hit.anchor.memory), hit)
        records = {record.id: record for record in reversed(self._tables.by_ids(best))}
        return [_RecordCandidate(records[id_], hit) for id_, hit in best.items() if id_ in records]

    def _filter_candidates(
        self, candidates: Sequence[_RecordCandidate], *, of_task: bool = False
    ) -> list[_RecordCandidate]:
        records = [candidate.record for candidate in candidates]
        admitted = {record.id for record in self._filter_records(records, of_task=of_task)}
        self._has_left_out |= len(admitted) < len(candidates)
        return [candidate for candidate in candidates if candidate.record.id in admitted]

    def _filter_records(self, records: Sequence[Record], *, of_task: bool = False) -> list[Record]:
        admitted = [record for record in records if self._filter.admits(record, of_task=of_task)]
        if not self._filter.include_superseded and admitted:
            superseded = self._tables.superseded_by([record.id for record in admitted])
            admitted = [record for record in admitted if record.id not in superseded]
        if self._filter.trust is not TrustFilter.ANY and admitted:
            trust = self._records.trust(record.id for record in admitted)
            admitted = [
                record for record in admitted if record.id in trust and self._filter.admits_trust(trust[record.id])
            ]
        return admitted

    def _load_profiles(self, task_ids: Iterable[str]) -> list[TaskProfile]:
        unique_ids = list(dict.fromkeys(task_ids))
        profiles = task_profiles().load(self._tables, str(self._scope.workspace.tenant_folder), unique_ids)
        return [profiles[id_] for id_ in unique_ids if id_ in profiles]

    def _matches_filter(self, profile: TaskProfile) -> bool:
        if self._filter.parent_task and profile.task.parent != self._filter.parent_task:
            return False
        task = profile.task
        is_open = self._filter.status == OPEN_STATUS and not task.finished_at
        return self._filter.admits_task(profile.records, OPEN_STATUS if is_open else task.status)

    def _newest_record(self, profile: TaskProfile) -> Record | None:
        return next(iter(reversed(self._filter_records(profile.records, of_task=True))), None)

    def _rate_matches(self, matches: Iterable[RecordMatch]) -> tuple[RecordMatch, ...]:
        matches = list(matches)
        rated = rate_records(self._records, [match.rated.record for match in matches])
        return tuple(replace(match, rated=record) for match, record in zip(matches, rated, strict=True))


def _make_task_hit(task: Task, candidates: Sequence[_RecordCandidate], bonus: float, chance: float) -> TaskHit:
    matches = [_make_match(candidate, _adjusted_score(candidate.hit, chance)) for candidate in candidates]
    best, *further = matches = _rank_below_verified(matches)
    score = best.score + _EXTRA_RECORD_WEIGHT * sum(match.score for match in further[:_MAX_MATCHES]) + bonus
    return TaskHit(task, tuple(matches[:_MAX_MATCHES]), score, best.relevance)


def _rank_below_verified(matches: Sequence[RecordMatch]) -> list[RecordMatch]:
    """Return matches, best first, with each verification after the record that it verifies."""
    scores = {match.rated.record.id: match.score for match in matches}
    ranked = []
    for match in matches:
        record = match.rated.record
        verified = scores.get(record.reply_to, match.score) if record.kind == "verification" else match.score
        ranked.append(replace(match, score=verified) if verified < match.score else match)
    return sorted(ranked, key=lambda match: (-match.score, match.rated.record.kind == "verification"))


def _make_match(candidate: _RecordCandidate, score: float) -> RecordMatch:
    hit = candidate.hit
    return RecordMatch(RatedRecord(candidate.record, hit.trust), hit.snippet, score, hit.relevance)


def _chance_share(word_share: float) -> float:
    """Return how far lexical matches may be accidental, 0 to 1: more, the fewer query words the best task contains."""
    return max(0.0, 1.0 - word_share / _OWN_WORDS_SHARE)


def _adjusted_score(hit: Hit, chance: float) -> float:
    """Return a hit's score with its lexical part reduced by `chance`: lexical scores are relative to the best match."""
    return hit.score - chance * sum(part.value for part in hit.explanation.parts if part.name == Lane.LEXICAL)


def _first_text(record: Record) -> str:
    texts = (record.text(name) for name in ("summary", "goal", "next_step", "command"))
    return one_line(next(filter(None, texts), ""), _MAX_SNIPPET_CHARS)
