"""Finds memories for a task, suggests agents for it, and lists the subsystems of a project with their files.

Memories are hot ones, then search hits among texts written to be read again. A search over everything also finds
chatter. As in memd, only documents, research, decisions, plans and summaries count, texts with a `ctx:` tag, and
records.

Agents are suggested if memories name them for the task, or if they finished similar tasks. The weights are memd's. The
best of an agent's memories counts, not their sum: otherwise the agent with the most memories would be suggested for
everything. Finished tasks come from the records and are added to it.

A memory names its subsystem and files with tags, `ctx:subsystem:billing` and `ctx:file:src/billing/tax.py`; a record with an entity of type
`subsystem`, its provenance and its outputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches

from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.core.document import ARCHIVE_TYPE, StoredChunk
from lorelog.core.memory import ListReply
from lorelog.core.paths import is_below
from lorelog.core.ports import Store
from lorelog.core.query import Explanation, Filters, Hit, ScorePart
from lorelog.core.record import CANDIDATE_TRUST, UNTRUSTED_ORIGINS, Record
from lorelog.core.serializable import ReplyItems, Serializable
from lorelog.light.wildcard import matches_path
from lorelog.records.digests import content_words
from lorelog.records.tables import RecordQuery
from lorelog.services.records.projection import records_folder
from lorelog.services.records.record_scope import RecordScope
from lorelog.services.search.postprocess import add_token_costs, hit_of

HOT_TAG = "ctx:tier:hot"
SUBSYSTEM_TAG, FILE_TAG, TRIGGER_TAG, AGENT_TAG = "ctx:subsystem:", "ctx:file:", "ctx:trigger:", "ctx:agent:"
TAG_PREFIX = "ctx:"
"""Prefix of the tags that control how a memory is used; the names are memd's."""
_EXTRA_FETCHED = 50
"""Additional memories fetched, because those from records are skipped."""


class ContextScope(Struct, frozen=True):
    """Dependencies of the context operations."""

    store: Store
    list_memories: Callable[..., ListReply]
    """Engine.list: memories, newest first, without superseded and expired ones."""
    record_scope: RecordScope
    count_tokens: Callable[[str], int]
    """Counts with the built-in tokenizer; may raise ModelUnavailable."""
    projects: tuple[str, ...] | None
    """Visible projects; None for all."""

    @property
    def filters(self) -> Filters:
        """Filter for the visible projects."""
        return Filters(projects=self.projects)

    def newest(self, limit: int, *tags: str) -> list[StoredChunk]:
        """Return memories with all of these tags, newest first, without records."""
        memories = self._list_matching(replace(self.filters, tags=tags), limit)
        records = str(records_folder(self.record_scope.workspace.tenant_folder))
        return [memory for memory in memories if not is_below(memory.chunk.source, records)][:limit]

    def newest_journal_entries(self, limit: int) -> list[StoredChunk]:
        """Return the entries of the project's and the global journals, newest first. Records would mostly be newer."""
        workspace = self.record_scope.workspace
        entries = [
            entry
            for journals in (workspace.journals, workspace.global_journals)
            for entry in self._list_matching(replace(self.filters, source_prefix=str(journals)), limit)
        ]
        return sorted(entries, key=lambda entry: (entry.chunk.date, entry.chunk.start_line), reverse=True)[:limit]

    def _list_matching(self, filters: Filters, limit: int) -> list[StoredChunk]:
        memories = self.list_memories(filters, limit=limit + _EXTRA_FETCHED, all_projects=True).memories
        return [memory for memory in memories if memory.chunk.type != ARCHIVE_TYPE]


def tag_values(tags: Iterable[str], prefix: str) -> list[str]:
    """Return the rest of the tags with a prefix, in order, without duplicates."""
    return list(dict.fromkeys(tag[len(prefix) :] for tag in tags if tag.startswith(prefix) and len(tag) > len(prefix)))


BASE_SCORE, KEYWORD_SCORE, HOT_SCORE, SUBSYSTEM_SCORE, TRIGGER_SCORE, FILE_SCORE = 0.1, 0.03, 0.05, 0.15, 0.6, 0.2
FINISHED_SCORE, MAX_FINISHED_SCORE = 0.15, 0.45
"""For each similar task that an agent has finished, and the maximum for all of them."""
_MIN_SHARED_WORDS = 2
"""Words that two tasks must share to be similar."""
_MAX_AGENTS, _MAX_MEMORIES, _MAX_TASKS, _MAX_TASK_REASONS = 100, 100, 300, 3
_DONE_STATUSES = ("completed", "success")


class AgentSuggestion(Serializable, Struct, frozen=True):
    """An agent, its score, and the reasons."""

    agent_name: str
    score: float
    reasons: tuple[str, ...]
    matched_triggers: tuple[str, ...]
    """Patterns that match a changed file."""


class _AgentScore(Struct):
    score: float = 0.0
    reasons: list[str] = field(default_factory=list)
    triggers: list[str] = field(default_factory=list)
    finished_score: float = 0.0
    task_reasons: list[str] = field(default_factory=list)


def suggest_agents(
    scope: ContextScope, task: str, changed_files: Sequence[str] = (), k: int = 3
) -> tuple[list[AgentSuggestion], int]:
    """Return the agents that fit a task best, and how many were considered."""
    words = content_words(task)
    cases: dict[str, _AgentScore] = {}
    for tag in list(scope.store.tags(AGENT_TAG, scope.filters))[:_MAX_AGENTS]:
        name = tag[len(AGENT_TAG) :]
        for memory in scope.newest(_MAX_MEMORIES, tag) if name else ():
            case = _score_memory(memory, words, changed_files)
            if case.score > cases.get(name, _AgentScore()).score:
                cases[name] = case
    _add_finished_tasks(scope, words, cases)
    suggestions = [
        AgentSuggestion(
            name,
            round(case.score + case.finished_score, 4),
            (*case.reasons, *case.task_reasons[:_MAX_TASK_REASONS]),
            tuple(case.triggers),
        )
        for name, case in cases.items()
    ]
    return sorted(suggestions, key=lambda suggestion: (-suggestion.score, suggestion.agent_name))[:k], len(suggestions)


def _score_memory(memory: StoredChunk, words: frozenset[str], files: Sequence[str]) -> _AgentScore:
    chunk = memory.chunk
    case = _AgentScore(BASE_SCORE, [f"memory {memory.id} names it"])
    shared = sorted(words & content_words(chunk.text))
    if shared:
        case.score += KEYWORD_SCORE * len(shared)
        case.reasons.append(f"shares words with the task: {', '.join(shared[:8])}")
    if HOT_TAG in chunk.tags:
        case.score += HOT_SCORE
        case.reasons.append("marked as hot")
    directories = {part.casefold() for path in files for part in path.split("/")[:-1]}
    named_keys = {key: content_words(key) for key in tag_values(chunk.tags, SUBSYSTEM_TAG)}
    subsystems = [key for key, own in named_keys.items() if (own and own <= words) or key.casefold() in directories]
    if subsystems:
        case.score += SUBSYSTEM_SCORE
        case.reasons.append(f"belongs to the subsystem {', '.join(subsystems)}")
    paths = [path.removeprefix("./") for path in files]
    case.triggers = [
        glob for glob in tag_values(chunk.tags, TRIGGER_TAG) if any(matches_path(glob, path) for path in paths)
    ]
    if case.triggers:
        case.score += TRIGGER_SCORE
        case.reasons.append(f"a changed file matches {', '.join(case.triggers)}")
    named = [file for file in tag_values(chunk.tags, FILE_TAG) if file.removeprefix("./") in paths]
    if named:
        case.score += FILE_SCORE
        case.reasons.append(f"names the changed file {', '.join(named)}")
    return case


def _add_finished_tasks(scope: ContextScope, words: frozenset[str], cases: dict[str, _AgentScore]) -> None:
    """Add the finished tasks that share enough words with this one to the scores of the agents that finished them."""
    if not words or not scope.record_scope.records.exists():
        return
    tables = scope.record_scope.records.tables()
    min_shared = min(_MIN_SHARED_WORDS, len(words))
    for record in tables.find(RecordQuery(kinds=("task_finish",), projects=scope.projects, limit=_MAX_TASKS)):
        task = tables.task(record.task)
        goal = record.text("goal") or (task.goal if task is not None else "")
        shared = words & content_words(f"{goal} {record.text('summary')}")
        if record.status not in _DONE_STATUSES or not record.agent.strip() or len(shared) < min_shared:
            continue
        case = cases.setdefault(record.agent.strip(), _AgentScore())
        case.finished_score = min(case.finished_score + FINISHED_SCORE, MAX_FINISHED_SCORE)
        case.task_reasons.append(f"finished the similar task {record.task} (shares: {', '.join(sorted(shared)[:8])})")


CONTEXT_TYPES = ("doc", "research", "decision", "plan", "summary")
MAX_HOT = 5
_WIDE_FACTOR = 4
"""Factor for a search whose hits mostly do not count."""
_MIN_FETCHED = 40
_SNIPPET_CHARS = 300


class RelevantContext(ReplyItems[Hit], Struct, frozen=True):
    """Context of a task: hot memories first, then the best hits."""

    results: tuple[Hit, ...]
    hot_included: int
    notes: tuple[str, ...]


def hot_hits(scope: ContextScope, limit: int) -> tuple[Hit, ...]:
    """Return the hot memories, newest first."""
    hits = tuple(_hit_from_chunk(memory) for memory in scope.newest(limit, HOT_TAG))
    return add_token_costs(hits, scope.store)


def newest_hits(scope: ContextScope, limit: int) -> tuple[Hit, ...]:
    """Return the newest journal entries, or the newest memories if there are none."""
    return tuple(_hit_from_chunk(entry) for entry in scope.newest_journal_entries(limit) or scope.newest(limit))


def find_relevant(
    scope: ContextScope, task: str, k: int, keys: Sequence[str] = (), *, include_hot: bool = True
) -> RelevantContext:
    """Return hits for a task without duplicates, hot ones first."""
    hot = hot_hits(scope, min(k, MAX_HOT)) if include_hot else ()
    notes: list[str] = []
    hits: list[Hit] = []
    narrow = [replace(scope.filters, tags=(SUBSYSTEM_TAG + key,)) for key in keys]
    narrow = narrow or [replace(scope.filters, types=CONTEXT_TYPES)]
    for filters, limit in [*((each, k) for each in narrow), (scope.filters, max(_WIDE_FACTOR * k, _MIN_FETCHED))]:
        options = replace(scope.record_scope.options, k=limit, filters=filters, token_budget=0, min_relevance=0.0)
        reply = scope.record_scope.search(task, options)
        notes += [note for note in reply.notes if note not in notes]
        hits += [hit for hit in reply.hits if filters.types or filters.tags or _is_eligible(scope, hit, keys)]
    hits.sort(key=lambda hit: -hit.relevance)
    return RelevantContext(tuple(dedupe_hits([*hot, *hits])[:k]), len(hot), tuple(notes))


def dedupe_hits(hits: Iterable[Hit]) -> list[Hit]:
    """Return hits without repeated ids, texts and records; the first of each is kept."""
    seen: set[str] = set()
    kept = []
    for hit in hits:
        names = {hit.id, f"{hit.project}\n{hit.content_hash}", *(record.record for record in hit.grounding[:1])}
        if not names & seen:
            kept.append(hit)
        seen |= names
    return kept


def _is_eligible(scope: ContextScope, hit: Hit, keys: Sequence[str]) -> bool:
    if not keys:
        return bool(hit.grounding) or any(tag.startswith(TAG_PREFIX) for tag in hit.tags)
    if not hit.grounding or not scope.record_scope.records.exists():
        return False
    record = scope.record_scope.records.tables().get(hit.grounding[0].record)
    return record is not None and not set(keys).isdisjoint(subsystems_of(record))


def _hit_from_chunk(stored: StoredChunk) -> Hit:
    chunk = stored.chunk
    foreign = chunk.anchor is not None and chunk.anchor.origin in UNTRUSTED_ORIGINS
    return hit_of(
        stored,
        score=1.0,
        snippet=" ".join(chunk.text.split())[:_SNIPPET_CHARS],
        matches=(),
        explanation=Explanation((ScorePart("hot", 1.0, "marked as always worth knowing"),)),
        relevance=1.0,
        trust=replace(CANDIDATE_TRUST, tainted=foreign),
    )


# -- subsystems --------------------------------------------------------------------------------------------------------

SUBSYSTEM_ENTITY = "subsystem"
"""Entity type of a subsystem."""
_MAX_ENTITIES = 10_000
_MAX_RECORDS = 200
"""Newest records per subsystem: listing fifty subsystems must not read the whole ledger."""


class Subsystem(Serializable, Struct, frozen=True):
    """A subsystem of a project, and the number of its chunks, records and files."""

    key: str
    chunk_count: int
    record_count: int
    file_count: int


class SubsystemFiles(Serializable, Struct, frozen=True):
    """The files of a subsystem; for an unknown one, a note with similar names."""

    subsystem_key: str
    files: tuple[str, ...]
    notes: tuple[str, ...] = ()


def list_subsystems(scope: ContextScope, prefix: str = "", limit: int = 50) -> tuple[list[Subsystem], int]:
    """Return the subsystems with a prefix, largest first, and their total number."""
    memories, records = _count_by_subsystem(scope, prefix)
    keys = sorted(memories.keys() | records.keys(), key=lambda key: (-memories[key] - records[key], key))
    shown = [Subsystem(key, memories[key], records[key], len(_list_files(scope, key))) for key in keys[:limit]]
    return shown, len(keys)


def find_subsystem_files(scope: ContextScope, key: str) -> SubsystemFiles:
    """Return the files of a subsystem, those named by memories first."""
    memories, records = _count_by_subsystem(scope, "")
    if key in memories or key in records:
        return SubsystemFiles(key, tuple(_list_files(scope, key)))
    near = get_close_matches(key, memories.keys() | records.keys(), n=3, cutoff=0.5)
    hint = f"similar: {', '.join(near)}" if near else "context.list_subsystems lists all"
    return SubsystemFiles(key, (), (f"there is no subsystem {key!r}; {hint}",))


def subsystems_of(record: Record) -> list[str]:
    """Return the subsystems of a record."""
    refs = record.fields.get("entity_refs")
    entities = [ref for ref in refs if isinstance(ref, dict)] if isinstance(refs, list) else []
    return [
        str(entity["name"])
        for entity in entities
        if entity.get("entity_type") == SUBSYSTEM_ENTITY and entity.get("name")
    ]


def _count_by_subsystem(scope: ContextScope, prefix: str) -> tuple[Counter[str], Counter[str]]:
    tags = scope.store.tags(SUBSYSTEM_TAG + prefix, scope.filters)
    memories = Counter({tag[len(SUBSYSTEM_TAG) :]: count for tag, count in tags.items() if tag != SUBSYSTEM_TAG})
    records: Counter[str] = Counter()
    if scope.record_scope.records.exists():
        tables = scope.record_scope.records.tables()
        for project in [None] if scope.projects is None else scope.projects:
            for name, count in tables.entity_counts(SUBSYSTEM_ENTITY, project, _MAX_ENTITIES).items():
                if name.startswith(prefix):
                    records[name] += count
    return memories, records


def _list_files(scope: ContextScope, key: str) -> list[str]:
    tags = scope.store.tags(FILE_TAG, replace(scope.filters, tags=(SUBSYSTEM_TAG + key,)))
    files = dict.fromkeys(tag[len(FILE_TAG) :] for tag in tags if tag != FILE_TAG)
    if scope.record_scope.records.exists():
        query = RecordQuery(entity=key, projects=scope.projects, limit=_MAX_RECORDS)
        for record in scope.record_scope.records.tables().find(query):
            if key not in subsystems_of(record):
                continue
            provenance = record.fields.get("provenance")
            path = provenance.get("path") if isinstance(provenance, dict) else None
            if isinstance(path, str) and path:
                files[path] = None
            for text in record.texts("outputs"):  # an output may be a sentence instead of a file
                if text and not any(map(str.isspace, text)) and ("/" in text or "." in text[1:-1]):
                    files[text] = None
    return list(files)
