"""Finding tasks and records by what was said of them.

Words and meaning are searched as for memories, over the pages that are made of records; then what was found is joined with
the ledger's tables, filtered exactly, and read once more against whole tasks. A filter that leaves little makes the search
wider until there is enough or nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from lorelog.core.query import Filters, Grounding, Hit, Lane, Trusted
from lorelog.core.record import CANDIDATE_TRUST, Record, Trust
from lorelog.records.digests import one_line
from lorelog.records.tables import RecordTables, Task
from lorelog.services.records.archive import Archive, Search
from lorelog.services.records.judged import Judged, judged
from lorelog.services.records.page import identity_of
from lorelog.services.records.profiles import Profile, find_spoken, profiles, standing, tell_apart
from lorelog.services.records.projection import records_folder
from lorelog.services.records.wanted import Wanted

OPEN = "open"
"""Asked for as a status: whatever has not ended."""
_FETCHED_A_HIT = 2
_LEAST_FETCHED = 12
_MOST_FETCHED = 10_000
_WIDER = 4
_TELLS = 0.2
"""What having all that tells the candidates apart is worth, beside the best record's score."""
_SPOKEN = 0.55
"""A question of whose words one task has so many is asked in the records' own words."""
_STANDS = 0.12
"""What it is worth to stand as the question says ("which one failed?"): enough between siblings, and for no more."""
_FURTHER = 0.05
"""What each further record of a task that was found is worth, of its own score; three of them count."""
_SHOWN = 3
_PAGE = 200
_MOST_SNIPPET = 240

Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True)
class Match:
    """A record that was found, and the part of it that fits the question."""

    judged: Judged
    snippet: str = ""
    score: float = 0.0
    relevance: float = 0.0


@dataclass(frozen=True, slots=True)
class TaskHit:
    """A task that was found, and the records by which it was, best first."""

    task: Task
    matched: tuple[Match, ...]
    score: float = 0.0
    relevance: float = 0.0

    @property
    def trust(self) -> Trust:
        """What the best of the records is worth."""
        return self.matched[0].judged.trust if self.matched else CANDIDATE_TRUST


@dataclass(frozen=True, slots=True)
class RecordHit:
    """A record that was found."""

    match: Match
    goal: str = ""
    grounding: tuple[Grounding, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, best first, and what a reader should know about it."""

    tasks: tuple[TaskHit, ...] = ()
    records: tuple[RecordHit, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Found:
    record: Record
    hit: Hit


def find_tasks(archive: Archive, wanted: Wanted) -> Finding:
    """Return the tasks that fit best; without a question those that were worked on last."""
    if not archive.book.exists():
        return Finding()
    seeker = _Seeker(archive, wanted)
    if not wanted.query.strip():
        return Finding(tasks=tuple(seeker.newest_tasks()))
    # A question in the records' own words needs no model, and a model takes longer than all the rest.
    tasks, notes = seeker.widened(seeker.tasks, archive.find_words) if archive.find_words else ([], ())
    if not tasks or seeker.is_by_chance:
        tasks, notes = seeker.widened(seeker.tasks, archive.find or archive.search)
    return Finding(tasks=seeker.judged_tasks(tasks[: wanted.k]), notes=notes)


def find_records(archive: Archive, wanted: Wanted) -> Finding:
    """Return the records that fit best; without a question the newest."""
    if not archive.book.exists():
        return Finding()
    seeker = _Seeker(archive, wanted)
    if not wanted.query.strip():
        return Finding(records=tuple(seeker.as_hits(seeker.newest_records())))
    matches, notes = seeker.widened(seeker.records, archive.find or archive.search)
    return Finding(records=tuple(seeker.as_hits(matches[: wanted.k])), notes=notes)


def shown_records(archive: Archive, matches: Iterable[Match]) -> list[RecordHit]:
    """Return records with what they are worth, what they belong to, and who speaks for them."""
    return list(_Seeker(archive, Wanted()).as_hits(matches))


class _Seeker:
    """One search."""

    def __init__(self, archive: Archive, wanted: Wanted) -> None:
        self._archive = archive
        self._wanted = wanted
        self._book = archive.book
        self._tables: RecordTables = archive.book.tables()
        self._has_left_out = False
        """Whether a condition kept something away that was found."""
        self.is_by_chance = False
        """Whether the words that fit may do so by chance: no task has enough of the question."""

    def widened(
        self, make: Callable[[Sequence[_Found]], list[Thing]], search: Search
    ) -> tuple[list[Thing], tuple[str, ...]]:
        """Return what is made of the records found: of more of them, as long as that is too little."""
        wanted = self._wanted
        most = max(_LEAST_FETCHED, _FETCHED_A_HIT * wanted.k)
        options = replace(
            self._archive.options,
            k=most,
            filters=Filters(
                projects=wanted.projects,
                source_prefix=str(records_folder(self._archive.place.tenant_folder)),
                since=wanted.since,
                until=wanted.until,
            ),
            token_budget=0,
            min_relevance=0.0,
            # All that is decided here, from the ledger.
            trust=Trusted.ANY,
            include_superseded=True,
            include_expired=True,
        )
        while True:
            reply = search(wanted.query, options)
            made = make(self._joined(reply.hits))
            # Where no condition left anything out, what comes behind all this is no answer.
            is_all = len(reply.hits) < options.k or options.k >= _MOST_FETCHED
            if len(made) >= wanted.k or is_all or not self._has_left_out:
                return made, reply.notes
            options = replace(options, k=min(options.k * _WIDER, _MOST_FETCHED))

    def tasks(self, found: Sequence[_Found]) -> list[TaskHit]:
        """Return the tasks of what was found that are wanted, best first; what their records are worth is not known yet."""
        by_task: dict[str, list[_Found]] = {}
        for one in self._admitted(found, of_task=True):
            if one.record.task:
                by_task.setdefault(one.record.task, []).append(one)
        candidates = [one for one in self._profiles(by_task) if self._is_wanted(one)]
        self._has_left_out |= len(candidates) < len(by_task)
        told = tell_apart(self._wanted.query, candidates)
        stand = standing(self._wanted.query, candidates)
        more = {name: _TELLS * share + (_STANDS if name in stand else 0.0) for name, share in told.items()}
        chance = _chance(find_spoken(self._wanted.query, candidates))
        self.is_by_chance = chance > 0.0
        hits = [_task_hit(one.task, by_task[one.task.id], more[one.task.id], chance) for one in candidates]
        return sorted(hits, key=lambda one: -one.score)

    def records(self, found: Sequence[_Found]) -> list[Match]:
        """Return the records that are wanted, best first; what they are worth is not known yet."""
        admitted = self._admitted(found)
        candidates = self._profiles(one.record.task for one in admitted if one.record.task)
        told = tell_apart(self._wanted.query, candidates)
        chance = _chance(find_spoken(self._wanted.query, candidates)) if candidates else 0.0
        matches = [_match(one, _score(one.hit, chance) + _TELLS * told.get(one.record.task, 0.0)) for one in admitted]
        if self._wanted.parent_task:
            parents = {one.task.id: one.task.parent for one in candidates}
            matches = [one for one in matches if parents.get(one.judged.record.task) == self._wanted.parent_task]
            self._has_left_out |= len(matches) < len(admitted)
        return sorted(matches, key=lambda one: -one.score)

    def as_hits(self, matches: Iterable[Match]) -> Iterator[RecordHit]:
        """Yield records with what they are worth, what they belong to, and who speaks for them."""
        some = self._judged(matches)
        goals = self._tables.tasks_of(one.judged.record.task for one in some if one.judged.record.task)
        speakers = {name for one in some for name in one.judged.trust.verified_by}
        others = {one.record.id: one.grounding for one in judged(self._book, self._tables.of_ids(speakers))}
        for one in some:
            task = goals.get(one.judged.record.task)
            by = [others[name] for name in one.judged.trust.verified_by if name in others]
            yield RecordHit(one, task.goal if task else "", (one.judged.grounding, *by))

    def judged_tasks(self, hits: Sequence[TaskHit]) -> tuple[TaskHit, ...]:
        """Return tasks with what the records are worth that they were found by; one question answers it for all."""
        known = iter(self._judged(match for hit in hits for match in hit.matched))
        return tuple(replace(hit, matched=tuple(islice(known, len(hit.matched)))) for hit in hits)

    def newest_tasks(self) -> Iterator[TaskHit]:
        """Yield the wanted tasks that were worked on last."""
        count, most = 0, _PAGE
        seen: set[str] = set()
        while True:
            page = self._tables.tasks(projects=self._wanted.projects, most=most)
            new = [one for one in page if one.id not in seen]
            seen.update(one.id for one in new)
            for profile in self._profiles(one.id for one in new):
                last = self._newest_of(profile) if self._is_wanted(profile) else None
                if last is not None:
                    yield TaskHit(profile.task, self._judged([Match(Judged(last, CANDIDATE_TRUST), _said(last))]))
                    count += 1
                    if count == self._wanted.k:
                        return
            if len(page) < most:
                return
            most *= _WIDER

    def newest_records(self) -> Iterator[Match]:
        """Yield the newest of the wanted records."""
        asked = replace(self._wanted.asked(), most=_PAGE)
        count = 0
        while page := self._tables.find(asked):
            for one in self._fitting(page):
                yield Match(Judged(one, CANDIDATE_TRUST), _said(one))
                count += 1
                if count == self._wanted.k:
                    return
            asked = replace(asked, before=page[-1].seq)

    def _joined(self, hits: Sequence[Hit]) -> list[_Found]:
        """Return the records of hits, each once, by the best of its parts."""
        best: dict[str, Hit] = {}
        for hit in hits:
            if hit.anchor is not None and hit.anchor.memory:
                best.setdefault(identity_of(hit.anchor.memory), hit)
        known = {one.id: one for one in reversed(self._tables.of_ids(best))}
        return [_Found(known[name], hit) for name, hit in best.items() if name in known]

    def _admitted(self, found: Sequence[_Found], *, of_task: bool = False) -> list[_Found]:
        wanted = {one.id for one in self._fitting([one.record for one in found], of_task=of_task)}
        self._has_left_out |= len(wanted) < len(found)
        return [one for one in found if one.record.id in wanted]

    def _fitting(self, records: Sequence[Record], *, of_task: bool = False) -> list[Record]:
        fits = [one for one in records if self._wanted.admits(one, of_task=of_task)]
        if not self._wanted.include_superseded and fits:
            gone = self._tables.superseded([one.id for one in fits])
            fits = [one for one in fits if one.id not in gone]
        if self._wanted.trust is not Trusted.ANY and fits:
            worth = self._book.trust(one.id for one in fits)
            fits = [one for one in fits if one.id in worth and self._wanted.admits_trust(worth[one.id])]
        return fits

    def _profiles(self, tasks: Iterable[str]) -> list[Profile]:
        wanted = list(dict.fromkeys(tasks))
        found = profiles().of(self._tables, str(self._archive.place.tenant_folder), wanted)
        return [found[one] for one in wanted if one in found]

    def _is_wanted(self, profile: Profile) -> bool:
        if self._wanted.parent_task and profile.task.parent != self._wanted.parent_task:
            return False
        task = profile.task
        is_open = self._wanted.status == OPEN and not task.finished_at
        return self._wanted.admits_task(profile.records, OPEN if is_open else task.status)

    def _newest_of(self, profile: Profile) -> Record | None:
        return next(iter(reversed(self._fitting(profile.records, of_task=True))), None)

    def _judged(self, matches: Iterable[Match]) -> tuple[Match, ...]:
        some = list(matches)
        worth = judged(self._book, [one.judged.record for one in some])
        return tuple(replace(one, judged=known) for one, known in zip(some, worth, strict=True))


def _task_hit(task: Task, found: Sequence[_Found], more: float, chance: float) -> TaskHit:
    matched = sorted((_match(one, _score(one.hit, chance)) for one in found), key=lambda one: -one.score)
    best, *further = matched
    score = best.score + _FURTHER * sum(one.score for one in further[:_SHOWN]) + more
    return TaskHit(task, tuple(matched[:_SHOWN]), score, best.relevance)


def _match(found: _Found, score: float) -> Match:
    return Match(Judged(found.record, found.hit.trust), found.hit.snippet, score, found.hit.relevance)


def _chance(spoken: float) -> float:
    """Return how far the words that fit may do so by chance, 0 to 1: the less of the question even the best task has."""
    return max(0.0, 1.0 - spoken / _SPOKEN)


def _score(hit: Hit, chance: float) -> float:
    """Return a record's score without what its words may have by chance: the best words of any count in full, few or many."""
    return hit.score - chance * sum(part.value for part in hit.explanation.parts if part.name == Lane.LEXICAL)


def _said(record: Record) -> str:
    """Return what a record says first."""
    text = next((said for name in ("summary", "goal", "next_step", "command") if (said := record.text(name))), "")
    return one_line(text, _MOST_SNIPPET)
