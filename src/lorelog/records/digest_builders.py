"""Build libraries, project briefs and task resumes from the record tables.

A library is a list of items from many tasks that are all failures, decisions, evidence or highlights. Which record
belongs in which library follows the rules of memd, another program that keeps memories. The rules are pure functions
that do not depend on the order of the records. They take records in force and `revised`, which maps the id of a
revision to the kind of the first record in its chain of revisions. Trust is looked up only for the items that are
shown. Little more is read than is shown, so a ledger of many years is briefed as fast as a new one.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.record import UNPAGED_KINDS, Record, Trust
from lorelog.records.digests import (
    DIGEST_TITLES,
    Digest,
    DigestItem,
    DigestLine,
    DigestRole,
    TrustLookup,
    attach_trust,
    content_words,
    format_record_text,
    make_digest,
    one_line,
    rank_items,
)
from lorelog.records.tables import (
    RecordContentFilter,
    RecordQuery,
    RecordTables,
    RelatedProject,
    Task,
    ToolRun,
)

IMPLICIT_DECISION_KINDS = frozenset({"task_finish", "review"})
"""Kinds that settle something without being recorded as a decision. A verification adds to the trust of another."""
_REPLY_KINDS = IMPLICIT_DECISION_KINDS | {"verification"}
MAX_CONFIDENCE = 0.95
_MAX_PER_TASK, _MAX_PER_PROJECT = 2, 4
_BASE_CONFIDENCE = {"decision": 0.6, "warning": 0.55, "tactic": 0.5}
_DECISION_TEXT_FIELDS = ("summary", "requested_action", "motivation", "method_summary")

RevisedKinds = Mapping[str, str]
"""By the id of a revision: the kind of the first record in its chain of revisions."""


def newest_first(records: Iterable[Record]) -> list[Record]:
    """Return records without digests and duplicates, the newest first."""
    unique = {record.id: record for record in sorted(records, key=attrgetter("seq"), reverse=True)}
    return [record for record in unique.values() if record.kind not in UNPAGED_KINDS]


def failure_items(records: Iterable[Record], revised: RevisedKinds) -> list[DigestItem]:
    """Return failures and blockers."""
    texts = (
        (record, _join_texts((*record.texts("what_failed"), *record.texts("blockers"))))
        for record in newest_first(records)
    )
    return [DigestItem(record, text) for record, text in texts if text]


def decision_items(records: Iterable[Record], revised: RevisedKinds) -> list[DigestItem]:
    """Return recorded decisions, then what other records settle. Objections settle nothing."""
    explicit, implicit = list[DigestItem](), list[DigestItem]()
    for record in newest_first(records):
        kind = revised.get(record.id, record.kind)
        if kind == "decision":
            texts = (record.text(name).strip() for name in _DECISION_TEXT_FIELDS)
            if text := next(filter(None, texts), "") or _outcome_text(record):
                explicit.append(DigestItem(record, text, explicit=True))
        elif kind in IMPLICIT_DECISION_KINDS and record.supports_claim is not False and (text := _summary_text(record)):
            implicit.append(DigestItem(record, text, explicit=False))
    return [*explicit, *implicit]


def evidence_items(records: Iterable[Record], revised: RevisedKinds) -> list[DigestItem]:
    """Return evidence for or against something, including validations."""
    items = list[DigestItem]()
    for record in newest_first(records):
        if revised.get(record.id, record.kind) == "evidence":
            parts = (record.text("evidence_kind").strip(), record.text("summary").strip())
            text = ": ".join(filter(None, parts)) + _format_metric(record)
        else:
            text = _join_texts(record.texts("validation"))
        if text:
            items.append(DigestItem(record, text))
    return items


def highlight_items(records: Iterable[Record], revised: RevisedKinds) -> list[DigestItem]:
    """Return lessons by confidence: decisions, failures, and tactics that worked more than once.

    Texts with the same words are one lesson, represented by its newest record and supported by the others.
    """
    lessons: dict[tuple[str, frozenset[str]], list[tuple[Record, str]]] = defaultdict(list)
    for record in newest_first(records):
        for category, text in _iter_lessons(record, revised):
            words = content_words(text)
            if words and all(other.id != record.id for other, _ in lessons[category, words]):
                lessons[category, words].append((record, text))
    items = [
        _lesson_item(category, sources)
        for (category, _), sources in lessons.items()
        if category != "tactic" or len(sources) > 1
    ]
    return _limit_per_task(sort_by_confidence(items))


def update_confidence(items: Sequence[DigestItem]) -> list[DigestItem]:
    """Return highlights with their confidence recomputed from their trust."""
    return sort_by_confidence([replace(item, confidence=_confidence(item)) for item in items])


def sort_by_confidence(items: Iterable[DigestItem]) -> list[DigestItem]:
    """Return highlights by confidence; among equals the newest first."""
    return sorted(items, key=lambda item: (-(item.confidence or 0), -item.record.seq, item.category, item.text))


def _iter_lessons(record: Record, revised: RevisedKinds) -> Iterable[tuple[str, str]]:
    if revised.get(record.id, record.kind) == "decision" and record.text("summary").strip():
        yield "decision", record.text("summary").strip()
    for name, category in (("what_failed", "warning"), ("what_worked", "tactic")):
        for text in record.texts(name):
            if text.strip():
                yield category, text.strip()


def _lesson_item(category: str, sources: Sequence[tuple[Record, str]]) -> DigestItem:
    (record, text), *others = sources
    item = DigestItem(record, text, category=category, support=tuple(other.id for other, _ in others))
    return replace(item, confidence=_confidence(item))


def _confidence(item: DigestItem) -> float:
    is_confirmed = bool(item.trust.verified_by) or item.trust.tier == "verified_record"
    value = _BASE_CONFIDENCE[item.category] + 0.1 * len(item.support) + 0.2 * is_confirmed - 0.2 * item.trust.tainted
    return round(min(value, MAX_CONFIDENCE), 2)


def _limit_per_task(items: Iterable[DigestItem]) -> list[DigestItem]:
    """Limit the items per task and project, so that one task does not dominate."""
    tasks, projects = Counter[str](), Counter[str]()
    kept = list[DigestItem]()
    for item in items:
        task, project = item.record.task, item.record.project
        if tasks[task] < _MAX_PER_TASK and projects[project] < _MAX_PER_PROJECT:
            tasks[task] += 1
            projects[project] += 1
            kept.append(item)
    return kept


def _summary_text(record: Record) -> str:
    return record.text("summary").strip() or _outcome_text(record)


def _outcome_text(record: Record) -> str:
    return _join_texts((*record.texts("what_worked"), *record.texts("validation")))


def _join_texts(texts: Iterable[str]) -> str:
    return "; ".join(filter(None, map(str.strip, texts)))


def _format_metric(record: Record) -> str:
    value = record.fields.get("metric_value")
    if not isinstance(value, int | float) or not record.text("metric_name"):
        return ""
    return f" ({record.text('metric_name').strip()} = {value})"


ITEM_BUILDERS: Mapping[DigestRole, Callable[[Iterable[Record], RevisedKinds], list[DigestItem]]] = {
    DigestRole.FAILURES: failure_items,
    DigestRole.DECISIONS: decision_items,
    DigestRole.EVIDENCE: evidence_items,
    DigestRole.HIGHLIGHTS: highlight_items,
}
"""The item builder of each library."""


MAX_TASKS = 5
MAX_ITEMS = 10
MAX_RELATED = 5
SUCCESS_STATUSES = ("completed", "success")
_MAX_WORD_MATCHES = 150
"""Records with words of a query that are ranked."""
_MAX_QUERY_WORDS = 20
_MAX_LESSON_RECORDS = 1000
_MAX_CHAIN_LENGTH = 50
_MAX_NAMES = 5
_RELATED_SECTION = "Related projects"


_LIBRARY_SOURCES: Mapping[DigestRole, tuple[RecordContentFilter, ...]] = {
    DigestRole.FAILURES: (RecordContentFilter(("what_failed", "blockers")),),
    # Separate, so that many reviews do not crowd out the decisions.
    DigestRole.DECISIONS: (
        RecordContentFilter(kinds=("decision", "revision")),
        RecordContentFilter(kinds=sorted(IMPLICIT_DECISION_KINDS)),
    ),
    DigestRole.EVIDENCE: (RecordContentFilter(("validation",), ("evidence", "revision")),),
    DigestRole.HIGHLIGHTS: (RecordContentFilter(("what_failed", "what_worked"), ("decision", "revision")),),
}
"""The records from which each library is made."""


class DigestScope(Struct, frozen=True):
    """The projects whose records a digest covers."""

    projects: tuple[str, ...] | None
    """The current project first; None for all projects of the tenant."""
    name: str
    """The project's display name."""

    @property
    def scope(self) -> str:
        """The scope in the digest's id."""
        return "tenant" if self.projects is None else f"project:{self.projects[0]}"


class RecordLibrary(Struct, frozen=True):
    """The items of one role, and their digest."""

    digest: Digest
    items: tuple[DigestItem, ...]


class TaskDigestLine(Struct, frozen=True):
    """A task summarised in one sentence."""

    task: Task
    line: DigestLine


class ProjectBrief(Struct, frozen=True, kw_only=True):
    """A summary of a project's tasks and decisions for a newcomer."""

    digest: Digest
    overview: str
    active: tuple[TaskDigestLine, ...]
    completed: tuple[TaskDigestLine, ...]
    failures: tuple[DigestItem, ...]
    decisions: tuple[DigestItem, ...]
    evidence: tuple[DigestItem, ...]
    related: tuple[RelatedProject, ...]


def revised_kinds(tables: RecordTables, records: Iterable[Record]) -> RevisedKinds:
    """Return the kind that each revision stands for: that of the first record in its chain of revisions."""
    current = {record.id: record for record in records if record.kind == "revision"}
    for _ in range(_MAX_CHAIN_LENGTH):
        ids = {record.supersedes or record.reply_to for record in current.values() if record.kind == "revision"} - {""}
        earlier = {record.id: record for record in tables.by_ids(ids)}
        moved = {
            start: earlier.get(record.supersedes or record.reply_to, record) if record.kind == "revision" else record
            for start, record in current.items()
        }
        if moved == current:
            break
        current = moved
    return {start: record.kind for start, record in current.items()}


def build_library(
    tables: RecordTables,
    trust_of: TrustLookup,
    scope: DigestScope,
    role: DigestRole,
    *,
    query: str = "",
    limit: int = MAX_ITEMS,
) -> RecordLibrary:
    """Return the library of failures, decisions, evidence or highlights."""
    records = _candidate_records(tables, scope, role, query=query, limit=limit)
    if role is DigestRole.DECISIONS:
        records = without_outdated_replies(tables, records)
    items = ITEM_BUILDERS[role](records, revised_kinds(tables, records))
    if role is DigestRole.HIGHLIGHTS:
        items = rank_items(update_confidence(attach_trust(items, trust_of)), query, limit)
    else:
        items = attach_trust(rank_items(items, query, limit), trust_of)
    title = f"{DIGEST_TITLES[role]}: {one_line(scope.name, 200)}"
    return RecordLibrary(make_digest(role, scope.scope, title, [item_line(role, item) for item in items]), tuple(items))


def build_brief(
    tables: RecordTables,
    trust_of: TrustLookup,
    scope: DigestScope,
    *,
    query: str = "",
    limit: int = MAX_ITEMS,
    related: bool = True,
) -> ProjectBrief:
    """Return a project's brief: tasks, failures, decisions, evidence and related projects."""
    open_tasks, open_count = tables.find_tasks(scope.projects, open_=True, limit=MAX_TASKS)
    done_tasks, _ = tables.find_tasks(scope.projects, open_=False, statuses=SUCCESS_STATUSES, limit=MAX_TASKS)
    active = _task_lines(tables, trust_of, open_tasks, "Active tasks")
    completed = _task_lines(tables, trust_of, done_tasks, "Recently completed")
    libraries = {
        role: build_library(tables, trust_of, scope, role, query=query, limit=min(limit, MAX_ITEMS))
        for role in (DigestRole.FAILURES, DigestRole.DECISIONS, DigestRole.EVIDENCE)
    }
    near = tables.related_projects(scope.projects, MAX_RELATED) if related and scope.projects else []
    lines = [
        *(entry.line for entry in (*active, *completed)),
        *(line for library in libraries.values() for line in library.digest.lines),
        *_related_lines(near, trust_of),
    ]
    counts = (open_count, len(completed), *(len(library.items) for library in libraries.values()))
    overview = _format_overview(scope.name, counts)
    cited = tuple(dict.fromkeys(identity for line in lines for identity in line.cites))
    first = DigestLine(overview, cited, "Overview", any(line.tainted for line in lines))
    title = f"{DIGEST_TITLES[DigestRole.BRIEF]}: {one_line(scope.name, 200)}"
    return ProjectBrief(
        digest=make_digest(DigestRole.BRIEF, scope.scope, title, [first, *lines]),
        overview=overview,
        active=active,
        completed=completed,
        failures=libraries[DigestRole.FAILURES].items,
        decisions=libraries[DigestRole.DECISIONS].items,
        evidence=libraries[DigestRole.EVIDENCE].items,
        related=tuple(near),
    )


def item_line(role: DigestRole, item: DigestItem) -> DigestLine:
    """Return an item as a digest line."""
    return DigestLine(_format_item(role, item), item.cites, DIGEST_TITLES[role], item.trust.tainted)


def format_author(record: Record) -> str:
    """Return a record's writer and day."""
    return f"{one_line(record.agent, 60) or 'nobody'}, {record.at[:10]}"


def _format_item(role: DigestRole, item: DigestItem) -> str:
    text, author = item.text, format_author(item.record)
    if role is DigestRole.FAILURES:
        return f"Failed or blocked ({author}): {text}"
    if role is DigestRole.DECISIONS:
        implicit = "Settled" if item.record.kind == "task_finish" else "Checked"
        return f"{'Decided' if item.explicit else implicit} ({author}): {text}"
    if role is DigestRole.EVIDENCE:
        side = {True: "Evidence for", False: "Evidence against", None: "Evidence"}[item.record.supports_claim]
        return f"{side} ({author}): {text}"
    count = len(item.support) + 1
    sources = f"{count} records, " if count > 1 else ""
    return f"{item.category.capitalize()} ({sources}confidence {item.confidence:.2f}; {author}): {text}"


def _candidate_records(
    tables: RecordTables, scope: DigestScope, role: DigestRole, *, query: str, limit: int
) -> list[Record]:
    """Return the newest records that a library may use, and those that share a word with the query."""
    newest = _MAX_LESSON_RECORDS if role is DigestRole.HIGHLIGHTS else 4 * limit + 20
    words = sorted(content_words(query), key=lambda word: (-len(word), word))[:_MAX_QUERY_WORDS]
    records = list[Record]()
    for content in _LIBRARY_SOURCES[role]:
        in_force = RecordQuery(projects=scope.projects, limit=newest, in_force=True)
        records += tables.find_by_content(content, in_force)
        if words:
            records += tables.find_by_content(replace(content, words=words), replace(in_force, limit=_MAX_WORD_MATCHES))
    return records


def _task_lines(
    tables: RecordTables, trust_of: TrustLookup, tasks: Sequence[Task], section: str
) -> tuple[TaskDigestLine, ...]:
    starts = current_versions(tables, [task.started_by or task.last for task in tasks])
    lasts = {task.id: latest_with_field(tables, task.id, "summary", _STATUS_KINDS) for task in tasks}
    trusts = trust_of([record.id for record in (*starts.values(), *lasts.values()) if record is not None])

    def format_field(record: Record, name: str) -> str:
        return format_record_text(record.text(name), record, trusts[record.id])

    lines = list[TaskDigestLine]()
    for task in tasks:
        start, last = starts.get(task.started_by or task.last), lasts[task.id]
        cited = [record for record in (start, last) if record is not None and record.id in trusts]
        if cited:
            text = _format_task(task, start, last, format_field)
            tainted = any(trusts[record.id].tainted for record in cited)
            cites = tuple(dict.fromkeys(record.id for record in cited))
            lines.append(TaskDigestLine(task, DigestLine(text, cites, section, tainted)))
    return tuple(lines)


def _format_task(
    task: Task, start: Record | None, last: Record | None, format_field: Callable[[Record, str], str]
) -> str:
    goal = format_field(start, "goal") if start is not None and start.text("goal") else ""
    when = f"since {task.started_at[:10]}" if not task.finished_at else f"ended {task.finished_at[:10]}"
    agent = one_line(task.agent, 60) or "nobody"
    text = f"{goal or 'a task without a goal'} ({one_line(task.status, 40)}, {agent}, {when})"
    if last is not None and last.text("summary"):
        text += f"; last: {format_field(last, 'summary')}"
    if last is not None and not task.finished_at and last.text("next_step"):
        text += f"; next: {format_field(last, 'next_step')}"
    return text


def without_outdated_replies(tables: RecordTables, records: Sequence[Record]) -> list[Record]:
    """Return records without reviews, verifications and task ends that reply to a superseded record."""
    newer = tables.superseded_by(
        record.reply_to for record in records if record.kind in _REPLY_KINDS and record.reply_to
    )
    return [record for record in records if record.kind not in _REPLY_KINDS or record.reply_to not in newer]


def current_versions(tables: RecordTables, ids: Sequence[str]) -> dict[str, Record]:
    """Return records, or the records that superseded them last, by the given ids."""
    current = {identity: identity for identity in ids if identity}
    for _ in range(_MAX_CHAIN_LENGTH):
        newer = tables.superseded_by(current.values())
        if not newer:
            break
        current = {start: newer.get(identity, identity) for start, identity in current.items()}
    else:
        current = {start: identity for start, identity in current.items() if identity not in newer}
    records = {record.id: record for record in tables.by_ids(current.values())}
    return {start: records[identity] for start, identity in current.items() if identity in records}


def latest_with_field(tables: RecordTables, task: str, name: str, kinds: Sequence[str] = ()) -> Record | None:
    """Return the newest record in force of a task that has a field."""
    query = RecordQuery(kinds=kinds, task=task, in_force=True, limit=5)
    records = tables.find_by_content(RecordContentFilter((name,)), query)
    return next((record for record in records if record.text(name).strip()), None)


def _related_lines(related: Sequence[RelatedProject], trust_of: TrustLookup) -> Iterable[DigestLine]:
    trusts = trust_of([project.record for project in related])
    for project in related:
        names = ", ".join(json.dumps(one_line(name, 60), ensure_ascii=False) for name in project.names[:_MAX_NAMES])
        more = f" and {len(project.names) - _MAX_NAMES} more" if len(project.names) > _MAX_NAMES else ""
        tainted = project.record in trusts and trusts[project.record].tainted
        text = f"{one_line(project.project, 200)} names the same subjects: {names}{more}"
        yield DigestLine(text, (project.record,), _RELATED_SECTION, tainted)


def _format_overview(name: str, counts: Sequence[int]) -> str:
    words = ("active task", "recent completed task", "recent failure", "decision", "evidence highlight")
    parts = [f"{count} {word}{'' if count == 1 else 's'}" for count, word in zip(counts, words, strict=True)]
    return f"Project {one_line(name, 200)} has {', '.join(parts[:-1])}, and {parts[-1]}."


MAX_RUNS = 5
_LIST_FIELDS = ("blockers", "what_worked", "what_failed", "validation", "followups")
_SECTION_TITLES = {
    "blockers": "Blockers",
    "what_worked": "What worked",
    "what_failed": "What failed",
    "validation": "Validation",
    "followups": "Remaining work",
}
_MAX_FACT_RECORDS = 300
_MAX_RUNS_READ = 50
_STATUS_KINDS = ("task_progress", "task_finish", "revision")


class TaskFact(Struct, frozen=True):
    """One entry of a list field in the records of a task."""

    name: str
    text: str
    record: Record


class ResumeEntry(Struct, frozen=True):
    """A text of a resume, formatted by trust, and its digest line."""

    text: str
    line: DigestLine


class ResumeRun(Struct, frozen=True):
    """A tool run in a resume."""

    run: ToolRun
    text: str
    line: DigestLine


class TaskResume(Struct, frozen=True, kw_only=True):
    """The state of a task, for someone who continues it."""

    digest: Digest
    task: Task
    goal: ResumeEntry | None
    latest: ResumeEntry | None
    """The latest status summary."""
    next_step: ResumeEntry | None
    """The next step; None for a finished task."""
    lists: dict[str, tuple[ResumeEntry, ...]]
    """Blockers, what worked, …: unique entries, newest first."""
    open_runs: tuple[ResumeRun, ...]
    recent_runs: tuple[ResumeRun, ...]
    decisions: tuple[DigestItem, ...]


def build_resume(
    tables: RecordTables, trust_of: TrustLookup, task: Task, *, query: str = "", limit: int = 10
) -> TaskResume:
    """Return the state of a task."""
    facts = _collect_facts(tables, task, query, limit)
    trusts = trust_of(sorted(facts.ids()))
    start, last, step = facts.start, facts.last, facts.step
    last_label, next_label = (f"({format_author(record)})" if record else "" for record in (last, step))
    goal = _field_entry(start, "goal", trusts, section="Goal", label=f"Task ({one_line(task.status, 40)})")
    latest = _field_entry(last, "summary", trusts, section="Latest status", label=f"Last {last_label}")
    next_step = _field_entry(step, "next_step", trusts, section="Next step", label=f"Next {next_label}")
    lists = {
        name: tuple(
            _make_entry(
                fact.text, fact.record, trusts, section=_SECTION_TITLES[name], label=f"({format_author(fact.record)}) "
            )
            for fact in facts.entries
            if fact.name == name
        )
        for name in _LIST_FIELDS
    }
    runs = [_make_run(run, record, trusts) for run, record in facts.runs]
    decisions = tuple(attach_trust(facts.decisions, lambda _: trusts))
    lines = [
        *(entry.line for entry in (goal, latest, next_step) if entry is not None),
        *(entry.line for entries in lists.values() for entry in entries),
        *(run.line for run in runs[:MAX_RUNS]),
        *(item_line(DigestRole.DECISIONS, item) for item in decisions),
    ]
    title = f"{DIGEST_TITLES[DigestRole.RESUME]}: {goal.text if goal else one_line(task.id, 80)}"
    return TaskResume(
        digest=make_digest(DigestRole.RESUME, f"task:{task.id}", title, lines),
        task=task,
        goal=goal,
        latest=latest,
        next_step=next_step,
        lists=lists,
        open_runs=tuple(run for run in runs if not run.run.finish)[:MAX_RUNS],
        recent_runs=tuple(runs[:MAX_RUNS]),
        decisions=decisions,
    )


class _ResumeFacts(Struct, frozen=True, kw_only=True):
    """The records of a resume, before their trust is looked up."""

    start: Record | None
    last: Record | None
    step: Record | None
    entries: Sequence[TaskFact]
    runs: Sequence[tuple[ToolRun, Record]]
    decisions: Sequence[DigestItem]

    def ids(self) -> set[str]:
        listed = [*(entry.record for entry in self.entries), *(decision.record for decision in self.decisions)]
        records = (self.start, self.last, self.step, *listed)
        return {record.id for record in records if record is not None} | set(
            _run_record_ids([run for run, _ in self.runs])
        )


def _collect_facts(tables: RecordTables, task: Task, query: str, limit: int) -> _ResumeFacts:
    kinds = ("decision", "revision", *sorted(IMPLICIT_DECISION_KINDS))
    settled = without_outdated_replies(tables, tables.find(RecordQuery(kinds=kinds, task=task.id, in_force=True)))
    return _ResumeFacts(
        start=current_versions(tables, [task.started_by]).get(task.started_by),
        last=latest_with_field(tables, task.id, "summary", _STATUS_KINDS)
        or latest_with_field(tables, task.id, "summary"),
        step=None if task.finished_at else latest_with_field(tables, task.id, "next_step"),
        entries=_task_facts(tables, task.id, query, limit),
        runs=_current_runs(tables, task.id),
        decisions=rank_items(decision_items(settled, revised_kinds(tables, settled)), query, limit),
    )


def _field_entry(
    record: Record | None, name: str, trusts: Mapping[str, Trust], *, section: str, label: str
) -> ResumeEntry | None:
    text = record.text(name).strip() if record is not None else ""
    if not text or record is None:
        return None
    return _make_entry(text, record, trusts, section=section, label=f"{label}: ")


def _make_entry(text: str, record: Record, trusts: Mapping[str, Trust], *, section: str, label: str) -> ResumeEntry:
    trust = trusts[record.id]
    shown = format_record_text(text, record, trust)
    return ResumeEntry(shown, DigestLine(label + shown, (record.id,), section, trust.tainted))


def _task_facts(tables: RecordTables, task: str, query: str, limit: int) -> list[TaskFact]:
    """Return the list entries of a task's records without duplicates: the newest, or the best matches of a query."""
    records = tables.find_by_content(
        RecordContentFilter(_LIST_FIELDS), RecordQuery(task=task, in_force=True, limit=_MAX_FACT_RECORDS)
    )
    words = content_words(query)
    facts = list[TaskFact]()
    for name in _LIST_FIELDS:
        unique: dict[str, TaskFact] = {}
        for record in records:
            for text in filter(None, map(str.strip, record.texts(name))):
                unique.setdefault(" ".join(text.casefold().split()), TaskFact(name, text, record))
        entries = list(unique.values())
        if words:
            entries.sort(key=lambda fact: -len(words & content_words(fact.text)))
        facts += entries[:limit]
    return facts


def _current_runs(tables: RecordTables, task: str) -> list[tuple[ToolRun, Record]]:
    """Return the last runs of a task that are not superseded, each with its newest record."""
    runs = tables.runs(task, _MAX_RUNS_READ)
    superseded = tables.superseded_by(_run_record_ids(runs))
    runs = [run for run in runs if run.id not in superseded and run.finish not in superseded]
    records = {record.id: record for record in tables.by_ids(_run_record_ids(runs))}
    return [(run, records[run.finish or run.id]) for run in runs if (run.finish or run.id) in records]


def _run_record_ids(runs: Sequence[ToolRun]) -> Iterable[str]:
    return (identity for run in runs for identity in (run.id, run.finish) if identity)


def _make_run(run: ToolRun, record: Record, trusts: Mapping[str, Trust]) -> ResumeRun:
    cites = tuple(dict.fromkeys(_run_record_ids([run])))
    trust = next((trusts[cite] for cite in cites if trusts[cite].tainted), trusts[record.id])
    command = format_record_text(run.command or run.tool, record, trust) or "a tool"
    text = format_record_text(run.summary, record, trust)
    state = one_line(run.status, 40) if run.finish else "still open"
    line = f"Run ({format_author(record)}; {state}): {command}" + (f": {text}" if text else "")
    return ResumeRun(run, text, DigestLine(line, cites, "Runs", trust.tainted))
